"""Retained messages of any shape: the limits of a message VPN bound memory and disk.

Method: as in test_hostile_shapes.py.
"""

import asyncio
from pathlib import Path

import pytest

import support.mqtt.packets as mqtt
from support.hostile.message_shapes import (
    DISK_SLACK,
    KEPT,
    MIB,
    QUOTA_EXCEEDED,
    SLACK,
    Shape,
    disk_bytes,
    fill,
    resident_bytes,
)
from support.processes.gateway import gateway

LIMIT = 32 * MIB

pytestmark = [pytest.mark.crash]


def _retained(topic: str, packet_id: int, qos: int, properties: bytes = b"") -> bytes:
    return mqtt.publish(topic, b"x", qos=qos, packet_id=packet_id, level=5, properties=properties, retain=True)


def with_properties(packet_id: int, qos: int) -> bytes:
    """Sixteen user properties of 60 kB."""
    return _retained(f"keep/{packet_id}", packet_id, qos, b"".join([mqtt.user_property("k", "v" * 60_000)] * 16))


def with_many_properties(packet_id: int, qos: int) -> bytes:
    """A thousand user properties of two bytes."""
    return _retained(f"keep/{packet_id}", packet_id, qos, b"".join([mqtt.user_property("k", "v")] * 1000))


def with_a_long_topic(packet_id: int, qos: int) -> bytes:
    """A topic of 60 kB."""
    return _retained(f"keep/{packet_id}/" + "t" * 60_000, packet_id, qos)


def with_many_levels(packet_id: int, qos: int) -> bytes:
    """A topic of 200 levels, of which all but the first are its own."""
    return _retained(f"keep/{packet_id}/" + "/".join("t" * 198), packet_id, qos)


def tiny(packet_id: int, qos: int) -> bytes:
    """A byte, on a topic of 6 to 10."""
    return _retained(f"keep/{packet_id}", packet_id, qos)


@pytest.mark.parametrize(
    "shape",
    [with_properties, with_many_properties, with_a_long_topic, with_many_levels, tiny],
    ids=lambda shape: shape.__name__,
)
def test_the_limit_of_retained_messages_bounds_memory_and_disk(tmp_path: Path, shape: Shape) -> None:
    """Also after a restart, which reads them all."""
    with gateway(tmp_path, vpn__retained_bytes_max=LIMIT) as node:
        memory_before, disk_before = resident_bytes(node), disk_bytes(node)

        codes = asyncio.run(fill(node, shape, window=500 if shape is tiny else 4, messages_max=55_000))

        assert codes[-1] == QUOTA_EXCEEDED, "the limit is reached, whatever the messages look like"
        assert disk_bytes(node) - disk_before <= 1.5 * LIMIT + DISK_SLACK
        assert resident_bytes(node) - memory_before <= 1.5 * LIMIT + KEPT + SLACK
        node.stop()
        node.start()
        assert resident_bytes(node) - memory_before <= 1.5 * LIMIT + KEPT + SLACK
