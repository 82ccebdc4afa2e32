"""The timers of the actors, and when the poll returns to asyncio: on both kinds of poll."""

import asyncio
import random
import threading
from typing import Any

import pytest

from sluicegate.actors.runtime.clock import Clock
from sluicegate.protocols.transport.loop.event_loop import SocketLoop, running_sockets, timers_of_sockets
from sluicegate.protocols.transport.loop.timers import CANCELLED_MAX, NO_TIMER, Timer, Timers
from support.network.event_loops import RunOnLoop
from support.network.recording_port import Port, until

A_MOMENT_S = 0.002


class SetClock(Clock):
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.ns = 0

    def now_ns(self) -> int:
        return self.ns


def due(timers: Timers, now_ns: int) -> list[Any]:
    """Call all timers whose time has come; return what they return."""
    called: list[Any] = []
    while (callback := timers.take(now_ns)) is not None:
        called.append(callback())
    return called


def test_timers_are_called_by_time_and_those_of_one_time_in_the_order_in_which_they_were_set() -> None:
    timers = Timers(SetClock())
    for name, delay_s in (("late", 3.0), ("first", 1.0), ("second", 1.0), ("past", -1.0)):
        timers.add(delay_s, lambda name=name: name)  # type: ignore[misc]  # mypy cannot infer such a lambda
    assert timers.next_ns() == 0
    assert due(timers, 999_999_999) == ["past"]
    assert due(timers, 1_000_000_000) == ["first", "second"]
    assert due(timers, 5_000_000_000) == ["late"]
    assert timers.next_ns() == NO_TIMER


def test_a_cancelled_timer_is_never_called_and_no_poll_ends_for_it() -> None:
    timers = Timers(SetClock())
    early, late = timers.add(1.0, lambda: "early"), timers.add(2.0, lambda: "late")
    early.cancel()
    early.cancel()
    assert timers.next_ns() == 2_000_000_000
    assert due(timers, 9_000_000_000) == ["late"]
    late.cancel()
    assert len(timers) == 0


def test_timers_that_are_cancelled_long_before_their_time_are_not_kept() -> None:
    """A consumer that waits for 30 seconds, and is served at once, leaves one each time."""
    timers = Timers(SetClock())
    kept = [timers.add(60.0, lambda: "kept") for _ in range(50)]
    for _ in range(10_000):
        timers.add(30.0, lambda: "served").cancel()
    assert len(timers) <= len(kept) + 2 * CANCELLED_MAX
    assert due(timers, 60_000_000_000) == ["kept"] * 50


@pytest.mark.parametrize("seed", range(20))
def test_timers_keep_their_promises_whatever_is_set_and_cancelled(seed: int) -> None:
    rng, clock = random.Random(seed), SetClock()
    timers = Timers(clock)
    waiting: dict[int, tuple[int, Timer]] = {}
    called: list[int] = []
    for number in range(2000):
        choice = rng.random()
        if choice < 0.6:
            delay_s = rng.randrange(1000) / 1000
            timer = timers.add(delay_s, lambda number=number: called.append(number))  # type: ignore[misc]
            waiting[number] = (clock.ns + int(delay_s * 1e9), timer)
        elif choice < 0.9 and waiting:
            waiting.pop(rng.choice(list(waiting)))[1].cancel()
        else:
            clock.ns += rng.randrange(50_000_000)
            due(timers, clock.ns)
            expected = sorted([(when, each) for each, (when, _) in waiting.items() if when <= clock.ns])
            assert called == [each for _, each in expected]
            for each in called:
                del waiting[each]
            called.clear()


def test_a_timer_is_called_on_the_loop_after_its_time(run: RunOnLoop) -> None:
    async def scenario() -> None:
        clock = running_sockets().clock
        done: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        began_ns = clock.now_ns()
        timers_of_sockets()(A_MOMENT_S, lambda: done.set_result(clock.now_ns()))
        assert await done - began_ns >= A_MOMENT_S * 1e9

    run(scenario())


