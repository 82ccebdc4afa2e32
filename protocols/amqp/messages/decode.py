"""From an AMQP message to the broker's form.

Everything that the publisher sent and that travels stays as it came, in `Headers.native`: annotations, properties,
application properties and footer, and the form of the body, so that an AMQP consumer gets the bare message byte for
byte (3.2). The payload is what consumers of every protocol understand: the bytes of data, the text of a string, and of
maps and lists their JSON.

    native = form u8 | footer length u32 | body length u32 | what travels before the body | footer | an opaque body

The header section does not travel, but for whether the message is durable. Of a message that is not, an opaque body
is stored as the beginning of the footer, and the body length is 0. Any other form has one byte in the place of an
opaque body. Readers that know nothing of it write the same message for both.
"""

import struct
from typing import Final, final

import orjson

from sluicegate.messaging.message.headers import (
    NATIVE_AMQP,
    PARTITION_KEY_BYTES_MAX,
    PRIORITY_DEFAULT,
    PRIORITY_MAX,
    TIME_MS_MAX,
    USER_PROPERTIES_MAX,
    Headers,
    UserPropertyValue,
)
from sluicegate.messaging.message.keys import key_hash
from sluicegate.messaging.observability.trace_context import TRACE_FIELDS
from sluicegate.protocols.amqp.codec.addresses import JMS_DESTINATION, JMS_REPLY_TO, shared_reply_to
from sluicegate.protocols.amqp.codec.sections import DATA, NOWHERE, VALUE, Sections, find_sections, sections_in_order
from sluicegate.protocols.amqp.messages.text import json_form, text_form, user_value
from sluicegate.protocols.amqp.types.decoding import VALUES_MAX, DecodeBudget, decode, decode_list
from sluicegate.protocols.amqp.types.encoding import ONE_BYTE
from sluicegate.protocols.amqp.types.errors import DecodeError
from sluicegate.protocols.amqp.types.fields import Fields
from sluicegate.protocols.amqp.types.values import TIMESTAMP, AmqpMap, AmqpValue, Scalar, Symbol

PARTITION_KEY_PROPERTY: Final = "JMSXGroupID"
# What has no field of its own in `Headers`: consumers of other protocols get it as a user property of this name.
SUBJECT_PROPERTY: Final = "subject"
ENCODING_PROPERTY: Final = "content-encoding"
GROUP_SEQUENCE_PROPERTY: Final = "JMSXGroupSeq"
ANNOTATION_PREFIX: Final = "x-"  # of annotations that are for everybody (3.2.10)
DELIVER_TO_ONE_ANNOTATION: Final = "x-opt-deliver-to-one"
_UNDERSTOOD: Final = (
    "x-opt-delivery-time",
    "x-opt-delivery-delay",
    "x-opt-partition-key",
    DELIVER_TO_ONE_ANNOTATION,
    JMS_REPLY_TO,
)
CONTENT_JSON: Final = "application/json"
MESSAGE_VALUES_MAX: Final = 50_000  # in a message; what is put on it later has to be read, too

assert MESSAGE_VALUES_MAX < VALUES_MAX

# Forms of a body: what has to stand before the payload to have the body again.
BODY_NONE: Final = 0
BODY_DATA: Final = 1  # one data section
BODY_STRING: Final = 2  # amqp-value with a string
BODY_BINARY: Final = 3  # amqp-value with binary data
BODY_OPAQUE: Final = 4  # anything else: the body itself is in `native`
WIDE: Final = 0x10  # with a four byte length where one byte would do

_HEAD: Final = struct.Struct(">BII")
NATIVE_HEAD_BYTES: Final = 9
_BARE_BYTES_MAX: Final = NATIVE_HEAD_BYTES + 1  # of a message that is nothing but its payload, durable or not
# What most messages have there: neither a footer nor an opaque body. By form, of durable messages and of others.
_PLAIN_HEADS: Final[list[bytes]] = [_HEAD.pack(form, 0, 0) for form in range(2 * WIDE)]
_NOT_DURABLE: Final = b"\x00"  # behind everything
_NOT_DURABLE_HEADS: Final[list[bytes]] = [_HEAD.pack(form, 0, 1) for form in range(2 * WIDE)]
_NOT_DURABLE_NATIVES: Final[list[bytes]] = [head + _NOT_DURABLE for head in _NOT_DURABLE_HEADS]

