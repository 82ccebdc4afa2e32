"""Virtual topics: a queue is called after a topic, and so gets its messages (docs/concepts/virtual-destinations.md).

The numbers VD-nn are those of tests/data/virtual/cases.txt.
"""

import asyncio

import pytest

import support.mqtt.packets as mqtt
from sluicegate.gateway.operations.node import NodeOperations
from sluicegate.messaging.queues.definition import QueueInvalid
from sluicegate.messaging.queues.template import template_from_dict
from support.amqp.client import AmqpClients, body
from support.broker.named_queues import change, create, shows
from support.broker.running_broker import RunningBroker
from support.broker.virtual_clients import consumer, depth, marks, publish, subscriber
from support.flow.client import FlowClient
from support.http.client import http_client, poll

A = "Consumer.A.VirtualTopic.O"
B = "Consumer.B.VirtualTopic.O"
TOPIC = "VirtualTopic.O"
TEN = [b"%d" % number for number in range(10)]


async def test_each_application_gets_every_message(broker: RunningBroker) -> None:
    """VD-01."""
    a, b = await consumer(broker, A), await consumer(broker, B)
    await publish(broker, TOPIC, *TEN)
    assert await a.payloads(10) == TEN
    assert await b.payloads(10) == TEN


async def test_consumers_of_one_application_share_its_messages(broker: RunningBroker) -> None:
    """VD-02."""
    first, second = await consumer(broker, A, client_id="1"), await consumer(broker, A, client_id="2")
    await publish(broker, TOPIC, *TEN)
    view = await shows(broker, lambda view: view.unacked_count == 10, A)
    held = {flow.client: flow.unacked_count for flow in view.flows}
    got = await first.payloads(held["1"]) + await second.payloads(held["2"])
    assert sorted(got) == TEN
    await shows(broker, lambda view: view.unacked_count == 0, A)
    await first.vanish()
    await second.vanish()
    again = await consumer(broker, A)
    await again.is_quiet()


async def test_a_plain_subscriber_gets_a_copy_beside_the_queues(broker: RunningBroker) -> None:
    """VD-03 and VD-04."""
    plain = await subscriber(broker, TOPIC)
    await publish(broker, TOPIC, b"alone")
    [alone] = await plain.messages(1)
    assert (alone.topic, alone.payload, marks(alone)) == (TOPIC, b"alone", {})

    a = await consumer(broker, A)
    await publish(broker, TOPIC, b"both")
    assert await a.payloads(1) == [b"both"]
    assert await plain.payloads(1) == [b"both"]


async def test_the_queue_keeps_what_comes_while_its_application_is_away(broker: RunningBroker) -> None:
    """VD-05 and VD-06: from the first attach on, and not before."""
    await publish(broker, TOPIC, b"too early")
    first = await consumer(broker, A)
    await first.is_quiet()
    await first.vanish()
    await publish(broker, TOPIC, *TEN[:5])
    later = await consumer(broker, A)
    assert await later.payloads(5) == TEN[:5]


async def test_queues_and_what_they_hold_survive_a_restart_and_go_on_collecting(broker: RunningBroker) -> None:
    """VD-36."""
    await (await consumer(broker, A)).vanish()
    await publish(broker, TOPIC, b"before")
    await broker.restart()
    await publish(broker, TOPIC, b"after")
    assert await (await consumer(broker, A)).payloads(2) == [b"before", b"after"]


async def test_a_queue_is_the_subscription_and_ends_with_it(broker: RunningBroker) -> None:
    """VD-35: deleting the queue is the unsubscribe."""
    await (await consumer(broker, A)).vanish()
    await NodeOperations(broker.node).delete_queue(A)
    assert broker.node.default.space.route(TOPIC).is_empty


async def test_the_message_keeps_its_topic_and_is_stored_once(broker: RunningBroker) -> None:
    """VD-09: the destination that its consumer sees is where it was published."""
    a = await consumer(broker, A)
    await publish(broker, TOPIC, b"m")
    [message] = await a.messages(1)
    assert (message.topic, marks(message)) == (TOPIC, {})


