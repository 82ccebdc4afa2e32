"""Sequences of good and broken frames in one write, against a whole broker, beside a client that breaks nothing.

What the honest client was confirmed is in the queue, once, in order, whatever hostile ones wrote in between, also after
a crash; and whatever of the hostile messages was taken can be consumed. `make fuzz` plays 10^6 frames of each protocol.
"""

import asyncio
import os
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

import support.mqtt.packets as mqtt
from sluicegate.messaging.message.headers import Headers
from sluicegate.messaging.message.keys import key_hash
from sluicegate.protocols.flow.codec.frames.publish import write_publish
from support.amqp.client import AmqpClient, AmqpClients, body
from support.broker.named_queues import create, shown
from support.broker.running_broker import RunningBroker
from support.flow.client import FlowClient
from support.hostile.mutated_bytes import ROUNDS, chance_of, spoiled
from support.mqtt.raw_client import RawClient
from support.network.closing_stream import open_closing

# Frames that hostile clients write: a connection for a handful of them costs more than reading them.
FRAMES = ROUNDS if "SLUICEGATE_FUZZ_ROUNDS" in os.environ else 2000
WRITES_PER_CONNECTION = 2
HONEST_EVERY = 20  # connections
DRAINED_EVERY = 1000

Write = Callable[[random.Random], int]  # writes a sequence; returns how many frames it had


def headers_of(chance: random.Random) -> Headers | None:
    match chance.randrange(4):
        case 0:
            return None
        case 1:
            return Headers(partition_key="kkk", key_hash=key_hash("kkk"))
        case 2:
            return Headers(user_properties=[("kkk", "vvv"), ("k2", 7)])
        case _:
            return Headers(partition_key="kk", key_hash=key_hash("kk"), correlation=b"v", user_properties=[("k", "v")])


class HonestClient:
    """Publishes numbered messages, and keeps account of those that were confirmed."""

    def __init__(self, broker: RunningBroker) -> None:
        self._broker = broker
        self._confirmed = 0
        self._drained: list[int] = []

    async def publishes(self) -> None:
        """Publish one more, and wait until it is stored."""
        async with FlowClient(self._broker.flow_port, name="honest") as client:
            opened = await client.opens_publisher("honest")
            number = self._confirmed + 1
            client.publishes(opened.flow_id, [number], topic="t", payload=b"honest %d" % number)
            assert await client.answered(opened.flow_id, number) == []
            self._confirmed = number

    async def drains(self) -> None:
        """Take out all that is there. A message that cannot be delivered would keep the others."""
        count = (await shown(self._broker, "q")).ready_count
        async with FlowClient(self._broker.flow_port, name="reader") as client:
            flow_id = await client.binds("q", credit=count + 1)
            got = await client.receives_in_all(count, flow_id) if count else []
            client.accepts_through(flow_id, count)
            await client.unbinds(flow_id)
        self._drained += [int(each.payload[7:]) for each in got if each.payload.startswith(b"honest ")]
        assert self._drained == list(range(1, self._confirmed + 1))


@asynccontextmanager
async def flow_writer(broker: RunningBroker) -> AsyncIterator[Write]:
    client = FlowClient(broker.flow_port, name="hostile")
    await client.open()
    opened = await client.opens_publisher()
    sequence = 0

    def write(chance: random.Random) -> int:
        nonlocal sequence
        frames: list[bytes] = []
        for _ in range(chance.randint(2, 6)):
            sequence += 1
            headers = headers_of(chance)
            topic = chance.choice(("t", "tt/kv"))
            frames.append(
                write_publish(
                    opened.flow_id, sequence, topic, b"hostile", headers, to_queue=False, ttl_ms=0, delay_ms=0
                )
            )
        client.send(b"".join(spoiled(chance, frames)))
        return len(frames)

    yield write
    await client.ends()


@asynccontextmanager
async def mqtt_writer(broker: RunningBroker) -> AsyncIterator[Write]:
    client = await RawClient.open(broker.port, 5)
    await client.connect("hostile")
    packet_id = 0

    def write(chance: random.Random) -> int:
        nonlocal packet_id
        packets: list[bytes] = []
        for _ in range(chance.randint(2, 6)):
            packet_id = packet_id % 60_000 + 1
            qos = chance.randrange(3)
            properties = mqtt.user_property("kkk", "vvv") if chance.random() < 0.6 else b""
            topic = chance.choice(("t", "tt/kv"))
            its_id = packet_id if qos else 0
            packets.append(mqtt.publish(topic, b"hostile", level=5, qos=qos, packet_id=its_id, properties=properties))
        client.send(*spoiled(chance, packets))
        return len(packets)

    yield write
    await client.ends()


@asynccontextmanager
async def amqp_writer(broker: RunningBroker) -> AsyncIterator[Write]:
    peer = await AmqpClient.open(broker.amqp_port, "hostile")
    await peer.sender("out", "q", handle=0)

    def write(chance: random.Random) -> int:
        count = chance.randint(2, 6)
        with peer.one_write(lambda frames: spoiled(chance, frames)):
            for _ in range(count):
                peer.transfer(0, body("hostile kvt"), settled=chance.random() < 0.5)
        return count

    yield write
    await peer.ends()


@asynccontextmanager
async def http_writer(broker: RunningBroker) -> AsyncIterator[Write]:
    reader, writer = await open_closing(broker.node.http.listeners["http"].port)

    def write(chance: random.Random) -> int:
        count = chance.randint(2, 6)
        request = (
            b"POST /TOPIC/t HTTP/1.1\r\nHost: localhost\r\nContent-Length: 7\r\nSluicegate-Partition-Key: kkk\r\n"
            b"Solace-User-Property-kkk: vvv\r\n\r\nhostile"
        )
        writer.write(b"".join(spoiled(chance, [request] * count)))
        return count

    yield write
    writer.write_eof()
    await reader.read()
    writer.close()


WRITERS = {"flow": flow_writer, "mqtt": mqtt_writer, "amqp": amqp_writer, "http": http_writer}


@pytest.mark.timeout(0 if "SLUICEGATE_FUZZ_ROUNDS" in os.environ else 120)
@pytest.mark.parametrize("protocol", WRITERS)
async def test_an_honest_client_loses_nothing_to_broken_frames(
    broker: RunningBroker, amqp: AmqpClients, protocol: str
) -> None:
    broker.ignores_violations()
    await create(broker, subscriptions=["t", "tt/>"])
    chance, honest = chance_of(700 + list(WRITERS).index(protocol)), HonestClient(broker)
    written = connections = 0
    while written < FRAMES:
        async with WRITERS[protocol](broker) as write:
            for _ in range(WRITES_PER_CONNECTION):
                written += write(chance)
                await asyncio.sleep(0)  # two writes, not one
        connections += 1
        if connections % HONEST_EVERY == 0:
            await honest.publishes()
        if connections % DRAINED_EVERY == 0:
            await honest.drains()
    await honest.publishes()
    await broker.crash()
    await honest.drains()
