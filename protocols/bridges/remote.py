"""The foreign broker as a bridge sees it: what passes between the bridge on the loop and the thread of a remote.

A remote is a `RemoteBroker`, made for one bridge and kept over its connections. Its thread calls `run`, which connects
and serves the connection until that ends; the bridge decides when to call it again. Remote and bridge speak through a
`Line`, which gathers: many messages cross with one call into the other thread.

Which thread may call what:

- The remote's thread: `RemoteBroker.run`, and of the line `wake_with`, `work`, `wait`, `opened`, `confirmed`,
  `refused`, `arrived`, `dropped`, `unmatched`, `lowered`, `flush`, `has_room`, `is_crowded`. Callbacks of a library
  belong to this thread, so a library with a thread of its own has to hand them over.
- The loop: of the line `publish`, `settle`, `close` and `news`. These call `wake`, which the remote has set: it may do
  no more than end a wait of the remote's thread (write a byte to a socket, `call_soon_threadsafe`).

Rules that both keep:

- `Outgoing.number` is never used again, and ascends within a rule. Each gets exactly one outcome, `confirmed` or
  `refused`, unless the connection ends first: see `RemoteBroker.keeps_unconfirmed`.
- `Arrival.number` is chosen by the remote, ascends and is never used again. Each gets exactly one `Settlement`, also
  when it came at most once, for the window counts it until then. A settlement of an earlier connection, that the
  foreign broker no longer waits for, is ignored by the remote.
- Arrivals, outcomes and what concerns one rule stay in order.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import final

from sluicegate.messaging.message.headers import Headers
from sluicegate.messaging.message.outcomes import ACCEPTED
from sluicegate.protocols.bridges.settings import BridgeSettings


@final
class Outgoing:
    """A message for the foreign broker."""

    __slots__ = ("headers", "number", "path", "payload", "qos", "retain", "rule", "topic")

    def __init__(
        self,
        *,
        number: int,
        rule: int,
        topic: str,
        payload: bytes,
        headers: Headers | None,
        path: str,
        qos: int,
        retain: bool,
    ) -> None:
        self.number = number
        self.rule = rule  # index in BridgeSettings.outgoing
        self.topic = topic  # mapped; where the rule has a target, that
        self.payload = payload
        self.headers = headers  # as published here; expiry is a time of day (`Headers.expires_at_ms`)
        # The user property `Sluicegate-Path`, to be written in the place of one that the headers have. Empty: no such.
        self.path = path
        self.qos = qos
        self.retain = retain


@final
class Arrival:
    """A message of the foreign broker."""

    __slots__ = ("fault", "headers", "number", "payload", "qos", "retain", "rule", "topic")

    def __init__(
        self,
        *,
        number: int,
        rule: int,
        topic: str,
        payload: bytes,
        headers: Headers | None,
        qos: int,
        retain: bool = False,
        fault: str = "",
    ) -> None:
        self.number = number
        self.rule = rule  # index in BridgeSettings.incoming
        self.topic = topic  # the foreign broker's, not mapped
        self.payload = payload
        self.headers = headers  # normalised; expiry as a time of day. `Sluicegate-Path` is among the user properties
        self.qos = qos  # 0: nobody repeats it
        self.retain = retain
        self.fault = fault  # why it can't be published here, such as a key that is too long; empty: it can


@dataclass(frozen=True, slots=True)
class Refusal:
    """An outgoing message that the foreign broker did not take. `outcome` is one of messaging.message.outcomes.

    REJECTED: it never will. FAILED: it may, later. RELEASED: it was not sent.
    """

    number: int
    outcome: int
    reason: str


@dataclass(frozen=True, slots=True)
class Settlement:
    """The outcome of an arrival.

    ACCEPTED: it is stored here, or was dropped on purpose. REJECTED: it never will be stored. RELEASED: it was not
    published, and is to come again; only after the end of its connection.
    """

    number: int
    outcome: int = ACCEPTED
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Opened:
    """The connection is open and the subscriptions are made."""

    in_flight_max: int = 0  # unconfirmed messages that the foreign broker permits; 0: not said
    session_present: bool = False  # the foreign broker has kept what was unconfirmed
    detail: str = ""  # product and version, if it says so
    still_subscribed: tuple[str, ...] = ()  # of `RemoteSettings.stale_filters`: it does not let go of them


@dataclass(frozen=True, slots=True)
class Shortfall:
    """What the foreign broker gives a rule less than it asks for. Its messages go all the same."""

    is_incoming: bool
    rule: int  # index among the rules of this direction
    text: str


@dataclass(slots=True)
class Work:
    """What the loop wants done, since the remote looked last."""

    messages: list[Outgoing] = field(default_factory=list)
    settlements: list[Settlement] = field(default_factory=list)
    is_closed: bool = False  # disconnect and return from `run`


@dataclass(slots=True)
class News:
    """What the remote reports, since the loop looked last: first the opening, last the end."""

    opened: Opened | None = None
    confirmed: list[int] = field(default_factory=list)  # numbers of outgoing messages
    refused: list[Refusal] = field(default_factory=list)
    arrivals: list[Arrival] = field(default_factory=list)
    dropped: dict[int, int] = field(default_factory=dict)  # incoming rule -> messages without room in the window
    lowered: list[Shortfall] = field(default_factory=list)  # at most one of each kind in a connection
    unmatched_count: int = 0  # messages of a subscription that no rule has: they are confirmed, and go no further
    ended: "Ended | None" = None


@dataclass(frozen=True, slots=True)
class Ended:
    """`run` has returned or failed: there is no connection."""

    reason: str  # empty: the bridge closed the line
    is_fault: bool = False  # of ours or of the library: what the remote has kept is not to be relied on


class RemoteFailed(Exception):
    """The foreign broker cannot be reached, refuses us, or the connection was lost. The text says why."""


@final
class Line:
    """What the loop and the thread of a remote exchange. Each side takes at once all that the other has added."""

    def __init__(self, *, window_messages: int, window_bytes: int, has_news: Callable[[], None]) -> None:
        """`has_news` is called in the remote's thread, once until the loop takes the news."""
        self._window_messages = window_messages
        self._window_bytes = window_bytes
        self._has_news = has_news
        self._lock = threading.Lock()
        self._added = threading.Condition(self._lock)
        self._wake: Callable[[], None] | None = None
        self._work = Work()
        self._is_empty = True  # there is no work that the remote has not been woken for
        self._news = News()
        self._is_told = False  # the loop knows that there are news
        self._draft = News()  # news that are not flushed yet; the remote's thread only
        self._has_draft = False
        self._unsettled: dict[int, int] = {}  # arrival -> bytes; the remote's thread only
        self._unsettled_bytes = 0

    # --- the loop's side ---

    def publish(self, messages: list[Outgoing]) -> None:
        """Send messages, in order."""
        with self._lock:
            self._work.messages += messages
            self._notify()

    def settle(self, settlements: list[Settlement]) -> None:
        """Settle arrivals."""
        with self._lock:
            self._work.settlements += settlements
            self._notify()

    def close(self) -> None:
        """Have the remote disconnect."""
        with self._lock:
            self._work.is_closed = True
            self._notify()

    def news(self) -> News:
        """Take all news."""
        with self._lock:
            news, self._news = self._news, News()
            self._is_told = False
        return news

    def reopen(self, *, keeps_messages: bool) -> None:
        """Begin anew, before the next `run`. Messages that no `run` has taken are forgotten, unless kept."""
        with self._lock:
            work = self._work
            self._work = Work(work.messages if keeps_messages else [], work.settlements)
            self._is_empty = not (self._work.messages or self._work.settlements)

    def _notify(self) -> None:
        if self._is_empty:
            self._is_empty = False
            if self._wake is not None:
                self._wake()
            self._added.notify_all()

    # --- the remote's side ---

    def wake_with(self, wake: Callable[[], None] | None) -> None:
        """Set what ends a wait of the remote's thread; None: it waits in `wait`. Called at once if there is work."""
        with self._lock:
            self._wake = wake
            if wake is not None and not self._is_empty:
                wake()

    def work(self) -> Work:
        """Take all work."""
        with self._lock:
            work, self._work = self._work, Work(is_closed=self._work.is_closed)
            self._is_empty = True
        for settlement in work.settlements:
            self._unsettled_bytes -= self._unsettled.pop(settlement.number, 0)
        return work

    def wait(self, timeout_s: float) -> None:
        """Wait for work, at most so long. For remotes whose library has no loop to wait in."""
        with self._lock:
            if self._is_empty:
                self._added.wait(timeout_s)

    def has_room(self) -> bool:
        """Return whether another message may arrive: the window is not used up. `work` makes room."""
        return len(self._unsettled) < self._window_messages and self._unsettled_bytes < self._window_bytes

    def is_crowded(self) -> bool:
        """Return whether two windows are used up. Protocols without a window of their own are not read any more then.

        Between one window and two, outcomes of outgoing messages come in: they are behind arrivals in the stream.
        """
        return len(self._unsettled) >= 2 * self._window_messages or self._unsettled_bytes >= 2 * self._window_bytes

    @property
    def unsettled_count(self) -> int:
        """The number of arrivals without a settlement."""
        return len(self._unsettled)

    @property
    def unsettled_bytes(self) -> int:
        """Their payloads."""
        return self._unsettled_bytes

    def opened(self, opened: Opened) -> None:
        """Report that the connection is open."""
        self._draft.opened = opened
        self._has_draft = True

    def confirmed(self, number: int) -> None:
        """Report that the foreign broker has a message; of QoS 0, that it is written to the socket."""
        self._draft.confirmed.append(number)
        self._has_draft = True

    def refused(self, number: int, outcome: int, reason: str) -> None:
        """Report that the foreign broker did not take a message."""
        self._draft.refused.append(Refusal(number, outcome, reason))
        self._has_draft = True

    def arrived(self, arrival: Arrival) -> None:
        """Report an arrival."""
        size = len(arrival.payload)
        self._unsettled[arrival.number] = size
        self._unsettled_bytes += size
        self._draft.arrivals.append(arrival)
        self._has_draft = True

    def dropped(self, rule: int) -> None:
        """Report that a message of QoS 0 was dropped, because the line has no room."""
        self._draft.dropped[rule] = self._draft.dropped.get(rule, 0) + 1
        self._has_draft = True

    def lowered(self, shortfall: Shortfall) -> None:
        """Report that the foreign broker gives a rule less than it asks for: once in a connection."""
        self._draft.lowered.append(shortfall)
        self._has_draft = True

    def unmatched(self) -> None:
        """Report that a message was dropped, because it is of no rule."""
        self._draft.unmatched_count += 1
        self._has_draft = True

    def forget_arrivals(self) -> None:
        """Empty the window: the connection is gone, and what the loop has yet to settle counts no longer."""
        self._unsettled.clear()
        self._unsettled_bytes = 0

    def ended(self, ended: Ended) -> None:
        """Report the end of `run`, with all reports before it. The thread of the remote does this, not the remote."""
        self._draft.ended = ended
        self._has_draft = True
        self.flush()

    def flush(self) -> None:
        """Hand all reports to the loop: once after each turn of the remote's work."""
        if not self._has_draft:
            return
        draft, self._draft = self._draft, News()
        self._has_draft = False
        with self._lock:
            news = self._news
            if draft.opened is not None:
                news.opened = draft.opened
            news.confirmed += draft.confirmed
            news.refused += draft.refused
            news.arrivals += draft.arrivals
            news.lowered += draft.lowered
            for rule, count in draft.dropped.items():
                news.dropped[rule] = news.dropped.get(rule, 0) + count
            news.unmatched_count += draft.unmatched_count
            if draft.ended is not None:
                news.ended = draft.ended
            is_told, self._is_told = self._is_told, True
        if not is_told:
            self._has_news()


