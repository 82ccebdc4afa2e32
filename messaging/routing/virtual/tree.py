"""The tree of destinations that a topic's messages are forwarded to, and the routes through it.

The root is the topic itself. Below it are the targets that definitions forward to, and the targets of these. The route
of a message depends only on the selectors that it matches, so one route is cached for each set of selectors.

See also: how the tree is built from definitions (`messaging.routing.virtual.resolver`).
"""

from typing import Final, final

from sluicegate.messaging.message.headers import ORIGINAL_DESTINATION, UserPropertyValue
from sluicegate.messaging.network.neighbors import LinkRoute
from sluicegate.messaging.routing.destinations import QueueTarget, ShareGroup, Subscriber
from sluicegate.messaging.routing.receivers import Copy, Forwarding, Matches, Route, RouteChoices, route_to
from sluicegate.messaging.topics.syntax import is_queue_topic, queue_name_of, shown_destination

ROUTE_TRACE: Final = "x-opt-route-trace"  # names in a copy every destination on its way

ALWAYS: Final = 0  # the destination's own subscribers get the message
NEVER: Final = 1
WHEN_NOT_MATCHED: Final = 2
NO_SAY: Final = 3  # no vote: other definitions on the destination decide


@final
class Branch:
    """An edge from a destination to a target."""

    __slots__ = ("any_of", "is_copy", "needs", "node")

    def __init__(self, node: "TreeNode", *, any_of: int, needs: int, is_copy: bool) -> None:
        self.node = node
        self.any_of = any_of  # selectors of which a message matches at least one; 0: no condition
        self.needs = needs  # selectors that it has to match all
        self.is_copy = is_copy

    def takes(self, met: int) -> bool:
        """Return whether a message that matches exactly these selectors takes this branch."""
        return (not self.any_of or bool(self.any_of & met)) and self.needs & met == self.needs


@final
class Fork:
    """What one definition does with the messages of a destination."""

    __slots__ = ("branches", "is_concurrent", "is_partial", "own", "spares")

    def __init__(self, own: int, *, spares: bool, is_partial: bool, is_concurrent: bool) -> None:
        self.own = own  # whether the destination's own subscribers get them too
        self.spares = spares
        self.is_partial = is_partial
        self.is_concurrent = is_concurrent
        self.branches: list[Branch] = []

    def lets_own(self, *, is_taken: bool) -> bool:
        """Return whether the destination's subscribers get a message; `is_taken`: it takes a branch of this fork."""
        return self.own == ALWAYS or (self.own == WHEN_NOT_MATCHED and not is_taken)


@final
class TreeNode:
    """A destination, its subscribers, and what definitions do with its messages."""

    __slots__ = ("forks", "matches", "selecting", "topic")

    def __init__(self, topic: str, matches: Matches) -> None:
        self.topic = topic
        self.matches = matches
        self.selecting: list[tuple[int, int]] = []  # of each that selects: its index there, and its bit
        self.forks: list[Fork] = []

    def places_count(self) -> int:
        """Return an upper bound for the receivers in a route from here."""
        return self.matches.places_count() + sum(
            [branch.node.places_count() for fork in self.forks for branch in fork.branches]
        )


@final
class _Leg:
    """The receivers of a message under one topic."""

    __slots__ = ("granted", "groups", "links", "marks", "queues", "topic")

    def __init__(self, topic: str, marks: list[tuple[str, UserPropertyValue]]) -> None:
        self.topic = topic
        self.marks = marks
        self.granted: dict[Subscriber, int] = {}
        self.queues: dict[QueueTarget, None] = {}
        self.groups: dict[ShareGroup, None] = {}
        self.links: LinkRoute | None = None

    def route(self, forwarding: Forwarding | None = None) -> Route:
        return route_to(self.granted, self.queues, self.groups, forwarding, self.links)


