"""The frames of one connection of an AMQP client whose links resume, seen at the node's end and reported to the judge.

Rules beside those for every consumer and publisher:

- when a link is detached, the client's unsettled deliveries go to no other consumer until the link's time is over. They
  come back under their tags, or the node says at once that they do not;
- an outcome that the node has settled after the client, or that was in force before a link was attached again, holds
  over crashes;
- a message that a client has declined does not come to it again, except as a dead message;
- the node does not ask again for deliveries that it has and the client is unsure of;
- if the client calls its unsettled map incomplete (2.7.3), deliveries that are missing from the map stay with the
  client, and no new delivery comes before the link is attached with a complete map.
"""

from typing import NamedTuple

from simulation.clients.transacting_client import check_ending, heard_in
from simulation.judge.targets import DEAD, PARTITIONED, Message, Target, Violation
from simulation.judge.truth import Truth
from simulation.scenario import HANDOFF_S, SPARE
from simulation.wires.mqtt_tap import number_of
from sluicegate.protocols.amqp.codec.delivery_states import (
    ACCEPTED,
    MODIFIED,
    OUTCOMES,
    REJECTED,
    DeliveryState,
    read_state,
)
from sluicegate.protocols.amqp.codec.dispositions import Disposition
from sluicegate.protocols.amqp.codec.performatives import Attach, Detach
from sluicegate.protocols.amqp.codec.sections import MESSAGE_ANNOTATIONS
from sluicegate.protocols.amqp.types.values import AmqpMap, Symbol
from support.amqp.received import Ended, Heard, Received

IN, OUT = "in", "out"  # names of the client's links
REFUSED = 0x97  # as a reason code, what a refusal is to the truth


class Death(NamedTuple):
    """Where and when a message died. One that several queues got may die in each, and then they differ by that."""

    queue: str
    time_ms: int


ALIVE = Death("", 0)


class Delivered(NamedTuple):
    """A delivery that waits for its outcome."""

    target: Target
    number: int
    death: Death
    flow_cuts: int  # of the target by then
    held_us: int  # when it was written


class ResumedFlow:
    """A receiving link, over all its connections in one life of the node: it holds messages while its client is away.

    Invariants: what is in `written` was delivered to it, and the node has read no outcome of it.
    """

    def __init__(self, truth: Truth, queue: str, away_s: int) -> None:
        self.queue = queue
        self.life = truth.life
        self.tap: ResumerTap | None = None  # the connection that has it, or had it last
        self.written: dict[bytes, Delivered] = {}  # by delivery tag
        self.is_kept = True  # the node had no reason to let go of it by the time that its client came back
        self._declined: dict[tuple[Target, int, Death], int] = {}  # with the target's flow cuts by then
        self._truth = truth
        self._away_s = away_s
        self._away_since_us = -1
        self._is_over = False
        self._is_coming_back = False

    @property
    def has_let_go(self) -> bool:
        """As the truth's Holder has it: it is over, or away for too long, or nobody knows yet what it has."""
        return self._is_over or self._is_coming_back or self.life != self._truth.life or self._is_late()

    def _is_late(self) -> bool:
        return 0 <= self._away_since_us <= self._truth.now_us() - 1_000_000 * self._away_s

    def goes_away(self) -> None:
        """Its connection is gone, or it was detached."""
        if self._away_since_us < 0:
            self._away_since_us = self._truth.now_us()

    def ends(self) -> None:
        """The queue has let go of it, or its client wants another one."""
        self._is_over = True

    def comes_back(self, tap: "ResumerTap") -> None:
        """The node has read that its client attaches the link again."""
        self.tap, self.is_kept = tap, not self.has_let_go
        self._is_coming_back = True
        if not self.is_kept:
            self._declined.clear()

    def is_back(self) -> None:
        """The node has attached the link again."""
        self._is_coming_back = False
        self._away_since_us = -1

    def may_be_of(self, queue: str) -> bool:
        """Return whether a link that is attached for this queue may be this one."""
        return self.queue == queue and self.life == self._truth.life and not self._is_over

    def declines(self, what: Delivered) -> None:
        """Its client wants a message to go to others."""
        self._declined[(what.target, what.number, what.death)] = what.target.flow_cuts

    def has_declined(self, what: Delivered) -> bool:
        """Return whether its client has said so of this very message, and the queue knows it still."""
        return self._declined.get((what.target, what.number, what.death)) == what.flow_cuts

    def is_cut(self, what: Delivered) -> bool:
        """Return whether the queue may have taken a delivery back from it, though it is there."""
        target, truth = what.target, self._truth
        is_late = 0 < 1000 * target.rules.lock_ms <= truth.now_us() - what.held_us
        is_gone = truth.targets.get(target.name) is not target
        return is_late or is_gone or what.flow_cuts != target.flow_cuts or target.is_broken


