"""HTTP connections that several users share, one after the other, as those of a proxy do: each is who it says."""

from typing import Final

import httpx
import pytest

from gateway.node_port import NodeView
from http_client import create, http_client
from running_broker import RunningBroker

ONLY_USERS: Final = pytest.mark.settings("authentication.allow_anonymous=false")


async def status(client: httpx.AsyncClient, user: str, password: str = "engine") -> int:
    """Return what a user hears that publishes over the connection."""
    return (await client.post("/QUEUE/q", content="m", auth=(user, password))).status_code


@ONLY_USERS
async def test_a_user_that_is_denied_behind_another_one_stays_denied(broker: RunningBroker) -> None:
    """It may not go on with the rights of who was there before, and its connection ends as others do."""
    node = NodeView(broker.node)
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
    node = NodeView(broker.node)
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


async def test_a_name_that_no_account_has_is_nobodys_where_nobody_needs_one(broker: RunningBroker) -> None:
    """As in MQTT: libraries show a name whether it is asked for or not."""
    node = NodeView(broker.node)
    await create(broker, "q", permission="consume")
    await node.create_user({"name": "ada", "password": "engine"})
    async with http_client(broker) as client:
        assert await status(client, "guest", "guest") == 200
        [connection] = broker.node.http.open_connections()
        assert connection.identity.user == ""
        assert await status(client, "ada", "guest") == 401
        assert await status(client, "ada") == 200
        await node.create_user({"name": "guest", "password": "other"})
        assert await status(client, "guest", "guest") == 401


@ONLY_USERS
async def test_a_name_that_no_account_has_is_refused_where_everybody_needs_one(broker: RunningBroker) -> None:
    """RFC 9110 15.5.2."""
    await create(broker, "q", permission="consume")
    async with http_client(broker) as client:
        assert await status(client, "guest", "guest") == 401
