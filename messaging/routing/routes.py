"""Topic space: who gets a message on a topic.

It joins the subscription index with what stands behind a subscription, `messaging.routing.destinations`. Routes are
resolved once per topic and kept until a subscription changes. The router actor changes the space; everybody who
publishes on this node's loop reads it. What virtual and composite destinations add to a topic's route is made by a
`TopicExpander`, `messaging.routing.virtual.resolver`; without one, or with nothing to add, routes are what they are
without.
"""

from collections.abc import Hashable, Mapping
from typing import Final, NamedTuple, final

from sluicegate.messaging.message.batch import MessageBatch
from sluicegate.messaging.message.headers import NativeFields, UserPropertyValue
from sluicegate.messaging.message.usage import selector_bytes, share_bytes
from sluicegate.messaging.message.vpn import DEFAULT_VPN, row_prefix
from sluicegate.messaging.observability.tracing import Tracing
from sluicegate.messaging.routing.destinations import (
    DELIVER_ALWAYS,
    Destination,
    QueueTarget,
    ShareGroup,
    Subscriber,
    Subscription,
)
from sluicegate.messaging.routing.retained_messages import RetainedMessages
from sluicegate.messaging.selectors.selector import Selector
from sluicegate.messaging.topics.subscription_index import SubscriptionIndex, subscription_bytes
from sluicegate.messaging.topics.syntax import TOPIC_REMEMBERED_CHARACTERS_MAX, TopicFilter

# What definitions of virtual destinations add to a route: copies under other topics, and what a refusal means.
#
# Routes themselves are `messaging.routing.routes`; how they come to have this, `messaging.routing.virtual.resolver`.


@final
class Forwarding:
    """How a message goes out that definitions send on: what else a publisher has to know of a route. Immutable."""

    __slots__ = (
        "copies",
        "is_concurrent",
        "is_nowhere",
        "is_partial",
        "lost",
        "missing",
        "spared",
        "unmatched_count",
    )

    def __init__(
        self,
        copies: "list[Copy]",
        spared: "dict[QueueTarget, None]",
        missing: list[str],
        lost: list[str],
        *,
        is_partial: bool,
        is_concurrent: bool,
        is_nowhere: bool,
    ) -> None:
        self.copies = copies  # what goes out under topics of its own
        self.spared = spared  # queues that go without when they refuse
        self.missing = missing  # target queues that there are not: the message is refused
        self.lost = lost  # and those that go without
        self.is_partial = is_partial  # what queues took before one refused stays theirs
        self.is_concurrent = is_concurrent  # then also what queues take behind that one
        self.is_nowhere = is_nowhere  # its definitions' selectors leave the message nobody
        self.unmatched_count = sum([copy.route.is_empty for copy in copies])  # copies that nobody subscribes to


@final
class Copy:
    """A message under another topic: what definitions make of it, and who gets that."""

    __slots__ = ("marks", "route", "topic")

    def __init__(self, topic: str, marks: list[tuple[str, UserPropertyValue]], route: "Route") -> None:
        self.topic = topic
        self.marks = marks  # user properties that it has beyond the message's own
        self.route = route


class Way(NamedTuple):
    """A step on the way of a message that a definition sends on, or would, for explanations."""

    topic: str  # where it leads; a queue's own topic for a queue
    definition: str  # in words
    obstacle: str  # why this message does not go there; empty: it does
    condition: str  # which messages do; empty: all
    spares: bool  # a queue that refuses goes without


NO_FORMS: Final[dict[int, NativeFields]] = {}
CHOICES_CACHED_MAX: Final = 256  # of one topic
ROUTES_CACHED_MAX: Final = 65_536  # topics; the whole cache goes when it is full, or when a subscription changes
PLACES_CACHED_MAX: Final = 1 << 22  # in their routes, where thousands may stand in each: some 32 MiB


