"""Ask an LDAP directory who may come in: a simple bind with the user's password (RFC 4513, 5.1.3), then its groups.

The name of the user's entry comes from a template, or from a search as a service account. An empty password is never
sent: a directory would take it for an unauthenticated bind, and say yes to it (RFC 4513, 5.1.2). Directories ignore
case and blanks in names; here a user has one name, spelled as in its entry, for limits and rights are kept by name.

ldap3 blocks, so each question runs in a thread. Connections are kept; each question begins with a bind of its own.
"""

import asyncio
import math
import ssl
import threading
from collections.abc import Mapping, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, final

import ldap3
from ldap3.core.exceptions import LDAPException
from ldap3.utils.dn import escape_rdn

from sluicegate.actors.runtime.clock import Clock
from sluicegate.protocols.security.backends import distinguished_names, ldap_filters
from sluicegate.protocols.security.backends.guarded_backend import Admission, BackendFailed, Login, LoginFailed

GROUPS_MAX: Final = 1_000  # of one user
USER_NAME_BYTES_MAX: Final = 1_024  # directories close a connection with a request that is too long
PASSWORD_BYTES_MAX: Final = 65_535
IDLE_MS_MAX: Final = (
    60_000  # of a connection; firewalls forget older ones, and the first request would wait for nothing
)
SUCCESS, SIZE_LIMIT_EXCEEDED, NO_SUCH_OBJECT = 0, 4, 32  # RFC 4511, appendix A
# The results of a bind that do not concern its user alone: operationsError, protocolError, timeLimitExceeded,
# authMethodNotSupported, strongerAuthRequired, referral, confidentialityRequired, busy, unavailable, other. All others
# are a no: directories have many of them for accounts that are locked, disabled or expired.
FAULTS: Final = frozenset((1, 2, 3, 7, 8, 10, 13, 51, 52, 80))


@dataclass(frozen=True, slots=True)
class GroupProfiles:
    """The profiles of a group's members."""

    group: str  # its name (DN); empty: every user
    admission: Admission


@dataclass(frozen=True, slots=True)
class Directory:
    """A directory, and where in it users and groups are."""

    url: str
    start_tls: bool
    ca_file: Path | None
    user_dn: str  # a name (DN) with {username}; empty: the entry is searched for
    bind_dn: str  # the service account; empty: searches are made as the user, or anonymously
    bind_password: str
    user_base: str
    user_filter: str  # with {username}
    group_base: str  # empty: groups are not searched for
    group_filter: str  # with {dn} or {username}
    groups: tuple[GroupProfiles, ...]  # the first that fits holds; empty: all users are let in


@dataclass(frozen=True, slots=True)
class _Entry:
    dn: str
    names: set[str]  # the values of the attributes that were asked for


class _TooMany(Exception):
    """A search found more entries than the directory lists."""


class _CheckedTls(ldap3.Tls):
    """TLS as the standard library has it by default: 1.2 or later, with the name or address in the certificate checked.

    ldap3's own check of the name uses a function that later releases of Python do not have.
    """

    def __init__(self, ca_file: Path | None) -> None:
        super().__init__(validate=ssl.CERT_REQUIRED)
        self._context = ssl.create_default_context(cafile=ca_file)

    def wrap_socket(self, connection: ldap3.Connection, do_handshake: bool = False) -> None:
        """Encrypt the connection, as ldap3 asks for it. Raises OSError."""
        connection.socket = self._context.wrap_socket(
            connection.socket, do_handshake_on_connect=do_handshake, server_hostname=connection.server.host
        )


