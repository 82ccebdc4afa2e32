"""Cases with bursts: new connections, reconnections after a restart, and retained messages.

All clients of a storm have the same subscription, or each one to a topic of its own. Each gets one message at the end:
a connection that receives no message does not count.
"""

import errno
import select
import socket
import time
from typing import Final, Self, final

from bench.brokers import measure
from bench.brokers.broker import Broker
from bench.cases.footprint import run_to_end
from bench.cases.load_processes import LoadError
from bench.cases.throughput import US
from bench.load.mqtt import open_session
from bench.load.outcome import Faults, Figure, Outcome
from bench.load.plan import MQTT, LoadPlan
from bench.wire import mqtt as wire
from bench.wire.connections import Address

TOPIC: Final = "storm"
PAYLOAD_BYTES: Final = 100
CONNECTING_MAX: Final = 500  # at once; more would wait in the kernel's queue of the port, for whole seconds
POLL_S: Final = 0.2
SILENCE_S: Final = 60.0  # without any progress: given up
QUIET_S: Final = 2.0  # in which nobody gets a second message
RETAINED_SUBSCRIBERS: Final = 10
RETAINED_WINDOW: Final = 1000


def _come(broker: Broker, connections: int, *, lasting: bool, own_topics: bool = False) -> tuple[float, float, Faults]:
    """Connect many clients at once; return the seconds until all are in, the broker's processor seconds, and faults."""
    cpu_before_s, begun_s = measure.cpu_seconds(broker.pid), time.monotonic()
    with Storm(broker.address_of(MQTT), connections, lasting=lasting, own_topics=own_topics) as storm:
        storm.connect()
        taken_s = time.monotonic() - begun_s
        cpu_s = measure.cpu_seconds(broker.pid) - cpu_before_s
        return taken_s, cpu_s, _reach_all(broker, storm)


def run_connection_storm(broker: Broker, *, connections: int, own_topics: bool = False) -> Outcome:
    """Connect and subscribe with many clients at once, and measure the cost of one."""
    taken_s, cpu_s, faults = _come(broker, connections, lasting=False, own_topics=own_topics)
    return Outcome(
        headline=Figure("broker CPU per connect", US * cpu_s / connections, "us"),
        higher_is_better=False,
        figures=(Figure("connects", connections / taken_s, "1/s"), Figure("until all are in", taken_s, "s")),
        faults=faults,
    )


def run_reconnect_storm(broker: Broker, *, connections: int) -> Outcome:
    """Kill a broker with many client sessions, restart it, and measure the time until all clients are back."""
    with Storm(broker.address_of(MQTT), connections, lasting=True) as storm:
        storm.connect()
        broker.kill()
    ready_s = broker.restart(for_clients=True)
    taken_s, cpu_s, faults = _come(broker, connections, lasting=True)
    return Outcome(
        headline=Figure("from the restart until all are back", ready_s + taken_s, "s"),
        higher_is_better=False,
        figures=(
            Figure("until clients are let in", ready_s, "s"),
            Figure("broker CPU per reconnect", US * cpu_s / connections, "us"),
        ),
        faults=faults,
    )


def run_retained_storm(broker: Broker, *, messages: int, timeout_s: float) -> Outcome:
    """Retain messages, each on its own topic; then some subscribers connect and get all of them."""
    topic = TOPIC + "/{stream}"
    kept = LoadPlan(
        subscribers_per_lane=0,
        qos=1,
        window=RETAINED_WINDOW,
        messages_per_lane=messages,
        streams=messages,
        topic=topic,
        retain=True,
    )
    filled, _ = run_to_end(kept, broker, timeout_s)
    if filled.confirmed != messages:
        raise LoadError(f"{filled.confirmed} of {messages} retained messages were confirmed")
    plan = LoadPlan(
        publishers_per_lane=0,
        subscribers_per_lane=RETAINED_SUBSCRIBERS,
        messages_per_lane=messages,
        streams=messages,
        topic=topic,
        topic_filter=TOPIC + "/#",
    )
    cpu_before_s = measure.cpu_seconds(broker.pid)
    report, taken_s = run_to_end(plan, broker, timeout_s)
    cpu_s = measure.cpu_seconds(broker.pid) - cpu_before_s
    if not report.received:
        raise LoadError(f"none of {report.expected} retained messages came")
    cpu_s = max(cpu_s, measure.TICK_S)  # a few messages take less
    return Outcome(
        headline=Figure("retained messages per broker CPU-second", report.received / cpu_s, "msg/CPU-s"),
        higher_is_better=True,
        figures=(Figure("wall rate", report.received / taken_s, "msg/s"),),
        faults=report.faults,
    )


