"""One worker of a load over the flow protocol: the lanes of `mqtt_load`, with flow clients at both ends of each.

A lane is one publisher, one topic that a durable queue collects, and one consumer of that queue, which checks the order
of what it gets and accepts it, all of one read by one SETTLE.
"""

import socket
from typing import Final, final

from bench import flow_wire as wire
from bench.load_plan import LoadPlan
from bench.mqtt_load import CONNECT_TIMEOUT_S, Address, Connection, Lane, Worker

_PAYLOAD_NUMBER_BYTES: Final = 4


@final
class FlowConsumer:
    """The receiving end of a lane. It is its own record of what came."""

    def __init__(self, connection: Connection, lane: Lane) -> None:
        self.connection = connection
        self.lane = lane
        self.received = 0
        self.duplicated = 0
        self.read_singly = 0
        self._size = wire.deliver_bytes(lane.topic, lane.payload_bytes)
        self._number_at = self._size - lane.payload_bytes + _PAYLOAD_NUMBER_BYTES  # where it ends
        self._rest = b""

    @property
    def receiver(self) -> "FlowConsumer":
        """Return what counts the deliveries."""
        return self

    def on_readable(self, buffer: bytearray, view: memoryview) -> int:
        """Take in what has come, accept it, and return how many messages that was."""
        count = self.connection.read_into(view)
        data = self._rest + bytes(view[:count])
        before = self.received
        while True:
            run = wire.deliveries_in_front(data, self._size)
            if run:
                self._check(data, run)
                data = data[run * self._size :]
                continue
            stop = wire.frame_end(data, 0)
            if stop < 0:
                break
            kind = data[4]
            if kind in (wire.DELIVER, wire.ERROR):
                raise wire.FlowError(f"a consumer got {data[:stop][:200]!r}")
            data = data[stop:]
        self._rest = data
        if self.received > before:
            self.connection.write(wire.settle_through(self.received))
        return self.received - before

    def _check(self, data: bytes, count: int) -> None:
        if not wire.numbers_follow(data, count, self._size, wire.DELIVER_ID_AT + 8, self.received + 1):
            raise wire.FlowError(f"delivery ids do not follow {self.received}")
        if not wire.numbers_follow(data, count, self._size, self._number_at, self.received):
            raise wire.FlowError(f"messages do not follow {self.received}")
        self.received += count


@final
class FlowPublisher:
    """The sending end of a lane."""

    def __init__(self, connection: Connection, plan: LoadPlan, lane: Lane, sequence_limit: int) -> None:
        self.connection = connection
        self.lane = lane
        self.published = 0
        self.confirmed = 0
        self._window = sequence_limit  # it is that far from the last answer, always
        template = wire.publish_template(lane.topic, plan.payload_bytes)
        self._size = len(template)
        self._number_at = self._size - plan.payload_bytes + _PAYLOAD_NUMBER_BYTES
        self._frames = bytearray(template * plan.window)
        self._rest = b""

    def publish(self, count: int) -> int:
        """Publish up to `count` messages, as far as the gateway's window and the socket go; return how many."""
        count = min(count, self.confirmed + self._window - self.published)
        if count <= 0 or self.connection.unsent:
            return 0
        wire.put_numbers(self._frames, count, self._size, wire.PUBLISH_SEQUENCE_AT + 8, self.published + 1)
        wire.put_numbers(self._frames, count, self._size, self._number_at, self.published)
        self.connection.write(memoryview(self._frames)[: count * self._size])
        self.published += count
        return count

    def on_readable(self, buffer: bytearray, view: memoryview) -> int:
        """Take in answers."""
        count = self.connection.read_into(view)
        data = self._rest + bytes(view[:count])
        at = 0
        while (stop := wire.frame_end(data, at)) >= 0:
            if data[at + 4] == wire.PUB_ACK:
                self.confirmed = wire.answered_through(data, at)
            elif data[at + 4] == wire.ERROR:
                raise wire.FlowError(f"a publisher got {data[at:stop][:200]!r}")
            at = stop
        self._rest = data[at:]
        return 0


@final
class FlowWorker(Worker):
    """Some lanes of a plan, connected and ready to run."""

    def _connect_lane(self, number: int, address: Address) -> Lane:
        plan = self._plan
        lane = Lane(plan, number)
        assert lane.topic_filter is not None, "a lane of the flow protocol consumes a queue"
        sock = open_connection(address, f"bench-consumer-{number}")
        sock.sendall(wire.bind(lane.topic_filter))
        answer(sock, wire.BIND)
        consumer = FlowConsumer(Connection(sock, self._poll), lane)
        lane.subscribers.append(consumer)
        self._ends[sock.fileno()] = consumer
        sock = open_connection(address, f"bench-publisher-{number}")
        sock.sendall(wire.open_publisher(plan.publisher_name.format(lane=number), plan.window))
        limit = wire.sequence_limit(answer(sock, wire.OPEN_PUB))
        publisher = FlowPublisher(Connection(sock, self._poll), plan, lane, limit)
        lane.publisher = publisher
        self._ends[sock.fileno()] = publisher
        return lane


def open_connection(address: Address, client_name: str) -> socket.socket:
    """Return a blocking socket on which the gateway has let the client in."""
    sock = socket.create_connection(address, timeout=CONNECT_TIMEOUT_S)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.sendall(wire.greeting(client_name))
    if _read_exactly(sock, len(wire.PREFACE)) != wire.PREFACE:
        raise wire.FlowError("the gateway speaks another protocol, or version of it")
    answer(sock, wire.AUTH)
    return sock


def answer(sock: socket.socket, kind: int) -> bytes:
    """Return the next frame of a type. Raises FlowError for an ERROR before it."""
    while True:
        head = _read_exactly(sock, wire.HEAD_BYTES)
        data = head + _read_exactly(sock, int.from_bytes(head[:4], "big") - (wire.HEAD_BYTES - 4))
        if data[4] == kind:
            return data
        if data[4] == wire.ERROR:
            raise wire.FlowError(f"the gateway refused: {data!r}")


def _read_exactly(sock: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        more = sock.recv(count - len(data))
        if not more:
            raise wire.FlowError("the gateway closed a connection while it was set up")
        data += more
    return data
