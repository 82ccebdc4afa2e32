"""The batch source: reads the present messages of a queue, or a part of them, without removing any."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final, final

from pyspark.sql.datasource import (
    DataSourceReader,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    InputPartition,
    LessThan,
    LessThanOrEqual,
)

from pyspark_sluicegate.connection import bulk_for
from pyspark_sluicegate.options import OptionError, SourceOptions
from pyspark_sluicegate.reading.offsets import named_places
from pyspark_sluicegate.reading.planning import RangeToRead, cut, group
from pyspark_sluicegate.reading.tasks import RangeReader, RangesPartition
from sluicegate.messaging.bulk.durable_cursors import EARLIEST, LATEST

_PARTITION: Final = ("partition",)
_SEQUENCE: Final = ("sequence",)
_END: Final = (1 << 63) - 1


@final
@dataclass
class _Wanted:
    """The part of a queue that the filters select."""

    partitions: frozenset[int] | None = None  # None: all
    first: int = 0
    end: int = _END

    def take(self, filter: Filter) -> bool:
        """Apply a filter; return whether Spark need not apply it again."""
        if isinstance(filter, EqualTo | In) and filter.attribute == _PARTITION:
            values = filter.value if isinstance(filter, In) else (filter.value,)
            chosen = frozenset(int(each) for each in values if each is not None)
            self.partitions = chosen if self.partitions is None else self.partitions & chosen
            return True
        if not isinstance(filter, EqualTo | GreaterThan | GreaterThanOrEqual | LessThan | LessThanOrEqual):
            return False
        if filter.attribute != _SEQUENCE or filter.value is None:
            return False
        value = int(filter.value)
        if isinstance(filter, EqualTo | GreaterThanOrEqual):
            self.first = max(self.first, value)
        if isinstance(filter, EqualTo | LessThanOrEqual):
            self.end = min(self.end, value + 1)
        if isinstance(filter, GreaterThan):
            self.first = max(self.first, value + 1)
        if isinstance(filter, LessThan):
            self.end = min(self.end, value)
        return True


class QueueReader(DataSourceReader):
    """Reads the messages that a queue holds when the query is planned."""

    def __init__(self, options: SourceOptions, ranges: RangeReader) -> None:
        self._options = options
        self._ranges = ranges
        self._wanted = _Wanted()

    def partitions(self) -> list[InputPartition]:
        """Plan the tasks. Raises OffsetError, OptionError, and the errors of the client library."""
        options = self._options
        if options.starting_offsets == LATEST:
            raise OptionError("startingOffsets=latest is for streams; a batch from there on is empty")
        status = bulk_for(options.connect).queue_status(options.queue)
        here = status.positions
        starts = {} if options.starting_offsets == EARLIEST else named_places(options.starting_offsets, here)
        ends = {} if options.ending_offsets == LATEST else named_places(options.ending_offsets, here)
        ranges: list[RangeToRead] = []
        for position in here:
            number = position.partition
            if self._wanted.partitions is not None and number not in self._wanted.partitions:
                continue
            first = max(starts.get(number, position.low), self._wanted.first)
            end = min(ends.get(number, position.next_sequence), position.next_sequence, self._wanted.end)
            if first < end:
                ranges.append(RangeToRead(number, first, end))
        tasks = group(cut(ranges, options.split_rows), options.tasks)
        return [RangesPartition(task, incarnation=status.incarnation, cursor="", epoch=0) for task in tasks]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Yield record batches, in the process of the task."""
        return self._ranges.read(partition)


class QueueReaderWithFilters(QueueReader):
    """The same, for sessions with `spark.sql.python.filterPushdown.enabled`: Spark refuses the method without that."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802, Spark's name
        """Apply filters on partition and sequence; yield the others for Spark."""
        for each in filters:
            if not self._wanted.take(each):
                yield each
