"""MQTT clients that publish to `$queue/NAME`: permissions, each QoS, and the reason codes."""

import pytest

import support.mqtt.packets as mqtt
from sluicegate.protocols.amqp.codec.sections import PROPERTIES
from sluicegate.protocols.amqp.messages.decode import body_bytes_of
from sluicegate.protocols.amqp.types.encoding import encode_composite
from sluicegate.protocols.mqtt.codec.properties import RESPONSE_TOPIC
from support.amqp.client import AmqpClient
from support.amqp.temporary_nodes import BODY, made_queue, queue_is_gone
from support.broker.named_queues import create, shown
from support.broker.operator_views import counted
from support.broker.protocol_clients import OK, Mqtt
from support.broker.running_broker import RunningBroker
from support.mqtt.packets import WillPart
from support.mqtt.publish_answers import answer_to
from support.mqtt.raw_client import RawClient

TOPIC_NAME_INVALID = 0x90
NOT_AUTHORIZED = 0x87
REPLY_TO = 4  # place among the fields of AMQP's properties (3.2.4)


async def consumer(broker: RunningBroker, queue: str = "q") -> RawClient:
    """Return a client that consumes a queue."""
    client = await broker.connect(level=5)
    assert await client.subscribe((f"$queue/{queue}", mqtt.options(2, retain_as_published=True))) == [2]
    return client


@pytest.mark.parametrize("level", [3, 4, 5])
@pytest.mark.parametrize("qos", [0, 1, 2])
async def test_a_message_published_to_a_queue_is_in_that_queue(broker: RunningBroker, level: int, qos: int) -> None:
    await create(broker)
    publisher = await broker.connect(level=level)
    assert await publisher.publish("$queue/q", b"m", qos=qos) == 0
    assert (await shown(broker)).accepted_total == 1
    (message,) = await (await consumer(broker)).messages(1)
    assert (message.topic, message.payload) == ("$queue/q", b"m")


async def test_a_queue_that_no_topic_leads_to_keeps_it_over_a_crash(broker: RunningBroker) -> None:
    await create(broker, "orders/eu")
    publisher = await broker.connect(level=5)
    assert await publisher.publish("$queue/orders/eu", b"m") == 0
    await broker.crash()
    assert await (await consumer(broker, "orders/eu")).payloads(1) == [b"m"]


@pytest.mark.parametrize("qos", [1, 2])
async def test_a_queue_that_is_not_there_is_refused(broker: RunningBroker, qos: int) -> None:
    """[4.3.3-9]: and the packet id is free again, so what is sent when the queue is there is in it."""
    publisher = await broker.connect(level=5)
    assert await publisher.publish("$queue/q", b"early", qos=qos) == TOPIC_NAME_INVALID
    await create(broker)
    publisher.send(mqtt.publish("$queue/q", b"late", level=5, qos=qos, packet_id=1))
    assert await publisher.answered(mqtt.PUBACK if qos == 1 else mqtt.PUBREC, 1) == 0
    assert await (await consumer(broker)).payloads(1) == [b"late"]


async def test_the_reason_string_names_the_queue_that_is_not_there(broker: RunningBroker) -> None:
    publisher = await broker.connect(level=5)
    text = "400 Queue Not Found: there is no such queue (a/b)"
    assert await answer_to(publisher, topic="$queue/a/b") == (TOPIC_NAME_INVALID, text)


@pytest.mark.parametrize("retain", [False, True])
@pytest.mark.parametrize(("level", "qos"), [(4, 0), (4, 1), (4, 2), (5, 0)])
async def test_a_publisher_without_reason_codes_continues_and_dropped_messages_are_counted(
    broker: RunningBroker, level: int, qos: int, retain: bool
) -> None:
    """[3.1.1: 3.3.5-2]: the end of the connection would have it send the same again for ever."""
    publisher = await broker.connect(level=level)
    assert await publisher.publish("$queue/none", b"m", qos=qos, retain=retain) == 0
    await publisher.round_trip()
    assert await counted(broker, "sluicegate_messages_dropped_total") == {"no_target_queue": 1}


@pytest.mark.settings("vpn.reject_msg_to_sender_on_no_subscription_match=true")
async def test_several_that_come_together_are_refused_and_counted_one_by_one(broker: RunningBroker) -> None:
    publisher = await broker.connect(level=5)
    packets = [mqtt.publish("$queue/none", b"m", level=5, qos=1, packet_id=each) for each in (1, 2, 3)]
    publisher.send(*packets)
    assert [await publisher.answered(mqtt.PUBACK, each) for each in (1, 2, 3)] == [TOPIC_NAME_INVALID] * 3
    assert await counted(broker, "sluicegate_messages_dropped_total") == {"no_target_queue": 3}
    assert await counted(broker, "sluicegate_messages_refused_total") == {}


