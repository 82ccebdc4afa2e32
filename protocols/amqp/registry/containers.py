"""Which containers are connected, and the links between them and us.

A link is known by its two containers, its name and its direction (2.6.1), whichever connection and session it is on. So
a link that is attached again is taken away from where it was.

Links of clients that name no container are known by their connection only. Two users with the same container id do not
take links from each other.
"""

from typing import final

from sluicegate.protocols.amqp.codec.delivery_states import AmqpError
from sluicegate.protocols.amqp.engine.link import IncomingLink
from sluicegate.protocols.amqp.engine.session import Session
from sluicegate.protocols.amqp.registry.link_owner import Link, LinkOwner
from sluicegate.protocols.amqp.types import errors as conditions

ContainerName = tuple[str, str]  # and its user's: each may call it as it likes
# Container, user, the connection's number where there is no container, whether the client sends, name.
LinkKey = tuple[str, str, int, bool, str]


@final
class _Attachment:
    """Where a link is attached."""

    __slots__ = ("link", "owner", "session")

    def __init__(self, owner: LinkOwner, session: Session, link: Link) -> None:
        self.owner = owner
        self.session = session
        self.link = link


@final
class Containers:
    """The AMQP clients of one message VPN."""

    def __init__(self) -> None:
        self._names: dict[LinkOwner, ContainerName] = {}  # of those that are open
        self._connection_counts: dict[ContainerName, int] = {}
        self._attachments: dict[LinkKey, _Attachment] = {}
        self._keys: dict[Link, LinkKey] = {}

    def is_connected(self, container: str, user: str) -> bool:
        """Return whether a user's container has a connection."""
        return (container, user) in self._connection_counts

    def opened(self, owner: LinkOwner) -> None:
        """Note a connection that was opened."""
        container = self._names[owner] = (owner.container_id, owner.identity.user)
        self._connection_counts[container] = self._connection_counts.get(container, 0) + 1

    def closed(self, owner: LinkOwner) -> None:
        """Forget a connection, if it was opened."""
        container = self._names.pop(owner, None)
        if container is None:
            return
        left = self._connection_counts[container] - 1
        if left:
            self._connection_counts[container] = left
        else:
            del self._connection_counts[container]

    def attach(self, owner: LinkOwner, session: Session, link: Link) -> None:
        """Note a link that the client attaches; an earlier attachment under the same name is stolen."""
        number = 0 if owner.container_id else owner.number
        key = (owner.container_id, owner.identity.user, number, isinstance(link, IncomingLink), link.name)
        former = self._attachments.get(key)
        if former is not None:
            error = AmqpError(conditions.STOLEN, "the link was attached again")
            former.owner.end_link(former.session, former.link, error, closed=False)
        self._attachments[key] = _Attachment(owner, session, link)
        self._keys[link] = key

    def has(self, link: Link) -> bool:
        """Return whether a link is the one that its client attached last."""
        return link in self._keys

    def detached(self, link: Link) -> None:
        """Forget a link, wherever it was."""
        key = self._keys.pop(link, None)
        if key is not None and self._attachments[key].link is link:
            del self._attachments[key]
