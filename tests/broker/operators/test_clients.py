"""Connected clients as operators list them, and what clients get when an operator disconnects them."""

import support.mqtt.packets as mqtt
from sluicegate.gateway.operations.node import NodeOperations
from sluicegate.gateway.views.clients.clients import ClientQuery
from sluicegate.protocols.flow.codec import codes
from sluicegate.protocols.flow.codec.frames.session import Close, Goaway
from support.amqp.client import AmqpClients
from support.amqp.received import Ended
from support.broker.inside_client import until
from support.broker.named_queues import create
from support.broker.running_broker import RunningBroker
from support.flow.client import FlowClient
from support.http.client import event_stream, http_client


async def test_clients_of_all_protocols_are_listed_until_they_go(broker: RunningBroker, amqp: AmqpClients) -> None:
    await create(broker, subscriptions=["t"])
    worker = await broker.connect("worker", level=5)
    assert await worker.subscribe("$queue/q", qos=1) == [1]
    await broker.connect("other")
    await amqp.connect("shop")
    await worker.publish("t", b"held", qos=1)
    await worker.message()
    view = NodeOperations(broker.node)

    everybody = await view.list_clients(ClientQuery())

    assert [(each.name, each.protocol) for each in everybody.clients] == [
        ("other", "mqtt"),
        ("shop", "amqp"),
        ("worker", "mqtt"),
    ]
    by_name = {each.name: each for each in everybody.clients}
    assert (by_name["worker"].flows_count, by_name["worker"].unacked_count) == (1, 1)
    assert by_name["worker"].address.startswith("127.0.0.1:")
    assert by_name["other"].flows_count == 0
    page = await view.list_clients(ClientQuery(client_name="*o*", after=1, limit=1))
    assert (page.total_count, [each.name for each in page.clients]) == (3, ["shop"])
    await worker.vanish()

    async def has_gone() -> bool:
        return (await view.list_clients(ClientQuery(client_name="worker"))).total_count == 0

    await until(has_gone, "the end of the client")


DISCONNECTED = "an operator disconnected the client"


async def test_a_device_hears_of_an_administrative_action(broker: RunningBroker) -> None:
    """MQTT 5 3.14.2.1, reason code 0x98."""
    client = await broker.connect("client", 5)
    await NodeOperations(broker.node).disconnect_client("client")
    goodbye = mqtt.server_disconnect(await client.awaited(mqtt.DISCONNECT))
    assert (goodbye.reason_code, goodbye.value(31)) == (0x98, DISCONNECTED)
    await client.is_closed()


async def test_an_amqp_container_hears_that_an_operator_intervened(broker: RunningBroker, amqp: AmqpClients) -> None:
    """AMQP 2.8.16, connection-forced."""
    client = await amqp.connect("client")
    await NodeOperations(broker.node).disconnect_client("client")
    close = await client.awaited(Ended)
    assert close.error is not None
    assert (close.error.condition, close.error.description) == ("amqp:connection:forced", DISCONNECTED)


async def test_a_client_of_the_flow_protocol_may_finish_what_is_in_flight(broker: RunningBroker) -> None:
    """Flow: sessions, GOAWAY. To be sent away once more, by the node that stops, gives it no other reason or time."""
    client = FlowClient(broker.flow_port, name="client")
    await client.open()
    await NodeOperations(broker.node).disconnect_client("client")
    goaway = await client.heard(Goaway)
    assert (goaway.code, goaway.text) == (codes.ADMINISTRATIVE_ACTION, DISCONNECTED)
    await broker.stop()
    assert (await client.heard(Close)).code == codes.ADMINISTRATIVE_ACTION
    await client.ended()


async def test_a_stream_of_events_ends_with_the_reason(broker: RunningBroker) -> None:
    """docs/connect/http.md, Server-sent events."""
    await create(broker, "q")
    headers = {"Solace-Client-Name": "client"}
    async with http_client(broker, headers=headers) as client, event_stream(client, "/QUEUE/q") as stream:
        await stream.next("state")
        await NodeOperations(broker.node).disconnect_client("client")
        assert (await stream.next("end")).data == {"reason": DISCONNECTED}
