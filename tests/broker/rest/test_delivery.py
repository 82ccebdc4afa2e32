"""REST delivery points: messages of queues are pushed to web servers in order, settled by the response, and retried."""

import asyncio
import base64
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pykka
import pytest

from sluicegate.actors.queues import actor as queue
from sluicegate.gateway.operations.node import NodeOperations
from sluicegate.gateway.views.queues.queues import QueueView
from sluicegate.messaging.message.keys import key_hash
from sluicegate.messaging.queues.assignment.slots import modulo_slots, partition_in
from sluicegate.messaging.queues.definition import QueueConfig, permits
from sluicegate.protocols.rest import point as binding
from support.broker.named_queues import change, shows
from support.broker.running_broker import RunningBroker
from support.http.client import create, http_client, publish, ready_count
from support.http.delivery_points import bodies, configure, point, until_settled
from support.http.web_server import Pushed, WebServer, absent
from support.mqtt.raw_client import DEADLINE_S
from support.network.certificates import make_certificates


def is_up(broker: RunningBroker) -> bool:
    return broker.node.default.rest.running["p"].is_up


async def test_a_message_is_a_request_and_its_answer_settles_it(broker: RunningBroker) -> None:
    """Solace 8.5: 2xx = ack. Attributes are headers, as a publisher's request has them."""
    await create(broker, "q")
    async with WebServer() as server, http_client(broker) as client:
        await configure(broker, point(server, "q", binding={"request_headers": {"X-From": "gateway"}}))
        headers = {"Content-Type": "application/json", "Solace-User-Property-Region": "EU"}
        await client.post("/QUEUE/q", content="{}", headers={**headers, "Sluicegate-Partition-Key": "k"})
        [got] = await server.has(1)
        assert (got.method, got.path, got.body) == ("POST", "/in", b"{}")
        assert got.headers["content-type"] == "application/json"
        assert got.headers["solace-user-property-region"] == "EU"
        assert got.headers["solace-user-property-jmsxgroupid"] == "k"
        assert (got.headers["sluicegate-destination"], got.headers["x-from"]) == ("/QUEUE/q", "gateway")
        await until_settled(broker, "q")


async def test_a_failed_message_is_pushed_again_before_later_ones_of_its_partition(broker: RunningBroker) -> None:
    """Order per partition, which the vendor does not push at all: a failure holds up its own partition only."""
    await create(broker, "parts", access_type="non-exclusive", partition_count=4, partition_rebalance_delay_s=0)
    failed: set[bytes] = set()

    def status(request: Pushed) -> int:
        if request.body.endswith(b"3") and request.body not in failed:
            failed.add(request.body)
            return 503
        return 200

    async with WebServer(status) as server, http_client(broker) as client:
        for number in range(8):
            for key in "abcdef":
                await publish(client, "parts", f"{key}{number}", key=key)
        await configure(broker, point(server, "parts"))
        await server.has(48 + 6)
        await until_settled(broker, "parts")
        for key in "abcdef":
            its = [each for each in bodies(server.requests) if each.startswith(key)]
            assert its == [f"{key}{number}" for number in (0, 1, 2, 3, 3, 4, 5, 6, 7)]
        again = [each for each in server.requests if each.headers.get("sluicegate-delivery-count") == "2"]
        assert sorted(bodies(again)) == [f"{key}3" for key in "abcdef"]


async def test_a_partition_whose_messages_fail_holds_up_no_other(broker: RunningBroker) -> None:
    """However many wait behind the one that fails."""
    await create(broker, "parts", access_type="non-exclusive", partition_count=4, partition_rebalance_delay_s=0)
    failing = partition_in(modulo_slots(4), key_hash("a"))
    others = [key for key in "bcdefgh" if partition_in(modulo_slots(4), key_hash(key)) != failing]
    async with (
        WebServer(lambda got: 500 if got.headers["sluicegate-partition"] == str(failing) else 200) as server,
        http_client(broker) as client,
    ):
        await publish(client, "parts", *[f"a{number}" for number in range(30)], key="a")
        for key in others:
            await publish(client, "parts", *[f"{key}{number}" for number in range(3)], key=key)
        await configure(broker, point(server, "parts"))
        wanted = {f"{key}{number}" for key in others for number in range(3)}
        async with asyncio.timeout(DEADLINE_S):
            while not wanted <= set(bodies(server.requests)):
                await asyncio.sleep(0.01)
        assert {each for each in bodies(server.requests) if each.startswith("a")} == {"a0"}


