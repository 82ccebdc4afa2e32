"""Check the form of secrets that come from another broker: whole, of a known form, and not too costly to check.

A login takes as long as the check of the account's hash, and as much memory. So the parameters have limits.
"""

import base64
import binascii
import re
from typing import Final

from sluicegate.protocols.security.account_secrets import ARGON2_PREFIX, SCRAM_KEY_BYTES, scram_of
from sluicegate.protocols.security.password_hashes import check_foreign_hash, is_foreign_hash
from sluicegate.protocols.security.scram import ITERATIONS_MAX, read_stored

HASH_CHARS_MAX: Final = 1024  # ours have about 100
HASH_FORMS: Final = "a hash that begins with $argon2, $6$, $7$, SCRAM-SHA- or RABBITMQ-SHA-"
SCRAM_FORMS: Final = "SCRAM-SHA-256$ITERATIONS:SALT$STORED_KEY:SERVER_KEY, or the same of SCRAM-SHA-512"
SCRAM_ITERATIONS_MIN: Final = 4096  # RFC 5802, section 5.1
ARGON2_COST_KIB_MAX: Final = 2 << 20  # memory times passes: about two seconds of a processor. RFC 9106: one of 2 GiB
ARGON2_LANES_MAX: Final = 64

_BASE64: Final = "[A-Za-z0-9+/]+"
_ARGON2: Final = re.compile(
    rf"\$argon2(?:id|i|d)\$v=(?:16|19)\$m=([1-9][0-9]{{0,9}}),t=([1-9][0-9]{{0,9}}),p=([1-9][0-9]{{0,5}})"
    rf"\$({_BASE64})\$({_BASE64})"
)
_SALT_BYTES_MIN: Final = 8  # of argon2
_DIGEST_BYTES_MIN: Final = 4


def check_password_hash(secret: str) -> None:
    """Raise ValueError for a text that is no whole hash of a password. The hash does not stand in the error."""
    if secret.startswith(ARGON2_PREFIX):
        _check_argon2(secret)
    elif scram_of(secret):
        check_scram_secret(secret)
    elif is_foreign_hash(secret):
        check_foreign_hash(secret)
    else:
        raise ValueError("it has the form of no hash of a password")


def check_scram_secret(secret: str) -> None:
    """Raise ValueError for a text that is not the whole stored form of a SCRAM secret, likewise."""
    if not scram_of(secret):
        raise ValueError("it is not the stored form of a SCRAM secret")
    _, stored_key, server_key, iterations = read_stored(secret)
    size = SCRAM_KEY_BYTES[scram_of(secret)]
    if len(stored_key) != size or len(server_key) != size:
        raise ValueError(f"its keys have {len(stored_key)} and {len(server_key)} bytes, and not {size}")
    if not SCRAM_ITERATIONS_MIN <= iterations <= ITERATIONS_MAX:
        raise ValueError(f"it has {iterations} iterations; allowed: {SCRAM_ITERATIONS_MIN} to {ITERATIONS_MAX}")


def _check_argon2(secret: str) -> None:
    parts = _ARGON2.fullmatch(secret)
    if parts is None:
        raise ValueError("a hash of argon2 is incomplete")
    memory_kib, passes, lanes = (int(parts[number]) for number in (1, 2, 3))
    if memory_kib * passes > ARGON2_COST_KIB_MAX or lanes > ARGON2_LANES_MAX or memory_kib < 8 * lanes:
        raise ValueError(
            f"a hash of argon2 has m={memory_kib},t={passes},p={lanes}; allowed: m times t of at most "
            f"{ARGON2_COST_KIB_MAX}, p of at most {ARGON2_LANES_MAX}, and m of at least 8 times p"
        )
    for text, least in ((parts[4], _SALT_BYTES_MIN), (parts[5], _DIGEST_BYTES_MIN)):
        try:
            raw = base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
        except binascii.Error as problem:
            raise ValueError(f"a hash of argon2 is not in base64: {problem}") from None
        if len(raw) < least:
            raise ValueError("a hash of argon2 is incomplete")
