"""The load generator's MQTT publisher over a socket: what it sends, and which confirmations it counts."""

import select
import socket
from collections.abc import Iterator

import pytest

from bench.load.lanes import Lane
from bench.load.mqtt import Publisher
from bench.load.plan import LoadPlan
from bench.wire import mqtt as wire
from bench.wire.connections import Connection

WINDOW = 4


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, Connection]]:
    """A broker's end of a connection, and the generator's on an epoll object."""
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        select.epoll() as poll,
        Connection(server.getsockname()) as connection,
        server.accept()[0] as broker,
    ):
        connection.join(poll)
        yield broker, connection


def publisher(connection: Connection, *, qos: int, receive_maximum: int = 100) -> Publisher:
    plan = LoadPlan(qos=qos, window=WINDOW, payload_sizes=(10,), topic="bench/t")
    return Publisher(connection, plan, Lane(plan, 0), 0, receive_maximum=receive_maximum)


def answer(broker: socket.socket, to: Publisher, packets: str) -> None:
    """Send packets as the broker, and let the publisher take in all of them."""
    data = bytes.fromhex(packets)
    broker.sendall(data)
    client = to.connection.socket
    while not select.select([client], [], [])[0] or len(client.recv(100, socket.MSG_PEEK)) < len(data):
        pass  # a part of it
    buffer = bytearray(100)
    to.on_readable(buffer, memoryview(buffer))


def sent(broker: socket.socket, count: int) -> bytes:
    return broker.recv(count, socket.MSG_WAITALL)


def test_no_more_is_in_flight_than_the_broker_takes(ends: tuple[socket.socket, Connection]) -> None:
    """MQTT 5.0, 4.9: the receive maximum, until messages are confirmed."""
    broker, connection = ends
    client = publisher(connection, qos=1, receive_maximum=3)
    assert client.publish(10) == 3
    answer(broker, client, "40020001 40020002")
    assert client.confirmed == 2
    assert client.publish(10) == 2


def test_a_packet_id_is_not_used_again_while_its_message_is_in_flight(ends: tuple[socket.socket, Connection]) -> None:
    """MQTT 3.1.1, 2.3.1: also of a load with a rate, which nothing but the broker holds up."""
    _, connection = ends
    plan = LoadPlan(qos=1, rate=100, payload_sizes=(10,), topic="bench/t")
    client = Publisher(connection, plan, Lane(plan, 0), 0, receive_maximum=wire.RECEIVE_MAXIMUM)
    assert client.publish(10 * plan.cycle) <= plan.cycle


@pytest.mark.parametrize("rate", [1_000, 10_000])
def test_a_load_with_a_rate_goes_on_while_its_broker_stands_still_for_a_while(rate: int) -> None:
    """What is on its way for seconds is told from what comes again: less than half a cycle."""
    plan = LoadPlan(qos=1, rate=rate, streams=400)
    assert 2 * rate < plan.cycle // 2
    assert plan.cycle <= wire.CYCLE_MAX
    assert plan.cycle % plan.streams == 0


@pytest.mark.parametrize("streams", [1, 100])
def test_a_competing_consumer_that_lags_by_many_windows_is_not_taken_for_one_that_is_ahead(streams: int) -> None:
    """Its messages lie in a socket while others go on: a window says how many are on their way, not how far apart."""
    plan = LoadPlan(qos=1, window=1000, streams=streams, competing=True)
    assert 25 * plan.window < plan.cycle // 2
    assert plan.cycle <= wire.CYCLE_MAX
    assert plan.cycle % plan.streams == 0


@pytest.mark.parametrize("order", ["40020001 40020002 40020003", "40020003 40020001 40020002"])
def test_each_message_is_confirmed_once_in_order_or_not(ends: tuple[socket.socket, Connection], order: str) -> None:
    """MQTT 3.1.1, 4.6: in order; some brokers do not keep to it. A PUBACK that comes again counts for nothing."""
    broker, connection = ends
    client = publisher(connection, qos=1)
    client.publish(4)
    answer(broker, client, order)
    assert client.confirmed == 3
    answer(broker, client, "40020004")
    assert client.confirmed == 4


def test_qos_2_is_released_message_by_message(ends: tuple[socket.socket, Connection]) -> None:
    """MQTT 3.1.1, 4.3.3: PUBREL for each PUBREC, and confirmed by PUBCOMP."""
    broker, connection = ends
    client = publisher(connection, qos=2)
    client.publish(3)
    length = len(wire.publish_header("bench/t", qos=2, payload_bytes=10).data) + 10
    sent(broker, 3 * length)
    answer(broker, client, "50020001 50020003 50020002")
    assert sent(broker, 12) == bytes.fromhex("62020001 62020003 62020002")
    assert client.confirmed == 0
    answer(broker, client, "70020001 70020002")
    assert client.confirmed == 2


def test_packets_that_no_publisher_gets_are_refused(ends: tuple[socket.socket, Connection]) -> None:
    """PUBREC for a message of QoS 1."""
    broker, connection = ends
    client = publisher(connection, qos=1)
    client.publish(1)
    with pytest.raises(wire.WireError, match="50 02 00 01"):
        answer(broker, client, "50020001")
