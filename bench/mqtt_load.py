"""One worker of a load: some lanes on one epoll loop, with raw non-blocking sockets. MQTT's; AMQP's derives from it.

Publisher and subscribers of a lane share a worker, so the end-to-end flow limit is a subtraction, not a message
between processes. What the bytes mean is in `mqtt_wire` and `receiver`; how workers are started and read is in
`load_processes`.
"""

import select
import socket
from typing import Final, Protocol, final

from bench import mqtt_wire as wire
from bench.load_plan import LoadPlan, LoadReport
from bench.receiver import Receiver

RECEIVE_BYTES: Final = 256 * 1024
CONNECT_TIMEOUT_S: Final = 30.0
POLL_S: Final = 0.05
DRAIN_POLLS_MAX: Final = 100  # 5 s without a byte after the stop: what is missing is lost
STALL_POLLS_MAX: Final = 1200  # 60 s without a byte in a load that should run: the broker has stalled

Address = tuple[str, int]


class Progress(Protocol):
    """Where a worker tells how far it is, and learns when it may begin and must stop."""

    def count(self, published: int, received: int) -> None:
        """Make the totals visible to the measuring process."""

    def stopped(self) -> bool:
        """Return whether to publish no more."""


class Count(Protocol):
    """What a receiving end knows of the messages it got."""

    received: int
    duplicated: int
    read_singly: int


class End(Protocol):
    """One client of a lane."""

    connection: "Connection"
    lane: "Lane"

    def on_readable(self, buffer: bytearray, view: memoryview) -> int:
        """Take in what has come; return how many new messages that was."""


class SendingEnd(End, Protocol):
    """The client of a lane that publishes."""

    published: int

    @property
    def confirmed(self) -> int:
        """Messages that the broker has confirmed."""

    def publish(self, count: int) -> int:
        """Publish up to `count` messages; return how many."""


class ReceivingEnd(End, Protocol):
    """A client of a lane that gets what is published."""

    @property
    def receiver(self) -> Count:
        """What counts the messages."""


class Connection:
    """A socket that keeps what the kernel would not take yet."""

    def __init__(self, sock: socket.socket, poll: select.epoll) -> None:
        sock.setblocking(False)
        self.socket = sock
        self.unsent = b""
        self._poll = poll
        poll.register(sock.fileno(), select.EPOLLIN)

    def write(self, data: bytes | memoryview) -> None:
        """Send, or keep the rest for `flush`. The caller stops writing while there is something unsent."""
        if self.unsent:
            self.unsent += data
            return
        try:
            sent = self.socket.send(data)
        except BlockingIOError:
            sent = 0
        if sent < len(data):
            self.unsent = bytes(data[sent:])
            self._poll.modify(self.socket.fileno(), select.EPOLLIN | select.EPOLLOUT)

    def flush(self) -> None:
        """Send what was kept: the socket is writable again."""
        data, self.unsent = self.unsent, b""
        self._poll.modify(self.socket.fileno(), select.EPOLLIN)
        self.write(data)

    def read_into(self, view: memoryview) -> int:
        """Return the number of bytes read, 0 when there were none after all."""
        try:
            count = self.socket.recv_into(view)
        except BlockingIOError:
            return 0
        if count == 0:
            raise wire.WireError("the broker closed a connection")
        return count


@final
class Subscriber:
    """One subscriber: everything it gets is checked, and acknowledged at once."""

    def __init__(self, connection: Connection, receiver: Receiver, lane: "Lane") -> None:
        self.connection = connection
        self.receiver = receiver
        self.lane = lane

    def on_readable(self, buffer: bytearray, view: memoryview) -> int:
        """Take in what has come; return how many new messages that was."""
        receiver = self.receiver
        kept = len(receiver.rest)
        if kept:
            buffer[:kept] = receiver.rest
        count = self.connection.read_into(view[kept:])
        before = receiver.received
        acks = receiver.feed(buffer, kept + count)
        if acks:
            self.connection.write(acks)
        return receiver.received - before


