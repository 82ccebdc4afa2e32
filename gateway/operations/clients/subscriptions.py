"""The rows of `show smrp subscriptions`: listed from a topic space, then selected and paged."""

from collections.abc import Iterable, Mapping
from typing import Final

from sluicegate.gateway.views.clients.connections import ClientSubscriptionView, SubscriptionsQuery
from sluicegate.gateway.views.clients.subscriptions import (
    DestinationType,
    Persistence,
    Redundancy,
    SmrpQuery,
    SmrpSubscriptionsView,
    SmrpSubscriptionView,
)
from sluicegate.gateway.views.text import name_pattern
from sluicegate.messaging.message.vpn import DEFAULT_VPN
from sluicegate.messaging.network.interest import InterestKind
from sluicegate.messaging.routing.deliver_to_one import priority_text
from sluicegate.messaging.routing.destinations import (
    DELIVER_ALWAYS,
    Destination,
    QueueTarget,
    Subscriber,
    Subscription,
)
from sluicegate.messaging.routing.routes import TopicSpace
from sluicegate.messaging.topics.syntax import (
    NO_EXPORT,
    SharedFilter,
    Syntax,
    TopicFilter,
    filter_of,
    matches,
    parse_shared,
)
from sluicegate.protocols.flow.datapath.subscribing import MadeSubscription
from sluicegate.protocols.mqtt.session.session import ExtraSubscription, Session
from sluicegate.protocols.mqtt.session.subscriptions import GrantedSubscription

SHARE: Final = "#share/"  # prefix of a shared subscription, in any syntax

Row = tuple[str, str, int, DestinationType, Persistence]  # destination, subscription, priority


def rows_of(space: TopicSpace, question: SmrpQuery, vpn: str = DEFAULT_VPN) -> list[Row]:
    """Return a row for each subscription at this moment, before rows are selected by name or text."""
    if not name_pattern(question.vpn_name).fullmatch(vpn):
        return []
    rows: list[Row] = []
    excepting: dict[QueueTarget, None] = {}
    for text, found in space.trace(question.topic) if question.topic else space.entries():
        rows += _rows_of_one(text, found)
        if isinstance(found, QueueTarget):
            excepting[found] = None
    rows += [row for target in excepting for row in _exceptions_of(target)]
    return rows + _of_neighbors(space, question)


def _rows_of_one(text: str, found: Destination) -> list[Row]:
    """Return the rows of one destination under one filter."""
    if isinstance(found, Subscription):
        persistence = Persistence.PERSISTENT if found.qos else Persistence.NON_PERSISTENT
        client = found.subscriber
        priorities = found.priorities or (client.priority,)
        return [(client.client, text, priority, DestinationType.CLIENT, persistence) for priority in priorities]
    if isinstance(found, QueueTarget):
        priorities = found.priorities or (DELIVER_ALWAYS,)
        return [(found.name, text, priority, DestinationType.QUEUE, Persistence.PERSISTENT) for priority in priorities]
    shared = _shared_text(found.name, found.key[1])
    rows = [_of_member(member, shared) for member in found.members.values()]
    if found.queue is not None:
        rows.append(_of_queue(found.queue, shared))
    return rows


def _shared_text(share_name: str, topic_filter: TopicFilter) -> str:
    shared = f"{SHARE}{share_name}/{_shown(topic_filter).removeprefix(NO_EXPORT)}"
    return NO_EXPORT + shared if topic_filter.is_local else shared


def _of_member(member: Subscriber, shared: str) -> Row:
    return (member.client, shared, DELIVER_ALWAYS, DestinationType.CLIENT, Persistence.NON_PERSISTENT)


def _exceptions_of(target: QueueTarget) -> list[Row]:
    return [_of_queue(target, f"!{each.text}") for each in target.exceptions]


def rows_of_client(
    session: Session | None,
    queues: Iterable[QueueTarget],
    made: Iterable[MadeSubscription],
    question: SubscriptionsQuery,
) -> tuple[int, list[Row]]:
    """Return how many subscriptions of a client match a query, and the page of them, by subscription.

    `made` are those of its connections in the flow protocol. `queues` are those that collect messages for this client
    alone: their subscriptions are its own. Those of others, of which a message VPN may have a million, are not looked
    at.
    """
    rows: list[Row] = []
    for target in queues:
        for topic_filter in target.topic_filters:
            rows += _rows_of_one(_shown(topic_filter), target)
        rows += _exceptions_of(target)
    if session is not None and session.subscriber is not None:
        rows += _rows_of_session(session, session.subscriber)
    for each in made:
        rows += _rows_of_made(each)
    text = name_pattern(question.topic_str)
    chosen = sorted([row for row in rows if text.fullmatch(row[1])], key=lambda row: row[1:])
    return len(chosen), chosen[question.after : question.after + question.limit]


def _rows_of_session(session: Session, subscriber: Subscriber) -> list[Row]:
    rows: list[Row] = []
    for granted in session.table.by_filter.values():
        priorities = (DELIVER_ALWAYS,) if granted.topic_filter.is_everything() else granted.priorities
        subscription = Subscription(subscriber, granted.qos, granted.selector, priorities)
        rows += _rows_of_one(_shown(granted.topic_filter), subscription)
    for group in subscriber.groups or ():
        rows.append(_of_member(subscriber, _shared_text(group.name, group.key[1])))
    return rows


