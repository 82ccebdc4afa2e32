"""When a partition handles what is published: at once where nothing waits, and not before a transaction is complete."""

import random

import pytest

from actors.cell import ActorCell
from actors.data_messages import Append
from actors.loop_actor import LoopActor
from actors.publishing import Publisher
from actors.runtime import Runtime
from lone_actors import spawned, turn
from messaging.admission import QueueGate
from messaging.batch import AT_LEAST_ONCE, MessageBatch
from messaging.pressure import Pressure
from messaging.routing import PartitionTarget, QueueTarget, Subscriber, Subscription, TopicSpace
from messaging.topics import Syntax, parse_filter


class Recorder(LoopActor):
    """A partition, or whoever else is told of a message."""

    def __init__(self, cell: ActorCell, got: list[object]) -> None:
        super().__init__(cell)
        self.got = got

    def on_receive(self, message: object) -> None:
        self.got.append(message)


@pytest.mark.parametrize(("in_transaction", "handled_at_once"), [(False, 1), (True, 0)])
def test_what_a_transaction_publishes_is_handled_when_its_settlements_are_with_it(
    runtime: Runtime, in_transaction: bool, handled_at_once: int
) -> None:
    """They are put to the publication behind the publish. A consumer that was faster would have it confirmed twice."""
    got: list[object] = []

    def spawn() -> ActorCell:
        return spawned(runtime, lambda cell: Recorder(cell, got))

    partition = spawn()
    partition.inbox.takes_at_once = True
    gate = QueueGate(None, usage_bytes_max=1 << 20, message_bytes_max=1 << 20)
    target = QueueTarget("q", gate, Pressure(high_bytes=1 << 20, low_bytes=0), durable=True)
    target.partitions.append(PartitionTarget(1, partition.inbox))
    space, subscriber = TopicSpace(), Subscriber("c")
    subscriber.queue = target
    space.subscribe(parse_filter("t", Syntax.MQTT), "c", Subscription(subscriber, AT_LEAST_ONCE))
    publisher = Publisher(
        space=space, spool=spawn().inbox, address=spawn().inbox, rng=random.Random(1), in_transaction=in_transaction
    )

    result = publisher.publish(
        MessageBatch(
            topic="t",
            topics=None,
            payloads=[b"m"],
            headers=None,
            qos=AT_LEAST_ONCE,
            retain=False,
            publisher="p",
            received_ms=0,
            payload_bytes=1,
        ),
        1,
    )

    assert result.publication is not None
    assert len(got) == handled_at_once
    turn(runtime)
    assert [type(message) for message in got] == [Append]