@pytest.mark.settings("virtual_destinations.virtual_topics=[{set_original_destination: true}]")
async def test_a_copy_names_the_queue_and_says_where_it_was_published(broker: RunningBroker, amqp: AmqpClients) -> None:
    """VD-08: destination, originalDestination, and the message id as it was, for MQTT and AMQP."""
    a = await consumer(broker, A)
    client = await amqp.connect()
    await client.receiver("in", f"queue://{B}", handle=0, credit=100)
    await publish(broker, TOPIC, b"m", message_id="17")

    [message] = await a.messages(1)
    assert message.topic == f"$queue/{A}"
    assert marks(message) == {"x-opt-original-destination": "topic://VirtualTopic.O"}
    assert ("message-id", "17") in message.values(38)
    got = await client.delivery()
    assert b"x-opt-original-destination" in got.message
    assert b"topic://VirtualTopic.O" in got.message


@pytest.mark.settings("virtual_destinations.virtual_topics=[{set_original_destination: true}]")
async def test_a_copy_of_an_amqp_message_is_marked_in_its_own_form(broker: RunningBroker, amqp: AmqpClients) -> None:
    """VD-08 and AMQP 3.2.3: an annotation is added, the bare message stays as it was."""
    client = await amqp.connect()
    await client.receiver("in", f"queue://{B}", handle=0, credit=100)
    await client.sender("out", f"topic://{TOPIC}", handle=1)
    client.transfer(1, body("as it was"))
    got = await client.delivery()
    assert got.body == "as it was"
    assert b"x-opt-original-destination" in got.message
    client.settle(got.delivery_id)


@pytest.mark.settings("virtual_destinations.virtual_topics=[{name: '>', prefix: 'q.private.vt.*.'}]")
async def test_a_queue_has_the_whole_prefix_in_its_name(broker: RunningBroker) -> None:
    """VD-11."""
    await create(broker, "q.private.other")
    await (await consumer(broker, "q.private.vt.testing.test.virtual.topic")).vanish()
    await publish(broker, "test.virtual.topic", b"m")
    assert await depth(broker, "q.private.vt.testing.test.virtual.topic") == 1
    assert await depth(broker, "q.private.other") == 0


@pytest.mark.settings("virtual_destinations.virtual_topics=[{name: 'virtualtopic.>', prefix: '*.*.'}]")
async def test_a_prefix_may_begin_with_a_wildcard(broker: RunningBroker) -> None:
    """VD-12."""
    for name in ("q1.a.virtualtopic.topic", "q2.a.virtualtopic.topic"):
        await create(broker, name)
    await publish(broker, "virtualtopic.topic", b"m")
    assert [await depth(broker, f"q{number}.a.virtualtopic.topic") for number in (1, 2)] == [1, 1]


@pytest.mark.settings(
    "virtual_destinations.virtual_topics=[{name: 'Orders.>', prefix: 'App/*/', postfix: '-in'}, {name: 'Orders.EU'}]"
)
async def test_names_are_any_and_two_definitions_are_one_copy(broker: RunningBroker) -> None:
    """Issue: any naming, prefix and postfix; several definitions on one topic deliver each target once."""
    for name in ("App.A.Orders.EU-in", "App/B/Orders/EU-in", "Consumer.A.Orders.EU", "Consumer.A.Orders.US"):
        await create(broker, name)
    plain = await subscriber(broker, "Orders/EU")
    await publish(broker, "Orders/EU", b"m")
    assert await depth(broker, "App.A.Orders.EU-in") == 1
    assert await depth(broker, "App/B/Orders/EU-in") == 1
    assert await depth(broker, "Consumer.A.Orders.EU") == 1
    assert await depth(broker, "Consumer.A.Orders.US") == 0
    assert await plain.payloads(1) == [b"m"]
    await plain.is_quiet()


