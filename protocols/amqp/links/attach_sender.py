"""Attaching a link on which the client sends: to a queue, to a topic, or to the address of each message.

See also: links on which the client receives (`attach_receiver`).
"""

from typing import Final

from sluicegate.actors.messages.directory import FindQueue, QueueHandle
from sluicegate.messaging.clients.rights import ClientDenied
from sluicegate.messaging.observability.events import CLIENT_FLOW_OPENED
from sluicegate.protocols.amqp.client import AmqpClient
from sluicegate.protocols.amqp.codec.addresses import AddressRefused, destination_of, is_durable_form, resolve
from sluicegate.protocols.amqp.codec.delivery_states import AmqpError
from sluicegate.protocols.amqp.codec.termini import Coordinator, Target
from sluicegate.protocols.amqp.datapath.publishing import PublisherLink
from sluicegate.protocols.amqp.datapath.sender_recovery import unsettled_map
from sluicegate.protocols.amqp.engine.link import PENDING, IncomingLink
from sluicegate.protocols.amqp.engine.session import Session
from sluicegate.protocols.amqp.links.coordinator import coordinators_of
from sluicegate.protocols.amqp.links.dynamic_nodes import make_node, policy_properties, read_policy
from sluicegate.protocols.amqp.types import errors as conditions

# 4.5.1: transactions of this connection; several at once in a session; one on several sessions.
TRANSACTION_CAPABILITIES: Final = ("amqp:local-transactions", "amqp:multi-txns-per-ssn", "amqp:multi-ssns-per-txn")

ATTACH_BYTES_MAX: Final = 4_096  # of an attach without its unsettled map: names, addresses, capabilities


async def attach_publisher(client: AmqpClient, session: Session, link: IncomingLink) -> None:
    """Answer the attach of a link on which the client sends."""
    target = link.attach.target
    try:
        if isinstance(target, Coordinator):
            _attach_coordinator(client, session, link, target)
            return
        if target is None:
            raise AddressRefused(conditions.INVALID_FIELD, "an attach to send without a target")
        publishers = client.endpoints.publishers
        client.identity.rights.check_publisher_flow(len(publishers.links) + publishers.attaching_count)
        publishers.attaching_count += 1
        try:
            if target.dynamic:
                await _attach_to_a_new_node(client, session, link, target)
            else:
                await _attach_sender(client, session, link, target)
        finally:
            publishers.attaching_count -= 1
    except ClientDenied as denied:
        error = AmqpError(conditions.condition_of(denied), denied.text)
        client.engine.sessions.refuse(session, link, error)
    except AddressRefused as refusal:
        client.engine.sessions.refuse(session, link, AmqpError(refusal.condition, refusal.text))


async def _attach_sender(client: AmqpClient, session: Session, link: IncomingLink, target: Target) -> None:
    """Attach a link to a node that there is, or to none. Raises AddressRefused, ClientDenied."""
    if target.address is not None and is_durable_form(target.address):
        raise AddressRefused(conditions.NOT_ALLOWED, f"{target.address!r:.80} is a subscription, to receive from only")
    node = None if target.address is None else resolve(target.address, target.capabilities)
    destination = None
    if node is not None:
        destination = destination_of(node)
        client.identity.rights.check_publish(
            destination.topic
        )  # before the client can learn whether there is such a queue
        if destination.is_queue and not client.services.space.is_elsewhere(node.name):
            await find_queue(client, node.name)
    if link.state != PENDING or client.is_released:
        return  # the client went meanwhile
    granted = Target(target.address, capabilities=target.capabilities)
    sender = PublisherLink(session, link, destination)
    containers = client.services.registry.containers
    containers.attach(client, session, link)  # nothing comes over an earlier connection from now on
    await _recover(client, sender, target, granted)
    is_gone = link.state != PENDING or client.is_released
    if is_gone or not containers.has(link):
        client.endpoints.publishers.never_attached(sender, client.runtime.clock.now_ms())
        if not is_gone:
            raise AddressRefused(conditions.STOLEN, "the link was attached again")
        return
    client.attach(session, link, source=link.attach.source, target=granted, can_be_stolen=False)
    client.endpoints.publishers.attached(sender)
    client.report_flow(CLIENT_FLOW_OPENED, link)
    if node is not None:
        client.services.registry.temporary_nodes.attached(client, session, link, node)


async def _attach_to_a_new_node(client: AmqpClient, session: Session, link: IncomingLink, target: Target) -> None:
    """Make the temporary node that the target asks for, as JMS does for temporary destinations."""
    if target.address is not None:
        raise AddressRefused(conditions.INVALID_FIELD, f"a dynamic target with the address {target.address!r:.80}")
    policy = read_policy(target.dynamic_properties)
    nodes = client.services.registry.temporary_nodes
    made = await make_node(client, session, link, target.capabilities, policy)
    if link.state != PENDING or client.is_released:
        nodes.detached(link, closed=True)  # the client went meanwhile
        return
    granted = Target(
        made.address, dynamic=True, dynamic_properties=policy_properties(policy), capabilities=target.capabilities
    )
    client.attach(session, link, source=link.attach.source, target=granted)
    client.endpoints.publishers.attached(PublisherLink(session, link, destination_of(made.node)))
    client.report_flow(CLIENT_FLOW_OPENED, link)


async def _recover(client: AmqpClient, sender: PublisherLink, target: Target, granted: Target) -> None:
    """Find out what is known of the link's deliveries, and what of the target's time is granted (2.6.13, 3.5.6)."""
    link = sender.link
    name = (client.container_id, client.identity.user, link.name)
    credit = client.services.limits.link_credit
    now_ms = client.runtime.clock.now_ms()
    suspended, is_known = client.services.suspended_senders.attach(name, target, credit=credit, now_ms=now_ms)
    if suspended is None:
        return
    sender.suspended = suspended
    suspended.publisher.rights = client.identity.rights
    sender.attached_count = suspended.attached_count
    link.keeps_tags = link.can_resume = True
    granted.expiry_policy = suspended.expiry_policy
    granted.timeout_s = suspended.timeout_s
    if not is_known:
        return
    await suspended.settled()
    known = suspended.resume(link.attach.unsettled, is_incomplete=link.attach.incomplete_unsettled)
    room = client.engine.sessions.frame_bytes_max - ATTACH_BYTES_MAX
    link.unsettled, link.incomplete_unsettled = unsettled_map(known, room)


def _attach_coordinator(client: AmqpClient, session: Session, link: IncomingLink, target: Coordinator) -> None:
    """Answer the attach of a link on which the client declares transactions (4.3). Raises AddressRefused."""
    if target.capabilities and not any(each in TRANSACTION_CAPABILITIES for each in target.capabilities):
        text = f"transactions with {', '.join(target.capabilities)} only; here is {', '.join(TRANSACTION_CAPABILITIES)}"
        raise AddressRefused(conditions.NOT_IMPLEMENTED, text)
    client.identity.rights.check_transaction()
    granted = Coordinator(list(TRANSACTION_CAPABILITIES))
    client.attach(session, link, source=link.attach.source, target=granted)
    coordinators_of(client).attached(session, link)


async def find_queue(client: AmqpClient, name: str, *, consumes: bool = False, anywhere: bool = False) -> QueueHandle:
    """Return the queue of a name, for a consumer also one that is made for it. Raises AddressRefused for none."""
    wanted = FindQueue(name, client.identity.rights, consumes, anywhere=anywhere)
    handle: QueueHandle | None = await client.services.queues.ask(wanted)
    if handle is None:
        raise AddressRefused(conditions.NOT_FOUND, f"there is no queue {name!r}")
    return handle
