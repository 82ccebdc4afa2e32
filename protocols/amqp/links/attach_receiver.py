"""Attaching a link on which the client receives: from a flow of a queue, from a browser, or from a subscription.

See also: links on which the client sends (`attach_sender`).
"""

from typing import Final

from sluicegate.actors.messages.directory import QueueHandle
from sluicegate.actors.messages.queues import (
    ENDPOINT_DISABLED,
    MAX_BIND_COUNT_EXCEEDED,
    NO_SUCH_PARTITION,
    NOT_OWNER,
    OWNER_CONNECTED,
    PERMISSION_DENIED,
    BindBrowser,
    BindFlow,
    BindRefused,
    BrowserBound,
    UnbindFlow,
)
from sluicegate.actors.runtime.asks import LoopFuture
from sluicegate.messaging.clients.rights import ClientDenied
from sluicegate.messaging.message.address import Address
from sluicegate.messaging.queues.credit import CreditWindow
from sluicegate.messaging.routing.destinations import Subscriber
from sluicegate.messaging.topics.syntax import SharedFilter, queue_topic
from sluicegate.protocols.amqp.client import AmqpClient
from sluicegate.protocols.amqp.codec.addresses import (
    QUEUE,
    QUEUE_CAPABILITIES,
    TOPIC_CAPABILITIES,
    AddressedNode,
    AddressRefused,
    resolve,
)
from sluicegate.protocols.amqp.codec.delivery_states import AmqpError
from sluicegate.protocols.amqp.codec.termini import (
    COPY,
    DURABLE_CONFIGURATION,
    DURABLE_NONE,
    LINK_DETACH,
    MOVE,
    NEVER,
    Source,
)
from sluicegate.protocols.amqp.datapath.browsing import BrowserLink
from sluicegate.protocols.amqp.datapath.consuming import ConsumerLink
from sluicegate.protocols.amqp.datapath.receiver_recovery import ResumableFlow, away_s_granted
from sluicegate.protocols.amqp.engine.link import PENDING, OutgoingLink
from sluicegate.protocols.amqp.engine.session import Session
from sluicegate.protocols.amqp.links.attach_sender import ATTACH_BYTES_MAX, find_queue
from sluicegate.protocols.amqp.links.dynamic_nodes import make_node, policy_properties, read_policy
from sluicegate.protocols.amqp.links.filters import (
    BROWSER_FILTERS,
    CONSUMER_FILTERS,
    SUBSCRIPTION_FILTERS,
    read_filters,
)
from sluicegate.protocols.amqp.links.shared_groups import join_group, shared_filter
from sluicegate.protocols.amqp.links.subscriptions import (
    GLOBAL,
    SHARED,
    ContainerMoves,
    check_is_home,
    check_rights,
    end_found_subscription,
    find_existing,
    find_subscription,
    leave_subscription,
    subscription_queue,
    wanted_queue,
)
from sluicegate.protocols.amqp.types import errors as conditions

PROTOCOL: Final = "amqp"
NODE_CAPABILITIES: Final = (*QUEUE_CAPABILITIES, *TOPIC_CAPABILITIES)  # that a source may have whatever it is

_BIND_CONDITIONS: Final[dict[str, str]] = {
    PERMISSION_DENIED: conditions.UNAUTHORIZED_ACCESS,
    NOT_OWNER: conditions.RESOURCE_LOCKED,
    OWNER_CONNECTED: conditions.RESOURCE_LOCKED,
    ENDPOINT_DISABLED: conditions.NOT_ALLOWED,
    MAX_BIND_COUNT_EXCEEDED: conditions.RESOURCE_LIMIT_EXCEEDED,
    NO_SUCH_PARTITION: conditions.NOT_FOUND,
}


