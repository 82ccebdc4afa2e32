"""What a connection sends of what a partition delivers to it."""

import pytest

import support.mqtt.packets as mqtt
from sluicegate.actors.messages.data import Settle
from sluicegate.messaging.message.batch import AT_LEAST_ONCE, EXACTLY_ONCE
from sluicegate.messaging.message.outcomes import DISCARD_NOT_STORED
from sluicegate.messaging.partitions.ledger import Ledger
from sluicegate.messaging.partitions.state.flows import DeliveryRules
from sluicegate.protocols.mqtt.codec.events import AcknowledgementReceived
from sluicegate.protocols.mqtt.codec.fixed_header import PUBCOMP, PUBREC
from sluicegate.protocols.mqtt.codec.reason_codes import QUOTA_EXCEEDED, SUCCESS
from support.cores.messages import flow_of
from support.mqtt.one_message import NAMED, OWN, SHARE, SHARED, OneMessage, retained_once, subscription_at


@pytest.mark.parametrize("is_refused", [False, True])
def test_a_qos_2_message_that_the_store_has_refused_meanwhile_is_not_sent(is_refused: bool) -> None:
    """[4.3.3-1]: its publisher sends it again, and to the subscriber that would be another message."""
    its = OneMessage()
    its.publication.refused = is_refused
    its.store_ids()

    for message in its.partition.items:
        assert isinstance(message, Settle)
        for first, end in message.ranges:
            its.ledger.settle(message.flow_id, first, end, message.outcome)
    assert (b"once" in its.conversation.said()) is not is_refused
    assert its.window.used == len(its.session.ids.exactly_once.runs()) == (0 if is_refused else 1)
    assert its.ledger.effects.discards == ({DISCARD_NOT_STORED: 1} if is_refused else {})


@pytest.mark.parametrize("queue", [OWN, SHARED])
def test_a_qos_2_message_is_settled_once_the_store_knows_that_the_client_has_it(queue: str) -> None:
    """[4.3.3-1] [2.2.1-3]: settled alone, a restart would give its id to a message that the client then passes over."""
    its = OneMessage(queue)
    its.store_ids()
    assert its.side.acknowledged(AcknowledgementReceived(PUBREC, 1, 1, SUCCESS))
    assert its.settled() == []

    stored = its.after_a_crash()
    ids = stored.ids if queue == OWN else stored.shares[SHARE].ids
    assert (stored.released.ranges(), ids.remembered, ids.partition_id) == ([(1, 2)], False, 7)
    assert ids.ranges_of_client() == [(1, 2)], "nobody else gets it"

    its.store_ids()
    assert its.settled() == [(1, 2)]


@pytest.mark.parametrize("queue", [OWN, SHARED])
def test_a_qos_2_message_that_the_client_has_is_settled_when_the_connection_ends_before_the_store_knows(
    queue: str,
) -> None:
    """The session's directory has the ids written then."""
    its = OneMessage(queue)
    its.store_ids()
    its.side.acknowledged(AcknowledgementReceived(PUBREC, 1, 1, SUCCESS))
    its.side.remember()
    its.store_ids()
    assert its.settled() == [(1, 2)]


def test_a_client_that_returns_forgets_what_a_named_queue_gave_to_another_client_meanwhile() -> None:
    """[4.4.0-1]: else the next message under that id would be the same to it, and be passed over."""
    its = OneMessage(NAMED)
    its.store_ids()
    its.side.remember()
    assert its.session.released.ranges() == [(1, 2)]
    assert not its.session.ids.remembered


def test_a_qos_2_message_of_a_named_queue_goes_out_once_a_crash_would_leave_its_id_to_it() -> None:
    """[4.4.0-1]: the client may have it, and would pass over another message under its id."""
    its = OneMessage(NAMED)
    assert its.conversation.said() == b""
    assert its.after_a_crash().released.ranges() == [(1, 2)]

    its.store_ids()
    assert b"once" in its.conversation.said()
    its.side.acknowledged(AcknowledgementReceived(PUBREC, 1, 1, SUCCESS))
    assert its.settled() == [(1, 2)]
    assert its.after_a_crash().released.ranges() == [(1, 2)]
    its.side.acknowledged(AcknowledgementReceived(PUBCOMP, 1, 1, SUCCESS))
    assert its.after_a_crash().released.ranges() == []


def test_a_qos_2_message_of_a_named_queue_that_the_client_refuses_leaves_its_id_free() -> None:
    """[4.3.3-9]: a PUBREC of 0x80 or above ends it."""
    its = OneMessage(NAMED)
    its.store_ids()
    its.side.acknowledged(AcknowledgementReceived(PUBREC, 1, 1, QUOTA_EXCEEDED))
    assert its.after_a_crash().released.ranges() == []


