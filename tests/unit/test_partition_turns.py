"""A partition whose consumer takes what it is handed within the partition's own turn."""

import asyncio
import random
from collections.abc import Iterator

import pytest

from actors.cell import ActorCell
from actors.clock import SystemClock
from actors.data_messages import Append, Deliveries
from actors.loop_actor import LoopActor
from actors.messages import Attach
from actors.parking_messages import DeliverAgain
from actors.partition import Partition
from actors.partition_actor import PartitionActor
from actors.runtime import Runtime
from actors.supervision import ONE_CONNECTION
from actors.waking import wake_waiters
from messaging.address import Address
from messaging.admission import QueueGate
from messaging.credit import CreditWindow
from messaging.flows import DeliveryRules, Flow
from messaging.ledger import Ledger
from messaging.memory import MemoryBudget
from messaging.pressure import Pressure, PressureLimits
from messaging.retention import RetainedLog, RetentionRules
from unit.cores.messages import numbered, window_of

ENDLESS = 1 << 40


class GivesBackAtOnce(LoopActor):
    """A consumer that holds nothing: what it gets counts for nothing any more before its turn is over."""

    def __init__(self, cell: ActorCell, window: CreditWindow[Address]) -> None:
        super().__init__(cell)
        self.got_count = 0
        self._window = window

    def on_receive(self, message: Deliveries) -> None:
        count = sum(each.stop_row - each.start_row for each in message.deliveries)
        self.got_count += count
        self._window.give(count)
        wake_waiters(self._window, self.cell.runtime.dispatcher)

    def on_drained(self) -> None:
        self.cell.inbox.takes_at_once = True


@pytest.fixture
def runtime() -> Iterator[Runtime]:
    loop = asyncio.new_event_loop()
    yield Runtime(loop=loop, clock=SystemClock(), rng=random.Random(1), on_fatal=lambda _: None)
    loop.close()


def turn(runtime: Runtime) -> None:
    """Let the loop run what it has been asked to."""
    runtime.loop.call_soon(runtime.loop.stop)  # type: ignore[attr-defined]  # of a real loop
    runtime.loop.run_forever()  # type: ignore[attr-defined]


def partition_of(runtime: Runtime, queue: Address) -> ActorCell:
    """Return a partition whose messages are never written."""
    gate = QueueGate(None, usage_bytes_max=ENDLESS, message_bytes_max=ENDLESS)
    ledger = Ledger(durable=False, rules=DeliveryRules())

    def made(cell: ActorCell) -> PartitionActor:
        partition = Partition(
            runtime,
            cell.inbox,
            ledger=ledger,
            log=RetainedLog(ledger, RetentionRules()),
            number=0,
            partition_id=1,
            queue=queue,
            queue_name="q",
            targets={},
            gate=gate,
            pressure=Pressure(high_bytes=ENDLESS, low_bytes=0),
            limits=PressureLimits(high_bytes=ENDLESS, low_bytes=0, stall_ms=1000),
            memory=MemoryBudget(bytes_max=ENDLESS),
            spool=None,
            reader=None,
            trace=None,
        )
        return PartitionActor(cell, partition)

    return runtime.spawn(made, kind="partition", name="0", policy=ONE_CONNECTION)


def test_a_partition_is_called_for_credit_that_comes_back_while_it_hands_over(runtime: Runtime) -> None:
    """It stands in line before anybody can give credit: else it would wait for what it has already been given."""
    window = window_of(1)
    consumer = runtime.spawn(
        lambda cell: GivesBackAtOnce(cell, window), kind="test", name="consumer", policy=ONE_CONNECTION
    )
    consumer.inbox.takes_at_once = True
    flow = Flow(flow_id=1, queue_name="q", client="c", address=consumer.inbox, window=window, bound_order=1)
    batch = numbered(3)
    partition = partition_of(runtime, consumer.inbox)
    partition.inbox.post(Attach(flow, 1))
    partition.actor._partition._gate.reserve(batch)
    partition.inbox.post(Append(batch, None, None))

    for _ in range(10):
        turn(runtime)
    assert consumer.actor.got_count == 3

    partition.inbox.post(DeliverAgain(1, 1, [(1, 4)]))
    for _ in range(10):
        turn(runtime)
    assert consumer.actor.got_count == 6
