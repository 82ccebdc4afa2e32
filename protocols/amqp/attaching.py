"""What a client's attach leads to: a queue or topic to send to, or a flow of a queue to receive from."""

from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from actors.directory_messages import CreateQueue, DeleteQueue, FindQueue, QueueHandle
from actors.messages import (
    ENDPOINT_DISABLED,
    MAX_BIND_COUNT_EXCEEDED,
    PERMISSION_DENIED,
    BindFlow,
    BindRefused,
    UnbindFlow,
)
from messaging.address import Address
from messaging.credit import CreditWindow
from messaging.queue_config import QueueInvalid
from messaging.topics import TopicError, queue_topic
from protocols.amqp import conditions
from protocols.amqp.addresses import QUEUE, TOPIC, AddressRefused, Node, check_topic, resolve
from protocols.amqp.consuming import ConsumingLink
from protocols.amqp.link import PENDING, IncomingLink, OutgoingLink
from protocols.amqp.outcomes import AmqpError, DeliveryState, rejected
from protocols.amqp.publishing import Destination, PublishingLink
from protocols.amqp.session import Session
from protocols.amqp.termini import (
    COPY,
    DURABLE_CONFIGURATION,
    DURABLE_NONE,
    MOVE,
    NEVER,
    SESSION_END,
    Coordinator,
    Source,
    Target,
)

if TYPE_CHECKING:
    from protocols.amqp.connection import AmqpConnection

PROTOCOL: Final = "amqp"
SUBSCRIPTION_KIND: Final = "amqp-subscription"
ANONYMOUS_RELAY: Final = "ANONYMOUS-RELAY"
SUBSCRIPTION_PREFIX: Final = "#amqp/"

# 4.5.1: transactions of this connection; several at once in a session; one on several sessions.
TRANSACTION_CAPABILITIES: Final = ("amqp:local-transactions", "amqp:multi-txns-per-ssn", "amqp:multi-ssns-per-txn")

_BIND_CONDITIONS: Final[dict[str, str]] = {
    PERMISSION_DENIED: conditions.UNAUTHORIZED_ACCESS,
    ENDPOINT_DISABLED: conditions.NOT_ALLOWED,
    MAX_BIND_COUNT_EXCEEDED: conditions.RESOURCE_LIMIT_EXCEEDED,
}


async def attach_publisher(connection: "AmqpConnection", session: Session, link: IncomingLink) -> None:
    """Answer the attach of a link on which the client sends."""
    target = link.attach.target
    sessions = connection.engine.sessions
    try:
        if isinstance(target, Coordinator):
            _attach_coordinator(connection, session, link, target)
            return
        if target is None:
            raise AddressRefused(conditions.INVALID_FIELD, "an attach to send without a target")
        if target.dynamic:
            raise AddressRefused(conditions.NOT_IMPLEMENTED, "dynamic targets are not made here")
        destination = None
        if target.address is not None:
            destination = await find_destination(connection, resolve(target.address, target.capabilities))
    except AddressRefused as refusal:
        sessions.refuse(session, link, AmqpError(refusal.condition, refusal.text))
        return
    if link.state != PENDING:
        return  # the client detached meanwhile
    granted = Target(target.address, capabilities=target.capabilities)
    offered = [ANONYMOUS_RELAY] if destination is None else []
    sessions.attach(session, link, source=link.attach.source, target=granted, offered=offered)
    connection.publishing.attached(PublishingLink(session, link, destination))


def _attach_coordinator(
    connection: "AmqpConnection", session: Session, link: IncomingLink, target: Coordinator
) -> None:
    """Answer the attach of a link on which the client declares transactions (4.3). Raises AddressRefused."""
    if target.capabilities and not any(each in TRANSACTION_CAPABILITIES for each in target.capabilities):
        text = f"transactions with {', '.join(target.capabilities)} only; here is {', '.join(TRANSACTION_CAPABILITIES)}"
        raise AddressRefused(conditions.NOT_IMPLEMENTED, text)
    granted = Coordinator(list(TRANSACTION_CAPABILITIES))
    connection.engine.sessions.attach(session, link, source=link.attach.source, target=granted, offered=[])
    connection.transacting.attached(session, link)


async def find_destination(connection: "AmqpConnection", node: Node) -> Destination:
    """Return where a node's messages go. Raises AddressRefused."""
    if node.kind == QUEUE:
        await _find_queue(connection, node.name)
    return _destination(node)


async def attach_consumer(connection: "AmqpConnection", session: Session, link: OutgoingLink) -> None:
    """Answer the attach of a link on which the client receives."""
    source = link.attach.source
    sessions = connection.engine.sessions
    try:
        if source is None or (source.address is None and not source.dynamic):
            raise AddressRefused(conditions.INVALID_FIELD, "an attach to receive without an address")
        if source.dynamic:
            raise AddressRefused(conditions.NOT_IMPLEMENTED, "dynamic sources are not made here")
        if source.distribution_mode == COPY and not _is_topic(source):
            raise AddressRefused(conditions.NOT_IMPLEMENTED, "queues cannot be browsed over AMQP")
        consuming, granted = await _consuming_link(connection, session, link, source)
    except AddressRefused as refusal:
        sessions.refuse(session, link, AmqpError(refusal.condition, refusal.text))
        return
    if link.state != PENDING:
        end_consumer(connection, consuming, closed=True)  # the client detached meanwhile
        return
    sessions.attach(session, link, source=granted, target=link.attach.target, offered=[])
    await _bind(connection, consuming)


