"""How what was noted of traced messages becomes spans, and in which requests they go out."""

import random
from asyncio import get_running_loop
from collections.abc import Sequence

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from actors.clock import SystemClock
from actors.runtime import Runtime
from gateway.trace_export import RECORDS_PER_REQUEST, TraceExport
from gateway.trace_spans import SpanMaker
from loops import RunOnLoop
from messaging.trace_context import TraceContext
from messaging.trace_records import WRITTEN, SpoolTraced, TraceBuffer


class Collector(SpanExporter):
    """Takes the first `takes` requests, and no more."""

    def __init__(self, takes: int) -> None:
        self.takes = takes
        self.sizes: list[int] = []

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self.sizes.append(len(spans))
        return SpanExportResult.SUCCESS if len(self.sizes) <= self.takes else SpanExportResult.FAILURE


def maker() -> SpanMaker:
    return SpanMaker(service_name="sluicegate", node_name="n", version="1")


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
        runtime = Runtime(loop=get_running_loop(), clock=SystemClock(), rng=random.Random(1), on_fatal=lambda _: None)
        count = 2 * RECORDS_PER_REQUEST + 1
        buffer, collector = TraceBuffer(records_max=count), Collector(takes)
        for _ in range(count):
            buffer.add(spooled())
        export = TraceExport(runtime, buffer, maker=maker(), exporter=collector, interval_ms=60_000)
        await export.stop()
        assert collector.sizes == sizes
        assert (export.exported_count, export.failed_count) == (count - lost_count, lost_count)

    run(scenario())


def test_a_tracestate_that_is_not_valid_stands_in_no_log(caplog: pytest.LogCaptureFixture) -> None:
    """Publishers write it: a span of theirs goes without it, and the log stays what operators read."""
    (span,) = maker().spans([spooled(tracestate="not valid")])
    assert span.context is not None
    assert not span.context.trace_state
    assert caplog.records == []
