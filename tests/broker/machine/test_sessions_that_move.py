"""MQTT sessions of a retired broker move to the broker that is to have them, and their clients notice a reconnect."""

import asyncio
from pathlib import Path

import pytest

import support.mqtt.packets as mqtt
from sluicegate.actors.messages.directory import UpdateRefused
from sluicegate.gateway.node.siblings import Released
from support.broker.linked_brokers import until
from support.broker.machine_brokers import MachineBrokers, client_at, second_retired
from support.mqtt.raw_client import RawClient

CLIENT = client_at(2)
SUBSCRIPTION_IDENTIFIER = 0x0B  # the property


async def move(machine: MachineBrokers, client_id: str = CLIENT) -> None:
    vpn = machine[2].node.default
    moves = machine[2].node.links.moves(vpn)
    await moves.begin_session(client_id, "machine-1")
    await until(lambda: client_id not in vpn.session_clients() and not moves.movers and not moves.moved, "the move")
    machine[1].siblings.released(2, Released(sessions=frozenset({client_id})))


async def resume(machine: MachineBrokers, level: int = 5) -> RawClient:
    client = await machine[1].connect_durable(CLIENT, level)
    assert client.accepted.session_present
    return client


async def publish(machine: MachineBrokers, payloads: list[bytes], qos: int = 2) -> None:
    publisher = await machine[1].connect(client_at(1))
    for payload in payloads:
        assert await publisher.publish("t", payload, qos=qos) == 0
    await publisher.leave()


def numbered(first: int, end: int) -> list[bytes]:
    return [b"%d" % number for number in range(first, end)]


async def test_what_waits_for_a_client_comes_in_order_and_once(tmp_path: Path) -> None:
    async with MachineBrokers(tmp_path) as machine:
        client = await machine[1].connect_durable(CLIENT)
        await client.subscribe("t", qos=1)
        await client.leave()
        await publish(machine, numbered(0, 50))
    async with second_retired(tmp_path) as machine:
        await publish(machine, numbered(50, 60))
        await move(machine)
        await publish(machine, numbered(60, 70))
        client = await resume(machine)
        assert await client.payloads(70) == numbered(0, 70)
        await publish(machine, numbered(70, 71))
        assert await client.payloads(1) == numbered(70, 71)


@pytest.mark.parametrize("level", [4, 5])
async def test_deliveries_that_were_begun_go_on_with_their_packet_ids(tmp_path: Path, level: int) -> None:
    """The client may have them: under another packet id it would take them a second time [4.3.3-2] [4.4.0-1]."""
    async with MachineBrokers(tmp_path) as machine:
        client = await machine[1].connect_durable(CLIENT, level)
        await client.subscribe("t", qos=2)
        await publish(machine, numbered(0, 6))
        begun = [await client.message() for _ in range(6)]
        client.send(mqtt.pubrec(begun[0].packet_id))
        assert await client.answered(mqtt.PUBREL, begun[0].packet_id) == 0
        await client.completes(begun[1])
        await client.completes(begun[4])
        await client.vanish()
        await publish(machine, numbered(6, 9))
    async with second_retired(tmp_path) as machine:
        await move(machine)
        client = await resume(machine, level)
        assert await client.answered(mqtt.PUBREL, begun[0].packet_id) == 0
        client.send(mqtt.pubcomp(begun[0].packet_id))
        again = [await client.message() for _ in range(3)]
        assert [(each.payload, each.packet_id, each.dup) for each in again] == [
            (begun[place].payload, begun[place].packet_id, True) for place in (2, 3, 5)
        ]
        for each in again:
            await client.completes(each)
        assert await client.payloads(3) == numbered(6, 9)
        await client.round_trip()


async def test_what_a_client_has_begun_to_publish_is_not_taken_twice(tmp_path: Path) -> None:
    async with MachineBrokers(tmp_path) as machine:
        client = await machine[1].connect_durable(CLIENT)
        await client.subscribe("t", qos=1)
        client.send(mqtt.publish("t", b"once", level=5, qos=2, packet_id=7))
        assert await client.answered(mqtt.PUBREC, 7) == 0
        await client.vanish()
    async with second_retired(tmp_path) as machine:
        await move(machine)
        client = await resume(machine)
        client.send(mqtt.publish("t", b"once", level=5, qos=2, packet_id=7, dup=True))
        assert await client.answered(mqtt.PUBREC, 7) == 0
        client.send(mqtt.pubrel(7))
        assert await client.answered(mqtt.PUBCOMP, 7) == 0
        await publish(machine, [b"end"])
        assert await client.payloads(2) == [b"once", b"end"]


