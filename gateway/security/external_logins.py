"""Logins of a message VPN that a backend decides about: of names that are no accounts of the gateway.

A user that a backend lets in is in the roster from then on, with the profiles that the backend has named: for as long
as it is connected, and then until many others have come.
"""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final, final

from sluicegate.actors.runtime.runtime import Runtime
from sluicegate.gateway.config.sections.security.backends import HttpHook
from sluicegate.gateway.config.sections.security.client_profiles import AclProfileSettings, ClientProfileSettings
from sluicegate.gateway.config.sections.security.ldap import LdapDirectory
from sluicegate.gateway.views.clients.accounts import ProfileKind
from sluicegate.messaging.clients.rights import BackendUnavailable
from sluicegate.messaging.clients.roster import DEFAULT, ClientRoster, ClientUsername
from sluicegate.protocols.security.authentication import Principal
from sluicegate.protocols.security.backends.guarded_backend import Admission, Granted, GuardedBackend, Login

if TYPE_CHECKING:
    from sluicegate.protocols.security.backends.http_backend import HttpBackend
    from sluicegate.protocols.security.backends.ldap_backend import LdapBackend

log = logging.getLogger("sluicegate.node")

USERNAMES_MAX: Final = 100_000  # let in by a backend and remembered, of one message VPN
PROFILE_MISSING: Final = "profile_missing"  # counter: a yes with a profile that does not exist


