"""Which topics have an alias towards one client: those that it is sent most (section 3.3.2.3.4).

A new topic takes a free alias. When all are taken, topics without one are counted, and one that comes more than twice
as often as the least used topic with an alias takes its place. The factor keeps topics of like frequency from changing
places all the time: each change costs the name and the property. Counts are halved now and then, so that topics of
the past give way.

Not here: what the packets look like (`publish_writer`).
"""

from typing import Final, final

NO_ALIAS: Final = 0

SAVING_CHARACTERS_MIN: Final = 4  # an alias costs three bytes in each packet
CHARACTERS_MAX: Final = 1024  # of a topic that is remembered: longer ones would fill the memory
CANDIDATES_PER_ALIAS: Final = 4  # topics that are counted and have no alias
USES_MAX: Final = 1024  # of a topic before all counts are halved


@final
class TopicAliases:
    """The aliases of one client.

    Invariants: a topic is known or a candidate, never both; at most `count_max` topics are known, and at most
    CANDIDATES_PER_ALIAS times as many are candidates.
    """

    def __init__(self, count_max: int) -> None:
        self._count_max = count_max
        self._known: dict[str, int] = {}  # topic -> alias, as the client has it
        self._topics: list[str] = [""]  # by alias; there is no alias 0
        self._uses: list[int] = [0]  # by alias
        self._candidates: dict[str, int] = {}  # topic -> how often it came
        self._least_uses = 0  # no known topic has fewer

    def alias_of(self, topic: str, count: int) -> int:
        """Return the alias that the client has for a topic, of which so many messages are sent; NO_ALIAS if none."""
        alias = self._known.get(topic, NO_ALIAS)
        if alias != NO_ALIAS:
            uses = self._uses[alias] + count
            self._uses[alias] = uses
            if uses >= USES_MAX:
                self._age()
        return alias

    def offer(self, topic: str, count: int) -> int:
        """Count a topic that has no alias; return the one that its packet is to set, NO_ALIAS if none.

        The caller says with `set` that the packet goes out.
        """
        if not SAVING_CHARACTERS_MIN <= len(topic) <= CHARACTERS_MAX:
            return NO_ALIAS
        if len(self._topics) <= self._count_max:
            return len(self._topics)
        seen = self._candidates.get(topic, 0) + count
        if seen > 2 * self._least_uses:
            alias = self._least_used()
            self._least_uses = self._uses[alias]
            if seen > 2 * self._least_uses:
                return alias
        self._note(topic, seen)
        return NO_ALIAS

    def set(self, topic: str, alias: int, count: int) -> None:
        """Note that the client has an alias for a topic from here on [3.3.2-11]; what had it before is a candidate."""
        uses = self._candidates.pop(topic, 0) + count
        if alias == len(self._topics):
            self._topics.append(topic)
            self._uses.append(uses)
        else:
            former, former_uses = self._topics[alias], self._uses[alias]
            del self._known[former]
            self._topics[alias] = topic
            self._uses[alias] = uses
            self._note(former, former_uses)
        self._known[topic] = alias

    def check(self) -> None:
        """Assert the invariants; for tests."""
        assert len(self._known) == len(self._topics) - 1 == len(self._uses) - 1 <= self._count_max
        assert all(self._topics[alias] == topic for topic, alias in self._known.items())
        assert not self._known.keys() & self._candidates.keys()
        assert len(self._candidates) <= self._count_max * CANDIDATES_PER_ALIAS
        assert all(self._least_uses <= uses for uses in self._uses[1:])

    def _least_used(self) -> int:
        least = 1
        for alias in range(2, len(self._uses)):
            if self._uses[alias] < self._uses[least]:
                least = alias
        return least

    def _note(self, topic: str, seen: int) -> None:
        candidates = self._candidates
        if len(candidates) >= self._count_max * CANDIDATES_PER_ALIAS and topic not in candidates:
            self._age()
            if len(self._candidates) >= self._count_max * CANDIDATES_PER_ALIAS:
                self._candidates.clear()
        self._candidates[topic] = seen

    def _age(self) -> None:
        """Halve all counts, and forget candidates that came once. A topic that comes once displaces none."""
        for alias in range(1, len(self._uses)):
            self._uses[alias] = max(self._uses[alias] >> 1, 1)
        self._least_uses >>= 1
        self._candidates = {topic: seen >> 1 for topic, seen in self._candidates.items() if seen > 1}
