"""Words for frames of the flow protocol, by their names. It refuses nothing: the engine does that.

SASL data is never shown, payloads only as far as they are asked for. Of frames with rows or partitions, and of those
between brokers, the fields and the size are shown.
"""

from typing import Final

from sluicegate.gateway.operations.traces.words import BODY_BYTES_MAX, FrameCutter, PacketWords, hidden
from sluicegate.gateway.views.queues.messages import value_text
from sluicegate.messaging.message.headers import PRIORITY_DEFAULT, Headers
from sluicegate.messaging.message.outcomes import OUTCOMES
from sluicegate.protocols.flow.codec import fields as f
from sluicegate.protocols.flow.codec import frame as frames
from sluicegate.protocols.flow.codec.codes import NAMES as CODE_NAMES
from sluicegate.protocols.flow.codec.codes import PeerViolation
from sluicegate.protocols.flow.codec.compression import inflated_head
from sluicegate.protocols.flow.codec.frames.deliver import read_deliver
from sluicegate.protocols.flow.codec.frames.publish import GUARANTEED, read_pub_ack, read_publish
from sluicegate.protocols.flow.codec.frames.settle import Credit, Settle, Settled, read_settle_frame
from sluicegate.protocols.flow.codec.limits import HEAD_BYTES, PREFACE_BYTES

MAGIC: Final = frames.PREFACE[:4]  # what a preface begins with
UNCOUNTED_BYTES: Final = 4  # of a frame: its length
OF_SETTLING: Final = (frames.CREDIT, frames.SETTLE, frames.SETTLED, frames.PING, frames.PONG)
CODE_BYTES: Final = 2
NUMBER_BYTES: Final = 8  # of the longest number, and of each partition id
EXTENDED: Final = "extended"  # an outcome of SETTLE that is none of a message

TEXTS: Final = {
    f.CLIENT_NAME: "client_name",
    f.PRODUCT: "product",
    f.FEATURE: "feature",
    f.MECHANISM: "mechanism",
    f.MESSAGE_VPN: "message_vpn",
    f.NAME: "name",
    f.TOPIC_FILTER: "topic_filter",
    f.PRIORITY: "priority",
    f.SELECTOR: "selector",
    f.CURSOR: "cursor",
    f.MODE: "mode",
    f.INSTANCE: "instance",
    f.START: "start",
    f.BATCH_REF: "batch_ref",
    f.TRANSACTION: "transaction",
    f.BROKER: "broker",
    f.NETWORK: "network",
    f.TEXT: "text",
}
NUMBERS: Final = {
    f.REQUEST_ID: "request_id",
    f.RETRY_AFTER_MS: "retry_after_ms",
    f.KEEP_ALIVE_MS: "keep_alive_ms",
    f.FRAME_BYTES_MAX: "frame_bytes_max",
    f.FLOWS_MAX: "flows_max",
    f.AUTH_STATE: "auth_state",
    f.DRAIN_MS: "drain_ms",
    f.WINDOW: "window",
    f.PUBLISHER_EPOCH: "publisher_epoch",
    f.STORED_THROUGH: "stored_through",
    f.SEQUENCE_MAX: "sequence_max",
    f.STORED_HIGHEST: "stored_highest",
    f.UNSETTLED_MAX: "unsettled_max",
    f.DELIVERY_ID_MAX: "delivery_id_max",
    f.STATE: "state",
    f.STATE_NUMBER: "state_number",
    f.ACKNOWLEDGES: "acknowledges",
    f.BROWSES: "browses",
    f.DURABILITY: "durability",
    f.PARTITION: "partition",
    f.FIRST: "first",
    f.END: "end",
    f.COLUMNS: "columns",
    f.CHUNK_BYTES: "chunk_bytes",
    f.INCARNATION: "incarnation",
    f.CURSOR_EPOCH: "cursor_epoch",
    f.LAG_BYTES_MAX: "lag_bytes_max",
    f.LAG_TIME_MS_MAX: "lag_time_ms_max",
    f.HEARTBEAT_MS: "heartbeat_ms",
    f.WAIT_MS: "wait_ms",
    f.PART: "part",
    f.ATTEMPT: "attempt",
    f.MESSAGES_COUNT: "messages_count",
    f.ALREADY: "already",
    f.USAGE_BYTES: "usage_bytes",
    f.LINK_VERSION: "link_version",
    f.DEAD_TIME_MS: "dead_time_ms",
}


class FlowFrames:
    """The frames of one direction of a connection."""

    def __init__(self) -> None:
        self._cutter = FrameCutter(UNCOUNTED_BYTES, header=MAGIC, header_bytes=PREFACE_BYTES)

    def read(self, data: bytes) -> list[tuple[PacketWords, int]]:
        """Return the frames that are known by now."""
        return [(_words(frame, size), size) for frame, size in self._cutter.cut(data)]


def _words(data: bytes, size: int) -> PacketWords:
    """Return a frame in words; what cannot be read is said to be so."""
    if data.startswith(MAGIC):
        return PacketWords("preface", {"version": f"{data[4]}.{data[5]}"})
    kind = data[UNCOUNTED_BYTES] if len(data) > UNCOUNTED_BYTES else 0
    found = PacketWords(frames.NAMES.get(kind, f"type {kind:#04x}"))
    try:
        if len(data) < HEAD_BYTES:
            raise ValueError(f"a frame of {len(data)} bytes; its head alone has {HEAD_BYTES}")
        body_at = HEAD_BYTES + int.from_bytes(data[6:8], "big")
        if body_at > len(data):
            raise ValueError(f"{body_at - HEAD_BYTES} bytes of fields in a frame of {size}")
        flow_id = int.from_bytes(data[8:12], "big")
        frame = frames.Frame(kind, data[5], flow_id, HEAD_BYTES, body_at, len(data))
        if flow_id != frames.SESSION:
            found.fields["flow_id"] = flow_id
        if frame.flags & frames.RESPONSE:
            found.fields["response"] = True
        _read_fields(data, HEAD_BYTES, body_at, found)
        if frame.flags & frames.COMPRESSED:
            found.fields["compressed"] = True
            frame, data = inflated_head(frame, data, BODY_BYTES_MAX)
        _read_body(frame, data, found)
    except (PeerViolation, IndexError, ValueError) as problem:
        found.fields["unreadable"] = str(problem)
    return found


