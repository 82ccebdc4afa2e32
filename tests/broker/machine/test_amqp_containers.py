"""AMQP clients of two brokers of one machine: each is served at the home of its container, whoever accepts it."""

import gc
import ssl
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from sluicegate.gateway.operations.traces.tap import Tap
from sluicegate.messaging.clients.homes import home_of
from sluicegate.protocols.amqp.codec.frames import frame
from sluicegate.protocols.amqp.codec.performatives import CLOSE, Open
from sluicegate.protocols.amqp.codec.termini import COPY, NEVER, Source
from sluicegate.protocols.amqp.messages.decode import BODY_DATA, body_bytes_of
from sluicegate.protocols.amqp.types import errors as conditions
from support.amqp.client import AMQP_HEADER, AmqpClient
from support.amqp.received import Ended
from support.broker.client_traces import following
from support.broker.linked_brokers import until
from support.broker.machine_brokers import MachineBrokers
from support.network.certificates import Certificates
from support.network.closing_stream import open_closing

TOPIC = "topic://news/eu"


@pytest.fixture
def machine_settings(tmp_path: Path, certificates: Certificates) -> tuple[str, ...]:
    secret = tmp_path / "password"
    secret.write_text("secret")
    users = f"authentication.users=[{{name: ada, password_file: {secret}}}]"
    return (users, "amqp.allow_plain_without_tls=true", *certificates.in_tls("listeners.amqp_tls"))


def container_at(home: int) -> str:
    """Return a container id that belongs to one of two brokers."""
    return next(name for name in map("container-{}".format, range(100)) if home_of(name, 2) == home)


def containers(machine: MachineBrokers, number: int) -> set[str]:
    """Return the containers that a broker serves."""
    return {each.container_id for each in machine[number].node.amqp.open_connections()}


def durable() -> Source:
    return Source(TOPIC, durable=2, expiry_policy=NEVER, distribution_mode=COPY)


async def publish(machine: MachineBrokers, number: int, *payloads: bytes) -> None:
    client = await AmqpClient.open(machine[number].amqp_port, f"publisher-{number}")
    await client.sender("s", TOPIC)
    for payload in payloads:
        client.transfer(9, body_bytes_of(BODY_DATA, payload))
    await client.confirmed()
    await client.close()


async def receives(client: AmqpClient, count: int) -> set[bytes]:
    return {each.payload for each in await client.deliveries(count)}


@pytest.mark.parametrize("home", [1, 2])
async def test_a_durable_subscription_is_found_over_any_broker(machine: MachineBrokers, home: int) -> None:
    """AMQP 3.5.3: the same container id and name is the same subscription."""
    for accepting in (1, 2):
        client = await AmqpClient.open(machine[accepting].amqp_port, container_at(home))
        await client.receiver("mine", durable())
        assert containers(machine, home) == {container_at(home)}
        assert containers(machine, 3 - home) == set()
        client.vanish()
        await publish(machine, 1, f"1 {accepting}".encode())
        await publish(machine, 2, f"2 {accepting}".encode())
    client = await AmqpClient.open(machine[1].amqp_port, container_at(home))
    await client.receiver("mine", durable(), credit=10)
    assert await receives(client, 4) == {b"1 1", b"2 1", b"1 2", b"2 2"}
    client.settle(0, 3)
    await client.close()


async def test_a_client_may_wait_for_the_header_and_send_its_open_in_pieces(machine: MachineBrokers) -> None:
    reader, writer = await open_closing(machine[1].amqp_port)
    writer.write(AMQP_HEADER)
    assert await reader.readexactly(8) == AMQP_HEADER
    data = frame(0, b"") + frame(0, Open(container_at(2)).encode())  # a heartbeat first
    for pos in range(len(data)):
        writer.write(data[pos : pos + 1])
        await writer.drain()
    await until(lambda: containers(machine, 2) == {container_at(2)})
    assert containers(machine, 1) == set()
    writer.close()


async def test_a_container_without_a_name_is_served_where_it_comes(machine: MachineBrokers) -> None:
    for number in (1, 2):
        client = await AmqpClient.open(machine[number].amqp_port, "")
        await client.round_trip()
        assert containers(machine, number) == {""}
        await client.close()


async def test_who_the_client_is_goes_with_it(machine: MachineBrokers) -> None:
    """The home asks nothing more: SASL is over."""
    client = await AmqpClient.open(machine[1].amqp_port, container_at(2), account=("ada", "secret"))
    await client.round_trip()
    (served,) = machine[2].node.amqp.open_connections()
    assert (served.identity.user, served.identity.vpn) == ("ada", "default")
    assert served.peer is not None
    assert (served.peer.listener, served.peer.host) == ("amqp", "127.0.0.1")
    assert machine[1].node.default.clients.count == 0
    assert machine[2].node.default.clients.connected_count("ada") == 1
    assert machine[1].node.amqp.forwarding is not None
    assert machine[1].node.amqp.forwarding.passed_count == 1
    await client.close()