@pytest.mark.parametrize("queue", [OWN, SHARED, NAMED])
def test_a_qos_1_message_does_not_overtake_one_of_qos_2_that_waits_for_the_store(queue: str) -> None:
    """A queue keeps order by key, whatever the QoS of its messages."""
    its = OneMessage(queue)
    its.publish(b"behind", AT_LEAST_ONCE)
    assert its.conversation.said() == b""
    its.store_ids()
    said = its.conversation.said()
    assert 0 < said.index(b"once") < said.index(b"behind")
    its.publish(b"later", AT_LEAST_ONCE)
    assert b"later" in its.conversation.said()


@pytest.mark.parametrize("queue", [OWN, SHARED])
def test_a_client_that_comes_back_forgets_a_qos_2_message_that_is_gone(queue: str) -> None:
    """[4.3.3-1]: it may have it, and would pass over another message under its id. It was purged, or damaged."""
    its = OneMessage(queue)
    its.store_ids()
    its.crash()
    ids = its.session.ids if queue == OWN else its.session.shares[SHARE].ids
    assert ids.kept_ranges() == [(1, 2)]
    its.side.forget_settled(ids, [])
    assert its.after_a_crash().released.ranges() == [(1, 2)]
    its.store_ids()
    assert its.conversation.said() == mqtt.acknowledgement(mqtt.PUBREL, 1)


def test_a_qos_1_message_that_is_gone_leaves_its_id_free() -> None:
    """[2.2.1-4]: a client keeps nothing of it, and some know no PUBREL."""
    its = OneMessage()
    its.store_ids()
    its.side.acknowledged(AcknowledgementReceived(PUBREC, 1, 1, SUCCESS))
    its.store_ids()
    its.side.acknowledged(AcknowledgementReceived(PUBCOMP, 1, 1, SUCCESS))
    its.publish(b"again", AT_LEAST_ONCE)
    its.side.remember()
    its.crash()
    its.side.forget_settled(its.session.ids, [])
    its.store_ids()
    assert its.conversation.said() == b""
    assert not its.after_a_crash().released


def test_sent_messages_of_an_ended_shared_subscription_keep_their_ids() -> None:
    """[4.4.0-1]: another member gets it; this client may have it, and would pass over another message under its id."""
    its = OneMessage(SHARED)
    assert its.extra is not None
    its.store_ids()
    del its.session.shares[SHARE]
    its.side.disown(its.extra.ids)
    assert its.after_a_crash().released.ranges() == [(1, 2)]
    its.side.remember()
    assert its.session.released.ranges() == [(1, 2)]


def test_received_messages_of_a_shared_subscription_are_settled_before_it_ends() -> None:
    """[4.8.2-4]: else another member would get it as well."""
    its = OneMessage(SHARED)
    assert its.extra is not None
    its.store_ids()
    its.side.acknowledged(AcknowledgementReceived(PUBREC, 1, 1, SUCCESS))
    its.side.disown(its.extra.ids)
    assert its.settled() == [(1, 2)]


@pytest.mark.parametrize("queue", [OWN, SHARED, NAMED])
def test_messages_waiting_for_the_store_when_the_connection_ended_were_not_sent(queue: str) -> None:
    """[4.8.2-4] [3.3.1-1]: nobody waits for its client, its id is free, and it comes as what it is, new."""
    its = OneMessage(queue)
    its.side.remember()
    ids = its.session.ids if its.extra is None else its.extra.ids
    assert ids.kept_ranges() == its.session.released.ranges() == its.session.not_sent_again.ranges() == []
    assert its.after_a_crash().released.ranges() == []

    its.comes_back(queue)
    its.deliver()
    its.store_ids()
    said = its.conversation.said()
    assert said[:1] == mqtt.publish("t", level=5, qos=2, packet_id=1)[:1], "without DUP"
    assert said.endswith(b"once")
    assert [run.first_packet_id for run in its.side.ids.unanswered()] == [1]


@pytest.mark.parametrize("queue", [OWN, SHARED, NAMED])
def test_messages_waiting_for_the_store_as_their_flow_ends_are_released_as_undelivered(queue: str) -> None:
    """[3.3.2-5]: its delivery has not begun, so it expires, and another consumer is the first to have it."""
    its = OneMessage(queue)
    its.store_ids()
    its.publish(b"twice", EXACTLY_ONCE)
    its.publish(b"behind it", AT_LEAST_ONCE)
    its.side.remember()
    its.give_back()
    assert its.ledger.in_flight_count(1) == 1
    assert its.ledger.never_delivered(1, 4) == [(2, 4)]


