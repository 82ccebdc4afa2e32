"""What consumers and browsers of a neighbor have in common where the queue is: how they are bound to it, and end."""

import logging
from collections.abc import Callable
from typing import Any, Final, Generic, TypeVar

from sluicegate.actors.messages.directory import NAMED, FindQueue
from sluicegate.actors.messages.queues import (
    MAX_BIND_COUNT_EXCEEDED,
    BindBrowser,
    BindFlow,
    BindRefused,
    BrowserBound,
    UnbindFlow,
)
from sluicegate.actors.runtime.asks import LoopFuture, has_stopped
from sluicegate.actors.runtime.runtime import ActorCell
from sluicegate.messaging.selectors.lexer import SelectorError
from sluicegate.messaging.selectors.selector import Selector, Selectors
from sluicegate.protocols.network.queues import notes
from sluicegate.protocols.network.queues.channel import QueuesChannel
from sluicegate.protocols.network.queues.notes import BAD_SELECTOR, FLOWS_MAX, NO_QUEUE

log = logging.getLogger("sluicegate.network")


class HomeFlow:
    """A flow of a client at the neighbor."""

    def __init__(self, consumer: int, flow_id: int) -> None:
        self.consumer: Final = consumer  # its number at the neighbor
        self.flow_id: Final = flow_id  # here
        self.queue: ActorCell | None = None  # None: it is being looked up
        self.is_over = False


F = TypeVar("F", bound=HomeFlow)


class HomeBindings(Generic[F]):
    """The flows of one kind that a neighbor has at queues of this broker, in one message VPN.

    Each is bound as a flow of this broker's own clients is, with the user's name that the neighbor gives. The neighbor
    is told BOUND, or REFUSED with the reason.
    """

    def __init__(self, cell: ActorCell, neighbor: str, kind: str, *, queues: ActorCell, selectors: Selectors) -> None:
        """`kind` is what there may be too many of, in the plural."""
        self._cell = cell
        self._neighbor = neighbor
        self._kind = kind
        self._queues = queues
        self._selectors = selectors
        self._channel: QueuesChannel | None = None
        self._by_consumer: dict[int, F] = {}
        self._by_flow: dict[int, F] = {}

    @property
    def count(self) -> int:
        """The number of flows, those included that are being bound."""
        return len(self._by_consumer)

    def has(self, consumer: int) -> bool:
        """Return whether a flow of the neighbor is one of these."""
        return consumer in self._by_consumer

    def connected(self, channel: QueuesChannel) -> None:
        """Begin on a new connection, without flows."""
        self._channel = channel

    def disconnected(self) -> None:
        """End all flows: what they hold is delivered again."""
        self._channel = None
        for flow in list(self._by_consumer.values()):
            self._end(flow, UnbindFlow(flow.flow_id))

    def _bind(
        self, flow: F, name: str, selector_text: str, request: Callable[[Selector | None], BindFlow | BindBrowser]
    ) -> None:
        """Bind a flow to the queue of a name, by a request with its selector."""
        try:
            selector = self._selectors.compile(selector_text) if selector_text else None
        except SelectorError as error:
            self._send(flow, notes.REFUSED, BAD_SELECTOR, str(error))
            return
        if len(self._by_consumer) >= FLOWS_MAX:
            text = f"broker {self._neighbor} has {FLOWS_MAX} {self._kind} here, and may have no more"
            self._send(flow, notes.REFUSED, MAX_BIND_COUNT_EXCEEDED, text)
            return
        self._by_consumer[flow.consumer] = self._by_flow[flow.flow_id] = flow

        def bound(answer: LoopFuture[Any]) -> None:
            error = answer.error()
            if flow.is_over:
                if error is None:
                    self._tell(flow, UnbindFlow(flow.flow_id))
            elif isinstance(error, BindRefused):
                self._refuse(flow, error.code, str(error))
            elif has_stopped(error):
                self._refuse(flow, NO_QUEUE, f"queue {name!r} was deleted meanwhile")
            elif error is not None:
                log.error("a flow of %s was not bound to queue %r", self._neighbor, name, exc_info=error)
                self._refuse(flow, NO_QUEUE, f"a fault kept the flow from queue {name!r}")
            else:
                self._is_bound(flow, answer.get())
                self._send(flow, notes.BOUND)

        def found(answer: LoopFuture[Any]) -> None:
            handle = None if answer.error() is not None else answer.get()
            if flow.is_over:
                return
            if handle is None or handle.kind != NAMED or not handle.durable:
                self._refuse(flow, NO_QUEUE, f"there is no queue {name!r}")
                return
            flow.queue = handle.cell
            handle.cell.ask(request(selector)).then(bound)

        self._queues.ask(FindQueue(name)).then(found)

    def _is_bound(self, flow: F, answer: BrowserBound | None) -> None:
        """Take what the queue has answered."""

    def _refuse(self, flow: F, code: str, text: str) -> None:
        self._forget(flow)
        self._send(flow, notes.REFUSED, code, text)

    def _tell(self, flow: F, message: object) -> None:
        """Tell the queue, if it is known."""
        if flow.queue is not None:
            flow.queue.inbox.post(message)

    def _end(self, flow: F, unbind: UnbindFlow) -> None:
        self._forget(flow)
        self._tell(flow, unbind)

    def _gone(self, flow_id: int, reason: str, *, may_return: bool) -> bool:
        """Tell the neighbor that a queue has ended a flow; return whether it was one of these."""
        flow = self._by_flow.get(flow_id)
        if flow is None:
            return False
        self._forget(flow)
        self._send(flow, notes.GONE, reason, may_return)
        return True

    def _forget(self, flow: F) -> None:
        flow.is_over = True
        self._by_consumer.pop(flow.consumer, None)
        self._by_flow.pop(flow.flow_id, None)

    def _send(self, flow: F, kind: int, *values: object) -> None:
        """Send the neighbor a note, behind what the flow has delivered."""
        if self._channel is not None:
            self._channel.note(kind, flow.consumer, *values)
