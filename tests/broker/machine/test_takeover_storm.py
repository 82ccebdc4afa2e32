"""Clients of one identifier that connect again and again over both brokers of a machine: one connection is left."""

import asyncio
import random
from collections import Counter
from contextlib import suppress

import pytest

import support.mqtt.packets as mqtt
from sluicegate.messaging.clients.homes import home_of
from support.broker.linked_brokers import until
from support.broker.machine_brokers import MachineBrokers
from support.mqtt.packets import Published
from support.mqtt.raw_client import RawClient

NAMES = [f"device-{number}" for number in range(6)]
ROUNDS = 12
CONNECTIONS_PER_ROUND = 3  # of each identifier, at once
MESSAGES_PER_ROUND = 3
SEED = 20_261_127
TAKEN_OVER = {4: 3, 5: 0x80}  # the answer to a client that is taken over while its CONNECT is carried out


class Device:
    """One identifier, and all connections that use it."""

    def __init__(self, machine: MachineBrokers, name: str, level: int, draw: random.Random) -> None:
        self.name = name
        self.home = home_of(name, 2)
        self.received: list[Published] = []
        self.alive_count = 0  # connections that were accepted, and have not ended
        self._machine = machine
        self._level = level
        self._draw = draw

    async def connects(self) -> None:
        """Connect over either broker, subscribe, and acknowledge half of what comes, until another connection does."""
        client = await self._machine[self._draw.choice((1, 2))].open(self._level)
        properties = mqtt.session_expiry(3600) if self._level == 5 else b""
        try:
            answer = await client.connect(self.name, clean_start=False, properties=properties)
        except (AssertionError, ConnectionError):
            return  # it is taken over before its CONNACK
        if answer.reason_code == TAKEN_OVER[self._level]:
            return
        assert (answer.reason_code, answer.session_present) == (0, True)
        self.alive_count += 1
        with suppress(AssertionError, ConnectionError):  # until it is taken over
            await self._reads(client)
        self.alive_count -= 1

    async def _reads(self, client: RawClient) -> None:
        await client.subscribe(f"to/{self.name}", qos=1)
        while True:
            packet = await client.packet()
            if packet.kind == mqtt.PUBLISH:
                message = mqtt.published(packet, self._level)
                self.received.append(message)
                if self._draw.random() < 0.5:
                    client.acknowledge(message)

    def connections(self) -> list[int]:
        """Return the brokers that serve it, once for each connection."""
        return [
            broker.number
            for broker in self._machine.all
            for each in broker.node.mqtt.open_connections()
            if each.session is not None and each.session.client_id == self.name
        ]

    async def reads_the_rest(self, payloads: set[bytes]) -> RawClient:
        """Take over for good, and acknowledge everything until all has been received; return the connection."""
        client = await self._machine[3 - self.home].connect_durable(self.name, self._level)
        assert client.accepted.session_present
        last = b"last"
        publisher = await self._machine[1].connect(f"last-{self.name}")
        await publisher.publish(f"to/{self.name}", last)
        await publisher.vanish()
        while not self.received or self.received[-1].payload != last:
            (message,) = await client.messages(1)
            self.received.append(message)
        assert {each.payload for each in self.received} == payloads | {last}, "nothing is lost"
        return client


@pytest.mark.parametrize("level", [4, 5])
async def test_a_storm_of_takeovers_leaves_one_connection_and_its_session(machine: MachineBrokers, level: int) -> None:
    """MQTT 3.1.4-3, 4.4: what is not acknowledged comes again, with DUP, and nothing else does."""
    draw = random.Random(SEED)
    devices = [Device(machine, name, level, draw) for name in NAMES]
    assert {each.home for each in devices} == {1, 2}
    for device in devices:
        first = await machine[device.home].connect_durable(device.name, level)
        await first.subscribe(f"to/{device.name}", qos=1)
    publishers = [await machine[number].connect(f"publisher-{number}") for number in (1, 2)]
    tasks: list[asyncio.Task[None]] = []
    payloads: set[bytes] = set()
    for number in range(ROUNDS):
        tasks += [asyncio.create_task(each.connects()) for each in devices for _ in range(CONNECTIONS_PER_ROUND)]
        for place in range(MESSAGES_PER_ROUND):
            payload = b"%d/%d" % (number, place)
            payloads.add(payload)
            for device in devices:
                assert await draw.choice(publishers).publish(f"to/{device.name}", payload) == 0

    await until(lambda: all(each.alive_count <= 1 for each in devices), "the end of the storm")
    await until(lambda: all(each.connections() == [each.home] for each in devices), "one connection for each")
    for device in devices:
        client = await device.reads_the_rest(payloads)
        firsts = Counter(each.payload for each in device.received if not each.dup)
        assert max(firsts.values()) == 1, "what comes again has DUP"
        await client.round_trip()
        await client.vanish()
        again = await machine[device.home].connect_durable(device.name, level)
        await again.is_quiet()  # what was acknowledged does not come again, and there is one subscription
        await again.subscribe(f"to/{device.name}", qos=1)
        await again.publish(f"to/{device.name}", b"to itself")
        assert await again.payloads(1) == [b"to itself"]
        await again.is_quiet()
        assert device.connections() == [device.home]
    for broker in machine.all:
        reception = broker.node.mqtt.reception
        assert reception is not None
        assert (reception.arrivals, reception.forwarding.relays) == ({}, {})
        assert "broker_away" not in broker.node.mqtt.counters.refused
        assert "broker_busy" not in broker.node.mqtt.counters.refused
    await asyncio.gather(*tasks)