@final
class _Walk:
    """Collect the receivers of a message that matches a given set of selectors."""

    def __init__(self, met: int, *, traces: bool) -> None:
        self._met = met
        self._traces = traces
        self._seen: dict[QueueTarget, None] = {}
        self._spared: dict[QueueTarget, None] = {}
        self._missing: list[str] = []
        self._lost: list[str] = []
        self._legs: list[_Leg] = []
        self._elsewhere: dict[str, Copy | None] = {}  # queues of neighbors, and what goes there beside the legs
        self._is_partial = False
        self._is_concurrent = False

    def route(self, root: TreeNode) -> Route:
        """Return the route. It has a forwarding only where the publisher needs more than the receivers."""
        own = _Leg(root.topic, [])
        self._take(root, own, "", spares=False)
        copies = [Copy(leg.topic, leg.marks, leg.route()) for leg in self._legs]
        copies += [copy for copy in self._elsewhere.values() if copy is not None]
        plain = own.route()
        is_somewhere = bool(copies or self._missing or self._lost) or not plain.is_empty
        if is_somewhere and not (copies or self._missing or self._lost or self._spared or self._is_partial):
            return plain
        forwarding = Forwarding(
            copies,
            self._spared,
            self._missing,
            self._lost,
            is_partial=self._is_partial,
            is_concurrent=self._is_concurrent,
            is_nowhere=not is_somewhere,
        )
        return own.route(forwarding)

    def _take(self, node: TreeNode, leg: _Leg, trace: str, *, spares: bool) -> None:
        """Visit a destination with the message that `leg` makes, by way of the destinations of `trace`."""
        ways: list[tuple[Fork, list[Branch]]] = []
        is_own = all(fork.own == NO_SAY for fork in node.forks)
        for fork in node.forks:
            taken = [branch for branch in fork.branches if branch.takes(self._met)]
            ways.append((fork, taken))
            if fork.lets_own(is_taken=bool(taken)):
                is_own = True
        if is_own:
            self._deliver(node, leg, spares=spares)
        here = shown_destination(node.topic)
        trace = f"{trace} > {here}" if trace else here
        for fork, taken in ways:
            self._is_partial = self._is_partial or fork.is_partial
            self._is_concurrent = self._is_concurrent or fork.is_concurrent
            for branch in taken:
                next_leg = leg
                if branch.is_copy:
                    marks: list[tuple[str, UserPropertyValue]] = [(ORIGINAL_DESTINATION, here)]
                    if self._traces:
                        marks.append((ROUTE_TRACE, trace))
                    next_leg = _Leg(branch.node.topic, marks)
                    self._legs.append(next_leg)
                self._take(branch.node, next_leg, trace, spares=spares or fork.spares)

    def _deliver(self, node: TreeNode, leg: _Leg, *, spares: bool) -> None:
        matches = node.matches
        for subscriber, qos in matches.granted.items():
            leg.granted[subscriber] = max(qos, leg.granted.get(subscriber, -1))
        for place, bit in node.selecting:
            found = matches.selecting[place]
            if not bit & self._met:
                continue
            if isinstance(found, QueueTarget):
                self._deliver_to_queue(found, leg, spares=spares)
            else:
                leg.granted[found.subscriber] = max(found.qos, leg.granted.get(found.subscriber, -1))
        leg.groups.update(matches.groups)
        has_home = matches.links is not None and self._deliver_over_links(node, matches.links, leg, spares=spares)
        for target in matches.queues:
            self._deliver_to_queue(target, leg, spares=spares)
        if is_queue_topic(node.topic) and not (matches.queues or has_home or node.forks):
            (self._lost if spares else self._missing).append(queue_name_of(node.topic))

    def _deliver_over_links(self, node: TreeNode, links: LinkRoute, leg: _Leg, *, spares: bool) -> bool:
        """Deliver to neighbors; return whether that is possible.

        A neighbor's queue is reached by its own topic. A message of another topic has to name it.
        """
        home = links.home
        if home is not None and home.name in self._elsewhere:
            return True
        if leg.topic == node.topic:
            leg.links = links
            if home is not None:
                self._elsewhere[home.name] = None
            return True
        if home is None or not home.facts.takes_named or not links.stored:
            return False
        named = LinkRoute([], [], dict.fromkeys(links.stored), None if spares else home, is_named=True)
        self._elsewhere[home.name] = Copy(leg.topic, leg.marks, route_to({}, {}, {}, links=named), home.name)
        return True

    def _deliver_to_queue(self, target: QueueTarget, leg: _Leg, *, spares: bool) -> None:
        if target not in self._seen:
            self._seen[target] = None
            leg.queues[target] = None
            if spares:
                self._spared[target] = None


@final
class TreeChoices(RouteChoices):
    """The routes of a topic that a definition applies to."""

    def __init__(self, *, traces: bool) -> None:
        super().__init__()
        self._traces = traces
        self._root: TreeNode | None = None

    def begin(self, root: TreeNode) -> Route:
        """Set the finished tree. Return the route of the topic, with choices only where messages go different ways."""
        self._root = root
        if not self._selectors:
            only = self.made(0)
            if only.forwarding is None or not only.forwarding.copies:
                return only
        return Route([], [], [], [], self)

    def others_count(self) -> int:
        """Return how many receivers do not select, on the topic and on its targets."""
        assert self._root is not None, "begin sets the root"
        return self._root.places_count()

    def made(self, met: int) -> Route:
        """Return the route of messages that match exactly these selectors."""
        assert self._root is not None, "begin sets the root"
        return _Walk(met, traces=self._traces).route(self._root)
