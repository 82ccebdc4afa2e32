"""How many passwords are checked at the same time, and who waits for how long."""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any, Final

import pytest

from sluicegate.messaging.clients.rights import LoginsBusy
from sluicegate.protocols.security.account_secrets import CheckCost
from sluicegate.protocols.security.login_queue import WAIT_MS_MAX, WAITING_OF_NETWORK_MAX, LoginClass
from sluicegate.protocols.security.password_checks import PasswordChecks
from support.cores.set_clock import SetClock

MIB: Final = 1 << 20
HASH: Final = CheckCost(memory_bytes=64 * MIB, threads_count=1)


class Hall:
    """Checks that end when the test says so."""

    def __init__(self, *, memory_bytes_max: int = 256 * MIB, threads_max: int = 100) -> None:
        self.clock = SetClock()
        self.checks = PasswordChecks(memory_bytes_max=memory_bytes_max, clock=self.clock, threads_max=threads_max)
        self.may_end = threading.Event()
        self.running_count_max = 0
        self.done: list[str] = []
        self._lock = threading.Lock()
        self._running_count = 0

    async def check(
        self, name: str, network: str, login_class: LoginClass = LoginClass.NEW, cost: CheckCost = HASH
    ) -> bool:
        """Have a password checked."""
        async with self.checks.turn(network, login_class, cost) as turn:
            is_right = await turn.run(self._work)
        self.done.append(name)
        return is_right

    def _work(self) -> bool:
        with self._lock:
            self._running_count += 1
            self.running_count_max = max(self.running_count_max, self._running_count)
        assert self.may_end.wait(60)
        with self._lock:
            self._running_count -= 1
        return True


def run(story: Callable[[], Coroutine[Any, Any, None]]) -> None:
    async def in_time() -> None:
        async with asyncio.timeout(60):
            await story()

    asyncio.run(in_time())


async def settled() -> None:
    """Let everybody get as far as it can."""
    for _ in range(5):
        await asyncio.sleep(0)


@pytest.mark.parametrize(
    ("memory_bytes_max", "threads_max", "cost", "running_count"),
    [
        (256 * MIB, 100, HASH, 4),
        (255 * MIB, 100, HASH, 3),
        (MIB, 100, HASH, 1),  # one always is checked, or nobody could come in
        (256 * MIB, 2, HASH, 2),
        (256 * MIB, 2, CheckCost(64 * MIB, threads_count=4), 1),  # one hash may keep all processors busy
        (256 * MIB, 5, CheckCost(64 * MIB, threads_count=4), 2),
        (MIB, 3, CheckCost(0, threads_count=1), 3),
    ],
)
def test_checks_at_the_same_time_are_bounded_by_memory_and_processors(
    memory_bytes_max: int, threads_max: int, cost: CheckCost, running_count: int
) -> None:
    hall = Hall(memory_bytes_max=memory_bytes_max, threads_max=threads_max)

    async def come() -> None:
        coming = [asyncio.create_task(hall.check("", f"192.0.2.{number}", cost=cost)) for number in range(12)]
        await settled()
        assert (hall.checks.running_count, hall.checks.waiting_count) == (running_count, 12 - running_count)
        hall.may_end.set()
        assert await asyncio.gather(*coming) == [True] * 12
        assert hall.running_count_max <= running_count
        assert (hall.checks.running_count, hall.checks.waiting_count, hall.checks.checked_count) == (0, 0, 12)

    run(come)


def test_a_right_login_passes_two_hundred_guessers_of_other_networks() -> None:
    hall = Hall(threads_max=1)

    async def come() -> None:
        guessing = [
            asyncio.create_task(hall.check(f"guess {number}", f"2001:db8:{number % 200:x}::/64", LoginClass.FAILED))
            for number in range(600)
        ]
        await settled()
        known = asyncio.create_task(hall.check("known", "192.0.2.1", LoginClass.KNOWN))
        new = asyncio.create_task(hall.check("new", "192.0.2.2"))
        await settled()
        hall.may_end.set()
        await asyncio.gather(known, new, *guessing)

    run(come)
    assert hall.done.index("known") <= 2
    assert hall.done.index("new") <= 4


