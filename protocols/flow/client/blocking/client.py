"""The client for programs without asyncio: the asyncio client, run by an event loop on its own thread.

Each call is sent to that thread and waits for the result; calls that take many messages cost one such round trip. All
methods may be called from any thread.
"""

import contextlib
import ssl
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Final, Self

from sluicegate.protocols.flow.client.aio.base import DEFAULT_OPTIONS
from sluicegate.protocols.flow.client.aio.client import WINDOW_DEFAULT, Client
from sluicegate.protocols.flow.client.aio.consumer import (
    BROWSE_WINDOW_DEFAULT,
    UNSETTLED_MAX_DEFAULT,
    WINDOW_BYTES_DEFAULT,
    Consumer,
)
from sluicegate.protocols.flow.client.aio.publisher import BYTES_MAX_DEFAULT, NEXT, Publisher
from sluicegate.protocols.flow.client.aio.queues import Queue, Queues
from sluicegate.protocols.flow.client.aio.subscriber import WAITING_BYTES_DEFAULT, Subscriber
from sluicegate.protocols.flow.client.blocking.bulk import BlockingBulk
from sluicegate.protocols.flow.client.blocking.loop_thread import LoopThread
from sluicegate.protocols.flow.client.blocking.owner import BlockingOwner, BlockingReceiver
from sluicegate.protocols.flow.client.errors import ClientClosed, FlowClientError
from sluicegate.protocols.flow.client.events import ClientEvent
from sluicegate.protocols.flow.client.messages import Delivery, Message, QueueMessage, Received
from sluicegate.protocols.flow.client.options import ClientOptions
from sluicegate.protocols.flow.codec.frames.partition import PartitionState

# Direct messages without asyncio: `subscriber`, on the loop in the client's thread.


class BlockingSubscriber(BlockingReceiver[Received]):
    """`Subscriber`, without asyncio."""

    def __init__(self, thread: LoopThread, subscriber: Subscriber) -> None:
        super().__init__(thread, subscriber)
        self._subscriber = subscriber

    @property
    def dropped_count(self) -> int:
        """As `Subscriber.dropped_count`."""
        return self._subscriber.dropped_count

    def subscribe(self, topic_filter: str, *, priorities: Sequence[str] = (), selector: str = "") -> None:
        """As `Subscriber.subscribe`."""
        self._thread.run(self._subscriber.subscribe(topic_filter, priorities=priorities, selector=selector))

    def unsubscribe(self, topic_filter: str) -> None:
        """As `Subscriber.unsubscribe`."""
        self._thread.run(self._subscriber.unsubscribe(topic_filter))


# Provisioning without asyncio: `queues`, on the loop in the client's thread.


class BlockingQueues:
    """`Queues`, without asyncio."""

    def __init__(self, thread: LoopThread, queues: Queues) -> None:
        self._thread = thread
        self._queues = queues

    def create(
        self, name: str = "", attributes: Mapping[str, object] | None = None, *, durable: bool | None = None
    ) -> Queue:
        """As `Queues.create`."""
        return self._thread.run(self._queues.create(name, attributes, durable=durable))

    def change(self, name: str, attributes: Mapping[str, object]) -> Queue:
        """As `Queues.change`."""
        return self._thread.run(self._queues.change(name, attributes))

    def delete(self, name: str) -> None:
        """As `Queues.delete`."""
        self._thread.run(self._queues.delete(name))


