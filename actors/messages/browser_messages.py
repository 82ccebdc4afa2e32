"""What a browser and its queue say to each other: looking at messages without consuming them."""

from dataclasses import dataclass

from sluicegate.actors.messages.queues import BrowsedMessage
from sluicegate.actors.runtime.cell import ActorCell
from sluicegate.messaging.message.address import Address
from sluicegate.messaging.selectors.selector import Selector


@dataclass(slots=True)
class BindBrowser:
    """Ask of a queue: show me its messages, oldest first, and new ones as they arrive. Answered with BrowserBound.

    Raises BindRefused; the right needed is `read-only`. The consumer chooses the flow's id (Runtime.next_urn), for
    messages may reach it before the answer does. Sequences up to `after` are passed over, in every partition.
    """

    flow_id: int
    client: str
    protocol: str  # that the client speaks, for operators to see
    user: str | None  # as authentication found it, empty for anonymous; None: an operator, who may look at anything
    address: Address  # gets Browsed, and FlowGone when the queue ends
    window: int  # messages that it is shown before it asks for more; at most 10,000 count
    partition_number: int | None = None  # None: all
    after: int = 0
    selector: Selector | None = None  # what the browser wants to see


@dataclass(frozen=True, slots=True)
class BrowserBound:
    """The browser's own actor, for BrowserCredit and DeleteBrowsed. `UnbindFlow` to the queue ends it."""

    browser: ActorCell


@dataclass(slots=True)
class Browsed:
    """Browser -> consumer: copies of messages. Within a partition in order; between partitions by time of arrival."""

    flow_id: int
    messages: list[BrowsedMessage]


@dataclass(slots=True)
class BrowserCredit:
    """Consumer -> browser: show so many more."""

    count: int


@dataclass(slots=True)
class DeleteBrowsed:
    """Ask of a browser: settle messages it has shown, each a partition and a sequence.

    Answered with how many were removed: one that a consumer holds, or that is gone already, is passed over. Raises
    BindRefused when the browser's user may no longer remove messages: that needs `consume`.
    """

    places: list[tuple[int, int]]


@dataclass(slots=True)
class DeleteMessages:
    """Ask of a partition: remove these sequences, where no consumer holds them. Answered with how many."""

    sequences: list[int]


@dataclass(slots=True)
class PartitionsChanged:
    """Queue -> browser: there are more partitions than before, or fewer."""


@dataclass(slots=True)
class EndBrowse:
    """Browser -> partition: nobody waits for new messages any more."""

    flow_id: int
