"""What this broker wants of its neighbors: the subscriptions of a topic space, as interests.

A space has a `LocalInterests` while its message VPN has links, and tells it each change of a subscription.

Not every subscription is exported. Filters whose first level begins with `$` or `#` name what belongs to one broker:
its events, and the topics that it made for one client. The topic of a durable queue is exported as the queue's name.
"""

from collections.abc import Callable, Hashable
from typing import Final, final

from sluicegate.messaging.network.interest import Change, Interest, InterestCounts, shared, subscribers
from sluicegate.messaging.network.link import LinkOutput
from sluicegate.messaging.network.neighbors import stays_local
from sluicegate.messaging.network.queue_names import is_told, queue_interest
from sluicegate.messaging.routing.destinations import Destination, QueueTarget, ShareGroup, Subscription
from sluicegate.messaging.topics.relations import covers
from sluicegate.messaging.topics.syntax import TopicFilter, matches, queue_topic

_NOTHING: Final[list[Interest]] = []


@final
class ExportRules:
    """Which subscriptions one link exports, by their topic filters and by the names of their queues.

    A rule applies to the filters that it covers: `plant/>` to `plant/1/*`, and not to `>`; and to retained messages of
    the topics that it matches. Rules of topics do not apply to the names of queues.
    """

    def __init__(
        self,
        include: tuple[TopicFilter, ...] = (),
        exclude: tuple[TopicFilter, ...] = (),
        exclude_queues: frozenset[str] = frozenset(),
        *,
        to_sibling: bool = False,
    ) -> None:
        self.include = include  # empty: all
        self.exclude = exclude
        self.exclude_queues = exclude_queues
        self.to_sibling = to_sibling  # to another broker of this machine: names of all durable queues are exported

    def allows_name(self, queue: str) -> bool:
        """Return whether the name of a durable queue is exported."""
        return queue not in self.exclude_queues and (self.to_sibling or is_told(queue))

    def allows(self, topic_filter: TopicFilter, queue: str) -> bool:
        """Return whether a subscription is exported; `queue` is the named queue that has it, empty for clients."""
        if queue and queue in self.exclude_queues:
            return False
        if self.include and not any(covers(rule, topic_filter) for rule in self.include):
            return False
        return not any(covers(rule, topic_filter) for rule in self.exclude)

    @property
    def has_topics(self) -> bool:
        """Whether there are rules about topics."""
        return bool(self.include or self.exclude)

    def allows_topic(self, topic: str) -> bool:
        """Return whether what is retained on a topic crosses the link."""
        if self.include and not any(matches(rule, topic) for rule in self.include):
            return False
        return not any(matches(rule, topic) for rule in self.exclude)


@final
class _Export:
    """The interests that one link exports, each with the number of subscriptions that ask for it."""

    def __init__(self, on_change: Callable[[Change], None], rules: ExportRules) -> None:
        self.on_change = on_change
        self.rules = rules
        self.counts = InterestCounts()


@final
class _Place:
    """One subscription: a filter and a key of the index."""

    __slots__ = ("destination", "interests", "is_name", "queue")

    def __init__(self, topic_filter: TopicFilter, destination: Destination) -> None:
        self.destination = destination
        self.interests: list[Interest] = _NOTHING
        self.queue = destination.name if isinstance(destination, QueueTarget) else ""
        self.is_name = self.queue != "" and topic_filter.text == queue_topic(self.queue)  # the queue's own topic

    def passes(self, rules: ExportRules, topic_filter: TopicFilter) -> bool:
        """Return whether a link exports it."""
        return rules.allows_name(self.queue) if self.is_name else rules.allows(topic_filter, self.queue)

    def wants(self, topic_filter: TopicFilter) -> list[Interest]:
        """Return what it wants now."""
        destination = self.destination
        if self.is_name:
            assert isinstance(destination, QueueTarget), "the topic is its own"
            return _NOTHING if destination.facts is None else [queue_interest(self.queue, destination.facts)]
        return _NOTHING if stays_local(topic_filter) else _interests_of(topic_filter, destination)


