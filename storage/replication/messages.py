"""A message of the stream that replicates the log of a broker.

    u8      format version of the content: 1
    u8      kind: 0 begin, 1 epoch, 2 part, 3 record
    u64     chain: xxh3_64 of the last message before it that is not void; 0 in the first
    varint  epoch of its owner; 0 in the first
    varint  position in the epoch: 0 in its epoch message, one more in each that follows
    varint  time of the log, milliseconds since 1970
    content

    begin   u64 incarnation, text broker: the first message of a stream, and no other
    epoch   text owner, text release: whoever took over is the owner, and earlier epochs have ended
    part    a piece of a record which does not end here
    record  the rest of a record, see `storage.log.record`; of no bytes when its owner only shows that it is one

Fields are those of `storage.records.fields`. A message is void when its chain, epoch and position do not fit what is
before it: somebody wrote it who was the owner no more, or a copy of it came late. The head is the same in all versions,
so a void message of another release is not mistaken for one that cannot be read.
"""

import struct
from enum import IntEnum
from typing import Final, NamedTuple

import xxhash

from sluicegate.storage.errors import DamagedRecord, UnsupportedFormat
from sluicegate.storage.records.fields import put_text, put_varint, take_text, take_varint

MESSAGE_FORMAT: Final = 1

_HEAD: Final = struct.Struct("<BBQ")
_INCARNATION: Final = struct.Struct("<Q")


class Kind(IntEnum):
    """What a message of the stream is."""

    BEGIN = 0
    EPOCH = 1
    PART = 2
    RECORD = 3


class Message(NamedTuple):
    """A message of the stream."""

    kind: Kind
    chain: int
    epoch: int
    position: int
    time_ms: int
    content: bytes


class _Head(NamedTuple):
    version: int
    code: int  # of the kind
    chain: int
    epoch: int
    position: int
    time_ms: int
    end: int  # where the content begins


class Begin(NamedTuple):
    """The content of the first message."""

    incarnation: int
    broker: str


class Epoch(NamedTuple):
    """The content of an epoch message."""

    owner: str  # the replica
    release: str


class Place(NamedTuple):
    """What the next message has to fit: its epoch and position, and the hash of the last one that is not void."""

    epoch: int
    position: int
    chain: int

    def fits(self, message: Message) -> bool:
        """Return whether a message comes next; otherwise it is void."""
        if message.chain != self.chain:
            return False
        if message.kind is Kind.EPOCH:
            return message.epoch > self.epoch and message.position == 0
        return message.epoch == self.epoch and message.position == self.position


FIRST_PLACE: Final = Place(0, 0, 0)


def chain_of(data: bytes) -> int:
    """Return the hash by which the next message names this one."""
    return xxhash.xxh3_64_intdigest(data)


def place_after(message: Message, data: bytes) -> Place:
    """Return what has to fit after a message, of which `data` are the bytes."""
    return Place(message.epoch, message.position + 1, chain_of(data))


def place_of(data: bytes, where: str) -> Place:
    """Return the place that a part or record says it has. Raises DamagedRecord."""
    head = _head_of(data)
    if head is None:
        raise DamagedRecord(where, "its head cannot be read")
    return Place(head.epoch, head.position, head.chain)


def encode_message(kind: Kind, place: Place, time_ms: int, content: bytes) -> bytes:
    """Return the bytes of the message that comes at this place."""
    out = [_HEAD.pack(MESSAGE_FORMAT, kind, place.chain)]
    put_varint(out, place.epoch)
    put_varint(out, place.position)
    put_varint(out, time_ms)
    out.append(content)
    return b"".join(out)


def decode_message(data: bytes, place: Place, where: str) -> Message | None:
    """Return a message that comes at this place, None for a void one.

    Raises UnsupportedFormat for a message of a later release, and DamagedRecord for one that fits and cannot be read.
    """
    head = _head_of(data)
    if head is None:
        return None  # nobody who appends to the log wrote it
    kind = Kind(head.code) if head.code <= max(Kind) else None
    content = data[head.end :]
    message = Message(
        Kind.RECORD if kind is None else kind, head.chain, head.epoch, head.position, head.time_ms, content
    )
    if not place.fits(message):
        return None
    if head.version != MESSAGE_FORMAT:
        raise UnsupportedFormat(head.version, MESSAGE_FORMAT, where)
    if kind is None:
        raise DamagedRecord(where, f"it is of kind {head.code}, of which there are {len(Kind)}")
    if (kind is Kind.BEGIN) != (place == FIRST_PLACE):
        raise DamagedRecord(where, "a stream has one message of kind begin, its first one")
    return message


def _head_of(data: bytes) -> _Head | None:
    """Return the head of a message, None if it cannot be read."""
    try:
        version, code, chain = _HEAD.unpack_from(data)
        epoch, offset = take_varint(data, _HEAD.size)
        position, offset = take_varint(data, offset)
        time_ms, offset = take_varint(data, offset)
    except (IndexError, ValueError, struct.error):
        return None
    return _Head(version, code, chain, epoch, position, time_ms, offset)


def encode_begin(begin: Begin) -> bytes:
    """Return the content of the first message."""
    out = [_INCARNATION.pack(begin.incarnation)]
    put_text(out, begin.broker)
    return b"".join(out)


def decode_begin(content: bytes, where: str) -> Begin:
    """Return what the content of the first message says. Raises DamagedRecord."""
    try:
        (incarnation,) = _INCARNATION.unpack_from(content)
        broker, _ = take_text(content, _INCARNATION.size)
    except (IndexError, ValueError, struct.error) as error:
        raise DamagedRecord(where, f"its content cannot be read: {error}") from error
    return Begin(incarnation, broker)


def encode_epoch(epoch: Epoch) -> bytes:
    """Return the content of an epoch message."""
    out: list[bytes] = []
    put_text(out, epoch.owner)
    put_text(out, epoch.release)
    return b"".join(out)


def decode_epoch(content: bytes, where: str) -> Epoch:
    """Return what the content of an epoch message says. Raises DamagedRecord."""
    try:
        owner, offset = take_text(content, 0)
        release, _ = take_text(content, offset)
    except (IndexError, ValueError) as error:
        raise DamagedRecord(where, f"its content cannot be read: {error}") from error
    return Epoch(owner, release)
