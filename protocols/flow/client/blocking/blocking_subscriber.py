"""Direct messages without asyncio: `subscriber`, on the loop in the client's thread."""

from collections.abc import Sequence

from sluicegate.protocols.flow.client.aio.subscriber import Subscriber
from sluicegate.protocols.flow.client.blocking.loop_thread import LoopThread
from sluicegate.protocols.flow.client.blocking.owner import BlockingReceiver
from sluicegate.protocols.flow.client.messages import Received


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
