"""What is kept beyond its settlement: all that somebody needs, nothing else, and consumers do not notice."""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sluicegate.messaging.message.outcomes import ACCEPTED, DISCARD_NOT_STORED, FAILED, RELEASED
from sluicegate.messaging.partitions.recovery import StoredPage, StoredPartition, restore
from sluicegate.messaging.partitions.state.segments import GAP_SETTLED, UNKNOWN_MARKS, Gap
from support.cores.logged_partition import PARTITION_ID, LoggedPartition
from support.cores.messages import batch_of, numbered
from support.thorough import examples

WHAT = [
    *["append", "append", "append unstored", "journal", "page out", "plan", "write", "deliver", "deliver"],
    *["accept", "accept", "accept", "fail", "release", "hold", "let go", "keep", "keep nothing"],
]
STEPS = st.lists(
    st.tuples(
        st.sampled_from(WHAT),
        st.integers(1, 20),
        st.integers(1, 12),
    ),
    max_size=50,
)
OUTCOMES = {"accept": ACCEPTED, "fail": FAILED, "release": RELEASED}


class Steps:
    """Carries out drawn steps, and knows which sequences somebody may read."""

    def __init__(self, *, with_log: bool, limit: int, page_bytes: int) -> None:
        self.with_log = with_log
        self.page_bytes = page_bytes
        self.partition = LoggedPartition(limit=limit)
        self.planned = self.partition.plan(page_bytes=1)
        self.settled_before: set[int] = set()  # before anything was kept: nobody may read these any more

    def take(self, step: str, first: int, count: int) -> None:
        was_active = self.partition.log.active
        self._take(step, first, count)
        if self.partition.log.active and not was_active:
            self.settled_before = set(range(self.partition.ledger.next_sequence)) - self.unsettled()

    def unsettled(self) -> set[int]:
        ledger = self.partition.ledger
        ranges = ledger.settled.outside(ledger.floor, ledger.next_sequence)
        return {each for first, stop in ranges for each in range(first, stop)}

    def _take(self, step: str, first: int, count: int) -> None:
        partition = self.partition
        match step:
            case "append" | "append unstored":
                partition.append(numbered(count), stored=step == "append")
            case "journal":
                partition.journal()
            case "page out":
                if not self.planned:
                    partition.page_out(page_bytes=self.page_bytes)
            case "plan":
                self.planned = self.planned or partition.plan(page_bytes=self.page_bytes)
            case "write":
                for plan in self.planned:
                    partition.written(plan)
                self.planned = []
            case "deliver":
                partition.deliver()
            case "accept" | "fail" | "release":
                partition.settle(first, first + count, OUTCOMES[step])
            case _ if self.with_log:
                self.change_log(step, first)
        partition.look_after()

    def change_log(self, step: str, first: int) -> None:
        partition = self.partition
        held = partition.log.holds.get("reader")
        if step == "hold":
            low = partition.log.low() if held is None else held
            partition.log.hold("reader", max(low, first))
        elif step == "let go":
            partition.log.release("reader")
        else:
            partition.rules.size_bytes = 300 if step == "keep" else 0

    def check_reading(self) -> None:
        """Everything unsettled and everything held can be read; what cannot is told as a gap, once."""
        partition = self.partition
        end = partition.ledger.next_sequence
        at = 1
        seen: set[int] = set()
        while at < partition.log.synced_end():
            found, gaps, next_at = partition.read(at, end, bytes_max=300)
            told = [sequence for gap in gaps for sequence in range(gap.first, gap.end)]
            assert sorted([*found, *told]) == list(range(at, next_at)), "each sequence once"
            assert found == {sequence: partition.payloads[sequence] for sequence in found}
            seen |= found.keys()
            at = next_at
        wanted = self.unsettled()
        held_from = partition.log.holds.get("reader", end)
        if partition.log.active:
            wanted |= set(range(max(held_from, partition.log.low()), end)) - self.settled_before
        assert {each for each in wanted if each < partition.log.synced_end()} <= seen


