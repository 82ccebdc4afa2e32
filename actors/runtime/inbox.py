"""Inboxes, and the dispatcher that empties them on the event loop.

All actors of the loop share one scheduled callback. An inbox that becomes non-empty puts its actor in line; the
dispatcher serves the line until it is empty or the turn has been long enough. At the end of the turn it flushes the
objects that asked for it: connections write once, the spool commits once, whatever happened in the turn.
"""

from collections.abc import Callable
from typing import Any, Final, TypeAlias, final

from mypy_extensions import i32, i64, trait
from pykka._envelope import Envelope

from sluicegate.actors.runtime.clock import Clock
from sluicegate.messaging.message.address import Address

MESSAGES_PER_DRAIN_MAX: Final = 64  # an actor with more to do goes to the end of the line
TURN_NS_MAX: Final = 2_000_000  # then the event loop serves its sockets
ROUNDS_PER_TURN_MAX: Final = 3  # the same, for actors that answer each other one by one

FLUSHES_KEPT_MAX: Final = 1_024  # places for flushes that stay after a turn

CallSoon: TypeAlias = Callable[[Callable[[], None]], Any]  # schedules the next turn


@trait  # and not a Protocol, so that compiled code calls it directly
class Scheduled:
    """An actor as the dispatcher sees it."""

    def take_turn(self, started_ns: int) -> int:
        """Handle a bounded number of messages from the inbox, from `started_ns` on; return the time at the end."""
        return started_ns

    def handle(self, message: object) -> None:
        """Handle one message directly; the inbox is empty."""

    def failed(self, error: Exception) -> None:
        """Handle a failure of the actor outside the handling of a message."""


_NONE: Final[list[object]] = []  # the content of most inboxes at most times; never changed


@trait
class Flushed:
    """An object with work that is done once per turn."""

    def flush(self) -> None:
        """Do the work."""

    def owner(self) -> Scheduled | None:
        """Return the actor that fails if `flush` fails; None: no actor, and the node cannot continue."""
        return None


@final
class FlushCall(Flushed):
    """The turn-end work of an interpreted object, which cannot inherit from a compiled trait."""

    def __init__(self, work: Callable[[], None], owner: Scheduled | None) -> None:
        self._work = work
        self._owner = owner

    def flush(self) -> None:
        """Do the work."""
        self._work()

    def owner(self) -> Scheduled | None:
        """Return the actor that the work belongs to."""
        return self._owner


class Dispatcher:
    """Serves the inboxes of all actors of one event loop.

    `call_soon` schedules the next turn. `on_fatal` handles a failure that belongs to no actor, and must not raise. Not
    thread-safe. Actors supervise themselves: the methods called here do not raise.
    """

    def __init__(
        self,
        *,
        call_soon: CallSoon,
        clock: Clock,
        on_fatal: Callable[[BaseException], None],
    ) -> None:
        self._call_soon = call_soon
        self._clock = clock
        self._on_fatal = on_fatal
        self._line: list[Scheduled] = []
        # Places for flushes, and how many are taken. A list that is emptied and filled again would be allocated anew,
        # which takes 300 instructions for a message that comes alone.
        self._flushes: list[Flushed | None] = []
        self._flushes_count: i64 = 0
        self._flushes_next: list[Flushed | None] = []  # none is taken: swapped with `_flushes`
        self._flushes_last: list[Flushed] = []  # behind all others of the turn
        self._next_turn: Callable[[], None] = self._turn  # bound once, and not for every turn
        self._armed = False
        self._serves = False  # actors are being served
        self._has_read_clock = False  # at the clocks, since the last turn
        self._now_ms = 0
        self._wall_ms = 0

    def enqueue(self, actor: Scheduled) -> None:
        """Put an actor whose inbox has become non-empty in line."""
        self._line.append(actor)
        if not self._armed:
            self._armed = True
            self._call_soon(self._next_turn)

    def both_ms(self) -> tuple[int, int]:
        """Return the clock's `both_ms`, read once per turn, and once for all that is done with data of a socket.

        All data that is read until the next turn counts as read at that time.
        """
        if not self._has_read_clock:
            self._now_ms, self._wall_ms = self._clock.both_ms()
            self._has_read_clock = self._armed  # else there may be no turn for long
        return self._now_ms, self._wall_ms

    def begin_read(self) -> tuple[int, int]:
        """Return `both_ms` for data that a socket has brought; it holds at least until `end_read`."""
        if not self._has_read_clock:
            self._now_ms, self._wall_ms = self._clock.both_ms()
            self._has_read_clock = True
        return self._now_ms, self._wall_ms

    def end_read(self) -> None:
        """The data has been handled: without a turn that comes, the time no longer holds."""
        self._has_read_clock = self._armed

    def is_idle(self) -> bool:
        """Return whether no actor is in line. While actors are served, some may be, behind the caller."""
        return not self._line and not self._serves

    def at_turn_end(self, flushed: Flushed) -> None:
        """Call `flushed.flush` once, at the end of this turn. The caller must not ask twice."""
        place = self._flushes_count
        if place < len(self._flushes):
            self._flushes[place] = flushed
        else:
            self._flushes.append(flushed)
        self._flushes_count = place + 1
        if not self._armed:
            self._armed = True
            self._call_soon(self._next_turn)

    def at_turn_end_last(self, flushed: Flushed) -> None:
        """Do the same behind all that `at_turn_end` calls: others need not wait for what may take longer."""
        self._flushes_last.append(flushed)
        if not self._armed:
            self._armed = True
            self._call_soon(self._next_turn)

    def _turn(self) -> None:
        self._round()
        rounds: i64 = 1
        waiting: i64 = len(self._line) + self._flushes_count + len(self._flushes_last)
        # What a flush leaves for one actor needs no poll before it: an answer to a client that is alone.
        while waiting == 1 and rounds < ROUNDS_PER_TURN_MAX:
            self._round()
            rounds += 1
            waiting = len(self._line) + self._flushes_count + len(self._flushes_last)
        if waiting > 0:
            self._call_soon(self._next_turn)
        else:
            self._armed = False
        self._has_read_clock = False

    def _round(self) -> None:
        """Serve the line, and then flush."""
        if self._line:
            now_ns = self._clock.now_ns()
            ends_ns = now_ns + TURN_NS_MAX
            self._serves = True
            while self._line and now_ns < ends_ns:
                line = self._line
                self._line = []
                for actor in line:
                    now_ns = actor.take_turn(now_ns)
            self._serves = False
        count = self._flushes_count
        if count > 0:
            flushes, self._flushes = self._flushes, self._flushes_next
            self._flushes_count = 0
            place: i64 = 0
            while place < count:
                flushed = flushes[place]
                flushes[place] = None
                place += 1
                if flushed is not None:
                    self._flush(flushed)
            self._flushes_next = flushes if len(flushes) <= FLUSHES_KEPT_MAX else []
        if self._flushes_last:
            last = self._flushes_last
            self._flushes_last = []
            for flushed in last:
                self._flush(flushed)

    def _flush(self, flushed: Flushed) -> None:
        try:
            flushed.flush()
        except Exception as error:  # the boundary of supervision, as in an actor's `drain`
            owner = flushed.owner()
            if owner is not None:
                owner.failed(error)
            else:
                self._on_fatal(error)


