"""The subscription index: given a topic, find every subscription whose filter matches it.

It runs when a publisher's cache misses, so it is made for many filters and one topic. `messaging.topics.syntax` defines
filters and when they match; the owners of the caches in front of it use the values found.

Filters without wildcards are in one dict by topic. The others form a trie with one node per level, walked level by
level with the list of nodes reached so far: no recursion, whatever depth a peer sends. That list cannot outgrow the
nodes of one depth of the trie. Prefixes (`red*`) are probed once per distinct length at a node, not once per prefix.
Not thread-safe.
"""

from collections.abc import Hashable
from typing import Final, Generic, NamedTuple, TypeVar, final

from sluicegate.messaging.message.usage import text_bytes
from sluicegate.messaging.topics.syntax import (
    ANY_LEVEL,
    LITERAL,
    NO_EXPORT,
    PREFIX,
    REST,
    REST_OR_NONE,
    Level,
    TopicFilter,
    filter_of,
    hidden_from_wildcards,
    local_filter,
)

V = TypeVar("V")


class SubscriptionOverview(NamedTuple):
    """What a subscription index holds."""

    entry_count: int  # pairs of filter and key
    literal_filter_count: int  # distinct
    wildcard_filter_count: int  # distinct
    node_count: int  # of the trie of wildcard filters, its root included


@final
class _Local:
    """The key of an entry that neighbor brokers are not told of: its subscriber may have the exported one as well."""

    __slots__ = ("key",)

    def __init__(self, key: Hashable) -> None:
        self.key: Final = key

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Local) and self.key == other.key

    def __hash__(self) -> int:
        return hash((NO_EXPORT, self.key))


@final
class _Node(Generic[V]):
    """A level of the trie. Absent fields are None, for most nodes have one kind of child only."""

    __slots__ = ("any_level", "entries", "literals", "prefixes", "rest", "rest_or_none")

    def __init__(self) -> None:
        self.entries: dict[Hashable, V] | None = None  # of the filter that ends here
        self.literals: dict[str, _Node[V]] | None = None
        self.any_level: _Node[V] | None = None
        self.prefixes: dict[int, dict[str, _Node[V]]] | None = None  # by length, so that one level costs few probes
        self.rest: _Node[V] | None = None
        self.rest_or_none: _Node[V] | None = None


