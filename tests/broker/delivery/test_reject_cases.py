"""The cases of tests/data/routing/rejects.txt: who hears of what one of two queues does not take (Solace 13.3)."""

from pathlib import Path
from typing import Any

import pytest

import support.mqtt.packets as mqtt
from support.broker.named_queues import create, shown
from support.broker.running_broker import RunningBroker

CASES = Path(__file__).parents[2] / "data" / "routing" / "rejects.txt"
MB = 1 << 20
LARGE = bytes(MB // 4)
LOW = mqtt.user_property("priority", "3")

ATTRIBUTES: dict[str, dict[str, Any]] = {
    "over-quota": {"max_msg_spool_usage": 1},
    "too-big": {"max_msg_size": 10},
    "low-priority": {"reject_low_priority_msg_enabled": True, "reject_low_priority_msg_limit": 1},
    "shut-down": {"ingress_enabled": False},
    "vpn-full": {},
    "broker-full": {},
}
SETTINGS = {
    "vpn-full": ("vpn.usage_bytes_max=1MiB",),
    "broker-full": ("spool.usage_bytes_max=1MiB", "spool.map_bytes_max=64MiB"),
}


def cases() -> list[Any]:
    """Return problem, behavior, answer and queues of each line."""
    lines = [line.split() for line in CASES.read_text().splitlines() if line and not line.startswith("#")]
    return [pytest.param(*words, marks=pytest.mark.settings(*SETTINGS.get(words[0], ()))) for words in lines]


@pytest.mark.parametrize(("problem", "behavior", "answer", "queues"), cases())
async def test_a_publish_to_two_queues_is_answered_as_written(
    broker: RunningBroker, problem: str, behavior: str, answer: str, queues: str
) -> None:
    """All or nothing where the publisher hears of it; else the queue that can has it."""
    await create(broker, "Q1", subscriptions=["t"])
    attributes = {"reject_msg_to_sender_on_discard_behavior": behavior, **ATTRIBUTES[problem]}
    await create(broker, "Q2", subscriptions=["t", "before"], **attributes)
    publisher = await broker.connect("p", 5)
    before_count = 0
    if problem not in ("too-big", "shut-down"):  # what is there already is what makes the problem
        await publisher.publish("before", bytes(MB * 9 // 10))
        before_count = 1

    code = await publisher.publish("t", LARGE, properties=LOW if problem == "low-priority" else b"")

    assert ("nack" if code >= 0x80 else "ack") == answer
    counts = [(await shown(broker, name)).ready_count for name in ("Q1", "Q2")]
    assert counts == [1 if queues == "Q1" else 0, before_count]
