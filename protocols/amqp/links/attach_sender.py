"""What a client's attach to send leads to: a queue, a topic, or what each message says. The other way: `binding`."""

from typing import TYPE_CHECKING, Final

from sluicegate.actors.messages.directory import FindQueue, QueueHandle
from sluicegate.messaging.clients.rights import ClientDenied
from sluicegate.messaging.observability.events import CLIENT_FLOW_OPENED
from sluicegate.messaging.topics.syntax import Destination, queue_topic
from sluicegate.protocols.amqp.codec.addresses import QUEUE, AddressRefused, Node, check_topic, is_durable_form, resolve
from sluicegate.protocols.amqp.codec.delivery_states import AmqpError, DeliveryState, rejected
from sluicegate.protocols.amqp.codec.termini import Coordinator, Target
from sluicegate.protocols.amqp.datapath.publishing import PublishingLink
from sluicegate.protocols.amqp.datapath.sender_recovery import unsettled_map
from sluicegate.protocols.amqp.engine.link import PENDING, IncomingLink
from sluicegate.protocols.amqp.engine.session import Session
from sluicegate.protocols.amqp.links.dynamic_nodes import policy_properties, read_policy
from sluicegate.protocols.amqp.types import errors as conditions

if TYPE_CHECKING:
    from sluicegate.protocols.amqp.connection import AmqpConnection

# 4.5.1: transactions of this connection; several at once in a session; one on several sessions.
TRANSACTION_CAPABILITIES: Final = ("amqp:local-transactions", "amqp:multi-txns-per-ssn", "amqp:multi-ssns-per-txn")

ATTACH_BYTES_MAX: Final = 4_096  # of an attach without its unsettled map: names, addresses, capabilities


async def attach_publisher(connection: "AmqpConnection", session: Session, link: IncomingLink) -> None:
    """Answer the attach of a link on which the client sends."""
    target = link.attach.target
    try:
        if isinstance(target, Coordinator):
            _attach_coordinator(connection, session, link, target)
            return
        if target is None:
            raise AddressRefused(conditions.INVALID_FIELD, "an attach to send without a target")
        publishing = connection.sides.publishing
        connection.identity.rights.check_publisher_flow(len(publishing.links) + publishing.attaching_count)
        publishing.attaching_count += 1
        try:
            if target.dynamic:
                await _attach_to_a_new_node(connection, session, link, target)
            else:
                await _attach_sender(connection, session, link, target)
        finally:
            publishing.attaching_count -= 1
    except ClientDenied as denied:
        error = AmqpError(conditions.condition_of(denied), denied.text)
        connection.engine.sessions.refuse(session, link, error)
    except AddressRefused as refusal:
        connection.engine.sessions.refuse(session, link, AmqpError(refusal.condition, refusal.text))


async def _attach_sender(connection: "AmqpConnection", session: Session, link: IncomingLink, target: Target) -> None:
    """Attach a link to a node that there is, or to none. Raises AddressRefused, ClientDenied."""
    if target.address is not None and is_durable_form(target.address):
        raise AddressRefused(conditions.NOT_ALLOWED, f"{target.address!r:.80} is a subscription, to receive from only")
    node = None if target.address is None else resolve(target.address, target.capabilities)
    destination = None
    if node is not None:
        destination = destination_of(node)
        connection.identity.rights.check_publish(destination.topic)  # before it can hear whether there is such a queue
        if destination.is_queue:
            await find_queue(connection, node.name)
    if link.state != PENDING or connection.is_released:
        return  # the client went meanwhile
    granted = Target(target.address, capabilities=target.capabilities)
    publishing = PublishingLink(session, link, destination)
    containers = connection.services.registry.containers
    containers.attach(connection, session, link)  # nothing comes over an earlier connection from now on
    await _remember(connection, publishing, target, granted)
    is_gone = link.state != PENDING or connection.is_released
    if is_gone or not containers.has(link):
        connection.sides.publishing.never_attached(publishing, connection.runtime.clock.now_ms())
        if not is_gone:
            raise AddressRefused(conditions.STOLEN, "the link was attached again")
        return
    connection.attach(session, link, source=link.attach.source, target=granted, can_be_stolen=False)
    connection.sides.publishing.attached(publishing)
    connection.tell_flow(CLIENT_FLOW_OPENED, link)
    if node is not None:
        connection.services.registry.temporary_nodes.attached(connection, session, link, node)


