"""The records that keep the log: which is the first, how much lies behind it, and what to move out of the way."""

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from sluicegate.storage.commit.journal import LogIndex
from support.cores.spool_steps import P, Q, publication_to


def index_of(*needed_by_record: list[int]) -> LogIndex:
    """Return an index of records of 10 bytes: of each, the partitions of its publications."""
    index = LogIndex()
    for number, partition_ids in enumerate(needed_by_record, 1):
        index.add(number, [publication_to({each: 1}) for each in partition_ids], record_bytes=10)
    return index


def test_a_log_that_nothing_needs_is_needed_from_its_end() -> None:
    index = index_of([], [])

    assert index.needed_from(3) == 3
    assert index.needed_bytes() == 0


def test_the_first_needed_record_keeps_everything_behind_it() -> None:
    index = index_of([], [P], [], [Q])

    assert index.needed_from(5) == 2
    assert index.needed_bytes() == 30


def test_the_head_goes_with_the_last_publication_that_needs_it() -> None:
    index = index_of([P, Q], [P], [P])
    assert not index.released(2)
    assert not index.released(1)
    assert index.needed_from(4) == 1

    assert index.released(1)
    assert index.needed_from(4) == 3
    assert index.needed_bytes() == 10


def test_a_record_that_is_not_there_is_released_in_vain() -> None:
    """Of a failed commit, or of one whose publications were all settled."""
    index = index_of([P])

    assert not index.released(0)
    assert not index.released(9)
    assert index.needed_from(2) == 1


def test_a_record_that_was_not_written_is_taken_back() -> None:
    index = index_of([P], [Q])
    index.take_back(2)
    index.take_back(2)

    assert not index.released(2)
    assert index.released(1)
    assert index.needed_from(3) == 3


def test_a_checkpoint_is_not_told_of_a_record_that_it_may_not_include() -> None:
    """The newest record is being written: the state does not know of it yet."""
    index = index_of([], [P])

    assert index.needed_from(2) == 2
    assert index.needed_from(1) == 1


def test_one_more_user_of_a_record_keeps_it() -> None:
    index = index_of([P])
    index.readopt(1)
    index.readopt(7)  # it is gone

    assert not index.released(1)
    assert index.released(1)


def test_those_that_keep_the_head_are_named_and_those_behind_a_share_are_not() -> None:
    index = index_of([P], [Q], [7], [8])
    assert index.page_out(records=2, size=1000) == (2, {P, Q})
    assert index.page_out(records=1000, size=20) == (2, {P, Q})
    assert index.page_out(records=1, size=1) == (1, {P}), "at least one"

    index.released(2)
    assert index.page_out(records=2, size=1000) == (2, {P})
    assert LogIndex().page_out(records=2, size=20) == (0, set())


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 50)), max_size=40), st.randoms(use_true_random=False))
def test_the_first_needed_record_is_that_of_a_plain_count(records: list[tuple[int, int]], rng: Random) -> None:
    index = LogIndex()
    needed: dict[int, int] = {}
    starts: dict[int, int] = {}
    end = 0
    for number, (count, size) in enumerate(records, 1):
        index.add(number, [publication_to({P: 1}) for _ in range(count)], size)
        needed[number], starts[number] = count, end
        end += size
    users = [number for number, count in needed.items() for _ in range(count)]
    rng.shuffle(users)
    for number in users:
        index.released(number)
        needed[number] -= 1
        first = min([each for each, count in needed.items() if count], default=0)
        assert index.needed_from(len(records) + 1) == (first or len(records) + 1)
        assert index.needed_bytes() == (end - starts[first] if first else 0)
