"""A durable cursor that taps one queue, over all lives of the node: every confirmed message is read.

Rules: a sequence stands for the same message whenever it is read; a position never goes back, nor ahead of the
acknowledged one; a message that was confirmed after the cursor was created is read in the end, whatever consumers and
operators do to it, unless it was in a page that the simulation damaged.
"""

import asyncio
from collections.abc import Callable

import pykka

from simulation.judge.targets import Target, Violation
from simulation.judge.truth import Truth
from simulation.wires.mqtt_tap import number_of
from sluicegate.actors.messages.directory import FindQueue, LocalQueue
from sluicegate.actors.messages.queues import BindRefused
from sluicegate.actors.messages.readers import (
    AckCursor,
    AskPartitions,
    BindCursor,
    CursorBound,
    CursorPosition,
    CursorStatus,
    NoSuchPartition,
    RangeChunk,
    ReadFailed,
    ReadRange,
)
from sluicegate.gateway.node.node import Node
from sluicegate.messaging.bulk.durable_cursors import TAP, CursorRefused

CURSOR = "reader"
STATUS_WAIT_MS, AGAIN_S = 5_000, 1.0
CHUNK_BYTES = 20_000


class Reader:
    """One reader. `read_on` is its life in one life of the node."""

    def __init__(self, truth: Truth, queue: str, violated: Callable[[Violation], None]) -> None:
        self.queue = queue
        self._truth = truth
        self._violated = violated
        self._numbers: dict[tuple[int, int], int] = {}  # partition id, sequence -> message
        self._read: set[int] = set()  # messages of the queue as it is now
        self._acked: dict[int, int] = {}  # by partition id: what the node said it has
        self._asked: dict[int, int] = {}  # and what it was asked for
        self._target: Target | None = None  # the queue that it has a cursor on
        self._since_tick = 0

    async def read_on(self, node: Node) -> None:
        """Bind and read, again and again."""
        while True:
            try:
                await self._bind_and_read(node)
            except (CursorRefused, BindRefused, ReadFailed, NoSuchPartition, pykka.ActorDeadError):
                pass  # the queue is gone, the store fails, or the binding was not heard of in time
            except Violation as violation:
                self._violated(violation)
            await asyncio.sleep(AGAIN_S)

    def check(self) -> None:
        """Raise Violation unless all was read that had to be. The node has had the time to show it."""
        target = self._target
        if target is None or target.until_tick:
            return
        for message in self._truth.course.messages.values():
            is_owed = message.sent_tick > self._since_tick and target.owes(message)
            if is_owed and message.number not in self._read and message.number not in target.damaged:
                raise Violation(f"the cursor on {self.queue} was never shown {message}, which was confirmed")

    async def _bind_and_read(self, node: Node) -> None:
        target = self._truth.targets.get(self.queue)
        bound: CursorBound = await node.default.cursors.ask(BindCursor(self.queue, CURSOR, TAP, "simulation"))
        handle: LocalQueue | None = await node.default.queues.ask(FindQueue(self.queue))
        if target is None or handle is None or target.until_tick:
            return
        if target is not self._target:
            self._target, self._since_tick, self._read = target, self._truth.next_tick(), set()
        positions = bound.positions
        while True:
            for position in positions:
                self._check_position(position)
            upto = {}
            for position in positions:
                first = await self._read_partition(handle, position)
                upto[position.number] = first
                self._asked[position.partition_id] = max(first, self._asked.get(position.partition_id, 1))
            await node.default.cursors.ask(AckCursor(self.queue, CURSOR, bound.epoch, upto))
            positions = await node.default.cursors.ask(
                CursorStatus(self.queue, CURSOR, bound.epoch, STATUS_WAIT_MS, upto)
            )

    def _check_position(self, position: CursorPosition) -> None:
        partition_id, acked = position.partition_id, position.acked
        if not self._acked.get(partition_id, 0) <= acked <= max(self._asked.get(partition_id, 1), position.low):
            raise Violation(
                f"the cursor on {self.queue} stands at {acked} of partition {partition_id}; it stood at "
                f"{self._acked.get(partition_id)}, and asked for {self._asked.get(partition_id)}"
            )
        self._acked[partition_id] = acked

    async def _read_partition(self, handle: LocalQueue, position: CursorPosition) -> int:
        """Read what can be read behind the position; return where it ends."""
        first = position.acked
        while first < position.next_sequence:
            request = ReadRange(first, position.next_sequence, CHUNK_BYTES)
            chunks: list[RangeChunk] = await handle.cell.ask(AskPartitions(position.number, request))
            chunk = chunks[0]
            told = sum(run.stop_row - run.start_row for run in chunk.runs) + sum(
                gap.end - gap.first for gap in chunk.gaps
            )
            if told != chunk.next_sequence - first:
                raise Violation(f"{chunk} of {self.queue} tells of {told} sequences")
            for run in chunk.runs:
                payloads = run.batch.payloads()[run.start_row : run.stop_row]
                for sequence, payload in enumerate(payloads, run.first_sequence):
                    self._note(position.partition_id, sequence, number_of(payload))
            if chunk.next_sequence == first:
                break
            first = chunk.next_sequence
        return first

    def _note(self, partition_id: int, sequence: int, number: int) -> None:
        known = self._numbers.setdefault((partition_id, sequence), number)
        if known != number:
            raise Violation(f"{sequence} of partition {partition_id} was read as message {known}, and now as {number}")
        self._read.add(number)
