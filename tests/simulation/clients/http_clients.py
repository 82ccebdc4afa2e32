"""Connections of HTTP clients that form one program: they publish, and share flows to consume.

A request may be sent before earlier responses have come, or be broken off. A client whose connection ends before a
response never knows the outcome.
"""

import gzip
from collections.abc import Callable
from random import Random
from typing import Final

import orjson

from simulation.clients.client import HOLD, OFFLINE, ONLINE, PROMPT, Later
from simulation.clients.connected_client import Wired
from simulation.clients.http_responses import EVENTS, LINES, Answer, AnswerReader
from simulation.judge.targets import Message
from simulation.judge.truth import Truth
from simulation.wires.http_tap import END, NOT_FOUND, PUBLISH, READ, SETTLE, Asked, Flow, RequestTap
from simulation.wires.memory_network import Wire

SETTLE_US_MAX = 50_000  # what is not held on to is settled within
LOST_SHARE, BROKEN_OFF_SHARE = 0.02, 0.01  # of requests behind which the connection is cut, or whose end never comes
ANSWER_US_MAX = 10_000  # within which the former happens
BATCH_MAX, LINES_MAX = 5, 12  # messages of one request, and of one answer
DIRECT_SHARE, CLOSE_SHARE, ODD_SHARE = 0.15, 0.03, 0.2
LOCKS_S, WAITS_S = (2, 5, 10, 30), (0, 0, 1, 4)
READ_ON_SHARE, READ_ON_US_MAX = 0.8, 30_000  # of polls that another one follows, and how soon
FLOWS_MAX = 3
OUTCOMES: Final = (*("accepted",) * 6, "released", "failed", "rejected", "extend")

Dial = Callable[["Requester", RequestTap], Wire]
Fields = dict[str, str]
Kept = tuple[str, int]  # flow id and delivery


class Program:
    """What the connections of one program share."""

    def __init__(self) -> None:
        self.seen: dict[str, Flow] = {}  # what the judge knows of flows, those too that the program never heard of
        self.flows: dict[str, str] = {}  # by id: the queues of those that it knows
        self.held: list[Kept] = []
        self.connections: list[Requester] = []
        self.mode = PROMPT

    def settle(self, some: list[Kept], outcome: str) -> None:
        """Say what becomes of deliveries of one flow, on any connection that can take a request."""
        for each in self.connections:
            if each.can_send:
                each.say(some, outcome)
                return

    def forget(self) -> None:
        """Begin anew: what it had held nobody settles."""
        self.flows.clear()
        self.held.clear()


