"""A node of its own in this process, on time that jumps: what runs in it runs the same way every time.

The event loop is asyncio's, but it never waits: when it has nothing to do, its clock advances to the next timer. The
store is real, without fsync, and is written on the loop. So nothing depends on the speed of the machine, and two runs
of the same load take the same steps.
"""

import asyncio
import random
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, final

from sluicegate.actors.messages.spool import ReadPage, ReloadPartition
from sluicegate.actors.runtime.clock import Clock
from sluicegate.actors.runtime.runtime import Runtime
from sluicegate.actors.spool.store_threads import (
    CommitDone,
    CommitFailed,
    PageReads,
    read_back,
    run_checkpoint,
    run_commit,
    store_has_room,
)
from sluicegate.gateway.config.load import load
from sluicegate.gateway.node.environment import Environment
from sluicegate.gateway.node.node import Node, open_store
from sluicegate.messaging.message.address import Address
from sluicegate.protocols.transport.loop.event_loop import SocketLoop
from sluicegate.protocols.transport.loop.selector import SocketSelector
from sluicegate.storage.interface import CheckpointJob, CommitJob, Store

_WALL_START_MS = 1_700_000_000_000
_NOT_OPENED = ("mqtt_websocket", "amqp", "flow", "http")


@final
class JumpingClock(Clock):
    """A clock that only the loop advances."""

    def __init__(self) -> None:
        self.at_ns = 0

    def now_ms(self) -> int:
        """Return milliseconds since the beginning."""
        return self.at_ns // 1_000_000

    def wall_ms(self) -> int:
        """Return milliseconds since the epoch; the clock began in 2023."""
        return _WALL_START_MS + self.at_ns // 1_000_000

    def now_ns(self) -> int:
        """Return nanoseconds since the beginning."""
        return self.at_ns


class _Jumps:
    """The selector of a loop: instead of waiting for sockets, it advances the clock."""

    def __init__(self, sockets: SocketSelector, clock: JumpingClock) -> None:
        self._sockets = sockets
        self._clock = clock

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sockets, name)

    def select(self, timeout: float | None = None) -> Any:
        assert timeout is not None, "somebody waits for what will never come"
        self._clock.at_ns += max(0, round(timeout * 1e9))
        return self._sockets.select(0)


class _JumpingLoop(SocketLoop):
    def __init__(self, clock: JumpingClock) -> None:
        super().__init__()
        self._selector = _Jumps(self.sockets, clock)  # asyncio's name for what it asks to look
        self._clock = clock

    def time(self) -> float:
        return self._clock.at_ns / 1e9


@final
class _StoreAtOnce:
    """The threads of the store, on the loop: a request is done when the call returns."""

    def __init__(self, store: Store, _: Runtime) -> None:
        self._store = store
        self._reads = PageReads(store)
        self._report_to: Address | None = None

    def commit_here(self, job: CommitJob) -> CommitDone | CommitFailed | None:
        return run_commit(self._store, job)

    def write(self, job: CommitJob, reply_to: Address) -> None:
        reply_to.post(run_commit(self._store, job))

    def checkpoint(self, job: CheckpointJob, reply_to: Address) -> None:
        reply_to.post(run_checkpoint(self._store, job))

    def reload(self, request: ReloadPartition, reply_to: Address) -> None:
        reply_to.post(read_back(self._store, request))

    def read(self, request: ReadPage) -> None:
        page, unread = self._reads.read(request)
        request.partition.post(page)
        if unread is not None and self._report_to is not None:
            self._report_to.post(unread)

    def report_reads(self, report_to: Address) -> None:
        self._report_to = report_to

    def has_room(self) -> bool:
        return store_has_room(self._store)

    def stop(self) -> None:
        pass


def run_on_jumping_time(main: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine to its end on a loop whose time jumps."""
    clock = JumpingClock()
    with asyncio.Runner(loop_factory=lambda: _JumpingLoop(clock)) as runner:
        runner.run(main)


async def start_node(folder: Path, settings: list[str]) -> Node:
    """Return a node on this loop, with an MQTT port that no other program uses."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, _JumpingLoop)
    fixed = [f"data.path={folder}", "spool.sync=false", "admin.enabled=false", "listeners.mqtt.port=0"]
    fixed += ["listeners.mqtt.max_connections=1000000"]  # some cases have more than a node takes unless it is told
    fixed += [f"listeners.{name}.enabled=false" for name in _NOT_OPENED]
    config = load(None, environment={}, settings=fixed + settings)
    node = Node(
        config,
        store=open_store(config),
        clock=loop._clock,
        rng=random.Random(1),
        environment=Environment(
            store_threads=_StoreAtOnce,
            process=lambda: None,
            turns=lambda: loop.call_soon,
            thread_calls=lambda: loop.call_soon_threadsafe,
            timers=lambda: loop.call_later,
            quiet=lambda: lambda: True,
        ),
    )
    await node.start()
    return node