@final
class SubscriptionIndex(Generic[V]):
    """Values by (filter, key), found by topic.

    The key tells subscribers of one filter apart; the value is what a match returns. Invariants: `count` is the
    number of pairs held; every node but the root has an entry or a child, so an empty index has one node.
    """

    def __init__(self) -> None:
        self._literal: dict[str, dict[Hashable, V]] = {}
        self._root: Final[_Node[V]] = _Node()
        self._entry_count = 0
        self._wildcard_filter_count = 0
        self._node_count = 1

    @property
    def count(self) -> int:
        """The number of entries: pairs of filter and key."""
        return self._entry_count

    def add(self, topic_filter: TopicFilter, key: Hashable, value: V) -> bool:
        """Set the value of (filter, key). Return whether the pair is new; else its value was replaced in place."""
        entries: dict[Hashable, V] | None
        if topic_filter.is_local:
            key = _Local(key)
        if topic_filter.is_literal:
            entries = self._literal.get(topic_filter.text)
            if entries is None:
                entries = self._literal[topic_filter.text] = {}
        else:
            node = self._root
            for level in topic_filter.levels:
                child = _child(node, level)
                if child is None:
                    child = _grow(node, level)
                    self._node_count += 1
                node = child
            entries = node.entries
            if entries is None:
                entries = node.entries = {}
                self._wildcard_filter_count += 1
        size_before = len(entries)
        entries[key] = value
        is_new = len(entries) > size_before
        if is_new:
            self._entry_count += 1
        return is_new

    def discard(self, topic_filter: TopicFilter, key: Hashable) -> bool:
        """Remove (filter, key) and the nodes that become empty. Return whether it existed."""
        if topic_filter.is_local:
            key = _Local(key)
        if topic_filter.is_literal:
            removed = self._discard_literal(topic_filter.text, key)
        else:
            removed = self._discard_wildcard(topic_filter, key)
        if removed:
            self._entry_count -= 1
        return removed

    def match(self, topic: str) -> list[V]:
        """Return the value of every entry whose filter matches, one per entry, so values may repeat.

        The order depends only on the adds and discards before: literal filters first, then wildcard filters as the trie
        is walked, entries of one filter in the order added.
        """
        found: list[V] = []
        entries = self._literal.get(topic)
        if entries is not None:
            found.extend(entries.values())
        if self._wildcard_filter_count:
            _collect(self._root, topic, found)
        return found

    def trace(self, topic: str) -> list[tuple[str, V]]:
        """Return the result of `match`, each with its filter, in MQTT's syntax where both syntaxes mean the same.

        For explanations: it costs several times as much as a match.
        """
        found: list[tuple[str, V]] = []
        entries = self._literal.get(topic)
        if entries is not None:
            found += _shown(topic, entries)
        reached: list[tuple[str, _Node[V]]] = [("", self._root)]
        may_be_wild = not hidden_from_wildcards(topic)
        for word in topic.split("/"):
            further: list[tuple[str, _Node[V]]] = []
            for path, node in reached:
                for text, child, is_end in _children_for(node, word):
                    if may_be_wild or text == word:
                        if is_end:
                            found += _shown(path + text, child.entries)
                        else:
                            further.append((f"{path}{text}/", child))
            reached = further
            may_be_wild = True
        for path, node in reached:
            found += _shown(path[:-1], node.entries)
            if node.rest_or_none is not None:
                found += _shown(path + "#", node.rest_or_none.entries)
        return found

    def entries(self) -> list[tuple[str, V]]:
        """Return every entry with its filter, in MQTT's syntax where both syntaxes mean the same: for operators."""
        found: list[tuple[str, V]] = []
        for topic, entries in self._literal.items():
            found += _shown(topic, entries)
        waiting: list[tuple[str, _Node[V]]] = [("", self._root)]
        while waiting:
            path, node = waiting.pop()
            for text, child in _named_children(node):
                found += _shown(path + text, child.entries)
                waiting.append((f"{path}{text}/", child))
        return found

    def items(self) -> list[tuple[TopicFilter, Hashable, V]]:
        """Return every entry with its filter and key."""
        found: list[tuple[TopicFilter, Hashable, V]] = []
        for topic, entries in self._literal.items():
            levels = tuple([Level(LITERAL, text) for text in topic.split("/")])
            _add_items(found, filter_of(levels), entries)
        waiting: list[tuple[tuple[Level, ...], _Node[V]]] = [((), self._root)]
        while waiting:
            path, node = waiting.pop()
            if node.entries is not None:
                _add_items(found, filter_of(path), node.entries)
            for level, child in _levelled_children(node):
                waiting.append(((*path, level), child))
        return found

    def overview(self) -> SubscriptionOverview:
        """Return the sizes, for operators and tests."""
        return SubscriptionOverview(
            entry_count=self._entry_count,
            literal_filter_count=len(self._literal),
            wildcard_filter_count=self._wildcard_filter_count,
            node_count=self._node_count,
        )

    def check(self) -> None:
        """Assert the invariants by walking everything; for tests."""
        entry_count = sum([len(entries) for entries in self._literal.values()])
        filter_count = 0
        nodes = [self._root]
        node_count = 0
        while nodes:
            node = nodes.pop()
            node_count += 1
            children = _children(node)
            if node.entries is not None:
                assert node.entries, "a node keeps an empty entry table"
                entry_count += len(node.entries)
                filter_count += 1
            assert _is_needed(node) == bool(node.entries or children), "a node keeps an empty table of children"
            assert node is self._root or _is_needed(node), "an empty node"
            nodes.extend(children)
        assert all(self._literal.values()), "an empty entry table of a literal filter"
        assert entry_count == self._entry_count
        assert filter_count == self._wildcard_filter_count
        assert node_count == self._node_count

    def __repr__(self) -> str:
        literal, wildcard = len(self._literal), self._wildcard_filter_count
        return f"SubscriptionIndex({self._entry_count} entries, {literal} literal + {wildcard} wildcard filters)"

    def _discard_literal(self, topic: str, key: Hashable) -> bool:
        entries = self._literal.get(topic)
        if entries is None or key not in entries:
            return False
        del entries[key]
        if not entries:
            del self._literal[topic]
        return True

    def _discard_wildcard(self, topic_filter: TopicFilter, key: Hashable) -> bool:
        path: list[_Node[V]] = [self._root]
        for level in topic_filter.levels:
            child = _child(path[-1], level)
            if child is None:
                return False
            path.append(child)
        entries = path[-1].entries
        if entries is None or key not in entries:
            return False
        del entries[key]
        if not entries:
            path[-1].entries = None
            self._wildcard_filter_count -= 1
            self._prune(path, topic_filter.levels)
        return True

    def _prune(self, path: list[_Node[V]], levels: tuple[Level, ...]) -> None:
        """Remove the empty end of the path. `path[i]` leads to `path[i + 1]` by `levels[i]`."""
        for index in range(len(levels) - 1, -1, -1):
            node = path[index + 1]
            if _is_needed(node):
                return
            _cut(path[index], levels[index])
            self._node_count -= 1


