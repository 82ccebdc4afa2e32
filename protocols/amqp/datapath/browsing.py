"""Links that browse a queue: copies of its messages, settled as they are sent, so that the client need not settle them.

A browser of the queue reads for the link (actors.queues.browser), a few messages ahead of its credit
(protocols.connection.browse_buffer).
"""

from typing import TYPE_CHECKING, Final, final

from sluicegate.actors.messages.directory import LocalQueue, QueueHandle
from sluicegate.actors.messages.queues import Browsed, DrainFlow, FlowDrained
from sluicegate.messaging.message.batch import AT_MOST_ONCE
from sluicegate.protocols.amqp.engine.link import ATTACHED, OutgoingLink
from sluicegate.protocols.amqp.engine.session import Session
from sluicegate.protocols.amqp.messages.encode import write_message
from sluicegate.protocols.connection.browse_buffer import BrowseBuffer

if TYPE_CHECKING:
    from sluicegate.protocols.amqp.engine.sessions import Sessions


@final
class BrowserLink:
    """A link on which the client browses a queue."""

    def __init__(self, session: Session, link: OutgoingLink, flow_id: int, queue: QueueHandle) -> None:
        self.session = session
        self.link = link
        self.flow_id = flow_id
        self.queue = queue.cell  # the queue's actor
        self.browse_buffer = BrowseBuffer()
        self.drain_number = 0  # of the last time that the peer wanted its credit back
        self.tail_number = 0  # of the last time that the browser had nothing more
        self.has_queue_count: Final = isinstance(queue, LocalQueue)  # else its own broker has it
        self._gate = queue.gate

    def queue_count(self) -> int:
        """Return how many messages the queue holds: what is shown as available."""
        return self._gate.usage_count

    def __repr__(self) -> str:
        return f"BrowserLink({self.link!r})"


@final
class Browsers:
    """The browsers of one client, over all its links."""

    def __init__(self, sessions: "Sessions") -> None:
        self.by_link: dict[OutgoingLink, BrowserLink] = {}
        self.by_flow: dict[int, BrowserLink] = {}
        self._sessions = sessions
        self._is_shut = False  # the socket takes no more

    def add(self, browsing: BrowserLink) -> None:
        """Add a link."""
        self.by_link[browsing.link] = browsing
        self.by_flow[browsing.flow_id] = browsing
        browsing.link.depth = browsing.queue_count if browsing.has_queue_count else None

    def remove(self, browsing: BrowserLink) -> None:
        """Forget a link."""
        self.by_link.pop(browsing.link, None)
        self.by_flow.pop(browsing.flow_id, None)
        browsing.link.depth = None

    # --- credit ---

    def credit(self, browsing: BrowserLink, wall_ms: int) -> int:
        """Apply the credit that the peer grants; return how many messages were sent."""
        browser = browsing.browse_buffer.browser
        if browser is None:
            return 0
        if browsing.link.drain:
            browsing.drain_number += 1
            browser.inbox.post(DrainFlow(browsing.flow_id, browsing.drain_number))
        return self._send(browsing, wall_ms)

    def pause_output(self, is_full: bool, wall_ms: int) -> int:
        """Send nothing while the socket is full; return how many messages were sent once it no longer is."""
        self._is_shut = is_full
        return self._send_on(list(self.by_link.values()), wall_ms)

    def window_opened(self, session: Session, wall_ms: int) -> int:
        """Continue a session that was blocked; return how many messages were sent."""
        return self._send_on([each for each in self.by_link.values() if each.session is session], wall_ms)

    def _send_on(self, links: list[BrowserLink], wall_ms: int) -> int:
        return sum([self._send(each, wall_ms) for each in links if each.browse_buffer.browser is not None])

    # --- what the browser shows ---

    def shown(self, message: Browsed, wall_ms: int) -> int:
        """Send the messages of a browser, or keep them until there is credit; return how many were sent."""
        browsing = self.by_flow.get(message.flow_id)
        if browsing is None:
            return 0
        browsing.browse_buffer.add(message.messages)
        return 0 if browsing.browse_buffer.browser is None else self._send(browsing, wall_ms)

    def drained(self, message: FlowDrained) -> None:
        """Note that a browser is at the tail of its queue; it has sent everything before."""
        browsing = self.by_flow.get(message.flow_id)
        if browsing is not None:
            browsing.tail_number = message.number
            self._give_back_credit(browsing)

    def _send(self, browsing: BrowserLink, wall_ms: int) -> int:
        session, link, waiting = browsing.session, browsing.link, browsing.browse_buffer.waiting
        count = 0
        while waiting and link.credit > 0 and not (self._is_shut or session.is_blocked) and link.state == ATTACHED:
            found = waiting.popleft()
            batch, row = found.batch, found.row
            data = write_message(
                batch.payloads()[row],
                batch.headers_of(row),
                topic=batch.topic_of(row),
                durable=batch.qos != AT_MOST_ONCE,
                delivery_count=found.delivery_count,
                is_first=not found.redelivered,
                wall_ms=wall_ms,
            )
            self._sessions.send(session, link, data, 0)
            count += 1
        browsing.browse_buffer.request(link.credit)
        self._give_back_credit(browsing)
        return count

    def _give_back_credit(self, browsing: BrowserLink) -> None:
        """Answer a peer that drains: at the tail, or when its credit is used up."""
        link = browsing.link
        is_at_tail = browsing.tail_number == browsing.drain_number and not browsing.browse_buffer.waiting
        if link.drain and (is_at_tail or link.credit == 0):
            self._sessions.drained(browsing.session, link)
