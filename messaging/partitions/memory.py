"""The node's budget for messages in memory: how much of it one partition may hold before it moves into pages."""

from typing import Final, final

from mypy_extensions import i64

PARTITION_BYTES_MAX: Final = 4 << 20  # a partition with more than this waiting is a backlog, however much is free
PARTITION_BYTES_MIN: Final = 64 << 10  # two pages: less would page what consumers are about to take


@final
class MemoryBudget:
    """Bytes of message batches held by all partitions together. Shared on the node's loop."""

    def __init__(self, *, bytes_max: i64) -> None:
        self.bytes_max = bytes_max
        self.used_bytes: i64 = 0

    def count(self, change: i64) -> None:
        """Note that a partition holds more, or less."""
        self.used_bytes += change

    def share(self) -> i64:
        """Return how much one partition may hold now. It shrinks as the budget fills, and never reaches zero."""
        free = self.bytes_max - self.used_bytes
        if free <= 0:
            return PARTITION_BYTES_MIN
        return min(PARTITION_BYTES_MAX, max(PARTITION_BYTES_MIN, free // 4))
