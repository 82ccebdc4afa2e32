"""What a client has by its name on a machine with two brokers, whichever of them accepts it, over kills of the home."""

import asyncio
from contextlib import suppress
from pathlib import Path

import pytest

from sluicegate.messaging.clients.homes import home_of, publisher_key
from sluicegate.protocols.amqp.codec.termini import COPY, NEVER, Source
from sluicegate.protocols.flow.codec.frames.publish import PubAck
from support.amqp.client import AmqpClient
from support.flow.client import FlowClient, Refused
from support.processes.gateway import wait_until
from support.processes.machine import MachineProcess
from support.thorough import cases

BROKERS = 2
ROUNDS = 3
CONNECTIONS_PER_ROUND = 6  # so that both brokers accept some
WINDOW = 100
BACK_S = 60

pytestmark = [pytest.mark.crash, pytest.mark.slow, pytest.mark.timeout(600)]


async def opened_publisher(machine: MachineProcess, name: str) -> tuple[FlowClient, int, int, int]:
    """Open a publisher over a new connection, once its home is back; return it with its flow, count and limit."""
    async with asyncio.timeout(BACK_S):
        while True:
            client = FlowClient(machine.ports["flow"])
            await client.open()
            try:
                opened = await client.opens_publisher(name, window=WINDOW)
            except Refused as refused:
                await client.close()
                if refused.error.retry_after_ms is None:
                    raise
                await asyncio.sleep(0.1)
            else:
                return client, opened.flow_id, opened.stored_through, opened.sequence_max


async def publish_and_cut(machine: MachineProcess, name: str, *, kills: int | None) -> int:
    """Publish what the window allows and is not stored, and drop the connection; return the highest that was sent."""
    client, flow, through, limit = await opened_publisher(machine, name)
    client.publishes(flow, list(range(through + 1, limit + 1)))
    ack = await client.heard(PubAck)
    assert ack.refusals == []
    if kills is not None:
        await asyncio.to_thread(machine.kill_broker, kills)
    client.cut()
    with suppress(AssertionError):
        await client.ended()
    return limit


async def finish(machine: MachineProcess, name: str, sent_through: int) -> None:
    """Publish what is not stored."""
    client, flow, through, _ = await opened_publisher(machine, name)
    if through < sent_through:
        client.publishes(flow, list(range(through + 1, sent_through + 1)))
        assert await client.answered(flow, sent_through) == []
    await client.close()


async def read(machine: MachineProcess, count: int) -> list[bytes]:
    async with asyncio.timeout(BACK_S), FlowClient(machine.ports["flow"]) as client:
        while True:
            try:
                flow = await client.binds("q", credit=count, unsettled_max=10_000)
            except Refused:  # a broker that has just started does not know the queues of the other one
                await asyncio.sleep(0.1)
            else:
                return [each.payload for each in await client.receives_in_all(count, flow)]


@pytest.mark.parametrize("home", cases([2, 1], each_run=1))
def test_a_publisher_stores_nothing_twice_whichever_broker_accepts_it(tmp_path: Path, home: int) -> None:
    """Flow: publishing, resumption. Each round drops connections, and kills the home while it publishes."""
    names = map("publisher-{}".format, range(100))
    name = next(each for each in names if home_of(publisher_key("default", each), BROKERS) == home)
    with MachineProcess(tmp_path, BROKERS) as machine:
        machine.create_queue("q", subscriptions=["t"])
        sent_through = 0
        for _ in range(ROUNDS):
            for _ in range(CONNECTIONS_PER_ROUND):
                sent_through = max(sent_through, asyncio.run(publish_and_cut(machine, name, kills=None)))
            victim = machine.broker_pid(home)
            sent_through = max(sent_through, asyncio.run(publish_and_cut(machine, name, kills=victim)))
        asyncio.run(finish(machine, name, sent_through))
        wait_until(lambda: machine.held_count("q") == sent_through, within_s=BACK_S, what="all messages in the queue")
        payloads = asyncio.run(read(machine, sent_through))

    assert payloads == [str(sequence).encode() for sequence in range(1, sent_through + 1)]


async def subscribed(machine: MachineProcess, container: str, *, credit: int) -> AmqpClient:
    """Attach to the container's durable subscription, once its home is back."""
    source = Source("topic://t", durable=2, expiry_policy=NEVER, distribution_mode=COPY)
    async with asyncio.timeout(BACK_S):
        while True:
            client = await AmqpClient.open(machine.ports["amqp"], container)
            try:
                await client.receiver("mine", source, credit=credit)
            except (AssertionError, asyncio.IncompleteReadError, ConnectionError):  # it was sent away
                client.vanish()
                await asyncio.sleep(0.1)
            else:
                return client


async def confirm(machine: MachineProcess, numbers: range) -> None:
    """Publish over one connection, and have all confirmed."""
    async with FlowClient(machine.ports["flow"], name=f"publisher-{numbers.start}") as client:
        opened = await client.opens_publisher(window=len(numbers))
        payloads = [str(number).encode() for number in numbers]
        for sequence, payload in enumerate(payloads, 1):
            client.publishes(opened.flow_id, [sequence], payload=payload)
        assert await client.answered(opened.flow_id, len(numbers)) == []


@pytest.mark.parametrize("home", cases([2, 1], each_run=1))
def test_a_durable_subscription_of_amqp_is_one_over_kills_of_its_home(tmp_path: Path, home: int) -> None:
    """AMQP 3.5.3. Each message that is confirmed while the client is away comes once."""
    container = next(each for each in map("container-{}".format, range(100)) if home_of(each, BROKERS) == home)

    async def attach_often(machine: MachineProcess) -> None:
        for _ in range(CONNECTIONS_PER_ROUND):
            client = await subscribed(machine, container, credit=0)
            client.vanish()

    async def drain(machine: MachineProcess, count: int) -> list[bytes]:
        client = await subscribed(machine, container, credit=10_000)
        got = [each.payload for each in await client.deliveries(count)]
        await client.is_quiet()
        await client.close()
        return got

    with MachineProcess(tmp_path, BROKERS) as machine:
        published = 0
        for _ in range(ROUNDS):
            asyncio.run(attach_often(machine))
            asyncio.run(confirm(machine, range(published, published + 50)))
            machine.kill_broker(machine.broker_pid(home))
            asyncio.run(attach_often(machine))
            published += 50
        got = asyncio.run(drain(machine, published))

    assert sorted(got, key=int) == [str(number).encode() for number in range(published)]
