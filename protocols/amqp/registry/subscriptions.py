"""Subscriptions to topics that have links, and what a subscription wants its queue to be."""

from dataclasses import dataclass
from typing import final

from sluicegate.protocols.amqp.engine.link import OutgoingLink
from sluicegate.protocols.amqp.registry.link_owner import LinkOwner


@dataclass(frozen=True)
class SubscriptionQueue:
    """What a subscription wants its queue to be."""

    name: str
    topic: str
    durable: bool  # its messages are written
    is_shared: bool
    is_kept: bool  # while no link is attached; it ends when the last one is closed
    expires_s: int  # of that time without a link; 0: never
    user: str  # the only user that may have it; empty: any
    selector: str  # what of the topic's messages it takes; empty: everything
    priorities: tuple[int, ...] = ()  # for Deliver-To-One, of one that ends with its link; empty: it gets all
    partition_count: int = 0  # of a shared one, whose links then get whole partitions; 0: not said


@final
class Subscriptions:
    """The subscriptions that have links, and the links that only find one."""

    def __init__(self) -> None:
        self._links: dict[str, dict[OutgoingLink, LinkOwner]] = {}  # by the name of the queue
        self.found: dict[OutgoingLink, str] = {}

    def enter(self, name: str, link: OutgoingLink, owner: LinkOwner) -> None:
        """Note a link of a subscription, which does not end while it has one."""
        self._links.setdefault(name, {})[link] = owner

    def leave(self, name: str, link: OutgoingLink) -> bool:
        """Forget a link; return whether it was the last."""
        links = self._links.get(name)
        if links is None:
            return True
        links.pop(link, None)
        if links:
            return False
        del self._links[name]
        return True

    def others(self, name: str, link: OutgoingLink) -> list[LinkOwner]:
        """Return the connections of the other links of a subscription."""
        return [its for each, its in self._links.get(name, {}).items() if each is not link]

    def is_active(self, name: str) -> bool:
        """Return whether a subscription has a link."""
        return name in self._links
