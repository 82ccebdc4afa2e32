"""kill -9 while AMQP clients use transactions: the settlement and the publishes of one take effect together.

Each transaction settles one message of a queue and publishes two, to two other queues. So after each crash every number
is either in the first queue, or once in each of the others. If its commit was answered, it is in the others.
"""

import asyncio
import random
import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from support.amqp.client import AmqpClient, body, in_transaction
from support.http.plain import HTTP
from support.processes.gateway import GatewayProcess, wait_until

MESSAGES = 300
ROUNDS = 3
WORKERS = 2
SEED = 20_261_121
ROUND_S = 60
REQUEST_S = 20
CONTROL, TO_DONE, TO_COPY, FROM_WORK = 0, 1, 2, 3

pytestmark = [pytest.mark.crash, pytest.mark.slow]


class Answered:
    """The numbers whose transaction was answered, from several threads."""

    def __init__(self) -> None:
        self._numbers: list[str] = []
        self._lock = threading.Lock()

    def add(self, number: str) -> None:
        with self._lock:
            self._numbers.append(number)

    def all(self) -> list[str]:
        with self._lock:
            return list(self._numbers)


async def put_work(port: int) -> None:
    """Publish everything, in one transaction."""
    client = await AmqpClient.open(port, "publisher")
    await client.coordinator(CONTROL)
    await client.sender("work", "work", handle=TO_DONE)
    txn = await client.declare(CONTROL)
    for number in range(MESSAGES):
        client.transfer(TO_DONE, body(str(number)), state=in_transaction(txn, None))
    assert (await client.discharge(CONTROL, txn)).error is None
    await client.close()


def work(port: int, worker: int, answered: Answered) -> None:
    """Work in transactions until the gateway is gone."""
    with suppress(ConnectionError, EOFError):  # the gateway is gone
        asyncio.run(_work(port, worker, answered))


async def _work(port: int, worker: int, answered: Answered) -> None:
    client = await AmqpClient.open(port, f"worker-{worker}")
    try:
        await client.coordinator(CONTROL)
        await client.sender("done", "done", handle=TO_DONE)
        await client.sender("copy", "copy", handle=TO_COPY)
        await client.receiver("work", "work", handle=FROM_WORK, credit=MESSAGES)
        while len(answered.all()) < MESSAGES:
            try:
                message = await client.delivery()
            except AssertionError:
                return  # nothing waits for this worker any more
            number = str(message.body)
            txn = await client.declare(CONTROL)
            client.transfer(TO_DONE, body(number), state=in_transaction(txn, None))
            by_client = message.delivery_id % 2 == 0
            client.settle(message.delivery_id, message.delivery_id, in_transaction(txn), settled=by_client)
            client.transfer(TO_COPY, body(number), state=in_transaction(txn, None))
            if (await client.discharge(CONTROL, txn)).error is None:
                answered.add(number)  # else its partition went to the other worker meanwhile
    finally:
        client.vanish()


def found(gateway: GatewayProcess, queue: str) -> Counter[str]:
    """How often each number is in a queue."""
    answer = HTTP.get(f"{gateway.admin_url}/queues/{queue}/messages", params={"limit": 1000}, timeout=REQUEST_S)
    return Counter(message["payload"] for message in answer.raise_for_status().json()["messages"])


@pytest.mark.timeout(240)
def test_a_transaction_is_whole_or_not_there_after_each_crash(tmp_path: Path) -> None:
    """Case 78: what was accepted is there with all its effects; what was not, is there whole or not at all."""
    draw = random.Random(SEED)
    answered = Answered()
    with GatewayProcess(tmp_path) as gateway, ThreadPoolExecutor(WORKERS) as threads:
        gateway.create_queue("work", access_type="non-exclusive", partition_count=2, partition_rebalance_delay_s=0)
        gateway.create_queue("done", access_type="non-exclusive", partition_count=3)
        gateway.create_queue("copy")
        asyncio.run(put_work(gateway.amqp_port))
        for _ in range(ROUNDS):
            wanted = min(MESSAGES - 10, len(answered.all()) + draw.randint(1, 20))
            tasks = [threads.submit(work, gateway.amqp_port, worker, answered) for worker in range(WORKERS)]
            wait_until(enough(answered, wanted), within_s=ROUND_S, what=f"{wanted} transactions")
            gateway.kill9()
            for task in tasks:
                task.result(ROUND_S)
            gateway.start()
            waiting, done, copies = (found(gateway, queue) for queue in ("work", "done", "copy"))
            for number in map(str, range(MESSAGES)):
                places = (waiting[number], done[number], copies[number])
                assert places in {(1, 0, 0), (0, 1, 1)}, f"{number} is torn or doubled: {places}"
            assert set(answered.all()) <= set(done), "what was answered is there"


def enough(answered: Answered, wanted: int) -> Callable[[], bool]:
    return lambda: len(answered.all()) >= wanted
