"""Synchronous requests: a connection's own reply topics, and the reply that a response waits for.

The topics of a connection have a random word that only receivers of its requests learn. The subscription is made
with the first request that wants a reply, and ends with the connection.
"""

from typing import Any, Final, final

from sluicegate.actors.messages.router import AddSubscription, RemoveSubscription
from sluicegate.actors.runtime.asks import LoopFuture
from sluicegate.actors.runtime.runtime import ActorCell
from sluicegate.messaging.message.batch import AT_MOST_ONCE, MessageBatch
from sluicegate.messaging.message.headers import Headers
from sluicegate.messaging.routing.destinations import Subscriber
from sluicegate.messaging.topics.syntax import REPLY_TOPICS, Syntax, TopicFilter, made_up_name, parse_filter
from sluicegate.protocols.connection.counters import ProtocolCounters
from sluicegate.protocols.http.codec.requests import ClientLeft
from sluicegate.protocols.http.codec.responses import BAD_REQUEST, HttpProblem

REPLY_WAIT: Final = "solace-reply-wait-time-in-ms"  # the header
WORD_BYTES: Final = 16
FOREVER: Final = 0
WAIT_MS_MAX: Final = 86_400_000  # a day; longer is FOREVER


@final
class Reply:
    """A message that came on the reply topic of a request."""

    def __init__(self, payload: bytes, headers: Headers | None) -> None:
        self.payload = payload
        self.headers = headers


def reply_wait_ms(text: str) -> int:
    """Return how long a request waits for its reply, or FOREVER. Raises HttpProblem."""
    value = text.strip()
    if value.upper() == "FOREVER":
        return FOREVER
    if not value.isascii() or not value.isdigit() or len(value) > 12 or not 1 <= int(value) <= WAIT_MS_MAX:
        allowed = f"FOREVER or a whole number from 1 to {WAIT_MS_MAX}"
        raise HttpProblem(BAD_REQUEST, f"Solace-Reply-Wait-Time-In-ms: {value!r:.80} is not {allowed}")
    return int(value)


@final
class ReplyBox:
    """Where the replies to one connection's requests come in. One request of a connection waits at a time."""

    def __init__(
        self, cell: ActorCell, router: ActorCell, counters: ProtocolCounters, broker: str, *, client: str
    ) -> None:
        """`broker` is the name of this one: with it, replies come from clients of its neighbors as well."""
        self._cell = cell
        self._broker = broker
        self._router = router
        self._counters = counters
        self._subscriber = Subscriber(client)
        self._filter: TopicFilter | None = None  # of all our topics; None before the first request
        self._prefix = ""
        self._request_count = 0
        self._is_over = False
        self._topic = ""  # of the request that waits, or empty
        self._reply: LoopFuture[Reply | None] = LoopFuture()

    async def expect(self) -> str:
        """Return a topic for one reply, subscribed to. Raises ClientLeft."""
        if self._filter is None:
            number = int.from_bytes(self._cell.runtime.rng.randbytes(WORD_BYTES))
            self._prefix = made_up_name(REPLY_TOPICS, self._broker, number) + "/"
            self._filter = parse_filter(self._prefix + "+", Syntax.MQTT)
            self._subscriber.address = self._cell.inbox
            await self._router.ask(
                AddSubscription(
                    self._subscriber, self._filter, AT_MOST_ONCE, retained_if_new=False, retained_if_known=False
                )
            )
            if self._is_over:
                raise ClientLeft
        self._request_count += 1
        self._topic = f"{self._prefix}{self._request_count}"
        self._reply = LoopFuture()
        return self._topic

    async def reply(self, wait_ms: int) -> Reply | None:
        """Return the reply to the request whose topic was given out last; None when the time is over."""
        timer: Any = None
        if wait_ms != FOREVER:
            timer = self._cell.after(wait_ms, self._give_up)
        reply = await self._reply
        if timer is not None:
            timer.cancel()
        return reply

    def take(self, batch: MessageBatch) -> None:
        """Take messages on the reply topics. A reply that no request waits for is counted and dropped."""
        payloads = batch.payloads()
        for row in range(batch.count):
            if self._topic and batch.topic_of(row) == self._topic:
                self._topic = ""
                self._reply.set(Reply(payloads[row], batch.headers_of(row)))
            else:
                self._counters.count(self._counters.dropped, "reply_too_late")

    def end(self) -> None:
        """End the subscription, and wake the request that waits: the connection is gone."""
        self._is_over = True
        self._subscriber.address = None
        if self._filter is not None:
            self._router.inbox.post(RemoveSubscription(self._subscriber, self._filter))
            self._filter = None
        self._give_up()

    def _give_up(self) -> None:
        if self._topic:
            self._topic = ""
            self._reply.set(None)
