"""A client may answer for a packet id under which it was sent nothing yet: its message waits for the store."""

import pytest

import support.mqtt.packets as mqtt
from sluicegate.messaging.message.batch import AT_LEAST_ONCE, EXACTLY_ONCE
from sluicegate.protocols.mqtt.codec.events import AcknowledgementReceived
from sluicegate.protocols.mqtt.codec.fixed_header import PUBACK, PUBREC
from sluicegate.protocols.mqtt.codec.reason_codes import PACKET_IDENTIFIER_NOT_FOUND, QUOTA_EXCEEDED, SUCCESS
from support.mqtt.one_message import NAMED, OWN, SHARED, OneMessage, retained_once

NOT_FOUND = mqtt.pubrel(1, PACKET_IDENTIFIER_NOT_FOUND)


@pytest.mark.parametrize("queue", [OWN, SHARED, NAMED])
def test_a_pubrec_before_its_publish_was_sent_gets_an_error_and_the_message_is_sent(queue: str) -> None:
    """[4.3.3-4] [3.6.2.1]: the client cannot have it, so it is neither settled nor lost."""
    its = OneMessage(queue)
    assert its.side.acknowledged(AcknowledgementReceived(PUBREC, 1, 1, SUCCESS))
    assert its.conversation.said() == NOT_FOUND
    its.store_ids()
    assert its.conversation.said().endswith(b"once")
    assert its.settled() == []
    assert its.side.acknowledged(AcknowledgementReceived(PUBREC, 1, 1, SUCCESS))
    its.store_ids()
    assert its.settled() == [(1, 2)]


def test_a_pubrec_that_refuses_what_was_not_sent_is_passed_over() -> None:
    its = OneMessage()
    assert its.side.acknowledged(AcknowledgementReceived(PUBREC, 1, 1, QUOTA_EXCEEDED))
    its.store_ids()
    assert its.conversation.said().endswith(b"once")
    assert its.settled() == []


def test_a_puback_for_what_was_not_sent_is_passed_over() -> None:
    """What is behind a QoS 2 message of its queue waits with it, also for one that knows which id comes next."""
    its = OneMessage()
    its.publish(b"behind", AT_LEAST_ONCE)
    assert its.side.acknowledged(AcknowledgementReceived(PUBACK, 2, 2, SUCCESS))
    its.store_ids()
    assert its.conversation.said().endswith(b"behind")
    assert its.settled() == []


def test_an_answer_of_the_wrong_kind_to_what_was_not_sent_is_no_error() -> None:
    its = OneMessage()
    assert its.side.acknowledged(AcknowledgementReceived(PUBACK, 1, 1, SUCCESS))
    its.store_ids()
    assert not its.side.acknowledged(AcknowledgementReceived(PUBACK, 1, 1, SUCCESS))


def test_of_answers_that_come_together_those_count_whose_messages_were_sent() -> None:
    its = OneMessage()
    its.store_ids()
    its.publish(b"twice", EXACTLY_ONCE)
    its.conversation.said()
    assert its.side.acknowledged(AcknowledgementReceived(PUBREC, 1, 2, SUCCESS))
    its.store_ids()
    said = its.conversation.said()
    assert said.startswith(mqtt.pubrel(2, PACKET_IDENTIFIER_NOT_FOUND))
    assert b"twice" in said
    assert mqtt.pubrel(1) in said
    assert its.settled() == [(1, 2)]
    assert [run.first_packet_id for run in its.side.ids.unanswered()] == [2]


def test_messages_of_an_earlier_connection_acknowledged_now_are_not_resent() -> None:
    """[4.3.3-6]: no PUBLISH behind a PUBREC."""
    its = OneMessage()
    its.store_ids()
    its.side.remember()
    its.comes_back()
    its.deliver()
    assert its.side.acknowledged(AcknowledgementReceived(PUBREC, 1, 1, SUCCESS))
    its.store_ids()
    assert its.conversation.said() == mqtt.pubrel(1)
    assert its.settled() == [(1, 2)]


def test_a_retained_message_that_was_not_sent_yet_comes_though_its_id_was_answered() -> None:
    its = OneMessage()
    retained_once(its)
    assert its.side.acknowledged(AcknowledgementReceived(PUBREC, 2, 2, SUCCESS))
    its.store_ids()
    assert its.conversation.said().endswith(b"kept")
    assert its.side.acknowledged(AcknowledgementReceived(PUBREC, 2, 2, SUCCESS))
    assert not its.session.retained_sent
