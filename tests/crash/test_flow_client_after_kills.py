"""kill -9 while programs publish and consume with the client library: they notice nothing but repeated deliveries."""

import asyncio
from pathlib import Path

import pytest

from gateway_process import GatewayProcess
from sluicegate import Client, ClientEvent, ClientOptions, Disconnected, FlowInterrupted, Message

MESSAGES = 6_000
KILLS = 3
KEYS = 7
PARTITIONS = 3
WITHIN_S = 240

pytestmark = [pytest.mark.crash, pytest.mark.slow, pytest.mark.timeout(400)]


class Record:
    """What a consumer got, and what is wrong with it."""

    def __init__(self) -> None:
        self.places: dict[int, tuple[int, int]] = {}  # message -> partition and sequence
        self.highest: dict[str, int] = {}  # by key: the last that was new
        self.repeated_count = 0

    def note(self, number: int, key: str, place: tuple[int, int]) -> None:
        known = self.places.setdefault(number, place)
        assert known == place, f"message {number} is stored twice, at {known} and {place}"
        if number <= self.highest.get(key, -1):
            self.repeated_count += 1
            return
        assert number == self.highest.get(key, number % KEYS - KEYS) + KEYS, "new messages of a key come in order"
        self.highest[key] = number


async def publish(client: Client, progress: asyncio.Event) -> None:
    """Publish every message; each part of them lets the gateway be killed once, while more is on its way."""
    async with client.publisher("till", window=500) as publisher:
        for number in range(MESSAGES):
            await publisher.send(Message(str(number).encode(), queue="q", key=f"key-{number % KEYS}"))
            if number % (MESSAGES // (KILLS + 1)) == MESSAGES // (KILLS + 2):
                progress.set()
        await publisher.flush()


async def consume(client: Client, record: Record) -> None:
    async with client.consumer("q", window=200) as consumer:
        while len(record.places) < MESSAGES:
            for delivery in await consumer.receive_many(100):
                assert delivery.key is not None
                record.note(int(delivery.payload), delivery.key, (delivery.partition, delivery.sequence))
                delivery.accept()


async def kill_again_and_again(gateway: GatewayProcess, progress: asyncio.Event) -> None:
    for _ in range(KILLS):
        await progress.wait()
        progress.clear()
        await asyncio.to_thread(gateway.kill9)
        await asyncio.to_thread(gateway.start)


async def run(gateway: GatewayProcess) -> tuple[Record, list[ClientEvent]]:
    record, events, progress = Record(), list[ClientEvent](), asyncio.Event()
    address = f"flow://127.0.0.1:{gateway.ports['flow']}"
    options = ClientOptions(reconnect_delay_max_s=1.0)
    async with (
        asyncio.timeout(WITHIN_S),
        Client(address, options, on_event=events.append) as one,
        Client(address, options, on_event=events.append) as other,
        asyncio.TaskGroup() as tasks,
    ):
        tasks.create_task(publish(one, progress))
        tasks.create_task(consume(other, record))
        tasks.create_task(kill_again_and_again(gateway, progress))
    return record, events


def test_programs_go_on_over_crashes_of_the_gateway(tmp_path: Path) -> None:
    """Flow: publishing, named publishers; consuming. Nothing is lost or stored twice, and each key is in order."""
    with GatewayProcess(tmp_path) as gateway:
        gateway.create_queue("q", access_type="non-exclusive", partition_count=PARTITIONS)
        record, events = asyncio.run(run(gateway))
        assert sorted(record.places) == list(range(MESSAGES))
        assert len({partition for partition, _ in record.places.values()}) == PARTITIONS
        assert sum(isinstance(event, Disconnected) for event in events) >= KILLS
        assert any(isinstance(event, FlowInterrupted) for event in events)
