"""What somebody does as time passes is supervised as what messages bring: a failure costs who it belongs to."""

from collections.abc import Callable

import pytest

from sluicegate.actors.messages.data import WAKE
from sluicegate.actors.runtime.clock import SystemClock
from sluicegate.actors.runtime.inbox import Dispatcher, Inbox
from sluicegate.actors.runtime.runtime import ActorCell, Runtime
from sluicegate.messaging.queues.pressure import Pressure, PressureLimits
from sluicegate.protocols.connection.counters import ProtocolCounters
from sluicegate.protocols.connection.write_control import WriteControl
from support.cores.lone_actors import Idle, spawned, spawned_partition
from support.network.full_socket import FullSocket


def unreachable() -> Inbox:
    """Return the address of a publisher that cannot be told anything."""

    def fail(_: Callable[[], None]) -> None:
        raise ValueError("there is no loop")

    return Inbox(Dispatcher(call_soon=fail, clock=SystemClock(), on_fatal=lambda _: None))


def stops(runtime: Runtime, cell: ActorCell) -> None:
    """Let time pass until the actor has stopped. The limit of every test is the limit of this one."""
    while cell.overview().state != "stopped":
        runtime.loop.call_later(0.001, runtime.loop.stop)  # type: ignore[attr-defined]  # of a real loop
        runtime.loop.run_forever()  # type: ignore[attr-defined]


@pytest.mark.timeout(10)
def test_a_connection_ends_that_cannot_let_its_publishers_go_on(runtime: Runtime) -> None:
    """It lets them go when its client reads nothing for a while. As it ends it lets the others go."""
    cell = spawned(runtime, Idle)
    watch = WriteControl(cell, ProtocolCounters(), buffer_bytes_max=1, slow_subscriber_stall_ms=1)
    watch.attach(FullSocket())
    watch.writing_paused()
    watch.pressure.wait(unreachable())
    stops(runtime, cell)


@pytest.mark.timeout(10)
def test_a_partition_has_failed_that_cannot_let_its_publishers_go_on(runtime: Runtime) -> None:
    """It lets them go when nothing was settled for a while."""
    pressure = Pressure(high_bytes=0, low_bytes=0)
    limits = PressureLimits(high_bytes=0, low_bytes=0, stall_ms=20)
    cell = spawned_partition(runtime, pressure=pressure, limits=limits)
    cell.inbox.post(WAKE)
    pressure.wait(unreachable())
    stops(runtime, cell)
