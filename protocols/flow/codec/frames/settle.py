"""CREDIT, SETTLE and SETTLED: a consumer's credit and its settlements. Also PING and PONG.

Flow: consuming. Credit and settlement are independent. All numbers are absolute, so repeating a frame changes nothing.
"""

import struct
from dataclasses import dataclass
from typing import Final, TypeAlias, final

from sluicegate.messaging.message.outcomes import ACCEPTED, FAILED, REJECTED, RELEASED
from sluicegate.protocols.flow.codec.codes import MALFORMED, PeerViolation
from sluicegate.protocols.flow.codec.frame import (
    CREDIT,
    NAMES,
    PING,
    PONG,
    RESPONSE,
    SESSION,
    SETTLE,
    SETTLED,
    Frame,
    encode_frame,
)
from sluicegate.protocols.flow.codec.limits import RANGES_MAX

# Outcomes on the wire. The first four are the codes of messaging.message.outcomes, fixed here for good.
OUTCOME_ACCEPTED: Final = 0
OUTCOME_RELEASED: Final = 1
OUTCOME_FAILED: Final = 2
OUTCOME_REJECTED: Final = 3
OUTCOME_EXTEND: Final = 4  # not settled yet: begin the time to settle anew

OUTCOMES_MAX: Final = OUTCOME_EXTEND

assert (OUTCOME_ACCEPTED, OUTCOME_RELEASED, OUTCOME_FAILED, OUTCOME_REJECTED) == (ACCEPTED, RELEASED, FAILED, REJECTED)

RECALL: Final = 0x01  # of CREDIT: the limit may fall; the response has the new limit

_CREDIT: Final = struct.Struct(">QB")
_SETTLE: Final = struct.Struct(">QH")
_OUTCOME: Final = struct.Struct(">QQB")
_RANGE: Final = struct.Struct(">QQ")
_COUNT: Final = struct.Struct(">H")
_NUMBER: Final = struct.Struct(">Q")


@final
@dataclass(frozen=True)
class Credit:
    """The highest delivery id that may be sent on a flow; as an answer, the one that is in force."""

    flow_id: int
    delivery_id_max: int
    is_recall: bool
    is_response: bool

    def encode(self) -> bytes:
        """Return the frame."""
        body = _CREDIT.pack(self.delivery_id_max, RECALL if self.is_recall else 0)
        return encode_frame(CREDIT, RESPONSE if self.is_response else 0, self.flow_id, b"", body)


@final
@dataclass(frozen=True)
class Settle:
    """Outcomes of deliveries."""

    flow_id: int
    accepted_through: int  # everything held up to here is accepted; 0: nothing by this
    outcomes: tuple[tuple[int, int, int], ...]  # first and last delivery id, both included; outcome

    def encode(self) -> bytes:
        """Return the frame."""
        parts = [_SETTLE.pack(self.accepted_through, len(self.outcomes))]
        parts += [_OUTCOME.pack(*each) for each in self.outcomes]
        return encode_frame(SETTLE, 0, self.flow_id, b"", b"".join(parts))


@final
@dataclass(frozen=True)
class Settled:
    """Deliveries that a SETTLE named and the flow does not hold: it changed nothing for them."""

    flow_id: int
    not_held: tuple[tuple[int, int], ...]  # first and last delivery id, both included

    def encode(self) -> bytes:
        """Return the frame."""
        parts = [_COUNT.pack(len(self.not_held))]
        parts += [_RANGE.pack(*each) for each in self.not_held]
        return encode_frame(SETTLED, 0, self.flow_id, b"", b"".join(parts))


@final
@dataclass(frozen=True)
class Ping:
    """A sign of life that wants an answer, or that answer."""

    number: int
    is_pong: bool

    def encode(self) -> bytes:
        """Return the frame."""
        return encode_frame(PONG if self.is_pong else PING, 0, SESSION, b"", _NUMBER.pack(self.number))


SettleFrame: TypeAlias = Credit | Settle | Settled | Ping


def read_settle_frame(frame: Frame, data: bytes) -> SettleFrame:
    """Return a frame whose type is CREDIT, SETTLE, SETTLED, PING or PONG. Raises PeerViolation."""
    kind = frame.kind
    at = frame.body_at
    if kind == SETTLE:
        return _read_settle(frame, data, at)
    if kind == CREDIT:
        _check_size(frame, _CREDIT.size)
        delivery_id_max, flags = _CREDIT.unpack_from(data, at)
        if flags & ~RECALL:
            raise PeerViolation(MALFORMED, f"CREDIT with flags {flags:#04x}; known are {RECALL:#04x}")
        return Credit(frame.flow_id, delivery_id_max, flags != 0, frame.flags & RESPONSE != 0)
    if kind == SETTLED:
        return _read_settled(frame, data, at)
    _check_size(frame, _NUMBER.size)
    return Ping(int.from_bytes(data[at : frame.end], "big"), kind == PONG)


def _read_settle(frame: Frame, data: bytes, at: int) -> Settle:
    if frame.end < at + _SETTLE.size:
        raise PeerViolation(MALFORMED, f"SETTLE with a body of {frame.end - at} bytes; its fixed part has 10")
    accepted_through, count = _SETTLE.unpack_from(data, at)
    _check_count(frame, count)
    _check_size(frame, _SETTLE.size + count * _OUTCOME.size)
    outcomes: list[tuple[int, int, int]] = []
    at += _SETTLE.size
    for _ in range(count):
        each: tuple[int, int, int] = _OUTCOME.unpack_from(data, at)
        if not 0 < each[0] <= each[1] or each[2] > OUTCOMES_MAX:
            raise PeerViolation(MALFORMED, f"SETTLE of {each[0]} to {each[1]} with outcome {each[2]}")
        outcomes.append(each)
        at += _OUTCOME.size
    return Settle(frame.flow_id, accepted_through, tuple(outcomes))


def _read_settled(frame: Frame, data: bytes, at: int) -> Settled:
    if frame.end < at + _COUNT.size:
        raise PeerViolation(MALFORMED, f"SETTLED with a body of {frame.end - at} bytes; its count has 2")
    count = data[at] << 8 | data[at + 1]
    _check_count(frame, count)
    _check_size(frame, _COUNT.size + count * _RANGE.size)
    ranges: list[tuple[int, int]] = []
    for number in range(count):
        each: tuple[int, int] = _RANGE.unpack_from(data, at + _COUNT.size + number * _RANGE.size)
        ranges.append(each)
    return Settled(frame.flow_id, tuple(ranges))


def _check_count(frame: Frame, count: int) -> None:
    if count > RANGES_MAX:
        raise PeerViolation(MALFORMED, f"{NAMES[frame.kind]} with {count} ranges; at most {RANGES_MAX} are taken")


def _check_size(frame: Frame, size: int) -> None:
    if frame.end - frame.body_at != size:
        text = f"{NAMES[frame.kind]} with a body of {frame.end - frame.body_at} bytes where {size} are required"
        raise PeerViolation(MALFORMED, text)
