"""What listener and stream ask of the gateway: nothing for another gateway's query, and no waiting that cannot wait."""

import json
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from pyspark_sluicegate.options import SourceOptions
from pyspark_sluicegate.reading import acknowledging, stream
from pyspark_sluicegate.reading.offsets import Offset, OffsetError
from pyspark_sluicegate.reading.tasks import RangeReader
from sluicegate import ConnectFailed, FlowClientError, RequestRefused
from sluicegate.protocols.flow.codec import codes
from sluicegate.protocols.flow.codec.frames.cursor import Position

OPTIONS = SourceOptions.of({"url": "flow://gateway", "queue": "orders", "longPollMs": "500"})
REFUSED_FOR_NOW = RequestRefused(codes.PERMISSION_DENIED, "queue 'orders' lets nobody read", None)
NOTHING = Position(1, 1, 1, 1, 0)
ORDERS = Offset(queue="orders", cursor="spark", mode="tap", incarnation=0xA1, epoch=1, next={0: 5}, vpn="sales")


class OneCursor:
    """A gateway with one cursor, which stands in two partitions; the second is new, and mostly has nothing."""

    def __init__(self, incarnation: int, second: Position = NOTHING) -> None:
        self.incarnation = incarnation
        self.vpn = "sales"
        self.epoch = 1
        self.positions: tuple[Position, ...] = (Position(0, 1, 5, 5, 0), second)
        self.acknowledged: list[Mapping[int, int]] = []
        self.waited_above: list[Mapping[int, int]] = []
        self.pinned: list[Mapping[int, int]] = []

    def look_at_cursor(self, queue: str, cursor: str) -> "OneCursor":
        return self

    def bound_cursor(self, queue: str, cursor: str, epoch: int) -> "OneCursor":
        return self

    def bind_cursor(self, queue: str, cursor: str, **wishes: Any) -> "OneCursor":
        return self

    def acknowledge(self, before: Mapping[int, int], *, batch_ref: str) -> None:
        self.acknowledged.append(before)

    def pin(self, before: Mapping[int, int]) -> None:
        self.pinned.append(before)

    def status(self, above: Mapping[int, int], *, wait_s: float) -> "OneCursor":
        self.waited_above.append(above)
        return self


class BeatingCursor(OneCursor):
    """One that is asked for its status by heartbeats, and answers each in turn: with an error, or None."""

    def __init__(self, answers: list[FlowClientError | None]) -> None:
        super().__init__(0xA1)
        self._answers = answers

    def status(self, above: Mapping[int, int] | None = None, *, wait_s: float = 0.0) -> "BeatingCursor":
        self.waited_above.append(above or {})
        error = self._answers[len(self.waited_above) - 1]
        if error is not None:
            raise error
        return self


@pytest.mark.parametrize(
    ("incarnation", "vpn", "acknowledged"),
    [(0xA1, "sales", [{0: 5, 1: 1}]), (0xB2, "sales", []), (0xA1, "default", [])],
)
def test_a_listener_acknowledges_to_the_gateway_and_vpn_that_was_read_and_to_no_other_with_such_a_queue(
    monkeypatch: pytest.MonkeyPatch, incarnation: int, vpn: str, acknowledged: list[Mapping[int, int]]
) -> None:
    """Two queries have the same names, and often the same epoch; each has a listener, which hears of both."""
    cursor = OneCursor(incarnation)
    cursor.vpn = vpn
    listener = _told_of_a_batch(monkeypatch, cursor)
    assert (cursor.acknowledged, listener.failed_count) == (acknowledged, 0)


