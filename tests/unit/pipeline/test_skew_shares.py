"""How messages fall to partitions: laws of the arithmetic behind the job `skew`."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from sluicegate.messaging.message.keys import HASH_SLOTS
from sluicegate.pipeline.jobs.skew.shares import KeyShare, PartitionShare, SkewResult, loads, with_empty


def result(by_hash: dict[int, int], keyless: int, consumers: int) -> SkewResult:
    total = sum(by_hash.values()) + keyless
    return SkewResult(
        message_count=total,
        keyless_count=keyless,
        key_count=len(by_hash),
        partitions=(PartitionShare(0, total, total, len(by_hash)),),
        keys=tuple(KeyShare(str(each), count, count, (0,)) for each, count in by_hash.items()),
        tried=tuple(loads(by_hash, keyless)),
        consumer_count=consumers,
        alert_above=None,
    )


@given(
    by_hash=st.dictionaries(st.integers(0, HASH_SLOTS - 1), st.integers(1, 1_000), min_size=1, max_size=60),
    keyless=st.integers(0, 1_000),
    consumers=st.integers(1, 64),
)
def test_no_number_of_partitions_beats_the_hottest_key(by_hash: dict[int, int], keyless: int, consumers: int) -> None:
    found = result(by_hash, keyless, consumers)
    hottest = max(by_hash.values())
    for load in found.tried:
        assert load.max_over_mean >= 1 - 1e-9
        assert load.parallelism <= min(load.partition_count, found.message_count / hottest) + 1e-9
    assert found.tried[0].max_over_mean == 1
    best = max(each.parallelism for each in found.tried)
    assert found.suggested.parallelism >= 0.9 * min(consumers, best) - 1e-9
    assert all(
        each.parallelism < 0.9 * min(consumers, best) for each in found.tried[: found.suggested.partition_count - 1]
    )


def test_messages_without_keys_are_spread_evenly() -> None:
    found = result({}, 100, 8)
    assert {round(each.max_over_mean, 6) for each in found.tried} == {1.0}
    assert found.suggested.partition_count == 8


def test_partitions_in_which_nothing_came_count_where_messages_are_spread() -> None:
    """All in one of four is the worst there is, and not as even as one of one."""
    third = PartitionShare(2, 100, 100, 1)
    for count, partition_count in ((None, 3), (4, 4), (2, 3)):
        found = replace(result({2: 100}, 0, 4), partitions=with_empty([third], count), alert_above=2.0)
        assert (found.now.partition_count, found.now.max_over_mean) == (partition_count, partition_count)
        assert found.partitions[2] is third
        assert not found.is_clean
