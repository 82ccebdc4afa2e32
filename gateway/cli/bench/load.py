"""The load of `sluicegate bench`: publishers at a fixed rate, and consumers, on the flow protocol's client library."""

import asyncio
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Final

from sluicegate.gateway.cli.bench.figures import Latencies, Stamp, Tally
from sluicegate.protocols.flow.client.aio.client import Client
from sluicegate.protocols.flow.client.aio.consumer import Consumer
from sluicegate.protocols.flow.client.aio.publisher import Publisher
from sluicegate.protocols.flow.client.errors import PublishRefused
from sluicegate.protocols.flow.client.events import ClientEvent, Disconnected
from sluicegate.protocols.flow.client.messages import Message
from sluicegate.protocols.flow.client.options import ClientOptions

BATCH_MAX: Final = 500  # messages built and sent at a time
TICK_S: Final = 0.002  # between two checks for messages that are due
POLL_S: Final = 0.05  # between two checks for missing messages


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """The parameters of a run. Counts are 1 or more."""

    rate: int  # messages per second of all publishers together; 0: as fast as the gateway accepts them
    duration_s: float
    size_bytes: int
    keys_count: int
    publishers_count: int
    consumers_count: int
    wait_s: float  # how long to wait for missing messages after the last arrival


class Run:
    """One run on a queue of its own. Its figures grow while it runs."""

    def __init__(
        self, load: Load, *, url: str, options: ClientOptions, queue: str, run: int, on_lost: Callable[[str], None]
    ) -> None:
        """`on_lost` is called with the reason when a connection is lost for the first time."""
        self.tally = Tally(run)
        self.latencies = Latencies()  # from the time when a message was due until a consumer receives it
        self.confirmed_count = 0
        self.refused_count = 0
        self.refusal = ""  # the text of the first one
        self.published_s = 0.0  # until the last confirmation
        self.consumed_s = 0.0  # until the last message
        self._load = load
        self._url = url
        self._options = options
        self._queue = queue
        self._run = run
        self._on_lost = on_lost
        self._has_lost = False
        self._sent_count = 0

    async def execute(self) -> None:
        """Publish and consume. Raises FlowClientError."""
        async with AsyncExitStack() as stack:
            began_ns = time.monotonic_ns()
            tasks: list[asyncio.Task[None]] = []
            for _ in range(self._load.consumers_count):
                client = await stack.enter_async_context(self._client())
                consumer = await stack.enter_async_context(client.consumer(self._queue))
                tasks.append(asyncio.create_task(self._consume(consumer, began_ns)))
            publishing: list[asyncio.Task[None]] = []
            for number in range(self._load.publishers_count):
                client = await stack.enter_async_context(self._client())
                publisher = await stack.enter_async_context(client.publisher())
                publishing.append(asyncio.create_task(self._publish(publisher, number)))
            try:
                await _all_of(publishing, beside=tasks)
                self.published_s = (time.monotonic_ns() - began_ns) / 1e9
                self.confirmed_count = self._sent_count - self.refused_count
                await self._await_missing(tasks)
            finally:
                for task in [*publishing, *tasks]:
                    task.cancel()
                await asyncio.gather(*publishing, *tasks, return_exceptions=True)

    def _client(self) -> Client:
        return Client(self._url, self._options, on_event=self._on_event)

    def _on_event(self, event: ClientEvent) -> None:
        if isinstance(event, Disconnected) and not self._has_lost:
            self._has_lost = True
            self._on_lost(event.reason)

    async def _publish(self, publisher: Publisher, number: int) -> None:
        """Send this publisher's share of the messages. Each key belongs to one publisher, which defines its order."""
        load = self._load
        keys = range(number, max(load.keys_count, load.publishers_count), load.publishers_count)
        next_numbers = dict.fromkeys(keys, 0)
        rate = load.rate / load.publishers_count
        began_ns = time.monotonic_ns()
        sent_count = 0
        passed_s = 0.0
        while True:
            is_over = passed_s >= load.duration_s
            passed_s = (time.monotonic_ns() - began_ns) / 1e9
            due_count = int(min(passed_s, load.duration_s) * rate) - sent_count if rate else BATCH_MAX
            if is_over and (due_count <= 0 or not rate):
                break
            if due_count <= 0:
                await asyncio.sleep(TICK_S)
                continue
            messages: list[Message] = []
            for _ in range(min(due_count, BATCH_MAX)):
                key = keys[sent_count % len(keys)]
                due_ns = began_ns + int(sent_count / rate * 1e9) if rate else time.monotonic_ns()
                stamp = Stamp(self._run, key, next_numbers[key], due_ns)
                next_numbers[key] += 1
                sent_count += 1
                messages.append(Message(stamp.payload(load.size_bytes), queue=self._queue, key=f"key-{key}"))
            self._sent_count += len(messages)
            await publisher.send_all(messages)
        try:
            await publisher.flush()
        except PublishRefused as refused:
            self.refused_count += refused.count
            self.refusal = self.refusal or str(refused)

    async def _consume(self, consumer: Consumer, began_ns: int) -> None:
        while True:
            deliveries = await consumer.receive_many(BATCH_MAX)
            now_ns = time.monotonic_ns()
            for delivery in deliveries:
                stamp = self.tally.note(delivery.payload)
                if stamp is not None:
                    self.latencies.add(now_ns - stamp.due_ns)
            self.consumed_s = (now_ns - began_ns) / 1e9
            consumer.accept_all(deliveries)

    async def _await_missing(self, consuming: list[asyncio.Task[None]]) -> None:
        """Wait for confirmed messages that have not arrived, as long as messages arrive."""
        loop = asyncio.get_running_loop()
        seen_count, until = -1, 0.0
        while self.tally.received_count < self.confirmed_count:
            if self.tally.received_count != seen_count:
                seen_count, until = self.tally.received_count, loop.time() + self._load.wait_s
            if loop.time() >= until:
                return
            await asyncio.wait(consuming, timeout=POLL_S)
            for task in consuming:
                if task.done():
                    task.result()


async def _all_of(tasks: list[asyncio.Task[None]], *, beside: list[asyncio.Task[None]]) -> None:
    """Wait for all tasks. Raises the exception of a failed task, including those in `beside`."""
    waiting = set(tasks)
    while waiting:
        done, _ = await asyncio.wait({*waiting, *beside}, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
        waiting -= done
