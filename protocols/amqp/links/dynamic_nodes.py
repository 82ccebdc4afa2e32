"""Making the node that a client asks for with `dynamic` (3.5.3, 3.5.4), and its lifetime policy on the wire (3.5.9)."""

from typing import Final

from sluicegate.actors.messages.directory import DeclareQueue, LocalQueue, QueuesExhausted
from sluicegate.messaging.clients.rights import ClientDenied
from sluicegate.messaging.queues.attributes import SECONDS_MAX
from sluicegate.messaging.topics.syntax import TEMPORARY_TOPICS, made_up_name
from sluicegate.protocols.amqp.client import AmqpClient
from sluicegate.protocols.amqp.codec.addresses import QUEUE, TOPIC, TOPIC_CAPABILITIES, AddressedNode, AddressRefused
from sluicegate.protocols.amqp.engine.session import Session
from sluicegate.protocols.amqp.registry import (
    DELETE_ON_CLOSE,
    DELETE_ON_NO_LINKS,
    DELETE_ON_NO_LINKS_OR_MESSAGES,
    DELETE_ON_NO_MESSAGES,
    Link,
    TemporaryNode,
    TemporaryQueue,
)
from sluicegate.protocols.amqp.types import errors as conditions
from sluicegate.protocols.amqp.types.values import AmqpMap, AmqpValue, Described, Scalar, Symbol

_POLICIES: Final[dict[str, int]] = {
    "amqp:delete-on-close:list": DELETE_ON_CLOSE,
    "amqp:delete-on-no-links:list": DELETE_ON_NO_LINKS,
    "amqp:delete-on-no-messages:list": DELETE_ON_NO_MESSAGES,
    "amqp:delete-on-no-links-or-messages:list": DELETE_ON_NO_LINKS_OR_MESSAGES,
}
LIFETIME_POLICY: Final = "lifetime-policy"

NODES_PER_CONNECTION_MAX: Final = 1_000


async def make_node(
    client: AmqpClient, session: Session, link: Link, capabilities: list[str], policy: int
) -> TemporaryNode:
    """Make a node for a link. Raises AddressRefused."""
    nodes = client.services.registry.temporary_nodes
    if nodes.count_of(client) >= NODES_PER_CONNECTION_MAX:
        text = f"a connection may have {NODES_PER_CONNECTION_MAX} temporary nodes"
        raise AddressRefused(conditions.RESOURCE_LIMIT_EXCEEDED, text)
    queue: TemporaryQueue | None = None
    if any(name in TOPIC_CAPABILITIES for name in capabilities):
        number = client.runtime.rng.getrandbits(128)
        node = AddressedNode(TOPIC, made_up_name(TEMPORARY_TOPICS, client.services.space.broker, number))
    else:
        handle = await _declared_queue(client)
        node = AddressedNode(QUEUE, handle.name)
        queue = TemporaryQueue(handle.target.gate, client.services.queues.inbox)
    made = TemporaryNode(node, client, link, policy, queue)
    nodes.add(made, session)
    return made


async def _declared_queue(client: AmqpClient) -> LocalQueue:
    """Make a temporary queue that lives as long as we say, with or without a consumer."""
    asked: dict[str, object] = {"expires_unbound_s": SECONDS_MAX}
    request = DeclareQueue(asked, durable=False, rights=client.identity.rights)
    try:
        queue: LocalQueue = await client.services.queues.ask(request)
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
    raise AddressRefused(conditions.INVALID_FIELD, f"{value!r:.80} is not a lifetime policy")


def policy_properties(policy: int) -> AmqpMap:
    """Return the properties of a dynamic node that say which policy is in force."""
    return AmqpMap([(Symbol(LIFETIME_POLICY), Described(Scalar(0x80, policy), []))])