class Inbox(Address, Scheduled):
    """The messages waiting for one actor of the loop, and its address. It outlives restarts of the actor.

    `ActorCell` derives from it, because a cell and its inbox always live together. An inbox by itself is one that
    nobody empties.
    """

    def __init__(self, dispatcher: Dispatcher) -> None:
        self.dispatcher = dispatcher
        self.items = _NONE
        # What is smaller than a pointer stands together.
        self._enqueued = False
        self.closed = False
        self.accepts_inline = False  # set by the actor while a turn of its own would gain nothing: see `deliver_now`
        self.dead_letters: i32 = 0  # messages that arrived after the actor had stopped

    def post(self, message: object) -> None:
        """Queue a message. For a stopped actor it is counted and dropped."""
        if self.closed:
            self.dead_letters += 1
            return
        if self.items is _NONE:
            self.items = [message]
        else:
            self.items.append(message)
        if not self._enqueued:
            self._enqueued = True
            self.dispatcher.enqueue(self)

    def deliver_now(self, message: object) -> None:
        """Handle a message at once if the actor accepts that and is idle; else queue it.

        Handling at once saves a turn, where no other message could join it. The actor sets `accepts_inline` again
        whenever it is done with its messages, so no message is handled during another call into it.
        """
        if self.can_accept_inline():
            self.accepts_inline = False
            self.handle(message)
        else:
            self.post(message)

    def can_accept_inline(self) -> bool:
        """Return whether the actor accepts a message at once, and is idle."""
        return self.accepts_inline and not self._enqueued and not self.closed

    def deliver_now_if_idle(self, message: object) -> None:
        """Deliver now if no actor at all is in line for a turn: the message then takes no credit others wait for."""
        if self.dispatcher.is_idle():
            self.deliver_now(message)
        else:
            self.post(message)

    def put(self, envelope: Envelope[Any], /) -> None:
        """Queue an envelope of pykka's `tell` or `ask`."""
        self.post(envelope)

    def swap(self) -> list[object]:
        """Return what to handle now, oldest first, and leave the rest in line for another turn."""
        # The flag is cleared before anything is handled, so that messages that arrive meanwhile are not forgotten.
        self._enqueued = False
        self.accepts_inline = False
        items = self.items
        if len(items) <= MESSAGES_PER_DRAIN_MAX:
            self.items = _NONE
            return items
        self.items = items[MESSAGES_PER_DRAIN_MAX:]
        self._enqueued = True
        self.dispatcher.enqueue(self)
        return items[:MESSAGES_PER_DRAIN_MAX]

    def put_back(self, items: list[object]) -> None:
        """Put messages that could not be handled before those that arrived since."""
        self.items = items + self.items

    def reschedule(self) -> None:
        """Put the actor in line again if messages wait: while it was suspended it was skipped."""
        if self.items:
            self._enqueued = True
            self.dispatcher.enqueue(self)

    def get(self) -> Envelope[Any]:
        """Return the oldest message; part of pykka's inbox protocol."""
        item = self.items.pop(0)
        return item if isinstance(item, Envelope) else Envelope(item)

    def close(self) -> list[object]:
        """Return the waiting messages; the actor is stopped."""
        waiting, self.items = self.items, _NONE
        return waiting

    def empty(self) -> bool:
        """Return whether nothing waits."""
        return not self.items
