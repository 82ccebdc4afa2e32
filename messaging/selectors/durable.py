"""Durable selectors: the selectors of a virtual topic's consumers, also while they are disconnected.

A durable selector belongs to one subscriber of one queue, by client id. It is the selector that the subscriber last
used; it is replaced when the subscriber returns with another, and removed by an operator or with the queue. The union
of all durable selectors, and of those of the present consumers, decides what enters the queue.

With `compat` selectors add up per queue, regardless of the subscriber, as in ActiveMQ's cache. The router stores the
selectors and applies the union.
"""

from dataclasses import dataclass
from typing import Final, final

from sluicegate.messaging.selectors.lexer import END, TEXT, tokenize
from sluicegate.messaging.selectors.parser import read_prefixes

EVERYTHING: Final = ""  # the selector of a consumer without one
SUBSCRIBERS_MAX: Final = 10_000  # of one queue
SELECTORS_OF_ONE_MAX: Final = 64  # of one subscriber, which has that many different flows


@final
@dataclass(frozen=True)
class CacheRules:
    """How selectors are remembered. The fields after `compat` apply only with it, and come from ActiveMQ's cache."""

    durable: bool = True
    compat: bool = False
    single: bool = False  # a new selector takes the place of the old ones
    ignores_wildcards: bool = False  # selectors with a LIKE that has a live wildcard are not remembered


@final
class Remembered:
    """The durable selectors of one subscriber."""

    __slots__ = ("seen_ms", "selectors")

    def __init__(self, selectors: list[str], seen_ms: int) -> None:
        self.selectors = selectors  # sorted, each once; EVERYTHING among them: all messages
        self.seen_ms = seen_ms  # wall clock


@final
class QueueSelectors:
    """The selectors of the consumers of one queue."""

    def __init__(self, rules: CacheRules) -> None:
        self.rules = rules
        self.remembered: dict[str, Remembered] = {}
        self._bound: list[tuple[str, str]] = []  # subscriber and selector of each flow

    def consumers(self, bound: list[tuple[str, str]], wall_ms: int) -> bool:
        """Set the present consumers and their selectors. Return whether the remembered selectors have changed."""
        were_bound, are_bound = set(self._bound), set(bound)  # there may be thousands
        joined = [each for each in bound if each not in were_bound]
        left = [each for each in self._bound if each not in are_bound]
        self._bound = bound
        if not self.rules.durable:
            return False
        before = {name: each.selectors for name, each in self.remembered.items()}
        if self.rules.compat:
            # A single selector is that of the newest consumer; a consumer that is already present is not new.
            self._add_up(joined if self.rules.single and self.remembered else bound, left, wall_ms)
        else:
            selectors_of: dict[str, set[str]] = {}
            for subscriber, selector in bound:
                selectors_of.setdefault(subscriber, set()).add(selector)
            for subscriber, mine in selectors_of.items():
                if subscriber in self.remembered or len(self.remembered) < SUBSCRIBERS_MAX:
                    self.remembered[subscriber] = Remembered(sorted(mine)[:SELECTORS_OF_ONE_MAX], wall_ms)
        return before != {name: each.selectors for name, each in self.remembered.items()}

    def _add_up(self, came: list[tuple[str, str]], left: list[tuple[str, str]], wall_ms: int) -> None:
        """Remember by selector, regardless of the subscriber: ActiveMQ's way."""
        for _, selector in came:
            if self.rules.ignores_wildcards and has_live_wildcard(selector):
                continue
            if selector not in self.remembered and self.rules.single and selector != EVERYTHING:
                for other in [each for each in self.remembered if each != EVERYTHING]:
                    del self.remembered[other]
            if selector in self.remembered or len(self.remembered) < SUBSCRIBERS_MAX:
                self.remembered[selector] = Remembered([selector], wall_ms)
        if self.rules.single and len(self.remembered) > 1:
            everybody = [selector for _, selector in left]
            if EVERYTHING in everybody:
                self.remembered.pop(EVERYTHING, None)

    def put(self, subscriber: str, selectors: list[str], wall_ms: int) -> None:
        """Set the selectors of a subscriber that is disconnected."""
        self.remembered[subscriber] = Remembered(sorted(set(selectors)), wall_ms)

    def remove(self, subscriber: str) -> bool:
        """Forget a disconnected subscriber; return whether it existed."""
        return self.remembered.pop(subscriber, None) is not None

    def wanted(self) -> list[str] | None:
        """Return the selectors of which a message has to match one, None when every message is wanted."""
        all_of_them = [selector for _, selector in self._bound]
        for each in self.remembered.values():
            all_of_them += each.selectors
        if EVERYTHING in all_of_them:
            return None
        return list(dict.fromkeys(all_of_them))


def has_live_wildcard(selector: str) -> bool:
    """Return whether a selector has a LIKE with a `%` or `_` that is not escaped. The selector compiles."""
    start, _, hyphenated = read_prefixes(selector)
    words = tokenize(selector, start, hyphenated=hyphenated)
    for at, word in enumerate(words[:-1]):
        following = words[at + 1]
        if word.text != "LIKE" or following.kind != TEXT:
            continue
        escape = ""
        if at + 3 < len(words) and words[at + 2].text == "ESCAPE" and words[at + 3].kind != END:
            escape = words[at + 3].text
        if _is_live(following.text, escape):
            return True
    return False


def _is_live(pattern: str, escape: str) -> bool:
    at = 0
    while at < len(pattern):
        if pattern[at] == escape:
            at += 2
            continue
        if pattern[at] in "%_":
            return True
        at += 1
    return False
