"""Cases of durable messages: how long a confirmation takes alone, at a low rate, beside checkpoints; how many at most.

One MQTT client publishes with QoS 1 to a durable queue or, at a peer without queues, to the session of an absent
subscriber. Times count from when a message was due. The messages are read and checked afterwards.
"""

import os
import select
import time
from pathlib import Path
from typing import Final, final

from bench.brokers import measure
from bench.brokers.broker import Broker
from bench.cases.footprint import TOPIC, drain, prepare_backlog
from bench.cases.load_processes import LoadError
from bench.load.mqtt import open_session
from bench.load.outcome import Figure, Outcome
from bench.load.plan import MQTT, LoadPlan
from bench.wire import mqtt as wire

WINDOW: Final = 2000  # messages in flight at most; also for the cycle of their sequences
SILENCE_S: Final = 30.0  # without a confirmation: given up
US: Final = 1e6

# A message published alone.
ALONE_MAX: Final = 20_000
SYNC_EACH: Final = 4  # messages to one bare sync beside them
RECORD_BYTES: Final = 200  # what is written of a message beside its payload, about
SYNC_FILE_BYTES: Final = 8 << 20
ALIGNMENT: Final = 8

# Beside checkpoints.
LOOK_EACH_S: Final = 0.05
LONG: Final = 4  # times the usual length, so that checkpoints are made


def run_alone(broker: Broker, *, seconds: float, payload_bytes: int, timeout_s: float) -> Outcome:
    """Publish one message after the other, each after the confirmation of the one before, beside bare syncs."""
    prepare_backlog(broker)
    publisher = _Publisher(broker, payload_bytes)
    bare = _BareSync(broker.directory, payload_bytes + RECORD_BYTES)
    took_s: list[float] = []
    cpu_s = measure.cpu_seconds(broker.pid)
    ends_s = time.monotonic() + seconds
    while time.monotonic() < ends_s and publisher.published < ALONE_MAX:
        took_s.append(publisher.publish_and_wait())
        if publisher.published % SYNC_EACH == 0:
            bare.sync()
    cpu_s = measure.cpu_seconds(broker.pid) - cpu_s
    publisher.close()
    drained, _ = drain(broker, publisher.published, timeout_s, window=WINDOW, payload_bytes=payload_bytes)
    p50_s, bare_s = _part(took_s, 0.5), _part(bare.took_s, 0.5)
    return Outcome(
        headline=Figure("confirmation of a message published alone, p50", p50_s * US, "us"),
        higher_is_better=False,
        figures=(
            Figure("p99", _part(took_s, 0.99) * US, "us"),
            Figure("bare fdatasync, p50", bare_s * US, "us"),
            Figure("beyond it", (p50_s - bare_s) * US, "us"),
            Figure("broker CPU per message", cpu_s / len(took_s) * US, "us"),
        ),
        faults=drained.faults,
    )


def run_kept(broker: Broker, *, rate: float, seconds: float, payload_bytes: int, timeout_s: float) -> Outcome:
    """Publish at a low rate messages that are kept; measure the broker's processor time."""
    prepare_backlog(broker)
    publisher = _Publisher(broker, payload_bytes)
    publisher.run(rate, 1.0)  # warm
    first = len(publisher.took_s)
    cpu_s = measure.cpu_seconds(broker.pid)
    publisher.run(rate, seconds)
    cpu_s = measure.cpu_seconds(broker.pid) - cpu_s
    took_s = publisher.took_s[first:]
    publisher.close()
    drained, _ = drain(broker, publisher.published, timeout_s, window=WINDOW, payload_bytes=payload_bytes)
    return Outcome(
        headline=Figure("broker CPU per message", cpu_s / len(took_s) * US, "us"),
        higher_is_better=False,
        figures=(
            Figure("confirmation, p50", _part(took_s, 0.5) * US, "us"),
            Figure("p99", _part(took_s, 0.99) * US, "us"),
            Figure("p99.9", _part(took_s, 0.999) * US, "us"),
            Figure("broker load", 100 * cpu_s / seconds, "%"),
        ),
        faults=drained.faults,
    )


