"""What a client costs that now reads and now does not."""

import asyncio

from sluicegate.protocols.connection.counters import ProtocolCounters
from sluicegate.protocols.connection.write_control import WriteControl
from support.cores.lone_actors import Idle, lone_runtime, spawned
from support.network.full_socket import FullSocket


class CountingLoop(asyncio.SelectorEventLoop):
    """Counts its timers."""

    timers_count = 0

    def call_later(self, *arguments: object, **options: object) -> asyncio.TimerHandle:
        self.timers_count += 1
        return super().call_later(*arguments, **options)  # type: ignore[arg-type]  # passed on as they are


def test_a_client_that_falls_behind_again_and_again_has_one_timer() -> None:
    """Each would have gone on for as long as it found the client behind."""
    loop = CountingLoop()
    with lone_runtime(loop=loop) as runtime:
        cell = spawned(runtime, Idle)
        watch = WriteControl(cell, ProtocolCounters(), buffer_bytes_max=1, slow_subscriber_stall_ms=1000)
        watch.attach(FullSocket())
        for _ in range(100):
            watch.writing_paused()
            watch.writing_resumed()
        watch.writing_paused()
        assert loop.timers_count == 1
        runtime.stop()
