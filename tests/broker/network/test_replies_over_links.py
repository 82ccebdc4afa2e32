"""Requests whose answers come from a client of another broker, to a queue or topic that the asker's broker named."""

import asyncio

from sluicegate.protocols.amqp.codec.sections import PROPERTIES
from sluicegate.protocols.amqp.codec.termini import Target
from sluicegate.protocols.amqp.messages.decode import body_bytes_of
from sluicegate.protocols.amqp.types import errors as conditions
from sluicegate.protocols.amqp.types.encoding import encode_composite
from sluicegate.protocols.mqtt.codec.properties import RESPONSE_TOPIC
from support.amqp.client import AmqpClient, refused_with
from support.amqp.temporary_nodes import BODY, made_queue
from support.broker.linked_brokers import Brokers, until
from support.flow.client import FlowClient
from support.http.client import http_client

REPLY_TO = 4  # place among the fields of AMQP's properties (3.2.4)


def text(payload: bytes) -> bytes:
    return body_bytes_of(BODY, payload)


async def asking_client(network: Brokers, at: str = "a") -> tuple[AmqpClient, str]:
    """Return an AMQP client of a with a temporary queue, and the queue's name."""
    client = await AmqpClient.open(network[at].amqp_port, "asking")
    address = await made_queue(client)
    client.flow(0, 10)
    return client, address


async def is_answered(network: Brokers, asking: AmqpClient, address: str) -> None:
    """Have an AMQP client of b answer to an address, and the client that asked get it."""
    answering = await AmqpClient.open(network["b"].amqp_port, "answering")
    await answering.sender("s", address)
    answering.transfer(9, text(b"the answer"))
    (answer,) = await asking.deliveries(1)
    assert answer.payload == b"the answer"
    asking.vanish()
    answering.vanish()


async def test_a_temporary_queue_is_named_after_its_broker(network: Brokers) -> None:
    asking, address = await asking_client(network)
    assert address.startswith("$anonymous/a/")
    asking.vanish()


async def test_an_amqp_client_answers_to_a_temporary_queue_of_the_neighbor(network: Brokers) -> None:
    """It sends as soon as it has heard the address: nobody has to tell its broker of the queue before."""
    asking, address = await asking_client(network)
    await is_answered(network, asking, address)


async def test_an_amqp_client_answers_to_a_temporary_topic_of_the_neighbor(network: Brokers) -> None:
    asking = await AmqpClient.open(network["a"].amqp_port, "asking")
    made = await asking.sender("maker", Target(None, dynamic=True, capabilities=["temporary-topic"]), handle=0)
    assert isinstance(made.target, Target)
    address = made.target.address
    assert address is not None
    assert address.startswith("temp-topic://$temporary/a/")
    await asking.receiver("r", address, handle=1)
    asking.flow(1, 10)
    await asking.round_trip()
    await is_answered(network, asking, address)


async def test_only_the_client_that_a_temporary_node_was_made_for_receives_from_it(network: Brokers) -> None:
    """As at its own broker: another one is told whose it is."""
    asking, queue = await asking_client(network)
    made = await asking.sender("maker", Target(None, dynamic=True, capabilities=["temporary-topic"]), handle=1)
    assert isinstance(made.target, Target)
    assert made.target.address is not None
    other = await AmqpClient.open(network["b"].amqp_port, "other")
    for handle, address in enumerate((queue, made.target.address)):
        answer = await other.receiver(f"spy-{handle}", address, handle=handle)
        assert await refused_with(other, answer) == conditions.RESOURCE_LOCKED
    asking.vanish()
    other.vanish()


async def test_a_device_answers_to_the_temporary_queue_that_an_amqp_request_names(network: Brokers) -> None:
    device = await network["b"].connect("device", 5)
    await device.subscribe(("prices/ask", 1))
    await until(lambda: network["a"].wants("b") == {"prices/ask"})
    asking, address = await asking_client(network)
    await asking.sender("s", "topic://prices/ask", handle=1)
    asking.transfer(1, encode_composite(PROPERTIES, [None] * REPLY_TO + [address]) + text(b"?"))
    (request,) = await device.messages(1)
    [reply_topic] = request.values(RESPONSE_TOPIC)
    assert reply_topic == f"$queue/{address}"
    assert await device.publish(str(reply_topic), b"12 EUR", qos=1) == 0
    (answer,) = await asking.deliveries(1)
    assert answer.payload == b"12 EUR"
    asking.vanish()


async def test_an_http_publisher_answers_to_a_temporary_queue_of_the_neighbor(network: Brokers) -> None:
    asking, address = await asking_client(network)
    async with http_client(network["b"]) as client:
        answer = await client.post(f"/QUEUE/{address}", content=b"the answer")
        assert answer.status_code == 200
    (delivery,) = await asking.deliveries(1)
    assert delivery.payload == b"the answer"
    asking.vanish()


async def test_an_http_request_at_one_broker_is_answered_by_a_device_of_the_other(network: Brokers) -> None:
    device = await network["b"].connect("device", 5)
    await device.subscribe("prices/ask")
    await until(lambda: network["a"].wants("b") == {"prices/ask"})
    async with http_client(network["a"]) as client:
        for qos in (0, 1):
            headers = {"Solace-Reply-Wait-Time-In-ms": "20000"}
            asking = asyncio.create_task(client.post("/TOPIC/prices/ask", content=b"?", headers=headers))
            asked = await device.message()
            [reply_topic] = asked.values(RESPONSE_TOPIC)
            assert str(reply_topic).startswith("$reply/a/")
            await device.publish(str(reply_topic), b"12 EUR", qos=qos)
            answer = await asking
            assert (answer.status_code, answer.content) == (200, b"12 EUR")


async def test_a_flow_client_answers_to_a_temporary_queue_of_the_neighbor(network: Brokers) -> None:
    asking, address = await asking_client(network)
    async with FlowClient(network["b"].flow_port) as answering:
        opened = await answering.opens_publisher()
        answering.publishes(opened.flow_id, [1], queue=address)
        assert await answering.answered(opened.flow_id, 1) == []
    assert len(await asking.deliveries(1)) == 1
    asking.vanish()


async def test_an_answer_waits_while_the_link_is_down(network: Brokers) -> None:
    proxy = await network.proxy("a", "b")
    asking, address = await asking_client(network)
    proxy.cut()
    await until(lambda: not network["b"].neighbor("a").is_up, "the link is down")
    answering = await AmqpClient.open(network["b"].amqp_port, "answering")
    await answering.sender("s", address)
    answering.transfer(9, text(b"the answer"))
    await answering.confirmed()
    proxy.heal()
    (answer,) = await asking.deliveries(1)
    assert answer.payload == b"the answer"
    asking.vanish()
    answering.vanish()


async def test_an_answer_to_a_queue_that_is_gone_is_counted(network: Brokers) -> None:
    asking, address = await asking_client(network)
    answering = await AmqpClient.open(network["b"].amqp_port, "answering")
    await answering.sender("s", address)
    await asking.close()
    space = network["a"].node.default.space
    await until(lambda: not space.has_queue(address), "the queue is gone")
    answering.transfer(9, text(b"too late"))
    await until(lambda: space.arrived_unmatched_count == 1, "it is counted")
    answering.vanish()


async def test_a_name_of_a_broker_that_is_no_neighbor_is_not_found(network: Brokers) -> None:
    client = await network["b"].connect("publisher", 5)
    assert await client.publish("$queue/$anonymous/nobody/1", b"x", qos=1) >= 0x80
