"""Validate a set of virtual destinations: circles, which are refused, and findings that deserve a warning.

Targets are names without wildcards, so the ways of messages are known in advance. The check walks all ways from name to
name, through composites, virtual topics, and consumer queues that are composites themselves.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, final

from sluicegate.messaging.queues.definition import QueueInvalid, check_queue_name
from sluicegate.messaging.routing.virtual.definitions import (
    QUEUE,
    TOPIC,
    CompositeDestination,
    ForwardTarget,
    Place,
    VirtualDestinations,
)
from sluicegate.messaging.routing.virtual.names import ANY, REST, NameInvalid, NamePattern, levels_of
from sluicegate.messaging.routing.virtual.resolver import HOPS_MAX
from sluicegate.messaging.topics.syntax import TopicError, check_topic_name

FINDINGS_MAX: Final = 100  # of a walk; an operator reads no more


@final
@dataclass(frozen=True)
class DefinitionFault:
    """A finding about a definition, and its position."""

    place: Place
    text: str


def check_target(target: ForwardTarget) -> str:
    """Return what is wrong with a target by itself, empty if nothing is."""
    if any(level in (ANY, REST) for level in levels_of(target.name)):
        return f"{target.name!r} has a wildcard, and a message goes to one place; allowed: a name without '*' and '>'"
    try:
        if target.kind == QUEUE:
            check_queue_name(target.name)
        else:
            check_topic_name(target.name)
    except (QueueInvalid, TopicError) as problem:
        return str(problem)
    return ""


def errors_of(definitions: VirtualDestinations) -> list[DefinitionFault]:
    """Return the errors of a set of definitions: circles, and chains of more than 8 composites."""
    ways = _Ways(definitions)
    found: list[DefinitionFault] = []
    for composite in definitions.composites:
        if len(found) >= FINDINGS_MAX:
            break
        circle = ways.circle_from(composite)
        if circle:
            place = (*composite.place, "forward_to")
            found.append(
                DefinitionFault(place, f"messages would go round in a circle: {circle}; allowed: a way that ends")
            )
    if found:
        return found
    for composite in definitions.composites:
        hops = ways.longest_from(composite)
        if hops > HOPS_MAX:
            text = f"{hops} composites forward one after the other; allowed: at most {HOPS_MAX}"
            found.append(DefinitionFault((*composite.place, "forward_to"), text))
    return found


def warnings_of(definitions: VirtualDestinations) -> list[DefinitionFault]:
    """Return the warnings: what works, but is probably not intended."""
    found = [*_everything_is_virtual(definitions), *_same_names(definitions), *_copies_that_meet(definitions)]
    found += _both_ways(definitions)
    return found[:FINDINGS_MAX]


Name = tuple[str, str]  # kind and name of a target


class _Ways:
    """The graph of forwarding between targets."""

    def __init__(self, definitions: VirtualDestinations) -> None:
        self._definitions = definitions
        self._literal: dict[Name, list[CompositeDestination]] = {}
        self._wild: list[CompositeDestination] = []
        for each in definitions.composites:
            if each.name.is_literal:
                self._literal.setdefault((each.kind, _levels_key(each.name.text)), []).append(each)
            else:
                self._wild.append(each)
        self._after: dict[Name, list[Name]] = {}
        self._hops: dict[Name, int] = {}
        self._clear: set[Name] = set()  # no circle is reachable from these

    def circle_from(self, composite: CompositeDestination) -> str:
        """Return a circle that is reachable from a composite, in words; empty if there is none."""
        for target in _targets(composite):
            path = self._circle(target)
            if path:
                return " > ".join(f"{kind}://{name}" for kind, name in path)
        return ""

    def longest_from(self, composite: CompositeDestination) -> int:
        """Return the length of the longest chain of composites. The graph must have no circle."""
        return 1 + max([self._longest(target) for target in _targets(composite)], default=0)

    def _circle(self, start: Name) -> list[Name]:
        """Walk depth first with an explicit stack: chains have no bounded length yet."""
        path: list[Name] = [start]
        waiting: list[list[Name]] = [list(self.after(start))]
        while path:
            if not waiting[-1]:
                waiting.pop()
                self._clear.add(path.pop())
                continue
            following = waiting[-1].pop()
            if following in path:
                return [*path[path.index(following) :], following]
            if following not in self._clear:
                path.append(following)
                waiting.append(list(self.after(following)))
        return []

    def _longest(self, name: Name) -> int:
        """Return the number of composites in the longest chain from a name."""
        order: list[Name] = [name]
        while order:
            each = order[-1]
            missing = [after for after in self.after(each) if after not in self._hops]
            if missing:
                order += missing
                continue
            order.pop()
            self._hops[each] = max([1 + self._hops[after] for after in self.after(each)], default=0)
        return self._hops[name]

    def after(self, name: Name) -> list[Name]:
        """Return the targets that messages for a name are forwarded to."""
        found = self._after.get(name)
        if found is None:
            kind, text = name
            composites = self._composites(kind, text)
            if kind == TOPIC:
                composites += self._of_consumers(text)
            found = list(dict.fromkeys([target for each in composites for target in _targets(each)]))
            self._after[name] = found
        return found

    def _composites(self, kind: str, name: str) -> list[CompositeDestination]:
        literal = self._literal.get((kind, _levels_key(name)), [])
        return [*literal, *(each for each in self._wild if each.kind == kind and each.name.matches(name))]

    def _of_consumers(self, topic: str) -> list[CompositeDestination]:
        """Return the composites among the consumer queues of a topic."""
        found: list[CompositeDestination] = []
        for virtual in self._definitions.virtual_topics:
            if virtual.name.matches(topic):
                queues = virtual.consumers.pattern(NamePattern(topic))
                found += [
                    each for each in self._definitions.composites if each.kind == QUEUE and each.name.overlaps(queues)
                ]
        return found


def _targets(composite: CompositeDestination) -> list[Name]:
    return [(target.kind, target.name) for target in composite.forward_to]


def _levels_key(name: str) -> str:
    return "\0".join(levels_of(name))


def _everything_is_virtual(definitions: VirtualDestinations) -> Iterable[DefinitionFault]:
    for each in definitions.virtual_topics:
        if each.name.levels == [REST]:
            yield DefinitionFault((*each.place, "name"), "every topic is virtual: a queue is bound by its name alone")


def _same_names(definitions: VirtualDestinations) -> Iterable[DefinitionFault]:
    """Report names that are defined twice: the definitions add up, which is easily overlooked."""
    seen: dict[tuple[str, str], CompositeDestination] = {}
    for each in definitions.composites:
        key = (each.kind, _levels_key(each.name.text))
        before = seen.setdefault(key, each)
        if before is not each:
            text = f"{each.kind} {each.name.text!r} is defined twice: the targets of both get each message, once"
            yield DefinitionFault((*each.place, "name"), text)
        if before.forward_only != each.forward_only:
            text = "one definition of this name says forward_only and the other does not: its own subscribers get all"
            yield DefinitionFault((*each.place, "forward_only"), text)


def _copies_that_meet(definitions: VirtualDestinations) -> Iterable[DefinitionFault]:
    """Report topics whose messages are also copied to another topic: a client that subscribes to both gets two."""
    for each in definitions.composites:
        if each.kind != TOPIC or each.forward_only:
            continue
        for index, target in enumerate(each.forward_to):
            if target.kind == TOPIC and levels_of(target.name)[0] == each.name.levels[0]:
                text = (
                    f"a subscriber of {levels_of(target.name)[0]!r} and all below gets each message twice: as it was "
                    f"sent, and as its copy on {target.name!r}"
                )
                yield DefinitionFault((*each.place, "forward_to", index), text)


def _both_ways(definitions: VirtualDestinations) -> Iterable[DefinitionFault]:
    """Report a virtual topic that is a target beside a queue of its consumers."""
    for each in definitions.composites:
        topics = [target.name for target in each.forward_to if target.kind == TOPIC]
        for index, target in enumerate(each.forward_to):
            if target.kind != QUEUE:
                continue
            for virtual in definitions.virtual_topics:
                consumed = virtual.consumers.topic_in(target.name)
                both = [topic for topic in topics if consumed and virtual.name.matches(topic) and _is(consumed, topic)]
                if both:
                    text = f"queue {target.name!r} gets it by topic {both[0]!r} as well; it takes each message once"
                    yield DefinitionFault((*each.place, "forward_to", index), text)


def _is(consumed: str, topic: str) -> bool:
    try:
        return NamePattern(consumed).matches(topic)
    except NameInvalid:
        return False
