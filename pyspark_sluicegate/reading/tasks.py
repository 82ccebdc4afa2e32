"""Reads the ranges of one task, in the process of the task.

Every sequence of a range arrives as a row, or the gateway gives the reason for its absence. A sequence without a
reason, or lost by the gateway, is a loss of data: the task fails, unless `failOnDataLoss` is false.
"""

import logging
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, Final, final

from pyspark.sql.datasource import InputPartition

from pyspark_sluicegate.columns import bits_of, chosen_columns, record_batch
from pyspark_sluicegate.connection import bulk_for
from pyspark_sluicegate.options import SourceOptions
from pyspark_sluicegate.reading.offsets import OffsetError
from pyspark_sluicegate.reading.planning import RangeToRead
from sluicegate import Column

# The reasons of gaps that mean a failure, as opposed to actions of consumers, operators or rules.
LOSS_REASONS: Final = frozenset({"damaged", "partition_failed"})

_log: Final = logging.getLogger("pyspark_sluicegate")


class DataLossError(Exception):
    """Messages of a range are missing without a reason."""


@final
class RangesPartition(InputPartition):
    """The ranges of one task. Spark sends it to the task as a pickle."""

    def __init__(self, ranges: Sequence[RangeToRead], *, incarnation: int, cursor: str, epoch: int) -> None:
        super().__init__(tuple((each.partition, each.first, each.end) for each in ranges))
        self.incarnation = incarnation
        self.cursor = cursor  # empty: no binding is needed
        self.epoch = epoch

    @property
    def ranges(self) -> list[RangeToRead]:
        """The ranges, in the order in which they are read."""
        return [RangeToRead(*each) for each in self.value]


@final
class RangeReader:
    """Reads the ranges of tasks. It has options and the schema only, because Spark pickles it to the tasks."""

    def __init__(self, options: SourceOptions, schema: Any) -> None:
        self._options = options
        self._schema = schema  # Arrow's

    def read(self, task: InputPartition) -> Iterator[Any]:
        """Yield record batches. Raises DataLossError, OffsetError, and the errors of the client library."""
        if not isinstance(task, RangesPartition):
            return  # Spark's stand-in for no partitions at all
        for each in task.ranges:
            yield from self._read_range(each, task)

    def _read_range(self, wanted: RangeToRead, task: RangesPartition) -> Iterator[Any]:
        options = self._options
        columns = chosen_columns(options.columns)
        gaps: Counter[str] = Counter()
        at = wanted.first
        bulk = bulk_for(options.connect)
        with bulk.read_range(
            options.queue,
            partition=wanted.partition,
            first=wanted.first,
            end=wanted.end,
            columns=Column(bits_of(columns)),
            chunk_bytes=options.chunk_bytes,
            cursor=bulk.bound_cursor(options.queue, task.cursor, task.epoch) if task.cursor else None,
        ) as chunks:
            for chunk in chunks:
                self._check_incarnation(chunks.incarnation, task)
                missing = sum(end - first for first, end, _reason in chunk.gaps)
                if chunk.first != at or chunk.columns.count + missing != chunk.next_sequence - chunk.first:
                    self._lost(
                        wanted, f"{chunk.columns.count} rows and {missing} gone of {at} to {chunk.next_sequence}"
                    )
                for first, end, reason in chunk.gaps:
                    gaps[reason] += end - first
                at = chunk.next_sequence
                if chunk.columns.count:
                    yield record_batch(columns, self._schema, chunk.columns, options.queue, wanted.partition)
        if at < wanted.end:
            self._lost(wanted, f"{wanted.end - at} messages from {at} on, of which nothing is known")
        for reason in sorted(LOSS_REASONS & set(gaps)):
            self._lost(wanted, f"{gaps[reason]} messages that are {reason}")
        if gaps:
            told = ", ".join(f"{count} {reason}" for reason, count in sorted(gaps.items()))
            _log.info("queue %s, partition %d, %d to %d: %s", options.queue, wanted.partition, wanted.first, at, told)

    def _check_incarnation(self, found: int, task: RangesPartition) -> None:
        if found != task.incarnation:
            raise OffsetError(
                f"the spool of the gateway is {found:016x} now, and was {task.incarnation:016x} when the batch was"
                " planned: its sequences are other messages"
            )

    def _lost(self, wanted: RangeToRead, what: str) -> None:
        text = (
            f"DATA LOSS in queue {self._options.queue}, partition {wanted.partition}, sequences {wanted.first} to"
            f" {wanted.end}: {what}"
        )
        if self._options.fail_on_data_loss:
            raise DataLossError(f"{text}. With failOnDataLoss=false the query goes on without them")
        _log.error("%s; failOnDataLoss=false, so the query goes on", text)
