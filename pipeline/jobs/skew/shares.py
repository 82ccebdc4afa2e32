"""The shares of partitions in the messages, by the gateway's own hash of keys.

Messages without a key go to any partition, so they count as spread evenly. The effect of another number of partitions
is computed from its map at rest, which is the hash modulo that number. Spark's tasks import this module for
`with_hashes`, so it imports little.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, final

import pyarrow as pa

from sluicegate.messaging.message.keys import key_hash

HASHED: Final = "hash int, messages bigint"  # the columns of `with_hashes`, as Spark writes schemas
PARTITIONS_MAX: Final = 64  # how far numbers are tried
GOOD_ENOUGH: Final = 0.9  # of what the best number could do


@final
@dataclass(frozen=True)
class PartitionShare:
    """The share of one partition."""

    number: int
    message_count: int
    payload_bytes: int
    key_count: int


@final
@dataclass(frozen=True)
class KeyShare:
    """The share of one key."""

    key: str
    message_count: int
    payload_bytes: int
    partitions: tuple[int, ...]  # several after a change of their number


@final
@dataclass(frozen=True)
class Load:
    """The load with one number of partitions."""

    partition_count: int
    busiest: float  # messages
    total: int

    @property
    def max_over_mean(self) -> float:
        """The ratio of the busiest partition's messages to those of an average one; 1 is even."""
        return self.busiest * self.partition_count / self.total

    @property
    def parallelism(self) -> float:
        """The number of consumers that could always be busy, each with as much as the busiest partition."""
        return self.total / self.busiest


@final
@dataclass(frozen=True, kw_only=True)
class SkewResult:
    """The spread of a queue's messages, of which there is at least one."""

    message_count: int
    keyless_count: int
    key_count: int
    partitions: tuple[PartitionShare, ...]  # as they are
    keys: tuple[KeyShare, ...]  # the busiest, in falling order
    tried: tuple[Load, ...]  # by number of partitions, from 1
    consumer_count: int  # to be kept busy
    alert_above: float | None

    @property
    def now(self) -> Load:
        """The load with the present partitions."""
        busiest = max(each.message_count for each in self.partitions)
        return Load(len(self.partitions), busiest, self.message_count)

    @property
    def suggested(self) -> Load:
        """The smallest number of partitions that keeps the consumers about as busy as the best number."""
        wanted = GOOD_ENOUGH * min(self.consumer_count, max(each.parallelism for each in self.tried))
        return next(each for each in self.tried if each.parallelism >= wanted)

    @property
    def is_clean(self) -> bool:
        """Whether the busiest partition is below the threshold of the file."""
        return self.alert_above is None or self.now.max_over_mean <= self.alert_above

    def figures(self) -> Mapping[str, object]:
        """Return the results, as JSON values."""
        return {
            "messages": self.message_count,
            "keyless": self.keyless_count,
            "keys": self.key_count,
            "partitions": {str(each.number): each.message_count for each in self.partitions},
            "max_over_mean": round(self.now.max_over_mean, 3),
            "busiest_keys": {each.key: each.message_count for each in self.keys[:5]},
            "suggested_partitions": self.suggested.partition_count,
            "is_clean": self.is_clean,
        }


def with_empty(found: Sequence[PartitionShare], count: int | None) -> tuple[PartitionShare, ...]:
    """Return the partitions with messages, and the empty ones between and after them.

    A queue has at least as many as the highest number says, and `count` if that is given.
    """
    by_number = {each.number: each for each in found}
    end = max([count or 0, *[number + 1 for number in by_number]])
    return tuple([by_number.get(number) or PartitionShare(number, 0, 0, 0) for number in range(end)])


def loads(by_hash: Mapping[int, int], keyless: int) -> list[Load]:
    """Return the load with each number of partitions, from the messages by key hash. There is at least one."""
    total = sum(by_hash.values()) + keyless
    made: list[Load] = []
    for count in range(1, PARTITIONS_MAX + 1):
        partitions = [keyless / count] * count
        for each, messages in by_hash.items():
            partitions[each % count] += messages
        made.append(Load(count, max(partitions), total))
    return made


def with_hashes(batches: Iterator[Any]) -> Iterator[Any]:
    """Yield batches with the hash in place of the key, which is the first of two columns."""
    for batch in batches:
        hashes = pa.array([key_hash(key) for key in batch.column(0).to_pylist()], pa.int32())
        yield pa.RecordBatch.from_arrays([hashes, batch.column(1)], names=["hash", "messages"])
