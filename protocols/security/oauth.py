"""OAuth 2: in SASL, OAUTHBEARER (RFC 7628) and XOAUTH2, the form that came before it; in MQTT also OAUTH2-JWT.

A client shows a token; the reason for refusing one is not sent. A failure of OAUTHBEARER takes another step: the broker
sends `invalid_token`, the client answers with a single 0x01, and only then the exchange is over.

OAUTH2-JWT is no mechanism of SASL, but a method of MQTT's AUTH, whose data is the token and nothing else. Azure Event
Grid has introduced the name.
"""

from typing import TYPE_CHECKING, Final

from sluicegate.protocols.security.authentication import Authenticated, AuthenticationFailed, Challenge, Principal

if TYPE_CHECKING:
    from sluicegate.protocols.security.tokens.bearer_tokens import TokenVerifier

OAUTHBEARER: Final = "OAUTHBEARER"
XOAUTH2: Final = "XOAUTH2"
OAUTH2_JWT: Final = "OAUTH2-JWT"
OAUTH_METHODS: Final = (OAUTHBEARER, XOAUTH2, OAUTH2_JWT)

_SEPARATOR: Final = b"\x01"
_SCHEME: Final = b"bearer "
_INVALID_TOKEN: Final = b'{"status":"invalid_token"}'


class OAuthMechanism:
    """One of the three, over the one verifier. They send the token as it is, so neither is offered in the clear."""

    needs_encryption = True
    can_succeed = True

    def __init__(self, name: str, verifier: "TokenVerifier") -> None:
        self.name = name
        self.is_sasl = name != OAUTH2_JWT
        self._verifier = verifier

    def begin(self) -> "OAuthExchange":
        """Begin one exchange."""
        return OAuthExchange(self.name, self._verifier)


class OAuthExchange:
    """One client's proof, in one step; in two when it fails."""

    def __init__(self, name: str, verifier: "TokenVerifier") -> None:
        self._name = name
        self._verifier = verifier
        self._failure = ""  # what the log will say, once the client has answered our challenge

    def step(self, data: bytes | None) -> Challenge | Authenticated:
        """Take the client's message and return ours. Raises AuthenticationFailed."""
        if self._failure:
            raise AuthenticationFailed(self._failure)
        if data is None:
            return Challenge(b"")  # the client begins, and has not
        try:
            return Authenticated(self._principal(data), b"")
        except AuthenticationFailed as failure:
            if self._name != OAUTHBEARER:
                raise
            self._failure = str(failure)
            return Challenge(_INVALID_TOKEN)

    def _principal(self, data: bytes) -> Principal:
        if self._name == OAUTH2_JWT:
            return self._verifier.principal(data)
        user_name, token = _bearer_response(data) if self._name == OAUTHBEARER else _xoauth2_response(data)
        principal = self._verifier.principal(token)
        if user_name not in ("", principal.user_name):
            raise AuthenticationFailed(
                f"{self._name} of user {user_name[:80]!r} with a token of {principal.user_name!r}"
            )
        return principal


def _bearer_response(data: bytes) -> tuple[str, bytes]:
    """RFC 7628 3.1: a GS2 header with the user name, then pairs, each behind a 0x01; return user name and token."""
    header, *pairs = data.split(_SEPARATOR)
    parts = header.split(b",")
    if len(parts) != 3 or parts[0] not in (b"n", b"y") or parts[2] or (parts[1] and not parts[1].startswith(b"a=")):
        raise AuthenticationFailed("an OAUTHBEARER response that does not begin with n,a=USER,")
    return _text(parts[1][2:]).replace("=2C", ",").replace("=3D", "="), _token(pairs)


def _xoauth2_response(data: bytes) -> tuple[str, bytes]:
    """Return user name and token of `user=NAME^Aauth=Bearer TOKEN^A^A`."""
    user, *pairs = data.split(_SEPARATOR)
    if not user.startswith(b"user="):
        raise AuthenticationFailed("an XOAUTH2 response that does not begin with user=")
    return _text(user[5:]), _token(pairs)


def _token(pairs: list[bytes]) -> bytes:
    for pair in pairs:
        key, _, value = pair.partition(b"=")
        if key == b"auth" and value[: len(_SCHEME)].lower() == _SCHEME:
            return value[len(_SCHEME) :].strip()
    raise AuthenticationFailed("a response without auth=Bearer TOKEN")


def _text(data: bytes) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        raise AuthenticationFailed("a user name that is not UTF-8") from None