class RemoteBroker:
    """A foreign broker, for one bridge. Made on the loop, without any I/O; then used by one thread at a time."""

    # Whether messages without an outcome stay the remote's when a connection ends: the next `run` sends them again
    # where needed, and their outcomes come under the same numbers. Otherwise they have no outcome, and the bridge
    # publishes them again under new numbers.
    keeps_unconfirmed = False

    def __init__(self, settings: BridgeSettings, line: Line) -> None:
        """Raises ValueError for settings that this protocol has no use for; the text says which, and what is allowed.

        The library may be missing: then ValueError says which package to install.
        """
        self.settings = settings
        self.line = line

    def run(self) -> None:
        """Connect, make the subscriptions, report `opened`, and serve the connection.

        Returns when the line is closed, after a regular disconnect. Raises RemoteFailed when the connection cannot be
        made within CONNECT_S_MAX, is refused, or ends.

        A turn of the serving thread: wait for the socket or for work, read what came, take the `work`, send it, write,
        `flush`.

        Back-pressure is the protocol's: the foreign broker is granted no more unsettled messages than
        `settings.window_messages`. It never stops outcomes of outgoing messages from being read. A protocol that grants
        nothing (MQTT 3.1.1) is not read while `Line.is_crowded`. A message of QoS 0 that the line has no room for is
        dropped, and counted by `Line.dropped`.
        """
        raise AssertionError("run is abstract")

    def forget(self) -> None:
        """Forget messages without an outcome, and close what is kept over connections: the bridge has given them up.

        Called in the remote's thread, while nothing runs, and at its end.
        """
