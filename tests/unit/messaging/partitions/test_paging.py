"""Moving waiting messages into pages and back changes nothing for consumers."""

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import invariant, precondition, rule

from sluicegate.messaging.message.batch import MessageBatch
from sluicegate.messaging.message.headers import Headers
from sluicegate.messaging.message.outcomes import ACCEPTED, DISCARD_DAMAGED, FAILED, RELEASED
from sluicegate.messaging.message.publication import UNWRITTEN, Publication
from sluicegate.messaging.partitions.explain import WaitReason, key_status
from sluicegate.messaging.partitions.ledger import Ledger
from sluicegate.messaging.partitions.paging import (
    PAGES_LOADED_MAX,
    PagePlan,
    is_awaited,
    page_damaged,
    page_loaded,
    pages_written,
    plan_pages,
)
from sluicegate.messaging.partitions.state.flows import DeliveryRules
from support.cores.messages import batch_of, delivered, flow_of, numbered, published, sequences_of, written
from support.cores.partition_machine import PARTITION_ID, PartitionMachine
from support.thorough import examples

Runs = list[tuple[int, MessageBatch]]


class PagingMachine(PartitionMachine):
    """The partition machine beside a store of pages that answers when it likes, and at times not at all."""

    def __init__(self) -> None:
        super().__init__()
        self.planned: list[PagePlan] = []
        self.stored: dict[int, Runs] = {}
        self.paged: set[int] = set()

    @rule()
    def journal_writes(self) -> None:
        for publication in self.publications:
            if publication.record_number == UNWRITTEN and publication.open_count > 0 and not publication.refused:
                written(publication, len(self.publications))

    @precondition(lambda self: not self.planned)
    @rule(page_bytes=st.sampled_from([1, 20, 60]), bytes_to_free=st.sampled_from([1, 1500, 10_000]), all_=st.booleans())
    def plan(self, page_bytes: int, bytes_to_free: int, all_: bool) -> None:
        through = None if all_ else len(self.publications) // 2
        self.planned = plan_pages(
            self.ledger, page_bytes=page_bytes, bytes_to_free=bytes_to_free, through_record=through
        )
        in_order = [first for plan in self.planned for first, _ in plan.runs]
        assert in_order == sorted(in_order)
        for plan in self.planned:
            assert plan.first not in self.stored, "a page never overwrites another"

    @precondition(lambda self: self.planned)
    @rule(succeeds=st.sampled_from([True, True, True, False]))
    def spool_writes_pages(self, succeeds: bool) -> None:
        for plan in self.planned if succeeds else []:
            self.stored[plan.first] = plan.runs
            self.paged |= {seq for first, batch in plan.runs for seq in range(first, first + batch.count)}
            pages_written(self.ledger, plan)
        self.planned = []

    @precondition(lambda self: self.ledger.effects.wanted_pages)
    @rule()
    def store_reads_a_page(self) -> None:
        first = self.ledger.effects.wanted_pages.pop(0)
        if first in self.stored:
            page_loaded(self.ledger, first, self.stored[first])

    @precondition(lambda self: self.ledger.effects.wanted_pages)
    @rule(likely=st.integers(0, 3))
    def store_finds_a_page_damaged(self, likely: int) -> None:
        if likely:
            return
        first = self.ledger.effects.wanted_pages.pop(0)
        if first in self.stored:
            runs = self.stored[first]
            end = runs[-1][0] + runs[-1][1].count
            assert page_damaged(self.ledger, first) == self.model.give_up(first, end, DISCARD_DAMAGED)

    @precondition(lambda self: self.ledger.effects.wanted_pages)
    @rule(likely=st.integers(0, 3), damaged=st.integers(0, 3))
    def store_finds_a_part_of_a_page_damaged(self, likely: int, damaged: int) -> None:
        """What a consumer has of it can be settled, and is lost when it comes back."""
        if likely:
            return
        first = self.ledger.effects.wanted_pages.pop(0)
        if first not in self.stored:
            return
        left = list(self.stored[first])
        lost_first, batch = left.pop(damaged % len(left))
        if is_awaited(self.ledger, first):
            lost_end = lost_first + batch.count
            self.model.give_up(lost_first, lost_end, DISCARD_DAMAGED)
            self.model.unread.update(set(range(lost_first, lost_end)) & set(self.model.messages))
        page_loaded(self.ledger, first, left)

    @invariant()
    def pages_are_dropped_once_and_when_nothing_in_them_is_unsettled(self) -> None:
        for first in self.ledger.effects.dropped_pages:
            del self.stored[first]
        self.ledger.effects.dropped_pages = []
        for runs in self.stored.values():
            assert any(seq in self.model.messages for first, batch in runs for seq in range(first, first + batch.count))

    def open_rows(self) -> set[int]:
        return set(self.model.messages) - self.paged

    def deliver_all(self) -> int:
        count = self.deliver_once()
        while self.ledger.effects.wanted_pages:
            self.store_reads_a_page()
            count += self.deliver_once()
        return count

    def teardown(self) -> None:
        if hasattr(self, "ledger"):
            for first in self.stored:  # a reader that had not answered when the steps ended answers now
                page_loaded(self.ledger, first, self.stored[first])
        super().teardown()
        assert self.stored.keys() == set(self.ledger.effects.dropped_pages)


