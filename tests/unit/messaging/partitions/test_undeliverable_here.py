"""Messages that a flow gives back for others (AMQP's undeliverable-here). The law is in test_selecting_flows."""

from sluicegate.messaging.message.batch import MessageBatch
from sluicegate.messaging.message.headers import Headers
from sluicegate.messaging.message.outcomes import (
    ACCEPTED,
    DISCARD_MAX_REDELIVERY,
    DISCARD_UNDELIVERABLE,
    FAILED_ELSEWHERE,
    RELEASED_ELSEWHERE,
)
from sluicegate.messaging.partitions.explain import WaitReason, wait_reason
from sluicegate.messaging.partitions.ledger import Ledger
from sluicegate.messaging.partitions.rules.undeliverable import DECLINED_RANGES_MAX
from sluicegate.messaging.partitions.state.flows import DeliveryRules
from support.cores.messages import batch_of, delivered, flow_of


def ledger_with(*flow_ids: int, rules: DeliveryRules | None = None, limit: int = 100_000) -> Ledger:
    ledger = Ledger(durable=False, rules=rules or DeliveryRules())
    for flow_id in flow_ids:
        ledger.attach(flow_of(flow_id, limit=limit), flow_id)
    return ledger


def keyed(*hashes: int) -> MessageBatch:
    return batch_of([b"m"] * len(hashes), headers=[Headers(key_hash=each) for each in hashes])


def test_messages_declined_by_all_flows_are_dead_and_no_longer_scanned() -> None:
    ledger = ledger_with(1)
    ledger.append(batch_of([b"m"] * 3), None)
    ledger.deliver(0)

    ledger.settle(1, 1, 3, FAILED_ELSEWHERE)

    ledger.check()
    assert ledger.effects.discards == {DISCARD_UNDELIVERABLE: 2}
    assert ledger.selecting_count == 0


def test_the_count_rises_only_with_a_failure() -> None:
    ledger = ledger_with(1)
    ledger.append(batch_of([b"m"] * 2), None)
    ledger.deliver(0)
    ledger.attach(flow_of(2), 2)
    ledger.settle(1, 1, 2, RELEASED_ELSEWHERE)
    ledger.settle(1, 2, 3, FAILED_ELSEWHERE)

    assert [(each.flow.flow_id, each.delivery_count) for each in ledger.deliver(0)] == [(2, 1), (2, 2)]
    ledger.check()


def test_a_failure_too_many_is_one_though_others_could_have_it() -> None:
    ledger = ledger_with(1, rules=DeliveryRules(redelivery_count_max=1))
    ledger.append(batch_of([b"m"]), None)
    ledger.deliver(0)
    ledger.attach(flow_of(2), 2)
    ledger.settle(1, 1, 2, FAILED_ELSEWHERE)
    ledger.deliver(0)
    ledger.settle(2, 1, 2, FAILED_ELSEWHERE)

    assert ledger.effects.discards == {DISCARD_MAX_REDELIVERY: 1}
    ledger.check()


def test_a_flow_that_is_paused_is_waited_for() -> None:
    """It goes on, or the partition has another owner soon."""
    ledger = ledger_with(1)
    ledger.append(batch_of([b"m"]), None)
    ledger.deliver(0)
    ledger.pause(1)
    ledger.settle(1, 1, 2, RELEASED_ELSEWHERE)
    ledger.detach(1, count_as_failed=True)
    ledger.attach(flow_of(2), 2)

    assert delivered(ledger.deliver(0)) == {2: [1]}
    ledger.check()


def test_a_message_that_all_remaining_flows_declined_dies_when_the_last_other_leaves() -> None:
    ledger = ledger_with(1)
    ledger.append(batch_of([b"m"]), None)
    ledger.deliver(0)
    ledger.attach(flow_of(2), 2)
    ledger.settle(1, 1, 2, RELEASED_ELSEWHERE)
    assert ledger.effects.discards == {}

    ledger.detach(2, count_as_failed=False)

    assert ledger.effects.discards == {DISCARD_UNDELIVERABLE: 1}
    ledger.check()


def test_only_the_owner_of_a_group_can_get_its_messages() -> None:
    """Message groups: nobody gets a message of a key while another flow has the key."""
    ledger = ledger_with(1, 2, rules=DeliveryRules(group_buckets=8))
    ledger.append(keyed(1, 1), None)
    ledger.append(keyed(-1), None)
    got = delivered(ledger.deliver(0))
    owner = next(flow_id for flow_id, sequences in got.items() if 1 in sequences)
    other_has = next(flow_id for flow_id, sequences in got.items() if 3 in sequences)
    ledger.settle(owner, 1, 2, RELEASED_ELSEWHERE)
    ledger.settle(other_has, 3, 4, RELEASED_ELSEWHERE)

    assert ledger.effects.discards == {DISCARD_UNDELIVERABLE: 1}
    assert delivered(ledger.deliver(0)) == {3 - other_has: [3]}
    ledger.check()


def test_nothing_goes_round_while_the_other_flow_has_no_room() -> None:
    ledger = ledger_with(1)
    ledger.append(batch_of([b"m"] * 4), None)
    ledger.deliver(0)
    ledger.attach(flow_of(2, limit=0), 2)
    ledger.settle(1, 1, 3, RELEASED_ELSEWHERE)

    for _ in range(3):
        assert ledger.deliver(0) == []
        assert not ledger.scan_pending()
    assert wait_reason(ledger, 1) is WaitReason.WINDOW_FULL
    ledger.settle(1, 3, 5, ACCEPTED)
    ledger.append(batch_of([b"new"]), None)
    assert delivered(ledger.deliver(0)) == {1: [5]}
    ledger.check()


def test_messages_declined_beyond_the_limit_of_a_flow_are_dead() -> None:
    ledger = ledger_with(1)
    count = 2 * (DECLINED_RANGES_MAX + 2)
    ledger.append(batch_of([b"m"] * count), None)
    ledger.deliver(0)
    ledger.attach(flow_of(2, limit=0), 2)
    for sequence in range(1, count, 2):
        ledger.settle(1, sequence, sequence + 1, RELEASED_ELSEWHERE)

    assert ledger.effects.discards == {DISCARD_UNDELIVERABLE: 2}
    ledger.check()
