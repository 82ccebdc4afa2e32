"""When a partition handles what is published: at once where nothing waits, and not before a transaction is complete."""

import random

import pytest

from sluicegate.actors.messages.data import Append
from sluicegate.actors.publishing.publisher import Publisher
from sluicegate.actors.runtime.runtime import Runtime
from sluicegate.messaging.message.batch import AT_LEAST_ONCE, AT_MOST_ONCE, EXACTLY_ONCE, MessageBatch
from sluicegate.messaging.message.refusals import ADMITTED, REJECT_NEVER, REJECT_WHEN_ENABLED
from sluicegate.messaging.queues.admission import QueueGate
from sluicegate.messaging.queues.pressure import Pressure
from sluicegate.messaging.routing.destinations import PartitionTarget, QueueTarget, ShareGroup, Subscriber, Subscription
from sluicegate.messaging.routing.routes import TopicSpace
from sluicegate.messaging.routing.virtual.definitions import (
    QUEUE,
    TOPIC,
    CompositeDestination,
    ForwardTarget,
    VirtualDestinations,
)
from sluicegate.messaging.routing.virtual.names import NamePattern
from sluicegate.messaging.routing.virtual.resolver import VirtualRoutes
from sluicegate.messaging.selectors.selector import Selectors
from sluicegate.messaging.topics.syntax import Syntax, parse_filter
from support.cores.lone_actors import recorder, turn


def publisher_on(runtime: Runtime, space: TopicSpace, *, in_transaction: bool) -> Publisher:
    nobody = recorder(runtime, []).inbox
    return Publisher(space=space, spool=nobody, address=nobody, rng=random.Random(1), in_transaction=in_transaction)


def message(qos: int, *, retain: bool = False, topics: list[str] | None = None, payload: bytes = b"m") -> MessageBatch:
    """Return a message on `t`, or one on each of `topics`."""
    count = 1 if topics is None else len(topics)
    return MessageBatch(
        topic="t",
        topics=topics,
        payloads=[payload] * count,
        headers=None,
        qos=qos,
        retain=retain,
        publisher="p",
        received_ms=0,
        payload_bytes=count,
    )


def queue_for(
    runtime: Runtime,
    space: TopicSpace,
    got: list[object],
    *,
    name: str = "q",
    message_bytes_max: int = 1 << 20,
    reject_behavior: int = REJECT_WHEN_ENABLED,
) -> QueueTarget:
    """Have a durable queue of one partition collect what is published on `t`."""
    partition = recorder(runtime, got)
    partition.inbox.accepts_inline = True
    gate = QueueGate(
        None, usage_bytes_max=1 << 20, message_bytes_max=message_bytes_max, reject_behavior=reject_behavior
    )
    target = QueueTarget(name, gate, Pressure(high_bytes=1 << 20, low_bytes=0), durable=True)
    target.partitions.append(PartitionTarget(1, partition.inbox))
    subscriber = Subscriber(name)
    subscriber.queue = target
    space.subscribe(parse_filter("t", Syntax.MQTT), name, Subscription(subscriber, AT_LEAST_ONCE))
    return target


@pytest.mark.parametrize(("in_transaction", "handled_at_once"), [(False, 1), (True, 0)])
def test_publishes_of_a_transaction_are_handled_together_with_its_settlements(
    runtime: Runtime, in_transaction: bool, handled_at_once: int
) -> None:
    """They are put to the publication behind the publish. A consumer that was faster would have it confirmed twice."""
    got: list[object] = []
    space = TopicSpace()
    queue_for(runtime, space, got)

    result = publisher_on(runtime, space, in_transaction=in_transaction).publish(message(AT_LEAST_ONCE), 1)

    assert result.publication is not None
    assert len(got) == handled_at_once
    turn(runtime)
    assert [type(each) for each in got] == [Append]


