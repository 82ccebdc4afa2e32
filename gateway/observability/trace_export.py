"""Export trace records to the collector at intervals, on a thread of its own.

One request is under way at a time. While the collector is slow, records wait in a bounded buffer. A request that the
exporter gives up is not repeated, and what was to follow it at once is dropped with it; both are counted.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from random import Random
from typing import TYPE_CHECKING, Final

import pykka

from sluicegate.actors.runtime.runtime import Runtime, TimerHandle
from sluicegate.gateway.build import VERSION
from sluicegate.gateway.config.sections.observability import Tracing as TracingSection
from sluicegate.gateway.views.errors import CannotStart
from sluicegate.messaging.message.headers import NativeFields
from sluicegate.messaging.observability.trace_records import TraceBuffer, TraceRecord
from sluicegate.messaging.observability.tracing import TraceSampler, Tracing
from sluicegate.messaging.topics.syntax import Syntax, parse_filter

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.sdk.trace.export import SpanExporter

    from sluicegate.gateway.observability.trace_spans import SpanMaker

log = logging.getLogger("sluicegate.tracing")

LAST_EXPORT_S: Final = 5  # how long a stop waits for the last records to be sent
RECORDS_PER_REQUEST: Final = 2000  # some 2 MB of spans: OpenTelemetry's collector accepts 20 MiB in one request


class ExportThread(pykka.ThreadingActor):
    """Makes spans of records and sends them. A slow request does not keep the process from ending.

    `report` is called on the loop, with the numbers of spans that the collector took, and did not.
    """

    use_daemon_thread = True

    def __init__(
        self, runtime: Runtime, report: Callable[[int, int], None], maker: "SpanMaker", exporter: "SpanExporter"
    ) -> None:
        super().__init__()
        self._runtime = runtime
        self._report = report
        self._maker = maker
        self._exporter = exporter

    def on_receive(self, records: Sequence[TraceRecord]) -> None:
        """Send the spans of records, and report the outcome."""
        from opentelemetry.sdk.trace.export import SpanExportResult

        taken_count = lost_count = 0
        for start in range(0, len(records), RECORDS_PER_REQUEST):
            part = records[start : start + RECORDS_PER_REQUEST]
            spans: list[ReadableSpan] = []
            try:
                spans = self._maker.spans(part)
                # After a failure no other is tried: each may take as long as the timeout.
                is_taken = lost_count == 0 and self._exporter.export(spans) is SpanExportResult.SUCCESS
            except Exception:  # an exporter may raise any kind
                log.exception("spans could not be sent")
                is_taken = False
            if is_taken:
                taken_count += len(spans)
            else:
                lost_count += len(spans) or len(part)
        with suppress(RuntimeError):  # the loop is closed: a stop waited long enough, and logged it
            self._runtime.loop.call_soon_threadsafe(self._report, taken_count, lost_count)


class TraceExport:
    """Sends the spans of one node."""

    def __init__(
        self,
        runtime: Runtime,
        buffer: TraceBuffer,
        *,
        maker: "SpanMaker",
        exporter: "SpanExporter",
        interval_ms: int,
    ) -> None:
        self.buffer = buffer
        self.exported_count = 0  # spans that the collector accepted
        self.failed_count = 0  # spans that it did not accept
        self._runtime = runtime
        self._exporter = exporter
        self._interval_ms = interval_ms
        self._thread = ExportThread.start(runtime, self._ended, maker, exporter)
        self._rests = asyncio.Event()  # no request is under way
        self._rests.set()
        self._is_failing = False
        self._timer: TimerHandle = runtime.after(interval_ms, self._due)

    async def stop(self) -> None:
        """Send the last records within LAST_EXPORT_S, and close the connection."""
        self._timer.cancel()
        try:
            async with asyncio.timeout(LAST_EXPORT_S):
                await self._rests.wait()
                self._send()
                await self._rests.wait()
        except TimeoutError:
            log.warning("the trace collector did not take the last spans in %d s", LAST_EXPORT_S)
        self._exporter.shutdown()
        self._thread.stop(block=False)

    def _due(self) -> None:
        self._timer = self._runtime.after(self._interval_ms, self._due)
        if self._rests.is_set():
            self._send()

    def _send(self) -> None:
        records = self.buffer.take()
        if records:
            self._rests.clear()
            self._thread.tell(records)

    def _ended(self, taken_count: int, lost_count: int) -> None:
        self.exported_count += taken_count
        self.failed_count += lost_count
        is_taken = lost_count == 0
        if is_taken == self._is_failing:  # logged when failures begin and when they end
            self._is_failing = not is_taken
            if is_taken:
                log.info("the trace collector takes spans again")
            else:
                log.warning("the trace collector takes no spans: %d are lost", lost_count)
        self._rests.set()


def make_tracing(config: TracingSection, natives: Mapping[int, NativeFields], rng: Random) -> Tracing | None:
    """Return the recorder of traced messages; None if tracing is off."""
    if not config.enabled:
        return None
    sampler = TraceSampler(
        ratio=config.sampling_ratio,
        is_parent_based=config.sampler == "parentbased_traceidratio",
        begins=config.begin_traces,
        seed=rng.getrandbits(64),
    )
    return Tracing(
        TraceBuffer(records_max=config.buffer_records_max),
        sampler,
        topics=[parse_filter(each, Syntax.SMF) for each in config.topics],
        queues=[parse_filter(each, Syntax.SMF) for each in config.queues],
        natives=natives,
    )


def start_export(config: TracingSection, node_name: str, runtime: Runtime, tracing: Tracing) -> TraceExport:
    """Start sending spans. Raises CannotStart if OpenTelemetry is not installed."""
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

        from sluicegate.gateway.observability.trace_spans import SpanMaker
    except ImportError as missing:
        text = f"tracing.enabled needs OpenTelemetry, and it is not installed: {missing}"
        raise CannotStart(text, advice="Install it: pip install 'sluicegate[tracing]'.") from None
    maker = SpanMaker(service_name=config.service_name, node_name=node_name, version=VERSION)
    exporter = OTLPSpanExporter(endpoint=config.endpoint, timeout=config.export_timeout_s)
    return TraceExport(runtime, tracing.buffer, maker=maker, exporter=exporter, interval_ms=config.export_interval_ms)
