"""Resolve where messages go that virtual and composite destinations forward.

A tree is built for each topic that a definition applies to (`messaging.routing.virtual.tree`). It is valid until a
definition, a queue or a selector changes.

1. Queues take the original message: it is stored once, whatever the number of queues, and keeps the topic it was
   published on. A copy is made for every target that is a topic, and where `set_original_destination` asks for one.
   A copy has a topic of its own and names the original destination.
2. A queue gets a message once, whatever the number of ways that lead to it: from the first of them.
3. Definitions add up. A topic's own subscribers get a message unless every composite on it says `forward_only`.

See also: validation, which excludes circles (`messaging.routing.virtual.validation`), and how a publisher makes copies
(`messaging.routing.virtual.copies`).
"""

from typing import Final, final

from sluicegate.messaging.message.batch import MessageBatch
from sluicegate.messaging.routing.destinations import QueueTarget
from sluicegate.messaging.routing.receivers import Matches, Route, RouteChoices, TopicExpander, Way
from sluicegate.messaging.routing.routes import TopicSpace
from sluicegate.messaging.routing.virtual.definitions import (
    ACTIVEMQ,
    BEST_EFFORT,
    QUEUE,
    CompositeDestination,
    ForwardTarget,
    VirtualDestinations,
    VirtualTopic,
    topic_consumed,
)
from sluicegate.messaging.routing.virtual.names import NamePattern
from sluicegate.messaging.routing.virtual.tree import (
    ALWAYS,
    NEVER,
    NO_SAY,
    WHEN_NOT_MATCHED,
    Branch,
    Fork,
    TreeChoices,
    TreeNode,
)
from sluicegate.messaging.selectors.selector import Selector, Selectors
from sluicegate.messaging.topics.subscription_index import SubscriptionIndex
from sluicegate.messaging.topics.syntax import is_queue_topic, queue_name_of, queue_topic

BROKER_PATHS: Final = ("x-opt-broker-path", "Sluicegate-Path")  # one of them is on a message that came over a bridge
HOPS_MAX: Final = 8  # composites in a chain
_DEPTH_MAX: Final = 2 * HOPS_MAX + 1  # with queues of virtual topics before each composite and at the end

