"""The processes of a load: workers, the clients that each connects, their progress in shared memory, their reports."""

import mmap
import multiprocessing
import multiprocessing.connection
import select
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, final

from bench.brokers import measure
from bench.brokers.broker import Broker
from bench.load import amqp, flow, http, mqtt
from bench.load.lanes import End, Lane, SendingEnd, Worker
from bench.load.outcome import LoadReport
from bench.load.plan import AMQP, FLOW, HTTP, MQTT, MQTT_TLS, MQTT_WEBSOCKET, LoadPlan
from bench.wire.connections import Address

_FORK: Final = multiprocessing.get_context("fork")  # an anonymous mapping is shared by fork only
_CONNECTED: Final = b"connected"
_CONNECT_TIMEOUT_S: Final = 120.0
_WORDS_PER_WORKER: Final = 8  # a cache line each: workers do not slow each other down
_WORD_BYTES: Final = 8

ConnectPublisher = Callable[[LoadPlan, Lane, int, Address, select.epoll], SendingEnd]
ConnectSubscribers = Callable[[LoadPlan, Lane, Address, select.epoll], Sequence[End]]

_PUBLISHERS: Final[dict[str, ConnectPublisher]] = {
    MQTT: mqtt.connect_publisher,
    MQTT_TLS: mqtt.connect_publisher,
    MQTT_WEBSOCKET: mqtt.connect_publisher,
    AMQP: amqp.connect_publisher,
    FLOW: flow.connect_publisher,
    HTTP: http.connect_publisher,
}
_SUBSCRIBERS: Final[dict[str, ConnectSubscribers]] = {
    MQTT: mqtt.connect_subscribers,
    MQTT_TLS: mqtt.connect_subscribers,
    MQTT_WEBSOCKET: mqtt.connect_subscribers,
    AMQP: amqp.connect_subscribers,
    FLOW: flow.connect_subscribers,
}


class LoadError(Exception):
    """A load could not be run, or ended other than by its plan."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """How far a load was at one moment."""

    at_s: float
    published: int
    received: int
    load_cpu_s: float


@final
class Board:
    """Shared memory: one word tells workers to stop, two for each worker are its progress. Written without locks."""

    def __init__(self, workers: int) -> None:
        self._words = memoryview(mmap.mmap(-1, (workers + 1) * _WORDS_PER_WORKER * _WORD_BYTES)).cast("Q")
        self._workers = workers

    def stop(self) -> None:
        """Tell every worker to stop publishing."""
        self._words[0] = 1

    def totals(self) -> tuple[int, int]:
        """Return messages published and deliveries received by all workers."""
        firsts = range(_WORDS_PER_WORKER, len(self._words), _WORDS_PER_WORKER)
        return sum(self._words[at] for at in firsts), sum(self._words[at + 1] for at in firsts)

    def place(self, worker: int) -> "BoardPlace":
        """Return the part of one worker."""
        return BoardPlace(self._words, (worker + 1) * _WORDS_PER_WORKER)


@final
class BoardPlace:
    """One worker's part of the board."""

    def __init__(self, words: memoryview, at: int) -> None:
        self._words = words
        self._at = at

    def count(self, published: int, received: int) -> None:
        """Store the totals of this worker."""
        self._words[self._at] = published
        self._words[self._at + 1] = received

    def stopped(self) -> bool:
        """Return whether to stop publishing."""
        return self._words[0] != 0


