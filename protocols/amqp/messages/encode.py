"""From the broker's form of a message to an AMQP message.

A message that came by AMQP goes out with the very bytes it came with. Only the header section is written anew, because
it belongs to the hop (3.2.1). A message of another protocol is written from its normalised fields.

Message annotations can be added on the way, most of them with the outcome modified (3.4.5). They are stored as encoded
maps, one behind another, oldest first. The last value of a key counts, and null removes it.
"""

from typing import Final, final

from sluicegate.messaging.message.headers import (
    NATIVE_AMQP,
    PRIORITY_DEFAULT,
    TIME_MS_MAX,
    DeadLetter,
    Headers,
    UserPropertyValue,
)
from sluicegate.protocols.amqp.codec.addresses import JMS_REPLY_TO, reply_address
from sluicegate.protocols.amqp.codec.sections import (
    APPLICATION_PROPERTIES,
    HEADER,
    MESSAGE_ANNOTATIONS,
    NOWHERE,
    PROPERTIES,
    find_sections,
)
from sluicegate.protocols.amqp.messages.decode import (
    ANNOTATION_PREFIX,
    BODY_DATA,
    BODY_STRING,
    DELIVER_TO_ONE_ANNOTATION,
    ENCODING_PROPERTY,
    GROUP_SEQUENCE_PROPERTY,
    PARTITION_KEY_PROPERTY,
    SUBJECT_PROPERTY,
    body_bytes_of,
    native_is_durable,
    native_sections,
)
from sluicegate.protocols.amqp.types.decoding import decode
from sluicegate.protocols.amqp.types.encoding import encode, encode_composite
from sluicegate.protocols.amqp.types.values import AmqpMap, AmqpValue, Symbol, timestamp, ubyte, uint, ulong

TTL_MS_MAX: Final = 0xFFFF_FFFF
UINT_MAX: Final = 0xFFFF_FFFF
LONG_MAX: Final = (1 << 63) - 1
_UINT_DIGITS_MAX: Final = 10

# Names under which protocols without such fields carry them (the cross-protocol table).
MESSAGE_ID_NAME: Final = "message-id"
PRIORITY_NAME: Final = "priority"
TIMESTAMP_NAME: Final = "timestamp"
DELIVER_TO_ONE_NAME: Final = "deliver-to-one"

DEATH_PREFIX: Final = "x-opt-"  # of the annotations that say why a message is dead
FREE_PREFIX: Final = "x-"  # of annotations that consumers may add; other keys are the standard's own (3.2.10)

# What the first message of a group carries that a consumer gets; a bare message cannot have ActiveMQ's property added.
FIRST_OF_GROUP: Final = encode(AmqpMap([(Symbol("x-opt-group-first-for-consumer"), True)]))

# Headers of most messages: never delivered before, and durable or not.
_FIRST: Final = b"\x00\x53\x70\xc0\x05\x04\x40\x40\x40\x41"
_DURABLE_FIRST: Final = b"\x00\x53\x70\xc0\x05\x04\x41\x40\x40\x41"


def write_message(
    payload: bytes,
    headers: Headers | None,
    *,
    topic: str,
    durable: bool,
    delivery_count: int,
    is_first: bool,
    wall_ms: int,
    heeds_sender: bool = True,
) -> bytes:
    """Return the message as it is sent.

    `durable`: the broker keeps it until it is settled. A message that an AMQP sender did not send as durable is not,
    unless `heeds_sender` is false.
    `delivery_count`: failed deliveries before this one. `is_first`: no consumer has had it before, not even one that
    gave it back untouched.
    """
    is_native = headers is not None and headers.native_format == NATIVE_AMQP
    if durable and heeds_sender and headers is not None and is_native:
        durable = native_is_durable(headers.native)
    head = header_section(headers, durable=durable, delivery_count=delivery_count, is_first=is_first, wall_ms=wall_ms)
    if headers is None:
        return head + _address_section(topic) + body_bytes_of(BODY_DATA, payload)
    sections = native_sections(headers.native, payload) if is_native else _foreign_sections(payload, headers, topic)
    return head + (sections if headers.dead is None else _with_death(sections, headers.dead))


