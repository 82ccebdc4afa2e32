"""Targets and headers that REST delivery points refuse, and how operators see it."""

import asyncio
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import orjson
import pytest

from sluicegate.actors.spool.catalog import WriteRow
from sluicegate.gateway.config.document import ConfigError
from sluicegate.gateway.config.findings import described
from sluicegate.gateway.config.load import load
from sluicegate.gateway.config.sections.message_vpns.rest_delivery_points import RestDeliveryPoint
from sluicegate.gateway.operations.node import NodeOperations
from sluicegate.gateway.provisioning.rest_points import POINTS
from sluicegate.messaging.queues.definition import QueueInvalid
from sluicegate.storage.interface import Table, TableWrite
from support.broker.running_broker import RunningBroker
from support.http.client import create, http_client, publish
from support.http.delivery_points import configure, point, until_settled
from support.http.stream_server import stream_server
from support.http.web_server import WebServer
from support.mqtt.raw_client import DEADLINE_S

REFUSED = "VPN_REST_CONSUMER_TARGET_REFUSED"
SMUGGLING = {"Transfer-Encoding": "chunked"}
METADATA = "169.254.169.254"


def body(port: int, *, host: str = "127.0.0.1", headers: dict[str, str] | None = None) -> dict[str, object]:
    """Return a delivery point as a body has it."""
    return {
        "name": "p",
        "queue_bindings": [{"queue": "q", "post_request_target": "/in", "request_headers": headers or {}}],
        "rest_consumers": [{"name": "web", "remote_host": host, "remote_port": port, "retry_delay_s": 1}],
    }


async def until(has_come: Callable[[], object]) -> None:
    async with asyncio.timeout(DEADLINE_S):
        while not has_come():
            await asyncio.sleep(0.01)


def told(broker: RunningBroker, kind: str) -> list[str]:
    return [
        event.description
        for _, event in broker.node.services.runtime.events.record.recent(0, 1000)
        if event.kind.name == kind
    ]


def resolved_in_turn(monkeypatch: pytest.MonkeyPatch, *answers: list[str]) -> None:
    """Have the name `web.example` resolve to these addresses, one answer after the other; the last one stays."""
    left, before = list(answers), socket.getaddrinfo

    def getaddrinfo(host: str, port: int, *arguments: Any, **options: Any) -> list[Any]:
        if host != "web.example":
            return cast("list[Any]", before(host, port, *arguments, **options))
        addresses = left.pop(0) if len(left) > 1 else left[0]
        return [each for address in addresses for each in before(address, port, type=socket.SOCK_STREAM)]

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)


# --- headers ---


@pytest.mark.parametrize(
    "name", ["Transfer-Encoding", "content-length", "Host", "Connection", "Proxy_Connection", "TE"]
)
async def test_a_point_that_would_write_the_gateways_headers_is_not_made(broker: RunningBroker, name: str) -> None:
    """RFC 9112 11.2: a request that two servers read in two ways is one that somebody else's can be hidden in."""
    node = NodeOperations(broker.node)
    with pytest.raises(QueueInvalid) as refused:
        await node.create_rest_delivery_point(body(1, headers={"X-From": "us", name: "chunked"}))
    assert refused.value.field == "queue_bindings.0.request_headers"
    assert refused.value.reason == f"{name} is written by the gateway, and cannot be set"
    assert "other than Connection, Content-Length" in refused.value.allowed
    assert await node.list_rest_delivery_points() == []
    await node.create_rest_delivery_point(body(1, headers={"X-From": "us"}))
    changes = {"rest_consumers": [{"name": "w", "remote_host": "h", "authentication_http_header_name": name}]}
    with pytest.raises(QueueInvalid, match="is written by the gateway"):
        await node.update_rest_delivery_point("p", changes)


def test_a_configuration_that_would_write_the_gateways_headers_is_wrong(tmp_path: Path) -> None:
    """Of every message VPN, and of a point that rests, too; the place is that of the headers."""
    lines = [
        "vpns:",
        "  sales:",
        "    rest_delivery_points:",
        "    - name: p",
        "      enabled: false",
        "      queue_bindings:",
        "      - queue: q",
        "        post_request_target: /",
        "        request_headers: {Transfer-Encoding: chunked}",
    ]
    file = tmp_path / "gate.yaml"
    file.write_text("\n".join(lines))
    with pytest.raises(ConfigError) as wrong:
        load(file)
    place = "vpns.sales.rest_delivery_points.0.queue_bindings.0.request_headers"
    assert f"gate.yaml:9:26: {place}: Transfer-Encoding is written by the gateway" in str(wrong.value)


