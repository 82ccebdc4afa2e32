"""Bridges that would bring messages of a virtual topic twice are warned of."""

from typing import Any

import pytest
import yaml

from sluicegate.gateway.config.load import load
from sluicegate.gateway.config.settings.virtual_doubles import doubled_messages

QUEUE = {"queue": "Consumer.a.VirtualTopic.t"}
OTHER = {"queue": "Consumer.b.VirtualTopic.>"}
TOPIC = {"topic": "VirtualTopic.t"}
TWICE = "the foreign broker gets these twice"
INTO_ITS_QUEUE = "puts the messages of 'VirtualTopic.t' into its queue 'Consumer.a.VirtualTopic.t'"


def warnings(*rules: dict[str, Any], url: str = "amqp://plant.example") -> list[tuple[str, str]]:
    value = [{"name": "b", "remote_url": url, "outgoing": list(rules)}]
    setting = "bridges=" + yaml.safe_dump(value, default_flow_style=True, width=100_000).strip()
    return list(doubled_messages(load(None, settings=("node.name=here", setting)).message_vpn("default")))


@pytest.mark.parametrize(
    ("one", "other", "said"),
    [
        (QUEUE, TOPIC, TWICE),
        (TOPIC, QUEUE, TWICE),
        (QUEUE, {"topic": "VirtualTopic/#"}, TWICE),
        (QUEUE, OTHER, TWICE),
        ({**QUEUE, "remote_queue": "Consumer.a.VirtualTopic.t"}, TOPIC, INTO_ITS_QUEUE),
    ],
)
def test_a_topic_and_the_queue_of_its_consumer_on_one_bridge_are_warned_of(
    one: dict[str, Any], other: dict[str, Any], said: str
) -> None:
    [(where, text)] = warnings(one, other)
    assert where == f"bridges: b: outgoing: {other.get('queue') or other['topic']}"
    assert said in text
    assert "keep one of the rules" in text


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (QUEUE, {"topic": "VirtualTopic.u"}),
        ({"queue": "orders"}, TOPIC),
        (QUEUE, {"queue": "Consumer.a.VirtualTopic.u"}),
        ({**QUEUE, "remote_queue": "a"}, {**OTHER, "remote_queue": "b"}),
        ({**QUEUE, "remote_queue": "a"}, TOPIC),
        (QUEUE, {**TOPIC, "remote_topic": "elsewhere"}),
        (TOPIC, {"topic": "VirtualTopic.u"}),
    ],
)
def test_rules_that_bring_each_message_once_are_not(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert warnings(one, other) == []