class Requester(Wired):
    """One connection of the program after the other."""

    def __init__(self, name: str, truth: Truth, program: Program, *, dial: Dial, later: Later) -> None:
        super().__init__()
        self.name = name
        self.state = OFFLINE
        self.program = program
        program.connections.append(self)
        self.rng = Random(0)  # seeded anew by each step
        self._truth = truth
        self._dial = dial
        self._later = later
        self._connections_count = 0
        self._begin_anew()

    def _begin_anew(self) -> None:
        self._sent: list[Asked] = []
        self._answered_count = 0
        self._is_last_sent = False  # nothing can follow on this connection
        self._answers = AnswerReader()

    # --- what it is told to do ---

    @property
    def is_waiting(self) -> bool:
        """Return whether a request that was sent whole was not answered."""
        return self._wire is not None and not self._is_last_sent and self._answered_count < len(self._sent)

    def connect(self) -> None:
        """Open a connection."""
        self._begin_anew()
        self._connections_count += 1
        self.state = ONLINE
        self._wire = self._dial(self, RequestTap(self._truth, self._sent, self.program.seen))

    def sends(
        self, topic: str, key: str, size: int, *, expiry_s: int = 0, delay_s: int = 0, priority: int = 4
    ) -> tuple[Message, dict[str, str], bytes]:
        """Return a message that is about to be sent, its headers and its payload."""
        qos = 0 if not topic.startswith("$") and self.rng.random() < DIRECT_SHARE else 1
        message = self._truth.sent(
            f"{self.name}, connection {self._connections_count}",
            key,
            topic,
            qos,
            expiry_s=expiry_s,
            delay_s=delay_s,
            priority=priority,
            withheld=True,  # until its request has come whole
        )
        said = {
            "Solace-Delivery-Mode": "Persistent" if qos else "Direct",
            "Sluicegate-Partition-Key": key,
            "Solace-Priority": str(priority),
            "Solace-Time-To-Live-In-ms": str(1000 * expiry_s),
            "Sluicegate-Delivery-Delay-In-ms": str(1000 * delay_s),
        }
        return message, said, (b"%d|" % message.number).ljust(size, b".")

    def publish(self, messages: list[tuple[Message, dict[str, str], bytes]]) -> None:
        """Send messages, in a request each or in batches."""
        while messages:
            count = self.rng.choice((1, 1, 1, 1 + self.rng.randrange(BATCH_MAX)))
            some, messages = messages[:count], messages[count:]
            asked = Asked(PUBLISH, [message for message, _, _ in some], is_batch=count > 1)
            if count == 1:
                message, said, body = some[0]
                self._send(asked, "POST", _path(message.topic), said, body)
                continue
            lines = [
                {"destination": _path(message.topic), "headers": said, "payload": payload.decode()}
                for message, said, payload in some
            ]
            body = b"\n".join([orjson.dumps(line) for line in lines])
            self._send(asked, "POST", "/TOPIC/none", {"Sluicegate-Batch": "ndjson"}, body)

    def read_queue(self, queue: str) -> None:
        """Read on a flow on a queue, or on any if there are enough; else bind one."""
        rng, program = self.rng, self.program
        known = [each for each, its in program.flows.items() if its == queue or len(program.flows) >= FLOWS_MAX]
        lock_s, asked_for = rng.choice(LOCKS_S), {"wait_s": str(rng.choice(WAITS_S))}
        said = {"Solace-Client-Name": rng.choice((self.name, "worker"))}
        shape = rng.random()
        if shape < 0.15:
            said["Accept"], asked_for = EVENTS, {"window": str(1 + rng.randrange(LINES_MAX))}
        elif shape < 0.7:
            said["Accept"], asked_for["max"] = LINES, str(1 + rng.randrange(LINES_MAX))
        if known and rng.random() < 0.9:
            flow_id = rng.choice(known)
            held = [number for its, number in program.held if its == flow_id]
            if rng.random() < ODD_SHARE:
                said["Last-Event-ID"] = f"{flow_id}/{min(held, default=1) - rng.randrange(2)}"
            asked, path = Asked(READ, flow_id=flow_id, queue=program.flows[flow_id]), f"/FLOW/{flow_id}"
        else:
            asked_for["lock_s"] = str(lock_s)
            asked, path = Asked(READ, queue=queue, lock_s=lock_s), f"/QUEUE/{queue}"
        query = "&".join([f"{name}={value}" for name, value in asked_for.items()])
        self._send(asked, "GET", f"{path}?{query}", said)
        self._is_last_sent = said.get("Accept") == EVENTS or self._is_last_sent

    def settle(self, count: int) -> None:
        """Say what becomes of some of what is held, the oldest or the newest of one flow."""
        held = self.program.held
        if not held:
            return
        flow_id = held[self.rng.choice((0, -1))][0]
        some = [each for each in held if each[0] == flow_id][:count]
        self.program.settle(some, self.rng.choice(OUTCOMES))

    def say(self, some: list[Kept], outcome: str) -> None:
        """Send what becomes of deliveries of one flow."""
        program, flow_id, numbers = self.program, some[0][0], [number for _, number in some]
        if outcome != "extend":
            program.held = [each for each in program.held if each not in some]
        asked = Asked(SETTLE, flow_id=flow_id, numbers=numbers, outcome=outcome)
        self._send(asked, "POST", f"/FLOW/{flow_id}/{','.join([str(each) for each in numbers])}?outcome={outcome}")

    def end_a_flow(self) -> None:
        """End a flow, whatever it holds."""
        if self.program.flows and self.can_send:
            flow_id = self.rng.choice(list(self.program.flows))
            self._forget(flow_id)
            self._send(Asked(END, flow_id=flow_id), "DELETE", f"/FLOW/{flow_id}")

    def close(self) -> None:
        """Close the connection in good order."""
        if self._wire is not None:
            self._wire.finish()
            self._gone()

    def vanish(self) -> None:
        """Be gone, and let the node find out: behind a stream it would not, which writes next to nothing."""
        self.cut() if self._is_last_sent else super().vanish()

    def crash(self) -> None:
        """Lose the connection, and what the program knew."""
        self.cut()
        self.program.forget()

    def end_reading(self) -> None:
        """Lose a connection on which nothing can be sent any more."""
        if self._is_last_sent:
            self.cut()

    def tick(self) -> None:
        """Time goes on; a client of HTTP need not show that it is alive."""

    @property
    def can_send(self) -> bool:
        """Return whether another request may follow on this connection."""
        return self._wire is not None and not self._is_last_sent

    # --- what comes ---

    def received(self, data: bytes) -> None:
        """Handle answers of the node."""
        for answer in self._answers.feed(data):
            if self._answered_count == len(self._sent):
                continue  # it says that a request has not come to its end in time
            self._answered(self._sent[self._answered_count], answer)
            self._answered_count += answer.is_whole

    def _answered(self, asked: Asked, answer: Answer) -> None:
        if answer.status == NOT_FOUND:
            self._forget(asked.flow_id)
        if asked.kind == READ and answer.flow_id:
            self.program.flows[answer.flow_id] = asked.queue
            self._deliveries([(answer.flow_id, each.number) for each in answer.deliveries()])
            if answer.is_whole and self.rng.random() < READ_ON_SHARE:
                self._later(self.rng.randrange(READ_ON_US_MAX), lambda: self.read_queue(asked.queue))

    def disconnected(self) -> None:
        """The node, or the network, has ended the connection."""
        self._gone()

    def _deliveries(self, kept: list[Kept]) -> None:
        self.program.held += [each for each in kept if each not in self.program.held]
        if self.program.mode != HOLD and kept:
            outcome = "accepted" if self.program.mode == PROMPT else self.rng.choice(OUTCOMES)
            wait_us = 0 if self.program.mode == PROMPT else self.rng.randrange(SETTLE_US_MAX)
            self._later(wait_us, lambda: self.program.settle(kept, outcome))

    # --- what it is made of ---

    def _send(
        self, asked: Asked, method: str, path: str, said: dict[str, str] | None = None, body: bytes = b""
    ) -> None:
        if self._wire is None or self._is_last_sent:
            return
        rng, fields = self.rng, {"Host": "localhost", **(said or {})}
        if body and rng.random() < ODD_SHARE:
            fields["Content-Encoding"], body = "gzip", gzip.compress(body, mtime=0)
        if rng.random() < CLOSE_SHARE:
            fields["Connection"], self._is_last_sent = "close", True
        if body and rng.random() < ODD_SHARE:
            fields["Transfer-Encoding"] = "chunked"
            cut = rng.randrange(len(body))
            body = b"".join([b"%x\r\n%b\r\n" % (len(each), each) for each in (body[:cut], body[cut:], b"") if each])
            body += b"0\r\n\r\n"
        elif method == "POST":
            fields["Content-Length"] = str(len(body))
        head = "".join([f"{name}: {value}\r\n" for name, value in fields.items()])
        data = f"{method} {path} HTTP/1.1\r\n{head}\r\n".encode() + body
        self._sent.append(asked)
        if rng.random() < BROKEN_OFF_SHARE:
            data, self._is_last_sent = data[: rng.randrange(len(data))], True
        self._wire.send(data)
        if rng.random() < LOST_SHARE:
            wire = self._wire
            self._later(rng.randrange(ANSWER_US_MAX), lambda: self.cut() if self._wire is wire else None)

    def _forget(self, flow_id: str) -> None:
        self.program.flows.pop(flow_id, None)
        self.program.held = [each for each in self.program.held if each[0] != flow_id]

    def _gone(self) -> None:
        self._wire = None
        self.state = OFFLINE


def _path(topic: str) -> str:
    return f"/QUEUE/{topic.removeprefix('$queue/')}" if topic.startswith("$queue/") else f"/TOPIC/{topic}"