def run_most(broker: Broker, *, seconds: float, payload_bytes: int, timeout_s: float) -> Outcome:
    """Publish as many messages that are kept as the broker takes with a full window."""
    prepare_backlog(broker)
    publisher = _Publisher(broker, payload_bytes)
    publisher.fill(1.0)  # warm
    first = publisher.published
    cpu_s = measure.cpu_seconds(broker.pid)
    begin_s = time.monotonic()
    publisher.fill(seconds)
    took_s = time.monotonic() - begin_s
    cpu_s = measure.cpu_seconds(broker.pid) - cpu_s
    count = publisher.published - first
    publisher.close()
    drained, _ = drain(broker, publisher.published, timeout_s, window=WINDOW, payload_bytes=payload_bytes)
    return Outcome(
        headline=Figure("messages per broker CPU second", count / cpu_s, "/s"),
        higher_is_better=True,
        figures=(
            Figure("broker CPU per message", cpu_s / count * US, "us"),
            Figure("messages a second", count / took_s, "/s"),
        ),
        faults=drained.faults,
    )


def run_checkpoints(broker: Broker, *, rate: float, seconds: float, payload_bytes: int, timeout_s: float) -> Outcome:
    """Publish at a rate, until the broker has written its state several times; compare with the time before that."""
    prepare_backlog(broker)
    publisher = _Publisher(broker, payload_bytes)
    publisher.run(rate, LONG * seconds, looks=True)
    publisher.close()
    drained, _ = drain(broker, publisher.published, timeout_s, window=WINDOW, payload_bytes=payload_bytes)
    begin_s = publisher.state_written_s[0] if publisher.state_written_s else 0.0
    pairs = list(zip(publisher.due_s, publisher.took_s, strict=True))
    before = [took_s for due_s, took_s in pairs if due_s + took_s < begin_s]
    beside = [took_s for due_s, took_s in pairs if due_s + took_s >= begin_s]
    return Outcome(
        headline=Figure("confirmation beside checkpoints, p99.9", _part(beside, 0.999) * US, "us"),
        higher_is_better=False,
        figures=(
            Figure("p50", _part(beside, 0.5) * US, "us"),
            Figure("max", max(beside) * US, "us"),
            Figure("p50 before the first one", _part(before, 0.5) * US, "us"),
            Figure("p99.9 before it", _part(before, 0.999) * US, "us"),
            Figure("max before it", max(before, default=0.0) * US, "us"),
            Figure("times seen being written", len(publisher.state_written_s), ""),
        ),
        faults=drained.faults,
    )


