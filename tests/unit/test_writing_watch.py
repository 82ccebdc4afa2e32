"""What a client costs that now reads and now does not."""

import asyncio
import random

from actors.cell import ActorCell
from actors.clock import SystemClock
from actors.loop_actor import LoopActor
from actors.runtime import Runtime
from actors.supervision import ONE_CONNECTION
from protocols.counters import ProtocolCounters
from protocols.writing_watch import WritingWatch


class Idle(LoopActor):
    """Somebody who has a cell."""

    def on_receive(self, message: object) -> None:
        raise AssertionError(f"nobody sends {message!r}")


class Full:
    """A socket that takes nothing."""

    def write(self, data: bytes) -> None: ...
    def close(self) -> None: ...
    def close_after_flush(self) -> None: ...
    def abort(self) -> None: ...
    def pause_reading(self) -> None: ...
    def resume_reading(self) -> None: ...

    def buffered_bytes(self) -> int:
        return 1


class CountingLoop(asyncio.SelectorEventLoop):
    """Counts its timers."""

    timers_count = 0

    def call_later(self, *arguments: object, **options: object) -> asyncio.TimerHandle:
        self.timers_count += 1
        return super().call_later(*arguments, **options)  # type: ignore[arg-type]  # passed on as they are


def test_a_client_that_falls_behind_again_and_again_has_one_timer() -> None:
    """Each would have gone on for as long as it found the client behind."""
    loop = CountingLoop()
    runtime = Runtime(loop=loop, clock=SystemClock(), rng=random.Random(1), on_fatal=lambda _: None)
    cell: ActorCell = runtime.spawn(Idle, kind="test", name="slow", policy=ONE_CONNECTION)
    watch = WritingWatch(cell, ProtocolCounters(), buffer_bytes_max=1, slow_subscriber_stall_ms=1000)
    watch.attach(Full())
    for _ in range(100):
        watch.writing_paused()
        watch.writing_resumed()
    watch.writing_paused()
    assert loop.timers_count == 1
    runtime.stop()
    loop.close()
