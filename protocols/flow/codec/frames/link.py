"""LINK and the frames behind it: a connection between two brokers of one network.

Flow: links. LINK is a request of the broker that connects. Its answer makes the connection a link: from then on both
ends send the same frames, each about one message VPN, whose number is the flow id. The bodies of LINK_INTERESTS,
LINK_RETAINED and LINK_CLIENTS, and the messages in LINK_MESSAGES and LINK_STORE, are read elsewhere
(`protocols.network`): clients need none of it.

LINK_STORE has guaranteed messages, with the sequences of the sender's link queue. It may come again after a break, with
other messages beside it or in other pieces; the receiver knows by the sequences what it has. LINK_STORED, the answer,
says what will not be needed again: it is stored for its receivers, or nobody wants it.

LINK_RETAINED is about retained messages. It is sent if both LINK and its answer have the feature `retained`.
LINK_CLIENTS is about MQTT clients, with the feature `clients`.
"""

import struct
from dataclasses import dataclass
from typing import Final, TypeAlias, final

from sluicegate.protocols.flow.codec import fields as f
from sluicegate.protocols.flow.codec.codes import MALFORMED, LocalMisuse, PeerViolation
from sluicegate.protocols.flow.codec.fields import FieldReader, FieldWriter
from sluicegate.protocols.flow.codec.frame import (
    LINK,
    LINK_ACK,
    LINK_CLIENTS,
    LINK_DELIVER,
    LINK_DIGESTS,
    LINK_FLOW,
    LINK_INTERESTS,
    LINK_MESSAGES,
    LINK_NEIGHBORS,
    LINK_RETAINED,
    LINK_STORE,
    LINK_STORED,
    NAMES,
    OF_LINKS,
    RESPONSE,
    SESSION,
    Frame,
    encode_frame,
    frame_head,
)
from sluicegate.protocols.flow.codec.frames.link_flow import LinkDeliver, LinkFlow, read_deliver
from sluicegate.protocols.flow.codec.limits import (
    LINK_NEIGHBORS_MAX,
    LINK_VPNS_MAX,
    NAME_BYTES_MAX,
    RANGES_MAX,
    TOPIC_FILTER_BYTES_MAX,
)

LINK_VERSION: Final = 1  # of the frames in this module
DIGESTS_COUNT: Final = 256
TAKES_PACKETS: Final = "mqtt-packets"  # the feature of those that read direct messages as MQTT packets, too
TELLS_NEIGHBORS: Final = "neighbors"  # the feature of those that know LINK_NEIGHBORS
RETAINED: Final = "retained"  # a feature: LINK_RETAINED
TELLS_CLIENTS: Final = "clients"  # the feature of those that know LINK_CLIENTS
WIDE_WINDOW: Final = "wide-window"  # the feature of those that take 32,768 guaranteed messages before they answer

# Targets of LINK_MESSAGES.
SUBSCRIBERS: Final = 0x01  # clients and queues that subscribe to the topics
DELIVER_TO_ONE: Final = 0x02  # one client, for messages that ask for it

_NUMBER: Final = struct.Struct(">Q")
_U16: Final = struct.Struct(">H")
_MESSAGES: Final = struct.Struct(">BBHQ")
_GROUP: Final = struct.Struct(">BH")
_STORE: Final = struct.Struct(">IQQQQ")
_RANGE: Final = struct.Struct(">QQ")
_REPEATED: Final = 0x01  # flag of LINK_STORE

LinkGroup = tuple[bool, str, str]  # whether its filter is in MQTT's syntax, share name, topic filter