TestPagingAgreesWithThePlainModel = PagingMachine.TestCase
TestPagingAgreesWithThePlainModel.settings = settings(max_examples=examples(150), stateful_step_count=50, deadline=None)


PAGES, READS_MAX = 3 * PAGES_LOADED_MAX, 200


class PagedPartition:
    """A durable ledger with a store of pages that answers at once, and one consumer."""

    def __init__(self, *, limit: int = 1000, delivery_delay_ms: int = 0) -> None:
        self.ledger = Ledger(durable=True, rules=DeliveryRules(delivery_delay_ms=delivery_delay_ms))
        self.flow = flow_of(1, limit=limit)
        self.ledger.attach(self.flow, epoch=1)
        self.stored: dict[int, Runs] = {}
        self.seen: list[tuple[int, bytes, bool, int]] = []  # sequence, payload, redelivered, delivery count

    def append(self, batch: MessageBatch, *, record_number: int = 1) -> Publication:
        publication = published(batch)
        publication.sequenced(PARTITION_ID, self.ledger.append(batch, publication), None)
        return written(publication, record_number)

    def page_out(self, *, page_bytes: int = 10, through_record: int | None = None) -> None:
        for plan in plan_pages(
            self.ledger, page_bytes=page_bytes, bytes_to_free=1 << 30, through_record=through_record
        ):
            self.stored[plan.first] = plan.runs
            pages_written(self.ledger, plan)

    def deliver(self) -> None:
        """Deliver until the consumer's window is full or nothing is left."""
        while True:
            for delivery in self.ledger.deliver(0):
                payloads = delivery.batch.payloads()[delivery.start_row : delivery.stop_row]
                for sequence, payload in zip(sequences_of(delivery), payloads, strict=True):
                    self.seen.append((sequence, payload, delivery.redelivered, delivery.delivery_count))
            wanted, self.ledger.effects.wanted_pages = self.ledger.effects.wanted_pages, []
            if not wanted:
                return
            for first in wanted:
                page_loaded(self.ledger, first, self.stored[first])

    def reads_at(self, wall_ms: int) -> int:
        """Let it be that time, until no page is asked for any more; return how many were."""
        for count in range(READS_MAX):
            self.ledger.deliver(wall_ms)
            if not self.ledger.effects.wanted_pages:
                return count
            first = self.ledger.effects.wanted_pages.pop(0)
            page_loaded(self.ledger, first, self.stored[first])
        raise AssertionError("pages are read again and again")

    def settle(self, first: int, end: int, outcome: int) -> None:
        self.flow.window.give(self.ledger.settle(1, first, end, outcome))


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["append", "append", "page out", "deliver", "accept", "accept", "fail", "release"]),
        st.integers(1, 12),
        st.integers(1, 12),
    ),
    max_size=40,
)


@settings(max_examples=examples(300), deadline=None)
@given(steps=STEPS, page_bytes=st.sampled_from([1, 10, 50]), limit=st.sampled_from([1, 4, 100]))
def test_a_consumer_sees_the_same_with_pages_and_without(
    steps: list[tuple[str, int, int]], page_bytes: int, limit: int
) -> None:
    """Goal: paging is invisible. Method: the same steps with and without it, then every delivery is the same."""
    paged, plain = PagedPartition(limit=limit), PagedPartition(limit=limit)
    for step, first, count in steps:
        for each in (paged, plain):
            match step:
                case "append":
                    each.append(numbered(count))
                case "page out":
                    if each is paged:
                        each.page_out(page_bytes=page_bytes)
                case "deliver":
                    each.deliver()
                case _:
                    each.settle(first, first + count, {"accept": ACCEPTED, "fail": FAILED, "release": RELEASED}[step])
            each.ledger.check()
    for each in (paged, plain):
        while each.ledger.waiting_count:
            each.deliver()
            each.settle(1, each.ledger.next_sequence, ACCEPTED)
    assert paged.seen == plain.seen
    assert sorted(paged.ledger.effects.dropped_pages) == sorted(paged.stored)