async def attach_consumer(client: AmqpClient, session: Session, link: OutgoingLink) -> None:
    """Answer the attach of a link on which the client receives."""
    source = link.attach.source
    nodes = client.services.registry.temporary_nodes
    try:
        if source is None:
            await _show_subscription(client, session, link)
            return
        if source.address is None and not source.dynamic:
            raise AddressRefused(conditions.INVALID_FIELD, "an attach to receive without an address")
        if source.address is None:
            node = await _new_node(client, session, link, source)
        elif source.dynamic:
            raise AddressRefused(conditions.INVALID_FIELD, f"a dynamic source with the address {source.address!r:.80}")
        else:
            node = resolve(source.address, source.capabilities)
            nodes.check_consumer(client, node)
            _check_maker(client, node)
        nodes.attached(client, session, link, node)
        shared = shared_filter(node)
        if shared is not None:
            await _join(client, session, link, source, shared)
        elif node.kind != QUEUE:
            await _subscribe(client, session, link, source, node.name)
        elif source.distribution_mode == COPY:
            await _browse(client, session, link, source, await find_queue(client, node.name, anywhere=True))
        else:
            queue = await find_queue(client, node.name, consumes=True, anywhere=True)
            await _consume(client, session, link, source, queue)
    except ClientDenied as denied:
        nodes.detached(link, closed=True)
        error = AmqpError(conditions.condition_of(denied), denied.text)
        client.engine.sessions.refuse(session, link, error)
    except AddressRefused as refusal:
        nodes.detached(link, closed=True)
        client.engine.sessions.refuse(session, link, AmqpError(refusal.condition, refusal.text))
    except ContainerMoves as moves:
        client.end(AmqpError(conditions.CONNECTION_FORCED, str(moves)))


def _check_maker(client: AmqpClient, node: AddressedNode) -> None:
    """Raise AddressRefused for a temporary node of another broker: only the connection that made it receives from it.

    Whether it is still there is not known here.
    """
    topic = queue_topic(node.name) if node.kind == QUEUE else node.name
    maker = client.services.space.maker_elsewhere(topic)
    if maker:
        raise AddressRefused(conditions.RESOURCE_LOCKED, f"{node!r} belongs to a client of broker {maker}")


async def _new_node(client: AmqpClient, session: Session, link: OutgoingLink, source: Source) -> AddressedNode:
    """Make the temporary node that a source asks for, and let the source say what was made."""
    policy = read_policy(source.dynamic_properties)
    nodes = client.services.registry.temporary_nodes
    made = await make_node(client, session, link, source.capabilities, policy)
    if link.state != PENDING or client.is_released:
        nodes.detached(link, closed=True)  # the client went meanwhile
    source.address = made.address
    source.dynamic_properties = policy_properties(policy)
    return made.node


async def _consume(
    client: AmqpClient, session: Session, link: OutgoingLink, source: Source, queue: QueueHandle
) -> None:
    client.identity.rights.check_flow(client.endpoints.flow_count())
    chosen = read_filters(source.filters, CONSUMER_FILTERS, client.services.selectors)
    granted = _granted(source, MOVE)
    granted.filters = chosen.in_force()
    if link.state != PENDING or client.is_released:
        return  # the client went meanwhile
    registry = client.services.registry
    registry.containers.attach(client, session, link)  # an earlier connection releases the link, and so its flow
    about = f"{queue.name} {'' if chosen.selector is None else chosen.selector.text}"
    name = (client.container_id, client.identity.user, link.name)
    away_s = 0 if link.is_settled_by_us or not client.container_id else away_s_granted(source)
    if away_s > 0:
        granted.expiry_policy, granted.timeout_s = LINK_DETACH, away_s
    flow = registry.resumable.take(name)
    if flow is not None and away_s > 0 and flow.is_for(about):
        flow.away_s = away_s
        if await _resume(client, session, link, granted, flow, queue):
            return
    elif flow is not None:
        flow.end()
    consumer = _consumer_link(client, session, link, queue)
    consumer.selector = chosen.selector
    if away_s > 0:
        consumer.resumable = ResumableFlow(name, consumer.flow_id, consumer.window, queue.cell, about, away_s)
    await _bind(client, consumer, granted, can_be_stolen=False)


