"""MQTT clients that connect at another broker of a network: one connection stays, and the will is published once."""

import asyncio
from pathlib import Path

import pytest

import support.mqtt.packets as mqtt
from sluicegate.gateway.operations.node import NodeOperations
from support.broker.linked_brokers import Brokers, LinkedBroker, until
from support.mqtt.packets import WillPart
from support.mqtt.raw_client import RawClient

SESSION_TAKEN_OVER = 0x8E
KEPT = mqtt.session_expiry(3600)


def ended_count(broker: LinkedBroker) -> int:
    return broker.node.default.network_clients.ended_count


async def cut(network: Brokers) -> None:
    (await network.proxy("a", "b")).cut()
    await until(lambda: not any(network[one].neighbor(other).is_up for one, other in ("ab", "ba")), "the link is down")


async def heal(network: Brokers) -> None:
    (await network.proxy("a", "b")).heal()
    await network.are_linked()


async def witness(network: Brokers) -> RawClient:
    """Return a client of a that is sent wills."""
    client = await network["a"].connect("witness", 5)
    await client.subscribe(("will/#", 1))
    await network.are_linked()
    return client


@pytest.mark.parametrize("level", [4, 5])
async def test_a_client_that_connects_elsewhere_loses_the_connection_that_it_had(network: Brokers, level: int) -> None:
    at_a = await network["a"].connect("mover", level)
    at_b = await network["b"].connect("mover", level)
    await at_a.is_ended(SESSION_TAKEN_OVER)
    await at_b.round_trip()
    again = await network["a"].connect("mover", level)
    await at_b.is_ended(SESSION_TAKEN_OVER)
    await again.round_trip()
    assert (ended_count(network["a"]), ended_count(network["b"])) == (1, 1)


async def test_identifiers_that_brokers_assign_are_not_told(network: Brokers) -> None:
    client = await network["a"].open(5)
    assert (await client.connect("")).reason_code == 0
    assert network["a"].node.default.network_clients.since(0) == []


async def test_a_session_stays_at_its_broker(network: Brokers) -> None:
    """What it has collected is there when its client comes back."""
    at_a = await network["a"].connect_durable("mover")
    await at_a.subscribe(("news", 1))
    at_b = await network["b"].connect_durable("mover")
    await at_a.is_ended(SESSION_TAKEN_OVER)
    publisher = await network["b"].connect("publisher", 5)
    assert await publisher.publish("news", b"kept", qos=1) == 0
    await at_b.is_quiet()
    back = await network["a"].connect_durable("mover")
    assert await back.payloads(1) == [b"kept"]


async def test_after_a_cut_the_newest_connection_stays(network: Brokers) -> None:
    await network["a"].connect("first at a", 5)
    await cut(network)
    first = await network["b"].connect("first at a", 5)
    loser = await network["b"].connect("first at b", 5)
    network["a"].clock.forward(1)
    winner = await network["a"].connect("first at b", 5)
    await loser.round_trip()
    await heal(network)
    await loser.is_ended(SESSION_TAKEN_OVER)
    await winner.round_trip()
    await first.round_trip()
    assert (ended_count(network["a"]), ended_count(network["b"])) == (1, 1)


async def test_a_client_wins_over_the_connection_it_has_left_whatever_the_clocks_show(network: Brokers) -> None:
    network["a"].clock.forward(3600)
    at_a = await network["a"].connect("mover", 5)
    await until(lambda: network["b"].node.default.network_clients.last_stamp > 0, "b has heard of it")
    at_b = await network["b"].connect("mover", 5)
    await at_a.is_ended(SESSION_TAKEN_OVER)
    await at_b.round_trip()


