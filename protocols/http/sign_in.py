"""Who sends a request: by its Authorization, by the certificate of the connection, or nobody where that is allowed.

Passwords take tens of milliseconds to check, by design; so a connection remembers the last header that was right, a
token's for as long as it is valid.
"""

import base64
import binascii
from typing import Final, final

from actors.clock import Clock
from protocols.authentication import ANONYMOUS, Authenticator, Principal
from protocols.http.problems import BAD_REQUEST, UNAUTHORIZED, HttpProblem
from protocols.transports import PeerInfo

CHALLENGES: Final = b'Basic realm="sluicegate", charset="UTF-8", Bearer realm="sluicegate"'


@final
class SignIn:
    """The identity of one connection's requests."""

    def __init__(self, authenticator: Authenticator, peer: PeerInfo, clock: Clock) -> None:
        self._authenticator = authenticator
        self._clock = clock
        self._peer = peer
        self._proven_header = ""
        self._proven = ANONYMOUS

    def known(self, authorization: str) -> Principal | None:
        """Return who sends a request where nothing has to be checked for that, else None. Raises HttpProblem."""
        if not authorization:
            return self._without_words()
        if authorization == self._proven_header and not self._is_over(self._proven):
            return self._proven
        return None

    async def principal(self, authorization: str) -> Principal:
        """Return who sends a request. Raises HttpProblem: 401 without a word of what was wrong."""
        known = self.known(authorization)
        if known is not None:
            return known
        scheme, _, value = authorization.partition(" ")
        if scheme.lower() == "basic":
            name, password = _credentials(value.strip())
            principal = await self._authenticator.password(name, password, self._peer.host)
        elif scheme.lower() == "bearer":
            principal = await self._token(value.strip().encode())
        else:
            raise _unauthorized("the Authorization is of a scheme that is not taken here")
        if principal is None:
            raise _unauthorized("the credentials are wrong")
        self._proven_header = authorization
        self._proven = principal
        return principal

    async def _token(self, token: bytes) -> Principal | None:
        host = self._peer.host
        if not await self._authenticator.may_try(host):
            return None
        principal = self._authenticator.token(token)
        if principal is None:
            self._authenticator.tried(host, "", succeeded=False)
        return principal

    def _is_over(self, principal: Principal) -> bool:
        return 0 < principal.valid_until_ms < self._clock.wall_ms()

    def _without_words(self) -> Principal:
        name = self._peer.certificate_name
        if name is not None and self._authenticator.knows(name):
            principal = self._authenticator.certificate(name)
            if principal is not None:
                return principal
        if self._authenticator.admits_anonymous(self._peer.listener):
            return ANONYMOUS
        raise _unauthorized("this port takes no messages from strangers")


def _credentials(value: str) -> tuple[str, bytes]:
    """Return user name and password of a Basic header (RFC 7617)."""
    try:
        name, colon, password = base64.b64decode(value, validate=True).partition(b":")
        if colon:
            return name.decode("utf-8"), password
    except (binascii.Error, ValueError):
        pass
    raise HttpProblem(BAD_REQUEST, "Authorization: Basic is not the base64 of name:password in UTF-8")


def _unauthorized(detail: str) -> HttpProblem:
    return HttpProblem(UNAUTHORIZED, detail, headers=[(b"www-authenticate", CHALLENGES)])
