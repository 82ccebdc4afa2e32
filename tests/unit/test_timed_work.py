"""What somebody does as time passes is supervised as what messages bring: a failure costs who it belongs to."""

import asyncio
import random
from collections.abc import Callable, Iterator

import pytest

from actors.cell import ActorCell
from actors.clock import SystemClock
from actors.data_messages import WAKE
from actors.inbox import Dispatcher, Inbox, Scheduled
from actors.loop_actor import LoopActor
from actors.partition import Partition
from actors.partition_actor import PartitionActor
from actors.runtime import Runtime
from actors.supervision import ONE_CONNECTION
from messaging.admission import QueueGate
from messaging.flows import DeliveryRules
from messaging.ledger import Ledger
from messaging.memory import MemoryBudget
from messaging.pressure import Pressure, PressureLimits
from messaging.retention import RetainedLog, RetentionRules
from protocols.counters import ProtocolCounters
from protocols.writing_watch import WritingWatch

ENDLESS = 1 << 40


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


def unreachable() -> Inbox:
    """Return the address of a publisher that cannot be told anything."""

    def fail(_: Callable[[], None]) -> None:
        raise ValueError("there is no loop")

    return Inbox(Dispatcher(call_soon=fail, clock=SystemClock(), on_fatal=lambda _: None), Scheduled())


@pytest.fixture
def runtime() -> Iterator[Runtime]:
    loop = asyncio.new_event_loop()
    yield Runtime(loop=loop, clock=SystemClock(), rng=random.Random(1), on_fatal=lambda _: None)
    loop.close()


def spawned(runtime: Runtime, actor: Callable[[ActorCell], LoopActor]) -> ActorCell:
    return runtime.spawn(actor, kind="test", name="timed", policy=ONE_CONNECTION)


def stops(runtime: Runtime, cell: ActorCell) -> None:
    """Let time pass until the actor has stopped. The limit of every test is the limit of this one."""
    while cell.overview().state != "stopped":
        runtime.loop.call_later(0.001, runtime.loop.stop)  # type: ignore[attr-defined]  # of a real loop
        runtime.loop.run_forever()  # type: ignore[attr-defined]


@pytest.mark.timeout(10)
def test_a_connection_ends_that_cannot_let_its_publishers_go_on(runtime: Runtime) -> None:
    """It lets them go when its client reads nothing for a while. As it ends it lets the others go."""
    cell = spawned(runtime, Idle)
    watch = WritingWatch(cell, ProtocolCounters(), buffer_bytes_max=1, slow_subscriber_stall_ms=1)
    watch.attach(Full())
    watch.writing_paused()
    watch.pressure.wait(unreachable())
    stops(runtime, cell)


@pytest.mark.timeout(10)
def test_a_partition_has_failed_that_cannot_let_its_publishers_go_on(runtime: Runtime) -> None:
    """It lets them go when nothing was settled for a while."""
    gate = QueueGate(None, usage_bytes_max=ENDLESS, message_bytes_max=ENDLESS)
    ledger = Ledger(durable=False, rules=DeliveryRules())
    pressure = Pressure(high_bytes=0, low_bytes=0)

    def partition(cell: ActorCell) -> PartitionActor:
        made = Partition(
            runtime,
            cell.inbox,
            ledger=ledger,
            log=RetainedLog(ledger, RetentionRules()),
            number=0,
            partition_id=1,
            queue=cell.inbox,
            queue_name="q",
            targets={},
            gate=gate,
            pressure=pressure,
            limits=PressureLimits(high_bytes=0, low_bytes=0, stall_ms=20),
            memory=MemoryBudget(bytes_max=ENDLESS),
            spool=None,
            reader=None,
            trace=None,
        )
        return PartitionActor(cell, made)

    cell = spawned(runtime, partition)
    cell.inbox.post(WAKE)
    pressure.wait(unreachable())
    stops(runtime, cell)