@final
class Route:
    """Everybody who gets the messages of one topic. Immutable; each subscriber, queue and group stands here once.

    Where somebody selects among the messages, or copies are made of them, it is nobody's route: `choices` has that of
    each message.
    """

    __slots__ = (
        "choices",
        "direct",
        "forwarding",
        "groups",
        "guaranteed",
        "is_empty",
        "only_queue",
        "places_count",
        "queues",
        "takers",
    )

    def __init__(
        self,
        direct: list[Subscriber],
        guaranteed: list[Subscriber],
        queues: list[QueueTarget],
        groups: list[ShareGroup],
        choices: "RouteChoices | None" = None,
        forwarding: Forwarding | None = None,
    ) -> None:
        self.choices = choices  # None: it is the same for all messages
        self.forwarding = forwarding  # None: no definition sends on what comes this way
        self.direct = direct  # clients that subscribed for direct messages only
        self.guaranteed = guaranteed  # clients that get guaranteed messages through their queue
        self.queues = queues  # named queues that subscribe to the topic
        self.groups = groups
        self.takers = [queue.turns for queue in queues if queue.turns is not None]  # places of queues that take turns
        self.is_empty = not (direct or guaranteed or queues or groups or choices is not None or forwarding is not None)
        self.places_count = len(direct) + len(guaranteed) + len(queues) + len(groups)  # what keeping it costs
        if choices is not None:
            self.places_count += choices.places_count()
        if forwarding is not None:
            self.places_count += sum([copy.route.places_count for copy in forwarding.copies])
        # Where a guaranteed message goes when nobody else gets it: what most topics have.
        self.only_queue: QueueTarget | None = None
        if not direct and not groups and forwarding is None and len(guaranteed) + len(queues) == 1:
            self.only_queue = queues[0] if queues else guaranteed[0].queue

    def all_queues(self) -> list[QueueTarget]:
        """Return every queue that a guaranteed message goes into, those of its copies too, each once."""
        found = dict.fromkeys(self.queues)
        for subscriber in self.guaranteed:
            if subscriber.queue is not None:
                found[subscriber.queue] = None
        for group in self.groups:
            if group.queue is not None:
                found[group.queue] = None
        if self.forwarding is not None:
            for copy in self.forwarding.copies:
                found.update(dict.fromkeys(copy.route.all_queues()))
        return list(found)

    def __repr__(self) -> str:
        return f"Route(direct={self.direct}, guaranteed={self.guaranteed}, queues={self.queues}, groups={self.groups})"


@final
class Matches:
    """The subscriptions that match one topic, by what stands behind them."""

    __slots__ = ("granted", "groups", "queues", "selecting")

    def __init__(self) -> None:
        self.granted: dict[Subscriber, int] = {}  # by subscriptions without a selector
        self.selecting: list[Subscription | QueueTarget] = []  # not among the others
        self.queues: dict[QueueTarget, None] = {}
        self.groups: dict[ShareGroup, None] = {}

    def places_count(self) -> int:
        """Return how many places a route may have for them."""
        return len(self.granted) + len(self.selecting) + len(self.queues) + len(self.groups)


class RouteChoices:
    """The routes of a topic whose messages do not all go the same way: one for each set of selectors that one meets."""

    def __init__(self) -> None:
        self._selectors: dict[Selector, int] = {}  # each once, with its place
        self._routes: dict[int, Route] = {}

    def bit_of(self, selector: Selector) -> int:
        """Return the bit of a selector in the sets that `made` is asked for."""
        return 1 << self._selectors.setdefault(selector, len(self._selectors))

    def met_by(self, batch: MessageBatch, row: int) -> int:
        """Return the selectors that the message in a row of a batch meets."""
        met = 0
        for selector, place in self._selectors.items():
            if selector.matches(batch, row):
                met |= 1 << place
        return met

    def route(self, batch: MessageBatch, row: int) -> Route:
        """Return who gets the message in a row of a batch."""
        met = self.met_by(batch, row)
        route = self._routes.get(met)
        if route is None:
            if len(self._routes) >= CHOICES_CACHED_MAX:
                self._routes.clear()
            route = self._routes[met] = self.made(met)
        return route

    def places_count(self) -> int:
        """Return how many places there may be in the routes that are kept, of which each has so many of selectors."""
        routes_count = CHOICES_CACHED_MAX if len(self._selectors) > 8 else 1 << len(self._selectors)
        return routes_count * (1 + len(self._selectors) + self.others_count())

    def others_count(self) -> int:
        """Return how many places each route may have beside those of its selectors."""
        return 0

    def made(self, met: int) -> Route:
        """Return the route of messages that meet exactly these selectors."""
        raise AssertionError("choices are between routes")


