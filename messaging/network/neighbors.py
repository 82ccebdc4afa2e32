"""The interest of neighbors in the topics of one message VPN, and the part of a route that leads over links.

It is an index of its own beside that of the VPN's subscriptions: a route asks both. What a neighbor wants of a topic
does not depend on the message; selectors are applied there.
"""

from collections.abc import Iterable
from typing import Final, final

from sluicegate.messaging.network.interest import Change, Interest, InterestKind
from sluicegate.messaging.network.link import GroupKey, LinkOutput
from sluicegate.messaging.network.queue_names import QueueHome, QueueNames, is_told
from sluicegate.messaging.topics.subscription_index import SubscriptionIndex
from sluicegate.messaging.topics.syntax import LITERAL, PREFIX, TopicError, TopicFilter, is_queue_topic, queue_name_of

_AFTER_ALL: Final = 4  # added to the priority of candidates that may not select the message: they are the last choice


@final
class Neighbor:
    """A neighbor broker, for one message VPN."""

    __slots__ = ("last_turn", "output")

    def __init__(self, output: LinkOutput) -> None:
        self.output: Final = output
        self.last_turn = 0  # number of the last Deliver-To-One message that it was chosen for

    def __repr__(self) -> str:
        return f"Neighbor({self.output.neighbor!r})"


@final
class _Want:
    """What a neighbor wants of the topics of a filter. Shared by the entries of all filters that it wants it of."""

    __slots__ = ("is_guaranteed", "neighbor", "priority", "selects")

    def __init__(self, neighbor: Neighbor, priority: int, selects: bool, is_guaranteed: bool) -> None:
        self.neighbor: Final = neighbor
        self.priority: Final = priority
        self.selects: Final = selects
        self.is_guaranteed: Final = is_guaranteed


@final
class RemoteGroup:
    """The neighbors with members of one shared group; they take turns."""

    __slots__ = ("_away", "_present", "_turn", "key")

    def __init__(self, key: GroupKey) -> None:
        self.key: Final = key
        self._present: list[Neighbor] = []  # with a member that takes any message
        self._away: list[Neighbor] = []  # whose members are away: they have turns while no other neighbor has
        self._turn = 0

    def join(self, neighbor: Neighbor, *, selects: bool) -> None:
        """Add a neighbor, or what it has beside; `selects` as in `Interest`."""
        neighbors = self._away if selects else self._present
        if neighbor not in neighbors:
            neighbors.append(neighbor)

    def leave(self, neighbor: Neighbor, *, selects: bool) -> bool:
        """Remove a neighbor as it has joined; return whether no neighbor is left."""
        neighbors = self._away if selects else self._present
        if neighbor in neighbors:
            neighbors.remove(neighbor)
        return not (self._present or self._away)

    @property
    def is_up(self) -> bool:
        """Whether one of the neighbors is there."""
        return any(each.output.is_up for each in self._present) or any(each.output.is_up for each in self._away)

    def next_neighbor(self) -> Neighbor:
        """Return the neighbor whose turn it is, without taking the turn. There is one, as the group is in a route."""
        neighbors = self._there()
        return neighbors[(self._turn + 1) % len(neighbors)]

    def next_output(self) -> LinkOutput:
        """Return the neighbor whose turn it is, and take the turn."""
        neighbors = self._there()
        self._turn = (self._turn + 1) % len(neighbors)
        return neighbors[self._turn].output

    def _there(self) -> list[Neighbor]:
        for neighbors in (self._present, self._away):
            there = [each for each in neighbors if each.output.is_up]
            if there:
                return there
        return self._present or self._away  # a link went down a moment ago: it counts what it drops

    def __repr__(self) -> str:
        return f"RemoteGroup({self.key!r}, {self._present}, away {self._away})"


@final
class NeighborMatch:
    """What a neighbor wants of one topic."""

    __slots__ = ("always", "neighbor", "output", "rank")

    def __init__(self, neighbor: Neighbor) -> None:
        self.neighbor: Final = neighbor
        self.output: Final = neighbor.output
        self.always = False  # each Deliver-To-One message, for clients that always get them, and for queues
        self.rank = 0  # as candidate for Deliver-To-One messages: 1 is the best; 0: it has no candidate

    def add(self, priority: int, *, selects: bool) -> None:
        """Add an interest."""
        if priority == 0:
            self.always = True
            return
        rank = priority + _AFTER_ALL if selects else priority
        if self.rank == 0 or rank < self.rank:
            self.rank = rank


