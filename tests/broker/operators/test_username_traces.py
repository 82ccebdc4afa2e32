"""Traces of a username: each connection of its clients is followed from its first byte on, whatever its protocol."""

import asyncio
import base64
from collections.abc import AsyncIterator, Callable
from typing import Final

import httpx
import pytest

import support.mqtt.packets as mqtt
from sluicegate.gateway.operations.traces.followed.connection import PENDING_MAX
from support.broker.client_traces import following
from support.broker.inside_client import until
from support.broker.protocol_clients import OK, Amqp, FlowProtocol, Http, Mqtt, ProtocolClient
from support.broker.running_broker import RunningBroker
from support.http.client import http_client
from support.mqtt.raw_client import DEADLINE_S, RawClient

USERS: Final = pytest.mark.accounts(ada="secret", bob="other")
BEGINS: Final = {  # what is exchanged until a client is admitted
    "mqtt": ["CONNECT", "CONNACK"],
    "amqp": [
        *("protocol header", "sasl-init", "protocol header", "sasl-mechanisms", "sasl-outcome"),
        *("protocol header", "open", "begin", "protocol header", "open"),
    ],
    "flow": ["preface", "HELLO", "preface", "WELCOME", "AUTH", "AUTH"],
    "http": ["request", "response"],
}
CLIENTS: Final[dict[str, Callable[..., ProtocolClient]]] = {
    "mqtt": Mqtt,
    "amqp": Amqp,
    "flow": FlowProtocol,
    "http": Http,
}


async def post(broker: RunningBroker, user: str, password: str) -> int:
    """Send one request on a connection of its own, as curl does."""
    auth = httpx.BasicAuth(user, password) if user else httpx.Auth()
    async with http_client(broker) as client:
        return (await client.post("/TOPIC/t", content="hello", auth=auth)).status_code


@USERS
@pytest.mark.parametrize("protocol", CLIENTS)
async def test_connections_of_the_user_are_followed_from_their_first_packet_on(
    broker: RunningBroker, protocol: str
) -> None:
    async with following(broker, "ada") as trace:
        other, client = CLIENTS[protocol](broker, "other"), CLIENTS[protocol](broker, "hers")
        assert await other.connect("bob", "other") == OK
        assert await client.connect("ada", "secret") == OK
        await until(lambda: len(trace.packets) > len(BEGINS[protocol]), "the first packets")
        await client.leave()
        await trace.until_kind("ended")
        await other.leave()
    assert trace.kinds()[0] == "begun"
    assert sorted(trace.kinds()[1 : 1 + len(BEGINS[protocol])]) == sorted(BEGINS[protocol])
    assert len({(each.client, each.address) for each in trace.packets}) == 1
    assert "secret" not in str(trace.packets)


@USERS
async def test_each_connection_of_curl_is_followed_and_named(broker: RunningBroker) -> None:
    async with following(broker, "ada") as trace:
        for number in range(1, 4):
            assert await post(broker, "ada", "secret") == 200
            assert await post(broker, "bob", "other") == 200
            assert await post(broker, "ada", "wrong") == 401
            await trace.until_kind("ended", number)
    assert trace.kinds() == ["begun", "request", "response", "ended"] * 3
    assert len({each.client for each in trace.packets}) == 3
    assert all(each.client.startswith("#http/") for each in trace.packets)
    assert [each.payload for each in trace.packets if each.kind == "request"] == ["hello"] * 3


@USERS
async def test_of_a_connection_that_users_share_only_the_requests_of_the_user_are_shown(broker: RunningBroker) -> None:
    """A proxy sends the requests of all its users on one connection. One was there before the trace."""
    async with http_client(broker) as client:
        assert (await client.post("/TOPIC/a", auth=("bob", "other"))).status_code == 200
        async with following(broker, "ada") as trace:
            for number in range(3):
                assert (await client.post(f"/TOPIC/ada{number}", auth=("ada", "secret"))).status_code == 200
                assert (await client.post(f"/TOPIC/bob{number}", auth=("bob", "other"))).status_code == 200
            await trace.until_kind("response", 3)
    targets = [each.fields["target"] for each in trace.packets if each.kind == "request"]
    assert targets == ["/TOPIC/ada0", "/TOPIC/ada1", "/TOPIC/ada2"]
    assert trace.kinds().count("response") == 3


async def test_clients_that_were_admitted_without_a_username_are_followed_by_an_empty_one(
    broker: RunningBroker,
) -> None:
    lamp = await broker.connect("lamp")
    async with following(broker, "") as trace:
        assert await post(broker, "", "") == 200
        await trace.until_kind("ended")
        await lamp.publish("a")
        await trace.until_kind("PUBACK")
    assert {each.client for each in trace.packets if not each.client.startswith("#http/")} == {"lamp"}


@USERS
async def test_of_a_shared_connection_refused_requests_are_nobodys(broker: RunningBroker) -> None:
    async with following(broker, "ada") as trace, http_client(broker) as client:
        assert (await client.post("/TOPIC/ada", auth=("ada", "secret"))).status_code == 200
        assert (await client.post("/TOPIC/bob", content="bob's", auth=("bob", "wrong"))).status_code == 401
        assert (await client.post("/TOPIC/eve", content="eve's")).status_code == 401
        assert (await client.post("/TOPIC/ada", auth=("ada", "wrong"))).status_code == 401
        assert (await client.post("/TOPIC/ada", auth=("ada", "secret"))).status_code == 200
        await trace.until_kind("response", 2)
    assert trace.kinds() == ["begun", "request", "response", "request", "response"]
    assert [each.fields["target"] for each in trace.packets if each.kind == "request"] == ["/TOPIC/ada"] * 2
    assert [each.fields["status"] for each in trace.packets if each.kind == "response"] == [200, 200]


