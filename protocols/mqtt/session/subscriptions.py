"""The subscriptions of one session, and the delivery options they give a message.

A message reaches a client once, however many subscriptions match (section 3.3.4): at the highest granted QoS, with the
identifiers of all of them. The topic space only knows that the client gets the message; the options are looked up
here, once per topic.
"""

from typing import Final, final

from sluicegate.messaging.message.batch import AT_LEAST_ONCE, AT_MOST_ONCE, EXACTLY_ONCE, MessageBatch
from sluicegate.messaging.selectors.selector import Selector
from sluicegate.messaging.topics.subscription_index import SubscriptionIndex
from sluicegate.messaging.topics.syntax import TOPIC_REMEMBERED_CHARACTERS_MAX, TopicFilter

TOPICS_CACHED_MAX: Final = 4096


@final
class GrantedSubscription:
    """One granted subscription. Immutable."""

    def __init__(
        self,
        topic_filter: TopicFilter,
        qos: int,
        no_local: bool,
        retain_as_published: bool,
        retain_handling: int,
        identifier: int,
        selector: Selector | None,
        priorities: tuple[int, ...] = (),
    ) -> None:
        self.topic_filter = topic_filter
        self.qos = qos
        self.no_local = no_local
        self.retain_as_published = retain_as_published
        self.retain_handling = retain_handling
        self.identifier = identifier  # 0: none
        self.selector = selector  # None: every message
        self.priorities = priorities  # for Deliver-To-One, as messaging.routing.destinations.Subscription.priorities

    def is_as(self, other: "GrantedSubscription") -> bool:
        """Return whether it grants the same as another of this filter."""
        return (
            self.qos == other.qos
            and self.no_local == other.no_local
            and self.retain_as_published == other.retain_as_published
            and self.retain_handling == other.retain_handling
            and self.identifier == other.identifier
            and self.selector == other.selector
            and self.priorities == other.priorities
        )


@final
class DeliveryOptions:
    """What all matching subscriptions together ask of a message."""

    __slots__ = ("identifiers", "qos", "retain_as_published")

    def __init__(self, qos: int, retain_as_published: bool, identifiers: list[int] | None) -> None:
        self.qos = qos  # -1: no subscription matches (any more)
        self.retain_as_published = retain_as_published
        self.identifiers = identifiers

    def is_as(self, other: "DeliveryOptions") -> bool:
        """Return whether others ask for the same."""
        return self is other or (
            self.qos == other.qos
            and self.retain_as_published == other.retain_as_published
            and self.identifiers == other.identifiers
        )


NOT_WANTED: Final = DeliveryOptions(-1, False, None)
_UNIFORM: Final = (*[DeliveryOptions(qos, False, None) for qos in (0, 1, 2)], NOT_WANTED)  # the last is at -1


def qos_of(batch: MessageBatch, qos_granted: int) -> int:
    """Return the QoS for rows of a queue: direct messages that it spooled are guaranteed from there on."""
    return min(max(batch.qos, 1), qos_granted)


