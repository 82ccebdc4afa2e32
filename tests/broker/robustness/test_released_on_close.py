"""What a connection held is free when it closes, what a queue was when it is deleted: neither waits for the collector.

A node's cycle collector goes through what has been there for long once in a billion objects (`gateway.process.run`):
what is in a cycle would stay until then. Each test has a client come twice, so that what the first leaves for all who
follow is there, and looks for objects of the gateway's classes that the second left.
"""

import asyncio
import gc
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from typing import Final

import pytest
from websockets.asyncio.client import connect
from websockets.typing import Subprotocol

import support.mqtt.packets as mqtt
from sluicegate.gateway.operations.node import NodeOperations
from sluicegate.protocols.amqp.codec.delivery_states import ACCEPTED, DeliveryState
from sluicegate.protocols.amqp.codec.termini import Source
from sluicegate.protocols.flow.codec.frame import SUBSCRIBE
from sluicegate.protocols.flow.codec.frames.subscription import Subscribe, Subscribed
from support.amqp.client import AmqpClient, body, in_transaction
from support.broker.named_queues import create, shows
from support.broker.running_broker import RunningBroker
from support.flow.client import FlowClient
from support.http.client import LINES, event_stream, http_client, poll, settle
from support.http.client import publish as post
from support.http.web_server import WebServer
from support.mqtt.raw_client import DEADLINE_S

ROOMS: Final = tuple(f"sluicegate.{room}." for room in ("actors", "gateway", "messaging", "protocols", "storage"))
# What was told and what was stored stays for a while, and has bounds of its own; rows in the log stay until a
# checkpoint; the thread that writes has its last commit until the next; a timer that was cancelled stays until its
# time, or until there are many; views are what tests ask with.
STAYS: Final = (
    *(".Event", ".LogSlot", ".LogRecord", ".RowWrite", ".Reservation", ".CommitJob", ".TableWrite"),
    *(".Timer", ".NodeOperations", ".MessageOperations", ".QueueFollowers"),
)
ACCEPT: Final = DeliveryState(ACCEPTED)


def there() -> Counter[str]:
    """Return how many objects there are of each of the gateway's classes."""
    kinds = Counter(type(each) for each in gc.get_objects())
    names = {f"{kind.__module__}.{kind.__qualname__}": count for kind, count in kinds.items()}
    return Counter({name: count for name, count in names.items() if name.startswith(ROOMS)})


@pytest.fixture(autouse=True)
def collector() -> Iterator[None]:
    """Have the collector look at nothing that a test does not have it look at."""
    gc.disable()
    yield
    gc.enable()


async def leaves_nothing(broker: RunningBroker, comes_and_goes: Callable[[], Awaitable[None]]) -> None:
    """Whoever comes and goes leaves nothing."""
    await comes_and_goes()
    await all_gone(broker)
    gc.collect()
    before = there()
    await comes_and_goes()
    try:
        async with asyncio.timeout(DEADLINE_S):
            while left(before):
                await asyncio.sleep(0.01)
    except TimeoutError:
        raise AssertionError(f"what is left: {left(before)}") from None


async def all_gone(broker: RunningBroker) -> None:
    """Wait until clients are gone, and what they have asked for last is done."""
    async with asyncio.timeout(DEADLINE_S):
        while any(server.connections.children for server in broker.node.servers):
            await asyncio.sleep(0.01)
    idle = asyncio.get_running_loop().create_future()
    broker.node.services.spool_actor().when_idle(lambda: idle.set_result(None))
    await asyncio.wait_for(idle, DEADLINE_S)


def left(before: Counter[str]) -> dict[str, int]:
    """Return how many more there are than before."""
    return {kind: count for kind, count in (there() - before).items() if not kind.endswith(STAYS)}


# --- MQTT ---


@pytest.mark.parametrize("qos", [0, 1, 2])
async def test_an_mqtt_client_that_published_and_consumed(broker: RunningBroker, qos: int) -> None:
    async def comes_and_goes() -> None:
        client = await broker.connect("client")
        await client.subscribe("t", "$share/g/s", qos=qos)
        await client.publish("t", b"1", qos=qos, retain=True)
        message = await client.message()
        if qos == 1:
            client.acknowledge(message)
        elif qos == 2:
            client.send(mqtt.pubrec(message.packet_id))
            await client.answered(mqtt.PUBREL, message.packet_id)
            client.send(mqtt.pubcomp(message.packet_id))
        await client.subscribe("+", qos=qos)
        await client.message()
        await client.unsubscribe("t", "$share/g/s", "+")
        await client.publish("t", b"", qos=qos, retain=True)
        await client.leave()

    await leaves_nothing(broker, comes_and_goes)


