"""Subscriptions to topics.

Behind each is a queue, known by container id and link name (3.5.3) or, where containers share the subscription, by its
own name alone.

A client that shares a subscription attaches its further links under names of their own, `NAME|2` and so on: the part
before the bar is the name of the subscription.
"""

from dataclasses import replace
from typing import Final
from urllib.parse import quote, unquote

from sluicegate.actors.messages.data import StoreRefused
from sluicegate.actors.messages.directory import (
    SUBSCRIPTION,
    CreateQueue,
    DefinitionLost,
    DeleteQueue,
    FindQueue,
    LocalQueue,
    QueuesExhausted,
    UpdateQueue,
    UpdateRefused,
)
from sluicegate.actors.runtime.asks import LoopFuture
from sluicegate.messaging.message.usage import selector_bytes
from sluicegate.messaging.queues.attributes import CONSUME, PARTITION_COUNT_MAX
from sluicegate.messaging.queues.definition import QueueDefinition, QueueInvalid, denial, permits
from sluicegate.messaging.queues.moves import CONTAINER_QUEUE_PREFIX
from sluicegate.messaging.routing.deliver_to_one import PriorityInvalid, priorities_of
from sluicegate.messaging.topics.subscription_index import subscription_bytes
from sluicegate.messaging.topics.syntax import TopicError, parse_queue_subscription, syntax_of
from sluicegate.protocols.amqp.client import AmqpClient
from sluicegate.protocols.amqp.codec.addresses import AddressRefused, is_durable_form
from sluicegate.protocols.amqp.codec.delivery_states import AmqpError
from sluicegate.protocols.amqp.codec.termini import (
    COPY,
    DURABLE_CONFIGURATION,
    DURABLE_NONE,
    LINK_DETACH,
    NEVER,
    Source,
)
from sluicegate.protocols.amqp.engine.link import OutgoingLink
from sluicegate.protocols.amqp.engine.session import Session
from sluicegate.protocols.amqp.links.filters import selector_filter
from sluicegate.protocols.amqp.registry import SubscriptionQueue, moving_text
from sluicegate.protocols.amqp.types import errors as conditions
from sluicegate.protocols.amqp.types.values import Scalar, Symbol

SHARED: Final = "shared"  # capabilities of a source: several links share the subscription,
DTO_PRIORITY: Final = "dto-priority"  # property of a link, as the user property of SUBSCRIBE in MQTT
PARTITION_COUNT: Final = "partition-count"  # property of a link that makes a shared subscription
GLOBAL: Final = "global"  # and those of other containers too

_EVERYBODY: Final = "#global"  # in place of a container id, in which `#` would be escaped
_VOLATILE: Final = "/volatile"
_LINK_NAME_END: Final = "|"


def wanted_queue(
    client: AmqpClient, link: OutgoingLink, source: Source, topic: str, selector: str
) -> SubscriptionQueue:
    """Return what the queue behind a link has to be. Raises AddressRefused."""
    address = source.address or ""
    is_never = source.expiry_policy == NEVER or is_durable_form(address)
    durable = (source.durable > DURABLE_NONE and (is_never or source.timeout_s > 0)) or is_durable_form(address)
    expires_s = 0 if is_never else source.timeout_s
    is_shared = SHARED in source.capabilities
    is_kept = durable or expires_s > 0
    if is_shared or is_kept:
        name = _name_of(client, link, source.capabilities)
        if not is_kept:
            name += _VOLATILE
    else:
        name = f"{CONTAINER_QUEUE_PREFIX}{client.runtime.next_urn()}"
    user = "" if is_shared and GLOBAL in source.capabilities else client.identity.user
    priorities = _priorities(link)
    if priorities and (is_shared or is_kept):
        text = f"{DTO_PRIORITY} on a subscription that is shared or kept; allowed: on one that ends with its link"
        raise AddressRefused(conditions.INVALID_FIELD, text)
    count = partition_count_of(link) if is_shared else 0
    return SubscriptionQueue(name, topic, durable, is_shared, is_kept, expires_s, user, selector, priorities, count)


