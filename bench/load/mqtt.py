"""The MQTT clients of a lane: publishers, and subscribers that check and acknowledge messages."""

import select
from typing import Final, final

from bench.load.lanes import Count, Lane
from bench.load.plan import MQTT, MQTT_TLS, MQTT_WEBSOCKET, LoadPlan
from bench.load.receiver import Receiver
from bench.load.tally import Tally, TallyReceiver
from bench.wire import mqtt as wire
from bench.wire.connections import Address, Connection, Opener, TlsConnection, WebSocketConnection

OPENERS: Final[dict[str, Opener]] = {
    MQTT: Connection,
    MQTT_TLS: TlsConnection,
    MQTT_WEBSOCKET: WebSocketConnection,
}
UNMATCHED_FILTERS: Final = ("bench/+/{number}/deeper/#", "bench/+/other-{number}", "+/other-{number}/#")
_CONFIRMATIONS: Final = {0: (), 1: (wire.PUBACK,), 2: (wire.PUBREC, wire.PUBCOMP)}  # of a publisher, by QoS


@final
class Subscriber:
    """One subscriber, which checks each message and acknowledges it at once."""

    def __init__(self, connection: Connection, receiver: Receiver | TallyReceiver, count: Count, lane: Lane) -> None:
        self.connection = connection
        self.lane = lane
        self._receiver = receiver
        self._count = count

    def on_readable(self, buffer: bytearray, view: memoryview) -> int:
        """Read data; return the number of new messages."""
        receiver = self._receiver
        kept = len(receiver.rest)
        if kept:
            buffer[:kept] = receiver.rest
        count = self.connection.read_into(view[kept:])
        before = self._count.received
        answers = receiver.feed(buffer, kept + count)
        if answers:
            self.connection.write(answers)
        return self._count.received - before


