"""A consumer on asyncio, over an `Inbox`."""

from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

from messaging.settlement import ACCEPTED
from protocols.flow.client.errors import ClientClosed
from protocols.flow.client.inbox import Inbox
from protocols.flow.client.messages import Delivery
from protocols.flow.client.owner import FlowOwner
from protocols.flow.client.waiting import WaitingLine
from protocols.flow.limits import NAME_BYTES_MAX, SELECTOR_BYTES_MAX
from protocols.flow.partition_frames import PartitionState

if TYPE_CHECKING:
    from protocols.flow.client.client import Client

WINDOW_MAX: Final = 1_000_000
WINDOW_BYTES_DEFAULT: Final = 32 * 1024 * 1024
UNSETTLED_MAX_DEFAULT: Final = 0  # what the gateway allows


class Consumer(FlowOwner):
    """Gets messages of a queue. Made by `Client.consumer`, open within `async with`.

    `async for delivery in consumer` waits for one after the other. When the connection breaks, what was not settled is
    delivered again, with a higher count: it comes once more through here, or to another consumer.
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
        if not 0 < window <= WINDOW_MAX:
            raise ValueError(f"window={window}; it is 1 to {WINDOW_MAX} messages")
        if window_bytes <= 0 or unsettled_max < 0 or renew_every_s < 0:
            raise ValueError("window_bytes is more than 0; unsettled_max and renew_every_s are 0 or more")
        if not 0 < len(queue.encode("utf-8")) <= NAME_BYTES_MAX:
            raise ValueError(f"the name of a queue has 1 to {NAME_BYTES_MAX} bytes")
        if len(selector.encode("utf-8")) > SELECTOR_BYTES_MAX:
            raise ValueError(f"a selector has at most {SELECTOR_BYTES_MAX} bytes")
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
        self._arrived = WaitingLine()

    async def __aenter__(self) -> Self:
        """Bind to the queue. Raises RequestRefused, or what the client ended with."""
        await self._open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Unbind; what is held is given back."""
        await self.close()

    @property
    def queue(self) -> str:
        """Name of the queue."""
        return self._inbox.queue

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

    async def receive(self) -> Delivery:
        """Return the next delivery. Raises ConsumerEnded, or what the client ended with."""
        return (await self.receive_many(1))[0]

    async def receive_many(self, count_max: int) -> list[Delivery]:
        """Wait for a delivery; return it with those behind it that are here already, `count_max` at most."""
        if count_max < 1:
            raise ValueError(f"count_max={count_max}; it is 1 or more")
        inbox = self._inbox
        while not inbox.waiting_count:
            inbox.check_running()
            await self._arrived.wait()
        taken = inbox.take(count_max)
        if inbox.is_dirty:
            self._client.ask_flush()
        return [Delivery(each, inbox.bind_count, self.settle_with) for each in taken]

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

    def __aiter__(self) -> Self:
        """Return itself."""
        return self

    async def __anext__(self) -> Delivery:
        """Return the next delivery; the end comes when the program closes the consumer or the client."""
        try:
            return await self.receive()
        except ClientClosed:
            raise StopAsyncIteration from None

    def settle(self, delivery: Delivery, outcome: int) -> None:
        """Say what became of a delivery, as its own methods do."""
        self._inbox.settle(delivery.bind_number, delivery.delivery_id, delivery.delivery_id, outcome)
        self._client.ask_flush()

    def on_news(self) -> None:
        """Wake those who wait for what the gateway has sent."""
        if self._inbox.error is not None:
            self._arrived.wake_all()
        else:
            self._arrived.wake(self._inbox.waiting_count)
        super().on_news()
