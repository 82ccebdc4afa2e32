"""What clients hear whom operators send away: that it was no stop of the gateway, and why."""

import support.mqtt.packets as mqtt
from sluicegate.gateway.operations.node import NodeView
from sluicegate.protocols.flow.codec import codes
from sluicegate.protocols.flow.codec.frames.session import Close, Goaway
from support.amqp.client import AmqpClients
from support.amqp.received import Ended
from support.broker.running_broker import RunningBroker
from support.flow.client import FlowClient
from support.http.client import create, event_stream, http_client

DISCONNECTED = "an operator disconnected the client"


async def test_a_device_hears_of_an_administrative_action(broker: RunningBroker) -> None:
    """MQTT 5 3.14.2.1, reason code 0x98."""
    client = await broker.connect("client", 5)
    await NodeView(broker.node).disconnect_client("client")
    goodbye = mqtt.server_disconnect(await client.awaited(mqtt.DISCONNECT))
    assert (goodbye.reason_code, goodbye.value(31)) == (0x98, DISCONNECTED)
    await client.is_closed()


async def test_an_amqp_container_hears_that_an_operator_intervened(broker: RunningBroker, amqp: AmqpClients) -> None:
    """AMQP 2.8.16, connection-forced."""
    client = await amqp.connect("client")
    await NodeView(broker.node).disconnect_client("client")
    close = await client.awaited(Ended)
    assert close.error is not None
    assert (close.error.condition, close.error.description) == ("amqp:connection:forced", DISCONNECTED)


async def test_a_client_of_the_flow_protocol_may_finish_what_is_in_flight(broker: RunningBroker) -> None:
    """Flow: sessions, GOAWAY. To be sent away once more, by the node that stops, gives it no other reason or time."""
    client = FlowClient(broker.flow_port, name="client")
    await client.open()
    await NodeView(broker.node).disconnect_client("client")
    goaway = await client.heard(Goaway)
    assert (goaway.code, goaway.text) == (codes.ADMINISTRATIVE_ACTION, DISCONNECTED)
    await broker.stop()
    assert (await client.heard(Close)).code == codes.ADMINISTRATIVE_ACTION
    await client.ended()


async def test_a_stream_of_events_ends_with_the_reason(broker: RunningBroker) -> None:
    """docs/http.md, Server-sent events."""
    await create(broker, "q")
    headers = {"Solace-Client-Name": "client"}
    async with http_client(broker, headers=headers) as client, event_stream(client, "/QUEUE/q") as stream:
        await stream.next("state")
        await NodeView(broker.node).disconnect_client("client")
        assert (await stream.next("end")).data == {"reason": DISCONNECTED}
