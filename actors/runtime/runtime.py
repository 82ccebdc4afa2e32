"""The actor runtime: starts, supervises, stops and shows the actors of one event loop.

pykka supplies the actor vocabulary (actor, reference, inbox, ask, stop); this runtime supplies the loop in place of a
thread each, keeps the strong references that pykka's references do not, and supervises. Time, randomness and the loop
are given to it, and everybody else asks it for them: under a virtual loop and a seed a whole node runs the same again.
"""

import asyncio
import random
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Protocol

import pykka

from sluicegate.actors.runtime.asks import LoopFuture
from sluicegate.actors.runtime.cell import ActorCell, Behaviour, EndedActors
from sluicegate.actors.runtime.clock import Clock
from sluicegate.actors.runtime.events import Events
from sluicegate.actors.runtime.inbox import CallSoon, Dispatcher
from sluicegate.actors.runtime.supervision import RestartPolicy
from sluicegate.messaging.message.address import Address

if TYPE_CHECKING:
    from sluicegate.actors.runtime.actor import LoopActor


class TimerHandle(Protocol):
    """A timer that can be called off."""

    def cancel(self) -> None:
        """Call it off; harmless when it has gone off."""


class EventLoop(Protocol):
    """What the runtime needs of an event loop; asyncio's have it."""

    def call_soon(self, callback: Callable[..., object], *args: Any) -> Any:
        """Call back in the next turn."""

    def call_later(self, delay: float, callback: Callable[..., object], *args: Any) -> TimerHandle:
        """Call back after `delay` seconds."""

    def call_soon_threadsafe(self, callback: Callable[..., object], *args: Any) -> Any:
        """Call back in the next turn; may be called from any thread."""

    def create_task(self, coro: Coroutine[Any, Any, Any]) -> "asyncio.Task[Any]":
        """Run a coroutine."""


class Runtime:
    """The actors of one event loop."""

    def __init__(
        self,
        *,
        loop: EventLoop,
        clock: Clock,
        rng: random.Random,
        on_fatal: Callable[[BaseException], None],
        call_soon: CallSoon | None = None,
    ) -> None:
        """`call_soon` calls the dispatcher for its turns; the loop does unless told otherwise."""
        self.loop = loop
        self.clock = clock
        self.rng = rng
        self.events = Events(clock)  # what happens, for operators
        self.dispatcher = Dispatcher(call_soon=call_soon or loop.call_soon, clock=clock, on_fatal=on_fatal)
        self.roots: list[ActorCell] = []
        self.ended: dict[str, EndedActors] = {}  # by kind
        self._on_fatal = on_fatal
        self._urn = 0
        self._tasks: set[asyncio.Task[Any]] = set()

    def spawn(
        self,
        factory: Callable[[ActorCell], "LoopActor | Behaviour"],
        *,
        kind: str,
        name: str,
        number: int = 0,
        policy: RestartPolicy,
        parent: ActorCell | None = None,
    ) -> ActorCell:
        """Start an actor under a parent, or as a root. Its address is the cell's inbox.

        One of many of a name has a number, from 1 on, behind it.
        """
        cell = ActorCell(self, kind=kind, name=name, number=number, factory=factory, parent=parent, policy=policy)
        if parent is None:
            self.roots.append(cell)
            if cell.actor is not None:
                # Only roots stand in pykka's registry: it is a list, and removal from it takes time with its length.
                pykka.ActorRegistry.register(cell.actor.actor_ref)
        elif parent.children is None:
            parent.children = {cell: None}
        else:
            parent.children[cell] = None
        if cell.actor is not None:
            cell.actor._start_actor_loop()
        return cell

    def after(self, delay_ms: int, callback: Callable[[], object]) -> TimerHandle:
        """Call back after a delay."""
        return self.loop.call_later(delay_ms / 1000, callback)

    async def sleep(self, delay_ms: int) -> None:
        """Wait, while others go on."""
        done: LoopFuture[None] = LoopFuture()
        self.after(delay_ms, lambda: done.set(None))
        await done

    def post_from_thread(self, address: Address, message: object) -> None:
        """Leave a message for an actor of the loop from another thread."""
        self.loop.call_soon_threadsafe(address.post, message)

    def keep(self, task: "asyncio.Task[Any]") -> None:
        """Hold a task until it is done: the event loop itself holds tasks weakly."""
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def next_urn(self) -> int:
        """Return a number no other actor of this runtime has."""
        self._urn += 1
        return self._urn

    def fatal(self, error: BaseException) -> None:
        """Report a failure that no supervisor could answer."""
        self._on_fatal(error)

    def stop(self) -> None:
        """Stop all actors, the youngest root first."""
        for root in reversed(self.roots):
            root.stop()
        self.roots.clear()
