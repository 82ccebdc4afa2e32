"""The registry of one message VPN: what its AMQP connections know of each other.

It has the connected containers with their links, the subscriptions to topics that have links, and the temporary nodes
(3.5.3, 3.5.4: `dynamic`). Senders and receivers that were detached and may resume are in `datapath`.
"""

from dataclasses import dataclass
from typing import Final, final

from sluicegate.actors.messages.directory import DeleteQueue
from sluicegate.actors.runtime.runtime import Behaviour
from sluicegate.messaging.message.address import Address
from sluicegate.messaging.queues.admission import QueueGate
from sluicegate.protocols.amqp.codec.addresses import QUEUE, TOPIC, AddressedNode, AddressRefused
from sluicegate.protocols.amqp.codec.delivery_states import AmqpError
from sluicegate.protocols.amqp.datapath.receiver_recovery import ResumableFlows
from sluicegate.protocols.amqp.engine.link import IncomingLink, OutgoingLink
from sluicegate.protocols.amqp.engine.session import Session
from sluicegate.protocols.amqp.types import errors as conditions
from sluicegate.protocols.connection.identity import Identity

Link = IncomingLink | OutgoingLink
ContainerName = tuple[str, str]  # and its user's: each may call it as it likes
# Container, user, the connection's number where there is no container, whether the client sends, name.
LinkKey = tuple[str, str, int, bool, str]

# Lifetime policies of temporary nodes (3.5.10 to 3.5.13).
DELETE_ON_CLOSE: Final = 0x2B
DELETE_ON_NO_LINKS: Final = 0x2C
DELETE_ON_NO_MESSAGES: Final = 0x2D
DELETE_ON_NO_LINKS_OR_MESSAGES: Final = 0x2E

TOPIC_ADDRESS: Final = "temp-topic://"  # so that the address of a temporary topic alone says what it is


def moving_text(container: str) -> str:
    """Return why a container is not served for a moment."""
    return f"the subscriptions of container {container!r:.80} move to another broker of this machine"


class LinkOwner(Behaviour):
    """A connection as the others of its message VPN know it: whose links it has, and how to end one of them.

    It is the lowest part of a connection.
    """

    def __init__(self, identity: Identity, number: int) -> None:
        self.container_id = ""  # of the client, from open on
        self.client_name = ""  # its container id, or what the broker calls a client without one; from open on
        self.identity = identity
        self.number = number  # tells connections without a container id apart
        self.is_released = False  # the connection ends, and has released its links

    def end_link(self, session: Session, link: Link, error: AmqpError, *, closed: bool = True) -> None:
        """End a link by the broker's will. Its own queue and state are kept as if the client had only detached it."""
        raise AssertionError("the connection does that")


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
    """The containers that are connected, and the links between them and us.

    A link is known by its two containers, its name and its direction (2.6.1), whichever connection and session it is
    on. So a link that is attached again is taken away from where it was.

    Links of clients that name no container are known by their connection only. Two users with the same container id do
    not take links from each other.
    """

    def __init__(self) -> None:
        self._names: dict[LinkOwner, ContainerName] = {}  # of those that are open
        self._connection_counts: dict[ContainerName, int] = {}
        self._attachments: dict[LinkKey, _Attachment] = {}
        self._keys: dict[Link, LinkKey] = {}
        self.moving: frozenset[str] = frozenset()  # whose subscriptions move to another broker of this machine
        self.staying: dict[str, str] = {}  # whose subscriptions were to move and cannot, or not now: why

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


@final
class TemporaryQueue:
    """What is needed of the queue of a temporary node."""

    def __init__(self, gate: QueueGate, directory: Address) -> None:
        self.gate = gate
        self.directory = directory  # the actor that deletes queues


@final
class TemporaryNode:
    """One temporary node."""

    def __init__(
        self, node: AddressedNode, owner: LinkOwner, maker: Link, policy: int, queue: TemporaryQueue | None
    ) -> None:
        self.node = node
        self.owner = owner
        self.maker = maker  # the link that asked for it
        self.policy = policy
        self.has_maker = True
        self.links: dict[Link, tuple[LinkOwner, Session]] = {}  # to it, of any connection
        self.queue = queue  # None: a topic, which holds nothing

    @property
    def address(self) -> str:
        """The address under which any client finds it."""
        return self.node.name if self.node.kind == QUEUE else TOPIC_ADDRESS + self.node.name

    def is_over(self) -> bool:
        """Return whether its policy ends it now."""
        if self.policy == DELETE_ON_CLOSE:
            return not self.has_maker
        if self.policy == DELETE_ON_NO_LINKS:
            return not self.links
        is_empty = self.queue is None or self.queue.gate.usage_count == 0
        if self.policy == DELETE_ON_NO_MESSAGES:
            return not self.has_maker and is_empty
        return not self.links and is_empty


