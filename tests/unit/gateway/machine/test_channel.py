"""The channel between the supervisor and a broker: requests either way, failures, and the end of one side."""

import asyncio
import socket
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from sluicegate.gateway.config.load import load
from sluicegate.gateway.machine.channel import Channel, ChannelClosed, Unanswered
from sluicegate.gateway.views.errors import QueueNotFound
from sluicegate.messaging.queues.definition import QueueInvalid

Serve = Callable[[str, tuple[Any, ...]], Awaitable[object]]


async def nothing(verb: str, arguments: tuple[Any, ...]) -> object:
    raise AssertionError(f"{verb} was not expected")


async def echo(verb: str, arguments: tuple[Any, ...]) -> object:
    return verb, arguments


async def fails(verb: str, arguments: tuple[Any, ...]) -> object:
    if verb == "find":
        raise QueueNotFound("orders")
    raise QueueInvalid("name", "it is taken", "another name")


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
        with pytest.raises(QueueNotFound, match="there is no queue 'orders'") as missing:
            await one.ask("find")
        assert missing.value.name == "orders"
        with pytest.raises(QueueInvalid, match="name: it is taken; allowed: another name") as refused:
            await one.ask("create")
        assert (refused.value.field, refused.value.allowed) == ("name", "another name")
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


def test_a_request_that_hangs_is_given_up_and_a_later_answer_is_ignored() -> None:
    async def scenario() -> None:
        later = asyncio.Event()

        async def answers_late(verb: str, arguments: tuple[Any, ...]) -> object:
            if verb == "wait":
                await later.wait()
            return verb

        one, other = await channels(nothing, answers_late)
        waiting = asyncio.create_task(one.ask("wait"))
        assert await one.ask("began") == "began"
        one.give_up()
        with pytest.raises(Unanswered):
            await waiting
        later.set()
        assert await one.ask("again") == "again"
        one.close()
        other.close()

    asyncio.run(scenario())


def test_a_ping_is_answered_by_the_end_that_runs() -> None:
    async def scenario() -> None:
        one, other = await channels(nothing, echo)
        assert one.ping()
        assert not one.ping()  # the other end has not run yet
        assert await one.ask("go") == ("go", ())
        assert one.ping()
        one.close()
        other.close()

    asyncio.run(scenario())


def test_a_configuration_crosses_as_it_is() -> None:
    settings = [
        "queues.declared.0.name=orders",
        "queues.declared.0.subscriptions.0=orders/>",
        "queues.templates.0.name=short",
        "queues.templates.0.queue_name_filter=short/>",
        "authentication.users.0.name=alice",
    ]
    config = load(None, environment={"SLUICEGATE_AUTHENTICATION__USERS__0__PASSWORD": "secret"}, settings=settings)

    async def scenario() -> None:
        one, other = await channels(nothing, echo)
        assert await one.ask("start", config) == ("start", (config,))
        one.close()
        other.close()

    asyncio.run(scenario())
