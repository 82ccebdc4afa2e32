"""One client, its subscriptions, its MQTT session, retained messages and listeners, as operators see them."""

import pytest

import support.mqtt.packets as mqtt
from sluicegate.gateway.operations.node import NodeOperations
from sluicegate.gateway.views.clients.clients import ClientView
from sluicegate.gateway.views.clients.connections import ClientSubscriptionView, SubscriptionsQuery
from sluicegate.gateway.views.clients.retained import RetainedQuery
from sluicegate.gateway.views.clients.sessions import SessionQuery
from sluicegate.gateway.views.clients.subscriptions import SmrpQuery
from sluicegate.gateway.views.errors import ClientNotFound, Refused, RetainedMessageNotFound, SessionNotFound
from sluicegate.protocols.amqp.codec.termini import Source
from sluicegate.protocols.flow.codec import frame as frames
from support.amqp.client import AmqpClients, body
from support.broker.inside_client import until
from support.broker.named_queues import create
from support.broker.running_broker import RunningBroker
from support.flow.client import FlowClient, subscribes

EXPIRY = mqtt.session_expiry(3600)


async def test_what_an_mqtt_client_has_asked_for_is_shown(broker: RunningBroker) -> None:
    """MQTT 5 3.1.2.11."""
    client = await broker.open(5)
    asked = EXPIRY + mqtt.u16_property(33, 15) + mqtt.u16_property(34, 7) + mqtt.u32_property(39, 5000)
    await client.connect(
        "lamp",
        clean_start=False,
        keep_alive_s=42,
        properties=asked,
        will=mqtt.WillPart("state/lamp", b"gone", qos=1, retain=True),
    )
    await client.subscribe("cmd", qos=1)

    shown = await NodeOperations(broker.node).show_client("lamp")

    (connection,) = shown.connections
    assert (connection.client.protocol, connection.protocol_version, connection.listener) == ("mqtt", "5.0", "mqtt")
    assert (connection.tls, connection.websocket, connection.is_slow) == (False, None, False)
    assert [(each.queue, each.flow.window) for each in connection.flows] == [("#mqtt/lamp", 15)]
    said = connection.mqtt
    assert said is not None
    assert (said.clean_start, said.keep_alive_s, said.session_expiry_s) == (False, 42, 3600)
    assert (said.receive_maximum, said.topic_alias_maximum, said.maximum_packet_size) == (15, 7, 5000)
    assert said.will is not None
    assert (said.will.topic, said.will.size_bytes, said.will.qos, said.will.retain) == ("state/lamp", 4, 1, True)


async def traffic_of(broker: RunningBroker, name: str) -> ClientView:
    """Return the only connection of a client."""
    (connection,) = (await NodeOperations(broker.node).show_client(name)).connections
    assert (connection.unread_bytes, connection.dropped_count) == (0, 0)
    return connection.client


async def test_messages_and_bytes_of_an_mqtt_connection_are_counted(broker: RunningBroker) -> None:
    sender, other = await broker.connect("lamp"), await broker.connect("other")
    await other.subscribe("direct", qos=0)
    await other.subscribe("stored", qos=1)
    before = await traffic_of(broker, "lamp")
    packets = [
        mqtt.publish("direct", b"x"),
        mqtt.publish("direct", b"x"),
        mqtt.publish("stored", b"x", qos=1, packet_id=9),
    ]
    sender.send(b"".join(packets))
    assert await sender.answered(mqtt.PUBACK, 9) == 0
    assert len(await other.messages(3)) == 3

    after, received = await traffic_of(broker, "lamp"), await traffic_of(broker, "other")

    assert (after.messages_received, after.messages_sent) == (3, 0)
    assert after.bytes_received - before.bytes_received == sum(map(len, packets))
    assert after.bytes_sent - before.bytes_sent == 4  # a PUBACK
    assert (received.messages_received, received.messages_sent) == (0, 3)


async def test_messages_of_an_amqp_connection_are_counted(broker: RunningBroker, amqp: AmqpClients) -> None:
    await create(broker)
    client = await amqp.connect("shop")
    await client.sender("out", "q", handle=0)
    for _ in range(2):
        await client.outcome(client.transfer(0, body("x")))
    await client.receiver("in", "q", handle=1, credit=5)
    await client.deliveries(2)
    found = await traffic_of(broker, "shop")
    assert (found.messages_received, found.messages_sent) == (2, 2)
    assert min(found.bytes_received, found.bytes_sent) > 100


