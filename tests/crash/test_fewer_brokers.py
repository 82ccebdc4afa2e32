"""A machine that is started with fewer brokers than have data moves what the others have, and ends them."""

import asyncio
from pathlib import Path

import pytest

import support.mqtt.packets as mqtt
from sluicegate.messaging.clients.homes import home_of
from sluicegate.protocols.amqp.codec.performatives import Detach
from sluicegate.protocols.amqp.codec.termini import COPY, NEVER, Source
from support.amqp.client import AmqpClient
from support.mqtt.raw_client import RawClient
from support.processes.gateway import wait_until
from support.processes.machine import RETIRED_S, MachineProcess

BROKERS = 3
QUEUES = [f"q{number}" for number in range(6)]

pytestmark = [pytest.mark.crash, pytest.mark.slow]


async def publish(port: int, count: int) -> None:
    """Publish so many messages to each queue, as a client that leaves no session behind."""
    client = await RawClient.open(port, 5)
    await client.connect("publisher")
    for number in range(count):
        for place, name in enumerate(QUEUES):
            packet_id = 1 + number * len(QUEUES) + place
            client.send(mqtt.publish(f"load/{name}", b"%d" % number, level=5, qos=1, packet_id=packet_id))
    for _ in range(count * len(QUEUES)):
        await client.awaited(mqtt.PUBACK)
    await client.leave()


def contents(machine: MachineProcess) -> dict[str, list[str]]:
    """The payloads of each queue, oldest first."""
    return {name: machine.payloads(name) for name in QUEUES}


def test_queues_of_retired_brokers_are_at_the_others_and_one_process_goes_on(tmp_path: Path) -> None:
    with MachineProcess(tmp_path, BROKERS) as machine:
        for name in QUEUES:
            machine.create_queue(name, subscriptions=[f"load/{name}"])
        asyncio.run(publish(machine.mqtt_port, 50))
        before = contents(machine)
        assert before == {name: [str(number) for number in range(50)] for name in QUEUES}
        assert {machine.queue(name)["broker"] for name in QUEUES} == {"sluicegate", "sluicegate-2", "sluicegate-3"}

        machine.settings["brokers"] = 2
        machine.restart()
        machine.until_retired(2)
        assert contents(machine) == before
        assert {machine.queue(name)["broker"] for name in QUEUES} == {"sluicegate", "sluicegate-2"}

        del machine.settings["brokers"]
        machine.restart()
        machine.until_retired(1)
        assert contents(machine) == before

        machine.restart()
        assert machine.broker_pids() == []
        assert contents(machine) == before


async def leave_session(port: int, client_id: str, count: int) -> None:
    """Make a session with so many messages that wait for its client."""
    client = await RawClient.open(port, 5)
    await client.connect(client_id, clean_start=True, properties=mqtt.session_expiry(3600))
    await client.subscribe("work/#", qos=1)
    await client.leave()
    publisher = await RawClient.open(port, 5)
    await publisher.connect("publisher")
    for number in range(count):
        assert await publisher.publish("work/1", b"%d" % number, qos=1) == 0
    await publisher.leave()


async def take_session(port: int, client_id: str, count: int) -> list[bytes]:
    """Return what waits for a client, which then ends its session."""
    client = await RawClient.open(port, 5)
    answer = await client.connect(client_id, clean_start=False, properties=mqtt.session_expiry(3600))
    assert (answer.reason_code, answer.session_present) == (0, True)
    messages = await client.messages(count)
    client.acknowledge(*messages)
    await client.leave(0, mqtt.session_expiry(0))
    return [each.payload for each in messages]


def test_a_session_of_a_retired_broker_is_at_another_with_all_that_waits_for_its_client(tmp_path: Path) -> None:
    client_id = next(name for name in map("client-{}".format, range(100)) if home_of(name, 2) == 2)
    expected = [b"%d" % each for each in range(5)]
    with MachineProcess(tmp_path, 2) as machine:
        asyncio.run(leave_session(machine.mqtt_port, client_id, 5))
        machine.settings["brokers"] = 1
        machine.restart()
        machine.until_retired(1)
        assert asyncio.run(take_session(machine.mqtt_port, client_id, 5)) == expected
        asyncio.run(leave_session(machine.mqtt_port, client_id, 5))
        assert asyncio.run(take_session(machine.mqtt_port, client_id, 5)) == expected


async def attached(machine: MachineProcess, container: str, *, credit: int) -> AmqpClient:
    """Attach to the container's durable subscription."""
    client = await AmqpClient.open(machine.ports["amqp"], container)
    source = Source("topic://work/1", durable=2, expiry_policy=NEVER, distribution_mode=COPY)
    await client.receiver("mine", source, credit=credit)
    return client


async def leave_subscription(machine: MachineProcess, container: str, payload: bytes) -> None:
    """Make a durable subscription with a message that waits for its client."""
    subscriber = await attached(machine, container, credit=0)
    subscriber.vanish()
    publisher = await RawClient.open(machine.mqtt_port, 5)
    await publisher.connect("publisher")
    assert await publisher.publish("work/1", payload, qos=1) == 0
    await publisher.leave()


async def take_subscription(machine: MachineProcess, container: str) -> bytes:
    """Return what waits for a client, which then ends its subscription."""
    client = await attached(machine, container, credit=10)
    (delivery,) = await client.deliveries(1)
    client.settle(0, 0)
    client.detach(0)
    await client.awaited(Detach)
    await client.close()
    return delivery.payload


def test_a_durable_subscription_stays_at_a_retired_broker_until_it_ends(tmp_path: Path) -> None:
    container = next(name for name in map("container-{}".format, range(100)) if home_of(name, 2) == 2)
    with MachineProcess(tmp_path, 2) as machine:
        asyncio.run(leave_subscription(machine, container, b"waits"))
        machine.settings["brokers"] = 1
        machine.restart()
        wait_until(
            lambda: "retired broker sluicegate-2 still has: 1 durable subscriptions of AMQP" in machine.stderr,
            within_s=RETIRED_S,
            what="a word about the subscription",
        )
        assert machine.broker_folders() == [2]
        assert asyncio.run(take_subscription(machine, container)) == b"waits"
        machine.until_retired(1)
