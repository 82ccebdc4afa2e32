"""The receivers of the messages of one topic: a route, and what it is made from.

A route is the same for all messages of a topic, unless subscriptions have selectors or copies are made; then it has
`RouteChoices`, by which each message gets its own.

See also: who resolves and keeps routes (messaging.routing.routes).
"""

from typing import Final, NamedTuple, final

from sluicegate.messaging.message.batch import MessageBatch
from sluicegate.messaging.message.headers import UserPropertyValue
from sluicegate.messaging.network.link import LinkOutput
from sluicegate.messaging.network.neighbors import LinkRoute, RemoteGroup
from sluicegate.messaging.routing.destinations import (
    QueueTarget,
    ShareGroup,
    Subscriber,
    Subscription,
)
from sluicegate.messaging.selectors.selector import Selector

CHOICES_CACHED_MAX: Final = 256  # of one topic


@final
class Forwarding:
    """What a publisher has to know of a route whose messages definitions forward. Immutable."""

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
        self.spared = spared  # queues that are skipped when they refuse
        self.missing = missing  # target queues that do not exist: the message is refused
        self.lost = lost  # target queues that do not exist and are skipped
        self.is_partial = is_partial  # queues that took the message before one refused keep it
        self.is_concurrent = is_concurrent  # then the queues after that one take it as well
        self.is_nowhere = is_nowhere  # the selectors of its definitions leave the message no receiver
        self.unmatched_count = sum([copy.route.is_empty for copy in copies])  # copies without a subscriber


@final
class Copy:
    """A message under another topic, or for a queue at another broker, made by a definition, and its route."""

    __slots__ = ("marks", "queue", "route", "topic")

    def __init__(self, topic: str, marks: list[tuple[str, UserPropertyValue]], route: "Route", queue: str = "") -> None:
        self.topic = topic
        self.queue = queue  # that the message names, at the only neighbor of the route; empty: none
        self.marks = marks  # user properties that the copy adds to those of the message
        self.route = route


class Way(NamedTuple):
    """A step of a forwarded message, or of one that could be forwarded, for explanations."""

    topic: str  # where it leads; a queue's own topic for a queue
    definition: str  # in words
    obstacle: str  # why this message does not take the step; empty: it does
    condition: str  # which messages take the step; empty: all
    spares: bool  # a queue that refuses is skipped


@final
class Route:
    """The receivers of the messages of one topic. Immutable; each subscriber, queue and group appears once.

    Where subscriptions have selectors, or copies are made, the route itself is for no message: `choices` has the route
    of each message.
    """

    __slots__ = (
        "choices",
        "direct",
        "forwarding",
        "groups",
        "guaranteed",
        "is_empty",
        "is_empty_for_direct",
        "links",
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
        links: LinkRoute | None = None,
    ) -> None:
        self.links = links  # None: no neighbor broker wants these messages
        self.choices = choices  # None: the same route for all messages
        self.forwarding = forwarding  # None: no definition forwards these messages
        self.direct = direct  # clients that subscribed for direct messages only
        self.guaranteed = guaranteed  # clients that get guaranteed messages through their queue
        self.queues = queues  # named queues that subscribe to the topic
        self.groups = groups
        self.takers = [queue.turns for queue in queues if queue.turns is not None]  # clients of queues that take turns
        has_receiver = bool(direct or guaranteed or queues or groups or links is not None)
        self.is_empty = not (has_receiver or choices is not None or forwarding is not None)
        # The same for direct messages: neighbors that are away get guaranteed ones only.
        self.is_empty_for_direct = self.is_empty
        if links is not None and not (links.outputs or links.groups or links.is_named):
            has_local = bool(direct or guaranteed or queues or groups)
            self.is_empty_for_direct = not (has_local or choices is not None or forwarding is not None)
        self.places_count = len(direct) + len(guaranteed) + len(queues) + len(groups)  # the cost of caching it
        if links is not None:
            self.places_count += links.places_count
        if choices is not None:
            self.places_count += choices.places_count()
        if forwarding is not None:
            self.places_count += sum([copy.route.places_count for copy in forwarding.copies])
        # The route of a guaranteed message without another receiver; most topics have it.
        self.only_queue: QueueTarget | None = None
        if len(guaranteed) + len(queues) == 1 and not (direct or groups or links is not None or forwarding is not None):
            self.only_queue = queues[0] if queues else guaranteed[0].queue

    def all_queues(self) -> list[QueueTarget]:
        """Return every queue that gets a guaranteed message or one of its copies, each once."""
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

    def neighbors_to_store_for(self) -> list[LinkOutput]:
        """Return every neighbor for which a guaranteed message or one of its copies is stored, each once."""
        found: dict[LinkOutput, None] = {} if self.links is None else dict.fromkeys(self.links.stored)
        if self.forwarding is not None:
            for copy in self.forwarding.copies:
                found.update(dict.fromkeys(copy.route.neighbors_to_store_for()))
        return list(found)

    def groups_elsewhere(self, *, guaranteed: bool) -> list[RemoteGroup]:
        """Return the shared groups whose messages go to a neighbor now: no local member could take them."""
        return groups_elsewhere(self.groups, self.links, guaranteed=guaranteed)

    def __repr__(self) -> str:
        return f"Route(direct={self.direct}, guaranteed={self.guaranteed}, queues={self.queues}, groups={self.groups})"