@final
class LinkRoute:
    """The neighbors that want the messages of one topic. Immutable, but for turns.

    A guaranteed message goes into the queues of the links in `stored`, also for direct subscribers there, and directly
    to the neighbors in `beside`. A direct message goes to those in `outputs`.

    With `is_named`, it is for one queue of one neighbor, which the message names, and goes through the link's queue,
    guaranteed or not.
    """

    __slots__ = ("_candidates", "beside", "groups", "home", "is_named", "matches", "outputs", "stored")

    def __init__(
        self,
        matches: list[NeighborMatch],
        groups: list[RemoteGroup],
        stored: dict[LinkOutput, None],
        home: QueueHome | None = None,
        *,
        is_named: bool = False,
    ) -> None:
        self.home: Final = home  # of the queue that it leads to, and that is asked; None: there is none
        self.is_named: Final = is_named
        self.matches: Final = matches  # neighbors that are there, each once, in the order of their interest
        self.groups: Final = groups
        self.outputs: Final = [match.output for match in matches]
        self.stored: Final = list(stored)  # neighbors that want guaranteed messages, also those that are away
        self.beside: Final = [output for output in self.outputs if output not in stored]
        best = min([match.rank for match in matches if match.rank], default=0)
        self._candidates: Final = [match.neighbor for match in matches if match.rank and match.rank == best]

    @property
    def has_candidates(self) -> bool:
        """Whether a neighbor has clients that share Deliver-To-One messages."""
        return bool(self._candidates)

    @property
    def places_count(self) -> int:
        """The cost of caching it."""
        return len(self.matches) + len(self.groups) + len(self.stored)

    def candidate(self) -> Neighbor:
        """Return the neighbor with the best candidates for Deliver-To-One that was chosen the longest ago."""
        found = self._candidates[0]
        for neighbor in self._candidates:
            if neighbor.last_turn < found.last_turn:
                found = neighbor
        return found

    def next_candidate(self, turn: int) -> LinkOutput:
        """Choose the next candidate; `turn` rises from call to call."""
        chosen = self.candidate()
        chosen.last_turn = turn
        return chosen.output

    def __repr__(self) -> str:
        return f"LinkRoute({self.outputs}, {self.groups})"


def link_route_to(output: LinkOutput, home: QueueHome | None = None) -> LinkRoute | None:
    """Return the route of a name that only one neighbor has, whatever it wants; None: nothing can be sent there now.

    `home` is the queue of that name, as far as it is known here.
    """
    matches: list[NeighborMatch] = []
    if output.is_up:
        match = NeighborMatch(Neighbor(output))
        match.add(0, selects=False)
        matches.append(match)
    stored: dict[LinkOutput, None] = {output: None} if output.has_queue else {}
    return LinkRoute(matches, [], stored, home) if matches or stored else None