@final
class ExternalLogins:
    """The backend of a message VPN, and the users that it has let in."""

    def __init__(self, roster: ClientRoster, runtime: Runtime) -> None:
        self.usernames: OrderedDict[str, ClientUsername] = OrderedDict()
        self._answered_ms: dict[str, int] = {}  # of these: when a backend was asked about them last, by the wall clock
        self.counts: dict[str, int] = {}  # of backends that were replaced, and PROFILE_MISSING
        self._roster = roster
        self._runtime = runtime
        self._asked: HttpHook | LdapDirectory = HttpHook()
        self._secret = ""
        self._guarded: GuardedBackend | None = None  # None: there is no backend
        self._backend: HttpBackend | LdapBackend | None = None
        self._closing: set[asyncio.Task[None]] = set()

    @property
    def is_asked(self) -> bool:
        """Whether there is a backend."""
        return self._guarded is not None

    def outcomes(self) -> dict[str, int]:
        """Return how many logins it decided about, by outcome."""
        total = dict(self.counts)
        for outcome, count in ({} if self._guarded is None else self._guarded.counts).items():
            total[outcome] = total.get(outcome, 0) + count
        return total

    def configure(self, http: HttpHook, ldap: LdapDirectory) -> None:
        """Put a configuration in force, with the secret in its file; if that cannot be read, nothing changes.

        One of the two has a URL, or neither.
        """
        asked: HttpHook | LdapDirectory = http if ldap.url is None else ldap
        setting = "http.secret_file" if ldap.url is None else "ldap.bind_password_file"
        try:
            secret = asked.secret()
        except (OSError, ValueError) as problem:
            log.error("authentication.%s of message VPN %r: %s", setting, self._roster.vpn, problem)
            return
        if asked == self._asked and self._guarded is not None and secret == self._secret:
            return
        self._asked, self._secret = asked, secret
        self.counts = self.outcomes()
        self._guarded = None
        self._drop_backend()
        if asked.url is None:
            return
        backend = self._make_backend(asked, secret)
        self._backend = backend
        self._guarded = GuardedBackend(
            backend.ask,
            timeout_ms=asked.timeout_ms,
            concurrent_max=asked.max_concurrent_requests,
            remembered_ms=asked.cache_s * 1000,
            clock=self._runtime.clock,
            secret=self._runtime.rng.randbytes(32),
            on_failure=lambda reason: self._tell(backend, reason, asked.url or ""),
        )

    def _make_backend(self, asked: HttpHook | LdapDirectory, secret: str) -> "HttpBackend | LdapBackend":
        assert asked.url is not None, "the caller has seen that there is one"
        if isinstance(asked, HttpHook):
            from sluicegate.protocols.security.backends.http_backend import (
                HttpBackend,  # late: aiohttp is a tenth of a start
            )

            headers = {"Authorization": f"Bearer {secret}"} if secret else {}
            return HttpBackend(
                asked.url, vpn=self._roster.vpn, headers=headers, concurrent_max=asked.max_concurrent_requests
            )
        from sluicegate.protocols.security.backends.ldap_backend import (  # late: an extra, [ldap]
            Directory,
            GroupProfiles,
            LdapBackend,
        )

        names = ("url", "start_tls", "ca_file", "user_dn", "bind_dn", "user_base", "user_filter")
        directory = Directory(
            **{name: getattr(asked, name) for name in (*names, "group_base", "group_filter")},
            bind_password=secret,
            groups=tuple(
                [GroupProfiles(each.group, Admission(each.client_profile, each.acl_profile)) for each in asked.groups]
            ),
        )
        return LdapBackend(
            directory,
            timeout_ms=asked.timeout_ms,
            concurrent_max=asked.max_concurrent_requests,
            clock=self._runtime.clock,
        )

    async def principal(self, login: Login) -> Principal | None:
        """Return who a client is by its backend, None if it is not let in. Raises BackendUnavailable.

        While the backend is asked, an operator may create an account of that name, and a reload replace the backend.
        """
        guarded = self._guarded
        if guarded is None:
            return None
        granted = await guarded.granted(login)
        if self._guarded is not guarded:
            raise BackendUnavailable  # what it says holds no more, and the client may ask again
        if self._is_account(login.user_name):
            guarded.forget(login.user_name)
            return None
        if granted is None:
            return None
        if not self._has_newer(login.user_name, granted) and not self._remember(login.user_name, granted):
            return None
        return Principal(login.user_name)

    def granted(self, user_name: str) -> Granted | None:
        """Return what the backend granted a user, None for a name that it has not let in."""
        username = self.usernames.get(user_name)
        if username is None or self._roster.username(user_name) is not username:
            return None
        return Granted(Admission(username.client_profile, username.acl_profile), self._answered_ms[user_name])

    def takes_over(self, user_name: str, granted: Granted) -> bool:
        """Let in a user whom another broker of this machine has asked about; return whether that is possible.

        The newest answer about a name holds. An account of the name is one at all brokers, and its profiles hold.
        """
        if self._is_account(user_name):
            return True
        if self._guarded is None:
            return False
        if self._has_newer(user_name, granted):
            return True
        self._guarded.learn(user_name, granted)
        return self._remember(user_name, granted)

    def forget(self, names: Iterable[str]) -> None:
        """Forget users, whose names are accounts from now on. The roster has these, or gets them next."""
        for name in names:
            if name in self.usernames:
                self._drop(name)
            if self._guarded is not None:
                self._guarded.forget(name)

    def in_force(
        self, clients: Iterable[ClientProfileSettings], acls: Iterable[AclProfileSettings]
    ) -> list[ClientUsername]:
        """Return the users whose profiles are among these; the others are forgotten, and have to log in again."""
        client_names = {DEFAULT, *[each.name for each in clients]}
        acl_names = {DEFAULT, *[each.name for each in acls]}
        for name, each in list(self.usernames.items()):
            if self._guarded is None or each.client_profile not in client_names or each.acl_profile not in acl_names:
                self._drop(name)
        return list(self.usernames.values())

    def with_profile(self, field: ProfileKind, profile: str) -> list[str]:
        """Return the names of the users here with a profile; those that are not here are forgotten."""
        found = [name for name, each in self.usernames.items() if getattr(each, field) == profile]
        for name in found:
            if not self._roster.is_here(name):
                self._remove(name)
        return sorted(name for name in found if name in self.usernames)

    async def close(self) -> None:
        """End its connections."""
        self._drop_backend()
        await asyncio.gather(*self._closing)

    def _drop_backend(self) -> None:
        backend, self._backend = self._backend, None
        if backend is not None:
            task = asyncio.ensure_future(backend.close())
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)

    def _remember(self, name: str, granted: Granted) -> bool:
        admission = granted.admission
        username = ClientUsername(name, True, admission.client_profile or DEFAULT, admission.acl_profile or DEFAULT)
        if not self._roster.has_profiles(username):
            self.counts[PROFILE_MISSING] = self.counts.get(PROFILE_MISSING, 0) + 1
            text = "user %r of message VPN %r is not let in: there is no client profile %r or no ACL profile %r"
            log.warning(text, name, self._roster.vpn, username.client_profile, username.acl_profile)
            return False
        if self.usernames.get(name) != username:
            self._roster.set_username(name, username)
            self.usernames[name] = username
        self.usernames.move_to_end(name)
        self._answered_ms[name] = granted.answered_ms
        if len(self.usernames) > USERNAMES_MAX:
            oldest = next(iter(self.usernames))
            if self._roster.is_here(oldest):
                self.usernames.move_to_end(oldest)
            else:
                self._remove(oldest)
        return True

    def _has_newer(self, name: str, granted: Granted) -> bool:
        """Return whether a newer answer about a name is known."""
        return name in self.usernames and self._answered_ms[name] > granted.answered_ms

    def _is_account(self, name: str) -> bool:
        """Return whether the roster has an entry of this name that is not from here."""
        entry = self._roster.username(name)
        return entry is not None and entry is not self.usernames.get(name)

    def _remove(self, name: str) -> None:
        """Forget a user, also in the roster, unless its entry there is an account."""
        username = self._drop(name)
        if self._roster.username(name) is username:
            self._roster.set_username(name, None)

    def _drop(self, name: str) -> ClientUsername:
        """Forget a user here; the roster may still have it."""
        del self._answered_ms[name]
        return self.usernames.pop(name)

    def _tell(self, backend: "HttpBackend | LdapBackend", reason: str, url: str) -> None:
        if backend is not self._backend:
            return  # it was replaced or closed, and its connections end
        if reason:
            log.warning("login backend of message VPN %r: %s: %s", self._roster.vpn, url, reason)
        else:
            log.info("login backend of message VPN %r: %s answers again", self._roster.vpn, url)
