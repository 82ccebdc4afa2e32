"""A web server that decides who may come in, asked by two brokers of one machine: each asks for the clients that it
authenticates, and what the server has granted goes along with a client that the other broker serves.
"""

import asyncio
import json
from collections.abc import Iterator

import pytest

import support.mqtt.packets as mqtt
from sluicegate.gateway.operations.node import NodeOperations
from sluicegate.gateway.views.errors import Refused
from sluicegate.messaging.clients.homes import home_of, publisher_key
from sluicegate.messaging.clients.rights import NOT_AUTHENTICATED
from sluicegate.protocols.amqp.types import errors as conditions
from sluicegate.protocols.flow.codec import codes
from sluicegate.protocols.flow.codec.frames.session import AUTH_DONE
from support.amqp.client import AmqpClient
from support.broker.linked_brokers import until
from support.broker.machine_brokers import MachineBrokers, client_at
from support.broker.named_queues import create
from support.broker.protocol_clients import OK, Amqp
from support.flow.client import FlowClient
from support.http.client import http_client, poll
from support.http.web_server import WebServer

PROFILES = "[{name: strict, publish_topic_exceptions: [{topic: 'data/$client-username/>'}]}]"
STRICT = json.dumps({"result": "allow", "acl_profile": "strict"}).encode()
ALLOW = json.dumps({"result": "allow"}).encode()
ACCOUNT = ("eve", "secret")


@pytest.fixture
def web_server(runner: asyncio.Runner) -> Iterator[WebServer]:
    server = WebServer()
    server.body = STRICT
    runner.run(server.__aenter__())
    yield server
    runner.run(server.__aexit__(None, None, None))


@pytest.fixture
def machine_settings(web_server: WebServer) -> tuple[str, ...]:
    return (
        f"authentication.http.url=http://127.0.0.1:{web_server.port}/login",
        "authentication.allow_anonymous=false",
        "amqp.allow_plain_without_tls=true",
        f"authentication.acl_profiles={PROFILES}",
    )


def container_at(home: int) -> str:
    """Return a container id that belongs to one of two brokers."""
    return next(name for name in map("container-{}".format, range(100)) if home_of(name, 2) == home)


def publisher_at(home: int) -> str:
    """Return the name of a publisher that belongs to one of two brokers."""
    names = map("publisher-{}".format, range(100))
    return next(name for name in names if home_of(publisher_key("default", name), 2) == home)


async def outcomes(machine: MachineBrokers, number: int) -> dict[str, float]:
    samples = await NodeOperations(machine[number].node).metrics_snapshot()
    return {each.labels[0]: each.value for each in samples if each.name == "sluicegate_external_logins_total"}


async def flow_client(machine: MachineBrokers, number: int) -> FlowClient:
    client = FlowClient(machine[number].flow_port)
    await client.connect()
    assert (await client.authenticate("PLAIN", b"\0eve\0secret")).state == AUTH_DONE
    return client


async def published(client: FlowClient, flow_id: int, sequence: int, topic: str) -> list[int]:
    """Return the codes of refusal of one message."""
    client.publishes(flow_id, [sequence], topic=topic)
    return [each.code for each in await client.answered(flow_id, sequence)]


async def mqtt_login(machine: MachineBrokers, accepting: int, home: int) -> None:
    client = await machine[accepting].open(5)
    client.send(mqtt.connect(client_at(home), level=5, user_name="eve", password=b"secret"))
    assert mqtt.connack(await client.packet(), 5).reason_code == 0


async def test_the_home_of_an_mqtt_client_asks_about_it(machine: MachineBrokers, web_server: WebServer) -> None:
    for accepting in (1, 2):
        await mqtt_login(machine, accepting, home=2)
    assert [json.loads(each.body)["client_id"] for each in web_server.requests] == [client_at(2)]
    assert await outcomes(machine, 1) == {}
    assert await outcomes(machine, 2) == {"allowed": 1, "remembered": 1}


@pytest.mark.parametrize("home", [1, 2])
async def test_an_amqp_client_has_its_profiles_at_its_home(
    machine: MachineBrokers, web_server: WebServer, home: int
) -> None:
    client = Amqp(machine[1], container_at(home))
    assert await client.connect(*ACCOUNT) == OK
    assert await client.publish("data/eve/x") == OK
    assert await client.publish("data/ada/x") == conditions.UNAUTHORIZED_ACCESS
    await client.leave()
    assert len(web_server.requests) == 1
    assert await outcomes(machine, 1) == {"allowed": 1}
    assert await outcomes(machine, 2) == {}


@pytest.mark.parametrize("home", [1, 2])
async def test_a_named_publisher_has_the_profiles_of_its_user_at_its_home(machine: MachineBrokers, home: int) -> None:
    client = await flow_client(machine, 1)
    flow_id = (await client.opens_publisher(publisher_at(home))).flow_id
    assert await published(client, flow_id, 1, "data/eve/x") == []
    assert await published(client, flow_id, 2, "data/ada/x") == [codes.NOT_PERMITTED]
    client.cut()


async def test_a_profile_of_a_user_who_only_visits_cannot_be_deleted(
    machine: MachineBrokers, web_server: WebServer
) -> None:
    for broker in machine.all:
        await broker.node.default.acl_profiles.create(
            {"name": "made", "publish_topic_exceptions": [{"topic": "data/$client-username/>"}]}
        )
    web_server.body = json.dumps({"result": "allow", "acl_profile": "made"}).encode()
    client = await flow_client(machine, 1)
    flow_id = (await client.opens_publisher(publisher_at(2))).flow_id
    with pytest.raises(Refused, match="users have it: 'eve'"):
        await machine[2].node.default.acl_profiles.delete("made")
    assert await published(client, flow_id, 1, "data/ada/x") == [codes.NOT_PERMITTED]
    client.cut()


async def test_a_request_about_a_flow_of_the_other_broker_asks_once(
    machine: MachineBrokers, web_server: WebServer
) -> None:
    await create(machine[1], "q")
    async with http_client(machine[1], auth=ACCOUNT) as one, http_client(machine[2], auth=ACCOUNT) as two:
        flow, _ = await poll(one, "/QUEUE/q")
        assert len(web_server.requests) == 1
        await poll(two, flow)
        assert len(web_server.requests) == 2  # each broker asks for the connections that it accepts
    assert machine[1].node.default.external.usernames["eve"].acl_profile == "strict"


async def test_a_client_whose_profile_its_home_does_not_have_is_not_let_in(
    machine: MachineBrokers, web_server: WebServer
) -> None:
    """Else it would have the profiles of users without an account."""
    await machine[1].node.default.acl_profiles.create({"name": "made"})
    web_server.body = json.dumps({"result": "allow", "acl_profile": "made"}).encode()
    client = await AmqpClient.open(machine[1].amqp_port, container_at(2), account=ACCOUNT)
    denied = machine[2].node.default.clients.denials.counts
    await until(lambda: denied.get(NOT_AUTHENTICATED) == 1, "the refusal")
    assert machine[2].node.amqp.open_connections() == []
    client.vanish()


async def test_the_newest_answer_about_a_name_holds(machine: MachineBrokers, web_server: WebServer) -> None:
    client = await flow_client(machine, 1)
    machine[2].forward(1)
    web_server.body = ALLOW
    await mqtt_login(machine, 2, home=2)
    flow_id = (await client.opens_publisher(publisher_at(2))).flow_id
    assert await published(client, flow_id, 1, "data/ada/x") == []
    await until(lambda: machine[2].node.default.external.usernames["eve"].acl_profile == "default", "the newest answer")
    client.cut()
