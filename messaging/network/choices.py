"""The targets that a publisher's broker chose for a guaranteed message, as the message has them in a link queue.

Most messages in a link queue are for all subscribers of their topic, and say nothing. One that was shared out, to a
client by Deliver-To-One or to a member of a shared group, says so in its headers: the choice was made once in the
network, and must be the same after a restart. So does one that is for a single queue: of a queue that is being moved to
the neighbor, or a dead message for a dead message queue there.
"""

import struct
from typing import Final

from sluicegate.messaging.message.batch import MessageBatch
from sluicegate.messaging.message.headers import Headers
from sluicegate.messaging.network.interest import text_of
from sluicegate.messaging.network.link import NEVER_DELIVERED, SUBSCRIBERS, GroupKey, LinkTargets
from sluicegate.messaging.topics.syntax import Syntax, TopicError, parse_filter

_FOR_SUBSCRIBERS: Final = 0x01
_FOR_ONE: Final = 0x02
_FOR_QUEUE: Final = 0x04  # the rest is its name
_WAS_DELIVERED: Final = 0x08  # before the name: how many deliveries have failed
_LIVES: Final = 0x10  # before the name, behind that: how long it lives there
_FAILED_COUNT: Final = struct.Struct(">I")
_TTL: Final = struct.Struct(">Q")  # ms
TTL_MS_MAX: Final = 1 << 53
_GROUP: Final = struct.Struct(">BHH")  # whether its filter is in MQTT's syntax, bytes of its name and its filter


def targets_value(targets: LinkTargets) -> bytes:
    """Return targets as headers have them; empty: the subscribers."""
    if targets == SUBSCRIBERS:
        return b""
    if targets.queue:
        return _queue_value(targets)
    flags = (_FOR_SUBSCRIBERS if targets.subscribers else 0) | (_FOR_ONE if targets.deliver_to_one else 0)
    pieces = [bytes((flags,))]
    for name, topic_filter in targets.groups:
        written = text_of(topic_filter)
        assert written is not None, "the neighbor has sent the group"
        encoded, text = name.encode("utf-8"), written[0].encode("utf-8")
        pieces += [_GROUP.pack(written[1] is Syntax.MQTT, len(encoded), len(text)), encoded, text]
    return b"".join(pieces)


def _queue_value(targets: LinkTargets) -> bytes:
    flags, before = _FOR_QUEUE, b""
    if targets.failed_count != NEVER_DELIVERED:
        flags |= _WAS_DELIVERED
        before += _FAILED_COUNT.pack(targets.failed_count)
    if targets.ttl_ms:
        flags |= _LIVES
        before += _TTL.pack(targets.ttl_ms)
    return bytes((flags,)) + before + targets.queue.encode("utf-8")


def targets_in(value: bytes) -> LinkTargets:
    """Return the targets in headers. Raises ValueError."""
    if not value:
        return SUBSCRIBERS
    if value[0] & _FOR_QUEUE:
        return _queue_in(value)
    groups: list[GroupKey] = []
    at = 1
    while at < len(value):
        try:
            is_mqtt, name_bytes, filter_bytes = _GROUP.unpack_from(value, at)
        except struct.error as error:
            raise ValueError(f"targets of {len(value)} bytes: {error}") from None
        filter_at = at + _GROUP.size + name_bytes
        name, text = value[at + _GROUP.size : filter_at], value[filter_at : filter_at + filter_bytes]
        at = filter_at + filter_bytes
        if at > len(value):
            raise ValueError(f"targets that end within a group, {at - len(value)} bytes early")
        try:
            topic_filter = parse_filter(text.decode("utf-8"), Syntax.MQTT if is_mqtt else Syntax.SMF)
        except TopicError as error:
            raise ValueError(f"a shared group with a filter that does not parse: {error}") from None
        groups.append((name.decode("utf-8"), topic_filter))
    return LinkTargets(
        subscribers=value[0] & _FOR_SUBSCRIBERS != 0,
        deliver_to_one=value[0] & _FOR_ONE != 0,
        groups=tuple(groups),
    )