# What stands before a body that is no more than its bytes, but for their number. By form.
_BODY_HEADS: Final[dict[int, bytes]] = {
    BODY_DATA: b"\x00\x53\x75\xa0",
    BODY_DATA | WIDE: b"\x00\x53\x75\xb0",
    BODY_STRING: b"\x00\x53\x77\xa1",
    BODY_STRING | WIDE: b"\x00\x53\x77\xb1",
    BODY_BINARY: b"\x00\x53\x77\xa0",
    BODY_BINARY | WIDE: b"\x00\x53\x77\xb0",
}


@final
class MessageIn:
    """One message as it came, and what its way through the broker depends on."""

    __slots__ = ("durable", "headers", "payload", "to", "to_kind")

    def __init__(
        self, payload: bytes, headers: Headers | None, *, durable: bool, to: str | None, to_kind: AmqpValue
    ) -> None:
        self.payload = payload
        self.headers = headers  # None: a message without any attribute, with its data in one section
        self.durable = durable
        self.to = to  # properties.to; where an anonymous sender's message goes
        self.to_kind = to_kind  # JMS's annotation, which says whether that is a queue or a topic


def read_message(data: bytes, wall_ms: int) -> MessageIn:
    """Return a message of format 0. Raises DecodeError."""
    budget = DecodeBudget(MESSAGE_VALUES_MAX)
    try:
        sections = find_sections(data)
    except DecodeError:
        data = sections_in_order(data)
        sections = find_sections(data)
    headers = Headers(dmq_eligible=True)  # AMQP has no way to say no
    beside: list[tuple[str, UserPropertyValue]] = []  # what becomes a user property only for other protocols
    durable = _read_header(data, sections, headers, wall_ms)
    reply_kind: AmqpValue = None
    to_kind: AmqpValue = None
    if sections.annotations_at != NOWHERE:
        reply_kind, to_kind = _read_annotations(data, sections.annotations_at, budget, headers, beside, wall_ms)
    to: str | None = None
    if sections.properties_at != NOWHERE:
        to = _read_properties(data, sections.properties_at, budget, headers, beside, reply_kind)
    if sections.application_at != NOWHERE:
        _read_application_properties(data, sections.application_at, budget, headers)
    if beside:
        _add_beside(headers, beside)
    form, payload = _read_body(data, sections, budget, headers)
    if headers.partition_key is not None:
        if len(headers.partition_key.encode()) > PARTITION_KEY_BYTES_MAX:
            raise DecodeError(f"a group-id of more than {PARTITION_KEY_BYTES_MAX} bytes")
        headers.key_hash = key_hash(headers.partition_key)
    headers.native_format = NATIVE_AMQP
    headers.native = _native(data, sections, form, durable=durable)
    return MessageIn(payload, headers, durable=durable, to=to, to_kind=to_kind)


def _native(data: bytes, sections: Sections, form: int, *, durable: bool) -> bytes:
    travels = data[sections.travels_at : sections.body_at]
    footer = data[sections.footer_at :]
    if form == BODY_OPAQUE or (footer and not durable):
        body = data[sections.body_at : sections.footer_at]
        if durable:
            return _HEAD.pack(form, len(footer), len(body)) + travels + footer + body
        return _HEAD.pack(BODY_OPAQUE, len(body) + len(footer), 0) + travels + body + footer
    if footer:
        return _HEAD.pack(form, len(footer), 0) + travels + footer
    if durable:
        return _PLAIN_HEADS[form] + travels if travels else _PLAIN_HEADS[form]
    return _NOT_DURABLE_HEADS[form] + travels + _NOT_DURABLE if travels else _NOT_DURABLE_NATIVES[form]


def native_is_durable(native: bytes) -> bool:
    """Return what the sender's header said. A message that an earlier version stored counts as durable."""
    if len(native) <= _BARE_BYTES_MAX:
        return len(native) == NATIVE_HEAD_BYTES
    return (native[0] == BODY_OPAQUE) == (_u32(native, 5) != 0)


def native_travels(native: bytes) -> bytes:
    """Return the sections before the body: annotations, properties and application properties, as they were sent."""
    return native[NATIVE_HEAD_BYTES : len(native) - _u32(native, 1) - _u32(native, 5)]


def native_sections(native: bytes, payload: bytes) -> bytes:
    """Return everything from the message annotations on, as it was sent."""
    form = native[0]
    end = len(native)
    if end <= _BARE_BYTES_MAX:
        return body_bytes_of(form, payload)
    footer_bytes = _u32(native, 1)
    body_bytes = _u32(native, 5)
    footer_at = end - body_bytes - footer_bytes
    travels = native[NATIVE_HEAD_BYTES:footer_at]
    if form == BODY_OPAQUE:
        return travels + native[end - body_bytes :] + native[footer_at : end - body_bytes]
    whole = travels + body_bytes_of(form, payload)
    return whole + native[footer_at:] if footer_bytes else whole