async def test_an_mqtt_client_that_vanishes_with_messages_unanswered(broker: RunningBroker) -> None:
    async def comes_and_goes() -> None:
        client = await broker.connect("client")
        await client.subscribe("t", qos=2)
        await client.publish("t", b"1", qos=1)
        await client.message()
        await client.vanish()

    await leaves_nothing(broker, comes_and_goes)


async def test_an_mqtt_client_that_leaves_with_its_last_answer(broker: RunningBroker) -> None:
    """What was to be written at the end of the turn is written by whoever has the session then."""

    async def comes_and_goes() -> None:
        client = await broker.connect_durable("client")
        await client.subscribe("t", qos=2)
        await client.publish("t", b"1", qos=2)
        message = await client.message()
        client.send(mqtt.pubrec(message.packet_id) + mqtt.disconnect())
        await client.is_closed()
        await (await broker.connect("client")).leave()  # which ends its session

    await leaves_nothing(broker, comes_and_goes)


async def test_an_mqtt_client_that_names_a_method_of_authentication(broker: RunningBroker) -> None:
    async def comes_and_goes() -> None:
        client = await broker.open(5)
        client.send(mqtt.connect("client", level=5, properties=mqtt.authentication_method("unheard-of")))
        await client.is_refused(0x8C)

    await leaves_nothing(broker, comes_and_goes)


async def test_an_mqtt_client_whose_session_another_connection_takes(broker: RunningBroker) -> None:
    async def comes_and_goes() -> None:
        first = await broker.connect_durable("client")
        await first.subscribe("t", "$share/g/s", qos=2)
        second = await broker.connect_durable("client")
        await first.is_ended(0x8E)
        await second.leave()
        await (await broker.connect("client")).leave()  # which ends its session

    await leaves_nothing(broker, comes_and_goes)


async def test_an_mqtt_client_over_websocket(broker: RunningBroker) -> None:
    async def comes_and_goes() -> None:
        url = f"ws://127.0.0.1:{broker.websocket_port}/mqtt"
        async with connect(url, subprotocols=[Subprotocol("mqtt")]) as socket:
            await socket.send(mqtt.connect("client"))
            await asyncio.wait_for(socket.recv(), DEADLINE_S)

    await leaves_nothing(broker, comes_and_goes)


# --- AMQP ---


async def test_an_amqp_client_that_has_not_opened(broker: RunningBroker) -> None:
    async def comes_and_goes() -> None:
        _, writer = await asyncio.open_connection("127.0.0.1", broker.amqp_port)
        writer.close()
        await writer.wait_closed()
        async with asyncio.timeout(DEADLINE_S):
            while not broker.node.amqp.counters.connected:
                await asyncio.sleep(0.01)

    await leaves_nothing(broker, comes_and_goes)


@pytest.mark.parametrize("vanishes", [False, True])
async def test_an_amqp_client_that_published_and_consumed(broker: RunningBroker, vanishes: bool) -> None:
    await create(broker)

    async def comes_and_goes() -> None:
        client = await AmqpClient.open(broker.amqp_port)
        await client.sender("out", "q", handle=0)
        await client.receiver("in", "q", handle=1, credit=1)
        assert (await client.outcome(client.transfer(0, body("x")))).code == ACCEPTED
        message = await client.delivery()
        if vanishes:
            client.vanish()
            await shows(broker, lambda view: view.unacked_count == 0)
            await NodeOperations(broker.node).purge_queue("q")
        else:
            client.settle(message.delivery_id, message.delivery_id, ACCEPT)
            await client.round_trip()
            await client.close()

    await leaves_nothing(broker, comes_and_goes)


async def test_an_amqp_client_with_transactions(broker: RunningBroker) -> None:
    await create(broker)

    async def comes_and_goes() -> None:
        client = await AmqpClient.open(broker.amqp_port)
        await client.sender("out", "q", handle=0)
        await client.coordinator(1)
        first, _ = await client.declare(1), await client.declare(1)
        client.transfer(0, body("x"), state=in_transaction(first, None))
        await client.discharge(1, first, fail=True)
        await client.close()

    await leaves_nothing(broker, comes_and_goes)


