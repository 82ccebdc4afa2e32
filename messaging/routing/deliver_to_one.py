"""Deliver-To-One: send a direct message to one of the clients that subscribe to its topic, as its publisher asked.

Every deliver-always subscription gets the message. Of the other clients, the connected ones of the best priority take
turns. A client gets at most one copy, also when it has the turn and a deliver-always subscription; the turn counts.
Deliver-To-One does not concern messages for queues and shared groups, except a queue that is the subscription of one
client (`QueueTarget.turns`). It does not wait for a disconnected client. A neighbor broker gets the message only where
no client of this broker has the turn (`messaging.network.parts`).

`Subscription.priorities` is what a subscription asked for; `Subscriber.priority` applies to subscriptions that asked
for nothing. A turn is remembered with the client, not with a topic: a client that subscribes to a thousand topics gets
its share of them, not the first message of each.
"""

from typing import Final, final

from sluicegate.messaging.message.batch import MessageBatch
from sluicegate.messaging.routing.destinations import DELIVER_ALWAYS, QueueTarget, Subscriber, Subscription
from sluicegate.messaging.routing.receivers import Route
from sluicegate.messaging.routing.routes import TopicSpace

PRIORITY_BEST: Final = 1
PRIORITY_WORST: Final = 4
PRIORITIES_ALLOWED: Final = "P1 (the best) to P4, or DA (deliver always)"

SHARINGS_CACHED_MAX: Final = 1024  # routes, of one publisher; the cache is cleared when it is full

_BY_TEXT: Final = {"P1": 1, "P2": 2, "P3": 3, "P4": 4, "DA": DELIVER_ALWAYS}


class PriorityInvalid(ValueError):
    """A text is not a Deliver-To-One priority."""


def priority_of(text: str) -> int:
    """Return the priority that a text names: 1 to 4, or DELIVER_ALWAYS. Raises PriorityInvalid."""
    found = _BY_TEXT.get(text.upper())
    if found is None:
        raise PriorityInvalid(f"{text[:20]!r} is not a Deliver-To-One priority; allowed: {PRIORITIES_ALLOWED}")
    return found


def priority_text(priority: int) -> str:
    """Return a priority as operators write it."""
    return "DA" if priority == DELIVER_ALWAYS else f"P{priority}"


def priorities_of(texts: list[str]) -> tuple[int, ...]:
    """Return what the texts of one subscription ask for: a priority, deliver-always, or both. Raises PriorityInvalid.

    With both, the subscription counts as two subscriptions to the same topic. With neither, the client's priority
    applies.
    """
    if not texts:
        return ()
    priorities = sorted({priority_of(text) for text in texts}, reverse=True)
    if len([each for each in priorities if each != DELIVER_ALWAYS]) > 1:
        shown = ", ".join(priority_text(each) for each in priorities)
        raise PriorityInvalid(f"{shown} on one subscription; allowed: one of P1 to P4, and DA beside it")
    return tuple(priorities)


def whose_turn(
    space: TopicSpace, batch: MessageBatch, row: int, receivers: list[Subscriber]
) -> tuple[list[Subscriber], Subscriber | None]:
    """Return the receivers that get a message in any case, and the receiver whose turn it is. No turn is taken."""
    sharing = _Sharing(_matching(space, batch, row))
    there = set(receivers)
    candidates = sharing.candidates(there)
    return [each for each in sharing.always if each in there], candidates[0] if candidates else None


def asks_for_one(batch: MessageBatch, rows: list[int] | None) -> bool:
    """Return whether the publisher of some of these rows (None: all) asked for Deliver-To-One."""
    column = batch.headers()
    if column is None:
        return False
    looked_at = column if rows is None else [column[row] for row in rows]
    return any(headers is not None and headers.deliver_to_one for headers in looked_at)