def header_section(
    headers: Headers | None, *, durable: bool, delivery_count: int, is_first: bool, wall_ms: int
) -> bytes:
    """Return the header section; fields with their defaults are left out."""
    priority = PRIORITY_DEFAULT if headers is None else headers.priority
    expires_at_ms = 0 if headers is None else headers.expires_at_ms
    if priority == PRIORITY_DEFAULT and expires_at_ms == 0 and is_first:
        return _DURABLE_FIRST if durable else _FIRST
    ttl_ms = min(TTL_MS_MAX, max(1, expires_at_ms - wall_ms)) if expires_at_ms else 0
    return encode_composite(
        HEADER,
        [
            True if durable else None,
            None if priority == PRIORITY_DEFAULT else ubyte(priority),
            uint(ttl_ms) if ttl_ms else None,
            True if is_first else None,
            uint(delivery_count) if delivery_count else None,
        ],
    )


def _address_section(topic: str) -> bytes:
    return encode_composite(PROPERTIES, [None, None, topic])


def _foreign_sections(payload: bytes, headers: Headers, topic: str) -> bytes:
    given = _UserProperties(headers)
    reply_to: str | None = None
    if headers.reply_to is not None:
        reply_to, kind = reply_address(headers.reply_to)
        given.annotations.append((Symbol(JMS_REPLY_TO), kind))
    fields: list[AmqpValue] = [
        headers.message_id,
        None,
        topic,
        given.subject,
        reply_to,
        _correlation(headers.correlation),
        _ascii_symbol(headers.content_type),
        _ascii_symbol(given.content_encoding),
        # Who gives a message thousands of years to live means never, and clients' calendars have no such time.
        timestamp(headers.expires_at_ms) if 0 < headers.expires_at_ms <= TIME_MS_MAX else None,
        timestamp(headers.timestamp_ms) if headers.timestamp_ms else None,
        headers.partition_key,
        None if given.group_sequence < 0 else uint(given.group_sequence),
    ]
    form = BODY_STRING if headers.payload_is_text else BODY_DATA
    sections = encode_composite(PROPERTIES, fields)
    if given.annotations:
        sections = _map_section(MESSAGE_ANNOTATIONS, given.annotations) + sections
    if given.application:
        sections += _map_section(APPLICATION_PROPERTIES, given.application)
    return sections + body_bytes_of(form, payload)


@final
class _UserProperties:
    """The user properties of a message of another protocol, by where AMQP has a place for them.

    Of a name that was given twice AMQP can hold the first only.
    """

    __slots__ = ("annotations", "application", "content_encoding", "group_sequence", "subject")

    def __init__(self, headers: Headers) -> None:
        self.subject: str | None = None
        self.content_encoding: str | None = None
        self.group_sequence = -1  # -1: none
        self.annotations: list[tuple[AmqpValue, AmqpValue]] = []
        self.application: list[tuple[AmqpValue, AmqpValue]] = []
        seen: set[str] = set()
        if headers.deliver_to_one:
            seen.add(DELIVER_TO_ONE_ANNOTATION)
            self.annotations.append((Symbol(DELIVER_TO_ONE_ANNOTATION), True))
        for name, value in headers.user_properties or ():
            if name in seen:
                continue
            seen.add(name)
            if not self._has_place(name, value) and not _is_field(headers, name, value):
                self.application.append((name, _wide(value)))

    def _has_place(self, name: str, value: UserPropertyValue) -> bool:
        if name == SUBJECT_PROPERTY and isinstance(value, str):
            self.subject = value
        elif name == ENCODING_PROPERTY and isinstance(value, str) and value.isascii():
            self.content_encoding = value
        elif name == GROUP_SEQUENCE_PROPERTY and _sequence(value) >= 0:
            self.group_sequence = _sequence(value)
        elif name == JMS_REPLY_TO:
            pass  # of what kind the reply address is, is known, and written with it
        elif name.startswith(ANNOTATION_PREFIX) and name.isascii():
            self.annotations.append((Symbol(name), _wide(value)))
        else:
            return False
        return True


