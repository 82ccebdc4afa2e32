"""Tasks of a replica that end with an error: the replica is told, whatever thread they run on."""

import asyncio
from collections.abc import Iterator

import pytest

from sluicegate.gateway.cluster.background import watched
from sluicegate.storage.store.owner import LoopThread


@pytest.fixture
def thread() -> Iterator[LoopThread]:
    thread = LoopThread()
    yield thread
    thread.close()


class Told:
    """What a replica was told."""

    def __init__(self) -> None:
        self.ended: list[tuple[str, str]] = []

    def __call__(self, name: str, error: BaseException) -> None:
        self.ended.append((name, repr(error)))


async def fails() -> None:
    raise ValueError("a fault")


async def waits() -> None:
    await asyncio.get_running_loop().create_future()


async def returns() -> None:
    """End in order."""


def test_a_task_of_a_thread_that_fails_or_is_cancelled_is_told(thread: LoopThread) -> None:
    told = Told()
    for name, work in (("fails", fails()), ("returns", returns()), ("waits", waits())):
        task = thread.begin(work)
        watched(name, task, told)
        if name == "waits":
            task.cancel()
        else:
            task.exception()
    assert told.ended == [("fails", "ValueError('a fault')"), ("waits", "CancelledError()")]


def test_a_task_of_the_own_loop_may_be_cancelled() -> None:
    told = Told()

    async def run() -> None:
        tasks = [asyncio.create_task(work) for work in (fails(), waits(), returns())]
        for name, task in zip(("fails", "waits", "returns"), tasks, strict=True):
            watched(name, task, told)
        await asyncio.sleep(0)
        tasks[1].cancel()
        await asyncio.wait(tasks)

    asyncio.run(run())
    assert told.ended == [("fails", "ValueError('a fault')")]
