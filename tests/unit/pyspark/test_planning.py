"""From what waits to batches and tasks: nothing is left out, nothing is read twice."""

from hypothesis import given
from hypothesis import strategies as st

from pyspark_sluicegate.reading.planning import RangeToRead, cut, group, share_rows

waiting = st.dictionaries(st.integers(0, 40), st.integers(0, 10_000), max_size=20)
ranges = st.lists(st.tuples(st.integers(1, 1000), st.integers(1, 500)), max_size=15).map(
    lambda found: [RangeToRead(at, first, first + count) for at, (first, count) in enumerate(found)]
)


@given(waiting, st.integers(1, 20_000))
def test_shares_add_up_to_the_limit_or_to_all_there_is(counts: dict[int, int], rows_max: int) -> None:
    shares = share_rows(counts, rows_max)
    assert sum(shares.values()) == min(rows_max, sum(counts.values()))
    assert all(0 < share <= counts[partition] for partition, share in shares.items())


@given(waiting, st.integers(1, 20_000))
def test_no_partition_with_messages_is_skipped_while_the_limit_goes_round(
    counts: dict[int, int], rows_max: int
) -> None:
    present = [partition for partition, count in counts.items() if count]
    if rows_max >= len(present):
        assert set(share_rows(counts, rows_max)) == set(present)


def test_shares_are_in_proportion() -> None:
    assert share_rows({0: 901, 1: 101}, 102) == {0: 91, 1: 11}
    assert share_rows({0: 5, 1: 7}, 0) == {0: 5, 1: 7}


@given(ranges, st.integers(0, 60))
def test_pieces_are_what_was_cut(found: list[RangeToRead], split_rows: int) -> None:
    pieces = cut(found, split_rows)
    assert _sequences(pieces) == _sequences(found)
    if split_rows:
        assert all(0 < piece.count <= split_rows for piece in pieces)


@given(ranges, st.integers(0, 20))
def test_tasks_read_everything_once_and_in_order_of_partitions(found: list[RangeToRead], tasks_max: int) -> None:
    tasks = group(found, tasks_max)
    assert sorted(_sequences([each for task in tasks for each in task])) == sorted(_sequences(found))
    assert all(task == sorted(task, key=lambda each: (each.partition, each.first)) for task in tasks)
    if tasks_max:
        assert len(tasks) <= tasks_max


def test_tasks_are_about_as_long_as_each_other() -> None:
    tasks = group([RangeToRead(0, 1, 101), RangeToRead(1, 1, 61), RangeToRead(2, 1, 51)], 2)
    assert [[each.partition for each in task] for task in tasks] == [[0], [1, 2]]


def _sequences(found: list[RangeToRead]) -> list[tuple[int, int]]:
    return [(each.partition, sequence) for each in found for sequence in range(each.first, each.end)]
