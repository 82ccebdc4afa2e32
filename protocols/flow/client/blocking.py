"""The client for programs without asyncio: the same one, on an event loop in a thread of its own.

Each call goes there and waits for the answer; what takes many messages at once costs one such trip for all of them. Any
thread of the program may call anything here.
"""

import ssl
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Self

from protocols.flow.client.blocking_bulk import BlockingBulk
from protocols.flow.client.blocking_queues import BlockingQueues
from protocols.flow.client.blocking_subscriber import BlockingSubscriber
from protocols.flow.client.client import DEFAULT_OPTIONS, WINDOW_DEFAULT, Client
from protocols.flow.client.consumer import UNSETTLED_MAX_DEFAULT, WINDOW_BYTES_DEFAULT, Consumer
from protocols.flow.client.errors import ClientClosed, FlowClientError
from protocols.flow.client.events import ClientEvent
from protocols.flow.client.loop_thread import LoopThread
from protocols.flow.client.messages import Delivery, Message
from protocols.flow.client.options import ClientOptions
from protocols.flow.client.publisher import BYTES_MAX_DEFAULT, NEXT, Publisher
from protocols.flow.client.subscriber import WAITING_BYTES_DEFAULT
from protocols.flow.partition_frames import PartitionState


class BlockingClient:
    """`Client`, without asyncio. `on_event` is called on the client's own thread; it must not block or call the client.

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
        """Raises ValueError for a URL that names no gateway."""
        self._client = Client(url, options, tls=tls, on_event=on_event)
        self._thread: LoopThread | None = None

    def __enter__(self) -> Self:
        """Connect, and be let in. Raises ConnectFailed or AuthenticationRefused."""
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
        self._running().run(self._client.publish_direct(message), timeout_s)

    def close(self) -> None:
        """As `Client.close`."""
        thread = self._running()
        if not thread.loop.is_closed():
            thread.run(self._client.close())
            thread.stop()

    def _running(self) -> LoopThread:
        if self._thread is None:
            raise RuntimeError("the client is not connected: `with client` comes first")
        return self._thread


class BlockingPublisher:
    """`Publisher`, without asyncio."""

    def __init__(self, thread: LoopThread, publisher: Publisher) -> None:
        self._thread = thread
        self._publisher = publisher

    def __enter__(self) -> Self:
        """Open it. Raises RequestRefused, or what the client ended with."""
        self._thread.run(self._publisher.__aenter__())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close it; when the block ended well, wait before that until everything is answered."""
        self._thread.run(self._publisher.__aexit__(kind, error, trace))

    @property
    def stored_through(self) -> int:
        """As `Publisher.stored_through`."""
        return self._publisher.stored_through

    @property
    def unanswered_count(self) -> int:
        """As `Publisher.unanswered_count`."""
        return self._publisher.unanswered_count

    def publish(self, message: Message, *, sequence: int = NEXT, timeout_s: float | None = None) -> int:
        """As `Publisher.publish`. After a TimeoutError the message may be stored nevertheless."""
        return self._thread.run(self._publisher.publish(message, sequence=sequence), timeout_s)

    def send(self, message: Message, *, sequence: int = NEXT, timeout_s: float | None = None) -> int:
        """As `Publisher.send`."""
        return self._thread.run(self._publisher.send(message, sequence=sequence), timeout_s)

    def send_all(self, messages: Iterable[Message], *, timeout_s: float | None = None) -> None:
        """As `Publisher.send_all`. The messages are drawn on the client's own thread."""
        self._thread.run(self._publisher.send_all(messages), timeout_s)

    def flush(self, *, timeout_s: float | None = None) -> None:
        """As `Publisher.flush`."""
        self._thread.run(self._publisher.flush(), timeout_s)

    def close(self) -> None:
        """As `Publisher.close`."""
        self._thread.run(self._publisher.close())


class BlockingConsumer:
    """`Consumer`, without asyncio. Its deliveries may be settled by any thread."""

    def __init__(self, thread: LoopThread, consumer: Consumer) -> None:
        self._thread = thread
        self._consumer = consumer
        consumer.settle_with = self._settle

    def __enter__(self) -> Self:
        """Bind to the queue. Raises RequestRefused, or what the client ended with."""
        self._thread.run(self._consumer.__aenter__())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Unbind; what is held is given back."""
        self.close()

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

    def receive(self, *, timeout_s: float | None = None) -> Delivery:
        """As `Consumer.receive`."""
        return self._thread.run(self._consumer.receive(), timeout_s)

    def receive_many(self, count_max: int, *, timeout_s: float | None = None) -> list[Delivery]:
        """As `Consumer.receive_many`."""
        return self._thread.run(self._consumer.receive_many(count_max), timeout_s)

    def accept_all(self, deliveries: list[Delivery]) -> None:
        """As `Consumer.accept_all`."""
        self._thread.loop.call_soon_threadsafe(self._consumer.accept_all, deliveries)

    @property
    def partitions(self) -> tuple[PartitionState, ...]:
        """As `Consumer.partitions`."""
        return self._consumer.partitions

    def acknowledge_partitions(self) -> None:
        """As `Consumer.acknowledge_partitions`."""
        self._thread.loop.call_soon_threadsafe(self._consumer.acknowledge_partitions)

    def extend_all(self) -> None:
        """As `Consumer.extend_all`."""
        self._thread.loop.call_soon_threadsafe(self._consumer.extend_all)

    def __iter__(self) -> Self:
        """Return itself."""
        return self

    def __next__(self) -> Delivery:
        """Return the next delivery; the end comes when the program closes the consumer or the client."""
        try:
            return self.receive()
        except ClientClosed:
            raise StopIteration from None

    def close(self) -> None:
        """As `Consumer.close`."""
        self._thread.run(self._consumer.close())

    def _settle(self, delivery: Delivery, outcome: int) -> None:
        self._thread.loop.call_soon_threadsafe(self._consumer.settle, delivery, outcome)