@final
class Publisher:
    """One publisher: slices of a stream written out beforehand go out, confirmations are compared with theirs."""

    def __init__(self, connection: Connection, plan: LoadPlan, lane: "Lane") -> None:
        header, id_at = wire.publish_header(lane.topic, qos=plan.qos, payload_bytes=plan.payload_bytes)
        stream = wire.publish_stream(header, id_at, cycle=plan.cycle, payload_bytes=plan.payload_bytes)
        self.connection = connection
        self.lane = lane
        self.published = 0
        self._confirmed_bytes = 0
        self._cycle = plan.cycle
        self._packet_bytes = len(header) + plan.payload_bytes
        self._stream = memoryview(stream)
        self._confirmations = wire.puback_stream(plan.cycle) if plan.qos else b""

    @property
    def confirmed(self) -> int:
        """PUBACKs that came."""
        return self._confirmed_bytes // wire.PUBACK_BYTES

    def publish(self, count: int) -> int:
        """Publish up to `count` messages, as far as the socket takes them; return how many."""
        done = 0
        size = self._packet_bytes
        while done < count and not self.connection.unsent:
            first = self.published % self._cycle
            run = min(count - done, self._cycle - first)
            self.connection.write(self._stream[first * size : (first + run) * size])
            self.published += run
            done += run
        return done

    def on_readable(self, buffer: bytearray, view: memoryview) -> int:
        """Take in PUBACKs, which come in the order of the messages [4.6.0-2]."""
        count = self.connection.read_into(view)
        period = len(self._confirmations)
        done = 0
        while done < count:
            at = self._confirmed_bytes % period if period else 0
            run = min(count - done, period - at)
            if run <= 0 or not self._confirmations.startswith(buffer[done : done + run], at):
                raise wire.WireError(f"a publisher got {bytes(buffer[done:count])[:40].hex(' ')}")
            self._confirmed_bytes += run
            done += run
        return 0


