"""Words for AMQP frames, as the standard names their fields. It reads what it can, and refuses nothing.

SASL responses and challenges are never shown, nor the values of a peer's own properties. Of a message its properties
are shown, and of its body as much as is asked for.
"""

from typing import Final

from sluicegate.gateway.operations.traces.words import BODY_BYTES_MAX, FrameCutter, PacketWords, Value, hidden
from sluicegate.gateway.views.queues.messages import value_text
from sluicegate.protocols.amqp.codec.delivery_states import ERROR, STATE_NAMES
from sluicegate.protocols.amqp.codec.frames import SASL_FRAME
from sluicegate.protocols.amqp.codec.performatives import (
    ATTACH,
    BEGIN,
    CHALLENGE,
    CLOSE,
    DETACH,
    DISPOSITION,
    END,
    FLOW,
    INIT,
    MECHANISMS,
    OPEN,
    OUTCOME,
    PERFORMATIVES,
    RESPONSE,
    TRANSFER,
    performative_code,
    sasl_code,
)
from sluicegate.protocols.amqp.codec.sections import APPLICATION_PROPERTIES, DATA, HEADER, PROPERTIES, SEQUENCE, VALUE
from sluicegate.protocols.amqp.codec.termini import COORDINATOR, SOURCE, TARGET
from sluicegate.protocols.amqp.engine.handshake import AMQP_HEADER
from sluicegate.protocols.amqp.limits import FRAME_HEAD_BYTES
from sluicegate.protocols.amqp.types.decoding import decode
from sluicegate.protocols.amqp.types.encoding import encode
from sluicegate.protocols.amqp.types.errors import DecodeError, LocalMisuse
from sluicegate.protocols.amqp.types.values import AmqpArray, AmqpMap, AmqpValue, Described, Scalar, Symbol

PROTOCOL: Final = AMQP_HEADER[:4]  # what a protocol header begins with (2.2)
SASL_NAMES: Final = {
    MECHANISMS: "sasl-mechanisms",
    INIT: "sasl-init",
    CHALLENGE: "sasl-challenge",
    RESPONSE: "sasl-response",
    OUTCOME: "sasl-outcome",
}
SASL_OUTCOMES: Final = ("ok", "auth", "sys", "sys-perm", "sys-temp")
WINDOWS: Final = ("next_incoming_id", "incoming_window", "next_outgoing_id", "outgoing_window")
# The fields of each performative, in order (2.7, 5.3.3).
FIELDS: Final[dict[int, tuple[str, ...]]] = {
    OPEN: (
        *("container_id", "hostname", "max_frame_size", "channel_max", "idle_time_out", "outgoing_locales"),
        *("incoming_locales", "offered_capabilities", "desired_capabilities", "properties"),
    ),
    BEGIN: (
        *("remote_channel", "next_outgoing_id", "incoming_window", "outgoing_window", "handle_max"),
        *("offered_capabilities", "desired_capabilities", "properties"),
    ),
    ATTACH: (
        *("name", "handle", "role", "snd_settle_mode", "rcv_settle_mode", "source", "target", "unsettled"),
        *("incomplete_unsettled", "initial_delivery_count", "max_message_size", "offered_capabilities"),
        *("desired_capabilities", "properties"),
    ),
    FLOW: (*WINDOWS, "handle", "delivery_count", "link_credit", "available", "drain", "echo", "properties"),
    TRANSFER: (
        *("handle", "delivery_id", "delivery_tag", "message_format", "settled", "more", "rcv_settle_mode", "state"),
        *("resume", "aborted", "batchable"),
    ),
    DISPOSITION: ("role", "first", "last", "settled", "state", "batchable"),
    DETACH: ("handle", "closed", "error"),
    END: ("error",),
    CLOSE: ("error",),
    MECHANISMS: ("sasl_server_mechanisms",),
    INIT: ("mechanism", "initial_response", "hostname"),
    CHALLENGE: ("challenge",),
    RESPONSE: ("response",),
    OUTCOME: ("code", "additional_data"),
}
SECRET: Final = frozenset({"initial_response", "challenge", "response", "additional_data"})
OF_PEER: Final = frozenset({"properties", "unsettled", "dynamic_node_properties"})  # what it likes to put there
CHOICES: Final = {
    "role": ("sender", "receiver"),
    "snd_settle_mode": ("unsettled", "settled", "mixed"),
    "rcv_settle_mode": ("first", "second"),
}
TERMINUS_FIELDS: Final = ("address", "durable", "expiry_policy", "timeout", "dynamic", "dynamic_node_properties")
SOURCE_FIELDS: Final = (*TERMINUS_FIELDS, "distribution_mode", "filter", "default_outcome", "outcomes", "capabilities")
TARGET_FIELDS: Final = (*TERMINUS_FIELDS, "capabilities")
HEADER_FIELDS: Final = ("durable", "priority", "ttl", "first_acquirer", "delivery_count")
PROPERTY_FIELDS: Final = (
    *("message_id", "user_id", "to", "subject", "reply_to", "correlation_id", "content_type", "content_encoding"),
    *("absolute_expiry_time", "creation_time", "group_id", "group_sequence", "reply_to_group_id"),
)
DURABILITIES: Final = ("none", "configuration", "unsettled-state")
BINARY_HEADS: Final = {0xA0: 2, 0xB0: 5}  # of a data section's value: bytes before its content


