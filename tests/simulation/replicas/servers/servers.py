"""The servers as processes reach them: with delays, losses, second copies, a majority that is away, other leaders.

Everything happens on a loop of their own, which shares its time with the replicas'. What is drawn depends on the seed.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Any, Final, Protocol

import orjson

from simulation.machine.virtual_loop import VirtualLoop
from simulation.replicas.servers.api import API, Api
from simulation.replicas.servers.stream import ModelStream, Stored, error, matches

NEXT: Final = API + "CONSUMER.MSG.NEXT."
CONSUMER: Final = API + "CONSUMER.CREATE."
WAY_US: Final = (150, 2_500)  # of one way
HOP_US: Final = 400  # for a majority
LATE_US_MAX: Final = 6_000_000  # of a copy that nobody waits for any more
NO_LEADER: Final = error(503, 10008, "JetStream system temporarily unavailable")
NO_ROOM: Final = error(503, 10047, "insufficient storage resources available")
KEY_STREAM: Final = "KV"  # in what is asked about the bucket, and written to it
WRONG_LAST: Final = error(400, 10071, "wrong last sequence")


class Receiver(Protocol):
    """A connection, as the servers see it."""

    @property
    def machine(self) -> str:
        """The machine that it is of."""

    def arrived(self, subject: str, data: bytes, reply: str, headers: dict[str, str] | None) -> None:
        """Take a message for one of its subscriptions."""


@dataclass
class Troubles:
    """What goes wrong between processes and servers. Shares of 1."""

    lost: float = 0.0  # requests
    unanswered: float = 0.0  # requests that are carried out
    late: float = 0.0  # requests that arrive when nobody waits for them
    twice: float = 0.0  # requests of which a second copy arrives later
    slow_us: int = 0  # of each way, beside the usual


@dataclass
class Pull:
    """A request for messages that waits for them."""

    left: int
    inbox: str
    by: Receiver
    until_us: int


@dataclass
class Consumer:
    """Where a reader is in a stream."""

    stream: ModelStream
    next_sequence: int
    pulls: list[Pull] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Request:
    """A message on its way to the servers."""

    by: Receiver
    subject: str
    data: bytes
    reply: str
    headers: dict[str, str]


class Servers:
    """Three servers or more, that agree on each stream."""

    def __init__(self, loop: VirtualLoop, rng: Random) -> None:
        self.api: Final = Api()
        self.api.purged = self._purged
        self.troubles = Troubles()
        self.rng: Final = rng  # seeded anew by each step
        self.is_majority_there = True
        self.has_leader = True
        self.is_cut: Final[set[str]] = set()  # machines
        self.has_no_key: Final[set[str]] = set()  # machines that do not reach the bucket
        self.room_bytes = 0  # a larger message is not stored; 0: there is room
        self.on_stored: Callable[[ModelStream], None] = lambda _: None
        self.on_purged: Callable[[ModelStream], None] = lambda _: None
        self._loop: Final = loop
        self._consumers: dict[str, Consumer] = {}
        self._subscriptions: list[tuple[str, Receiver]] = []
        self._waiting: list[Request] = []  # writes that reached a minority
        self._arrives_us: dict[tuple[str, bool], int] = {}  # what a connection sends or gets stays in its order
        self._count = 0

    # --- connections ---

    def subscribe(self, subject: str, by: Receiver) -> None:
        """Have messages of a subject sent to a connection."""
        self._subscriptions.append((subject, by))

    def unsubscribe(self, subject: str, by: Receiver) -> None:
        """Send them no more."""
        self._subscriptions = [each for each in self._subscriptions if each != (subject, by)]

    def gone(self, by: Receiver) -> None:
        """Take that a connection is closed."""
        self._subscriptions = [each for each in self._subscriptions if each[1] is not by]
        for consumer in self._consumers.values():
            consumer.pulls = [each for each in consumer.pulls if each.by is not by]

    def send(self, request: Request) -> None:
        """Let a connection send something."""
        rng, troubles = self.rng, self.troubles
        if request.by.machine in self.is_cut or rng.random() < troubles.lost:
            return
        if request.by.machine in self.has_no_key and KEY_STREAM in request.subject:
            return
        is_late = rng.random() < troubles.late
        if is_late:
            self._later(rng.randrange(LATE_US_MAX), lambda: self._arrive(request))
        else:
            self._in_order(request.by.machine, True, lambda: self._arrive(request))
        if rng.random() < troubles.twice:
            self._later(rng.randrange(LATE_US_MAX), lambda: self._arrive(request))

    def _in_order(self, machine: str, is_to_servers: bool, then: Callable[[], None]) -> None:
        way = (machine, is_to_servers)
        at_us = self._loop.now_us + self.rng.randint(*WAY_US) + self.troubles.slow_us
        at_us = max(at_us, self._arrives_us.get(way, 0))
        self._arrives_us[way] = at_us
        self._later(at_us - self._loop.now_us, then)

    def _later(self, after_us: int, then: Callable[[], None]) -> None:
        self._loop.call_later(after_us / 1_000_000, then)

    # --- at the servers ---

    def _arrive(self, request: Request) -> None:
        if request.subject.startswith(NEXT):
            self._pull(request)
            return
        stream = self.api.stream_of(request.subject)
        if stream is not None or not request.subject.startswith(API):
            self._publish(request.subject, request.data, request.reply, request.headers or None)
        if stream is None and not request.subject.startswith(API):
            return  # no stream has it
        if not self.is_majority_there:
            if stream is not None and self.rng.random() < 0.5:
                self._waiting.append(request)
            return
        if not self.has_leader:
            if self.rng.random() < 0.5:
                # A leader compares a write with what it has proposed, and another one may drop that.
                is_write = stream is not None and self.rng.random() < 0.5
                self._answer(request, WRONG_LAST if is_write else NO_LEADER)
            return
        self._later(self.rng.randrange(HOP_US) if stream is not None else 0, lambda: self._carry_out(request))

    def _carry_out(self, request: Request) -> None:
        stream = self.api.stream_of(request.subject)
        if request.subject.startswith(CONSUMER):
            answer = self._consume(request)
        elif stream is None:
            answer = self.api.answer(request.subject, request.data)
        elif 0 < self.room_bytes < len(request.data):
            answer = NO_ROOM
        else:
            answer = stream.write(request.subject, request.data, request.headers)
            if "seq" in answer:
                self.on_stored(stream)
                self._serve(stream)
        if self.rng.random() >= self.troubles.unanswered:
            self._answer(request, answer)

    def _answer(self, request: Request, answer: dict[str, Any]) -> None:
        if request.reply:
            self._publish(request.reply, orjson.dumps(answer), "", None)

    def _publish(self, subject: str, data: bytes, reply: str, headers: dict[str, str] | None) -> None:
        for pattern, by in list(self._subscriptions):
            if matches(subject, pattern):
                self._deliver(by, subject, data, reply, headers)

    def _deliver(self, by: Receiver, subject: str, data: bytes, reply: str, headers: dict[str, str] | None) -> None:
        def arrive() -> None:
            if by.machine not in self.is_cut:  # else the connection has broken meanwhile
                by.arrived(subject, data, reply, headers)

        if by.machine not in self.is_cut:
            self._in_order(by.machine, False, arrive)

    # --- readers ---

    def _consume(self, request: Request) -> dict[str, Any]:
        name = request.subject.removeprefix(CONSUMER)
        self._count += 1
        config = orjson.loads(request.data)["config"]
        self._consumers[f"c{self._count}"] = Consumer(self.api.streams[name], config["opt_start_seq"])
        return {"name": f"c{self._count}"}

    def _pull(self, request: Request) -> None:
        name = request.subject.rpartition(".")[2]
        consumer = self._consumers.get(name)
        if consumer is None:
            self._deliver(request.by, request.reply, b"", "", {"Status": "503"})
            return
        body = orjson.loads(request.data)
        until_us = self._loop.now_us + body["expires"] // 1000
        pull = Pull(body["batch"], request.reply, request.by, until_us)
        consumer.pulls.append(pull)
        self._later(body["expires"] // 1000, lambda: self._expire(consumer, pull))
        self._serve_consumer(consumer)

    def _expire(self, consumer: Consumer, pull: Pull) -> None:
        if any(each is pull for each in consumer.pulls):
            consumer.pulls = [each for each in consumer.pulls if each is not pull]
            self._deliver(pull.by, pull.inbox, b"", "", {"Status": "408"})

    def _purged(self, stream: ModelStream) -> None:
        self.on_purged(stream)
        self._serve(stream)

    def _serve(self, stream: ModelStream) -> None:
        for consumer in self._consumers.values():
            if consumer.stream is stream:
                self._serve_consumer(consumer)

    def _serve_consumer(self, consumer: Consumer) -> None:
        if not self.is_majority_there:
            return
        stream = consumer.stream
        consumer.next_sequence = max(consumer.next_sequence, stream.first)
        while consumer.pulls and consumer.next_sequence <= stream.last:
            pull = consumer.pulls[0]
            message = stream.messages[consumer.next_sequence]
            self._deliver(pull.by, pull.inbox, message.data, _reply_of(stream, message), None)
            consumer.next_sequence += 1
            pull.left -= 1
            if pull.left == 0:
                consumer.pulls.pop(0)

    def forget_consumers(self) -> None:
        """Have the servers lose where readers are: they keep it in memory."""
        for consumer in self._consumers.values():
            for pull in consumer.pulls:
                self._deliver(pull.by, pull.inbox, b"", "", {"Status": "409", "Description": "Consumer Deleted"})
        self._consumers = {}

    # --- faults ---

    def heal(self) -> None:
        """End all faults."""
        self.troubles = Troubles()
        self.is_cut.clear()
        self.has_no_key.clear()
        self.has_room()
        self.has_leader = True
        if not self.is_majority_there:
            self.regain_majority()

    def has_room(self) -> None:
        """Have room for everything."""
        self.room_bytes = 0

    def elect(self, for_us: int) -> None:
        """Have another leader, which is not there before."""
        self.has_leader = False
        self._later(for_us, self._elected)

    def _elected(self) -> None:
        self.has_leader = True

    def lose_majority(self) -> None:
        """Have no majority of the servers."""
        self.is_majority_there = False

    def regain_majority(self) -> None:
        """Have one again: what a minority has may be stored now, and nobody waits for the answer."""
        self.is_majority_there = True
        waiting, self._waiting = self._waiting, []
        for request in waiting:
            if self.rng.random() < 0.7:
                self._later(self.rng.randrange(50_000), partial(self._carry_out, request))
        for consumer in list(self._consumers.values()):
            self._serve_consumer(consumer)


def _reply_of(stream: ModelStream, message: Stored) -> str:
    """Return what a message names for its acknowledgement, which tells where it is in the stream."""
    left = stream.last - message.sequence
    return f"$JS.ACK.{stream.config['name']}.c.1.{message.sequence}.{message.sequence}.0.{left}"
