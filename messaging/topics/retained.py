"""The retained set: find the last retained messages by filter.

It is the reverse of the subscription index: one filter, many topics. A tree with one node per level is walked along the
filter, so a wildcard visits only what it can match [MQTT 3.3.1-9 to 3.3.1-11 want this at each SUBSCRIBE], in steps of
bounded length. Not thread-safe.

See also: limits and storage on disk (`messaging.routing.retained_messages`, the actors). They decide when a message is
retained, replaced, removed by an empty payload, sent for a subscription, or expired.
"""

from typing import Final, Generic, NamedTuple, TypeVar, final

from sluicegate.messaging.topics.syntax import (
    LITERAL,
    PREFIX,
    REST,
    REST_OR_NONE,
    Level,
    TopicFilter,
    hidden_from_wildcards,
)

V = TypeVar("V")

ALL: Final = -1


class RetainedOverview(NamedTuple):
    """What a retained set holds."""

    topic_count: int
    node_count: int  # of the tree, its root included


@final
class _Node(Generic[V]):
    """A level of the tree; with a slot, it stands for a retained topic."""

    __slots__ = ("children", "slot")

    def __init__(self) -> None:
        self.children: dict[str, _Node[V]] | None = None  # None: no children
        self.slot: tuple[str, V] | None = None  # the topic and its value, as a scan returns them


@final
class RetainedTopics(Generic[V]):
    """Values by topic, found by filter.

    Topics are not checked here; the publish was. Invariants: `count` is the number of topics held; every node but the
    root has a slot or a child, so an empty set has one node.
    """

    def __init__(self) -> None:
        self._root: Final[_Node[V]] = _Node()
        self._topic_count = 0
        self._node_count = 1

    @property
    def count(self) -> int:
        """The number of topics that have a value."""
        return self._topic_count

    @property
    def node_count(self) -> int:
        """The number of nodes of the tree, its root included."""
        return self._node_count

    def put(self, topic: str, value: V) -> bool:
        """Set the value of a topic. Return whether it replaced another."""
        node = self._root
        for word in topic.split("/"):
            children = node.children
            if children is None:
                children = node.children = {}
            child = children.get(word)
            if child is None:
                child = children[word] = _Node()
                self._node_count += 1
            node = child
        replaced = node.slot is not None
        node.slot = (topic, value)
        if not replaced:
            self._topic_count += 1
        return replaced

    def remove(self, topic: str) -> bool:
        """Remove a topic and the nodes that become empty. Return whether it had a value."""
        path = [self._root]
        words = topic.split("/")
        for word in words:
            child = _child(path[-1], word)
            if child is None:
                return False
            path.append(child)
        if path[-1].slot is None:
            return False
        path[-1].slot = None
        self._topic_count -= 1
        self._prune(path, words)
        return True

    def get(self, topic: str) -> V | None:
        """Return the value of one topic, None when it has none."""
        node = self._node(topic)
        return None if node is None or node.slot is None else node.slot[1]

    def missing_nodes(self, topic: str) -> int:
        """Return the number of nodes that a value of this topic would add."""
        node = self._root
        words = topic.split("/")
        for depth, word in enumerate(words):
            child = _child(node, word)
            if child is None:
                return len(words) - depth
            node = child
        return 0

    def values(self) -> list[V]:
        """Return all values, by walking everything."""
        found: list[V] = []
        nodes = [self._root]
        while nodes:
            node = nodes.pop()
            if node.slot is not None:
                found.append(node.slot[1])
            if node.children is not None:
                nodes.extend(node.children.values())
        return found

    def scan(self, topic_filter: TopicFilter) -> "RetainedScan[V]":
        """Return a lazy walk over the topics that the filter matches."""
        if self._topic_count == 0:
            return RetainedScan([], ())
        if topic_filter.is_literal:
            node = self._node(topic_filter.text)
            return RetainedScan([] if node is None else [node], ())
        return RetainedScan([self._root], topic_filter.levels)

    def overview(self) -> RetainedOverview:
        """Return the sizes, for operators and tests."""
        return RetainedOverview(topic_count=self._topic_count, node_count=self._node_count)

    def check(self) -> None:
        """Assert the invariants by walking everything; for tests."""
        nodes = [self._root]
        node_count = 0
        topic_count = 0
        while nodes:
            node = nodes.pop()
            node_count += 1
            topic_count += node.slot is not None
            assert node.children is None or node.children, "a node keeps an empty table of children"
            assert node is self._root or node.children or node.slot is not None, "an empty node"
            if node.children is not None:
                nodes.extend(node.children.values())
        assert node_count == self._node_count
        assert topic_count == self._topic_count

    def __repr__(self) -> str:
        return f"RetainedTopics({self._topic_count} topics, {self._node_count} nodes)"

    def _node(self, topic: str) -> _Node[V] | None:
        node = self._root
        for word in topic.split("/"):
            child = _child(node, word)
            if child is None:
                return None
            node = child
        return node

    def _prune(self, path: list[_Node[V]], words: list[str]) -> None:
        """Remove the empty end of the path. `path[i]` leads to `path[i + 1]` by `words[i]`."""
        for index in range(len(words) - 1, -1, -1):
            node = path[index + 1]
            if node.slot is not None or node.children is not None:
                return
            children = path[index].children
            assert children is not None
            del children[words[index]]
            if not children:
                path[index].children = None
            self._node_count -= 1