@final
class Publisher:
    """One publisher: it sends slices of a prepared stream, and compares confirmations with the expected ones."""

    def __init__(
        self, connection: Connection, plan: LoadPlan, lane: Lane, number: int, *, receive_maximum: int
    ) -> None:
        self.connection = connection
        self.lane = lane
        self.published = 0
        self._in_flight_max = min(receive_maximum, plan.cycle // 2) if plan.qos else None  # by packet ids: MQTT 2.2.1
        stream, self._at = wire.publish_stream(_headers(plan, lane.number, number), cycle=plan.cycle)
        self._stream = memoryview(stream)
        self._cycle = plan.cycle
        self._expected = {kind: wire.ack_stream(kind, plan.cycle) for kind in _CONFIRMATIONS[plan.qos]}
        self._answered = dict.fromkeys(self._expected, 0)  # packets of each kind
        self._disordered: dict[int, Tally] = {}  # kinds that did not come in order, from then on
        self._release = wire.ack_stream(wire.PUBREL, plan.cycle) if plan.qos == 2 else b""
        self._rest = b""

    @property
    def confirmed(self) -> int:
        """Messages whose PUBACK or PUBCOMP came."""
        return min(self._answered.values(), default=0)

    def publish(self, count: int) -> int:
        """Publish up to `count` messages, as many as broker and socket take; return how many."""
        if self._in_flight_max is not None:
            count = min(count, self.confirmed + self._in_flight_max - self.published)
        done = 0
        while done < count and not self.connection.unsent:
            first = self.published % self._cycle
            run = min(count - done, self._cycle - first)
            self.connection.write(self._stream[self._at[first] : self._at[first + run]])
            self.published += run
            done += run
        return done

    def on_readable(self, buffer: bytearray, view: memoryview) -> int:
        """Read confirmations, which come in the order of the messages, each kind by itself [4.6.0-2, -3]."""
        data = self._rest + bytes(view[: self.connection.read_into(view)])
        at, end = 0, len(data) - len(data) % wire.ACK_BYTES
        while at < end:
            kind = data[at]
            run = end - at >> 2
            column = data[at : end : wire.ACK_BYTES]
            if column.count(kind) != run:
                run -= len(column.lstrip(bytes((kind,))))
            self._take_confirmations(kind, data[at : at + run * wire.ACK_BYTES])
            at += run * wire.ACK_BYTES
        self._rest = data[end:]
        return 0

    def _take_confirmations(self, kind: int, packets: bytes) -> None:
        if kind not in self._expected:
            raise wire.WireError(f"a publisher got {packets[:40].hex(' ')}")
        expected = self._expected[kind]
        done = 0
        while done < len(packets) and kind not in self._disordered:
            first = self._answered[kind] % self._cycle * wire.ACK_BYTES
            run = min(len(packets) - done, len(expected) - first)
            if packets[done : done + run] != expected[first : first + run]:
                # RabbitMQ's come out of order at times. Each must come all the same.
                following = self._answered[kind] % self._cycle
                self._disordered[kind] = Tally(streams=1, cycle=self._cycle, in_order=False, first=following)
                break
            if kind == wire.PUBREC:
                self.connection.write(self._release[first : first + run])
            self._answered[kind] += run // wire.ACK_BYTES
            done += run
        if done < len(packets):
            self._take_singly(kind, packets[done:])

    def _take_singly(self, kind: int, packets: bytes) -> None:
        tally = self._disordered[kind]
        before = tally.received
        high, low = packets[2 :: wire.ACK_BYTES], packets[3 :: wire.ACK_BYTES]
        tally.count([(0, (upper << 8 | lower) - 1) for upper, lower in zip(high, low, strict=True)])
        if kind == wire.PUBREC:
            self.connection.write(wire.acks(wire.PUBREL, high, low))
        self._answered[kind] += tally.received - before


def connect_publisher(plan: LoadPlan, lane: Lane, number: int, address: Address, poll: select.epoll) -> Publisher:
    """Return a publisher of a lane, ready to run."""
    client_id = f"bench-pub-{lane.number}-{number}"
    connection = OPENERS[plan.publisher_protocol or plan.protocol](address)
    connection.send(wire.connect(client_id, version=_publisher_version(plan)))
    receive_maximum = wire.check_connack(read_packet(connection))
    connection.join(poll)
    return Publisher(connection, plan, lane, number, receive_maximum=receive_maximum)


def connect_subscribers(plan: LoadPlan, lane: Lane, address: Address, poll: select.epoll) -> list[Subscriber]:
    """Return the subscribers of a lane, ready to run, and set the lane's expected receivers."""
    return [connect_subscriber(plan, lane, index, address, poll) for index in range(plan.subscribers_per_lane)]


def connect_subscriber(plan: LoadPlan, lane: Lane, index: int, address: Address, poll: select.epoll) -> Subscriber:
    """Return one subscriber of a lane, which may compete with others for its messages."""
    version = plan.subscriber_version
    receiver: Receiver | TallyReceiver
    count: Count
    if plan.tallied:
        tally = lane.shared_tally if plan.competing else None
        if tally is None:
            tally = _tally(plan)
            lane.audience.append(tally)
            lane.shared_tally = tally
        # Consumers of a queue's partitions have an order together, those of a shared subscription each their own.
        own_order = plan.streams * plan.publishers_per_lane if plan.competing and not plan.key else 0
        receiver, count = TallyReceiver(tally, version=version, own_order=own_order), tally
    else:
        receiver = count = Receiver(cycle=plan.cycle, payload_bytes=plan.payload_bytes, version=version)
        lane.audience.append(count)
    client_id = (plan.subscriber_id or f"bench-sub-{{lane}}-{index}").format(lane=lane.number)
    packet = wire.connect(client_id, version=version, clean=plan.subscriber_id is None)
    connection = open_session(address, packet, OPENERS[plan.protocol])
    answers = b""
    if plan.topic_filter is not None:
        early = subscribe(connection, plan.topic_filter.format(lane=lane.number), qos=plan.qos, version=version)
        answers = receiver.feed(bytearray(early), len(early))
    connection.join(poll)
    if answers:
        connection.write(answers)
    return Subscriber(connection, receiver, count, lane)


def connect_unmatched(plan: LoadPlan, address: Address) -> Connection:
    """Return a client whose subscriptions resemble the topics of the load, but match none."""
    packet = wire.connect("bench-unmatched", version=wire.MQTT_3_1_1)
    connection = open_session(address, packet, OPENERS[plan.protocol])
    for number in range(plan.unmatched_count):
        topic_filter = UNMATCHED_FILTERS[number % len(UNMATCHED_FILTERS)].format(number=number)
        subscribe(connection, topic_filter, qos=0, version=wire.MQTT_3_1_1)
    return connection


def open_session(address: Address, connect_packet: bytes, opener: Opener = Connection) -> Connection:
    """Return a connection after CONNACK."""
    connection = opener(address)
    connection.send(connect_packet)
    wire.check_connack(read_packet(connection))
    return connection


def subscribe(connection: Connection, topic_filter: str, *, qos: int, version: int) -> bytes:
    """Subscribe and wait for SUBACK; return the PUBLISH packets that came before it, as they may [3.8.4]."""
    connection.send(wire.subscribe(topic_filter, qos=qos, version=version))
    early = b""
    packet = read_packet(connection)
    while packet[0] & wire.TYPE_MASK == wire.PUBLISH:
        early += packet
        packet = read_packet(connection)
    wire.check_suback(packet)
    return early


def read_packet(connection: Connection) -> bytes:
    """Read the next packet of a blocking connection, and no byte beyond it."""
    packet = bytearray(connection.read_exactly(2))
    body, end = wire.packet_end(packet, 0, len(packet))
    while end == 0:
        packet += connection.read_exactly(1)
        body, end = wire.packet_end(packet, 0, len(packet))
    if end > body:
        packet += connection.read_exactly(end - len(packet))
    return bytes(packet)


def _tally(plan: LoadPlan) -> Tally:
    streams = plan.streams * max(1, plan.publishers_per_lane)
    in_order = not plan.competing or bool(plan.key)
    return Tally(streams=streams, cycle=plan.cycle // plan.streams, in_order=in_order)


def _publisher_version(plan: LoadPlan) -> int:
    return wire.MQTT_5 if plan.key else wire.MQTT_3_1_1


def _headers(plan: LoadPlan, lane: int, publisher: int) -> list[wire.PublishHeader]:
    return [
        wire.publish_header(
            topic,
            qos=plan.qos,
            payload_bytes=plan.payload_sizes[stream % len(plan.payload_sizes)],
            version=_publisher_version(plan),
            stream=publisher * plan.streams + stream,
            key=key,
            retain=plan.retain,
        )
        for stream, (topic, key) in enumerate(plan.stream_names(lane, publisher))
    ]
