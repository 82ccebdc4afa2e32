"""How what was noted of traced messages becomes spans, and in which requests they go out."""

import random
import threading
from asyncio import get_running_loop, sleep
from collections.abc import Sequence

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from sluicegate.actors.runtime.clock import SystemClock
from sluicegate.actors.runtime.runtime import Runtime
from sluicegate.gateway.observability import trace_export
from sluicegate.gateway.observability.trace_export import RECORDS_PER_REQUEST, TraceExport
from sluicegate.gateway.observability.trace_spans import SpanMaker
from sluicegate.messaging.observability.trace_context import TraceContext
from sluicegate.messaging.observability.trace_records import WRITTEN, SpoolTraced, TraceBuffer
from support.network.event_loops import RunOnLoop


class Collector(SpanExporter):
    """Takes the first `takes` requests, and no more."""

    def __init__(self, takes: int) -> None:
        self.takes = takes
        self.sizes: list[int] = []

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self.sizes.append(len(spans))
        return SpanExportResult.SUCCESS if len(self.sizes) <= self.takes else SpanExportResult.FAILURE


class BrokenExporter(SpanExporter):
    """Raises where it should say that it failed."""

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        raise OSError("no route to the collector")


class SlowCollector(SpanExporter):
    """Answers when it is let go."""

    def __init__(self) -> None:
        self.lets_go = threading.Event()

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self.lets_go.wait()
        return SpanExportResult.SUCCESS


def maker() -> SpanMaker:
    return SpanMaker(service_name="sluicegate", node_name="n", version="1")


def export_of(count: int, exporter: SpanExporter) -> TraceExport:
    """Return the export of so many records, which are sent when it stops."""
    runtime = Runtime(loop=get_running_loop(), clock=SystemClock(), rng=random.Random(1), on_fatal=lambda _: None)
    buffer = TraceBuffer(records_max=count)
    for _ in range(count):
        buffer.add(spooled())
    return TraceExport(runtime, buffer, maker=maker(), exporter=exporter, interval_ms=60_000)


def spooled(tracestate: str = "") -> SpoolTraced:
    context = TraceContext(f"{1:032x}", f"{2:016x}", is_sampled=True, tracestate=tracestate)
    return SpoolTraced(context, received_ms=1, done_ms=2, outcome=WRITTEN)


@pytest.mark.parametrize(
    ("takes", "sizes", "lost_count"),
    [
        (9, [RECORDS_PER_REQUEST, RECORDS_PER_REQUEST, 1], 0),
        (1, [RECORDS_PER_REQUEST, RECORDS_PER_REQUEST], RECORDS_PER_REQUEST + 1),
    ],
)
def test_many_spans_go_in_several_requests_and_behind_one_that_fails_none_is_tried(
    run: RunOnLoop, takes: int, sizes: list[int], lost_count: int
) -> None:
    """A collector refuses a request that is too large, and one that is away takes the whole time that one may take."""

    async def scenario() -> None:
        count, collector = 2 * RECORDS_PER_REQUEST + 1, Collector(takes)
        export = export_of(count, collector)
        await export.stop()
        assert collector.sizes == sizes
        assert (export.exported_count, export.failed_count) == (count - lost_count, lost_count)

    run(scenario())


def test_an_error_of_the_exporter_loses_its_spans_and_counts_them(run: RunOnLoop) -> None:
    """docs/operate/tracing.md: spans that the collector did not take are lost, and counted."""

    async def scenario() -> None:
        export = export_of(3, BrokenExporter())
        await export.stop()
        assert (export.exported_count, export.failed_count) == (0, 3)

    run(scenario())


def test_a_stop_does_not_wait_for_a_collector_that_does_not_answer(
    run: RunOnLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """docs/operate/tracing.md: nobody waits for a collector."""
    monkeypatch.setattr(trace_export, "LAST_EXPORT_S", 0.01)

    async def scenario() -> None:
        collector = SlowCollector()
        export = export_of(3, collector)
        await export.stop()
        assert export.exported_count == 0
        collector.lets_go.set()
        while export.exported_count < 3:
            await sleep(0.01)

    run(scenario())


def test_a_request_that_outlives_the_node_leaves_no_word(
    run: RunOnLoop, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The stop has said that it did not wait; there is no loop any more that could count."""
    monkeypatch.setattr(trace_export, "LAST_EXPORT_S", 0.01)
    collector, others = SlowCollector(), set(threading.enumerate())

    async def scenario() -> None:
        await export_of(3, collector).stop()

    run(scenario())
    assert [each.levelname for each in caplog.records] == ["WARNING"]
    collector.lets_go.set()
    for thread in set(threading.enumerate()) - others:
        thread.join()
    assert len(caplog.records) == 1


def test_a_tracestate_that_is_not_valid_stands_in_no_log(caplog: pytest.LogCaptureFixture) -> None:
    """Publishers write it: a span of theirs goes without it, and the log stays what operators read."""
    (span,) = maker().spans([spooled(tracestate="not valid")])
    assert span.context is not None
    assert not span.context.trace_state
    assert caplog.records == []
