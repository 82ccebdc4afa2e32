"""Views of the subscriptions of a message VPN, as Solace's `show smrp subscriptions` has them: a row for each.

Filters of local destinations are written in MQTT syntax where both syntaxes mean the same, those of neighbor brokers as
they travel. There are no blocks of remote subscriptions.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

ROWS_MAX: Final = 10_000  # of one answer
ROWS_DEFAULT: Final = 1_000


class DestinationType(StrEnum):
    """Column T: the type of the destination."""

    CLIENT = "C"
    QUEUE = "Q"
    NEIGHBOR = "R"


class Persistence(StrEnum):
    """Column P: whether messages that match the subscription are spooled."""

    PERSISTENT = "P"
    NON_PERSISTENT = "N"


class Redundancy(StrEnum):
    """Column R: the broker of a redundant pair that has the destination."""

    PRIMARY = "P"
    NOT_APPLICABLE = "-"  # it is another broker's


@dataclass(frozen=True, slots=True, kw_only=True)
class SmrpSubscriptionView:
    """A subscription of a client or queue, or what a neighbor broker wants: one row."""

    destination_name: str  # a client, a queue, or a neighbor broker
    destination_type: DestinationType
    persistence: Persistence
    redundancy: Redundancy = Redundancy.PRIMARY
    block_id: int | None = None  # of remote subscriptions only
    dto_priority: str  # P1 to P4, or DA
    subscription: str  # with #share/NAME/ or ! before it


@dataclass(frozen=True, slots=True, kw_only=True)
class SmrpSubscriptionsView:
    """A page of rows, with the line above them."""

    vpn_name: str
    exported: bool = False  # to other brokers
    complete_percent: int = 100
    total_count: int  # of rows that were asked for, on this page or not
    subscriptions: tuple[SmrpSubscriptionView, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SmrpQuery:
    """Which rows to return. In patterns `*` stands for any characters, `?` for one; an empty one is for all."""

    vpn_name: str = ""  # pattern
    destination_name: str = ""  # pattern
    topic: str = ""  # only what matches messages on this topic
    topic_str: str = ""  # pattern of the subscription
    without: tuple[str, ...] = ()  # neighbor brokers whose rows are left out
    after: int = 0  # rows to pass over
    limit: int = ROWS_DEFAULT
