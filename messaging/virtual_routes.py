"""Where messages go that virtual and composite destinations send on.

For a topic that concerns a definition a tree is made, once, until a definition, a queue or a selector changes: the
topic itself at its root, and below it what definitions forward to, and what others forward from there. A message's way
through it depends on nothing but the selectors that it meets, so each set of them has one route, cached.

1. Queues take the very message: it is stored once, however many of them there are, and keeps the topic that it was
   published on. Where `set_original_destination` asks for it, and for every target that is a topic, a copy is made,
   with a topic of its own and a mark of where it came from.
2. A queue gets a message once, whatever ways lead to it: as what came by the first of them.
3. Definitions add up. A topic's own subscribers get a message unless every composite on it says `forward_only`.

That no definition forwards in a circle was found out before (`messaging.virtual_check`); how a publisher makes copies
is `messaging.virtual_copies`.
"""

from typing import Final, final

from messaging.fans import Copy, Fan, Way
from messaging.headers import ORIGINAL_DESTINATION, UserPropertyValue
from messaging.routing import (
    Matches,
    QueueTarget,
    Route,
    RouteChoices,
    ShareGroup,
    Subscriber,
    TopicExpander,
    TopicSpace,
    route_to,
)
from messaging.selectors import Selector, Selectors
from messaging.subscriptions import SubscriptionIndex
from messaging.topics import is_queue_topic, queue_name_of, queue_topic
from messaging.virtual_destinations import (
    ACTIVEMQ,
    BEST_EFFORT,
    QUEUE,
    CompositeDestination,
    VirtualDestinations,
    VirtualTopic,
    topic_consumed,
)
from messaging.virtual_names import NamePattern

ROUTE_TRACE: Final = "x-opt-route-trace"  # what a copy says of every destination on its way
BROKER_PATH: Final = "x-opt-broker-path"  # what a message has that came over a bridge
HOPS_MAX: Final = 8  # definitions behind each other

_LOCAL_ONLY: Final = f'"{BROKER_PATH}" IS NULL'

ALWAYS: Final = 0  # a destination's own subscribers get the message
NEVER: Final = 1
WHEN_NOT_MATCHED: Final = 2
NO_SAY: Final = 3  # the others on the destination say


@final
class _Binding:
    """A queue, and the topics that it consumes by a definition."""

    __slots__ = ("definition", "target", "topics")

    def __init__(self, target: QueueTarget, definition: VirtualTopic, topics: NamePattern) -> None:
        self.target = target
        self.definition = definition
        self.topics = topics

    def takes(self, topic: str) -> bool:
        return self.topics.matches(topic) and self.definition.name.matches(topic)


@final
class _Branch:
    """A way on from a destination."""

    __slots__ = ("any_of", "is_copy", "needs", "node")

    def __init__(self, node: "_Node", *, any_of: int, needs: int, is_copy: bool) -> None:
        self.node = node
        self.any_of = any_of  # selectors of which a message meets one; 0: it need not
        self.needs = needs  # selectors that it has to meet all
        self.is_copy = is_copy

    def takes(self, met: int) -> bool:
        return (not self.any_of or bool(self.any_of & met)) and self.needs & met == self.needs


@final
class _Fork:
    """What one definition does with the messages of a destination."""

    __slots__ = ("branches", "is_concurrent", "is_partial", "own", "spares")

    def __init__(self, own: int, *, spares: bool, is_partial: bool, is_concurrent: bool) -> None:
        self.own = own  # whether the destination's own subscribers get them too
        self.spares = spares
        self.is_partial = is_partial
        self.is_concurrent = is_concurrent
        self.branches: list[_Branch] = []


@final
class _Node:
    """A destination, who subscribes to it, and what definitions do with its messages."""

    __slots__ = ("forks", "matches", "selecting", "topic")

    def __init__(self, topic: str, matches: Matches) -> None:
        self.topic = topic
        self.matches = matches
        self.selecting: list[tuple[int, int]] = []  # of each that selects: its place there, its bit
        self.forks: list[_Fork] = []