@final
@dataclass(frozen=True)
class Link:
    """A broker presents itself: as a request, or as the answer, which has the message VPNs that both ends link."""

    request_id: int
    broker: str
    incarnation: int  # of its spool: a broker that lost it is another one
    network: str
    versions: tuple[int, ...]  # of links: those it speaks; in an answer the one in force
    dead_time_ms: int  # the sender gives the link up when it has heard nothing for so long
    features: tuple[str, ...]
    vpns: tuple[tuple[str, str], ...]  # name at the sender, name at the receiver; numbered from 1 on in an answer
    is_response: bool

    def encode(self) -> bytes:
        """Return the frame."""
        out = FieldWriter()
        out.number(f.REQUEST_ID, self.request_id, 4)
        out.text(f.BROKER, self.broker)
        out.number(f.INCARNATION, self.incarnation, 8)
        out.text(f.NETWORK, self.network)
        for version in self.versions:
            out.number(f.LINK_VERSION, version, 2)
        out.number(f.DEAD_TIME_MS, self.dead_time_ms, 4)
        for feature in self.features:
            out.text(f.FEATURE, feature)
        body = b"".join([_sized(name) for pair in self.vpns for name in pair])
        return encode_frame(LINK, RESPONSE if self.is_response else 0, SESSION, out.encoded(), body)


@final
@dataclass(frozen=True)
class LinkDigests:
    """What the sender knows of the receiver's interests: the digest of each bucket; none: it knows nothing."""

    flow_id: int
    digests: tuple[int, ...]

    def encode(self) -> bytes:
        """Return the frame."""
        body = b"".join([_NUMBER.pack(each) for each in self.digests])
        return encode_frame(LINK_DIGESTS, 0, self.flow_id, b"", body)


@final
@dataclass(frozen=True)
class LinkInterests:
    """A change of the sender's interests, as bytes."""

    flow_id: int
    body: bytes

    def encode(self) -> bytes:
        """Return the frame."""
        return encode_frame(LINK_INTERESTS, 0, self.flow_id, b"", self.body)


@final
@dataclass(frozen=True)
class LinkRetained:
    """A part of the exchange of retained messages, as bytes."""

    flow_id: int
    body: bytes

    def encode(self) -> bytes:
        """Return the frame."""
        return encode_frame(LINK_RETAINED, 0, self.flow_id, b"", self.body)


@final
@dataclass(frozen=True)
class LinkClients:
    """MQTT clients that have connected to the sender, as bytes."""

    flow_id: int
    body: bytes

    def encode(self) -> bytes:
        """Return the frame."""
        return encode_frame(LINK_CLIENTS, 0, self.flow_id, b"", self.body)


@final
@dataclass(frozen=True)
class LinkAck:
    """Changes up to this number are in force at the sender."""

    flow_id: int
    number: int

    def encode(self) -> bytes:
        """Return the frame."""
        return encode_frame(LINK_ACK, 0, self.flow_id, b"", _NUMBER.pack(self.number))


@final
class LinkMessages:
    """Direct messages, and for whom the publisher's broker has chosen them."""

    __slots__ = ("batch", "batch_at", "batch_end", "flow_id", "groups", "rest", "sent_ms", "targets")

    def __init__(
        self,
        flow_id: int,
        targets: int,
        sent_ms: int,
        groups: tuple[LinkGroup, ...],
        batch: bytes,
        rest: bytes = b"",
        *,
        batch_at: int = 0,
        batch_end: int = -1,
    ) -> None:
        """`batch_at` and `batch_end` say where the messages are in `batch`, if they are not all of it."""
        self.flow_id = flow_id
        self.targets = targets
        self.sent_ms = sent_ms  # on the sender's wall clock, by which the times in the messages are to be read
        self.groups = groups  # one member of each gets the messages
        self.batch = batch  # as it is at rest, or packets; of what was read, all that was read with it: no copy is made
        self.batch_at = batch_at
        self.batch_end = len(batch) if batch_end < 0 else batch_end
        self.rest = rest  # what is written behind it, so that large data are not copied. What was read has none

    def __repr__(self) -> str:
        groups = f", groups {list(self.groups)}" if self.groups else ""
        batch = self.batch[self.batch_at : self.batch_end]
        return f"LinkMessages(flow {self.flow_id}, targets {self.targets}, sent {self.sent_ms}{groups}, {batch!r})"

    def encode(self) -> bytes:
        """Return the frame."""
        out: list[bytes] = []
        self.write(out)
        return b"".join(out)

    def write(self, out: list[bytes]) -> None:
        """Append the frame, in pieces."""
        fields = b""
        if self.groups:
            writer = FieldWriter()
            for is_mqtt, name, topic_filter in self.groups:
                encoded = name.encode("utf-8")
                writer.data(f.LINK_GROUP, _GROUP.pack(is_mqtt, len(encoded)) + encoded + topic_filter.encode("utf-8"))
            fields = writer.encoded()
        head = _MESSAGES.pack(self.targets, 0, 0, self.sent_ms)
        batch = self.batch[self.batch_at : self.batch_end]
        body_bytes = len(head) + len(batch) + len(self.rest)
        frame = frame_head(LINK_MESSAGES, 0, self.flow_id, len(fields), body_bytes)
        out.append(b"".join((frame, fields, head, batch)) if self.rest else b"".join((frame, fields, head)))
        out.append(self.rest or batch)


