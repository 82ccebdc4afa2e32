"""The actor runtime: starts, supervises, stops and shows the actors of one event loop.

pykka supplies the actor vocabulary (actor, reference, inbox, ask, stop); this runtime supplies the loop in place of a
thread each, keeps the strong references that pykka's references do not, and supervises. Time, randomness and the loop
are given to it, and everybody else asks it for them: under a virtual loop and a seed a whole node runs the same again.
"""

import asyncio
import logging
import random
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, Protocol

import pykka
from pykka import messages as pykka_messages
from pykka._envelope import Envelope

from actors.clock import Clock
from actors.futures import LoopFuture
from actors.inbox import Dispatcher, Inbox
from actors.supervision import OnFailure, RestartLog, RestartPolicy

log = logging.getLogger("sluicegate.actors")


class TimerHandle(Protocol):
    """A timer that can be called off."""

    def cancel(self) -> None:
        """Call it off; harmless when it has gone off."""


class EventLoop(Protocol):
    """What the runtime needs of an event loop; asyncio's and uvloop's have it."""

    def call_soon(self, callback: Callable[..., object], *args: Any) -> Any:
        """Call back in the next turn."""

    def call_later(self, delay: float, callback: Callable[..., object], *args: Any) -> TimerHandle:
        """Call back after `delay` seconds."""

    def call_soon_threadsafe(self, callback: Callable[..., object], *args: Any) -> Any:
        """Call back in the next turn; may be called from any thread."""

    def create_task(self, coro: Coroutine[Any, Any, Any]) -> "asyncio.Task[Any]":
        """Run a coroutine."""


class StopFlag:
    """Tells pykka's references whether the actor still runs. On one loop this needs no lock."""

    __slots__ = ("_set",)

    def __init__(self) -> None:
        self._set = False

    def is_set(self) -> bool:
        """Return whether the actor has stopped."""
        return self._set

    def set(self) -> None:
        """Note that the actor has stopped."""
        self._set = True


@dataclass(frozen=True, slots=True)
class ActorOverview:
    """One actor in the tree that `/actors` and the metrics show."""

    name: str
    kind: str
    state: str  # "running" or "stopped"
    inbox_depth: int
    handled_count: int
    batches_count: int
    batch_size_max: int
    handling_ns: int
    restarts_count: int
    dead_letters: int
    children: list["ActorOverview"] = field(default_factory=list)


class ActorCell:
    """An actor's place in the tree: its address, its figures and its supervision. It outlives restarts."""

    __slots__ = (
        "_factory",
        "_restarts",
        "actor",
        "batch_size_max",
        "batches_count",
        "children",
        "handled_count",
        "handling_ns",
        "inbox",
        "kind",
        "name",
        "parent",
        "policy",
        "runtime",
        "stopped",
    )

    def __init__(
        self,
        runtime: "Runtime",
        *,
        kind: str,
        name: str,
        factory: Callable[["ActorCell"], "LoopActor"],
        parent: "ActorCell | None",
        policy: RestartPolicy,
    ) -> None:
        self.runtime = runtime
        self.kind = kind
        self.name = name
        self.parent = parent
        self.policy = policy
        self.children: dict[int, ActorCell] | None = None  # most actors have none
        self.inbox = Inbox(runtime.dispatcher, self)
        self.stopped = StopFlag()
        self.handled_count = 0
        self.batches_count = 0
        self.batch_size_max = 0
        self.handling_ns = 0
        self._factory = factory
        self._restarts: RestartLog | None = None  # most actors never fail
        self.actor = factory(self)

    def drain(self) -> None:
        """Handle what is in the inbox, a bounded amount. A failure costs the message at hand, the rest is handled."""
        if self.stopped.is_set():
            return
        items = self.inbox.swap()
        clock = self.runtime.clock
        started_ns = clock.now_ns()
        handled = 0
        while handled < len(items):
            receive = self.actor.on_receive
            try:
                while handled < len(items):
                    item = items[handled]
                    handled += 1
                    if type(item) is Envelope:
                        self._handle_envelope(item)
                        receive = self.actor.on_receive
                    else:
                        receive(item)
                self.actor.on_drained()
            except Exception as error:  # the boundary of supervision: whatever failed costs this actor only
                self._failed(error)
            if self.stopped.is_set():
                self._refuse(items[handled:])
                return
        self.handled_count += len(items)
        self.batches_count += 1
        if len(items) > self.batch_size_max:
            self.batch_size_max = len(items)
        self.handling_ns += clock.now_ns() - started_ns

    def ask(self, message: object) -> LoopFuture[Any]:
        """Ask the actor through pykka; the future carries its answer or its exception."""
        future: LoopFuture[Any] = self.actor.actor_ref.ask(message, block=False)  # type: ignore[assignment]  # _create_future
        return future

    def stop(self) -> None:
        """Stop the actor and its children, children first. What waits in the inbox is refused."""
        if self.stopped.is_set():
            return
        if self.children:
            for child in list(self.children.values()):
                child.stop()
        self.stopped.set()
        self.inbox.closed = True
        try:
            self.actor.on_stop()
        except Exception:
            log.exception("actor %s failed while stopping", self.path())
        waiting, self.inbox.items = self.inbox.items, []
        self._refuse(waiting)
        if self.parent is not None and self.parent.children is not None:
            self.parent.children.pop(id(self), None)

    def path(self) -> str:
        """Return the names from the root down to this actor."""
        return self.name if self.parent is None else f"{self.parent.path()}/{self.name}"

    def overview(self) -> ActorOverview:
        """Return this actor's figures, and those of all below it."""
        return ActorOverview(
            name=self.name,
            kind=self.kind,
            state="stopped" if self.stopped.is_set() else "running",
            inbox_depth=len(self.inbox.items),
            handled_count=self.handled_count,
            batches_count=self.batches_count,
            batch_size_max=self.batch_size_max,
            handling_ns=self.handling_ns,
            restarts_count=0 if self._restarts is None else self._restarts.count,
            dead_letters=self.inbox.dead_letters,
            children=[child.overview() for child in self.children.values()] if self.children else [],
        )

    def _handle_envelope(self, envelope: Envelope[Any]) -> None:
        if isinstance(envelope.message, pykka_messages._ActorStop):
            self.stop()
            if envelope.reply_to is not None:
                envelope.reply_to.set(None)
            return
        if envelope.reply_to is None:
            self.actor._handle_receive(envelope.message)
            return
        try:
            answer = self.actor._handle_receive(envelope.message)
        except Exception:  # an ask carries its failure back to who asked
            envelope.reply_to.set_exception()
            return
        if isinstance(answer, LoopFuture):  # the actor answers later
            answer.then(lambda done: _pass_on(done, envelope.reply_to))
        else:
            envelope.reply_to.set(answer)

    def _failed(self, error: Exception) -> None:
        log.error("actor %s failed: %r", self.path(), error, exc_info=error)
        runtime = self.runtime
        self.actor.on_failure(type(error), error, error.__traceback__)
        if self._restarts is None:
            self._restarts = RestartLog(self.policy)
        if self._restarts.may_restart(runtime.clock.now_ms()):
            self.actor = self._factory(self)
            self.actor.on_start()
        elif self.policy.on_failure is OnFailure.STOP:
            self.stop()
        else:
            self.stop()
            if self.parent is not None:
                self.parent._failed(error)
            else:
                runtime.fatal(error)

    def _refuse(self, items: list[object]) -> None:
        for item in items:
            if type(item) is Envelope and item.reply_to is not None:
                dead = pykka.ActorDeadError(f"{self.path()} stopped before handling the message")
                item.reply_to.set_exception((type(dead), dead, None))
        self.inbox.dead_letters += len(items)

    def __repr__(self) -> str:
        return f"<{self.kind} {self.path()}>"


