"""A collector of traces: takes OTLP over HTTP as OpenTelemetry's exporter sends it, and shows the spans."""

import asyncio
import gzip
from dataclasses import dataclass
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from support.http.web_server import Pushed, WebServer
from support.mqtt.raw_client import DEADLINE_S

PATH = "/v1/traces"


@dataclass(frozen=True)
class Span:
    """A span as it was sent. Ids are hexadecimal digits."""

    name: str
    trace_id: str
    span_id: str
    parent_id: str  # empty: it has none
    began_ms: int
    ended_ms: int
    attributes: dict[str, Any]
    error: str
    service: str
    tracestate: str


class TraceCollector(WebServer):
    """Records the spans that come. As for any WebServer, `status` gives the status for a request."""

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}{PATH}"

    @property
    def spans(self) -> list[Span]:
        return [span for request in self.requests for span in spans_of(request)]

    async def story(self, trace_id: str, *names: str) -> dict[str, Span]:
        """Wait until a trace has spans of these names; return them by name, the latest of each."""
        async with asyncio.timeout(DEADLINE_S):
            while True:
                found = {each.name: each for each in self.spans if each.trace_id == trace_id}
                if set(names) <= set(found):
                    return found
                await asyncio.sleep(0.02)


def spans_of(request: Pushed) -> list[Span]:
    """Return the spans in a request."""
    assert request.path == PATH
    body = gzip.decompress(request.body) if request.headers.get("content-encoding") == "gzip" else request.body
    spans: list[Span] = []
    for of_resource in ExportTraceServiceRequest.FromString(body).resource_spans:
        resource = {each.key: each.value.string_value for each in of_resource.resource.attributes}
        for of_scope in of_resource.scope_spans:
            for each in of_scope.spans:
                attributes = {
                    pair.key: getattr(pair.value, str(pair.value.WhichOneof("value"))) for pair in each.attributes
                }
                spans.append(
                    Span(
                        name=each.name,
                        trace_id=each.trace_id.hex(),
                        span_id=each.span_id.hex(),
                        parent_id=each.parent_span_id.hex(),
                        began_ms=each.start_time_unix_nano // 1_000_000,
                        ended_ms=each.end_time_unix_nano // 1_000_000,
                        attributes=attributes,
                        error=each.status.message,
                        service=resource["service.name"],
                        tracestate=each.trace_state,
                    )
                )
    return spans