def test_batches_that_the_journal_has_not_got_are_not_paged() -> None:
    """Durability comes first, and consumers may make both the record and the page unnecessary."""
    partition = PagedPartition()
    partition.append(numbered(3)).record_number = UNWRITTEN

    assert plan_pages(partition.ledger, page_bytes=1, bytes_to_free=1 << 30, through_record=None) == []


def test_only_what_old_journal_records_hold_is_paged_to_free_the_journals_head() -> None:
    partition = PagedPartition()
    for record_number in (1, 2, 3):
        partition.append(numbered(1), record_number=record_number)

    (plan,) = plan_pages(partition.ledger, page_bytes=1000, bytes_to_free=1 << 30, through_record=2)

    assert (plan.first, plan.end) == (1, 3)


def test_a_page_names_the_log_records_that_have_its_batches_unless_one_is_a_selection() -> None:
    """The store may link to what it has. A partition of several has only some rows of a batch."""
    whole, selection = PagedPartition(), PagedPartition()
    for partition in (whole, selection):
        for record_number in (3, 4):
            publication = partition.append(numbered(2), record_number=record_number)
    publication.batch = numbered(4)

    for partition, expected in ((whole, [3, 4]), (selection, None)):
        (plan,) = plan_pages(partition.ledger, page_bytes=10_000, bytes_to_free=1 << 30, through_record=None)
        assert plan.log_records == expected


def test_paging_frees_memory_and_the_journal() -> None:
    partition = PagedPartition()
    publication = partition.append(batch_of([b"x" * 100] * 10))

    partition.page_out()

    assert partition.ledger.memory_bytes == 0
    assert partition.ledger.effects.released_publications == [publication]
    assert partition.ledger.waiting_count == 10


def test_a_key_that_is_not_in_memory_may_be_on_disk_or_not() -> None:
    partition = PagedPartition()
    partition.append(batch_of([b"x"] * 10))
    partition.page_out()

    found = key_status(partition.ledger, "never sent")

    assert (found.reason, found.unseen_count, found.waiting_count) == (WaitReason.NOT_EXAMINED, 10, 0)


def test_the_next_page_is_asked_for_while_the_consumer_is_busy_with_the_one_before() -> None:
    partition = PagedPartition(limit=1)
    for _ in range(3):
        partition.append(numbered(2))
    partition.page_out(page_bytes=1)
    partition.ledger.deliver(0)
    assert partition.ledger.effects.wanted_pages == [1]

    page_loaded(partition.ledger, 1, partition.stored[1])
    partition.ledger.deliver(0)

    assert partition.ledger.effects.wanted_pages == [1, 3]


def test_the_next_page_is_asked_for_while_the_consumer_has_what_was_given_back_of_the_one_before() -> None:
    partition = PagedPartition(limit=2)
    for _ in range(3):
        partition.append(numbered(2))
    partition.deliver()
    partition.page_out(page_bytes=1)
    partition.settle(1, 3, RELEASED)
    partition.ledger.deliver(0)
    page_loaded(partition.ledger, 1, partition.stored[1])
    partition.ledger.effects.wanted_pages.clear()

    partition.ledger.deliver(0)

    assert partition.ledger.effects.wanted_pages == [3]


def test_a_page_that_is_read_late_is_not_overtaken_where_deliveries_are_delayed() -> None:
    """What was due stays due in its page, also while another page is on its way because of the time."""
    partition = PagedPartition(limit=0, delivery_delay_ms=10)
    ledger = partition.ledger
    partition.append(numbered(2), record_number=1)
    partition.append(batch_of([b"later"], headers=[Headers(not_before_ms=100)]), record_number=1)
    partition.append(numbered(2), record_number=2)
    assert ledger.deliver(10) == []
    partition.page_out(page_bytes=1, through_record=1)
    assert ledger.deliver(100) == []
    ledger.attach(flow_of(2), epoch=2)
    assert ledger.deliver(100) == []
    assert ledger.effects.wanted_pages == [3, 1]

    page_loaded(ledger, 1, partition.stored[1])

    assert delivered(ledger.deliver(100)) == {2: [1, 2, 4, 5]}