async def test_messages_of_a_flow_connection_are_counted(broker: RunningBroker) -> None:
    await create(broker)
    async with FlowClient(broker.flow_port, name="loader") as client:
        opened = await client.opens_publisher()
        client.publishes(opened.flow_id, [1, 2], queue="q")
        assert await client.answered(opened.flow_id, 2) == []
        await client.receives_in_all(2, await client.binds("q"))
        found = await traffic_of(broker, "loader")
    assert (found.messages_received, found.messages_sent) == (2, 2)
    assert min(found.bytes_received, found.bytes_sent) > 100


async def test_a_session_of_mqtt_3_never_expires(broker: RunningBroker) -> None:
    client = await broker.open(4)
    await client.connect("old", clean_start=False)
    view = NodeOperations(broker.node)
    said = (await view.show_client("old")).connections[0].mqtt
    assert said is not None
    assert (said.session_expiry_s, said.maximum_packet_size, said.will) == (None, None, None)
    assert (await view.show_session("old")).expiry_s is None


async def test_the_links_of_an_amqp_container_are_shown(broker: RunningBroker, amqp: AmqpClients) -> None:
    """AMQP 2.6: one it sends on, one it receives on, and the queue of its subscription."""
    client = await amqp.connect("shop")
    await client.sender("out", "topic://orders")
    await client.receiver("in", "topic://stock", credit=5)
    view = NodeOperations(broker.node)

    (connection,) = (await view.show_client("shop")).connections

    assert connection.amqp is not None
    assert connection.amqp.container_id == "shop"
    links = [(each.name, each.role, each.address, each.state) for each in connection.amqp.links]
    assert links == [("in", "receiver", "topic://stock", "attached"), ("out", "sender", "topic://orders", "attached")]
    (subscribed,) = (await view.client_subscriptions("shop", SubscriptionsQuery())).subscriptions
    assert (subscribed.topic, subscribed.qos) == ("stock", None)
    assert subscribed.queue == connection.flows[0].queue


async def test_a_publisher_of_the_flow_protocol_is_shown(broker: RunningBroker) -> None:
    client = FlowClient(broker.flow_port, name="till")
    await client.open()
    await client.opens_publisher("till-1")
    (connection,) = (await NodeOperations(broker.node).show_client("till")).connections
    assert connection.flow is not None
    (publisher,) = connection.flow.publishers
    assert (publisher.name, publisher.unanswered_count) == ("till-1", 0)


async def test_the_subscriptions_of_a_flow_client_are_shown(broker: RunningBroker) -> None:
    """Flow: subscriptions. Names of clients are not unique: each connection has its own."""
    async with FlowClient(broker.flow_port, name="till") as first, FlowClient(broker.flow_port, name="till") as other:
        await subscribes(first, "orders/>", "P2", selector="total > 5")
        await subscribes(first, "#share/g/jobs/*")
        await subscribes(first, "left")
        await subscribes(first, "left", kind=frames.UNSUBSCRIBE)
        await subscribes(other, "#")
        view = NodeOperations(broker.node)
        found = await view.client_subscriptions("till", SubscriptionsQuery())
        rows = await view.smrp_subscriptions(SmrpQuery(destination_name="till/*"))
    assert [(each.subscription, each.dto_priority, each.selector) for each in found.subscriptions] == [
        ("#", "DA", None),
        ("#share/g/jobs/+", "DA", None),
        ("orders/>", "P2", "total > 5"),
    ]
    assert {(each.qos, each.queue, each.identifier) for each in found.subscriptions} == {(None, None, None)}
    assert sorted((each.subscription, each.dto_priority) for each in rows.subscriptions) == [
        (each.subscription, each.dto_priority) for each in found.subscriptions
    ]


async def test_a_shared_subscription_of_amqp_is_shown(broker: RunningBroker, amqp: AmqpClients) -> None:
    client = await amqp.connect("shop")
    await client.receiver("in", Source("topic://stock", capabilities=["shared"]), credit=5)
    (found,) = (await NodeOperations(broker.node).client_subscriptions("shop", SubscriptionsQuery())).subscriptions
    assert found.topic == "stock"