@final
class LinkStore:
    """Messages with consecutive sequences, in the order of the queue."""

    __slots__ = ("batch", "batch_at", "batch_end", "first", "floor", "flow_id", "is_repeated", "lineage", "sent_ms")

    def __init__(
        self,
        flow_id: int,
        sent_ms: int,
        lineage: int,
        floor: int,
        first: int,
        batch: bytes,
        is_repeated: bool,
        *,
        batch_at: int = 0,
        batch_end: int = -1,
    ) -> None:
        """`batch_at` and `batch_end` say where the messages are in `batch`, if they are not all of it."""
        self.flow_id = flow_id
        self.sent_ms = sent_ms  # on the sender's wall clock, by which the times in the messages are to be read
        self.lineage = lineage  # incarnation of the sender in which the sequences were given
        self.floor = floor  # up to here everything is settled at the sender, and is never sent again
        self.first = first  # sequence of the first message
        self.batch = batch  # as it is at rest; of what was read, all that was read with it: no copy is made
        self.batch_at = batch_at
        self.batch_end = len(batch) if batch_end < 0 else batch_end
        self.is_repeated = is_repeated  # some of them may have been sent before

    def __repr__(self) -> str:
        repeated = ", repeated" if self.is_repeated else ""
        batch = self.batch[self.batch_at : self.batch_end]
        return (
            f"LinkStore(flow {self.flow_id}, sent {self.sent_ms}, lineage {self.lineage:#x}, floor {self.floor},"
            f" from {self.first}{repeated}, {batch!r})"
        )

    def encode(self) -> bytes:
        """Return the frame."""
        out: list[bytes] = []
        self.write(out)
        return b"".join(out)

    def write(self, out: list[bytes]) -> None:
        """Append the frame, in pieces."""
        head = _STORE.pack(_REPEATED if self.is_repeated else 0, self.sent_ms, self.lineage, self.floor, self.first)
        batch = self.batch[self.batch_at : self.batch_end]  # the same bytes, if that is all
        out.append(frame_head(LINK_STORE, 0, self.flow_id, 0, len(head) + len(batch)) + head)
        out.append(batch)


@final
class LinkStored:
    """Half-open ranges of sequences that the sender of LINK_STORE may settle."""

    __slots__ = ("flow_id", "ranges")

    def __init__(self, flow_id: int, ranges: list[tuple[int, int]]) -> None:
        self.flow_id = flow_id
        self.ranges = ranges

    def __repr__(self) -> str:
        return f"LinkStored(flow {self.flow_id}, {self.ranges})"

    def encode(self) -> bytes:
        """Return the frame."""
        body = b"".join([_RANGE.pack(first, end) for first, end in self.ranges])
        return encode_frame(LINK_STORED, 0, self.flow_id, b"", body)


@final
@dataclass(frozen=True)
class LinkNeighbors:
    """The brokers to which the sender has a link that is up in this message VPN, the receiver among them."""

    flow_id: int
    names: tuple[str, ...]

    def encode(self) -> bytes:
        """Return the frame."""
        return encode_frame(LINK_NEIGHBORS, 0, self.flow_id, b"", b"".join([_sized(name) for name in self.names]))


