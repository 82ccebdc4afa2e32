"""An authorization server for tests: a key pair, the key set that a gateway is given, and the tokens it signs."""

import json
from pathlib import Path
from typing import Any, Final

from joserfc import jwt
from joserfc.jwk import ECKey, OctKey

ISSUER: Final = "https://login.example"
AUDIENCE: Final = "sluicegate"
FAR_S: Final = 4_000_000_000  # in the year 2096


class TokenServer:
    """Signs with one key, whose public half is in `jwks_file`."""

    def __init__(self, folder: Path) -> None:
        self.jwks_file = folder / "keys.json"
        self._rotations = 0
        self.rotate()

    def rotate(self) -> None:
        """Sign with a new key from now on, and forget the old one."""
        self._rotations += 1
        self._kid = f"k{self._rotations}"
        self._key = ECKey.generate_key("P-256", {"kid": self._kid})
        self.keys_text = json.dumps({"keys": [self._key.as_dict(private=False)]})
        self.jwks_file.write_text(self.keys_text)

    @property
    def settings(self) -> tuple[str, ...]:
        """Return the settings of a gateway that trusts this server."""
        return (
            f"authentication.oauth.jwks_file={self.jwks_file}",
            f"authentication.oauth.issuer={ISSUER}",
            f"authentication.oauth.audience={AUDIENCE}",
        )

    def token(self, **claims: Any) -> str:
        """Return a token for `ada`, valid for long, unless the claims say otherwise; a claim of None is left out."""
        whole = {"sub": "ada", "iss": ISSUER, "aud": AUDIENCE, "exp": FAR_S, **claims}
        return jwt.encode(
            {"alg": "ES256", "kid": self._kid}, {name: its for name, its in whole.items() if its is not None}, self._key
        )

    def token_by_secret(self) -> str:
        """Return a token that is signed with the text of the public key as if that were a shared secret."""
        secret = OctKey.import_key(self.keys_text)
        return jwt.encode({"alg": "HS256", "kid": "k1"}, {"sub": "ada", "iss": ISSUER, "exp": FAR_S}, secret)


def bearer(token: str, user: str = "") -> bytes:
    """Return the initial response of OAUTHBEARER."""
    return f"n,{f'a={user}' if user else ''},\x01host=h\x01port=5671\x01auth=Bearer {token}\x01\x01".encode()


def xoauth2(token: str, user: str = "ada") -> bytes:
    """Return the initial response of XOAUTH2."""
    return f"user={user}\x01auth=Bearer {token}\x01\x01".encode()