def test_a_timer_without_delay_that_sets_itself_again_leaves_everybody_their_turn(run: RunOnLoop) -> None:
    async def scenario() -> None:
        call_later = timers_of_sockets()
        rounds = 0
        is_over = False

        def again() -> None:
            nonlocal rounds
            rounds += 1
            if not is_over:
                call_later(0, again)

        again()
        port = Port()
        client, server = await port.meet()
        client.sendall(b"in")
        await until(lambda: server.data == b"in")
        await asyncio.sleep(A_MOMENT_S)
        assert rounds > 1
        is_over = True
        client.close()
        await server.gone
        port.accepting.close()

    run(scenario())


def test_a_timer_that_fails_is_reported_and_the_others_are_called() -> None:
    reported: list[dict[str, Any]] = []

    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: reported.append(context))
        done: asyncio.Future[None] = loop.create_future()

        def fails() -> None:
            raise ValueError("not now")

        timers_of_sockets()(0, fails)
        timers_of_sockets()(0, lambda: done.set_result(None))
        await done

    with asyncio.Runner(loop_factory=SocketLoop) as runner:
        runner.run(scenario())
    assert [str(context["exception"]) for context in reported] == ["not now"]


class RoundsLoop(SocketLoop):
    """Counts the rounds of asyncio."""

    rounds = 0

    def _process_events(self, event_list: Any) -> None:
        self.rounds += 1
        super()._process_events(event_list)  # type: ignore[misc]  # typeshed has no private methods


def test_messages_that_come_one_by_one_cost_no_round_of_asyncio() -> None:
    """The loop waits in one poll after the other, until the thread that sent the messages calls."""

    async def scenario() -> None:
        port = Port()
        client, server = await port.meet()
        loop = asyncio.get_running_loop()
        assert isinstance(loop, RoundsLoop)
        over: asyncio.Future[None] = loop.create_future()
        reads_before = len(server.reads)

        def send() -> None:
            for _ in range(50):
                client.sendall(b"in")
                threading.Event().wait(0.001)
            loop.call_soon_threadsafe(over.set_result, None)

        rounds_before = loop.rounds
        sender = threading.Thread(target=send)
        sender.start()
        await over
        sender.join()
        assert len(server.reads) - reads_before > 10
        assert loop.rounds - rounds_before < 10
        client.close()
        await server.gone
        port.accepting.close()

    with asyncio.Runner(loop_factory=RoundsLoop) as runner:
        runner.run(scenario())


@pytest.mark.parametrize("news", ["callback", "timer", "task"])
def test_what_is_added_to_asyncio_during_a_poll_is_done_without_another_event(run: RunOnLoop, news: str) -> None:
    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        done: asyncio.Future[None] = loop.create_future()

        async def task() -> None:
            done.set_result(None)

        def add() -> None:
            if news == "callback":
                loop.call_soon(done.set_result, None)
            elif news == "timer":
                loop.call_later(A_MOMENT_S, done.set_result, None)
            else:
                tasks.append(loop.create_task(task()))

        tasks: list[asyncio.Task[None]] = []
        timers_of_sockets()(A_MOMENT_S, add)
        await done

    run(scenario())


def test_a_loop_that_is_stopped_during_a_poll_stops() -> None:
    loop = SocketLoop()
    try:
        loop.sockets.call_later(A_MOMENT_S, loop.stop)
        loop.run_forever()
        loop.sockets.call_soon(loop.stop)
        loop.run_forever()
    finally:
        loop.close()


def test_a_timer_of_asyncio_is_called_while_sockets_are_ready_all_the_time(run: RunOnLoop) -> None:
    async def scenario() -> None:
        port = Port()
        client, server = await port.meet()
        over = threading.Event()

        def send() -> None:
            while not over.is_set():
                client.sendall(bytes(1000))

        sender = threading.Thread(target=send)
        sender.start()
        await asyncio.sleep(0.05)
        over.set()
        sender.join()
        assert server.data
        client.close()
        await server.gone
        port.accepting.close()

    run(scenario())
