"""Dead messages on their way to the dead message queue, when that fails over a mistake of the gateway."""

import asyncio
import random
from collections.abc import Iterator

import pytest

from actors.burying import BuryingAgain, bury
from actors.clock import Clock
from actors.data_messages import Append
from actors.errands import ErrandPlace
from actors.runtime import Runtime
from lone_actors import Idle, spawned
from messaging.admission import QueueGate
from messaging.flows import DeliveryRules
from messaging.ledger import Ledger
from messaging.pressure import Pressure
from messaging.routing import PartitionTarget, QueueTarget
from messaging.settlement import REJECTED
from unit.cores.messages import flow_of, numbered

ENDLESS = 1 << 40
DMQ = "dmq"


class FailingClock(Clock):
    """Nobody can have the time, once it was told to fail, the next so many times."""

    def __init__(self) -> None:
        self.failures_left = 0

    def now_ms(self) -> int:
        return 0

    def wall_ms(self) -> int:
        if self.failures_left:
            self.failures_left -= 1
            raise ValueError("a mistake")
        return 1


def endless_gate() -> QueueGate:
    return QueueGate(None, usage_bytes_max=ENDLESS, message_bytes_max=ENDLESS)


class Graveyard:
    """A partition of which a consumer has six messages, and its dead message queue."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.clock = FailingClock()
        runtime = Runtime(loop=loop, clock=self.clock, rng=random.Random(1), on_fatal=lambda _: None)
        self.arrived = spawned(runtime, Idle).inbox
        self.ledger = Ledger(durable=True, rules=DeliveryRules(dead_msg_queue=DMQ))
        self.ledger.attach(flow_of(1), 1)
        self.ledger.append(numbered(6), None)
        self.ledger.deliver(0)
        target = QueueTarget(DMQ, endless_gate(), Pressure(high_bytes=ENDLESS, low_bytes=0), durable=True)
        target.partitions.append(PartitionTarget(2, self.arrived))
        self.place = ErrandPlace(
            runtime,
            spawned(runtime, Idle).inbox,
            ledger=self.ledger,
            queue_name="q",
            number=0,
            partition_id=1,
            gate=endless_gate(),
            reader=None,
            targets={DMQ: target},
            trace=None,
        )

    def bury(self) -> list[bytes]:
        """Do what a partition does at the end of its turn; return what has come to the dead message queue by then."""
        bury(self.place)
        appends = [each for each in self.arrived.items if isinstance(each, Append)]
        return sorted([payload for each in appends for payload in each.batch.payloads()])


@pytest.fixture
def graveyard() -> Iterator[Graveyard]:
    """Return one on a loop that does not run."""
    loop = asyncio.new_event_loop()
    yield Graveyard(loop)
    loop.close()


def test_dead_messages_whose_move_fails_hold_up_no_others_and_are_moved_later(graveyard: Graveyard) -> None:
    graveyard.ledger.settle(1, 1, 3, REJECTED)
    graveyard.ledger.settle(1, 5, 7, REJECTED)
    graveyard.clock.failures_left = 1
    assert graveyard.bury() == [b"5", b"6"]
    assert graveyard.place.burying_count == 4, "those that failed are tried again"

    for errand in list(graveyard.place.under_way.values()):
        if isinstance(errand, BuryingAgain):
            errand.take(None)  # its time has come
    assert graveyard.bury() == [b"1", b"2", b"5", b"6"]
    graveyard.ledger.check()
