"""A broker that has stood still does not count that time as the silence of its clients and neighbors."""

import asyncio
from pathlib import Path

import pytest

from sluicegate.protocols.flow.codec import codes
from support.amqp.client import AmqpClient, in_transaction
from support.amqp.received import Ended
from support.broker.linked_brokers import Brokers, until
from support.broker.running_broker import RunningBroker
from support.flow.client import FlowClient, Refused
from support.http.client import create
from support.mqtt.raw_client import DEADLINE_S

STALL_S = 3600  # longer than any limit here
CONTROL, OUT = 1, 2


async def test_mqtt_keep_alive_does_not_count_a_stall(broker: RunningBroker) -> None:
    """[3.1.2-22]: what the client has sent lies in the socket."""
    client = await broker.connect("c", 5, keep_alive_s=20)
    broker.clock.forward(STALL_S)
    broker.node.mqtt.tick(STALL_S * 1000)
    await client.round_trip()
    broker.clock.forward(31)
    broker.node.mqtt.tick()
    await client.is_ended(0x8D)


async def test_an_mqtt_client_that_was_silent_before_a_stall_has_the_rest_of_its_time(broker: RunningBroker) -> None:
    client = await broker.connect("c", 5, keep_alive_s=20)
    broker.clock.forward(15)
    broker.node.mqtt.tick()
    broker.clock.forward(STALL_S)
    broker.node.mqtt.tick(STALL_S * 1000)
    assert len(broker.node.mqtt.open_connections()) == 1
    broker.clock.forward(16)
    broker.node.mqtt.tick()
    await client.is_ended(0x8D)


async def test_an_mqtt_client_heard_since_a_stall_gains_nothing_by_it(broker: RunningBroker) -> None:
    client = await broker.connect("c", 5, keep_alive_s=20)
    broker.clock.forward(STALL_S)
    await client.round_trip()  # its bytes are read before time is brought
    broker.node.mqtt.tick(STALL_S * 1000)
    broker.clock.forward(31)
    broker.node.mqtt.tick()
    await client.is_ended(0x8D)


async def test_flow_keep_alive_does_not_count_a_stall(broker: RunningBroker) -> None:
    async with FlowClient(broker.flow_port, keep_alive_ms=20_000) as client:
        broker.clock.forward(STALL_S)
        broker.node.flow.tick(STALL_S * 1000)
        await client.opens_publisher()
        broker.clock.forward(61)
        broker.node.flow.tick()
        with pytest.raises(Refused) as refused:
            await client.opens_publisher()
        assert refused.value.error.code == codes.TIMED_OUT


@pytest.mark.parametrize("name", ["mqtt", "amqp", "flow"])
async def test_the_time_for_a_handshake_does_not_count_a_stall(broker: RunningBroker, name: str) -> None:
    server = broker.node.servers[[each.name for each in broker.node.servers].index(name)]
    _, writer = await asyncio.open_connection("127.0.0.1", server.listeners[name].port)
    await until(lambda: len(server.open_connections()) == 1, "a connection")
    broker.clock.forward(STALL_S)
    server.tick(STALL_S * 1000)
    assert len(server.open_connections()) == 1
    broker.clock.forward(61)
    server.tick()
    await until(lambda: not server.open_connections(), "the end of a client that says nothing")
    writer.transport.abort()


@pytest.mark.settings("amqp.idle_timeout_s=40", "amqp.transaction_timeout_s=50")
async def test_amqp_idle_timeout_and_transactions_do_not_count_a_stall(broker: RunningBroker) -> None:
    """AMQP 2.4.5."""
    await create(broker, "q")
    client = await AmqpClient.open(broker.amqp_port)
    await client.sender("out", "q", handle=OUT)
    await client.coordinator(CONTROL)
    txn = await client.declare(CONTROL)
    broker.clock.forward(STALL_S)
    broker.node.amqp.tick(STALL_S * 1000)
    client.transfer(OUT, b"\0\x53\x77\xa1\1m", state=in_transaction(txn, None))
    await client.discharge(CONTROL, txn)
    broker.clock.forward(41)
    broker.node.amqp.tick()
    closed = await client.awaited(Ended)
    assert "idle timeout" in str(closed.error)
    client.vanish()


async def test_http_limits_do_not_count_a_stall(broker: RunningBroker) -> None:
    """A head, a body and the time to the next request; each is over when it would be without the stall."""
    await create(broker, "q")
    reader, writer = await asyncio.open_connection("127.0.0.1", broker.node.http.listeners["http"].port)
    head, body = b"POST /QUEUE/q HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\n", b"hello"
    sent = 0
    for piece in (head[:20], head[20:], body[:2], body[2:]):
        writer.write(piece)
        sent += len(piece)
        await until(lambda: broker.node.http.counters.bytes_received == sent, "its bytes")  # noqa: B023
        broker.clock.forward(STALL_S)
        broker.node.http.tick(STALL_S * 1000)
    async with asyncio.timeout(DEADLINE_S):
        assert (await reader.readline()).split()[1] == b"200"
        assert broker.node.http.counters.violated == {}
        writer.write(head[:20])
        await until(lambda: broker.node.http.counters.bytes_received == sent + 20, "half a head")
        broker.clock.forward(11)
        broker.node.http.tick()
        assert b" 408 " in await reader.read()
    writer.close()


async def test_a_link_stays_up_over_a_stall_of_either_broker(tmp_path: Path) -> None:
    """`a` has made the connection, and `b` accepted it: each judges its own end."""
    async with Brokers(tmp_path) as brokers:
        await brokers.pair()
        await brokers.are_linked()
        for name, other in (("a", "b"), ("b", "a")):
            broker = brokers[name]
            wire = broker.neighbor(other).wire
            broker.clock.forward(STALL_S)
            broker.node.links.tick(STALL_S * 1000)
            broker.node.flow.tick(STALL_S * 1000)
            assert broker.is_linked_to(other)
            assert broker.neighbor(other).wire is wire
