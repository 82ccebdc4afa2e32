"""What a broker's operations yield, asked for by the supervisor piece by piece, until nobody reads."""

import asyncio
from collections.abc import AsyncGenerator

from sluicegate.gateway.machine.broker import Streams


class Source:
    """A stream that waits for what it yields, and notes its end."""

    def __init__(self) -> None:
        self.items: asyncio.Queue[int | None] = asyncio.Queue()
        self.has_begun = asyncio.Event()
        self.has_ended = False

    async def stream(self) -> AsyncGenerator[int, None]:
        try:
            self.has_begun.set()
            while (item := await self.items.get()) is not None:
                yield item
        finally:
            self.has_ended = True


def test_a_stream_ends_while_its_next_thing_is_waited_for() -> None:
    """Otherwise a watch of quiet topics would go on for ever."""

    async def scenario() -> None:
        streams, source = Streams(), Source()
        number = streams.begin(source.stream())
        waiting = asyncio.create_task(streams.next(number))
        await source.has_begun.wait()
        await streams.end(number)
        assert source.has_ended
        assert await waiting == []
        assert await streams.next(number) == []

    asyncio.run(scenario())


def test_a_stream_ends_between_two_things() -> None:
    async def scenario() -> None:
        streams, source = Streams(), Source()
        number = streams.begin(source.stream())
        source.items.put_nowait(7)
        assert await streams.next(number) == [7]
        assert not source.has_ended
        await streams.end(number)
        assert source.has_ended

    asyncio.run(scenario())


def test_a_stream_that_ends_by_itself_is_over() -> None:
    async def scenario() -> None:
        streams, source = Streams(), Source()
        number = streams.begin(source.stream())
        source.items.put_nowait(None)
        assert await streams.next(number) == []
        assert source.has_ended
        await streams.end(number)

    asyncio.run(scenario())


def test_who_waits_no_more_leaves_nothing_waiting() -> None:
    """The channel cancels what it carries out when the supervisor is gone."""

    async def scenario() -> None:
        streams, source = Streams(), Source()
        waiting = asyncio.create_task(streams.next(streams.begin(source.stream())))
        await source.has_begun.wait()
        waiting.cancel()
        await asyncio.wait([waiting])
        others = asyncio.all_tasks() - {asyncio.current_task()}
        if others:
            await asyncio.wait(others)
        assert source.has_ended

    asyncio.run(scenario())
