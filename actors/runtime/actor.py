"""The base of every actor on the event loop.

It stays interpreted, because what inherits from pykka's actor cannot be compiled. So an actor on the data path, or one
that each client asks, is nothing but the shell of a compiled object, its `behaviour`, which is called in its place. Of
connections there are thousands: they are their behaviours, without one of these.
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

    `on_receive` gets one message at a time, and has it handled by that of the `handlers` which is for its type.
    `on_turn_ended` is called when the messages of a turn have been handled: the place for work that is done once for
    all of them. An actor with a `behaviour` has all done by that.
    """

    handlers: Mapping[type, Callable[[Any], Any]] = MappingProxyType({})  # its cell lets go of them when it is stopped

    def __init__(self, cell: ActorCell, behaviour: Behaviour | None = None) -> None:
        # pykka's own constructor makes a UUID and a thread event for each actor: 5 us and 1 kB that we do without.
        self.cell = cell
        self.runtime = cell.runtime
        self.behaviour = behaviour

    @cached_property
    def actor_ref(self) -> pykka.ActorRef[Self]:
        """pykka's reference, made for whoever asks for it: our own asks and posts go to the inbox."""
        self.actor_urn = f"urn:actor:{self.runtime.next_urn()}"
        self.actor_inbox = self.cell.inbox
        self.actor_stopped = _StopFlag(self.cell)  # type: ignore[assignment]  # of which pykka's reference reads is_set()
        return pykka.ActorRef(self)

    @staticmethod
    def _create_actor_inbox() -> Inbox:
        raise RuntimeError("a LoopActor's inbox belongs to its cell: start it with Runtime.spawn")

    @staticmethod
    def _create_future() -> LoopFuture[Any]:  # type: ignore[override]  # it has the verbs that pykka calls
        return LoopFuture()

    def _start_actor_loop(self) -> None:
        self.on_start()

    def on_receive(self, message: Any) -> Any:
        """Handle one message; return the answer to an ask."""
        return self.handlers[type(message)](message)

    def on_turn_ended(self) -> None:
        """Do what is done once after the messages of a turn."""

    def on_failure(self, exception_type: Any, exception_value: Any, traceback: Any) -> None:
        """Do what is left to do when something here has failed."""
        if self.behaviour is not None:
            self.behaviour.fail()

    def on_stop(self) -> None:
        """Let others go on who wait for the actor."""
        if self.behaviour is not None:
            self.behaviour.stopped()

    def on_failing_too_often(self) -> None:
        """Ask for a new state; whoever supplies it resumes the cell. For actors under the policy RELOAD."""
        raise RuntimeError(f"{self.cell.path()} has nothing that its state could be made anew from")


class _StopFlag:
    """Tells pykka's references whether the actor still runs. On one loop this needs no lock."""

    def __init__(self, cell: ActorCell) -> None:
        self._cell = cell

    def is_set(self) -> bool:
        """Return whether the actor has stopped."""
        return self._cell.is_stopped()


# The root of the actor tree: it supervises and does nothing else.


class SupervisorActor(LoopActor):
    """A node's root actor. It gets no messages; a failure below that nobody answered ends the node."""

    def on_receive(self, message: Any) -> None:
        """Nobody has anything to say to it."""
