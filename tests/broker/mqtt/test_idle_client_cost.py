"""Parts of an MQTT connection that are created on first use: idle clients do not pay for them."""

from sluicegate.protocols.mqtt.connection import MqttConnection
from sluicegate.protocols.transport.stream.stream import TcpStream
from support.broker.running_broker import RunningBroker


def only_connection(broker: RunningBroker) -> MqttConnection:
    (connection,) = broker.node.mqtt.open_connections()
    assert isinstance(connection, MqttConnection)
    return connection


async def test_for_a_client_that_only_stays_nothing_is_made_beside_its_session(broker: RunningBroker) -> None:
    """There may be a hundred thousand of these."""
    client = await broker.connect("stays")
    await client.round_trip()
    connection = only_connection(broker)
    assert connection.session is not None
    assert connection._attached is None
    assert connection.cell.actor is None
    assert (connection.read_control, connection.write_control, connection.parts) == (None, None, None)
    assert connection.session.subscriber is None


async def test_what_lives_as_long_as_a_connection_is_one_object_with_it(broker: RunningBroker) -> None:
    """Each object costs 40 bytes before it holds anything."""
    client = await broker.connect("stays")
    await client.round_trip()
    connection = only_connection(broker)
    assert connection.session is not None
    assert isinstance(connection.peer, TcpStream), "a plain stream knows its peer"
    assert connection.cell.inbox is connection.cell
    assert connection.identity.rights is connection.identity
    assert connection.session.connection is connection.cell, "a session is its entry in the directory"


async def test_a_client_that_lags_before_it_subscribes_exerts_back_pressure(broker: RunningBroker) -> None:
    """What is made for its first subscription knows of what watches its socket, which was there before."""
    client = await broker.connect("lags")
    connection = only_connection(broker)
    connection.writing_paused()
    await client.subscribe("t")
    assert connection.attached is not None
    subscriber = connection.attached.session.subscriber
    assert connection.write_control is not None
    assert subscriber is not None
    assert subscriber.pressure is connection.write_control.pressure


async def test_a_session_without_a_subscription_gets_one_when_it_is_back(broker: RunningBroker) -> None:
    before = await broker.connect_durable("back")
    await before.vanish()
    client = await broker.connect_durable("back")
    await client.subscribe("t")
    await client.publish("t", b"here")
    assert await client.payloads(1) == [b"here"]
