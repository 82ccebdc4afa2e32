"""The rows of `show smrp subscriptions`: listed from a topic space, then selected and paged."""

from sluicegate.gateway.views.subscriptions import (
    DestinationType,
    Persistence,
    SmrpQuery,
    SmrpSubscriptionsView,
    SmrpSubscriptionView,
)
from sluicegate.gateway.views.text import name_pattern
from sluicegate.messaging.message.vpn import DEFAULT_VPN
from sluicegate.messaging.routing.deliver_to_one import priority_text
from sluicegate.messaging.routing.destinations import DELIVER_ALWAYS, QueueTarget, Subscription
from sluicegate.messaging.routing.routes import TopicSpace

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
            shared = f"#share/{found.name}/{text}"
            for member in found.members.values():
                rows.append((member.client, shared, DELIVER_ALWAYS, DestinationType.CLIENT, Persistence.NON_PERSISTENT))
            if found.queue is not None:
                rows.append(_of_queue(found.queue, shared))
    rows += [_of_queue(target, f"!{each.text}") for target in excepting for each in target.exceptions]
    return rows


def _of_queue(target: QueueTarget, text: str) -> Row:
    """Return the row of a queue, which is always deliver-always."""
    return (target.name, text, DELIVER_ALWAYS, DestinationType.QUEUE, Persistence.PERSISTENT)


def answer(rows: list[Row], question: SmrpQuery, vpn: str = DEFAULT_VPN) -> SmrpSubscriptionsView:
    """Return the page of rows that a query selects. Tens of thousands of rows take long: run it off the event loop."""
    destination, text = name_pattern(question.destination_name), name_pattern(question.topic_str)
    chosen = sorted(row for row in rows if destination.fullmatch(row[0]) and text.fullmatch(row[1]))
    page = chosen[question.after : question.after + question.limit]
    return SmrpSubscriptionsView(vpn_name=vpn, total_count=len(chosen), subscriptions=tuple(_view(row) for row in page))


def _view(row: Row) -> SmrpSubscriptionView:
    name, text, priority, destination_type, persistence = row
    return SmrpSubscriptionView(
        destination_name=name,
        destination_type=destination_type,
        persistence=persistence,
        dto_priority=priority_text(priority),
        subscription=text,
    )
