"""Carry out SUBSCRIBE and UNSUBSCRIBE, filter by filter, and acknowledge once all is in force and stored."""

import logging
from typing import Final, final

from sluicegate.actors.messages.directory import SESSION, CreateQueue, FindQueue, LocalQueue, QueueHandle
from sluicegate.actors.messages.queues import NOT_OWNER, OWNER_CONNECTED, PERMISSION_DENIED, BindRefused, UnbindFlow
from sluicegate.actors.messages.router import (
    AddSubscription,
    AwaitNeighbors,
    GroupJoined,
    JoinGroup,
    LeaveGroup,
    RemoveSubscription,
    ShareRefused,
    SubscriptionAdded,
)
from sluicegate.actors.runtime.asks import LoopFuture
from sluicegate.messaging.clients.rights import SUBSCRIBE_ACL, ClientDenied
from sluicegate.messaging.queues.attributes import PARTITION_COUNT_MAX
from sluicegate.messaging.queues.definition import is_named
from sluicegate.messaging.routing.deliver_to_one import PriorityInvalid, priorities_of
from sluicegate.messaging.routing.destinations import Subscriber
from sluicegate.messaging.routing.retained_messages import RetainedMessage
from sluicegate.messaging.selectors.lexer import SelectorError
from sluicegate.messaging.selectors.selector import Selector
from sluicegate.messaging.topics.retained import RetainedScan
from sluicegate.messaging.topics.syntax import (
    Syntax,
    TopicError,
    check_level_count,
    is_shared_in_mqtt,
    parse_queue_address,
    parse_shared,
    parse_subscription,
)
from sluicegate.protocols.mqtt.client import MqttClient
from sluicegate.protocols.mqtt.codec.events import SubscribeReceived, SubscriptionRequest, UnsubscribeReceived
from sluicegate.protocols.mqtt.codec.reason_codes import (
    DENIAL_CODES,
    IMPLEMENTATION_SPECIFIC_ERROR,
    NO_SUBSCRIPTION_EXISTED,
    NOT_AUTHORIZED,
    PROTOCOL_ERROR,
    QUOTA_EXCEEDED,
    SUCCESS,
    TOPIC_FILTER_INVALID,
    UNSPECIFIED_ERROR,
)
from sluicegate.protocols.mqtt.codec.wire import has_unwanted_characters
from sluicegate.protocols.mqtt.requests.flows import bind_flow
from sluicegate.protocols.mqtt.session.session import ExtraSubscription, Session
from sluicegate.protocols.mqtt.session.subscriptions import GrantedSubscription

log = logging.getLogger("sluicegate.mqtt")

QUEUE_PREFIX: Final = "$queue/"
SEND_ALWAYS: Final = 0  # Retain Handling [3.3.1-9..11]
SEND_IF_NEW: Final = 1
NOT_AUTHORIZED_BINDS: Final = frozenset({PERMISSION_DENIED, NOT_OWNER, OWNER_CONNECTED})


class _Refused(Exception):
    """One filter of a SUBSCRIBE is refused; the others are not affected."""

    def __init__(self, reason_code: int, text: str) -> None:
        super().__init__(text)
        self.reason_code = reason_code


@final
class _SubscribeOptions:
    """The options of a SUBSCRIBE that apply to all its filters."""

    def __init__(
        self, identifier: int, selector: Selector | None, priorities: tuple[int, ...], partition_count: int
    ) -> None:
        self.identifier = identifier  # 0: none
        self.selector = selector
        self.priorities = priorities
        self.partition_count = partition_count  # of the queue of a shared subscription; 0: not requested
        self.hint = ""  # for the client, on the filter that was granted last
        self.travels = False  # that filter is one that neighbor brokers are told of


Retained = RetainedScan[RetainedMessage]