class AmqpFrames:
    """The frames of one direction of a connection."""

    def __init__(self) -> None:
        self._cutter = FrameCutter(0, header=PROTOCOL, header_bytes=len(AMQP_HEADER))
        self._continued: set[tuple[int, Value]] = set()  # channels and handles of which a delivery is under way

    def read(self, data: bytes) -> list[tuple[PacketWords, int]]:
        """Return the frames that are known by now."""
        return [(self._words(frame), size) for frame, size in self._cutter.cut(data)]

    def _words(self, frame: bytes) -> PacketWords:
        """Return a frame in words; what cannot be read is said to be so."""
        found = PacketWords("empty frame")
        try:
            self._read(frame, found)
        except (DecodeError, LocalMisuse, IndexError, ValueError) as problem:
            found.fields["unreadable"] = str(problem)
        return found

    def _read(self, frame: bytes, found: PacketWords) -> None:
        if frame.startswith(PROTOCOL):
            found.kind = "protocol header"
            found.fields |= {"protocol_id": frame[4], "version": ".".join(map(str, frame[5:]))}
            return
        if len(frame) < FRAME_HEAD_BYTES:
            raise DecodeError(f"a frame of {len(frame)} bytes")
        at, channel = 4 * frame[4], frame[6] << 8 | frame[7]
        if at >= len(frame):
            return  # a heartbeat
        descriptor, items_at = decode(frame, at + 1, len(frame))
        is_sasl = frame[5] == SASL_FRAME
        code = sasl_code(descriptor) if is_sasl else performative_code(descriptor)
        name = SASL_NAMES.get(code) if is_sasl else PERFORMATIVES.get(code)
        if name is None:
            raise DecodeError(f"unknown descriptor {descriptor!r:.80}")
        found.kind = name
        if not is_sasl:
            found.fields["channel"] = channel
        items, end = decode(frame, items_at, len(frame))
        if not isinstance(items, list):
            raise DecodeError(f"{name} is not a list")
        for field, value in zip(FIELDS[code], items, strict=False):
            _add(found, field, value)
        if code == TRANSFER:
            self._message(channel, frame[end:], found)
        elif code == OUTCOME and isinstance(number := found.fields.get("code"), int):
            found.reason_code = number
            found.reason = SASL_OUTCOMES[number] if number < len(SASL_OUTCOMES) else None

    def _message(self, channel: int, payload: bytes, found: PacketWords) -> None:
        """Read the sections that a transfer has, unless it goes on with those of the one before."""
        delivery = (channel, found.fields.get("handle"))
        goes_on = delivery in self._continued
        if found.fields.get("more") and not found.fields.get("aborted"):
            self._continued.add(delivery)
        else:
            self._continued.discard(delivery)
        found.payload = payload if goes_on else _body(payload, found)


def _body(payload: bytes, found: PacketWords) -> bytes:
    """Add the properties of a message, and return its body as far as it is there. Raises DecodeError."""
    at = 0
    body = b""
    while at < len(payload):
        if payload[at : at + 3] == b"\x00\x53\x75" and len(payload) > at + 8:  # data, whose end may be elsewhere
            content_at = at + 3 + BINARY_HEADS.get(payload[at + 3], 1)
            width = content_at - at - 4
            content_end = content_at + int.from_bytes(payload[at + 4 : at + 4 + width], "big")
            body += payload[content_at:content_end]
            at = content_end
            continue
        try:
            section, end = decode(payload, at, len(payload))
        except DecodeError:
            return body + payload[at:]  # a section that goes on in the next frame
        if not isinstance(section, Described):
            raise DecodeError("a message without sections")
        _section(section, found)
        if _code(section) in (DATA, SEQUENCE, VALUE):
            value = section.value
            body += value if isinstance(value, bytes) else value.encode() if isinstance(value, str) else encode(value)
        at = end
    return body


