"""REST delivery points created, changed and deleted at run time, beside those of the configuration."""

import asyncio
from pathlib import Path
from typing import Any, cast

import pytest

from sluicegate.gateway.config.load import load
from sluicegate.gateway.operations.node import NodeOperations
from sluicegate.gateway.views.errors import Refused, RestDeliveryPointAlreadyExists, RestDeliveryPointNotFound
from sluicegate.messaging.queues.definition import QueueInvalid
from support.broker.running_broker import RunningBroker
from support.http.client import create, http_client, publish
from support.http.web_server import WebServer
from support.mqtt.raw_client import DEADLINE_S


def described(name: str, server: WebServer, queue: str = "q", **more: Any) -> dict[str, object]:
    """Return a delivery point as a body has it."""
    return {
        "name": name,
        "queue_bindings": [{"queue": queue, "post_request_target": "/in"}],
        "rest_consumers": [{"name": "web", "remote_host": "127.0.0.1", "remote_port": server.port, "retry_delay_s": 1}],
        **more,
    }


async def until_settled(broker: RunningBroker) -> None:
    async with asyncio.timeout(DEADLINE_S):
        while (view := await NodeOperations(broker.node).show_queue("q")).ready_count or view.unacked_count:
            await asyncio.sleep(0.01)


async def test_a_point_that_lacks_a_kind_of_part_says_so(broker: RunningBroker) -> None:
    node = NodeOperations(broker.node)
    bare = await node.create_rest_delivery_point({"name": "bare"})
    off = await node.create_rest_delivery_point({"name": "off", "enabled": False})
    binding = {"queue": "q", "post_request_target": "/"}
    half = await node.update_rest_delivery_point("bare", {"queue_bindings": [binding]})
    reasons = ["it has no queue binding and no REST consumer", "", "it has no REST consumer"]
    assert [view.reason for view in (bare, off, half)] == reasons


async def test_a_point_that_is_made_pushes_and_is_there_after_a_restart(broker: RunningBroker) -> None:
    await create(broker, "q")
    async with WebServer() as server:
        view = await NodeOperations(broker.node).create_rest_delivery_point(described("p", server))
        assert (view.name, view.origin, view.enabled, view.reason) == ("p", "operator", True, "")
        for payload in ("before", "after"):
            async with http_client(broker) as client:
                await publish(client, "q", payload)
            await server.has(1 if payload == "before" else 2)
            await until_settled(broker)
            await broker.restart()
        assert [each.body for each in server.requests] == [b"before", b"after"]
        shown = await NodeOperations(broker.node).show_rest_delivery_point("p")
        assert shown.definition == view.definition


async def test_a_point_that_is_changed_begins_anew_and_one_that_is_deleted_is_gone(broker: RunningBroker) -> None:
    """What is not named stays as it is; the queue keeps what is not pushed."""
    await create(broker, "q")
    node = NodeOperations(broker.node)
    async with WebServer() as server, http_client(broker) as client:
        await node.create_rest_delivery_point(described("p", server, enabled=False))
        await publish(client, "q", "waits")
        assert not broker.node.default.rest.running
        changed = await node.update_rest_delivery_point("p", {"enabled": True})
        assert changed.definition.queue_bindings[0].queue == "q"
        await server.has(1)
        await until_settled(broker)
        await node.delete_rest_delivery_point("p")
        await publish(client, "q", "stays")
        assert (await node.show_queue("q")).ready_count == 1
    await broker.restart()
    assert await NodeOperations(broker.node).list_rest_delivery_points() == []


