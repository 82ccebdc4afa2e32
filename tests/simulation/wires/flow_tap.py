"""The frames of one connection of the flow protocol, seen at the node's end and reported to the judge."""

from simulation.judge.far_flows import Far
from simulation.judge.targets import Message, Target
from simulation.judge.truth import Truth
from simulation.wires.mqtt_tap import Written, number_of
from sluicegate.protocols.flow.codec.frame import (
    CLOSE,
    DELIVER,
    ERROR,
    GOAWAY,
    PUB_ACK,
    SESSION,
    SETTLE,
    Frame,
    cut_frame,
)
from sluicegate.protocols.flow.codec.frames.deliver import Delivered, read_deliver
from sluicegate.protocols.flow.codec.frames.flow import ENDED as FLOW_ENDED
from sluicegate.protocols.flow.codec.frames.flow import (
    FLOW_FRAMES,
    Bind,
    FlowEnd,
    FlowState,
    PubOpened,
    read_flow_frame,
)
from sluicegate.protocols.flow.codec.frames.publish import PubAck, read_pub_ack
from sluicegate.protocols.flow.codec.frames.settle import (
    OUTCOME_ACCEPTED,
    OUTCOME_EXTEND,
    OUTCOME_REJECTED,
    OUTCOME_RELEASED,
    Settle,
    read_settle_frame,
)
from sluicegate.protocols.flow.codec.limits import FRAME_BYTES_MAX, PREFACE_BYTES

REFUSED = 0x97  # as a reason code, what a refusal is to the truth


class FlowHolder:
    """A flow on a queue, which holds messages of it."""

    def __init__(self, queue: str) -> None:
        self.queue = queue
        self.has_let_go = False  # as the truth's Holder has it
        self.written: dict[int, Written | Far] = {}  # by delivery id: not settled