@final
class Matches:
    """The subscriptions that match one topic, grouped by destination."""

    __slots__ = ("granted", "groups", "links", "queues", "selecting")

    def __init__(self) -> None:
        self.links: LinkRoute | None = None  # the neighbor brokers that want messages of the topic
        self.granted: dict[Subscriber, int] = {}  # by subscriptions without a selector
        self.selecting: list[Subscription | QueueTarget] = []  # not among the others
        self.queues: dict[QueueTarget, None] = {}
        self.groups: dict[ShareGroup, None] = {}

    def places_count(self) -> int:
        """Return an upper bound for the receivers in a route of these subscriptions."""
        links_count = 0 if self.links is None else self.links.places_count
        return len(self.granted) + len(self.selecting) + len(self.queues) + len(self.groups) + links_count


class RouteChoices:
    """The routes of a topic whose messages differ in theirs: one for each set of selectors that a message matches."""

    def __init__(self) -> None:
        self._selectors: dict[Selector, int] = {}  # each once, with its position
        self._routes: dict[int, Route] = {}

    def bit_of(self, selector: Selector) -> int:
        """Return the bit of a selector in the sets that `made` takes."""
        return 1 << self._selectors.setdefault(selector, len(self._selectors))

    def met_by(self, batch: MessageBatch, row: int) -> int:
        """Return the selectors that the message in a row of a batch matches."""
        met = 0
        for selector, place in self._selectors.items():
            if selector.matches(batch, row):
                met |= 1 << place
        return met

    def route(self, batch: MessageBatch, row: int) -> Route:
        """Return the route of the message in a row of a batch."""
        met = self.met_by(batch, row)
        route = self._routes.get(met)
        if route is None:
            if len(self._routes) >= CHOICES_CACHED_MAX:
                self._routes.clear()
            route = self._routes[met] = self.made(met)
        return route

    def places_count(self) -> int:
        """Return an upper bound for the receivers in the cached routes and their selectors."""
        routes_count = CHOICES_CACHED_MAX if len(self._selectors) > 8 else 1 << len(self._selectors)
        return routes_count * (1 + len(self._selectors) + self.others_count())

    def others_count(self) -> int:
        """Return an upper bound for the receivers in each route, apart from those with selectors."""
        return 0

    def made(self, met: int) -> Route:
        """Return the route of messages that match exactly these selectors."""
        raise AssertionError("made is abstract")


@final
class SelectingChoices(RouteChoices):
    """The routes of a topic where subscriptions have selectors."""

    def __init__(self, matches: Matches) -> None:
        super().__init__()
        self._matches = matches
        self._asking: list[tuple[int, Subscription | QueueTarget]] = []  # each with the bit of its selector
        for found in matches.selecting:
            assert found.selector is not None, "it has a selector"
            self._asking.append((self.bit_of(found.selector), found))

    def others_count(self) -> int:
        """Return the number of subscriptions that have no selector, or share one with another."""
        return self._matches.places_count()

    def made(self, met: int) -> Route:
        """Return the route of messages that match exactly these selectors."""
        granted = dict(self._matches.granted)
        queues = dict(self._matches.queues)
        for bit, found in self._asking:
            if not met & bit:
                continue
            if isinstance(found, QueueTarget):
                queues[found] = None
            elif found.qos > granted.get(found.subscriber, -1):
                granted[found.subscriber] = found.qos
        return route_to(granted, queues, self._matches.groups, links=self._matches.links)


class TopicExpander:
    """Adds virtual destinations to the route of a topic. A class and not a Protocol, like `Address`."""

    def expanded(self, topic: str, matches: Matches) -> Route | None:
        """Return the route of a topic with these matching subscriptions; None when no definition applies to it."""
        raise AssertionError("TopicExpander is abstract")

    def arriving(self, topic: str, matches: Matches) -> Route | None:
        """Return the route of messages that come from a neighbor; None when no definition applies to them."""
        raise AssertionError("TopicExpander is abstract")

    def ways(self, topic: str, batch: MessageBatch, row: int) -> tuple[list[Way], str]:
        """Return where definitions forward a message of a topic, and why the topic's own subscribers do not get it."""
        raise AssertionError("TopicExpander is abstract")


def groups_elsewhere(groups: list[ShareGroup], links: LinkRoute | None, *, guaranteed: bool) -> list[RemoteGroup]:
    """Return the shared groups of neighbors without a local member that could take a message now."""
    if links is None or not links.groups:
        return []
    here = {group.key: None for group in groups if group.takes_now(guaranteed=guaranteed)}
    return [group for group in links.groups if group.key not in here]


def route_to(
    granted: dict[Subscriber, int],
    queues: dict[QueueTarget, None],
    groups: dict[ShareGroup, None],
    forwarding: Forwarding | None = None,
    links: LinkRoute | None = None,
) -> Route:
    """Return the route to clients, each with the highest QoS granted to it, to queues, groups and neighbors."""
    return Route(
        [subscriber for subscriber, qos in granted.items() if qos == 0],
        [subscriber for subscriber, qos in granted.items() if qos > 0],
        list(queues),
        list(groups),
        forwarding=forwarding,
        links=links,
    )
