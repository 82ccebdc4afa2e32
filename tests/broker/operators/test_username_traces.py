"""Traces of a username: each connection of its clients is followed from its first byte on, whatever its protocol."""

from collections.abc import Callable
from typing import Final

import httpx
import pytest

from sluicegate.gateway.operations.traces.followed import HELD_MAX
from support.broker.client_traces import following
from support.broker.inside_client import until
from support.broker.protocol_clients import OK, Amqp, FlowProtocol, Http, Mqtt, ProtocolClient
from support.broker.running_broker import RunningBroker
from support.http.client import http_client

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
async def test_what_is_held_back_of_a_client_that_is_never_admitted_is_bounded(broker: RunningBroker) -> None:
    async with following(broker, "ada") as trace, http_client(broker) as client:
        for _ in range(HELD_MAX):
            assert (await client.post("/TOPIC/t", auth=("ada", "wrong"))).status_code == 401
        assert (await client.post("/TOPIC/t", auth=("ada", "secret"))).status_code == 200
        assert (await client.post("/TOPIC/t", auth=("ada", "secret"))).status_code == 200
        await until(lambda: 200 in [each.fields.get("status") for each in trace.packets], "the response")
    assert len(trace.packets) <= HELD_MAX + 4
    assert sum(each.left_out_count for each in trace.packets) > 0