async def test_a_queue_that_begins_with_one_partition_keeps_order_in_each_it_gets(broker: RunningBroker) -> None:
    """Flows stay bound while the number of partitions changes."""
    await create(broker, "parts", access_type="non-exclusive", partition_count=1, partition_rebalance_delay_s=0)
    async with WebServer() as server, http_client(broker) as client:
        await configure(broker, point(server, "parts", outgoing_connection_count=3))
        for count in (1, 4):
            await change(broker, "parts", partition_count=count)

            def has_changed(view: QueueView, wanted: int = count) -> bool:
                return view.partition_operational_count == wanted

            await shows(broker, has_changed, "parts")
            server.hold = asyncio.Event()
            for number in range(3):
                await publish(client, "parts", f"{count}-{number}", key="k")
            server.hold.set()
            await until_settled(broker, "parts")
        assert bodies(server.requests) == [f"{count}-{number}" for count in (1, 4) for number in range(3)]
        assert server.at_once_max == 1


async def test_a_single_connection_keeps_the_order_of_any_queue(broker: RunningBroker) -> None:
    await create(broker, "q")
    answers = iter([200, 500, 200, 200, 200])
    async with WebServer(lambda _: next(answers)) as server, http_client(broker) as client:
        await publish(client, "q", "1", "2", "3", "4")
        await configure(broker, point(server, "q", outgoing_connection_count=1))
        assert bodies(await server.has(5)) == ["1", "2", "2", "3", "4"]
        assert server.at_once_max == 1
        await until_settled(broker, "q")


async def test_as_many_requests_are_made_at_once_as_there_are_connections(broker: RunningBroker) -> None:
    await create(broker, "q")
    async with WebServer() as server, http_client(broker) as client:
        server.hold = asyncio.Event()
        await publish(client, "q", *map(str, range(9)))
        await configure(broker, point(server, "q", outgoing_connection_count=3))
        await server.has(3)
        server.hold.set()
        await server.has(9)
        assert server.at_once_max == 3
        await until_settled(broker, "q")


async def test_all_connections_are_used_as_soon_as_a_server_is_reached(broker: RunningBroker) -> None:
    """One that takes its time with an answer holds up what goes over the same connection, and nothing else."""
    for name in ("p", "q"):
        await create(broker, name)
    async with WebServer() as server, http_client(broker) as client:
        await server.stop()
        for name in ("p", "q"):
            await publish(client, name, "1", "2")
        await configure(broker, point(server, "p", "q", outgoing_connection_count=3))
        for name in ("p", "q"):
            await shows(broker, lambda view: view.unacked_count == 2, name)  # they wait for the server
        server.hold = asyncio.Event()
        await server.start()
        await server.has(3)
        server.hold.set()
        await server.has(4)
        for name in ("p", "q"):
            await until_settled(broker, name)


async def test_answers_that_mean_never_make_a_message_dead(broker: RunningBroker) -> None:
    """Solace 8.5: a code of the rejected list is *rejected*; others are tried until max_redelivery_count."""
    await create(broker, "dead")
    await create(broker, "q", dead_msg_queue="dead", max_redelivery_count=1)
    async with WebServer(lambda got: 422 if got.body == b"bad" else 500) as server, http_client(broker) as client:
        for payload in ("bad", "unlucky"):
            await client.post("/QUEUE/q", content=payload, headers={"Solace-DMQ-Eligible": "true"})
        await configure(broker, point(server, "q", rejected_status_codes="400-407,422"))
        async with asyncio.timeout(DEADLINE_S):
            while await ready_count(broker, "dead") < 2:
                await asyncio.sleep(0.01)
        assert sorted(bodies(server.requests)) == ["bad", "unlucky", "unlucky"]
        shown = await client.get("/QUEUE/dead", params={"browse": "true"})
        assert ('"reason":"rejected"' in shown.text, '"reason":"max_redelivery_exceeded"' in shown.text) == (True, True)


async def test_while_the_server_is_unreachable_messages_wait_and_no_attempt_counts(broker: RunningBroker) -> None:
    """Both changes are events, under the consumer's name."""
    await create(broker, "q")
    server = await absent()
    async with http_client(broker) as client:
        await publish(client, "q", "waits")
        await configure(broker, point(server, "q"))
        async with asyncio.timeout(DEADLINE_S):
            while not broker.node.services.runtime.events.record.counts.get("VPN_REST_CONSUMER_DOWN"):
                await asyncio.sleep(0.01)
        assert not is_up(broker)
        await server.start()
        [got] = await server.has(1)
        assert "sluicegate-redelivered" not in got.headers
        assert is_up(broker)
        assert broker.node.services.runtime.events.record.counts["VPN_REST_CONSUMER_UP"] == 1
        await until_settled(broker, "q")
        await server.stop()