def test_messages_held_behind_an_answer_are_returned_if_the_flow_ends_first() -> None:
    its = OneMessage()
    its.side.hold()
    its.publish(b"held", AT_LEAST_ONCE)
    its.give_back()
    assert its.ledger.never_delivered(1, 3) == [(1, 3)]


def test_messages_possibly_sent_by_an_earlier_connection_are_not_returned_as_new() -> None:
    """[4.4.0-1]: it is completed, expired or not."""
    its = OneMessage()
    its.store_ids()
    its.side.remember()
    its.comes_back()
    its.deliver()
    its.give_back()
    assert its.ledger.in_flight_count(1) == 1
    assert its.ledger.never_delivered(1, 2) == []


@pytest.mark.parametrize("queue", [SHARED, NAMED])
def test_messages_waiting_for_the_store_are_not_sent_when_their_subscription_ends(queue: str) -> None:
    """[3.10.4-2]: it goes to another member, or consumer, and is not completed here: it was not begun."""
    its = OneMessage(queue)
    its.unsubscribe()
    its.store_ids()
    assert its.conversation.said() == b""
    assert its.window.used == 0
    assert its.after_a_crash().released.ranges() == []


def test_messages_waiting_for_a_resend_are_released_when_their_subscription_ends() -> None:
    """[4.4.0-1]: the client may have it, and would pass over another message under its id."""
    its = OneMessage(SHARED)
    its.store_ids()
    its.side.remember()
    its.comes_back(SHARED)
    its.deliver()
    its.unsubscribe()
    its.store_ids()
    its.store_ids()
    assert its.conversation.said() == mqtt.acknowledgement(mqtt.PUBREL, 1)
    assert its.session.released.ranges() == [(1, 2)]


@pytest.mark.parametrize("granted", [0, None])
def test_sent_messages_are_completed_whatever_the_subscription_is_now(granted: int | None) -> None:
    """[4.4.0-1] [3.10.4-3]: at its QoS and under its id, by who asks for QoS 0 now, and by who asks for nothing."""
    its = OneMessage(OWN)
    its.publish(b"behind", AT_LEAST_ONCE)
    its.store_ids()
    its.side.remember()
    its.comes_back()
    its.session.table.revoke("t")
    if granted is not None:
        its.session.grant("t", subscription_at(granted))
    its.publish(b"new", EXACTLY_ONCE)
    its.store_ids()
    once = mqtt.publish("t", b"once", level=5, qos=2, packet_id=1, dup=True)
    behind = mqtt.publish("t", b"behind", level=5, qos=1, packet_id=2, dup=True)
    said = its.conversation.said()
    assert (once in said, behind in said) == (True, True)
    assert (mqtt.publish("t", b"new", level=5) in said) is (granted == 0)
    assert (b"new" in said) is (granted == 0)
    assert its.settled() == [(3, 4)]


def test_received_messages_are_not_sent_at_qos_0_by_a_new_ledger() -> None:
    """[4.3.3-1]: its subscription has asked for QoS 0 since; what it has taken would come twice."""
    its = OneMessage(OWN)
    its.store_ids()
    its.side.acknowledged(AcknowledgementReceived(PUBREC, 1, 1, SUCCESS))
    its.store_ids()
    its.session.grant("t", subscription_at(0))
    its.conversation.said()
    its.ledger = Ledger(durable=True, rules=DeliveryRules())
    its.ledger.attach(flow_of(1, window=its.window), 2)
    its.publish(b"once", EXACTLY_ONCE)
    assert its.conversation.said() == b""


@pytest.mark.parametrize("was_sent", [False, True])
def test_a_retained_message_says_that_it_comes_again_only_if_it_was_sent(was_sent: bool) -> None:
    """[3.3.1-1] [4.4.0-1]: the connection may end while it waits for the store to have its id; it waits anew then."""
    its = OneMessage()
    retained_once(its)
    if was_sent:
        its.store_ids()
    its.side.remember()
    its.comes_back()
    its.side.retained.resend(0)
    kept = mqtt.publish("t", b"kept", level=5, qos=2, packet_id=2, retain=True, dup=was_sent)
    assert its.conversation.said() == (kept if was_sent else b"")
    assert (2, 3) in its.after_a_crash().released.ranges()
    its.store_ids()
    assert its.conversation.said() == (b"" if was_sent else kept)
