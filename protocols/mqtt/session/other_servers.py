"""Where 5.0 clients are sent that another server should serve: Server Reference (section 4.11).

A neighbor broker whose clients' address is known is asked whether it keeps the session of a client that brings none
here and wants one. A broker that stops, or has moved, sends its clients where its operator says.
"""

from collections.abc import Callable
from typing import Final, final

from sluicegate.actors.runtime.asks import LoopFuture
from sluicegate.actors.runtime.runtime import Runtime

KEPT: Final = "kept"  # the answer of a broker that keeps the session; any other means that it does not
LOOK_MS_MAX: Final = 1_000  # a client waits no longer for neighbors, and is served here
# Of one message VPN, that are not answered. A neighbor takes 1,000 of each link; behind them its link would end.
QUESTIONS_MAX: Final = 500

# Why clients were sent elsewhere.
SESSION: Final = "session"
STOPPED: Final = "stopped"
MOVED: Final = "moved"


@final
class OtherServer:
    """One neighbor broker.

    `ask` asks it whether it keeps the session of a client identifier for a user; None: it cannot be asked now.
    """

    def __init__(self, reference: str, ask: Callable[[str, str], LoopFuture[str] | None]) -> None:
        self.reference = reference  # where its clients connect
        self.ask = ask


@final
class OtherServers:
    """The other servers for the clients of one message VPN."""

    def __init__(self, runtime: Runtime) -> None:
        self.neighbors: list[OtherServer] = []  # set with the links
        self.reference = ""  # where clients go when this broker stops, or has moved
        self.has_moved = False  # this broker serves no 5.0 clients any more
        self.sent_counts: dict[str, int] = {}  # clients that were sent elsewhere, by the reason
        self._runtime = runtime
        self._questions_count = 0  # that are not answered

    @property
    def are_busy(self) -> bool:
        """Whether so many questions wait for answers that no client may cause another one."""
        return self._questions_count + len(self.neighbors) > QUESTIONS_MAX

    def sent(self, reason: str) -> None:
        """Count a client that was sent elsewhere."""
        self.sent_counts[reason] = self.sent_counts.get(reason, 0) + 1

    def look(self, client_id: str, user: str) -> LoopFuture[str]:
        """Return where the session of a client is kept; empty: nowhere, as far as neighbors say in time."""
        look = _Look(self)
        for each in self.neighbors:
            answer = each.ask(client_id, user)
            if answer is not None:
                look.waits_for(each.reference, answer)
        look.begin(self._runtime)
        return look.found

    def asked(self) -> None:
        """Count a question."""
        self._questions_count += 1

    def answered(self) -> None:
        """Count a question no more."""
        self._questions_count -= 1


@final
class _Look:
    """The questions for one client. The first broker that keeps the session is found."""

    def __init__(self, servers: OtherServers) -> None:
        self.found: LoopFuture[str] = LoopFuture()
        self._servers = servers
        self._left_count = 1  # `begin` is one

    def waits_for(self, reference: str, answer: LoopFuture[str]) -> None:
        """Have an answer count when it comes."""
        self._left_count += 1
        self._servers.asked()

        def take(done: LoopFuture[str]) -> None:
            self._servers.answered()
            self._one_less(reference if done.error() is None and done.get() == KEPT else "")

        answer.then(take)

    def begin(self, runtime: Runtime) -> None:
        """Wait for the answers, for a limited time."""
        self._one_less("")
        if not self.found.done:
            timer = runtime.after(LOOK_MS_MAX, self._end)
            self.found.then(lambda _: timer.cancel())

    def _end(self) -> None:
        if not self.found.done:
            self.found.set("")

    def _one_less(self, reference: str) -> None:
        self._left_count -= 1
        if not self.found.done and (reference or self._left_count == 0):
            self.found.set(reference)
