"""The base class of every actor on the event loop.

It stays interpreted, because a subclass of pykka's actor cannot be compiled. So an actor on the data path, or one that
each client asks, is only the shell of a compiled object, its `behaviour`, which is called in its place. Connections, of
which there are thousands, are behaviours without a shell.
"""

from collections.abc import Callable, Mapping
from functools import cached_property
from types import MappingProxyType
from typing import Any, Self

import pykka

from sluicegate.actors.runtime.asks import LoopFuture
from sluicegate.actors.runtime.inbox import Inbox
from sluicegate.actors.runtime.runtime import ActorCell, Behaviour


class LoopActor(pykka.Actor):
    """An actor whose messages are handled on the runtime's event loop.

    `on_receive` gets one message at a time, and passes it to the handler of `handlers` for its type. `on_turn_ended` is
    called after the messages of a turn: the place for work that is done once for all of them. The `behaviour` of an
    actor, if it has one, does both.
    """

    handlers: Mapping[type, Callable[[Any], Any]] = MappingProxyType({})  # dropped by the cell when it is stopped

    def __init__(self, cell: ActorCell, behaviour: Behaviour | None = None) -> None:
        # pykka's own constructor makes a UUID and a thread event for each actor: 5 us and 1 kB that this one saves.
        self.cell = cell
        self.runtime = cell.runtime
        self.behaviour = behaviour

    @cached_property
    def actor_ref(self) -> pykka.ActorRef[Self]:
        """pykka's reference, made on demand: our own asks and posts go to the inbox."""
        self.actor_urn = f"urn:actor:{self.runtime.next_urn()}"
        self.actor_inbox = self.cell.inbox
        self.actor_stopped = _StopFlag(self.cell)  # type: ignore[assignment]  # pykka's reference reads is_set() of it
        return pykka.ActorRef(self)

    @staticmethod
    def _create_actor_inbox() -> Inbox:
        raise RuntimeError("a LoopActor's inbox belongs to its cell: start it with Runtime.spawn")

    @staticmethod
    def _create_future() -> LoopFuture[Any]:  # type: ignore[override]  # it has the methods that pykka calls
        return LoopFuture()

    def _start_actor_loop(self) -> None:
        self.on_start()

    def on_receive(self, message: Any) -> Any:
        """Handle one message; return the answer to an ask."""
        return self.handlers[type(message)](message)

    def on_turn_ended(self) -> None:
        """Do the work that is done once after the messages of a turn."""

    def on_failure(self, exception_type: Any, exception_value: Any, traceback: Any) -> None:
        """Clean up after a failure."""
        if self.behaviour is not None:
            self.behaviour.fail()

    def on_stop(self) -> None:
        """Release objects that wait for the actor."""
        if self.behaviour is not None:
            self.behaviour.stopped()

    def on_failing_too_often(self) -> None:
        """Ask for a new state; its supplier resumes the cell. For actors under the policy RELOAD."""
        raise RuntimeError(f"{self.cell.path()} has no source to reload its state from")


class _StopFlag:
    """Tells pykka's references whether the actor still runs. On one loop it needs no lock."""

    def __init__(self, cell: ActorCell) -> None:
        self._cell = cell

    def is_set(self) -> bool:
        """Return whether the actor has stopped."""
        return self._cell.is_stopped()


class SupervisorActor(LoopActor):
    """A node's root actor: it supervises and does nothing else. An unhandled failure below it ends the node."""

    def on_receive(self, message: Any) -> None:
        """Ignore the message: the root gets none."""
