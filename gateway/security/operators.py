"""The operators of the configuration, and how a request to the admin port proves who sends it.

`gateway.config.sections.security.access_levels` has their levels; `gateway.security.accounts` has the clients.
"""

from collections.abc import Awaitable, Callable

from sluicegate.actors.runtime.clock import Clock
from sluicegate.actors.runtime.events import Events
from sluicegate.gateway.config.sections.admin import ANONYMOUS_ADMIN, Admin, AdminAccount
from sluicegate.gateway.security.credentials import ConfiguredCredentials
from sluicegate.gateway.security.fetched_keys import FetchedTokenKeys
from sluicegate.messaging.observability.events import SYSTEM_TOKEN_KEYS_DOWN, SYSTEM_TOKEN_KEYS_UP
from sluicegate.protocols.http.codec.requests import basic_credentials
from sluicegate.protocols.security import scram
from sluicegate.protocols.security.account_secrets import AccountSecrets
from sluicegate.protocols.security.authentication import Authenticator, Credentials, Principal
from sluicegate.protocols.security.login_attempts import LoginAttempts
from sluicegate.protocols.security.password_checks import PasswordChecks


class NotSignedIn(Exception):
    """The sender of a request is not an operator. `name` is the user name in the request, empty if it has none."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


class Operators:
    """The accounts of operators, as the latest configuration has them.

    Without accounts, a port that only this machine reaches allows everything to everybody; another port allows nothing.
    A port keeps its address until a restart, even if a reload changes it. Failed logins delay further ones as they do
    for clients, but are counted apart from those of clients, whose names are names of other accounts.
    """

    def __init__(
        self,
        admin: Admin,
        credentials: ConfiguredCredentials,
        *,
        checks: PasswordChecks,
        clock: Clock,
        wait: Callable[[int], Awaitable[None]],
        random_bytes: Callable[[int], bytes],
        events: Events,
    ) -> None:
        """`events` tells whether the keys of tokens can be fetched, if `token_keys` was started."""
        self.attempts = LoginAttempts()
        self.token_keys = FetchedTokenKeys(clock, events, up=SYSTEM_TOKEN_KEYS_UP, down=SYSTEM_TOKEN_KEYS_DOWN)
        self._accounts: dict[str, AdminAccount] = {}
        self._authenticator = Authenticator(
            credentials=Credentials(AccountSecrets({}), frozenset(), {}),
            scram_matches=scram.password_matches,
            attempts=self.attempts,
            checks=checks,
            clock=clock,
            wait=wait,
            random_bytes=random_bytes,
        )
        self.configure(admin, credentials)

    def configure(self, admin: Admin, credentials: ConfiguredCredentials) -> None:
        """Put a configuration in force, with the credentials read from its files."""
        self._authenticator.credentials = Credentials(
            secrets=AccountSecrets(credentials.secrets),
            anonymous_listeners=frozenset(),
            mechanisms={},
            token_principal=None if credentials.verifier is None else credentials.verifier.principal,
            tokens_as_passwords=credentials.tokens_as_passwords,
        )
        self.token_keys.configure(admin.oauth, credentials)
        self._accounts = {user.name: user.account() for user in admin.users}

    async def account(self, authorization: str, host: str, *, loopback_only: bool) -> AdminAccount:
        """Return the account that sent a request. After failed logins, further ones from `host` have to wait.

        `loopback_only`: only this machine reaches the port. Raises NotSignedIn, LoginsBusy, and ValueError for a
        malformed header.
        """
        if not self._accounts and loopback_only:
            return ANONYMOUS_ADMIN
        principal = await self._principal(authorization, host)
        account = self._accounts.get(principal.user_name)
        if account is None:  # the token's user is not an operator
            raise NotSignedIn(principal.user_name)
        return account

    async def _principal(self, authorization: str, host: str) -> Principal:
        scheme, _, value = authorization.partition(" ")
        name, principal = "", None
        if scheme.lower() == "basic":
            name, password = basic_credentials(value.strip())
            principal = await self._authenticator.password(name, password, host)
        elif scheme.lower() == "bearer":
            principal = await self._authenticator.bearer(value.strip().encode(), host)
        if principal is None:
            raise NotSignedIn(name)
        return principal
