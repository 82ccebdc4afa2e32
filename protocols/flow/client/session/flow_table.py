"""The flows of one client: their ids on the present connection, and dispatch of the gateway's frames to them.

See also: `outbox`, `inbox`, `browse_flow`, `range_flow` (the state of each kind); `session` (the connection).
"""

from typing import Final, TypeAlias, final

from sluicegate.protocols.flow.client.errors import ClientClosed, FlowClientError, RequestRefused
from sluicegate.protocols.flow.client.events import ClientEvent
from sluicegate.protocols.flow.client.session.browse_flow import BrowseFlow
from sluicegate.protocols.flow.client.session.flow import CLOSING, ENDED, OPEN, OPENING, RESTING, ClientFlow
from sluicegate.protocols.flow.client.session.inbox import Inbox
from sluicegate.protocols.flow.client.session.outbox import Outbox
from sluicegate.protocols.flow.client.session.range_flow import RangeFlow
from sluicegate.protocols.flow.codec.frame import CLOSE_PUB, UNBIND
from sluicegate.protocols.flow.codec.frames.flow import ENDED as FLOW_ENDED
from sluicegate.protocols.flow.codec.frames.flow import Bound, FlowEnd, FlowState, PubOpened
from sluicegate.protocols.flow.codec.frames.partition import Partitions
from sluicegate.protocols.flow.codec.frames.publish import PubAck
from sluicegate.protocols.flow.codec.frames.rows import Reading, RowsReceived
from sluicegate.protocols.flow.codec.frames.session import NO_REQUEST, Error
from sluicegate.protocols.flow.codec.frames.settle import Credit, Settled
from sluicegate.protocols.flow.codec.limits import FRAME_BYTES_MAX
from sluicegate.protocols.flow.engine.engine import FlowEngine
from sluicegate.protocols.flow.engine.events import DeliveriesReceived

# Frames about a flow.
FlowWord: TypeAlias = (
    DeliveriesReceived
    | PubAck
    | RowsReceived
    | Credit
    | Settled
    | FlowState
    | Partitions
    | PubOpened
    | Bound
    | Reading
    | FlowEnd
)
OF_FLOWS: Final = (
    DeliveriesReceived, PubAck, RowsReceived, Credit, Settled, FlowState, Partitions, PubOpened, Bound, Reading,
    FlowEnd,
)  # fmt: skip