async def _resume(
    client: AmqpClient,
    session: Session,
    link: OutgoingLink,
    granted: Source,
    flow: ResumableFlow,
    queue: QueueHandle,
) -> bool:
    """Attach a link whose flow has waited for it; return whether that is done with. Raises AddressRefused."""
    registry, endpoints = client.services.registry, client.endpoints
    endpoints.resuming_count += 1
    try:
        map_bytes_max = client.engine.sessions.frame_bytes_max - ATTACH_BYTES_MAX
        link.unsettled = await flow.resume(link, map_bytes_max, client.runtime)
    except AddressRefused:
        registry.containers.detached(link)
        flow.end()
        raise
    finally:
        endpoints.resuming_count -= 1
    if link.state != PENDING or client.is_released:
        registry.resumable.went_away(flow)  # the client has gone meanwhile
        return True
    if not registry.containers.has(link):
        flow.end()
        raise AddressRefused(conditions.STOLEN, "the link was attached again")
    if not flow.is_bound:  # the queue has unbound it meanwhile
        flow.end()
        link.unsettled = None
        return False
    consumer = ConsumerLink(session, link, flow.flow_id, queue, flow.window)
    consumer.resumable = flow
    consumer.unsettled_count = len(flow.suspended)
    consumer.drain_number = flow.drain_number
    client.attach(session, link, source=granted, target=link.attach.target, can_be_stolen=False)
    consumers = client.endpoints.consumers
    flow.attached(client.cell.inbox)
    consumers.add(consumer)
    consumers.credit(consumer)
    if flow.state is not None:
        consumers.assigned(flow.state)
    return True


async def _browse(client: AmqpClient, session: Session, link: OutgoingLink, source: Source, queue: QueueHandle) -> None:
    """Show the client a queue: copies go out settled, whatever it asked for."""
    client.identity.rights.check_flow(client.endpoints.flow_count())
    chosen = read_filters(source.filters, BROWSER_FILTERS, client.services.selectors)
    if link.state != PENDING or client.is_released:
        return  # the client went meanwhile
    browsing = BrowserLink(session, link, client.runtime.next_urn(), queue)
    link.is_settled_by_us = True
    granted = _granted(source, COPY)
    granted.filters = chosen.in_force()
    client.attach(session, link, source=granted, target=link.attach.target)
    client.endpoints.browsers.add(browsing)
    request = BindBrowser(
        browsing.flow_id,
        client.client_name,
        PROTOCOL,
        client.identity.user,
        client.cell.inbox,
        window=0,
        partition_number=chosen.partition,
        after=max(0, chosen.start_sequence - 1),
        selector=chosen.selector,
        rights=client.identity.rights,
    )
    try:
        bound: BrowserBound = await queue.cell.ask(request)
    except BindRefused as refusal:
        _refuse_bind(client, session, link, refusal)
        return
    browsing.browse_buffer.browser = bound.browser
    client.credit(link)


async def _subscribe(client: AmqpClient, session: Session, link: OutgoingLink, source: Source, topic: str) -> None:
    chosen = read_filters(source.filters, SUBSCRIPTION_FILTERS, client.services.selectors)
    wanted = wanted_queue(client, link, source, topic, "" if chosen.selector is None else chosen.selector.text)
    present = await find_existing(client, wanted)
    if wanted.durable:
        check_is_home(client, link, present)
    check_rights(client, link, wanted, present)
    endpoints = client.endpoints
    endpoints.subscribing_count += 1
    try:
        queue = await subscription_queue(client, link, wanted)
    finally:
        endpoints.subscribing_count -= 1
    if wanted.priorities:
        place = Subscriber(wanted.name)
        place.address = client.cell.inbox
        client.services.space.share_out(queue.target, place, wanted.priorities)
    consumer = _consumer_link(client, session, link, queue)
    consumer.is_subscription = True
    consumer.keeps_queue_on_detach = wanted.is_kept
    consumer.is_no_local = chosen.is_no_local
    link.answers_close_later = wanted.durable
    granted = _granted(source, COPY)
    granted.filters = chosen.in_force()
    granted.capabilities += [each for each in (SHARED, GLOBAL) if wanted.is_shared and each in source.capabilities]
    if wanted.durable:
        granted.durable = DURABLE_CONFIGURATION
    if wanted.is_kept:
        granted.expiry_policy = LINK_DETACH if wanted.expires_s else NEVER
        granted.timeout_s = wanted.expires_s
    # Where it is shared the name is the subscription's, and others may have it too.
    await _bind(client, consumer, granted, can_be_stolen=not wanted.is_shared)


