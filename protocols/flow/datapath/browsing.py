"""Flows that browse a queue and consume nothing.

Flow: consuming, browsing. A browser of the queue reads for the flow (actors.queues.browser), a few messages ahead of
its client (protocols.connection.browse_buffer).
"""

from collections.abc import Callable
from typing import final

from sluicegate.actors.messages.partitions import BrowsedMessage
from sluicegate.actors.messages.queues import Browsed, UnbindFlow
from sluicegate.actors.runtime.runtime import ActorCell
from sluicegate.messaging.message.batch import AT_MOST_ONCE
from sluicegate.protocols.connection.browse_buffer import BrowseBuffer
from sluicegate.protocols.connection.counters import ProtocolCounters, Traffic
from sluicegate.protocols.flow.codec import codes
from sluicegate.protocols.flow.codec.frames.deliver import DeliverHead, write_deliver
from sluicegate.protocols.flow.codec.frames.flow import ACTIVE, ENDED, FlowState


@final
class BrowserFlow:
    """A browser flow of a client on a queue."""

    def __init__(self, flow_id: int, urn: int, queue: ActorCell, delivery_id_max: int) -> None:
        self.flow_id = flow_id
        self.urn = urn  # the flow's id on this node
        self.queue = queue  # the queue's actor
        self.delivery_id_max = delivery_id_max
        self.sent_through = 0
        self.browse_buffer = BrowseBuffer()

    def __repr__(self) -> str:
        return f"BrowserFlow({self.flow_id}, through {self.sent_through} of {self.delivery_id_max})"


@final
class Browsers:
    """The browser flows of one client."""

    def __init__(
        self, out: list[bytes], wall_ms: Callable[[], int], counters: ProtocolCounters, traffic: Traffic
    ) -> None:
        self.flows: dict[int, BrowserFlow] = {}
        self._by_urn: dict[int, BrowserFlow] = {}
        self._out = out  # frames of flows, in their order
        self._wall_ms = wall_ms
        self._counters = counters
        self._traffic = traffic
        self._is_shut = False  # the socket takes no more

    def add(self, flow: BrowserFlow) -> None:
        """Know a flow. Nothing is shown on it before `begin`."""
        self.flows[flow.flow_id] = flow
        self._by_urn[flow.urn] = flow

    def remove(self, flow: BrowserFlow) -> None:
        """Forget a flow."""
        self.flows.pop(flow.flow_id, None)
        self._by_urn.pop(flow.urn, None)

    def unbind(self, flow_id: int) -> None:
        """End a flow, if there is one of that id: its client has seen enough, or is gone."""
        flow = self.flows.get(flow_id)
        if flow is not None:
            self.remove(flow)
            flow.queue.inbox.post(UnbindFlow(flow.urn, may_return=False))

    def begin(self, flow: BrowserFlow, browser: ActorCell, answer: bytes) -> None:
        """Answer BIND, and have the browser show what there is credit for."""
        flow.browse_buffer.browser = browser
        self._out.append(answer)
        self._out.append(FlowState(flow.flow_id, ACTIVE, 1, codes.NONE, "", None).encode())
        self._send(flow)

    def credit(self, flow: BrowserFlow, delivery_id_max: int) -> None:
        """Apply the client's limit. It never falls: a client that wants no more ends the flow."""
        flow.delivery_id_max = max(flow.delivery_id_max, delivery_id_max)
        self._send(flow)

    def hold_back(self, is_full: bool) -> None:
        """Send nothing while the socket is full."""
        self._is_shut = is_full
        for flow in list(self.flows.values()):
            self._send(flow)

    def shown(self, message: Browsed) -> None:
        """Send the messages of a browser, or keep them while the socket is full."""
        flow = self._by_urn.get(message.flow_id)
        if flow is not None:
            flow.browse_buffer.add(message.messages)
            self._send(flow)

    def end(self, urn: int, reason: str, retry_after_ms: int | None) -> None:
        """Tell the client that a flow is gone, if it still has it."""
        flow = self._by_urn.get(urn)
        if flow is not None:
            self.remove(flow)
            self._out.append(FlowState(flow.flow_id, ENDED, 2, codes.REVOKED, reason, retry_after_ms).encode())

    def _send(self, flow: BrowserFlow) -> None:
        """Send waiting messages, and request more."""
        waiting = flow.browse_buffer.waiting
        before = flow.sent_through
        wall_ms = self._wall_ms()
        while waiting and not self._is_shut:
            flow.sent_through += 1
            self._out.append(_deliver(flow, waiting.popleft(), wall_ms))
        sent_count = flow.sent_through - before
        self._counters.messages_sent += sent_count
        self._traffic.messages_sent += sent_count
        flow.browse_buffer.request(flow.delivery_id_max - flow.sent_through)


def _deliver(flow: BrowserFlow, found: BrowsedMessage, wall_ms: int) -> bytes:
    """Return a DELIVER of a copy: without an assignment epoch, because it is not assigned."""
    batch, row = found.batch, found.row
    head = DeliverHead(
        flow.flow_id,
        found.partition_number,
        0,
        delivery_count=found.delivery_count,
        redelivered=found.redelivered,
        was_direct=batch.qos == AT_MOST_ONCE,
        first_of_group=False,
        received_ms=batch.received_ms,
    )
    return write_deliver(
        head,
        flow.sent_through,
        found.sequence,
        topic=batch.topic_of(row).encode("utf-8"),
        headers=batch.headers_of(row),
        payload=batch.payloads()[row],
        wall_ms=wall_ms,
    )