@final
class Lane:
    """A publisher, its topic and its subscribers. Any of the two sides may be absent."""

    def __init__(self, plan: LoadPlan, number: int) -> None:
        self.topic = plan.topic.format(lane=number)
        self.topic_filter = None if plan.topic_filter is None else plan.topic_filter.format(lane=number)
        self.payload_bytes = plan.payload_bytes
        self.publisher: SendingEnd | None = None
        self.subscribers: list[ReceivingEnd] = []
        self.touched = False
        self._qos = plan.qos
        self._window = plan.window
        self._batch_min = max(1, plan.window // 4)  # a refill for each few confirmations would be a call for each
        self._messages = plan.messages_per_lane

    def refill(self) -> int:
        """Publish what the flow limit has room for; return how many messages."""
        publisher = self.publisher
        if publisher is None:
            return 0
        room = self._arrived(publisher) + self._window - publisher.published
        batch_min = self._batch_min
        if self._messages is not None:
            left = self._messages - publisher.published
            room = min(room, left)
            batch_min = min(batch_min, left)
        return publisher.publish(room) if room >= batch_min else 0

    def expected(self) -> int:
        """Return what each subscriber should have got."""
        return self.publisher.published if self.publisher is not None else self._messages or 0

    def complete(self) -> bool:
        """Return whether nothing is on its way, and nothing left to publish."""
        publisher = self.publisher
        if publisher is not None:
            if self._messages is not None and publisher.published < self._messages:
                return False
            if self._qos and publisher.confirmed < publisher.published:
                return False
        return all(subscriber.receiver.received >= self.expected() for subscriber in self.subscribers)

    def _arrived(self, publisher: "SendingEnd") -> int:
        subscribers = self.subscribers
        if len(subscribers) == 1:
            arrived = subscribers[0].receiver.received
        elif subscribers:
            arrived = min([subscriber.receiver.received for subscriber in subscribers])
        else:
            return publisher.confirmed
        # One message per wake-up means the subscriber's wake-up: PUBACK may come after the next message left.
        return min(arrived, publisher.confirmed) if self._qos and self._window > 1 else arrived


class Worker:
    """Some lanes of a plan, connected and ready to run."""

    def __init__(self, plan: LoadPlan, lane_numbers: range, address: Address) -> None:
        self._plan = plan
        self._poll = select.epoll()
        self._ends: dict[int, SendingEnd | ReceivingEnd] = {}
        self._received = 0
        self._published = 0
        self.lanes = [self._connect_lane(number, address) for number in lane_numbers]

    def run(self, progress: Progress) -> LoadReport:
        """Run until the plan is fulfilled, or the load is stopped and drained, or nothing moves any more."""
        buffer = bytearray(RECEIVE_BYTES)
        view = memoryview(buffer)
        poll = self._poll.poll
        self._refill(self.lanes)
        silent_polls = 0
        while True:
            events = poll(POLL_S)
            stopped = progress.stopped()
            if events:
                silent_polls = 0
                touched = self._serve(events, buffer, view)
                if not stopped:
                    self._refill(touched)
                progress.count(self._published, self._received)
                continue
            silent_polls += 1
            unlimited = self._plan.messages_per_lane is None
            if (stopped or not unlimited) and all(lane.complete() for lane in self.lanes):
                return self._report()
            if silent_polls >= (DRAIN_POLLS_MAX if stopped else STALL_POLLS_MAX):
                return self._report()

    def close(self) -> None:
        """Close every connection, without DISCONNECT."""
        for end in self._ends.values():
            end.connection.socket.close()
        self._poll.close()

    def _serve(self, events: list[tuple[int, int]], buffer: bytearray, view: memoryview) -> list[Lane]:
        touched: list[Lane] = []
        for fd, mask in events:
            end = self._ends[fd]
            if mask & select.EPOLLOUT:
                end.connection.flush()
            if mask & ~select.EPOLLOUT:
                self._received += end.on_readable(buffer, view)
            if not end.lane.touched:
                end.lane.touched = True
                touched.append(end.lane)
        return touched

    def _refill(self, lanes: list[Lane]) -> None:
        for lane in lanes:
            lane.touched = False
            self._published += lane.refill()

    def _connect_lane(self, number: int, address: Address) -> Lane:
        plan = self._plan
        lane = Lane(plan, number)
        for index in range(plan.subscribers_per_lane):
            lane.subscribers.append(self._subscriber(lane, f"{number}-{index}", number, address))
        if plan.publishes:
            sock = open_session(address, wire.connect(f"bench-pub-{number}", version=wire.MQTT_3_1_1))
            lane.publisher = Publisher(Connection(sock, self._poll), plan, lane)
            self._ends[sock.fileno()] = lane.publisher
        return lane

    def _subscriber(self, lane: Lane, name: str, number: int, address: Address) -> Subscriber:
        plan = self._plan
        version = plan.subscriber_version
        lasting = plan.subscriber_id is not None
        client_id = plan.subscriber_id.format(lane=number) if plan.subscriber_id is not None else f"bench-sub-{name}"
        sock = open_session(address, wire.connect(client_id, version=version, clean=not lasting))
        receiver = Receiver(cycle=plan.cycle, payload_bytes=plan.payload_bytes, version=version)
        acks = b""
        if lane.topic_filter is not None:
            early = subscribe(sock, lane.topic_filter, qos=plan.qos, version=version)
            acks = receiver.feed(bytearray(early), len(early))
            self._received += receiver.received
        subscriber = Subscriber(Connection(sock, self._poll), receiver, lane)
        self._ends[sock.fileno()] = subscriber
        if acks:
            subscriber.connection.write(acks)
        return subscriber

    def _report(self) -> LoadReport:
        report = LoadReport()
        for lane in self.lanes:
            if lane.publisher is not None:
                report = report.plus(LoadReport(published=lane.publisher.published, confirmed=lane.publisher.confirmed))
            for subscriber in lane.subscribers:
                receiver = subscriber.receiver
                report = report.plus(
                    LoadReport(
                        expected=lane.expected(),
                        received=receiver.received,
                        duplicated=receiver.duplicated,
                        read_singly=receiver.read_singly,
                    )
                )
        return report


def open_session(address: Address, connect_packet: bytes) -> socket.socket:
    """Return a blocking socket on which CONNACK has accepted."""
    sock = socket.create_connection(address, timeout=CONNECT_TIMEOUT_S)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.sendall(connect_packet)
    wire.check_connack(read_packet(sock))
    return sock


def subscribe(sock: socket.socket, topic_filter: str, *, qos: int, version: int) -> bytes:
    """Subscribe and wait for SUBACK; return the PUBLISH packets that came before it, as they may [3.8.4]."""
    sock.sendall(wire.subscribe(topic_filter, qos=qos, version=version))
    early = b""
    packet = read_packet(sock)
    while packet[0] & wire.TYPE_MASK == wire.PUBLISH:
        early += packet
        packet = read_packet(sock)
    wire.check_suback(packet)
    return early


def read_packet(sock: socket.socket) -> bytes:
    """Return the next packet of a blocking socket, and not a byte more."""
    packet = bytearray(_read_exactly(sock, 2))
    body, end = wire.packet_end(packet, 0, len(packet))
    while end == 0:
        packet += _read_exactly(sock, 1)
        body, end = wire.packet_end(packet, 0, len(packet))
    if end > body:
        packet += _read_exactly(sock, end - len(packet))
    return bytes(packet)


def _read_exactly(sock: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        more = sock.recv(count - len(data))
        if not more:
            raise wire.WireError("the broker closed a connection while it was set up")
        data += more
    return data