@pytest.mark.parametrize(
    ("receivers", "in_transaction", "handled_at_once"), [(1, False, 1), (2, False, 0), (1, True, 0)]
)
def test_a_direct_message_is_handled_at_once_by_its_only_receiver(
    runtime: Runtime, receivers: int, in_transaction: bool, handled_at_once: int
) -> None:
    """Thousands of receivers would hold up every socket if they were served within the publisher's read."""
    got: list[object] = []
    space = TopicSpace()
    for number in range(receivers):
        receiver, subscriber = recorder(runtime, got), Subscriber(f"c{number}")
        receiver.inbox.accepts_inline = True
        subscriber.address = receiver.inbox
        space.subscribe(parse_filter("t", Syntax.MQTT), subscriber.client, Subscription(subscriber, AT_MOST_ONCE))

    publisher_on(runtime, space, in_transaction=in_transaction).publish(message(AT_MOST_ONCE), 0)

    assert len(got) == handled_at_once
    turn(runtime)
    assert len(got) == receivers


@pytest.mark.parametrize(("message_bytes_max", "kept"), [(1 << 20, 1), (0, 0)])
def test_a_message_is_retained_only_if_it_is_taken(runtime: Runtime, message_bytes_max: int, kept: int) -> None:
    """Its publisher hears that it was refused, and publishes it once more or not at all."""
    space = TopicSpace()
    queue_for(runtime, space, [], message_bytes_max=message_bytes_max)

    result = publisher_on(runtime, space, in_transaction=False).publish(message(AT_LEAST_ONCE, retain=True), 1)

    assert (result.refusal == ADMITTED) == bool(kept)
    assert space.retained.count == kept


@pytest.mark.parametrize(("topics", "is_routed", "unmatched"), [(["x", "y"], False, 2), (["t", "y"], True, 1)])
def test_messages_on_several_topics_are_routed_if_anybody_is_there_for_one(
    runtime: Runtime, topics: list[str], is_routed: bool, unmatched: int
) -> None:
    space = TopicSpace()
    queue_for(runtime, space, [])

    result = publisher_on(runtime, space, in_transaction=False).publish(message(AT_LEAST_ONCE, topics=topics), 1)

    assert result.routed == is_routed
    assert space.unmatched_count == unmatched


def test_messages_without_subscribers_are_counted_once_when_a_queue_refuses_those_beside_them(runtime: Runtime) -> None:
    """A batch is refused as a whole, and then published message by message."""
    space = TopicSpace()
    queue_for(runtime, space, [], message_bytes_max=0)
    publisher = publisher_on(runtime, space, in_transaction=False)

    batch = message(AT_LEAST_ONCE, topics=["t", "y"])
    assert publisher.publish(batch, 1).refusal != ADMITTED
    assert space.unmatched_count == 0
    results = [publisher.publish(batch.select([row]), 1) for row in (0, 1)]

    assert [result.refusal == ADMITTED for result in results] == [False, True]
    assert space.unmatched_count == 1


def publish_until_answered(publisher: Publisher, batch: MessageBatch) -> None:
    """Publish as the protocols do: what is refused as a whole is published again message by message."""
    if publisher.publish(batch, 1).refusal != ADMITTED:
        for row in range(batch.count):
            publisher.publish(batch.select([row]), 1)


@pytest.mark.parametrize("name_of_dropping", ["a", "z"])
def test_each_message_that_queues_do_not_take_is_counted_once(runtime: Runtime, name_of_dropping: str) -> None:
    """Also when it is the only one of its batch for that queue, and whichever queue is asked first."""
    space = TopicSpace()
    targets = {
        name: queue_for(runtime, space, [], name=name, message_bytes_max=0, reject_behavior=reject_behavior)
        for name, reject_behavior in sorted({"m": REJECT_WHEN_ENABLED, name_of_dropping: REJECT_NEVER}.items())
    }

    publisher = publisher_on(runtime, space, in_transaction=False)
    publish_until_answered(publisher, message(AT_LEAST_ONCE, topics=["t", "y"]))

    assert sum(targets["m"].gate.refusals.values()) == 1
    assert sum(targets[name_of_dropping].gate.drops.values()) == 1


def test_direct_messages_are_counted_that_the_queue_of_a_share_does_not_take(runtime: Runtime) -> None:
    """Nobody hears of it, whatever the queue does with refusals."""
    space = TopicSpace()
    group = ShareGroup("g", "d")
    group.queue = queue_for(runtime, space, [], message_bytes_max=0)
    member = Subscriber("m")
    member.address = recorder(runtime, []).inbox
    group.join(member)
    group.queue_members["m"] = None
    space.subscribe(parse_filter("d", Syntax.MQTT), group, group)

    publisher_on(runtime, space, in_transaction=False).publish(message(AT_MOST_ONCE, topics=["d", "d"]), 0)

    assert sum(group.queue.gate.drops.values()) == 2


