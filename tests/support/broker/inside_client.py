"""A publisher, consumer and reader inside the node: it sends requests to the actors directly."""

import asyncio
import random
from collections.abc import Callable
from typing import Any

from sluicegate.actors.messages.data import WAKE, Confirmed, Deliveries, PublishFailed, Settle
from sluicegate.actors.messages.directory import NAMED, CreateQueue, DeleteQueue, FindQueue, LocalQueue
from sluicegate.actors.messages.queues import BindFlow, DescribeQueue, QueueOverview, UnbindFlow
from sluicegate.actors.messages.readers import (
    AckCursor,
    AskPartitions,
    BindCursor,
    CursorBound,
    CursorPosition,
    CursorStatus,
    RangeChunk,
    ReadRange,
)
from sluicegate.actors.messages.staging import (
    CommitStaged,
    DescribeStaging,
    Stage,
    Staged,
    StagedCommitted,
    StagingOverview,
)
from sluicegate.actors.publishing.publisher import Publisher
from sluicegate.actors.runtime.actor import LoopActor
from sluicegate.actors.runtime.runtime import ActorCell
from sluicegate.actors.runtime.supervision import VITAL
from sluicegate.gateway.node.vpn import MessageVpn
from sluicegate.messaging.bulk.durable_cursors import LIMITS_DEFAULT, TAP, CursorLimits
from sluicegate.messaging.message.address import Address
from sluicegate.messaging.message.batch import AT_LEAST_ONCE, MessageBatch
from sluicegate.messaging.message.headers import Headers
from sluicegate.messaging.message.keys import key_hash
from sluicegate.messaging.message.outcomes import ACCEPTED
from sluicegate.messaging.message.vpn import DEFAULT_VPN
from sluicegate.messaging.partitions.state.segments import Gap
from sluicegate.messaging.queues.credit import CreditWindow
from sluicegate.messaging.queues.definition import definition_from_dict
from support.broker.running_broker import RunningBroker

DEADLINE_S = 20


async def until(condition: Any, what: str) -> None:
    """Wait until a condition holds, which may be a coroutine function."""
    try:
        async with asyncio.timeout(DEADLINE_S):
            while True:
                found = condition()
                if asyncio.iscoroutine(found):
                    found = await found
                if found:
                    return
                await asyncio.sleep(0.005)
    except TimeoutError:
        raise AssertionError(f"waited {DEADLINE_S} s for {what}") from None


def batch_on(topic: str, payloads: list[bytes], *, keys: list[str] | None = None, received_ms: int = 0) -> MessageBatch:
    """Return a guaranteed batch."""
    return MessageBatch(
        topic=topic,
        topics=None,
        payloads=payloads,
        headers=None if keys is None else [Headers(partition_key=key, key_hash=key_hash(key)) for key in keys],
        qos=AT_LEAST_ONCE,
        retain=False,
        publisher="inside",
        received_ms=received_ms,
        payload_bytes=sum(map(len, payloads)),
    )


class Publishing(LoopActor):
    """Publishes and waits for its confirmations."""

    def __init__(self, cell: ActorCell, broker: RunningBroker, vpn: str) -> None:
        super().__init__(cell)
        node = broker.node
        self._publisher = Publisher(
            space=node.vpns[vpn].space, spool=node.services.spool.inbox, address=cell.inbox, rng=random.Random(1)
        )
        self._now_ms = node.services.clock.wall_ms
        self._open: dict[int, asyncio.Future[None]] = {}

    def on_receive(self, message: Any) -> None:
        if isinstance(message, Confirmed):
            self._open.pop(message.token).set_result(None)
        elif isinstance(message, PublishFailed):
            self._open.pop(message.token).set_exception(RuntimeError(message.reason))

    async def publish(self, topic: str, payloads: list[bytes], *, keys: list[str] | None = None) -> None:
        """Publish one batch, and return when it is confirmed."""
        await self.publish_batch(batch_on(topic, payloads, keys=keys, received_ms=self._now_ms()))

    async def publish_batch(self, batch: MessageBatch) -> None:
        """Publish a batch, and return when it is confirmed."""
        token = len(self._open) + 1
        confirmed = self._open[token] = asyncio.get_running_loop().create_future()
        result = self._publisher.publish(batch, token)
        assert result.refusal == 0, result.refusal
        if result.confirmations_pending:
            async with asyncio.timeout(DEADLINE_S):
                await confirmed


class Consuming(LoopActor):
    """A consumer of one queue that settles the messages it gets, unless the test switches that off."""

    def __init__(self, cell: ActorCell, queue: LocalQueue) -> None:
        super().__init__(cell)
        self._queue = queue
        self.flow_id = cell.runtime.next_urn()
        self.window: CreditWindow[Address] = CreditWindow(100_000)
        self.got: list[tuple[int, int, bytes, bool]] = []  # partition, sequence, payload, redelivered
        self.settles = True

    async def bind(self) -> None:
        await self._queue.cell.ask(BindFlow(self.flow_id, "inside", "", self.cell.inbox, self.window))

    def unbind(self) -> None:
        self._queue.cell.inbox.post(UnbindFlow(self.flow_id))

    def payloads(self) -> list[bytes]:
        return [payload for _, _, payload, _ in self.got]

    def on_receive(self, message: Any) -> None:
        if not isinstance(message, Deliveries):
            return
        for each in message.deliveries:
            payloads = each.batch.payloads()[each.start_row : each.stop_row]
            for sequence, payload in enumerate(payloads, each.first_sequence):
                self.got.append((message.partition_number, sequence, payload, each.redelivered))
            if self.settles:
                end = each.first_sequence + len(payloads)
                message.partition.post(Settle(self.flow_id, each.epoch, each.first_sequence, end, ACCEPTED))
                self.window.give(len(payloads))
        message.partition.post(WAKE)