async def test_clients_from_before_the_first_link_count_as_the_oldest(brokers: Brokers) -> None:
    for name in ("b", "a"):
        await brokers.add(name)
    at_b = await brokers["b"].connect("mover", 5)
    at_a = await brokers["a"].connect("mover", 5)
    lone = await brokers["a"].connect("lone", 5)
    await NodeOperations(brokers["b"].node).create_link({"name": "a"})
    url = f"flow://127.0.0.1:{brokers['b'].flow_port}"
    await NodeOperations(brokers["a"].node).create_link({"name": "b", "url": url})
    await brokers.are_linked()
    await at_a.is_ended(SESSION_TAKEN_OVER)  # both are as old, and b is the later name
    await at_b.round_trip()
    await lone.round_trip()
    await brokers["b"].connect("lone", 5)
    await lone.is_ended(SESSION_TAKEN_OVER)


async def test_other_users_do_not_take_over(brokers: Brokers, tmp_path: Path) -> None:
    secret = tmp_path / "password"
    secret.write_text("secret")
    users = ", ".join(f"{{name: {name}, password_file: {secret}}}" for name in ("one", "other"))
    accounts = (f"authentication.users=[{users}]", "authentication.allow_anonymous=true")
    await brokers.pair(a=accounts, b=accounts)
    await brokers.are_linked()
    at_a = await brokers["a"].connect("mover", 5, user_name="one", password=b"secret")
    at_b = await brokers["b"].connect("mover", 5, user_name="other", password=b"secret")
    await until(lambda: brokers["a"].node.default.network_clients.other_user_count == 1, "a has heard of it")
    await at_a.round_trip()
    await at_b.round_trip()


async def test_the_will_is_published_once_where_the_connection_was(network: Brokers) -> None:
    heir = await witness(network)
    await network["b"].connect("mover", 5, will=WillPart(qos=1))
    await network["a"].connect("mover", 5, will=WillPart(payload=b"of the later one", qos=1))
    assert await heir.payloads(1) == [b"gone"]
    await heir.is_quiet()


@pytest.mark.parametrize(("clean_start", "expected"), [(True, [b"gone"]), (False, [])])
async def test_a_delayed_will_is_due_only_if_the_client_begins_anew(
    network: Brokers, clean_start: bool, expected: list[bytes]
) -> None:
    """As on one broker: MQTT 3.1.2.5 and [3.1.3-9]."""
    heir = await witness(network)
    will = WillPart(qos=1, properties=mqtt.will_delay(3600))
    at_b = await network["b"].connect("mover", 5, will=will, properties=KEPT)
    await network["a"].connect("mover", 5, clean_start=clean_start, properties=KEPT)
    await at_b.is_ended(SESSION_TAKEN_OVER)
    assert await heir.payloads(len(expected)) == expected
    await heir.is_quiet()


async def test_a_client_that_returns_elsewhere_calls_its_will_off(network: Brokers) -> None:
    heir = await witness(network)
    will = WillPart(qos=1, properties=mqtt.will_delay(1))
    client = await network["b"].connect("mover", 5, will=will, properties=KEPT)
    await client.vanish()
    sessions = network["b"].node.default.session_directory()._sessions
    await until(lambda: sessions["mover"].connection is None, "b has parked the session")
    await network["a"].connect("mover", 5, clean_start=False, properties=KEPT)
    await asyncio.sleep(1.2)  # the delay, and more
    await heir.is_quiet()


async def test_a_client_at_two_brokers_during_a_cut_has_two_wills(network: Brokers) -> None:
    """One is published when the cut heals, by the broker whose connection ends then."""
    heir = await witness(network)
    await cut(network)
    at_b = await network["b"].connect("mover", 5, will=WillPart(payload=b"of b", qos=1))
    network["a"].clock.forward(1)
    at_a = await network["a"].connect("mover", 5, will=WillPart(payload=b"of a", qos=1))
    await heal(network)
    await at_b.is_ended(SESSION_TAKEN_OVER)
    assert await heir.payloads(1) == [b"of b"]
    await at_a.vanish()
    assert await heir.payloads(1) == [b"of a"]
    await heir.is_quiet()
