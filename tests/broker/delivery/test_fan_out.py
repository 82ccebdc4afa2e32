"""A publish to several queues of which some refuse: all or nothing, and the other ways.

See docs/concepts/virtual-destinations.md.

The numbers VD-nn are those of tests/data/virtual/cases.txt.
"""

import asyncio

import pytest

from sluicegate.gateway.operations.node import NodeOperations
from support.amqp.client import AmqpClients, body, in_transaction
from support.broker.named_queues import change, create, shows
from support.broker.running_broker import RunningBroker
from support.broker.virtual_clients import consumer, depth, publish, redefine, subscriber

KB_100 = bytes(100_000)
TOPIC = "VirtualTopic.O"
ACCEPTED, REJECTED = 0x24, 0x25


def queue(name: str) -> str:
    return f"Consumer.{name}.VirtualTopic.O"


async def full_and_free(broker: RunningBroker) -> None:
    """Two queues, of which the first takes a megabyte."""
    await create(broker, queue("Full"), max_msg_spool_usage=1)
    await create(broker, queue("Ok"))


async def refusal(amqp: AmqpClients, address: str = f"topic://{TOPIC}", payload: str = "m") -> str:
    """Send a message that is refused; return what is said of it."""
    client = await amqp.connect()
    await client.sender("out", address, handle=0)
    outcome = await client.outcome(client.transfer(0, body(payload)))
    assert outcome.code == REJECTED
    assert outcome.error is not None
    return outcome.error.description


@pytest.mark.parametrize("setting", ["virtual_topics=[{drop_on_resource_limit: true}]", "fan_out=best-effort"])
async def test_a_full_queue_goes_without_and_the_others_get_all(setting: str, broker: RunningBroker) -> None:
    """VD-28: the publisher sees no error, and the queue counts what it did not take."""
    await redefine(broker, f"virtual_destinations.{setting}")
    await full_and_free(broker)
    assert await publish(broker, TOPIC, *[KB_100] * 20) == [0] * 20
    assert (await depth(broker, queue("Full")), await depth(broker, queue("Ok"))) == (10, 20)
    dropped = [
        each.value
        for each in await NodeOperations(broker.node).metrics_snapshot()
        if each.name == "sluicegate_messages_dropped_total" and "endpoint_usage_exceeded" in each.labels
    ]
    assert sum(dropped) == 10


async def test_a_full_queue_refuses_for_all(broker: RunningBroker) -> None:
    """VD-29, ours: nobody has what is refused, not even plain subscribers."""
    await full_and_free(broker)
    plain = await subscriber(broker, TOPIC, qos=0)
    assert await publish(broker, TOPIC, *[KB_100] * 12) == [0] * 10 + [0x97] * 2
    assert (await depth(broker, queue("Full")), await depth(broker, queue("Ok"))) == (10, 10)
    assert len(await plain.messages(10)) == 10
    await plain.is_quiet()


async def test_a_refusal_names_each_queue_and_its_reason(broker: RunningBroker, amqp: AmqpClients) -> None:
    """Decision 25.1 of the reference: nack with the reasons of all targets."""
    await create(broker, queue("Small"), max_msg_size=1)
    await create(broker, queue("Shut"), reject_msg_to_sender_on_discard_behavior="always", ingress_enabled=False)
    await create(broker, queue("Ok"))
    said = await refusal(amqp, payload="long")
    assert "400 Document Is Too Large: the message is larger than the queue takes, at most 1 bytes" in said
    assert "503 Queue Shutdown: the queue's ingress is shut down (Consumer.Shut.VirtualTopic.O)" in said
    assert await depth(broker, queue("Ok")) == 0


