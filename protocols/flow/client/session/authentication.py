"""Who a client says it is: which SASL mechanisms suit it, and what it says in each (RFC 4422).

The gateway's half is `protocols.connection.sasl`.
"""

from collections.abc import Callable
from typing import Final, final

from sluicegate.protocols.flow.client.errors import AuthenticationRefused
from sluicegate.protocols.flow.client.options import ClientOptions
from sluicegate.protocols.flow.client.session import scram
from sluicegate.protocols.flow.client.session.scram import ScramExchange
from sluicegate.protocols.flow.codec.frames.session import AUTH_CHALLENGE, AUTH_DONE, Auth, AuthAnswer

PLAIN: Final = "PLAIN"
EXTERNAL: Final = "EXTERNAL"
ANONYMOUS: Final = "ANONYMOUS"
OAUTHBEARER: Final = "OAUTHBEARER"
XOAUTH2: Final = "XOAUTH2"

_NONCE_BYTES: Final = 18
_END_OF_FAILURE: Final = b"\x01"  # RFC 7628 3.2.3: how a client answers the news that its token is not good


def mechanisms_for(options: ClientOptions, offered: tuple[str, ...], *, is_encrypted: bool) -> list[str]:
    """Return the mechanisms to try, best first. Raises AuthenticationRefused when none of those offered will do.

    PLAIN comes behind SCRAM-SHA-256 and not instead of it: an account whose secret is kept as an argon2 hash cannot
    be proven with SCRAM.
    """
    if options.user:
        wanted = [scram.NAME]
        if is_encrypted or options.allow_plain_without_tls:
            wanted.append(PLAIN)
    elif options.token:
        wanted = [OAUTHBEARER, XOAUTH2]
    else:
        wanted = [EXTERNAL, ANONYMOUS]
    found = [name for name in wanted if name in offered]
    if not found:
        needed = " or ".join(wanted)
        if options.user and PLAIN in offered:
            needed += ", or PLAIN: over TLS, or with allow_plain_without_tls"
        raise AuthenticationRefused(f"the gateway offers {', '.join(offered) or 'nothing'}; this client needs {needed}")
    return found


@final
class Exchange:
    """One attempt with one mechanism."""

    def __init__(self, mechanism: str, options: ClientOptions, random_bytes: Callable[[int], bytes]) -> None:
        self.mechanism = mechanism
        self._options = options
        self._scram: ScramExchange | None = None
        if mechanism == scram.NAME:
            self._scram = ScramExchange(options.user, options.password, random_bytes(_NONCE_BYTES).hex())

    def first(self) -> bytes:
        """Return what goes out with the mechanism."""
        options = self._options
        if self._scram is not None:
            return self._scram.first()
        if self.mechanism == PLAIN:
            return b"\0".join((b"", options.user.encode("utf-8"), options.password.encode("utf-8")))
        if self.mechanism == OAUTHBEARER:
            return f"n,,\x01auth=Bearer {options.token_text()}\x01\x01".encode()
        if self.mechanism == XOAUTH2:
            return f"user=\x01auth=Bearer {options.token_text()}\x01\x01".encode()
        return b""

    def step(self, challenge: bytes) -> bytes:
        """Return the answer to a challenge. Raises AuthenticationRefused for one that has no place."""
        if self._scram is not None:
            return self._scram.final(challenge)
        if self.mechanism == OAUTHBEARER:
            return _END_OF_FAILURE
        raise AuthenticationRefused(f"{self.mechanism}: the gateway asks for more than there is to say")

    def check(self, last_word: bytes) -> None:
        """Look at what came with the news that we are let in. Raises AuthenticationRefused."""
        if self._scram is not None:
            self._scram.check(last_word)


@final
class Login:
    """How one connection is let in: the mechanisms that suit, one after the other."""

    def __init__(self, options: ClientOptions, random_bytes: Callable[[int], bytes], *, is_encrypted: bool) -> None:
        self._options = options
        self._random_bytes = random_bytes
        self._is_encrypted = is_encrypted
        self._mechanisms: list[str] = []  # still to be tried
        self._exchange: Exchange | None = None

    def begin(self, offered: tuple[str, ...]) -> Auth:
        """Return the first AUTH, given what WELCOME offers. Raises AuthenticationRefused."""
        self._mechanisms = mechanisms_for(self._options, offered, is_encrypted=self._is_encrypted)
        return self._next()

    def answer(self, said: AuthAnswer) -> Auth | None:
        """Return what to say next, or None when the gateway has let us in. Raises AuthenticationRefused."""
        exchange = self._exchange
        assert exchange is not None, "the engine passes answers on when they are due"
        if said.state == AUTH_CHALLENGE:
            return Auth("", exchange.step(said.data or b""))
        if said.state == AUTH_DONE:
            exchange.check(said.data or b"")
            return None
        if self._mechanisms:
            return self._next()
        raise AuthenticationRefused(f"the gateway does not accept these credentials ({exchange.mechanism})")

    def _next(self) -> Auth:
        mechanism = self._mechanisms.pop(0)
        self._exchange = Exchange(mechanism, self._options, self._random_bytes)
        return Auth(mechanism, self._exchange.first())
