"""PARTITIONS and PARTITIONS_ACK: the partitions of a flow, and the acknowledgement that it has released some.

Flow: partitions. PARTITIONS: `u32 number | u32 partitions | for each: u32 partition | u32 assignment epoch | u8 state |
u32 ms`. It is the whole list, never a change to one. PARTITIONS_ACK: `u32 number`.
"""

import struct
from dataclasses import dataclass
from typing import Final, final

from sluicegate.protocols.flow.codec.codes import MALFORMED, PeerViolation
from sluicegate.protocols.flow.codec.frame import PARTITIONS, PARTITIONS_ACK, Frame, encode_frame
from sluicegate.protocols.flow.codec.limits import POSITIONS_MAX

ASSIGNED: Final = 0
DRAINING: Final = 1  # it delivers nothing any more, and goes to another flow

_HEAD: Final = struct.Struct(">II")
_EACH: Final = struct.Struct(">IIBI")
_ACK: Final = struct.Struct(">I")


@final
@dataclass(frozen=True)
class PartitionState:
    """One partition of a flow."""

    partition: int
    epoch: int  # of its assignment, higher with each owner: what to fence with elsewhere
    state: int  # ASSIGNED or DRAINING
    left_ms: int  # DRAINING: until it is taken away in any case


@final
@dataclass(frozen=True)
class Partitions:
    """All partitions that a flow has now."""

    flow_id: int
    number: int  # counts the lists of this flow
    partitions: tuple[PartitionState, ...]

    def encode(self) -> bytes:
        """Return the frame."""
        parts = [_HEAD.pack(self.number, len(self.partitions))]
        for each in self.partitions:
            parts.append(_EACH.pack(each.partition, each.epoch, each.state, each.left_ms))
        return encode_frame(PARTITIONS, 0, self.flow_id, b"", b"".join(parts))


@final
@dataclass(frozen=True)
class PartitionsAck:
    """The client has released every partition that is draining in this list, or was in an earlier one."""

    flow_id: int
    number: int

    def encode(self) -> bytes:
        """Return the frame."""
        return encode_frame(PARTITIONS_ACK, 0, self.flow_id, b"", _ACK.pack(self.number))


def read_partitions(frame: Frame, data: bytes) -> Partitions:
    """Return a PARTITIONS. Raises PeerViolation."""
    size = frame.end - frame.body_at
    if size < _HEAD.size:
        raise PeerViolation(MALFORMED, f"PARTITIONS with a body of {size} bytes; its fixed part has {_HEAD.size}")
    number, count = _HEAD.unpack_from(data, frame.body_at)
    if count > POSITIONS_MAX or size != _HEAD.size + count * _EACH.size:
        raise PeerViolation(MALFORMED, f"PARTITIONS of {count} with a body of {size} bytes; at most {POSITIONS_MAX}")
    found: list[PartitionState] = []
    for index in range(count):
        each: tuple[int, int, int, int] = _EACH.unpack_from(data, frame.body_at + _HEAD.size + index * _EACH.size)
        if each[2] not in (ASSIGNED, DRAINING):
            raise PeerViolation(MALFORMED, f"PARTITIONS with partition {each[0]} in state {each[2]}")
        found.append(PartitionState(each[0], each[1], each[2], each[3]))
    return Partitions(frame.flow_id, number, tuple(found))


def read_partitions_ack(frame: Frame, data: bytes) -> PartitionsAck:
    """Return a PARTITIONS_ACK. Raises PeerViolation."""
    if frame.end - frame.body_at != _ACK.size:
        raise PeerViolation(MALFORMED, f"PARTITIONS_ACK with a body of {frame.end - frame.body_at} bytes; it has 4")
    return PartitionsAck(frame.flow_id, int.from_bytes(data[frame.body_at : frame.end], "big"))
