"""Retained messages that wait for a slow disk: no limit of what is retained counts them, so who sends them waits."""

import asyncio

import pytest

import support.mqtt.packets as mqtt
from sluicegate.messaging.routing.retained_messages import UNWRITTEN_HIGH_BYTES
from support.broker.blocked_store import HeldStore
from support.broker.inside_client import until
from support.broker.running_broker import RunningBroker
from support.mqtt.raw_client import RawClient

MIB = 1 << 20
FLOOD_MIB = 64
READ_AHEAD = 2 * MIB  # what has been read of a client before it learns that it has to wait


async def flood(client: RawClient, qos: int) -> None:
    """Have much retained, one message behind the other, as fast as it is taken."""
    for number in range(1, FLOOD_MIB + 1):
        packet_id = number if qos else 0
        client.send(mqtt.publish("t", bytes(MIB), level=client.level, qos=qos, packet_id=packet_id, retain=True))
        await client.drained()


@pytest.mark.parametrize("level", [4, 5])
@pytest.mark.parametrize("qos", [0, 1])
async def test_who_retains_on_and_on_is_not_read_from_until_the_disk_has_it(
    broker: RunningBroker, monkeypatch: pytest.MonkeyPatch, level: int, qos: int
) -> None:
    """All on one topic, whose last message is all that counts as retained. Others go on meanwhile."""
    retained = broker.node.default.space.retained
    flooder, other = await broker.connect("flooder", level), await broker.connect("other", level)
    await other.subscribe("direct")

    with HeldStore(broker, monkeypatch):
        flooding = asyncio.create_task(flood(flooder, qos))
        await until(lambda: retained.pressure.over, "back-pressure by retained messages")
        await other.publish("direct", b"m", qos=0)

        assert (await other.message()).payload == b"m"
        assert retained.unwritten_bytes < UNWRITTEN_HIGH_BYTES + READ_AHEAD
        assert not flooding.done()
    await flooding
    await flooder.round_trip()
    await until(lambda: retained.unwritten_bytes == 0, "all retained messages to be written")
    assert retained.count == 1
    await broker.restart()
    assert broker.node.default.space.retained.count == 1