def _collect(root: _Node[V], topic: str, found: list[V]) -> None:
    """Append the values of all wildcard filters that match."""
    words = topic.split("/")
    reached = [root]
    depth = 0
    if hidden_from_wildcards(topic):
        named = None if root.literals is None else root.literals.get(words[0])
        if named is None:
            return
        reached = [named]
        depth = 1
    while depth < len(words):
        word = words[depth]
        depth += 1
        further: list[_Node[V]] = []
        for node in reached:
            _step(node, word, further, found)
        if not further:
            return
        reached = further
    for node in reached:
        if node.entries is not None:
            found.extend(node.entries.values())
        _take(node.rest_or_none, found)


def _step(node: _Node[V], word: str, further: list[_Node[V]], found: list[V]) -> None:
    """Take one more level of the topic: append to `found` what matches, and to `further` what may still match."""
    _take(node.rest, found)
    _take(node.rest_or_none, found)
    literals = node.literals
    if literals is not None:
        child = literals.get(word)
        if child is not None:
            further.append(child)
    if node.any_level is not None:
        further.append(node.any_level)
    prefixes = node.prefixes
    if prefixes is not None:
        for length, by_text in prefixes.items():
            if length <= len(word):
                child = by_text.get(word[:length])
                if child is not None:
                    further.append(child)


def _children_for(node: _Node[V], word: str) -> list[tuple[str, _Node[V], bool]]:
    """Return the child levels of a node that match one level of a topic; True where they match the rest too."""
    found: list[tuple[str, _Node[V], bool]] = []
    if node.rest is not None:
        found.append((">", node.rest, True))
    if node.rest_or_none is not None:
        found.append(("#", node.rest_or_none, True))
    if node.literals is not None and word in node.literals:
        found.append((word, node.literals[word], False))
    if node.any_level is not None:
        found.append(("+", node.any_level, False))
    for length, by_text in (node.prefixes or {}).items():
        child = by_text.get(word[:length]) if length <= len(word) else None
        if child is not None:
            found.append((f"{word[:length]}*", child, False))
    return found


def _named_children(node: _Node[V]) -> list[tuple[str, _Node[V]]]:
    """Return the child levels of a node, each with its text."""
    found: list[tuple[str, _Node[V]]] = list((node.literals or {}).items())
    if node.any_level is not None:
        found.append(("+", node.any_level))
    for by_text in (node.prefixes or {}).values():
        found += [(f"{text}*", child) for text, child in by_text.items()]
    if node.rest is not None:
        found.append((">", node.rest))
    if node.rest_or_none is not None:
        found.append(("#", node.rest_or_none))
    return found


