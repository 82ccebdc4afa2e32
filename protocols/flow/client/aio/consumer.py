"""Consumers and browsers on asyncio."""

from collections.abc import Callable
from typing import Final

from sluicegate.messaging.message.outcomes import ACCEPTED
from sluicegate.protocols.flow.client.aio.base import ClientBase
from sluicegate.protocols.flow.client.aio.owner import FlowOwner, M, Receiver
from sluicegate.protocols.flow.client.messages import Delivery, QueueMessage
from sluicegate.protocols.flow.client.session.browse_flow import BrowseFlow
from sluicegate.protocols.flow.client.session.flow import QueueFlow
from sluicegate.protocols.flow.client.session.inbox import Inbox
from sluicegate.protocols.flow.codec.frames.partition import PartitionState
from sluicegate.protocols.flow.codec.limits import NAME_BYTES_MAX, SELECTOR_BYTES_MAX

# Common to consumers and browsers: messages of a queue that wait until the program takes them.


WINDOW_MAX: Final = 1_000_000  # messages


class QueueReceiver(FlowOwner, Receiver[M]):
    """Gets messages of a queue."""

    def __init__(self, client: ClientBase, flow: QueueFlow) -> None:
        FlowOwner.__init__(self, client, flow)
        Receiver.__init__(self)
        self._queue_flow = flow

    @property
    def queue(self) -> str:
        """Name of the queue."""
        return self._queue_flow.queue

    @property
    def source(self) -> str:
        """Whose messages they are, as text."""
        return f"queue {self.queue!r}"

    @property
    def incarnation(self) -> int:
        """Of the gateway's spool, as of the last bind: sequences of messages mean something within it only."""
        return self._queue_flow.incarnation

    def on_news(self) -> None:
        """Wake the tasks that wait for messages."""
        if self._queue_flow.error is not None:
            self._arrived.wake_all()
        else:
            self._arrived.wake(self._queue_flow.waiting_count)
        super().on_news()

    def _waiting_count(self) -> int:
        return self._queue_flow.waiting_count

    def _check_open(self) -> None:
        self._queue_flow.check_running()


def check_flow_options(queue: str, window: int, selector: str) -> None:
    """Raise ValueError for invalid options of a flow on a queue."""
    if not 0 < window <= WINDOW_MAX:
        raise ValueError(f"window={window}; it is 1 to {WINDOW_MAX} messages")
    if not 0 < len(queue.encode("utf-8")) <= NAME_BYTES_MAX:
        raise ValueError(f"the name of a queue has 1 to {NAME_BYTES_MAX} bytes")
    if len(selector.encode("utf-8")) > SELECTOR_BYTES_MAX:
        raise ValueError(f"a selector has at most {SELECTOR_BYTES_MAX} bytes")


WINDOW_BYTES_DEFAULT: Final = 32 * 1024 * 1024
UNSETTLED_MAX_DEFAULT: Final = 0  # the gateway's maximum


class Consumer(QueueReceiver[Delivery]):
    """Gets messages of a queue. Made by `Client.consumer`, open within `async with`, which returns what is unsettled.

    `async for delivery in consumer` waits for one after the other. When the connection breaks, what was not settled is
    delivered again, with a higher count: it comes once more through here, or to another consumer. When the queue ends
    the flow for good, receiving raises ConsumerEnded.
    """

    def __init__(
        self,
        client: ClientBase,
        queue: str,
        *,
        window: int,
        window_bytes: int,
        unsettled_max: int,
        renew_every_s: float,
        selector: str,
        acknowledges_partitions: bool,
    ) -> None:
        """Raises ValueError for limits that make no sense."""
        check_flow_options(queue, window, selector)
        if window_bytes <= 0 or unsettled_max < 0 or renew_every_s < 0:
            raise ValueError("window_bytes is more than 0; unsettled_max and renew_every_s are 0 or more")
        self._inbox = Inbox(
            queue,
            window=window,
            window_bytes=window_bytes,
            unsettled_max=unsettled_max,
            renew_every_ms=int(renew_every_s * 1000),
            selector=selector,
            acknowledges=acknowledges_partitions,
        )
        super().__init__(client, self._inbox)
        self.settle_with: Callable[[Delivery, int], None] = self.settle  # called by the methods of deliveries

    @property
    def is_active(self) -> bool:
        """Whether messages come here; a consumer that stands by waits for another one to leave."""
        return self._inbox.is_active

    @property
    def held_count(self) -> int:
        """How many deliveries are not settled, including those that the program has not taken yet."""
        return self._inbox.held.total

    @property
    def settled_too_late_count(self) -> int:
        """How many deliveries were settled that were no longer held. They were delivered again, or will be."""
        return self._inbox.too_late_count

    def accept_all(self, deliveries: list[Delivery]) -> None:
        """Accept deliveries of this consumer."""
        for delivery in deliveries:
            self.settle(delivery, ACCEPTED)

    @property
    def partitions(self) -> tuple[PartitionState, ...]:
        """Its partitions, if it `acknowledges_partitions` and the queue has any."""
        return self._inbox.partitions

    def acknowledge_partitions(self) -> None:
        """Release the draining partitions, once the program has saved its state for them.

        They move to other consumers once their held deliveries are settled, or at their deadline.
        """
        self._inbox.acknowledge_partitions()
        self._client.ask_flush()

    def extend_all(self) -> None:
        """Go on holding everything that is held: the queue's time to settle begins anew."""
        self._inbox.renew_all()
        self._client.ask_flush()

    def settle(self, delivery: Delivery, outcome: int) -> None:
        """Say what became of a delivery, as its own methods do."""
        self._inbox.settle(delivery.bind_number, delivery.delivery_id, delivery.delivery_id, outcome)
        self._client.ask_flush()

    def _take(self, count_max: int) -> list[Delivery]:
        inbox = self._inbox
        taken = inbox.take(count_max)
        if inbox.is_dirty:
            self._client.ask_flush()
        return [Delivery(each, inbox.bind_count, self.settle_with) for each in taken]


# Browsers: they get copies of a queue's messages, and consume nothing.


BROWSE_WINDOW_DEFAULT: Final = 100  # as many as a gateway shows ahead; they are copies, of up to 30 MB each


class Browser(QueueReceiver[QueueMessage]):
    """Looks at a queue. Made by `Client.browser`, open within `async with`.

    `async for message in browser` shows the oldest message first, and waits for new ones at the end. Consumers get what
    they would have got. When the queue is gone, receiving raises ConsumerEnded.
    """

    def __init__(self, client: ClientBase, queue: str, *, window: int, selector: str) -> None:
        """Raises ValueError for limits that make no sense."""
        check_flow_options(queue, window, selector)
        self._shown = BrowseFlow(queue, window=window, selector=selector)
        super().__init__(client, self._shown)

    def _take(self, count_max: int) -> list[QueueMessage]:
        taken = self._shown.take(count_max)
        if self._shown.is_dirty:
            self._client.ask_flush()
        return [QueueMessage(each) for each in taken]
