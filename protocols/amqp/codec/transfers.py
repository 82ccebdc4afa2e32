"""The transfer performative (2.7.5), read and written field by field: one comes with every message.

The usual encodings have a fast path; everything else that is legal goes through the generic decoder, which gives the
same result more slowly.
"""

from typing import Final, final

from sluicegate.protocols.amqp.codec.delivery_states import DeliveryState, read_state
from sluicegate.protocols.amqp.codec.performatives import ABSENT
from sluicegate.protocols.amqp.types.decoding import decode_list
from sluicegate.protocols.amqp.types.encoding import ONE_BYTE
from sluicegate.protocols.amqp.types.fields import Fields

# The fields from `more` on: more, rcv-settle-mode, state, resume, aborted, batchable. Six bytes that mean nothing are
# sent with every delivery, for azure's pyamqp reads the payload from behind the eleventh field and cannot do without.
_WHOLE: Final = b"\x42\x40\x40\x40\x40\x40"
_MORE: Final = b"\x41\x40\x40\x40\x40\x40"
_SETTLED_WHOLE: Final = b"\x41" + _WHOLE  # with the field before
_UNSETTLED_WHOLE: Final = b"\x42" + _WHOLE
_SIZE_BYTES: Final = 4  # before the lead
_FIELD_COUNT: Final = b"\x0b"

UNUSUAL: Final = -2  # a form that only the generic decoder knows


@final
class Transfer:
    """One transfer frame without its payload."""

    __slots__ = (
        "aborted",
        "delivery_id",
        "handle",
        "message_format",
        "more",
        "payload_at",
        "receiver_settle_mode",
        "resume",
        "settled",
        "state",
        "tag",
    )

    def __init__(self, handle: int, payload_at: int) -> None:
        self.handle = handle
        self.payload_at = payload_at  # where the payload begins in the buffer
        self.delivery_id = ABSENT
        self.tag: bytes | None = None
        self.message_format = ABSENT
        self.settled = False
        self.more = False
        self.receiver_settle_mode = ABSENT
        self.state: DeliveryState | None = None
        self.resume = False
        self.aborted = False


def read_transfer(data: bytes, pos: int, end: int) -> Transfer:
    """Return the transfer whose list begins at `pos`; its payload follows it, up to `end`. Raises DecodeError."""
    if pos + 3 > end or data[pos] != 0xC0:
        return _read_any(data, pos, end)
    stop = pos + 2 + data[pos + 1]
    count = data[pos + 2]
    if stop > end or not 3 <= count <= 6:
        return _read_any(data, pos, end)
    cursor = pos + 3
    transfer = Transfer(0, stop)
    handle = _number_at(data, cursor, stop)
    cursor += _number_bytes(data, cursor, stop)
    delivery_id = _number_at(data, cursor, stop)
    cursor += _number_bytes(data, cursor, stop)
    if handle < 0 or delivery_id == UNUSUAL or cursor + 2 > stop:
        return _read_any(data, pos, end)
    transfer.handle = handle
    transfer.delivery_id = delivery_id
    if data[cursor] == 0xA0 and cursor + 2 + data[cursor + 1] <= stop:
        tag_at = cursor + 2
        cursor = tag_at + data[cursor + 1]
        transfer.tag = data[tag_at:cursor]
    elif data[cursor] == 0x40:
        cursor += 1
    else:
        return _read_any(data, pos, end)
    if count > 3:
        transfer.message_format = _number_at(data, cursor, stop)
        cursor += _number_bytes(data, cursor, stop)
    if count > 4:
        transfer.settled = cursor < stop and data[cursor] == 0x41
        cursor += 1
    if count > 5:
        transfer.more = cursor < stop and data[cursor] == 0x41
        cursor += 1
    # Whatever did not add up to the last byte had an unusual form somewhere, and is read anew.
    if cursor != stop or transfer.message_format == UNUSUAL or not _are_flags(data, stop - max(0, count - 4), stop):
        return _read_any(data, pos, end)
    return transfer


