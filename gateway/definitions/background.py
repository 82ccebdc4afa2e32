"""The thread that works on documents of definitions: reading, comparing and writing large ones takes seconds.

It is one, and not of those that check passwords: whoever sends documents, nobody's login waits for them.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

T = TypeVar("T")

_THREAD: Final = ThreadPoolExecutor(max_workers=1, thread_name_prefix="definitions")  # it starts when it is used first


async def in_background(work: Callable[[], T]) -> T:
    """Return what this work returns. Works of all callers follow one another."""
    return await asyncio.get_running_loop().run_in_executor(_THREAD, work)
