"""One end of a connection between brokers, as far as consumers at queues of the other broker go.

At the queue's end the link is to the judge what a connection of clients is: each of its flows holds messages, from when
they are written until a settlement is read. At the consumers' end it is what brings messages.
"""

from simulation.judge.far_flows import Far
from simulation.judge.truth import Truth
from simulation.wires.flow_tap import FrameReader
from simulation.wires.mqtt_tap import Written, number_of
from sluicegate.actors.network.link_batches import link_batch
from sluicegate.messaging.message.outcomes import ACCEPTED, REJECTED, RELEASED, RELEASED_ELSEWHERE
from sluicegate.protocols.flow.codec.frame import CLOSE, ERROR, LINK_DELIVER, LINK_FLOW
from sluicegate.protocols.flow.codec.frames.link_flow import REDELIVERED, LinkDeliver, read_deliver
from sluicegate.protocols.network.queues import notes
from sluicegate.protocols.network.queues.notes import FlowNote, note_in

Place = tuple[int, int]  # partition, sequence


class FarHolder:
    """A flow of a client of another broker."""

    def __init__(self, queue: str, client: str) -> None:
        self.queue = queue
        self.client = client
        self.has_let_go = False  # as the truth's Holder has it
        self.written: dict[Place, Written] = {}  # not settled

    def __repr__(self) -> str:
        return f"a flow of {self.client} on {self.queue}"


class LinkTap:
    """One end, at the broker whose judge is `here`; the other end is at the broker of `there`."""

    def __init__(self, here: Truth, there: Truth) -> None:
        self._here = here
        self._there = there
        self._flows: dict[int, FarHolder] = {}  # of clients there, on queues here
        self._clients: dict[int, tuple[str, str]] = {}  # of clients here: queue there, client
        self._written, self._read = FrameReader(), FrameReader()

    def written(self, data: bytes) -> None:
        """The broker writes. Raises Violation."""
        for frame, buffer in self._written.take(data):
            if frame.kind == LINK_DELIVER:
                self._delivers(read_deliver(frame, buffer))
            elif frame.kind == LINK_FLOW:
                self._says(note_in(buffer[frame.body_at : frame.end]))
            elif frame.kind in (CLOSE, ERROR):  # perhaps to a peer that is no more: another connection replaces this
                self.ended()

    def read(self, data: bytes) -> None:
        """The broker reads bytes, cut anywhere. Raises Violation."""
        for frame, buffer in self._read.take(data):
            if frame.kind == LINK_DELIVER:
                self._is_brought(read_deliver(frame, buffer))
            elif frame.kind == LINK_FLOW:
                self._hears(note_in(buffer[frame.body_at : frame.end]))
            elif frame.kind in (CLOSE, ERROR):
                self.ended()

    def ended(self) -> None:
        """The broker closes the connection, has lost it, or hears that it ends."""
        for flow in self._flows.values():
            flow.has_let_go = True

    # --- consumers here ---

    def _says(self, note: FlowNote) -> None:
        if note.kind == notes.BIND:
            self._clients[note.consumer] = note.text(0), _client_of(note)
        elif note.kind in (notes.GONE, notes.REFUSED) and note.consumer in self._flows:
            self._flows[note.consumer].has_let_go = True

    def _is_brought(self, delivered: LinkDeliver) -> None:
        queue, client = self._clients[delivered.consumer]
        for number in _numbers_of(delivered):
            far = Far(queue, number, delivered.flags & REDELIVERED != 0, delivered.delivery_count)
            self._here.far.brought(client, far)

    # --- queues here ---

    def _hears(self, note: FlowNote) -> None:
        if note.kind == notes.BIND:
            self._flows[note.consumer] = FarHolder(note.text(0), _client_of(note))
        elif note.kind not in notes.OF_CONSUMERS or note.consumer not in self._flows:
            return
        flow = self._flows[note.consumer]
        if note.kind == notes.UNBIND:
            flow.has_let_go = True
        elif note.kind == notes.SETTLE:
            self._is_settled(flow, note)
        elif note.kind == notes.RENEW:
            for what in _held(flow, note.number(0), note.ranges(3)):
                if not self._is_void(flow, what):
                    what.target.seen[what.number].extends(flow, self._here.now_us())

    def _delivers(self, delivered: LinkDeliver) -> None:
        truth, flow = self._here, self._flows[delivered.consumer]
        target = truth.targets.get(flow.queue)
        for sequence, number in enumerate(_numbers_of(delivered), delivered.first):
            if target is None:  # it is being deleted
                truth.came_unjudged.add(number)
                continue
            truth.delivered(
                target,
                number,
                flow,
                held_us=truth.now_us(),
                flagged=delivered.flags & REDELIVERED != 0,
                count=delivered.delivery_count,
                again=False,
            )
            place = delivered.partition, sequence
            flow.written[place] = Written(target, number, target.flow_cuts, truth.now_us(), 0)

    def _is_settled(self, flow: FarHolder, note: FlowNote) -> None:
        partition, outcome = note.number(0), note.number(2)
        for what in _held(flow, partition, note.ranges(6), ends=True):
            if outcome in (ACCEPTED, REJECTED):
                self._there.far.check_said(flow.client, Far(flow.queue, what.number, False, 0), outcome)
                is_void = self._is_void(flow, what)
                is_rejected = outcome == REJECTED and not is_void
                self._here.settled(what.target, what.number, flow, for_good=not is_void, rejected=is_rejected)
            else:
                is_untouched = outcome in (RELEASED, RELEASED_ELSEWHERE)
                what.target.seen[what.number].returns(flow, is_untouched=is_untouched)

    def _is_void(self, flow: FarHolder, what: Written) -> bool:
        target = what.target
        is_late = 0 < 1000 * target.rules.lock_ms <= self._here.now_us() - what.held_us
        return is_late or flow.has_let_go or what.flow_cuts != target.flow_cuts or target.is_broken


def _client_of(note: FlowNote) -> str:
    """Return the client of a flow, as it is called at its broker: in the network that belongs to its identifier."""
    return note.text(1).partition("@")[0]


def _numbers_of(delivered: LinkDeliver) -> list[int]:
    return [number_of(payload) for payload in link_batch(delivered.batch).payloads()]


def _held(flow: FarHolder, partition: int, ranges: list[tuple[int, int]], *, ends: bool = False) -> list[Written]:
    """Return what a flow holds of these sequences, and forget it if that `ends`."""
    places = [(partition, sequence) for first, end in ranges for sequence in range(first, end)]
    held = [flow.written[place] for place in places if place in flow.written]
    if ends:
        for place in places:
            flow.written.pop(place, None)
    return held
