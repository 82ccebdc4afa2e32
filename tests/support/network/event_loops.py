"""The event loop that the gateway runs on, by each kind of poll, for tests of code that needs a real one."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeAlias

from sluicegate.protocols.transport.loop.event_loop import SocketLoop
from sluicegate.protocols.transport.loop.selector import SocketSelector

RunOnLoop: TypeAlias = Callable[[Coroutine[Any, Any, None]], None]
SCENARIO_S = 45  # a scenario that waits in vain ends with the place where it waits
LOOPS = {"epoll": SocketLoop, "poll": lambda: SocketLoop(SocketSelector(has_epoll=False))}


def run_on(kind: str, scenario: Coroutine[Any, Any, None]) -> None:
    """Run a scenario to its end on a fresh loop; a call of the loop's exception handler fails the test."""
    reported: list[dict[str, Any]] = []
    with asyncio.Runner(loop_factory=LOOPS[kind]) as runner:
        runner.get_loop().set_exception_handler(lambda _, context: reported.append(context))
        runner.run(asyncio.wait_for(scenario, SCENARIO_S))
    assert reported == []


class ForwardLoop(asyncio.SelectorEventLoop):
    """An event loop whose time a test moves forward."""

    ahead_ms = 0

    def time(self) -> float:
        """Return the time of timers, in seconds."""
        return super().time() + self.ahead_ms / 1000