async def subscribe(client: MqttClient, event: SubscribeReceived) -> None:
    """Answer SUBSCRIBE with one code for each filter; a refused one does not undo the others."""
    codes: list[int] = []
    reasons: list[str] = []  # of refusals, and hints; SUBACK has one Reason String for all its codes
    retained: list[tuple[GrantedSubscription, Retained]] = []
    travels = False
    for request in event.requests:
        turn = client.turn_budget().next_filter()
        if turn is not None:
            await turn
        session = client.session
        if session is None:
            return
        try:
            options = _options_of(client, event)
            code, found = await _subscribe(client, session, request, options)
            travels = travels or options.travels
            if options.hint:
                reasons.append(options.hint)
        except TopicError as error:
            code, found = TOPIC_FILTER_INVALID, None
            reasons.append(str(error))
        except _Refused as refusal:
            code, found = refusal.reason_code, None
            reasons.append(str(refusal))
        except ClientDenied as denied:
            code, found = DENIAL_CODES.get(denied.reason, NOT_AUTHORIZED), None
            reasons.append(denied.text)
        if code >= UNSPECIFIED_ERROR and reasons:  # 3.x clients get no reason, so it is logged
            log.info("%s refused %r: %s", client.peer_name(), request.filter_text, reasons[-1])
        if code == PROTOCOL_ERROR:
            client.end(PROTOCOL_ERROR, "No Local on a shared subscription [3.8.3-4]")
            return
        if found is not None:
            retained.append(found)
        # 3.1 has no code for a refusal: the client gets the requested QoS and no messages.
        codes.append(request.qos if code >= UNSPECIFIED_ERROR and client.engine.level == 3 else code)
    known: LoopFuture[None] | None = client.services.router.ask(AwaitNeighbors()) if travels else None
    await _stored(client)
    if known is not None:
        await known
        # Neighbors have sent what they retained before they knew of the filters.
        retained = [(each, client.services.space.retained.scan(each.topic_filter)) for each, _ in retained]
    if client.session is None:
        return
    client.engine.suback(event.packet_id, codes, "; ".join(reasons))
    for granted, scan in retained:
        if not scan.is_done or client.delivering() is not None:
            attached, wall_ms = client.attached, client.cell.runtime.clock.wall_ms()
            assert attached is not None, "no session is released while the retained messages of a request are found"
            client.delivering_of(attached).retained.add(scan, granted, wall_ms)
    client.ask_flush()


async def unsubscribe(client: MqttClient, event: UnsubscribeReceived) -> None:
    """Answer UNSUBSCRIBE; deliveries under way are completed [3.10.4-3]."""
    codes: list[int] = []
    for filter_text in event.filters:
        turn = client.turn_budget().next_filter()
        if turn is not None:
            await turn
        session = client.session
        if session is None:
            return
        codes.append(await _unsubscribe(client, session, filter_text))
    await _stored(client)
    if client.session is not None:
        client.engine.unsuback(event.packet_id, codes)
        client.ask_flush()


async def _subscribe(
    client: MqttClient,
    session: Session,
    request: SubscriptionRequest,
    options: _SubscribeOptions,
) -> tuple[int, tuple[GrantedSubscription, Retained] | None]:
    text = request.filter_text
    _check_characters_and_levels(client, text)
    queue_name = parse_queue_address(text)
    if is_shared_in_mqtt(text):
        if request.no_local:
            return PROTOCOL_ERROR, None
        if options.selector is not None:
            reason = "a selector on a shared subscription; allowed: on a topic filter, and on $queue/NAME"
            raise _Refused(IMPLEMENTATION_SPECIFIC_ERROR, reason)
        return await _subscribe_shared(client, session, request, options), None
    if queue_name is not None:
        return await _subscribe_queue(client, session, request, options, queue_name), None
    topic_filter = parse_subscription(text, Syntax.MQTT)
    rights = client.identity.rights
    known = session.table.by_filter.get(text)
    is_known = known is not None and known.selector == options.selector
    rights.check_subscription(
        topic_filter,
        _count(session) - (known is not None),
        is_new=known is None,
        selector="" if options.selector is None or is_known else options.selector.text,
    )
    qos = _granted_qos(client, request)
    subscriber = client.subscriber(session)
    if qos > 0 and session.queue is None:
        await _make_queue(client, session, subscriber)
    granted = GrantedSubscription(
        topic_filter,
        qos,
        request.no_local,
        request.retain_as_published,
        request.retain_handling,
        options.identifier,
        options.selector,
        options.priorities,
    )
    if known is None or not known.is_as(granted):
        session.changed(text)
    # In the table first: a message may be routed here as soon as the router has answered.
    session.grant(text, granted)
    added: SubscriptionAdded = await client.turn_budget().ask(
        client.services.router,
        AddSubscription(
            subscriber,
            topic_filter,
            qos,
            retained_if_new=request.retain_handling <= SEND_IF_NEW,
            retained_if_known=request.retain_handling == SEND_ALWAYS,
            selector=options.selector,
            priorities=options.priorities,
        ),
    )
    options.travels = added.travels
    return qos, None if added.retained is None else (granted, added.retained)