@final
class _Leg:
    """Those who get a message under one topic."""

    __slots__ = ("granted", "groups", "marks", "queues", "topic")

    def __init__(self, topic: str, marks: list[tuple[str, UserPropertyValue]]) -> None:
        self.topic = topic
        self.marks = marks
        self.granted: dict[Subscriber, int] = {}
        self.queues: dict[QueueTarget, None] = {}
        self.groups: dict[ShareGroup, None] = {}

    def route(self, fan: Fan | None = None) -> Route:
        return route_to(self.granted, self.queues, self.groups, fan)


@final
class _Walk:
    """One way through a tree: what messages come to that meet certain selectors."""

    def __init__(self, met: int, *, traces: bool) -> None:
        self._met = met
        self._traces = traces
        self._seen: dict[QueueTarget, None] = {}
        self._spared: dict[QueueTarget, None] = {}
        self._missing: list[str] = []
        self._lost: list[str] = []
        self._legs: list[_Leg] = []
        self._is_partial = False
        self._is_concurrent = False

    def route(self, root: _Node) -> Route:
        """Return the route. It has a fan only where the publisher has to know more than who gets the message."""
        own = _Leg(root.topic, [])
        self._take(root, own, "", spares=False)
        copies = [Copy(leg.topic, leg.marks, leg.route()) for leg in self._legs]
        plain = own.route()
        is_somewhere = bool(copies or self._missing or self._lost) or not plain.is_empty
        if is_somewhere and not (copies or self._missing or self._lost or self._spared or self._is_partial):
            return plain
        fan = Fan(
            copies,
            self._spared,
            self._missing,
            self._lost,
            is_partial=self._is_partial,
            is_concurrent=self._is_concurrent,
            is_nowhere=not is_somewhere,
        )
        return own.route(fan)

    def _take(self, node: _Node, leg: _Leg, trace: str, *, spares: bool) -> None:
        """Let a message come to a destination as what `leg` makes of it, by the destinations of `trace`."""
        ways: list[tuple[_Fork, list[_Branch]]] = []
        is_own = all(fork.own == NO_SAY for fork in node.forks)
        for fork in node.forks:
            taken = [branch for branch in fork.branches if branch.takes(self._met)]
            ways.append((fork, taken))
            if fork.own == ALWAYS or (fork.own == WHEN_NOT_MATCHED and not taken):
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

    def _deliver(self, node: _Node, leg: _Leg, *, spares: bool) -> None:
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
        for target in matches.queues:
            self._deliver_to_queue(target, leg, spares=spares)
        if is_queue_topic(node.topic) and not matches.queues and not node.forks:
            (self._lost if spares else self._missing).append(queue_name_of(node.topic))

    def _deliver_to_queue(self, target: QueueTarget, leg: _Leg, *, spares: bool) -> None:
        if target not in self._seen:
            self._seen[target] = None
            leg.queues[target] = None
            if spares:
                self._spared[target] = None


@final
class _TreeChoices(RouteChoices):
    """The routes of a topic that a definition has a say in."""

    def __init__(self, *, traces: bool) -> None:
        super().__init__()
        self._traces = traces
        self._root: _Node | None = None

    def begin(self, root: _Node) -> Route:
        """Take the finished tree. Return the route of the topic: with choices only where messages go different ways."""
        self._root = root
        if not self._selectors:
            only = self.made(0)
            if only.fan is None or not only.fan.copies:
                return only
        return Route([], [], [], [], self)

    def made(self, met: int) -> Route:
        """Return the route of messages that meet exactly these selectors."""
        assert self._root is not None, "the tree is finished before anybody asks"
        return _Walk(met, traces=self._traces).route(self._root)


