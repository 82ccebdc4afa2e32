"""Answers of NATS servers that may be busy with each other, or still looking for each other."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from nats.errors import NoRespondersError

from sluicegate.storage.replication.stream import StreamRefused, StreamUnavailable

WITHIN_S: Final = 60

_BUSY: Final = (StreamUnavailable,)
_LOOKING: Final = (StreamUnavailable, StreamRefused, NoRespondersError)

_Answer = TypeVar("_Answer")


async def answered(ask: Callable[[], Awaitable[_Answer]], *, even_refused: bool = False) -> _Answer:
    """Ask servers, and again while they are busy with each other.

    `even_refused`: they may not have found each other yet, and refuse until then.
    """
    passing = _LOOKING if even_refused else _BUSY
    async with asyncio.timeout(WITHIN_S):
        while True:
            try:
                return await ask()
            except passing:
                await asyncio.sleep(0.05)
