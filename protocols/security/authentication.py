"""Authentication of clients: one service for all protocols.

There is one way to check a password, whatever its name: in the order of `login_queue`, on a thread, against what
`account_secrets` has for all names. Only a password that was right lately skips it. Mechanisms of several steps (SCRAM)
are in files of their own; here is what they share with the protocols that carry them, MQTT's AUTH and AMQP's SASL.
"""

import asyncio
import hmac
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Final, Protocol, final

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError, VerifyMismatchError

from sluicegate.actors.runtime.clock import Clock
from sluicegate.messaging.clients.rights import LoginsBusy
from sluicegate.protocols.security.account_secrets import PLAIN, AccountSecrets, kind_of, scram_of
from sluicegate.protocols.security.backends.guarded_backend import Granted, Login
from sluicegate.protocols.security.login_attempts import LoginAttempts
from sluicegate.protocols.security.login_queue import WAIT_MS_MAX, network_of
from sluicegate.protocols.security.password_checks import PasswordChecks, VerifiedPasswords
from sluicegate.protocols.security.password_hashes import foreign_hash_matches, is_foreign_hash

USER_NAME_CHARS_MAX: Final = 255  # of an account, and of a user that a token or a backend names


@dataclass(frozen=True, slots=True)
class Principal:
    """A client that was authenticated."""

    user_name: str  # empty: anonymous
    valid_until_ms: int = 0  # wall clock: the end of the token that was shown. 0: for as long as the connection lasts


ANONYMOUS: Final = Principal("")


@dataclass(frozen=True, slots=True)
class Challenge:
    """A step is answered, and another is to come."""

    data: bytes


@dataclass(frozen=True, slots=True)
class Authenticated:
    """The exchange is over: the client is who it says."""

    principal: Principal
    data: bytes  # the server's own proof


class AuthenticationFailed(Exception):
    """The exchange is over, and the client is not let in. The text is for the log, never for the client."""


class Exchange(Protocol):
    """One client's way through a mechanism. Steps take microseconds: they run on the event loop."""

    def step(self, data: bytes | None) -> Challenge | Authenticated:
        """Take the client's message and return ours. Raises AuthenticationFailed."""


class Mechanism(Protocol):
    """A way to prove who one is in several steps."""

    needs_encryption: bool  # what the client sends is worth stealing
    is_sasl: bool  # else it is a method of MQTT alone, and SASL does not offer it

    @property
    def can_succeed(self) -> bool:
        """Whether there is an account that can authenticate with it."""

    def begin(self) -> Exchange:
        """Begin one exchange."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """What proofs are held against.

    `mechanisms` are those of several steps, by the name clients ask for. `token_principal` tells whose bearer token
    something is; with `tokens_as_passwords` a password of a name that is no account may be a token of that name.
    """

    secrets: AccountSecrets
    anonymous_listeners: frozenset[str]
    mechanisms: Mapping[str, Mechanism]
    token_principal: Callable[[bytes], Principal] | None = None
    tokens_as_passwords: bool = False


@final
class _Attempt:
    """An exchange as an attempt of its host. Steps cannot wait: what would have to is refused unseen."""

    def __init__(self, authenticator: "Authenticator", exchange: Exchange, host: str) -> None:
        self._authenticator = authenticator
        self._exchange = exchange
        self._host = host
        self._is_queued = authenticator.must_queue(host)

    def step(self, data: bytes | None) -> Challenge | Authenticated:
        """Take the client's message and return ours. Raises AuthenticationFailed."""
        if not self._is_queued and self._authenticator.must_queue(self._host):
            raise AuthenticationFailed(f"too many attempts from {self._host} have failed since it began")
        try:
            return self._exchange.step(data)
        except AuthenticationFailed:
            self._authenticator.tried(self._host, "", succeeded=False)
            raise


