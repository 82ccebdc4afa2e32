"""The commit of one staged transaction: reserve room in every queue, decide, publish.

The decision is one row. Before it is written, room is reserved in every queue; a queue that refuses ends the commit,
and nothing has happened. After the decision is on disk everything will be published, after a crash as well: page by
page, each batch in a commit whose journal record also settles it in the hidden partition, so that it is never published
twice.
"""

import logging
from random import Random
from typing import Final, Protocol

from sluicegate.actors.messages.data import Settled
from sluicegate.actors.messages.spool import PageRead
from sluicegate.actors.publishing.publisher import Publisher
from sluicegate.actors.runtime.asks import LoopFuture
from sluicegate.actors.runtime.runtime import Runtime
from sluicegate.actors.runtime.tasks import run
from sluicegate.messaging.bulk.staging import NOT_PUBLISHED, STAGE_DAMAGED, StagedPage, StagingRefused
from sluicegate.messaging.message.address import Address
from sluicegate.messaging.message.batch import MessageBatch
from sluicegate.messaging.message.ranges import RangeSet
from sluicegate.messaging.message.refusals import (
    ADMITTED,
    REFUSAL_TEXTS,
    REFUSED_NO_MATCH,
    REFUSED_NOT_FOUND,
    limited_text,
)
from sluicegate.messaging.queues.admission import QueueGate
from sluicegate.messaging.routing.destinations import QueueTarget
from sluicegate.messaging.routing.routes import TopicSpace
from sluicegate.messaging.topics.syntax import is_queue_topic

log = logging.getLogger("sluicegate.staging")

PUBLISHED_AT_A_TIME: Final = 16  # batches that wait for their commit; with pages of 32 KiB, half a megabyte
RETRY_MS: Final = 1000  # after a queue or the store refused a batch of a decided commit

Reserved = list[tuple[QueueGate, int, int]]  # gate, messages, bytes


class StagedPages(Protocol):
    """Reads the pages of transactions; the staging actor."""

    def read(self, page: StagedPage) -> LoopFuture[PageRead]:
        """Read a page."""

    def next_token(self) -> int:
        """Return a token for a publish or a row."""

    def answer_to(self, token: int) -> LoopFuture[str]:
        """Return the outcome of the work with this token: empty, or why it was not stored."""