@pytest.mark.settings("virtual_destinations.virtual_topics=[{name: '>'}]")
async def test_a_name_with_wildcards_is_a_subscription_pattern(broker: RunningBroker) -> None:
    """VD-13, VD-14 and VD-15 as we have them: one queue of that name, with each message once."""
    every = await consumer(broker, "Consumer.1.VT.TEST.>")
    a, b = await consumer(broker, "Consumer.1.VT.TEST.A.IT"), await consumer(broker, "Consumer.1.VT.TEST.B.IT")
    await publish(broker, "VT.TEST.A.IT", *TEN[:3])
    assert await every.payloads(3) == TEN[:3]
    assert await a.payloads(3) == TEN[:3]
    await every.is_quiet()
    await b.is_quiet()

    await publish(broker, "VT/TEST/A/IT", b"slashes")
    assert await every.payloads(1) == [b"slashes"]
    await publish(broker, "VT.TESTS", b"not below it")
    await every.is_quiet()


async def test_messages_sent_to_the_consumer_queue_itself_are_delivered_too(
    broker: RunningBroker, amqp: AmqpClients
) -> None:
    """VD-16: queues are ordinary."""
    client = await amqp.connect()
    await client.receiver("in", "queue://Consumer.a.VirtualTopic.test.>", handle=0, credit=100)
    await client.sender("out", "queue://Consumer.a.VirtualTopic.test.>", handle=1)
    client.transfer(1, body("m"))
    assert (await client.delivery()).body == "m"


@pytest.mark.settings("virtual_destinations.virtual_topics=[{name: '>'}]")
async def test_events_of_the_broker_are_never_fanned_out(broker: RunningBroker) -> None:
    """VD-63."""
    every = await consumer(broker, "Consumer.1.>")
    assert await broker.connect("somebody else", level=5)  # events of clients and queues are published meanwhile
    await create(broker, "another")
    await publish(broker, "t", b"m")
    assert await every.payloads(1) == [b"m"]
    await every.is_quiet()


async def test_direct_messages_are_kept_for_consumers_too(broker: RunningBroker) -> None:
    """Solace 3.4: a queue that matches promotes them."""
    a = await consumer(broker, A)
    await publish(broker, TOPIC, b"m", qos=0)
    assert await a.payloads(1) == [b"m"]


async def test_an_amqp_consumer_gets_its_queue_made(broker: RunningBroker, amqp: AmqpClients) -> None:
    """A consumer that attaches creates the queue (activemq.md 2.3); a sender does not."""
    client = await amqp.connect()
    await client.receiver("in", A, handle=0, credit=100)
    await publish(broker, TOPIC, b"m")
    assert (await client.delivery()).body == b"m"


async def test_consumers_of_the_flow_protocol_and_over_http_get_theirs_made_too(broker: RunningBroker) -> None:
    """The issue: of every protocol."""
    async with FlowClient(broker.flow_port) as flow, http_client(broker) as worker:
        flow_id = await flow.binds(A)
        http_flow, _ = await poll(worker, f"/QUEUE/{B}", wait_s=0)
        await publish(broker, TOPIC, b"m")
        [delivered] = await flow.receives_in_all(1, flow_id)
        assert (delivered.topic, bytes(delivered.payload)) == (TOPIC, b"m")
        _, [line] = await poll(worker, http_flow, wait_s=60)
        assert line["payload"] == "m"


@pytest.mark.settings("virtual_destinations.create_consumer_queues=false")
async def test_where_policy_says_so_only_administrators_make_the_queues(broker: RunningBroker) -> None:
    client = await broker.connect(level=5)
    assert await client.subscribe(f"$queue/{A}", qos=1) == [0x80]
    await create(broker, A)
    await create(broker, "Consumer.A.VirtualTopic.>")
    await publish(broker, TOPIC, b"m")
    assert await depth(broker, A) == 1
    assert await depth(broker, "Consumer.A.VirtualTopic.>") == 1


async def test_a_queue_of_a_pattern_is_changed_like_any_other(broker: RunningBroker) -> None:
    """Its name has wildcards, as no other queue's may."""
    pattern = "Consumer.A.VirtualTopic.>"
    await consumer(broker, pattern)
    assert (await change(broker, pattern, max_bind_count=5)).config.max_bind_count == 5
    for name in ("Consumer.A.Other.>", "Consumer.A.VirtualTopic.<"):
        with pytest.raises(QueueInvalid, match="any printable character except"):
            await create(broker, name)


