"""The actor runtime: starts, supervises, stops and lists the actors of one event loop.

pykka supplies the actor vocabulary (actor, reference, inbox, ask, stop); this runtime supplies the loop in place of a
thread each, keeps the strong references that pykka's references do not, and supervises. Time, randomness and the loop
are injected, and all other code gets them from here: with a virtual loop and a seed a whole node runs the same again.
"""

import asyncio
import logging
import random
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, TypeAlias, cast, final

import pykka
from mypy_extensions import i32, i64, u8
from pykka import messages as pykka_messages
from pykka._envelope import Envelope

from sluicegate.actors.runtime.asks import Ask, LoopFuture, ask_at
from sluicegate.actors.runtime.clock import Clock
from sluicegate.actors.runtime.events import Events
from sluicegate.actors.runtime.inbox import CallSoon, Dispatcher, Inbox
from sluicegate.actors.runtime.supervision import OnFailure, RestartLog, RestartPolicy
from sluicegate.messaging.message.address import Address

log = logging.getLogger("sluicegate.actors")

# In compiled code a Final is a C variable; the name itself would be looked up in a dict for every message.
ENVELOPE: Final = Envelope


@dataclass(frozen=True)
class ActorOverview:
    """One actor in the tree that `/actors` and the metrics show."""

    name: str
    kind: str
    state: str  # "running", "suspended" (its state is being reloaded) or "stopped"
    inbox_depth: int
    handled_count: int
    batches_count: int
    batch_size_max: int
    handling_ns: int
    restarts_count: int
    dead_letters: int
    children: list["ActorOverview"] = field(default_factory=list)


@final
class EndedActors:
    """Totals of the stopped actors of one kind: connections come and go, and a counter must not fall."""

    def __init__(self) -> None:
        self.handled_count: int = 0
        self.batches_count: int = 0
        self.handling_ns: int = 0
        self.restarts_count: int = 0


class Behaviour:
    """The work of an actor: compiled, and called directly, which saves a Python call for each message.

    A connection, of which there are thousands, is a Behaviour alone; other actors have a pykka shell around it.
    """

    def receive(self, message: Any) -> Any:
        """Handle a message; return the answer to an ask."""
        raise AssertionError("Behaviour is abstract")

    def turn_ended(self) -> None:
        """Do the work that is done once after the messages of a turn."""
        raise AssertionError("Behaviour is abstract")

    def carried_out(self, error: BaseException | None) -> None:
        """Continue after a request that `actors.runtime.tasks` ran for the actor; `error` is its failure."""
        raise AssertionError("carried_out is abstract")

    def fail(self) -> None:
        """Clean up after a failure, before the actor restarts or is stopped."""

    def stopped(self) -> None:
        """Release waiters: the actor has been stopped."""


NOTHING: Final = Behaviour()  # the behaviour of a stopped actor


@final
class _Interpreted(Behaviour):
    """The behaviour of an interpreted actor."""

    def __init__(self, actor: Any) -> None:
        self._receive: Callable[[Any], Any] = actor.on_receive
        self._turn_ended: Callable[[], None] = actor.on_turn_ended

    def receive(self, message: Any) -> Any:
        """Handle a message."""
        return self._receive(message)

    def turn_ended(self) -> None:
        """End a turn."""
        self._turn_ended()


@final
class Role:
    """What actors of one kind and name under one parent have in common: one object for all of them."""

    def __init__(
        self,
        kind: str,
        name: str,
        policy: RestartPolicy,
        factory: Callable[["ActorCell"], "pykka.Actor | Behaviour"],
        parent: "ActorCell | None",
        *,
        is_shared: bool = True,
    ) -> None:
        self.kind = kind
        self.name = name
        self.policy = policy
        self.factory = factory
        self.parent = parent
        self.is_shared = is_shared  # else it ends with its only actor


@final
class CellParts:
    """What a cell has that is not one of a connection which never failed."""

    def __init__(self) -> None:
        self.children: dict[ActorCell, None] | None = None  # in order of start; most actors have none
        self.restarts: RestartLog | None = None  # most actors never fail
        self.actor: Any = None  # a LoopActor, until it is stopped; None if the actor is a behaviour alone