@final
class NeighborInterest:
    """What the neighbors of one message VPN want.

    Invariants: an interest that was added twice is held once; `count` is the number of interests held.
    """

    def __init__(self) -> None:
        self.count = 0
        self.turns_count = 0  # Deliver-To-One messages for which a neighbor was chosen
        self._index: SubscriptionIndex[_Want | RemoteGroup] = SubscriptionIndex()
        self._neighbors: dict[LinkOutput, Neighbor] = {}
        self._wants: dict[tuple[LinkOutput, int, bool, bool], _Want] = {}
        self._groups: dict[GroupKey, RemoteGroup] = {}
        self._held: dict[LinkOutput, dict[Interest, TopicFilter]] = {}
        self.queues: Final = QueueNames()

    def change(self, output: LinkOutput, change: Change) -> list[str] | None:
        """Apply a change. Return the topics whose routes it concerns; None: it may concern any."""
        concerned: list[str] | None = []
        held = self._held.setdefault(output, {})
        for interest in change.removed:
            topic_filter = held.pop(interest, None)
            if topic_filter is not None:
                self.count -= 1
                self._discard(output, interest, topic_filter)
                concerned = _with_topic(concerned, topic_filter)
        for interest in change.added:
            if interest in held:
                continue
            topic_filter = _filter_of(interest, output)
            if topic_filter is None:
                continue
            self.count += 1
            held[interest] = topic_filter
            self._add(output, interest, topic_filter)
            concerned = _with_topic(concerned, topic_filter)
        if not held:
            del self._held[output]
        return concerned

    def forget(self, output: LinkOutput) -> bool:
        """Remove everything that a neighbor wants; return whether it wanted anything."""
        held = self._held.pop(output, None)
        if held is None:
            return False
        for interest, topic_filter in held.items():
            self.count -= 1
            self._discard(output, interest, topic_filter)
        return True

    def route(self, topic: str) -> LinkRoute | None:
        """Return the neighbors that messages of a topic are for; None: for no neighbor.

        Of a queue's topic: the neighbor that has the queue. The caller asks only where there is none here.
        """
        if is_queue_topic(topic):
            return self._queue_route(queue_name_of(topic))
        found = self._index.match(topic)
        if not found:
            return None
        matches: dict[Neighbor, NeighborMatch] = {}
        groups: dict[RemoteGroup, None] = {}
        stored: dict[LinkOutput, None] = {}
        for each in found:
            if isinstance(each, RemoteGroup):
                if each.is_up:
                    groups[each] = None
                continue
            output = each.neighbor.output
            if each.is_guaranteed and output.has_queue:
                stored[output] = None
            if not output.is_up:
                continue
            match = matches.get(each.neighbor)
            if match is None:
                match = matches[each.neighbor] = NeighborMatch(each.neighbor)
            match.add(each.priority, selects=each.selects)
        if not matches and not groups and not stored:
            return None
        return LinkRoute(list(matches.values()), list(groups), stored)

    def _queue_route(self, name: str) -> LinkRoute | None:
        home = self.queues.only_home(name)
        if home is None:
            return None
        return link_route_to(home.output, home)

    def filters(self, topic: str) -> dict[LinkOutput, list[str]]:
        """Return the filters by which each neighbor wants messages of a topic, without those of groups."""
        if is_queue_topic(topic):
            return {home.output: [topic] for home in self.queues.homes(queue_name_of(topic))}
        found: dict[LinkOutput, list[str]] = {}
        for text, each in self._index.trace(topic):
            if isinstance(each, _Want) and text not in found.setdefault(each.neighbor.output, []):
                found[each.neighbor.output].append(text)
        return found

    def entries(self) -> Iterable[tuple[LinkOutput, Interest]]:
        """Return every interest with its neighbor, for operators."""
        return [(output, interest) for output, held in self._held.items() for interest in held]

    def check(self) -> None:
        """Assert the invariants; for tests."""
        self._index.check()
        assert self.count == sum([len(held) for held in self._held.values()])
        shared = [
            (interest.group, topic_filter)
            for held in self._held.values()
            for interest, topic_filter in held.items()
            if interest.kind == InterestKind.SHARED
        ]
        assert set(self._groups) == set(shared), "a group without a neighbor"
        queues_count = len([1 for held in self._held.values() for each in held if each.kind == InterestKind.QUEUE])
        assert self._index.count == len(self._groups) + self.count - len(shared) - queues_count

    def _neighbor(self, output: LinkOutput) -> Neighbor:
        found = self._neighbors.get(output)
        if found is None:
            found = self._neighbors[output] = Neighbor(output)
        return found

    def _add(self, output: LinkOutput, interest: Interest, topic_filter: TopicFilter) -> None:
        if interest.kind == InterestKind.QUEUE:
            self.queues.add(output, interest)
            return
        neighbor = self._neighbor(output)
        if interest.kind == InterestKind.SHARED:
            key = (interest.group, topic_filter)
            group = self._groups.get(key)
            if group is None:
                group = self._groups[key] = RemoteGroup(key)
                self._index.add(topic_filter, key, group)
            group.join(neighbor, selects=interest.selects)
            return
        place = (output, interest.priority, interest.selects, interest.is_guaranteed)
        want = self._wants.get(place)
        if want is None:
            want = self._wants[place] = _Want(neighbor, interest.priority, interest.selects, interest.is_guaranteed)
        self._index.add(topic_filter, (output, interest), want)

    def _discard(self, output: LinkOutput, interest: Interest, topic_filter: TopicFilter) -> None:
        if interest.kind == InterestKind.QUEUE:
            self.queues.discard(output, interest)
            return
        if interest.kind == InterestKind.SHARED:
            key = (interest.group, topic_filter)
            group = self._groups.get(key)  # none: the neighbor had the group in two forms, of which one has ended
            if group is not None and group.leave(self._neighbor(output), selects=interest.selects):
                del self._groups[key]
                self._index.discard(topic_filter, key)
            return
        self._index.discard(topic_filter, (output, interest))


def stays_local(topic_filter: TopicFilter) -> bool:
    """Return whether a filter never crosses a link: its client says so, or its first level begins with `$` or `#`.

    Such topics are each broker's own: its queues, its state and its events.
    """
    if topic_filter.is_local:
        return True
    first = topic_filter.levels[0]
    return first.kind in (LITERAL, PREFIX) and first.text.startswith(("$", "#"))


def _filter_of(interest: Interest, output: LinkOutput) -> TopicFilter | None:
    """Return the filter of an interest; None for one that no message may cross a link for, or that does not parse."""
    try:
        topic_filter = interest.filter()
    except TopicError:
        return None
    if interest.kind == InterestKind.QUEUE:
        return topic_filter if output.is_sibling or is_told(interest.topic_filter) else None
    return None if stays_local(topic_filter) else topic_filter


def _with_topic(concerned: list[str] | None, topic_filter: TopicFilter) -> list[str] | None:
    if concerned is None or not topic_filter.is_literal:
        return None
    concerned.append(topic_filter.text)
    return concerned