class InsideClient:
    """Everything that a test asks of a node about one queue."""

    def __init__(self, broker: RunningBroker, queue: str, *, vpn: str = DEFAULT_VPN) -> None:
        self.broker = broker
        self.queue = queue
        self._vpn_name = vpn

    @property
    def _vpn(self) -> MessageVpn:
        return self.broker.node.vpns[self._vpn_name]

    async def create(self, **attributes: object) -> None:
        definition = definition_from_dict({"name": self.queue, "subscriptions": [f"{self.queue}/>"], **attributes})
        await self._vpn.queues.ask(CreateQueue(definition, NAMED, durable=True))

    async def delete(self) -> None:
        await self._vpn.queues.ask(DeleteQueue(self.queue))

    async def exists(self) -> bool:
        return await self._vpn.queues.ask(FindQueue(self.queue)) is not None

    async def handle(self) -> LocalQueue:
        handle: LocalQueue = await self._vpn.queues.ask(FindQueue(self.queue))
        return handle

    async def publish(self, *payloads: bytes, keys: list[str] | None = None) -> None:
        publishing: Publishing = self._spawn(lambda cell: Publishing(cell, self.broker, self._vpn_name))
        await publishing.publish(f"{self.queue}/t", list(payloads), keys=keys)

    async def publish_on(self, *topics: str) -> None:
        """Publish one batch of messages to these topics, whatever they are; their payloads are numbers."""
        payloads = [b"%d" % number for number in range(len(topics))]
        batch = MessageBatch(
            topic="",
            topics=list(topics),
            payloads=payloads,
            headers=None,
            qos=AT_LEAST_ONCE,
            retain=False,
            publisher="inside",
            received_ms=self.broker.clock.wall_ms(),
            payload_bytes=sum(map(len, payloads)),
        )
        publishing: Publishing = self._spawn(lambda cell: Publishing(cell, self.broker, self._vpn_name))
        await publishing.publish_batch(batch)

    async def consumer(self) -> Consuming:
        queue = await self.handle()
        consumer: Consuming = self._spawn(lambda cell: Consuming(cell, queue))
        await consumer.bind()
        return consumer

    def _spawn(self, make: Callable[[ActorCell], LoopActor]) -> Any:
        node = self.broker.node
        return node.services.runtime.spawn(
            make, kind="test", name="inside", policy=VITAL, parent=node.services.root
        ).actor

    async def overview(self) -> QueueOverview:
        overview: QueueOverview = await (await self.handle()).cell.ask(DescribeQueue())
        return overview

    async def consume_all(self) -> Consuming:
        """Consume until nothing waits."""
        consumer = await self.consumer()

        async def is_empty() -> bool:
            return (await self.overview()).usage_count == 0

        await until(is_empty, "an empty queue")
        consumer.unbind()
        return consumer

    async def chunk(self, first: int, end: int, *, partition: int = 0, bytes_max: int = 1 << 20) -> RangeChunk:
        chunks: list[RangeChunk] = await (await self.handle()).cell.ask(
            AskPartitions(partition, ReadRange(first, end, bytes_max))
        )
        return chunks[0]

    async def read(
        self, first: int = 1, end: int = 1 << 60, *, partition: int = 0, bytes_max: int = 1 << 20
    ) -> tuple[dict[int, bytes], list[Gap]]:
        """Read a range chunk by chunk: payloads by sequence, and gaps."""
        found: dict[int, bytes] = {}
        gaps: list[Gap] = []
        while first < end:
            chunk = await self.chunk(first, end, partition=partition, bytes_max=bytes_max)
            for run in chunk.runs:
                payloads = run.batch.payloads()[run.start_row : run.stop_row]
                found.update(enumerate(payloads, run.first_sequence))
            gaps += chunk.gaps
            if chunk.next_sequence in (first, chunk.synced_end):
                break
            first = chunk.next_sequence
        return found, gaps

    # --- transactions ---

    async def stage(self, transaction: str, part: int, *payloads: bytes, attempt: int = 0) -> Staged:
        message = Stage(transaction, part, attempt, [batch_on(f"{self.queue}/t", list(payloads))])
        staged: Staged = await self._vpn.staging.ask(message)
        return staged

    async def commit(self, transaction: str, *attempts: tuple[int, int]) -> StagedCommitted:
        committed: StagedCommitted = await self._vpn.staging.ask(CommitStaged(transaction, list(attempts)))
        return committed

    async def staging(self) -> StagingOverview:
        overview: StagingOverview = await self._vpn.staging.ask(DescribeStaging())
        return overview

    # --- a durable cursor ---

    async def bind(
        self, cursor: str = "c", *, mode: str = TAP, instance: str = "i", limits: CursorLimits = LIMITS_DEFAULT
    ) -> CursorBound:
        message = BindCursor(self.queue, cursor, mode, instance, limits=limits)
        bound: CursorBound = await self._vpn.cursors.ask(message)
        return bound

    async def ack(self, epoch: int, upto: dict[int, int], *, cursor: str = "c", batch_ref: str = "") -> list[int]:
        """Acknowledge; return the positions."""
        message = AckCursor(self.queue, cursor, epoch, upto, batch_ref)
        positions: list[CursorPosition] = await self._vpn.cursors.ask(message)
        return [each.acked for each in positions]

    async def status(
        self, epoch: int, *, wait_ms: int = 0, above: dict[int, int] | None = None, cursor: str = "c"
    ) -> list[CursorPosition]:
        message = CursorStatus(self.queue, cursor, epoch, wait_ms, above or {})
        positions: list[CursorPosition] = await self._vpn.cursors.ask(message)
        return positions