# Of one message VPN, once LINK is answered.
VpnFrame: TypeAlias = (
    LinkDigests
    | LinkInterests
    | LinkAck
    | LinkMessages
    | LinkStore
    | LinkStored
    | LinkNeighbors
    | LinkRetained
    | LinkFlow
    | LinkDeliver
    | LinkClients
)
VPN_FRAMES: Final = (  # the same, for isinstance; what comes most often is first
    *(LinkMessages, LinkStore, LinkStored, LinkInterests, LinkAck, LinkDigests, LinkNeighbors),
    *(LinkRetained, LinkFlow, LinkDeliver, LinkClients),
)
LinkFrame: TypeAlias = Link | VpnFrame

LINK_FRAMES: Final = frozenset((LINK, *OF_LINKS))


def read_link_frame(frame: Frame, data: bytes) -> LinkFrame:
    """Return a frame whose type is one of LINK_FRAMES. Raises PeerViolation."""
    kind = frame.kind
    if kind == LINK_MESSAGES:
        return _read_messages(frame, data)
    if kind == LINK:
        return _read_link(frame, data)
    if frame.fields_at != frame.body_at:
        raise PeerViolation(MALFORMED, f"{NAMES[kind]} with fields; it has none")
    if kind == LINK_STORE:
        return _read_store(frame, data)
    if kind == LINK_STORED:
        return _read_stored(frame, data)
    if kind == LINK_DELIVER:
        return read_deliver(frame, data)
    if kind == LINK_NEIGHBORS:
        names = _names("LINK_NEIGHBORS", "the name of a broker", frame, data)
        if len(names) > LINK_NEIGHBORS_MAX:
            raise PeerViolation(
                MALFORMED, f"LINK_NEIGHBORS with {len(names)} names; it has {LINK_NEIGHBORS_MAX} at most"
            )
        return LinkNeighbors(frame.flow_id, tuple(names))
    body = data[frame.body_at : frame.end]
    if kind == LINK_FLOW:
        return LinkFlow(frame.flow_id, body)
    if kind == LINK_INTERESTS:
        return LinkInterests(frame.flow_id, body)
    if kind == LINK_RETAINED:
        return LinkRetained(frame.flow_id, body)
    if kind == LINK_CLIENTS:
        return LinkClients(frame.flow_id, body)
    if kind == LINK_ACK:
        if len(body) != _NUMBER.size:
            raise PeerViolation(MALFORMED, f"LINK_ACK with a body of {len(body)} bytes where 8 are required")
        return LinkAck(frame.flow_id, int.from_bytes(body, "big"))
    if len(body) not in (0, DIGESTS_COUNT * _NUMBER.size):
        text = f"LINK_DIGESTS with a body of {len(body)} bytes; it has none, or {DIGESTS_COUNT} digests of 8"
        raise PeerViolation(MALFORMED, text)
    digests = [int.from_bytes(body[at : at + 8], "big") for at in range(0, len(body), 8)]
    return LinkDigests(frame.flow_id, tuple(digests))


def _read_link(frame: Frame, data: bytes) -> Link:
    reader = FieldReader("LINK", data, frame.fields_at, frame.body_at)
    names = _names("LINK", "the name of a message VPN", frame, data)
    if len(names) % 2 or len(names) > 2 * LINK_VPNS_MAX:
        raise PeerViolation(MALFORMED, f"LINK with {len(names)} names; each message VPN has two, of {LINK_VPNS_MAX}")
    return Link(
        reader.number_required(f.REQUEST_ID, 4),
        reader.text(f.BROKER, NAME_BYTES_MAX),
        reader.number_required(f.INCARNATION, 8),
        reader.text(f.NETWORK, NAME_BYTES_MAX),
        tuple([int.from_bytes(each, "big") for each in reader.all_data(f.LINK_VERSION)]),
        reader.number_required(f.DEAD_TIME_MS, 4),
        reader.texts(f.FEATURE, NAME_BYTES_MAX),
        tuple([(names[at], names[at + 1]) for at in range(0, len(names), 2)]),
        frame.flags & RESPONSE != 0,
    )


