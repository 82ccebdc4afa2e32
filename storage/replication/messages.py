"""A message of the stream that replicates the log of a broker.

    u8      feature level at which it was written, see `storage.replication.levels`
    u8      kind: 0 begin, 1 epoch, 2 part, 3 record, 4 cancel, 5 clean, 6 handed over, 7 level
    u64     chain: xxh3_64 of the last message before it that is not void; 0 in the first
    varint  epoch of its owner; 0 in the first
    varint  position in the epoch: 0 in its epoch message, one more in each that follows
    varint  time of the log, milliseconds since 1970
    content

    begin   u64 incarnation, text broker: the first message of a stream, and no other
    epoch   text owner, text release: whoever took over is the owner, and earlier epochs have ended; then, if the broker
            has two sites: text site, varint epoch of the sites
    part    a piece of a record, or of clean, which does not end here
    record  the rest of a record, see `storage.log.record`; of no bytes when its owner only shows that it is one
    cancel  of no bytes: its owner has given up the record of which there are parts before it, or none
    clean   the rest of what an owner leaves that has stopped in order: varint count of cursors; for each: varint bytes,
            see `storage.records.cursor`. It counts if it is the last message before the next epoch
    handed  text site, varint epoch of the sites: the owner's site has given the broker up; only clean follows
    level   of no bytes: the log has from here on the level that this message names

Fields are those of `storage.records.fields`. A message is void when its chain, epoch and position do not fit what is
before it: somebody wrote it who was the owner no more, or a copy of it came late. The head is the same at all levels,
so a void message of another release is not mistaken for one that cannot be read.
"""

import struct
from enum import IntEnum
from typing import Final, NamedTuple

import xxhash

from sluicegate.storage.errors import DamagedRecord
from sluicegate.storage.records.cursor import CursorRecord, decode_cursor, encode_cursor
from sluicegate.storage.records.fields import put_bytes, put_text, put_varint, take_bytes, take_text, take_varint
from sluicegate.storage.replication.levels import LEVEL, LEVEL_OLDEST, LevelTooHigh

_HEAD: Final = struct.Struct("<BBQ")
_INCARNATION: Final = struct.Struct("<Q")


class Kind(IntEnum):
    """What a message of the stream is."""

    BEGIN = 0
    EPOCH = 1
    PART = 2
    RECORD = 3
    CANCEL = 4
    CLEAN = 5
    HANDED = 6
    LEVEL = 7


_KINDS: Final = {kind.value: kind for kind in Kind}  # to compare a code with `max(Kind)` costs 2 us a message

_RECORD_KINDS: Final = frozenset({Kind.PART.value, Kind.RECORD.value})


class Message(NamedTuple):
    """A message of the stream."""

    kind: Kind
    chain: int
    epoch: int
    position: int
    time_ms: int
    content: bytes
    level: int = LEVEL_OLDEST


class _Head(NamedTuple):
    level: int
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
    site: str = ""  # of the owner; empty for a broker of one site
    site_epoch: int = 0  # one more with each promotion of a site; 0 for a broker of one site


class Handed(NamedTuple):
    """The content of the message with which a site gives the broker up."""

    site: str  # that is to have it
    site_epoch: int  # of the site that gives it up


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


def encode_message(kind: Kind, place: Place, time_ms: int, content: bytes, level: int = LEVEL_OLDEST) -> bytes:
    """Return the bytes of the message that comes at this place, in a log of a level."""
    out = [_HEAD.pack(level, kind, place.chain)]
    put_varint(out, place.epoch)
    put_varint(out, place.position)
    put_varint(out, time_ms)
    out.append(content)
    return b"".join(out)


def has_record(data: bytes) -> bool:
    """Return whether a message, if it is not void, has a record or a part of one."""
    return len(data) > 1 and data[1] in _RECORD_KINDS