@final
class TemporaryNodes:
    """All temporary nodes of one message VPN: queues and topics that clients asked for, and when they end.

    A temporary queue is a queue of the broker that is never written to disk. A temporary topic is only a name that
    cannot be guessed. Both belong to the connection that asked for them: only it receives from them, any client may
    send to them, and they end with it at the latest. Before that they end by their lifetime policy, and with them the
    links of others.
    """

    def __init__(self) -> None:
        self._by_name: dict[str, TemporaryNode] = {}
        self._by_owner: dict[LinkOwner, list[TemporaryNode]] = {}
        self._by_link: dict[Link, TemporaryNode] = {}

    def add(self, made: TemporaryNode, session: Session) -> None:
        """Note a node that was made for a link. It ends at once when the connection is gone meanwhile."""
        self._by_name[made.node.name] = made
        self._by_owner.setdefault(made.owner, []).append(made)
        self.attached(made.owner, session, made.maker, made.node)
        if made.owner.is_released:
            self.end_of(made.owner)

    def count_of(self, owner: LinkOwner) -> int:
        """Return how many nodes a connection has."""
        return len(self._by_owner.get(owner, []))

    def check_consumer(self, owner: LinkOwner, node: AddressedNode) -> None:
        """Raise AddressRefused unless the connection may receive from a node."""
        found = self._by_name.get(node.name)
        if found is not None and found.owner is not owner:
            raise AddressRefused(conditions.RESOURCE_LOCKED, f"{found.node!r} belongs to another connection")

    def is_topic_of(self, owner: LinkOwner, topic: str) -> bool:
        """Return whether a topic was made for the connection, which receives from it whatever its ACL profile says."""
        found = self._by_name.get(topic)
        return found is not None and found.owner is owner and found.node.kind == TOPIC

    def attached(self, owner: LinkOwner, session: Session, link: Link, node: AddressedNode) -> None:
        """Note a link to a node, which may be a temporary one."""
        found = self._by_name.get(node.name)
        if found is not None:
            found.links[link] = (owner, session)
            self._by_link[link] = found

    def detached(self, link: Link, *, closed: bool) -> None:
        """Note that a link is gone. If it is not closed it might come back, so its own node stays."""
        node = self._by_link.pop(link, None)
        if node is not None:
            node.links.pop(link, None)
            if link is node.maker and closed:
                node.has_maker = False
            self._end_if_over(node)

    def delete_ended(self, owner: LinkOwner) -> None:
        """End those of a connection's nodes that have become empty, where that is their end."""
        for node in list(self._by_owner.get(owner, [])):
            self._end_if_over(node)

    def end_of(self, owner: LinkOwner) -> None:
        """End all nodes of a connection that is gone."""
        for node in list(self._by_owner.get(owner, [])):
            self._end(node)

    def _end_if_over(self, node: TemporaryNode) -> None:
        if node.is_over():
            self._end(node)

    def _end(self, node: TemporaryNode) -> None:
        """Delete a node, and end the links that are left."""
        name = node.node.name
        if self._by_name.pop(name, None) is None:
            return
        owner = node.owner
        left = [each for each in self._by_owner[owner] if each is not node]
        if left:
            self._by_owner[owner] = left
        else:
            del self._by_owner[owner]
        if node.queue is not None:
            node.queue.directory.post(DeleteQueue(name))
        error = AmqpError(conditions.RESOURCE_DELETED, f"the temporary {node.node!r} is gone")
        links, node.links = node.links, {}
        for link, (holder, session) in links.items():
            holder.end_link(session, link, error)


@final
class Registry:
    """One for all connections; it outlives changes of the configuration."""

    def __init__(self, *, is_retired: bool = False) -> None:
        """`is_retired`: the broker gets no new durable subscriptions."""
        self.is_retired: Final = is_retired
        self.containers = Containers()
        self.resumable = ResumableFlows()
        self.temporary_nodes = TemporaryNodes()
        self.subscriptions = Subscriptions()