def taps_in_use() -> list[Tap]:
    """Return the taps on connections, of all brokers of this process."""
    return [each for each in gc.get_objects() if isinstance(each, Tap) and not each.is_over]


async def test_a_client_whose_username_is_traced_is_passed_on_and_followed_at_its_home(machine: MachineBrokers) -> None:
    """What follows the connection until it is known whose it is, is not in the way of its socket."""
    async with AsyncExitStack() as stack:
        one, two = [await stack.enter_async_context(following(each, "ada")) for each in machine.all]
        client = await AmqpClient.open(machine[1].amqp_port, container_at(2), account=("ada", "secret"))
        await client.round_trip()
        await two.until_kind("flow")
        await until(lambda: len(taps_in_use()) == 1, "the end of the trace of the connection that was passed on")
        await client.close()
        await two.until_kind("ended")
    assert machine[1].node.amqp.forwarding is not None
    assert machine[1].node.amqp.forwarding.passed_count == 1
    assert one.packets == []
    assert two.kinds()[:3] == ["begun", "open", "begin"]
    assert {each.client for each in two.packets} == {container_at(2)}


async def test_a_client_in_tls_is_relayed(machine: MachineBrokers, certificates: Certificates) -> None:
    port = machine[1].node.amqp.listeners["amqp_tls"].port
    tls = ssl.create_default_context(cafile=certificates.authority)
    client = await AmqpClient.open(port, container_at(2), account=("ada", "secret"), tls=tls)
    await client.receiver("mine", durable(), credit=10)
    large = b"x" * 255
    await publish(machine, 1, *[large] * 1_000)
    client.flow(0, 10_000)
    assert len(await client.deliveries(1_000)) == 1_000
    forwarding = machine[1].node.amqp.forwarding
    assert forwarding is not None
    assert (forwarding.passed_count, forwarding.relayed_count, len(forwarding.relays)) == (0, 1, 1)
    await client.close()
    await until(lambda: not forwarding.relays, "the end of the relay")


async def test_a_link_is_stolen_over_another_broker(machine: MachineBrokers) -> None:
    """AMQP 2.6.1: a link is known by its containers, its name and its direction."""
    first = await AmqpClient.open(machine[1].amqp_port, container_at(2))
    await first.receiver("mine", durable())
    second = await AmqpClient.open(machine[2].amqp_port, container_at(2))
    await second.receiver("mine", durable())
    await first.is_detached(conditions.STOLEN)
    await first.close()
    await second.close()


async def test_a_client_whose_home_is_away_is_refused_until_it_is_back(machine: MachineBrokers) -> None:
    client = await AmqpClient.open(machine[1].amqp_port, container_at(2))
    await client.receiver("mine", durable())
    client.vanish()
    await until(lambda: containers(machine, 2) == set())
    await machine[2].stop()
    refused = await AmqpClient.open(machine[1].amqp_port, container_at(2))
    ended = await refused.awaited(Ended)
    assert ended.code == CLOSE
    assert ended.error is not None
    assert ended.error.condition == conditions.CONNECTION_FORCED
    assert machine[1].node.amqp.counters.refused == {"broker_away": 1}
    refused.vanish()
    await publish(machine, 1, b"while it was away")
    await machine.start(machine[2])
    client = await AmqpClient.open(machine[1].amqp_port, container_at(2))
    await client.receiver("mine", durable(), credit=10)
    assert await receives(client, 1) == {b"while it was away"}
    client.settle(0, 0)
    await client.close()


async def test_a_container_stays_at_the_broker_that_has_its_subscription(machine: MachineBrokers) -> None:
    """It was made when there was another number of brokers."""
    name = container_at(1)
    for broker in machine.all:
        broker.siblings.container_homes.hold(name, 2)
    client = await AmqpClient.open(machine[1].amqp_port, name)
    await client.receiver("mine", durable())
    client.vanish()
    await until(lambda: containers(machine, 2) == set())
    await machine[2].stop()
    await machine.start(machine[2])  # it tells what it has
    assert machine[1].siblings.container_homes.exceptions_count == 1
    await publish(machine, 1, b"1")
    client = await AmqpClient.open(machine[1].amqp_port, name)
    await client.receiver("mine", durable(), credit=10)
    assert await receives(client, 1) == {b"1"}
    await client.close()