@pytest.mark.parametrize(
    ("options", "kept"), [("", [1, 0]), ("concurrent_send: true", [1, 1]), ("transacted_send: true", [0, 0])]
)
async def test_as_activemq_the_targets_before_a_refusal_keep_the_message(
    options: str, kept: list[int], broker: RunningBroker, amqp: AmqpClients
) -> None:
    """VD-29 and VD-50 under fan_out activemq."""
    await redefine(
        broker,
        "virtual_destinations.fan_out=activemq",
        f"virtual_destinations.virtual_topics=[{{name: VirtualTopic.>, {options}}}]",
    )
    for name in ("1", "2", "3"):
        await create(broker, queue(name))
    await change(broker, queue("2"), max_msg_size=1)
    assert "400 Document Is Too Large" in await refusal(amqp, payload="long")
    assert [await depth(broker, queue(name)) for name in ("1", "3")] == kept


@pytest.mark.settings(
    "virtual_destinations.composite_queues=[{name: C, forward_to: [{queue: Full}, {queue: Ok2}]}]",
)
async def test_a_composites_target_that_refuses_refuses_for_all(broker: RunningBroker, amqp: AmqpClients) -> None:
    """VD-50, ours."""
    await change(broker, "Full", max_msg_size=1)
    assert (await refusal(amqp, "queue://C", "long")).startswith("400 Document Is Too Large")
    assert await depth(broker, "Ok2") == 0


@pytest.mark.settings(
    "virtual_destinations.composite_topics=[{name: T, forward_to: [{queue: Gone}, {queue: Ok2}]}]",
)
async def test_a_target_that_was_deleted_refuses_by_its_name(broker: RunningBroker, amqp: AmqpClients) -> None:
    await NodeOperations(broker.node).delete_queue("Gone")
    assert await refusal(amqp, "topic://T") == "400 Queue Not Found: there is no such queue"
    assert await publish(broker, "T", b"m") == [0x83], "nobody has it, and that is no success"
    assert (await depth(broker, "Ok2"), broker.node.default.space.missing_count) == (0, 2)
    await redefine(
        broker,
        "virtual_destinations.composite_topics=[{name: T, forward_to: [{queue: Gone}, {queue: Ok2}]}]",
    )
    assert await publish(broker, "T", b"m") == [0]
    assert await depth(broker, "Gone") == 1  # made again, for the definition names it


@pytest.mark.settings(
    "virtual_destinations.composite_topics=[{name: T, forward_to: [{queue: Gone}, {topic: other}]}]",
)
async def test_a_target_that_was_deleted_refuses_for_the_one_queue_of_another_target(broker: RunningBroker) -> None:
    """What is refused would be stored there, and be stored again each time that its publisher tries again."""
    await create(broker, "Ok2", subscriptions=["other"])
    await NodeOperations(broker.node).delete_queue("Gone")
    assert await publish(broker, "T", b"m") == [0x83]
    assert await depth(broker, "Ok2") == 0


async def test_a_transaction_fills_all_queues_or_none(broker: RunningBroker, amqp: AmqpClients) -> None:
    """VD-31."""
    for name in ("A", "B"):
        await create(broker, queue(name))
    client = await amqp.connect()
    await client.coordinator(0)
    await client.sender("out", f"topic://{TOPIC}", handle=1)
    for fail, count in ((True, 0), (False, 1)):
        txn = await client.declare(0)
        client.transfer(1, body("m"), state=in_transaction(txn, None))
        await client.discharge(0, txn, fail=fail)
        assert [await depth(broker, queue(name)) for name in ("A", "B")] == [count, count]


async def test_temporary_and_durable_queues_take_part_in_one_fan_out(broker: RunningBroker) -> None:
    """VD-32: two kinds of stores, no mixed failure."""
    view = NodeOperations(broker.node)
    await view.create_queue({"name": queue("Memory")}, durable=False)
    await create(broker, queue("Disk"), access_type="non-exclusive", partition_count=3)
    assert await publish(broker, TOPIC, b"m") == [0]
    assert [await depth(broker, queue(name)) for name in ("Memory", "Disk")] == [1, 1]