def body_bytes_of(form: int, payload: bytes) -> bytes:
    """Return the body section of a payload."""
    if form & ~WIDE == BODY_NONE:
        return b""
    length = len(payload)
    if length <= 0xFF and not form & WIDE:
        return b"".join((_BODY_HEADS[form], ONE_BYTE[length], payload))
    return b"".join((_BODY_HEADS[form | WIDE], length.to_bytes(4, "big"), payload))


def _u32(data: bytes, pos: int) -> int:
    return data[pos] << 24 | data[pos + 1] << 16 | data[pos + 2] << 8 | data[pos + 3]


def _read_header(data: bytes, sections: Sections, headers: Headers, wall_ms: int) -> bool:
    """Take over the header section; return whether the message is durable."""
    pos = sections.header_at
    if pos == NOWHERE:
        return False
    # Most have no more to say, and are all alike; the general way takes ten times as long.
    if data[pos] == 0xC0 and data[pos + 1] == 2 and data[pos + 2] == 1 and data[pos + 3] in (0x41, 0x42):
        return data[pos + 3] == 0x41
    items, _ = decode_list(data, pos, len(data))
    fields = Fields("header", items)
    headers.priority = min(fields.ubyte(1, "priority", PRIORITY_DEFAULT), PRIORITY_MAX)
    ttl_ms = fields.uint(2, "ttl", 0)
    if ttl_ms:  # 0 would be expired before it arrives; clients that send it mean none
        headers.expires_at_ms = wall_ms + ttl_ms
    return fields.flag(0, "durable", default=False)


def _read_annotations(
    data: bytes,
    pos: int,
    budget: DecodeBudget,
    headers: Headers,
    beside: list[tuple[str, UserPropertyValue]],
    wall_ms: int,
) -> tuple[AmqpValue, AmqpValue]:
    """Take over the message annotations; return what they say of the kinds of the reply address and of `to`."""
    annotations = _read_map(data, pos, budget, "message-annotations")
    at = _integer(annotations.symbol("x-opt-delivery-time"))
    delay_ms = _integer(annotations.symbol("x-opt-delivery-delay"))
    if at:
        headers.not_before_ms = min(at, TIME_MS_MAX)
    elif delay_ms:
        headers.not_before_ms = min(wall_ms + delay_ms, TIME_MS_MAX)
    key = annotations.symbol("x-opt-partition-key")
    if isinstance(key, str) and key:
        headers.partition_key = key
    headers.deliver_to_one = annotations.symbol(DELIVER_TO_ONE_ANNOTATION) is True
    for name, value in annotations.pairs:
        if isinstance(name, Symbol) and _is_for_everybody(name.text):
            beside.append((name.text, user_value(value)))
    return annotations.symbol(JMS_REPLY_TO), annotations.symbol(JMS_DESTINATION)


def _is_for_everybody(name: str) -> bool:
    return (name.startswith(ANNOTATION_PREFIX) and name not in _UNDERSTOOD) or name in TRACE_FIELDS


def _read_properties(
    data: bytes,
    pos: int,
    budget: DecodeBudget,
    headers: Headers,
    beside: list[tuple[str, UserPropertyValue]],
    reply_kind: AmqpValue,
) -> str | None:
    """Take over the properties section; return the address in it."""
    items, _ = decode_list(data, pos, len(data), budget)
    fields = Fields("properties", items)
    message_id = fields.value(0)
    if message_id is not None:
        headers.message_id = text_form(message_id)
    reply_to = fields.text(4, "reply-to")
    if reply_to is not None:
        headers.reply_to = shared_reply_to(reply_to, reply_kind)
    correlation = fields.value(5)
    if correlation is not None:
        headers.correlation = correlation if isinstance(correlation, bytes) else text_form(correlation).encode()
    headers.content_type = fields.symbol(6, "content-type")
    expires_at_ms = fields.number(8, "absolute-expiry-time", TIMESTAMP, 0)
    if expires_at_ms > 0 and (headers.expires_at_ms == 0 or expires_at_ms < headers.expires_at_ms):
        headers.expires_at_ms = min(expires_at_ms, TIME_MS_MAX)  # the earlier of both
    headers.timestamp_ms = min(max(0, fields.number(9, "creation-time", TIMESTAMP, 0)), TIME_MS_MAX)
    group_id = fields.text(10, "group-id")
    if group_id:
        headers.partition_key = group_id
    subject = fields.text(3, "subject")
    if subject is not None:
        beside.append((SUBJECT_PROPERTY, subject))
    encoding = fields.symbol(7, "content-encoding")
    if encoding is not None:
        beside.append((ENCODING_PROPERTY, encoding))
    if group_id and fields.value(11) is not None:  # without a group some clients send 0
        beside.append((GROUP_SEQUENCE_PROPERTY, fields.uint(11, "group-sequence", 0)))
    return fields.text(2, "to")


