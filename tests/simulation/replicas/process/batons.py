"""Threads of a simulated process, of which one runs at a time: a run is the same each time.

A function that blocks has a thread of its own, real because it cannot be suspended otherwise. It runs while the event
loop waits for it, and gives the processor back when it waits for a coroutine, or ends.
"""

import asyncio
import threading
from asyncio.futures import _chain_future  # type: ignore[attr-defined]  # as `asyncio.run_coroutine_threadsafe` does
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError, Future
from typing import Any, Final, TypeVar

_Result = TypeVar("_Result")


class Killed(BaseException):
    """The process of this thread is dead."""


class _Local(threading.local):
    baton: "Baton | None" = None


_LOCAL: Final = _Local()


class Baton:
    """One thread. `done` has what its function returns."""

    def __init__(self, loop: asyncio.AbstractEventLoop, call: Callable[[], Any]) -> None:
        self.done: Final[asyncio.Future[Any]] = loop.create_future()
        self._loop: Final = loop
        self._call: Final = call
        self._go: Final = threading.Semaphore(0)
        self._back: Final = threading.Semaphore(0)
        self._is_killed = False
        self._result: Any = None
        self._error: BaseException | None = None
        self._is_over = False
        self._thread = threading.Thread(target=self._run, name="simulated", daemon=True)
        self._thread.start()

    def is_over(self) -> bool:
        """Return whether the thread has ended."""
        return self._is_over

    def resume(self) -> None:
        """Let the thread go on, until it waits or ends. For the loop."""
        if self.is_over():
            return
        self._go.release()
        self._back.acquire()
        if self.is_over():
            self._thread.join()
            if not self._is_killed and not self.done.done():
                if self._error is not None:
                    self.done.set_exception(self._error)
                else:
                    self.done.set_result(self._result)

    def kill(self) -> None:
        """End the thread where it waits."""
        self._is_killed = True
        while not self.is_over():  # it may wait once more while it ends
            self.resume()

    def wait(self, future: "Future[Any]", timeout: float | None) -> None:
        """Return when the loop has done something, or that many seconds are over. For the thread."""
        waking: list[asyncio.Handle] = []

        def wake() -> None:
            if not waking:
                waking.append(self._loop.call_soon(self.resume))

        future.add_done_callback(lambda _: wake())
        timer = None if timeout is None else self._loop.call_later(timeout, wake)
        self._back.release()
        self._go.acquire()
        if self._is_killed:
            raise Killed
        if timer is not None:
            timer.cancel()

    def _run(self) -> None:
        self._go.acquire()
        asyncio._set_running_loop(self._loop)  # of this thread: whose process it is
        _LOCAL.baton = self
        try:
            if not self._is_killed:
                self._result = self._call()
        except BaseException as error:
            self._error = error
        self._is_over = True
        self._back.release()


class VirtualFuture(Future[_Result]):
    """What the loop does for a thread."""

    def result(self, timeout: float | None = None) -> _Result:
        baton = _LOCAL.baton
        if baton is not None and not self.done():
            baton.wait(self, timeout)
        return super().result(0)


class VirtualLoopThread:
    """`storage.store.owner.LoopThread`, whose loop is one of the process's. See there."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop: Final = loop
        self._begun: Final[dict[Future[Any], None]] = {}
        self._is_closed = False

    def run(self, coroutine: Coroutine[Any, Any, _Result]) -> _Result:
        """Run a coroutine, and wait for what it returns: from a thread."""
        return self.begin(coroutine).result()

    async def result_of(self, coroutine: Coroutine[Any, Any, _Result]) -> _Result:
        """Run a coroutine, and return what it returns."""
        return await asyncio.wrap_future(self.begin(coroutine))

    def begin(self, coroutine: Coroutine[Any, Any, _Result]) -> "Future[_Result]":
        """Have a coroutine run."""
        if self._is_closed:
            coroutine.close()
            raise CancelledError("the event loop is closed")
        future: VirtualFuture[_Result] = VirtualFuture()
        self._loop.call_soon(lambda: _chain_future(asyncio.ensure_future(coroutine, loop=self._loop), future))
        self._begun[future] = None
        future.add_done_callback(lambda done: self._begun.pop(done, None))
        return future

    def close(self) -> None:
        """End what runs."""
        self._is_closed = True
        for future in list(self._begun):
            future.cancel()