class FlowTap:
    """One connection. `out` is the client's: what its publisher has sent under which sequence, and not heard of."""

    def __init__(self, truth: Truth, out: dict[int, Message], client: str = "") -> None:
        self._truth = truth
        self._out = out
        self._client = client
        self._answered_through = 0
        self._flows: dict[int, FlowHolder] = {}
        self._written, self._read = FrameReader(), FrameReader()

    # --- node to client ---

    def written(self, data: bytes) -> None:
        """The node writes."""
        for frame, buffer in self._written.take(data):
            if frame.kind == DELIVER:
                self._delivery(read_deliver(frame, buffer, 0))
            elif frame.kind == PUB_ACK:
                self._answer(read_pub_ack(frame, buffer))
            elif frame.kind in FLOW_FRAMES:
                self._flow_frame(read_flow_frame(frame, buffer))
            elif frame.kind in (CLOSE, GOAWAY):
                self.ended()
            elif frame.kind == ERROR:
                self._failed(frame.flow_id)

    def ended(self) -> None:
        """The node closes the connection, or has lost it."""
        for flow in self._flows.values():
            flow.has_let_go = True

    def _failed(self, flow_id: int) -> None:
        if flow_id in self._flows:
            self._flows[flow_id].has_let_go = True
        elif flow_id == SESSION:
            self.ended()

    def _flow_frame(self, said: object) -> None:
        if isinstance(said, PubOpened):
            self._answered_through = said.stored_through
            for sequence, message in self._out.items():
                if sequence <= said.stored_through:  # of refusals it has heard, or it would be asked for these again
                    self._truth.promised(message, 0)
        elif isinstance(said, FlowState) and said.state == FLOW_ENDED:
            self._flows[said.flow_id].has_let_go = True

    def _answer(self, ack: PubAck) -> None:
        refused = {each for said in ack.refusals for each in range(said.first, said.last + 1)}
        for sequence in range(self._answered_through + 1, ack.answered_through + 1):
            message = self._out.get(sequence)
            if message is not None:
                self._truth.promised(message, REFUSED if sequence in refused else 0)
        self._answered_through = ack.answered_through

    def _delivery(self, delivered: Delivered) -> None:
        flow = self._flows[delivered.flow_id]
        target = self._truth.targets.get(flow.queue)
        if target is None and flow.queue in self._truth.far.queues:
            marks = delivered.redelivered, delivered.delivery_count
            far = Far(flow.queue, number_of(delivered.payload), *marks)
            self._truth.far.came(self._client, far)
            flow.written[delivered.delivery_id] = far
            return
        if target is None:  # it is being deleted
            self._truth.came_unjudged.add(number_of(delivered.payload))
            return
        number, now_us = number_of(delivered.payload), self._truth.now_us()
        self._truth.delivered(
            target,
            number,
            flow,
            held_us=now_us,
            flagged=delivered.redelivered,
            count=delivered.delivery_count,
            again=False,
        )
        flow.written[delivered.delivery_id] = self.noted(target, number)

    def noted(self, target: Target, number: int) -> Written:
        """Return what is remembered of a delivery that is written now."""
        return Written(target, number, target.flow_cuts, self._truth.now_us(), 0)

    # --- client to node ---

    def read(self, data: bytes) -> None:
        """The node reads bytes, cut anywhere."""
        for frame, buffer in self._read.take(data):
            if frame.kind == SETTLE:
                said = read_settle_frame(frame, buffer)
                assert isinstance(said, Settle)
                for first, last, outcome in said.outcomes:
                    for delivery_id in range(first, last + 1):
                        self._settlement(self._flows[frame.flow_id], delivery_id, outcome)
            elif frame.kind in FLOW_FRAMES:
                asked = read_flow_frame(frame, buffer)
                if isinstance(asked, Bind):
                    self._flows[asked.flow_id] = FlowHolder(asked.name)
                elif isinstance(asked, FlowEnd) and asked.flow_id in self._flows:
                    self._flows[asked.flow_id].has_let_go = True
            elif frame.kind == CLOSE:
                self.ended()

    def _settlement(self, flow: FlowHolder, delivery_id: int, outcome: int) -> None:
        what = flow.written.pop(delivery_id, None)
        if what is None:
            return  # of a queue that is gone
        if isinstance(what, Far):
            self._truth.far.says(self._client, what, outcome)
            if outcome == OUTCOME_EXTEND:
                flow.written[delivery_id] = what
            return
        target, truth = what.target, self._truth
        is_late = 0 < 1000 * target.rules.lock_ms <= truth.now_us() - what.held_us
        is_void = is_late or flow.has_let_go or what.flow_cuts != target.flow_cuts or target.is_broken
        if outcome == OUTCOME_EXTEND:
            flow.written[delivery_id] = what if is_void else what._replace(held_us=truth.now_us())
            if not is_void:
                target.seen[what.number].extends(flow, truth.now_us())
        elif outcome in (OUTCOME_ACCEPTED, OUTCOME_REJECTED):
            is_rejected = outcome == OUTCOME_REJECTED and not is_void
            truth.settled(target, what.number, flow, for_good=not is_void, rejected=is_rejected)
        else:
            target.seen[what.number].returns(flow, is_untouched=outcome == OUTCOME_RELEASED)


class FrameReader:
    """One direction of a connection of the flow protocol."""

    def __init__(self) -> None:
        self._unread = b""
        self._is_greeted = False

    def take(self, data: bytes) -> list[tuple[Frame, bytes]]:
        """Return the frames that are whole now, each with the buffer that it lies in."""
        buffer, place = self._unread + data, 0
        if not self._is_greeted:
            if len(buffer) < PREFACE_BYTES:
                self._unread = buffer
                return []
            self._is_greeted, place = True, PREFACE_BYTES
        frames = []
        while frame := cut_frame(buffer, place, len(buffer), FRAME_BYTES_MAX):
            frames.append((frame, buffer))
            place = frame.end
        self._unread = buffer[place:]
        return frames
