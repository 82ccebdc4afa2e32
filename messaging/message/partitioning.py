"""From a partition key to a partition: the 16-bit key hash and the map of hash slots.

The hash is stored with the message, so that re-routing after a rescale or into a dead message queue needs no key.
"""

from typing import Final

import xxhash

HASH_SLOTS: Final = 1 << 16


def key_hash(partition_key: str) -> int:
    """Return the 16-bit hash of a partition key: xxh3_64 of its UTF-8 bytes, folded by exclusive or."""
    wide: int = xxhash.xxh3_64_intdigest(partition_key.encode())
    wide ^= wide >> 32
    return (wide ^ (wide >> 16)) & 0xFFFF