@final
class _Client:
    """One client: it connects, subscribes with QoS 0, and waits for a message."""

    def __init__(self, number: int, topic: str, *, lasting: bool) -> None:
        self.topic = topic
        self.socket = socket.socket()
        self.socket.setblocking(False)
        self.greeting = wire.connect(f"bench-storm-{number}", version=wire.MQTT_3_1_1, clean=not lasting)
        self.rest = b""
        self.messages = 0


@final
class Storm:
    """Clients on one epoll object, some hundreds of them connecting at a time; all end with the `with` block."""

    def __init__(self, address: Address, count: int, *, lasting: bool, own_topics: bool = False) -> None:
        self._address = address
        self._count = count
        self.topics = [TOPIC + f"/{number}" for number in range(count)] if own_topics else [TOPIC]
        self._waiting = [
            _Client(number, self.topics[number % len(self.topics)], lasting=lasting)
            for number in reversed(range(count))
        ]
        self._clients: dict[int, _Client] = {}
        self._poll = select.epoll()
        self._subscribed = 0
        self._reached = 0
        self._moved_s = 0.0  # when anything came last

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for client in (*self._clients.values(), *self._waiting):
            client.socket.close()
        self._poll.close()

    def connect(self) -> None:
        """Return when all are connected and subscribed. Raises LoadError if some cannot connect."""
        self._moved_s = time.monotonic()
        while self._subscribed < self._count:
            while self._waiting and len(self._clients) - self._subscribed < CONNECTING_MAX:
                self._begin(self._waiting.pop())
            self._serve()

    def receive(self) -> Faults:
        """Wait until each client has a message, and a while longer; return the clients with more than one."""
        self._moved_s = time.monotonic()
        while self._reached < self._count:
            self._serve()
        quiet_until_s = time.monotonic() + QUIET_S
        while time.monotonic() < quiet_until_s:
            self._serve()
        return Faults(duplicated=sum([client.messages - 1 for client in self._clients.values()]))

    def _begin(self, client: _Client) -> None:
        code = client.socket.connect_ex(self._address)
        if code not in (0, errno.EINPROGRESS):
            raise OSError(code, "a client of a storm could not connect")
        self._clients[client.socket.fileno()] = client
        self._poll.register(client.socket.fileno(), select.EPOLLOUT)

    def _serve(self) -> None:
        events = self._poll.poll(POLL_S)
        for fd, mask in events:
            client = self._clients[fd]
            if mask & select.EPOLLOUT:
                client.socket.sendall(client.greeting)
                self._poll.modify(fd, select.EPOLLIN)
            else:
                self._read(client)
        if events:
            self._moved_s = time.monotonic()
        elif time.monotonic() - self._moved_s > SILENCE_S:
            raise LoadError(f"{self._subscribed} of {self._count} clients got in, {self._reached} were reached")

    def _read(self, client: _Client) -> None:
        received = client.socket.recv(4096)
        if not received:
            raise ConnectionError("the broker closed a connection of a storm")
        data, at = client.rest + received, 0
        while True:
            _, end = wire.packet_end(data, at, len(data))
            if end == 0 or end > len(data):
                break
            self._understand(client, data[at:end])
            at = end
        client.rest = data[at:]

    def _understand(self, client: _Client, packet: bytes) -> None:
        kind = packet[0] & wire.TYPE_MASK
        if kind == wire.PUBLISH:
            client.messages += 1
            self._reached += client.messages == 1
        elif kind == wire.SUBACK:
            wire.check_suback(packet)
            self._subscribed += 1
        else:
            wire.check_connack(packet)
            client.socket.sendall(wire.subscribe(client.topic, qos=0, version=wire.MQTT_3_1_1))


def _reach_all(broker: Broker, storm: Storm) -> Faults:
    packet = wire.connect("bench-storm-publisher", version=wire.MQTT_3_1_1)
    with open_session(broker.address_of(MQTT), packet) as publisher:
        for topic in storm.topics:
            header = wire.publish_header(topic, qos=0, payload_bytes=PAYLOAD_BYTES)
            publisher.send(wire.publish_stream([header], cycle=1)[0])
        return storm.receive()
