"""Tasks of a program that wait for something to change, woken and cancelled in the same turn of their loop."""

import asyncio

import pytest

from sluicegate.protocols.flow.client.aio.base import ClientBase, Listener, WaitQueue
from sluicegate.protocols.flow.client.aio.publisher import Publisher
from sluicegate.protocols.flow.client.messages import Message
from sluicegate.protocols.flow.client.session.flow import ClientFlow
from sluicegate.protocols.flow.client.session.outbox import Outbox
from sluicegate.protocols.flow.codec.frames.flow import PubOpened
from sluicegate.protocols.flow.codec.frames.publish import PubAck
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


class PlainClient(ClientBase):
    """Opens each publisher at once, and has no connection."""

    def __init__(self) -> None:
        super().__init__("flow://127.0.0.1")

    def add(self, flow: ClientFlow, owner: Listener) -> None:
        assert isinstance(flow, Outbox)
        self.outbox = flow
        flow.opened(PubOpened(1, 1, 1, 0, 0, 100, 1))

    def ask_flush(self) -> None:
        pass


def test_publishes_that_wait_for_room_keep_their_order(run: RunOnLoop) -> None:
    """One more comes in the turn in which an answer makes room, before those that wait have gone on."""

    async def scenario() -> None:
        client = PlainClient()
        publisher = Publisher(client, "p", window=1, window_bytes=1_000_000)
        await publisher.__aenter__()
        sequences: dict[int, int] = {}

        async def send(number: int) -> None:
            sequences[number] = await publisher.send(Message(b"x", topic="t"))

        await send(1)
        tasks = [asyncio.create_task(send(number)) for number in (2, 3)]
        await asyncio.sleep(0)
        tasks.append(asyncio.create_task(send(4)))
        for answered in range(1, 4):
            client.outbox.acknowledged(PubAck(1, answered, answered + 100, []))
            publisher.on_news()
            for _ in range(10):
                await asyncio.sleep(0)
        await asyncio.gather(*tasks)
        assert sequences == {1: 1, 2: 2, 3: 3, 4: 4}

    run(scenario())