class ActorCell(Inbox):
    """An actor's place in the tree: address, counters and supervision. It outlives restarts of the actor.

    It is the actor's inbox, too: `inbox` is the cell itself, as others see it who only send messages.
    """

    def __init__(self, runtime: "Runtime", *, role: Role, number: int) -> None:
        super().__init__(runtime.dispatcher)
        self.runtime = runtime
        self.role = role
        # What is smaller than a pointer stands together.
        self._number: i32 = number  # among several of the name; 0: there is one
        self._stopped = False
        self.suspended = False  # nothing is handled until the actor's state is reloaded
        self._batch_size_max: u8 = 0  # at most MESSAGES_PER_DRAIN_MAX
        self.handled_count: i64 = 0
        self.batches_count: i64 = 0
        self.handling_ns: i64 = 0
        self._parts: CellParts | None = None
        # After all other fields: compiled code need not check for an attribute that is set when other objects first see
        # the cell.
        self._behaviour = NOTHING
        self._install()

    @property
    def inbox(self) -> Inbox:
        """The actor's address."""
        return self

    @property
    def parent(self) -> "ActorCell | None":
        """The actor that started this one and supervises it."""
        return self.role.parent

    @property
    def children(self) -> "dict[ActorCell, None] | None":
        """The actors that this one supervises, in order of start; None: there was none yet."""
        return None if self._parts is None else self._parts.children

    @property
    def actor(self) -> Any:
        """A LoopActor, until it is stopped; None if the actor is a behaviour alone."""
        return None if self._parts is None else self._parts.actor

    def _made_parts(self) -> CellParts:
        parts = self._parts
        if parts is None:
            parts = self._parts = CellParts()
        return parts

    def adopt(self, child: "ActorCell") -> None:
        """Supervise an actor that has just started."""
        parts = self._made_parts()
        if parts.children is None:
            parts.children = {child: None}
        else:
            parts.children[child] = None

    def _install(self) -> None:
        """Create a new instance of the actor."""
        made = self.role.factory(self)
        if isinstance(made, Behaviour):
            self._behaviour = made
            return
        self._made_parts().actor = made
        behaviour: Behaviour | None = self.actor.behaviour
        self._behaviour = _Interpreted(made) if behaviour is None else behaviour

    def take_turn(self, started_ns: int) -> int:
        """Handle a bounded number of messages. A failure costs the message at hand, the rest is handled.

        Messages after the one at which the actor stops are refused, as later ones are. The end of one actor's drain is
        the start of the next, so each drain reads the clock once.
        """
        if self.is_stopped() or self._is_suspended():
            return started_ns
        items = self.swap()
        count = len(items)
        handled = 0
        while handled < count:
            behaviour = self._behaviour  # a message may stop the actor, or restart it
            try:
                while handled < count and self._behaviour is behaviour:
                    item = items[handled]
                    handled += 1
                    if isinstance(item, Ask):
                        _answer(behaviour, item.message, item.answer)
                    elif type(item) is ENVELOPE:
                        self._handle_envelope(behaviour, item)
                    else:
                        behaviour.receive(item)
                if self._behaviour is behaviour:
                    behaviour.turn_ended()
            except Exception as error:  # the boundary of supervision: a failure costs this actor only
                self.failed(error)
            if self.is_stopped():
                self._refuse(items[handled:])
                return started_ns
            if self._is_suspended():
                self.put_back(items[handled:])
                return started_ns
        self.handled_count += count
        self.batches_count += 1
        if count > self._batch_size_max:
            self._batch_size_max = count
        ended_ns = self.runtime.clock.now_ns()
        self.handling_ns += ended_ns - started_ns
        return ended_ns

    def handle(self, message: object) -> None:
        """Handle a message within its sender's turn, supervised like any other."""
        if self.suspended:
            self.post(message)
            return
        behaviour = self._behaviour
        try:
            behaviour.receive(message)
            if self._behaviour is behaviour:
                behaviour.turn_ended()
        except Exception as error:  # the boundary of supervision, as in `drain`
            self.failed(error)
        self.handled_count += 1
        self.batches_count += 1

    def do(self, work: Callable[[], object]) -> None:
        """Do work of the actor that no message triggers, supervised like its messages."""
        try:
            work()
        except Exception as error:
            self.failed(error)

    def after(self, delay_ms: int, work: Callable[[], object]) -> "TimerHandle":
        """Do work of the actor after a delay."""
        return self.runtime.after(delay_ms, lambda: self.do(work))

    def failed(self, error: Exception) -> None:
        """Handle a failure of the actor by its policy: restart, stop, or escalate to the parent."""
        log.error("actor %s failed: %r", self.path(), error, exc_info=error)
        if self.is_stopped():
            return
        try:
            if self.actor is None:
                self._behaviour.fail()
            else:
                self.actor.on_failure(type(error), error, error.__traceback__)
        except Exception:  # its state was inconsistent
            log.exception("actor %s: failure handler raised", self.path())
        if self.is_stopped():
            return
        parts = self._made_parts()
        if parts.restarts is None:
            parts.restarts = RestartLog(self.role.policy)
        if parts.restarts.may_restart(self.runtime.clock.now_ms()):
            self.do(self._restart)
        elif self.role.policy.on_failure is OnFailure.STOP:
            self.stop()
        elif self.role.policy.on_failure is OnFailure.RELOAD and not self.suspended:
            self._suspend()
        else:
            self.stop()
            if self.parent is not None:
                self.parent.failed(error)
            else:
                self.runtime.fatal(error)

    def ask(self, message: object) -> LoopFuture[Any]:
        """Ask the actor; the future carries its answer or its exception."""
        return ask_at(self, message)

    def ask_now(self, message: object) -> LoopFuture[Any]:
        """Ask the actor; if it accepts messages at once and is idle, it handles the message here and now.

        See `Inbox.deliver_now`. Many such calls in one turn keep all other actors waiting.
        """
        if self.suspended or not self.can_accept_inline():
            return self.ask(message)
        self.accepts_inline = False
        answer: LoopFuture[Any] = LoopFuture()
        behaviour = self._behaviour
        try:
            _answer(behaviour, message, answer)
            if self._behaviour is behaviour:
                behaviour.turn_ended()
        except Exception as error:  # the boundary of supervision, as in `drain`
            self.failed(error)
        self.handled_count += 1
        self.batches_count += 1
        return answer

    def stop(self) -> None:
        """Stop the actor and its children, children first. Waiting messages are refused.

        The cell drops its references to the actor and its handlers. Otherwise they would form a cycle with the cell,
        and wait for the cycle collector, which rarely visits old objects.
        """
        if self.is_stopped():
            return
        for child in list(self.children or ()):
            child.stop()
        self._stopped = True
        self.closed = True
        actor = self.actor
        try:
            if actor is None:
                self._behaviour.stopped()
            else:
                actor.on_stop()  # may look through the waiting messages
        except Exception:
            log.exception("actor %s failed while stopping", self.path())
        if actor is not None:
            if self.parent is None:
                pykka.ActorRegistry.unregister(actor.actor_ref)
            actor.handlers = {}
            self._made_parts().actor = None
        self._behaviour = NOTHING
        if not self.role.is_shared:
            self.role.factory = _nobody  # that of a partition refers to the queue's actor, the parent of this one
        self._refuse(self.close())
        self._leave_counts()
        if self.parent is not None and self.parent.children is not None:
            self.parent.children.pop(self, None)

    def resume(self) -> None:
        """Continue with the waiting messages: the state was reloaded, and failures are counted from zero."""
        self.suspended = False
        parts = self._made_parts()
        parts.restarts = None if parts.restarts is None else parts.restarts.without_failures()
        self.do(self._restart)
        self.reschedule()

    def is_stopped(self) -> bool:
        """Return whether the actor has stopped."""
        return self._stopped  # a call, for mypy and compiled code would use an older value

    @property
    def name(self) -> str:
        """The name among the parent's children. For numbered actors it is composed on demand."""
        name = self.role.name
        return f"{name}-{self._number}" if self._number else name

    @property
    def kind(self) -> str:
        """The kind of actor, as operators see it."""
        return self.role.kind

    @property
    def behaviour(self) -> Any:
        """The actor's behaviour, for the code that started it and knows its type."""
        return self._behaviour

    def path(self) -> str:
        """Return the names from the root down to this actor."""
        return self.name if self.parent is None else f"{self.parent.path()}/{self.name}"

    def overview(self) -> ActorOverview:
        """Return the figures of this actor, and of all below it."""
        return ActorOverview(
            name=self.name,
            kind=self.kind,
            state="stopped" if self.is_stopped() else "suspended" if self.suspended else "running",
            inbox_depth=len(self.items),
            handled_count=self.handled_count,
            batches_count=self.batches_count,
            batch_size_max=int(self._batch_size_max),
            handling_ns=self.handling_ns,
            restarts_count=self._restarts_count(),
            dead_letters=self.dead_letters,
            children=[child.overview() for child in self.children or ()],
        )

    def _leave_counts(self) -> None:
        ended = self.runtime.ended.setdefault(self.kind, EndedActors())
        ended.handled_count += self.handled_count
        ended.batches_count += self.batches_count
        ended.handling_ns += self.handling_ns
        ended.restarts_count += self._restarts_count()

    def _restarts_count(self) -> int:
        parts = self._parts
        return 0 if parts is None or parts.restarts is None else parts.restarts.count

    def _handle_envelope(self, behaviour: Behaviour, envelope: Envelope[Any]) -> None:
        if isinstance(envelope.message, pykka_messages._ActorStop):
            self.stop()
            if envelope.reply_to is not None:
                envelope.reply_to.set(None)
            return
        if envelope.reply_to is None:
            behaviour.receive(envelope.message)
        else:
            _answer(behaviour, envelope.message, cast(LoopFuture[Any], envelope.reply_to))

    def _restart(self) -> None:
        self._install()
        if self.actor is not None:
            self.actor.on_start()

    def _is_suspended(self) -> bool:
        return self.suspended  # a call, as `is_stopped`

    def _suspend(self) -> None:
        self.suspended = True
        try:
            self.actor.on_failing_too_often()
        except Exception as error:
            self.failed(error)  # nothing is left to try: the parent counts as failed

    def _refuse(self, items: list[object]) -> None:
        for item in items:
            if type(item) is Envelope and item.reply_to is not None:
                self._refuse_answer(cast(LoopFuture[Any], item.reply_to))
            elif isinstance(item, Ask):
                self._refuse_answer(item.answer)
        self.dead_letters += len(items)

    def _refuse_answer(self, answer: LoopFuture[Any]) -> None:
        dead = pykka.ActorDeadError(f"{self.path()} stopped before handling the message")
        answer.set_exception((pykka.ActorDeadError, dead, None))

    def __repr__(self) -> str:
        return f"<{self.kind} {self.path()}>"


