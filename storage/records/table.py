"""A row of a table (catalog, retained, sessions): any key, any value, under one checksum.

LMDB limits keys to 511 bytes, and a topic may be longer. So the stored key of a row is its own key up to 494 bytes, and
beyond that its first 479 bytes and a blake2b of the whole key in 32: 511 in all, which no short key reaches. The row
also contains its own key, so the checksum binds value to key. Sealed (`seal`) as kind SGT, version 1; content: the key
as `bytes` (`fields`), then the value to the end.
"""

import hashlib
from typing import Final

from sluicegate.storage.errors import DamagedRecord
from sluicegate.storage.records.fields import put_bytes, take_bytes
from sluicegate.storage.records.seal import SEAL_BYTES, seal, unseal_whole

ROW_KIND: Final = b"SGT"
ROW_FORMAT: Final = 1

_STORED_KEY_BYTES: Final = 511  # LMDB's MDB_MAXKEYSIZE as built by default
_DIGEST_BYTES: Final = 32  # cryptographic: a client that chose a colliding topic would overwrite another's row
_SHORT_KEY_BYTES_MAX: Final = 494


def stored_key(key: bytes) -> bytes:
    """Return the stored key of a row. Raises ValueError for an empty key."""
    if not key:
        raise ValueError("a table row needs a key")
    if len(key) <= _SHORT_KEY_BYTES_MAX:
        return key
    return key[: _STORED_KEY_BYTES - _DIGEST_BYTES] + hashlib.blake2b(key, digest_size=_DIGEST_BYTES).digest()


def is_shortened(stored: bytes) -> bool:
    """Return whether a stored key is not the whole key of its row."""
    return len(stored) > _SHORT_KEY_BYTES_MAX


def encode_row(key: bytes, value: bytes) -> bytes:
    """Return the row's bytes."""
    out: list[bytes] = []
    put_bytes(out, key)
    out.append(value)
    return seal(ROW_KIND, ROW_FORMAT, b"".join(out))


def decode_row(data: bytes, where: str = "table row") -> tuple[bytes, bytes]:
    """Return key and value. Raises DamagedRecord and UnsupportedFormat."""
    unseal_whole(data, ROW_KIND, ROW_FORMAT, where)
    try:
        key, offset = take_bytes(data, SEAL_BYTES)
    except (IndexError, ValueError) as error:
        raise DamagedRecord(where, f"its key cannot be read: {error}") from error
    return key, data[offset:]