@final
class RunningLoad:
    """Workers that run a plan. Created by `run_load`."""

    def __init__(self, plan: LoadPlan, broker: Broker, subscribed: Broker, workers: int) -> None:
        count = min(workers, plan.lanes)
        self._board = Board(count)
        self._pipes: list[multiprocessing.connection.Connection] = []
        self._processes: list[multiprocessing.process.BaseProcess] = []
        for worker in range(count):
            ours, theirs = _FORK.Pipe()
            lanes = range(worker, plan.lanes, count)
            arguments = (plan, lanes, broker, subscribed, self._board.place(worker), theirs)
            process = _FORK.Process(target=_work, args=arguments, daemon=True)
            process.start()
            theirs.close()
            self._pipes.append(ours)
            self._processes.append(process)

    def start(self) -> None:
        """Wait until every client is connected, then start the load."""
        for pipe in self._pipes:
            self._expect(pipe, _CONNECT_TIMEOUT_S)
        for pipe in self._pipes:
            pipe.send(_CONNECTED)

    def snapshot(self) -> Snapshot:
        """Return the progress of the load. Raises LoadError when a worker has ended."""
        for pipe in self._pipes:
            if pipe.poll():
                self._expect(pipe, 0.0)
                raise LoadError("a worker ended before the load was stopped")
        cpu_s = sum([measure.cpu_seconds(process.pid) for process in self._processes if process.pid is not None])
        published, received = self._board.totals()
        return Snapshot(time.monotonic(), published, received, cpu_s)

    def stop(self) -> None:
        """Stop publishing."""
        self._board.stop()

    def report(self, timeout_s: float) -> LoadReport:
        """Wait for the end of the load, and return its report."""
        deadline_s = time.monotonic() + timeout_s
        total = LoadReport()
        for pipe in self._pipes:
            total = total.plus(self._expect(pipe, deadline_s - time.monotonic()))
        return total

    def kill(self) -> None:
        """End every worker at once."""
        for process in self._processes:
            process.kill()
            process.join()

    def _expect(self, pipe: multiprocessing.connection.Connection, timeout_s: float) -> LoadReport:
        if not pipe.poll(max(0.0, timeout_s)):
            raise LoadError(f"a worker did not answer; so far {self._board.totals()} published, received")
        try:
            answer: object = pipe.recv()
        except EOFError:
            raise LoadError("a worker died") from None
        if isinstance(answer, LoadReport):
            return answer
        if answer == _CONNECTED:
            return LoadReport()
        raise LoadError(str(answer))


@contextmanager
def run_load(
    plan: LoadPlan, broker: Broker, *, workers: int, subscribed: Broker | None = None
) -> Iterator[RunningLoad]:
    """Connect all clients of a plan, and start it; its workers end with the block.

    `subscribed` is the broker of the subscribers; None: that of the publishers.
    """
    load = RunningLoad(plan, broker, subscribed or broker, workers)
    try:
        load.start()
        yield load
    finally:
        load.kill()


def _work(
    plan: LoadPlan,
    lane_numbers: range,
    broker: Broker,
    subscribed: Broker,
    place: BoardPlace,
    pipe: multiprocessing.connection.Connection,
) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # the measuring process stops the broker, not this one
    try:
        worker = connect_worker(plan, lane_numbers, broker.address_of, subscribed.address_of)
        pipe.send(_CONNECTED)
        pipe.recv()
        pipe.send(worker.run(place))
        worker.close()
    except Exception as error:  # the measuring process reports it
        pipe.send(f"{type(error).__name__}: {error}")


def connect_worker(
    plan: LoadPlan,
    lane_numbers: range,
    address_of: Callable[[str], Address],
    subscribed_at: Callable[[str], Address] | None = None,
) -> Worker:
    """Connect all clients in some lanes of a plan, subscribers first, so that every message has a subscriber.

    `subscribed_at` returns the addresses for subscribers; None: those for publishers.
    """
    poll = select.epoll()
    lanes: list[Lane] = []
    ends: list[End] = []
    publisher_protocol = plan.publisher_protocol or plan.protocol
    for lane_number in lane_numbers:
        lane = Lane(plan, lane_number)
        address = (subscribed_at or address_of)(plan.protocol)
        ends += _SUBSCRIBERS[plan.protocol](plan, lane, address, poll)
        for number in range(plan.publishers_per_lane):
            connect = _PUBLISHERS[publisher_protocol]
            publisher = connect(plan, lane, number, address_of(publisher_protocol), poll)
            lane.publishers.append(publisher)
            ends.append(publisher)
        lanes.append(lane)
    return Worker(plan, poll, lanes, ends)
