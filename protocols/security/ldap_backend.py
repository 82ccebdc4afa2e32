"""Ask an LDAP directory who may come in: a simple bind with the user's password (RFC 4513, 5.1.3), then its groups.

The name of the user's entry comes from a template, or from a search as a service account. An empty password is never
sent: a directory would take it for an unauthenticated bind, and say yes to it (RFC 4513, 5.1.2).

ldap3 blocks, so each question runs in a thread. Connections are kept; each question begins with a bind of its own.
"""

import asyncio
import math
import ssl
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, final

import ldap3
from ldap3.core.exceptions import LDAPException
from ldap3.utils.conv import escape_filter_chars
from ldap3.utils.dn import escape_rdn

from sluicegate.protocols.security.backends import Admission, BackendFailed, Login

ENTRIES_MAX: Final = 1_000  # groups of one user
PASSWORD_BYTES_MAX: Final = 65_535
SUCCESS: Final = 0
# The results of a bind that are a no (RFC 4511, appendix A): of an unknown name, too, which is no fault.
NO_SUCH_OBJECT, INVALID_DN_SYNTAX, INAPPROPRIATE_AUTHENTICATION, INVALID_CREDENTIALS = 32, 34, 48, 49
NO: Final = (NO_SUCH_OBJECT, INVALID_DN_SYNTAX, INAPPROPRIATE_AUTHENTICATION, INVALID_CREDENTIALS)


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
    user_dn: str  # with {username}; empty: the entry is searched for
    bind_dn: str  # the service account; empty: searches are made as the user, or anonymously
    bind_password: str
    user_base: str
    user_filter: str  # with {username}
    group_base: str  # empty: groups are not searched for
    group_filter: str  # with {dn} or {username}
    groups: tuple[GroupProfiles, ...]  # the first that fits holds; empty: all users are let in


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

    def __init__(self, directory: Directory, *, timeout_ms: int, concurrent_max: int) -> None:
        self._directory = directory
        self._timeout_s = timeout_ms / 1000
        self._idle: list[ldap3.Connection] = []
        self._threads = ThreadPoolExecutor(concurrent_max, thread_name_prefix="ldap")
        self._is_closed = False

    async def ask(self, login: Login) -> Admission | None:
        """Return what a client is granted, None for a no. Raises BackendFailed."""
        if self._is_closed:
            raise BackendFailed("it is asked no more")
        if not 0 < len(login.password) <= PASSWORD_BYTES_MAX or "\0" in login.user_name:
            return None
        try:
            password = login.password.decode()
        except UnicodeDecodeError:  # RFC 4513, 5.1.3: passwords that are text are UTF-8
            return None
        return await asyncio.get_running_loop().run_in_executor(self._threads, self._answer, login.user_name, password)

    async def close(self) -> None:
        """Close its connections; it is asked no more. Questions under way end by their deadlines."""
        self._is_closed = True
        self._threads.shutdown(wait=False)
        self._close_idle()

    def _close_idle(self) -> None:
        while self._idle:
            try:
                connection = self._idle.pop()
            except IndexError:  # another thread has taken the last one
                return
            _give_up(connection)

    # --- in a thread ---

    def _answer(self, user_name: str, password: str) -> Admission | None:
        while True:
            was_idle = bool(self._idle)
            try:
                connection = self._idle.pop() if was_idle else self._open()
            except IndexError:  # another thread has taken the last one
                continue
            try:
                answer = self._decide(connection, user_name, password)
            except BackendFailed:
                _give_up(connection)
                raise
            except Exception as error:  # the library's own, and what odd answers make of it
                _give_up(connection)
                if was_idle:  # the directory may have closed it meanwhile, and the others too
                    self._close_idle()
                    continue
                raise BackendFailed(f"{type(error).__name__}: {error}") from None
            if self._is_closed:
                _give_up(connection)
            else:
                self._idle.append(connection)
            return answer

    def _open(self) -> ldap3.Connection:
        directory = self._directory
        try:
            tls = _CheckedTls(directory.ca_file)
        except OSError as error:  # the file is gone
            raise BackendFailed(f"ca_file {str(directory.ca_file)!r}: {error}") from None
        server = ldap3.Server(
            directory.url,
            tls=tls,
            connect_timeout=self._timeout_s,
            get_info=ldap3.NONE,
        )
        connection = ldap3.Connection(
            server,
            authentication=ldap3.ANONYMOUS,
            receive_timeout=math.ceil(self._timeout_s),  # whole seconds; the gateway itself waits as long as is set
            auto_referrals=False,
            check_names=False,
        )
        try:
            connection.open()
            if directory.start_tls and not connection.start_tls():
                raise BackendFailed("it refuses StartTLS")
        except BackendFailed:
            _give_up(connection)
            raise
        except Exception as error:  # likewise
            _give_up(connection)
            raise BackendFailed(f"{type(error).__name__}: {error}") from None
        return connection

    def _decide(self, connection: ldap3.Connection, user_name: str, password: str) -> Admission | None:
        directory = self._directory
        if directory.user_dn:
            dn = directory.user_dn.replace("{username}", escape_rdn(user_name))
        else:
            self._bind_service(connection)
            found = self._search(connection, directory.user_base, directory.user_filter, "", user_name)
            if len(found) != 1:  # none, or it is not clear who is meant
                return None
            (dn,) = found
        if not _binds(connection, dn, password):
            return None
        if not directory.group_base:
            return _admission(directory.groups, set())
        if directory.bind_dn:
            self._bind_service(connection)
        groups = self._search(connection, directory.group_base, directory.group_filter, dn, user_name)
        return _admission(directory.groups, {_canonical(each) for each in groups})

    def _bind_service(self, connection: ldap3.Connection) -> None:
        directory = self._directory
        if not directory.bind_dn:
            connection.authentication, connection.user, connection.password = ldap3.ANONYMOUS, None, None
            connection.bind()
            return
        if not _binds(connection, directory.bind_dn, directory.bind_password):
            raise BackendFailed(f"it refuses the service account {directory.bind_dn!r}")

    def _search(self, connection: ldap3.Connection, base: str, pattern: str, dn: str, user_name: str) -> list[str]:
        """Return the names of the entries that a filter matches (RFC 4515: what is filled in is escaped)."""
        values = {"{dn}": escape_filter_chars(dn), "{username}": escape_filter_chars(user_name)}
        wanted = pattern
        if "{dn}" in pattern:
            before, after = pattern.split("{dn}", 1)
            wanted = before.replace("{username}", values["{username}"]) + values["{dn}"]
            wanted += after.replace("{dn}", values["{dn}"]).replace("{username}", values["{username}"])
        else:
            wanted = pattern.replace("{username}", values["{username}"])
        connection.search(base, wanted, attributes=[ldap3.NO_ATTRIBUTES], size_limit=ENTRIES_MAX)
        result = connection.result["result"]
        if result == NO_SUCH_OBJECT:
            return []
        if result != SUCCESS:
            raise BackendFailed(f"it refuses a search below {base!r}: {connection.result['description']}")
        return [each["dn"] for each in connection.response or () if each["type"] == "searchResEntry"]


def _binds(connection: ldap3.Connection, dn: str, password: str) -> bool:
    """Return whether a simple bind succeeds. Raises BackendFailed where the answer is neither yes nor no."""
    connection.user, connection.password = dn, password
    connection.authentication = ldap3.SIMPLE
    connection.bind()
    result = connection.result["result"]
    if result == SUCCESS:
        return True
    if result in NO:
        return False
    raise BackendFailed(f"it answers a bind with {connection.result['description']}")


def _admission(groups: tuple[GroupProfiles, ...], member_of: set[str]) -> Admission | None:
    if not groups:
        return Admission()
    for each in groups:
        if not each.group or _canonical(each.group) in member_of:
            return each.admission
    return None


def _canonical(dn: str) -> str:
    """Return a name in a form that is equal for spellings that differ in case, and in blanks between its parts."""
    return ",".join([part.strip().lower() for part in dn.split(",")])


def _give_up(connection: ldap3.Connection) -> None:
    with suppress(LDAPException, OSError):  # it is broken
        connection.unbind()
    if connection.socket is not None:
        with suppress(OSError):
            connection.socket.close()