async def test_a_clients_subscriptions_are_its_rows_among_those_of_everybody(broker: RunningBroker) -> None:
    client, other = await broker.open(5), await broker.open(5)
    await client.connect("lamp", clean_start=False, properties=EXPIRY)
    await other.connect("other")
    for each in (client, other):
        await each.subscribe("#", "cmd/+", "$share/g/jobs/#", "#noexport/near/+", "plain", qos=1)
    view = NodeOperations(broker.node)

    async def is_alike() -> None:
        own = await view.client_subscriptions("lamp", SubscriptionsQuery())
        rows = await view.smrp_subscriptions(SmrpQuery(destination_name="lamp"))
        expected = [(each.subscription, each.dto_priority) for each in rows.subscriptions]
        assert [(each.subscription, each.dto_priority) for each in own.subscriptions] == expected
        assert own.total_count == 5

    await is_alike()
    await client.vanish()
    await is_alike()


async def test_subscriptions_have_the_options_of_mqtt(broker: RunningBroker) -> None:
    """MQTT 5 3.8.3.1, also while the client is away."""
    client = await broker.open(5)
    await client.connect("lamp", clean_start=False, properties=EXPIRY)
    options = mqtt.options(1, no_local=True, retain_as_published=True, retain_handling=2)
    await client.subscribe(("cmd/+", options), properties=mqtt.varint_property(11, 9))
    await client.subscribe("$share/g/jobs/#", qos=2)
    await client.subscribe("plain")
    view = NodeOperations(broker.node)

    async def seen() -> dict[str, ClientSubscriptionView]:
        found = await view.client_subscriptions("lamp", SubscriptionsQuery())
        assert found.total_count == len(found.subscriptions)
        return {each.subscription: each for each in found.subscriptions}

    found = await seen()
    assert list(found) == ["#share/g/jobs/#", "cmd/+", "plain"]
    asked = found["cmd/+"]
    assert (asked.qos, asked.no_local, asked.retain_as_published, asked.retain_handling) == (1, True, True, 2)
    assert (asked.identifier, found["plain"].identifier) == (9, None)
    shared = found["#share/g/jobs/#"]
    assert (shared.share_name, shared.topic, shared.qos) == ("g", "jobs/#", 2)
    page = await view.client_subscriptions("lamp", SubscriptionsQuery(topic_str="*#*", limit=1))
    assert (page.total_count, len(page.subscriptions)) == (1, 1)

    await client.vanish()
    await until(lambda: _is_away(view, "lamp"), "the end of the client")
    assert await seen() == found
    with pytest.raises(ClientNotFound):
        await view.show_client("lamp")
    with pytest.raises(ClientNotFound):
        await view.client_subscriptions("nobody", SubscriptionsQuery())


async def _is_away(view: NodeOperations, client_id: str) -> bool:
    return not (await view.show_session(client_id)).connected


async def test_a_session_without_its_client_says_what_waits_and_until_when(broker: RunningBroker) -> None:
    client = await broker.open(5)
    await client.connect("lamp", clean_start=False, properties=EXPIRY)
    await client.subscribe("cmd", qos=1)
    view = NodeOperations(broker.node)
    connected = await view.show_session("lamp")
    assert (connected.connected, connected.disconnected_ms, connected.expires_ms) == (True, None, None)
    await client.vanish()
    await until(lambda: _is_away(view, "lamp"), "the end of the client")
    other = await broker.connect("other")
    for payload in (b"1", b"22"):
        await other.publish("cmd", payload)

    page = await view.list_sessions(SessionQuery(connected=False))

    (session,) = page.sessions
    assert (session.client_id, session.expiry_s, session.subscriptions_count) == ("lamp", 3600, 1)
    assert session.disconnected_ms is not None
    assert session.expires_ms == session.disconnected_ms + 3_600_000
    assert (session.queue, session.ready_count, session.unacked_count) == ("#mqtt/lamp", 2, 0)
    assert [each.client_id for each in (await view.list_sessions(SessionQuery(connected=True))).sessions] == ["other"]
    assert (await view.list_sessions(SessionQuery(client_id="l*p", after=1))).total_count == 1