def _priorities(link: OutgoingLink) -> tuple[int, ...]:
    """Return the Deliver-To-One priority that a link asks for. Raises AddressRefused."""
    properties = link.attach.properties
    given = None if properties is None else properties.symbol(DTO_PRIORITY)
    if given is None:
        return ()
    text = given.text if isinstance(given, Symbol) else given
    try:
        return priorities_of([text if isinstance(text, str) else repr(text)])
    except PriorityInvalid as error:
        raise AddressRefused(conditions.INVALID_FIELD, str(error)) from None


def partition_count_of(link: OutgoingLink) -> int:
    """Return the number of partitions that a link asks for, 0 where it asks for none. Raises AddressRefused."""
    properties = link.attach.properties
    given = None if properties is None else properties.symbol(PARTITION_COUNT)
    if given is None:
        return 0
    count = given.value if isinstance(given, Scalar) else given
    if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= PARTITION_COUNT_MAX:
        text = f"{PARTITION_COUNT}: {given!r:.40} is no number of partitions; allowed: 1 to {PARTITION_COUNT_MAX}"
        raise AddressRefused(conditions.INVALID_FIELD, text)
    return count


def _name_of(client: AmqpClient, link: OutgoingLink, capabilities: list[str]) -> str:
    is_shared = SHARED in capabilities
    is_global = is_shared and GLOBAL in capabilities
    if not is_global and not client.container_id:
        raise AddressRefused(conditions.INVALID_FIELD, "a subscription with a name needs a container id")
    owner = _EVERYBODY if is_global else quote(client.container_id, safe="")
    name = _share_name(link) if is_shared else link.name
    return f"{CONTAINER_QUEUE_PREFIX}{owner}/{quote(name, safe='')}"


def container_of(queue: str) -> str | None:
    """Return the container whose subscription has a queue of this name; None: it is none's alone."""
    owner, separator, _ = queue.removeprefix(CONTAINER_QUEUE_PREFIX).partition("/")
    if not queue.startswith(CONTAINER_QUEUE_PREFIX) or not separator or owner == _EVERYBODY:
        return None
    return unquote(owner)


def _share_name(link: OutgoingLink) -> str:
    return link.name.partition(_LINK_NAME_END)[0]


async def find_existing(client: AmqpClient, wanted: SubscriptionQueue) -> LocalQueue | None:
    """Return the subscription of that name, to which its client returns, or which others share; None: there is none."""
    if not (wanted.is_kept or wanted.is_shared):
        return None
    found: LocalQueue | None = await client.services.queues.ask(FindQueue(wanted.name))
    return found


class ContainerMoves(Exception):
    """A subscription of this container may be at another broker of this machine: the client has to come again."""


def check_is_home(client: AmqpClient, link: OutgoingLink, present: LocalQueue | None) -> None:
    """Check that a durable subscription is there, at a broker that is to have no new ones.

    Raises ContainerMoves, and AddressRefused where the container has others that cannot move: these are served.
    """
    if present is not None or not client.services.registry.is_retired:
        return
    reason = client.services.registry.containers.staying.get(client.container_id)
    if reason is None:
        raise ContainerMoves(moving_text(client.container_id))
    text = f"the subscription {link.name!r:.80} is not at this broker, which is retired and gets no new ones"
    raise AddressRefused(conditions.ILLEGAL_STATE, f"{text}; the container stays here until this has changed: {reason}")


