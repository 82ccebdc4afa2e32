"""A good message and a broken one in one write: the good one is kept whole, and nothing is of the broken one."""

import asyncio

import pytest

import mqtt_packets as mqtt
from flow_client import FlowClient
from messaging.headers import Headers
from messaging.partitioning import key_hash
from named_queues import create, shown
from protocols.flow import codes
from protocols.flow.publish_frames import write_publish
from protocols.flow.session_frames import Error
from raw_client import RawClient
from running_broker import RunningBroker

MARK = "mark"  # stands where a text is broken afterwards


def keyed(key: str) -> Headers:
    return Headers(partition_key=key, key_hash=key_hash(key))


def described(text: str) -> Headers:
    return Headers(user_properties=[("note", text)])


def flow_publish(flow_id: int, sequence: int, headers: Headers | None, topic: str = "t") -> bytes:
    """Return a PUBLISH; what is called MARK in it is no UTF-8."""
    frame = write_publish(
        flow_id, sequence, topic, str(sequence).encode(), headers, to_queue=False, ttl_ms=0, delay_ms=0
    )
    return frame.replace(MARK.encode(), b"\xff\xfe\xfd\xfc")


async def delivered(broker: RunningBroker) -> list[tuple[bytes, str | None]]:
    """Take what lies in the queue, with its partition keys."""
    count = (await shown(broker, "q")).ready_count
    async with FlowClient(broker.flow_port, name="reader") as client:
        flow_id = await client.binds("q")
        got = await client.receives_in_all(count, flow_id)
        client.accepts_through(flow_id, count)
        await client.unbinds(flow_id)
    return [(each.payload, None if each.headers is None else each.headers.partition_key) for each in got]


@pytest.mark.parametrize("good", [keyed("k"), described("well"), None], ids=["keyed", "described", "bare"])
@pytest.mark.parametrize("broken", ["key", "property", "topic"])
async def test_flow_a_broken_publish_takes_nothing_from_the_one_before_it(
    broker: RunningBroker, good: Headers | None, broken: str
) -> None:
    """Flow: errors. The broken one ends the connection with an ERROR; the good one is there, over a crash too."""
    broker.overlooks_fouls()
    await create(broker, subscriptions=["t"])
    headers = {"key": keyed(MARK), "property": described(MARK), "topic": keyed("k")}[broken]
    client = FlowClient(broker.flow_port)
    await client.open()
    flow_id = (await client.opens_publisher()).flow_id
    client.send(flow_publish(flow_id, 1, good) + flow_publish(flow_id, 2, headers, MARK if broken == "topic" else "t"))

    error = await client.heard(Error)
    assert error.code == codes.MALFORMED
    assert "UTF-8" in error.text
    await client.ended()
    async with FlowClient(broker.flow_port) as other:
        opened = await other.opens_publisher()
        other.publishes(opened.flow_id, [7], topic="t")
        assert await other.answered(opened.flow_id, 7) == []
    await broker.crash()
    key = None if good is None else good.partition_key
    assert await delivered(broker) == [(b"1", key), (b"7", None)]


@pytest.mark.parametrize("qos", [0, 1, 2])
async def test_mqtt_a_broken_publish_takes_nothing_from_the_one_before_it(broker: RunningBroker, qos: int) -> None:
    """MQTT 1.5.4: a text that is no UTF-8 is a malformed packet; what came before it counts."""
    broker.overlooks_fouls()
    await create(broker, subscriptions=["t"])
    client = await RawClient.open(broker.port, 5)
    await client.connect("sender")
    good = mqtt.user_property("note", "well")
    bad = mqtt.user_property("note", MARK).replace(MARK.encode(), b"\xff\xfe\xfd\xfc")
    client.send(
        mqtt.publish("t", b"1", level=5, qos=qos, packet_id=1 if qos else 0, properties=good)
        + mqtt.publish("t", b"2", level=5, qos=qos, packet_id=2 if qos else 0, properties=bad)
    )
    answer = mqtt.server_disconnect(await client.awaited(mqtt.DISCONNECT))
    assert answer.reason_code in (0x81, 0x99)
    async with asyncio.timeout(20):
        while (await shown(broker, "q")).ready_count < 1:
            await asyncio.sleep(0.01)
    await broker.crash()
    assert await delivered(broker) == [(b"1", None)]
