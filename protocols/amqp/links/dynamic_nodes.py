"""Nodes that clients have made for themselves (3.5.3, 3.5.4: `dynamic`), and when they go.

A temporary queue is a queue of the node that is never written; a temporary topic is no more than a name nobody can
guess. Both belong to the connection that asked for them: nobody else receives from them, anybody may send to them, and
they go with it at the latest. Before that they go by their lifetime policy, and then the links of others to them end.
"""

from typing import TYPE_CHECKING, Final, final

from sluicegate.actors.messages.directory import DeclareQueue, DeleteQueue, QueueHandle, QueuesExhausted
from sluicegate.messaging.clients.rights import ClientDenied
from sluicegate.messaging.queues.admission import QueueGate
from sluicegate.messaging.queues.attributes import SECONDS_MAX
from sluicegate.messaging.topics.syntax import TEMPORARY_TOPICS
from sluicegate.protocols.amqp.codec.addresses import QUEUE, TOPIC, TOPIC_CAPABILITIES, AddressRefused, Node
from sluicegate.protocols.amqp.codec.delivery_states import AmqpError
from sluicegate.protocols.amqp.engine.link import IncomingLink, OutgoingLink
from sluicegate.protocols.amqp.types import errors as conditions
from sluicegate.protocols.amqp.types.values import AmqpMap, AmqpValue, Described, Scalar, Symbol

if TYPE_CHECKING:
    from sluicegate.protocols.amqp.connection import AmqpConnection
    from sluicegate.protocols.amqp.engine.session import Session

# Lifetime policies (3.5.10 to 3.5.13).
DELETE_ON_CLOSE: Final = 0x2B
DELETE_ON_NO_LINKS: Final = 0x2C
DELETE_ON_NO_MESSAGES: Final = 0x2D
DELETE_ON_NO_LINKS_OR_MESSAGES: Final = 0x2E

_POLICIES: Final[dict[str, int]] = {
    "amqp:delete-on-close:list": DELETE_ON_CLOSE,
    "amqp:delete-on-no-links:list": DELETE_ON_NO_LINKS,
    "amqp:delete-on-no-messages:list": DELETE_ON_NO_MESSAGES,
    "amqp:delete-on-no-links-or-messages:list": DELETE_ON_NO_LINKS_OR_MESSAGES,
}
LIFETIME_POLICY: Final = "lifetime-policy"

TOPIC_ADDRESS: Final = "temp-topic://"  # so that an address alone says what it is
NODES_PER_CONNECTION_MAX: Final = 1_000

Link = IncomingLink | OutgoingLink


@final
class TemporaryNode:
    """One of them."""

    def __init__(self, node: Node, owner: "AmqpConnection", maker: Link, policy: int, gate: QueueGate | None) -> None:
        self.node = node
        self.owner = owner
        self.maker = maker  # the link that asked for it
        self.policy = policy
        self.has_maker = True
        self.links: dict[Link, tuple[AmqpConnection, Session]] = {}  # to it, of any connection
        self._gate = gate  # of the queue; None: a topic, which holds nothing

    @property
    def address(self) -> str:
        """Where it is found by everybody."""
        return self.node.name if self.node.kind == QUEUE else TOPIC_ADDRESS + self.node.name

    def is_over(self) -> bool:
        """Return whether its policy says that it goes now."""
        if self.policy == DELETE_ON_CLOSE:
            return not self.has_maker
        if self.policy == DELETE_ON_NO_LINKS:
            return not self.links
        is_empty = self._gate is None or self._gate.usage_count == 0
        if self.policy == DELETE_ON_NO_MESSAGES:
            return not self.has_maker and is_empty
        return not self.links and is_empty


