"""What consumers and browsers have in common on asyncio: messages of a queue that wait until the program takes them."""

from typing import TYPE_CHECKING, Final

from sluicegate.protocols.flow.client.aio.owner import FlowOwner
from sluicegate.protocols.flow.client.aio.receiving import M, Receiving
from sluicegate.protocols.flow.client.session.queue_flow import QueueFlow
from sluicegate.protocols.flow.codec.limits import NAME_BYTES_MAX, SELECTOR_BYTES_MAX

if TYPE_CHECKING:
    from sluicegate.protocols.flow.client.aio.client import Client

WINDOW_MAX: Final = 1_000_000  # messages


class QueueReceiver(FlowOwner, Receiving[M]):
    """Gets messages of a queue."""

    def __init__(self, client: "Client", flow: QueueFlow) -> None:
        FlowOwner.__init__(self, client, flow)
        Receiving.__init__(self)
        self._queue_flow = flow

    @property
    def queue(self) -> str:
        """Name of the queue."""
        return self._queue_flow.queue

    @property
    def incarnation(self) -> int:
        """Of the gateway's spool, as of the last bind: sequences of messages mean something within it only."""
        return self._queue_flow.incarnation

    def on_news(self) -> None:
        """Wake those who wait for what the gateway has sent."""
        if self._queue_flow.error is not None:
            self._arrived.wake_all()
        else:
            self._arrived.wake(self._queue_flow.waiting_count)
        super().on_news()

    def _waiting_count(self) -> int:
        return self._queue_flow.waiting_count

    def _check_open(self) -> None:
        self._queue_flow.check_running()


def check_wishes(queue: str, window: int, selector: str) -> None:
    """Raise ValueError unless a flow on a queue may be asked for like this."""
    if not 0 < window <= WINDOW_MAX:
        raise ValueError(f"window={window}; it is 1 to {WINDOW_MAX} messages")
    if not 0 < len(queue.encode("utf-8")) <= NAME_BYTES_MAX:
        raise ValueError(f"the name of a queue has 1 to {NAME_BYTES_MAX} bytes")
    if len(selector.encode("utf-8")) > SELECTOR_BYTES_MAX:
        raise ValueError(f"a selector has at most {SELECTOR_BYTES_MAX} bytes")