def _check_characters_and_levels(client: MqttClient, text: str) -> None:
    """Raise _Refused or TopicError for a filter that the operator does not allow."""
    limits = client.services.limits
    if limits.refuse_control_characters and has_unwanted_characters(text):
        raise _Refused(TOPIC_FILTER_INVALID, "the filter has control characters")
    check_level_count(text, limits.topic_levels_max)


def _options_of(client: MqttClient, event: SubscribeReceived) -> _SubscribeOptions:
    """Return the options in the properties of a SUBSCRIBE. Raises _Refused."""
    selector = _selector(client, event.selectors)
    try:
        priorities = priorities_of(event.priorities)
    except PriorityInvalid as error:
        raise _Refused(IMPLEMENTATION_SPECIFIC_ERROR, str(error)) from None
    return _SubscribeOptions(
        event.subscription_identifier, selector, priorities, _partition_count(event.partition_counts)
    )


def _partition_count(texts: list[str]) -> int:
    """Return the requested number of partitions, 0 for none. Raises _Refused."""
    if not texts:
        return 0
    text = texts[0]
    count = int(text) if text.isascii() and text.isdigit() and len(text) <= len(str(PARTITION_COUNT_MAX)) else 0
    if len(texts) > 1 or not 1 <= count <= PARTITION_COUNT_MAX:
        reason = f"{', '.join(texts)!r:.40} is no number of partitions; allowed: one, 1 to {PARTITION_COUNT_MAX}"
        raise _Refused(IMPLEMENTATION_SPECIFIC_ERROR, reason)
    return count


def _selector(client: MqttClient, texts: list[str]) -> Selector | None:
    """Return the selector of a SUBSCRIBE, None where it has none or a blank one. Raises _Refused."""
    if len(texts) > 1:
        raise _Refused(IMPLEMENTATION_SPECIFIC_ERROR, f"{len(texts)} selectors; allowed: one for all filters")
    if not texts or not texts[0].strip():
        return None
    try:
        return client.services.selectors.compile(texts[0])
    except SelectorError as error:
        raise _Refused(IMPLEMENTATION_SPECIFIC_ERROR, str(error)) from None


async def _make_queue(client: MqttClient, session: Session, subscriber: Subscriber) -> None:
    """Give the session a queue for its guaranteed messages; durable when the session is."""
    definition = client.services.session_queue(session.queue_name(), session.is_durable)
    handle: LocalQueue = await client.services.queues.ask(
        CreateQueue(definition, SESSION, durable=session.is_durable, must_be_new=False)
    )
    session.queue = handle
    subscriber.queue = handle.target
    await bind_flow(client, handle, None, is_named_queue=False)


