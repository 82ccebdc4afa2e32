"""The subscriptions of a message VPN, as Solace's `show smrp subscriptions` has them: a row for each, by destination.

Filters stand in MQTT's words where both syntaxes mean one. A node has no neighbours: nothing is exported, every
destination is local, and there are no blocks of remote subscriptions.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from gateway.name_patterns import name_pattern
from messaging.deliver_to_one import priority_text
from messaging.message_vpn import DEFAULT_VPN
from messaging.routing import DELIVER_ALWAYS, QueueTarget, Subscription, TopicSpace

ROWS_MAX: Final = 10_000  # of one answer
ROWS_DEFAULT: Final = 1_000


class DestinationType(StrEnum):
    """Column T."""

    CLIENT = "C"
    QUEUE = "Q"


class Persistence(StrEnum):
    """Column P: whether what comes by the subscription is spooled."""

    PERSISTENT = "P"
    NON_PERSISTENT = "N"


class Redundancy(StrEnum):
    """Column R: of which of a pair of brokers the destination is."""

    PRIMARY = "P"


@dataclass(frozen=True, slots=True, kw_only=True)
class SmrpSubscriptionView:
    """One row."""

    destination_name: str  # a client, or a queue
    destination_type: DestinationType
    persistence: Persistence
    redundancy: Redundancy = Redundancy.PRIMARY
    block_id: int | None = None  # of remote subscriptions only
    dto_priority: str  # P1 to P4, or DA
    subscription: str  # with #share/NAME/ or ! before it


@dataclass(frozen=True, slots=True, kw_only=True)
class SmrpSubscriptionsView:
    """One page of rows, with the line above them."""

    vpn_name: str
    exported: bool = False  # to other nodes
    complete_percent: int = 100
    total_count: int  # of rows that were asked for, on this page or not
    subscriptions: tuple[SmrpSubscriptionView, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SmrpQuestion:
    """Which rows somebody wants. In patterns `*` stands for any characters, `?` for one; an empty one is for all."""

    vpn_name: str = ""  # pattern
    destination_name: str = ""  # pattern
    topic: str = ""  # only what matches messages on this topic
    topic_str: str = ""  # pattern of the subscription
    after: int = 0  # rows to pass over
    limit: int = ROWS_DEFAULT


Row = tuple[str, str, int, DestinationType, Persistence]  # destination, subscription, priority


def rows_of(space: TopicSpace, question: SmrpQuestion, vpn: str = DEFAULT_VPN) -> list[Row]:
    """Return a row for each subscription, as of one moment; not yet chosen by name or text."""
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
            for name in found.members:
                rows.append((name, shared, DELIVER_ALWAYS, DestinationType.CLIENT, Persistence.NON_PERSISTENT))
            if found.queue is not None:
                rows.append(_of_queue(found.queue, shared))
    rows += [_of_queue(target, f"!{each.text}") for target in excepting for each in target.exceptions]
    return rows


def _of_queue(target: QueueTarget, text: str) -> Row:
    """Return the row of a queue, which always gets what it subscribes to."""
    return (target.name, text, DELIVER_ALWAYS, DestinationType.QUEUE, Persistence.PERSISTENT)


def answer(rows: list[Row], question: SmrpQuestion, vpn: str = DEFAULT_VPN) -> SmrpSubscriptionsView:
    """Return the page of rows that the question is for. Ten thousands of rows take long: not for the event loop."""
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