async def test_a_queue_that_no_virtual_topic_knows_is_not_made(broker: RunningBroker) -> None:
    client = await broker.connect(level=5)
    assert await client.subscribe("$queue/Consumer.A.Other.O", qos=1) == [0x80]


async def test_a_template_says_what_a_consumers_queue_is(broker: RunningBroker) -> None:
    """Any queue: partitioned, exclusive, last value."""
    view = NodeOperations(broker.node)
    for name, attributes in (
        ("A", {"partition_count": 4, "access_type": "non-exclusive"}),
        ("B", {"access_type": "exclusive"}),
        ("C", {"max_msg_spool_usage": 0}),
    ):
        template = template_from_dict({"name": name, "queue_name_filter": f"Consumer.{name}.*", **attributes})
        await view.put_template(template, must_be_new=True)
    a, b, c = [await consumer(broker, f"Consumer.{name}.VirtualTopic.O") for name in "ABC"]
    await c.vanish()
    await publish(broker, TOPIC, *TEN[:4], JMSXGroupID="k")
    assert await a.payloads(4) == TEN[:4]
    assert await b.payloads(4) == TEN[:4]
    assert await (await consumer(broker, "Consumer.C.VirtualTopic.O")).payloads(1) == [TEN[3]]
    assert (await view.show_queue(A)).config.partition_count == 4


async def test_a_hundred_clients_come_and_go_at_once(broker: RunningBroker) -> None:
    """VD-62: creating and removing many queues at the same time leaves nothing waiting."""

    async def come_and_go(number: int) -> None:
        name = f"Consumer.{number}.VirtualTopic.TEST.*"
        client = await consumer(broker, name)
        await publish(broker, f"VirtualTopic.TEST.{number}", b"m")
        await client.messages(1)
        await client.vanish()
        await NodeOperations(broker.node).delete_queue(name)

    for first in range(0, 100, 25):  # all of them on this one loop would not all be let in within the time for that
        await asyncio.gather(*[come_and_go(number) for number in range(first, first + 25)])
    assert broker.node.default.space.route("VirtualTopic.TEST.1").is_empty


async def test_dead_messages_are_of_the_consumers_queue(broker: RunningBroker) -> None:
    """VD-33: what A and B reject lies in their own dead message queues, and C has its own messages."""
    for name in "ABC":
        await create(broker, f"Dead.{name}")
        await create(
            broker,
            f"Consumer.{name}.VirtualTopic.Test",
            dead_msg_queue=f"Dead.{name}",
            max_redelivery_count=1,
        )
    await publish(broker, "VirtualTopic.Test", *TEN[:6])
    for name in "ABC":
        client = await consumer(broker, f"Consumer.{name}.VirtualTopic.Test")
        for message in [await client.message() for _ in range(6)]:
            if name == "C":
                client.acknowledge(message)
            else:
                client.send(_puback(message.packet_id, 0x83))
        await client.round_trip()
    for name, count in (("A", 6), ("B", 6), ("C", 0)):
        async with asyncio.timeout(20):
            while await depth(broker, f"Dead.{name}") != count:
                await asyncio.sleep(0.01)


async def test_one_dead_message_queue_takes_the_same_message_from_two_queues(broker: RunningBroker) -> None:
    """VD-34: each queue's copy died by itself; nothing takes the second for a double of the first."""
    await create(broker, "Dead")
    for name in "AB":
        await create(broker, f"Consumer.{name}.VirtualTopic.Test", dead_msg_queue="Dead")
    await publish(broker, "VirtualTopic.Test", b"m")
    for name in "AB":
        client = await consumer(broker, f"Consumer.{name}.VirtualTopic.Test")
        client.send(_puback((await client.message()).packet_id, 0x83))
        await client.round_trip()
    assert (await shows(broker, lambda view: view.ready_count == 2, "Dead")).ready_count == 2
    died_in = [each.dead.queue for each in await NodeOperations(broker.node).browse_queue("Dead") if each.dead]
    assert died_in == ["Consumer.A.VirtualTopic.Test", "Consumer.B.VirtualTopic.Test"]


def _puback(packet_id: int, reason_code: int) -> bytes:
    return bytes((mqtt.PUBACK << 4, 3)) + packet_id.to_bytes(2, "big") + bytes((reason_code,))