def check_rights(client: AmqpClient, link: OutgoingLink, wanted: SubscriptionQueue, present: LocalQueue | None) -> None:
    """Raise ClientDenied unless the client's profiles permit a subscription, and AddressRefused for a bad topic.

    One that is present and collects something else begins anew: its usage may grow within the quota of the message VPN.
    """
    is_new = present is None
    rights = client.identity.rights
    try:
        _, topic_filter = parse_queue_subscription(wanted.topic, syntax_of(wanted.topic))
    except TopicError as error:
        raise AddressRefused(conditions.INVALID_FIELD, f"topic {error}") from None
    is_own = client.services.registry.temporary_nodes.is_topic_of(client, wanted.topic)
    rights.check_subscription(
        topic_filter,
        client.endpoints.subscription_count(),
        is_new=is_new,
        is_own=is_own,
        selector=wanted.selector,
        replaced_bytes=0 if present is None else _usage_of(present),
    )
    if wanted.is_shared:
        rights.check_share(_share_name(link))
    if wanted.is_kept and is_new:
        rights.check_endpoint()
    rights.check_flow(client.endpoints.flow_count())


def _usage_of(queue: LocalQueue) -> int:
    definition = queue.definition
    filters = [parse_queue_subscription(topic, syntax_of(topic))[1] for topic in definition.subscriptions]
    return sum(subscription_bytes(each) for each in filters) + selector_bytes(definition.selector)


async def subscription_queue(client: AmqpClient, link: OutgoingLink, wanted: SubscriptionQueue) -> LocalQueue:
    """Make or find the queue behind a subscription, of which the link is one from now on. Raises AddressRefused."""
    subscriptions = client.services.registry.subscriptions
    others = subscriptions.others(wanted.name, link)
    if not wanted.is_shared and any(other.identity.user != client.identity.user for other in others):
        raise AddressRefused(conditions.RESOURCE_LOCKED, f"the subscription {link.name!r:.80} is another user's")
    subscriptions.enter(wanted.name, link, client)
    try:
        return await _queue(client, wanted, is_in_use=bool(others))
    except (AddressRefused, StoreRefused, QueuesExhausted, UpdateRefused) as refusal:
        leave_subscription(client, link, wanted.name, is_over=not wanted.is_kept)
        if isinstance(refusal, AddressRefused):
            raise
        raise AddressRefused(conditions.RESOURCE_LIMIT_EXCEEDED, str(refusal)) from None


async def _queue(client: AmqpClient, wanted: SubscriptionQueue, *, is_in_use: bool) -> LocalQueue:
    queues = client.services.queues
    try:
        definition = client.services.subscription_queue(wanted)
        found: LocalQueue = await queues.ask(
            CreateQueue(definition, SUBSCRIPTION, wanted.durable, must_be_new=False, gives_back=True)
        )
    except (TopicError, QueueInvalid) as error:
        raise AddressRefused(conditions.INVALID_FIELD, f"topic {wanted.topic!r:.80}: {error}") from None
    _check_owner(client, found)
    _check_known(found)
    present = found.definition
    is_same = present.config.access_type == definition.config.access_type and found.durable == wanted.durable
    collects_the_same = present.subscriptions == definition.subscriptions and present.selector == definition.selector
    if not (collects_the_same and is_same):
        if is_in_use:
            selecting = f" and the selector {present.selector!r:.80}" if present.selector else ""
            topic = present.subscriptions[0]
            text = f"the subscription is in use with the topic {topic!r}{selecting}, or shared otherwise"
            raise AddressRefused(conditions.ILLEGAL_STATE, text)
        await queues.ask(DeleteQueue(wanted.name))  # JMS wants another topic or selector to begin anew
        return await _queue(client, wanted, is_in_use=False)
    if wanted.partition_count not in (0, present.config.partition_count):
        text = f"the subscription has {present.config.partition_count} partitions, not {wanted.partition_count}"
        raise AddressRefused(conditions.ILLEGAL_STATE, text)
    if present.config.expires_unbound_s != wanted.expires_s:
        await queues.ask(UpdateQueue(wanted.name, lambda queue: _expiring(queue.definition, wanted.expires_s)))
    return found