async def _subscribe_shared(
    client: MqttClient, session: Session, request: SubscriptionRequest, options: _SubscribeOptions
) -> int:
    shared = parse_shared(request.filter_text, Syntax.MQTT)
    assert shared is not None, "the filter begins with the prefix"
    known = session.shares.get(request.filter_text)
    rights = client.identity.rights
    rights.check_share(shared.share_name)
    others_count = _count(session) - (known is not None)
    rights.check_subscription(shared.filter, others_count, is_new=known is None, share_name=shared.share_name)
    qos = _granted_qos(client, request)
    count = options.partition_count
    if count and qos == 0:
        raise _Refused(IMPLEMENTATION_SPECIFIC_ERROR, "partitions at QoS 0, where there is no queue; allowed: QoS 1, 2")
    if known is not None and qos == 0:
        await _end_share(client, known)  # nothing comes to it by the queue any more
    subscriber = client.subscriber(session)
    join = JoinGroup(subscriber, shared.share_name, shared.filter, qos, session.is_durable, count)
    try:
        joined: GroupJoined = await client.services.router.ask(join)
    except ShareRefused as refusal:
        raise _Refused(IMPLEMENTATION_SPECIFIC_ERROR, str(refusal)) from None
    options.travels = joined.travels
    extra = _extra(request, options.identifier)
    extra.qos = qos
    extra.queue_name = "" if joined.queue is None else joined.queue.name
    if known is not None and qos > 0:
        extra.continues(known)
    if known is None or not known.is_as(extra):
        session.changed(request.filter_text)
    session.add_share(extra)
    await _replace_flow(client, known, extra, joined.queue, is_named_queue=False)
    return qos


async def _subscribe_queue(
    client: MqttClient,
    session: Session,
    request: SubscriptionRequest,
    options: _SubscribeOptions,
    queue_name: str,
) -> int:
    if not is_named(queue_name):
        raise _Refused(NOT_AUTHORIZED, f"403 Permission Denied: {queue_name!r} is the broker's own")
    find_queue = FindQueue(queue_name, client.identity.rights, consumes=True, anywhere=True)
    handle: QueueHandle | None = await client.services.queues.ask(find_queue)
    if handle is None:
        raise _Refused(UNSPECIFIED_ERROR, f"400 Queue Not Found: there is no queue {queue_name!r}")
    qos_max = client.services.limits.maximum_qos
    if qos_max == 0:
        raise _Refused(IMPLEMENTATION_SPECIFIC_ERROR, "mqtt.maximum_qos is 0, and with QoS 0 nothing is settled")
    extra = _extra(request, options.identifier)
    extra.qos = min(max(1, request.qos), qos_max)  # a flow settles, and QoS 0 has nothing to settle with
    extra.queue_name = queue_name
    extra.selector = options.selector
    known = session.queues.get(request.filter_text)
    if known is None or not known.is_as(extra):
        session.changed(request.filter_text)
    if known is not None and known.selector != options.selector:
        await _end_flow(client, session.queues.pop(request.filter_text))  # its unsettled messages are returned
        known = None
    try:
        await _replace_flow(client, known, extra, handle, is_named_queue=True)
    except BindRefused as refusal:
        code = NOT_AUTHORIZED if refusal.code in NOT_AUTHORIZED_BINDS else QUOTA_EXCEEDED
        raise _Refused(code, str(refusal)) from None
    session.add_queue(extra)
    hint = handle.state.selector_hint()
    if hint:
        options.hint = f"selectors of consumers of partitioned queue {queue_name!r} differ: {hint}"
    return extra.qos


async def _replace_flow(
    client: MqttClient,
    known: ExtraSubscription | None,
    extra: ExtraSubscription,
    handle: QueueHandle | None,
    *,
    is_named_queue: bool,
) -> None:
    """Bind a flow for a subscription; one whose options change keeps its flow and its messages."""
    attached = client.attached
    if attached is None:
        return
    if known is not None and attached.delivering is not None:
        bound = attached.delivering.flow_of(known)
        if bound is not None:
            bound.extra = extra
            return
    if handle is not None:
        await bind_flow(client, handle, extra, is_named_queue=is_named_queue)


