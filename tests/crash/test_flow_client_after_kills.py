"""kill -9 while programs use the client library: they notice only repeated deliveries."""

import asyncio
from pathlib import Path

import pytest

from sluicegate import Client, ClientEvent, ClientOptions, Column, Disconnected, FlowInterrupted, Message
from support.processes.gateway import GatewayProcess

MESSAGES = 6_000
KILLS = 3
KEYS = 7
PARTITIONS = 3
WITHIN_S = 240

pytestmark = [pytest.mark.crash, pytest.mark.slow, pytest.mark.timeout(400)]


class Record:
    """What a consumer got, and what is wrong with it.

    A message may come again: it is delivered before it is on the disk, and when the gateway is killed in between, its
    publisher sends it again and it gets another sequence. What is stored is read at the end.
    """

    def __init__(self) -> None:
        self.partitions: dict[int, int] = {}  # by message
        self.highest: dict[str, int] = {}  # by key: the last that was new
        self.repeated_count = 0

    def note(self, number: int, key: str, partition: int) -> None:
        known = self.partitions.setdefault(number, partition)
        assert known == partition, f"message {number} is in the partitions {known} and {partition}"
        if number <= self.highest.get(key, -1):
            self.repeated_count += 1
            return
        assert number == self.highest.get(key, number % KEYS - KEYS) + KEYS, "new messages of a key come in order"
        self.highest[key] = number


class Kills:
    """The times at which the gateway is to be killed: the next one comes when it has started after the last."""

    def __init__(self) -> None:
        self._wanted = asyncio.Semaphore(0)
        self._may_want = asyncio.Semaphore(1)

    async def want(self) -> None:
        await self._may_want.acquire()
        self._wanted.release()

    async def carry_out(self, gateway: GatewayProcess) -> None:
        for _ in range(KILLS):
            await self._wanted.acquire()
            await asyncio.to_thread(gateway.kill9)
            await asyncio.to_thread(gateway.start)
            self._may_want.release()


async def publish(client: Client, kills: Kills) -> None:
    """Publish every message; each part of them lets the gateway be killed once, while more is on its way."""
    async with client.publisher("till", window=500) as publisher:
        for number in range(MESSAGES):
            await publisher.send(Message(str(number).encode(), queue="q", key=f"key-{number % KEYS}"))
            if number % (MESSAGES // (KILLS + 1)) == MESSAGES // (KILLS + 2):
                await kills.want()
        await publisher.flush()


async def consume(client: Client, record: Record) -> None:
    async with client.consumer("q", window=200) as consumer:
        while len(record.partitions) < MESSAGES:
            for delivery in await consumer.receive_many(100):
                assert delivery.key is not None
                record.note(int(delivery.payload), delivery.key, delivery.partition)
                delivery.accept()


async def stored(client: Client) -> list[list[int]]:
    """Return what each partition has stored, in order; the queue keeps what was settled."""
    found: list[list[int]] = []
    for partition in range(PARTITIONS):
        async with client.bulk.read_range("q", partition=partition, first=1) as reader:
            found.append([int(each) async for chunk in reader for each in chunk.columns.values(Column.PAYLOAD)])
    return found


async def run(gateway: GatewayProcess) -> tuple[Record, list[list[int]], list[ClientEvent]]:
    record, events, kills = Record(), list[ClientEvent](), Kills()
    address = f"flow://127.0.0.1:{gateway.ports['flow']}"
    options = ClientOptions(reconnect_delay_max_s=1.0)
    async with (
        asyncio.timeout(WITHIN_S),
        Client(address, options, on_event=events.append) as one,
        Client(address, options, on_event=events.append) as other,
        asyncio.TaskGroup() as tasks,
    ):
        tasks.create_task(publish(one, kills))
        tasks.create_task(consume(other, record))
        tasks.create_task(kills.carry_out(gateway))
    async with Client(address, options) as reader:
        return record, await stored(reader), events


def test_programs_go_on_over_crashes_of_the_gateway(tmp_path: Path) -> None:
    """Flow: publishing, named publishers; consuming. Nothing is lost or stored twice, and each key is in order."""
    with GatewayProcess(tmp_path) as gateway:
        gateway.create_queue("q", access_type="non-exclusive", partition_count=PARTITIONS, retention_size_mb=100)
        record, partitions, events = asyncio.run(run(gateway))
        assert sorted(record.partitions) == list(range(MESSAGES))
        assert sorted(number for each in partitions for number in each) == list(range(MESSAGES)), "each once"
        for each in partitions:
            for key in range(KEYS):
                of_key = [number for number in each if number % KEYS == key]
                assert of_key == sorted(of_key)
        assert all(partitions), "the keys are in all of them"
        assert sum(isinstance(event, Disconnected) for event in events) >= KILLS
        assert any(isinstance(event, FlowInterrupted) for event in events)
