"""A planned handover is a clean stop: the new owner knows what was delivered, and how often that failed."""

import asyncio
from pathlib import Path

import pytest

import support.mqtt.packets as mqtt
from sluicegate import Client, Consumer, Delivery, Message
from support.mqtt.raw_client import RawClient
from support.processes.replicas import ReplicaProcess, ReplicatedBroker

MESSAGES = 10
WITHIN_S = 60
USE_ANOTHER_SERVER, SERVER_REFERENCE = 0x9C, 28

pytestmark = [pytest.mark.crash, pytest.mark.slow, pytest.mark.timeout(300)]


def client_of(owner: ReplicaProcess) -> Client:
    return Client(f"flow://127.0.0.1:{owner.ports['flow']}")


async def publish(owner: ReplicaProcess) -> None:
    async with client_of(owner) as client, client.publisher() as publisher:
        await publisher.send_all(Message(b"%d" % number, queue="q") for number in range(MESSAGES))


async def received(consumer: Consumer, count: int) -> list[Delivery]:
    deliveries: list[Delivery] = []
    async with asyncio.timeout(WITHIN_S):
        while len(deliveries) < count:
            deliveries += await consumer.receive_many(count - len(deliveries))
    return deliveries


async def fail_with(owner: ReplicaProcess, count: int) -> None:
    """Take the first messages, and settle none of them."""
    async with client_of(owner) as client, client.consumer("q", window=count, unsettled_max=count) as consumer:
        await received(consumer, count)


async def consume_all(owner: ReplicaProcess) -> list[tuple[int, bool, int]]:
    async with client_of(owner) as client, client.consumer("q") as consumer:
        deliveries = await received(consumer, MESSAGES)
        consumer.accept_all(deliveries)
        return sorted((int(each.payload), each.redelivered, each.delivery_count) for each in deliveries)


def test_after_a_handover_only_what_was_delivered_is_flagged_and_failures_are_known(tmp_path: Path) -> None:
    with ReplicatedBroker(tmp_path) as broker:
        owner = broker.owner()
        owner.create_queue("q", max_redelivery_count=5)
        asyncio.run(publish(owner))
        asyncio.run(fail_with(owner, 4))
        asyncio.run(fail_with(owner, 1))
        broker.until_whole()
        owner.stop()  # the first handover
        owner.start()
        broker.until_whole()
        second = broker.owner()
        assert second is not owner
        broker.hand_over(owner.name)
        broker.until_owned_by(owner)
        broker.until_whole()  # the process of the other one is replaced meanwhile
        found = asyncio.run(consume_all(owner))
        assert found == [
            (0, True, 3),
            *((each, True, 2) for each in range(1, 4)),
            *((each, False, 1) for each in range(4, MESSAGES)),
        ]


def test_after_a_crash_that_follows_a_handover_all_may_have_been_delivered(tmp_path: Path) -> None:
    with ReplicatedBroker(tmp_path) as broker:
        owner = broker.owner()
        owner.create_queue("q")
        asyncio.run(publish(owner))
        second = broker.standbys()[0]
        broker.hand_over(second.name)
        broker.until_owned_by(second)
        broker.until_whole()
        asyncio.run(fail_with(second, 4))
        broker.until_whole()
        second.kill9()
        found = asyncio.run(consume_all(broker.owner()))
        assert all(redelivered for _, redelivered, _ in found)


async def connected(replica: ReplicaProcess) -> RawClient:
    """Return an MQTT client that keeps its session."""
    client = await RawClient.open(replica.ports["mqtt"], 5)
    answer = await client.connect("kept", clean_start=False, properties=mqtt.session_expiry(3600))
    assert answer.reason_code == 0
    return client


def test_mqtt_clients_are_told_of_the_other_replicas_and_find_their_sessions_there(tmp_path: Path) -> None:
    """MQTT 5.0, section 4.11."""

    async def follow(broker: ReplicatedBroker, owner: ReplicaProcess, successor: ReplicaProcess) -> None:
        client = await connected(owner)
        await asyncio.to_thread(broker.hand_over, successor.name)
        end = mqtt.server_disconnect(await client.awaited(mqtt.DISCONNECT))
        assert (end.reason_code, end.value(SERVER_REFERENCE)) == (USE_ANOTHER_SERVER, "b.example c.example:1884")
        await client.vanish()
        await asyncio.to_thread(broker.until_owned_by, successor)
        client = await connected(successor)
        assert client.accepted.session_present
        await client.vanish()

    with ReplicatedBroker(tmp_path, {"mqtt.server_reference": "b.example c.example:1884"}) as broker:
        asyncio.run(follow(broker, broker.owner(), broker.standbys()[0]))
        broker.until_whole()  # the process of the other one is replaced meanwhile
