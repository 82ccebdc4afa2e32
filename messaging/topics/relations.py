"""Relations between two topic filters: whether one covers the other, and whether they overlap.

`messaging.topics.syntax` defines what a filter matches; the rules here follow from its three, over the levels alone. A
filter that ends in REST is treated as one that ends in ANY_LEVEL and REST_OR_NONE, which match the same topics; and so
is a filter that is REST_OR_NONE alone, for every topic has a level.

Invariants, with `matches` for any topic: if `covers(outer, inner)`, the outer filter matches whatever the inner one
matches; if both match a topic, they overlap.
"""

from typing import Final

from sluicegate.messaging.topics.syntax import (
    ANY_LEVEL,
    LITERAL,
    PREFIX,
    REST,
    REST_OR_NONE,
    Level,
    TopicFilter,
    hidden_from_wildcards,
)

_ANY: Final = Level(ANY_LEVEL, "")
_REST_OR_NONE: Final = Level(REST_OR_NONE, "")


def covers(outer: TopicFilter, inner: TopicFilter) -> bool:
    """Return whether the outer filter matches every topic that the inner one matches."""
    if _hides(outer.levels[0], inner.levels[0]):
        return False
    outer_levels = _levels(outer)
    inner_levels = _levels(inner)
    for index, level in enumerate(outer_levels):
        if level.kind == REST_OR_NONE:
            return True
        if index == len(inner_levels) or not _covers_level(level, inner_levels[index]):
            return False
    return len(outer_levels) == len(inner_levels)


def overlap(one: TopicFilter, other: TopicFilter) -> bool:
    """Return whether there may be a topic that both filters match."""
    if _hides(one.levels[0], other.levels[0]) or _hides(other.levels[0], one.levels[0]):
        return False
    levels = _levels(one)
    others = _levels(other)
    for index in range(max(len(levels), len(others))):
        level = levels[index] if index < len(levels) else None
        other_level = others[index] if index < len(others) else None
        if (level is not None and level.kind == REST_OR_NONE) or (
            other_level is not None and other_level.kind == REST_OR_NONE
        ):
            return True
        if level is None or other_level is None or not _meet(level, other_level):
            return False
    return True


def _hides(first: Level, literal: Level) -> bool:
    """Return whether a first level is a wildcard that does not reach topics with that other first level."""
    return first.kind != LITERAL and literal.kind == LITERAL and hidden_from_wildcards(literal.text)


def _levels(topic_filter: TopicFilter) -> list[Level]:
    levels = list(topic_filter.levels)
    if levels[-1].kind == REST or (len(levels) == 1 and levels[0].kind == REST_OR_NONE):
        levels[-1:] = [_ANY, _REST_OR_NONE]
    return levels


def _covers_level(outer: Level, inner: Level) -> bool:
    if inner.kind == REST_OR_NONE:
        return False
    if outer.kind == ANY_LEVEL:
        return True
    if outer.kind == PREFIX:
        return inner.kind in (LITERAL, PREFIX) and inner.text.startswith(outer.text)
    return inner.kind == LITERAL and inner.text == outer.text


def _meet(one: Level, other: Level) -> bool:
    """Return whether some text matches both levels, neither of which stands for further levels."""
    if one.kind == ANY_LEVEL or other.kind == ANY_LEVEL:
        return True
    if one.kind == PREFIX and other.text.startswith(one.text):
        return True
    if other.kind == PREFIX and one.text.startswith(other.text):
        return True
    return one.kind == LITERAL and other.kind == LITERAL and one.text == other.text