def _answer(behaviour: Behaviour, message: object, answer: LoopFuture[Any]) -> None:
    try:
        found = behaviour.receive(message)
    except Exception:  # an ask carries its failure back to the asker
        answer.set_exception()
        return
    if isinstance(found, LoopFuture):  # the actor answers later
        found.pass_on(answer)
    else:
        answer.set(found)


def _nobody(cell: ActorCell) -> Behaviour:
    raise AssertionError("a stopped actor is not restarted")


class TimerHandle(Protocol):
    """A timer that can be cancelled."""

    def cancel(self) -> None:
        """Cancel the timer; harmless after it has fired."""


class EventLoop(Protocol):
    """The part of an event loop that the runtime needs; asyncio's loops have it."""

    def call_soon(self, callback: Callable[..., object], *args: Any) -> Any:
        """Call back in the next turn."""

    def call_later(self, delay: float, callback: Callable[..., object], *args: Any) -> TimerHandle:
        """Call back after `delay` seconds."""

    def call_soon_threadsafe(self, callback: Callable[..., object], *args: Any) -> Any:
        """Call back in the next turn; may be called from any thread."""

    def create_task(self, coro: Coroutine[Any, Any, Any]) -> "asyncio.Task[Any]":
        """Run a coroutine."""


CallFromThread: TypeAlias = Callable[[Callable[[Any], object], object], object]  # in the next turn, from any thread
CallLater: TypeAlias = Callable[[float, Callable[[], object]], TimerHandle]  # after a delay in seconds


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
        call_from_thread: CallFromThread | None = None,
        call_later: CallLater | None = None,
        is_quiet: Callable[[], bool] | None = None,
    ) -> None:
        """`call_soon` schedules the dispatcher's turns; by default the loop does, and so it is for what follows.

        `call_from_thread` is for other threads, `call_later` for timers.
        `is_quiet` says whether the loop has nothing to do but this turn, as far as can be told; None: always.
        """
        self.loop = loop
        self.clock = clock
        self.rng = rng
        self.events = Events(clock)  # for operators
        self.dispatcher = Dispatcher(call_soon=call_soon or loop.call_soon, clock=clock, on_fatal=on_fatal)
        self.roots: list[ActorCell] = []
        self.ended: dict[str, EndedActors] = {}  # by kind
        self._on_fatal = on_fatal
        self._call_from_thread: CallFromThread = call_from_thread or loop.call_soon_threadsafe
        self._call_later: CallLater = call_later or loop.call_later
        self._is_quiet = is_quiet
        self._urn = 0
        self._tasks: set[asyncio.Task[Any]] = set()

    def spawn(
        self,
        factory: Callable[[ActorCell], "pykka.Actor | Behaviour"],
        *,
        kind: str,
        name: str,
        number: int = 0,
        policy: RestartPolicy,
        parent: ActorCell | None = None,
    ) -> ActorCell:
        """Start an actor under a parent, or as a root. Its address is the cell's inbox.

        Actors that share a name have a number, from 1 on, appended.
        """
        return self.spawn_as(Role(kind, name, policy, factory, parent, is_shared=False), number)

    def spawn_as(self, role: Role, number: int) -> ActorCell:
        """Start one of many actors of the same role, whose number is appended to their name."""
        cell = ActorCell(self, role=role, number=number)
        parent = role.parent
        if parent is None:
            self.roots.append(cell)
            if cell.actor is not None:
                # Only roots are in pykka's registry: it is a list, and a removal takes time with its length.
                pykka.ActorRegistry.register(cell.actor.actor_ref)
        else:
            parent.adopt(cell)
        if cell.actor is not None:
            cell.actor._start_actor_loop()
        return cell

    def after(self, delay_ms: int, callback: Callable[[], object]) -> TimerHandle:
        """Call back after a delay."""
        return self._call_later(delay_ms / 1000, callback)

    async def sleep(self, delay_ms: int) -> None:
        """Wait without blocking the loop."""
        done: LoopFuture[None] = LoopFuture()
        self.after(delay_ms, lambda: done.set(None))
        await done

    def post_from_thread(self, address: Address, message: object) -> None:
        """Queue a message for an actor of the loop from another thread."""
        self._call_from_thread(address.post, message)

    def is_quiet(self) -> bool:
        """Return whether nobody waits for the loop while this turn takes a moment longer."""
        return self.dispatcher.is_idle() and (self._is_quiet is None or self._is_quiet())

    def keep(self, task: "asyncio.Task[Any]") -> None:
        """Keep a reference to a task until it is done: the event loop itself has weak references only."""
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def next_urn(self) -> int:
        """Return a number that no other actor of this runtime has."""
        self._urn += 1
        return self._urn

    def fatal(self, error: BaseException) -> None:
        """Report a failure that no supervisor could handle."""
        self._on_fatal(error)

    def stop(self) -> None:
        """Stop all actors, the youngest root first."""
        for root in reversed(self.roots):
            root.stop()
        self.roots.clear()
