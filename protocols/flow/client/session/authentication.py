"""The client's side of authentication: choose a SASL mechanism, and compute its messages (RFC 4422).

See also: `protocols.connection.sasl` (the gateway's side).
"""

import base64
import binascii
import hashlib
import hmac
import stringprep
import unicodedata
from collections.abc import Callable
from typing import Final, final

from sluicegate.protocols.flow.client.errors import AuthenticationRefused
from sluicegate.protocols.flow.client.options import ClientOptions
from sluicegate.protocols.flow.client.session import authentication as scram
from sluicegate.protocols.flow.codec.frames.session import AUTH_CHALLENGE, AUTH_DONE, Auth, AuthAnswer

# The client's half of SCRAM-SHA-256 (RFC 5802, RFC 7677): both sides prove that they know a password.


NAME: Final = "SCRAM-SHA-256"
ITERATIONS_MAX: Final = 1_000_000  # a second or so of work; more is an attack, or a mistake
_GS2_HEADER: Final = "n,,"  # no channel binding, no other identity


@final
class ScramExchange:
    """One proof: `first` goes out with the mechanism, `final` answers the challenge, `check` judges the last word."""

    def __init__(self, user: str, password: str, nonce: str) -> None:
        self._password = prepared(password).encode("utf-8")
        self._nonce = nonce
        name = prepared(user).replace("=", "=3D").replace(",", "=2C")
        self._first_bare = f"n={name},r={nonce}"
        self._server_signature = b""

    def first(self) -> bytes:
        """Return the client's first message."""
        return (_GS2_HEADER + self._first_bare).encode("utf-8")

    def final(self, challenge: bytes) -> bytes:
        """Return the proof for the server's first message. Raises AuthenticationRefused for one that is broken."""
        server_first = _text(challenge)
        given = _attributes(server_first)
        nonce, salt_text, iterations_text = given.get("r", ""), given.get("s", ""), given.get("i", "")
        if not nonce.startswith(self._nonce) or len(nonce) == len(self._nonce):
            raise AuthenticationRefused("SCRAM: the gateway's nonce does not begin with ours")
        if not iterations_text.isascii() or not iterations_text.isdigit():
            raise AuthenticationRefused("SCRAM: the gateway names no number of iterations")
        iterations = int(iterations_text[:9])
        if not 0 < iterations <= ITERATIONS_MAX:
            raise AuthenticationRefused(f"SCRAM: {iterations} iterations; at most {ITERATIONS_MAX} are done")
        salted = hashlib.pbkdf2_hmac("sha256", self._password, _decoded(salt_text), iterations)
        without_proof = f"c={base64.b64encode(_GS2_HEADER.encode()).decode()},r={nonce}"
        signed = f"{self._first_bare},{server_first},{without_proof}".encode()
        client_key = hmac.digest(salted, b"Client Key", "sha256")
        signature = hmac.digest(hashlib.sha256(client_key).digest(), signed, "sha256")
        proof = bytes([key ^ other for key, other in zip(client_key, signature, strict=True)])
        self._server_signature = hmac.digest(hmac.digest(salted, b"Server Key", "sha256"), signed, "sha256")
        return f"{without_proof},p={base64.b64encode(proof).decode()}".encode()

    def check(self, server_final: bytes) -> None:
        """Raise AuthenticationRefused unless the gateway has shown that it knows the password, too."""
        shown = _decoded(_attributes(_text(server_final)).get("v", ""))
        if not self._server_signature or not hmac.compare_digest(shown, self._server_signature):
            raise AuthenticationRefused("SCRAM: the gateway could not prove that it knows the password")


def prepared(text: str) -> str:
    """Return a name or password in the form in which both sides hash it (SASLprep, RFC 4013). Raises ValueError."""
    mapped: list[str] = []
    for character in text:
        if stringprep.in_table_c12(character):
            mapped.append(" ")
        elif not stringprep.in_table_b1(character):
            mapped.append(character)
    normal = unicodedata.normalize("NFKC", "".join(mapped))
    for character in normal:
        if stringprep.in_table_c21_c22(character) or stringprep.in_table_c8(character):
            raise ValueError("a user name or password with control characters")
    return normal


def _attributes(message: str) -> dict[str, str]:
    return {part[:1]: part[2:] for part in message.split(",") if part[1:2] == "="}


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        raise AuthenticationRefused("SCRAM: the gateway sent what is not base64") from None


def _text(data: bytes) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        raise AuthenticationRefused("SCRAM: the gateway sent what is not UTF-8") from None


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
    if options.login_name():
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
        if options.login_name() and PLAIN in offered:
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
            self._scram = ScramExchange(options.login_name(), options.password, random_bytes(_NONCE_BYTES).hex())

    def first(self) -> bytes:
        """Return what goes out with the mechanism."""
        options = self._options
        if self._scram is not None:
            return self._scram.first()
        if self.mechanism == PLAIN:
            return b"\0".join((b"", options.login_name().encode("utf-8"), options.password.encode("utf-8")))
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
        """Check the server's final message. Raises AuthenticationRefused."""
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

    def answer(self, frame: AuthAnswer) -> Auth | None:
        """Return what to say next, or None when the gateway has let us in. Raises AuthenticationRefused."""
        exchange = self._exchange
        assert exchange is not None, "the engine passes answers on when they are due"
        if frame.state == AUTH_CHALLENGE:
            return Auth("", exchange.step(frame.data or b""))
        if frame.state == AUTH_DONE:
            exchange.check(frame.data or b"")
            return None
        if self._mechanisms:
            return self._next()
        raise AuthenticationRefused(f"the gateway does not accept these credentials ({exchange.mechanism})")

    def _next(self) -> Auth:
        mechanism = self._mechanisms.pop(0)
        self._exchange = Exchange(mechanism, self._options, self._random_bytes)
        return Auth(mechanism, self._exchange.first())
