"""Checks of passwords on threads: as many at a time as memory and processors allow, in the order of `login_queue`.

A check takes 64 MiB and tens of milliseconds by design, and any client may cause one. So the total of all checks is
bounded here, for clients and operators of the whole node.
"""

import asyncio
import hmac
import os
from collections import OrderedDict
from collections.abc import Callable
from types import TracebackType
from typing import Final, Self, final

from sluicegate.actors.runtime.clock import Clock
from sluicegate.messaging.clients.rights import LoginsBusy
from sluicegate.protocols.security.account_secrets import CheckCost
from sluicegate.protocols.security.login_queue import LoginClass, LoginQueue

REMEMBERED_MAX: Final = 10_000  # accounts; the one that was not seen longest is forgotten first


@final
class PasswordChecks:
    """The checks of one node, under way and waiting.

    Invariants: more than one run only within `memory_bytes_max` of memory and `threads_max` threads; somebody waits
    only while one runs. Counters, for metrics: `checked_count`, and `refused_count` for want of room or of time.
    """

    def __init__(self, *, memory_bytes_max: int, clock: Clock, threads_max: int | None = None) -> None:
        """Without `threads_max` there are as many threads as processors. One hash may have several."""
        self.memory_bytes_max = memory_bytes_max
        self.checked_count = 0
        self.refused_count = 0
        self.running_count = 0
        self._threads_max = threads_max or os.cpu_count() or 1
        self._clock = clock
        self._is_stopped = False
        self._queue: LoginQueue[Turn] = LoginQueue()
        self._first: Turn | None = None  # whose turn it is, as soon as there is memory for it
        self._memory_bytes = 0  # of those that run
        self._threads_count = 0

    @property
    def waiting_count(self) -> int:
        """How many wait for their turn."""
        return len(self._queue) + (self._first is not None)

    def turn(self, network: str, login_class: LoginClass, cost: CheckCost) -> "Turn":
        """Return a turn in the line, which lasts as long as it is entered. Entering raises LoginsBusy."""
        return Turn(self, network, login_class, cost)

    def stop(self) -> None:
        """Begin no further checks: turns that wait are refused, and so are new ones."""
        self._is_stopped = True
        for turn in iter(self._queue.next, None):
            self._refuse(turn)
        if self._first is not None:
            self._refuse(self._first)
            self._first = None

    def join(self, turn: "Turn") -> None:
        """Have a turn wait until it is due. Raises LoginsBusy."""
        if self._is_stopped or not self._queue.join(turn.login_class, turn.network, turn, self._clock.now_ms()):
            self.refused_count += 1
            raise LoginsBusy
        self._begin_due()

    def leave(self, turn: "Turn") -> None:
        """Have a turn wait no more."""
        self._queue.leave(turn)
        if self._first is turn:
            self._first = None
            self._begin_due()

    def end(self, turn: "Turn") -> None:
        """Take back what a turn was given, for those who wait."""
        self.running_count -= 1
        self._memory_bytes -= turn.cost.memory_bytes
        self._threads_count -= turn.cost.threads_count
        self._begin_due()

    def _begin_due(self) -> None:
        """Begin the turns that are due, as far as there is room for them; refuse those that waited too long."""
        for late in self._queue.late(self._clock.now_ms()):
            self._refuse(late)
        while self._has_room(0):
            self._first = self._first or self._queue.next()
            turn = self._first
            if turn is None or not self._has_room(turn.cost.memory_bytes):
                return
            self._first = None
            self.running_count += 1
            self._memory_bytes += turn.cost.memory_bytes
            self._threads_count += turn.cost.threads_count
            turn.begin(is_due=True)

    def _refuse(self, turn: "Turn") -> None:
        self.refused_count += 1
        turn.begin(is_due=False)

    def _has_room(self, memory_bytes: int) -> bool:
        if not self.running_count:
            return True
        has_memory = self._memory_bytes + memory_bytes <= self.memory_bytes_max
        return has_memory and self._threads_count < self._threads_max


@final
class Turn:
    """One check, from its place in the line to its end."""

    def __init__(self, checks: PasswordChecks, network: str, login_class: LoginClass, cost: CheckCost) -> None:
        self.network = network
        self.login_class = login_class
        self.cost = cost
        self._checks = checks
        self._due: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._running: asyncio.Future[bool] | None = None

    async def __aenter__(self) -> Self:
        """Wait. Raises LoginsBusy when there is no room to wait, or it took too long."""
        self._checks.join(self)
        try:
            is_due = await self._due
        except asyncio.CancelledError:
            if self._due.cancelled():
                self._checks.leave(self)
            elif self._due.result():
                self._checks.end(self)
            raise
        if not is_due:
            raise LoginsBusy
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._running is None or self._running.done():
            self._checks.end(self)
        else:  # its caller is gone, and it goes on: a thread cannot be ended
            self._running.add_done_callback(lambda _: self._checks.end(self))

    def begin(self, *, is_due: bool) -> None:
        """Be due, or refused."""
        if not self._due.done():
            self._due.set_result(is_due)

    async def run(self, work: Callable[[], bool]) -> bool:
        """Return what a check on a thread says."""
        self._checks.checked_count += 1
        self._running = asyncio.get_running_loop().run_in_executor(None, work)
        return await asyncio.shield(self._running)


@final
class VerifiedPasswords:
    """The last right password of each account: recognising it takes microseconds, and only another one is checked.

    A faster answer to a right password tells its owner nothing new. What is stored of a password is a digest under a
    key of this process, in whose memory the password itself was. Invariant: at most REMEMBERED_MAX are remembered.
    """

    def __init__(self, random_bytes: Callable[[int], bytes]) -> None:
        self._key = random_bytes(32)
        self._marks: OrderedDict[str, bytes] = OrderedDict()

    def add(self, name: str, secret: str, password: bytes) -> None:
        """Note that a password was right for an account with this secret."""
        self._marks[name] = self._mark(secret, password)
        self._marks.move_to_end(name)
        if len(self._marks) > REMEMBERED_MAX:
            self._marks.popitem(last=False)

    def has(self, name: str, secret: str, password: bytes) -> bool:
        """Return whether it was, and the account still has this secret."""
        mark = self._marks.get(name)
        if mark is None or not hmac.compare_digest(mark, self._mark(secret, password)):
            return False
        self._marks.move_to_end(name)
        return True

    def _mark(self, secret: str, password: bytes) -> bytes:
        return hmac.digest(self._key, secret.encode() + b"\0" + password, "sha256")