_LOCAL_ONLY: Final = " AND ".join([f'"{name}" IS NULL' for name in BROKER_PATHS])


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
class VirtualRoutes(TopicExpander):
    """The definitions of a topic space, and the queues that consume virtual topics. Only the router changes them."""

    def __init__(self, space: TopicSpace, definitions: VirtualDestinations, selectors: Selectors) -> None:
        self.definitions = definitions
        self._space = space
        self._local_only: Selector = selectors.compile(_LOCAL_ONLY)
        self._selectors: dict[str, Selector] = {}  # of targets, by their texts
        self._of_topics: SubscriptionIndex[int] = SubscriptionIndex()  # indexes of composites
        self._of_queues: SubscriptionIndex[int] = SubscriptionIndex()
        self._bindings: SubscriptionIndex[_Binding] = SubscriptionIndex()
        self._queues: dict[QueueTarget, list[_Binding]] = {}
        self._wanted: dict[str, list[Selector]] = {}  # queue -> selectors of its consumers; no entry: no consumer
        self._want_all: dict[str, None] = {}  # queues with a consumer without a selector
        for number, composite in enumerate(definitions.composites):
            index = self._of_queues if composite.kind == QUEUE else self._of_topics
            for topic_filter in composite.name.index_filters():
                index.add(topic_filter, number, number)
            for target in composite.forward_to:
                if target.selector:
                    self._selectors[target.selector] = selectors.compile_accepted(target.selector)

    # --- queues and their consumers ---

    def add_queue(self, target: QueueTarget) -> None:
        """Bind a queue to the virtual topics that its name refers to."""
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
        shared = [binding.topics for binding in bindings if not binding.definition.local]
        self._space.import_for(target, [each for topics in shared for each in topics.exported_filters()])

    def remove_queue(self, target: QueueTarget) -> None:
        """Remove a queue and the selectors of its consumers."""
        self._wanted.pop(target.name, None)
        self._want_all.pop(target.name, None)
        self._space.import_for(target, [])
        for binding in self._queues.pop(target, []):
            for topic_filter in binding.topics.index_filters():
                self._bindings.discard(topic_filter, binding)

    def queues(self) -> list[QueueTarget]:
        """Return the queues in the order they were added."""
        return list(self._queues)

    def is_selector_aware(self, target: QueueTarget) -> bool:
        """Return whether the selectors of a queue's consumers decide which messages enter the queue."""
        return any(binding.definition.selector_aware for binding in self._queues.get(target, []))

    def select_for(self, queue_name: str, wanted: list[Selector] | None) -> None:
        """Set what the consumers of a queue select together: nothing, some messages, or everything (None)."""
        self._want_all.pop(queue_name, None)
        if wanted is None:
            self._want_all[queue_name] = None
            wanted = []
        self._wanted[queue_name] = wanted

    # --- routes ---

    def expanded(self, topic: str, matches: Matches) -> Route | None:
        """Return the route of a topic with these matching subscriptions; None when no definition applies to it."""
        choices = TreeChoices(traces=self.definitions.route_trace)
        root = self._node(choices, topic, matches, 0)
        return choices.begin(root) if root.forks else None

    def arriving(self, topic: str, matches: Matches) -> Route | None:
        """Return the route of messages that come from a neighbor; None when no definition applies to them.

        They go into the consumer queues of virtual topics that are not local. What composites forward, and copies that
        name the original destination, are the publisher's broker's to make.
        """
        choices = TreeChoices(traces=False)
        root = self._leaf(choices, topic, matches)
        for binding in self._bindings_on(topic):
            if binding.definition.local:
                continue
            branch = self._branch_to_queue(choices, binding, 0, arrives=True)
            if branch is not None:
                fork = self._virtual(binding.definition)
                fork.branches.append(branch)
                root.forks.append(fork)
        return choices.begin(root) if root.forks else None

    def _leaf(self, choices: RouteChoices, topic: str, matches: Matches) -> TreeNode:
        """Return a destination whose messages no definition forwards."""
        node = TreeNode(topic, matches)
        for place, found_selecting in enumerate(matches.selecting):
            assert found_selecting.selector is not None, "it has a selector"
            node.selecting.append((place, choices.bit_of(found_selecting.selector)))
        return node

    def _node(self, choices: RouteChoices, topic: str, matches: Matches, depth: int) -> TreeNode:
        assert depth <= _DEPTH_MAX, "validation limits the length of chains"
        node = self._leaf(choices, topic, matches)
        self._add_virtual(choices, node, depth)
        for composite in self._composites_on(topic):
            node.forks.append(self._composite(choices, composite, depth))
        return node

    def ways(self, topic: str, batch: MessageBatch, row: int) -> tuple[list[Way], str]:
        """Return where definitions forward a message of a topic.

        The second value says why the topic's own subscribers do not get the message; empty: they get it.
        """
        choices = TreeChoices(traces=False)
        to_queues = [
            (binding, self._virtual(binding.definition), self._branch_to_queue(choices, binding, 0))
            for binding in self._bindings_on(topic)
        ]
        forks = [(composite, self._composite(choices, composite, 0)) for composite in self._composites_on(topic)]
        met = choices.met_by(batch, row)
        found = [self._way_to_queue(binding, fork, branch, met) for binding, fork, branch in to_queues]
        kept_by: list[str] = []
        for composite, fork in forks:
            name = f"composite {composite.kind} {composite.name.text}"
            ways = [
                _way_to_target(name, to, fork, is_taken=branch.takes(met))
                for to, branch in zip(composite.forward_to, fork.branches, strict=True)
            ]
            found += ways
            if not fork.lets_own(is_taken=any(not way.obstacle for way in ways)):
                said = "forwards what a target selects" if composite.send_when_not_matched else "has forward_only"
                kept_by.append(f"{name} {said}")
        return found, "; ".join(kept_by) if len(kept_by) == len(forks) else ""

    def _way_to_queue(self, binding: _Binding, fork: Fork, branch: Branch | None, met: int) -> Way:
        definition, target = binding.definition, binding.target
        condition = obstacle = ""
        if definition.selector_aware and target.name not in self._want_all:
            shown = " | ".join([selector.text for selector in self._wanted.get(target.name, [])])
            condition = f"a consumer has a matching selector: {shown}"
            obstacle = f"no consumer has a matching selector: {shown}"
        if branch is None:
            obstacle = "no consumer of the queue has a selector that could match"
        elif branch.takes(met):
            obstacle = ""
        elif branch.needs & met != branch.needs:
            obstacle = "the message came over a bridge, and the virtual topic is local"
        return Way(queue_topic(target.name), f"virtual topic {definition.name.text}", obstacle, condition, fork.spares)

    def _composites_on(self, topic: str) -> list[CompositeDestination]:
        """Return the composites that match a topic, or the queue that the topic leads to."""
        is_queue = is_queue_topic(topic)
        name = queue_name_of(topic) if is_queue else topic
        found = self._of_queues.match(name) if is_queue else self._of_topics.match(name)
        composites = [self.definitions.composites[number] for number in sorted(set(found))]
        return [composite for composite in composites if composite.name.matches(name)]

    def _bindings_on(self, topic: str) -> list[_Binding]:
        """Return the consumer queues that are bound to a topic."""
        if is_queue_topic(topic):
            return []
        return [binding for binding in dict.fromkeys(self._bindings.match(topic)) if binding.takes(topic)]

    def _add_virtual(self, choices: RouteChoices, node: TreeNode, depth: int) -> None:
        """Add branches to the consumer queues of a virtual topic, one fork for each definition."""
        forks: dict[int, Fork] = {}
        for binding in self._bindings_on(node.topic):
            branch = self._branch_to_queue(choices, binding, depth)
            if branch is None:
                continue
            definition = binding.definition
            fork = forks.get(id(definition))
            if fork is None:
                fork = forks[id(definition)] = self._virtual(definition)
            fork.branches.append(branch)
        node.forks += forks.values()

    def _branch_to_queue(
        self, choices: RouteChoices, binding: _Binding, depth: int, *, arrives: bool = False
    ) -> Branch | None:
        """Return the branch to a consumer queue of a virtual topic; None when no consumer could select a message."""
        definition, target = binding.definition, binding.target
        any_of = 0
        if definition.selector_aware and target.name not in self._want_all:
            for selector in self._wanted.get(target.name, []):
                any_of |= choices.bit_of(selector)
            if not any_of:
                return None
        topic = queue_topic(target.name)
        matches = self._space.matches(topic)
        return Branch(
            self._leaf(choices, topic, matches) if arrives else self._node(choices, topic, matches, depth + 1),
            any_of=any_of,
            needs=choices.bit_of(self._local_only) if definition.local else 0,
            is_copy=definition.set_original_destination and not arrives,
        )

    def _virtual(self, definition: VirtualTopic) -> Fork:
        return self._fork(
            NO_SAY,
            spares=definition.drop_on_resource_limit,
            is_concurrent=definition.concurrent_send,
            is_whole=definition.transacted_send,
        )

    def _composite(self, choices: RouteChoices, composite: CompositeDestination, depth: int) -> Fork:
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
            branch = Branch(
                self._node(choices, topic, self._space.matches(topic), depth + 1),
                any_of=0,
                needs=0 if selector is None else choices.bit_of(selector),
                is_copy=composite.set_original_destination or not is_queue,
            )
            fork.branches.append(branch)
        return fork

    def _fork(self, own: int, *, spares: bool, is_concurrent: bool, is_whole: bool) -> Fork:
        mode = self.definitions.fan_out
        return Fork(
            own,
            spares=spares or mode == BEST_EFFORT,
            is_partial=mode == ACTIVEMQ and not is_whole,
            is_concurrent=is_concurrent,
        )


def _way_to_target(name: str, to: ForwardTarget, fork: Fork, *, is_taken: bool) -> Way:
    topic = queue_topic(to.name) if to.kind == QUEUE else to.name
    obstacle = "" if is_taken else f"the selector does not match: {to.selector}"
    condition = f"the selector matches: {to.selector}" if to.selector else ""
    return Way(topic, name, obstacle, condition, fork.spares)