@final
class TemporaryNodes:
    """All temporary nodes of a gateway."""

    def __init__(self) -> None:
        self._by_name: dict[str, TemporaryNode] = {}
        self._by_owner: dict[AmqpConnection, list[TemporaryNode]] = {}
        self._by_link: dict[Link, TemporaryNode] = {}

    async def make(
        self, connection: "AmqpConnection", session: "Session", link: Link, capabilities: list[str], policy: int
    ) -> TemporaryNode:
        """Make a node for a link. Raises AddressRefused."""
        if len(self._by_owner.get(connection, [])) >= NODES_PER_CONNECTION_MAX:
            text = f"a connection may have {NODES_PER_CONNECTION_MAX} temporary nodes"
            raise AddressRefused(conditions.RESOURCE_LIMIT_EXCEEDED, text)
        gate: QueueGate | None = None
        if any(name in TOPIC_CAPABILITIES for name in capabilities):
            node = Node(TOPIC, f"{TEMPORARY_TOPICS}{connection.runtime.rng.getrandbits(128):032x}")
        else:
            queue = await _declared_queue(connection)
            node, gate = Node(QUEUE, queue.name), queue.target.gate
        made = TemporaryNode(node, connection, link, policy, gate)
        self._by_name[node.name] = made
        self._by_owner.setdefault(connection, []).append(made)
        self.attached(connection, session, link, node)
        if connection.is_released:  # the client went meanwhile
            self.end_of(connection)
        return made

    def check_consumer(self, connection: "AmqpConnection", node: Node) -> None:
        """Raise AddressRefused unless the connection may receive from a node."""
        found = self._by_name.get(node.name)
        if found is not None and found.owner is not connection:
            raise AddressRefused(conditions.RESOURCE_LOCKED, f"{found.node!r} belongs to another connection")

    def is_topic_of(self, connection: "AmqpConnection", topic: str) -> bool:
        """Return whether a topic was made for the connection, which receives from it whatever its ACL profile says."""
        found = self._by_name.get(topic)
        return found is not None and found.owner is connection and found.node.kind == TOPIC

    def attached(self, connection: "AmqpConnection", session: "Session", link: Link, node: Node) -> None:
        """Note a link to a node, which may be a temporary one."""
        found = self._by_name.get(node.name)
        if found is not None:
            found.links[link] = (connection, session)
            self._by_link[link] = found

    def detached(self, link: Link, *, closed: bool) -> None:
        """Note that a link is gone; one that is not closed might come back, so what it has made stays."""
        node = self._by_link.pop(link, None)
        if node is not None:
            node.links.pop(link, None)
            if link is node.maker and closed:
                node.has_maker = False
            self._end_if_over(node)

    def look_after(self, connection: "AmqpConnection") -> None:
        """End those of a connection's nodes that have become empty, where that is their end."""
        for node in list(self._by_owner.get(connection, [])):
            self._end_if_over(node)

    def end_of(self, connection: "AmqpConnection") -> None:
        """End all nodes of a connection that is gone."""
        for node in list(self._by_owner.get(connection, [])):
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
        if node.node.kind == QUEUE:
            owner.services.queues.inbox.post(DeleteQueue(name))
        error = AmqpError(conditions.RESOURCE_DELETED, f"the temporary {node.node!r} is gone")
        links, node.links = node.links, {}
        for link, (connection, session) in links.items():
            connection.end_link(session, link, error)


async def _declared_queue(connection: "AmqpConnection") -> QueueHandle:
    """Make a temporary queue that lives as long as we say, with or without a consumer."""
    asked: dict[str, object] = {"expires_unbound_s": SECONDS_MAX}
    request = DeclareQueue(asked, durable=False, rights=connection.identity.rights)
    try:
        queue: QueueHandle = await connection.services.queues.ask(request)
    except ClientDenied as denied:
        raise AddressRefused(conditions.condition_of(denied), denied.text) from None
    except QueuesExhausted as error:
        raise AddressRefused(conditions.RESOURCE_LIMIT_EXCEEDED, str(error)) from None
    return queue


def read_policy(properties: AmqpMap | None) -> int:
    """Return the lifetime policy that a terminus asks for (3.5.9). Raises AddressRefused."""
    value = None if properties is None else properties.symbol(LIFETIME_POLICY)
    if value is None:
        return DELETE_ON_CLOSE
    descriptor: AmqpValue = value.descriptor if isinstance(value, Described) else None
    if isinstance(descriptor, Symbol) and descriptor.text in _POLICIES:
        return _POLICIES[descriptor.text]
    if isinstance(descriptor, Scalar) and descriptor.value in _POLICIES.values():
        assert isinstance(descriptor.value, int), "policies are numbers"
        return descriptor.value
    raise AddressRefused(conditions.INVALID_FIELD, f"{value!r:.80} is no lifetime policy")


def policy_properties(policy: int) -> AmqpMap:
    """Return the properties of a dynamic node that say which policy is in force."""
    return AmqpMap([(Symbol(LIFETIME_POLICY), Described(Scalar(0x80, policy), []))])