@final
class SubscriptionTable:
    """Subscriptions of one session, without the shared ones and those of named queues.

    `uniform_qos` is the QoS of every subscription when they all agree and none has an option, an identifier or a
    selector: then every message is treated alike, and nothing has to be looked up. It is -1 otherwise.
    """

    def __init__(self) -> None:
        self.by_filter: dict[str, GrantedSubscription] = {}
        self.uniform_qos = -1
        self.uniform_options = NOT_WANTED  # of `uniform_qos`
        self._selects = False  # a subscription has a selector
        self._at_least_once_count = 0  # subscriptions with QoS 1
        self._exactly_once_count = 0
        self._selecting_count = 0
        self._special_count = 0  # with an option, an identifier or a selector
        # Made on first lookup: most sessions have uniform subscriptions and never need them.
        self._index: SubscriptionIndex[GrantedSubscription] | None = None
        self._cache: dict[str, DeliveryOptions] | None = None
        self._own_cache: dict[str, DeliveryOptions] | None = None

    def grant(self, filter_text: str, subscription: GrantedSubscription) -> None:
        """Add or replace a subscription."""
        assert self is not NO_SUBSCRIPTIONS, "what sessions share has none"
        former = self.by_filter.get(filter_text)
        if former is not None:
            self._count(former, -1)
        self.by_filter[filter_text] = subscription
        if self._index is not None:
            self._index.add(subscription.topic_filter, 0, subscription)
        self._count(subscription, 1)
        self._changed()

    def revoke(self, filter_text: str) -> GrantedSubscription | None:
        """Remove a subscription and return it; None if there was none."""
        subscription = self.by_filter.pop(filter_text, None)
        if subscription is not None:
            if self._index is not None:
                self._index.discard(subscription.topic_filter, 0)
            self._count(subscription, -1)
            self._changed()
        return subscription

    def _options(self, topic: str, own: bool) -> DeliveryOptions:
        """Return what to do with a message on a topic, where nothing selects; `own`: this client sent it [3.8.3-3]."""
        cache = self._own_cache if own else self._cache
        found = None if cache is None else cache.get(topic)
        if found is None:
            found = _combined(self._matching(topic), own)
            if len(topic) > TOPIC_REMEMBERED_CHARACTERS_MAX:
                return found
            if cache is None or len(cache) >= TOPICS_CACHED_MAX:
                cache = {}
                if own:
                    self._own_cache = cache
                else:
                    self._cache = cache
            cache[topic] = found
        return found

    def _matching(self, topic: str) -> list[GrantedSubscription]:
        index = self._index
        if index is None:
            index = self._index = SubscriptionIndex()
            for subscription in self.by_filter.values():
                index.add(subscription.topic_filter, 0, subscription)
        return index.match(topic)

    def runs(self, batch: MessageBatch, start: int, stop: int, *, own: bool) -> list[tuple[int, int, DeliveryOptions]]:
        """Cut the rows `[start, stop)` of a batch into runs of equal options; `own`: this client published it."""
        if batch.topics is None and not self._selects:
            return [(start, stop, self._options(batch.topic, own))]
        runs: list[tuple[int, int, DeliveryOptions]] = []
        first = start
        options = self._options_of_row(batch, start, own)
        for row in range(start + 1, stop):
            its = self._options_of_row(batch, row, own)
            if not its.is_as(options):
                runs.append((first, row, options))
                first = row
                options = its
        runs.append((first, stop, options))
        return runs

    def _options_of_row(self, batch: MessageBatch, row: int, own: bool) -> DeliveryOptions:
        topic = batch.topic_of(row)
        if not self._selects:
            return self._options(topic, own)
        asking = [each for each in self._matching(topic) if each.selector is None or each.selector.matches(batch, row)]
        return _combined(asking, own)

    def _count(self, subscription: GrantedSubscription, step: int) -> None:
        """Count one subscription more or less: a client may have thousands, so they are not scanned for one."""
        if subscription.qos == AT_LEAST_ONCE:
            self._at_least_once_count += step
        elif subscription.qos == EXACTLY_ONCE:
            self._exactly_once_count += step
        selects = subscription.selector is not None
        if selects:
            self._selecting_count += step
        if selects or subscription.no_local or subscription.retain_as_published or subscription.identifier:
            self._special_count += step

    def _changed(self) -> None:
        self._cache = self._own_cache = None
        self._selects = self._selecting_count > 0
        self.uniform_qos = self._common_qos() if self._special_count == 0 else -1
        self.uniform_options = _UNIFORM[self.uniform_qos]

    def _common_qos(self) -> int:
        """Return the QoS of all subscriptions; -1 where they differ, or there are none."""
        count = len(self.by_filter)
        if count == 0:
            return -1
        if self._exactly_once_count == count:
            return EXACTLY_ONCE
        if self._at_least_once_count == count:
            return AT_LEAST_ONCE
        return AT_MOST_ONCE if self._exactly_once_count + self._at_least_once_count == 0 else -1


NO_SUBSCRIPTIONS: Final = SubscriptionTable()  # of all sessions that have none; see `Session.grant`


def _combined(asking: list[GrantedSubscription], own: bool) -> DeliveryOptions:
    """Return what subscriptions that want a message ask of it together."""
    qos = -1
    retain_as_published = False
    identifiers: list[int] = []
    for each in asking:
        if own and each.no_local:
            continue
        if each.qos > qos:
            qos = each.qos
        retain_as_published = retain_as_published or each.retain_as_published
        if each.identifier and each.identifier not in identifiers:
            identifiers.append(each.identifier)
    if qos < 0:
        return NOT_WANTED
    return DeliveryOptions(qos, retain_as_published, identifiers or None)
