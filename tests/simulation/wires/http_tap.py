"""The bytes of one HTTP connection, seen at the node's end and reported to the judge.

Rules beside those for every publisher and consumer: each request gets its own response, in order; a request that never
came completely publishes nothing; a settlement that got 204 holds for ever, over crashes too; 409 names messages that a
flow no longer has in flight, which are not settled then; 404 means that the flow has ended. A worker that has done all
that it must gets neither.
"""

import re
from collections import deque
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import httptools
import orjson

from simulation.clients.http_responses import Answer, AnswerReader, Delivery
from simulation.judge.targets import EXCLUSIVE, SHARED, Message, Violation
from simulation.judge.timeliness import TICK_US
from simulation.judge.truth import DENIED, Truth
from simulation.wires.mqtt_tap import Written

PUBLISH, READ, SETTLE, END = "publish", "read", "settle", "end"
REFUSED = 0x97  # as a reason code, what a refusal is to the truth
OK, NO_CONTENT, MULTI_STATUS, BAD, FORBIDDEN, NOT_FOUND = 200, 204, 207, 400, 403, 404
TIMEOUT, CONFLICT, UNAVAILABLE = 408, 409, 503
EXPECTED: Final = {  # what may be answered by who does nothing wrong to who does nothing wrong
    PUBLISH: {OK, MULTI_STATUS, BAD, FORBIDDEN, UNAVAILABLE},  # BAD: the queue is gone
    READ: {OK, NO_CONTENT, BAD, NOT_FOUND, CONFLICT, UNAVAILABLE},
    SETTLE: {NO_CONTENT, NOT_FOUND, CONFLICT, UNAVAILABLE},  # the last: the store has failed
    END: {NO_CONTENT, NOT_FOUND},
}
NOT_HELD: Final = re.compile(rb"deliveries ([\d,]+) are not held")


class Flow:
    """A worker's flow, which outlives connections and has messages in flight."""

    def __init__(self, truth: Truth, queue: str, lock_s: int) -> None:
        self.queue = queue
        self.target = truth.targets.get(queue)
        self.written: dict[int, Written] = {}  # by delivery: not settled
        self.used_us = truth.now_us()  # when it was last asked for something
        self._truth = truth
        self._life, self._flow_cuts = truth.life, self.target.flow_cuts if self.target else 0
        self._lock_us = 1_000_000 * lock_s - TICK_US
        self._is_over = False

    @property
    def has_let_go(self) -> bool:
        """As the truth's Holder has it: it may have ended, or what it has may have failed."""
        return self.may_have_ended() or any(self.is_late(each) for each in self.written.values())

    def may_have_ended(self) -> bool:
        """Return whether it has ended, or there was a reason to end it."""
        target = self.target
        is_silent = self._truth.now_us() - self.used_us >= self._lock_us
        if self._is_over or is_silent or self._life != self._truth.life or target is None:
            return True
        return target.flow_cuts != self._flow_cuts or self._truth.targets.get(self.queue) is not target

    def is_late(self, what: Written) -> bool:
        """Return whether the time to settle a delivery may be over, of one that nobody else has had since."""
        has_it = what.target.seen[what.number].holder is self
        return has_it and self._truth.now_us() - what.held_us >= self._lock_us

    def must_hold(self, what: Written) -> bool:
        """Return whether nothing can have taken the delivery from it."""
        target, now_us = what.target, self._truth.now_us()
        is_late = 0 < 1000 * target.rules.lock_ms - TICK_US <= now_us - what.held_us or self.is_late(what)
        is_cut = target.is_broken or target.flow_cuts != what.flow_cuts
        if is_late or is_cut or target.rules.last_value or self.may_have_ended():
            return False
        message = self._truth.course.messages[what.number]
        is_taken = target.was_emptied_since(message.sent_tick) or target.was_moved_since(message.sent_tick)
        seen = target.seen[what.number]
        return seen.holder is self and not (seen.is_returned or is_taken)

    def uses(self) -> None:
        """Note that its worker asks for something."""
        self.used_us = self._truth.now_us()

    def ends(self) -> None:
        """Its worker, or the node, has ended it."""
        self._is_over = True