@final
class VirtualRoutes(TopicExpander):
    """The definitions of a topic space, and the queues that consume virtual topics. Changed by the router only."""

    def __init__(self, space: TopicSpace, definitions: VirtualDestinations, selectors: Selectors) -> None:
        self.definitions = definitions
        self._space = space
        self._local_only: Selector = selectors.compile(_LOCAL_ONLY)
        self._selectors: dict[str, Selector] = {}  # of targets, by their texts
        self._of_topics: SubscriptionIndex[int] = SubscriptionIndex()  # places among the composites
        self._of_queues: SubscriptionIndex[int] = SubscriptionIndex()
        self._bindings: SubscriptionIndex[_Binding] = SubscriptionIndex()
        self._queues: dict[QueueTarget, list[_Binding]] = {}
        self._wanted: dict[str, list[Selector]] = {}  # queue -> what its consumers select; no such queue: nothing
        self._want_all: dict[str, None] = {}  # queues with a consumer that wants everything
        for number, composite in enumerate(definitions.composites):
            index = self._of_queues if composite.kind == QUEUE else self._of_topics
            for topic_filter in composite.name.index_filters():
                index.add(topic_filter, number, number)
            for target in composite.forward_to:
                if target.selector:
                    self._selectors[target.selector] = selectors.compile_accepted(target.selector)

    # --- queues and their consumers ---

    def add_queue(self, target: QueueTarget) -> None:
        """Bind a queue to the virtual topics that its name says."""
        if target in self._queues:
            return
        bindings: list[_Binding] = []
        for definition in self.definitions.virtual_topics:
            topics = topic_consumed(definition, target.name)
            if topics is not None:
                binding = _Binding(target, definition, topics)
                bindings.append(binding)
                for topic_filter in topics.index_filters():
                    self._bindings.add(topic_filter, binding, binding)
        self._queues[target] = bindings

    def remove_queue(self, target: QueueTarget) -> None:
        """Forget a queue, with what its consumers select."""
        self._wanted.pop(target.name, None)
        self._want_all.pop(target.name, None)
        for binding in self._queues.pop(target, []):
            for topic_filter in binding.topics.index_filters():
                self._bindings.discard(topic_filter, binding)

    def queues(self) -> list[QueueTarget]:
        """Return every queue that was added, in the order in which they were."""
        return list(self._queues)

    def is_selector_aware(self, target: QueueTarget) -> bool:
        """Return whether the selectors of a queue's consumers say what comes into it."""
        return any(binding.definition.selector_aware for binding in self._queues.get(target, []))

    def select_for(self, queue_name: str, wanted: list[Selector] | None) -> None:
        """Say what the consumers of a queue select together: nothing, something, or with None everything."""
        self._want_all.pop(queue_name, None)
        if wanted is None:
            self._want_all[queue_name] = None
            wanted = []
        self._wanted[queue_name] = wanted

    # --- routes ---

    def expanded(self, topic: str, matches: Matches) -> Route | None:
        """Return the route of a topic that these subscriptions match; None when no definition has a say in it."""
        choices = _TreeChoices(traces=self.definitions.route_trace)
        root = self._node(choices, topic, matches, 0)
        return choices.begin(root) if root.forks else None

    def _node(self, choices: RouteChoices, topic: str, matches: Matches, depth: int) -> _Node:
        assert depth <= HOPS_MAX, "no definition that was loaded forwards so far"
        node = _Node(topic, matches)
        for place, found_selecting in enumerate(matches.selecting):
            assert found_selecting.selector is not None, "it selects"
            node.selecting.append((place, choices.bit_of(found_selecting.selector)))
        self._add_virtual(choices, node, depth)
        for composite in self._composites_on(topic):
            node.forks.append(self._composite(choices, composite, depth))
        return node

    def ways(self, topic: str) -> tuple[list[Way], bool]:
        """Return where definitions send a topic's messages on, and whether its own subscribers get them too."""
        found: list[Way] = []
        for binding in self._bindings_on(topic):
            definition, target = binding.definition, binding.target
            condition = "not for messages that came over a bridge" if definition.local else ""
            if definition.selector_aware and target.name not in self._want_all:
                wanted = [selector.text for selector in self._wanted.get(target.name, [])]
                condition = f"if a consumer selects it: {' | '.join(wanted) or 'none does'}"
            found.append(Way(queue_topic(target.name), f"virtual topic {definition.name.text}", condition))
        composites = self._composites_on(topic)
        for composite in composites:
            for to in composite.forward_to:
                condition = f"if selected: {to.selector}" if to.selector else ""
                destination = queue_topic(to.name) if to.kind == QUEUE else to.name
                found.append(Way(destination, f"composite {composite.kind} {composite.name.text}", condition))
        is_own = [not each.forward_only or each.send_when_not_matched for each in composites]
        return found, not composites or any(is_own)

    def _composites_on(self, topic: str) -> list[CompositeDestination]:
        """Return the composites that a topic, or the queue that it leads to, is one of."""
        is_queue = is_queue_topic(topic)
        name = queue_name_of(topic) if is_queue else topic
        found = self._of_queues.match(name) if is_queue else self._of_topics.match(name)
        composites = [self.definitions.composites[number] for number in sorted(set(found))]
        return [composite for composite in composites if composite.name.matches(name)]

    def _bindings_on(self, topic: str) -> list[_Binding]:
        """Return the queues of consumers that take messages on a topic."""
        if is_queue_topic(topic):
            return []
        return [binding for binding in dict.fromkeys(self._bindings.match(topic)) if binding.takes(topic)]

    def _add_virtual(self, choices: RouteChoices, node: _Node, depth: int) -> None:
        """Let the queues of a virtual topic's consumers have its messages, each definition by itself."""
        forks: dict[int, _Fork] = {}
        for binding in self._bindings_on(node.topic):
            definition, target = binding.definition, binding.target
            any_of = 0
            if definition.selector_aware and target.name not in self._want_all:
                for selector in self._wanted.get(target.name, []):
                    any_of |= choices.bit_of(selector)
                if not any_of:
                    continue  # nobody is there whose selector could take a message
            fork = forks.get(id(definition))
            if fork is None:
                fork = forks[id(definition)] = self._fork(
                    NO_SAY,
                    spares=definition.drop_on_resource_limit,
                    is_concurrent=definition.concurrent_send,
                    is_whole=definition.transacted_send,
                )
            topic = queue_topic(target.name)
            branch = _Branch(
                self._node(choices, topic, self._space.matches(topic), depth + 1),
                any_of=any_of,
                needs=choices.bit_of(self._local_only) if definition.local else 0,
                is_copy=definition.set_original_destination,
            )
            fork.branches.append(branch)
        node.forks += forks.values()

    def _composite(self, choices: RouteChoices, composite: CompositeDestination, depth: int) -> _Fork:
        own = NEVER if composite.forward_only else ALWAYS
        fork = self._fork(
            WHEN_NOT_MATCHED if composite.send_when_not_matched else own,
            spares=composite.drop_on_resource_limit,
            is_concurrent=composite.concurrent_send,
            is_whole=False,
        )
        for target in composite.forward_to:
            selector = self._selectors.get(target.selector)
            is_queue = target.kind == QUEUE
            topic = queue_topic(target.name) if is_queue else target.name
            branch = _Branch(
                self._node(choices, topic, self._space.matches(topic), depth + 1),
                any_of=0,
                needs=0 if selector is None else choices.bit_of(selector),
                is_copy=composite.set_original_destination or not is_queue,
            )
            fork.branches.append(branch)
        return fork

    def _fork(self, own: int, *, spares: bool, is_concurrent: bool, is_whole: bool) -> _Fork:
        mode = self.definitions.fan_out
        return _Fork(
            own,
            spares=spares or mode == BEST_EFFORT,
            is_partial=mode == ACTIVEMQ and not is_whole,
            is_concurrent=is_concurrent,
        )


def shown_destination(topic: str) -> str:
    """Return a destination as brokers of JMS write it."""
    return f"queue://{queue_name_of(topic)}" if is_queue_topic(topic) else f"topic://{topic}"
