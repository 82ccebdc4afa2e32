"""The AMQP clients of a lane: one sender, and one receiver that checks the order of messages and accepts them.

It accepts a range for each read. Messages are durable and unsettled in both directions; with QoS 0 they are settled by
the sender, and not durable.
"""

import select
import struct
from typing import Final, final

from bench.load.lanes import Lane
from bench.load.plan import LoadPlan
from bench.wire import amqp as wire
from bench.wire.connections import Address, Connection

CREDIT: Final = 1000  # of a receiver, topped up when half of it is used; what most clients take
_U32: Final = struct.Struct(">I")


@final
class AmqpReceiver:
    """The receiving end of a lane. It counts its messages itself."""

    def __init__(self, connection: Connection, plan: LoadPlan, lane: Lane) -> None:
        self._settled = plan.qos == 0  # by the broker
        self.connection = connection
        self.lane = lane
        self.received = 0
        self.duplicated = 0  # never, as the next two: what is not the next message ends the run
        self.disordered = 0
        self.read_singly = 0
        self._granted = CREDIT
        self._sequence_from_end = plan.payload_bytes - wire.SEQUENCE_AT
        self._modulus = plan.sequence_modulus
        self._rest = b""

    def on_readable(self, buffer: bytearray, view: memoryview) -> int:
        """Read and accept messages; return how many."""
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
        sequence = _U32.unpack_from(data, stop - self._sequence_from_end)[0]
        if sequence != self.received % self._modulus:
            raise wire.AmqpError(f"message {sequence} where {self.received % self._modulus} is next")
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
        self._at_once_max = max(plan.window, CREDIT)  # with a rate as many are due as time has passed
        self._frames = bytearray(template * self._at_once_max)
        self._rest = b""

    def publish(self, count: int) -> int:
        """Publish up to `count` messages, as far as credit and the socket go; return how many."""
        count = min(count, self.credit_until - self.published, self._at_once_max)
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
        """Read outcomes and credit."""
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
        """Handle one frame."""
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


def connect_publisher(plan: LoadPlan, lane: Lane, number: int, address: Address, poll: select.epoll) -> AmqpSender:
    """Return a sender of a lane, ready to run."""
    name = f"bench-sender-{lane.number}-{number}"
    node = plan.topic.format(lane=lane.number)
    connection = open_link(address, name, node, is_receiver=False, settled=plan.qos == 0)
    credit = _read_until(connection, wire.FLOW)
    connection.join(poll)
    sender = AmqpSender(connection, plan, lane)
    sender.understand(credit, 0, len(credit))
    return sender


def connect_subscribers(plan: LoadPlan, lane: Lane, address: Address, poll: select.epoll) -> list[AmqpReceiver]:
    """Return the receivers of a lane, ready to run, and set the lane's expected receivers."""
    assert plan.topic_filter is not None, "an AMQP receiver attaches to an address"
    node = plan.topic_filter.format(lane=lane.number)
    receivers: list[AmqpReceiver] = []
    for index in range(plan.subscribers_per_lane):
        name = f"bench-receiver-{lane.number}-{index}"
        connection = open_link(address, name, node, is_receiver=True, settled=plan.qos == 0)
        connection.send(wire.flow(0, CREDIT))
        connection.join(poll)
        receivers.append(AmqpReceiver(connection, plan, lane))
    lane.audience.extend(receivers)
    return receivers


def open_connection(address: Address, container_id: str) -> Connection:
    """Return a connection after the answers to open and begin."""
    connection = Connection(address)
    connection.send(wire.opening(container_id))
    if connection.read_exactly(len(wire.HEADER)) != wire.HEADER:
        raise wire.AmqpError("the broker wants SASL, or another protocol")
    _read_until(connection, wire.BEGIN)
    return connection


def open_link(address: Address, name: str, node: str, *, is_receiver: bool, settled: bool) -> Connection:
    """Return a connection with a link."""
    connection = open_connection(address, name)
    connection.send(wire.attach(name, node, is_receiver=is_receiver, settled=settled))
    _read_until(connection, wire.ATTACH)
    return connection


def _read_until(connection: Connection, code: int) -> bytes:
    while True:
        head = connection.read_exactly(4)
        data = head + connection.read_exactly(_U32.unpack(head)[0] - 4)
        if wire.performative(data, 0, len(data)) == code:
            return data
