"""Actors without a node: their runtime, its turns, an idle actor, a recording actor, and a partition."""

import asyncio
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from sluicegate.actors.partitions.actor import PartitionActor
from sluicegate.actors.partitions.partition import Partition
from sluicegate.actors.runtime.actor import LoopActor
from sluicegate.actors.runtime.clock import SystemClock
from sluicegate.actors.runtime.events import Events
from sluicegate.actors.runtime.inbox import Inbox
from sluicegate.actors.runtime.runtime import ActorCell, Behaviour, Runtime
from sluicegate.actors.runtime.supervision import ONE_CONNECTION
from sluicegate.messaging.bulk.retained_log import RetainedLog, RetentionRules
from sluicegate.messaging.observability.latency import LatencyHistogram
from sluicegate.messaging.partitions.ledger import Ledger
from sluicegate.messaging.partitions.paging import MemoryBudget
from sluicegate.messaging.partitions.state.flows import DeliveryRules
from sluicegate.messaging.queues.admission import QueueGate
from sluicegate.messaging.queues.pressure import Pressure, PressureLimits
from sluicegate.messaging.routing.queue_ways import QueueWays
from sluicegate.messaging.routing.routes import TopicSpace

ENDLESS = 1 << 40


class Idle(LoopActor):
    """An actor that gets no messages."""

    def on_receive(self, message: object) -> None:
        raise AssertionError(f"nobody sends {message!r}")


class Recorder(LoopActor):
    """Records the messages it gets, for actors whose answers a test checks."""

    def __init__(self, cell: ActorCell, heard: list[object]) -> None:
        super().__init__(cell)
        self.heard = heard

    def on_receive(self, message: object) -> None:
        self.heard.append(message)


@contextmanager
def lone_runtime(
    on_fatal: Callable[[BaseException], None] = lambda _: None, *, loop: asyncio.AbstractEventLoop | None = None
) -> Iterator[Runtime]:
    """Make a runtime on a loop of its own, or on this one, which is closed at the end."""
    loop = loop or asyncio.new_event_loop()
    yield Runtime(loop=loop, clock=SystemClock(), rng=random.Random(1), on_fatal=on_fatal)
    loop.close()


def turn(runtime: Runtime) -> None:
    """Let the loop run what it has been asked to."""
    runtime.loop.call_soon(runtime.loop.stop)  # type: ignore[attr-defined]  # of a real loop
    runtime.loop.run_forever()  # type: ignore[attr-defined]


def spawned(runtime: Runtime, actor: Callable[[ActorCell], LoopActor | Behaviour]) -> ActorCell:
    """Spawn an actor that stops when it fails."""
    return runtime.spawn(actor, kind="test", name="lone", policy=ONE_CONNECTION)


def recorder(runtime: Runtime, heard: list[object]) -> ActorCell:
    """Spawn an actor that records its messages in this list."""
    return spawned(runtime, lambda cell: Recorder(cell, heard))


def spawned_partition(
    runtime: Runtime,
    queue: Inbox | None = None,
    *,
    pressure: Pressure | None = None,
    limits: PressureLimits | None = None,
) -> ActorCell:
    """Spawn a partition whose messages are never written. By default it is its own queue, and never under pressure."""
    gate = QueueGate(None, usage_bytes_max=ENDLESS, message_bytes_max=ENDLESS)
    ledger = Ledger(durable=False, rules=DeliveryRules())

    def partition(cell: ActorCell) -> PartitionActor:
        made = Partition(
            runtime,
            cell.inbox,
            ledger=ledger,
            log=RetainedLog(ledger, RetentionRules()),
            number=0,
            partition_id=1,
            queue=queue or cell.inbox,
            queue_name="q",
            ways=QueueWays({}, TopicSpace(), frozenset),
            gate=gate,
            pressure=pressure or Pressure(high_bytes=ENDLESS, low_bytes=0),
            limits=limits or PressureLimits(high_bytes=ENDLESS, low_bytes=0, stall_ms=1000),
            memory=MemoryBudget(bytes_max=ENDLESS),
            spool=None,
            reader=None,
            trace=None,
            events=Events(runtime.clock),
            latencies=LatencyHistogram(),
        )
        return PartitionActor(cell, made)

    return spawned(runtime, partition)