async def test_an_amqp_client_that_subscribed_and_looked_at_a_queue(broker: RunningBroker) -> None:
    """The subscription's queue goes with it."""
    await create(broker)
    async with http_client(broker) as poster:
        await post(poster, "q", "x")

    async def comes_and_goes() -> None:
        client = await AmqpClient.open(broker.amqp_port)
        await client.receiver("in", "topic://a/b", handle=0, credit=1)
        await client.receiver("look", Source("q", distribution_mode="copy"), handle=1, credit=1)
        await client.delivery()
        await client.close()
        await broker.has_no_more_than(sessions=0, queues=1)

    await leaves_nothing(broker, comes_and_goes)


# --- the flow protocol ---


@pytest.mark.parametrize("is_cut", [False, True])
async def test_a_flow_client_that_published_and_consumed(broker: RunningBroker, is_cut: bool) -> None:
    await create(broker)

    async def comes_and_goes() -> None:
        client = FlowClient(broker.flow_port)
        await client.open()
        publisher = await client.opens_publisher()
        flow_id = await client.binds("q")
        client.publishes(publisher.flow_id, [1], queue="q")
        await client.answered(publisher.flow_id, 1)
        await client.receives_in_all(1, flow_id)
        if is_cut:
            client.cut()
            await client.ended()
            await shows(broker, lambda view: view.unacked_count == 0)
            await NodeOperations(broker.node).purge_queue("q")
        else:
            client.accepts_through(flow_id, 1)
            await client.unbinds(flow_id)
            await client.close()

    await leaves_nothing(broker, comes_and_goes)


async def test_a_flow_client_that_subscribed(broker: RunningBroker) -> None:
    async def comes_and_goes() -> None:
        client = FlowClient(broker.flow_port)
        await client.open()
        client.send(Subscribe(SUBSCRIBE, 1, "a/b").encode())
        await client.heard(Subscribed)
        client.publishes(0, [0], topic="a/b")
        await client.receives_in_all(1, 0)
        await client.close()

    await leaves_nothing(broker, comes_and_goes)


# --- HTTP ---


async def test_an_http_client_that_published_and_polled(broker: RunningBroker) -> None:
    await create(broker)

    async def comes_and_goes() -> None:
        async with http_client(broker) as client:
            await post(client, "q", "x")
            flow, lines = await poll(client, "/QUEUE/q")
            await settle(client, f"{flow}/{lines[0]['delivery']}")
            await client.delete(flow)

    await leaves_nothing(broker, comes_and_goes)


async def test_an_http_client_that_followed_a_queue_and_looked_at_it(broker: RunningBroker) -> None:
    await create(broker)

    async def comes_and_goes() -> None:
        async with http_client(broker) as client:
            async with event_stream(client, "/QUEUE/q") as stream:
                flow = (await stream.next("state")).data["flow"]
            await client.delete(flow)
            await client.get("/QUEUE/q", params={"browse": "true"}, headers=LINES)

    await leaves_nothing(broker, comes_and_goes)


async def test_a_rest_delivery_point_that_is_deleted(broker: RunningBroker) -> None:
    await create(broker)
    points = broker.node.default.rest
    async with WebServer() as server:

        async def comes_and_goes() -> None:
            told = {"name": "web", "remote_host": "127.0.0.1", "remote_port": server.port}
            binding = {"queue": "q", "post_request_target": "/in"}
            await points.create({"name": "p", "queue_bindings": [binding], "rest_consumers": [told]})
            async with http_client(broker) as client:
                await post(client, "q", "x")
            await shows(broker, lambda view: view.ready_count + view.unacked_count == 0)
            await points.delete("p")

        await leaves_nothing(broker, comes_and_goes)


# --- queues ---


async def test_a_queue_that_is_deleted(broker: RunningBroker) -> None:
    async def comes_and_goes() -> None:
        await create(broker, access_type="non-exclusive", partition_count=3)
        client = FlowClient(broker.flow_port)
        await client.open()
        publisher = await client.opens_publisher()
        flow_id = await client.binds("q")
        client.publishes(publisher.flow_id, [1, 2], queue="q")
        await client.answered(publisher.flow_id, 2)
        await client.receives_in_all(2, flow_id)
        client.accepts_through(flow_id, 1)
        await NodeOperations(broker.node).delete_queue("q")
        await client.close()

    await leaves_nothing(broker, comes_and_goes)
