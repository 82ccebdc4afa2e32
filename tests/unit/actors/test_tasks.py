"""Coroutines on behalf of actors: they begin at once, and go on in the dispatcher's turns."""

import asyncio

import pytest

from sluicegate.actors.runtime.asks import LoopFuture
from sluicegate.actors.runtime.runtime import Runtime
from sluicegate.actors.runtime.tasks import run
from support.cores.lone_actors import turn


async def doubled(number: LoopFuture[int]) -> int:
    return 2 * await number


def on_the_loop(runtime: Runtime, number: LoopFuture[int]) -> LoopFuture[int]:
    """Begin a request as actors do: on the running loop, and in no task of it."""
    begun: list[LoopFuture[int]] = []
    runtime.loop.call_soon(lambda: begun.append(run(runtime, doubled(number))))
    turn(runtime)
    return begun[0]


def test_a_request_with_nothing_to_wait_for_is_done_at_once(runtime: Runtime) -> None:
    known: LoopFuture[int] = LoopFuture()
    known.set(21)
    assert run(runtime, doubled(known)).get() == 42


def test_a_request_continues_in_a_turn_of_its_own_and_not_in_that_of_the_answering_actor(runtime: Runtime) -> None:
    number: LoopFuture[int] = LoopFuture()
    answer = on_the_loop(runtime, number)
    number.set(21)
    assert not answer.done
    turn(runtime)
    assert answer.get() == 42


def test_the_asking_actor_gets_the_exception_of_a_request(runtime: Runtime) -> None:
    number: LoopFuture[int] = LoopFuture()
    answer = on_the_loop(runtime, number)
    number.set_exception((ValueError, ValueError("no number"), None))
    turn(runtime)
    assert isinstance(answer.error(), ValueError)
    with pytest.raises(ValueError, match="no number"):
        answer.get()


def test_a_turn_goes_on_when_what_waited_for_a_request_fails(
    runtime: Runtime, caplog: pytest.LogCaptureFixture
) -> None:
    """Else the dispatcher would never be called again, and the node stand still."""

    def fail(_: LoopFuture[int]) -> None:
        raise ValueError("not that")

    first, second = LoopFuture[int](), LoopFuture[int]()
    on_the_loop(runtime, first).then(fail)
    answer = on_the_loop(runtime, second)
    first.set(1)
    second.set(2)
    turn(runtime)
    assert answer.get() == 4
    assert "a callback of a finished request failed" in caplog.text


def test_a_request_may_wait_for_what_a_thread_does(runtime: Runtime) -> None:
    """A password is checked on one."""
    answers: list[int] = []

    async def begin() -> None:
        done = asyncio.Event()
        answer = run(runtime, asyncio.to_thread(int, "42"))
        answer.then(lambda _: done.set())
        await done.wait()
        answers.append(answer.get())

    runtime.loop.run_until_complete(begin())  # type: ignore[attr-defined]  # of a real loop
    assert answers == [42]
