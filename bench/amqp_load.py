"""One worker of an AMQP load: the lanes of `mqtt_load`, with AMQP clients at both ends of each.

A lane is one sender, one durable queue, and one receiver that checks the order of what it gets and accepts it, a range
for each read. Messages are durable and unsettled in both directions. With QoS 0 it is a topic instead of the queue, and
messages are neither: settled by whoever sends them, and in memory only.
"""

import socket
import struct
from typing import Final, final

from bench import amqp_wire as wire
from bench.load_plan import LoadPlan
from bench.mqtt_load import CONNECT_TIMEOUT_S, Address, Connection, Lane, Worker

CREDIT: Final = 1000  # of a receiver, topped up when half of it is used; what most clients take
_U32: Final = struct.Struct(">I")


@final
class AmqpReceiver:
    """The receiving end of a lane. It is its own record of what came."""

    def __init__(self, connection: Connection, lane: Lane, *, settled: bool) -> None:
        self._settled = settled  # by the broker
        self.connection = connection
        self.lane = lane
        self.received = 0
        self.duplicated = 0
        self.read_singly = 0
        self._granted = CREDIT
        self._rest = b""

    @property
    def receiver(self) -> "AmqpReceiver":
        """Return what counts the deliveries."""
        return self

    def on_readable(self, buffer: bytearray, view: memoryview) -> int:
        """Take in what has come, accept it, and return how many messages that was."""
        count = self.connection.read_into(view)
        data = self._rest + bytes(view[:count])
        at, end, first, before = 0, len(data), -1, self.received
        while at + wire.HEAD_BYTES <= end:
            stop = at + _U32.unpack_from(data, at)[0]
            if stop > end:
                break
            if wire.performative(data, at, stop) == wire.TRANSFER:
                delivery_id = wire.fields(data, at, 2)[1]
                first = delivery_id if first < 0 else first
                self._check(data, stop)
            at = stop
        self._rest = data[at:]
        if first >= 0:
            said = b"" if self._settled else wire.accepted(first, first + self.received - before - 1)
            if self._granted - self.received <= CREDIT // 2:
                self._granted = self.received + CREDIT
                said += wire.flow(self.received, CREDIT)
            if said:
                self.connection.write(said)
        return self.received - before

    def _check(self, data: bytes, stop: int) -> None:
        sequence = _U32.unpack_from(data, stop - self.lane.payload_bytes)[0]
        if sequence != self.received & 0xFFFF_FFFF:
            raise wire.AmqpError(f"message {sequence} where {self.received} is next")
        self.received += 1


@final
class AmqpSender:
    """The sending end of a lane."""

    def __init__(self, connection: Connection, plan: LoadPlan, lane: Lane) -> None:
        self.connection = connection
        self.lane = lane
        self.published = 0
        self.confirmed = 0
        self.credit_until = 0  # deliveries that the broker takes, counted from the first
        template, self._id_at, self._tag_at, self._sequence_at = wire.transfer_template(
            plan.payload_bytes, settled=plan.qos == 0
        )
        self._frame_bytes = len(template)
        self._frames = bytearray(template * plan.window)
        self._rest = b""

    def publish(self, count: int) -> int:
        """Publish up to `count` messages, as far as credit and the socket go; return how many."""
        count = min(count, self.credit_until - self.published)
        if count <= 0 or self.connection.unsent:
            return 0
        frames, size, number = self._frames, self._frame_bytes, self.published
        for at in range(0, count * size, size):
            _U32.pack_into(frames, at + self._id_at, number)
            _U32.pack_into(frames, at + self._tag_at, number)
            _U32.pack_into(frames, at + self._sequence_at, number)
            number += 1
        self.connection.write(memoryview(frames)[: count * size])
        self.published = number
        return count

    def on_readable(self, buffer: bytearray, view: memoryview) -> int:
        """Take in outcomes and credit."""
        count = self.connection.read_into(view)
        data = self._rest + bytes(view[:count])
        at, end = 0, len(data)
        while at + wire.HEAD_BYTES <= end:
            stop = at + _U32.unpack_from(data, at)[0]
            if stop > end:
                break
            self.understand(data, at, stop)
            at = stop
        self._rest = data[at:]
        return 0

    def understand(self, data: bytes, at: int, stop: int) -> None:
        """Take one frame."""
        code = wire.performative(data, at, stop)
        if code == wire.DISPOSITION:
            _, first, last, _ = wire.fields(data, at, 4)
            if b"\x00\x53\x24" not in data[at:stop]:
                raise wire.AmqpError(f"a message was not accepted: {data[at:stop]!r}")
            self.confirmed += (first if last < 0 else last) - first + 1
        elif code == wire.FLOW:
            *_, handle, delivery_count, credit = wire.fields(data, at, 7)
            if handle >= 0:
                self.credit_until = max(delivery_count, 0) + credit


@final
class AmqpWorker(Worker):
    """Some lanes of a plan, connected and ready to run."""

    def _connect_lane(self, number: int, address: Address) -> Lane:
        plan = self._plan
        lane = Lane(plan, number)
        node = plan.topic.format(lane=number)
        settled = plan.qos == 0
        sock, _ = open_link(address, f"bench-receiver-{number}", node, is_receiver=True, settled=settled)
        sock.sendall(wire.flow(0, CREDIT))
        receiver = AmqpReceiver(Connection(sock, self._poll), lane, settled=settled)
        lane.subscribers.append(receiver)
        self._ends[sock.fileno()] = receiver
        sock, rest = open_link(address, f"bench-sender-{number}", node, is_receiver=False, settled=settled)
        sender = AmqpSender(Connection(sock, self._poll), plan, lane)
        for data in rest:
            sender.understand(data, 0, len(data))
        lane.publisher = sender
        self._ends[sock.fileno()] = sender
        return lane


def open_connection(address: Address, container_id: str) -> socket.socket:
    """Return a blocking socket on which open and begin are answered."""
    sock = socket.create_connection(address, timeout=CONNECT_TIMEOUT_S)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.sendall(wire.opening(container_id))
    if _read_exactly(sock, len(wire.HEADER)) != wire.HEADER:
        raise wire.AmqpError("the broker wants SASL, or another protocol")
    _read_until(sock, wire.BEGIN)
    return sock


def open_link(
    address: Address, name: str, node: str, *, is_receiver: bool, settled: bool
) -> tuple[socket.socket, list[bytes]]:
    """Return a blocking socket with a link, and the frames behind its attach: of a sender, up to its first credit."""
    sock = open_connection(address, name)
    sock.sendall(wire.attach(name, node, is_receiver=is_receiver, settled=settled))
    _read_until(sock, wire.ATTACH)
    return sock, [] if is_receiver else [_read_until(sock, wire.FLOW)]


def _read_until(sock: socket.socket, code: int) -> bytes:
    while True:
        head = _read_exactly(sock, 4)
        data = head + _read_exactly(sock, _U32.unpack(head)[0] - 4)
        if wire.performative(data, 0, len(data)) == code:
            return data


def _read_exactly(sock: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        more = sock.recv(count - len(data))
        if not more:
            raise wire.AmqpError("the broker closed a connection while it was set up")
        data += more
    return data
