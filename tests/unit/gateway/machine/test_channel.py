"""The channel between the supervisor and a broker: requests either way, failures, and the end of one side."""

import asyncio
import socket
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from sluicegate.gateway.machine.channel import Channel, ChannelClosed
from sluicegate.gateway.views.errors import QueueNotFound

Serve = Callable[[str, tuple[Any, ...]], Awaitable[object]]


class Unpicklable(Exception):
    """An error that cannot be made again from its arguments."""

    def __init__(self, one: str, *, two: str) -> None:
        super().__init__(f"{one} and {two}")


async def nothing(verb: str, arguments: tuple[Any, ...]) -> object:
    raise AssertionError(f"{verb} was not expected")


async def echo(verb: str, arguments: tuple[Any, ...]) -> object:
    return verb, arguments


async def fails(verb: str, arguments: tuple[Any, ...]) -> object:
    if verb == "find":
        raise QueueNotFound("orders")
    raise Unpicklable("one", two="two")


async def channels(here: Serve, there: Serve) -> tuple[Channel, Channel]:
    one, other = socket.socketpair()
    return await Channel.over(one, here), await Channel.over(other, there)


def test_both_ends_ask_and_are_answered_in_any_order() -> None:
    async def scenario() -> None:
        later = asyncio.Event()

        async def answers_late(verb: str, arguments: tuple[Any, ...]) -> object:
            if verb == "wait":
                await later.wait()
            else:
                later.set()
            return verb

        one, other = await channels(answers_late, echo)
        assert tuple(await asyncio.gather(other.ask("wait"), other.ask("go"))) == ("wait", "go")
        assert await one.ask("put", 1, b"\0" * 1_000_000) == ("put", (1, b"\0" * 1_000_000))
        one.close()
        other.close()

    asyncio.run(scenario())


def test_what_one_end_raises_is_raised_at_the_other() -> None:
    async def scenario() -> None:
        one, other = await channels(nothing, fails)
        with pytest.raises(QueueNotFound, match="there is no queue 'orders'"):
            await one.ask("find")
        with pytest.raises(RuntimeError, match="Unpicklable: one and two"):
            await one.ask("break")
        one.close()
        other.close()

    asyncio.run(scenario())


def test_who_waits_for_an_end_that_closes_is_told() -> None:
    async def scenario() -> None:
        began = asyncio.Event()

        async def never(verb: str, arguments: tuple[Any, ...]) -> object:
            began.set()
            return await asyncio.get_running_loop().create_future()

        one, other = await channels(nothing, never)
        waiting = asyncio.create_task(one.ask("wait"))
        await began.wait()
        other.close()
        with pytest.raises(ChannelClosed):
            await waiting
        await one.closed
        with pytest.raises(ChannelClosed):
            await one.ask("again")
        one.close()

    asyncio.run(scenario())
