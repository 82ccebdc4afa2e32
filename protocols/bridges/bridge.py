"""A bridge: one connection to a foreign broker, made again whenever it ends, and the rules that share it.

The bridge is an actor on the loop. Its remote has a thread, another actor; `protocols.bridges.remote` says what passes
between them.
"""

import logging
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any, Final, final

import pykka

from sluicegate.actors.runtime.actor import LoopActor
from sluicegate.actors.runtime.asks import LoopFuture
from sluicegate.actors.runtime.runtime import ActorCell
from sluicegate.actors.runtime.supervision import ONE_CONNECTION
from sluicegate.messaging.observability.events import VPN_BRIDGE_DOWN, VPN_BRIDGE_UP, as_word
from sluicegate.protocols.bridges.incoming import IncomingSide, incoming_factory
from sluicegate.protocols.bridges.outgoing import OutgoingSide, source_factory
from sluicegate.protocols.bridges.remote import Arrival, Ended, Line, News, Opened, RemoteBroker
from sluicegate.protocols.bridges.rules import (
    DROPPED_WINDOW_FULL,
    RULES_MAX,
    BridgeContext,
    BridgeServices,
    RuleCounters,
)
from sluicegate.protocols.bridges.settings import RETRY_DELAY_MS_MAX, BridgeSettings
from sluicegate.protocols.bridges.thread import CONNECT, FORGET, RemoteThread

log = logging.getLogger("sluicegate.bridges")

DRAIN_MS: Final = 3_000  # for outcomes of what is under way, when a bridge pauses or stops
END_MS: Final = 2_000  # for the regular disconnect after that; then the thread is left to itself
PAUSED_REASON: Final = "paused by an operator"
STEADY_MS: Final = 10_000  # a connection that lasted so long was good: failures are counted from zero

MakeRemote = Callable[[BridgeSettings, Line], RemoteBroker]  # raises ValueError


class State(Enum):
    """What a bridge is about."""

    CONNECTING = "connecting"
    UP = "up"
    WAITING = "waiting"  # to connect again
    PAUSED = "paused"  # by an operator
    GIVEN_UP = "given-up"  # after `retry_count` retries
    STOPPED = "stopped"


class _HasNews:
    """Remote's thread -> bridge: the line has news."""


HAS_NEWS: Final = _HasNews()


