"""Check the form of secrets that come from another broker: whole, of a known form, and not too costly to check.

Every login of a set of accounts takes as long as a check of each kind of hash among them, and as much memory
(`account_secrets`). So parameters have limits, and so have the kinds of one set. The configuration may exceed them.
"""

import base64
import binascii
import re
from collections.abc import Collection
from typing import Final

from sluicegate.protocols.security.account_secrets import (
    ARGON2_PREFIX,
    SCRAM_KEY_BYTES,
    check_us,
    cost_of,
    kind_of,
    scram_of,
    standard_kind,
)
from sluicegate.protocols.security.password_hashes import check_foreign_hash, is_foreign_hash
from sluicegate.protocols.security.scram import ITERATIONS_MAX, read_stored

HASH_CHARS_MAX: Final = 1024  # ours have about 100
HASH_FORMS: Final = "a hash that begins with $argon2, $6$, $7$, SCRAM-SHA- or RABBITMQ-SHA-"
SCRAM_FORMS: Final = "SCRAM-SHA-256$ITERATIONS:SALT$STORED_KEY:SERVER_KEY, or the same of SCRAM-SHA-512"
SCRAM_ITERATIONS_MIN: Final = 4096  # RFC 5802, section 5.1
ARGON2_COST_KIB_MAX: Final = 1 << 20  # memory times passes: about a second of a processor, as ITERATIONS_MAX
ARGON2_LANES_MAX: Final = 64
KINDS_MAX: Final = 8  # of one set of accounts. All forms of hashes together are seven
KINDS_US_MAX: Final = 2_000_000  # of a processor for one check of each kind

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


def check_kind(secret: str, present: Collection[str], *, memory_bytes_max: int) -> None:
    """Raise ValueError for a hash whose kind would make every login of its accounts too costly.

    `present` are the kinds of the other accounts. The standard kind is always allowed: a password gets such a hash.
    """
    kind = kind_of(secret)
    if kind in present or kind == standard_kind():
        return
    memory_bytes = cost_of(secret).memory_bytes
    if memory_bytes > memory_bytes_max:
        raise ValueError(
            f"its check takes {memory_bytes} bytes; allowed: limits.login_memory_bytes_max, which is {memory_bytes_max}"
        )
    kinds = {*present, kind}
    if len(kinds) > KINDS_MAX:
        raise ValueError(
            f"its algorithm and parameters, {kind}, would be a further kind of hash in the message VPN, and a login "
            f"takes a check of each; allowed: one of the {len(present)} present kinds, or {KINDS_MAX} kinds in all"
        )
    total_us = sum(check_us(each) for each in kinds)
    if total_us > KINDS_US_MAX:
        raise ValueError(
            f"with it, each login would take about {total_us / 1e6:.1f} s of a processor for one check of each kind of "
            f"hash in the message VPN; allowed: {KINDS_US_MAX / 1e6:.0f} s"
        )


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
