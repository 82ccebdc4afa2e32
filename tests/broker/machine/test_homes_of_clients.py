"""Clients of two brokers of one machine: each is served by the broker that is its home, whoever accepts it."""

import ssl

import pytest
from websockets.asyncio.client import connect as websocket_connect
from websockets.typing import Subprotocol

import support.mqtt.packets as mqtt
from sluicegate.messaging.clients.homes import home_of
from support.broker.linked_brokers import until
from support.broker.machine_brokers import MachineBrokers, client_at
from support.mqtt.raw_client import RawClient
from support.network.certificates import Certificates

LEVELS = pytest.mark.parametrize("level", [3, 4, 5])


@pytest.fixture
def machine_settings(certificates: Certificates) -> tuple[str, ...]:
    return tuple(certificates.in_tls("listeners.mqtt_tls"))


@LEVELS
async def test_a_client_is_served_at_its_home_whoever_accepts_it(machine: MachineBrokers, level: int) -> None:
    for accepting in (1, 2):
        for home in (1, 2):
            client = await machine[accepting].connect(client_at(home), level)
            await client.round_trip()
            assert client_at(home) in machine[home].clients()
            await client.vanish()


async def test_brokers_do_not_tell_each_other_of_clients(machine: MachineBrokers) -> None:
    """Each identifier has one home among them: a connection is looked for nowhere else."""
    client = await machine[1].connect(client_at(1))
    await client.round_trip()
    for broker in machine.all:
        (link,) = broker.node.links.links.neighbors.values()
        assert [vpn.clients for vpn in link.vpns] == [None]
        assert not broker.node.default.network_clients.has_links
        assert broker.node.default.network_clients.known(client_at(1)) is None
    await client.vanish()


async def test_a_client_finds_its_session_through_any_broker(machine: MachineBrokers) -> None:
    name = client_at(2)
    before = await machine[1].connect_durable(name)
    await before.subscribe("t", qos=1)
    await before.vanish()
    publisher = await machine[1].connect(client_at(1))
    await publisher.publish("t", b"while it was away")
    for accepting in (2, 1):
        client = await machine[accepting].connect_durable(name)
        assert client.accepted.session_present
        await publisher.publish("t", b"now")
        expected = [b"while it was away", b"now"] if accepting == 2 else [b"now"]
        assert await client.payloads(len(expected)) == expected
        await client.vanish()


async def test_a_takeover_needs_no_link(machine: MachineBrokers) -> None:
    """Both connections are at one broker [MQTT 3.1.4-3]."""
    first = await machine[1].connect(client_at(2), 5)
    second = await machine[2].connect(client_at(2), 5)
    assert mqtt.server_disconnect(await first.packet()).reason_code == 0x8E
    await second.round_trip()


async def test_an_assigned_identifier_is_at_home_where_it_was_assigned(machine: MachineBrokers) -> None:
    for accepting in (1, 2):
        client = await machine[accepting].open(5)
        await client.connect("")
        (assigned,) = machine[accepting].clients()
        assert home_of(assigned, 2) == accepting


@pytest.mark.parametrize("home", [1, 2])
async def test_a_client_in_tls_is_served_at_its_home(
    machine: MachineBrokers, certificates: Certificates, home: int
) -> None:
    port = machine[1].node.mqtt.listeners["mqtt_tls"].port
    client = await RawClient.open(port, 5, tls=ssl.create_default_context(cafile=certificates.authority))
    will = mqtt.WillPart("will", b"gone")
    assert (await client.connect(client_at(home), will=will)).reason_code == 0
    assert machine[home].clients() == {client_at(home)}
    watcher = await machine[2].connect("watcher")
    await watcher.subscribe("will", "t")
    await client.publish("t", b"x" * 300_000, qos=1)
    assert await watcher.payloads(1) == [b"x" * 300_000]
    await client.vanish()
    assert await watcher.payloads(1) == [b"gone"]


async def test_a_relayed_client_that_says_goodbye_leaves_no_will(
    machine: MachineBrokers, certificates: Certificates
) -> None:
    watcher = await machine[1].connect(client_at(1))
    await watcher.subscribe("#")
    port = machine[1].node.mqtt.listeners["mqtt_tls"].port
    client = await RawClient.open(port, 5, tls=ssl.create_default_context(cafile=certificates.authority))
    await client.connect(client_at(2), will=mqtt.WillPart("will", b"gone"))
    await client.leave()
    await until(lambda: machine[2].clients() == set())
    await watcher.publish("end", b"end", qos=0)
    assert await watcher.payloads(1) == [b"end"]


@pytest.mark.parametrize("home", [1, 2])
async def test_a_client_in_a_websocket_is_served_at_its_home(machine: MachineBrokers, home: int) -> None:
    url = f"ws://127.0.0.1:{machine[1].websocket_port}/mqtt"
    async with websocket_connect(url, subprotocols=[Subprotocol("mqtt")], proxy=None) as client:
        await client.send(mqtt.connect(client_at(home)))
        assert await client.recv() == b"\x20\x02\x00\x00"
        assert machine[home].clients() == {client_at(home)}
    await until(lambda: machine[home].clients() == set())


async def test_messages_go_between_clients_of_both_brokers(machine: MachineBrokers) -> None:
    one, two = await machine[2].connect(client_at(1)), await machine[1].connect(client_at(2))
    await one.subscribe("t")
    await two.subscribe("t")
    await one.publish("t", b"from one")
    await two.publish("t", b"from two")
    for client in (one, two):
        assert sorted(await client.payloads(2)) == [b"from one", b"from two"]


async def test_a_client_whose_broker_is_away_is_refused_until_it_is_back(machine: MachineBrokers) -> None:
    name = client_at(2)
    before = await machine[2].connect_durable(name)
    await before.vanish()
    await machine[2].stop()
    refused = await machine[1].open(5)
    assert (await refused.connect(name)).reason_code == 0x88
    assert machine[1].node.mqtt.counters.refused == {"broker_away": 1}
    await machine.start(machine[2])
    back = await machine[1].connect_durable(name)
    assert back.accepted.session_present


async def test_a_session_that_does_not_belong_to_its_broker_stays_there(machine: MachineBrokers) -> None:
    """It was made when there was another number of brokers."""
    name = client_at(1)
    for broker in machine.all:
        broker.siblings.homes.hold(name, 2)
    client = await machine[1].connect_durable(name)
    assert machine[2].clients() == {name}
    await client.vanish()
    await machine[2].stop()
    await machine.start(machine[2])
    for accepting in (1, 2):
        client = await machine[accepting].connect_durable(name)
        assert client.accepted.session_present
        assert machine[2].clients() == {name}
        await client.vanish()
