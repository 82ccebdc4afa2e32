"""The client's half of SCRAM-SHA-256 (RFC 5802, RFC 7677): both sides prove that they know a password."""

import base64
import binascii
import hashlib
import hmac
import stringprep
import unicodedata
from typing import Final, final

from sluicegate.protocols.flow.client.errors import AuthenticationRefused

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