async def test_a_point_of_an_earlier_release_with_such_a_header_is_shown_as_wrong_and_sends_nothing(
    broker: RunningBroker, caplog: pytest.LogCaptureFixture
) -> None:
    """Its messages wait; what it asked for can be seen, and changed."""
    await create(broker, "q")
    async with WebServer() as server, http_client(broker) as client:
        row = POINTS.written(described(RestDeliveryPoint, body(server.port, headers={**SMUGGLING, "X-From": "us"})))
        assert orjson.loads(row)["queue_bindings"][0]["request_headers"]["Transfer-Encoding"] == "chunked"
        await broker.node.default.catalog.ask(WriteRow(TableWrite(Table.CATALOG, POINTS.row_key + b"p", row)))
        await broker.restart()
        node = NodeOperations(broker.node)
        view = await node.show_rest_delivery_point("p")
        assert (view.enabled, view.up, view.rest_consumers) == (True, False, [])
        assert view.reason.startswith("queue_bindings.0.request_headers: Transfer-Encoding is written by the gateway")
        assert view.definition.queue_bindings[0].request_headers["Transfer-Encoding"] == "chunked"
        assert "REST delivery point 'p' does not start: queue_bindings.0.request_headers" in caplog.text
        caplog.clear()
    async with WebServer() as server, http_client(broker) as client:
        await publish(client, "q", "waits")
        with pytest.raises(QueueInvalid, match="is written by the gateway"):
            await node.update_rest_delivery_point("p", {"enabled": True})
        assert (await node.show_queue("q")).ready_count == 1
        mended = {key: value for key, value in body(server.port, headers={"X-From": "us"}).items() if key != "name"}
        assert (await node.update_rest_delivery_point("p", mended)).reason == ""
        [got] = await server.has(1)
        assert (got.headers["x-from"], got.headers["content-length"], got.body) == ("us", "5", b"waits")
        assert "transfer-encoding" not in got.headers


# --- targets ---


@pytest.mark.parametrize("host", [METADATA, "::ffff:169.254.169.254", "fe80::1", "2852039166"])
async def test_a_host_that_may_never_be_pushed_to_is_refused_at_once(broker: RunningBroker, host: str) -> None:
    with pytest.raises(QueueInvalid) as refused:
        await NodeOperations(broker.node).create_rest_delivery_point(body(80, host=host))
    assert refused.value.field == "rest_consumers.0.remote_host"
    assert refused.value.allowed == "hosts that `rest.allowed_targets` allows"
    consumer = f"[{{name: web, remote_host: '{host}'}}]"
    with pytest.raises(ConfigError, match=r"remote_host: .*(link-local|four decimal numbers)"):
        load(settings=[f"rest_delivery_points=[{{name: p, rest_consumers: {consumer}}}]"])


def test_the_list_says_which_entry_is_none(tmp_path: Path) -> None:
    file = tmp_path / "gate.yaml"
    file.write_text("rest:\n  allowed_targets: [erp.example, 10.0.0.1/8]\n")
    with pytest.raises(ConfigError, match=r"gate\.yaml:2:\d+: rest\.allowed_targets: '10\.0\.0\.1/8' has bits behind"):
        load(file)