class BlockingClient:
    """`Client`, without asyncio. It runs an event loop on a thread of its own; any thread may call it.

    Where a method takes `timeout_s` it raises TimeoutError when that is over, and waits for ever without.
    """

    def __init__(
        self,
        url: str,
        options: ClientOptions = DEFAULT_OPTIONS,
        *,
        tls: ssl.SSLContext | None = None,
        on_event: Callable[[ClientEvent], None] | None = None,
    ) -> None:
        """Make a client, which connects when it is entered with `with`.

            BlockingClient("flow://localhost")
            BlockingClient("flows://gate.example:55443", ClientOptions(username="ada", password="engine"))

        - `url` (str): "flow://HOST[:PORT]", default port 55555, or "flows://HOST[:PORT]" for TLS, default port 55443.
        - `options` (ClientOptions): credentials, message VPN and timeouts; by default an anonymous client.
        - `tls` (ssl.SSLContext or None): whom to trust, and the client's certificate; None: the system's authorities.
        - `on_event` (function of a ClientEvent, or None): it is told of connections that are made and lost, and of
          flows. It is called on the client's own thread; it must not block or call the client.

        Raises ValueError for a URL that names no gateway, and for `tls` without TLS.
        """
        self._client = Client(url, options, tls=tls, on_event=on_event)
        self._thread: LoopThread | None = None

    def __enter__(self) -> Self:
        """Connect, and be let in. Raises ConnectFailed, AuthenticationRefused or ConnectionBroken."""
        assert self._thread is None, "a client is entered once"
        self._thread = LoopThread()
        try:
            self._thread.run(self._client.__aenter__())
        except BaseException:
            self._thread.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def is_connected(self) -> bool:
        """Whether the gateway has let us in, on a connection that stands."""
        return self._client.is_connected

    def publisher(
        self, name: str = "", *, window: int = WINDOW_DEFAULT, window_bytes: int = BYTES_MAX_DEFAULT
    ) -> "BlockingPublisher":
        """As `Client.publisher`, to be entered with `with`."""
        publisher = self._client.publisher(name, window=window, window_bytes=window_bytes)
        return BlockingPublisher(self._running(), publisher)

    def consumer(
        self,
        queue: str,
        *,
        window: int = WINDOW_DEFAULT,
        window_bytes: int = WINDOW_BYTES_DEFAULT,
        unsettled_max: int = UNSETTLED_MAX_DEFAULT,
        renew_every_s: float = 0.0,
        selector: str = "",
        acknowledges_partitions: bool = False,
    ) -> "BlockingConsumer":
        """As `Client.consumer`, to be entered with `with`."""
        consumer = self._client.consumer(
            queue,
            window=window,
            window_bytes=window_bytes,
            unsettled_max=unsettled_max,
            renew_every_s=renew_every_s,
            selector=selector,
            acknowledges_partitions=acknowledges_partitions,
        )
        return BlockingConsumer(self._running(), consumer)

    def browser(
        self, queue: str, *, window: int = BROWSE_WINDOW_DEFAULT, selector: str = ""
    ) -> BlockingReceiver[QueueMessage]:
        """As `Client.browser`, to be entered with `with`."""
        return BlockingReceiver(self._running(), self._client.browser(queue, window=window, selector=selector))

    def subscriber(self, *, waiting_bytes_max: int = WAITING_BYTES_DEFAULT) -> BlockingSubscriber:
        """As `Client.subscriber`, to be entered with `with`."""
        return BlockingSubscriber(self._running(), self._client.subscriber(waiting_bytes_max=waiting_bytes_max))

    @property
    def error(self) -> FlowClientError | None:
        """As `Client.error`."""
        return self._client.error

    @property
    def queues(self) -> BlockingQueues:
        """Queues to make, change and delete."""
        return BlockingQueues(self._running(), self._client.queues)

    @property
    def bulk(self) -> BlockingBulk:
        """Reading and writing in bulk."""
        return BlockingBulk(self._running(), self._client.bulk)

    def publish_direct(self, message: Message, *, timeout_s: float | None = None) -> None:
        """As `Client.publish_direct`."""
        self._running().run(self._client.publish_direct(message), timeout_s, "no connection that takes the message")

    def close(self) -> None:
        """As `Client.close`."""
        thread = self._running()
        with contextlib.suppress(ClientClosed):  # another thread closes it, too
            thread.run(self._client.close())
        thread.stop()

    def _running(self) -> LoopThread:
        if self._thread is None:
            raise RuntimeError("the client is not connected: `with client` comes first")
        return self._thread


NO_ROOM: Final = "no room in the window, because earlier messages are not confirmed,"


class BlockingPublisher(BlockingOwner):
    """`Publisher`, without asyncio."""

    def __init__(self, thread: LoopThread, publisher: Publisher) -> None:
        super().__init__(thread, publisher)
        self._publisher = publisher

    @property
    def stored_through(self) -> int:
        """As `Publisher.stored_through`."""
        return self._publisher.stored_through

    @property
    def incarnation(self) -> int:
        """As `Publisher.incarnation`."""
        return self._publisher.incarnation

    @property
    def unanswered_count(self) -> int:
        """As `Publisher.unanswered_count`."""
        return self._publisher.unanswered_count

    def publish(self, message: Message, *, sequence: int = NEXT, timeout_s: float | None = None) -> int:
        """As `Publisher.publish`. After a TimeoutError the message may be stored nevertheless."""
        return self._thread.run(
            self._publisher.publish(message, sequence=sequence), timeout_s, "no confirmation of the message"
        )

    def send(self, message: Message, *, sequence: int = NEXT, timeout_s: float | None = None) -> int:
        """As `Publisher.send`."""
        return self._thread.run(self._publisher.send(message, sequence=sequence), timeout_s, NO_ROOM)

    def send_all(self, messages: Iterable[Message], *, timeout_s: float | None = None) -> None:
        """As `Publisher.send_all`. The messages are drawn on the client's own thread."""
        self._thread.run(self._publisher.send_all(messages), timeout_s, NO_ROOM)

    def flush(self, *, timeout_s: float | None = None) -> None:
        """As `Publisher.flush`."""
        self._thread.run(self._publisher.flush(), timeout_s, "no confirmation of all messages")


class BlockingConsumer(BlockingReceiver[Delivery]):
    """`Consumer`, without asyncio. Its deliveries may be settled by any thread."""

    def __init__(self, thread: LoopThread, consumer: Consumer) -> None:
        super().__init__(thread, consumer)
        self._consumer = consumer
        consumer.settle_with = self._settle

    @property
    def incarnation(self) -> int:
        """As `Consumer.incarnation`."""
        return self._consumer.incarnation

    @property
    def is_active(self) -> bool:
        """As `Consumer.is_active`."""
        return self._consumer.is_active

    @property
    def held_count(self) -> int:
        """As `Consumer.held_count`."""
        return self._consumer.held_count

    @property
    def settled_too_late_count(self) -> int:
        """As `Consumer.settled_too_late_count`."""
        return self._consumer.settled_too_late_count

    def accept_all(self, deliveries: list[Delivery]) -> None:
        """As `Consumer.accept_all`."""
        self._thread.call(self._consumer.accept_all, deliveries)

    @property
    def partitions(self) -> tuple[PartitionState, ...]:
        """As `Consumer.partitions`."""
        return self._consumer.partitions

    def acknowledge_partitions(self) -> None:
        """As `Consumer.acknowledge_partitions`."""
        self._thread.call(self._consumer.acknowledge_partitions)

    def extend_all(self) -> None:
        """As `Consumer.extend_all`."""
        self._thread.call(self._consumer.extend_all)

    def _settle(self, delivery: Delivery, outcome: int) -> None:
        self._thread.call(self._consumer.settle, delivery, outcome)