@example(
    steps=[("append", 1, 1), ("append", 1, 1), ("deliver", 1, 1), ("accept", 2, 1), ("hold", 1, 1)],
    page_bytes=1,
    limit=4,
)
@settings(max_examples=examples(300), deadline=None)
@given(steps=STEPS, page_bytes=st.sampled_from([1, 10, 50]), limit=st.sampled_from([1, 4, 100]))
def test_consumers_see_the_same_with_a_log_and_without_and_nothing_is_left_over(
    steps: list[tuple[str, int, int]], page_bytes: int, limit: int
) -> None:
    """Goal: the log is invisible, complete, and lets go of all. Method: the same steps with and without, compared."""
    logged = Steps(with_log=True, limit=limit, page_bytes=page_bytes)
    plain = Steps(with_log=False, limit=limit, page_bytes=page_bytes)
    for step in steps:
        logged.take(*step)
        plain.take(*step)
        logged.check_reading()
    for each in (logged, plain):
        partition = each.partition
        each.take("write", 1, 1)
        while partition.ledger.waiting_count:
            partition.deliver()
            partition.settle(1, partition.ledger.next_sequence, ACCEPTED)
        partition.log.release("reader")
        partition.rules.size_bytes = 0
        partition.look_after()
        assert partition.stored == {}
        assert {id(publication) for publication in partition.drained} == {id(each) for each in partition.published}
        assert len(partition.drained) == len(partition.published), "drained once"
        assert partition.log.memory_bytes == partition.ledger.memory_bytes == 0
    assert logged.partition.seen == plain.partition.seen


def kept_partition(*, size_bytes: int = 0, time_ms: int = 0) -> LoggedPartition:
    """A partition that keeps what is settled within these bounds."""
    partition = LoggedPartition()
    partition.rules.size_bytes = size_bytes
    partition.rules.time_ms = time_ms
    partition.look_after()
    return partition


def usage_of(payload: bytes) -> int:
    """Return what a durable queue counts for a message of this payload."""
    return batch_of([payload]).usage_bytes(durable=True)


def settle_all(partition: LoggedPartition) -> None:
    partition.deliver()
    partition.settle(1, partition.ledger.next_sequence, ACCEPTED)
    partition.look_after()


def test_retained_messages_are_written_although_their_consumers_were_fast() -> None:
    """Decision 0023 elides what is settled before its commit; what somebody is to read later cannot be."""
    partition = kept_partition(size_bytes=10_000)
    publication = partition.append(numbered(3), stored=False)
    settle_all(partition)

    assert publication.open_count == 3
    assert not publication.may_be_spared(), "nor is there anybody to be given time for it"
    partition.journal()
    assert partition.read(1, 4)[0] == {1: b"1", 2: b"2", 3: b"3"}


def test_the_oldest_go_first_when_the_size_is_exceeded() -> None:
    partition = kept_partition(size_bytes=2 * usage_of(b"x" * 10) + 5)
    for _ in range(4):
        partition.append(batch_of([b"x" * 10]))
    partition.page_out(page_bytes=1)
    settle_all(partition)

    assert partition.log.low() == 3
    assert sorted(partition.stored) == [3, 4]
    assert partition.log.settled_bytes() == 2 * usage_of(b"x" * 10)
    assert partition.read(1, 5)[1] == [Gap(1, 3, GAP_SETTLED)]


def test_waiting_messages_are_kept_beyond_the_limit_and_block_no_later_ones() -> None:
    partition = kept_partition(size_bytes=usage_of(b"x" * 10))
    for _ in range(5):
        partition.append(batch_of([b"x" * 10]))
    partition.deliver()
    partition.settle(2, 6, ACCEPTED)
    partition.look_after()

    assert list(partition.read(1, 6)[0]) == [1, 5]