async def _consuming_link(
    connection: "AmqpConnection", session: Session, link: OutgoingLink, source: Source
) -> tuple[ConsumingLink, Source]:
    """Return the link and its source as it is in force. Raises AddressRefused."""
    assert source.address is not None, "the caller has seen to that"
    node = resolve(source.address, source.capabilities)
    flow_id = connection.runtime.next_urn()
    window: CreditWindow[Address] = CreditWindow(0, connection.services.credit)
    if node.kind == QUEUE:
        handle = await _find_queue(connection, node.name)
        consuming = ConsumingLink(session, link, flow_id, handle.cell, node.name, window)
        return consuming, Source(source.address, distribution_mode=MOVE, capabilities=source.capabilities)
    durable = source.durable > DURABLE_NONE and source.expiry_policy == NEVER
    handle = await _subscription_queue(connection, link, node.name, durable=durable)
    consuming = ConsumingLink(session, link, flow_id, handle.cell, handle.name, window)
    consuming.deletes_queue = True
    consuming.keeps_queue_on_detach = durable
    return consuming, Source(
        source.address,
        durable=DURABLE_CONFIGURATION if durable else DURABLE_NONE,
        expiry_policy=NEVER if durable else SESSION_END,
        distribution_mode=COPY,
        capabilities=source.capabilities,
    )


async def _subscription_queue(
    connection: "AmqpConnection", link: OutgoingLink, topic: str, *, durable: bool
) -> QueueHandle:
    """Return the queue behind a subscription; a durable one is known by container id and link name (3.5.3)."""
    if durable:
        name = f"{SUBSCRIPTION_PREFIX}{quote(connection.client, safe='')}/{quote(link.name, safe='')}"
    else:
        name = f"{SUBSCRIPTION_PREFIX}{connection.runtime.next_urn()}"
    try:
        definition = connection.services.subscription_queue(name, topic, durable)
        handle: QueueHandle = await connection.services.queues.ask(
            CreateQueue(definition, SUBSCRIPTION_KIND, durable, must_be_new=False)
        )
    except (TopicError, QueueInvalid) as error:
        raise AddressRefused(conditions.INVALID_FIELD, f"topic {topic!r}: {error}") from None
    if handle.definition.subscriptions != definition.subscriptions:  # another topic now: JMS wants it made anew
        await connection.services.queues.ask(DeleteQueue(name))
        return await _subscription_queue(connection, link, topic, durable=durable)
    return handle


async def _bind(connection: "AmqpConnection", consuming: ConsumingLink) -> None:
    consuming_side = connection.consuming
    consuming_side.add(consuming)
    consuming_side.credit(consuming)
    request = BindFlow(
        consuming.flow_id, connection.client, connection.user, connection.cell.inbox, consuming.window, PROTOCOL
    )
    try:
        await consuming.queue.ask(request)
    except BindRefused as refusal:
        consuming_side.remove(consuming)
        condition = _BIND_CONDITIONS.get(refusal.code, conditions.NOT_ALLOWED)
        connection.detach(consuming.session, consuming.link, AmqpError(condition, str(refusal)))


def end_consumer(connection: "AmqpConnection", consuming: ConsumingLink, *, closed: bool) -> None:
    """Let go of a receiving link; its queue goes with it when it was the link's own."""
    connection.consuming.remove(consuming)
    consuming.queue.inbox.post(UnbindFlow(consuming.flow_id))
    if consuming.deletes_queue and (closed or not consuming.keeps_queue_on_detach):
        connection.services.queues.inbox.post(DeleteQueue(consuming.queue_name))


def destination_of_message(to: str) -> Destination | DeliveryState:
    """Return where an anonymous sender's message goes, or the outcome that it has instead."""
    try:
        return _destination(resolve(to, []))
    except AddressRefused as refusal:
        return rejected(refusal.condition, refusal.text)


def _destination(node: Node) -> Destination:
    """Return what a node is to a publisher. Raises AddressRefused."""
    if node.kind == QUEUE:
        return Destination(queue_topic(node.name), is_queue=True)
    check_topic(node.name)
    return Destination(node.name, is_queue=False)


async def _find_queue(connection: "AmqpConnection", name: str) -> QueueHandle:
    handle: QueueHandle | None = await connection.services.queues.ask(FindQueue(name))
    if handle is None:
        raise AddressRefused(conditions.NOT_FOUND, f"there is no queue {name!r}")
    return handle


def _is_topic(source: Source) -> bool:
    assert source.address is not None, "the caller has seen to that"
    return resolve(source.address, source.capabilities).kind == TOPIC
