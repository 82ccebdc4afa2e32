"""Tasks of a program that wait for something to change, woken and cancelled in the same turn of their loop."""

import asyncio

import pytest

from sluicegate.protocols.flow.client.aio.base import WaitQueue
from support.network.event_loops import RunOnLoop


@pytest.mark.parametrize("count", [1, 2])
def test_a_task_that_is_cancelled_and_then_woken_costs_no_other_its_turn(run: RunOnLoop, count: int) -> None:
    """A program gives up while data of the gateway is there to be read: both come before the task goes on."""

    async def scenario() -> None:
        line = WaitQueue()
        gives_up, stays = (asyncio.create_task(line.wait()) for _ in range(2))
        await asyncio.sleep(0)
        gives_up.cancel()
        line.wake(count)
        with pytest.raises(asyncio.CancelledError):
            await gives_up
        await stays

    run(scenario())


def test_who_is_woken_and_then_cancelled_passes_its_turn_on(run: RunOnLoop) -> None:
    async def scenario() -> None:
        line = WaitQueue()
        gives_up, stays = (asyncio.create_task(line.wait()) for _ in range(2))
        await asyncio.sleep(0)
        line.wake(1)
        gives_up.cancel()
        with pytest.raises(asyncio.CancelledError):
            await gives_up
        await stays

    run(scenario())


def test_who_is_cancelled_waits_no_more(run: RunOnLoop) -> None:
    async def scenario() -> None:
        line = WaitQueue()
        gives_up, stays = (asyncio.create_task(line.wait()) for _ in range(2))
        await asyncio.sleep(0)
        gives_up.cancel()
        with pytest.raises(asyncio.CancelledError):
            await gives_up
        line.wake(1)
        await stays

    run(scenario())