async def test_queues_that_are_deleted_while_messages_come_do_not_come_back(broker: RunningBroker) -> None:
    """VD-30."""
    names = [queue(str(number)) for number in range(10)]
    for name in names:
        await create(broker, name)
    publishing = asyncio.ensure_future(publish(broker, TOPIC, *[b"m"] * 400))
    for name in names:
        await NodeOperations(broker.node).delete_queue(name)
    assert set(await publishing) <= {0, 0x10}
    assert await NodeOperations(broker.node).list_queues() == []
    await broker.restart()
    assert await NodeOperations(broker.node).list_queues() == []


@pytest.mark.settings("virtual_destinations.virtual_topics=[{local: true}]")
async def test_messages_from_a_bridge_are_not_fanned_out_again(broker: RunningBroker) -> None:
    """VD-58, this node's part of it: the broker path says so; plain subscribers have it."""
    a, plain = await consumer(broker, queue("A")), await subscriber(broker, TOPIC)
    await publish(broker, TOPIC, b"from afar", x_opt_broker_path="east")
    await publish(broker, TOPIC, b"by a bridge", Sluicegate_Path="east/default")
    await publish(broker, TOPIC, b"from here")
    assert await plain.payloads(3) == [b"from afar", b"by a bridge", b"from here"]
    assert await a.payloads(1) == [b"from here"]


@pytest.mark.settings(
    "virtual_destinations.composite_queues=[{name: My.Queue, forward_only: false, "
    "forward_to: [{topic: VirtualTopic.Mirror.My.Queue}]}]"
)
async def test_a_composite_mirrors_a_queue(broker: RunningBroker, amqp: AmqpClients) -> None:
    """VD-53: the queue has all, a subscriber and a durable wire tap as well."""
    tap = await consumer(broker, "Consumer.X.VirtualTopic.Mirror.My.Queue")
    plain = await subscriber(broker, "VirtualTopic.Mirror.My.Queue")
    client = await amqp.connect()
    await client.sender("out", "My.Queue", handle=0)
    for _ in range(10):
        assert (await client.outcome(client.transfer(0, body("m")))).code == ACCEPTED
    assert len(await tap.messages(10)) == 10
    assert len(await plain.messages(10)) == 10
    assert await depth(broker, "My.Queue") == 10


async def test_definitions_change_while_publishers_publish(broker: RunningBroker) -> None:
    """VD-65: from A.> to B.>, on the same connections."""
    client = await broker.connect(level=5)
    await redefine(broker, "virtual_destinations.virtual_topics=[{name: A.>}]")
    for name in ("Consumer.X.A.Default", "Consumer.X.B.Default"):
        await create(broker, name)
    for topic in ("A.Default", "B.Default"):
        await client.publish(topic, b"m")
    assert [await depth(broker, f"Consumer.X.{name}.Default") for name in "AB"] == [1, 0]

    await redefine(broker, "virtual_destinations.virtual_topics=[{name: B.>}]")
    for topic in ("A.Default", "B.Default"):
        await client.publish(topic, b"m")
    assert [await depth(broker, f"Consumer.X.{name}.Default") for name in "AB"] == [1, 1]

    await redefine(broker, "virtual_destinations.virtual_topics=[]")
    await client.publish("B.Default", b"m")
    assert await depth(broker, "Consumer.X.B.Default") == 1


async def test_a_selecting_and_a_plain_consumer_share_a_queue(broker: RunningBroker) -> None:
    """VD-26 and VD-27: everything comes in; what the one does not select waits for the other, and blocks nothing."""
    selecting = await consumer(broker, queue("A"), "foo = 'bar'")
    await publish(broker, TOPIC, b"other", foo="else")
    await publish(broker, TOPIC, b"mine", foo="bar")
    assert await selecting.payloads(1) == [b"mine"]
    await shows(broker, lambda view: (view.ready_count, view.unacked_count) == (1, 0), queue("A"))
    plain = await consumer(broker, queue("A"))
    assert await plain.payloads(1) == [b"other"]
