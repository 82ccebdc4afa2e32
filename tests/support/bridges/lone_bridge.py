"""A bridge without a node, whose remote does as the test says, and whose timers and clock are the test's."""

import asyncio
import random
import threading
from collections.abc import Callable
from typing import Any

from sluicegate.actors.publishing.publisher import Publisher
from sluicegate.actors.runtime.clock import Clock
from sluicegate.actors.runtime.runtime import Runtime
from sluicegate.messaging.message.address import Address
from sluicegate.messaging.queues.credit import CreditPool
from sluicegate.protocols.bridges.bridge import Bridge
from sluicegate.protocols.bridges.remote import Line, Opened, RemoteBroker, RemoteFailed
from sluicegate.protocols.bridges.rules import BridgeServices
from sluicegate.protocols.bridges.settings import BridgeSettings
from support.bridges.settings import settings
from support.cores.lone_actors import Idle, spawned

DEADLINE_S = 60


class StoppedClock(Clock):
    """A clock that stands still."""

    def now_ms(self) -> int:
        return 1

    def wall_ms(self) -> int:
        return 1

    def now_ns(self) -> int:
        return 1


class Timer:
    """A timer that the test lets expire."""

    def __init__(self, delay_s: float, callback: Callable[[], object]) -> None:
        self.delay_s = delay_s
        self.callback = callback
        self.is_cancelled = False

    def cancel(self) -> None:
        self.is_cancelled = True


class ScriptedRemote(RemoteBroker):
    """Connects at once, or fails for a reason, and serves nothing until it is closed or cut."""

    def __init__(self, settings: BridgeSettings, line: Line) -> None:
        super().__init__(settings, line)
        self.failure = ""  # why the next attempts to connect fail
        self.runs_count = 0
        self.forgets_count = 0
        self.ignores_close = False
        self.forget_fails: BaseException | None = None
        self.run_fails: BaseException | None = None
        self.cut = threading.Event()

    def run(self) -> None:
        self.runs_count += 1
        if self.run_fails is not None:
            raise self.run_fails
        if self.failure:
            raise RemoteFailed(self.failure)
        self.cut.clear()
        self.line.opened(Opened())
        self.line.flush()
        while not self.cut.wait(0.001):
            if self.line.work().is_closed and not self.ignores_close:
                return
        raise RemoteFailed("cut")

    def forget(self) -> None:
        self.forgets_count += 1
        if self.forget_fails is not None:
            raise self.forget_fails


class LoneBridge:
    """The bridge `b`, its remote, and the timers that it has set."""

    def __init__(self, loop: asyncio.AbstractEventLoop, **given: Any) -> None:
        self.timers: list[Timer] = []
        self.remote: ScriptedRemote
        self.fatal: list[BaseException] = []
        runtime = Runtime(
            loop=loop,
            clock=StoppedClock(),
            rng=random.Random(1),
            on_fatal=self.fatal.append,
            call_later=self._set_timer,
        )
        idle = spawned(runtime, Idle)
        credit: CreditPool[Address] = CreditPool(1000)
        services = BridgeServices(
            runtime,
            runtime.events,
            idle,
            idle,
            credit,
            publisher_at=self._publisher_at,
            place=lambda: "node/default",
        )
        self.bridge = Bridge(
            settings(**given),
            services,
            parent=idle,
            make_remote=self._make_remote,
            counters={},
            on_opened=lambda _: None,
        )

    def _publisher_at(self, address: Address) -> Publisher:
        raise AssertionError("the bridge of this test has no incoming rule")

    def _make_remote(self, settings: BridgeSettings, line: Line) -> RemoteBroker:
        self.remote = ScriptedRemote(settings, line)
        return self.remote

    def _set_timer(self, delay_s: float, callback: Callable[[], object]) -> Timer:
        timer = Timer(delay_s, callback)
        self.timers.append(timer)
        return timer

    def pending(self) -> list[Timer]:
        """Return the timers that run."""
        return [timer for timer in self.timers if not timer.is_cancelled]

    def expire(self) -> None:
        """Let all timers that run expire."""
        timers = self.pending()
        self.timers.clear()
        for timer in timers:
            timer.callback()

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until the bridge or its remote has come so far."""
        async with asyncio.timeout(DEADLINE_S):
            while not condition():
                await asyncio.sleep(0.001)
