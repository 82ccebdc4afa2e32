"""Direct messages without asyncio: `subscriber`, on the loop in the client's thread."""

from collections.abc import Sequence
from types import TracebackType
from typing import Self

from protocols.flow.client.errors import ClientClosed
from protocols.flow.client.loop_thread import LoopThread
from protocols.flow.client.messages import Received
from protocols.flow.client.subscriber import Subscriber


class BlockingSubscriber:
    """`Subscriber`, without asyncio."""

    def __init__(self, thread: LoopThread, subscriber: Subscriber) -> None:
        self._thread = thread
        self._subscriber = subscriber

    def __enter__(self) -> Self:
        """Begin, with no subscription yet."""
        self._thread.run(self._subscriber.__aenter__())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End every subscription."""
        self.close()

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

    def receive(self, *, timeout_s: float | None = None) -> Received:
        """As `Subscriber.receive`."""
        return self._thread.run(self._subscriber.receive(), timeout_s)

    def receive_many(self, count_max: int, *, timeout_s: float | None = None) -> list[Received]:
        """As `Subscriber.receive_many`."""
        return self._thread.run(self._subscriber.receive_many(count_max), timeout_s)

    def __iter__(self) -> Self:
        """Return itself."""
        return self

    def __next__(self) -> Received:
        """Return the next message; the end comes when the program closes the subscriber or the client."""
        try:
            return self.receive()
        except ClientClosed:
            raise StopIteration from None

    def close(self) -> None:
        """As `Subscriber.close`."""
        self._thread.run(self._subscriber.close())