@final
class DeliverToOne:
    """Distribute the Deliver-To-One messages of one publisher."""

    def __init__(self, space: TopicSpace) -> None:
        self._space = space
        self._generation = -1  # generation of the topic space that the entries below belong to
        self._sharings: dict[Route, _Sharing] = {}

    def hands(
        self,
        route: Route,
        batch: MessageBatch,
        rows: list[int],
        receivers: list[Subscriber],
        unclaimed: list[int] | None = None,
    ) -> dict[Subscriber, list[int]]:
        """Return the rows that each receiver gets, in the order given.

        `receivers` are the clients of the route that get direct copies. Rows that do not ask for Deliver-To-One go to
        all. Rows for which no client has the turn are added to `unclaimed`; with None they are dropped and counted,
        unless a deliver-always subscription gets them.
        """
        hands: dict[Subscriber, list[int]] = {}
        candidates: list[Subscriber] = []
        always: list[Subscriber] = []
        is_dealt = False
        turn = 0
        for row in rows:
            headers = batch.headers_of(row)
            if headers is None or not headers.deliver_to_one:
                for receiver in receivers:
                    hands.setdefault(receiver, []).append(row)
                continue
            if not is_dealt:
                is_dealt = True
                sharing = self._sharing(route, batch, row)
                there = set(receivers)
                always = [each for each in sharing.always if each in there]
                candidates = sharing.candidates(there)
            for receiver in always:
                hands.setdefault(receiver, []).append(row)
            if not candidates:
                if unclaimed is None:
                    self._space.offline_count += 0 if always else 1
                else:
                    unclaimed.append(row)
                continue
            chosen = candidates[turn % len(candidates)]
            turn += 1
            self._space.turns_count += 1
            chosen.last_turn = self._space.turns_count
            if chosen not in always:
                hands.setdefault(chosen, []).append(row)
        return hands

    def arrived(
        self, route: Route, batch: MessageBatch, row: int, receivers: list[Subscriber], *, is_always: bool, is_one: bool
    ) -> list[Subscriber]:
        """Return the receivers of a Deliver-To-One message from a neighbor broker.

        Its broker has chosen who gets it here: deliver-always subscriptions, the client whose turn it is, or both.
        """
        sharing = self._sharing(route, batch, row)
        there = set(receivers)
        found = [each for each in sharing.always if each in there] if is_always else []
        candidates = sharing.candidates(there) if is_one else []
        if candidates:
            self._space.turns_count += 1
            candidates[0].last_turn = self._space.turns_count
            if candidates[0] not in found:
                found.append(candidates[0])
        return found

    def _sharing(self, route: Route, batch: MessageBatch, row: int) -> "_Sharing":
        """Return the clients that share the messages of the route of this row."""
        if self._generation != self._space.generation or len(self._sharings) >= SHARINGS_CACHED_MAX:
            self._sharings.clear()
            self._generation = self._space.generation
        found = self._sharings.get(route)
        if found is None:
            found = self._sharings[route] = _Sharing(_matching(self._space, batch, row))
        return found


@final
class _Sharing:
    """The clients that subscribe to a topic, by the best priority of each."""

    def __init__(self, subscriptions: list[Subscription]) -> None:
        always: dict[Subscriber, None] = {}
        best: dict[Subscriber, int] = {}
        for subscription in subscriptions:
            subscriber = subscription.subscriber
            for priority in subscription.priorities or (subscriber.priority,):
                if priority == DELIVER_ALWAYS:
                    always[subscriber] = None
                elif priority < best.get(subscriber, PRIORITY_WORST + 1):
                    best[subscriber] = priority
        self.always = list(always)
        self._tiers: list[list[Subscriber]] = []
        for tier in range(PRIORITY_BEST, PRIORITY_WORST + 1):
            of_tier = [subscriber for subscriber, priority in best.items() if priority == tier]
            if of_tier:
                self._tiers.append(of_tier)

    def candidates(self, receivers: set[Subscriber]) -> list[Subscriber]:
        """Return the connected clients of the best priority that has any, the least recently chosen first."""
        for tier in self._tiers:
            connected = [each for each in tier if each.address is not None and each in receivers]
            if connected:
                connected.sort(key=_last_turn)
                return connected
        return []


def _last_turn(subscriber: Subscriber) -> int:
    return subscriber.last_turn


def _matching(space: TopicSpace, batch: MessageBatch, row: int) -> list[Subscription]:
    """Return the client subscriptions that match a message, including those with a queue of their own."""
    topic = batch.topic_of(row)
    met: list[Subscription] = []
    for found in space.matching(topic):
        if isinstance(found, Subscription):
            if found.selector is None or found.selector.matches(batch, row):
                met.append(found)
        elif isinstance(found, QueueTarget):
            place = found.turns
            if place is not None and (found.selector is None or found.selector.matches(batch, row)):
                met.append(Subscription(place, 0, None, found.priorities))
    return met
