"""The ledger of a partition: who has which message, in what order, and what is left to be done outside."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import rule

from sluicegate.messaging.message.batch import MessageBatch
from sluicegate.messaging.message.outcomes import (
    ACCEPTED,
    DISCARD_MAX_REDELIVERY,
    DISCARD_NOT_STORED,
    DISCARD_PURGED,
    FAILED,
    RELEASED,
    WHICHEVER,
)
from sluicegate.messaging.partitions.ledger import Ledger
from sluicegate.messaging.partitions.rules.in_flight import renew_lock
from sluicegate.messaging.partitions.state.flows import ORDER_OF_ALL, DeliveryRules, Flow
from support.cores.messages import batch_of, flow_of, numbered, published, sequences_of, window_of, written
from support.cores.partition_machine import PartitionMachine
from support.thorough import examples


class LedgerMachine(PartitionMachine):
    """The ledger with everything in memory."""

    @rule(step_ms=st.sampled_from([0, 1]))
    def deliver_what_can_be_delivered(self, step_ms: int) -> None:
        self.wall_ms += step_ms
        self.deliver_once()
        may_go = [each for each in self.model.ready() if self.model.may_be_delivered(each, self.wall_ms)]
        assert may_go == [] or self.flows_with_room() == [], "credit and messages meet"
        assert self.model.expired(self.wall_ms) == [], "nothing stays beyond its time"


TestLedgerAgreesWithThePlainModel = LedgerMachine.TestCase
TestLedgerAgreesWithThePlainModel.settings = settings(max_examples=examples(150), stateful_step_count=40, deadline=None)


def ledger_with(*flows: Flow, rules: DeliveryRules | None = None) -> Ledger:
    """Return a ledger with these flows attached."""
    ledger = Ledger(durable=True, rules=DeliveryRules() if rules is None else rules)
    for flow in flows:
        ledger.attach(flow, epoch=1)
    return ledger


def append(ledger: Ledger, batch: MessageBatch) -> None:
    ledger.append(batch, None)


def delivered(ledger: Ledger) -> list[tuple[int, int]]:
    """Deliver; return flow and sequence of each message."""
    return [(each.flow.flow_id, sequence) for each in ledger.deliver(0) for sequence in sequences_of(each)]


def test_a_batch_that_one_consumer_has_credit_for_is_one_delivery() -> None:
    ledger = ledger_with(flow_of(1))
    append(ledger, numbered(300))

    (delivery,) = ledger.deliver(0)

    assert (delivery.first_sequence, delivery.start_row, delivery.stop_row) == (1, 0, 300)


def test_competing_flows_get_even_shares_of_a_batch() -> None:
    ledger = ledger_with(flow_of(1), flow_of(2), flow_of(3))
    append(ledger, numbered(300))

    shares = [(each.flow.flow_id, len(sequences_of(each))) for each in ledger.deliver(0)]

    assert shares == [(1, 100), (2, 100), (3, 100)]


def test_messages_a_flow_has_no_credit_for_go_to_the_others() -> None:
    ledger = ledger_with(flow_of(1, limit=10), flow_of(2), flow_of(3))
    append(ledger, numbered(300))
    ledger.deliver(0)

    assert ledger.in_flight_count(1) == 10
    assert ledger.waiting_count == ledger.in_flight_count(1) + ledger.in_flight_count(2) + ledger.in_flight_count(3)


def test_single_messages_go_round_flows_that_settle_at_once() -> None:
    """Nobody holds anything when the next message comes, so who holds least does not decide: whose turn it is does."""
    ledger = ledger_with(flow_of(1), flow_of(2), flow_of(3))
    served: list[int] = []
    for _ in range(6):
        append(ledger, numbered(1))
        ((flow_id, sequence),) = delivered(ledger)
        ledger.settle(flow_id, sequence, sequence + 1, ACCEPTED)
        served.append(flow_id)

    assert served == [1, 2, 3, 1, 2, 3]


@pytest.mark.parametrize("takers", [[3, 4], [1, 3], [2, 4], [1, 2, 3, 4]])
def test_those_that_take_take_turns_wherever_the_others_stand(takers: list[int]) -> None:
    """Who has no credit keeps its place, before or behind them."""
    windows = {number: window_of(1) for number in (1, 2, 3, 4)}
    ledger = ledger_with(*[flow_of(number, window=window) for number, window in windows.items()])
    append(ledger, numbered(4))
    for flow_id, sequence in delivered(ledger):
        ledger.settle(flow_id, sequence, sequence + 1, ACCEPTED)
        if flow_id in takers:
            windows[flow_id].give(1)
    served: list[int] = []
    for _ in range(2 * len(takers)):
        append(ledger, numbered(1))
        ((flow_id, sequence),) = delivered(ledger)
        ledger.settle(flow_id, sequence, sequence + 1, ACCEPTED)
        windows[flow_id].give(1)
        served.append(flow_id)

    assert served == takers * 2


def test_a_new_partition_is_served_before_those_already_served() -> None:
    """Else what one consumer failed with, or let its lock run out over, comes to it again before anybody else tries."""
    ledger = ledger_with(flow_of(1), flow_of(2))
    append(ledger, numbered(1))
    assert delivered(ledger) == [(1, 1)]
    ledger.attach(flow_of(3), epoch=1)
    ledger.settle(1, 1, 2, FAILED)
    tried = []
    for _ in range(3):
        ((flow_id, _),) = delivered(ledger)
        ledger.settle(flow_id, 1, 2, FAILED)
        tried.append(flow_id)

    assert tried == [2, 3, 1]


@given(held=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 1)), min_size=1, max_size=6))
def test_single_messages_go_where_batches_go(held: list[tuple[int, int]]) -> None:
    """Goal: who is picked for one message is who would be first for several. Method: the same, alone and together."""
    served: list[list[int]] = []
    for parts in ([1] * len(held), [len(held)]):
        ledger = Ledger(durable=True, rules=DeliveryRules())
        flows = [flow_of(number, limit=count + room) for number, (count, room) in enumerate(held, 1)]
        for flow, (count, _) in zip(flows, held, strict=True):
            ledger.attach(flow, 1)
            append(ledger, numbered(count))
            delivered(ledger)
            ledger.pause(flow.flow_id)
        for flow in flows:
            ledger.attach(flow, 1)
        served.append([])
        for part in parts:
            append(ledger, numbered(part))
            served[-1] += [flow_id for flow_id, _ in delivered(ledger)]

    assert served[0] == served[1]


def test_flows_that_share_a_window_get_no_more_than_it_holds_together() -> None:
    """The first uses up what the second was promised."""
    window = window_of(3)
    ledger = ledger_with(flow_of(1, window=window), flow_of(2, window=window))
    append(ledger, numbered(10))

    assert delivered(ledger) == [(1, 1), (1, 2), (1, 3)]
    assert window.available() == 0


def test_messages_a_shared_window_has_no_room_for_go_to_later_flows() -> None:
    shared = window_of(1)
    ledger = ledger_with(flow_of(1, window=shared), flow_of(2, window=shared), flow_of(3))
    append(ledger, numbered(2))

    assert delivered(ledger) == [(1, 1), (3, 2)]


def test_a_flow_that_shares_an_empty_window_stands_in_line_for_credit() -> None:
    window = window_of(2)
    ledger = ledger_with(flow_of(1, window=window))
    append(ledger, numbered(3))

    assert delivered(ledger) == [(1, 1), (1, 2)]
    assert [flow.flow_id for flow in ledger.effects.starved_flows] == [1]


def test_a_flow_that_got_everything_there_was_does_not_stand_in_line() -> None:
    ledger = ledger_with(flow_of(1, limit=3))
    append(ledger, numbered(3))
    ledger.deliver(0)

    assert ledger.effects.starved_flows == []


def test_a_message_given_back_is_delivered_before_newer_ones_and_flagged() -> None:
    """Solace 6.5: a FAILED message returns to its place at the head."""
    ledger = ledger_with(flow_of(1, limit=2))
    append(ledger, numbered(4))
    ledger.deliver(0)
    ledger.settle(1, 1, 2, FAILED)
    ledger.flows[1].flow.window.give(1)

    (delivery,) = ledger.deliver(0)

    assert list(sequences_of(delivery)) == [1]
    assert delivery.redelivered
    assert delivery.delivery_count == 2


def test_a_message_released_untouched_is_flagged_but_counts_no_failure() -> None:
    ledger = ledger_with(flow_of(1))
    append(ledger, numbered(1))
    ledger.deliver(0)
    ledger.settle(1, 1, 2, RELEASED)

    (delivery,) = ledger.deliver(0)

    assert delivery.redelivered
    assert delivery.delivery_count == 1


def test_after_the_last_permitted_redelivery_the_message_is_dropped() -> None:
    """Solace 13.4: with a maximum of 2, deliveries 1 to 3 happen; a further failure discards."""
    ledger = ledger_with(flow_of(1), rules=DeliveryRules(redelivery_count_max=2))
    append(ledger, numbered(1))
    counts = []
    for _ in range(3):
        (delivery,) = ledger.deliver(0)
        counts.append((delivery.delivery_count, delivery.redelivered))
        ledger.settle(1, 1, 2, FAILED)

    assert counts == [(1, False), (2, True), (3, True)]
    assert ledger.deliver(0) == []
    assert ledger.effects.discards == {DISCARD_MAX_REDELIVERY: 1}
    assert ledger.waiting_count == 0


def test_messages_that_failed_differently_often_are_delivered_apart() -> None:
    """A delivery has one count."""
    ledger = ledger_with(flow_of(1))
    append(ledger, numbered(4))
    ledger.deliver(0)
    ledger.settle(1, 2, 4, FAILED)
    ledger.settle(1, 1, 5, RELEASED)

    told = [(list(sequences_of(each)), each.delivery_count) for each in ledger.deliver(0)]

    assert told == [([1], 1), ([2, 3], 2), ([4], 1)]


def test_on_an_exclusive_queue_nothing_overtakes_a_failed_message_without_a_key() -> None:
    rules = DeliveryRules(order=ORDER_OF_ALL, redelivery_delay_ms=100, redelivery_delay_ms_max=100)
    ledger = ledger_with(flow_of(1), rules=rules)
    append(ledger, numbered(4))
    ledger.deliver(1)
    ledger.settle(1, 2, 3, FAILED)
    ledger.settle(1, 1, 5, RELEASED)

    assert [list(sequences_of(each)) for each in ledger.deliver(1000)] == [[1]]
    assert [list(sequences_of(each)) for each in ledger.deliver(1100)] == [[2], [3, 4]]
    ledger.check()


def test_a_lock_that_was_renewed_runs_out_as_one_granted_then() -> None:
    ledger = ledger_with(flow_of(1), rules=DeliveryRules(ack_timeout_ms=100))
    append(ledger, numbered(1))
    ledger.deliver(1000)
    assert renew_lock(ledger, 1, 1, [(1, 2)], WHICHEVER, 1050) == 1

    assert ledger.deliver(1149) == []
    assert [each.delivery_count for each in ledger.deliver(1160)] == [2]
    assert ledger.lock_losses_count == 1


def test_losing_a_consumer_counts_as_one_delivery_attempt() -> None:
    """Solace 13.4: disconnect of a consumer counts for the messages already sent to it."""
    ledger = ledger_with(flow_of(1), rules=DeliveryRules(redelivery_count_max=1))
    append(ledger, numbered(2))
    ledger.deliver(0)
    ledger.detach(1, count_as_failed=True)
    ledger.attach(flow_of(2), epoch=2)
    (delivery,) = ledger.deliver(0)
    assert delivery.delivery_count == 2

    ledger.detach(2, count_as_failed=True)

    assert ledger.effects.discards == {DISCARD_MAX_REDELIVERY: 2}


def test_one_unsettled_message_keeps_no_later_ones_in_memory() -> None:
    ledger = ledger_with(flow_of(1))
    for _ in range(1000):
        append(ledger, batch_of([b"x" * 100]))
    ledger.deliver(0)
    ledger.settle(1, 2, 1001, ACCEPTED)

    assert ledger.floor == 1
    assert len(ledger.segments) == 1
    assert ledger.memory_bytes == batch_of([b"x" * 100]).memory_bytes()


def test_a_paused_flow_goes_on_under_the_epoch_it_had() -> None:
    """When the heir of a partition is gone, its owner keeps what it holds and settles as before."""
    ledger = ledger_with(flow_of(1))
    append(ledger, numbered(2))
    ledger.deliver(0)
    ledger.pause(1)
    append(ledger, numbered(1))
    assert ledger.deliver(0) == []

    ledger.attach(ledger.flows[1].flow, epoch=1)

    assert delivered(ledger) == [(1, 3)]
    assert ledger.settle(1, 1, 4, ACCEPTED) == 3


def test_a_purge_leaves_what_consumers_hold() -> None:
    ledger = ledger_with(flow_of(1, limit=2))
    append(ledger, numbered(5))
    ledger.deliver(0)

    assert ledger.purge() == 3
    assert ledger.effects.discards == {DISCARD_PURGED: 3}
    assert ledger.settle(1, 1, 3, ACCEPTED) == 2
    assert ledger.floor == ledger.next_sequence == 6


def test_a_publication_is_not_drained_while_another_partition_has_yet_to_number_it() -> None:
    """Drained twice, it would let go of a journal record that its other partition still needs."""
    first, second = ledger_with(flow_of(1)), ledger_with()
    publication = published(numbered(2), partitions_count=2)
    publication.sequenced(1, first.append(publication.batch, publication), None)
    first.deliver(0)
    first.settle(1, 1, 3, ACCEPTED)
    assert first.effects.released_publications == []

    publication.sequenced(2, second.append(publication.batch, publication), None)
    second.purge()

    assert second.effects.released_publications == [publication]


def test_a_publication_has_the_time_that_the_slowest_of_its_consumers_needs() -> None:
    slow, quick = flow_of(1, limit=1), flow_of(2, limit=1)
    slow.window.settles_in_ms = 30
    ledger = ledger_with(slow, quick)
    publication = published(numbered(2))
    publication.sequenced(1, ledger.append(publication.batch, publication), None)

    ledger.deliver(0)

    assert publication.undelivered_count == 0
    assert publication.patience_ms == 30


def test_a_message_that_is_delivered_again_is_not_given_to_a_consumer_for_the_first_time_again() -> None:
    """Its publication would seem to have been given whole, with another message still waiting."""
    ledger = ledger_with(flow_of(1, limit=1))
    publication = published(numbered(2))
    publication.sequenced(1, ledger.append(publication.batch, publication), None)
    assert publication.undelivered_count == 2

    for _ in range(2):
        ledger.deliver(0)
        assert publication.undelivered_count == 1
        ledger.flows[1].flow.window.give(ledger.settle(1, 1, 2, RELEASED))

    assert not publication.may_be_spared()


def test_a_settlement_is_of_what_was_written_once_the_store_has_the_message() -> None:
    """Then it is worth a commit of its own, or the message would come again after the next start."""
    ledger = ledger_with(flow_of(1))
    publication = published(numbered(2))
    ledger.append(publication.batch, publication)
    ledger.deliver(0)

    ledger.settle(1, 1, 2, ACCEPTED)
    assert not ledger.effects.settled_written
    written(publication)
    ledger.settle(1, 2, 3, ACCEPTED)
    assert ledger.effects.settled_written


def test_a_ledger_whose_queue_is_deleted_lets_go_of_its_publications() -> None:
    ledger = ledger_with(flow_of(1, limit=1))
    publication = published(numbered(3))
    publication.sequenced(1, ledger.append(publication.batch, publication), None)
    ledger.deliver(0)

    ledger.abandon()

    assert ledger.effects.released_publications == [publication]
    assert publication.open_count == 0


@pytest.mark.parametrize("outcome", [RELEASED, FAILED])
def test_a_message_that_the_store_refused_goes_when_its_consumer_gives_it_back(outcome: int) -> None:
    """What was stored with its neighbours comes again."""
    ledger = ledger_with(flow_of(1))
    stored, refused, later = published(numbered(1)), published(numbered(2)), published(numbered(1))
    for publication in (stored, refused, later):
        publication.sequenced(1, ledger.append(publication.batch, publication), None)
    ledger.deliver(0)
    refused.refused = True
    assert ledger.give_up(2, 4, DISCARD_NOT_STORED) == 0, "a consumer holds it"

    assert ledger.settle(1, 1, 5, outcome) == 4

    assert ledger.effects.discards == {DISCARD_NOT_STORED: 2}
    assert [list(sequences_of(each)) for each in ledger.deliver(0)] == [[1], [4]]
    ledger.check()