def test_time_is_counted_from_arrival() -> None:
    partition = kept_partition(time_ms=1000)
    partition.wall_ms = 5000
    for _ in range(2):
        batch = numbered(1)
        batch.received_ms = partition.wall_ms
        partition.append(batch)
        partition.wall_ms += 800
    settle_all(partition)
    assert partition.log.low() == 1

    partition.wall_ms = 6900
    partition.look_after()

    assert partition.log.low() == 3


def test_messages_paged_before_retention_began_go_when_their_time_is_over() -> None:
    partition = LoggedPartition()
    for second in range(1, 7):
        partition.append(numbered(1).arriving(1000 * second))
        if second < 5:
            partition.page_out(page_bytes=1)
    partition.rules.time_ms = 1000
    partition.wall_ms = 7000
    partition.look_after()
    settle_all(partition)
    assert partition.log.low() == 5, "the sixth may have come with the newest of the fifth"

    partition.append(numbered(1).arriving(9000))
    partition.wall_ms = 9500
    settle_all(partition)

    assert partition.log.low() == 6


def test_a_page_is_kept_until_the_time_of_its_newest_message_is_over() -> None:
    partition = kept_partition(time_ms=1000)
    for tick in range(1, 7):
        partition.append(numbered(1).arriving(500 * tick))
    partition.page_out(page_bytes=1000)
    partition.wall_ms = 3900
    settle_all(partition)
    assert partition.log.low() == 1

    partition.wall_ms = 4100
    partition.look_after()

    assert partition.log.low() == 7


@pytest.mark.parametrize("arrived_ms", [0, 5000])
def test_pages_of_an_earlier_release_go_when_what_came_behind_them_is_too_old(arrived_ms: int) -> None:
    """Pages without marks, as that release wrote them, do not say when they came."""
    partition = LoggedPartition()
    marks = [UNKNOWN_MARKS, UNKNOWN_MARKS, UNKNOWN_MARKS._replace(arrived_ms=arrived_ms)]
    partition.stored = {first: [(first, numbered(1))] for first in (1, 2, 3)}
    stored = StoredPartition(PARTITION_ID)
    stored.pages = [StoredPage(first, first + 1, 1, 1, each) for first, each in enumerate(marks, 1)]
    stored.floor = stored.next_sequence = 4
    restore(partition.ledger, stored, was_clean=True)
    partition.log.restore(stored)
    partition.log.count_rows()
    partition.rules.time_ms = 1000
    partition.wall_ms = 10_000
    partition.look_after()
    assert partition.log.low() == (3 if arrived_ms else 1)

    partition.wall_ms = 11_001
    partition.look_after()

    assert partition.log.low() == 4


def test_a_publish_that_could_not_be_stored_is_not_delivered() -> None:
    partition = kept_partition(size_bytes=10_000)
    publication = partition.append(numbered(2), stored=False)
    publication.refused = True
    partition.log.withdraw(1, 3)
    partition.ledger.give_up(1, 3, DISCARD_NOT_STORED)
    partition.append(numbered(1))

    found, gaps, _ = partition.read(1, 4)

    assert list(found) == [3]
    assert gaps == [Gap(1, 3, DISCARD_NOT_STORED)]


def test_no_page_reaches_over_what_the_store_refused_and_a_consumer_holds() -> None:
    """The page would not have it: when the consumer gives it back or settles it, it would be nowhere."""
    partition = kept_partition(size_bytes=10_000)
    partition.append(numbered(2))
    refused = partition.append(numbered(1), stored=False)
    partition.deliver()
    refused.refused = True
    partition.published.remove(refused)
    partition.log.withdraw(3, 4)
    partition.ledger.give_up(3, 4, DISCARD_NOT_STORED)
    partition.append(numbered(2))

    plans = partition.plan(page_bytes=1000)
    for plan in plans:
        partition.written(plan)
    partition.settle(3, 4, RELEASED)
    partition.ledger.check()

    assert [(plan.first, plan.end) for plan in plans] == [(1, 3), (4, 6)]
    assert partition.ledger.effects.discards == {DISCARD_NOT_STORED: 1}


