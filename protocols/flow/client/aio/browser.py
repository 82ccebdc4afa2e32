"""A browser on asyncio, over a `BrowseFlow`: it looks at a queue, and takes nothing."""

from typing import TYPE_CHECKING, Final

from sluicegate.protocols.flow.client.aio.queue_receiver import QueueReceiver, check_wishes
from sluicegate.protocols.flow.client.messages import QueueMessage
from sluicegate.protocols.flow.client.session.browse_flow import BrowseFlow

if TYPE_CHECKING:
    from sluicegate.protocols.flow.client.aio.client import Client

BROWSE_WINDOW_DEFAULT: Final = 100  # as many as a gateway shows ahead; they are copies, of up to 30 MB each


class Browser(QueueReceiver[QueueMessage]):
    """Looks at a queue. Made by `Client.browser`, open within `async with`.

    `async for message in browser` shows the oldest message first, and waits for new ones at the end. Consumers get what
    they would have got. When the queue is gone, receiving raises ConsumerEnded.
    """

    def __init__(self, client: "Client", queue: str, *, window: int, selector: str) -> None:
        """Raises ValueError for limits that make no sense."""
        check_wishes(queue, window, selector)
        self._shown = BrowseFlow(queue, window=window, selector=selector)
        super().__init__(client, self._shown)

    def _take(self, count_max: int) -> list[QueueMessage]:
        taken = self._shown.take(count_max)
        if self._shown.is_dirty:
            self._client.ask_flush()
        return [QueueMessage(each) for each in taken]
