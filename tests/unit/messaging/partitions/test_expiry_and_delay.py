"""Messages that wait for their time while the rules of their queue change."""

from sluicegate.messaging.message.outcomes import FAILED
from sluicegate.messaging.partitions.ledger import Ledger
from sluicegate.messaging.partitions.rules.expiry import SEGMENTS_PER_TURN, deadline_ms
from sluicegate.messaging.partitions.state.effects import Delivery
from sluicegate.messaging.partitions.state.flows import DeliveryRules
from support.cores.messages import batch_of, flow_of, numbered, sequences_of


def turn(ledger: Ledger, wall_ms: int) -> list[int]:
    """Deliver as a partition does, which looks at the clock only if that matters; return what was delivered."""
    deliveries: list[Delivery] = ledger.deliver(wall_ms if ledger.needs_the_time() else 0)
    return [sequence for each in deliveries for sequence in sequences_of(each)]


def test_a_failed_message_is_delivered_again_though_delays_were_switched_off_while_it_waited() -> None:
    """Nothing about the message itself says that time matters."""
    rules = DeliveryRules(redelivery_delay_ms_max=60_000)
    ledger = Ledger(durable=False, rules=rules)
    ledger.attach(flow_of(1, limit=10), epoch=1)
    ledger.append(numbered(1), None)
    assert turn(ledger, 1_000) == [1]

    rules.redelivery_delay_ms = 10_000
    rules.generation += 1
    turn(ledger, 2_000)
    ledger.settle(1, 1, 2, FAILED)
    assert turn(ledger, 3_000) == []
    rules.redelivery_delay_ms = 0
    rules.generation += 1
    assert turn(ledger, 4_000) == []

    assert deadline_ms(ledger) == 13_000
    assert turn(ledger, 13_000) == [1]


def test_all_that_waited_for_a_delay_goes_when_it_is_switched_off_though_it_is_more_than_one_turn_looks_at() -> None:
    rules = DeliveryRules()
    ledger = Ledger(durable=False, rules=rules)
    count = 2 * SEGMENTS_PER_TURN + 1
    for _ in range(count):
        ledger.append(numbered(1), None)
    rules.delivery_delay_ms = 10_000
    rules.generation += 1
    ledger.attach(flow_of(1, limit=count), epoch=1)
    assert turn(ledger, 1_000) == []

    rules.delivery_delay_ms = 0
    rules.generation += 1

    assert [sequence for _ in range(3) for sequence in turn(ledger, 2_000)] == list(range(1, count + 1))


def test_of_all_that_waits_for_its_time_the_earliest_is_the_next_moment() -> None:
    """Locks and a delay run side by side; whichever is over first brings the turn."""
    ledger = Ledger(
        durable=False,
        rules=DeliveryRules(ack_timeout_ms=16_000, redelivery_delay_ms=3_000, redelivery_delay_ms_max=60_000),
    )
    ledger.attach(flow_of(1, limit=10), epoch=1)
    ledger.append(numbered(2), None)
    assert turn(ledger, 1_000) == [1, 2]
    assert deadline_ms(ledger) == 17_000
    ledger.settle(1, 2, 3, FAILED)
    assert turn(ledger, 2_000) == []

    assert deadline_ms(ledger) == 5_000
    assert turn(ledger, 5_000) == [2]
    assert deadline_ms(ledger) == 17_000, "the lock of the first"


def test_past_times_are_no_deadlines() -> None:
    """Else the partition would have a turn after the other for nothing."""
    ledger = Ledger(durable=False, rules=DeliveryRules(respects_expiry=True))
    ledger.append(batch_of([b"m"] * 3, expires_at_ms=[5_000, 0, 9_000]), None)
    for wall_ms, next_ms in ((1_000, 5_000), (5_000, 9_000), (9_000, 0)):
        turn(ledger, wall_ms)
        assert deadline_ms(ledger) == next_ms
    assert ledger.waiting_count == 1


def test_an_expired_message_is_dropped_on_release_without_any_consumer() -> None:
    """While it was held its time passed without it: it would wait for a consumer, and count against the quota."""
    ledger = Ledger(durable=False, rules=DeliveryRules(respects_expiry=True))
    ledger.attach(flow_of(1, limit=10), epoch=1)
    ledger.append(batch_of([b"m"] * 2, expires_at_ms=[5_000, 0]), None)
    assert turn(ledger, 1_000) == [1, 2]
    turn(ledger, 6_000)
    ledger.detach(1, count_as_failed=False)

    turn(ledger, 7_000)

    assert ledger.waiting_count == 1
