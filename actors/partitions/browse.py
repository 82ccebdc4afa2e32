"""Browse the messages that wait in a partition, oldest first, without changing their state.

A request that finds nothing ends, or waits for new messages. Pages are read for browsing only: they do not enter the
partition's memory.
"""

from collections.abc import Callable
from typing import Final

from sluicegate.actors.messages.partitions import BrowsedMessage, BrowsePartition
from sluicegate.actors.messages.spool import PageRead, ReadPage
from sluicegate.actors.runtime.asks import LoopFuture
from sluicegate.actors.runtime.runtime import Runtime
from sluicegate.actors.spool.store_threads import StoreReader
from sluicegate.messaging.message.address import Address
from sluicegate.messaging.message.batch import MessageBatch
from sluicegate.messaging.partitions.ledger import Ledger
from sluicegate.messaging.partitions.state.segments import Segment

READ_AGAIN_MS: Final = 1000  # between two attempts to read a page from a store that fails


class PartitionBrowse(Address):
    """One request: walks the segments, and waits where a page has to be read."""

    def __init__(
        self,
        *,
        runtime: Runtime,
        ledger: Callable[[], Ledger],
        number: int,
        partition_id: int,
        reader: StoreReader | None,
        request: BrowsePartition,
        waiting: "dict[int, PartitionBrowse]",
    ) -> None:
        self._runtime = runtime
        self._ledger = ledger  # called each time: a partition may be given a new ledger
        self._number = number
        self._partition_id = partition_id
        self._reader = reader
        self._next = request.after + 1
        self._limit = request.limit
        self._waits_as = -1 if request.waits_as is None else request.waits_as
        self._waiting = waiting  # the partition's requests that wait for new messages
        self._found: list[BrowsedMessage] = []
        self.answer: LoopFuture[list[BrowsedMessage]] = LoopFuture()

    def run(self) -> None:
        """Continue until a page has to be read, or enough is found."""
        self._waiting.pop(self._waits_as, None)
        segments = self._ledger().segments
        while len(self._found) < self._limit:
            segment = segments.at_or_after(self._next)
            if segment is None:
                break
            if segment.batch is None:
                assert segment.page is not None
                assert self._reader is not None
                self._reader.read(ReadPage(self, self._partition_id, segment.page.first))
                return
            self._scan(segment.first, segment.batch)
            self._next = segment.end
        if self._found or self._waits_as < 0:
            self.end()
        else:
            self._waiting[self._waits_as] = self

    def end(self) -> None:
        """Answer with the messages found."""
        self._waiting.pop(self._waits_as, None)
        self.answer.set(self._found)

    def post(self, message: object) -> None:
        """Handle a page that was read; a damaged one has no messages to show."""
        assert isinstance(message, PageRead)
        if message.failed:  # a disk error: the page is not lost
            self._runtime.after(READ_AGAIN_MS, self.run)
            return
        end = _end_of_page(self._ledger().segments.at_or_after(self._next), message)
        for first, batch in message.runs:
            self._scan(first, batch)
        self._next = max(end, self._next)
        self.run()

    def _scan(self, first: int, batch: MessageBatch) -> None:
        ledger = self._ledger()
        for row in range(batch.count):
            sequence = first + row
            if sequence < self._next or sequence < ledger.floor or sequence in ledger.settled:
                continue
            if sequence in ledger.moving:  # the other queue shows it
                continue
            if len(self._found) == self._limit:
                return
            self._found.append(
                BrowsedMessage(
                    partition_number=self._number,
                    sequence=sequence,
                    batch=batch,
                    row=row,
                    redelivered=ledger.was_delivered(sequence),
                    delivery_count=ledger.failures.get(sequence, 0),
                    in_flight=any(sequence in flow.in_flight for flow in ledger.flows.values()),
                )
            )


def _end_of_page(segment: Segment | None, message: PageRead) -> int:
    """Return the end of the page: of its last run, and of its segment, if it is there yet: there may be lost ones."""
    is_there = segment is not None and segment.page is not None and segment.page.first == message.first_sequence
    end = segment.end if segment is not None and is_there else 0
    if message.runs:
        first, batch = message.runs[-1]
        end = max(end, first + batch.count)
    return end
