"""The forms in which a worker reads a delivery: a response of its own, a line of JSON, or an event of a stream.

A line has the keys of a line of a batch to publish, and those of the delivery. An event is such a line; its id is the
number of the delivery in its flow, which browsers send back when they connect again.
"""

import base64
from typing import Final

import orjson

from sluicegate.messaging.message.batch import AT_MOST_ONCE, MessageBatch
from sluicegate.protocols.http.codec.message_out import append_field, response_headers
from sluicegate.protocols.http.codec.paths import name_of_topic
from sluicegate.protocols.http.consuming.unsettled import UnsettledMessage

NDJSON_TYPE: Final = b"application/x-ndjson"
EVENTS_TYPE: Final = b"text/event-stream"
FLOW_PREFIX: Final = "/FLOW/"
SIGN_OF_LIFE: Final = b":\n\n"  # a comment, which clients pass over


def settle_path(flow_id: str, message: UnsettledMessage) -> str:
    """Return where a delivery is settled."""
    return f"{FLOW_PREFIX}{flow_id}/{message.number}"


def delivery_headers(message: UnsettledMessage, wall_ms: int) -> list[tuple[bytes, bytes]]:
    """Return the headers of a response, or of a request to a REST consumer, whose body is the message."""
    headers = message.batch.headers_of(message.row)
    fields = response_headers(headers, wall_ms)
    if headers is not None and headers.dead is not None:
        for name, value in headers.dead.properties():
            append_field(fields, name, str(value))
    append_field(fields, "solace-delivery-mode", _mode(message.batch))
    append_field(fields, "sluicegate-destination", name_of_topic(message.batch.topic_of(message.row)))
    append_field(fields, "sluicegate-partition", str(message.source.partition_number))
    append_field(fields, "sluicegate-sequence", str(message.sequence))
    if message.redelivered:
        append_field(fields, "sluicegate-redelivered", "true")
        append_field(fields, "sluicegate-delivery-count", str(message.delivery_count))
    if message.first_of_group:
        append_field(fields, "sluicegate-first-of-group", "true")
    return fields


def delivery_line(flow_id: str, message: UnsettledMessage, wall_ms: int) -> bytes:
    """Return a delivery as a line of JSON, without its end."""
    line: dict[str, object] = {"delivery": message.number, "settle": settle_path(flow_id, message)}
    line.update(message_keys(message.batch, message.row, wall_ms))
    line["partition"] = message.source.partition_number
    line["sequence"] = message.sequence
    line["redelivered"] = message.redelivered
    line["delivery_count"] = message.delivery_count
    line["first_of_group"] = message.first_of_group
    return orjson.dumps(line)


def message_keys(batch: MessageBatch, row: int, wall_ms: int) -> dict[str, object]:
    """Return what a line says of a message: the keys that a line of a batch to publish has."""
    headers = batch.headers_of(row)
    said = {name.decode("ascii"): value.decode("utf-8") for name, value in response_headers(headers, wall_ms)}
    said["solace-delivery-mode"] = _mode(batch)
    keys: dict[str, object] = {"destination": name_of_topic(batch.topic_of(row)), "headers": said}
    if headers is not None and headers.dead is not None:
        # Beside the headers: those are what may be published again. Where it died several times, the last one shows.
        keys["dead"] = {name.removeprefix("sluicegate-dead-"): value for name, value in headers.dead.properties()}
    payload = batch.payloads()[row]
    try:
        keys["payload"] = payload.decode("utf-8")
    except UnicodeDecodeError:
        keys["base64"] = base64.b64encode(payload).decode("ascii")
    return keys


def _mode(batch: MessageBatch) -> str:
    return "Direct" if batch.qos == AT_MOST_ONCE else "Persistent"


def event(kind: str, line: bytes, event_id: str) -> bytes:
    """Return an event of a stream; an empty id is none."""
    head = f"id: {event_id}\nevent: {kind}\ndata: " if event_id else f"event: {kind}\ndata: "
    return head.encode("ascii") + line + b"\n\n"