def _read_map(data: bytes, pos: int, budget: DecodeBudget, section: str) -> AmqpMap:
    """Return a section that is to be a map, and no larger one than becomes user properties."""
    found, _ = decode(data, pos, len(data), budget)
    if not isinstance(found, AmqpMap):
        raise DecodeError(f"{section} are not a map")
    if len(found.pairs) > USER_PROPERTIES_MAX:
        raise DecodeError(f"{len(found.pairs)} {section}; at most {USER_PROPERTIES_MAX} are taken")
    return found


def _read_application_properties(data: bytes, pos: int, budget: DecodeBudget, headers: Headers) -> None:
    pairs: list[tuple[str, UserPropertyValue]] = []
    for key, value in _read_map(data, pos, budget, "application-properties").pairs:
        if not isinstance(key, str):
            raise DecodeError(f"an application property with the key {key!r:.80}, which is not a string")
        pairs.append((key, user_value(value)))
        if key == PARTITION_KEY_PROPERTY and headers.partition_key is None and isinstance(value, str) and value:
            headers.partition_key = value
    headers.user_properties = pairs or None


def _add_beside(headers: Headers, beside: list[tuple[str, UserPropertyValue]]) -> None:
    """Add what has no field of its own behind the publisher's properties, which keep their names."""
    pairs = headers.user_properties
    if pairs is None:
        headers.user_properties = beside
        return
    taken = {name for name, _ in pairs}
    pairs += [(name, value) for name, value in beside if name not in taken]


def _read_body(data: bytes, sections: Sections, budget: DecodeBudget, headers: Headers) -> tuple[int, bytes]:
    """Return the form of the body, and the payload that it makes."""
    if sections.body_count == 0:
        return BODY_NONE, b""
    start = sections.body_value_at
    if sections.body_count == 1 and sections.body_value_at == sections.body_at + 3:
        code = data[start]
        simple = _simple_form(sections.body_code, code)
        if simple:
            wide = code >> 4 == 0xB
            payload_at = start + (5 if wide else 2)
            payload = data[payload_at : sections.footer_at]
            if simple == BODY_STRING:
                headers.payload_is_text = True
                _check_text(payload)
            return simple | (WIDE if wide and len(payload) <= 0xFF else 0), payload
    return BODY_OPAQUE, _opaque_payload(data, sections, budget, headers)


def _simple_form(section: int, code: int) -> int:
    if section == DATA and code in (0xA0, 0xB0):
        return BODY_DATA
    if section == VALUE and code in (0xA1, 0xB1):
        return BODY_STRING
    if section == VALUE and code in (0xA0, 0xB0):
        return BODY_BINARY
    return 0


def _opaque_payload(data: bytes, sections: Sections, budget: DecodeBudget, headers: Headers) -> bytes:
    """Return what consumers of other protocols get of a body that is no plain bytes or text."""
    values: list[AmqpValue] = []
    pos = sections.body_at
    while pos < sections.footer_at:
        _, pos = decode(data, pos + 1, sections.footer_at)  # the section's descriptor
        value, pos = decode(data, pos, sections.footer_at, budget)
        values.append(value)
    if sections.body_code == DATA:
        pieces: list[bytes] = []
        for piece in values:
            if not isinstance(piece, bytes):
                raise DecodeError("a data section without binary data")
            pieces.append(piece)
        return b"".join(pieces)
    whole: AmqpValue = values[0] if sections.body_code == VALUE else [each for value in values for each in _list(value)]
    if whole is None:  # how several clients send a message without a body
        return b""
    if headers.content_type is None:
        headers.content_type = CONTENT_JSON
    headers.payload_is_text = True
    return orjson.dumps(json_form(whole))


def _list(value: AmqpValue) -> list[AmqpValue]:
    if not isinstance(value, list):
        raise DecodeError("an amqp-sequence without a list")
    return value


def _check_text(payload: bytes) -> None:
    try:
        payload.decode("utf-8")
    except UnicodeDecodeError as error:
        raise DecodeError(f"a string is not valid UTF-8 at byte {error.start}") from None


def _integer(value: AmqpValue) -> int:
    """Return a number of any integer type, 0 for anything else: annotations are not for us to judge."""
    if isinstance(value, Scalar) and isinstance(value.value, int):
        return max(0, value.value)
    return max(0, value) if isinstance(value, int) and not isinstance(value, bool) else 0
