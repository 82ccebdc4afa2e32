"""The seal: the envelope around every record at rest, which distinguishes damage from foreign formats.

    offset  type  field
    0       3 B   kind: SGJ journal record, SGP page, SGD page directory row, SGK links of a page, SGC cursor,
                  SGT table row, SGQ quarantined record, SGM the store itself
    3       u8    format version of the content
    4       u32   content bytes
    8       u64   xxh3_64 of the content, seeded with kind and version
    16            content

Integers are little-endian, here and in every content. The seal itself never changes between releases. So a flipped
version byte (damage: the checksum fails) is distinguishable from a newer release's record (an intact one).
"""

import struct
from typing import Final

import xxhash

from sluicegate.storage.errors import DamagedRecord, UnsupportedFormat

SEAL_BYTES: Final = 16
CONTENT_BYTES_MAX: Final = 0xFFFF_FFFF - 4096  # LMDB's largest value is 4 GiB less one; the rest is room for seals

_SEAL: Final = struct.Struct("<3sBIQ")


def seal(kind: bytes, version: int, content: bytes) -> bytes:
    """Return the content in its envelope. Raises ValueError when it is larger than a record can be."""
    if len(content) > CONTENT_BYTES_MAX:
        raise ValueError(f"a record of {len(content)} bytes; the largest has {CONTENT_BYTES_MAX}")
    return _SEAL.pack(kind, version, len(content), _checksum(kind, version, content)) + content


def mismatched(sealed: bytes) -> bytes:
    """Return a sealed record with a checksum that does not match: for content that came damaged, and stays readable."""
    return sealed[: SEAL_BYTES - 1] + bytes([sealed[SEAL_BYTES - 1] ^ 0xFF]) + sealed[SEAL_BYTES:]


def sealed_version(data: bytes, offset: int) -> int:
    """Return the format version that a checked seal at `offset` names."""
    return data[offset + 3]


def is_sealed_as(data: bytes, kind: bytes, version: int) -> bool:
    """Return whether data with a failing checksum have the length, kind and version of a whole record."""
    if len(data) < SEAL_BYTES:
        return False
    fields: tuple[bytes, int, int, int] = _SEAL.unpack_from(data)
    found_kind, found_version, content_bytes, _ = fields
    return found_kind == kind and found_version == version and content_bytes == len(data) - SEAL_BYTES


def unseal(data: bytes, offset: int, kind: bytes, version: int, where: str, *, oldest: int = 0) -> int:
    """Check the seal at `offset` and return where its content ends; the content begins at `offset + SEAL_BYTES`.

    The content has `version`, or with `oldest` above 0 any version from `oldest` to `version`. Raises DamagedRecord and
    UnsupportedFormat.
    """
    if len(data) - offset < SEAL_BYTES:
        raise DamagedRecord(where, f"{len(data) - offset} bytes are left, a seal has {SEAL_BYTES}")
    fields: tuple[bytes, int, int, int] = _SEAL.unpack_from(data, offset)
    found_kind, found_version, content_bytes, checksum = fields
    if found_kind != kind:
        raise DamagedRecord(where, f"it begins with {found_kind!r} instead of {kind!r}")
    start = offset + SEAL_BYTES
    end = start + content_bytes
    if end > len(data):
        raise DamagedRecord(where, f"its seal promises {content_bytes} bytes, {len(data) - start} are there")
    if _checksum(kind, found_version, memoryview(data)[start:end]) != checksum:
        raise DamagedRecord(where, f"the checksum of its {content_bytes} bytes does not match")
    if found_version != version and not 0 < oldest <= found_version < version:
        raise UnsupportedFormat(found_version, version, where)
    return end


def unseal_whole(data: bytes, kind: bytes, version: int, where: str, *, oldest: int = 0) -> None:
    """Check a seal that must cover `data` from first to last byte."""
    end = unseal(data, 0, kind, version, where, oldest=oldest)
    if end != len(data):
        raise DamagedRecord(where, f"{len(data) - end} bytes follow its end")


def _checksum(kind: bytes, version: int, content: bytes | memoryview) -> int:
    seed = int.from_bytes(kind, "little") << 8 | version
    return xxhash.xxh3_64_intdigest(content, seed)