@final
class SelectingChoices(RouteChoices):
    """The routes of a topic where subscriptions have selectors."""

    def __init__(self, matches: Matches) -> None:
        super().__init__()
        self._matches = matches
        self._asking: list[tuple[int, Subscription | QueueTarget]] = []  # each with the bit of its selector
        for found in matches.selecting:
            assert found.selector is not None, "it selects"
            self._asking.append((self.bit_of(found.selector), found))

    def others_count(self) -> int:
        """Return how many there are that do not select, or have a selector that another has too."""
        return self._matches.places_count()

    def made(self, met: int) -> Route:
        """Return the route of messages that meet exactly these selectors."""
        granted = dict(self._matches.granted)
        queues = dict(self._matches.queues)
        for bit, found in self._asking:
            if not met & bit:
                continue
            if isinstance(found, QueueTarget):
                queues[found] = None
            elif found.qos > granted.get(found.subscriber, -1):
                granted[found.subscriber] = found.qos
        return route_to(granted, queues, self._matches.groups)


class TopicExpander:
    """What definitions add to the route of a topic. A class and no protocol, as `Address` is."""

    def expanded(self, topic: str, matches: Matches) -> Route | None:
        """Return the route of a topic that these subscriptions match; None when no definition has a say in it."""
        raise AssertionError("an expander has definitions")

    def ways(self, topic: str, batch: MessageBatch, row: int) -> tuple[list[Way], str]:
        """Return where definitions send a message on from a topic, and what keeps it from the topic's subscribers."""
        raise AssertionError("an expander has definitions")


