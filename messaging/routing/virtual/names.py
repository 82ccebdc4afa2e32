"""Names of virtual destinations: patterns over levels, and the queues that consume a virtual topic.

A name that contains a `/` is split there; any other name is split at its dots, as JMS brokers write names. So
`VirtualTopic.Orders` and `VirtualTopic/Orders` have the same levels, and one definition serves publishers of both
kinds. `*` matches any one level; `>` at the end matches this level, all below, and the level above: `A.>` matches `A`,
as it does in ActiveMQ.

Topic filters of subscriptions are different (`messaging.topics.syntax`); `index_filters` returns filters that match a
superset.
"""

import contextlib
import re
from typing import Final, final

from sluicegate.messaging.topics.syntax import (
    ANY_LEVEL,
    LITERAL,
    PREFIX,
    REST_OR_NONE,
    Level,
    Syntax,
    TopicError,
    TopicFilter,
    hidden_from_wildcards,
    parse_filter,
)

ANY: Final = "*"
REST: Final = ">"
NAME_CHARS_MAX: Final = 250  # as a topic in SMF
LEVELS_MAX: Final = 128


@final
class NameInvalid(ValueError):
    """A text is not a valid name of a virtual destination, or not permitted in this place."""

    def __init__(self, text: str, reason: str, allowed: str) -> None:
        super().__init__(f"{text!r}: {reason}; allowed: {allowed}")
        self.reason = reason
        self.allowed = allowed


def levels_of(name: str) -> list[str]:
    """Return the levels of a name."""
    return name.split("/" if "/" in name else ".")


@final
class NamePattern:
    """A pattern that matches names level by level. Immutable."""

    __slots__ = ("fixed", "has_rest", "is_literal", "levels", "text")

    def __init__(self, text: str) -> None:
        """Parse a pattern. Raises NameInvalid."""
        levels = levels_of(text)
        while len(levels) > 1 and levels[-1] == REST and levels[-2] == REST:
            levels.pop()
        _check(text, levels)
        self.text: Final = text
        self.levels: Final = levels
        self.has_rest: Final = levels[-1] == REST
        self.fixed: Final = levels[:-1] if self.has_rest else levels  # the levels before `>`
        self.is_literal: Final = not self.has_rest and ANY not in levels

    def matches(self, name: str) -> bool:
        """Return whether the pattern matches a topic or queue. Topics hidden from wildcards are hidden here as well."""
        levels = levels_of(name)
        if hidden_from_wildcards(name) and not self.is_literal:
            is_one_level = len(levels) > 1 and "/" not in name  # as filters split it: the wildcard is in the first
            if is_one_level or self.fixed[:1] in ([], [ANY]):
                return False
        if len(levels) != len(self.fixed) and (not self.has_rest or len(levels) < len(self.fixed)):
            return False
        return all(ours in (ANY, theirs) for ours, theirs in zip(self.fixed, levels, strict=False))

    def overlaps(self, other: "NamePattern") -> bool:
        """Return whether some name matches both patterns."""
        short, long = (self, other) if len(self.fixed) <= len(other.fixed) else (other, self)
        if len(short.fixed) < len(long.fixed) and not short.has_rest:
            return False
        return all(_agree(ours, theirs) for ours, theirs in zip(short.fixed, long.fixed, strict=False))

    def index_filters(self) -> list[TopicFilter]:
        """Return filters of which at least one matches every name that the pattern matches; they may match more."""
        slashed = [Level(ANY_LEVEL, "") if each == ANY else Level(LITERAL, each) for each in self.fixed]
        if self.has_rest:
            slashed.append(Level(REST_OR_NONE, ""))
        filters = [TopicFilter("/".join(self.levels), Syntax.SMF, tuple(slashed))]
        start = self.fixed[: self.fixed.index(ANY)] if ANY in self.fixed else self.fixed
        dotted = ".".join(start)
        level = Level(LITERAL, dotted) if self.is_literal else Level(PREFIX, dotted) if dotted else Level(ANY_LEVEL, "")
        filters.append(TopicFilter(dotted, Syntax.SMF, (level,)))
        return filters

    def exported_filters(self) -> list[TopicFilter]:
        """Return filters as subscribers write them, of which at least one matches every name that the pattern matches.

        They may match more. Names that no subscriber could write are left out.
        """
        if not self.fixed:
            return [parse_filter("#", Syntax.MQTT)]
        slashed = "/".join(["+" if each == ANY else each for each in self.fixed])
        texts = [(f"{slashed}/#" if self.has_rest else slashed, Syntax.MQTT)]
        if self.is_literal:
            dotted = ".".join(self.fixed)
        elif ANY in self.fixed:
            dotted = "".join([f"{each}." for each in self.fixed[: self.fixed.index(ANY)]]) + "*"
        else:
            dotted = ".".join(self.fixed) + "*"  # the level above `>` belongs to it
        texts.append((dotted, Syntax.SMF))
        filters: list[TopicFilter] = []
        for text, syntax in texts:
            with contextlib.suppress(TopicError):
                filters.append(parse_filter(text, syntax))
        return list(dict.fromkeys(filters))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NamePattern) and other.levels == self.levels

    def __hash__(self) -> int:
        return hash(tuple(self.levels))

    def __repr__(self) -> str:
        return f"NamePattern({self.text!r})"


