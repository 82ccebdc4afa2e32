"""The bodies of LINK_INTERESTS: notices of `messaging.network.exchange`, as bytes.

Flow: links. A head of 20 bytes, `u64 number | u8 kind | u8 bucket | u8 last | u8 0 | u32 removed | u32 added`, then the
interests that end and those that begin, each `u8 kind | u8 flags | u8 priority | u8 0 | u16 share name | u16 topic
filter`, share name, topic filter. SYNCHRONISED has a u64 digest in their place.
"""

import struct
from typing import Final

from sluicegate.messaging.network.digests import BUCKETS
from sluicegate.messaging.network.exchange import BATCH_MAX, BucketPart, ChangeNotice, Notice, Synchronised
from sluicegate.messaging.network.interest import Change, Interest, InterestKind, text_of
from sluicegate.messaging.topics.syntax import Syntax, TopicError, parse_filter

CHANGE: Final = 1
BUCKET: Final = 2
SYNCHRONISED: Final = 3

SELECTS: Final = 0x01
IS_MQTT: Final = 0x02
IS_GUARANTEED: Final = 0x04

_HEAD: Final = struct.Struct(">QBBBBII")
_INTEREST: Final = struct.Struct(">BBBBHH")
_DIGEST: Final = struct.Struct(">Q")
_KINDS: Final = {int(kind): kind for kind in InterestKind}
_PRIORITY_MAX: Final = 4


def notice_body(notice: Notice) -> bytes:
    """Return the bytes of a notice."""
    if isinstance(notice, Synchronised):
        return _HEAD.pack(notice.number, SYNCHRONISED, 0, 0, 0, 0, 0) + _DIGEST.pack(notice.digest)
    if isinstance(notice, ChangeNotice):
        removed, added = notice.change.removed, notice.change.added
        head = _HEAD.pack(notice.number, CHANGE, 0, 0, 0, len(removed), len(added))
    else:
        removed, added = [], notice.interests
        head = _HEAD.pack(notice.number, BUCKET, notice.bucket, notice.is_last, 0, 0, len(added))
    return b"".join([head, *[_encoded(each) for each in removed], *[_encoded(each) for each in added]])


def notice_in(body: bytes) -> Notice:
    """Return the notice in a body. Raises ValueError."""
    try:
        return _notice_in(body)
    except struct.error as error:
        raise ValueError(f"LINK_INTERESTS of {len(body)} bytes: {error}") from None


def _notice_in(body: bytes) -> Notice:
    number, kind, bucket, is_last, _, removed_count, added_count = _HEAD.unpack_from(body)
    if kind == SYNCHRONISED:
        digest: tuple[int] = _DIGEST.unpack_from(body, _HEAD.size)
        return Synchronised(number, digest[0])
    if removed_count + added_count > BATCH_MAX:
        raise ValueError(f"LINK_INTERESTS with {removed_count + added_count} interests; at most {BATCH_MAX} are taken")
    interests: list[Interest] = []
    at = _HEAD.size
    for _ in range(removed_count + added_count):
        at = _read(body, at, interests)
    if at != len(body):
        raise ValueError(f"LINK_INTERESTS: {len(body) - at} bytes behind its last interest")
    if kind == CHANGE:
        return ChangeNotice(number, Change(interests[removed_count:], interests[:removed_count]))
    if kind != BUCKET or removed_count:
        raise ValueError(f"LINK_INTERESTS of kind {kind} with {removed_count} interests that end")
    assert bucket < BUCKETS, "a byte"
    return BucketPart(number, bucket, interests, is_last != 0)


def interest_value(interest: Interest) -> bytes:
    """Return the bytes of one interest, as a row of the store has them."""
    return _encoded(interest)


def interest_in(value: bytes) -> Interest:
    """Return the interest in a row of the store. Raises ValueError."""
    found: list[Interest] = []
    try:
        end = _read(value, 0, found)
    except struct.error as error:
        raise ValueError(f"an interest of {len(value)} bytes: {error}") from None
    if end != len(value):
        raise ValueError(f"{len(value) - end} bytes behind an interest")
    return found[0]


def _encoded(interest: Interest) -> bytes:
    group, topic_filter = interest.group.encode("utf-8"), interest.topic_filter.encode("utf-8")
    flags = SELECTS if interest.selects else 0
    if interest.syntax is Syntax.MQTT:
        flags |= IS_MQTT
    if interest.is_guaranteed:
        flags |= IS_GUARANTEED
    head = _INTEREST.pack(interest.kind, flags, interest.priority, 0, len(group), len(topic_filter))
    return head + group + topic_filter


def _read(body: bytes, at: int, interests: list[Interest]) -> int:
    """Append the interest at a place; return the place behind it."""
    head: tuple[int, int, int, int, int, int] = _INTEREST.unpack_from(body, at)
    kind, flags, priority, _, group_bytes, filter_bytes = head
    known = _KINDS.get(kind)
    if known is None or priority > _PRIORITY_MAX:
        raise ValueError(f"LINK_INTERESTS: an interest of kind {kind} with priority {priority}")
    group_at = at + _INTEREST.size
    filter_at = group_at + group_bytes
    end = filter_at + filter_bytes
    if end > len(body):
        raise ValueError(f"LINK_INTERESTS ends within an interest, {end - len(body)} bytes early")
    syntax = Syntax.MQTT if flags & IS_MQTT else Syntax.SMF
    group, topic_filter = body[group_at:filter_at].decode("utf-8"), body[filter_at:end].decode("utf-8")
    if known != InterestKind.SUBSCRIBERS:
        _check_form(known, topic_filter, syntax, priority)
    selects, is_guaranteed = flags & SELECTS != 0, flags & IS_GUARANTEED != 0
    interests.append(Interest(known, topic_filter, syntax, group, priority, selects, is_guaranteed))
    return end


def _check_form(kind: InterestKind, topic_filter: str, syntax: Syntax, priority: int) -> None:
    """Check that a group or a queue has one form only: in two forms it would end with the first. Raises ValueError."""
    if priority:
        raise ValueError(f"LINK_INTERESTS: {kind.name} {topic_filter!r:.80} with priority {priority}; it has none")
    if kind == InterestKind.QUEUE:
        return
    try:
        written = text_of(parse_filter(topic_filter, syntax))
    except TopicError:
        return  # no broker of this release sends it; it is held, and not used
    if written != (topic_filter, syntax):
        raise ValueError(f"LINK_INTERESTS: the filter {topic_filter!r:.80} of a group is not in its shortest form")