def decode_message(data: bytes, place: Place, where: str, reads: int = LEVEL) -> Message | None:
    """Return a message that comes at this place, None for a void one. `reads`: the highest level that may be read.

    Raises LevelTooHigh for a message of a higher one, and DamagedRecord for one that fits and cannot be read.
    """
    head = _head_of(data)
    if head is None:
        return None  # nobody who appends to the log wrote it
    kind = _KINDS.get(head.code)
    content = data[head.end :]
    message = Message(
        Kind.RECORD if kind is None else kind, head.chain, head.epoch, head.position, head.time_ms, content, head.level
    )
    if not place.fits(message):
        return None
    if head.level > reads:
        raise LevelTooHigh(head.level, reads, where)
    if head.level < LEVEL_OLDEST:
        raise DamagedRecord(where, f"it is of level {head.level}, and the lowest is {LEVEL_OLDEST}")
    if kind is None:
        raise DamagedRecord(where, f"it is of kind {head.code}, of which there are {len(Kind)}")
    if (kind is Kind.BEGIN) != (place == FIRST_PLACE):
        raise DamagedRecord(where, "a stream has one message of kind begin, its first one")
    return message


def _head_of(data: bytes) -> _Head | None:
    """Return the head of a message, None if it cannot be read."""
    try:
        level, code, chain = _HEAD.unpack_from(data)
        epoch, offset = take_varint(data, _HEAD.size)
        position, offset = take_varint(data, offset)
        time_ms, offset = take_varint(data, offset)
    except (IndexError, ValueError, struct.error):
        return None
    return _Head(level, code, chain, epoch, position, time_ms, offset)


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
    if epoch.site:
        put_text(out, epoch.site)
        put_varint(out, epoch.site_epoch)
    return b"".join(out)


def decode_epoch(content: bytes, where: str) -> Epoch:
    """Return what the content of an epoch message says. Raises DamagedRecord."""
    try:
        owner, offset = take_text(content, 0)
        release, offset = take_text(content, offset)
        if offset == len(content):
            return Epoch(owner, release)
        site, offset = take_text(content, offset)
        site_epoch, _ = take_varint(content, offset)
    except (IndexError, ValueError) as error:
        raise DamagedRecord(where, f"its content cannot be read: {error}") from error
    return Epoch(owner, release, site, site_epoch)


def encode_clean(cursors: list[CursorRecord]) -> bytes:
    """Return the content of a clean message: the cursor of each partition, with what was delivered."""
    out: list[bytes] = []
    put_varint(out, len(cursors))
    for cursor in cursors:
        put_bytes(out, encode_cursor(cursor))
    return b"".join(out)


def decode_clean(content: bytes, where: str) -> dict[int, CursorRecord]:
    """Return the cursors of a clean message by partition. Raises DamagedRecord, UnsupportedFormat."""
    cursors: dict[int, CursorRecord] = {}
    try:
        count, offset = take_varint(content, 0)
        for _ in range(count):
            data, offset = take_bytes(content, offset)
            cursor = decode_cursor(data, where)
            cursors[cursor.partition_id] = cursor
        if offset != len(content):
            raise ValueError(f"{len(content) - offset} bytes follow its last cursor")
    except (IndexError, ValueError) as error:
        raise DamagedRecord(where, f"its content cannot be read: {error}") from error
    return cursors


def encode_handed(handed: Handed) -> bytes:
    """Return the content of the message with which a site gives the broker up."""
    out: list[bytes] = []
    put_text(out, handed.site)
    put_varint(out, handed.site_epoch)
    return b"".join(out)


def decode_handed(content: bytes, where: str) -> Handed:
    """Return what such a message says. Raises DamagedRecord."""
    try:
        site, offset = take_text(content, 0)
        site_epoch, _ = take_varint(content, offset)
    except (IndexError, ValueError) as error:
        raise DamagedRecord(where, f"its content cannot be read: {error}") from error
    return Handed(site, site_epoch)