def _number_at(data: bytes, pos: int, stop: int) -> int:
    """Return the uint at `pos`, ABSENT for a null, UNUSUAL for anything else."""
    if pos >= stop:
        return UNUSUAL
    code = data[pos]
    if code == 0x43:
        return 0
    if code == 0x52 and pos + 1 < stop:
        return data[pos + 1]
    if code == 0x70 and pos + 4 < stop:
        return data[pos + 1] << 24 | data[pos + 2] << 16 | data[pos + 3] << 8 | data[pos + 4]
    return ABSENT if code == 0x40 else UNUSUAL


def _number_bytes(data: bytes, pos: int, stop: int) -> int:
    """Return how many bytes `_number_at` looked at."""
    if pos >= stop:
        return 1
    code = data[pos]
    return 2 if code == 0x52 else 5 if code == 0x70 else 1


def _are_flags(data: bytes, pos: int, stop: int) -> bool:
    """Return whether every byte of `[pos, stop)` is true, false or null."""
    while pos < stop:
        if not 0x40 <= data[pos] <= 0x42:
            return False
        pos += 1
    return True


def _read_any(data: bytes, pos: int, end: int) -> Transfer:
    items, stop = decode_list(data, pos, end)
    fields = Fields("transfer", items)
    transfer = Transfer(fields.uint_required(0, "handle"), stop)
    transfer.delivery_id = fields.uint(1, "delivery-id", ABSENT)
    transfer.tag = fields.binary(2, "delivery-tag")
    transfer.message_format = fields.uint(3, "message-format", ABSENT)
    transfer.settled = fields.flag(4, "settled", default=False)
    transfer.more = fields.flag(5, "more", default=False)
    transfer.receiver_settle_mode = fields.ubyte(6, "rcv-settle-mode", ABSENT)
    transfer.state = read_state(fields.value(7))
    transfer.resume = fields.flag(8, "resume", default=False)
    transfer.aborted = fields.flag(9, "aborted", default=False)
    return transfer


def transfer_lead(channel: int) -> bytes:
    """Return what every transfer of a session has between the frame's size and that of its list, made once."""
    return bytes((2, 0, channel >> 8, channel & 0xFF, 0x00, 0x53, 0x14, 0xC0))


def first_transfer(
    lead: bytes,
    handle: bytes,
    delivery_id: int,
    tag: bytes,
    message_format: int,
    *,
    settled: bool,
    more: bool,
    resume: bool = False,
    room: int,
) -> bytes:
    """Return frame head and performative of a delivery's first transfer, for a payload of `room` bytes.

    One join of what is ready made: with `bytes` of tuples this was a quarter of what relaying a message costs.
    """
    format_code = b"\x43" if message_format == 0 else _uint(message_format)
    whole = _SETTLED_WHOLE if settled else _UNSETTLED_WHOLE
    flags = whole[:1] + _MORE if more else whole
    if resume:
        flags = flags[:4] + b"\x41" + flags[5:]
    length = 8 + len(handle) + len(tag) + len(format_code) + len(flags)  # of the list's count and fields
    return b"".join(
        (
            (_SIZE_BYTES + len(lead) + 1 + length + room).to_bytes(4, "big"),
            lead,
            ONE_BYTE[length],
            _FIELD_COUNT,
            handle,
            b"\x70",
            delivery_id.to_bytes(4, "big"),
            b"\xa0",
            ONE_BYTE[len(tag)],
            tag,
            format_code,
            flags,
        )
    )


def next_transfer(lead: bytes, handle: bytes, *, more: bool, room: int) -> bytes:
    """Return frame head and performative of a delivery's further transfer."""
    body = _FIELD_COUNT + handle + b"\x40\x40\x40\x40" + (_MORE if more else _WHOLE)
    size = _SIZE_BYTES + len(lead) + 1 + len(body) + room
    return size.to_bytes(4, "big") + lead + ONE_BYTE[len(body)] + body


def handle_bytes(handle: int) -> bytes:
    """Return an encoded handle, made once for a link."""
    return _uint(handle)


def _uint(value: int) -> bytes:
    if value == 0:
        return b"\x43"
    if value <= 0xFF:
        return bytes((0x52, value))
    return b"\x70" + value.to_bytes(4, "big")
