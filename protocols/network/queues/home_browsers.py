"""Browsers of a neighbor, where the queue is: each is a browser of the queue, which shows its messages over the link.

A browser has no more messages on their way than its client has asked for, as at its own broker.
"""

from typing import Any, Final, final

from sluicegate.actors.messages.directory import NAMED, FindQueue
from sluicegate.actors.messages.partitions import BrowsedMessage
from sluicegate.actors.messages.queues import (
    MAX_BIND_COUNT_EXCEEDED,
    BindBrowser,
    BindRefused,
    Browsed,
    BrowserBound,
    BrowserCredit,
    DrainFlow,
    FlowDrained,
    FlowGone,
    UnbindFlow,
)
from sluicegate.actors.runtime.asks import LoopFuture
from sluicegate.actors.runtime.runtime import ActorCell
from sluicegate.messaging.selectors.lexer import SelectorError
from sluicegate.messaging.selectors.selector import Selectors
from sluicegate.protocols.flow.codec.frames.link_flow import IN_FLIGHT, REDELIVERED, LinkDeliver, LinkFlow
from sluicegate.protocols.flow.links import LinkWire
from sluicegate.protocols.network.queues import notes
from sluicegate.protocols.network.queues.notes import (
    BAD_SELECTOR,
    FLOWS_MAX,
    NO_QUEUE,
    FlowNote,
    note_body,
)
from sluicegate.protocols.network.queues.pieces import bodies


@final
class _Browser:
    """A browser of a client at the neighbor."""

    def __init__(self, consumer: int, flow_id: int) -> None:
        self.consumer: Final = consumer
        self.flow_id: Final = flow_id  # here
        self.queue: ActorCell | None = None  # None: it is being looked up
        self.browser: ActorCell | None = None  # None: it is being bound
        self.is_over = False


