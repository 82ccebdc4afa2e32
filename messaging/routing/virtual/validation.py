"""What is wrong with a set of virtual destinations: circles, which nobody may load, and what deserves a warning.

Targets are names without wildcards, so where a message can go is known before there is one: this walks all ways, from
name to name, through composites, virtual topics, and queues of consumers that are composites again.
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

FINDINGS_MAX: Final = 100  # of a walk: whoever has more reads no further


@final
@dataclass(frozen=True)
class DefinitionFault:
    """Something about a definition, and where it stands."""

    place: Place
    text: str


def check_target(target: ForwardTarget) -> str:
    """Return what is wrong with a target by itself, or an empty text."""
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
    """Return what no set of definitions may have: circles, and chains of more than 8 composites."""
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
    """Return what works, and is probably not what somebody wants."""
    found = [*_everything_is_virtual(definitions), *_same_names(definitions), *_copies_that_meet(definitions)]
    found += _both_ways(definitions)
    return found[:FINDINGS_MAX]


Name = tuple[str, str]  # kind and name of a target


class _Ways:
    """The ways from target to target."""

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
        self._clear: set[Name] = set()  # from these no way leads into a circle

    def circle_from(self, composite: CompositeDestination) -> str:
        """Return a circle that messages of a composite come into, in words, or an empty text."""
        for target in _targets(composite):
            path = self._circle(target)
            if path:
                return " > ".join(f"{kind}://{name}" for kind, name in path)
        return ""

    def longest_from(self, composite: CompositeDestination) -> int:
        """Return how many composites stand behind each other. Only where there is no circle."""
        return 1 + max([self._longest(target) for target in _targets(composite)], default=0)

    def _circle(self, start: Name) -> list[Name]:
        """Walk depth first, with a stack of our own: chains may be as long as somebody writes them."""
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
        """Return how many composites take what comes to a name further, one after the other."""
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
        """Return where messages for a name are forwarded to."""
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
        """Return composites that are queues of consumers of a topic."""
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
    """A name that is defined twice: what its definitions say adds up, and is easily read otherwise."""
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
    """A topic whose messages also go out as copies under another topic: who subscribes to both has them twice."""
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
    """A target that is a virtual topic, beside a target that is a queue of its consumers."""
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
