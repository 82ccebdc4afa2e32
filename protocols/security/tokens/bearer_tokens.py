"""Bearer tokens: JSON Web Tokens (RFC 7519) that an authorization server signed, checked by its public keys.

No network: the keys are given (RFC 7517), by a file or by what fetches them (`token_keys`). See also: tokens in SASL
(`oauth`), and tokens in place of a password (`authentication`).
"""

import json
from collections.abc import Callable
from typing import Final

from joserfc import jwt
from joserfc.errors import InvalidKeyIdError, JoseError
from joserfc.jwk import Key, KeySet
from joserfc.jws import JWSRegistry
from joserfc.jwt import ClaimsOption, JWTClaimsRegistry

from sluicegate.protocols.security.authentication import USER_NAME_CHARS_MAX, AuthenticationFailed, Principal
from sluicegate.protocols.security.tokens.token_keys import TokenKeys

TOKEN_BYTES_MAX: Final = 32_768  # half of what a SASL frame may hold; tokens with many groups have some 8 KiB
LEEWAY_S: Final = 60  # what two clocks may differ by
SIGNATURE_BYTES_MAX: Final = 1024  # RSA with 8192 bits
KEYS_MAX: Final = 100  # of a key set; a server has two or three

# Public-key algorithms only: with a shared secret everybody who can check a token could make one.
ALGORITHMS: Final = (
    "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "Ed25519", "EdDSA",
)  # fmt: skip


def read_keys(text: str) -> KeySet:
    """Return the public keys of a JSON Web Key Set. Raises ValueError for what is none, or holds a secret."""
    return KeySet([_read_key(index, key) for index, key in enumerate(_listed(text))])


def read_published_keys(text: str) -> tuple[KeySet, int]:
    """Return the keys of a server's key set that can check signatures, and how many others it has.

    Others are to be ignored (RFC 7517, section 5): a server may publish keys for encryption, and keys of later kinds.
    Raises ValueError for what is no key set, or has only others.
    """
    keys: list[Key] = []
    problem = ""
    listed = _listed(text)
    for index, key in enumerate(listed):
        try:
            keys.append(_read_key(index, key))
        except ValueError as error:
            problem = problem or str(error)
    if not keys:
        raise ValueError(f"none of its keys can be used: {problem}")
    return KeySet(keys), len(listed) - len(keys)


def _listed(text: str) -> list[object]:
    try:
        document = json.loads(text)
    except ValueError as error:
        raise ValueError(f"no JSON: {error}") from None
    except RecursionError:
        raise ValueError("no JSON that can be read: it is nested too deep") from None
    keys = document.get("keys") if isinstance(document, dict) else None
    if not isinstance(keys, list) or not keys:
        raise ValueError('no key set: an object with a list of "keys" is required')
    if len(keys) > KEYS_MAX:
        raise ValueError(f"{len(keys)} keys; allowed: at most {KEYS_MAX}")
    return keys


def _read_key(index: int, key: object) -> Key:
    if not isinstance(key, dict) or key.get("kty") not in ("RSA", "EC", "OKP"):
        raise ValueError(f"key {index} is no public key of the type RSA, EC or OKP")
    if "d" in key:
        raise ValueError(f"key {index} is a private key; only public ones belong here")
    if key.get("use", "sig") != "sig":
        raise ValueError(f"key {index} is not for signatures: its use is {key['use']!r:.40}")
    try:
        found: Key = KeySet.import_key_set({"keys": [key]}).keys[0]
        found.public_key  # noqa: B018 - it is read when it is used first
    except Exception as error:  # the library's own, and what odd input makes of it
        raise ValueError(f"key {index} cannot be read: {type(error).__name__}: {error}") from None
    return found


class TokenVerifier:
    """Tells whose token it is."""

    def __init__(
        self, keys: TokenKeys, *, issuer: str, audience: str, user_claim: str, wall_ms: Callable[[], int]
    ) -> None:
        self.keys = keys
        self._user_claim = user_claim
        self._wall_ms = wall_ms
        self._registry = JWSRegistry(algorithms=list(ALGORITHMS))
        self._registry.max_signature_length = max(self._registry.max_signature_length, 2 * SIGNATURE_BYTES_MAX)
        self._registry.max_payload_length = max(self._registry.max_payload_length, TOKEN_BYTES_MAX)
        required: dict[str, ClaimsOption] = {
            "exp": {"essential": True},
            "iss": {"essential": True, "value": issuer},
            "aud": {"essential": True, "value": audience},
        }
        self._claims = JWTClaimsRegistry(now=lambda: wall_ms() // 1000, leeway=LEEWAY_S, **required)

    def principal(self, token: bytes) -> Principal:
        """Return who the token stands for, and for how long. Raises AuthenticationFailed; why is for the log only."""
        if len(token) > TOKEN_BYTES_MAX:
            raise AuthenticationFailed(f"a token of {len(token)} bytes; at most {TOKEN_BYTES_MAX} are read")
        keys = self.keys.keys
        if keys is None:
            raise AuthenticationFailed(f"a token that cannot be checked: the keys of its server {self.keys.problem}")
        try:
            claims = jwt.decode(token, keys, algorithms=list(ALGORITHMS), registry=self._registry).claims
            self._claims.validate(claims)
        except InvalidKeyIdError as error:
            if self.keys.on_unknown_key is not None:
                self.keys.on_unknown_key()
            raise AuthenticationFailed(f"a token by an unknown key: {error}") from None
        except (
            JoseError,
            ValueError,
            TypeError,
            KeyError,
        ) as error:  # the library's own, and what odd input makes of it
            raise AuthenticationFailed(f"a token that is not valid: {type(error).__name__}: {error}") from None
        user_name = claims.get(self._user_claim)
        if not isinstance(user_name, str) or not 0 < len(user_name) <= USER_NAME_CHARS_MAX:
            raise AuthenticationFailed(f"a token without a user name in its claim {self._user_claim!r}")
        expires_at_s = claims["exp"]
        if not isinstance(expires_at_s, int):  # the standard allows fractions; no known server sends them
            raise AuthenticationFailed("a token whose exp is no whole number of seconds")
        return Principal(user_name, valid_until_ms=(expires_at_s + LEEWAY_S) * 1000)