async def test_a_message_that_leaves_while_it_waits_for_a_server_leaves_its_turn_to_the_next(
    broker: RunningBroker,
) -> None:
    """Else the point has a free connection and pushes nothing, until it is changed."""
    server = await absent()
    async with http_client(broker) as client:
        for queue in ("gone", "q"):
            await create(broker, queue)
            await publish(client, queue, queue)
        await configure(broker, point(server, "gone", "q", outgoing_connection_count=1))
        [binding, _] = broker.node.default.rest.running["p"].bindings
        await shows(broker, lambda view: view.unacked_count == 1)
        await NodeOperations(broker.node).delete_queue("gone")
        while binding.is_up:
            await asyncio.sleep(0.01)
        await server.start()
        [got] = await server.has(1)
        assert got.body == b"q"
        await until_settled(broker, "q")
        await server.stop()


async def test_a_host_that_does_not_answer_connects_is_none_and_it_is_no_try(broker: RunningBroker) -> None:
    """As one that has lost its power, behind a router: nobody says that there is no connection."""
    await create(broker, "q")
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen(0)  # for the look whether it can be reached; the kernel leaves the next one without an answer
        server = WebServer()
        server.port = silent.getsockname()[1]
        async with http_client(broker) as client:
            await publish(client, "q", "waits")
        await configure(broker, point(server, "q", max_post_wait_time_s=1))
        [consumer] = broker.node.default.rest.running["p"].consumers
        async with asyncio.timeout(DEADLINE_S):
            while not broker.node.services.runtime.events.record.counts.get("VPN_REST_CONSUMER_DOWN"):
                await asyncio.sleep(0.01)
        assert (consumer.is_up, consumer.statuses) == (False, {})
    await server.start()
    [got] = await server.has(1)
    assert "sluicegate-redelivered" not in got.headers
    await until_settled(broker, "q")
    await server.stop()


async def test_a_host_whose_name_is_none_is_not_up(broker: RunningBroker) -> None:
    await create(broker, "q")
    await configure(broker, point(WebServer(), "q", remote_host="a..example", remote_port=1))
    [consumer] = broker.node.default.rest.running["p"].consumers
    async with asyncio.timeout(DEADLINE_S):
        while consumer.reason == "not tried yet":
            await asyncio.sleep(0.01)
    assert not is_up(broker)
    assert broker.node.services.runtime.events.record.counts["VPN_REST_CONSUMER_DOWN"] == 1


async def test_a_refused_connection_is_reported_in_words(broker: RunningBroker) -> None:
    """And not by the number that the system has for it."""
    await create(broker, "q")
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        await configure(broker, point(WebServer(), "q", remote_port=closed.getsockname()[1]))
        [consumer] = broker.node.default.rest.running["p"].consumers
        async with asyncio.timeout(DEADLINE_S):
            while consumer.reason == "not tried yet":
                await asyncio.sleep(0.01)
    assert consumer.reason == "Connection refused"


async def test_a_connection_that_breaks_counts_a_try(broker: RunningBroker) -> None:
    await create(broker, "q")
    answers = iter([None, 200])
    async with WebServer(lambda _: next(answers)) as server, http_client(broker) as client:
        await publish(client, "q", "x")
        await configure(broker, point(server, "q"))
        requests = await server.has(2)
        assert requests[1].headers["sluicegate-delivery-count"] == "2"
        await until_settled(broker, "q")


async def test_a_queue_that_comes_later_is_bound_then(broker: RunningBroker) -> None:
    async with WebServer() as server, http_client(broker) as client:
        await configure(broker, point(server, "late"))
        [binding] = broker.node.default.rest.running["p"].bindings
        async with asyncio.timeout(DEADLINE_S):
            while binding.reason != "there is no queue 'late'":
                await asyncio.sleep(0.01)
        await create(broker, "late")
        await publish(client, "late", "x")
        await server.has(1)
        await NodeOperations(broker.node).delete_queue("late")
        async with asyncio.timeout(DEADLINE_S):
            while binding.is_up:
                await asyncio.sleep(0.01)


