"""What the AMQP connections in one message VPN know of each other."""

from typing import TYPE_CHECKING, final

from sluicegate.protocols.amqp.codec.delivery_states import AmqpError
from sluicegate.protocols.amqp.datapath.receiver_recovery import ResumableFlows
from sluicegate.protocols.amqp.engine.link import IncomingLink, OutgoingLink
from sluicegate.protocols.amqp.links.dynamic_nodes import TemporaryNodes
from sluicegate.protocols.amqp.links.subscriptions import Subscriptions
from sluicegate.protocols.amqp.types import errors as conditions

if TYPE_CHECKING:
    from sluicegate.protocols.amqp.connection import AmqpConnection
    from sluicegate.protocols.amqp.engine.session import Session


# Which containers are connected, and the links between them and us: a link is known by its two containers, its name
# and its direction (2.6.1), whichever connection and session it is on. So one that is attached again is taken away from
# where it was.
#
# Links of clients that name no container are known by their connection only. Two users under one container id do not
# take links from each other, nor are they in each other's way.


Link = IncomingLink | OutgoingLink
ContainerName = tuple[str, str]  # and its user's: each may call it as it likes
# Container, user, the connection's number where there is no container, whether the client sends, name.
LinkKey = tuple[str, str, int, bool, str]


@final
class _Place:
    """Where a link is attached."""

    __slots__ = ("connection", "link", "session")

    def __init__(self, connection: "AmqpConnection", session: "Session", link: Link) -> None:
        self.connection = connection
        self.session = session
        self.link = link


@final
class Containers:
    """All of a gateway's AMQP clients."""

    def __init__(self) -> None:
        self._names: dict[AmqpConnection, ContainerName] = {}  # of those that are open
        self._connection_counts: dict[ContainerName, int] = {}
        self._places: dict[LinkKey, _Place] = {}
        self._keys: dict[Link, LinkKey] = {}

    def is_connected(self, container: str, user: str) -> bool:
        """Return whether a user's container has a connection."""
        return (container, user) in self._connection_counts

    def opened(self, connection: "AmqpConnection") -> None:
        """Note a connection that was opened."""
        container = self._names[connection] = (connection.client, connection.identity.user)
        self._connection_counts[container] = self._connection_counts.get(container, 0) + 1

    def closed(self, connection: "AmqpConnection") -> None:
        """Forget a connection, if it was opened."""
        container = self._names.pop(connection, None)
        if container is None:
            return
        left = self._connection_counts[container] - 1
        if left:
            self._connection_counts[container] = left
        else:
            del self._connection_counts[container]

    def attach(self, connection: "AmqpConnection", session: "Session", link: Link) -> None:
        """Note a link that the client attaches; one that was attached under the same name is stolen from there."""
        number = 0 if connection.client else connection.number
        key = (connection.client, connection.identity.user, number, isinstance(link, IncomingLink), link.name)
        former = self._places.get(key)
        if former is not None:
            error = AmqpError(conditions.STOLEN, "the link was attached again")
            former.connection.end_link(former.session, former.link, error, closed=False)
        self._places[key] = _Place(connection, session, link)
        self._keys[link] = key

    def has(self, link: Link) -> bool:
        """Return whether a link is where its client attached it last."""
        return link in self._keys

    def detached(self, link: Link) -> None:
        """Forget a link, wherever it was."""
        key = self._keys.pop(link, None)
        if key is not None and self._places[key].link is link:
            del self._places[key]


@final
class Registry:
    """One for all connections; it outlives changes of the configuration."""

    def __init__(self) -> None:
        self.containers = Containers()
        self.resumable = ResumableFlows()
        self.temporary_nodes = TemporaryNodes()
        self.subscriptions = Subscriptions()
