"""Requests to the router: subscribe clients and queues, join and leave shared groups, define virtual destinations.

Any actor may send them.
"""

from dataclasses import dataclass
from typing import final

from sluicegate.actors.messages.directory import LocalQueue
from sluicegate.messaging.network.interest import Change
from sluicegate.messaging.network.link import LinkOutput
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
        self.retained_if_new = retained_if_new  # return the retained messages when the subscription is new
        self.retained_if_known = retained_if_known  # return them also when it replaces one
        self.selector = selector  # None: every message
        self.priorities = priorities  # for Deliver-To-One, as Subscription.priorities

    def wants_retained(self, new: bool) -> bool:
        """Return whether the answer has to include the retained messages."""
        return self.retained_if_new if new else self.retained_if_known


@final
class SubscriptionAdded:
    """The subscription is in force. `retained` scans the retained messages, if they are wanted."""

    __slots__ = ("new", "retained", "travels")

    def __init__(self, new: bool, retained: RetainedScan[RetainedMessage] | None, *, travels: bool) -> None:
        self.new = new
        self.retained = retained
        self.travels = travels  # neighbor brokers are told: AwaitNeighbors


@dataclass(slots=True)
class RemoveSubscription:
    """Ask of the router: end a client's subscription. Answered with whether it existed."""

    subscriber: Subscriber
    topic_filter: TopicFilter


@dataclass(slots=True)
class SetQueueTopics:
    """Directory -> router: set the topics of a queue and its exceptions; none when it ends.

    Answered with None when they are in force, and neighbor brokers know them, as for AwaitNeighbors.
    """

    target: QueueTarget
    topic_filters: list[TopicFilter]
    exceptions: list[TopicFilter]
    selector: str = ""  # selects among the messages of its topics; empty: everything


@final
class QueueFactsChanged:
    """Queue -> router: what neighbor brokers are told of a queue has changed."""

    def __init__(self, target: QueueTarget) -> None:
        self.target = target


@dataclass(slots=True)
class JoinGroup:
    """Ask of the router: add a client to a shared group. GroupJoined answers, or ShareRefused is raised.

    Filters of both syntaxes that match the same topics are one group.
    """

    subscriber: Subscriber
    share_name: str
    topic_filter: TopicFilter
    qos: int
    durable: bool
    partition_count: int = 0  # of its queue, which the first member with guaranteed messages creates; 0: as it is
    from_queue: bool = False  # its direct messages come through the queue as well; with a QoS above 0


class ShareRefused(Exception):
    """A client cannot join a shared group as requested. The text says why."""


@dataclass(slots=True)
class GroupJoined:
    """The client is a member. `queue` is where its guaranteed messages come from; None when it asked for none."""

    group: ShareGroup
    queue: LocalQueue | None
    travels: bool  # neighbor brokers are told: AwaitNeighbors


@dataclass(slots=True)
class LeaveGroup:
    """Ask of the router: end a membership. Answered with whether it existed."""

    subscriber: Subscriber
    share_name: str
    topic_filter: TopicFilter


@dataclass(slots=True)
class DefineVirtualDestinations:
    """Ask of the router: apply these definitions, and no others. Answered with None."""

    definitions: VirtualDestinations
    rules: CacheRules


@dataclass(slots=True)
class ConsumersChanged:
    """Ask of the router: set a queue's consumers and their selectors; an empty selector is everything.

    Answered with None when messages enter the queue accordingly.
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
    """Ask of the router: set a subscriber's selector for a queue, also while it is disconnected; None: forget it.

    Answered, when stored, with whether the queue exists and, to be forgotten, the subscriber.
    """

    queue: str
    subscriber: str
    selectors: list[str] | None


@dataclass(slots=True)
class TakeSelectors:
    """Ask of the router: have these durable selectors for a queue that is about to have its home here.

    Each is a subscriber, its selectors, and when it was seen (wall clock). They take the place of those that are known.
    Answered with True, when stored. Raises SelectorError.
    """

    target: QueueTarget
    selectors: list[tuple[str, list[str], int]]


@dataclass(slots=True)
class AwaitNeighbors:
    """Ask of the router; answered with None when neighbor brokers know all that was subscribed before.

    Neighbors that are away are not waited for, and others no longer than their link allows.
    """


@dataclass(slots=True)
class ChangeNeighborInterest:
    """Ask of the router: change what a neighbor broker wants. Answered with None when it is in force."""

    link: LinkOutput
    change: Change


@dataclass(slots=True)
class NeighborGone:
    """Ask of the router: forget what a neighbor broker wants. Answered with None when it is in force."""

    link: LinkOutput


@dataclass(slots=True)
class NeighborPresenceChanged:
    """Tell the router: `LinkOutput.is_up` of a neighbor broker has changed."""

    link: LinkOutput
