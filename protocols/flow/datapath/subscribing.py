"""A client's subscriptions to topics, and the direct messages it gets by them.

Flow: subscriptions. They end with the connection: who wants to miss nothing binds a queue that subscribes. What the
client does not read is held up at its publishers for a while and then dropped, as for every protocol.
"""

from typing import TYPE_CHECKING, Final, final

from sluicegate.actors.messages.data import SharedDirect
from sluicegate.actors.messages.router import AddSubscription, JoinGroup, LeaveGroup, RemoveSubscription
from sluicegate.actors.runtime.runtime import ActorCell
from sluicegate.messaging.clients.rights import ClientDenied
from sluicegate.messaging.message.batch import AT_MOST_ONCE, MessageBatch
from sluicegate.messaging.message.outcomes import DISCARD_EXPIRED
from sluicegate.messaging.routing.deliver_to_one import PriorityInvalid, priorities_of
from sluicegate.messaging.routing.destinations import Subscriber
from sluicegate.messaging.selectors.lexer import SelectorError
from sluicegate.messaging.topics.syntax import (
    SharedFilter,
    TopicError,
    TopicFilter,
    parse_filter,
    parse_shared,
    syntax_of,
)
from sluicegate.protocols.connection.write_control import WriteControl
from sluicegate.protocols.flow.codec import codes
from sluicegate.protocols.flow.codec.frame import SESSION, SUBSCRIBE
from sluicegate.protocols.flow.codec.frames.deliver import DeliverHead, write_deliver
from sluicegate.protocols.flow.codec.frames.subscription import Subscribe, Subscribed

if TYPE_CHECKING:
    from sluicegate.protocols.flow.connection import FlowConnection

DIALECT: Final = 0xB5  # key of `MessageBatch.encodings`: one form for all flow clients


@final
class SubscribingSide:
    """The subscriptions of one connection, by their texts."""

    def __init__(self, connection: "FlowConnection") -> None:
        services = connection.services
        self.write_control = WriteControl(
            connection.cell,
            services.counters,
            buffer_bytes_max=services.connection_buffer_bytes_max,
            slow_subscriber_stall_ms=services.slow_subscriber_stall_ms,
        )
        self._counters = services.counters
        self._subscriber: Subscriber | None = None  # None before the first subscription
        self._filters: dict[str, TopicFilter | SharedFilter] = {}
        self._unanswered_count = 0

    # --- requests ---

    def take(self, connection: "FlowConnection", asked: Subscribe) -> None:
        """Carry out a request; nothing more is read from the client until it is answered."""
        self._unanswered_count += 1
        connection.read_control.busy(True)
        connection.carry_out(self._carry_out(connection, asked))

    async def _carry_out(self, connection: "FlowConnection", asked: Subscribe) -> None:
        code, text = codes.REQUEST_INVALID, ""
        try:
            if asked.kind == SUBSCRIBE:
                await self._subscribe(connection, asked)
            else:
                await self._unsubscribe(connection, asked.topic_filter)
        except (TopicError, SelectorError, PriorityInvalid) as error:
            text = str(error)
        except ClientDenied as denied:
            code, text = codes.PERMISSION_DENIED, denied.text
        finally:
            self._unanswered_count -= 1
            if self._unanswered_count == 0:
                connection.read_control.busy(False)
        if text:
            connection.refuse_request(SESSION, asked.request_id, code, text, None)
        else:
            connection.send(Subscribed(asked.kind, asked.request_id).encode())

    async def _subscribe(self, connection: "FlowConnection", asked: Subscribe) -> None:
        services, rights = connection.services, connection.identity.rights
        text = asked.topic_filter
        selector = services.selectors.compile(asked.selector) if asked.selector.strip() else None
        priorities = priorities_of(list(asked.priorities))
        is_new = text not in self._filters
        count = len(self._filters) - (not is_new)
        shared = parse_shared(text)
        if shared is not None:
            if selector is not None or priorities:
                allowed = "a filter of the client's own"
                raise TopicError("a selector or priority of a group", text=text, level=None, allowed=allowed)
            rights.check_share(shared.share_name)
            rights.check_subscription(shared.filter, count, is_new=is_new, share_name=shared.share_name)
            self._filters[text] = shared
            join = JoinGroup(
                self._subscriber_there(connection), shared.share_name, shared.filter, AT_MOST_ONCE, durable=False
            )
            await services.router.ask(join)
            return
        topic_filter = parse_filter(text, syntax_of(text))
        selects = "" if selector is None else selector.text
        rights.check_subscription(topic_filter, count, is_new=is_new, selector=selects)
        self._filters[text] = topic_filter
        await services.router.ask(
            AddSubscription(
                self._subscriber_there(connection),
                topic_filter,
                AT_MOST_ONCE,
                retained_if_new=False,
                retained_if_known=False,
                selector=selector,
                priorities=priorities,
            )
        )

    def _subscriber_there(self, connection: "FlowConnection") -> Subscriber:
        subscriber = self._subscriber
        if subscriber is None:
            name = connection.cell.name  # names of clients need not be unique here
            subscriber = self._subscriber = Subscriber(f"{connection.client}/{name}", key=f"\0{name}")
            profile = connection.identity.rights.profile
            connection.services.space.prioritise(subscriber, profile.dto_local_priority)
            subscriber.address = connection.cell.inbox
            subscriber.pressure = self.write_control.pressure
        return subscriber

    async def _unsubscribe(self, connection: "FlowConnection", text: str) -> None:
        found = self._filters.pop(text, None)
        if found is not None:
            await connection.services.router.ask(_end_of(found, self._subscriber_there(connection)))

    def end(self, router: ActorCell) -> None:
        """The connection ends, and its subscriptions with it."""
        self.write_control.close()
        subscriber = self._subscriber
        if subscriber is None:
            return
        subscriber.address = subscriber.pressure = None
        for found in self._filters.values():
            router.inbox.post(_end_of(found, subscriber))
        self._filters.clear()

    # --- direct messages ---

    def receive(self, message: MessageBatch | SharedDirect, wall_ms: int) -> bytes:
        """Return the frames for a direct batch, and count its messages; none when the client has too much unread."""
        batch = message.batch if isinstance(message, SharedDirect) else message
        if not self._filters or self.write_control.drops_direct(batch.count):
            return b""
        encoded, expired_count = encode_direct(batch, wall_ms)
        self._counters.messages_sent += batch.count - expired_count
        if expired_count:
            self._counters.count(self._counters.dropped, DISCARD_EXPIRED, expired_count)
        return encoded


def _end_of(found: TopicFilter | SharedFilter, subscriber: Subscriber) -> RemoveSubscription | LeaveGroup:
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
