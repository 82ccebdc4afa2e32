"""Browsers of a neighbor, where the queue is: each is a browser of the queue, which shows its messages over the link.

A browser has no more messages on their way than its client has asked for, as at its own broker.
"""

from typing import final

from sluicegate.actors.messages.partitions import BrowsedMessage
from sluicegate.actors.messages.queues import (
    BindBrowser,
    Browsed,
    BrowserBound,
    BrowserCredit,
    DrainFlow,
    FlowDrained,
    FlowGone,
    UnbindFlow,
)
from sluicegate.actors.runtime.runtime import ActorCell
from sluicegate.messaging.selectors.selector import Selector, Selectors
from sluicegate.protocols.flow.codec.frames.link_flow import IN_FLIGHT, REDELIVERED
from sluicegate.protocols.network.queues import notes
from sluicegate.protocols.network.queues.home.bindings import HomeBindings, HomeFlow
from sluicegate.protocols.network.queues.home.pieces import bodies
from sluicegate.protocols.network.queues.notes import FlowNote


@final
class _Browser(HomeFlow):
    """A browser of a client at the neighbor."""

    def __init__(self, consumer: int, flow_id: int) -> None:
        super().__init__(consumer, flow_id)
        self.browser: ActorCell | None = None  # None: it is being bound


@final
class HomeBrowsers(HomeBindings[_Browser]):
    """The browsers of one neighbor at queues of this broker, in one message VPN."""

    def __init__(self, cell: ActorCell, neighbor: str, *, queues: ActorCell, selectors: Selectors) -> None:
        super().__init__(cell, neighbor, "browsers", queues=queues, selectors=selectors)
        self.unwritable_count = 0  # messages that could not be encoded, or that no frame of the neighbor takes

    # --- what the neighbor says ---

    def received(self, note: FlowNote) -> None:
        """Carry out a note of the neighbor about a browser. Raises ValueError."""
        if note.kind == notes.BROWSE:
            self._bind_browser(note)
            return
        browser = self._by_consumer[note.consumer]
        if note.kind == notes.UNBIND:
            self._end(browser, UnbindFlow(browser.flow_id))
        elif browser.browser is None:
            raise ValueError(f"LINK_FLOW of kind {note.kind} for browser {note.consumer}, which is not bound yet")
        elif note.kind == notes.SHOW:
            browser.browser.inbox.post(BrowserCredit(note.number(0)))
        elif note.kind == notes.DRAIN:
            browser.browser.inbox.post(DrainFlow(browser.flow_id, note.number(0)))
        else:
            raise ValueError(f"LINK_FLOW of kind {note.kind} for a browser")

    def _bind_browser(self, note: FlowNote) -> None:
        browser = _Browser(note.consumer, self._cell.runtime.next_urn())
        client, user, protocol = f"{note.text(1)}@{self._neighbor}", note.text_or_none(2), note.text(3)
        window, number, after = note.number(5), note.number_or_none(6), note.number(7)

        def request(selector: Selector | None) -> BindBrowser:
            address = self._cell.inbox
            return BindBrowser(
                browser.flow_id,
                client,
                protocol,
                user,
                address,
                window,
                number,
                after,
                selector,
                broker=self._neighbor,
            )

        self._bind(browser, note.text(0), note.text(4), request)

    def _is_bound(self, flow: _Browser, answer: BrowserBound | None) -> None:
        assert answer is not None, "a browser was bound"
        flow.browser = answer.browser

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
            return self._gone(message.flow_id, message.reason, may_return=message.may_return)
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
        channel = self._channel
        if channel is None:
            return
        flags = (REDELIVERED if found.redelivered else 0) | (IN_FLIGHT if found.in_flight else 0)
        number, times = found.partition_number, found.delivery_count
        for row, part_count, body in bodies(found.batch, found.row, found.row + count, channel, self._neighbor):
            if body:
                first = found.sequence + row - found.row
                channel.deliver(browser.consumer, number, flags, first, body, delivery_count=times)
                continue
            self.unwritable_count += part_count
            if browser.browser is not None:  # others are shown in their place
                browser.browser.inbox.post(BrowserCredit(part_count))


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
