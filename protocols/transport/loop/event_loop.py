"""The gateway's event loop: asyncio's own, with the selector of `protocols.transport.loop.selector`."""

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from contextvars import Context
from typing import Any, TypeVar, TypeVarTuple, cast

from sluicegate.protocols.transport.loop.selector import SocketSelector
from sluicegate.protocols.transport.loop.timers import Timer

R = TypeVar("R")
Args = TypeVarTuple("Args")


class SocketLoop(asyncio.SelectorEventLoop):
    """asyncio's loop. `sockets` are those that are read and written past asyncio."""

    def __init__(self, sockets: SocketSelector | None = None) -> None:
        """Make a loop, which does not run yet."""
        self.sockets = SocketSelector() if sockets is None else sockets
        super().__init__(cast(selectors.BaseSelector, self.sockets))  # it is compiled, and so of no class of others
        # asyncio's own name: without it each poll returns to asyncio, which costs time and nothing else.
        self.sockets.stay_unless(getattr(self, "_ready", None))

    def call_at(
        self, when: float, callback: Callable[[*Args], object], *args: *Args, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """Call back at a time: the poll under way waits for it as well."""
        self.sockets.tell_loop()
        return super().call_at(when, callback, *args, context=context)

    def stop(self) -> None:
        """Stop after the poll under way."""
        self.sockets.tell_loop()
        super().stop()


def run(main: Coroutine[Any, Any, R]) -> R:
    """Run a coroutine to its end on a loop of its own, as `asyncio.run` does."""
    with asyncio.Runner(loop_factory=SocketLoop) as runner:
        return runner.run(main)


def running_sockets() -> SocketSelector:
    """Return the sockets of the running loop. Raises TypeError on another kind of loop."""
    loop = asyncio.get_running_loop()
    if not isinstance(loop, SocketLoop):
        raise TypeError(f"the gateway's ports need a SocketLoop, and this is a {type(loop).__name__}")
    return loop.sockets


def thread_calls_of_sockets() -> Callable[[Callable[[Any], object], object], None]:
    """Return what other threads call the running loop by. Raises TypeError as well."""
    return running_sockets().call_from_thread


def turns_of_sockets() -> Callable[[Callable[[], None]], None]:
    """Return the selector of the running loop. Raises TypeError as well."""
    return running_sockets().call_soon


def timers_of_sockets() -> Callable[[float, Callable[[], object]], Timer]:
    """Return what sets timers on the running loop, after a delay in seconds. Raises TypeError as well."""
    return running_sockets().call_later


def quiet_of_sockets() -> Callable[[], bool]:
    """Return what says whether nobody else waits for the running loop. Raises TypeError as well."""
    return running_sockets().is_quiet
