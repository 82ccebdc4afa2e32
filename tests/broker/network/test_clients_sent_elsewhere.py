"""MQTT 5.0 clients that are sent to the neighbor broker that keeps their session (section 4.11)."""

from pathlib import Path

import pytest

import support.mqtt.packets as mqtt
from sluicegate.gateway.config.load import load
from sluicegate.gateway.operations.node import NodeOperations
from sluicegate.protocols.mqtt.session import other_servers
from support.broker.linked_brokers import Brokers, LinkedBroker, until
from support.mqtt.raw_client import RawClient

SERVER_BUSY, USE_ANOTHER_SERVER = 0x89, 0x9C
SERVER_REFERENCE = 28  # property of CONNACK
B = "b.example:1883 [2001:db8::b]:1884"
TO_B = (f"links.b.server_reference={B}",)
KEPT = mqtt.session_expiry(3600)


async def connects(broker: LinkedBroker, client_id: str = "mover", level: int = 5, **options: object) -> mqtt.Answer:
    client = await broker.open(level)
    options = {"clean_start": False, "properties": KEPT if level == 5 else b"", **options}
    return await client.connect(client_id, **options)


async def session_at(broker: LinkedBroker, client_id: str = "mover") -> RawClient:
    """Return a client that has a session there."""
    client = await broker.connect_durable(client_id)
    await client.subscribe(("news", 1))
    return client


async def test_a_client_is_sent_to_the_broker_of_its_session(brokers: Brokers) -> None:
    await brokers.pair(a=TO_B)
    await brokers.are_linked()
    await (await session_at(brokers["b"])).vanish()
    answer = await connects(brokers["a"])
    assert (answer.reason_code, answer.value(SERVER_REFERENCE)) == (USE_ANOTHER_SERVER, B)
    assert (await connects(brokers["b"])).session_present
    samples = await NodeOperations(brokers["a"].node).metrics_snapshot()
    name = "sluicegate_mqtt_clients_redirected_total"
    assert [(each.labels, each.vpn, each.value) for each in samples if each.name == name] == [
        (("session",), "default", 1)
    ]


async def test_a_client_that_is_still_connected_there_is_sent_there_too_and_stays(brokers: Brokers) -> None:
    await brokers.pair(a=TO_B)
    await brokers.are_linked()
    there = await session_at(brokers["b"])
    assert (await connects(brokers["a"])).reason_code == USE_ANOTHER_SERVER
    await there.round_trip()


@pytest.mark.parametrize(
    ("client_id", "options"),
    [
        pytest.param("mover", {"clean_start": True}, id="wants no session"),
        pytest.param("other", {}, id="has none there"),
        pytest.param("passing", {}, id="whose session there ends with its connection"),
        pytest.param("", {}, id="gets a new identifier"),
        pytest.param("mover", {"level": 4}, id="3.1.1 knows no other server"),
        pytest.param("both", {}, id="has one here as well"),
    ],
)
async def test_other_clients_are_served_where_they_come(
    brokers: Brokers, client_id: str, options: dict[str, object]
) -> None:
    await brokers.pair(a=TO_B)
    await (await session_at(brokers["a"], "both")).leave()
    await brokers.are_linked()
    for each in ("mover", "both"):
        await (await session_at(brokers["b"], each)).vanish()
    await brokers["b"].connect("passing", 5)
    assert (await connects(brokers["a"], client_id, **options)).reason_code == 0  # type: ignore[arg-type]


async def test_the_session_of_another_user_is_not_spoken_of(brokers: Brokers, tmp_path: Path) -> None:
    secret = tmp_path / "password"
    secret.write_text("secret")
    users = ", ".join(f"{{name: {name}, password_file: {secret}}}" for name in ("one", "other"))
    accounts = (f"authentication.users=[{users}]", "authentication.allow_anonymous=true")
    await brokers.pair(a=(*accounts, *TO_B), b=accounts)
    await brokers.are_linked()
    one, other = ({"user_name": name, "password": b"secret"} for name in ("one", "other"))
    assert (await connects(brokers["b"], **one)).reason_code == 0  # type: ignore[arg-type]
    assert (await connects(brokers["a"], **other)).reason_code == 0  # type: ignore[arg-type]


async def test_a_client_is_not_sent_to_a_broker_that_has_moved(brokers: Brokers) -> None:
    """It would send the client back here, and the two would go on so for ever."""
    reference = "mqtt.server_reference=a.example:1883"
    await brokers.pair(a=TO_B, b=(reference,))
    await brokers.are_linked()
    await (await session_at(brokers["b"])).vanish()
    await brokers["b"].node.reload(load(None, settings=(*brokers["b"].settings, "mqtt.server_moved=true")))
    assert (await connects(brokers["b"])).value(SERVER_REFERENCE) == "a.example:1883"
    assert brokers["a"].neighbor("b").is_up
    assert (await connects(brokers["a"])).reason_code == 0


async def test_a_client_is_served_here_while_the_link_is_down(brokers: Brokers) -> None:
    await brokers.pair(a=TO_B)
    await brokers.are_linked()
    await session_at(brokers["b"])
    (await brokers.proxy("a", "b")).cut()
    await until(lambda: not brokers["a"].neighbor("b").is_up, "the link is down")
    assert (await connects(brokers["a"])).reason_code == 0


async def test_a_client_is_served_here_if_the_neighbor_does_not_answer(brokers: Brokers) -> None:
    await brokers.pair(a=(*TO_B, "links.b.dead_time_ms=60000"))
    await brokers.are_linked()
    await session_at(brokers["b"])
    (await brokers.proxy("a", "b")).freeze()
    assert (await connects(brokers["a"])).reason_code == 0


async def test_a_neighbor_is_asked_no_more_than_it_takes(brokers: Brokers) -> None:
    await brokers.pair(a=(*TO_B, "links.b.dead_time_ms=60000"))
    await brokers.are_linked()
    servers = brokers["a"].node.default.other_servers
    (await brokers.proxy("a", "b")).freeze()
    clients = [await brokers["a"].open(5) for _ in range(2)]
    for _ in range(other_servers.QUESTIONS_MAX - 1):
        servers.asked()
    clients[0].send(mqtt.connect("first", level=5, clean_start=False))
    await until(lambda: servers.are_busy, "the first question is asked")
    clients[1].send(mqtt.connect("second", level=5, clean_start=False))
    await clients[1].is_refused(SERVER_BUSY)
    assert (await clients[0].connack()).reason_code == 0


async def test_it_begins_and_ends_with_the_setting_of_the_link(brokers: Brokers) -> None:
    await brokers.add("b")
    await brokers.add("a")
    await NodeOperations(brokers["b"].node).create_link({"name": "a"})
    url = f"flow://127.0.0.1:{brokers['b'].flow_port}"
    here = NodeOperations(brokers["a"].node)
    await here.create_link({"name": "b", "url": url})
    await brokers.are_linked()
    await session_at(brokers["b"])
    await here.update_link("b", {"server_reference": "b.example"})
    await brokers.are_linked()
    assert (await connects(brokers["a"])).value(SERVER_REFERENCE) == "b.example"
    await here.update_link("b", {"server_reference": ""})
    await brokers.are_linked()
    assert (await connects(brokers["a"])).reason_code == 0
