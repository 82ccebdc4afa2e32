"""HTTP connections that several users share, as a proxy's: each request has the rights of its own user."""

from pathlib import Path
from typing import Final

import httpx
import pytest

from sluicegate.gateway.operations.node import NodeOperations
from support.broker.running_broker import RunningBroker
from support.http.client import create, event_stream, http_client
from support.network.tokens import TokenServer

ONLY_USERS: Final = pytest.mark.settings("authentication.allow_anonymous=false")


async def status(client: httpx.AsyncClient, user: str, password: str = "engine") -> int:
    """Return what a user hears that publishes over the connection."""
    return (await client.post("/QUEUE/q", content="m", auth=(user, password))).status_code


@ONLY_USERS
async def test_a_user_that_is_denied_behind_another_one_stays_denied(broker: RunningBroker) -> None:
    """It may not go on with the rights of who was there before, and its connection ends as others do."""
    node = NodeOperations(broker.node)
    await create(broker, "q", permission="consume")
    await node.create_user({"name": "ada", "password": "engine"})
    await node.create_user({"name": "bob", "password": "engine", "enabled": False})
    async with http_client(broker) as client:
        assert await status(client, "ada") == 200
        assert [await status(client, "bob") for _ in range(2)] == [403, 403]
        assert broker.node.default.clients.count == 0
        assert await status(client, "ada") == 200
        assert broker.node.default.clients.count == 1
        assert await status(client, "bob") == 403


@pytest.mark.parametrize("is_deleted", [True, False])
async def test_a_password_that_an_account_has_no_more_is_not_remembered(
    broker: RunningBroker, is_deleted: bool
) -> None:
    """The connection goes on: somebody else was the last to use it."""
    node = NodeOperations(broker.node)
    await create(broker, "q", permission="consume")
    await node.create_user({"name": "ada", "password": "engine"})
    async with http_client(broker) as client:
        assert await status(client, "ada") == 200
        assert (await client.post("/a", content="m")).status_code == 200  # as nobody
        [connection] = broker.node.http.open_connections()
        if is_deleted:
            await node.delete_user("ada")
        else:
            await node.update_user("ada", {"password": "difference"})
        assert await status(client, "ada") == (200 if is_deleted else 401)  # whom no account has is nobody
        assert connection.identity.user == ""
        assert broker.node.http.open_connections() == [connection]


async def test_a_user_name_is_anonymous_while_there_is_no_account(broker: RunningBroker) -> None:
    """As in MQTT: libraries show a name whether it is asked for or not. With accounts, what is shown is checked."""
    node = NodeOperations(broker.node)
    await create(broker, "q", permission="consume")
    async with http_client(broker) as client:
        assert await status(client, "guest", "guest") == 200
        [connection] = broker.node.http.open_connections()
        assert connection.identity.user == ""
        await node.create_user({"name": "ada", "password": "engine"})
        assert await status(client, "guest", "guest") == 401
        assert await status(client, "ada", "guest") == 401
        assert await status(client, "ada") == 200
        assert (await client.get("/QUEUE/q")).status_code in (200, 204), "nothing is shown"


@ONLY_USERS
async def test_a_name_that_no_account_has_is_refused_where_everybody_needs_one(broker: RunningBroker) -> None:
    """RFC 9110 15.5.2."""
    await create(broker, "q", permission="consume")
    async with http_client(broker) as client:
        assert await status(client, "guest", "guest") == 401


async def test_a_stream_ends_with_the_token_that_began_it_or_a_later_one(tmp_path: Path) -> None:
    """docs/operate/accounts.md: a connection ends with its token. A stream lasts, and shows it once."""
    server = TokenServer(tmp_path)
    settings = (*server.settings, "authentication.allow_anonymous=false", "http.keep_alive_s=3600")
    async with RunningBroker(tmp_path / "data", settings) as broker, http_client(broker) as client:
        await create(broker, "q")
        now_s = broker.clock.wall_ms() // 1000
        first, later = [{"Authorization": f"Bearer {server.token(exp=now_s + left_s)}"} for left_s in (100, 1000)]
        await client.post("/TOPIC/t", headers=first)
        async with event_stream(client, "/QUEUE/q", later) as stream:
            await stream.next("state")
            broker.forward(300)
            await client.post("/QUEUE/q", content=b"x", headers=later)  # over another connection
            assert (await stream.next("message")).data["payload"] == "x"
            broker.forward(1000)
            assert (await stream.next("end")).data == {"reason": "the token has expired"}