async def test_a_queue_that_is_deleted_as_it_is_bound_is_looked_for_again(
    broker: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may have been made anew since: what is found, and cannot be asked any more, is as good as not there."""
    await create(broker, "q")
    asked: list[str] = []

    def gone_once(config: QueueConfig, user: str, needed: str) -> bool:
        asked.append(config.name)
        if len(asked) == 1:
            raise pykka.ActorDeadError("q stopped before handling the message")
        return permits(config, user, needed)

    monkeypatch.setattr(queue, "permits", gone_once)
    monkeypatch.setattr(binding, "REBIND_MS", 10)
    async with WebServer() as server, http_client(broker) as client:
        await configure(broker, point(server, "q"))
        await publish(client, "q", "1")
        assert bodies(await server.has(1)) == ["1"]


async def test_a_queue_is_bound_again_after_a_fault_of_the_gateway(
    broker: RunningBroker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    await create(broker, "q")
    asked: list[str] = []

    def fails_once(config: QueueConfig, user: str, needed: str) -> bool:
        asked.append(config.name)
        if len(asked) == 1:
            raise RuntimeError("nobody expected this")
        return permits(config, user, needed)

    monkeypatch.setattr(queue, "permits", fails_once)
    monkeypatch.setattr(binding, "REBIND_MS", 10)
    caplog.handler.addFilter(lambda record: "failed to bind" not in record.getMessage())
    async with WebServer() as server, http_client(broker) as client:
        await configure(broker, point(server, "q"))
        await publish(client, "q", "1")
        assert bodies(await server.has(1)) == ["1"]


async def test_a_reload_while_the_gateway_stops_begins_no_delivery_point(broker: RunningBroker) -> None:
    """A message that it pushed then would be pushed again after the start."""
    async with WebServer() as server:
        await configure(broker, point(server, "q"))
        points = broker.node.default.rest
        await points.stop()
        await configure(broker, point(server, "q", http_method="put"))
        assert points.running == {}


async def test_a_reload_ends_and_changes_delivery_points(broker: RunningBroker) -> None:
    await create(broker, "q")
    async with WebServer() as server, WebServer() as other, http_client(broker) as client:
        await configure(broker, point(server, "q"))
        await publish(client, "q", "1")
        await server.has(1)
        same = broker.node.default.rest.running["p"]
        await configure(broker, point(server, "q"))
        assert broker.node.default.rest.running["p"] is same
        await configure(broker, point(other, "q", http_method="put"))
        await publish(client, "q", "2")
        [got] = await other.has(1)
        assert got.method == "PUT"
        await configure(broker)
        assert broker.node.default.rest.running == {}
        await publish(client, "q", "3")
        assert await ready_count(broker, "q") == 1


async def test_the_path_is_made_of_what_the_message_says(broker: RunningBroker) -> None:
    """Solace 8.5: requestTargetEvaluation substitution-expressions."""
    await create(broker, "q", subscriptions=["orders/>"])
    target = '/${topic(2)}/${userProperty("who")}?id=${correlationId()}&k=${partitionKey()}'
    evaluated = {"post_request_target": target, "request_target_evaluation": "substitution-expressions"}
    async with WebServer() as server, http_client(broker) as client:
        await configure(broker, point(server, "q", binding=evaluated))
        headers = {"Solace-User-Property-who": "a/b", "Solace-Correlation-ID": "7 8"}
        await client.post("/TOPIC/orders/eu", content="x", headers=headers)
        [got] = await server.has(1)
        assert got.path == "/eu/a%2Fb?id=7%208&k="


async def test_a_message_that_makes_no_path_is_dead_at_once(broker: RunningBroker) -> None:
    """What a publisher says must not choose another of the web server's addresses."""
    await create(broker, "dead")
    await create(broker, "q", subscriptions=["orders/>"], dead_msg_queue="dead")
    evaluated = {"post_request_target": "/hook/${topic()}", "request_target_evaluation": "substitution-expressions"}
    async with WebServer() as server, http_client(broker) as client:
        await configure(broker, point(server, "q", binding=evaluated))
        for topic in ("orders/%2E%2E/%2E%2E/admin", "orders/eu"):
            await client.post(f"/TOPIC/{topic}", content="x", headers={"Solace-DMQ-Eligible": "true"})
        [got] = await server.has(1)
        assert got.path == "/hook/orders/eu"
        async with asyncio.timeout(DEADLINE_S):
            while await ready_count(broker, "dead") < 1:
                await asyncio.sleep(0.01)


async def test_a_web_server_sees_who_pushes(broker: RunningBroker, tmp_path: Path) -> None:
    """Solace 8.5: authentication http-basic and http-header, their secrets in files."""
    await create(broker, "q")
    secret = tmp_path / "secret"
    secret.write_text("s3cret\n")
    schemes: list[tuple[dict[str, Any], str, str]] = [
        (
            {
                "authentication_scheme": "http-basic",
                "authentication_http_basic_username": "anna",
                "authentication_http_basic_password_file": str(secret),
            },
            "authorization",
            "Basic " + base64.b64encode(b"anna:s3cret").decode(),
        ),
        (
            {
                "authentication_scheme": "http-header",
                "authentication_http_header_name": "X-Key",
                "authentication_http_header_value_file": str(secret),
            },
            "x-key",
            "s3cret",
        ),
    ]
    for number, (scheme, header, value) in enumerate(schemes):
        async with WebServer() as server, http_client(broker) as client:
            await configure(broker, point(server, "q", **scheme))
            await publish(client, "q", str(number))
            [got] = await server.has(1)
            assert got.headers[header] == value


@asynccontextmanager
async def secure_server(tmp_path: Path) -> AsyncIterator[tuple[WebServer, dict[str, Any]]]:
    """A server that wants a certificate, and what a consumer is told of it."""
    files = make_certificates(tmp_path)
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(files.authority))
    tls.load_cert_chain(files.server, files.server_key)
    tls.verify_mode = ssl.CERT_REQUIRED
    told: dict[str, Any] = {
        "remote_host": "localhost",
        "tls_enabled": True,
        "tls_authorities_file": str(files.authority),
        "authentication_scheme": "client-certificate",
        "authentication_client_certificate_file": str(files.client),
        "authentication_client_certificate_key_file": str(files.client_key),
    }
    async with WebServer(tls=tls) as server:
        yield server, told