def test_who_would_wait_too_long_hears_so_and_costs_nothing() -> None:
    hall = Hall(threads_max=1)

    async def come() -> None:
        first = asyncio.create_task(hall.check("first", "a"))
        await settled()
        late = asyncio.create_task(hall.check("late", "b"))
        await settled()
        hall.clock.at_ms = WAIT_MS_MAX
        in_time = asyncio.create_task(hall.check("in time", "c"))
        await settled()
        hall.clock.at_ms += 1
        hall.may_end.set()
        with pytest.raises(LoginsBusy, match="try again later"):
            await late
        assert await first
        assert await in_time

    run(come)
    assert hall.done == ["first", "in time"]
    assert (hall.checks.checked_count, hall.checks.refused_count) == (2, 1)


def test_where_there_is_no_room_to_wait_others_still_come() -> None:
    hall = Hall(threads_max=1)

    async def come() -> None:
        crowd = [asyncio.create_task(hall.check("", "a")) for _ in range(WAITING_OF_NETWORK_MAX + 1)]
        await settled()
        with pytest.raises(LoginsBusy):
            await hall.check("", "a")
        other = asyncio.create_task(hall.check("other", "b"))
        await settled()
        hall.may_end.set()
        assert await other
        assert await asyncio.gather(*crowd) == [True] * len(crowd)

    run(come)
    assert hall.checks.refused_count == 1


def test_a_dear_check_waits_for_its_memory_and_is_not_overtaken_for_ever() -> None:
    hall = Hall()
    dear = CheckCost(256 * MIB, threads_count=1)

    async def come() -> None:
        coming = [asyncio.create_task(hall.check("cheap", "a"))]
        await settled()
        coming += [asyncio.create_task(hall.check("dear", "b", cost=dear))]
        await settled()
        coming += [asyncio.create_task(hall.check(f"later {number}", "c")) for number in range(2)]
        await settled()
        assert (hall.checks.running_count, hall.checks.waiting_count) == (1, 3)
        hall.may_end.set()
        await asyncio.gather(*coming)

    run(come)
    assert hall.done[:2] == ["cheap", "dear"]


def test_an_expensive_check_whose_client_leaves_before_there_is_memory_blocks_no_other() -> None:
    hall = Hall()

    async def come() -> None:
        first = asyncio.create_task(hall.check("first", "a"))
        await settled()
        dear = asyncio.create_task(hall.check("dear", "b", cost=CheckCost(256 * MIB, threads_count=1)))
        await settled()
        other = asyncio.create_task(hall.check("other", "c"))
        await settled()
        assert (hall.checks.running_count, hall.checks.waiting_count) == (1, 2)
        dear.cancel()
        await settled()
        assert (hall.checks.running_count, hall.checks.waiting_count) == (2, 0)
        hall.may_end.set()
        assert await first
        assert await other

    run(come)


@pytest.mark.parametrize("which", [0, 1, 2])
def test_who_leaves_gives_its_turn_to_the_next_and_its_memory_when_the_check_ends(which: int) -> None:
    """0: its check runs, which goes on and counts until it ends; 1: it is the next one; 2: it is behind that."""
    hall = Hall(threads_max=1)

    async def come() -> None:
        coming = [asyncio.create_task(hall.check(str(number), str(number))) for number in range(3)]
        await settled()
        coming[which].cancel()
        await settled()
        assert (hall.checks.running_count, hall.checks.waiting_count) == (1, 2 if which == 0 else 1)
        hall.may_end.set()
        await asyncio.gather(*coming, return_exceptions=True)
        while hall.checks.running_count:
            await asyncio.sleep(0)

    run(come)
    assert sorted(hall.done) == [each for each in "012" if each != str(which)]
    assert hall.running_count_max == 1


def test_a_login_that_leaves_as_its_turn_comes_does_not_block_the_next() -> None:
    hall = Hall(threads_max=1)

    async def come() -> None:
        async with hall.checks.turn("a", LoginClass.NEW, HASH):
            leaving = asyncio.create_task(hall.check("leaving", "b"))
            await settled()
        leaving.cancel()  # its turn is due, and it has not heard of it
        await settled()
        assert hall.checks.running_count == 0

    run(come)


def test_a_node_that_stops_refuses_those_who_wait_and_ends_what_runs() -> None:
    hall = Hall(threads_max=1)

    async def come() -> None:
        running = asyncio.create_task(hall.check("running", "a"))
        await settled()
        waiting = asyncio.create_task(hall.check("waiting", "b"))
        await settled()
        hall.checks.stop()
        with pytest.raises(LoginsBusy):
            await waiting
        with pytest.raises(LoginsBusy):
            await hall.check("late", "c")
        hall.may_end.set()
        assert await running

    run(come)
    assert hall.done == ["running"]
    assert hall.checks.refused_count == 2