def request(user: str, password: str, target: str) -> bytes:
    """Return a request with a body that names its user."""
    credentials = base64.b64encode(f"{user}:{password}".encode()).decode()
    head = f"POST {target} HTTP/1.1\r\nHost: here\r\nAuthorization: Basic {credentials}\r\nContent-Length: {len(user)}"
    return f"{head}\r\n\r\n{user}".encode()


@USERS
@pytest.mark.parametrize(
    "users", [("bob", "ada"), ("ada", "bob"), ("bob", "ada", "bob"), ("ada", "bob", "ada", "ada"), ("mallory", "ada")]
)
@pytest.mark.parametrize("is_known", [False, True])
async def test_pipelined_requests_on_one_connection_are_those_of_their_users(
    broker: RunningBroker, users: tuple[str, ...], is_known: bool
) -> None:
    """The connection is new, or was there before the trace and its latest user is known."""
    passwords = {"ada": "secret", "bob": "other"}
    reader, writer = await asyncio.open_connection("127.0.0.1", broker.node.http.listeners["http"].port)
    if is_known:
        writer.write(request("bob", "other", "/TOPIC/before"))
        await reader.readuntil(b"\r\n\r\n")
    async with following(broker, "ada") as trace:
        writer.write(
            b"".join(request(each, passwords.get(each, "?"), f"/TOPIC/{each}{at}") for at, each in enumerate(users))
        )
        await trace.until_kind("response", users.count("ada"))
        writer.write(request("ada", "secret", "/TOPIC/last"))
        await trace.until_kind("response", users.count("ada") + 1)
    writer.close()
    requests = [each for each in trace.packets if each.kind == "request"]
    targets = [f"/TOPIC/{each}{at}" for at, each in enumerate(users) if each == "ada"]
    assert [each.fields["target"] for each in requests] == [*targets, "/TOPIC/last"]
    assert {each.payload for each in requests} == {"ada"}
    assert trace.kinds()[1:] == ["request", "response"] * (len(targets) + 1)


@USERS
@pytest.mark.parametrize("is_head_there", [False, True])
async def test_a_trace_that_begins_within_a_request_shows_those_behind_it(
    broker: RunningBroker, is_head_there: bool
) -> None:
    """The requests behind it, sent before it is answered, are not taken for it."""
    reader, writer = await asyncio.open_connection("127.0.0.1", broker.node.http.listeners["http"].port)
    under_way = request("bob", "other", "/TOPIC/bob")
    begun = under_way[: -1 if is_head_there else 20]
    writer.write(begun)
    await until(lambda: any(each.is_within_packet() for each in broker.node.http.open_connections()), "its beginning")
    async with following(broker, "ada") as trace:
        writer.write(under_way[len(begun) :])
        writer.write(request("ada", "secret", "/TOPIC/ada1") + request("bob", "other", "/TOPIC/bob"))
        writer.write(request("ada", "secret", "/TOPIC/ada2"))
        await asyncio.wait_for(reader.readuntil(b"'ada2'"), DEADLINE_S)  # it says where nobody subscribes
        writer.write(request("ada", "secret", "/TOPIC/ada3"))
        await trace.until_kind("response", 3)
    writer.close()
    assert "bob" not in str(trace.packets)
    targets = [each.fields["target"] for each in trace.packets if each.kind == "request"]
    assert targets[-1] == "/TOPIC/ada3"
    assert trace.kinds().count("response") == 3


@USERS
async def test_the_response_says_how_much_of_a_long_upload_was_left_out(broker: RunningBroker) -> None:
    chunk_count = 3 * PENDING_MAX

    async def chunks() -> AsyncIterator[bytes]:
        for _ in range(chunk_count):
            yield b"more"

    async with following(broker, "ada") as trace, http_client(broker) as client:
        assert (await client.post("/TOPIC/t", content=chunks(), auth=("ada", "secret"))).status_code == 200
        await trace.until_kind("response")
    response = trace.packets[-1]
    shown_count = trace.kinds().count("chunk")
    assert response.kind == "response"
    assert response.left_out_count == chunk_count + 1 - shown_count  # with the last chunk, which is empty
    assert response.left_out_count > 0


@USERS
async def test_what_is_left_out_of_another_user_is_not_counted(broker: RunningBroker) -> None:
    async def chunks() -> AsyncIterator[bytes]:
        for _ in range(3 * PENDING_MAX):
            yield b"more"

    async with following(broker, "ada") as trace, http_client(broker) as client:
        assert (await client.post("/TOPIC/t", content=chunks(), auth=("bob", "other"))).status_code == 200
        assert (await client.post("/TOPIC/t", auth=("ada", "secret"))).status_code == 200
        await trace.until_kind("response")
    assert [each.left_out_count for each in trace.packets] == [0, 0, 0]


@USERS
async def test_what_waits_for_an_admission_is_bounded_and_what_is_left_out_is_counted(broker: RunningBroker) -> None:
    """An MQTT client may send before it is answered."""
    publish_count = 3 * PENDING_MAX
    async with following(broker, "ada") as trace:
        client = await RawClient.open(broker.port, 4)
        connect = mqtt.connect("lamp", user_name="ada", password=b"secret")
        client.send(connect, *[mqtt.publish("t", b"hello") for _ in range(publish_count)])
        await until(lambda: "PUBLISH" in trace.kinds(), "what has waited")
        client.transport.close()
        await trace.until_kind("ended")
    left_out_count = sum(each.left_out_count for each in trace.packets)
    assert left_out_count > 0
    assert len(trace.packets) + left_out_count == publish_count + len(("begun", "CONNECT", "CONNACK", "ended"))