@final
class ConsumerNames:
    """The names of the queues that consume a virtual topic: prefix, topic, postfix; `*` in the prefix is one level."""

    def __init__(self, prefix: str, postfix: str) -> None:
        self.prefix: Final = prefix
        self.postfix: Final = postfix
        self._dotted = _consumer_names(prefix, postfix, ".")
        self._slashed = _consumer_names(prefix, postfix, "/")

    def topic_in(self, queue_name: str) -> str:
        """Return the topic, or topic pattern, that a queue of this name consumes; empty when the name does not fit."""
        form = self._slashed if "/" in queue_name else self._dotted
        found = form.fullmatch(queue_name)
        return "" if found is None else found.group(1)

    def pattern(self, topic: NamePattern) -> NamePattern:
        """Return the pattern of the queue names for the topics of a pattern."""
        text = ".".join(topic.levels)
        before = self.prefix.replace("/", ".")
        after = self.postfix.replace("/", ".")
        if topic.has_rest and after:  # nothing may follow `>`: it stands for the postfix as well
            after = ""
        return NamePattern(before + text + after)


def _consumer_names(prefix: str, postfix: str, separator: str) -> re.Pattern[str]:
    parts = [re.escape(_separated(part, separator)) for part in prefix.split(ANY)]
    level = f"[^{re.escape(separator)}*>]+"
    return re.compile(level.join(parts) + "(.+)" + re.escape(_separated(postfix, separator)))


def _separated(text: str, separator: str) -> str:
    return text.replace("/" if separator == "." else ".", separator)


def _agree(ours: str, theirs: str) -> bool:
    return ours == theirs or ANY in (ours, theirs)


def _check(text: str, levels: list[str]) -> None:
    allowed = f"1 to {NAME_CHARS_MAX} characters: levels between '.' or '/', '*' as a level, '>' as the last one"
    if not text or text.strip() != text:
        raise NameInvalid(text, "it is empty, or begins or ends with a space", allowed)
    if len(text) > NAME_CHARS_MAX or len(levels) > LEVELS_MAX:
        raise NameInvalid(text, f"it has {len(text)} characters in {len(levels)} levels", allowed)
    for index, level in enumerate(levels):
        if REST in level and (level != REST or index != len(levels) - 1):
            raise NameInvalid(text, "'>' is not the whole of the last level", allowed)
        if ANY in level and level != ANY:
            raise NameInvalid(text, "'*' is not the whole of its level", allowed)
