"""Make OpenTelemetry spans of trace records.

    publish           in the context that the message brought; it begins the trace where the gateway did
    arrive NEIGHBOR   in its place, of a message that came over a link
    spool             beside it: from its arrival until the disk has it, or need not
    dwell QUEUE       beside it: from its arrival in the queue until it leaves for a consumer
      deliver QUEUE   below that
        settle QUEUE  below that: from the delivery to its outcome
    move QUEUE        beside publish: to another queue, with the reason

Names of attributes are those of OpenTelemetry's conventions for messaging; ours begin with `sluicegate.`. Only this
module knows the SDK's spans, and it is imported only where traces are on.
"""

import logging
from collections.abc import Mapping, Sequence
from typing import Final, assert_never

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags, TraceState

from sluicegate.messaging.observability.trace_context import TraceContext
from sluicegate.messaging.observability.trace_records import (
    NOT_STORED,
    DeliveryTraced,
    MoveTraced,
    PublishTraced,
    SettlementTraced,
    SpoolTraced,
    TraceRecord,
)
from sluicegate.messaging.topics.syntax import is_queue_topic, queue_name_of

SYSTEM: Final = "sluicegate"
NS_PER_MS: Final = 1_000_000

Attributes = Mapping[str, str | int | bool]


class SpanMaker:
    """Makes the spans of one node. A span whose record has no id gets one here."""

    def __init__(self, *, service_name: str, node_name: str, version: str) -> None:
        # It warns of each invalid tracestate. Any publisher may send these, and would fill the log.
        logging.getLogger(TraceState.__module__).setLevel(logging.ERROR)
        self._new_id = RandomIdGenerator().generate_span_id
        self._scope = InstrumentationScope(SYSTEM, version)
        self._resource = Resource.create(
            {"service.name": service_name, "service.version": version, "service.instance.id": node_name}
        )

    def spans(self, records: Sequence[TraceRecord]) -> list[ReadableSpan]:
        """Return the spans of records."""
        return [span for record in records for span in self._of(record)]

    def _of(self, record: TraceRecord) -> list[ReadableSpan]:
        match record:
            case PublishTraced():
                return [self._publish(record)]
            case SpoolTraced():
                return [self._spool(record)]
            case DeliveryTraced():
                return self._delivery(record)
            case SettlementTraced():
                return [self._settlement(record)]
            case MoveTraced():
                return [self._move(record)]
            case _:
                assert_never(record)

    def _publish(self, record: PublishTraced) -> ReadableSpan:
        attributes: dict[str, str | int | bool] = {
            "messaging.operation.type": "receive",
            "messaging.destination.name": _name(record.topic),
            "messaging.client.id": record.client,
            "messaging.batch.message_count": record.count,
            "messaging.message.body.size": record.payload_bytes,
            "sluicegate.vpn": record.vpn,
            "sluicegate.qos": record.qos,
        }
        if record.neighbor:
            attributes["sluicegate.neighbor"] = record.neighbor
        else:
            attributes["sluicegate.routed"] = record.is_routed
        context = record.context
        return self._span(
            f"arrive {record.neighbor}" if record.neighbor else "publish",
            context,
            span_id=int(context.parent_id, 16) if record.is_begun else self._new_id(),
            parent_id=0 if record.is_begun else int(context.parent_id, 16),
            kind=SpanKind.CONSUMER,
            began_ms=record.received_ms,
            ended_ms=record.received_ms,
            attributes=attributes,
            error=record.refusal,
        )

    def _spool(self, record: SpoolTraced) -> ReadableSpan:
        return self._span(
            "spool",
            record.context,
            span_id=self._new_id(),
            parent_id=int(record.context.parent_id, 16),
            kind=SpanKind.INTERNAL,
            began_ms=record.received_ms,
            ended_ms=record.done_ms,
            attributes={"messaging.batch.message_count": record.count, "sluicegate.spool.outcome": record.outcome},
            error="the store could not take it" if record.outcome == NOT_STORED else "",
        )

    def _delivery(self, record: DeliveryTraced) -> list[ReadableSpan]:
        dwell_id = self._new_id()
        attributes: Attributes = {
            **_in_queue(record),
            "messaging.operation.type": "send",
            "sluicegate.delivery_count": record.delivery_count,
            "sluicegate.redelivered": record.redelivered,
        }
        dwell = self._span(
            f"dwell {record.queue}",
            record.context,
            span_id=dwell_id,
            parent_id=int(record.context.parent_id, 16),
            kind=SpanKind.INTERNAL,
            began_ms=record.arrived_ms,
            ended_ms=record.delivered_ms,
            attributes=_in_queue(record),
        )
        deliver = self._span(
            f"deliver {record.queue}",
            record.context,
            span_id=record.delivery_id,
            parent_id=dwell_id,
            kind=SpanKind.PRODUCER,
            began_ms=record.delivered_ms,
            ended_ms=record.delivered_ms,
            attributes=attributes,
        )
        return [dwell, deliver]

    def _settlement(self, record: SettlementTraced) -> ReadableSpan:
        delivery = record.delivery
        attributes: Attributes = {
            **_in_queue(delivery),
            "messaging.operation.type": "settle",
            "sluicegate.outcome": record.outcome,
        }
        return self._span(
            f"settle {delivery.queue}",
            delivery.context,
            span_id=self._new_id(),
            parent_id=delivery.delivery_id,
            kind=SpanKind.INTERNAL,
            began_ms=delivery.delivered_ms,
            ended_ms=record.settled_ms,
            attributes=attributes,
        )

    def _move(self, record: MoveTraced) -> ReadableSpan:
        attributes: Attributes = {
            "messaging.destination.name": record.target,
            "sluicegate.vpn": record.vpn,
            "sluicegate.queue": record.queue,
            "sluicegate.dead_reason": record.reason,
        }
        return self._span(
            f"move {record.queue}",
            record.context,
            span_id=self._new_id(),
            parent_id=int(record.context.parent_id, 16),
            kind=SpanKind.INTERNAL,
            began_ms=record.moved_ms,
            ended_ms=record.moved_ms,
            attributes=attributes,
        )

    def _span(
        self,
        name: str,
        context: TraceContext,
        *,
        span_id: int,
        parent_id: int,  # 0: it has none
        kind: SpanKind,
        began_ms: int,
        ended_ms: int,
        attributes: Attributes,
        error: str = "",
    ) -> ReadableSpan:
        trace_id = int(context.trace_id, 16)
        state = TraceState.from_header([context.tracestate]) if context.tracestate else TraceState()
        flags = TraceFlags(TraceFlags.SAMPLED)
        own = SpanContext(trace_id, span_id, is_remote=False, trace_flags=flags, trace_state=state)
        parent = None
        if parent_id:
            parent = SpanContext(trace_id, parent_id, is_remote=True, trace_flags=flags, trace_state=state)
        return ReadableSpan(
            name=name,
            context=own,
            parent=parent,
            resource=self._resource,
            attributes={"messaging.system": SYSTEM, **attributes},
            kind=kind,
            status=Status(StatusCode.ERROR, error) if error else Status(StatusCode.UNSET),
            start_time=began_ms * NS_PER_MS,
            end_time=max(began_ms, ended_ms) * NS_PER_MS,  # the wall clock may have been set back
            instrumentation_scope=self._scope,
        )


def _name(topic: str) -> str:
    return queue_name_of(topic) if is_queue_topic(topic) else topic


def _in_queue(record: DeliveryTraced) -> Attributes:
    return {
        "messaging.destination.name": record.queue,
        "messaging.destination.partition.id": str(record.partition),
        "messaging.client.id": record.client,
        "network.protocol.name": record.protocol,
        "sluicegate.vpn": record.vpn,
        "sluicegate.topic": _name(record.topic),
        "sluicegate.sequence": record.sequence,
    }