@pytest.mark.parametrize("qos", [0, 1, 2])
async def test_packets_that_come_together_go_where_each_of_them_says(broker: RunningBroker, qos: int) -> None:
    """One read has packets to queues, on topics, on the gateway's topics and to a queue that is not there."""
    await create(broker, "a", subscriptions=["t"])
    await create(broker, "b")
    publisher = await broker.connect(level=5)
    topics = ["t", "$queue/b", "$queue/none", "$queue/a", "$SYS/x", "t", "$queue/b"]
    packets = [
        mqtt.publish(topic, b"%d" % number, level=5, qos=qos, packet_id=number)
        for number, topic in enumerate(topics, start=1)
    ]
    publisher.send(*packets)
    if qos:
        answers = [await publisher.answered(mqtt.PUBACK if qos == 1 else mqtt.PUBREC, each) for each in range(1, 8)]
        assert answers == [0, 0, TOPIC_NAME_INVALID, 0, NOT_AUTHORIZED, 0, 0]
    assert await (await consumer(broker, "a")).payloads(3) == [b"1", b"4", b"6"]
    assert await (await consumer(broker, "b")).payloads(2) == [b"2", b"7"]


async def test_a_queue_has_no_retained_message(broker: RunningBroker) -> None:
    """Nobody subscribes to a queue's topic, so nobody could be sent it; a consumer gets the message without RETAIN."""
    await create(broker)
    publisher = await broker.connect(level=5)
    assert await publisher.publish("$queue/q", b"m", retain=True) == 0
    (message,) = await (await consumer(broker)).messages(1)
    assert (message.payload, message.retain) == (b"m", False)
    assert broker.node.default.space.retained.count == 0


@pytest.mark.parametrize("level", [4, 5])
async def test_a_will_goes_into_the_queue_that_it_names(broker: RunningBroker, level: int) -> None:
    await create(broker)
    client = await broker.connect("lost", level, will=WillPart("$queue/q", qos=1, retain=True))
    await client.vanish()
    (message,) = await (await consumer(broker)).messages(1)
    assert (message.payload, message.retain) == (b"gone", False)
    assert broker.node.default.space.retained.count == 0


@pytest.mark.accounts(ada="engine")
@pytest.mark.settings(
    "authentication.acl_profiles=[{name: own, publish_topic_exceptions: [{topic: '$queue/open'}, {topic: '>'}]}]",
    "authentication.users.0.acl_profile=own",
)
async def test_the_acl_profile_says_which_queues_may_be_published_to(broker: RunningBroker) -> None:
    """Decision 0036: by their own topics, as over every protocol; `>` finds no queue."""
    await create(broker, "open")
    await create(broker, "closed")
    ada = Mqtt(broker)
    assert await ada.connect("ada", "engine") == OK
    assert await ada.publish("$queue/open") == OK
    assert await ada.publish("$queue/closed") == NOT_AUTHORIZED
    assert broker.node.default.clients.denials.counts == {"publish_acl": 1}
    assert (await shown(broker, "closed")).accepted_total == 0
    await ada.leave()


async def test_a_publish_to_a_queue_is_refused_as_a_publish_to_a_topic(broker: RunningBroker) -> None:
    await create(broker, reject_msg_to_sender_on_discard_behavior="always", ingress_enabled=False)
    publisher = await broker.connect(level=5)
    text = "503 Queue Shutdown: the queue's ingress is shut down (q)"
    assert await answer_to(publisher, topic="$queue/q") == (0x83, text)


async def test_an_mqtt_client_answers_an_amqp_client_that_waits_at_its_temporary_queue(broker: RunningBroker) -> None:
    """A temporary queue is what most clients of AMQP name in `reply-to`."""
    responder = await broker.connect(level=5)
    await responder.subscribe("requests", qos=1)
    requester = await AmqpClient.open(broker.amqp_port, "requester")
    address = await made_queue(requester, handle=1)
    requester.flow(1, 10)
    await requester.sender("out", "topic://requests")
    question = encode_composite(PROPERTIES, [None] * REPLY_TO + [address]) + body_bytes_of(BODY, b"question")
    requester.transfer(9, question)

    (request,) = await responder.messages(1)
    (reply_to,) = request.values(RESPONSE_TOPIC)
    assert reply_to == f"$queue/{address}"
    assert isinstance(reply_to, str)
    assert await responder.publish(reply_to, b"answer") == 0
    (answer,) = await requester.deliveries(1)
    assert answer.payload == b"answer"

    await requester.close()
    await queue_is_gone(broker, address)
    assert await responder.publish(reply_to, b"late") == TOPIC_NAME_INVALID
