"""Messages with very large properties or topics, or many tiny ones, and the growth of a gateway's process and folder.

For tests that fill a limit of a real gateway with messages of one shape until it refuses or drops them.
"""

from collections.abc import Callable
from pathlib import Path

import pytest

import support.mqtt.packets as mqtt
from sluicegate.gateway.node.os_limits import KEPT_BYTES
from support.mqtt.raw_client import RawClient
from support.processes.gateway import GatewayProcess

MIB = 1 << 20
SLACK = 24 * MIB  # what the process takes to serve anything at all: buffers, caches, the allocator's arenas
# Freed memory that glibc keeps for the next large buffer, as `gateway.node.os_limits` tells it to: in the heap of each
# thread that makes some: that of the event loop, and those that write the log, make checkpoints, and read pages. How
# much of it is there at the end of a test is chance.
KEPT = 4 * KEPT_BYTES
DISK_SLACK = 8 * MIB  # an empty spool, and the pages that LMDB keeps free
QUOTA_EXCEEDED = 0x97
PACKET_IDS = 60_000  # of as many messages, one after the other

Shape = Callable[[int, int], bytes]


def with_properties(packet_id: int, qos: int) -> bytes:
    """No payload, sixteen user properties of 60 kB."""
    properties = b"".join([mqtt.user_property("k", "v" * 60_000)] * 16)
    return mqtt.publish("fill/x", b"", qos=qos, packet_id=packet_id, level=5, properties=properties)


def with_many_properties(packet_id: int, qos: int) -> bytes:
    """No payload, a thousand user properties of two bytes."""
    properties = b"".join([mqtt.user_property("k", "v")] * 1000)
    return mqtt.publish("fill/x", b"", qos=qos, packet_id=packet_id, level=5, properties=properties)


def with_a_long_topic(packet_id: int, qos: int) -> bytes:
    """No payload, a topic of 60 kB, never the same twice."""
    return mqtt.publish(f"fill/{packet_id}/" + "t" * 60_000, b"", qos=qos, packet_id=packet_id, level=5)


def tiny(packet_id: int, qos: int) -> bytes:
    """One byte."""
    return mqtt.publish("fill/x", b"x", qos=qos, packet_id=packet_id, level=5)


SHAPES = pytest.mark.parametrize(
    "shape", [with_properties, with_many_properties, with_a_long_topic, tiny], ids=lambda shape: shape.__name__
)


def resident_bytes(node: GatewayProcess) -> int:
    """Return the resident memory of the gateway's process, without the pages of the data file that are mapped."""
    fields = (Path("/proc") / str(node.pid) / "status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in fields if line.startswith("RssAnon"))


def disk_bytes(node: GatewayProcess) -> int:
    """Return the blocks that the data folder takes."""
    return sum(each.stat().st_blocks * 512 for each in node.data.rglob("*") if each.is_file())


async def fill(node: GatewayProcess, shape: Shape, *, window: int, messages_max: int) -> list[int]:
    """Publish at QoS 1, `window` messages in one write, until one is refused; return the reason codes."""
    client = await RawClient.open(node.mqtt_port, 5)
    await client.connect("filler")
    codes: list[int] = []
    while len(codes) < messages_max and QUOTA_EXCEEDED not in codes[-window:]:
        ids = [1 + (len(codes) + place) % PACKET_IDS for place in range(window)]
        client.send(*[shape(packet_id, 1) for packet_id in ids])
        codes += [await client.answered(mqtt.PUBACK, packet_id) for packet_id in ids]
    await client.leave()
    return codes
