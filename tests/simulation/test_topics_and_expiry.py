"""The rules of the judge for the topic and the expiry of a message."""

import pytest

import support.mqtt.packets as mqtt
from simulation.client import SESSION_FILTER_ID
from simulation.mqtt_tap import Tap
from simulation.targets import EXCLUSIVE, SESSION, Rules, Violation
from simulation.truth import Truth

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
