"""Subscriptions to direct messages on asyncio."""

from collections.abc import Sequence
from types import TracebackType
from typing import Final, Self

from sluicegate.protocols.flow.client.aio.base import ClientBase, Listener
from sluicegate.protocols.flow.client.aio.owner import Receiver
from sluicegate.protocols.flow.client.errors import ClientClosed
from sluicegate.protocols.flow.client.messages import Received
from sluicegate.protocols.flow.client.session.direct_inbox import Subscription
from sluicegate.protocols.flow.codec.limits import SELECTOR_BYTES_MAX, TOPIC_FILTER_BYTES_MAX

WAITING_BYTES_DEFAULT: Final = 16 * 1024 * 1024


class Subscriber(Receiver[Received], Listener):
    """Gets direct messages on topics. Made by `Client.subscriber`, open within `async with`; a client has one at most.

    At most once: messages published while there is no connection are lost, and messages that the program does not take
    in time are dropped and counted. To miss none, consume a queue with subscriptions.
    """

    def __init__(self, client: ClientBase, *, waiting_bytes_max: int) -> None:
        """Raises ValueError for a limit that makes no sense."""
        if waiting_bytes_max <= 0:
            raise ValueError("waiting_bytes_max is more than 0")
        super().__init__()
        self._client = client
        self._waiting_bytes_max = waiting_bytes_max
        self._is_open = False

    async def __aenter__(self) -> Self:
        """Begin, with no subscription yet."""
        self._client.begin_direct(self, self._waiting_bytes_max)
        self._is_open = True
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End every subscription."""
        await self.close()

    @property
    def source(self) -> str:
        """Whose messages they are, as text."""
        return "the subscribed topics"

    @property
    def dropped_count(self) -> int:
        """How many messages of this client came faster than they were taken."""
        return self._client.direct.dropped_count

    async def subscribe(self, topic_filter: str, *, priorities: Sequence[str] = (), selector: str = "") -> None:
        """Subscribe, or change the options of a subscription. Raises RequestRefused.

        `#share/NAME/FILTER` shares the messages with others. `priorities` are for Deliver-To-One: `P1` to `P4`, `DA`.
        """
        if not 0 < len(topic_filter.encode("utf-8")) <= TOPIC_FILTER_BYTES_MAX:
            raise ValueError(f"a topic filter has 1 to {TOPIC_FILTER_BYTES_MAX} bytes")
        if len(selector.encode("utf-8")) > SELECTOR_BYTES_MAX:
            raise ValueError(f"a selector has at most {SELECTOR_BYTES_MAX} bytes")
        self._check_open()
        subscription = Subscription(topic_filter, tuple(priorities), selector)
        await self._client.ask(subscription.begin())
        self._client.direct.add(subscription)

    async def unsubscribe(self, topic_filter: str) -> None:
        """End a subscription; one that is not there has ended."""
        subscription = self._client.direct.remove(topic_filter)
        if subscription is not None:
            await self._client.ask(subscription.end())

    async def close(self) -> None:
        """End every subscription."""
        if self._is_open:
            self._is_open = False
            self._arrived.wake_all()
            await self._client.end_direct()

    def on_news(self) -> None:
        """Wake those who wait for messages."""
        self._arrived.wake_all()

    # --- for those who receive ---

    def _waiting_count(self) -> int:
        return self._client.direct.waiting_count

    def _take(self, count_max: int) -> list[Received]:
        return [Received(each) for each in self._client.direct.take(count_max)]

    def _check_open(self) -> None:
        self._client.check_running()
        if not self._is_open:
            raise ClientClosed("the subscriber is closed")