class Said(NamedTuple):
    """An outcome that the client has said, and settles after the node."""

    what: Delivered
    is_accepted: bool


class ResumerTap:
    """One connection. `sent` is the client's: what it has sent on this connection under which delivery id."""

    def __init__(
        self,
        truth: Truth,
        client: str,
        *,
        sent: dict[int, Message],
        settles_second: bool,
        away_s: int,
        flow: ResumedFlow | None,
    ) -> None:
        self.flow = flow  # that the client has, or had on earlier connections
        self._truth = truth
        self._client = client
        self._sent = sent
        self._settles_second = settles_second
        self._away_s = away_s
        self._unread = {True: b"", False: b""}  # by whether the node wrote it
        self._names: dict[int, str] = {}  # of links, by the node's handle
        self._tags: dict[int, bytes] = {}  # by delivery id, of what was delivered on this connection
        self._said: dict[int, Said] = {}  # by delivery id: not settled by the node
        self._listed: dict[bytes, DeliveryState | None] = {}  # in the client's map
        self._is_incomplete = False  # that map
        self._in_force: list[Delivered] = []  # accepted by the map, when the link is attached
        self._unsure: set[bytes] = set()  # tags of what the client has sent and heard nothing of
        self._handle_in = -1  # the client's, of its receiving link
        self._is_in = False  # that is attached

    # --- node to client ---

    def written(self, data: bytes) -> None:
        """The node writes."""
        for heard in self._frames(data, is_written=True):
            if isinstance(heard, Received):
                self._delivery(heard)
            elif isinstance(heard, Disposition) and heard.is_receiver:
                self._answered(heard)
            elif isinstance(heard, Disposition) and heard.settled:
                self._is_in_force(heard)
            elif isinstance(heard, Attach):
                self._names[heard.handle] = heard.name
                self._attached(heard)
            elif isinstance(heard, Detach):
                if self._names.get(heard.handle) == IN:
                    self._is_in = False
                    self._lets_go(is_over=heard.error is not None or heard.closed or self._away_s == 0)
            elif isinstance(heard, Ended):
                check_ending(self._client, heard)
                self.ended()

    def ended(self) -> None:
        """The node closes the connection, or has lost it: what the client says now is discarded [AMQP 2.4.6]."""
        self._is_in = False
        self._lets_go(is_over=self._away_s == 0)

    def _lets_go(self, *, is_over: bool) -> None:
        flow = self.flow
        if flow is None or flow.tap is not self:
            return  # it is with another connection by now
        if is_over:
            flow.ends()
        else:
            flow.goes_away()

    def _answered(self, said: Disposition) -> None:
        """The node says what became of what the client has sent."""
        assert said.state is not None
        for delivery_id in range(said.first, said.last + 1):
            message = self._sent.get(delivery_id)
            if message is None:
                raise Violation(f"{self._client} was answered for delivery {delivery_id}, which it has not sent")
            self._truth.promised(message, 0 if said.state.code == ACCEPTED else REFUSED)

    def _attached(self, heard: Attach) -> None:
        pairs = [] if heard.unsettled is None else heard.unsettled.pairs
        known = {tag: read_state(state) for tag, state in pairs if isinstance(tag, bytes)}
        if heard.name == OUT:
            for tag, state in known.items():
                if tag not in self._unsure or state is None or state.code not in OUTCOMES:
                    raise Violation(f"{self._client} was told of {tag!r} that it is {state}, and had not asked")
                self._truth.promised(self._truth.course.messages[int(tag)], 0 if state.code == ACCEPTED else REFUSED)
        elif heard.name == IN and heard.source is not None:
            self._is_in = True
            self._resumed(set(known))

    def _resumed(self, known: set[bytes]) -> None:
        """The node attaches the receiving link, and goes on with these deliveries; of the others it has an outcome."""
        flow = self.flow
        assert flow is not None
        unlisted = known - {tag for tag, state in self._listed.items() if state is None}
        if unlisted and not (self._is_incomplete and unlisted <= set(flow.written) - set(self._listed)):
            raise Violation(f"{self._client} is to go on with {unlisted}, and has nothing of that")
        flow.is_back()
        for tag in set(flow.written) - known:
            what = flow.written.pop(tag)
            seen = what.target.seen[what.number]
            has_it = (tag in self._listed) != self._is_incomplete  # what is in a part of its map may be given back
            is_sure = flow.is_kept and has_it and not flow.is_cut(what) and seen.holder is flow
            message = self._truth.course.messages[what.number]
            if is_sure and seen.is_unsettled() and not self._may_be_taken(what, message):
                raise Violation(f"{self._client} came back with {message} of {flow.queue}, and may not go on with it")
            seen.returns(flow, is_untouched=False)
        if self._settles_second:
            for what in self._in_force:
                self._truth.settled_by_commit(what.target, what.number, flow)

    def _may_be_taken(self, what: Delivered, message: Message) -> bool:
        """Return whether an administrator, the disk or a handoff may have taken what the client holds."""
        target = what.target
        is_lost = target.may_have_lost(message) or target.was_moved_since(message.sent_tick)
        is_held_long = self._truth.now_us() - what.held_us >= 1_000_000 * HANDOFF_S
        return is_lost or message.sent_count > 1 or (target.kind == PARTITIONED and is_held_long)

    def _delivery(self, heard: Received) -> None:
        flow = self.flow
        assert flow is not None
        number = number_of(heard.message)
        self._tags[heard.delivery_id] = heard.tag
        if heard.is_resumed:
            self._resumes(flow, heard.tag, number)
            return
        if self._is_incomplete:
            raise Violation(f"{self._client} was sent message {number}, and its map was incomplete")
        target = self._truth.targets.get(flow.queue)
        if target is None:
            self._truth.came_unjudged.add(number)
            return  # it is being deleted
        now_us = self._truth.now_us()
        what = Delivered(target, number, _death_of(heard), target.flow_cuts, now_us)
        if flow.has_declined(what) and self._is_one(what):
            raise Violation(f"{self._client} has declined message {number} of {target.name}, and got it again")
        header = heard.sections().get(0x70)
        is_first = isinstance(header, list) and len(header) > 3 and header[3] is True
        self._truth.delivered(
            target,
            number,
            flow,
            held_us=now_us,
            flagged=not is_first,
            count=heard.delivery_count + 1,
            again=False,
        )
        flow.written[heard.tag] = what

    def _is_one(self, what: Delivered) -> bool:
        """Return whether nothing else in the queue looks like it, as what was sent, or moved, more than once may."""
        message = self._truth.course.messages[what.number]
        if message.sent_count > 1:
            return False
        if what.target.kind != DEAD or what.death.queue not in (ALIVE.queue, SPARE):
            return True
        sources = [each for each in self._truth.queues() if each.wants(message)]
        return sum(1 for each in sources for _, end in each.moves if end == 0 or end > message.sent_tick) <= 1

    def _resumes(self, flow: ResumedFlow, tag: bytes, number: int) -> None:
        what = flow.written.get(tag)
        if what is None or what.number != number:
            raise Violation(f"{self._client} was sent message {number} as {tag!r} once more, which was {what}")
        seen = what.target.seen[number]
        if seen.holder is not flow:
            raise Violation(f"{self._client} goes on with message {number}, which another consumer has got since")

    def _is_in_force(self, heard: Disposition) -> None:
        """The node settles what the client has said the outcome of."""
        for delivery_id in range(heard.first, heard.last + 1):
            said = self._said.pop(delivery_id, None)
            if said is not None and said.is_accepted and heard.state is not None and heard.state.code == ACCEPTED:
                assert self.flow is not None
                self._truth.settled_by_commit(said.what.target, said.what.number, self.flow)

    # --- client to node ---

    def read(self, data: bytes) -> None:
        """The node reads bytes, cut anywhere."""
        for heard in self._frames(data, is_written=False):
            if isinstance(heard, Disposition):
                for delivery_id in range(heard.first, heard.last + 1):
                    self._outcome(delivery_id, heard)
            elif isinstance(heard, Attach) and heard.name == OUT:
                self._unsure = set(_states_in(heard.unsettled))
            elif isinstance(heard, Attach):
                self._handle_in = heard.handle
                self._asks(heard)
            elif isinstance(heard, Detach) and heard.handle == self._handle_in:
                self._is_in = False  # what it says from now on of deliveries is of none
                self._lets_go(is_over=heard.closed or self._away_s == 0)
            elif isinstance(heard, Ended):
                self.ended()

    def _asks(self, heard: Attach) -> None:
        """The client attaches its receiving link, and says what it has of earlier times."""
        assert heard.source is not None
        queue = (heard.source.address or "").removeprefix("queue://")
        if self.flow is None or not self.flow.may_be_of(queue):
            if self.flow is not None:
                self.flow.ends()
            self.flow = ResumedFlow(self._truth, queue, self._away_s)
        flow = self.flow
        flow.comes_back(self)
        self._listed, self._is_incomplete = _states_in(heard.unsettled), heard.incomplete_unsettled
        for tag, state in self._listed.items():
            if tag in flow.written and state is not None:
                what = flow.written.pop(tag)
                is_void = not flow.is_kept or flow.is_cut(what)
                self._settles(what, state, is_void=is_void)
                if state.code == ACCEPTED and not is_void and what.target.kind != PARTITIONED:  # which change hands
                    self._in_force.append(what)
        for tag, what in flow.written.items():
            if tag not in self._listed and not self._is_incomplete:
                what.target.seen[what.number].returns(flow, is_untouched=False)

    def _outcome(self, delivery_id: int, heard: Disposition) -> None:
        flow, tag = self.flow, self._tags.pop(delivery_id, None)
        if tag is None or flow is None or not self._is_in:
            return  # of a queue that is gone
        what = flow.written.pop(tag, None)
        if what is None or heard.state is None:
            return
        self._settles(what, heard.state, is_void=flow.has_let_go or flow.is_cut(what) or flow.tap is not self)
        if not heard.settled:
            self._said[delivery_id] = Said(what, heard.state.code == ACCEPTED)

    def _settles(self, what: Delivered, state: DeliveryState, *, is_void: bool) -> None:
        """The node has read an outcome. What is said too late of a delivery counts for nothing."""
        assert self.flow is not None
        target, flow, truth = what.target, self.flow, self._truth
        seen = target.seen[what.number]
        if state.code in (ACCEPTED, REJECTED):
            is_rejected = state.code == REJECTED and not is_void
            truth.settled(target, what.number, flow, for_good=not is_void, rejected=is_rejected)
            return
        seen.returns(flow, is_untouched=not (state.code == MODIFIED and state.delivery_failed))
        if state.code == MODIFIED and state.undeliverable_here:
            target.declined.add(what.number)
            if not is_void:
                flow.declines(what)

    # --- what it is made of ---

    def _frames(self, data: bytes, *, is_written: bool) -> list[Heard]:
        frames, self._unread[is_written] = heard_in(self._unread[is_written] + data)
        return frames


def _states_in(unsettled: AmqpMap | None) -> dict[bytes, DeliveryState | None]:
    pairs = [] if unsettled is None else unsettled.pairs
    return {tag: read_state(state) for tag, state in pairs if isinstance(tag, bytes)}


def _death_of(heard: Received) -> Death:
    """Return what a dead message says of its death."""
    annotations = heard.sections().get(MESSAGE_ANNOTATIONS)
    pairs = annotations.pairs if isinstance(annotations, AmqpMap) else []
    said = {name.text: value for name, value in pairs if isinstance(name, Symbol)}
    queue, time_ms = said.get("x-opt-sluicegate-dead-queue"), said.get("x-opt-sluicegate-dead-time-ms")
    if queue is None:
        return ALIVE
    assert isinstance(queue, str)
    assert isinstance(time_ms, int)
    return Death(queue, time_ms)
