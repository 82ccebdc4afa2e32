"""Who may connect: one service for all protocols.

Passwords are checked against argon2 hashes on a thread, for that takes tens of milliseconds by design. A name that does
not exist costs the same time as a wrong password.
"""

import asyncio
import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError, VerifyMismatchError

ARGON2_PREFIX: Final = "$argon2"


@dataclass(frozen=True, slots=True)
class Principal:
    """Somebody who has been let in."""

    user_name: str  # empty: anonymous


ANONYMOUS: Final = Principal("")


class Authenticator:
    """Checks user names and passwords.

    `secrets` maps user names to argon2 hashes or, where a secret came from the environment or a file, plain passwords.
    """

    def __init__(self, *, secrets: Mapping[str, str], anonymous_listeners: frozenset[str]) -> None:
        self._secrets = dict(secrets)
        self._anonymous_listeners = anonymous_listeners
        self._hasher = PasswordHasher()
        self._decoy = self._hasher.hash("a name that does not exist")

    def admits_anonymous(self, listener: str) -> bool:
        """Return whether clients of a listener need no user name."""
        return listener in self._anonymous_listeners

    def knows(self, user_name: str) -> bool:
        """Return whether there is an account of that name."""
        return user_name in self._secrets

    async def password(self, user_name: str, password: bytes) -> Principal | None:
        """Return who this is, or None."""
        secret = self._secrets.get(user_name)
        if secret is not None and not secret.startswith(ARGON2_PREFIX):
            return Principal(user_name) if hmac.compare_digest(secret.encode(), password) else None
        matches = await asyncio.to_thread(self._verify, secret or self._decoy, password)
        return Principal(user_name) if matches and secret is not None else None

    def certificate(self, name: str) -> Principal | None:
        """Return who a verified client certificate stands for: the user of its common name."""
        return Principal(name) if name else None

    def _verify(self, secret: str, password: bytes) -> bool:
        try:
            return self._hasher.verify(secret, password)
        except (VerifyMismatchError, VerificationError, InvalidHashError):
            return False
