"""Who may use the admin port: the operators of the configuration, and how their requests prove who sends them.

How far each may go is `gateway.access_levels`; who clients are, `gateway.accounts`.
"""

import hmac
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Final

from actors.clock import Clock
from gateway.access_levels import WHOEVER_IS_HERE, AdminAccount
from gateway.config.admin import Admin
from gateway.proofs import Proofs
from protocols import scram
from protocols.authentication import Authenticator, Credentials, Principal
from protocols.http.authorization import basic_credentials
from protocols.login_attempts import LoginAttempts

PROVEN_MAX: Final = 256  # headers that were right, so that a page of many requests does not check a password for each


class NotSignedIn(Exception):
    """Nobody who may use the port sent this request. `name` is who it says it is of; empty: it does not say."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


class AdminAccounts:
    """The accounts of operators, as the latest configuration has them.

    Without any, everybody may do everything on a port that only this machine reaches, and nobody anything on another
    one: its address stays until a restart, whatever a reload says of it. Guessers wait as clients do, apart from them:
    names here are names of other accounts.
    """

    def __init__(
        self,
        admin: Admin,
        proofs: Proofs,
        *,
        clock: Clock,
        wait: Callable[[int], Awaitable[None]],
        random_bytes: Callable[[int], bytes],
    ) -> None:
        self._clock = clock
        self._key = random_bytes(32)  # of this process: what is remembered of a header does not tell it
        self._proven: OrderedDict[bytes, Principal] = OrderedDict()
        self._accounts: dict[str, AdminAccount] = {}
        self._authenticator = Authenticator(
            credentials=Credentials({}, frozenset(), {}),
            scram_matches=scram.password_matches,
            attempts=LoginAttempts(),
            clock=clock,
            wait=wait,
        )
        self.configure(admin, proofs)

    def configure(self, admin: Admin, proofs: Proofs) -> None:
        """Go by this configuration, and what was read of its files."""
        self._authenticator.credentials = Credentials(
            secrets=proofs.secrets,
            anonymous_listeners=frozenset(),
            mechanisms={},
            token_principal=None if proofs.verifier is None else proofs.verifier.principal,
            tokens_as_passwords=proofs.tokens_as_passwords,
        )
        self._accounts = {user.name: user.account() for user in admin.users}
        self._proven.clear()

    async def account(self, authorization: str, host: str, *, loopback_only: bool) -> AdminAccount:
        """Return whose request this is. `host` is where it comes from: who has failed often has to wait.

        `loopback_only`: its port can be reached from this machine only. Raises NotSignedIn, and ValueError for a header
        that is broken.
        """
        if not self._accounts and loopback_only:
            return WHOEVER_IS_HERE
        mark = hmac.digest(self._key, authorization.encode(), "sha256")
        principal = self._proven.get(mark)
        if principal is None or 0 < principal.valid_until_ms < self._clock.wall_ms():
            principal = await self._principal(authorization, host)
        account = self._accounts.get(principal.user_name)
        if account is None:  # a token of somebody who is no operator
            raise NotSignedIn(principal.user_name)
        self._proven[mark] = principal
        self._proven.move_to_end(mark)
        if len(self._proven) > PROVEN_MAX:
            self._proven.popitem(last=False)
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
