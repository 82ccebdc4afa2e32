"""The rules of the judge for the topic, the expiry and the priority of a message."""

from contextlib import nullcontext

import pytest

import support.mqtt.packets as mqtt
from simulation.clients.client import SESSION_FILTER_ID
from simulation.judge.targets import EXCLUSIVE, SESSION, Rules, Violation
from simulation.judge.truth import Truth
from simulation.wires.mqtt_tap import Tap

EXPIRY_S, LONG_AFTER_US = 5, 60_000_000


class Consumer:
    """Holds what it gets, until it is said to let go of it."""

    has_let_go = False


def test_a_message_comes_on_the_topic_that_it_was_published_on_whatever_alias_says_so() -> None:
    truth = Truth(lambda: 0)
    truth.begins("s", SESSION, ("in/",), Rules())
    for topic in ("in/x", "in/y"):
        truth.sent("p", "k", topic, 1)
    tap = Tap(truth, "s", receive_maximum=10, names={SESSION_FILTER_ID: "s"}, out={})
    terms = mqtt.subscription_identifier(SESSION_FILTER_ID) + mqtt.topic_alias(1)
    first, second = (
        mqtt.publish(topic, b"%d|" % number, level=5, qos=1, packet_id=number, properties=terms)
        for number, topic in ((1, "in/x"), (2, ""))
    )

    tap.written(first)
    with pytest.raises(Violation, match="on the topic 'in/x'"):
        tap.written(second)


@pytest.mark.parametrize("kind", [EXCLUSIVE, SESSION])
def test_messages_that_expired_with_a_consumer_come_again_to_sessions_only(kind: str) -> None:
    now_us = 0
    truth = Truth(lambda: now_us)
    target = truth.begins("t", kind, ("in/",), Rules(respects_expiry=True))
    message = truth.sent("p", "k", "in/x", 1, expiry_s=EXPIRY_S)
    consumer = Consumer()
    now_us = 1
    truth.promised(message, 0)

    def comes() -> None:
        truth.delivered(target, 1, consumer, held_us=now_us, flagged=now_us > 1, count=2, again=False)

    comes()
    now_us, consumer.has_let_go = LONG_AFTER_US, True

    if kind == SESSION:
        comes()
    else:
        with pytest.raises(Violation, match="after it had expired"):
            comes()


@pytest.mark.parametrize("has_declined", [False, True])
def test_what_is_urgent_comes_first_unless_a_message_waits_that_a_consumer_has_declined(has_declined: bool) -> None:
    """Decision 0012: a consumer that has declined something ignores priorities meanwhile."""
    now_us = 0
    truth = Truth(lambda: now_us)
    target = truth.begins("t", EXCLUSIVE, ("in/",), Rules(by_priority=True))
    for priority in (4, 0, 9):
        truth.promised(truth.sent("p", "k", "in/x", 1, priority=priority), 0)
    consumer = Consumer()

    def comes(number: int) -> None:
        truth.delivered(target, number, consumer, held_us=now_us, flagged=False, count=1, again=False)

    comes(1)
    if has_declined:
        target.declined.add(1)
    now_us = LONG_AFTER_US
    with nullcontext() if has_declined else pytest.raises(Violation, match="before message 3"):
        comes(2)
    truth.settled(target, 1, consumer, for_good=True, rejected=False)
    if has_declined:
        truth.promised(truth.sent("p", "k", "in/x", 1, priority=1), 0)
        with pytest.raises(Violation, match="before message 3"):
            comes(4)
