"""The topic subscriptions of one client, and its direct messages.

Flow: subscriptions. They end with the connection: a client that must not miss messages binds a queue with
subscriptions. If the client does not read, its publishers are held up for a while and messages are dropped then, as
in every protocol.
"""

from typing import Final, NamedTuple, final

from sluicegate.actors.messages.data import SharedDirect
from sluicegate.actors.messages.router import LeaveGroup, RemoveSubscription
from sluicegate.actors.runtime.runtime import ActorCell
from sluicegate.messaging.message.batch import AT_MOST_ONCE, MessageBatch
from sluicegate.messaging.message.outcomes import DISCARD_EXPIRED
from sluicegate.messaging.routing.destinations import Subscriber, Subscription
from sluicegate.messaging.routing.routes import TopicSpace
from sluicegate.messaging.topics.syntax import (
    SharedFilter,
    TopicFilter,
)
from sluicegate.protocols.connection.counters import ProtocolCounters, Traffic
from sluicegate.protocols.connection.write_control import WriteControl
from sluicegate.protocols.flow.codec.frame import SESSION
from sluicegate.protocols.flow.codec.frames.deliver import DeliverHead, write_deliver

DIALECT: Final = 0xB5  # key of `MessageBatch.encodings`: one form for all flow clients


class MadeSubscription(NamedTuple):
    """A subscription of one connection."""

    filter: TopicFilter | SharedFilter
    subscription: Subscription


@final
class Subscriptions:
    """The subscriptions of one connection, by their texts."""

    def __init__(
        self,
        cell: ActorCell,
        space: TopicSpace,
        counters: ProtocolCounters,
        traffic: Traffic,
        *,
        buffer_bytes_max: int,
        slow_subscriber_stall_ms: int,
    ) -> None:
        self.write_control = WriteControl(
            cell, counters, buffer_bytes_max=buffer_bytes_max, slow_subscriber_stall_ms=slow_subscriber_stall_ms
        )
        self.by_text: dict[str, MadeSubscription] = {}
        self.unanswered_count = 0  # requests
        self._cell = cell
        self._space = space
        self._counters = counters
        self._traffic = traffic
        self._subscriber: Subscriber | None = None  # None before the first subscription

    def subscriber(self, client: str, dto_local_priority: int) -> Subscriber:
        """Return where the client's direct messages go; the first subscription makes it."""
        subscriber = self._subscriber
        if subscriber is None:
            name = self._cell.name  # names of clients need not be unique here
            subscriber = self._subscriber = Subscriber(f"{client}/{name}", key=f"\0{name}")
            self._space.prioritise(subscriber, dto_local_priority)
            subscriber.address = self._cell.inbox
            subscriber.pressure = self.write_control.pressure
        return subscriber

    def end(self, router: ActorCell) -> None:
        """The connection ends, and its subscriptions with it."""
        self.write_control.close()
        subscriber = self._subscriber
        if subscriber is None:
            return
        subscriber.address = subscriber.pressure = None
        for made in self.by_text.values():
            router.inbox.post(end_of(made.filter, subscriber))
        self.by_text.clear()

    # --- direct messages ---

    def receive(self, message: MessageBatch | SharedDirect, wall_ms: int) -> bytes:
        """Return the frames for a direct batch, and count its messages; none when the client has too much unread."""
        batch = message.batch if isinstance(message, SharedDirect) else message
        if not self.by_text or self.write_control.drops_direct(batch.count):
            return b""
        encoded, expired_count = encode_direct(batch, wall_ms)
        sent_count = batch.count - expired_count
        self._counters.messages_sent += sent_count
        self._traffic.messages_sent += sent_count
        if expired_count:
            self._counters.count(self._counters.dropped, DISCARD_EXPIRED, expired_count)
        return encoded


def end_of(found: TopicFilter | SharedFilter, subscriber: Subscriber) -> RemoveSubscription | LeaveGroup:
    """Return what ends a subscription, for the router."""
    if isinstance(found, SharedFilter):
        return LeaveGroup(subscriber, found.share_name, found.filter)
    return RemoveSubscription(subscriber, found)


def encode_direct(batch: MessageBatch, wall_ms: int) -> tuple[bytes, int]:
    """Return every row as a DELIVER on flow 0, and how many are not among them: they have expired.

    The bytes are shared by all flow clients that get the batch. An expiry is written as the time left, so what has one
    is made anew.
    """
    encodings = batch.encodings
    if encodings is not None:
        ready = encodings.get(DIALECT)
        if ready is not None:
            return ready, 0
    headers = batch.headers()
    payloads = batch.payloads()
    head = DeliverHead(
        SESSION,
        0,
        0,
        delivery_count=1,
        redelivered=False,
        was_direct=batch.qos == AT_MOST_ONCE,
        first_of_group=False,
        received_ms=batch.received_ms,
    )
    expires = False
    out: list[bytes] = []
    for row in range(batch.count):
        row_headers = None if headers is None else headers[row]
        if row_headers is not None and row_headers.expires_at_ms:
            expires = True
            if row_headers.expires_at_ms <= wall_ms:
                continue
        out.append(
            write_deliver(
                head,
                0,
                0,
                topic=batch.topic_of(row).encode("utf-8"),
                headers=row_headers,
                payload=payloads[row],
                wall_ms=wall_ms,
            )
        )
    encoded = b"".join(out)
    if not expires:
        if encodings is None:
            batch.encodings = {DIALECT: encoded}
        else:
            encodings[DIALECT] = encoded
    return encoded, batch.count - len(out)
