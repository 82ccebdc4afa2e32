"""The bytes of one connection between a REST delivery point and a web server, seen at the node's end, for the judge.

Rules beside those for every consumer: a push goes where its point, as it is configured now, has it go; a point never
has more requests out than connections; where a point keeps the order, one message of a partition is out at a time, and
after one that failed none comes that stands behind it; a response that no request has asked for settles nothing, and
ends its connection. 2xx settles a message, and a listed status rejects it; anything else has failed.
"""

from collections import Counter
from collections.abc import Iterable
from typing import Final, NamedTuple
from urllib.parse import unquote

import httptools

from simulation.clients.http_responses import AnswerReader
from simulation.delivery_points import BINDING_HEADER, DECLINED, PointPlan
from simulation.judge.targets import PARTITIONED, Message, Target, Violation
from simulation.judge.truth import Truth
from simulation.scenario import topics_of
from simulation.wires.mqtt_tap import number_of
from sluicegate.gateway.config.sections.message_vpns.rest_delivery_points import status_codes

PATH_PREFIX: Final = "/in/"
DECLINED_STATUSES: Final = status_codes(DECLINED)


class PushFlow:
    """The flow of a point on a queue, as far as nothing has ended it."""

    def __init__(self, pushes: "Pushes", label: str, target: Target) -> None:
        self.target = target
        self.failed: dict[str, Message] = {}  # by line: what failed last of it
        self.out: Counter[int] = Counter()  # requests under way, by partition
        self._pushes = pushes
        self._label = label
        self._flow_cuts = target.flow_cuts

    @property
    def has_let_go(self) -> bool:
        """As the truth's Holder has it. Its queue takes messages back by a time that begins before they are pushed."""
        target = self.target
        return target.rules.lock_ms > 0 or not self._pushes.is_sure(self._label) or self.is_cut()

    def is_cut(self) -> bool:
        """Return whether something but the point may have ended it."""
        target, truth = self.target, self._pushes.truth
        is_gone = truth.targets.get(target.name) is not target
        return is_gone or target.is_broken or target.flow_cuts != self._flow_cuts


class Out(NamedTuple):
    """A request under way."""

    plan: PointPlan
    partition: int
    number: int  # of its message
    flow: PushFlow | None  # None: its queue is not known


class Pushes:
    """All delivery points: which are in force, what they may do, and what they have under way."""

    def __init__(self, truth: Truth, plans: Iterable[PointPlan]) -> None:
        self.truth = truth
        self.out: Counter[tuple[str, int]] = Counter()  # requests under way, by point and port
        self._plans: dict[str, PointPlan] = {}  # by label: those that may be in force
        self._sure: set[str] = set()  # those that are for sure
        self._flows: dict[tuple[str, int, Target, int], PushFlow] = {}
        self.configured(plans)

    def changes_to(self, plans: Iterable[PointPlan]) -> None:
        """A reload begins: what is to be in force may be, and what was."""
        wanted = _enabled(plans)
        self._sure &= set(wanted)
        self._plans |= wanted

    def configured(self, plans: Iterable[PointPlan]) -> None:
        """These points are in force, and no others."""
        self._plans = _enabled(plans)
        self._sure = set(self._plans)

    def node_died(self) -> None:
        """Nothing is under way any more."""
        self.out.clear()

    def is_sure(self, label: str) -> bool:
        """Return whether a point is in force, and no reload is about to stop it."""
        return label in self._sure

    def plan(self, label: str) -> PointPlan:
        """Return a point that pushes. Raises Violation when it is not in force."""
        plan = self._plans.get(label)
        if plan is None:
            raise Violation(f"delivery point {label!r} pushed, and {sorted(self._plans)} are in force")
        return plan

    def flow(self, label: str, target: Target) -> PushFlow:
        """Return the flow that a point has on a queue."""
        key = label, self.truth.life, target, target.flow_cuts
        if key not in self._flows:
            self._flows[key] = PushFlow(self, label, target)
        return self._flows[key]


def _enabled(plans: Iterable[PointPlan]) -> dict[str, PointPlan]:
    return {each.label: each for each in plans if each.enabled}


