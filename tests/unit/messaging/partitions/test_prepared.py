"""What a consumer settles in a transaction whose commit is under way: nobody else's, then gone or its own again."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import invariant, precondition, rule

from sluicegate.messaging.message.headers import Headers
from sluicegate.messaging.message.outcomes import ACCEPTED, WHICHEVER
from sluicegate.messaging.partitions.ledger import Ledger
from sluicegate.messaging.partitions.prepared import (
    PreparedRanges,
    prepare,
    release_prepared,
    restore_prepared,
    settle_prepared,
)
from sluicegate.messaging.partitions.state.flows import ORDER_BY_KEY, ORDER_NONE, ORDER_OF_ALL, DeliveryRules
from support.cores.messages import batch_of, flow_of, numbered, sequences_of
from support.cores.partition_machine import PartitionMachine
from support.cores.plain_partition import PlainPartition
from support.thorough import examples

PREPARED = -1  # in the place of the flow that holds a message


class PlainPrepared(PlainPartition):
    """The plain partition, with messages that commits may settle."""

    def committed(self, sequence: int) -> None:
        assert self.messages[sequence].flow_id == PREPARED
        self._remove(sequence)


class PreparedMachine(PartitionMachine):
    """Goal: commits and rollbacks lose, double or reorder nothing. Method: the same steps to both, compare."""

    def begin_empty(self, rules: DeliveryRules) -> None:
        super().begin_empty(rules)
        self.model = self.plain = PlainPrepared(self.delivery_rules)
        self.prepared: list[tuple[PreparedRanges, list[int]]] = []

    @precondition(lambda self: any(self.model.held_by(flow_id) for flow_id in self.flows))
    @rule(data=st.data())
    def prepare(self, data: st.DataObject) -> None:
        flow_id = data.draw(st.sampled_from([each for each in self.flows if self.model.held_by(each)]))
        chosen = data.draw(st.lists(st.sampled_from(self.model.held_by(flow_id)), min_size=1, unique=True))
        ranges = [(sequence, sequence + 1) for sequence in sorted(chosen)]
        stale = [*ranges, (self.ledger.next_sequence, self.ledger.next_sequence + 1)]
        assert prepare(self.ledger, flow_id, flow_id, stale, WHICHEVER) is None, "all that is asked for, or nothing"
        assert prepare(self.ledger, flow_id, flow_id + 1, ranges, WHICHEVER) is None, "another epoch"
        prepared = prepare(self.ledger, flow_id, flow_id, ranges, WHICHEVER)
        assert prepared is not None
        for sequence in chosen:
            self.model.messages[sequence].flow_id = PREPARED
        self.prepared.append((prepared, sorted(chosen)))

    @precondition(lambda self: self.prepared)
    @rule(data=st.data(), is_made=st.booleans())
    def end_commit(self, data: st.DataObject, is_made: bool) -> None:
        place = data.draw(st.integers(0, len(self.prepared) - 1))
        self.end_one(*self.prepared.pop(place), is_made=is_made)

    def end_one(self, prepared: PreparedRanges, sequences: list[int], *, is_made: bool) -> None:
        flow_id = prepared.flow.flow_id
        if not is_made:
            release_prepared(self.ledger, prepared, self.wall_ms)
            for sequence in sequences:
                message = self.model.messages[sequence]
                message.flow_id, message.locked_ms = flow_id, self.wall_ms
                if flow_id not in self.flows:
                    self.model.give_back(sequence, failed=True)
            return
        assert settle_prepared(self.ledger, prepared) == len(sequences)
        for sequence in sequences:
            self.plain.committed(sequence)
            assert self.settled.add(sequence, sequence + 1) == 1, "the commit has written it, nobody else"
            self.told[flow_id].remove(sequence)
        if flow_id in self.flows:
            self.credit_comes_back(flow_id, len(sequences))

    def deliver_once(self) -> int:
        count = super().deliver_once()
        lost = [each for each, _ in self.prepared if each.flow.flow_id not in self.flows]
        assert not (count and lost and self.delivery_rules.keeps_order(is_grouped=False)), "newer ones wait"
        return count

    def not_taken_back(self) -> dict[int, int]:
        prepared = {each: ranges.flow.flow_id for ranges, sequences in self.prepared for each in sequences}
        return {**super().not_taken_back(), **prepared}

    @invariant()
    def what_is_prepared_counts_for_its_flow(self) -> None:
        for flow_id, flow in self.flows.items():
            waiting = sum(len(sequences) for each, sequences in self.prepared if each.flow is flow)
            assert flow.unacked_count() == len(self.model.held_by(flow_id)) + waiting

    def teardown(self) -> None:
        if hasattr(self, "prepared"):
            while self.prepared:
                self.end_one(*self.prepared.pop(), is_made=False)
        super().teardown()


TestPreparedAgreesWithThePlainModel = PreparedMachine.TestCase
TestPreparedAgreesWithThePlainModel.settings = settings(
    max_examples=examples(100), stateful_step_count=40, deadline=None
)


def ledger_of(count: int, *, order: int = ORDER_NONE) -> Ledger:
    """Return a ledger with so many messages, and one flow that was given them all."""
    ledger = Ledger(durable=True, rules=DeliveryRules(order=order))
    ledger.attach(flow_of(1), epoch=1)
    ledger.append(numbered(count), None)
    ledger.deliver(0)
    return ledger


def test_prepared_messages_cannot_be_settled_twice_purged_or_taken_back() -> None:
    """AMQP 4.4.2: the message is locked until the transaction ends."""
    ledger = ledger_of(3)
    prepared = prepare(ledger, 1, 1, [(1, 3)], WHICHEVER)
    assert prepared is not None
    assert ledger.settle(1, 1, 4, ACCEPTED) == 1
    assert ledger.purge() == 0
    ledger.detach(1, count_as_failed=True)
    assert not ledger.has_ready()
    ledger.check()


def test_uncommitted_messages_of_a_lost_consumer_go_to_the_next() -> None:
    """AMQP 4.4.2, case 76: it counts as one more failed delivery."""
    ledger = ledger_of(3)
    prepared = prepare(ledger, 1, 1, [(2, 3)], WHICHEVER)
    assert prepared is not None
    ledger.detach(1, count_as_failed=True)
    release_prepared(ledger, prepared, 0)
    ledger.attach(flow_of(2), epoch=2)
    deliveries = ledger.deliver(0)
    assert [(each.first_sequence, each.stop_row - each.start_row) for each in deliveries] == [(1, 3)]
    assert deliveries[0].delivery_count == 2


def test_the_same_flow_under_a_newer_epoch_does_not_get_it_back() -> None:
    """Who lost a partition has nothing of it, whatever was under way."""
    ledger = ledger_of(1)
    prepared = prepare(ledger, 1, 1, [(1, 2)], WHICHEVER)
    assert prepared is not None
    ledger.detach(1, count_as_failed=False)
    ledger.attach(flow_of(1), epoch=2)
    release_prepared(ledger, prepared, 0)
    assert ledger.in_flight_count(1) == 0
    assert ledger.has_ready()


def lost_with_a_commit(rules: DeliveryRules) -> tuple[Ledger, PreparedRanges]:
    """Return a ledger of four messages of one key, whose first consumer had three and settles one as it is lost."""
    ledger = Ledger(durable=True, rules=rules)
    ledger.attach(flow_of(1, limit=3), epoch=5)
    ledger.append(batch_of([b"m"] * 4, headers=[Headers(key_hash=7) for _ in range(4)]), None)
    ledger.deliver(0)
    prepared = prepare(ledger, 1, 5, [(2, 3)], WHICHEVER)
    assert prepared is not None
    ledger.detach(1, count_as_failed=True)
    ledger.attach(flow_of(2), epoch=6)
    return ledger, prepared


def given(ledger: Ledger) -> list[int]:
    """Return what consumers are given now, in its order."""
    return [sequence for each in ledger.deliver(0) for sequence in sequences_of(each)]


IN_ORDER = [
    DeliveryRules(order=ORDER_BY_KEY),
    DeliveryRules(order=ORDER_OF_ALL),
    DeliveryRules(order=ORDER_BY_KEY, group_buckets=64),
]


@pytest.mark.parametrize("rules", IN_ORDER, ids=["partition", "exclusive", "groups"])
def test_uncommitted_messages_of_a_lost_consumer_come_before_newer_ones(rules: DeliveryRules) -> None:
    """AMQP 4.4.2, case 76: nobody is given a newer message of the key while a commit may bring an older one back."""
    ledger, prepared = lost_with_a_commit(rules)
    assert given(ledger) == []
    ledger.append(batch_of([b"m"], headers=[Headers(key_hash=7)]), None)
    assert given(ledger) == []

    release_prepared(ledger, prepared, 0)

    assert given(ledger) == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("rules", IN_ORDER, ids=["partition", "exclusive", "groups"])
def test_newer_messages_continue_after_the_commit_of_a_lost_consumer(rules: DeliveryRules) -> None:
    ledger, prepared = lost_with_a_commit(rules)
    assert given(ledger) == []

    settle_prepared(ledger, prepared)

    assert given(ledger) == [1, 3, 4]


def test_competing_consumers_do_not_wait_for_commits() -> None:
    """Where no order is kept there is nothing to wait for, nor while the consumer is there to have it back."""
    ledger, _ = lost_with_a_commit(DeliveryRules(order=ORDER_NONE))
    assert given(ledger) == [1, 3, 4]

    ledger = ledger_of(3, order=ORDER_OF_ALL)
    assert prepare(ledger, 1, 1, [(1, 3)], WHICHEVER) is not None
    ledger.append(numbered(1), None)
    assert given(ledger) == [4]


def test_a_ledger_that_is_made_anew_waits_for_the_commits_under_way() -> None:
    """Its consumers get the partition under a new epoch: they are others than had the messages."""
    _, prepared = lost_with_a_commit(DeliveryRules(order=ORDER_BY_KEY))
    ledger = Ledger(durable=True, rules=DeliveryRules(order=ORDER_BY_KEY))
    ledger.append(numbered(4), None)
    restore_prepared(ledger, prepared)
    ledger.attach(flow_of(1), epoch=7)
    assert given(ledger) == []

    release_prepared(ledger, prepared, 0)

    assert given(ledger) == [1, 2, 3, 4]