@final
class Bridge(BridgeContext):
    """One bridge, between `start` and `stop`."""

    def __init__(
        self,
        settings: BridgeSettings,
        services: BridgeServices,
        *,
        parent: ActorCell,
        make_remote: MakeRemote,
        counters: dict[tuple[str, str], RuleCounters],
        on_opened: Callable[[Opened], None],
    ) -> None:
        """Raises ValueError for settings that the foreign broker's protocol has no use for.

        `counters` are those of its rules, by direction and name; they outlive it. `on_opened` is called whenever a
        connection is open.
        """
        runtime = services.runtime
        self.cell = runtime.spawn(
            lambda cell: _BridgeActor(cell, self),
            kind="bridge",
            name=settings.name,
            policy=ONE_CONNECTION,
            parent=parent,
        )
        inbox = self.cell.inbox
        line = Line(
            window_messages=settings.window_messages,
            window_bytes=settings.window_bytes,
            has_news=lambda: runtime.post_from_thread(inbox, HAS_NEWS),
        )
        super().__init__(settings, services, line)
        try:
            self._remote = make_remote(settings, line)
        except ValueError:
            self.cell.stop()
            raise
        self.name = settings.name
        self.state = State.STOPPED
        self.reason = "not connected yet"  # why it is not up
        self.opened: Opened | None = None  # what the foreign broker said of the connection
        self.connections_count = 0  # that were made
        self.unmatched_count = 0  # messages that came for no rule, and were dropped
        self.failures_count = 0  # attempts that failed, and connections that ended, since it was up for a while
        self.outgoing: list[OutgoingSide] = []
        self.incoming: list[IncomingSide] = []
        self.counters = counters
        self._on_opened = on_opened
        self._thread: pykka.ActorRef[RemoteThread] | None = None
        self._is_running = False  # the thread serves a connection, or makes one
        self._opened_at_ms = 0
        self._timer: Any = None
        self._waiter: LoopFuture[None] | None = None  # for outcomes, or for the end of the connection
        self._is_ending = False  # paused or stopped: no further connection
        self._forgets = False  # the remote is to forget what is under way: its rules are gone
        self._is_failed = False  # the rules are to be replaced when the connection has ended

    # --- verbs ---

    def start(self) -> None:
        """Connect, now and whenever the connection ends."""
        self._is_ending = False
        self.failures_count = 0
        if self._thread is None:
            self._thread = RemoteThread.start(self._remote, self.line)
        self._spawn_rules()
        if self._is_running:  # an attempt to connect that a pause could not end: its end lets us connect again
            self.state = State.WAITING
        else:
            self._connect()

    def stay_paused(self) -> None:
        """Be paused from the beginning: the bridge takes the place of one that an operator has paused."""
        self.state = State.PAUSED
        self.reason = PAUSED_REASON

    def connect_now(self) -> None:
        """Connect at once if it waits to, or has given up. What is under way stays so, and comes once."""
        if self.state is State.GIVEN_UP:
            self._spawn_rules()
        elif self.state is not State.WAITING or self._is_failed:
            return
        self._cancel_timer()
        self.failures_count = 0
        if not self._is_running:
            self._connect()

    async def pause(self) -> None:
        """Let the foreign broker confirm what is under way, let go of queues and topics, and disconnect."""
        await self._wind_down()
        self.state = State.PAUSED
        self.reason = PAUSED_REASON

    async def stop(self) -> None:
        """Stop for good, as `pause` does."""
        await self._wind_down()
        self.state = State.STOPPED
        self.reason = "stopped"
        if self._thread is not None:
            self._thread.stop(block=False)
            self._thread = None
        self.cell.stop()

    async def _wind_down(self) -> None:
        self._is_ending = True
        self._is_failed = False
        self._cancel_timer()
        for side in self.outgoing:
            side.drain()
        if self.is_open:
            await self._wait(lambda: self._unconfirmed_count() == 0, DRAIN_MS)
        if self._is_running:
            self.line.close()
            await self._wait(lambda: not self._is_running, END_MS)
        if self._is_running:  # a library that does not return: its line is cut, and it ends when it does
            log.warning("bridge %r: the connection to %s does not end", self.name, self.settings.remote.url())
        self._end_rules()  # not before: what the queues get back goes out no more
        if self._thread is not None:
            self._thread.tell(FORGET)
        self._down("")

    async def _wait(self, is_over: Callable[[], bool], limit_ms: int) -> None:
        """Wait until something is over, at most so long."""
        is_late = False

        def limit_reached() -> None:
            nonlocal is_late
            is_late = True
            self._wake()

        timer = self.services.runtime.after(limit_ms, limit_reached)
        while not is_over() and not is_late:
            self._waiter = LoopFuture()
            await self._waiter
        timer.cancel()

    def settled(self) -> None:
        """A rule has nothing unconfirmed any more."""
        if self._waiter is not None:
            self._wake()

    def _wake(self) -> None:
        waiter, self._waiter = self._waiter, None
        if waiter is not None:
            waiter.set()

    def _unconfirmed_count(self) -> int:
        outgoing = sum(side.unconfirmed_count for side in self.outgoing)
        return outgoing + sum(each.unconfirmed_count for each in self.incoming)

    # --- the rules ---

    def _spawn_rules(self) -> None:
        for index, outgoing in enumerate(self.settings.outgoing):
            made = source_factory(outgoing, index, self, self._counters("outgoing", outgoing.name))
            cell = self._spawn(made, f"out-{outgoing.name}")
            self.outgoing.append(cell.actor)
        for incoming in self.settings.incoming:
            publishes = incoming_factory(incoming, self, self._counters("incoming", incoming.name))
            cell = self._spawn(publishes, f"in-{incoming.name}")
            self.incoming.append(cell.actor)

    def _spawn(self, factory: Callable[[ActorCell], LoopActor], name: str) -> ActorCell:
        runtime = self.services.runtime
        return runtime.spawn(factory, kind="bridge-rule", name=name, policy=ONE_CONNECTION, parent=self.cell)

    def _counters(self, direction: str, name: str) -> RuleCounters:
        return self.counters.setdefault((direction, name), RuleCounters())

    def _end_rules(self) -> None:
        outgoing, self.outgoing = self.outgoing, []
        incoming, self.incoming = self.incoming, []
        for side in outgoing:
            side.end()
        for each in incoming:
            each.end()

    def rule_failed(self, name: str) -> None:
        """A rule has failed: begin anew, with new rules, as after the loss of a connection."""
        self.fault(f"rule {name!r} failed by a fault of the broker; its log says more")

    def fault(self, reason: str) -> None:
        """Something of the bridge has failed on the loop: begin anew, when the connection has ended.

        Until then the rules keep their messages, which may still go out on it: released before, they would go to
        another consumer as well.
        """
        if self._is_ending or self._is_failed:
            return
        self._cancel_timer()
        self._is_failed = True
        self._forgets = True
        self.is_open = False
        self.state = State.WAITING
        self._tell(VPN_BRIDGE_DOWN, f"is not connected to {self.settings.remote.url()}: {reason}")
        self.reason = reason
        if self._is_running:
            self.line.close()
            self._timer = self.services.runtime.after(END_MS, self._replace_rules)
        else:
            self._replace_rules()
            self._try_later(reason)

    def _replace_rules(self) -> None:
        """Let the failed rules go, and the queues have back what these have not settled."""
        self._timer = None
        if not self._is_failed:
            return
        self._is_failed = False
        for side in self.outgoing:
            side.lost(keeps_unconfirmed=False)
        self._down("")
        self._end_rules()
        self._spawn_rules()

    # --- the connection ---

    def _connect(self) -> None:
        self._timer = None
        self.state = State.CONNECTING
        self._is_running = True
        assert self._thread is not None, "it has started"
        if self._forgets:
            self._forgets = False
            self._thread.tell(FORGET)
            self.line.reopen(keeps_messages=False)
        self.line.reopen(keeps_messages=self._remote.keeps_unconfirmed)
        self._thread.tell(CONNECT)

    def take_news(self) -> None:
        """Take what the remote reports."""
        news = self.line.news()
        try:
            self._take(news)
        except Exception:  # ours, and it must not stop the bridge
            log.exception("bridge %r failed", self.name)
            self.fault("a fault of the broker; its log says more")
        if news.ended is not None:
            self._ended(news.ended)

    def _take(self, news: News) -> None:
        if news.opened is not None and not self._is_ending and not self._forgets:
            self._up(news.opened)
        if news.confirmed:
            for side, numbers in self._by_rule(news.confirmed):
                side.confirmed(numbers)
        self.unmatched_count += news.unmatched_count
        for rule, count in news.dropped.items():
            if self.incoming:
                self.incoming[rule].counters.drop(DROPPED_WINDOW_FULL, count)
        for shortfall in news.lowered:
            sides: Sequence[OutgoingSide | IncomingSide] = self.incoming if shortfall.is_incoming else self.outgoing
            if sides:
                sides[shortfall.rule].shortfalls.note(shortfall.text)
        for refusal in news.refused:
            if self.outgoing:
                self.outgoing[refusal.number % RULES_MAX].refused([refusal])
        if news.arrivals and not self._is_ending and not self._forgets:  # they may come before subscriptions are made
            self._arrived(news.arrivals)

    def _by_rule(self, numbers: list[int]) -> list[tuple[OutgoingSide, list[int]]]:
        if len(self.outgoing) <= 1:
            return [(side, numbers) for side in self.outgoing]
        by_rule: dict[int, list[int]] = {}
        for number in numbers:
            by_rule.setdefault(number % RULES_MAX, []).append(number)
        return [(self.outgoing[rule], those) for rule, those in by_rule.items()]

    def _arrived(self, arrivals: list[Arrival]) -> None:
        if len(self.incoming) == 1:
            self.incoming[0].arrived(arrivals)
            return
        by_rule: dict[int, list[Arrival]] = {}
        for arrival in arrivals:
            by_rule.setdefault(arrival.rule, []).append(arrival)
        for rule, those in by_rule.items():
            self.incoming[rule].arrived(those)

    def _up(self, opened: Opened) -> None:
        self.state = State.UP
        self.reason = ""
        self.is_open = True
        self.opened = opened
        self.connections_count += 1
        self._opened_at_ms = self.services.runtime.clock.now_ms()
        self._on_opened(opened)
        self._tell(VPN_BRIDGE_UP, f"is connected to {self.settings.remote.url()}")
        for side in self.outgoing:
            side.open()

    def _down(self, reason: str, *, keeps_unconfirmed: bool = False) -> None:
        """There is no connection any more, or it counts no longer."""
        was_open, self.is_open = self.is_open, False
        self.opened = None
        if was_open:
            for side in self.outgoing:
                side.lost(keeps_unconfirmed=keeps_unconfirmed)
        for side in self.outgoing:
            side.shortfalls.clear()
        for each in self.incoming:
            each.shortfalls.clear()
            each.lost()
        if reason and (was_open or self.reason != reason):
            self._tell(VPN_BRIDGE_DOWN, f"is not connected to {self.settings.remote.url()}: {reason}")
        self.reason = reason or self.reason

    def _ended(self, ended: Ended) -> None:
        """The connection has ended, or could not be made."""
        self._is_running = False
        if self._is_ending:
            self._down(ended.reason)
            self._wake()
            return
        was_steady = self.is_open and self.services.runtime.clock.now_ms() - self._opened_at_ms > STEADY_MS
        if was_steady:
            self.failures_count = 0
        if self._is_failed:
            self._cancel_timer()
            self._replace_rules()
            self._try_later(self.reason)
            return
        reason = ended.reason or self.reason
        self._forgets = self._forgets or ended.is_fault
        self._down(reason, keeps_unconfirmed=self._remote.keeps_unconfirmed and not self._forgets)
        self._try_later(reason)

    def _try_later(self, reason: str) -> None:
        settings = self.settings
        self.failures_count += 1
        if 0 < settings.retry_count < self.failures_count:
            self.state = State.GIVEN_UP
            self._end_rules()  # another consumer of an exclusive queue, such as a bridge elsewhere, can have it
            self._forgets = True
            self.reason = f"given up after {self.failures_count} failures, the last: {reason}"
            self._tell(VPN_BRIDGE_DOWN, f"is {self.reason}")
            return
        self.state = State.WAITING
        runtime = self.services.runtime
        delay_ms = min(settings.retry_delay_ms << min(self.failures_count - 1, 16), RETRY_DELAY_MS_MAX)
        delay_ms = max(delay_ms, settings.retry_delay_ms)
        self._timer = runtime.after(int(delay_ms * runtime.rng.uniform(0.75, 1.25)), self._connect)

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _tell(self, kind: Any, what: str) -> None:
        self.services.events.emit(kind, f"bridge {as_word(self.name)} {what}")

    def __repr__(self) -> str:
        return f"Bridge({self.name}, {self.state.value})"


@final
class _BridgeActor(LoopActor):
    """The bridge's place in the actor tree, and its inbox."""

    def __init__(self, cell: ActorCell, bridge: Bridge) -> None:
        super().__init__(cell)
        self._bridge = bridge

    def on_receive(self, message: Any) -> None:
        """Take the remote's news."""
        self._bridge.take_news()
