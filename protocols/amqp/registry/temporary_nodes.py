"""Temporary nodes: queues and topics that clients asked for (3.5.3, 3.5.4: `dynamic`), and when they end.

A temporary queue is a queue of the broker that is never written to disk. A temporary topic is only a name that cannot
be guessed. Both belong to the connection that asked for them: only it receives from them, any client may send to them,
and they end with it at the latest. Before that they end by their lifetime policy, and with them the links of others.
"""

from typing import Final, final

from sluicegate.actors.messages.directory import DeleteQueue
from sluicegate.messaging.message.address import Address
from sluicegate.messaging.queues.admission import QueueGate
from sluicegate.protocols.amqp.codec.addresses import QUEUE, TOPIC, AddressedNode, AddressRefused
from sluicegate.protocols.amqp.codec.delivery_states import AmqpError
from sluicegate.protocols.amqp.engine.session import Session
from sluicegate.protocols.amqp.registry.link_owner import Link, LinkOwner
from sluicegate.protocols.amqp.types import errors as conditions

# Lifetime policies (3.5.10 to 3.5.13).
DELETE_ON_CLOSE: Final = 0x2B
DELETE_ON_NO_LINKS: Final = 0x2C
DELETE_ON_NO_MESSAGES: Final = 0x2D
DELETE_ON_NO_LINKS_OR_MESSAGES: Final = 0x2E

TOPIC_ADDRESS: Final = "temp-topic://"  # so that an address alone says what it is


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
    """All temporary nodes of one message VPN."""

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
