"""Hashes of passwords as other brokers keep them, so that accounts that come from there keep their passwords.

| form | algorithm | of |
|---|---|---|
| `$6$SALT$HASH` | SHA-512 of password and salt | mosquitto 1.x and 2.0 |
| `$7$ITERATIONS$SALT$HASH` | PBKDF2 with HMAC-SHA-512 | mosquitto 2.0 |
| `RABBITMQ-SHA-256$HASH` | SHA-256 of salt and password, behind four bytes of salt | RabbitMQ |
| `RABBITMQ-SHA-512$HASH` | likewise with SHA-512 | RabbitMQ |

Salts and hashes are in base64. RabbitMQ writes no name of the algorithm before its hashes; the prefix is ours. The
hashes of one round are quick to guess for whoever has them: a new password gets an argon2 hash.
"""

import base64
import binascii
import hashlib
import hmac
import re
from typing import Final, NamedTuple

RABBITMQ_SHA_256: Final = "RABBITMQ-SHA-256"
RABBITMQ_SHA_512: Final = "RABBITMQ-SHA-512"
ITERATIONS_MAX: Final = 1_000_000  # of PBKDF2: most of a second for each check
RABBITMQ_SALT_BYTES: Final = 4
_DECOY_SALT_BYTES: Final = 12  # as mosquitto_passwd makes them
_PREFIXES: Final = ("$6$", "$7$", f"{RABBITMQ_SHA_256}$", f"{RABBITMQ_SHA_512}$")
_BASE64: Final = "[A-Za-z0-9+/]+={0,2}"
_SHA_512: Final = re.compile(rf"(\$6)\$({_BASE64})\$({_BASE64})")
_PBKDF2: Final = re.compile(rf"(\$7\$([1-9][0-9]{{0,7}}))\$({_BASE64})\$({_BASE64})")
_RABBITMQ: Final = re.compile(rf"({RABBITMQ_SHA_256}|{RABBITMQ_SHA_512})\$({_BASE64})")


class _Hash(NamedTuple):
    kind: str  # algorithm and parameters, as they stand before the salt
    salt: bytes
    digest: bytes

    def of(self, password: bytes) -> bytes:
        """Return the digest of a password with this salt."""
        if self.kind == "$6":
            return hashlib.sha512(password + self.salt).digest()
        if self.kind.startswith("$7"):
            return hashlib.pbkdf2_hmac("sha512", password, self.salt, int(self.kind.rpartition("$")[2]))
        made = hashlib.sha256 if self.kind == RABBITMQ_SHA_256 else hashlib.sha512
        return made(self.salt + password).digest()


def is_foreign_hash(secret: str) -> bool:
    """Return whether a secret begins like one of these hashes."""
    return secret.startswith(_PREFIXES)


def foreign_kind_of(secret: str) -> str:
    """Return algorithm and parameters of a hash, as they stand before its salt."""
    if secret.startswith("$7$"):
        return secret.rsplit("$", 2)[0]
    return secret.rpartition("$")[0] if secret.startswith("RABBITMQ") else "$6"


def foreign_decoy_of(kind: str) -> str:
    """Return a hash of a kind that no password has."""
    size = 32 if kind == RABBITMQ_SHA_256 else 64
    if kind.startswith("RABBITMQ"):
        return f"{kind}${_base64(bytes(RABBITMQ_SALT_BYTES + size))}"
    return f"{kind}${_base64(bytes(_DECOY_SALT_BYTES))}${_base64(bytes(size))}"


def check_foreign_hash(secret: str) -> None:
    """Raise ValueError for a hash that is truncated or otherwise broken: no password would match it."""
    _read(secret)


def foreign_hash_matches(secret: str, password: bytes) -> bool:
    """Return whether a password is the one behind a hash. A broken hash has none."""
    try:
        found = _read(secret)
    except ValueError:
        return False
    return hmac.compare_digest(found.of(password), found.digest)


def _read(secret: str) -> _Hash:
    if parts := _SHA_512.fullmatch(secret):
        found = _Hash(parts[1], _bytes(parts[2]), _bytes(parts[3]))
    elif parts := _PBKDF2.fullmatch(secret):
        if int(parts[2]) > ITERATIONS_MAX:
            raise ValueError(
                f"a hash has {parts[2]} iterations, which take seconds for each login; allowed: 1 to {ITERATIONS_MAX}"
            )
        found = _Hash(parts[1], _bytes(parts[3]), _bytes(parts[4]))
    elif parts := _RABBITMQ.fullmatch(secret):
        raw = _bytes(parts[2])
        found = _Hash(parts[1], raw[:RABBITMQ_SALT_BYTES], raw[RABBITMQ_SALT_BYTES:])
    else:
        raise ValueError("a hash of a password is incomplete")
    size = 32 if found.kind == RABBITMQ_SHA_256 else 64
    if len(found.digest) != size:
        raise ValueError(f"a hash of a password has {len(found.digest)} bytes, and not {size}")
    return found


def _bytes(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as problem:
        raise ValueError(f"a hash of a password is not in base64: {problem}") from None


def _base64(raw: bytes) -> str:
    return base64.b64encode(raw).decode()
