"""The flow of a browser over reconnections: messages shown and not taken by the program yet.

Flow: consuming, browsing. Nothing is settled, and nothing here is ever taken back. After a reconnect the gateway shows
the queue from its oldest message again; messages seen before, by partition and sequence, are skipped here. One case is
not detected: the number of partitions fell and rose between two connections, and a new partition counts from 1.
"""

from typing import final

from sluicegate.protocols.flow.client.errors import ConsumerEnded, FlowClientError
from sluicegate.protocols.flow.client.session.flow import OPEN, QueueFlow
from sluicegate.protocols.flow.codec.frames.deliver import Delivered
from sluicegate.protocols.flow.codec.frames.flow import Bind, Bound
from sluicegate.protocols.flow.codec.frames.session import Error
from sluicegate.protocols.flow.codec.frames.settle import Credit
from sluicegate.protocols.flow.engine.engine import FlowEngine


@final
class BrowseFlow(QueueFlow):
    """The core of one browser. Invariant: at most `window` messages lie here or are on their way."""

    def __init__(self, queue: str, *, window: int, selector: str) -> None:
        super().__init__(queue)
        self.window = window
        self._selector = selector  # of the messages it wants to see; empty: all
        self._shown_to: dict[int, int] = {}  # by partition: the last sequence that came
        self._shown_before: dict[int, int] = {}  # the same, as it was when this connection began
        self._received_through = 0  # the highest delivery id that came on this flow
        self._granted = 0  # the highest that may come

    def take(self, count_max: int) -> list[Delivered]:
        """Return up to so many messages, in order."""
        line = self._line
        taken = [line.popleft() for _ in range(min(count_max, len(line)))]
        self.is_dirty = self._wants_credit()
        return taken

    def request(self, request_id: int, flow_id: int) -> bytes:
        """Return BIND, with credit for the room that there is."""
        self._received_through = 0
        self._granted = self._credit()
        return Bind(flow_id, request_id, self.queue, 0, self._granted, selector=self._selector, browses=True).encode()

    def opened(self, frame: Bound) -> None:
        """Begin, or begin again. In another spool the same sequences are other messages."""
        if frame.incarnation != self.incarnation:
            self.incarnation = frame.incarnation
            self._shown_to.clear()
        self._shown_before = dict(self._shown_to)
        self.phase = OPEN
        self.was_open = True
        self.has_news = True

    def delivered(self, deliveries: list[Delivered]) -> None:
        """Keep what has come and is new, until the program takes it."""
        before = self._shown_before
        for each in deliveries:
            if each.message_id > before.get(each.partition, 0):
                self._shown_to[each.partition] = each.message_id
                self._line.append(each)
        self._received_through = deliveries[-1].delivery_id
        self.is_dirty = self._wants_credit()
        self.has_news = True

    def pump(self, engine: FlowEngine) -> None:
        """Send credit for the room that there is."""
        self.is_dirty = False
        if self.phase == OPEN and self._wants_credit():
            self._granted = self._credit()
            engine.send(Credit(self.flow_id, self._granted, False, False).encode())

    def _credit(self) -> int:
        return self._received_through - len(self._line) + self.window

    def _wants_credit(self) -> bool:
        """Whether the limit of credit has risen by half a window, which is worth a frame."""
        return 2 * (self._credit() - self._granted) >= self.window

    def ended_by(self, frame: Error) -> FlowClientError:
        """Return the error for one with which the gateway ended the flow."""
        return ConsumerEnded(frame.code, frame.text)

    def __repr__(self) -> str:
        return f"BrowseFlow({self.queue!r}, {len(self._line)} waiting)"