@final
class TopicSpace:
    """The subscriptions and retained messages of one message VPN."""

    def __init__(self, natives: Mapping[int, NativeFields] = NO_FORMS, vpn: str = DEFAULT_VPN) -> None:
        self.row_prefix = row_prefix(vpn)  # before the keys of what is stored of it
        self.natives = natives  # by `Headers.native_format`, of forms in which copies of messages have to be marked
        self.retained = RetainedMessages()
        self.refuses_unmatched = False  # guaranteed messages that nobody subscribes to
        self.offline_count = 0  # direct messages dropped because their client, or their whole group, was away
        self.unmatched_count = 0  # messages dropped because nobody subscribes to their topic
        self.unmatched_refused_count = 0  # and refused
        self.selects = False  # some topic has, or had, a route that is not the same for all of a publisher's messages
        self.generation = 0  # rises with every change of a subscription
        self.turns_count = 0  # Deliver-To-One messages for which a client was chosen
        self.filtered_count = 0  # messages that a definition sends on, and whose selectors leave them nobody
        self.missing_count = 0  # messages for target queues that there are not, refused or not
        self.expander: TopicExpander | None = None  # changed by `expand_with`
        self.tracing: Tracing | None = None  # None: no message is traced
        self.subscriptions_bytes = 0  # that they, and members of groups, count for
        self._selectors_bytes: dict[tuple[TopicFilter, Hashable], int] = {}  # of subscriptions that have one
        self._index: SubscriptionIndex[Destination] = SubscriptionIndex()
        self._routes: dict[str, Route] = {}
        self._places_count = 0  # in them

    @property
    def subscriptions_count(self) -> int:
        """How many subscriptions there are, of clients, queues and groups."""
        return self._index.count

    def subscribe(self, topic_filter: TopicFilter, key: Hashable, destination: Destination) -> bool:
        """Add or replace a subscription; return whether it is new."""
        self._changed()
        selector: Selector | None = None
        if isinstance(destination, Subscription):
            selector = destination.selector
            if topic_filter.is_everything():  # who subscribes to that looks on, and has no turns
                destination.priorities = (DELIVER_ALWAYS,)
        elif isinstance(destination, QueueTarget):
            selector = destination.selector
        self._count_selector((topic_filter, key), selector)
        is_new = self._index.add(topic_filter, key, destination)
        if is_new:
            self.subscriptions_bytes += subscription_bytes(topic_filter)
        return is_new

    def unsubscribe(self, topic_filter: TopicFilter, key: Hashable) -> bool:
        """Remove a subscription; return whether there was one."""
        self._changed()
        was_there = self._index.discard(topic_filter, key)
        if was_there:
            self.subscriptions_bytes -= subscription_bytes(topic_filter)
            self._count_selector((topic_filter, key), None)
        return was_there

    def count_member(self, share_name: str, topic_filter: TopicFilter, *, joins: bool) -> None:
        """Count a member of a group, or one that leaves: the group itself is one subscription, however many it has."""
        size = subscription_bytes(topic_filter) + share_bytes(share_name)
        self.subscriptions_bytes += size if joins else -size

    def _count_selector(self, place: tuple[TopicFilter, Hashable], selector: Selector | None) -> None:
        if self._selectors_bytes:
            self.subscriptions_bytes -= self._selectors_bytes.pop(place, 0)
        if selector is not None:
            self.selects = True
            size = self._selectors_bytes[place] = selector_bytes(selector.text)
            self.subscriptions_bytes += size

    def expand_with(self, expander: TopicExpander | None) -> None:
        """Resolve all routes anew, with what these definitions add; told again when a queue makes them mean more."""
        self._changed()
        self.expander = expander

    def route(self, topic: str) -> Route:
        """Return who gets messages on a topic: with `choices`, who may get them."""
        route = self._routes.get(topic)
        if route is None:
            route = self._resolve(topic)
            if len(topic) > TOPIC_REMEMBERED_CHARACTERS_MAX:
                return route
            self._places_count += route.places_count
            if len(self._routes) >= ROUTES_CACHED_MAX or self._places_count > PLACES_CACHED_MAX:
                self._routes.clear()
                self._places_count = route.places_count
            self._routes[topic] = route
        return route

    def route_of_row(self, batch: MessageBatch, row: int) -> Route:
        """Return who gets the message in a row of a batch."""
        route = self.route(batch.topic_of(row))
        choices = route.choices
        return route if choices is None else choices.route(batch, row)

    def prioritise(self, subscriber: Subscriber, priority: int) -> None:
        """Set the Deliver-To-One priority of a client's subscriptions that have none of their own."""
        if subscriber.priority != priority:
            subscriber.priority = priority
            self._changed()

    def share_out(self, target: QueueTarget, place: Subscriber, priorities: tuple[int, ...]) -> None:
        """Let a queue have Deliver-To-One messages in turn, as the subscription of one client that it is."""
        target.turns = place
        target.priorities = priorities
        self._changed()

    def matching(self, topic: str) -> list[Destination]:
        """Return what stands behind each subscription that matches a topic, whatever it selects or keeps out."""
        return self._index.match(topic)

    def trace(self, topic: str) -> list[tuple[str, Destination]]:
        """Return every subscription that matches a topic with its filter, those that exceptions keep out too."""
        return self._index.trace(topic)

    def entries(self) -> list[tuple[str, Destination]]:
        """Return every subscription with its filter."""
        return self._index.entries()

    def _changed(self) -> None:
        self.generation += 1
        if self._routes:
            self._routes.clear()
            self._places_count = 0

    def matches(self, topic: str) -> Matches:
        """Return the subscriptions that match a topic, but for queues that except it."""
        matches = Matches()
        queues_asking: dict[QueueTarget, None] = {}
        for found in self._index.match(topic):
            if isinstance(found, Subscription):
                if found.selector is not None:
                    matches.selecting.append(found)
                elif found.qos > matches.granted.get(found.subscriber, -1):
                    matches.granted[found.subscriber] = found.qos
            elif isinstance(found, QueueTarget):
                if found.excludes(topic):
                    continue
                if found.selector is None:
                    matches.queues[found] = None
                elif found not in queues_asking:
                    queues_asking[found] = None
                    matches.selecting.append(found)
            else:
                matches.groups[found] = None
        return matches

    def _resolve(self, topic: str) -> Route:
        matches = self.matches(topic)
        if self.expander is not None:
            expanded = self.expander.expanded(topic, matches)
            if expanded is not None:
                self.selects = self.selects or expanded.choices is not None or expanded.forwarding is not None
                return expanded
        if matches.selecting:
            return Route([], [], [], [], SelectingChoices(matches))
        return route_to(matches.granted, matches.queues, matches.groups)


def route_to(
    granted: dict[Subscriber, int],
    queues: dict[QueueTarget, None],
    groups: dict[ShareGroup, None],
    forwarding: Forwarding | None = None,
) -> Route:
    """Return the route to clients, each with the highest QoS that it was granted, to queues and groups."""
    return Route(
        [subscriber for subscriber, qos in granted.items() if qos == 0],
        [subscriber for subscriber, qos in granted.items() if qos > 0],
        list(queues),
        list(groups),
        forwarding=forwarding,
    )
