"""The rows of `show smrp subscriptions`: listed from a topic space, then selected and paged."""

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
from sluicegate.messaging.routing.destinations import DELIVER_ALWAYS, QueueTarget, Subscription
from sluicegate.messaging.routing.routes import TopicSpace
from sluicegate.messaging.topics.syntax import NO_EXPORT, matches

Row = tuple[str, str, int, DestinationType, Persistence]  # destination, subscription, priority


def rows_of(space: TopicSpace, question: SmrpQuery, vpn: str = DEFAULT_VPN) -> list[Row]:
    """Return a row for each subscription at this moment, before rows are selected by name or text."""
    if not name_pattern(question.vpn_name).fullmatch(vpn):
        return []
    rows: list[Row] = []
    excepting: dict[QueueTarget, None] = {}
    for text, found in space.trace(question.topic) if question.topic else space.entries():
        if isinstance(found, Subscription):
            persistence = Persistence.PERSISTENT if found.qos else Persistence.NON_PERSISTENT
            client = found.subscriber
            for priority in found.priorities or (client.priority,):
                rows.append((client.client, text, priority, DestinationType.CLIENT, persistence))
        elif isinstance(found, QueueTarget):
            for priority in found.priorities or (DELIVER_ALWAYS,):
                rows.append((found.name, text, priority, DestinationType.QUEUE, Persistence.PERSISTENT))
            excepting[found] = None
        else:
            shared = f"#share/{found.name}/{text.removeprefix(NO_EXPORT)}"
            if found.key[1].is_local:
                shared = NO_EXPORT + shared
            for member in found.members.values():
                rows.append((member.client, shared, DELIVER_ALWAYS, DestinationType.CLIENT, Persistence.NON_PERSISTENT))
            if found.queue is not None:
                rows.append(_of_queue(found.queue, shared))
    rows += [_of_queue(target, f"!{each.text}") for target in excepting for each in target.exceptions]
    return rows + _of_neighbors(space, question)


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
            text = f"#share/{interest.group}/{text}"
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