def _queue_in(value: bytes) -> LinkTargets:
    at, failed_count, ttl_ms = 1, NEVER_DELIVERED, 0
    try:
        if value[0] & _WAS_DELIVERED:
            failed_count = _FAILED_COUNT.unpack_from(value, at)[0]
            at += _FAILED_COUNT.size
        if value[0] & _LIVES:
            ttl_ms = _TTL.unpack_from(value, at)[0]
            at += _TTL.size
    except struct.error as error:
        raise ValueError(f"targets of {len(value)} bytes: {error}") from None
    if ttl_ms > TTL_MS_MAX:
        raise ValueError(f"targets with a time to live of {ttl_ms} ms; at most {TTL_MS_MAX} is taken")
    return for_queue(value[at:].decode("utf-8"), failed_count, ttl_ms)


def for_queue(name: str, failed_count: int = NEVER_DELIVERED, ttl_ms: int = 0) -> LinkTargets:
    """Return the targets of a message that is for one queue of the neighbor."""
    return LinkTargets(
        subscribers=False, deliver_to_one=False, groups=(), queue=name, failed_count=failed_count, ttl_ms=ttl_ms
    )


def naming(headers: Headers | None, name: str, ttl_ms: int = 0) -> Headers:
    """Return the headers of a message that is for one queue of the neighbor."""
    changed = Headers() if headers is None else headers.copy()
    changed.link_targets = targets_value(for_queue(name, ttl_ms=ttl_ms))
    return changed


def to_queue(headers: Headers | None, name: str, wall_ms: int, *, restarts: bool) -> Headers:
    """Return the headers of a message on its way to one queue of the neighbor.

    `restarts`: its time to live begins when it comes to that queue, and it does not expire in the link queue.
    """
    if not restarts or headers is None or headers.expires_at_ms == 0:
        return naming(headers, name)
    changed = naming(headers, name, max(1, headers.expires_at_ms - wall_ms))
    changed.expires_at_ms = 0
    return changed


def with_choices(
    batch: MessageBatch, choices: list[tuple[int, bytes]], needed: set[int]
) -> tuple[MessageBatch, list[int], list[int]]:
    """Return a batch with a row for each choice, which is a row and its targets, and the rows that are needed besides.

    The order published stays. Also returned are the place of each row of the batch (-1: it is not needed) and the place
    of each choice. Choices are in the order of their rows.
    """
    rows: list[int] = []
    headers: list[Headers | None] = []
    places: list[int] = []
    chosen: list[int] = []
    at = 0
    for row in range(batch.count):
        own = batch.headers_of(row)
        if row in needed:
            places.append(len(rows))
            rows.append(row)
            headers.append(own)
        else:
            places.append(-1)
        while at < len(choices) and choices[at][0] == row:
            chosen.append(len(rows))
            rows.append(row)
            changed = Headers() if own is None else own.copy()
            changed.link_targets = choices[at][1]
            headers.append(changed)
            at += 1
    return batch.select(rows).with_headers(headers), places, chosen


def has_choices(batch: MessageBatch) -> bool:
    """Return whether any message of a batch says for whom it is."""
    column = batch.headers()
    return column is not None and any(each is not None and bool(each.link_targets) for each in column)


def without_choices(batch: MessageBatch) -> MessageBatch:
    """Return a batch that has arrived without what it says of that. Times to live begin that are to begin here."""
    stripped: dict[int, Headers] = {}  # by the identity of the headers
    column: list[Headers | None] = []
    for headers in batch.headers() or []:
        if headers is None or not headers.link_targets:
            column.append(headers)
            continue
        known = stripped.get(id(headers))
        if known is None:
            known = stripped[id(headers)] = headers.copy()
            known.link_targets = b""
            ttl_ms = _ttl_in(headers.link_targets)
            if ttl_ms:
                known.expires_at_ms = batch.received_ms + ttl_ms
        column.append(known)
    return batch.with_headers(column)


def _ttl_in(value: bytes) -> int:
    """Return the time to live in headers; 0: there is none, or the targets are unreadable."""
    try:
        return targets_in(value).ttl_ms
    except ValueError:
        return 0
