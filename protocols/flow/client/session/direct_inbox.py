"""The topic subscriptions of a client, and its direct messages that the program has not taken.

Flow: subscriptions. Direct messages have no credit, so the inbox is bounded in bytes: beyond that messages are dropped
and counted, as for every slow subscriber. Subscriptions are requested again on each connection.
"""

from collections import deque
from typing import Final, final

from sluicegate.protocols.flow.client.events import ClientEvent, SubscriptionLost
from sluicegate.protocols.flow.client.session.inbox import OVERHEAD_BYTES
from sluicegate.protocols.flow.client.session.requests import Request
from sluicegate.protocols.flow.codec.frame import SUBSCRIBE, UNSUBSCRIBE
from sluicegate.protocols.flow.codec.frames.deliver import Delivered
from sluicegate.protocols.flow.codec.frames.subscription import Subscribe

SUBSCRIPTIONS_MAX: Final = 10_000  # of one client: each is requested again on each connection


@final
class Subscription:
    """One topic filter, with its options."""

    def __init__(self, topic_filter: str, priorities: tuple[str, ...], selector: str) -> None:
        self.topic_filter = topic_filter
        self.priorities = priorities
        self.selector = selector

    def begin(self) -> Request:
        """Return the request that subscribes."""
        return Request(self._subscribe)

    def end(self) -> Request:
        """Return the request that ends it."""
        return Request(self._unsubscribe)

    def _subscribe(self, request_id: int) -> bytes:
        return Subscribe(SUBSCRIBE, request_id, self.topic_filter, self.priorities, self.selector).encode()

    def _unsubscribe(self, request_id: int) -> bytes:
        return Subscribe(UNSUBSCRIBE, request_id, self.topic_filter).encode()


@final
class DirectInbox:
    """Subscriptions of one client, and their waiting messages. Invariant: `_line_bytes` is the size of `_line`."""

    def __init__(self) -> None:
        self.bytes_max = 0  # maximum of waiting messages; 0: there is no subscriber
        self.dropped_count = 0
        self.has_news = False
        self.events: list[ClientEvent] = []  # for the owner to take
        self._subscriptions: dict[str, Subscription] = {}
        self._again: dict[Request, Subscription] = {}  # repeated on this connection by us, not by the program
        self._line: deque[Delivered] = deque()
        self._line_bytes = 0

    def add(self, subscription: Subscription) -> None:
        """Subscribe on each connection from the next on."""
        if len(self._subscriptions) >= SUBSCRIPTIONS_MAX and subscription.topic_filter not in self._subscriptions:
            raise ValueError(f"a client has at most {SUBSCRIPTIONS_MAX} subscriptions")
        self._subscriptions[subscription.topic_filter] = subscription

    def remove(self, topic_filter: str) -> Subscription | None:
        """Subscribe no more; return what there was."""
        return self._subscriptions.pop(topic_filter, None)

    def clear(self) -> list[Subscription]:
        """End all subscriptions, and drop waiting messages; return the ended subscriptions."""
        found = list(self._subscriptions.values())
        self._subscriptions.clear()
        self._line.clear()
        self._line_bytes = 0
        self.bytes_max = 0
        return found

    def begin_again(self) -> list[Request]:
        """Return the requests of a new connection."""
        self._again = {subscription.begin(): subscription for subscription in self._subscriptions.values()}
        return list(self._again)

    def answered(self, request: Request) -> None:
        """Handle the answer to a request that the program does not wait for."""
        subscription = self._again.pop(request, None)
        if subscription is not None and request.error is not None:
            self._subscriptions.pop(subscription.topic_filter, None)
            self.events.append(SubscriptionLost(subscription.topic_filter, str(request.error)))

    def delivered(self, deliveries: list[Delivered]) -> None:
        """Keep what there is room for."""
        for each in deliveries:
            size = len(each.payload) + OVERHEAD_BYTES
            if self._line_bytes + size > self.bytes_max:
                self.dropped_count += 1
            else:
                self._line.append(each)
                self._line_bytes += size
                self.has_news = True

    @property
    def waiting_count(self) -> int:
        """How many messages the program may take now."""
        return len(self._line)

    def take(self, count_max: int) -> list[Delivered]:
        """Return up to so many messages, in the order of their coming."""
        taken = [self._line.popleft() for _ in range(min(count_max, len(self._line)))]
        for each in taken:
            self._line_bytes -= len(each.payload) + OVERHEAD_BYTES
        return taken

    def __repr__(self) -> str:
        return f"DirectInbox({len(self._subscriptions)} subscriptions, {len(self._line)} waiting)"