class External(Protocol):
    """A backend that decides about names that are no accounts."""

    @property
    def is_asked(self) -> bool:
        """Whether there is one."""

    async def principal(self, login: Login) -> Principal | None:
        """Return who a client is, None if it is not let in. Raises BackendUnavailable."""

    def granted(self, user_name: str) -> Granted | None:
        """Return what the backend granted a user, None for a name that it has not let in."""

    def takes_over(self, user_name: str, granted: Granted) -> bool:
        """Let in a user whom another broker of this machine has asked about; return whether that is possible."""


class Authenticator:
    """Checks user names and passwords, and knows the mechanisms that need more than one message.

    `credentials` may be replaced, and their secrets changed, at any time: they hold for every proof that is
    not accepted yet, on open connections too. `scram_matches` tells whether a password is the one behind a stored SCRAM
    secret. `attempts` says who has to wait after failures; `checks` are those of the whole node.
    """

    def __init__(
        self,
        *,
        credentials: Credentials,
        scram_matches: Callable[[str, bytes], bool],
        attempts: LoginAttempts,
        checks: PasswordChecks,
        clock: Clock,
        wait: Callable[[int], Awaitable[None]],
        random_bytes: Callable[[int], bytes],
    ) -> None:
        self.credentials = credentials
        self.external: External | None = None  # None: the accounts of the credentials are all there are
        self._scram_matches = scram_matches
        self._hasher = PasswordHasher()
        self._verified = VerifiedPasswords(random_bytes)
        self._attempts = attempts
        self._checks = checks
        self._clock = clock
        self._wait = wait  # for so many milliseconds

    @property
    def mechanisms(self) -> Mapping[str, Mechanism]:
        """The mechanisms of several steps, by the name clients ask for.

        One with which no account can succeed is not among them: Qpid JMS and others take the strongest that is offered,
        and try no other when it fails.
        """
        return {name: each for name, each in self.credentials.mechanisms.items() if each.can_succeed}

    @property
    def sasl_mechanisms(self) -> Mapping[str, Mechanism]:
        """Those of them that are mechanisms of SASL."""
        return {name: each for name, each in self.mechanisms.items() if each.is_sasl}

    def admits_anonymous(self, listener: str) -> bool:
        """Return whether clients of a listener need no user name."""
        return listener in self.credentials.anonymous_listeners

    def knows(self, user_name: str) -> bool:
        """Return whether there is an account of that name."""
        return user_name in self.credentials.secrets

    def knows_domain(self, user_name: str) -> bool:
        """Return whether there is an account whose name ends in the same `@domain`."""
        return self.credentials.secrets.has_domain(user_name)

    def asks_about(self, user_name: str) -> bool:
        """Return whether a backend decides about a name: it is no account, and there is a backend.

        An empty name is nobody's: who is let in without one is anonymous.
        """
        if self.external is None or not self.external.is_asked:
            return False
        return 0 < len(user_name) <= USER_NAME_CHARS_MAX and not self.knows(user_name)

    def granted(self, user_name: str) -> Granted | None:
        """Return what a backend granted a user who is let in; None if no backend has decided about the name."""
        return None if self.external is None else self.external.granted(user_name)

    def takes_over(self, user_name: str, granted: Granted) -> bool:
        """Let in a user whom another broker of this machine has asked a backend about; return whether it may come in.

        It may not where its profiles do not exist, or no backend is asked any more.
        """
        return self.external is not None and self.external.takes_over(user_name, granted)

    async def client(
        self, user_name: str, password: bytes, *, listener: str, host: str, client: str = ""
    ) -> Principal | None:
        """Return who a client of a listener is by user name and password, or None.

        `client` is its identifier, if it has told that already. Raises LoginsBusy and BackendUnavailable.

        A name is checked wherever it can be. Only where nobody needs an account and there is none, a name is as good as
        none: many clients show one whether it is asked for or not (`guest`, `admin`).
        """
        credentials = self.credentials
        if self.asks_about(user_name):
            token = self.token(password) if self._may_be_token(password) else None
            if token is None:
                return await self._ask_about(Login(user_name, password, client, host, listener))
            if user_name == token.user_name:
                return token
            # Another user's: no backend may see a token that is good.
            if await self.may_try(host, user_name):
                self.tried(host, user_name, succeeded=False)
            return None
        has_accounts = bool(credentials.secrets) or credentials.tokens_as_passwords
        if has_accounts or not self.admits_anonymous(listener):
            return await self.password(user_name, password, host)
        return ANONYMOUS

    async def _ask_about(self, login: Login) -> Principal | None:
        """Return who a backend says that this is, or None. Raises LoginsBusy and BackendUnavailable.

        As with passwords, a burst must not be looked at as a whole before the first of it counts: no more are asked
        about side by side than may fail at no cost, and the others wait for what becomes of these.
        """
        host, name, since_ms = login.host, login.user_name, self._clock.now_ms()
        while await self.may_try(host, name):
            if self.knows(name):  # it has become an account while this waited
                return await self.password(name, login.password, host)
            is_in_line = self.must_queue(host, name)
            if not is_in_line and self._attempts.is_crowded(host, name, self._clock.now_ms()):
                await self._check_ends(host, since_ms)
                continue
            principal = await self._answer_about(login)
            if is_in_line or not self.must_queue(host, name):
                self.tried(host, name, succeeded=principal is not None)
                return principal
        return None

    async def _check_ends(self, host: str, since_ms: int) -> None:
        """Wait until a check of somebody from there has ended. Raises LoginsBusy, for want of time or room."""
        end: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        is_late = self._clock.now_ms() - since_ms > WAIT_MS_MAX
        if is_late or not self._attempts.when_ended(host, lambda: None if end.done() else end.set_result(None)):
            self._attempts.unchecked(host, self._clock.now_ms())
            raise LoginsBusy
        await end

    async def _answer_about(self, login: Login) -> Principal | None:
        """Return who a backend says that this is, or None. Raises BackendUnavailable."""
        assert self.external is not None, "the caller has seen that there is one"
        self._attempts.check_begins(login.host, login.user_name)
        try:
            return await self.external.principal(login)
        finally:
            self._attempts.check_ended(login.host, login.user_name)

    async def password(self, user_name: str, password: bytes, host: str) -> Principal | None:
        """Return who this is, or None. `host` is where it comes from: who has failed often has to wait.

        Raises LoginsBusy when it is not looked at, for want of time or room. Whose check began beside those that have
        used up the free failures meanwhile gets in line as if it came now, right or wrong: a burst would else be looked
        at as a whole before the first of it counts.
        """
        while await self.may_try(host, user_name):
            is_in_line = self.must_queue(host, user_name)
            principal = await self._password(user_name, password, host, is_in_line=is_in_line)
            if is_in_line or not self.must_queue(host, user_name):
                self.tried(host, user_name, succeeded=principal is not None)
                return principal
        return None

    async def bearer(self, token: bytes, host: str) -> Principal | None:
        """Return whose bearer token this is, or None, after a wait if too many from this host were not believed.

        A client with a right one does not wait for others: tokens cannot be found by trying.
        """
        principal = self.token(token)
        if principal is None and await self.may_try(host):
            self.tried(host, "", succeeded=False)
        return principal

    async def may_try(self, host: str, user_name: str = "") -> bool:
        """Wait until an attempt may be looked at; return False when that would be too long."""
        wait_ms = self._attempts.begin(host, user_name, self._clock.now_ms())
        if wait_ms:
            await self._wait(wait_ms)
        return wait_ms is not None

    def may_try_now(self, host: str) -> bool:
        """Return whether an attempt may be looked at at once, for those who cannot wait."""
        return self._attempts.begin(host, "", self._clock.now_ms()) == 0

    def must_queue(self, host: str, user_name: str = "") -> bool:
        """Return whether attempts from there wait for each other by now."""
        return self._attempts.must_queue(host, user_name, self._clock.now_ms())

    def exchange(self, mechanism: Mechanism, host: str) -> Exchange:
        """Begin an exchange from a host that may try one. How it ends is noted."""
        return _Attempt(self, mechanism.begin(), host)

    def tried(self, host: str, user_name: str, *, succeeded: bool) -> None:
        """Note how an attempt ended."""
        if succeeded:
            self._attempts.succeeded(host, user_name, self._clock.now_ms())
        else:
            self._attempts.failed(host, user_name, self._clock.now_ms())

    async def _password(self, user_name: str, password: bytes, host: str, *, is_in_line: bool) -> Principal | None:
        """Return who this is, or None; nobody, too, when others have used up the free failures meanwhile."""
        token = self.token(password) if self._may_be_token(password) else None
        secret = self.credentials.secrets.get(user_name)
        # A name beside a token may be left empty.
        if token is not None and secret is None and user_name in ("", token.user_name):
            return token
        if not is_in_line and self._attempts.is_crowded(host, user_name, self._clock.now_ms()):
            is_right = False  # among so many at once it would be found without a wait
        else:
            is_right = self._is_known_right(user_name, password)
        if not is_right:
            self._attempts.check_begins(host, user_name)
            try:
                is_right = await self._check(user_name, password, host, is_in_line=is_in_line)
            except LoginsBusy:
                self._attempts.unchecked(host, self._clock.now_ms())
                raise
            finally:
                self._attempts.check_ended(host, user_name)
        return Principal(user_name) if is_right else None

    async def _check(self, user_name: str, password: bytes, host: str, *, is_in_line: bool) -> bool:
        """Return whether a password is right, at the same cost for every name. Raises LoginsBusy."""
        login_class = self._attempts.login_class(host, user_name, self._clock.now_ms())
        async with self._checks.turn(network_of(host), login_class, self.credentials.secrets.checks().cost) as turn:
            if not is_in_line and self.must_queue(host, user_name):
                return False  # all before it are found wrong by now
            if self._is_known_right(user_name, password):
                return True
            secrets = self.credentials.secrets
            secret, decoys = secrets.get(user_name), secrets.checks().decoys
            is_right = await turn.run(lambda: self._matches(secret, decoys, password))
        # Meanwhile the account may have got another password, or be gone.
        if not is_right or secret is None or self.credentials.secrets.get(user_name) != secret:
            return False
        self._verified.add(user_name, secret, password)
        return True

    def _is_known_right(self, user_name: str, password: bytes) -> bool:
        """Return whether a password is seen to be right. A wrong one costs as little as one that is not known."""
        secret = self.credentials.secrets.get(user_name)
        if secret is None:
            return False
        if kind_of(secret) == PLAIN:
            return hmac.compare_digest(secret.encode(), password)
        return self._verified.has(user_name, secret, password)

    def _matches(self, secret: str | None, decoys: Mapping[str, str], password: bytes) -> bool:
        """Return whether a password is the one behind a secret. Wrong ones are held against every kind, once."""
        own = PLAIN if secret is None else kind_of(secret)
        if secret is not None and own != PLAIN and self._verify(secret, password):
            return True
        for kind, decoy in decoys.items():
            if kind != own:
                self._verify(decoy, password)
        return secret is not None and own == PLAIN and hmac.compare_digest(secret.encode(), password)

    def _may_be_token(self, password: bytes) -> bool:
        return self.credentials.tokens_as_passwords and password.count(b".") == 2

    def token(self, token: bytes) -> Principal | None:
        """Return whose bearer token this is, or None: it is not believed, or tokens are not taken here."""
        token_principal = self.credentials.token_principal
        if token_principal is None:
            return None
        try:
            return token_principal(token)
        except AuthenticationFailed:
            return None

    def certificate(self, name: str) -> Principal | None:
        """Return who a verified client certificate stands for: the user of its common name."""
        return Principal(name) if name else None

    def _verify(self, secret: str, password: bytes) -> bool:
        if scram_of(secret):
            return self._scram_matches(secret, password)
        if is_foreign_hash(secret):
            return foreign_hash_matches(secret, password)
        try:
            return self._hasher.verify(secret, password)
        except (VerifyMismatchError, VerificationError, InvalidHashError):
            return False
