"""What a link writes to a neighbor that is slower than its messages: control frames first, and not without bound."""

import pytest

from sluicegate.actors.runtime.runtime import Runtime
from sluicegate.protocols.flow.codec.frames.link import LinkAck, LinkFrame, LinkMessages
from sluicegate.protocols.flow.links import LinkUser, LinkWire
from support.cores.lone_actors import Idle, spawned
from support.flow.golden import decoded
from support.network.full_socket import FullSocket
from support.network.lone_wire import lone_wire

MESSAGE = bytes(1000)


class SlowSocket(FullSocket):
    """Records what is written; full after so many writes."""

    def __init__(self) -> None:
        self.written: list[bytes] = []
        self.full_after = 1_000_000
        self.wire: LinkWire | None = None

    def write(self, data: bytes) -> None:
        self.written.append(data)
        if len(self.written) >= self.full_after and self.wire is not None:
            self.wire.paused()


class User(LinkUser):
    """Records that the connection ended."""

    def __init__(self) -> None:
        self.reasons: list[str] = []
        self.resumed_count = 0

    def received(self, frame: LinkFrame) -> None:
        raise AssertionError("nobody sends anything")

    def resumed(self) -> None:
        self.resumed_count += 1

    def ended(self, reason: str) -> None:
        self.reasons.append(reason)


@pytest.fixture
def socket() -> SlowSocket:
    return SlowSocket()


@pytest.fixture
def wire(runtime: Runtime, socket: SlowSocket) -> LinkWire:
    wire = lone_wire(spawned(runtime, Idle), socket)
    wire.direct_bytes_max = 10 * len(MESSAGE)
    wire.user = User()
    socket.wire = wire
    return wire


def sends(wire: LinkWire, count: int, first: int = 0) -> None:
    for number in range(first, first + count):
        wire.direct(LinkMessages(1, 1, 0, (), number.to_bytes(2, "big") + MESSAGE[2:]), 1)


def numbers(written: list[bytes]) -> list[int]:
    """Return the numbers of the messages written."""
    found, data = [], b"".join(written)
    while data:
        size = 4 + int.from_bytes(data[:4], "big")
        frame = decoded(data[:size])
        if isinstance(frame, LinkMessages):
            found.append(int.from_bytes(frame.batch[frame.batch_at : frame.batch_at + 2], "big"))
        data = data[size:]
    return found


def test_messages_are_written_once_at_the_end_of_a_turn(wire: LinkWire, socket: SlowSocket) -> None:
    sends(wire, 5)
    assert socket.written == []
    wire.flush()
    assert numbers(socket.written) == [0, 1, 2, 3, 4]
    assert len(socket.written) == 1
    assert wire.sent_count == 5


def test_the_oldest_messages_for_a_slow_neighbor_are_dropped_and_counted(wire: LinkWire, socket: SlowSocket) -> None:
    wire.paused()
    sends(wire, 25)
    wire.flush()
    assert socket.written == []
    assert wire.waiting_bytes == wire.direct_bytes_max
    assert wire.dropped_count == 15

    wire.resumed()
    wire.flush()
    assert numbers(socket.written) == list(range(15, 25))
    assert wire.waiting_bytes == 0


def test_a_message_larger_than_the_bound_is_sent_all_the_same(wire: LinkWire, socket: SlowSocket) -> None:
    wire.direct(LinkMessages(1, 1, 0, (), bytes(20 * len(MESSAGE))), 1)
    wire.flush()
    assert wire.sent_count == 1
    assert wire.dropped_count == 0


def test_control_frames_are_written_though_the_socket_is_full(wire: LinkWire, socket: SlowSocket) -> None:
    """They are few, and heartbeats and acknowledgements must not wait behind messages."""
    wire.paused()
    sends(wire, 1)
    wire.control(LinkAck(1, 7).encode())
    wire.flush()
    assert b"".join(socket.written) == LinkAck(1, 7).encode()


def test_writing_stops_where_the_socket_is_full(wire: LinkWire, socket: SlowSocket) -> None:
    wire.direct_bytes_max = 100 * 1024 * 1024
    socket.full_after = 1
    sends(wire, 600)
    wire.flush()
    assert len(socket.written) == 1, "some 256 KiB"
    assert 0 < wire.waiting_bytes < 600 * len(MESSAGE)


def test_what_waits_when_the_connection_ends_is_counted_apart_from_what_a_slow_neighbor_costs(wire: LinkWire) -> None:
    user = wire.user
    assert isinstance(user, User)
    wire.paused()
    sends(wire, 3)
    wire.gone("cut")
    assert (wire.unsent_count, wire.dropped_count) == (3, 0)
    assert user.reasons == ["cut"]
    wire.gone("again")
    assert user.reasons == ["cut"]


def test_the_link_hears_when_the_socket_takes_more(wire: LinkWire) -> None:
    user = wire.user
    assert isinstance(user, User)
    wire.paused()
    wire.resumed()
    assert user.resumed_count == 1


def test_the_time_of_sending_is_that_of_the_write(wire: LinkWire, socket: SlowSocket, runtime: Runtime) -> None:
    """Time in the queue counts for the life of a message."""
    wire.paused()
    sends(wire, 1)
    before = runtime.clock.wall_ms()
    wire.resumed()
    wire.flush()
    frame = decoded(b"".join(socket.written))
    assert isinstance(frame, LinkMessages)
    assert frame.sent_ms >= before