@final
class _Publisher:
    """Publishes with QoS 1, and notes for each message when it was due and how long its confirmation took."""

    def __init__(self, broker: Broker, payload_bytes: int) -> None:
        cycle = LoadPlan(qos=1, window=WINDOW, payload_sizes=(payload_bytes,)).cycle
        header = wire.publish_header(TOPIC, qos=1, payload_bytes=payload_bytes)
        self._stream, self._at = wire.publish_stream([header], cycle=cycle)
        self._acks = wire.ack_stream(wire.PUBACK, cycle)
        self._broker = broker
        packet = wire.connect("bench-publisher", version=wire.MQTT_3_1_1)
        self._connection = open_session(broker.address_of(MQTT), packet)
        self._cycle = cycle
        self._rest = b""
        self.published = 0
        self.due_s: list[float] = []  # of each message
        self.took_s: list[float] = []  # of each confirmed one, in their order
        self.state_written_s: list[float] = []  # when the broker's state was seen to have been written

    def close(self) -> None:
        """Leave the broker."""
        self._connection.close()

    def publish_and_wait(self) -> float:
        """Publish a message and wait for its confirmation; return how long that took."""
        self._publish(time.monotonic())
        self._confirmed(self._connection.read_exactly(wire.ACK_BYTES))
        return self.took_s[-1]

    def run(self, rate: float, seconds: float, *, looks: bool = False) -> None:
        """Publish at a rate, and wait for all confirmations. `looks` at the state of the broker now and then."""
        begin_s = heard_s = time.monotonic()
        first, count = self.published, round(rate * seconds)
        state, look_s = self._broker.state_written_ns(), begin_s
        while len(self.took_s) < first + count:
            now_s = time.monotonic()
            if looks and now_s >= look_s:
                look_s = now_s + LOOK_EACH_S
                if (written := self._broker.state_written_ns()) != state:
                    state = written
                    self.state_written_s.append(now_s)
            next_s = begin_s + (self.published - first) / rate
            may_publish = self.published < first + count and self.published - len(self.took_s) < WINDOW
            if may_publish and next_s <= now_s:
                self._publish(next_s)
                continue
            wait_s = max(0.0, next_s - now_s) if may_publish else LOOK_EACH_S
            if select.select([self._connection.socket], [], [], min(wait_s, LOOK_EACH_S))[0]:
                self._confirmed(self._connection.socket.recv(wire.ACK_BYTES * WINDOW))
                heard_s = now_s
            elif now_s > heard_s + SILENCE_S:
                raise LoadError(f"{len(self.took_s)} of {self.published} messages were confirmed")

    def fill(self, seconds: float) -> None:
        """Publish with a full window for some time, and wait for all confirmations."""
        ends_s = heard_s = time.monotonic() + seconds
        while True:
            now_s = time.monotonic()
            confirmed = len(self.took_s)
            if now_s < ends_s:
                self._publish_through(confirmed + WINDOW)
            elif confirmed == self.published:
                return
            if select.select([self._connection.socket], [], [], LOOK_EACH_S)[0]:
                self._confirmed(self._connection.socket.recv(wire.ACK_BYTES * WINDOW))
                heard_s = max(heard_s, now_s)
            elif now_s > heard_s + SILENCE_S:
                raise LoadError(f"{confirmed} of {self.published} messages were confirmed")

    def _publish_through(self, end: int) -> None:
        """Publish the messages before a number, those of one cycle in one write."""
        while self.published < end:
            number = self.published % self._cycle
            count = min(end - self.published, self._cycle - number)
            self.due_s.extend([time.monotonic()] * count)
            self.published += count
            self._connection.socket.sendall(self._stream[self._at[number] : self._at[number + count]])

    def _publish(self, due_s: float) -> None:
        number = self.published % self._cycle
        self.due_s.append(due_s)
        self.published += 1
        self._connection.socket.sendall(self._stream[self._at[number] : self._at[number + 1]])

    def _confirmed(self, data: bytes) -> None:
        now_s = time.monotonic()
        if not data:
            raise ConnectionError("the broker closed the connection")
        data = self._rest + data
        count, rest = divmod(len(data), wire.ACK_BYTES)
        self._rest = data[len(data) - rest :]
        for number in range(count):
            at = len(self.took_s) % self._cycle * wire.ACK_BYTES
            packet = data[number * wire.ACK_BYTES : (number + 1) * wire.ACK_BYTES]
            if packet != self._acks[at : at + wire.ACK_BYTES]:
                raise wire.WireError(f"{packet.hex(' ')} instead of the next confirmation")
            self.took_s.append(now_s - self.due_s[len(self.took_s)])


@final
class _BareSync:
    """Writes as many bytes as a message takes to a file with allocated blocks, and syncs it: what a disk takes."""

    def __init__(self, folder: Path, size: int) -> None:
        self._data = bytes(-(-size // ALIGNMENT) * ALIGNMENT)
        self._file = (folder / "bare-sync").open("wb", buffering=0)
        os.posix_fallocate(self._file.fileno(), 0, SYNC_FILE_BYTES)
        os.fdatasync(self._file.fileno())
        self._end = 0
        self.took_s: list[float] = []

    def sync(self) -> None:
        """Append, and note how long it took."""
        if self._end + len(self._data) > SYNC_FILE_BYTES:
            self._end = 0
        begin_s = time.monotonic()
        os.pwrite(self._file.fileno(), self._data, self._end)
        os.fdatasync(self._file.fileno())
        self.took_s.append(time.monotonic() - begin_s)
        self._end += len(self._data)


def _part(values: list[float], part: float) -> float:
    """Return the value below which this part of the values is; 0 when there are none."""
    return sorted(values)[int(len(values) * part)] if values else 0.0
