"""The frames of `tests/data/flow/frames.txt`, and reading any frame of the flow protocol by itself."""

import zlib
from pathlib import Path
from typing import NamedTuple

from sluicegate.protocols.flow.codec import frame as frames
from sluicegate.protocols.flow.codec.frames.cursor import CURSOR_FRAMES, CursorFrame, read_cursor_frame
from sluicegate.protocols.flow.codec.frames.deliver import Delivered, read_deliver
from sluicegate.protocols.flow.codec.frames.flow import FLOW_FRAMES, FlowFrame, read_flow_frame
from sluicegate.protocols.flow.codec.frames.link import LINK_FRAMES, LinkFrame, read_link_frame
from sluicegate.protocols.flow.codec.frames.partition import (
    Partitions,
    PartitionsAck,
    read_partitions,
    read_partitions_ack,
)
from sluicegate.protocols.flow.codec.frames.provision import PROVISION_FRAMES, ProvisionFrame, read_provision_frame
from sluicegate.protocols.flow.codec.frames.publish import PubAck, PublishesReceived, read_pub_ack, read_publish
from sluicegate.protocols.flow.codec.frames.rows import Read, Reading, RowsReceived, read_read, read_rows
from sluicegate.protocols.flow.codec.frames.session import SESSION_FRAMES, SessionFrame, read_session_frame
from sluicegate.protocols.flow.codec.frames.settle import SettleFrame, read_settle_frame
from sluicegate.protocols.flow.codec.frames.stage import STAGING_FRAMES, StagingFrame, read_staging_frame
from sluicegate.protocols.flow.codec.frames.subscription import (
    SUBSCRIPTION_FRAMES,
    SubscriptionFrame,
    read_subscription_frame,
)
from sluicegate.protocols.flow.codec.limits import FRAME_BYTES_MAX, HEAD_BYTES

DATA = Path(__file__).parents[2] / "data" / "flow"
FRAMES = DATA / "frames.txt"
COMPRESSED = DATA / "compressed.txt"
WALL_MS = 1_700_000_000_500  # when the golden messages arrive

AnyFrame = (
    SessionFrame
    | FlowFrame
    | SettleFrame
    | PubAck
    | Delivered
    | PublishesReceived
    | CursorFrame
    | StagingFrame
    | Read
    | Reading
    | RowsReceived
    | Partitions
    | PartitionsAck
    | SubscriptionFrame
    | ProvisionFrame
    | LinkFrame
)


class GoldenFrame(NamedTuple):
    """One line of the file."""

    name: str
    says: str  # the repr of the frame
    data: bytes


def golden_frames() -> list[GoldenFrame]:
    """Return all of them, in the order of the file."""
    return [GoldenFrame(name, says, bytes.fromhex(digits)) for name, says, digits in _lines(FRAMES)]


def _lines(file: Path) -> list[list[str]]:
    return [line.split(" | ") for line in file.read_text().splitlines() if not line.startswith("#")]


class CompressedFrame(NamedTuple):
    """One line of the file of compressed frames."""

    name: str
    says: str  # the name of the frame that it stands for, or of the code that it is refused with
    data: bytes


def compressed_frames() -> list[CompressedFrame]:
    """Return all of them, in the order of the file."""
    return [CompressedFrame(name, says, bytes.fromhex(digits)) for name, says, digits in _lines(COMPRESSED)]


def body_of(data: bytes) -> bytes:
    """Return the body of a whole frame."""
    return data[HEAD_BYTES + int.from_bytes(data[6:8], "big") :]


def compressed(data: bytes, body: bytes) -> bytes:
    """Return a frame with another body, compressed, whatever that saves."""
    fields = data[HEAD_BYTES : len(data) - len(body_of(data))]
    stream = len(body).to_bytes(4, "big") + zlib.compress(body)
    flow_id = int.from_bytes(data[8:HEAD_BYTES], "big")
    return frames.encode_frame(data[4], data[5] | frames.COMPRESSED, flow_id, fields, stream)


def decoded(data: bytes) -> AnyFrame:
    """Return the content of a frame. Raises PeerViolation."""
    frame = frames.cut_frame(data, 0, len(data), FRAME_BYTES_MAX)
    assert frame is not None, "a whole frame"
    assert frame.end == len(data), "one frame"
    if frame.kind in SESSION_FRAMES:
        return read_session_frame(frame, data)
    if frame.kind in FLOW_FRAMES:
        return read_flow_frame(frame, data)
    if frame.kind == frames.PUBLISH:
        return read_publish(frame, data, WALL_MS, None, {})
    if frame.kind == frames.PUB_ACK:
        return read_pub_ack(frame, data)
    if frame.kind == frames.DELIVER:
        return read_deliver(frame, data, WALL_MS)
    if frame.kind == frames.READ:
        return read_read(frame, data)
    if frame.kind == frames.ROWS:
        return read_rows(frame, data)
    if frame.kind in CURSOR_FRAMES:
        return read_cursor_frame(frame, data)
    if frame.kind in STAGING_FRAMES:
        return read_staging_frame(frame, data)
    if frame.kind in PROVISION_FRAMES:
        return read_provision_frame(frame, data)
    if frame.kind in SUBSCRIPTION_FRAMES:
        return read_subscription_frame(frame, data)
    if frame.kind in LINK_FRAMES:
        return read_link_frame(frame, data)
    if frame.kind == frames.PARTITIONS:
        return read_partitions(frame, data)
    if frame.kind == frames.PARTITIONS_ACK:
        return read_partitions_ack(frame, data)
    return read_settle_frame(frame, data)
