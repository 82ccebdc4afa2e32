"""Messages on their way to another queue: nobody else gets them, and they leave, stay or are lost as they are told."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule

from sluicegate.actors.messages.data import Append
from sluicegate.messaging.message.outcomes import (
    ACCEPTED,
    DISCARD_MAX_REDELIVERY,
    DISCARD_NOT_STORED,
    FAILED,
    REJECTED,
    TO_DMQ_FAILED,
)
from sluicegate.messaging.partitions.ledger import Ledger
from sluicegate.messaging.partitions.paging import page_loaded, pages_written, plan_pages
from sluicegate.messaging.partitions.rules.moves import (
    abort_move,
    begin_move,
    commit_move,
    drop_moving,
    restore_deliveries,
)
from sluicegate.messaging.partitions.state.flows import DeliveryRules
from support.cores.messages import batch_of, flow_of, numbered, published, sequences_of, written
from support.cores.partition_machine import PARTITION_ID, PartitionMachine, some_rules
from support.cores.plain_partition import READY, REPLACED, PlainPartition
from support.thorough import examples

LEAVING = -1  # in the place of the flow that holds a message


class PlainDepartures(PlainPartition):
    """The plain partition, with messages on their way elsewhere."""

    def leaving(self) -> list[int]:
        return self.held_by(LEAVING)

    def depart(self, sequence: int) -> None:
        assert self.messages[sequence].flow_id != LEAVING
        self.messages[sequence].flow_id = LEAVING

    def left(self, sequence: int) -> None:
        assert self.messages[sequence].flow_id == LEAVING
        self._remove(sequence)

    def stay(self, sequence: int) -> None:
        assert self.messages[sequence].flow_id == LEAVING
        self.messages[sequence].flow_id = READY
        self.messages[sequence].retry_at_ms = 0
        if sequence in self.refused:
            super()._discard(sequence, DISCARD_NOT_STORED)

    def lost(self, sequence: int, reason: str) -> None:
        assert self.messages[sequence].flow_id == LEAVING
        super()._discard(sequence, reason)

    def _discard(self, sequence: int, reason: str) -> None:
        if self.rules.dead_msg_queue and reason in ("expired", "rejected", "max_redelivery_exceeded"):
            self.depart(sequence)
        else:
            super()._discard(sequence, reason)


class DepartureMachine(PartitionMachine):
    """Goal: departures lose, double or reorder nothing either. Method: the same steps to both, compare."""

    @initialize(rules=some_rules(), data=st.data(), dead_letters=st.booleans())
    def begin(self, rules: DeliveryRules, data: st.DataObject, dead_letters: bool = False) -> None:
        self.begin_empty(rules)
        self.delivery_rules.dead_msg_queue = "dead" if dead_letters else ""
        self.model = self.plain = PlainDepartures(self.delivery_rules)
        self.kept_out: set[int] = set()  # settled by the commit of another queue, so not to be persisted
        self.begin_with_messages(data)

    @rule(skip=st.integers(0, 8), count=st.integers(1, 8))
    def depart(self, skip: int, count: int) -> None:
        first = self.ledger.floor + skip
        expected = [sequence for sequence in self.plain.ready() if first <= sequence < first + count]
        departing = begin_move(self.ledger, first, first + count)
        assert [sequence for start, stop in departing for sequence in range(start, stop)] == expected
        for sequence in expected:
            self.plain.depart(sequence)

    @precondition(lambda self: self.plain.leaving())
    @rule(data=st.data(), fate=st.sampled_from(["left", "stay", "lost"]))
    def arrive(self, data: st.DataObject, fate: str) -> None:
        sequence = data.draw(st.sampled_from(self.plain.leaving()))
        if fate == "left":
            commit_move(self.ledger, sequence, sequence + 1)
            self.plain.left(sequence)
            self.kept_out.add(sequence)
            self.settled.add(sequence, sequence + 1)
        elif fate == "stay":
            abort_move(self.ledger, sequence, sequence + 1)
            self.plain.stay(sequence)
        else:
            drop_moving(self.ledger, sequence, sequence + 1, "expired", by_refusal=True)
            self.plain.lost(sequence, "expired" + TO_DMQ_FAILED)

    def take_settled_effects(self, *, expired: bool = False) -> None:
        for dead in self.ledger.effects.dead:
            for sequence in range(dead.first, dead.end):
                if self.plain.messages[sequence].flow_id != LEAVING:  # it expired while it was looked at for delivery
                    assert dead.reason == "expired"
                    self.plain.depart(sequence)
        self.ledger.effects.dead = []
        for first, end in self.ledger.effects.settled:
            assert self.kept_out.isdisjoint(range(first, end)), "what left is not settled once more"
        super().take_settled_effects(expired=expired)

    @invariant()
    def what_leaves_is_what_the_model_says(self) -> None:
        leaving = [seq for first, end in self.ledger.moving.ranges() for seq in range(first, end)]
        assert leaving == sorted(self.plain.leaving() + self.plain.held_by(REPLACED))

    def teardown(self) -> None:
        if hasattr(self, "ledger"):
            self.delivery_rules.dead_msg_queue = ""
            for sequence in self.plain.leaving():
                abort_move(self.ledger, sequence, sequence + 1)
                self.plain.stay(sequence)
        super().teardown()


TestDeparturesAgreeWithThePlainModel = DepartureMachine.TestCase
TestDeparturesAgreeWithThePlainModel.settings = settings(
    max_examples=examples(150), stateful_step_count=40, deadline=None
)


def ledger_of(count: int, *, redelivery_count_max: int = 0, dead_letters: bool = True) -> Ledger:
    """Return a ledger with so many messages, and one flow that was given them all."""
    dead_msg_queue = "dead" if dead_letters else ""
    rules = DeliveryRules(redelivery_count_max=redelivery_count_max, dead_msg_queue=dead_msg_queue)
    ledger = Ledger(durable=True, rules=rules)
    ledger.attach(flow_of(1), epoch=1)
    ledger.append(numbered(count), None)
    ledger.deliver(0)
    return ledger


def dead(ledger: Ledger) -> list[tuple[int, int, str, str]]:
    return [(each.first, each.end, each.reason, each.client) for each in ledger.effects.dead]


def test_a_rejected_run_is_one_range_for_the_dead_message_queue_with_who_rejected_it() -> None:
    """Every message that leaves for a dead message queue carries why."""
    ledger = ledger_of(9)
    ledger.settle(1, 3, 5, REJECTED)
    ledger.settle(1, 5, 8, REJECTED)

    assert dead(ledger) == [(3, 8, "rejected", "c1")]
    assert ledger.effects.discards == {}
    assert ledger.waiting_count == 9, "it waits here until the other queue has it"


def test_messages_that_failed_too_often_leave_and_the_others_are_delivered_again() -> None:
    """Solace 13.4: with a maximum of 1 the second failure is the end."""
    ledger = ledger_of(2, redelivery_count_max=1)
    ledger.settle(1, 1, 2, FAILED)
    ledger.deliver(0)
    ledger.detach(1, count_as_failed=True)

    assert dead(ledger) == [(1, 2, "max_redelivery_exceeded", "c1")]
    assert ledger.requeued.ranges() == [(2, 3)]


def test_dead_messages_are_dropped_where_no_dead_message_queue_is_named() -> None:
    ledger = ledger_of(2, dead_letters=False)
    ledger.settle(1, 1, 2, REJECTED)

    assert ledger.effects.dead == []
    assert ledger.effects.discards == {"rejected": 1}


def test_a_purge_leaves_alone_what_is_on_its_way_elsewhere() -> None:
    """Else it would be gone here and arrive there, or be counted twice."""
    ledger = ledger_of(3)
    ledger.settle(1, 2, 3, REJECTED)
    ledger.detach(1, count_as_failed=False)

    assert ledger.purge() == 2
    assert ledger.waiting_count == 1


def test_moving_messages_are_skipped_and_after_an_abort_come_first_and_as_new() -> None:
    ledger = Ledger(durable=True, rules=DeliveryRules())
    ledger.append(numbered(4), None)
    assert begin_move(ledger, 1, 3) == [(1, 3)]
    ledger.attach(flow_of(1), epoch=1)

    assert [seq for each in ledger.deliver(0) for seq in sequences_of(each)] == [3, 4]

    abort_move(ledger, 1, 3)
    assert [(list(sequences_of(each)), each.redelivered) for each in ledger.deliver(0)] == [([1, 2], False)]


def test_an_aborted_move_keeps_only_messages_the_store_did_not_refuse() -> None:
    """Its publisher was told that it is not there, and may send it once more."""
    ledger = Ledger(durable=True, rules=DeliveryRules())
    ledger.append(numbered(2), None)
    publication = published(numbered(2))
    publication.sequenced(PARTITION_ID, ledger.append(publication.batch, publication), None)
    begin_move(ledger, 2, 5)
    publication.refused = True
    ledger.attach(flow_of(1), epoch=1)

    abort_move(ledger, 2, 5)

    assert [seq for each in ledger.deliver(0) for seq in sequences_of(each)] == [1, 2]
    assert ledger.effects.discards == {DISCARD_NOT_STORED: 2}
    ledger.check()


def test_moved_messages_need_no_commit_of_their_own() -> None:
    """Its settlement was written with its arrival."""
    ledger = Ledger(durable=True, rules=DeliveryRules())
    publication = published(numbered(2))
    publication.sequenced(PARTITION_ID, ledger.append(publication.batch, publication), None)
    written(publication, 5)
    begin_move(ledger, 1, 3)

    commit_move(ledger, 1, 3)

    assert ledger.effects.settled == []
    assert not ledger.effects.settled_written
    assert ledger.effects.released_publications == [publication], "the journal needs it no more"
    assert ledger.effects.released_count == 2
    ledger.check()


@pytest.mark.parametrize("loaded", [False, True])
def test_messages_in_a_page_leave_like_others_and_the_page_goes_with_the_last(loaded: bool) -> None:
    ledger = Ledger(durable=True, rules=DeliveryRules())
    publication = published(batch_of([b"x" * 10] * 3))
    publication.sequenced(PARTITION_ID, ledger.append(publication.batch, publication), None)
    written(publication)
    (plan,) = plan_pages(ledger, page_bytes=100, bytes_to_free=10_000, through_record=None)
    pages_written(ledger, plan)
    if loaded:
        page_loaded(ledger, 1, plan.runs)
    begin_move(ledger, 1, 4)

    commit_move(ledger, 1, 3)
    assert ledger.effects.dropped_pages == []
    commit_move(ledger, 3, 4)

    assert ledger.effects.dropped_pages == [1]
    assert (ledger.waiting_count, ledger.waiting_bytes, ledger.memory_bytes) == (0, 0, 0)
    ledger.check()


def test_a_consumer_that_settles_late_what_is_on_its_way_changes_nothing() -> None:
    ledger = ledger_of(1)
    ledger.settle(1, 1, 2, REJECTED)

    assert ledger.settle(1, 1, 2, ACCEPTED) == 0
    assert ledger.moving.ranges() == [(1, 2)]


def test_what_was_delivered_at_another_broker_counts_on_here_and_its_neighbors_are_as_new() -> None:
    ledger = Ledger(durable=True, rules=DeliveryRules(redelivery_count_max=2))
    ledger.append(numbered(1), None)
    first = ledger.append(numbered(3, start=2), None)
    restore_deliveries(ledger, first, [(0, 0), (2, 2)])
    ledger.append(numbered(1, start=5), None)
    ledger.check()
    ledger.attach(flow_of(1), epoch=1)

    deliveries = ledger.deliver(0)

    assert [(each.first_sequence, each.redelivered, each.delivery_count) for each in deliveries] == [
        (1, False, 1),
        (2, True, 1),
        (3, False, 1),
        (4, True, 3),
        (5, False, 1),
    ]
    ledger.settle(1, 4, 5, FAILED)
    assert ledger.effects.discards == {DISCARD_MAX_REDELIVERY: 1}
    ledger.check()


def test_an_append_in_another_order_says_of_the_same_rows_that_they_were_delivered() -> None:
    order = Append(numbered(3), None, [4, 5, 6], [(0, 7), (2, 1)]).in_order([2, 1, 0])
    assert (order.rows, order.earlier) == ([6, 5, 4], [(0, 1), (2, 7)])