def _read_messages(frame: Frame, data: bytes) -> LinkMessages:
    at = frame.body_at
    if frame.end < at + _MESSAGES.size:
        raise PeerViolation(MALFORMED, f"LINK_MESSAGES with a body of {frame.end - at} bytes; its fixed part has 12")
    targets, _, _, sent_ms = _MESSAGES.unpack_from(data, at)
    groups: tuple[LinkGroup, ...] = ()
    if frame.fields_at != at:
        reader = FieldReader("LINK_MESSAGES", data, frame.fields_at, at)
        groups = tuple([_read_group(each) for each in reader.all_data(f.LINK_GROUP)])
    return LinkMessages(
        frame.flow_id, targets, sent_ms, groups, data, batch_at=at + _MESSAGES.size, batch_end=frame.end
    )


def _read_store(frame: Frame, data: bytes) -> LinkStore:
    at = frame.body_at
    if frame.end < at + _STORE.size:
        raise PeerViolation(
            MALFORMED, f"LINK_STORE with a body of {frame.end - at} bytes; its fixed part has {_STORE.size}"
        )
    flags, sent_ms, lineage, floor, first = _STORE.unpack_from(data, at)
    if first <= floor:
        raise PeerViolation(MALFORMED, f"LINK_STORE from sequence {first}, with the floor at {floor}")
    is_repeated = flags & _REPEATED != 0
    batch_at = at + _STORE.size
    return LinkStore(
        frame.flow_id, sent_ms, lineage, floor, first, data, is_repeated, batch_at=batch_at, batch_end=frame.end
    )


def _read_stored(frame: Frame, data: bytes) -> LinkStored:
    size = frame.end - frame.body_at
    if size == 0 or size % _RANGE.size or size > RANGES_MAX * _RANGE.size:
        text = f"LINK_STORED with a body of {size} bytes; it has 1 to {RANGES_MAX} ranges of {_RANGE.size}"
        raise PeerViolation(MALFORMED, text)
    ranges: list[tuple[int, int]] = []
    for at in range(frame.body_at, frame.end, _RANGE.size):
        first, end = _RANGE.unpack_from(data, at)
        if first >= end:
            raise PeerViolation(MALFORMED, f"LINK_STORED with the sequences {first} to {end}")
        ranges.append((first, end))
    return LinkStored(frame.flow_id, ranges)


def _read_group(data: bytes) -> LinkGroup:
    if len(data) < _GROUP.size:
        raise PeerViolation(MALFORMED, f"LINK_MESSAGES: a group of {len(data)} bytes")
    syntax, name_bytes = _GROUP.unpack_from(data)
    filter_at = _GROUP.size + name_bytes
    if syntax > 1 or filter_at > len(data) or len(data) - filter_at > TOPIC_FILTER_BYTES_MAX:
        raise PeerViolation(MALFORMED, f"LINK_MESSAGES: a group of syntax {syntax} with a name of {name_bytes} bytes")
    return (
        syntax == 1,
        _text("LINK_MESSAGES", data[_GROUP.size : filter_at]),
        _text("LINK_MESSAGES", data[filter_at:]),
    )


def _names(frame_name: str, what: str, frame: Frame, data: bytes) -> list[str]:
    """Return the names in a body, each with its length before it."""
    names: list[str] = []
    at = frame.body_at
    while at < frame.end:
        if at + 2 > frame.end:
            raise PeerViolation(MALFORMED, f"{frame_name}: one byte behind its last name")
        end = at + 2 + (data[at] << 8 | data[at + 1])
        if end > frame.end or end - at - 2 > NAME_BYTES_MAX:
            raise PeerViolation(MALFORMED, f"{frame_name}: {what} has {end - at - 2} bytes")
        names.append(_text(frame_name, data[at + 2 : end]))
        at = end
    return names


def _text(frame_name: str, data: bytes) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        raise PeerViolation(MALFORMED, f"{frame_name}: a name that is not UTF-8") from None


def _sized(name: str) -> bytes:
    encoded = name.encode("utf-8")
    if len(encoded) > NAME_BYTES_MAX:
        raise LocalMisuse(f"the name {name!r:.40} has {len(encoded)} bytes; at most {NAME_BYTES_MAX} fit")
    return _U16.pack(len(encoded)) + encoded
