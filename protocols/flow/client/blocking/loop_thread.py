"""An event loop on its own thread."""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeVar

from sluicegate.protocols.flow.client.errors import ClientClosed

T = TypeVar("T")

CLOSED: Final = "the client was closed"
STOP_S: Final = 1.0  # for calls of other threads to end by themselves, as the client has


class LoopThread:
    """An event loop in a thread."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._lock = threading.Lock()  # a call is on the loop before its end begins, or refused
        self._is_ending = False
        self._thread = threading.Thread(target=self._work, name="sluicegate-client", daemon=True)
        self._thread.start()

    def _work(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()

    def run(self, work: Coroutine[Any, Any, T], timeout_s: float | None = None, missing: str = "no answer") -> T:
        """Run a coroutine there, and wait for it. Raises TimeoutError when it takes longer, and cancels it.

        `missing` is what has not come then, for the error. Raises ClientClosed once it ends.
        """
        with self._lock:
            if self._is_ending:
                work.close()
                raise ClientClosed(CLOSED)
            result = asyncio.run_coroutine_threadsafe(_within(work, timeout_s, missing), self._loop)
        try:
            return result.result()
        except BaseException:
            result.cancel()  # an interrupt of this thread; else it is done
            raise

    def call(self, function: Callable[..., object], *given: object) -> None:
        """Call a function there, behind the calls of this thread before, and do not wait for it.

        Raises ClientClosed once it ends.
        """
        with self._lock:
            if self._is_ending:
                raise ClientClosed(CLOSED)
            self._loop.call_soon_threadsafe(function, *given)

    def stop(self) -> None:
        """End the thread, after all waiting calls have got their result. Harmless when it ends already."""
        with self._lock:
            if self._is_ending:
                return
            self._is_ending = True
        asyncio.run_coroutine_threadsafe(_all_others_end(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


async def _within(work: Coroutine[Any, Any, T], timeout_s: float | None, missing: str) -> T:
    # On the loop, so that a cancelled call has no effect: no delivery is taken and lost.
    try:
        async with asyncio.timeout(timeout_s) as limit:
            return await work
    except TimeoutError:
        if timeout_s is None or not limit.expired():  # an error of the work itself
            raise
        raise TimeoutError(f"{missing} within {timeout_s:g} s") from None


async def _all_others_end() -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    if others:
        _, late = await asyncio.wait(others, timeout=STOP_S)
        for task in late:
            task.cancel()
        await asyncio.gather(*late, return_exceptions=True)
    await asyncio.sleep(0)  # their threads are notified in the next turn