@final
class FlowTable:
    """Flows that are to be open, connection or not. What has ended is not here any more."""

    def __init__(self) -> None:
        self.events: list[ClientEvent] = []  # for the owner to take
        self.frame_bytes_max = FRAME_BYTES_MAX  # the gateway's maximum
        self._flows: list[ClientFlow] = []  # in the order of their making
        self._by_id: dict[int, ClientFlow] = {}  # on the present connection
        self._news: list[ClientFlow] = []
        self._next_id = 1  # of flows and requests, on the present connection

    def take_id(self) -> int:
        """Return an id for a flow or request of the present connection."""
        self._next_id += 1
        return self._next_id - 1

    def take_news(self) -> list[ClientFlow]:
        """Return the flows that have changed, for their owners."""
        news, self._news = self._news, []
        for flow in news:
            flow.has_news = False
        return news

    # --- what becomes of flows ---

    def add(self, flow: ClientFlow) -> None:
        """Add a flow; `open_with` opens it."""
        self._flows.append(flow)

    def open_with(self, engine: FlowEngine, now_ms: int) -> None:
        """Open every resting flow whose retry time has come."""
        for flow in self._flows:
            if flow.phase == RESTING and flow.retry_at_ms <= now_ms:
                flow.flow_id = self.take_id()
                flow.phase = OPENING
                self._by_id[flow.flow_id] = flow
                engine.send(flow.request(self.take_id(), flow.flow_id))

    def close(self, flow: ClientFlow, engine: FlowEngine | None) -> None:
        """End a flow. It is ENDED once the gateway confirms, or at once without a connection."""
        if flow.phase == OPEN and engine is not None:
            flow.phase = CLOSING
            engine.send(flow.closing(self.take_id()))
        else:
            self._end(flow, ClientClosed("it was closed"))

    def interrupted(self, reason: str) -> None:
        """The connection is gone."""
        self._by_id.clear()
        self._next_id = 1
        for flow in self._flows[:]:
            if flow.phase == CLOSING:
                self._end(flow, ClientClosed("it was closed"))
            else:
                flow.interrupted(reason)
                flow.retry_at_ms = 0
                self._update(flow)

    def end_all(self, error: FlowClientError) -> None:
        """The session is over."""
        for flow in self._flows[:]:
            self._end(flow, error)

    # --- what flows have to say ---

    def tick(self, now_ms: int) -> None:
        """Bring time."""
        for flow in self._flows:
            if isinstance(flow, Inbox):
                flow.tick(now_ms)

    def pump(self, engine: FlowEngine, *, settlements_only: bool) -> None:
        """Send what flows have to say now."""
        for flow in self._flows:
            if flow.is_dirty and (not settlements_only or isinstance(flow, Inbox)):
                flow.pump(engine)
                self._update(flow)

    def is_busy(self) -> bool:
        """Whether the gateway, which is about to stop, still owes us answers, or we it settlements."""
        for flow in self._flows:
            if isinstance(flow, Outbox) and flow.sent_count > 0:
                return True
            if isinstance(flow, Inbox) and flow.held:
                return True
        return False

    # --- frames of the gateway ---

    def handle(self, event: FlowWord, engine: FlowEngine, now_ms: int) -> None:
        """Bring a word of the gateway to its flow.

        Deliveries in flight to a closed flow are ignored: the queue has them back.
        """
        flow = self._by_id.get(event.flow_id)
        if flow is None:
            if isinstance(event, PubOpened | Bound | Reading):  # closed before it was open
                self._unwanted(event, engine)
            return
        if isinstance(event, FlowEnd):
            self._end(flow, ClientClosed("it was closed"))
        elif isinstance(event, FlowState) and event.state == FLOW_ENDED:
            self._ended(flow, Error(flow.flow_id, NO_REQUEST, event.code, event.text, event.retry_after_ms), now_ms)
        elif isinstance(flow, Inbox):
            self._handle_consumer(flow, event)
        elif isinstance(flow, Outbox):
            if isinstance(event, PubAck):
                flow.acknowledged(event)
            elif isinstance(event, PubOpened):
                flow.frame_bytes_max = self.frame_bytes_max
                flow.opened(event)
        elif isinstance(flow, BrowseFlow):
            if isinstance(event, DeliveriesReceived) and flow.phase == OPEN:
                flow.delivered(event.deliveries)
            elif isinstance(event, Bound):
                flow.opened(event)
        elif isinstance(flow, RangeFlow):
            if isinstance(event, RowsReceived) and flow.phase == OPEN:
                flow.arrived(event)
            elif isinstance(event, Reading):
                flow.opened(event)
        if flow.phase == ENDED:
            self._forget(flow)
            if isinstance(event, PubOpened | Reading):  # the flow cannot use what was opened
                self._unwanted(event, engine)
        self._update(flow)

    def _handle_consumer(self, flow: Inbox, event: FlowWord) -> None:
        if isinstance(event, DeliveriesReceived):
            if flow.phase == OPEN:
                flow.delivered(event.deliveries)
        elif isinstance(event, Bound):
            flow.opened(event)
        elif isinstance(event, Credit):
            flow.credited(event)
        elif isinstance(event, Settled):
            flow.not_held(event)
        elif isinstance(event, Partitions):
            flow.listed(event)
        elif isinstance(event, FlowState):
            flow.stands(event)

    def _unwanted(self, opened: PubOpened | Bound | Reading, engine: FlowEngine) -> None:
        """Close a flow that the gateway opened and no owner has."""
        kind = CLOSE_PUB if isinstance(opened, PubOpened) else UNBIND
        engine.send(FlowEnd(kind, opened.flow_id, self.take_id(), False).encode())

    def failed(self, error: Error, now_ms: int) -> bool:
        """Take an ERROR, if it is about a flow that is here."""
        flow = self._by_id.get(error.flow_id)
        if flow is not None:
            self._ended(flow, error, now_ms)
        return flow is not None

    def _ended(self, flow: ClientFlow, error: Error, now_ms: int) -> None:
        """A flow was refused or has ended: try again when that makes sense, and the program has had it before."""
        self._by_id.pop(flow.flow_id, None)
        if flow.phase != CLOSING and flow.was_open and error.retry_after_ms is not None:
            flow.interrupted(error.text)
            flow.retry_at_ms = now_ms + error.retry_after_ms
            self._update(flow)
        elif flow.was_open:
            self._end(flow, flow.ended_by(error))
        else:
            self._end(flow, RequestRefused(error.code, error.text, error.retry_after_ms))

    # --- ends ---

    def _end(self, flow: ClientFlow, error: FlowClientError) -> None:
        flow.end(error)
        self._forget(flow)
        self._update(flow)

    def _forget(self, flow: ClientFlow) -> None:
        self._by_id.pop(flow.flow_id, None)
        if flow in self._flows:
            self._flows.remove(flow)

    def _update(self, flow: ClientFlow) -> None:
        if isinstance(flow, Inbox) and flow.events:
            self.events += flow.events
            flow.events.clear()
        if flow.has_news and flow not in self._news:
            self._news.append(flow)
