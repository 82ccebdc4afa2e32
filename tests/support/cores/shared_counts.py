"""Brokers of a machine that share their limits, in one process."""

from contextlib import nullcontext

from sluicegate.messaging.limits.counts import ROW_WORDS, WORD_BYTES, SharedCounts, Words

ROWS = 256


def shared_words(brokers_count: int) -> Words:
    """Return memory with a small table for each broker."""
    return memoryview(bytearray(brokers_count * ROWS * ROW_WORDS * WORD_BYTES)).cast("q")


def counts_at(words: Words, place: int, brokers_count: int) -> SharedCounts:
    """Return the counts as a broker sees them that has just been started."""
    return SharedCounts(words, place=place, brokers_count=brokers_count, lock=nullcontext())


def running_brokers(words: Words, brokers_count: int) -> list[SharedCounts]:
    """Return the counts of brokers that all run."""
    brokers = [counts_at(words, place, brokers_count) for place in range(brokers_count)]
    for each in brokers:
        each.publish()
    return brokers
