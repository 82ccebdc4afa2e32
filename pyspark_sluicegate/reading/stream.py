"""The stream source: repeatable batches, with a position in the gateway.

Spark keeps one reader in a separate process while a query runs, beside temporary copies that are only pickled to tasks.
So a reader connects at its first request. Spark kills the process instead of stopping it: the gateway ends the binding
when the heartbeat is missing.
"""

import os
import socket
import time
from collections.abc import Container, Iterator, Mapping, Sequence
from threading import Thread
from typing import Any, Final

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from pyspark_sluicegate.connection import bulk_for
from pyspark_sluicegate.options import FAIL, OptionError, SourceOptions
from pyspark_sluicegate.reading.offsets import FIRST_SEQUENCE, Offset, OffsetError, acked_places, ids_of, named_places
from pyspark_sluicegate.reading.planning import ALL, RangeToRead, cut, group, next_ends
from pyspark_sluicegate.reading.tasks import RangeReader, RangesPartition
from sluicegate import BlockingCursor, FlowClientError, RequestRefused
from sluicegate.messaging.bulk.durable_cursors import EARLIEST, LATEST
from sluicegate.protocols.flow.codec.codes import FENCED, NOT_FOUND
from sluicegate.protocols.flow.codec.frames.cursor import Position

HEARTBEAT_S: Final = 60.0  # a binding without a heartbeat for this time has ended
BEAT_S: Final = HEARTBEAT_S / 4
BINDING_GONE: Final = frozenset({FENCED, NOT_FOUND})  # the refusals that end a binding: bound by another, deleted
UNNAMED_BATCH: Final = "spark"  # Spark tells the batch to listeners only


class QueueStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads a queue with a durable cursor."""

    def __init__(self, options: SourceOptions, ranges: RangeReader) -> None:
        self._options = options
        self._ranges = ranges
        self._cursor: BlockingCursor | None = None  # from when it was bound here
        self._stood_when_bound: tuple[Position, ...] = ()
        self._target: Sequence[Position] | None = None  # with availableNow: where the query ends

    # --- calls of Spark in the driver ---

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802, Spark's name
        """Return the start of a query without a checkpoint: the cursor's position, or the user's choice."""
        self._bound()
        options = self._options
        stands = acked_places(self._stood_when_bound)
        if options.starting_offsets not in (EARLIEST, LATEST):
            wished = named_places(options.starting_offsets, self._stood_when_bound)
            for each in self._stood_when_bound:
                if wished.get(each.partition, FIRST_SEQUENCE) > each.next_sequence:
                    text = (
                        f"startingOffsets: partition {each.partition} of {options.queue} ends at {each.next_sequence}"
                    )
                    raise OffsetError(f"{text}, and what is to come cannot be passed over")
            too_early = [each for each, sequence in wished.items() if sequence < stands.get(each, FIRST_SEQUENCE)]
            if too_early and options.on_rewind == FAIL:
                raise OffsetError(self._rewound(too_early[0], wished[too_early[0]], stands[too_early[0]]))
            stands |= {each: max(sequence, stands.get(each, FIRST_SEQUENCE)) for each, sequence in wished.items()}
        return self._offset(stands, self._stood_when_bound).to_json()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802, Spark's name
        """Return the limit of a batch from the options."""
        if self._options.rows_max:
            return ReadMaxRows(self._options.rows_max)
        if self._options.bytes_max:
            return ReadMaxBytes(self._options.bytes_max)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802, Spark's name
        """Store the end of the query."""
        self._target = self._next_now(above={}, wait_ms=0)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802, Spark's name
        """Return the end of the next batch; wait for new messages up to `longPollMs`. Raises OffsetError.

        Spark calls this when the batch before is in its commit log, so it acknowledges the messages before `start`.
        """
        begin = self._resumed(start)
        self._acknowledge(begin)
        ends = self._target
        if ends is None:
            # Partitions added later have no messages before their first sequence, and are not in `begin` yet.
            above = begin.places(self._bound().positions)
            ends = self._next_now(above=above, wait_ms=self._options.long_poll_ms)
        chosen = self._limited(begin, ends, limit)
        if not chosen:
            return start  # equal to the last offset: Spark makes no batch
        return begin.moved(chosen, ends, self._bound().epoch).to_json()

    def reportLatestOffset(self) -> dict[str, Any]:  # noqa: N802, Spark's name
        """Return the end of the queue, for Spark's progress."""
        positions = self._next_now(above={}, wait_ms=0)
        return self._offset({each.partition: each.next_sequence for each in positions}, positions).to_json()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Plan the tasks of a batch, and make the gateway keep its messages until the batch is acknowledged."""
        begin, stop = self._resumed(start), self._resumed(end)
        cursor = self._bound()
        positions = cursor.positions  # once: heartbeats bring others
        if not positions:
            raise OffsetError(f"the queue {self._options.queue} was deleted while a batch of it was planned")
        # A partition removed after the batch was planned has no messages: its consumers took them all.
        ends = {each: end for each, end in stop.places(positions).items() if each in stop.next}
        firsts = begin.places(positions) | self._rewound_in(begin, ends)
        ranges = [RangeToRead(each, firsts[each], end) for each, end in sorted(ends.items()) if firsts[each] < end]
        options = self._options
        if ranges:
            cursor.pin(ends)
        tasks = group(cut(ranges, options.split_rows), options.tasks)
        return [
            RangesPartition(task, incarnation=cursor.incarnation, cursor=options.cursor, epoch=cursor.epoch)
            for task in tasks
        ]

    # --- calls of Spark in a task ---

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Yield record batches."""
        return self._ranges.read(partition)

    # --- the gateway ---

    def __getstate__(self) -> dict[str, Any]:
        """Return the state of a copy for tasks, without a binding."""
        return {**self.__dict__, "_cursor": None}

    def _bound(self) -> BlockingCursor:
        if self._cursor is None:
            options = self._options
            self._cursor = bulk_for(options.connect).bind_cursor(
                options.queue,
                options.cursor,
                mode=options.mode,
                instance=f"{socket.gethostname()}/{os.getpid()}",
                start=LATEST if options.starting_offsets == LATEST else EARLIEST,
                heartbeat_s=HEARTBEAT_S,
            )
            self._stood_when_bound = self._cursor.positions
            Thread(target=_beat, args=(self._cursor,), name="cursor heartbeat", daemon=True).start()
        return self._cursor

    def _acknowledge(self, place: Offset) -> None:
        cursor = self._bound()
        if not place.is_covered_by(cursor.positions):
            cursor.acknowledge(place.places(cursor.positions), batch_ref=UNNAMED_BATCH)

    def _next_now(self, *, above: Mapping[int, int], wait_ms: int) -> tuple[Position, ...]:
        return self._bound().status(above, wait_s=wait_ms / 1000).positions

    def _offset(self, places: Mapping[int, int], positions: Sequence[Position]) -> Offset:
        cursor, options = self._bound(), self._options
        return Offset(
            vpn=cursor.vpn,
            queue=options.queue,
            cursor=options.cursor,
            mode=options.mode,
            incarnation=cursor.incarnation,
            epoch=cursor.epoch,
            next=places,
            ids=ids_of(positions),
        )

    def _resumed(self, found: dict[str, Any]) -> Offset:
        """Return an offset of the checkpoint. Raises OffsetError when the gateway cannot continue from there."""
        offset = Offset.of_json(found)
        cursor = self._bound()
        offset.check_is_of(self._options.queue, cursor.vpn, cursor.incarnation)
        return offset

    def _rewound_in(self, begin: Offset, wanted: Container[int]) -> dict[int, int]:
        """Return where reading continues in the partitions whose cursor was ahead of the checkpoint when it was bound.

        Then the checkpoint is older, and the messages in between may be gone. Raises OffsetError unless the user wants
        to skip them.
        """
        firsts: dict[int, int] = {}
        for position in self._stood_when_bound:
            number = position.partition
            first = begin.next_in(number, position.partition_id)
            if number in wanted and first < position.acked:
                if self._options.on_rewind == FAIL:
                    raise OffsetError(self._rewound(number, first, position.acked))
                firsts[number] = position.acked
        return firsts

    def _limited(self, begin: Offset, positions: Sequence[Position], limit: ReadLimit) -> dict[int, int]:
        rows_max = bytes_max = ALL
        if isinstance(limit, ReadMaxRows):
            rows_max = limit.max_rows
        elif isinstance(limit, ReadMaxBytes):
            bytes_max = limit.max_bytes
        elif not isinstance(limit, ReadAllAvailable):
            raise OptionError(f"{limit!r}: a batch is limited by rows or bytes")
        firsts, ends = begin.places(positions), {each.partition: each.next_sequence for each in positions}
        bulk = bulk_for(self._options.connect)
        return next_ends(bulk, self._options.queue, firsts, ends, rows_max=rows_max, bytes_max=bytes_max)

    def _rewound(self, partition: int, wanted: int, acked: int) -> str:
        return (
            f"queue {self._options.queue}, partition {partition}: to begin at {wanted} is before {acked}, up to where"
            f" the cursor {self._options.cursor} has acknowledged. With onRewind=skip the query begins there"
        )


def _beat(cursor: BlockingCursor) -> None:
    """Keep a binding alive during a long batch, in which Spark makes no calls. Ends with the binding, or its client.

    Other refusals are temporary: a permission that an operator revokes and restores, a store that is unreadable for a
    moment.
    """
    while True:
        time.sleep(BEAT_S)
        try:
            cursor.status()
        except RequestRefused as refused:
            if refused.code in BINDING_GONE:
                return  # the next call reports the reason
        except FlowClientError:
            return  # the same
