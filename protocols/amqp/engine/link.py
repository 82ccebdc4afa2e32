"""The two kinds of links (2.6): incoming, on which the peer sends, and outgoing, on which the broker sends.

They hold counters and unfinished deliveries. Which messages travel, and where to, is up to the connection.
"""

from collections.abc import Callable
from typing import Final, final

from sluicegate.protocols.amqp.codec.performatives import ABSENT, RECEIVER_SECOND, SENDER_SETTLED, Attach, Flow
from sluicegate.protocols.amqp.codec.transfers import handle_bytes
from sluicegate.protocols.amqp.types.values import AmqpMap

# How far a link is. The peer's attach makes it; ours answers; either side's detach ends it, and the other's answers.
PENDING: Final = 0  # the peer's attach waits for our answer
ATTACHED: Final = 1
DETACHING: Final = 2  # we detached; whatever comes before the peer's detach is dropped
DETACHED: Final = 3
CLOSING: Final = 4  # the peer has closed it, and our detach waits until its owner is ready

SERIAL_MASK: Final = 0xFFFF_FFFF
SERIAL_HALF: Final = 0x8000_0000


def serial_difference(later: int, earlier: int) -> int:
    """Return how far a serial number (RFC 1982) is ahead of another; negative when it is behind."""
    difference = (later - earlier) & SERIAL_MASK
    return difference if difference < SERIAL_HALF else difference - (1 << 32)


@final
class IncomingLink:
    """A link on which the peer sends and the broker receives."""

    def __init__(self, attach: Attach) -> None:
        self.attach = attach  # as the peer sent it
        self.name = attach.name
        self.handle = attach.handle
        self.state = PENDING
        self.delivery_count = attach.initial_delivery_count & SERIAL_MASK
        self.credit = 0  # deliveries the peer may still send
        self.credit_overdrawn_max = 0  # of credit we took back: what crosses our flow on the way is not held against it
        self.message_bytes_max = 0
        # The delivery whose last frame has not come.
        self.is_partial = False
        self.partial: list[bytes] = []
        self.partial_bytes = 0
        self.partial_id = 0
        self.partial_format = 0
        self.partial_settled = False
        self.partial_txn_id: bytes | None = None
        self.partial_tag = b""
        self.partial_resumed = False
        # Of an earlier time of this link: what we say in our attach of deliveries the peer is unsure of (2.6.13).
        self.unsettled: AmqpMap | None = None
        self.incomplete_unsettled = False
        self.keeps_tags = False  # the owner wants the tags of deliveries
        self.can_resume = False  # deliveries of an earlier time may go on (2.6.13)

    def take_delivery_count(self, flow: Flow) -> bool:
        """Follow a sender that used credit up without sending; return whether this one did."""
        ahead = 0 if flow.delivery_count == ABSENT else serial_difference(flow.delivery_count, self.delivery_count)
        if ahead > 0:
            self.delivery_count = flow.delivery_count & SERIAL_MASK
            self.credit = max(0, self.credit - ahead)
        return ahead > 0

    def __repr__(self) -> str:
        return f"IncomingLink({self.name!r}, credit={self.credit})"


@final
class OutgoingLink:
    """A link on which the broker sends and the peer receives."""

    def __init__(self, attach: Attach) -> None:
        self.attach = attach  # as the peer sent it
        self.name = attach.name
        self.handle = attach.handle
        self.handle_bytes = handle_bytes(attach.handle)
        self.state = PENDING
        self.delivery_count = 0
        self.credit = 0  # deliveries we may still send
        self.drain = False  # use the credit up at once, or give it back
        self.is_drained = False  # the credit that is left goes back behind the deliveries that wait for the window
        self.wants_echo = False  # the peer has asked how the link stands before our attach
        self.depth: Callable[[], int] | None = None  # how many messages wait here; None: unknown
        self.next_tag = 0
        self.is_second = attach.receiver_settle_mode == RECEIVER_SECOND  # the peer settles after us
        self.is_settled_by_us = attach.sender_settle_mode == SENDER_SETTLED  # deliveries go out settled
        self.unsettled: AmqpMap | None = None  # what we say in our attach of an earlier time of this link (2.6.13)
        self.taken_back: list[tuple[int, int]] = []  # ids of its deliveries that were unsettled as it ended
        self.answers_close_later = False  # the owner says when a closing detach is answered, and how

    def take_credit(self, flow: Flow) -> None:
        """Compute the credit from the peer's view of the count (2.6.7): what is on its way uses it up."""
        if flow.link_credit != ABSENT:
            seen = 0 if flow.delivery_count == ABSENT else flow.delivery_count
            self.credit = max(0, flow.link_credit - serial_difference(self.delivery_count, seen))
        self.drain = flow.drain
        self.is_drained = False

    def take_tag(self) -> bytes:
        """Return a delivery tag that no other delivery of this link has."""
        tag = self.next_tag
        self.next_tag = (tag + 1) & SERIAL_MASK
        return tag.to_bytes(4, "big")

    def __repr__(self) -> str:
        return f"OutgoingLink({self.name!r}, credit={self.credit})"