def _expiring(definition: QueueDefinition, expires_s: int) -> QueueDefinition:
    return replace(definition, config=replace(definition.config, expires_unbound_s=expires_s))


def _check_owner(client: AmqpClient, queue: LocalQueue) -> None:
    """Raise AddressRefused for a subscription that another user has made by the same container id and name."""
    config, user = queue.definition.config, client.identity.user
    if not permits(config, user, CONSUME):
        raise AddressRefused(conditions.UNAUTHORIZED_ACCESS, denial(config, user, CONSUME))


def _check_known(queue: LocalQueue) -> None:
    """Raise AddressRefused for a subscription whose definition is lost, and only its messages are left."""
    if queue.definition_lost:
        raise AddressRefused(conditions.ILLEGAL_STATE, str(DefinitionLost(queue.name)))


def leave_subscription(client: AmqpClient, link: OutgoingLink, name: str, *, is_over: bool) -> LoopFuture[bool] | None:
    """Release a link; with `is_over` the subscription ends with its last link. Return the answer to its deletion."""
    if client.services.registry.subscriptions.leave(name, link) and is_over:
        return client.services.queues.ask(DeleteQueue(name))
    return None


async def find_subscription(client: AmqpClient, link: OutgoingLink) -> Source:
    """Return the source of a subscription, for a client that attaches to it without a source: to end it.

    The link's desired capabilities say whether it is shared. Raises AddressRefused, and ClientDenied where the client
    may not be a member, and ContainerMoves.
    """
    if SHARED in link.attach.desired:
        client.identity.rights.check_share(_share_name(link))
    name = _name_of(client, link, link.attach.desired)
    found: LocalQueue | None = await client.services.queues.ask(FindQueue(name))
    check_is_home(client, link, found)
    if found is None:
        raise AddressRefused(conditions.NOT_FOUND, f"there is no subscription {link.name!r:.80}")
    _check_owner(client, found)
    _check_known(found)
    subscriptions = client.services.registry.subscriptions
    if subscriptions.is_active(name):
        raise AddressRefused(conditions.RESOURCE_LOCKED, f"the subscription {link.name!r:.80} has consumers")
    subscriptions.found[link] = name
    expires_s = found.definition.config.expires_unbound_s
    return Source(
        found.definition.subscriptions[0],
        durable=DURABLE_CONFIGURATION if found.durable else DURABLE_NONE,
        expiry_policy=LINK_DETACH if expires_s else NEVER,
        timeout_s=expires_s,
        distribution_mode=COPY,
        filters=selector_filter(found.definition.selector),
        capabilities=["topic", *[each for each in (SHARED, GLOBAL) if each in link.attach.desired]],
    )


def end_found_subscription(client: AmqpClient, link: OutgoingLink, *, closed: bool) -> LoopFuture[bool] | None:
    """End a subscription when a link that found it is closed, unless the subscription is in use by now.

    Return the answer to its deletion.
    """
    subscriptions = client.services.registry.subscriptions
    name = subscriptions.found.pop(link, None)
    if name is not None and closed and not subscriptions.is_active(name):
        return client.services.queues.ask(DeleteQueue(name))
    return None


async def answer_close(
    client: AmqpClient, session: Session, link: OutgoingLink, deletion: LoopFuture[bool] | None
) -> None:
    """Answer the closing detach of a subscription's link, when the store has the deletion of the subscription."""
    error: AmqpError | None = None
    try:
        if deletion is not None:
            await deletion
    except StoreRefused as refusal:
        text = f"the end of the subscription {link.name!r:.80} is not stored, and a restart may undo it: {refusal}"
        error = AmqpError(conditions.INTERNAL_ERROR, text)
    except UpdateRefused as moves:
        error = AmqpError(conditions.ILLEGAL_STATE, f"the subscription {link.name!r:.80} has not ended: {moves}")
    if not client.is_released:
        client.handle(client.engine.sessions.answer_close(session, link, error))
