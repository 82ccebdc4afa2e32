"""Browsers of this broker's clients at a queue of a neighbor, which has the browser that reads the queue.

Each has an actor here in that one's place: it passes on what the client asks for.
"""

from typing import Any, Final, final

from sluicegate.actors.messages.partitions import BrowsedMessage
from sluicegate.actors.messages.queues import (
    ACTIVE_BROWSER,
    ENDPOINT_DISABLED,
    BindBrowser,
    BindRefused,
    Browsed,
    BrowserBound,
    BrowserCredit,
    DrainFlow,
    FlowDrained,
    FlowGone,
    FlowOverview,
    UnbindFlow,
)
from sluicegate.actors.network.link_batches import link_batch
from sluicegate.actors.runtime.asks import LoopFuture
from sluicegate.actors.runtime.runtime import ActorCell, Behaviour
from sluicegate.actors.runtime.supervision import ONE_CONNECTION
from sluicegate.messaging.network.times import arriving
from sluicegate.protocols.flow.codec.frames.link_flow import IN_FLIGHT, REDELIVERED, LinkDeliver
from sluicegate.protocols.network.queues import notes
from sluicegate.protocols.network.queues.notes import FlowNote
from sluicegate.protocols.network.queues.remote.link import QueueLink


@final
class RemoteBrowser(Behaviour):
    """One browser. It stops when it ends."""

    def __init__(self, cell: ActorCell, request: BindBrowser, link: QueueLink) -> None:
        self.request: Final = request
        self.bound: Final[LoopFuture[BrowserBound]] = LoopFuture()
        self.is_bound = False
        self._cell = cell
        self._link = link
        self._room = request.window  # messages that may still be shown

    def receive(self, message: Any) -> Any:
        """Pass on what the client asks for."""
        if isinstance(message, BrowserCredit):
            self._room += message.count
            self._link.say(notes.SHOW, self.request.flow_id, message.count)
        else:
            assert isinstance(message, DrainFlow), "clients of browsers send nothing else"
            self._link.say(notes.DRAIN, self.request.flow_id, message.number)
        return None

    def turn_ended(self) -> None:
        """Do nothing: the link writes at the end of the turn."""

    def show(self, frame: LinkDeliver) -> None:
        """Show the client messages. Raises ValueError."""
        batch = arriving(link_batch(frame.batch), frame.sent_ms, self._cell.runtime.dispatcher.both_ms()[1])
        if batch.count > self._room:
            raise ValueError(f"{batch.count} messages for browser {frame.consumer}, which takes {self._room}")
        self._room -= batch.count
        is_again, is_held = frame.flags & REDELIVERED != 0, frame.flags & IN_FLIGHT != 0
        number, times = frame.partition, frame.delivery_count
        shown = [
            BrowsedMessage(number, frame.first + row, batch, row, is_again, times, is_held)
            for row in range(batch.count)
        ]
        self.request.address.post(Browsed(self.request.flow_id, shown))

    def answered(self) -> None:
        """Tell the client that its browser is bound."""
        self.is_bound = True
        self.bound.set(BrowserBound(self._cell))

    def end(self, reason: str, *, may_return: bool) -> None:
        """Tell the client that the browser is gone."""
        if self.is_bound:
            self.request.address.post(FlowGone(self.request.flow_id, reason, may_return=may_return))
        else:
            self.refuse(BindRefused(ENDPOINT_DISABLED, reason))

    def refuse(self, refusal: BindRefused) -> None:
        """Tell the client that there is no browser."""
        self.is_bound = True  # decided
        self.bound.set_exception((BindRefused, refusal, None))


@final
class RemoteBrowsers:
    """The browsers of this broker's clients at one queue."""

    def __init__(self, cell: ActorCell, queue_name: str, link: QueueLink) -> None:
        self._cell = cell
        self._queue_name = queue_name
        self._link = link
        self._browsers: dict[int, tuple[ActorCell, RemoteBrowser]] = {}

    @property
    def count(self) -> int:
        """The number of browsers."""
        return len(self._browsers)

    def clients(self) -> set[str]:
        """Return the names of the clients."""
        return {browser.request.client for _, browser in self._browsers.values()}

    def flows(self) -> list[FlowOverview]:
        """Return them as operators see them. One of all partitions is shown with none: their number may change."""
        found = []
        for flow_id, (_, browser) in self._browsers.items():
            asked = browser.request
            seen = [] if asked.partition_number is None else [asked.partition_number]
            text = "" if asked.selector is None else asked.selector.text
            found.append(
                FlowOverview(flow_id, asked.client, asked.protocol, asked.window, 0, ACTIVE_BROWSER, seen, text)
            )
        return found

    def bind(self, request: BindBrowser) -> LoopFuture[BrowserBound]:
        """Begin a browser."""
        made: list[RemoteBrowser] = []
        link = self._link

        def make(cell: ActorCell) -> RemoteBrowser:
            made.append(RemoteBrowser(cell, request, link))
            return made[-1]

        cell = self._cell.runtime.spawn(
            make, kind="remote-browser", name=str(request.flow_id), policy=ONE_CONNECTION, parent=self._cell
        )
        self._browsers[request.flow_id] = (cell, made[-1])
        link.say(
            notes.BROWSE,
            request.flow_id,
            self._queue_name,
            request.client,
            request.user,
            request.protocol,
            "" if request.selector is None else request.selector.text,
            request.window,
            request.partition_number,
            request.after,
        )
        return made[-1].bound

    def unbind(self, message: UnbindFlow) -> None:
        """End a browser whose client has seen enough."""
        browser = self._forget(message.flow_id)
        if browser is not None:
            self._link.say(notes.UNBIND, message.flow_id, False, False)
            browser.end("the client has ended the browser", may_return=True)

    def show(self, frame: LinkDeliver) -> None:
        """Show messages. Raises ValueError."""
        found = self._browsers.get(frame.consumer)
        if found is not None:
            found[1].show(frame)

    def told(self, note: FlowNote) -> None:
        """Carry out a note of the neighbor. Raises ValueError."""
        found = self._browsers.get(note.consumer)
        if found is None:
            return  # it has ended
        browser = found[1]
        if note.kind == notes.BOUND:
            browser.answered()
        elif note.kind == notes.DRAINED:
            browser.request.address.post(FlowDrained(note.consumer, note.number(0)))
        elif note.kind == notes.REFUSED:
            refusal = BindRefused(note.text(0), note.text(1))
            self._forget(note.consumer)
            browser.refuse(refusal)
        elif note.kind == notes.GONE:
            reason, may_return = note.text(0), note.flag(1)
            self._forget(note.consumer)
            browser.end(reason, may_return=may_return)
        else:
            raise ValueError(f"LINK_FLOW of kind {note.kind} for a browser")

    def lost(self, reason: str, *, may_return: bool) -> None:
        """End all browsers."""
        for flow_id in list(self._browsers):
            browser = self._forget(flow_id)
            if browser is not None:
                browser.end(reason, may_return=may_return)

    def _forget(self, flow_id: int) -> RemoteBrowser | None:
        found = self._browsers.pop(flow_id, None)
        if found is None:
            return None
        self._link.end(flow_id)
        found[0].stop()
        return found[1]