async def test_a_change_of_one_point_leaves_the_others_as_they_are(broker: RunningBroker, tmp_path: Path) -> None:
    """Their files are read at their own changes and at a reload: one that is not there meanwhile stops nobody."""
    await create(broker, "q")
    node = NodeOperations(broker.node)
    password = tmp_path / "password"
    password.write_text("secret\n")
    async with WebServer() as server, http_client(broker) as client:
        body = described("p", server)
        (consumer,) = cast("list[dict[str, object]]", body["rest_consumers"])
        consumer |= {
            "authentication_scheme": "http-basic",
            "authentication_http_basic_username": "u",
            "authentication_http_basic_password_file": str(password),
        }
        await node.create_rest_delivery_point(body)
        password.unlink()
        await node.create_rest_delivery_point(described("other", server, enabled=False))
        await node.delete_rest_delivery_point("other")
        assert (await node.show_rest_delivery_point("p")).reason == ""
        await publish(client, "q", "goes on")
        await server.has(1)
        await until_settled(broker)
        with pytest.raises(Refused, match="cannot be used"):
            await node.update_rest_delivery_point("p", {"enabled": False})


async def test_an_invalid_delivery_point_is_refused_with_its_place(broker: RunningBroker) -> None:
    async with WebServer() as server:
        node = NodeOperations(broker.node)
        for wrong, field in (
            ({"rest_consumers": [{"name": "web", "remote_host": ""}]}, "rest_consumers.0.remote_host"),
            ({"queue_bindings": [{"queue": "q"}]}, "queue_bindings.0.post_request_target"),
            ({"colour": "red"}, "colour"),
        ):
            with pytest.raises(QueueInvalid) as refused:
                await node.create_rest_delivery_point(described("p", server, **wrong))
            assert refused.value.field == field
        with pytest.raises(QueueInvalid, match="name: '' is not allowed"):
            await node.create_rest_delivery_point(described("", server))
        secret: dict[str, Any] = {
            "name": "web",
            "remote_host": "h",
            "authentication_scheme": "http-basic",
            "authentication_http_basic_username": "u",
            "authentication_http_basic_password_file": "/nowhere",
        }
        with pytest.raises(Refused, match="a file that it names cannot be used"):
            await node.create_rest_delivery_point(described("p", server, rest_consumers=[secret]))
        assert await node.list_rest_delivery_points() == []
        await node.create_rest_delivery_point(described("p", server))
        with pytest.raises(RestDeliveryPointAlreadyExists, match="'p'"):
            await node.create_rest_delivery_point(described("p", server))
        with pytest.raises(QueueInvalid, match="cannot be renamed"):
            await node.update_rest_delivery_point("p", {"name": "other"})
        for deed in (node.update_rest_delivery_point("none", {}), node.delete_rest_delivery_point("none")):
            with pytest.raises(RestDeliveryPointNotFound, match="'none'"):
                await deed


@pytest.mark.settings("rest_delivery_points=[{name: fixed, enabled: false}]")
async def test_a_point_of_the_configuration_is_changed_there(broker: RunningBroker) -> None:
    """It is shown as such, and no operator's change outlives the next reload unseen."""
    node = NodeOperations(broker.node)
    [view] = await node.list_rest_delivery_points()
    assert (view.name, view.origin, view.enabled, view.up) == ("fixed", "configuration", False, False)
    with pytest.raises(Refused, match="change the configuration, and reload"):
        await node.update_rest_delivery_point("fixed", {"enabled": True})
    with pytest.raises(Refused, match="change the configuration, and reload"):
        await node.delete_rest_delivery_point("fixed")
    with pytest.raises(RestDeliveryPointAlreadyExists):
        await node.create_rest_delivery_point({"name": "fixed"})


async def test_of_two_points_of_one_name_that_of_the_configuration_counts(broker: RunningBroker) -> None:
    """The other one is kept, and comes back when the configuration has it no more."""
    await NodeOperations(broker.node).create_rest_delivery_point({"name": "p", "enabled": False})
    origins: list[str] = []
    for settings in (("rest_delivery_points=[{name: p}]",), ()):
        await broker.node.reload(load(None, settings=(*broker.settings, *settings)))
        [view] = await NodeOperations(broker.node).list_rest_delivery_points()
        origins.append(view.origin)
    assert origins == ["configuration", "operator"]
