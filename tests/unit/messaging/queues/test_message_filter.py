"""Which messages of a queue somebody means: ids in text, and filters."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluicegate.messaging.message.batch import AT_LEAST_ONCE, MessageBatch
from sluicegate.messaging.message.headers import DeadLetter, Headers
from sluicegate.messaging.queues.definition import QueueInvalid
from sluicegate.messaging.queues.message_filter import SEQUENCE_MAX, MessageFilter, MessageId, parse_message_id
from sluicegate.messaging.selectors.selector import Selectors
from sluicegate.messaging.topics.syntax import Syntax, parse_filter


@given(partition=st.integers(0, 999), sequence=st.integers(1, SEQUENCE_MAX))
def test_an_id_reads_back_what_it_was_written_from(partition: int, sequence: int) -> None:
    message_id = MessageId(partition, sequence)

    assert parse_message_id(message_id.text()) == message_id


@pytest.mark.parametrize(
    "text", ["", ":", "0:", ":5", "5", "0:0", "1000:1", "-1:5", "0:-5", "0:5:6", "0: 5", "0:x", "٣:٤", "0:" + "9" * 25]
)
def test_an_invalid_id_is_refused_with_the_form_of_one(text: str) -> None:
    with pytest.raises(QueueInvalid, match="PARTITION:SEQUENCE"):
        parse_message_id(text)


def batch(topic: str, headers: Headers | None, received_ms: int) -> MessageBatch:
    return MessageBatch(
        topic=topic,
        topics=None,
        payloads=[b""],
        headers=None if headers is None else [headers],
        qos=AT_LEAST_ONCE,
        retain=False,
        publisher="",
        received_ms=received_ms,
        payload_bytes=0,
    )


def dead(*, reason: str = "expired", queue: str = "orders", priority: int = 4) -> Headers:
    return Headers(
        priority=priority,
        dead=DeadLetter(
            reason=reason,
            queue=queue,
            partition=0,
            delivery_count=1,
            died_ms=5,
            client="",
            was_eligible=False,
            via=(),
        ),
    )


def test_a_filter_that_says_nothing_means_every_message() -> None:
    assert MessageFilter().matches(batch("any/topic", None, 0), 0)


def test_everything_that_is_said_has_to_be_so() -> None:
    wanted = MessageFilter(
        topic_filter=parse_filter("a/>", Syntax.SMF),
        selector=Selectors({}).compile("JMSPriority = 4"),
        received_before_ms=100,
        dead_reason="expired",
        dead_queue="orders",
    )

    assert wanted.matches(batch("a/b", dead(), 99), 0)
    assert not wanted.matches(batch("b", dead(), 99), 0)
    assert not wanted.matches(batch("a/b", dead(), 100), 0)
    assert not wanted.matches(batch("a/b", dead(reason="rejected"), 99), 0)
    assert not wanted.matches(batch("a/b", dead(queue="other"), 99), 0)
    assert not wanted.matches(batch("a/b", dead(priority=5), 99), 0)
    assert not wanted.matches(batch("a/b", Headers(), 99), 0)
    assert not wanted.matches(batch("a/b", None, 99), 0)


def test_a_key_and_times_are_conditions_too() -> None:
    wanted = MessageFilter(key="k", received_from_ms=10, received_before_ms=20)
    keyed = Headers(partition_key="k")
    assert wanted.matches(batch("t", keyed, 10), 0)
    assert not wanted.matches(batch("t", keyed, 9), 0)
    assert not wanted.matches(batch("t", keyed, 20), 0)
    assert not wanted.matches(batch("t", Headers(partition_key="other"), 10), 0)
    assert not wanted.matches(batch("t", None, 10), 0)