class StagedCommit:
    """Publishes the pages of one transaction."""

    def __init__(
        self,
        runtime: Runtime,
        pages: StagedPages,
        *,
        space: TopicSpace,
        spool: Address,
        address: Address,
        rng: Random,
        partition_id: int,
        published: RangeSet,
    ) -> None:
        self._runtime = runtime
        self._pages = pages
        self._space = space
        self._spool = spool
        self._publisher = Publisher(space=space, spool=spool, address=address, rng=rng, in_transaction=True)
        self._partition_id = partition_id  # of the hidden partition
        self._published = published  # found published already at the start
        self._reserved: dict[int, Reserved] = {}  # first sequence of a batch -> its reservations
        self.messages_count = 0

    async def reserve(self, pages: list[StagedPage]) -> None:
        """Reserve room for all pages in every queue, or for none. Raises StagingRefused."""
        try:
            for page in pages:
                read = await self._pages.read(page)
                damage = _damage_of(page, read)
                if damage:
                    text = f"part {page.part}, attempt {page.attempt} cannot be read: {damage}"
                    raise StagingRefused(STAGE_DAMAGED, text)
                for first, batch in read.runs:
                    self._reserve_batch(first, batch)
                    self.messages_count += batch.count
        except StagingRefused:
            self.release_all()
            raise

    def release_all(self) -> None:
        """Release all reservations: nothing will be published."""
        for first in list(self._reserved):
            self._release(first)

    async def publish(self, pages: list[StagedPage]) -> None:
        """Publish all pages, in order; return when they are safe. A decided batch is retried until it is taken."""
        waiting: list[LoopFuture[None]] = []
        for page in pages:
            read = await self._pages.read(page)
            damage = _damage_of(page, read)
            if damage:
                lost = "some messages" if read.runs else "all messages"
                log.error("%s staged as %s cannot be read, and are lost: %s", lost, page, damage)
            for first, batch in read.runs:
                if first in self._published:
                    continue
                waiting.append(await self._publish_batch(first, batch, first + batch.count))
                if len(waiting) >= PUBLISHED_AT_A_TIME:
                    await waiting.pop(0)
        for each in waiting:
            await each

    def _reserve_batch(self, first: int, batch: MessageBatch) -> None:
        reserved: Reserved = []
        self._reserved[first] = reserved
        if self._space.refuses_unmatched and len(self._rows_with_destination(batch)) < batch.count:
            raise StagingRefused(NOT_PUBLISHED, REFUSAL_TEXTS[REFUSED_NO_MATCH])
        topics = [batch.topic] if batch.topics is None else batch.topics
        for row, topic in enumerate(topics):  # a topic may have no subscriber; a queue that is addressed has to exist
            if is_queue_topic(topic) and self._space.route_of_row(batch, row).is_empty:
                raise StagingRefused(NOT_PUBLISHED, f"{topic!r}: {REFUSAL_TEXTS[REFUSED_NOT_FOUND]}")
        for target, part in self._targets_of(batch):
            gate = target.gate
            verdict = gate.verdict(part)
            if verdict != ADMITTED and gate.refuses_publisher(verdict):
                gate.refuse(verdict, part.count, hears=True)
                text = f"queue {target.name!r}: {limited_text(verdict, gate.limit(verdict))}"
                raise StagingRefused(NOT_PUBLISHED, text)
            if verdict == ADMITTED:
                size = gate.usage_of(part)
                gate.restore(part.count, size)
                reserved.append((gate, part.count, size))

    def _release(self, first: int) -> None:
        for gate, count, size in self._reserved.pop(first, []):
            if not gate.ended:  # a deleted queue has dropped its reservations
                gate.release(count, size)

    def _targets_of(self, batch: MessageBatch) -> list[tuple[QueueTarget, MessageBatch]]:
        """Return the rows of a batch for each queue."""
        rows_by_target: dict[QueueTarget, list[int]] = {}
        for row in range(batch.count):
            route = self._space.route_of_row(batch, row)
            for target in self._space.queues_of(route):
                rows_by_target.setdefault(target, []).append(row)
        return [
            (target, batch if len(rows) == batch.count else batch.select(rows))
            for target, rows in rows_by_target.items()
        ]

    def _rows_with_destination(self, batch: MessageBatch) -> list[int]:
        return [row for row in range(batch.count) if not self._space.route_of_row(batch, row).is_empty]

    async def _publish_batch(self, first: int, batch: MessageBatch, end: int) -> LoopFuture[None]:
        """Publish a batch; the future is done when it is safe."""
        while True:
            self._release(first)
            token = self._pages.next_token()
            # It arrives in its queues now: their delays and times to live begin now, however long ago it was staged.
            result = self._publisher.publish(batch.arriving(self._runtime.clock.wall_ms()), token)
            if result.refusal == ADMITTED:
                break
            if result.refusal == REFUSED_NO_MATCH:  # the subscribers at the time of the decision have gone
                rows = self._rows_with_destination(batch)
                if not rows:
                    break
                batch = batch.select(rows)
                continue
            log.warning("publishing of a committed transaction is delayed: %s", REFUSAL_TEXTS[result.refusal])
            await self._pause()
        safe: LoopFuture[None] = LoopFuture()
        publication = result.publication
        if publication is None:  # no subscriber, or only queues that are never written
            self._spool.post(Settled(self._partition_id, [(first, end)], [], [], True))
            safe.set()
            return safe
        publication.settlements = [(self._partition_id, first, end)]
        publication.only_moves = True  # out of the hidden partition
        publication.open_count += 1  # written even if its consumers are faster: the settlement has to be stored with it

        def confirmed(answer: LoopFuture[str]) -> None:
            publication.open_count -= 1
            if publication.open_count == 0:
                self._spool.post(Settled(self._partition_id, [], [publication], [], False))
            if answer.get():
                self._runtime.after(RETRY_MS, lambda: self._again(first, batch, end, safe))
            else:
                safe.set()

        self._pages.answer_to(token).then(confirmed)
        return safe

    def _again(self, first: int, batch: MessageBatch, end: int, safe: LoopFuture[None]) -> None:
        """Publish again what the store could not take; later batches may have been published before."""
        run(self._runtime, self._publish_batch(first, batch, end)).then(
            lambda done: done.get().then(lambda _: safe.set())
        )

    async def _pause(self) -> None:
        over: LoopFuture[None] = LoopFuture()
        self._runtime.after(RETRY_MS, over.set)
        await over


def _damage_of(page: StagedPage, read: PageRead) -> str:
    """Return why some rows of a page are lost; empty when none is, also where the page's checksum is wrong."""
    if sum(batch.count for _, batch in read.runs) == page.end - page.first:
        return ""
    return read.damage or read.lost