def test_a_delay_that_is_raised_is_one_for_all_that_wait_in_pages_or_not() -> None:
    """Else what lies in memory would overtake what lies in pages."""
    partition = PagedPartition(limit=0)
    ledger = partition.ledger
    partition.append(numbered(2), record_number=1)
    partition.append(numbered(2), record_number=2)
    partition.page_out(through_record=1)
    ledger.rules.delivery_delay_ms = 50
    ledger.rules.generation += 1
    ledger.attach(flow_of(2), epoch=2)

    assert ledger.deliver(49) == []
    assert ledger.deliver(50) == []
    page_loaded(ledger, 1, partition.stored[1])
    assert delivered(ledger.deliver(50)) == {2: [1, 2, 3, 4]}


def test_a_page_that_was_settled_while_it_was_written_is_dropped_at_once() -> None:
    partition = PagedPartition()
    partition.append(numbered(3))
    (plan,) = plan_pages(partition.ledger, page_bytes=100, bytes_to_free=1 << 30, through_record=None)
    partition.deliver()
    partition.settle(1, 4, ACCEPTED)

    pages_written(partition.ledger, plan)

    assert partition.ledger.effects.dropped_pages == [1]


def test_a_page_that_lacks_messages_costs_those_and_no_others() -> None:
    """What a disk says is input: it cannot stop the partition."""
    partition = PagedPartition()
    for _ in range(3):
        partition.append(numbered(2))
    partition.page_out(page_bytes=1000)
    del partition.stored[1][1]

    partition.deliver()

    assert [sequence for sequence, *_ in partition.seen] == [1, 2, 5, 6]
    assert partition.ledger.effects.discards == {DISCARD_DAMAGED: 2}
    partition.ledger.check()


def test_in_flight_messages_of_a_damaged_page_can_be_settled_or_are_given_up_when_returned() -> None:
    partition = PagedPartition(limit=2)
    partition.append(numbered(4))
    partition.deliver()
    partition.page_out()
    assert page_damaged(partition.ledger, 1) == 2
    partition.settle(1, 2, ACCEPTED)
    partition.ledger.settle(1, 2, 3, RELEASED)

    partition.ledger.attach(flow_of(2), epoch=2)
    assert partition.ledger.deliver(0) == []
    assert partition.ledger.effects.wanted_pages == [1]
    assert page_damaged(partition.ledger, 1) == 1

    assert partition.ledger.floor == partition.ledger.next_sequence
    assert partition.ledger.effects.dropped_pages == [1]


def test_what_a_consumer_has_of_a_damaged_part_of_a_page_can_be_settled_or_is_lost_when_returned() -> None:
    """The rest of the page is delivered meanwhile."""
    partition = PagedPartition(limit=6)
    for _ in range(3):
        partition.append(numbered(3))
    partition.deliver()
    partition.page_out(page_bytes=1000)
    del partition.stored[1][1]
    ledger = partition.ledger

    ledger.attach(flow_of(2), epoch=2)
    ledger.deliver(0)
    page_loaded(ledger, 1, partition.stored[1])
    ledger.check()
    assert delivered(ledger.deliver(0)) == {2: [7, 8, 9]}
    ledger.settle(1, 4, 5, ACCEPTED)
    ledger.settle(1, 5, 6, RELEASED)
    ledger.check()
    assert ledger.effects.discards == {DISCARD_DAMAGED: 1}

    ledger.detach(1, count_as_failed=True)
    ledger.check()
    assert delivered(ledger.deliver(0)) == {2: [1, 2, 3]}
    assert ledger.effects.discards == {DISCARD_DAMAGED: 2}


def test_pages_of_which_some_messages_are_due_and_some_are_not_are_read_once_until_the_next_is_due() -> None:
    """Nobody consumes, and there are more of them than stay in memory: what was due is no reason to look again."""
    partition = PagedPartition(limit=0)
    for number in range(PAGES):
        later = Headers(not_before_ms=1_000 + number)
        partition.append(batch_of([b"now", b"later"], headers=[None, later]))
    partition.page_out(page_bytes=1)

    assert partition.reads_at(10) == PAGES
    assert partition.reads_at(999) == 0
    assert partition.reads_at(1_000) == 1
    assert not partition.ledger.delayed.count_within(1, 3)


def test_pages_of_messages_that_have_expired_and_may_not_be_dropped_are_read_once() -> None:
    """A session sends what it has sent before again, expired or not [MQTT 4.4.0-1], when its client is back."""
    partition = PagedPartition()
    partition.ledger.rules = DeliveryRules(respects_expiry=True, expires_once_delivered=False)
    for _ in range(PAGES):
        partition.append(batch_of([b"sent", b"waits"], headers=[Headers(expires_at_ms=100), Headers()]))
    partition.deliver()
    partition.ledger.detach(1, count_as_failed=False)
    partition.page_out(page_bytes=1)

    assert partition.reads_at(200) == PAGES
    assert partition.reads_at(300) == 0
