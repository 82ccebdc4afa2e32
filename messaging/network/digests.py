"""Sets that two brokers compare by digests.

Every item has a hash of 64 bits, whose first byte is its bucket. The digest of a bucket is the sum of its hashes modulo
2^64: it depends on no order, and changes with one addition. Two brokers compare 256 digests after a break, and send
again only what is in the buckets that differ.
"""

from typing import Final, Generic, TypeVar

T = TypeVar("T")

BUCKETS: Final = 256
DIGEST_MASK: Final = (1 << 64) - 1
_BUCKET_SHIFT: Final = 56


def bucket_of(item_hash: int) -> int:
    """Return the bucket of an item with this hash."""
    return item_hash >> _BUCKET_SHIFT


def in_bucket(bucket_hash: int, item_hash: int) -> int:
    """Return the hash of an item, moved into the bucket of another hash."""
    return bucket_hash >> _BUCKET_SHIFT << _BUCKET_SHIFT | item_hash & (1 << _BUCKET_SHIFT) - 1


def digest_of(digests: list[int]) -> int:
    """Return the digest of a whole set."""
    return sum(digests) & DIGEST_MASK


class DigestSet(Generic[T]):
    """Items by bucket, with digests. Invariant: `digests[b]` is the sum of the hashes in bucket b."""

    def __init__(self) -> None:
        self.digests: Final[list[int]] = [0] * BUCKETS
        self.count = 0
        self._buckets: Final[list[dict[T, int]]] = [{} for _ in range(BUCKETS)]  # with the hash of each

    def put(self, item: T, item_hash: int) -> bool:
        """Add an item; return whether it is new. One that is there keeps its hash."""
        number = bucket_of(item_hash)
        bucket = self._buckets[number]
        if item in bucket:
            return False
        bucket[item] = item_hash
        self.digests[number] = (self.digests[number] + item_hash) & DIGEST_MASK
        self.count += 1
        return True

    def remove_from(self, number: int, item: T) -> bool:
        """Remove an item from a bucket; return whether it was there."""
        item_hash = self._buckets[number].pop(item, None)
        if item_hash is None:
            return False
        self.digests[number] = (self.digests[number] - item_hash) & DIGEST_MASK
        self.count -= 1
        return True

    def is_in(self, number: int, item: T) -> bool:
        """Return whether an item is in a bucket."""
        return item in self._buckets[number]

    def bucket(self, number: int) -> list[T]:
        """Return the items of a bucket."""
        return list(self._buckets[number])

    def bucket_count(self, number: int) -> int:
        """Return the number of items in a bucket."""
        return len(self._buckets[number])

    def all(self) -> list[T]:
        """Return all items, by bucket."""
        return [item for bucket in self._buckets for item in bucket]