@final
class LdapBackend:
    """One directory that answers. As many connections as threads are kept."""

    def __init__(self, directory: Directory, *, timeout_ms: int, concurrent_max: int, clock: Clock) -> None:
        self._directory = directory
        self._timeout_s = timeout_ms / 1000
        self._clock = clock
        self._lock = threading.Lock()
        self._idle: list[tuple[ldap3.Connection, int]] = []  # with the time since when; the newest last
        self._threads = ThreadPoolExecutor(concurrent_max, thread_name_prefix="ldap")
        self._is_closed = False

    async def ask(self, login: Login) -> Admission | None:
        """Return what a client is granted, None for a no. Raises BackendFailed."""
        if self._is_closed:
            raise BackendFailed("it is asked no more")
        if not 0 < len(login.password) <= PASSWORD_BYTES_MAX or "\0" in login.user_name:
            return None
        if login.user_name != login.user_name.strip() or len(login.user_name.encode()) > USER_NAME_BYTES_MAX:
            return None
        try:
            login.password.decode()
        except UnicodeDecodeError:  # RFC 4513, 5.1.3: passwords that are text are UTF-8
            return None
        return await asyncio.get_running_loop().run_in_executor(
            self._threads, self._answer, login.user_name, login.password
        )

    async def close(self) -> None:
        """Close its connections; it is asked no more. Questions under way end by their deadlines."""
        self._is_closed = True
        self._threads.shutdown(wait=False)
        self._close_idle()

    def _close_idle(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
        for connection, _ in idle:
            _give_up(connection)

    # --- in a thread ---

    def _answer(self, user_name: str, password: bytes) -> Admission | None:
        while True:
            idle = self._take_idle()
            connection = self._open() if idle is None else idle
            try:
                answer = self._decide(connection, user_name, password)
            except LoginFailed:
                self._keep(connection)
                raise
            except BackendFailed:
                _give_up(connection)
                raise
            except Exception as error:  # the library's own, and what odd answers make of it
                _give_up(connection)
                if idle is not None:  # the directory may have closed it meanwhile, and the others too
                    self._close_idle()
                    continue
                raise BackendFailed(f"{type(error).__name__}: {error}") from None
            self._keep(connection)
            return answer

    def _take_idle(self) -> ldap3.Connection | None:
        """Return the connection that is idle for the shortest time, None if there is none. Close those that are old."""
        since_ms = self._clock.now_ms() - IDLE_MS_MAX
        with self._lock:
            old = [connection for connection, idle_ms in self._idle if idle_ms <= since_ms]
            self._idle = self._idle[len(old) :]
            connection = self._idle.pop()[0] if self._idle else None
        for each in old:
            _give_up(each)
        return connection

    def _keep(self, connection: ldap3.Connection) -> None:
        with self._lock:
            is_kept = not self._is_closed
            if is_kept:
                self._idle.append((connection, self._clock.now_ms()))
        if not is_kept:
            _give_up(connection)

    def _open(self) -> ldap3.Connection:
        directory = self._directory
        try:
            tls = _CheckedTls(directory.ca_file)
        except OSError as error:  # the file is gone
            raise BackendFailed(f"ca_file {str(directory.ca_file)!r}: {error}") from None
        connection: ldap3.Connection | None = None
        try:
            server = ldap3.Server(
                directory.url.rstrip("/"), tls=tls, connect_timeout=self._timeout_s, get_info=ldap3.NONE
            )
            connection = ldap3.Connection(
                server,
                authentication=ldap3.ANONYMOUS,
                receive_timeout=math.ceil(self._timeout_s),  # whole seconds; the gateway itself waits as long as is set
                auto_referrals=False,
                check_names=False,
            )
            connection.open()
            if directory.start_tls and not connection.start_tls():
                raise BackendFailed("it refuses StartTLS")
        except Exception as error:  # likewise
            if connection is not None:
                _give_up(connection)
            if isinstance(error, BackendFailed):
                raise
            raise BackendFailed(f"{type(error).__name__}: {error}") from None
        return connection

    def _decide(self, connection: ldap3.Connection, user_name: str, password: bytes) -> Admission | None:
        directory = self._directory
        names: set[str] = set()
        if directory.user_dn:
            dn = directory.user_dn.replace(ldap_filters.USER, escape_rdn(user_name))
        else:
            entry = self._find_user(connection, user_name)
            if entry is None:
                return None
            dn, names = entry.dn, entry.names
        if not _binds(connection, dn, password):
            return None
        if directory.bind_dn and (directory.user_dn or directory.group_base):
            self._bind_service(connection)
        if directory.user_dn:
            is_named_so = self._is_spelled_as(connection, dn)
        else:
            is_named_so = bool(names & ldap_filters.names(directory.user_filter, user_name))
        if not is_named_so:
            return None
        return _admission(directory.groups, self._groups_of(connection, dn, user_name))

    def _find_user(self, connection: ldap3.Connection, user_name: str) -> _Entry | None:
        directory = self._directory
        self._bind_service(connection)
        wanted = ldap_filters.filled(directory.user_filter, user_name)
        attributes = ldap_filters.naming_attributes(directory.user_filter)
        try:
            found = self._search(connection, directory.user_base, wanted, attributes=attributes, entries_max=2)
        except _TooMany:
            return None  # it is not clear who is meant
        return found[0] if len(found) == 1 else None

    def _is_spelled_as(self, connection: ldap3.Connection, dn: str) -> bool:
        """Return whether the name of an entry has the user's name in the same spelling. Raises LoginFailed."""
        found = self._search(connection, dn, "(objectClass=*)", scope="BASE")
        if not found:
            raise LoginFailed(f"it does not show the entry {dn!r}, so it is not known how the user's name is spelled")
        template = distinguished_names.values(self._directory.user_dn)
        asked, is_named = distinguished_names.values(dn), distinguished_names.values(found[0].dn)
        places = [place for place, value in enumerate(template) if ldap_filters.USER in value]
        return len(asked) == len(is_named) and all(asked[place] == is_named[place] for place in places)

    def _groups_of(self, connection: ldap3.Connection, dn: str, user_name: str) -> set[distinguished_names.Canonical]:
        directory = self._directory
        if not directory.group_base:
            return set()
        wanted = ldap_filters.filled(directory.group_filter, user_name, dn)
        try:
            found = self._search(connection, directory.group_base, wanted, entries_max=GROUPS_MAX)
        except _TooMany:
            raise LoginFailed(f"it does not list all groups of {dn!r}: there are too many") from None
        return {distinguished_names.canonical(each.dn) for each in found}

    def _bind_service(self, connection: ldap3.Connection) -> None:
        directory = self._directory
        if not directory.bind_dn:
            connection.authentication, connection.user, connection.password = ldap3.ANONYMOUS, None, None
            connection.bind()
            return
        result = _bind(connection, directory.bind_dn, directory.bind_password.encode())
        if result != SUCCESS:
            text = f"it refuses the service account {directory.bind_dn!r}: {connection.result['description']}"
            raise BackendFailed(text)

    def _search(
        self,
        connection: ldap3.Connection,
        base: str,
        wanted: str,
        *,
        scope: Literal["BASE", "SUBTREE"] = "SUBTREE",
        attributes: Sequence[str] = (ldap3.NO_ATTRIBUTES,),
        entries_max: int = 1,
    ) -> list[_Entry]:
        """Return the entries that a filter matches, with the values of these attributes.

        Raises BackendFailed, LoginFailed if the user lacks the right to search, and _TooMany if there are more.
        """
        connection.search(base, wanted, search_scope=scope, attributes=list(attributes), size_limit=entries_max)
        result = connection.result["result"]
        if result == NO_SUCH_OBJECT:
            return []
        if result == SIZE_LIMIT_EXCEEDED:
            raise _TooMany
        if result != SUCCESS:
            is_of_user = connection.authentication == ldap3.SIMPLE and not self._directory.bind_dn
            kind = LoginFailed if is_of_user and result not in FAULTS else BackendFailed
            raise kind(f"it refuses a search below {base!r}: {connection.result['description']}")
        found = [each for each in connection.response or () if each["type"] == "searchResEntry"]
        return [_Entry(each["dn"], _texts(each["raw_attributes"])) for each in found]


def _binds(connection: ldap3.Connection, dn: str, password: bytes) -> bool:
    """Return whether a user's bind succeeds. Raises BackendFailed where the answer is neither yes nor no."""
    result = _bind(connection, dn, password)
    if result in FAULTS:
        raise BackendFailed(f"it answers a bind with {connection.result['description']}")
    return result == SUCCESS


def _bind(connection: ldap3.Connection, dn: str, password: bytes) -> int:
    """Return the result code of a simple bind.

    A text would be prepared with SASLprep, which refuses some (RFC 4013, 2.3): bytes are sent as they are.
    """
    connection.user, connection.password = dn, password
    connection.authentication = ldap3.SIMPLE
    try:
        connection.bind()
    finally:
        connection.password = connection.request = None  # a kept connection keeps no password
    return int(connection.result["result"])


def _texts(attributes: Mapping[str, list[bytes]]) -> set[str]:
    return {value.decode(errors="replace") for values in attributes.values() for value in values}


def _admission(groups: tuple[GroupProfiles, ...], member_of: Set[distinguished_names.Canonical]) -> Admission | None:
    if not groups:
        return Admission()
    for each in groups:
        if not each.group or distinguished_names.canonical(each.group) in member_of:
            return each.admission
    return None


def _give_up(connection: ldap3.Connection) -> None:
    with suppress(LDAPException, OSError):  # it is broken
        connection.unbind()
    if connection.socket is not None:
        with suppress(OSError):
            connection.socket.close()
