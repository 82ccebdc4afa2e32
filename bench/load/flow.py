"""The clients of a lane over the flow protocol: one publisher, and one consumer of the queue that collects its topic.

The consumer checks the order of its messages, and accepts all of one read with one SETTLE.
"""

import select
from typing import Final, final

from bench.load.lanes import Lane
from bench.load.plan import LoadPlan
from bench.wire import flow as wire
from bench.wire.connections import Address, Connection

_SEQUENCE_END: Final = 8  # in a payload


@final
class FlowConsumer:
    """The receiving end of a lane. It counts its messages itself."""

    def __init__(self, connection: Connection, plan: LoadPlan, lane: Lane) -> None:
        self.connection = connection
        self.lane = lane
        self.received = 0
        self.duplicated = 0  # never, as the next two: what is not the next message ends the run
        self.disordered = 0
        self.read_singly = 0
        self._size = wire.deliver_bytes(plan.topic.format(lane=lane.number), plan.payload_bytes)
        self._number_at = self._size - plan.payload_bytes + _SEQUENCE_END  # where it ends
        self._rest = b""

    def on_readable(self, buffer: bytearray, view: memoryview) -> int:
        """Read and accept messages; return how many."""
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
        template = wire.publish_template(plan.topic.format(lane=lane.number), plan.payload_bytes)
        self._size = len(template)
        self._number_at = self._size - plan.payload_bytes + _SEQUENCE_END
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
        """Read answers."""
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


def connect_publisher(plan: LoadPlan, lane: Lane, number: int, address: Address, poll: select.epoll) -> FlowPublisher:
    """Return a publisher of a lane, ready to run."""
    connection = open_connection(address, f"bench-publisher-{lane.number}-{number}")
    connection.send(wire.open_publisher(plan.publisher_name.format(lane=lane.number), plan.window))
    limit = wire.sequence_limit(answer(connection, wire.OPEN_PUB))
    connection.join(poll)
    return FlowPublisher(connection, plan, lane, limit)


def connect_subscribers(plan: LoadPlan, lane: Lane, address: Address, poll: select.epoll) -> list[FlowConsumer]:
    """Return the consumers of a lane's queue, ready to run, and set the lane's expected receivers."""
    assert plan.topic_filter is not None, "a lane of the flow protocol consumes a queue"
    consumers: list[FlowConsumer] = []
    for index in range(plan.subscribers_per_lane):
        connection = open_connection(address, f"bench-consumer-{lane.number}-{index}")
        connection.send(wire.bind(plan.topic_filter.format(lane=lane.number)))
        answer(connection, wire.BIND)
        connection.join(poll)
        consumers.append(FlowConsumer(connection, plan, lane))
    lane.audience.extend(consumers)
    return consumers


def open_connection(address: Address, client_name: str) -> Connection:
    """Return a connection after the client is authenticated."""
    connection = Connection(address)
    connection.send(wire.greeting(client_name))
    if connection.read_exactly(len(wire.PREFACE)) != wire.PREFACE:
        raise wire.FlowError("the gateway speaks another protocol, or version of it")
    answer(connection, wire.AUTH)
    return connection


def answer(connection: Connection, kind: int) -> bytes:
    """Return the next frame of a type. Raises FlowError for an ERROR before it."""
    while True:
        head = connection.read_exactly(wire.HEAD_BYTES)
        data = head + connection.read_exactly(int.from_bytes(head[:4], "big") - (wire.HEAD_BYTES - 4))
        if data[4] == kind:
            return data
        if data[4] == wire.ERROR:
            raise wire.FlowError(f"the gateway refused: {data!r}")