def _levelled_children(node: _Node[V]) -> list[tuple[Level, _Node[V]]]:
    """Return the child levels of a node."""
    found = [(Level(LITERAL, text), child) for text, child in (node.literals or {}).items()]
    for by_text in (node.prefixes or {}).values():
        found += [(Level(PREFIX, text), child) for text, child in by_text.items()]
    for kind, only in ((ANY_LEVEL, node.any_level), (REST, node.rest), (REST_OR_NONE, node.rest_or_none)):
        if only is not None:
            found.append((Level(kind, ""), only))
    return found


def _add_items(
    found: list[tuple[TopicFilter, Hashable, V]], topic_filter: TopicFilter, entries: dict[Hashable, V]
) -> None:
    for key, value in entries.items():
        if isinstance(key, _Local):
            found.append((local_filter(topic_filter), key.key, value))
        else:
            found.append((topic_filter, key, value))


def _shown(text: str, entries: dict[Hashable, V] | None) -> list[tuple[str, V]]:
    """Return the entries of a filter, each with its text as a subscription."""
    if entries is None:
        return []
    return [(NO_EXPORT + text if isinstance(key, _Local) else text, value) for key, value in entries.items()]


def _take(node: _Node[V] | None, found: list[V]) -> None:
    if node is not None and node.entries is not None:
        found.extend(node.entries.values())


def _child(node: _Node[V], level: Level) -> _Node[V] | None:
    kind = level.kind
    if kind == LITERAL:
        return None if node.literals is None else node.literals.get(level.text)
    if kind == ANY_LEVEL:
        return node.any_level
    if kind == PREFIX:
        by_text = None if node.prefixes is None else node.prefixes.get(len(level.text))
        return None if by_text is None else by_text.get(level.text)
    return node.rest if kind == REST else node.rest_or_none


def _grow(node: _Node[V], level: Level) -> _Node[V]:
    """Add the child that the level leads to, which must be absent."""
    child: _Node[V] = _Node()
    kind = level.kind
    if kind == LITERAL:
        if node.literals is None:
            node.literals = {}
        node.literals[level.text] = child
    elif kind == ANY_LEVEL:
        node.any_level = child
    elif kind == PREFIX:
        if node.prefixes is None:
            node.prefixes = {}
        node.prefixes.setdefault(len(level.text), {})[level.text] = child
    elif kind == REST:
        node.rest = child
    else:
        node.rest_or_none = child
    return child


def _cut(node: _Node[V], level: Level) -> None:
    """Remove the child that the level leads to, which must exist."""
    kind = level.kind
    if kind == LITERAL:
        assert node.literals is not None
        del node.literals[level.text]
        if not node.literals:
            node.literals = None
    elif kind == ANY_LEVEL:
        node.any_level = None
    elif kind == PREFIX:
        assert node.prefixes is not None
        by_text = node.prefixes[len(level.text)]
        del by_text[level.text]
        if not by_text:
            del node.prefixes[len(level.text)]
        if not node.prefixes:
            node.prefixes = None
    elif kind == REST:
        node.rest = None
    else:
        node.rest_or_none = None


def _is_needed(node: _Node[V]) -> bool:
    return (
        node.entries is not None
        or node.literals is not None
        or node.any_level is not None
        or node.prefixes is not None
        or node.rest is not None
        or node.rest_or_none is not None
    )


def _children(node: _Node[V]) -> list[_Node[V]]:
    return [child for _, child in _named_children(node)]


# Of a subscription, beside its filter, which is stored twice: measured are 790 with one level, 1,100 with three.
SUBSCRIPTION_BYTES: Final = 512
LEVEL_BYTES: Final = 256  # of each level, which may need a node of its own


def subscription_bytes(topic_filter: TopicFilter) -> int:
    """Return the usage of a subscription: its filter in the index and in the owner's table, and their objects."""
    levels_count = topic_filter.text.count("/") + 1
    return int(SUBSCRIPTION_BYTES + 2 * text_bytes(topic_filter.text) + LEVEL_BYTES * levels_count)
