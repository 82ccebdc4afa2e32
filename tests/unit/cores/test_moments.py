"""Messages that wait for their time while the rules of their queue change."""

from messaging.effects import Delivery
from messaging.flows import DeliveryRules
from messaging.ledger import Ledger
from messaging.moments import SEGMENTS_PER_TURN, deadline_ms
from messaging.settlement import FAILED
from unit.cores.messages import flow_of, numbered, sequences_of


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