async def test_both_sides_show_certificates(broker: RunningBroker, tmp_path: Path) -> None:
    await create(broker, "q")
    async with secure_server(tmp_path) as (server, told), http_client(broker) as client:
        await configure(broker, point(server, "q", **told))
        await publish(client, "q", "x")
        await server.has(1)
        await until_settled(broker, "q")


async def test_a_stopping_gateway_loses_nothing_that_was_not_answered(broker: RunningBroker) -> None:
    await create(broker, "q")
    async with WebServer() as server, http_client(broker) as client:
        server.hold = asyncio.Event()
        await publish(client, "q", "x")
        await configure(broker, point(server, "q"))
        await server.has(1)
        await broker.restart()
        assert await ready_count(broker, "q") == 1
        server.hold.set()


def tries(requests: list[Pushed]) -> list[str]:
    """Return each payload with the delivery count under which it came."""
    return [f"{each.body.decode()}:{each.headers.get('sluicegate-delivery-count', '1')}" for each in requests]


async def test_changes_of_a_delivery_point_count_no_attempt_for_waiting_messages(broker: RunningBroker) -> None:
    """docs/connect/rest-delivery-points.md: it waits until a REST consumer can be reached, and that is no try."""
    await create(broker, "dead")
    await create(broker, "q", max_redelivery_count=1, dead_msg_queue="dead")
    server = await absent()
    async with http_client(broker) as client:
        for payload in "123456":
            await client.post("/QUEUE/q", content=payload, headers={"Solace-DMQ-Eligible": "true"})
    for delay_s in (1, 2, 3, 1):
        await configure(broker, point(server, "q", outgoing_connection_count=1, retry_delay_s=delay_s))
        await shows(broker, lambda view: view.unacked_count == 4)
    await server.start()
    assert tries(await server.has(6)) == [f"{payload}:1" for payload in "123456"]
    await until_settled(broker, "q")
    assert await ready_count(broker, "dead") == 0
    await server.stop()


async def test_of_what_a_delivery_point_holds_as_it_ends_only_what_was_sent_has_failed(broker: RunningBroker) -> None:
    await create(broker, "q")
    async with WebServer() as server, http_client(broker) as client:
        server.hold = asyncio.Event()
        await publish(client, "q", "1", "2", "3")
        await configure(broker, point(server, "q", outgoing_connection_count=1))
        await server.has(1)
        await shows(broker, lambda view: view.unacked_count == 3)
        await broker.restart()
        await configure(broker, point(server, "q", outgoing_connection_count=1))
        server.hold.set()
        assert tries(await server.has(4)) == ["1:1", "1:2", "2:1", "3:1"]
        await until_settled(broker, "q")


async def test_messages_waiting_for_a_web_server_are_not_pushed_after_their_queue_is_deleted(
    broker: RunningBroker,
) -> None:
    await create(broker, "q")
    server = await absent()
    async with http_client(broker) as client:
        await publish(client, "q", "1", "2", "3")
        await configure(broker, point(server, "q"))
        await shows(broker, lambda view: view.unacked_count == 3)
        await NodeOperations(broker.node).delete_queue("q")
        await create(broker, "q")
        await publish(client, "q", "new")
        await server.start()
        assert bodies(await server.has(1)) == ["new"]
        await until_settled(broker, "q")
        await server.stop()