def test_a_batch_of_a_driver_that_crashed_is_left_to_the_source_without_a_warning(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Who came after it has bound the cursor anew, so under the batch's own epoch it would be refused as fenced."""
    cursor = OneCursor(0xA1)
    cursor.epoch = 2
    listener = _told_of_a_batch(monkeypatch, cursor)
    assert (cursor.acknowledged, listener.failed_count, caplog.messages) == ([], 0, [])


def _told_of_a_batch(monkeypatch: pytest.MonkeyPatch, cursor: OneCursor) -> acknowledging.Acknowledger:
    """Return a listener that heard of a batch of ORDERS."""
    monkeypatch.setattr(acknowledging, "bulk_for", lambda options: cursor)
    source = SimpleNamespace(endOffset=json.dumps(ORDERS.to_json()))
    progress: Any = SimpleNamespace(progress=SimpleNamespace(id="q", batchId=3, sources=[source]))
    listener = acknowledging.Acknowledger(OPTIONS.connect)
    listener.onQueryProgress(progress)
    return listener


def test_a_stream_waits_for_messages_though_a_partition_that_came_later_has_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A status is answered at once when some partition is above what is named, and 0 is what is not."""
    cursor = OneCursor(0xA1)
    reader = _reader(monkeypatch, cursor)
    begin = ORDERS.to_json()
    assert reader.latestOffset(begin, ReadAllAvailable()) == begin
    assert cursor.waited_above == [{0: 5, 1: 1}]


def test_a_batch_of_a_queue_that_was_deleted_is_not_taken_for_one_without_rows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A status that is answered at that moment names no partitions."""
    cursor = OneCursor(0xA1)
    reader = _reader(monkeypatch, cursor)
    cursor.positions = ()
    with pytest.raises(OffsetError, match="the queue orders was deleted"):
        reader.partitions(ORDERS.to_json(), ORDERS.moved({0: 9}, (), 1).to_json())


def test_a_batch_leaves_out_partitions_that_went_since_it_was_planned(monkeypatch: pytest.MonkeyPatch) -> None:
    cursor = OneCursor(0xA1)
    end = ORDERS.moved({0: 9, 2: 7}, (), 1).to_json()
    (task,) = _reader(monkeypatch, cursor).partitions(ORDERS.to_json(), end)
    assert task.value == ((0, 5, 9),)
    assert cursor.pinned == [{0: 9}]


def test_a_query_that_begins_after_the_end_of_its_queue_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The gateway would refuse to acknowledge that, at each start, and the checkpoint would have it for good."""
    assert _reader(monkeypatch, OneCursor(0xA1), startingOffsets='{"0": 5}').initialOffset()["next"]["0"] == 5
    with pytest.raises(OffsetError, match="partition 0 of orders ends at 5"):
        _reader(monkeypatch, OneCursor(0xA1), startingOffsets='{"0": 6}').initialOffset()


@pytest.mark.parametrize("on_rewind", ["fail", "skip"])
def test_a_checkpoint_from_before_a_partition_was_added_is_known_for_an_old_one_when_that_partition_was_read(
    monkeypatch: pytest.MonkeyPatch, on_rewind: str
) -> None:
    reader = _reader(monkeypatch, OneCursor(0xA1, second=Position(1, 1, 500, 600, 0)), onRewind=on_rewind)
    begin, end = ORDERS.to_json(), ORDERS.moved({1: 600}, (), 1).to_json()
    if on_rewind == "fail":
        with pytest.raises(OffsetError, match="partition 1: to begin at 1 is before 500"):
            reader.partitions(begin, end)
    else:
        (task,) = reader.partitions(begin, end)
        assert task.value == ((1, 500, 600),)


@pytest.mark.parametrize(
    ("answers", "beats_count"),
    [
        ([REFUSED_FOR_NOW, None, REFUSED_FOR_NOW, RequestRefused(codes.FENCED, "bound by job-2", None)], 4),
        ([None, RequestRefused(codes.NOT_FOUND, "there is no cursor 'spark'", None)], 2),
        ([None, None, ConnectFailed("nobody listens")], 3),
    ],
)
def test_a_binding_is_kept_alive_until_it_or_its_client_is_gone(
    monkeypatch: pytest.MonkeyPatch, answers: list[FlowClientError | None], beats_count: int
) -> None:
    """A refusal that is over in a second would else end the query a minute later, in the middle of a long batch."""
    cursor = BeatingCursor(answers)
    reader = _reader(monkeypatch, cursor)
    monkeypatch.setattr(stream, "BEAT_S", 0.0)
    monkeypatch.setattr(stream, "Thread", lambda target, args, **how: SimpleNamespace(start=lambda: target(*args)))
    reader.initialOffset()
    assert len(cursor.waited_above) == beats_count


def _reader(monkeypatch: pytest.MonkeyPatch, cursor: OneCursor, **more: str) -> stream.QueueStreamReader:
    monkeypatch.setattr(stream, "bulk_for", lambda options: cursor)
    monkeypatch.setattr(stream, "Thread", lambda **how: SimpleNamespace(start=lambda: None))
    options = SourceOptions.of({"url": "flow://gateway", "queue": "orders", "longPollMs": "500", **more})
    return stream.QueueStreamReader(options, RangeReader(options, None))
