"""How messages fall to partitions: laws of the arithmetic behind the job `skew`."""

from hypothesis import given
from hypothesis import strategies as st

from messaging.partitioning import HASH_SLOTS
from pipeline.skew.shares import KeyShare, PartitionShare, SkewResult, loads


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