class Settled(NamedTuple):
    """A request's outcome for a delivery of its flow."""

    number: int
    what: Written
    tick_before: int  # when the message was settled before, if it was
    tick: int
    must_be_held: bool


@dataclass(eq=False)
class Asked:
    """A request of a client."""

    kind: str
    messages: list[Message] = field(default_factory=list)  # that it publishes
    is_batch: bool = False
    flow_id: str = ""  # empty: a new one
    queue: str = ""
    lock_s: int = 0
    numbers: list[int] = field(default_factory=list)  # deliveries that it settles
    outcome: str = ""
    begun_us: int = 0  # when the node may have begun with it
    settled: list[Settled] = field(default_factory=list)


class RequestTap:
    """One connection. `sent` are the client's requests on it, `flows` those of all connections of its program."""

    def __init__(self, truth: Truth, sent: list[Asked], flows: dict[str, Flow]) -> None:
        self._truth = truth
        self._sent = sent
        self._flows = flows
        self._read_count = 0
        self._line: deque[Asked] = deque()  # read, and not answered
        self._requests = httptools.HttpRequestParser(self)
        self._answers = AnswerReader()

    # --- client to node ---

    def read(self, data: bytes) -> None:
        """The node reads bytes, cut anywhere."""
        self._requests.feed_data(data)

    def on_message_complete(self) -> None:
        """A request is whole: what it publishes may come from now on."""
        asked = self._sent[self._read_count]
        self._read_count += 1
        for message in asked.messages:
            message.withheld = False
        self._line.append(asked)
        if len(self._line) == 1:
            self._begins(asked)

    def _begins(self, asked: Asked) -> None:
        """The node may begin with a request: all before it are answered."""
        asked.begun_us = self._truth.now_us()
        flow = self._flows.get(asked.flow_id)
        if flow is None:
            return
        if asked.kind == SETTLE:
            for number in asked.numbers:
                if number in flow.written:
                    self._settles(flow, asked, number)
        if not flow.may_have_ended():
            flow.uses()

    def _settles(self, flow: Flow, asked: Asked, number: int) -> None:
        """A delivery may be settled from now on; the answer says whether it is."""
        what, truth = flow.written[number], self._truth
        seen, must_be_held = what.target.seen[what.number], flow.must_hold(what)
        tick_before = seen.settled_tick
        if asked.outcome in ("accepted", "rejected"):
            is_rejected = asked.outcome == "rejected" and must_be_held
            truth.settled(what.target, what.number, flow, for_good=False, rejected=is_rejected)
        elif asked.outcome in ("released", "failed"):
            seen.returns(flow, is_untouched=asked.outcome == "released")
        asked.settled.append(Settled(number, what, tick_before, seen.settled_tick, must_be_held))

    # --- node to client ---

    def written(self, data: bytes) -> None:
        """The node writes."""
        for answer in self._answers.feed(data):
            if not self._line:
                if answer.status != TIMEOUT:
                    raise Violation(f"an answer came to no request: {answer}")
                return
            asked = self._line[0]
            self._answered(asked, answer)
            if answer.is_whole:
                self._line.popleft()
                if self._line:
                    self._begins(self._line[0])

    def ended(self) -> None:
        """The node closes the connection, or has lost it: its flows go on."""

    def _answered(self, asked: Asked, answer: Answer) -> None:
        if answer.status not in EXPECTED[asked.kind]:
            raise Violation(f"{asked} was answered with {answer}")
        if asked.kind == SETTLE and answer.status == UNAVAILABLE and not self._truth.course.store_faults:
            raise Violation(f"a settlement was answered with {answer}, and the store had not failed")
        flow = self._flows.get(asked.flow_id)
        if answer.status == NOT_FOUND and flow is not None and not flow.may_have_ended():
            raise Violation(f"a flow on {flow.queue} was answered to be no more, and nothing has ended it")
        if asked.kind == PUBLISH:
            self._published(asked, answer)
        elif asked.kind == READ and answer.flow_id:
            self._delivers(asked, answer)
        elif asked.kind == SETTLE and flow is not None:
            self._settled(flow, asked, answer)
        elif asked.kind == END and flow is not None:
            flow.ends()

    def _published(self, asked: Asked, answer: Answer) -> None:
        if asked.is_batch and answer.status in (OK, MULTI_STATUS):
            statuses = [orjson.loads(line)["status"] for line in answer.body.splitlines()]
        else:
            statuses = [answer.status] * len(asked.messages)
        if len(statuses) != len(asked.messages):
            raise Violation(f"{len(asked.messages)} messages of a batch were answered with {statuses}")
        for message, status in zip(asked.messages, statuses, strict=True):
            if status not in EXPECTED[PUBLISH]:
                raise Violation(f"{message} was answered with {status}")
            if message.qos:
                refusal = DENIED if status == FORBIDDEN else REFUSED
                self._truth.promised(message, 0 if status == OK else refusal)

    def _delivers(self, asked: Asked, answer: Answer) -> None:
        flow = self._flows.get(answer.flow_id)
        if flow is None:
            flow = self._flows[answer.flow_id] = Flow(self._truth, asked.queue, asked.lock_s)
        asked.flow_id = answer.flow_id
        flow.uses()
        for delivery in answer.deliveries():
            self._delivery(flow, delivery)
        if answer.ends_flow():
            flow.ends()

    def _delivery(self, flow: Flow, delivery: Delivery) -> None:
        target, number, now_us = self._truth.targets.get(flow.queue), delivery.message_number, self._truth.now_us()
        before = flow.written.get(delivery.number)
        if before is not None:  # a worker that may not have got it gets it again
            if before.number != number:
                raise Violation(f"delivery {delivery.number} was message {before.number}, and is message {number}")
            return
        if target is None or target is not flow.target:  # it is being deleted
            self._truth.came_unjudged.add(number)
            return
        earlier = [place for place, what in flow.written.items() if what.number == number]
        flagged, count = delivery.is_redelivered, delivery.tries
        self._truth.delivered(target, number, flow, held_us=now_us, flagged=flagged, count=count, again=False)
        if self._truth.course.messages[number].sent_count == 1:  # else it may be another one that looks like it
            for place in earlier:  # what it was given of it before has failed
                del flow.written[place]
        flow.written[delivery.number] = Written(target, number, target.flow_cuts, now_us, 0)

    def _settled(self, flow: Flow, asked: Asked, answer: Answer) -> None:
        """The node has said which deliveries it has settled: for ever."""
        named = NOT_HELD.search(answer.body)
        not_held = {int(each) for each in named[1].split(b",")} if named else set()
        for each in asked.settled:
            number, what = each.number, each.what
            if answer.status == NOT_FOUND or number in not_held:
                self._is_not_settled(flow, asked, each, must_be_held=number in not_held and each.must_be_held)
            elif asked.outcome == "extend":
                flow.written[number] = what._replace(held_us=asked.begun_us)
                what.target.seen[what.number].extends(flow, asked.begun_us)
            elif answer.status == UNAVAILABLE:  # it may come again, or be settled after all
                flow.written.pop(number, None)
            else:
                flow.written.pop(number, None)
                if asked.outcome == "accepted":
                    self._truth.settled_by_commit(what.target, what.number, flow)

    def _is_not_settled(self, flow: Flow, asked: Asked, each: Settled, *, must_be_held: bool) -> None:
        target, number = each.what.target, each.what.number
        if must_be_held and target.kind in (EXCLUSIVE, SHARED) and not self._truth.course.store_faults:
            raise Violation(
                f"{target.name}: {self._truth.course.messages[number]} was {asked.outcome}, and is said to be away"
            )
        if asked.outcome in ("accepted", "rejected"):
            seen = target.seen[number]
            if seen.answered_tick == each.tick:
                seen.was_rejected = False
            self._truth.comes_back(target, number, each.tick, each.tick_before)
        if flow.written.pop(each.number, None) and target.seen[number].held_us == each.what.held_us:
            target.seen[number].returns(flow, is_untouched=False)  # unless the flow was given it anew meanwhile