def test_nothing_is_read_that_is_not_in_the_store_yet() -> None:
    partition = LoggedPartition()
    partition.append(numbered(2))
    partition.append(numbered(2), stored=False)

    assert list(partition.read(1, 5)[0]) == [1, 2]
    assert partition.log.synced_end() == 3


def test_the_byte_index_cuts_a_range_without_payloads() -> None:
    partition = kept_partition(size_bytes=10_000)
    for _ in range(10):
        partition.append(batch_of([b"x" * 10] * 5))
    partition.page_out(page_bytes=100)
    each = usage_of(b"x" * 10)

    assert partition.log.cut(1, bytes_max=10 * each, rows_max=0) == 11
    assert partition.log.cut(11, bytes_max=12 * each, rows_max=0) == 23
    assert partition.log.cut(6, bytes_max=1, rows_max=0) > 6, "at least something, or a reader would stand still"
    assert partition.log.cut(51, bytes_max=10 * each, rows_max=0) == 51


@pytest.mark.parametrize("size_bytes", [100_000, 0])
def test_a_range_is_cut_at_a_number_of_rows_and_passes_over_what_is_none(size_bytes: int) -> None:
    """What was refused was never stored; without a log the ledger's own segments count."""
    partition = kept_partition(size_bytes=size_bytes)
    for refused in (False, True, False):
        publication = partition.append(numbered(10), stored=not refused)
        publication.refused = refused
    partition.log.withdraw(11, 21)
    partition.ledger.give_up(11, 21, DISCARD_NOT_STORED)

    def cut(first: int, rows_max: int, bytes_max: int = 0) -> int:
        return partition.log.cut(first, bytes_max=bytes_max, rows_max=rows_max)

    assert [cut(1, 4), cut(3, 8), cut(3, 10), cut(11, 3), cut(1, 20), cut(1, 0)] == [5, 11, 23, 24, 31, 31]
    assert cut(15, 1) == 22
    assert cut(1, 4, bytes_max=1 << 40) == 5
    assert cut(31, 4) == 31


@pytest.mark.parametrize("size_bytes", [100_000, 0])
def test_a_range_ends_behind_a_stretch_that_is_larger_than_it_may_be_whatever_follows(size_bytes: int) -> None:
    """A message without payload, as one that deletes a key, has its share of the room, too."""
    partition = kept_partition(size_bytes=size_bytes)
    for payload in (b"x" * 100, b"", b"y"):
        partition.append(batch_of([payload]))

    assert partition.log.cut(1, bytes_max=10, rows_max=0) == 2
    assert partition.log.cut(2, bytes_max=10, rows_max=0) == 3


@settings(max_examples=examples(100))
@given(st.lists(st.tuples(st.integers(1, 9), st.booleans()), max_size=12), st.integers(1, 15), st.integers(1, 40))
def test_ranges_cut_one_behind_the_other_have_every_row_and_none_has_too_many(
    batches: list[tuple[int, bool]], rows_max: int, bytes_max: int
) -> None:
    """Goal: a reader with limits gets on. Method: some batches are refused; cut until nothing comes, and read."""
    partition = kept_partition(size_bytes=10_000)
    refusals = set[int]()
    for count, refused in batches:
        first = partition.ledger.next_sequence
        publication = partition.append(numbered(count), stored=not refused)
        if refused:
            publication.refused = True
            refusals.update(range(first, first + count))
            partition.log.withdraw(first, first + count)
            partition.ledger.give_up(first, first + count, DISCARD_NOT_STORED)
    stored = {sequence for sequence in partition.payloads if sequence not in refusals}
    at, found = 1, set[int]()
    while (end := partition.log.cut(at, bytes_max=bytes_max, rows_max=rows_max)) > at:
        rows: set[int] = set()
        start = at
        while start < end:
            chunk, _gaps, start = partition.read(start, end)
            rows |= set(chunk)
        assert 0 < len(rows) <= rows_max
        found |= rows
        at = end
    assert found == stored
