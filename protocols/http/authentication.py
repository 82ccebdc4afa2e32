"""Authentication of requests: by Authorization, by the client certificate, or anonymous where that is allowed.

Passwords take tens of milliseconds to check, by design; so a connection remembers the last header that was right, a
token's for as long as it is valid, a password's for as long as the account has it.
"""

from typing import final

from sluicegate.actors.runtime.clock import Clock
from sluicegate.protocols.connection.message_vpns import MessageVpns
from sluicegate.protocols.http.codec.headers import CHALLENGES, basic_credentials
from sluicegate.protocols.http.codec.problems import BAD_REQUEST, UNAUTHORIZED, HttpProblem
from sluicegate.protocols.http.services import HttpServices
from sluicegate.protocols.security.authentication import ANONYMOUS, Principal
from sluicegate.protocols.transport.interface import PeerInfo


@final
class SignIn:
    """The identity of one connection's requests."""

    def __init__(self, vpns: MessageVpns[HttpServices], peer: PeerInfo, clock: Clock) -> None:
        self.services = vpns.of_listener(peer.listener)  # of the message VPN that the latest request was for
        self._vpns = vpns
        self._clock = clock
        self._peer = peer
        self._proven_header = ""
        self._proven_by = self.services  # of the VPN that the request with that header was for, but for its user name
        self._proven_services = self.services
        self._proven_secret: str | None = None  # that the header was held against; None: it is a token
        self._proven = ANONYMOUS

    def known(self, authorization: str, here: HttpServices) -> Principal | None:
        """Return who sends a request where nothing has to be checked for that, else None. Raises HttpProblem.

        The request is for the message VPN `here`, unless the user's name says another one.
        """
        self.services = here
        if not authorization:
            return self._without_words()
        if authorization == self._proven_header and here is self._proven_by and self._holds():
            self.services = self._proven_services
            return self._proven
        return None

    async def principal(self, authorization: str, here: HttpServices) -> Principal:
        """Return who sends a request. Raises ClientDenied, and HttpProblem: 401 without a word of what was wrong."""
        known = self.known(authorization, here)
        if known is not None:
            return known
        scheme, _, value = authorization.partition(" ")
        if scheme.lower() == "basic":
            name, password = _credentials(value.strip())
            name, self.services = self._vpns.of_user(name, here, "")
            authenticator, peer = self.services.authenticator, self._peer
            principal = await authenticator.client(name, password, listener=peer.listener, host=peer.host)
            if principal is ANONYMOUS:
                return principal  # it costs nothing to see again, and whether strangers are let in may change
        elif scheme.lower() == "bearer":
            principal = await self.services.authenticator.bearer(value.strip().encode(), self._peer.host)
        else:
            raise _unauthorized("the scheme of the Authorization header is not supported here")
        if principal is None:
            raise _unauthorized("the credentials are wrong")
        self._proven_header = authorization
        self._proven_by = here
        self._proven_services = self.services
        self._proven_secret = self.services.authenticator.credentials.secrets.get(principal.user_name)
        self._proven = principal
        return principal

    def _holds(self) -> bool:
        """Return whether the remembered header still proves what it did.

        A connection that others use as well is not ended when its user is deleted, nor is any by another password.
        """
        proven = self._proven
        if 0 < proven.valid_until_ms < self._clock.wall_ms():
            return False
        return self._proven_services.authenticator.credentials.secrets.get(proven.user_name) == self._proven_secret

    def _without_words(self) -> Principal:
        authenticator, name = self.services.authenticator, self._peer.certificate_name
        if name is not None and authenticator.knows(name):
            principal = authenticator.certificate(name)
            if principal is not None:
                return principal
        if authenticator.admits_anonymous(self._peer.listener):
            return ANONYMOUS
        raise _unauthorized("this port requires authentication")


def _credentials(value: str) -> tuple[str, bytes]:
    try:
        return basic_credentials(value)
    except ValueError as problem:
        raise HttpProblem(BAD_REQUEST, str(problem)) from None


def _unauthorized(detail: str) -> HttpProblem:
    return HttpProblem(UNAUTHORIZED, detail, headers=[(b"www-authenticate", CHALLENGES)])
