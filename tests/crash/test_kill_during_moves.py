"""kill -9 while messages move between queues and die: afterwards each message is in exactly one queue.

No consumer accepts a message, so every published message is always in some queue.
"""

import asyncio
import random
import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import httpx
import pytest

import support.mqtt.packets as mqtt
from support.http.plain import HTTP, plain_client
from support.mqtt.raw_client import RawClient
from support.processes.gateway import GatewayProcess, wait_until
from support.thorough import amount

DMQ = "#DEAD_MSG_QUEUE"
QUEUES = ("q", "other", DMQ)
MESSAGES = 600
ROUNDS = amount(3, thorough=6)
SEED = 20_261_121
ROUND_S = 60
REQUEST_S = 30

pytestmark = [pytest.mark.crash, pytest.mark.slow]


class Upheaval:
    """An operator who moves messages until the gateway is gone, and counts the moves that were reported."""

    def __init__(self) -> None:
        self._count = 0
        self._lock = threading.Lock()

    @property
    def count(self) -> int:
        with self._lock:
            return self._count

    def moved(self, count: int) -> None:
        with self._lock:
            self._count += count

    def by_operators(self, gateway: GatewayProcess, seed: int) -> None:
        """Move some messages at a time between any two queues."""
        draw = random.Random(seed)
        with suppress(httpx.TransportError), plain_client(gateway.admin_url, timeout=REQUEST_S) as client:
            while True:
                source, target = draw.sample(QUEUES, 2)
                body = {"to": target, "limit": draw.randint(1, 40)}
                answer = client.post(f"/queues/{source.replace('#', '%23')}/messages/move", json=body)
                self.moved(answer.raise_for_status().json()["done_count"])

    def by_death(self, port: int) -> None:
        """Reject whatever comes."""
        with suppress(ConnectionError, AssertionError):  # the client's word for a broker that is gone
            asyncio.run(self._reject(port))

    async def _reject(self, port: int) -> None:
        client = await RawClient.open(port, 5)
        try:
            await client.connect("worker")
            await client.subscribe("$queue/q", qos=1)
            while True:
                client.send(mqtt.puback((await client.message()).packet_id, 0x83))
                self.moved(1)
        finally:
            await client.vanish()


def found(gateway: GatewayProcess) -> Counter[str]:
    """How often each message is in any queue."""
    seen: Counter[str] = Counter()
    for name in QUEUES:
        path = f"{gateway.admin_url}/queues/{name.replace('#', '%23')}/messages"
        answer = HTTP.get(path, params={"limit": 1000}, timeout=REQUEST_S).raise_for_status()
        seen.update(message["payload"] for message in answer.json()["messages"])
    return seen


async def publish_everything(port: int) -> None:
    client = await RawClient.open(port, 5)
    await client.connect("publisher")
    for number in range(MESSAGES):
        key = mqtt.user_property("JMSXGroupID", f"k{number % 17}")
        client.send(mqtt.publish("t", b"%d" % number, level=5, qos=1, packet_id=number + 1, properties=key))
    for _ in range(MESSAGES):
        await client.awaited(mqtt.PUBACK)
    await client.leave()


@pytest.mark.timeout(600)
def test_messages_on_the_move_are_in_exactly_one_queue_after_each_crash(tmp_path: Path) -> None:
    """The settlement of the one and the message of the other are one record of the journal."""
    draw = random.Random(SEED)
    # The gateway inside: a failed assertion ends it first, and only then do the threads end that move messages.
    with ThreadPoolExecutor(5) as threads, GatewayProcess(tmp_path) as gateway:
        gateway.create_queue(DMQ, access_type="non-exclusive", partition_count=3)
        gateway.create_queue("q", subscriptions=["t"])
        gateway.create_queue("other", access_type="non-exclusive", partition_count=2, dead_msg_queue="")
        asyncio.run(publish_everything(gateway.mqtt_port))
        everything = Counter(str(number) for number in range(MESSAGES))
        for _ in range(ROUNDS):
            upheaval = Upheaval()
            tasks = [threads.submit(upheaval.by_operators, gateway, draw.getrandbits(32)) for _ in range(3)]
            tasks.append(threads.submit(upheaval.by_death, gateway.mqtt_port))
            wanted = draw.randint(1, 400)
            wait_until(enough(upheaval, wanted), within_s=ROUND_S, what=f"{wanted} moves")
            gateway.kill9()
            for task in tasks:
                task.result(ROUND_S)
            gateway.start()
            assert found(gateway) == everything


def enough(upheaval: Upheaval, wanted: int) -> Callable[[], bool]:
    return lambda: upheaval.count >= wanted
