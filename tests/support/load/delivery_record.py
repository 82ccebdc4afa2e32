"""The record of confirmed and delivered messages, and its checks. It uses no socket and no gateway."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import Final

from support.load.mqtt_clients import Received

ALL: Final[Mapping[str, int]] = {}


class DeliveryRecord:
    """Deliveries of one destination in the order its consumers saw them.

    Publishers number each key from 1 on without gaps, so a key's first deliveries have to count up from 1.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.received: list[Received] = []
        self._highest: dict[str, int] = defaultdict(int)
        self._counts: Counter[tuple[str, int]] = Counter()
        self._out_of_order: list[tuple[Received, int]] = []  # with the highest number before it
        self._unmarked: list[Received] = []
        self._partitions: dict[str, set[str]] = defaultdict(set)

    def note(self, received: Received) -> None:
        """Take one delivery."""
        identity = (received.key, received.number)
        highest = self._highest[received.key]
        if received.number > highest:
            if received.number != highest + 1:
                self._out_of_order.append((received, highest))
            self._highest[received.key] = received.number
        if self._counts[identity] and not received.redelivered:
            self._unmarked.append(received)
        self._counts[identity] += 1
        self._partitions[received.key].add(received.partition)
        self.received.append(received)

    def has_all(self, confirmed: dict[str, int]) -> bool:
        """Return whether of every key the last confirmed message was delivered."""
        return all(self._highest[key] >= number for key, number in confirmed.items())

    def missing(self, confirmed: dict[str, int], *, since: Mapping[str, int] = ALL) -> list[tuple[str, int]]:
        """Return the confirmed messages that were not delivered; of the numbers of a key, those above `since`."""
        numbers = (
            (key, number) for key, last in confirmed.items() for number in range(since.get(key, 0) + 1, last + 1)
        )
        return [identity for identity in numbers if identity not in self._counts]

    def check_nothing_is_lost(self, confirmed: dict[str, int], *, since: Mapping[str, int] = ALL) -> None:
        """Every confirmed message was delivered at least once; of the numbers of a key, those above that of `since`."""
        lost = self.missing(confirmed, since=since)
        assert lost == [], f"{self.name}: {len(lost)} confirmed messages were lost, the first are {lost[:10]}"

    def check_order(self) -> None:
        """The first deliveries of each key count up from 1: no gap, no step back."""
        wrong = [f"{received} after number {highest}" for received, highest in self._out_of_order]
        assert wrong == [], f"{self.name}: {len(wrong)} out of order, the first are {wrong[:5]}"

    def check_repetitions_are_marked(self) -> None:
        """A second delivery of a message is flagged."""
        assert self._unmarked == [], f"{self.name}: {len(self._unmarked)} came again unmarked: {self._unmarked[:5]}"

    def check_one_delivery_is_unmarked(self, keys: Iterable[str]) -> None:
        """Of a message of these keys one delivery at most is not marked, in whatever order its consumers read."""
        asked = set(keys)
        fresh = Counter((each.key, each.number) for each in self.received if not each.redelivered and each.key in asked)
        wrong = [(identity, count) for identity, count in fresh.items() if count > 1]
        assert wrong == [], f"{self.name}: {len(wrong)} messages came twice as new: {wrong[:10]}"

    def repeated_count(self, keys: Iterable[str]) -> int:
        """Return how many messages of these keys came more than once."""
        asked = set(keys)
        return sum(1 for (key, _), count in self._counts.items() if count > 1 and key in asked)

    def check_nothing_is_repeated(self) -> None:
        """Each message was delivered once."""
        repeated = [(identity, count) for identity, count in self._counts.items() if count > 1]
        assert repeated == [], f"{self.name}: {len(repeated)} messages came more than once: {repeated[:10]}"

    def check_keys_stay_in_their_partition(self) -> None:
        """All messages of a key come from one partition."""
        assert {key: found for key, found in self._partitions.items() if len(found) > 1} == {}