@final
class LocalInterests:
    """The interests of one message VPN, for all its links."""

    def __init__(self) -> None:
        self.begun_count = 0  # interests that have begun for a link since the start: neighbors have to be told
        self._places: dict[Hashable, dict[TopicFilter, _Place]] = {}  # by the key of the subscription
        self._exports: dict[LinkOutput, _Export] = {}

    def begin(self, entries: list[tuple[TopicFilter, Hashable, Destination]]) -> None:
        """Begin with the subscriptions that there are."""
        for topic_filter, key, destination in entries:
            self.subscribed(topic_filter, key, destination)

    @property
    def has_exports(self) -> bool:
        """Whether a link exports them."""
        return bool(self._exports)

    def links(self) -> list[LinkOutput]:
        """Return the links that export them."""
        return list(self._exports)

    def export_to(self, link: LinkOutput, on_change: Callable[[Change], None], rules: ExportRules) -> Change:
        """Begin to call `on_change` with what changes for a link; return what it exports now."""
        export = self._exports[link] = _Export(on_change, rules)
        added: list[Interest] = []
        for places in self._places.values():
            for topic_filter, place in places.items():
                if place.interests and place.passes(rules, topic_filter):
                    added += [each for each in place.interests if export.counts.begin(each)]
        return Change(added, [])

    def end_export(self, link: LinkOutput) -> None:
        """Tell a link nothing any more."""
        self._exports.pop(link, None)

    # --- changes of the topic space ---

    def subscribed(self, topic_filter: TopicFilter, key: Hashable, destination: Destination) -> None:
        """A subscription is new, or has replaced the one with its filter and key."""
        places = self._places.get(key)
        if places is None:
            places = self._places[key] = {}
        before = places.get(topic_filter)
        place = places[topic_filter] = _Place(topic_filter, destination)
        place.interests = place.wants(topic_filter)
        self._replace(topic_filter, place, _NOTHING if before is None else before.interests)

    def unsubscribed(self, topic_filter: TopicFilter, key: Hashable) -> None:
        """A subscription has ended."""
        places = self._places.get(key)
        place = None if places is None else places.pop(topic_filter, None)
        if places is None or place is None:
            return
        if not places:
            del self._places[key]
        before, place.interests = place.interests, _NOTHING
        self._replace(topic_filter, place, before)

    def renew(self, key: Hashable) -> None:
        """What the subscriptions of a client, queue or group want may have changed, for another reason than these."""
        for topic_filter, place in self._places.get(key, {}).items():
            before = place.interests
            place.interests = place.wants(topic_filter)
            if place.interests != before:
                self._replace(topic_filter, place, before)

    def _replace(self, topic_filter: TopicFilter, place: _Place, before: list[Interest]) -> None:
        """Tell the links that the interests of a place have changed."""
        for export in self._exports.values():
            if not place.passes(export.rules, topic_filter):
                continue
            added = [each for each in place.interests if export.counts.begin(each)]
            removed = [each for each in before if export.counts.end(each)]
            if added or removed:
                self.begun_count += len(added)
                export.on_change(Change(added, removed))


def _interests_of(topic_filter: TopicFilter, destination: Destination) -> list[Interest]:
    """Return what a subscription wants now.

    While its client is away, it wants guaranteed messages at most, and no message for one receiver if another broker
    has a client for it.
    """
    if isinstance(destination, ShareGroup):
        found = [shared(topic_filter, destination.name, selects=destination.whose_turn() is None)]
    elif isinstance(destination, Subscription):
        subscriber = destination.subscriber
        is_away = subscriber.address is None
        if is_away and destination.qos == 0:
            return _NOTHING
        selects = is_away or destination.selector is not None
        priorities = destination.priorities or (subscriber.priority,)
        wants = destination.qos > 0
        found = [subscribers(topic_filter, each, selects=selects, is_guaranteed=wants) for each in priorities]
    else:
        found = [
            subscribers(topic_filter, priority, selects=destination.selector is not None, is_guaranteed=True)
            for priority in _priorities_of(destination)
        ]
    return [each for each in found if each is not None]


def _priorities_of(target: QueueTarget) -> tuple[int, ...]:
    """Return the Deliver-To-One priorities of a queue: a queue that takes no turns gets all messages."""
    if target.turns is None:
        return (0,)
    return target.priorities or (target.turns.priority,)