def _is_field(headers: Headers, name: str, value: UserPropertyValue) -> bool:
    """Return whether a user property is how another protocol writes a field, which has gone out as that field."""
    if name == PARTITION_KEY_PROPERTY:
        return headers.partition_key is not None
    if name == MESSAGE_ID_NAME:
        return headers.message_id == value
    if name == PRIORITY_NAME:
        return str(headers.priority) == str(value)
    if name == DELIVER_TO_ONE_NAME:
        return headers.deliver_to_one
    return name == TIMESTAMP_NAME and headers.timestamp_ms != 0 and str(headers.timestamp_ms) == str(value)


def _sequence(value: UserPropertyValue) -> int:
    """Return a group sequence, -1 for what is none."""
    if isinstance(value, bool) or not isinstance(value, (int, str)):
        return -1
    text = str(value)
    if not (text.isascii() and text.isdigit() and len(text) <= _UINT_DIGITS_MAX):
        return -1
    number = int(text)
    return number if number <= UINT_MAX else -1


def _wide(value: UserPropertyValue) -> AmqpValue:
    """Return a user property as it is sent: a long, as numbers are, does not hold the upper half of 64 bits."""
    return ulong(value) if isinstance(value, int) and value > LONG_MAX else value


def _map_section(code: int, pairs: list[tuple[AmqpValue, AmqpValue]]) -> bytes:
    return bytes((0x00, 0x53, code)) + encode(AmqpMap(pairs))


def _with_death(sections: bytes, dead: DeadLetter) -> bytes:
    """Return a dead message with the reasons among its annotations, as brokers of AMQP do; the bare message stays."""
    found = find_sections(sections)
    pairs: list[tuple[AmqpValue, AmqpValue]] = []
    rest_at = 0
    if found.annotations_at != NOWHERE:
        annotations, rest_at = decode(sections, found.annotations_at, len(sections))
        assert isinstance(annotations, AmqpMap), "what came in was a map"
        pairs += annotations.pairs
    for name, value in dead.properties():
        symbol = Symbol(DEATH_PREFIX + name)
        if not any(key == symbol for key, _ in pairs):  # of several queues that it went through, the first
            pairs.append((symbol, value))
    return _map_section(MESSAGE_ANNOTATIONS, pairs) + sections[rest_at:]


def _correlation(data: bytes | None) -> AmqpValue:
    """Return a correlation id: a string where the bytes are one, as most clients expect."""
    if data is None:
        return None
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return data


def _ascii_symbol(text: str | None) -> AmqpValue:
    return Symbol(text) if text is not None and text.isascii() else None


def encode_annotations(annotations: AmqpMap) -> bytes:
    """Return the annotations that a consumer may add, as they are stored; nothing when there are none."""
    pairs = [(key, value) for key, value in annotations.pairs if isinstance(key, Symbol) and _is_free(key)]
    return encode(AmqpMap(pairs)) if pairs else b""


def with_annotations(message: bytes, added: bytes) -> bytes:
    """Return a message with what consumers have noted among its annotations. The bare message stays as it is."""
    sections = find_sections(message)
    merged: dict[Symbol, AmqpValue] = {}
    if sections.annotations_at != NOWHERE:
        _merge(merged, message, sections.annotations_at)
    pos = 0
    while pos < len(added):
        pos = _merge(merged, added, pos)
    kept = AmqpMap([(key, value) for key, value in merged.items() if value is not None])
    section = bytes((0x00, 0x53, MESSAGE_ANNOTATIONS)) + encode(kept) if kept.pairs else b""
    return message[: sections.travels_at] + section + message[sections.bare_at :]


def _merge(merged: dict[Symbol, AmqpValue], data: bytes, pos: int) -> int:
    """Merge the map at `pos`; return where it ends."""
    annotations, end = decode(data, pos, len(data))
    assert isinstance(annotations, AmqpMap), "what is kept was checked when it came"
    for key, value in annotations.pairs:
        if isinstance(key, Symbol):
            merged[key] = value
    return end


def _is_free(key: Symbol) -> bool:
    return key.text.startswith(FREE_PREFIX)