@pytest.mark.parametrize("level", [4, 5])
async def test_ending_a_session_ends_its_client_and_publishes_its_will(broker: RunningBroker, level: int) -> None:
    """MQTT 5 3.14.2.1, 0x98; 3.1.3.2.2: a delayed will is due when the session ends."""
    watcher = await broker.connect("watcher")
    await watcher.subscribe("state/lamp")
    client = await broker.open(level)
    properties = mqtt.u32_property(24, 600) if level == 5 else b""
    await client.connect(
        "lamp",
        clean_start=False,
        properties=EXPIRY if level == 5 else b"",
        will=mqtt.WillPart("state/lamp", b"gone", properties=properties),
    )
    await client.subscribe("cmd", qos=1)
    view = NodeOperations(broker.node)

    await view.delete_session("lamp")

    await client.is_ended(0x98)
    assert (await watcher.message()).payload == b"gone"
    with pytest.raises(SessionNotFound):
        await view.show_session("lamp")
    again = await broker.open(level)
    answer = await again.connect("lamp", clean_start=False, properties=EXPIRY if level == 5 else b"")
    assert not answer.session_present
    with pytest.raises(SessionNotFound):
        await view.delete_session("nobody")


async def test_an_ended_session_does_not_come_back_with_a_restart(broker: RunningBroker) -> None:
    client = await broker.open(5)
    await client.connect("lamp", clean_start=False, properties=EXPIRY)
    await client.subscribe("cmd", qos=1)
    await client.vanish()
    view = NodeOperations(broker.node)
    await until(lambda: _is_away(view, "lamp"), "the end of the client")
    await view.delete_session("lamp")
    await broker.restart()
    assert (await NodeOperations(broker.node).list_sessions(SessionQuery())).total_count == 0


async def test_a_retained_message_is_deleted_for_good_and_nobody_is_sent_anything(broker: RunningBroker) -> None:
    publisher = await broker.connect("publisher", level=5)
    expiry, content_type = mqtt.u32_property(2, 600), mqtt.text_property(3, "text/plain")
    await publisher.publish("hall/1", b"21.5", retain=True, properties=expiry + content_type)
    await publisher.publish("hall/2", b"\xff", retain=True)
    subscriber = await broker.connect("subscriber")
    await subscriber.subscribe("hall/1")
    assert (await subscriber.message()).payload == b"21.5"
    view = NodeOperations(broker.node)
    shown = await view.show_retained("hall/1")
    assert (shown.payload, shown.payload_encoding, shown.message.content_type) == ("21.5", "text", "text/plain")
    assert shown.message.expires_ms == shown.message.published_ms + 600_000
    assert (await view.show_retained("hall/2")).payload_encoding == "base64"

    await view.delete_retained("hall/1")

    await subscriber.is_quiet()
    with pytest.raises(RetainedMessageNotFound):
        await view.delete_retained("hall/1")
    await broker.restart()
    found = await NodeOperations(broker.node).list_retained(RetainedQuery())
    assert [each.topic for each in found.messages] == ["hall/2"]


async def test_what_the_broker_says_itself_cannot_be_deleted(broker: RunningBroker) -> None:
    with pytest.raises(Refused):
        await NodeOperations(broker.node).delete_retained("$SYS/broker/uptime")


async def test_a_listener_counts_its_connections(broker: RunningBroker) -> None:
    client = await broker.connect("one")
    await broker.connect("two")
    view = NodeOperations(broker.node)
    listeners = {each.name: each for each in (await view.list_listeners()).listeners}
    assert sorted(listeners) == ["amqp", "flow", "http", "mqtt", "mqtt_websocket"]
    port = listeners["mqtt"]
    assert (port.protocol, port.port, port.tls, port.websocket) == ("mqtt", broker.port, False, False)
    assert (port.connections_count, port.max_connections, listeners["mqtt_websocket"].websocket) == (2, 10_000, True)
    await client.vanish()

    async def is_counted() -> bool:
        (port,) = [each for each in (await view.list_listeners()).listeners if each.name == "mqtt"]
        return (port.connections_count, port.accepted_total) == (1, 2)

    await until(is_counted, "the end of the connection")