def test_messages_that_definitions_send_nowhere_are_counted_once_when_a_queue_refuses_others(
    runtime: Runtime,
) -> None:
    space = TopicSpace()
    selects_nothing = ForwardTarget(QUEUE, "q", "1 = 2")
    copied = CompositeDestination((), TOPIC, NamePattern("copied"), (ForwardTarget(TOPIC, "nobody"),))
    filtered = CompositeDestination((), TOPIC, NamePattern("filtered"), (selects_nothing,))
    definitions = VirtualDestinations((), (copied, filtered))
    space.expand_with(VirtualRoutes(space, definitions, Selectors({})))
    queue_for(runtime, space, [], message_bytes_max=0)

    publisher = publisher_on(runtime, space, in_transaction=False)
    publish_until_answered(publisher, message(AT_LEAST_ONCE, topics=["t", "copied", "filtered"]))

    assert (space.unmatched_count, space.filtered_count) == (1, 1)


def test_one_message_is_counted_that_a_queue_would_have_got_as_several_copies(runtime: Runtime) -> None:
    """What came as itself and as a copy is published once, and so never again one by one."""
    space = TopicSpace()
    tapped = CompositeDestination((), TOPIC, NamePattern("x"), (ForwardTarget(TOPIC, "t"),), forward_only=False)
    space.expand_with(VirtualRoutes(space, VirtualDestinations((), (tapped,)), Selectors({})))
    target = queue_for(runtime, space, [], message_bytes_max=0)
    assert target.gate.refusals == {}
    subscriber = Subscriber("both")
    subscriber.queue = target
    space.subscribe(parse_filter("#", Syntax.MQTT), "both", Subscription(subscriber, AT_LEAST_ONCE))

    publisher = publisher_on(runtime, space, in_transaction=False)
    result = publisher.publish(message(AT_LEAST_ONCE, topics=["x"]), 1)

    assert result.refusal != ADMITTED
    assert sum(target.gate.refusals.values()) == 2


def test_a_guaranteed_deletion_waits_for_the_store_though_nothing_is_retained(runtime: Runtime) -> None:
    """What was retained may be gone here and not yet there: a crash would bring it back after the confirmation."""
    publisher = publisher_on(runtime, TopicSpace(), in_transaction=False)

    assert publisher.publish(message(AT_LEAST_ONCE, retain=True, payload=b""), 1).confirmations_pending == 1


def test_copies_that_definitions_make_are_in_the_store_too_when_a_message_that_comes_again_is_confirmed(
    runtime: Runtime,
) -> None:
    space = TopicSpace()
    copied = CompositeDestination((), TOPIC, NamePattern("t"), (ForwardTarget(TOPIC, "u"),))
    space.expand_with(VirtualRoutes(space, VirtualDestinations((), (copied,)), Selectors({})))
    publisher = publisher_on(runtime, space, in_transaction=False)
    first = message(EXACTLY_ONCE, retain=True)
    publisher.publish(first, 1)

    assert publisher.retain_again(first, 2) == 2
    assert all(space.retained.get(topic) is not None for topic in ("t", "u"))


@pytest.mark.parametrize("newer", [b"newer", b""])
def test_newer_retained_messages_stay_when_an_older_publish_is_repeated(runtime: Runtime, newer: bytes) -> None:
    """[MQTT 3.3.1-5]: a repetition at QoS 2 is no new message, however late its publisher is back."""
    space = TopicSpace()
    publisher = publisher_on(runtime, space, in_transaction=False)
    first = message(EXACTLY_ONCE, retain=True)
    publisher.publish(first, 1)
    publisher.publish(message(AT_LEAST_ONCE, retain=True, payload=newer), 2)

    assert publisher.retain_again(first, 3) == 1
    retained = space.retained.get("t")
    assert (b"" if retained is None else retained.batch.payloads()[0]) == newer