@final
class HomeBrowsers:
    """The browsers of one neighbor at queues of this broker, in one message VPN."""

    def __init__(self, cell: ActorCell, neighbor: str, *, queues: ActorCell, selectors: Selectors) -> None:
        self.unwritable_count = 0  # messages that could not be encoded, or that no frame of the neighbor takes
        self._cell = cell
        self._neighbor = neighbor
        self._queues = queues
        self._selectors = selectors
        self._wire: LinkWire | None = None
        self._link_flow_id = 0
        self._frame_bytes_max = 0
        self._by_consumer: dict[int, _Browser] = {}
        self._by_flow: dict[int, _Browser] = {}

    @property
    def count(self) -> int:
        """The number of browsers."""
        return len(self._by_consumer)

    def has(self, consumer: int) -> bool:
        """Return whether a flow of the neighbor is a browser."""
        return consumer in self._by_consumer

    def connected(self, wire: LinkWire, link_flow_id: int, frame_bytes_max: int) -> None:
        """Begin on a new connection, without browsers."""
        self._wire = wire
        self._link_flow_id = link_flow_id
        self._frame_bytes_max = frame_bytes_max

    def disconnected(self) -> None:
        """End all browsers."""
        self._wire = None
        for browser in list(self._by_consumer.values()):
            self._end(browser)

    # --- what the neighbor says ---

    def received(self, note: FlowNote) -> None:
        """Carry out a note of the neighbor about a browser. Raises ValueError."""
        if note.kind == notes.BROWSE:
            self._bind(note)
            return
        browser = self._by_consumer[note.consumer]
        if note.kind == notes.UNBIND:
            self._end(browser)
        elif browser.browser is None:
            raise ValueError(f"LINK_FLOW of kind {note.kind} for browser {note.consumer}, which is not bound yet")
        elif note.kind == notes.SHOW:
            browser.browser.inbox.post(BrowserCredit(note.number(0)))
        elif note.kind == notes.DRAIN:
            browser.browser.inbox.post(DrainFlow(browser.flow_id, note.number(0)))
        else:
            raise ValueError(f"LINK_FLOW of kind {note.kind} for a browser")

    def _bind(self, note: FlowNote) -> None:
        if note.consumer in self._by_consumer:
            raise ValueError(f"browser {note.consumer} is bound already")
        name, text = note.text(0), note.text(4)
        browser = _Browser(note.consumer, self._cell.runtime.next_urn())
        try:
            selector = self._selectors.compile(text) if text else None
        except SelectorError as error:
            self._send(browser, notes.REFUSED, BAD_SELECTOR, str(error))
            return
        if len(self._by_consumer) >= FLOWS_MAX:
            text = f"broker {self._neighbor} has {FLOWS_MAX} browsers here, and may have no more"
            self._send(browser, notes.REFUSED, MAX_BIND_COUNT_EXCEEDED, text)
            return
        request = BindBrowser(
            browser.flow_id,
            f"{note.text(1)}@{self._neighbor}",
            note.text(3),
            note.text_or_none(2),
            self._cell.inbox,
            note.number(5),
            note.number_or_none(6),
            note.number(7),
            selector,
        )
        self._by_consumer[browser.consumer] = self._by_flow[browser.flow_id] = browser

        def bound(answer: LoopFuture[Any]) -> None:
            error = answer.error()
            if browser.is_over:
                if error is None and browser.queue is not None:
                    browser.queue.inbox.post(UnbindFlow(browser.flow_id))
            elif isinstance(error, BindRefused):
                self._refuse(browser, error.code, str(error))
            elif error is not None:
                self._refuse(browser, NO_QUEUE, f"queue {name!r} was deleted meanwhile")
            else:
                made: BrowserBound = answer.get()
                browser.browser = made.browser
                self._send(browser, notes.BOUND)

        def found(answer: LoopFuture[Any]) -> None:
            handle = None if answer.error() is not None else answer.get()
            if browser.is_over:
                return
            if handle is None or handle.kind != NAMED or not handle.durable:
                self._refuse(browser, NO_QUEUE, f"there is no queue {name!r}")
                return
            browser.queue = handle.cell
            handle.cell.ask(request).then(bound)

        self._queues.ask(FindQueue(name)).then(found)

    def _refuse(self, browser: _Browser, code: str, text: str) -> None:
        self._forget(browser)
        self._send(browser, notes.REFUSED, code, text)

    def _end(self, browser: _Browser) -> None:
        self._forget(browser)
        if browser.queue is not None:
            browser.queue.inbox.post(UnbindFlow(browser.flow_id))

    def _forget(self, browser: _Browser) -> None:
        browser.is_over = True
        self._by_consumer.pop(browser.consumer, None)
        self._by_flow.pop(browser.flow_id, None)

    # --- what the queue says ---

    def take(self, message: object) -> bool:
        """Pass on a message of a browser; return whether it was for one of the neighbor."""
        if isinstance(message, Browsed):
            browser = self._by_flow.get(message.flow_id)
            if browser is not None:
                self._show(browser, message.messages)
            return True  # the link itself browses nothing: another's has ended
        if isinstance(message, FlowDrained):
            browser = self._by_flow.get(message.flow_id)
            if browser is not None:
                self._send(browser, notes.DRAINED, message.number, 0)
        elif isinstance(message, FlowGone):
            browser = self._by_flow.get(message.flow_id)
            if browser is not None:
                self._forget(browser)
                self._send(browser, notes.GONE, message.reason, message.may_return)
        else:
            return False
        return browser is not None

    def _show(self, browser: _Browser, messages: list[BrowsedMessage]) -> None:
        start = 0
        for end in range(1, len(messages) + 1):
            if end == len(messages) or not _follows(messages[end - 1], messages[end]):
                self._write(browser, messages[start], end - start)
                start = end

    def _write(self, browser: _Browser, found: BrowsedMessage, count: int) -> None:
        """Write messages that follow each other in one batch, of which `found` is the first."""
        wire = self._wire
        if wire is None:
            return
        flags = (REDELIVERED if found.redelivered else 0) | (IN_FLIGHT if found.in_flight else 0)
        number, times = found.partition_number, found.delivery_count
        limit, neighbor = self._frame_bytes_max, self._neighbor
        pieces = bodies(found.batch, found.row, found.row + count, frame_bytes_max=limit, neighbor=neighbor)
        for row, part_count, body in pieces:
            if body:
                first = found.sequence + row - found.row
                wire.deliver(
                    LinkDeliver(self._link_flow_id, browser.consumer, number, flags, times, 0, first, 0, b"", body)
                )
                continue
            self.unwritable_count += part_count
            if browser.browser is not None:  # others are shown in their place
                browser.browser.inbox.post(BrowserCredit(part_count))

    def _send(self, browser: _Browser, kind: int, *values: object) -> None:
        if self._wire is not None:
            self._wire.deliver(LinkFlow(self._link_flow_id, note_body(kind, browser.consumer, *values)))


def _follows(one: BrowsedMessage, other: BrowsedMessage) -> bool:
    """Return whether two messages can be in one frame."""
    return (
        other.batch is one.batch
        and other.row == one.row + 1
        and other.sequence == one.sequence + 1
        and other.partition_number == one.partition_number
        and other.redelivered == one.redelivered
        and other.delivery_count == one.delivery_count
        and other.in_flight == one.in_flight
    )
