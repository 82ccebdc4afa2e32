"""Requests to the router: subscribe clients and queues, join and leave shared groups, define virtual destinations.

Any actor may send them.
"""

from dataclasses import dataclass
from typing import final

from sluicegate.actors.messages.directory import QueueHandle
from sluicegate.messaging.routing.destinations import QueueTarget, ShareGroup, Subscriber
from sluicegate.messaging.routing.retained_messages import RetainedMessage
from sluicegate.messaging.routing.virtual.definitions import VirtualDestinations
from sluicegate.messaging.selectors.durable import CacheRules
from sluicegate.messaging.selectors.selector import Selector
from sluicegate.messaging.topics.retained import RetainedScan
from sluicegate.messaging.topics.syntax import TopicFilter


@final
class AddSubscription:
    """Ask of the router: subscribe a client. Answered with SubscriptionAdded."""

    __slots__ = (
        *("priorities", "qos", "retained_if_known", "retained_if_new"),
        *("selector", "subscriber", "topic_filter"),
    )

    def __init__(
        self,
        subscriber: Subscriber,
        topic_filter: TopicFilter,
        qos: int,
        *,
        retained_if_new: bool,
        retained_if_known: bool,
        selector: Selector | None = None,
        priorities: tuple[int, ...] = (),
    ) -> None:
        self.subscriber = subscriber
        self.topic_filter = topic_filter
        self.qos = qos
        self.retained_if_new = retained_if_new  # bring the retained messages when the subscription is new
        self.retained_if_known = retained_if_known  # and when it replaces one
        self.selector = selector  # None: every message
        self.priorities = priorities  # for Deliver-To-One, as Subscription.priorities

    def wants_retained(self, new: bool) -> bool:
        """Return whether the answer is to bring the retained messages."""
        return self.retained_if_new if new else self.retained_if_known


@final
class SubscriptionAdded:
    """The subscription is in force. `retained` finds the retained messages, if they are wanted."""

    __slots__ = ("new", "retained")

    def __init__(self, new: bool, retained: RetainedScan[RetainedMessage] | None) -> None:
        self.new = new
        self.retained = retained


@dataclass(slots=True)
class RemoveSubscription:
    """Ask of the router: end a client's subscription. Answered with whether there was one."""

    subscriber: Subscriber
    topic_filter: TopicFilter


@dataclass(slots=True)
class SetQueueTopics:
    """Directory -> router: the topics that a queue attracts are now these, and those excepted; none when it ends."""

    target: QueueTarget
    topic_filters: list[TopicFilter]
    exceptions: list[TopicFilter]
    selector: str = ""  # what it takes of their messages; empty: everything


@dataclass(slots=True)
class JoinGroup:
    """Ask of the router: make a client a member of a shared group. GroupJoined answers, or ShareRefused is raised.

    Filters of both syntaxes that match alike are one group.
    """

    subscriber: Subscriber
    share_name: str
    topic_filter: TopicFilter
    qos: int
    durable: bool
    partition_count: int = 0  # of its queue, which the first who wants guaranteed messages makes; 0: as it is
    from_queue: bool = False  # direct messages that are its turn come by the queue, too; with a QoS above 0


class ShareRefused(Exception):
    """A client cannot be a member of a shared group as it wants. The text says why."""


@dataclass(slots=True)
class GroupJoined:
    """The client is a member. `queue` is where its guaranteed messages come from; None when it asked for none."""

    group: ShareGroup
    queue: QueueHandle | None


@dataclass(slots=True)
class LeaveGroup:
    """Ask of the router: end a membership. Answered with whether there was one."""

    subscriber: Subscriber
    share_name: str
    topic_filter: TopicFilter


@dataclass(slots=True)
class DefineVirtualDestinations:
    """Ask of the router: from now on these definitions hold, and no others. Answered with None."""

    definitions: VirtualDestinations
    rules: CacheRules


@dataclass(slots=True)
class ConsumersChanged:
    """Ask of the router: these are a queue's consumers now, and what each selects; nothing is everything.

    Answered with None, when messages come into the queue by that.
    """

    target: QueueTarget
    consumers: list[tuple[str, str]]  # client and selector of each flow


@dataclass(slots=True)
class ListSelectors:
    """Ask of the router; answered with a list of SelectorOverview, by queue and subscriber."""


@dataclass(slots=True)
class SelectorOverview:
    """The durable selectors of one subscriber."""

    queue: str
    subscriber: str
    selectors: list[str]  # an empty one: everything
    seen_ms: int  # wall clock


@dataclass(slots=True)
class PutSelector:
    """Ask of the router: a subscriber of a queue selects this, also while it is away; None: forget it.

    Answered with whether there is such a queue and, to be forgotten, such a subscriber; once the store knows.
    """

    queue: str
    subscriber: str
    selectors: list[str] | None
