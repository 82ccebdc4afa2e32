"""The sinks: publish the rows of a batch as messages, all or none, and once.

A batch of a stream is a transaction named after the query and the batch. A retry has the same names, so the gateway
recognizes a committed batch, even when Spark crashed before it recorded the commit.
"""

from collections.abc import Iterator
from typing import Any

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from pyspark_sluicegate.options import SinkOptions
from pyspark_sluicegate.writing.staging import StagedPart, Stager, abort, commit

Messages = list[WriterCommitMessage | None]


class QueueStreamWriter(DataSourceStreamArrowWriter):
    """Publishes each batch of a stream as one transaction."""

    def __init__(self, options: SinkOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[Any]) -> StagedPart:
        """Stage the rows of a task, in the process of the task."""
        task = _task()
        query_id = task.getLocalProperty("sql.streaming.queryId")
        batch_id = task.getLocalProperty("streaming.sql.batchId")
        return Stager(self._options, f"{query_id}/{batch_id}", task.partitionId()).stage_all(iterator)

    def commit(self, messages: Messages, batchId: int) -> None:  # noqa: N803, Spark's name
        """Publish the staged rows of the tasks."""
        commit(self._options, _parts(messages))

    def abort(self, messages: Messages, batchId: int) -> None:  # noqa: N803, Spark's name
        """Drop the staged rows. The next attempt's commit, or a timeout, drops the rest of a failed batch."""
        for transaction in {each.transaction for each in _parts(messages)}:
            abort(self._options, transaction)


class QueueWriter(DataSourceArrowWriter):
    """Publishes a data frame as one transaction."""

    def __init__(self, options: SinkOptions, transaction: str) -> None:
        self._options = options
        self._transaction = transaction

    def write(self, iterator: Iterator[Any]) -> StagedPart:
        """Stage the rows of a task, in the process of the task."""
        return Stager(self._options, self._transaction, _task().partitionId()).stage_all(iterator)

    def commit(self, messages: Messages) -> None:
        """Publish the staged rows of the tasks."""
        commit(self._options, _parts(messages))

    def abort(self, messages: Messages) -> None:
        """Drop the staged rows of the tasks."""
        abort(self._options, self._transaction)


def _task() -> TaskContext:
    task = TaskContext.get()
    assert task is not None, "Spark writes in tasks"
    return task


def _parts(messages: Messages) -> list[StagedPart]:
    return [each for each in messages if isinstance(each, StagedPart)]