async def _unsubscribe(client: MqttClient, session: Session, filter_text: str) -> int:
    if filter_text in session.shares:
        session.changed(filter_text)
        await _end_share(client, session.shares.pop(filter_text))
        shared = parse_shared(filter_text, Syntax.MQTT)
        assert shared is not None
        await client.services.router.ask(LeaveGroup(client.subscriber(session), shared.share_name, shared.filter))
        return SUCCESS
    if filter_text in session.queues:
        session.changed(filter_text)
        await _end_flow(client, session.queues.pop(filter_text))
        return SUCCESS
    revoked = session.table.revoke(filter_text)
    if revoked is None:
        return NO_SUBSCRIPTION_EXISTED if _is_valid(client, filter_text) else TOPIC_FILTER_INVALID
    session.changed(filter_text)
    if (delivering := client.delivering()) is not None:
        delivering.retained.forget(revoked)
    await client.turn_budget().ask(
        client.services.router, RemoveSubscription(client.subscriber(session), revoked.topic_filter)
    )
    return SUCCESS


def _is_valid(client: MqttClient, text: str) -> bool:
    """Return whether a client may subscribe to a text, as far as its syntax goes."""
    try:
        _check_characters_and_levels(client, text)
        if parse_queue_address(text) is None and parse_shared(text, Syntax.MQTT) is None:
            parse_subscription(text, Syntax.MQTT)
    except (TopicError, _Refused):
        return False
    return True


async def _end_share(client: MqttClient, extra: ExtraSubscription) -> None:
    """End the flow of a shared subscription; its messages are not sent again."""
    if (delivering := client.delivering()) is not None:
        delivering.disown(extra.ids)
    await _end_flow(client, extra)


async def _end_flow(client: MqttClient, extra: ExtraSubscription) -> None:
    attached = client.attached
    if attached is None:
        return
    if extra.suspended is not None:
        extra.suspended.queue.post(UnbindFlow(extra.suspended.flow_id))  # its suspended messages are returned
        extra.suspended = None
    if attached.delivering is None:
        return
    flows = attached.delivering.flows
    for flow_id, bound in list(flows.items()):
        if bound.extra is extra:
            bound.release_unsent(flow_id, attached.delivering.queued)
            bound.queue.post(UnbindFlow(flow_id, may_return=False))
            del flows[flow_id]


def denied_subscriptions(client: MqttClient, session: Session) -> list[str]:
    """Return the subscriptions of a resumed session that its client's rights no longer permit."""
    rights = client.identity.rights
    denied: list[str] = []
    for text, granted in session.table.by_filter.items():
        if not rights.may_subscribe(granted.topic_filter):
            denied.append(text)
    for text in session.shares:
        shared = parse_shared(text, Syntax.MQTT)
        if shared is not None and not (rights.may_share(shared.share_name) and rights.may_subscribe(shared.filter)):
            denied.append(text)
    return denied


async def revoke(client: MqttClient, session: Session, denied: list[str]) -> None:
    """End the denied subscriptions of a resumed session."""
    for text in denied:
        client.services.clients.denials.deny(SUBSCRIBE_ACL, session.client_id, f"kept subscription {text!r}")
        await _unsubscribe(client, session, text)


def _granted_qos(client: MqttClient, request: SubscriptionRequest) -> int:
    """Return the QoS of a subscription to a topic: a server may grant less than requested [3.8.4-8] [3.2.2-10]."""
    if not client.identity.rights.may_keep_messages():
        return 0
    return min(request.qos, client.services.limits.maximum_qos)


def _count(session: Session) -> int:
    """Return how many subscriptions to topics a session has."""
    return len(session.table.by_filter) + len(session.shares)


async def _stored(client: MqttClient) -> None:
    """Wait until the session's subscriptions are stored."""
    session = client.session
    if session is None or not session.unstored:
        return
    attached = client.attached
    assert attached is not None, "who has a session is attached to it"
    await client.writes(attached).store_subscriptions()


def _extra(request: SubscriptionRequest, identifier: int) -> ExtraSubscription:
    return ExtraSubscription(request.filter_text, request.qos, identifier, request.retain_as_published)