def _rows_of_made(made: MadeSubscription) -> list[Row]:
    found, subscription = made
    if isinstance(found, SharedFilter):
        return [_of_member(subscription.subscriber, _shared_text(found.share_name, found.filter))]
    if found.is_everything():
        subscription = Subscription(subscription.subscriber, subscription.qos, None, (DELIVER_ALWAYS,))
    return _rows_of_one(_shown(found), subscription)


def _shown(topic_filter: TopicFilter) -> str:
    """Return the text of a filter as the index of subscriptions gives it."""
    text = filter_of(topic_filter.levels).text
    return NO_EXPORT + text if topic_filter.is_local else text


Options = GrantedSubscription | ExtraSubscription  # of a subscription of MQTT


Place = tuple[str, str, str]  # whose subscription it is, share name (empty: none), filter


def options_in(session: Session | None) -> dict[Place, Options]:
    """Return the options of the subscriptions of a session."""
    options: dict[Place, Options] = {}
    if session is not None and session.subscriber is not None:
        client = session.subscriber.client
        for granted in session.table.by_filter.values():
            options[client, "", granted.topic_filter.text] = granted
        for extra in session.shares.values():
            shared = parse_shared(extra.filter_text, Syntax.MQTT)
            assert shared is not None, "only valid filters are kept"
            options[client, shared.share_name, shared.filter.text] = extra
    return options


def selectors_in(made: Iterable[MadeSubscription]) -> dict[Place, str]:
    """Return the selectors of subscriptions in the flow protocol. Shared ones have none."""
    found = {}
    for topic_filter, subscription in made:
        if subscription.selector is not None and isinstance(topic_filter, TopicFilter):
            found[subscription.subscriber.client, "", _shown(topic_filter)] = subscription.selector.text
    return found


def client_subscription(
    row: Row, options: Mapping[Place, Options], selectors: Mapping[Place, str]
) -> ClientSubscriptionView:
    """Return a subscription of a client, with the options that its MQTT session has for it, or its selector."""
    destination, text, priority, destination_type, _ = row
    prefix = NO_EXPORT if text.startswith(NO_EXPORT) else ""
    share_name, topic = "", text
    if text.startswith(prefix + SHARE):
        share_name, _, topic = text[len(prefix + SHARE) :].partition("/")
        topic = prefix + topic
    place = (destination, share_name, topic)
    known = options.get(place) if destination_type is DestinationType.CLIENT else None
    granted = known if isinstance(known, GrantedSubscription) else None
    return ClientSubscriptionView(
        subscription=text,
        topic=topic,
        share_name=share_name or None,
        queue=destination if destination_type is DestinationType.QUEUE else None,
        dto_priority=priority_text(priority),
        qos=None if known is None else known.qos,
        no_local=None if granted is None else granted.no_local,
        retain_as_published=None if known is None else known.retain_as_published,
        retain_handling=None if granted is None else granted.retain_handling,
        identifier=(known.identifier or None) if known is not None else None,
        selector=known.selector.text if known is not None and known.selector is not None else selectors.get(place),
    )


def _of_neighbors(space: TopicSpace, question: SmrpQuery) -> list[Row]:
    """Return a row for each interest of a neighbor broker."""
    rows: list[Row] = []
    for output, interest in space.neighbors.entries() if space.neighbors is not None else ():
        if output.neighbor in question.without:
            continue
        if question.topic and not matches(interest.filter(), question.topic):
            continue
        text = interest.topic_filter
        if interest.kind == InterestKind.SHARED:
            text = f"{SHARE}{interest.group}/{text}"
        elif interest.kind == InterestKind.QUEUE:
            text = f"#P2P/QUE/{text}"
        rows.append((output.neighbor, text, interest.priority, DestinationType.NEIGHBOR, Persistence.NON_PERSISTENT))
    return rows


def _of_queue(target: QueueTarget, text: str) -> Row:
    """Return the row of a queue, which is always deliver-always."""
    return (target.name, text, DELIVER_ALWAYS, DestinationType.QUEUE, Persistence.PERSISTENT)


def answer(
    rows: list[Row], question: SmrpQuery, vpn: str = DEFAULT_VPN, *, exported: bool = False
) -> SmrpSubscriptionsView:
    """Return the page of rows that a query selects. Tens of thousands of rows take long: run it off the event loop."""
    destination, text = name_pattern(question.destination_name), name_pattern(question.topic_str)
    chosen = sorted(row for row in rows if destination.fullmatch(row[0]) and text.fullmatch(row[1]))
    page = chosen[question.after : question.after + question.limit]
    views = tuple(_view(row) for row in page)
    return SmrpSubscriptionsView(vpn_name=vpn, exported=exported, total_count=len(chosen), subscriptions=views)


def _view(row: Row) -> SmrpSubscriptionView:
    name, text, priority, destination_type, persistence = row
    return SmrpSubscriptionView(
        destination_name=name,
        destination_type=destination_type,
        persistence=persistence,
        redundancy=Redundancy.NOT_APPLICABLE if destination_type is DestinationType.NEIGHBOR else Redundancy.PRIMARY,
        dto_priority=priority_text(priority),
        subscription=text,
    )
