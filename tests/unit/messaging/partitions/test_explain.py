"""Why the messages of a key wait: one example for each reason that a ledger knows."""

from sluicegate.messaging.message.outcomes import ACCEPTED, FAILED
from sluicegate.messaging.partitions.explain import WaitReason, key_status, wait_reason
from sluicegate.messaging.partitions.ledger import Ledger
from sluicegate.messaging.partitions.state.flows import ORDER_BY_KEY, DeliveryRules, Flow
from support.cores.messages import flow_of, keyed, window_of

FAR = 1000


class Standing:
    """A partition with messages of keys, one each in the order given."""

    def __init__(self, keys: str, *, unacked_count_max: int = FAR) -> None:
        self.ledger = Ledger(durable=True, rules=DeliveryRules(unacked_count_max=unacked_count_max))
        self.ledger.append(keyed(list(keys)), None)

    def delivers(self, flow: Flow) -> None:
        self.ledger.attach(flow, 1)
        self.ledger.deliver(0)

    def why(self, key: str) -> WaitReason:
        return key_status(self.ledger, key).reason


def test_a_key_without_messages_waits_for_nothing() -> None:
    assert Standing("ab").why("c") is WaitReason.NOTHING_WAITS


def test_without_a_flow_there_is_no_consumer() -> None:
    assert Standing("ab").why("b") is WaitReason.NO_CONSUMER


def test_waiting_and_in_flight_messages_are_counted_by_key() -> None:
    standing = Standing("abab")
    standing.delivers(flow_of(1, limit=2))
    found = key_status(standing.ledger, "b")
    assert (found.waiting_count, found.in_flight_count, found.first_waiting) == (1, 1, 4)
    standing.ledger.settle(1, 2, 3, ACCEPTED)
    found = key_status(standing.ledger, "b")
    assert (found.waiting_count, found.in_flight_count, found.first_waiting) == (1, 0, 4)


def test_a_consumer_with_a_full_window_is_waited_for() -> None:
    standing = Standing("ab")
    standing.delivers(flow_of(1, limit=1))
    assert standing.why("a") is WaitReason.NOTHING_WAITS
    assert standing.why("b") is WaitReason.WINDOW_FULL


def test_a_consumer_that_takes_no_more_of_the_partition_is_waited_for() -> None:
    """Its window has room, and so have others their messages."""
    standing = Standing("ab")
    standing.delivers(flow_of(1, limit=10, of_partition_max=1))
    assert standing.why("a") is WaitReason.NOTHING_WAITS
    assert standing.why("b") is WaitReason.WINDOW_FULL


def test_a_consumer_that_does_not_read_is_waited_for() -> None:
    standing = Standing("ab")
    window = window_of(10)
    window.is_shut = True
    standing.delivers(flow_of(1, window=window))
    assert standing.why("a") is WaitReason.SOCKET_SHUT


def test_a_consumer_at_the_maximum_of_the_queue_is_waited_for() -> None:
    """Solace 6.4: max delivered unacked messages per flow."""
    standing = Standing("ab", unacked_count_max=1)
    standing.delivers(flow_of(1))
    assert standing.why("b") is WaitReason.UNACKED_MAX


def test_a_partition_that_changes_hands_is_paused() -> None:
    standing = Standing("ab")
    standing.delivers(flow_of(1, limit=1))
    standing.ledger.pause(1)
    assert standing.why("b") is WaitReason.HANDOFF


def test_before_its_turn_a_message_waits_behind_others() -> None:
    standing = Standing("ab")
    standing.ledger.attach(flow_of(1), 1)
    assert standing.why("b") is WaitReason.BEHIND_OTHERS


def test_a_message_that_is_being_moved_is_offered_to_no_consumer() -> None:
    standing = Standing("ab")
    standing.ledger.moving.add(1, 2)
    assert standing.why("a") is WaitReason.LEAVING


def test_a_message_whose_time_has_not_come_is_delayed() -> None:
    rules = DeliveryRules(delivery_delay_ms=1000)
    ledger = Ledger(durable=True, rules=rules)
    ledger.append(keyed(["a"]), None)
    ledger.attach(flow_of(1), 1)
    assert ledger.deliver(500) == []
    assert key_status(ledger, "a").reason is WaitReason.DELAYED


def test_a_failed_message_and_those_of_its_key_wait_for_the_redelivery() -> None:
    rules = DeliveryRules(redelivery_delay_ms=1000, redelivery_delay_ms_max=1000, order=ORDER_BY_KEY)
    ledger = Ledger(durable=True, rules=rules)
    ledger.append(keyed(["a"]), None)
    ledger.attach(flow_of(1), 1)
    ledger.deliver(1)
    ledger.settle(1, 1, 2, FAILED)
    ledger.append(keyed(["a"]), None)
    ledger.deliver(2)
    assert key_status(ledger, "a").reason is WaitReason.REDELIVERY_DELAY
    assert wait_reason(ledger, 2) is WaitReason.BEHIND_A_FAILED_ONE
