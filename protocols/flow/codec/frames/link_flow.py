"""LINK_FLOW and LINK_DELIVER: consumers of one broker at queues of the other.

Flow: links. LINK_FLOW has a note of either end, whose body is read elsewhere (`protocols.network.queues.notes`).
LINK_DELIVER has messages of one partition with consecutive sequences, for one consumer. Those for a browser are copies,
without an epoch.
"""

import struct
from typing import Final, final

from sluicegate.protocols.flow.codec.codes import MALFORMED, PeerViolation
from sluicegate.protocols.flow.codec.frame import LINK_DELIVER, LINK_FLOW, Frame, encode_frame, frame_head

SERVES_CONSUMERS: Final = "consumers"  # the feature of those that know these frames
ANSWERS: Final = "questions"  # the feature of those that answer for their queues
MOVES: Final = "moves"  # the feature of those that queues can be moved to and from
HOLDS_FOR_CLIENTS: Final = "client moves"  # the feature of those that hold the topics of clients' queues that move
ACTS: Final = "actions"  # the feature of those that do what operators of the other broker ask for
SERVES_READERS: Final = "readers"  # the feature of those that serve range reads and cursors

# Flags of LINK_DELIVER.
REDELIVERED: Final = 0x01  # the messages may have been delivered before
FIRST_OF_GROUP: Final = 0x02  # the first is the first of its message group for this consumer
IN_FLIGHT: Final = 0x04  # a consumer holds the messages, of which these are copies
OF_READER: Final = 0x08  # the messages are a part of a range, and in place of a consumer stands the number of the read

_DELIVER: Final = struct.Struct(">BBHIQQQQI")
ANNOTATION_BYTES_MAX: Final = 65_535


@final
class LinkFlow:
    """A note about one flow."""

    __slots__ = ("batch", "flow_id", "sent_ms")

    def __init__(self, flow_id: int, body: bytes) -> None:
        self.flow_id = flow_id
        self.batch = body  # under the name that other frames have for what is large: they wait in one line
        self.sent_ms = 0  # not used

    def __repr__(self) -> str:
        return f"LinkFlow(flow {self.flow_id}, {self.batch!r})"

    def encode(self) -> bytes:
        """Return the frame."""
        return encode_frame(LINK_FLOW, 0, self.flow_id, b"", self.batch)

    def write(self, out: list[bytes]) -> None:
        """Append the frame."""
        out.append(self.encode())


@final
class LinkDeliver:
    """Messages for one consumer."""

    __slots__ = (
        *("annotation", "batch", "consumer", "delivery_count", "epoch", "first", "flags", "flow_id", "partition"),
        "sent_ms",
    )

    def __init__(
        self,
        flow_id: int,
        consumer: int,
        partition: int,
        flags: int,
        delivery_count: int,
        epoch: int,
        first: int,
        sent_ms: int,
        annotation: bytes,
        batch: bytes,
    ) -> None:
        self.flow_id = flow_id
        self.consumer = consumer  # number that the consumer's broker gave to the flow
        self.partition = partition
        self.flags = flags
        self.delivery_count = delivery_count
        self.epoch = epoch  # of the assignment, which settlements name
        self.first = first  # sequence of the first message
        self.sent_ms = sent_ms  # on the sender's wall clock, by which the times in the messages are to be read
        self.annotation = annotation  # of earlier consumers, in their protocol's format
        self.batch = batch  # as it is at rest

    def __repr__(self) -> str:
        return (
            f"LinkDeliver(flow {self.flow_id}, consumer {self.consumer}, partition {self.partition},"
            f" flags {self.flags}, count {self.delivery_count}, epoch {self.epoch}, from {self.first},"
            f" sent {self.sent_ms}, {self.annotation!r}, {self.batch!r})"
        )

    def encode(self) -> bytes:
        """Return the frame."""
        out: list[bytes] = []
        self.write(out)
        return b"".join(out)

    def write(self, out: list[bytes]) -> None:
        """Append the frame, in pieces."""
        head = _DELIVER.pack(
            self.flags,
            0,
            self.partition,
            self.delivery_count,
            self.consumer,
            self.sent_ms,
            self.epoch,
            self.first,
            len(self.annotation),
        )
        body_bytes = len(head) + len(self.annotation) + len(self.batch)
        out.append(frame_head(LINK_DELIVER, 0, self.flow_id, 0, body_bytes) + head + self.annotation)
        out.append(self.batch)


def read_deliver(frame: Frame, data: bytes) -> LinkDeliver:
    """Return a LINK_DELIVER. Raises PeerViolation."""
    at = frame.body_at
    if frame.end < at + _DELIVER.size:
        text = f"LINK_DELIVER with a body of {frame.end - at} bytes; its fixed part has {_DELIVER.size}"
        raise PeerViolation(MALFORMED, text)
    flags, _, partition, count, consumer, sent_ms, epoch, first, annotation_bytes = _DELIVER.unpack_from(data, at)
    at += _DELIVER.size
    if at + annotation_bytes > frame.end or annotation_bytes > ANNOTATION_BYTES_MAX:
        raise PeerViolation(MALFORMED, f"LINK_DELIVER with an annotation of {annotation_bytes} bytes")
    batch_at = at + annotation_bytes
    annotation, batch = data[at:batch_at], data[batch_at : frame.end]
    return LinkDeliver(frame.flow_id, consumer, partition, flags, count, epoch, first, sent_ms, annotation, batch)