def _read_fields(data: bytes, at: int, end: int, found: PacketWords) -> None:
    while at + 4 <= end:
        field_id = int.from_bytes(data[at : at + 2], "big") & ~f.CRITICAL_BIT
        value_at = at + 4
        at = value_at + int.from_bytes(data[at + 2 : value_at], "big")
        value = data[value_at : min(at, end)]
        if field_id == f.SASL_DATA:
            found.fields["sasl_data"] = hidden(value)
        elif field_id == f.CODE:
            if len(value) > CODE_BYTES:
                found.fields["code"] = f"{len(value)} bytes"
            else:
                found.reason_code = int.from_bytes(value, "big")
                found.reason = CODE_NAMES.get(found.reason_code)
        elif field_id in TEXTS:
            name, text = TEXTS[field_id], value.decode("utf-8", "replace")
            before = found.fields.get(name)
            found.fields[name] = text if before is None else f"{before}, {text}"
        elif field_id in NUMBERS:
            name, number = NUMBERS[field_id], _number(value)
            before = found.fields.get(name)
            found.fields[name] = number if before is None else f"{before}, {number}"
        elif field_id == f.PARTITION_IDS:
            found.fields["partition_ids"] = _numbers(value)
        else:
            found.fields[f"field {field_id:#06x}"] = f"{len(value)} bytes"


def _number(value: bytes) -> str | int:
    return int.from_bytes(value, "big") if len(value) <= NUMBER_BYTES else f"{len(value)} bytes"


def _numbers(value: bytes) -> str:
    """Return the numbers of a row."""
    if len(value) % NUMBER_BYTES:
        return f"{len(value)} bytes"
    starts = range(0, len(value), NUMBER_BYTES)
    return ", ".join(str(int.from_bytes(value[each : each + NUMBER_BYTES], "big")) for each in starts)


def _read_body(frame: frames.Frame, data: bytes, found: PacketWords) -> None:
    if frame.kind == frames.PUBLISH:
        run = read_publish(frame, data, 0, None, {})
        found.fields["queue" if run.to_queue else "topic"] = run.topics[0]
        if run.mode == GUARANTEED:
            found.fields["sequence"] = run.sequences[0]
        _headers(run.headers[0], found)
        found.payload = run.payloads[0]
    elif frame.kind == frames.DELIVER:
        message = read_deliver(frame, data, 0)
        found.fields |= {
            "topic": message.topic,
            "delivery_id": message.delivery_id,
            "message_id": message.message_id,
            "partition": message.partition,
            "epoch": message.epoch,
            "delivery_count": message.delivery_count,
        }
        if message.redelivered:
            found.fields["redelivered"] = True
        _headers(message.headers, found)
        found.payload = message.payload
    elif frame.kind == frames.PUB_ACK:
        ack = read_pub_ack(frame, data)
        found.fields |= {"answered_through": ack.answered_through, "sequence_max": ack.sequence_max}
        for each in ack.refusals:
            found.reason_code, found.reason = each.code, CODE_NAMES.get(each.code)
            found.properties.append((f"refused {_range(each.first, each.last)}", each.text))
    elif frame.kind in OF_SETTLING:
        _read_settling(frame, data, found)


def _read_settling(frame: frames.Frame, data: bytes, found: PacketWords) -> None:
    match read_settle_frame(frame, data):
        case Credit() as credit:
            found.fields["delivery_id_max"] = credit.delivery_id_max
            if credit.is_recall:
                found.fields["recall"] = True
        case Settle() as settle:
            if settle.accepted_through:
                found.fields["accepted_through"] = settle.accepted_through
            for first, last, outcome in settle.outcomes:
                name = OUTCOMES[outcome] if outcome < len(OUTCOMES) else EXTENDED
                found.properties.append((name, _range(first, last)))
        case Settled() as settled:
            found.fields["not_held"] = ", ".join(_range(first, last) for first, last in settled.not_held)
        case ping:
            found.fields["number"] = ping.number


def _range(first: int, last: int) -> str:
    return str(first) if first == last else f"{first} to {last}"


def _headers(headers: Headers | None, found: PacketWords) -> None:
    """Add the properties of a message. Its times are relative: the frame was read at the time 0."""
    if headers is None:
        return
    if headers.priority != PRIORITY_DEFAULT:
        found.properties.append(("priority", headers.priority))
    correlation = headers.correlation
    known: tuple[tuple[str, str | int | None], ...] = (
        ("partition_key", headers.partition_key),
        ("message_id", headers.message_id),
        ("correlation", correlation.hex() if isinstance(correlation, bytes) else correlation),
        ("reply_to", headers.reply_to),
        ("content_type", headers.content_type),
        ("ttl_ms", headers.expires_at_ms),
        ("delay_ms", headers.not_before_ms),
        ("timestamp_ms", headers.timestamp_ms),
    )
    found.properties += [(name, value) for name, value in known if value]
    for name, value in headers.user_properties or ():
        text, _ = value_text(value, BODY_BYTES_MAX)
        shown = value if isinstance(value, int) and not isinstance(value, bool) else text
        found.properties.append((f"property {name}", shown))
