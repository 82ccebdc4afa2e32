"""Calls from other threads: all of them, in order, on the loop's thread, and none after its end."""

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from sluicegate.protocols.transport.loop.event_loop import run as run_alone
from sluicegate.protocols.transport.loop.event_loop import thread_calls_of_sockets
from support.network.event_loops import RunOnLoop


def test_each_call_of_each_thread_is_made_in_order_on_the_loops_thread(run: RunOnLoop) -> None:
    made: list[tuple[int, int]] = []
    threads: set[int] = set()

    async def scenario() -> None:
        call_from_thread = thread_calls_of_sockets()
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def called(call: tuple[int, int]) -> None:
            threads.add(threading.get_ident())
            made.append(call)
            if len(made) == 4000:
                done.set_result(None)

        def work(number: int) -> None:
            for count in range(1000):
                call_from_thread(called, (number, count))

        workers = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        for worker in workers:
            worker.start()
        await done
        for worker in workers:
            worker.join()

    run(scenario())
    assert threads == {threading.get_ident()}
    for number in range(4):
        assert [count for worker, count in made if worker == number] == list(range(1000))


def test_a_call_that_fails_is_reported_and_the_others_are_made(run: RunOnLoop) -> None:
    reports: list[dict[str, Any]] = []
    made: list[object] = []

    def fails(argument: object) -> None:
        raise ValueError(argument)

    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: reports.append(context))
        call_from_thread = thread_calls_of_sockets()
        done: asyncio.Future[object] = loop.create_future()
        call_from_thread(fails, "why")
        call_from_thread(made.append, 1)
        call_from_thread(done.set_result, None)
        await done

    run(scenario())
    assert made == [1]
    assert [str(report["exception"]) for report in reports] == ["why"]


def test_a_call_after_the_end_of_the_loop_does_nothing() -> None:
    """The threads of a store may end after it; the descriptor may be another file's by then."""
    made: list[object] = []

    async def scenario() -> Callable[[Callable[[Any], object], object], None]:
        return thread_calls_of_sockets()

    call_from_thread = run_alone(scenario())
    call_from_thread(made.append, 1)
    assert made == []


def test_another_kind_of_loop_is_refused() -> None:
    async def scenario() -> None:
        thread_calls_of_sockets()

    with asyncio.Runner(loop_factory=asyncio.SelectorEventLoop) as runner, pytest.raises(TypeError, match="SocketLoop"):
        runner.run(scenario())