async def _attach_to_a_new_node(
    connection: "AmqpConnection", session: Session, link: IncomingLink, target: Target
) -> None:
    """Make the temporary node that the target asks for, as JMS does for temporary destinations."""
    if target.address is not None:
        raise AddressRefused(conditions.INVALID_FIELD, f"a dynamic target with the address {target.address!r:.80}")
    policy = read_policy(target.dynamic_properties)
    nodes = connection.services.registry.temporary_nodes
    made = await nodes.make(connection, session, link, target.capabilities, policy)
    if link.state != PENDING or connection.is_released:
        nodes.detached(link, closed=True)  # the client went meanwhile
        return
    granted = Target(
        made.address, dynamic=True, dynamic_properties=policy_properties(policy), capabilities=target.capabilities
    )
    connection.attach(session, link, source=link.attach.source, target=granted)
    connection.sides.publishing.attached(PublishingLink(session, link, destination_of(made.node)))
    connection.tell_flow(CLIENT_FLOW_OPENED, link)


async def _remember(connection: "AmqpConnection", publishing: PublishingLink, target: Target, granted: Target) -> None:
    """Find out what is known of the link's deliveries, and what of the target's time is granted (2.6.13, 3.5.6)."""
    link = publishing.link
    name = (connection.client, connection.identity.user, link.name)
    credit = connection.services.limits.link_credit
    now_ms = connection.runtime.clock.now_ms()
    remembered, is_known = connection.services.remembered.attach(name, target, credit=credit, now_ms=now_ms)
    if remembered is None:
        return
    publishing.remembered = remembered
    remembered.publisher.rights = connection.identity.rights
    publishing.attached_count = remembered.attached_count
    link.keeps_tags = link.can_resume = True
    granted.expiry_policy = remembered.expiry_policy
    granted.timeout_s = remembered.timeout_s
    if not is_known:
        return
    await remembered.settled()
    known = remembered.resume(link.attach.unsettled, is_incomplete=link.attach.incomplete_unsettled)
    room = connection.engine.sessions.frame_bytes_max - ATTACH_BYTES_MAX
    link.unsettled, link.incomplete_unsettled = unsettled_map(known, room)


def _attach_coordinator(
    connection: "AmqpConnection", session: Session, link: IncomingLink, target: Coordinator
) -> None:
    """Answer the attach of a link on which the client declares transactions (4.3). Raises AddressRefused."""
    if target.capabilities and not any(each in TRANSACTION_CAPABILITIES for each in target.capabilities):
        text = f"transactions with {', '.join(target.capabilities)} only; here is {', '.join(TRANSACTION_CAPABILITIES)}"
        raise AddressRefused(conditions.NOT_IMPLEMENTED, text)
    connection.identity.rights.check_transaction()
    granted = Coordinator(list(TRANSACTION_CAPABILITIES))
    connection.attach(session, link, source=link.attach.source, target=granted)
    connection.sides.transacting(connection).attached(session, link)


def destination_of_message(to: str) -> Destination | DeliveryState:
    """Return where an anonymous sender's message goes, or the outcome that it has instead."""
    try:
        return destination_of(resolve(to, []))
    except AddressRefused as refusal:
        return rejected(refusal.condition, refusal.text)


def destination_of(node: Node) -> Destination:
    """Return what a node is to a publisher. Raises AddressRefused."""
    if node.kind == QUEUE:
        return Destination(queue_topic(node.name), is_queue=True)
    check_topic(node.name)
    return Destination(node.name, is_queue=False)


async def find_queue(connection: "AmqpConnection", name: str, *, consumes: bool = False) -> QueueHandle:
    """Return the queue of a name, for a consumer also one that is made for it. Raises AddressRefused for none."""
    wanted = FindQueue(name, connection.identity.rights, consumes)
    handle: QueueHandle | None = await connection.services.queues.ask(wanted)
    if handle is None:
        raise AddressRefused(conditions.NOT_FOUND, f"there is no queue {name!r}")
    return handle
