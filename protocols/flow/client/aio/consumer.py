"""A consumer on asyncio, over an `Inbox`."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from sluicegate.messaging.message.outcomes import ACCEPTED
from sluicegate.protocols.flow.client.aio.queue_receiver import QueueReceiver, check_wishes
from sluicegate.protocols.flow.client.messages import Delivery
from sluicegate.protocols.flow.client.session.inbox import Inbox
from sluicegate.protocols.flow.codec.frames.partition import PartitionState

if TYPE_CHECKING:
    from sluicegate.protocols.flow.client.aio.client import Client

WINDOW_BYTES_DEFAULT: Final = 32 * 1024 * 1024
UNSETTLED_MAX_DEFAULT: Final = 0  # what the gateway allows


class Consumer(QueueReceiver[Delivery]):
    """Gets messages of a queue. Made by `Client.consumer`, open within `async with`; what is held then is given back.

    `async for delivery in consumer` waits for one after the other. When the connection breaks, what was not settled is
    delivered again, with a higher count: it comes once more through here, or to another consumer. When the queue ends
    the flow for good, receiving raises ConsumerEnded.
    """

    def __init__(
        self,
        client: "Client",
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
        check_wishes(queue, window, selector)
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
        self.settle_with: Callable[[Delivery, int], None] = self.settle  # what the methods of deliveries call

    @property
    def is_active(self) -> bool:
        """Whether messages come here; a consumer that stands by waits for another one to leave."""
        return self._inbox.is_active

    @property
    def held_count(self) -> int:
        """How many deliveries are not settled, those included that nobody has taken from here yet."""
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
        """Let go of the partitions that drain, once the program has put away what it keeps for them.

        What it holds of them goes to others when it is settled, or when their time is over.
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