async def test_subscriptions_move_with_their_options(tmp_path: Path) -> None:
    async with MachineBrokers(tmp_path) as machine:
        client = await machine[1].connect_durable(CLIENT)
        await client.subscribe("t", qos=0, properties=mqtt.subscription_identifier(17))
        await client.leave()
    async with second_retired(tmp_path) as machine:
        await move(machine)
        client = await resume(machine)
        await publish(machine, [b"now"])
        message = await client.message()
        assert (message.payload, message.qos, message.values(SUBSCRIPTION_IDENTIFIER)) == (b"now", 0, [17])


async def test_publishers_go_on_while_a_session_moves(tmp_path: Path) -> None:
    async with MachineBrokers(tmp_path) as machine:
        client = await machine[1].connect_durable(CLIENT)
        await client.subscribe("t", qos=2)
        await client.leave()
        await publish(machine, numbered(0, 200))
    async with second_retired(tmp_path) as machine:
        watcher = await machine[1].connect("watcher")  # wants the same messages at the new home
        await watcher.subscribe("t", qos=1)
        publishing = asyncio.create_task(publish(machine, numbered(200, 500)))
        await move(machine)
        await publishing
        client = await resume(machine)
        assert await client.payloads(500) == numbered(0, 500)
        assert await watcher.payloads(300) == numbered(200, 500)
        await client.round_trip()


async def test_a_client_is_disconnected_and_let_in_again_at_the_new_home(tmp_path: Path) -> None:
    async with MachineBrokers(tmp_path) as machine:
        client = await machine[1].connect_durable(CLIENT)
        await client.subscribe("t", qos=1)
        await client.leave()
    async with second_retired(tmp_path) as machine:
        client = await resume(machine)
        assert machine[2].clients() == {CLIENT}
        await move(machine)
        await client.ends()
        client = await resume(machine)
        assert machine[1].clients() == {CLIENT}


async def test_a_retired_broker_begins_no_sessions(tmp_path: Path) -> None:
    async with MachineBrokers(tmp_path) as machine:
        client = await machine[1].connect_durable(CLIENT)
        await client.leave()
    async with second_retired(tmp_path) as machine:
        client = await machine[1].open(5)
        assert (await client.connect(CLIENT, clean_start=True)).reason_code == 0x88
        assert machine[2].node.default.session_clients() == []


async def test_a_will_that_waits_is_published_by_the_new_home(tmp_path: Path) -> None:
    async with MachineBrokers(tmp_path) as machine:
        will = mqtt.WillPart("will", b"gone", properties=mqtt.will_delay(3600))
        client = await machine[1].connect_durable(CLIENT, will=will)
        await client.vanish()
    async with second_retired(tmp_path) as machine:
        await move(machine)
        watcher = await machine[1].connect("watcher")
        await watcher.subscribe("will", qos=1)
        await machine[1].connect(CLIENT, 5, clean_start=True)  # ends the session, and so the delay [3.1.3-9]
        assert await watcher.payloads(1) == [b"gone"]


async def test_a_session_with_shared_subscriptions_stays_and_is_served(tmp_path: Path) -> None:
    async with MachineBrokers(tmp_path) as machine:
        client = await machine[1].connect_durable(CLIENT)
        await client.subscribe("$share/g/t", qos=1)
        await client.leave()
    async with second_retired(tmp_path) as machine:
        with pytest.raises(UpdateRefused, match="has shared subscriptions: it stays until they end"):
            await move(machine)
        client = await resume(machine)
        await publish(machine, [b"shared"])
        assert await client.payloads(1) == [b"shared"]


async def test_a_session_that_the_new_home_has_already_stays(tmp_path: Path) -> None:
    """Two data folders that were put together may have two."""
    async with MachineBrokers(tmp_path) as machine:
        client = await machine[1].connect_durable(CLIENT)
        await client.subscribe("t", qos=1)
        await client.leave()
    async with second_retired(tmp_path) as machine:
        machine[1].siblings.released(2, Released(sessions=frozenset({CLIENT})))
        other = await machine[1].connect_durable(CLIENT)
        await other.subscribe("other", qos=1)
        with pytest.raises(UpdateRefused, match="does not take queue"):
            await move(machine)
        assert machine[2].node.default.session_clients() == [CLIENT]
