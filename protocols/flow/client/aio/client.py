"""The asyncio client that programs use: it makes publishers, consumers and everything else on its connection."""

from typing import Final

from sluicegate.protocols.flow.client.aio.base import ClientBase
from sluicegate.protocols.flow.client.aio.bulk import Bulk
from sluicegate.protocols.flow.client.aio.consumer import (
    BROWSE_WINDOW_DEFAULT,
    UNSETTLED_MAX_DEFAULT,
    WINDOW_BYTES_DEFAULT,
    Browser,
    Consumer,
)
from sluicegate.protocols.flow.client.aio.publisher import BYTES_MAX_DEFAULT, Publisher
from sluicegate.protocols.flow.client.aio.queues import Queues
from sluicegate.protocols.flow.client.aio.subscriber import WAITING_BYTES_DEFAULT, Subscriber
from sluicegate.protocols.flow.client.messages import Message

DIRECT_BYTES_MAX: Final = 256 * 1024  # gathered before they are written
WINDOW_DEFAULT: Final = 1_000


class Client(ClientBase):
    """A client of one gateway, between `async with` and its end. It connects again by itself, as long as it takes.

    `on_event` is called with each ClientEvent, on the event loop; it must not block. For `flows://` a context of one's
    own may be given as `tls`, with authorities or a certificate; it should offer `gfp/1` by ALPN. One event loop only:
    nothing here may be called from other threads.
    """

    def publisher(
        self, name: str = "", *, window: int = WINDOW_DEFAULT, window_bytes: int = BYTES_MAX_DEFAULT
    ) -> Publisher:
        """Return a publisher, to be entered with `async with`.

        - `name` (str): with a name, which must be unique, it resumes after crashes of either side and stores nothing
          twice; at most 255 bytes.
        - `window` (int): messages that may be without answer, 1 to 65,535; further publishes wait.
        - `window_bytes` (int): bytes of messages that may be without answer, about; default 64 MiB.
        """
        return Publisher(self, name, window=window, window_bytes=window_bytes)

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
    ) -> Consumer:
        """Return a consumer of a queue, to be entered with `async with`.

            client.consumer("orders", selector="color = 'red'", window=100)

        - `queue` (str): name of the queue.
        - `window` (int): messages that are fetched ahead of the program.
        - `window_bytes` (int): bytes of messages that are fetched ahead, about; default 32 MiB.
        - `unsettled_max` (int): messages that may be unsettled in all; 0: as many as the gateway allows.
        - `renew_every_s` (float): seconds between renewals of the locks that it holds; 0: they are not renewed.
        - `selector` (str): only messages that match it, such as "color = 'red'"; empty: all.
        - `acknowledges_partitions` (bool): the program is notified of its partitions, and acknowledges their release.
        """
        return Consumer(
            self,
            queue,
            window=window,
            window_bytes=window_bytes,
            unsettled_max=unsettled_max,
            renew_every_s=renew_every_s,
            selector=selector,
            acknowledges_partitions=acknowledges_partitions,
        )

    def browser(self, queue: str, *, window: int = BROWSE_WINDOW_DEFAULT, selector: str = "") -> Browser:
        """Return a browser of a queue, to be entered with `async with`. It gets copies, and the messages stay.

        - `queue` (str): name of the queue.
        - `window` (int): messages that are fetched ahead of the program.
        - `selector` (str): only messages that match it, such as "color = 'red'"; empty: all.
        """
        return Browser(self, queue, window=window, selector=selector)

    def subscriber(self, *, waiting_bytes_max: int = WAITING_BYTES_DEFAULT) -> Subscriber:
        """Return a subscriber to topics, to be entered with `async with`.

        - `waiting_bytes_max` (int): bytes of messages that the program has not taken; more are dropped. Default 16 MiB.
        """
        return Subscriber(self, waiting_bytes_max=waiting_bytes_max)

    @property
    def queues(self) -> Queues:
        """Queues to make, change and delete."""
        return Queues(self)

    @property
    def bulk(self) -> Bulk:
        """Reading and writing in bulk."""
        return Bulk(self)

    async def publish_direct(self, message: Message) -> None:
        """Publish at most once: nothing is answered or sent again. Waits while there is no connection, or it is full.

        Raises FlowClientError when the client has ended.
        """
        session = self._session
        while not session.is_open or self._is_full:
            session.check_running()
            await self._changed.wait()
        session.publish_direct(message)
        self._direct_bytes += len(message.payload)
        if self._direct_bytes > DIRECT_BYTES_MAX:
            self.flush()
        else:
            self.ask_flush()
