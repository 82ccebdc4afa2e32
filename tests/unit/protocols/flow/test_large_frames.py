"""Large frames are read to where they stay, and mean what they mean in any other reads."""

import pytest

from sluicegate.protocols.flow.codec import codes
from sluicegate.protocols.flow.codec.frames.publish import PublishesReceived, write_publish
from sluicegate.protocols.flow.engine.events import FlowEvent, PeerViolated
from sluicegate.protocols.flow.engine.frame_rules import CLOSED
from sluicegate.protocols.transport.interface import READ_INTO_BYTES_MIN
from support.flow.engine_pair import NOW_MS, WALL_MS, EnginePair

LARGE = bytes(range(251)) * 4180  # a megabyte


def frame_of(payload: bytes) -> bytes:
    return write_publish(1, 1, "t", payload, None, to_queue=False, ttl_ms=0, delay_ms=0)


def opened() -> EnginePair:
    wire = EnginePair(frame_bytes_max=2 * len(LARGE))
    wire.opens()
    return wire


def place(wire: EnginePair, data: bytes, *, at_once: int) -> list[FlowEvent]:
    """Put data to the gateway's room, so many bytes in a read."""
    for start in range(0, len(data), at_once):
        room, piece = wire.gateway.buffer(), data[start : start + at_once]
        assert room is not None
        room[: len(piece)] = piece
        if wire.gateway.filled(len(piece)):
            return wire.gateway.feed(b"", NOW_MS, WALL_MS)
    return []


@pytest.mark.parametrize("begun", [4, 100, 100_000])
@pytest.mark.parametrize("at_once", [65_536, 2_000_000])
def test_a_frame_that_was_placed_brings_what_it_holds(begun: int, at_once: int) -> None:
    wire, frame = opened(), frame_of(LARGE)
    assert wire.gateway.feed(frame[:begun], NOW_MS, WALL_MS) == []
    (event,) = place(wire, frame[begun:], at_once=at_once)
    assert isinstance(event, PublishesReceived)
    assert event.payloads == [LARGE]
    assert wire.gateway.buffer() is None


def test_frames_after_a_placed_frame_are_read_as_usual() -> None:
    wire, frame = opened(), frame_of(LARGE)
    wire.gateway.feed(frame[:10], NOW_MS, WALL_MS)
    place(wire, frame[10:], at_once=65_536)
    (event,) = wire.gateway.feed(frame_of(b"small"), NOW_MS, WALL_MS)
    assert isinstance(event, PublishesReceived)
    assert event.payloads == [b"small"]


@pytest.mark.parametrize("begun", [3, 200_000])
def test_there_is_no_room_before_it_pays(begun: int) -> None:
    """The size is not known yet, or little is missing."""
    wire, frame = opened(), frame_of(LARGE[: 200_000 + READ_INTO_BYTES_MIN - 1000])
    wire.gateway.feed(frame[:begun], NOW_MS, WALL_MS)
    assert wire.gateway.buffer() is None


def test_a_large_frame_before_authentication_is_refused_unbuffered() -> None:
    wire = EnginePair()
    wire.client.send(b"")
    wire.carry()
    events = wire.gateway.feed(frame_of(LARGE)[:100], NOW_MS, WALL_MS)
    assert isinstance(events[-1], PeerViolated)
    assert wire.gateway.buffer() is None


def test_a_connection_that_fails_in_the_middle_of_a_frame_has_no_room_for_it() -> None:
    wire, frame = opened(), frame_of(LARGE)
    wire.gateway.feed(frame[:100], NOW_MS, WALL_MS)
    assert wire.gateway.buffer() is not None
    wire.gateway.fail(codes.NOT_AUTHENTICATED, "the token has expired")
    assert wire.gateway.phase == CLOSED
    assert wire.gateway.buffer() is None
