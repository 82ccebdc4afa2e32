"""The positions of the sections of a message (3.2), found without decoding what is only passed on.

A message is header, delivery-annotations, message-annotations, properties, application-properties, body and footer,
each at most once and in this order; the body is one value, or any number of data or sequence sections, or nothing.
Some clients do not keep that order. Other brokers accept their messages, and this one puts the sections in order first.
"""

from operator import itemgetter
from typing import Final, final

from sluicegate.protocols.amqp.types.decoding import decode, skip
from sluicegate.protocols.amqp.types.errors import DecodeError
from sluicegate.protocols.amqp.types.values import ULONG, Scalar, Symbol

HEADER: Final = 0x70
DELIVERY_ANNOTATIONS: Final = 0x71
MESSAGE_ANNOTATIONS: Final = 0x72
PROPERTIES: Final = 0x73
APPLICATION_PROPERTIES: Final = 0x74
DATA: Final = 0x75
SEQUENCE: Final = 0x76
VALUE: Final = 0x77
FOOTER: Final = 0x78

NOWHERE: Final = -1
SECTIONS_MAX: Final = 10_000  # of one message: a body may have many, and 3 KB in each are 30 MB

_BODY: Final = (DATA, SEQUENCE, VALUE)
_REPEATABLE: Final = (DATA, SEQUENCE)

_BY_SYMBOL: Final[dict[str, int]] = {
    "amqp:header:list": HEADER,
    "amqp:delivery-annotations:map": DELIVERY_ANNOTATIONS,
    "amqp:message-annotations:map": MESSAGE_ANNOTATIONS,
    "amqp:properties:list": PROPERTIES,
    "amqp:application-properties:map": APPLICATION_PROPERTIES,
    "amqp:data:binary": DATA,
    "amqp:amqp-sequence:list": SEQUENCE,
    "amqp:amqp-value:*": VALUE,
    "amqp:footer:map": FOOTER,
}


@final
class Sections:
    """Offsets into one message. Those of values are of what follows the section's descriptor; NOWHERE: not there."""

    __slots__ = (
        "annotations_at",
        "application_at",
        "bare_at",
        "body_at",
        "body_code",
        "body_count",
        "body_value_at",
        "footer_at",
        "header_at",
        "properties_at",
        "travels_at",
    )

    def __init__(self) -> None:
        self.header_at = NOWHERE
        self.annotations_at = NOWHERE
        self.properties_at = NOWHERE
        self.application_at = NOWHERE
        self.travels_at = NOWHERE  # first byte of message-annotations, or of what comes behind: what is passed on
        self.bare_at = NOWHERE  # first byte of the bare message
        self.body_at = NOWHERE  # first byte of the body
        self.body_code = 0  # DATA, SEQUENCE or VALUE; 0: no body
        self.body_count = 0  # sections of the body
        self.body_value_at = NOWHERE  # of its first section
        self.footer_at = NOWHERE  # first byte of the footer, or the end


def sections_in_order(data: bytes) -> bytes:
    """Return the sections of a message in the standard's order. Raises DecodeError for what are no sections.

    rhea 3 writes the footer before the body, amqp10 3 the properties before the message annotations.
    """
    pieces: list[tuple[int, bytes]] = []
    start = 0
    while start < len(data):
        code, value_at = _section(data, start, len(data))
        end = skip(data, value_at, len(data))
        pieces.append((code, data[start:end]))
        _check_count(len(pieces))
        start = end
    return b"".join(piece for _, piece in sorted(pieces, key=itemgetter(0)))  # those of one body stay as they are


def find_sections(data: bytes) -> Sections:
    """Return where everything is. Raises DecodeError for what is no message of format 0."""
    found = Sections()
    pos = 0
    end = len(data)
    last = 0
    count = 0
    while pos < end:
        count += 1
        _check_count(count)
        start = pos
        code, pos = _section(data, pos, end)
        is_mixed = last in _BODY and code in _BODY and code != last
        if code < last or is_mixed or (code == last and code not in _REPEATABLE):
            raise DecodeError(f"section {code:#x} behind section {last:#x}")
        last = code
        _note(found, code, start, pos)
        pos = skip(data, pos, end)
    for_rest = end if found.footer_at == NOWHERE else found.footer_at
    found.footer_at = for_rest
    if found.body_at == NOWHERE:
        found.body_at = for_rest
    if found.bare_at == NOWHERE:
        found.bare_at = found.body_at
    if found.travels_at == NOWHERE:
        found.travels_at = found.bare_at
    return found


def _check_count(count: int) -> None:
    if count > SECTIONS_MAX:
        raise DecodeError(f"a message of more than {SECTIONS_MAX} sections")


def _section(data: bytes, pos: int, end: int) -> tuple[int, int]:
    """Return the code of the section at `pos` and the position of its value."""
    if pos + 3 <= end and data[pos] == 0x00 and data[pos + 1] == 0x53:  # as everybody writes it
        code = data[pos + 2]
        pos += 3
    else:
        if data[pos] != 0x00:
            raise DecodeError(f"constructor {data[pos]:#04x} where a message section is required")
        descriptor, pos = decode(data, pos + 1, end)
        if isinstance(descriptor, Scalar) and descriptor.kind == ULONG and isinstance(descriptor.value, int):
            code = descriptor.value
        else:
            code = _BY_SYMBOL.get(descriptor.text, 0) if isinstance(descriptor, Symbol) else 0
    if not HEADER <= code <= FOOTER:
        raise DecodeError(f"unknown message section {code:#x}")
    return code, pos


def _note(found: Sections, code: int, start: int, value_at: int) -> None:
    """Note where a section begins, and whether what is passed on begins with it."""
    if code == HEADER:
        found.header_at = value_at
        return
    if code == DELIVERY_ANNOTATIONS:  # for one hop: dropped here
        return
    if found.travels_at == NOWHERE:
        found.travels_at = start
    if code == MESSAGE_ANNOTATIONS:
        found.annotations_at = value_at
        return
    if code == FOOTER:
        found.footer_at = start
        return
    if found.bare_at == NOWHERE:
        found.bare_at = start
    if code == PROPERTIES:
        found.properties_at = value_at
    elif code == APPLICATION_PROPERTIES:
        found.application_at = value_at
    else:
        found.body_count += 1
        if found.body_at == NOWHERE:
            found.body_at = start
            found.body_code = code
            found.body_value_at = value_at
