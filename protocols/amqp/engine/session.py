"""One session (2.5): its windows, its links, and the deliveries that wait for the peer's window.

It has two counters: transfer ids count transfer frames, and the windows are about them; delivery ids count deliveries.
Both are serial numbers that wrap. The message behind a delivery id, and whether it is settled, is known to the part
that sent or stored it.
"""

from typing import Final, final

from sluicegate.protocols.amqp.codec.dispositions import DispositionRuns
from sluicegate.protocols.amqp.codec.performatives import ABSENT, Begin, Detach, Flow
from sluicegate.protocols.amqp.codec.transfers import transfer_lead
from sluicegate.protocols.amqp.engine.link import SERIAL_MASK, IncomingLink, OutgoingLink, serial_difference
from sluicegate.protocols.amqp.limits import OUTGOING_WINDOW
from sluicegate.protocols.amqp.types.errors import SESSION, WINDOW_VIOLATION, PeerViolation
from sluicegate.protocols.amqp.types.values import AmqpMap

AVAILABLE_MAX: Final = 0xFFFF_FFFF  # what the field holds

MAPPED: Final = 0
ENDING: Final = 1  # we sent end; whatever comes before the peer's is dropped


@final
class PendingDelivery:
    """A delivery on its way out: what of it has not been cut into frames."""

    __slots__ = ("delivery_id", "link", "message_format", "offset", "payload", "resume", "settled", "tag")

    def __init__(
        self,
        link: OutgoingLink,
        delivery_id: int,
        tag: bytes,
        payload: bytes,
        *,
        message_format: int,
        settled: bool,
        resume: bool,
    ) -> None:
        self.link = link
        self.delivery_id = delivery_id
        self.tag = tag
        self.payload = payload
        self.message_format = message_format
        self.settled = settled
        self.resume = resume
        self.offset = 0  # bytes of the payload that are sent


@final
class ClosingLink:
    """A link that the peer has closed, until our detach: our attach on its handle, which is the peer's, waits for that.

    `next` is the link that the peer has attached on the handle meanwhile, and `next_detach` how that one was closed.
    """

    __slots__ = ("link", "next", "next_detach")

    def __init__(self, link: OutgoingLink) -> None:
        self.link = link
        self.next: IncomingLink | OutgoingLink | None = None
        self.next_detach: Detach | None = None


@final
class Session:
    """One session of a connection.

    Invariants: `incoming_window >= 0`; `remote_incoming_window >= 0`; of `pending` only the first delivery may be sent
    in part; where some are, the session is blocked.
    """

    def __init__(self, channel: int, begin: Begin, incoming_window_max: int) -> None:
        self.channel = channel  # ours and the peer's: we answer on the number the peer chose
        self.state = MAPPED
        self.incoming: dict[int, IncomingLink] = {}  # by the peer's handle
        self.outgoing: dict[int, OutgoingLink] = {}
        self.closing: dict[int, ClosingLink] | None = None  # by handle; None: no link has been closed that way
        self.next_incoming_id = begin.next_outgoing_id
        self.incoming_window = incoming_window_max
        self.incoming_window_max = incoming_window_max
        self.next_outgoing_id = 0
        self.remote_incoming_window = begin.incoming_window
        self.last_delivery_id = ABSENT  # of what the peer sent
        self.next_delivery_id = 0  # of what we send
        # Waits for the peer's window: what was on its way here when there was no room any more.
        self.pending: list[PendingDelivery] = []
        self.is_blocked = False  # deliveries have come to wait, and the window has not been seen with room for more
        self.dispositions = DispositionRuns()
        self.transfer_lead = transfer_lead(channel)

    # --- incoming ---

    def count_incoming(self) -> None:
        """Count a transfer frame of the peer. Raises PeerViolation when the window has no room for it (2.5.6)."""
        if self.incoming_window <= 0:
            text = f"a transfer beyond the incoming window of {self.incoming_window_max} frames"
            raise PeerViolation(SESSION, WINDOW_VIOLATION, text)
        self.next_incoming_id = (self.next_incoming_id + 1) & SERIAL_MASK
        self.incoming_window -= 1

    def wants_window(self) -> bool:
        """Return whether the peer should be told that the window is open again: when half of it is used."""
        return self.incoming_window * 2 <= self.incoming_window_max

    def apply_flow(self, flow: Flow) -> None:
        """Take over the peer's view of the windows (2.5.6). Raises PeerViolation."""
        seen = 0 if flow.next_incoming_id == ABSENT else flow.next_incoming_id
        ahead = serial_difference(seen, self.next_outgoing_id)
        if ahead > 0:
            text = f"next-incoming-id {seen} is {ahead} beyond what was sent"
            raise PeerViolation(SESSION, WINDOW_VIOLATION, text)
        self.remote_incoming_window = max(0, ahead + flow.incoming_window)

    # --- outgoing ---

    def take_delivery_id(self) -> int:
        """Return the id of the next delivery we send."""
        delivery_id = self.next_delivery_id
        self.next_delivery_id = (delivery_id + 1) & SERIAL_MASK
        return delivery_id

    def flow(self, link: IncomingLink | OutgoingLink | None = None, properties: AmqpMap | None = None) -> bytes:
        """Return a flow with the session's state; it opens the incoming window to its full width."""
        self.incoming_window = self.incoming_window_max
        flow = Flow(
            next_incoming_id=self.next_incoming_id,
            incoming_window=self.incoming_window,
            next_outgoing_id=self.next_outgoing_id,
            outgoing_window=OUTGOING_WINDOW,
        )
        if link is not None:
            flow.handle = link.handle
            flow.delivery_count = link.delivery_count
            flow.link_credit = link.credit
            if isinstance(link, OutgoingLink):
                flow.available = ABSENT if link.depth is None else min(link.depth(), AVAILABLE_MAX)
                flow.drain = link.drain
            flow.properties = properties
        return flow.encode()

    def links(self) -> list[IncomingLink | OutgoingLink]:
        """Return all links there are."""
        return [*self.incoming.values(), *self.outgoing.values()]

    def drop_link(self, link: IncomingLink | OutgoingLink) -> None:
        """Forget a link: its handle is free."""
        if isinstance(link, IncomingLink):
            self.incoming.pop(link.handle, None)
        else:
            self.outgoing.pop(link.handle, None)

    def begin_closing(self, link: OutgoingLink) -> None:
        """Drop a link that the peer has closed, and remember that our detach is to come."""
        self.drop_link(link)
        if self.closing is None:
            self.closing = {}
        self.closing[link.handle] = ClosingLink(link)

    def closing_on(self, handle: int) -> ClosingLink | None:
        """Return the link on a handle whose closing detach is not answered yet."""
        return None if self.closing is None else self.closing.get(handle)

    def forget_pending(self, link: OutgoingLink) -> None:
        """Drop what of a link waits for the peer's window."""
        if self.pending:
            self.pending = [each for each in self.pending if each.link is not link]

    def has_taken_back(self, first: int, last: int) -> bool:
        """Return whether any of `first` to `last` was on a link that ended here, and not yet for the peer."""
        return any(
            serial_difference(last, taken_first) >= 0 and serial_difference(taken_last, first) >= 0
            for link in self.outgoing.values()
            for taken_first, taken_last in link.taken_back
        )

    def has_pending(self, link: OutgoingLink) -> bool:
        """Return whether deliveries of a link wait for the peer's window."""
        return any(each.link is link for each in self.pending)

    def __repr__(self) -> str:
        return f"Session({self.channel}, {len(self.incoming)} links in, {len(self.outgoing)} out)"