async def test_a_name_that_resolves_to_a_link_local_address_is_not_connected_to(
    broker: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Event, metric and state tell of it; when it resolves to another one, what waited is pushed."""
    await create(broker, "q")
    node = NodeOperations(broker.node)
    async with WebServer() as server, http_client(broker) as client:
        resolved_in_turn(monkeypatch, [METADATA, "fe80::1"], ["::ffff:169.254.169.254"], ["127.0.0.1"])
        await publish(client, "q", "waits")
        await node.create_rest_delivery_point(body(server.port, host="web.example"))
        await until(lambda: told(broker, REFUSED))
        [consumer] = (await node.show_rest_delivery_point("p")).rest_consumers
        assert not consumer.up
        assert consumer.reason == (
            "fe80::1, an address of web.example, is link-local, and no entry of rest.allowed_targets "
            "is a link-local network that it is in"
        )
        assert consumer.targets_refused == 2
        assert told(broker, REFUSED)[0].startswith(f"REST consumer p/web is not connected: {METADATA}, an address of")
        assert told(broker, "VPN_REST_CONSUMER_DOWN") == [f"REST consumer p/web is down: {consumer.reason}"]
        samples = {each.name: each for each in await node.metrics_snapshot() if "refused" in each.name}
        counted = samples["sluicegate_rest_consumer_targets_refused_total"]
        assert (counted.labels, counted.value) == (("p", "web"), 2)
        assert server.requests == []
        [got] = await server.has(1)
        assert got.body == b"waits"
        [consumer] = (await node.show_rest_delivery_point("p")).rest_consumers
        assert (consumer.up, consumer.reason, consumer.targets_refused) == (True, "", 3)


@pytest.mark.settings("rest.allowed_targets=[127.0.0.1]")
async def test_a_name_that_leads_elsewhere_when_a_request_is_made_gains_nothing(
    broker: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DNS rebinding: the look found an allowed address, and the next one has another server, which listens."""
    await create(broker, "q")
    node = NodeOperations(broker.node)
    reached: list[bytes] = []

    def elsewhere(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        reached.append(b"reached")
        writer.close()

    async with WebServer() as server, http_client(broker) as client:
        other = await asyncio.start_server(elsewhere, "127.0.0.2", server.port)
        resolved_in_turn(monkeypatch, ["127.0.0.1"], ["127.0.0.2"], ["127.0.0.2"], ["127.0.0.1"])
        await node.create_rest_delivery_point(body(server.port, host="web.example"))
        await until(lambda: told(broker, "VPN_REST_CONSUMER_UP"))
        await publish(client, "q", "waits")
        await until(lambda: told(broker, REFUSED))
        assert told(broker, REFUSED)[0].endswith("127.0.0.2, an address of web.example, is not in rest.allowed_targets")
        await until(lambda: len(told(broker, "VPN_REST_CONSUMER_UP")) == 2)
        [got] = await server.has(1)
        assert (got.body, got.headers.get("sluicegate-delivery-count")) == (b"waits", None)  # it was no try
        await until_settled(broker, "q")
        assert reached == []
        other.close()
        await other.wait_closed()


@pytest.mark.settings("rest.allowed_targets=[127.0.0.1]")
async def test_of_several_addresses_those_that_are_allowed_are_used(
    broker: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    await create(broker, "q")
    async with WebServer() as server, http_client(broker) as client:
        resolved_in_turn(monkeypatch, ["127.0.0.2", "127.0.0.1", "::1"])
        await NodeOperations(broker.node).create_rest_delivery_point(body(server.port, host="web.example"))
        await publish(client, "q", "arrives")
        await server.has(1)
        await until_settled(broker, "q")


async def test_a_redirect_to_elsewhere_is_not_followed(broker: RunningBroker) -> None:
    """So no web server that is allowed leads to one that is not."""
    await create(broker, "q", max_redelivery_count=1)

    async def redirects(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not await reader.readline():
            return  # a look whether somebody is here
        here = writer.get_extra_info("sockname")[1]
        target = b"http://127.0.0.1:%d/followed" % here
        writer.write(
            b"HTTP/1.1 307 Elsewhere\r\nLocation: %s\r\nContent-Length: 0\r\nConnection: close\r\n\r\n" % target
        )
        await writer.drain()

    async with stream_server(redirects) as port, http_client(broker) as client:
        node = NodeOperations(broker.node)
        await node.create_rest_delivery_point(body(port))
        await publish(client, "q", "x")
        await until_settled(broker, "q")
        [consumer] = (await node.show_rest_delivery_point("p")).rest_consumers
        assert set(consumer.requests) == {"307"}


async def test_a_list_that_is_reloaded_is_in_force_for_points_that_run(broker: RunningBroker) -> None:
    """Those of the configuration that it refuses are a mistake of that; those that operators made go down."""
    await create(broker, "q")
    node = NodeOperations(broker.node)
    async with WebServer() as server, http_client(broker) as client:
        await node.create_rest_delivery_point(body(server.port))
        await publish(client, "q", "first")
        await server.has(1)
        await configure(broker, "rest.allowed_targets=[127.0.0.2, erp.example]")
        await until(lambda: told(broker, REFUSED))
        await publish(client, "q", "second")
        [consumer] = (await node.show_rest_delivery_point("p")).rest_consumers
        assert (consumer.up, consumer.reason) == (False, "127.0.0.1 is not in rest.allowed_targets")
        with pytest.raises(ConfigError, match=r"127\.0\.0\.1 is not in rest\.allowed_targets"):
            await configure(broker, "rest.allowed_targets=[127.0.0.2]", point(server, "q"))
        assert len(server.requests) == 1
        await configure(broker, "rest.allowed_targets=[127.0.0.0/8]")
        await server.has(2)
        await until_settled(broker, "q")