async def _join(client: AmqpClient, session: Session, link: OutgoingLink, source: Source, shared: SharedFilter) -> None:
    """Let a link share messages with members of other protocols."""
    queue, membership = await join_group(client, link, source, shared)
    consumer = _consumer_link(client, session, link, queue)
    consumer.is_subscription = True
    consumer.membership = membership
    await _bind(client, consumer, _granted(source, COPY), can_be_stolen=True)


async def _show_subscription(client: AmqpClient, session: Session, link: OutgoingLink) -> None:
    """Show a subscription to a client that says no source: it wants to end it (3.5.3)."""
    found = await find_subscription(client, link)
    if link.state != PENDING or client.is_released:
        end_found_subscription(client, link, closed=False)  # the client went meanwhile
        return
    link.answers_close_later = found.durable > DURABLE_NONE
    client.attach(session, link, source=found, target=link.attach.target, can_be_stolen=False)


def _granted(source: Source, distribution_mode: str) -> Source:
    """Return a source with what is in force of what was asked for."""
    return Source(
        source.address,
        dynamic=source.dynamic,
        dynamic_properties=source.dynamic_properties if source.dynamic else None,
        distribution_mode=distribution_mode,
        capabilities=[each for each in source.capabilities if each in NODE_CAPABILITIES],
    )


def _consumer_link(client: AmqpClient, session: Session, link: OutgoingLink, queue: QueueHandle) -> ConsumerLink:
    window: CreditWindow[Address] = CreditWindow(0, client.services.credit)
    return ConsumerLink(session, link, client.runtime.next_urn(), queue, window)


async def _bind(client: AmqpClient, consumer: ConsumerLink, granted: Source, *, can_be_stolen: bool) -> None:
    """Attach a link to its queue, as `granted` says, and bind its flow."""
    session, link = consumer.session, consumer.link
    if link.state != PENDING or client.is_released:
        end_consumer(client, consumer, closed=False)  # the client went meanwhile
        return
    client.attach(session, link, source=granted, target=link.attach.target, can_be_stolen=can_be_stolen)
    flow = consumer.resumable
    if flow is not None:
        flow.attached(client.cell.inbox)
    consumers = client.endpoints.consumers
    consumers.add(consumer)
    consumer.set_limit()
    request = BindFlow(
        consumer.flow_id,
        client.client_name,
        client.identity.user,
        client.cell.inbox if flow is None else flow,
        consumer.window,
        PROTOCOL,
        consumer.selector,
        rights=client.identity.rights,
    )
    try:
        await consumer.queue.ask(request)
    except BindRefused as refusal:
        _refuse_bind(client, session, link, refusal)
        return
    if link not in consumers.by_link:
        return  # the client went meanwhile
    if flow is not None:
        flow.is_bound = True
    client.credit(link)  # a drain that came before the queue knew the flow was lost


def _refuse_bind(client: AmqpClient, session: Session, link: OutgoingLink, refusal: BindRefused) -> None:
    condition = _BIND_CONDITIONS.get(refusal.code, conditions.NOT_ALLOWED)
    client.end_link(session, link, AmqpError(condition, str(refusal)))


def end_consumer(client: AmqpClient, consumer: ConsumerLink, *, closed: bool) -> LoopFuture[bool] | None:
    """Let go of a receiving link; its queue goes with it when it was the link's own.

    Return the answer to the deletion of a subscription that ends.
    """
    flow = consumer.resumable
    if flow is not None and flow.is_bound and not closed and not client.endpoints.is_settling(flow.flow_id):
        client.endpoints.consumers.suspend(consumer, flow, client.runtime.clock.now_ms())
        client.services.registry.resumable.went_away(flow)
        return None
    client.endpoints.consumers.remove(consumer)
    consumer.queue.inbox.post(UnbindFlow(consumer.flow_id))
    if consumer.membership is not None:
        client.services.router.inbox.post(consumer.membership)
    elif consumer.is_subscription:
        is_over = closed or not consumer.keeps_queue_on_detach
        return leave_subscription(client, consumer.link, consumer.queue_name, is_over=is_over)
    return None


def end_browser(client: AmqpClient, browsing: BrowserLink) -> None:
    """Release a link that browses a queue."""
    client.endpoints.browsers.remove(browsing)
    browsing.queue.inbox.post(UnbindFlow(browsing.flow_id))
