"""Rows of Spark on their way into a transaction of the gateway: staged by tasks, committed by the driver.

A task stages its rows under a part (its partition) and a unique attempt; the commit names one attempt of each part. So
leftover rows of a retried task, or of a crashed driver, are never published.
"""

import logging
import secrets
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final, final

from pyspark.sql.datasource import WriterCommitMessage

from pyspark_sluicegate.connection import bulk_for
from pyspark_sluicegate.options import DROP, SinkOptions
from pyspark_sluicegate.writing.rows_out import RowError, encode_rows, rows_with_destination
from sluicegate import MessageTooLarge, RequestRefused
from sluicegate.protocols.flow.codec.codes import (
    MALFORMED,
    MESSAGE_TOO_LARGE,
    NOT_PERMITTED,
    PAYLOAD_INVALID,
    TOPIC_INVALID,
)
from sluicegate.protocols.flow.codec.limits import ROWS_MAX

PAYLOAD_BYTES_MAX: Final = 8 * 1024 * 1024  # of one request: half of what the gateway takes, so that properties fit
REASONS_MAX: Final = 10  # rejected rows that a task reports in words

# The refusals for faults of a row. All others are the gateway's state, or the job's own mistake.
ROW_REFUSALS: Final = frozenset({MALFORMED, MESSAGE_TOO_LARGE, TOPIC_INVALID, NOT_PERMITTED, PAYLOAD_INVALID})

_log: Final = logging.getLogger("pyspark_sluicegate")


@final
@dataclass
class StagedPart(WriterCommitMessage):
    """The staged rows of one task."""

    transaction: str
    part: int
    attempt: int
    staged_count: int = 0
    rejected_count: int = 0
    reasons: tuple[str, ...] = ()


class SinkFailed(Exception):
    """Rows could not be staged or published; nothing of the batch is visible."""


@final
class Stager:
    """Stages the rows of one task."""

    def __init__(self, options: SinkOptions, transaction: str, part: int) -> None:
        self._options = options
        self._client = bulk_for(options.connect)
        self._staged = StagedPart(transaction, part, secrets.randbits(63))

    def stage_all(self, batches: Iterable[Any]) -> StagedPart:
        """Stage record batches, in their order. Raises SinkFailed, and the errors of the client library."""
        for batch in batches:
            for rows in _in_pieces(rows_with_destination(batch, self._options)):
                self._stage(rows)
        return self._staged

    def _stage(self, rows: Any) -> None:
        staged = self._staged
        try:
            columns = encode_rows(rows)
            self._client.stage(
                staged.transaction,
                columns,
                rows.num_rows,
                part=staged.part,
                attempt=staged.attempt,
                to_queues=self._options.is_to_queue,
            )
        except RequestRefused as refused:
            if refused.code not in ROW_REFUSALS:
                raise SinkFailed(f"rows cannot be staged: {refused}") from refused
            self._refused(rows, refused)
        except MessageTooLarge as refused:
            if rows.num_rows > 1:  # none of them may be wrong: the gateway takes smaller frames than most
                self._stage_halves(rows)
            else:
                self._refused(rows, refused)
        except RowError as refused:
            self._refused(rows, refused)
        else:
            staged.staged_count += rows.num_rows

    def _refused(self, rows: Any, refused: Exception) -> None:
        """Handle a refusal: one bad row refuses a batch, so with `drop` a search by halves finds it."""
        staged = self._staged
        if self._options.on_reject != DROP:
            raise SinkFailed(f"{refused}. With onReject=drop such rows are counted and left out") from refused
        if rows.num_rows > 1:
            self._stage_halves(rows)
            return
        staged.rejected_count += 1
        if len(staged.reasons) < REASONS_MAX:
            staged.reasons += (str(refused),)

    def _stage_halves(self, rows: Any) -> None:
        half = rows.num_rows // 2
        self._stage(rows.slice(0, half))
        self._stage(rows.slice(half))


def _in_pieces(rows: Any) -> Iterator[Any]:
    """Yield a batch in pieces for one request each."""
    if rows.num_rows == 0:
        return
    if (rows.num_rows <= ROWS_MAX and rows.nbytes <= PAYLOAD_BYTES_MAX) or rows.num_rows == 1:
        yield rows
        return
    half = rows.num_rows // 2
    yield from _in_pieces(rows.slice(0, half))
    yield from _in_pieces(rows.slice(half))


def commit(options: SinkOptions, parts: Iterable[StagedPart]) -> None:
    """Publish the staged rows: all or nothing, and once for any number of calls. Raises SinkFailed."""
    found = list(parts)
    if not found:
        return
    transaction = found[0].transaction
    attempts = {each.part: each.attempt for each in found if each.staged_count}
    try:
        bulk_for(options.connect).commit_staged(transaction, attempts)
    except RequestRefused as refused:
        raise SinkFailed(f"the transaction {transaction} is not published: {refused}") from refused
    rejected_count = sum(each.rejected_count for each in found)
    if rejected_count:
        reasons = "; ".join([reason for each in found for reason in each.reasons][:REASONS_MAX])
        _log.warning("transaction %s: %d rows were refused and left out: %s", transaction, rejected_count, reasons)


def abort(options: SinkOptions, transaction: str) -> None:
    """Drop the staged rows; no effect after the commit."""
    bulk_for(options.connect).abort_staged(transaction)
