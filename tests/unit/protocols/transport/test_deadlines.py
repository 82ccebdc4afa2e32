"""The time of peers for what they do first: when it is over, and that a loop that stood still takes none of it."""

from collections.abc import Iterator

import pytest

from sluicegate.protocols.transport.deadlines import TICKS, Deadline, Deadlines
from support.network.event_loops import ForwardLoop

LIMIT_MS = 10_000
TICK_MS = LIMIT_MS // TICKS


class Peers:
    """Peers that have begun, and those whose time is over."""

    def __init__(self, loop: ForwardLoop) -> None:
        self.over: list[str] = []
        self._loop = loop
        self._deadlines = Deadlines(LIMIT_MS / 1000)

    def begins(self, name: str) -> Deadline:
        async def begin() -> Deadline:
            return self._deadlines.begin(lambda: self.over.append(name))

        return self._loop.run_until_complete(begin())

    def passes(self, ms: int) -> list[str]:
        """Let time pass, with the loop running all the while; return whose time is over by then."""
        for _ in range(ms // TICK_MS):
            self.stands_still(TICK_MS)
        return self.over

    def stands_still(self, ms: int) -> list[str]:
        """Let time pass in which the loop does nothing, then let it run for a moment; return the same."""
        self._loop.ahead_ms += ms
        for _ in range(2):  # asyncio calls what is due, and then what that has set
            self._loop.call_soon(self._loop.stop)
            self._loop.run_forever()
        return self.over

    def ticks(self) -> int:
        """Return the number of timers of the loop that wait."""
        return len([each for each in self._loop._scheduled if not each.cancelled()])  # type: ignore[attr-defined]


@pytest.fixture
def peers() -> Iterator[Peers]:
    loop = ForwardLoop()
    yield Peers(loop)
    loop.close()


def test_a_peer_has_its_time_and_not_much_more(peers: Peers) -> None:
    peers.begins("slow")
    assert peers.passes(LIMIT_MS - TICK_MS) == []
    assert peers.passes(2 * TICK_MS) == ["slow"]


def test_a_peer_that_is_done_is_not_ended(peers: Peers) -> None:
    done = peers.begins("done")
    peers.begins("slow")
    done.cancel()
    assert peers.passes(LIMIT_MS + TICK_MS) == ["slow"]
    done.cancel()
    assert peers.passes(LIMIT_MS + TICK_MS) == ["slow"]


def test_a_loop_that_stood_still_takes_none_of_the_time(peers: Peers) -> None:
    peers.begins("first")
    peers.passes(LIMIT_MS // 2)
    assert peers.stands_still(2 * LIMIT_MS) == []
    peers.begins("second")
    assert peers.passes(LIMIT_MS // 2 - 2 * TICK_MS) == []
    assert peers.passes(4 * TICK_MS) == ["first"]
    assert peers.passes(LIMIT_MS // 2 - 4 * TICK_MS) == ["first"]
    assert peers.passes(4 * TICK_MS) == ["first", "second"]


def test_nothing_runs_while_nobody_waits(peers: Peers) -> None:
    assert peers.ticks() == 0
    peers.begins("one").cancel()
    peers.begins("two")
    assert peers.ticks() == 1
    peers.passes(LIMIT_MS + 2 * TICK_MS)
    assert peers.ticks() == 0
    peers.begins("three")
    assert peers.passes(LIMIT_MS + TICK_MS) == ["two", "three"]