class PushTap:
    """One connection to the server behind a port."""

    def __init__(self, pushes: Pushes, port: int) -> None:
        self._pushes = pushes
        self._truth = pushes.truth
        self._port = port
        self._out: Out | None = None
        self._unasked = False  # a response came that no request had asked for
        self._has_ended = False
        self._requests = httptools.HttpRequestParser(self)
        self._answers = AnswerReader()
        self._headers: dict[str, str] = {}
        self._path = ""
        self._body = b""
        self._is_whole = False  # the request that was written last, and is to be judged

    # --- node to server ---

    def written(self, data: bytes) -> None:
        """The node writes."""
        self._requests.feed_data(data)
        if self._is_whole:
            self._is_whole = False
            self._pushed()

    def on_message_begin(self) -> None:
        """A request begins."""
        if self._is_whole:
            raise Violation(f"two requests were pushed at once at port {self._port}")
        self._headers, self._path, self._body = {}, "", b""

    def on_url(self, url: bytes) -> None:
        """Note where it goes."""
        self._path += url.decode("ascii")

    def on_header(self, name: bytes, value: bytes) -> None:
        """Note what it says."""
        self._headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_body(self, body: bytes) -> None:
        """Note what it brings."""
        self._body += body

    def on_message_complete(self) -> None:
        """A request is whole. The parser would not pass on what is raised here."""
        self._is_whole = True

    def _pushed(self) -> None:
        """A request was written: a message is delivered."""
        number = number_of(self._body)
        name, version, queue = self._headers[BINDING_HEADER.lower()].split(" ")
        label = f"{name} {version}"
        if self._unasked or self._out is not None:
            what = "an unsolicited response has come" if self._unasked else "another one was not answered"
            raise Violation(f"delivery point {label!r} pushed message {number} on a connection where {what}")
        plan, truth = self._pushes.plan(label), self._truth
        if queue not in plan.queues or self._requests.get_method().decode().lower() != plan.method:
            raise Violation(f"{plan} pushed {queue} by {self._requests.get_method()!r}")
        target, partition = truth.targets.get(queue), int(self._headers["sluicegate-partition"])
        flow = None if target is None else self._pushes.flow(label, target)
        self._out = Out(plan, partition, number, flow)
        self._begins(self._out)
        if target is None or flow is None:  # it is being deleted, or created
            truth.came_unjudged.add(number)
            return
        message = truth.course.messages.get(number)
        if message is not None:
            self._check_path(message)
            if plan.keeps_order(queue):
                self._check_turn(plan, flow, message, partition)
        truth.delivered(
            target,
            number,
            flow,
            held_us=truth.now_us(),
            flagged=self._headers.get("sluicegate-redelivered") == "true",
            count=int(self._headers.get("sluicegate-delivery-count", "1")),
            again=False,
            may_be_late=True,  # it may have waited for its server since it was given to the point
        )

    def _begins(self, out: Out) -> None:
        place = out.plan.label, self._port
        self._pushes.out[place] += 1
        if out.flow is not None:
            out.flow.out[out.partition] += 1
        most = out.plan.connections.get(self._port, 0)
        if self._pushes.out[place] > most:
            raise Violation(f"{out.plan} has {self._pushes.out[place]} requests out at port {self._port}")

    def _check_path(self, message: Message) -> None:
        topic = unquote(self._path.removeprefix(PATH_PREFIX))
        if not self._path.startswith(PATH_PREFIX) or topic not in topics_of(message.topic):
            raise Violation(f"{message} was pushed to {self._path}")

    def _check_turn(self, plan: PointPlan, flow: PushFlow, message: Message, partition: int) -> None:
        """Raise Violation when another message has to be pushed first."""
        target = flow.target
        if message.sent_tick < target.unordered_until:
            return  # it may have no partitions
        is_by_partition = target.kind == PARTITIONED
        out_count = flow.out[partition] if is_by_partition else flow.out.total()
        if out_count > 1:
            raise Violation(f"{plan} keeps the order of {target.name}, and has {out_count} messages out at a time")
        line = target.line_of(message)
        failed = flow.failed.get(line) if line is not None else None
        if failed is None or line is None:
            return
        seen = target.seen[failed.number]
        if seen.settled_tick or seen.holder is not flow or not seen.is_returned or failed is message:
            del flow.failed[line]  # it has come again, or to somebody else, or needs not
            return
        is_once = failed.sent_count == message.sent_count == 1
        is_stored = failed.promised_tick > 0 or self._truth.course.refused_tick < failed.sent_tick  # it is there still
        if failed.number < message.number and is_once and is_stored and not target.may_have_given_up(failed):
            raise Violation(f"{plan} pushed {message} of {target.name}, and {failed} has failed and stands before it")

    # --- server to node ---

    def read(self, data: bytes) -> None:
        """The node reads bytes, cut anywhere."""
        if self._has_ended:
            return
        if self._unasked or self._out is None:
            self._unasked = True  # perhaps it is a part of a response: whatever comes behind it answers nothing
            return
        for answer in self._answers.feed(data):
            self._answers_to(answer.status)

    def _answers_to(self, status: int) -> None:
        if self._out is None:
            self._unasked = True
        else:
            self._answered(self._out, status)

    def ended(self) -> None:
        """The node has closed the connection, or has lost it: a request without an answer has failed."""
        self._has_ended = True
        if self._out is not None:
            self._fails(self._out)

    def _answered(self, out: Out, status: int) -> None:
        is_declined = status in DECLINED_STATUSES
        if not (200 <= status < 300 or is_declined):
            self._fails(out)
            return
        self._is_over(out)
        if out.flow is None:
            return
        flow, target = out.flow, out.flow.target
        is_void = flow.has_let_go
        # A partition may be with another consumer by now, which has the message.
        is_rejected = is_declined and not is_void and target.kind != PARTITIONED
        self._truth.settled(target, out.number, flow, for_good=not is_void, rejected=is_rejected)

    def _fails(self, out: Out) -> None:
        self._is_over(out)
        if out.flow is None or out.number not in out.flow.target.seen:
            return
        flow, target, message = out.flow, out.flow.target, self._truth.course.messages[out.number]
        target.seen[out.number].returns(flow, is_untouched=False)
        line = target.line_of(message)
        if line is not None:
            flow.failed[line] = message

    def _is_over(self, out: Out) -> None:
        self._out = None
        place = out.plan.label, self._port
        if self._pushes.out[place]:  # else the node has died since
            self._pushes.out[place] -= 1
        if out.flow is not None:
            out.flow.out[out.partition] -= 1