class LoopActor(pykka.Actor):
    """An actor whose messages are handled on the runtime's event loop.

    `on_receive` gets one message at a time; `on_drained` is called when the messages of a turn have been handled, the
    place for work that is done once for all of them.
    """

    def __init__(self, cell: ActorCell) -> None:
        # pykka's own constructor makes a UUID and a thread event for each actor: 5 us and 1 kB that we do without.
        self.cell = cell
        self.runtime = cell.runtime
        self.actor_urn = f"urn:actor:{cell.runtime.next_urn()}"
        self.actor_inbox = cell.inbox
        self.actor_stopped = cell.stopped  # type: ignore[assignment]  # pykka reads is_set() and set() only
        self._actor_ref = pykka.ActorRef(self)

    @staticmethod
    def _create_actor_inbox() -> Inbox:
        raise RuntimeError("a LoopActor's inbox belongs to its cell: start it with Runtime.spawn")

    @staticmethod
    def _create_future() -> LoopFuture[Any]:
        return LoopFuture()

    def _start_actor_loop(self) -> None:
        self.on_start()

    def on_drained(self) -> None:
        """Do what is done once after the messages of a turn."""


class Runtime:
    """The actors of one event loop."""

    def __init__(
        self,
        *,
        loop: EventLoop,
        clock: Clock,
        rng: random.Random,
        on_fatal: Callable[[BaseException], None],
    ) -> None:
        self.loop = loop
        self.clock = clock
        self.rng = rng
        self.dispatcher = Dispatcher(call_soon=loop.call_soon, clock=clock)
        self.roots: list[ActorCell] = []
        self._on_fatal = on_fatal
        self._urn = 0
        self._tasks: set[asyncio.Task[Any]] = set()

    def spawn(
        self,
        factory: Callable[[ActorCell], LoopActor],
        *,
        kind: str,
        name: str,
        policy: RestartPolicy,
        parent: ActorCell | None = None,
    ) -> ActorCell:
        """Start an actor under a parent, or as a root. Its address is the cell's inbox."""
        cell = ActorCell(self, kind=kind, name=name, factory=factory, parent=parent, policy=policy)
        if parent is None:
            self.roots.append(cell)
            # Only roots stand in pykka's registry: it is a list, and removal from it takes time with its length.
            pykka.ActorRegistry.register(cell.actor.actor_ref)
        elif parent.children is None:
            parent.children = {id(cell): cell}
        else:
            parent.children[id(cell)] = cell
        cell.actor._start_actor_loop()
        return cell

    def after(self, delay_ms: int, callback: Callable[[], object]) -> TimerHandle:
        """Call back after a delay."""
        return self.loop.call_later(delay_ms / 1000, callback)

    def post_from_thread(self, inbox: Inbox, message: object) -> None:
        """Leave a message for an actor of the loop from another thread."""
        self.loop.call_soon_threadsafe(inbox.post, message)

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
            pykka.ActorRegistry.unregister(root.actor.actor_ref)
        self.roots.clear()


def _pass_on(answer: LoopFuture[Any], reply_to: pykka.Future[Any] | None) -> None:
    assert reply_to is not None
    try:
        reply_to.set(answer.get())
    except Exception:  # the asker's to handle
        reply_to.set_exception()