def _child(node: _Node[V], word: str) -> _Node[V] | None:
    return None if node.children is None else node.children.get(word)


@final
class _Frame(Generic[V]):
    """Sibling nodes that a scan has reached, and the level of its filter that comes next."""

    __slots__ = ("depth", "nodes", "place")

    def __init__(self, nodes: list[_Node[V]], depth: int) -> None:
        self.nodes = nodes
        self.depth = depth  # ALL: these nodes match, and all below them
        self.place = 0


@final
class RetainedScan(Generic[V]):
    """A lazy walk over the topics that one filter matches, while the set continues to change.

    A topic comes with its value at the time the walk gets there. A topic that is removed before does not come; a topic
    that is added may: a new subscriber gets it as a live message, too. The nodes below one level are listed at once, at
    eight bytes each; everything else is done on demand.
    """

    def __init__(self, nodes: list[_Node[V]], levels: tuple[Level, ...]) -> None:
        self._levels = levels
        self._frames: list[_Frame[V]] = [_Frame(nodes, 0)] if nodes else []

    @property
    def is_done(self) -> bool:
        """Whether the walk is complete."""
        return not self._frames

    def take(self, count_max: int, visited_max: int) -> list[tuple[str, V]]:
        """Return the next topics and values, possibly none, after visiting at most `visited_max` nodes.

        The order depends only on the puts and removals.
        """
        found: list[tuple[str, V]] = []
        frames = self._frames
        visited = 0
        while frames and visited < visited_max and len(found) < count_max:
            frame = frames[-1]
            if frame.place >= len(frame.nodes):
                frames.pop()
                continue
            node = frame.nodes[frame.place]
            frame.place += 1
            visited += 1
            if self._matches(frame.depth) and node.slot is not None:
                found.append(node.slot)
            self._descend(node, frame.depth)
        while frames and frames[-1].place >= len(frames[-1].nodes):
            frames.pop()
        return found

    def _matches(self, depth: int) -> bool:
        """Return whether nodes that were reached at this depth stand for topics that the filter matches."""
        if depth == ALL or depth == len(self._levels):
            return True
        return depth > 0 and self._levels[depth].kind == REST_OR_NONE

    def _descend(self, node: _Node[V], depth: int) -> None:
        children = node.children
        if children is None or depth == len(self._levels):
            return
        if depth == ALL:
            self._frames.append(_Frame(list(children.values()), ALL))
            return
        level = self._levels[depth]
        further: list[_Node[V]] = []
        _step(children, level, depth == 0, further)
        if further:
            is_rest = level.kind == REST or level.kind == REST_OR_NONE
            self._frames.append(_Frame(further, ALL if is_rest else depth + 1))


def _step(children: dict[str, _Node[V]], level: Level, is_first: bool, further: list[_Node[V]]) -> None:
    """Append the children that match one level of the filter; for REST and REST_OR_NONE that is all of them."""
    kind, text = level.kind, level.text
    if kind == LITERAL:
        child = children.get(text)
        if child is not None:
            further.append(child)
        return
    for word, candidate in children.items():
        if is_first and hidden_from_wildcards(word):
            continue
        if kind != PREFIX or word.startswith(text):
            further.append(candidate)
