"""What a task of the sink does about refusals: a row's own are dropped if so wished, the gateway's state never is."""

import logging

import pyarrow as pa
import pytest

from pyspark_sluicegate.options import ConnectOptions, SinkOptions
from pyspark_sluicegate.writing import staging
from pyspark_sluicegate.writing.rows_out import encode_rows
from pyspark_sluicegate.writing.staging import SinkFailed, Stager
from sluicegate import MessageTooLarge, RequestRefused
from sluicegate.protocols.flow.codec import codes
from sluicegate.protocols.flow.codec.columns import ColumnWriter

ROWS = pa.RecordBatch.from_pydict({"topic": ["a", "b", "c"], "payload": [b"1", b"2", b"3"]})


class RefusingBulk:
    """A gateway that refuses every request with more bytes of columns than it has room for; no code: than it takes."""

    def __init__(self, code: int | None, bytes_max: int) -> None:
        self._code = code
        self._bytes_max = bytes_max
        self.staged_count = 0
        self.committed: dict[int, int] = {}

    def stage(
        self, transaction: str, columns: ColumnWriter, count: int, *, part: int, attempt: int, to_queues: bool
    ) -> None:
        if len(columns.encoded()) > self._bytes_max:
            if self._code is None:
                raise MessageTooLarge("more than a frame")
            raise RequestRefused(self._code, "no", None)
        self.staged_count += count

    def commit_staged(self, transaction: str, attempts: dict[int, int]) -> None:
        self.committed = attempts


def _sink(monkeypatch: pytest.MonkeyPatch, bulk: RefusingBulk, on_reject: str = "drop") -> SinkOptions:
    def bulk_for(options: ConnectOptions) -> RefusingBulk:
        return bulk

    monkeypatch.setattr(staging, "bulk_for", bulk_for)
    return SinkOptions.of({"url": "flow://gateway", "onReject": on_reject}, ROWS.schema.names)


@pytest.mark.parametrize("code", [codes.SPOOL_FULL, codes.NOT_STORED, codes.IN_USE, codes.REQUEST_INVALID])
def test_a_gateway_that_cannot_take_rows_now_fails_the_task_whatever_is_dropped(
    monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    options = _sink(monkeypatch, RefusingBulk(code, bytes_max=0))
    with pytest.raises(SinkFailed, match=codes.NAMES[code]):
        Stager(options, "job/1", 0).stage_all([ROWS])


def test_invalid_rows_are_skipped_and_reported_when_the_rest_is_published(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    one_row = ROWS.slice(0, 1)
    bulk = RefusingBulk(codes.MESSAGE_TOO_LARGE, bytes_max=len(encode_rows(one_row).encoded()))
    options = _sink(monkeypatch, bulk)
    wide = pa.RecordBatch.from_pydict({"topic": ["a", "b", "c"], "payload": [b"1", b"2" * 100, b"3"]})
    part = Stager(options, "job/1", 4).stage_all([wide])
    assert (part.staged_count, part.rejected_count, bulk.staged_count) == (2, 1, 2)
    with caplog.at_level(logging.WARNING):
        staging.commit(options, [part])
    assert bulk.committed == {4: part.attempt}
    assert "transaction job/1: 1 rows were refused and left out: message too large (0x0501): no" in caplog.text


def test_a_row_of_which_no_message_can_be_made_is_left_out_and_not_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    bulk = RefusingBulk(None, bytes_max=1_000)
    rows = pa.RecordBatch.from_pydict(
        {"topic": ["a", "b", "c"], "payload": [b"1", b"2", b"3"], "partition_key": [b"k", b"\xff", None]}
    )
    part = Stager(_sink(monkeypatch, bulk), "job/1", 0).stage_all([rows])
    assert (part.staged_count, part.rejected_count, bulk.staged_count) == (2, 1, 2)
    assert part.reasons == ("the column partition_key: Invalid UTF8 payload",)
    with pytest.raises(SinkFailed, match="With onReject=drop such rows are counted and left out"):
        Stager(_sink(monkeypatch, bulk, "fail"), "job/1", 0).stage_all([rows])


def test_rows_that_a_frame_of_this_gateway_does_not_hold_together_are_staged_in_smaller_pieces(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whatever is done with rows that are wrong: these are not."""
    bulk = RefusingBulk(None, bytes_max=len(encode_rows(ROWS.slice(0, 2)).encoded()))
    part = Stager(_sink(monkeypatch, bulk, "fail"), "job/1", 0).stage_all([ROWS])
    assert (part.staged_count, part.rejected_count, bulk.staged_count) == (3, 0, 3)


def test_a_row_that_no_frame_of_this_gateway_holds_is_wrong_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    bulk = RefusingBulk(None, bytes_max=len(encode_rows(ROWS.slice(0, 1)).encoded()))
    wide = pa.RecordBatch.from_pydict({"topic": ["a", "b"], "payload": [b"1", b"2" * 100]})
    part = Stager(_sink(monkeypatch, bulk), "job/1", 0).stage_all([wide])
    assert (part.staged_count, part.rejected_count) == (1, 1)
    with pytest.raises(SinkFailed, match="more than a frame"):
        Stager(_sink(monkeypatch, bulk, "fail"), "job/1", 0).stage_all([wide])
