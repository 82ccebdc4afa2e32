"""Deliver-To-One: of the clients that get a direct copy of a message, its publisher wants one only to have it.

Who it is: every subscription that is deliver-always gets the message all the same; of the other clients those of the
best priority that are connected take turns. A client gets one copy at most, also when it has its turn and a
deliver-always subscription; the turn counts. Messages for queues and for shared groups are not concerned (but for a
queue that is one client's subscription, with `QueueTarget.turns`), and nobody who is away is waited for.

Subscriptions say the rest: `Subscription.priorities` is what one asked for, `Subscriber.priority` is for those that
asked for nothing. A turn is remembered with the client that had it, not with a topic: so a client that gets messages
of a thousand topics gets its share of them, and not each topic's first.
"""

from typing import Final, final

from sluicegate.messaging.message.batch import MessageBatch
from sluicegate.messaging.routing.destinations import DELIVER_ALWAYS, QueueTarget, Subscriber, Subscription
from sluicegate.messaging.routing.routes import Route, TopicSpace

PRIORITY_BEST: Final = 1
PRIORITY_WORST: Final = 4
PRIORITIES_ALLOWED: Final = "P1 (the best) to P4, or DA (deliver always)"

SHARINGS_CACHED_MAX: Final = 1024  # routes, of one publisher; all of them go when there are more

_BY_TEXT: Final = {"P1": 1, "P2": 2, "P3": 3, "P4": 4, "DA": DELIVER_ALWAYS}


class PriorityInvalid(ValueError):
    """A text is no Deliver-To-One priority."""


def priority_of(text: str) -> int:
    """Return the priority that a text names: 1 to 4, or DELIVER_ALWAYS. Raises PriorityInvalid."""
    found = _BY_TEXT.get(text.upper())
    if found is None:
        raise PriorityInvalid(f"{text[:20]!r} is no Deliver-To-One priority; allowed: {PRIORITIES_ALLOWED}")
    return found


def priority_text(priority: int) -> str:
    """Return a priority as operators write it."""
    return "DA" if priority == DELIVER_ALWAYS else f"P{priority}"


def priorities_of(texts: list[str]) -> tuple[int, ...]:
    """Return what the texts of one subscription ask for: a priority, deliver-always, or both. Raises PriorityInvalid.

    Both make it two subscriptions to the same topic. None of them: as the client's other subscriptions.
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
    """Return who of these receivers gets a message for one in any case, and whose turn it is. No turn is taken."""
    sharing = _Sharing(_matching(space, batch, row))
    there = set(receivers)
    candidates = sharing.candidates(there)
    return [each for each in sharing.always if each in there], candidates[0] if candidates else None


def asks_for_one(batch: MessageBatch, rows: list[int] | None) -> bool:
    """Return whether the publisher of some of these rows (None: all) wants Deliver-To-One."""
    column = batch.headers()
    if column is None:
        return False
    looked_at = column if rows is None else [column[row] for row in rows]
    return any(headers is not None and headers.deliver_to_one for headers in looked_at)


@final
class DeliverToOne:
    """Shares the messages of one publisher out."""

    def __init__(self, space: TopicSpace) -> None:
        self._space = space
        self._generation = -1  # of the space, that what follows was found under
        self._sharings: dict[Route, _Sharing] = {}

    def hands(
        self, route: Route, batch: MessageBatch, rows: list[int], receivers: list[Subscriber]
    ) -> dict[Subscriber, list[int]]:
        """Return which rows each of the receivers gets, in the order given.

        `receivers` are the clients of the route that get direct copies; rows that do not ask for one go to all.
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
                if not always:
                    self._space.offline_count += 1
                continue
            chosen = candidates[turn % len(candidates)]
            turn += 1
            self._space.turns_count += 1
            chosen.last_turn = self._space.turns_count
            if chosen not in always:
                hands.setdefault(chosen, []).append(row)
        return hands

    def _sharing(self, route: Route, batch: MessageBatch, row: int) -> "_Sharing":
        """Return who shares on a route, which is the one of this row."""
        if self._generation != self._space.generation or len(self._sharings) >= SHARINGS_CACHED_MAX:
            self._sharings.clear()
            self._generation = self._space.generation
        found = self._sharings.get(route)
        if found is None:
            found = self._sharings[route] = _Sharing(_matching(self._space, batch, row))
        return found


@final
class _Sharing:
    """The clients that subscribe to a topic, by the best priority that each of them has."""

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
        """Return the connected clients of the best priority that has any, whose turn was longest ago first."""
        for tier in self._tiers:
            connected = [each for each in tier if each.address is not None and each in receivers]
            if connected:
                connected.sort(key=_last_turn)
                return connected
        return []


def _last_turn(subscriber: Subscriber) -> int:
    return subscriber.last_turn


def _matching(space: TopicSpace, batch: MessageBatch, row: int) -> list[Subscription]:
    """Return the clients' subscriptions that a message meets, those with a queue of their own among them."""
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