def _section(section: Described, found: PacketWords) -> None:
    code, value = _code(section), section.value
    names = HEADER_FIELDS if code == HEADER else PROPERTY_FIELDS if code == PROPERTIES else ()
    if names and isinstance(value, list):
        for name, each in zip(names, value, strict=False):
            if each is not None:
                found.properties.append((name, _number_or_text(each)))
    elif code == APPLICATION_PROPERTIES and isinstance(value, AmqpMap):
        for key, each in value.pairs:
            found.properties.append((f"application property {_text(key)}", _number_or_text(each)))


def _add(found: PacketWords, field: str, value: AmqpValue) -> None:
    if value is None:
        return
    if field in SECRET:
        found.fields[field] = hidden(value) if isinstance(value, bytes) else "not shown"
    elif field in ("source", "target"):
        _add_terminus(found, field, value)
    elif field == "error":
        found.reason = _error(value)
    elif field == "state":
        _add_state(found, value)
    elif field in OF_PEER:
        found.fields[field] = _names(value)
    elif field in CHOICES:
        number = _plain(value)
        choices = CHOICES[field]
        known = isinstance(number, int) and 0 <= number < len(choices)
        found.fields[field] = choices[int(number)] if known and isinstance(number, int) else number
    else:
        found.fields[field] = _plain(value)


def _add_terminus(found: PacketWords, field: str, value: AmqpValue) -> None:
    if not isinstance(value, Described) or not isinstance(value.value, list):
        raise DecodeError(f"{field} is not a composite")
    code = _code(value)
    if code == COORDINATOR:
        found.fields[field] = "coordinator"
        return
    names = SOURCE_FIELDS if code == SOURCE else TARGET_FIELDS if code == TARGET else ()
    for name, each in zip(names, value.value, strict=False):
        if name == "address":
            found.fields[field] = _plain(each)
        elif each is None or each is False:
            continue
        elif name == "durable" and isinstance(number := _plain(each), int) and number < len(DURABILITIES):
            if number:
                found.properties.append((f"{field} durable", DURABILITIES[number]))
        elif name in OF_PEER:
            found.properties.append((f"{field} {name}", _names(each)))
        else:
            found.properties.append((f"{field} {name}", _number_or_text(each)))


def _names(value: AmqpValue) -> str:
    """Return the names in a map without their values."""
    return ", ".join(_text(key) for key, _ in value.pairs) if isinstance(value, AmqpMap) else "not shown"


def _add_state(found: PacketWords, value: AmqpValue) -> None:
    code = _code(value)
    found.fields["state"] = STATE_NAMES.get(code, _text(value))
    for each in value.value if isinstance(value, Described) and isinstance(value.value, list) else ():
        if not isinstance(each, Described):
            continue
        if _code(each) == ERROR:
            found.reason = _error(each)
        elif _code(each) in STATE_NAMES:
            found.fields["outcome"] = STATE_NAMES[_code(each)]  # of a transactional state


def _error(value: AmqpValue) -> str:
    items = value.value if isinstance(value, Described) and isinstance(value.value, list) else []
    return ": ".join(_text(each) for each in items[:2] if each is not None)


def _code(value: AmqpValue) -> int:
    """Return the number of a described value; -1 if it is named otherwise."""
    descriptor = value.descriptor if isinstance(value, Described) else None
    return descriptor.value if isinstance(descriptor, Scalar) and isinstance(descriptor.value, int) else -1


def _plain(value: AmqpValue) -> Value:
    """Return a value as JSON can have it."""
    if isinstance(value, Scalar):
        return value.value if isinstance(value.value, int) else _text(value)
    return value if value is None or isinstance(value, bool | int | str) else _text(value)


def _number_or_text(value: AmqpValue) -> str | int:
    plain = _plain(value)
    return plain if isinstance(plain, int) and not isinstance(plain, bool) else _text(value)


def _text(value: AmqpValue) -> str:
    match value:
        case None | str() | bool() | bytes() | int() | float():
            return value_text(value, BODY_BYTES_MAX)[0]
        case Symbol():
            return value.text
        case Scalar():
            return value.value.hex() if isinstance(value.value, bytes) else str(value.value)
        case Described():
            return STATE_NAMES.get(_code(value)) or _text(value.value)
        case AmqpMap():
            return ", ".join(f"{_text(key)}={_text(each)}" for key, each in value.pairs)
        case AmqpArray():
            return ", ".join(_text(each) for each in value.items)
        case list():
            return ", ".join(_text(each) for each in value)
