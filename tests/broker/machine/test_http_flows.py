"""HTTP workers of two brokers of one machine: requests about a flow reach the broker that has it."""

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

import httpx
import pytest

from support.broker.linked_brokers import until
from support.broker.machine_brokers import MachineBrokers
from support.broker.named_queues import shows
from support.http.client import create, event_stream, http_client, poll, publish, settle


@pytest.fixture
def machine_settings(tmp_path: Path) -> tuple[str, ...]:
    secret = tmp_path / "password"
    secret.write_text("secret")
    return (f"authentication.users=[{{name: ada, password_file: {secret}}}]",)


async def test_a_flow_is_read_and_settled_over_connections_to_any_broker(machine: MachineBrokers) -> None:
    """One connection may have requests for flows of both, and others between them."""
    await create(machine[1], "q")
    async with http_client(machine[1]) as one, http_client(machine[2]) as two:
        await publish(one, "q", *[str(number) for number in range(20)])
        flow, lines = await poll(two, "/QUEUE/q", max=5, wait_s=5)
        assert flow.startswith("/FLOW/2-")
        assert [line["payload"] for line in lines] == ["0", "1", "2", "3", "4"]
        assert await settle(one, f"{flow}/1-4") == 204
        assert await settle(two, f"{flow}/5") == 204
        assert await settle(one, f"{flow}/5") == 409
        own, lines = await poll(one, "/QUEUE/q", max=5)
        assert own.startswith("/FLOW/1-")
        assert (await one.delete(own)).status_code == 204
        same, lines = await poll(one, flow, max=100, wait_s=5)
        assert same == flow
        for line in lines:
            assert await settle(one, f"{flow}/{line['delivery']}") == 204
            await publish(one, "q", "more")
        assert (await one.delete(flow)).status_code == 204
        assert (await two.get(flow)).status_code == 404
        assert (await one.get(flow)).status_code == 404
        assert (await one.get("/FLOW/9-abc")).status_code == 404


async def test_a_worker_waits_at_a_flow_of_another_broker(machine: MachineBrokers) -> None:
    await create(machine[2], "q")
    async with http_client(machine[1]) as one, http_client(machine[2]) as two:
        flow, _ = await poll(two, "/QUEUE/q")
        waiting = asyncio.create_task(poll(one, flow, wait_s=20))
        await until(lambda: len(machine[2].node.http.open_connections()) == 2, "the request")
        await publish(two, "q", "now")
        _, lines = await waiting
        assert [line["payload"] for line in lines] == ["now"]
        await until(lambda: len(machine[2].node.http.open_connections()) == 1, "the end of the request")


async def test_events_of_a_flow_of_another_broker_are_streamed_until_the_client_leaves(machine: MachineBrokers) -> None:
    await create(machine[2], "q")
    large = "x" * 100_000
    async with AsyncExitStack() as stack:
        one = await stack.enter_async_context(http_client(machine[1]))
        two = await stack.enter_async_context(http_client(machine[2]))
        flow, _ = await poll(two, "/QUEUE/q")
        async with event_stream(one, flow) as events:
            await publish(two, "q", *[large] * 20)
            for number in range(1, 21):
                got = await events.next("message")
                assert (got.data["payload"], got.data["delivery"]) == (large, number)
                assert await settle(two, f"{flow}/{number}") == 204
        await until(lambda: len(machine[2].node.http.open_connections()) == 1, "the end of the stream")
        await publish(two, "q", "behind")
        response = await one.get("/QUEUE/q", headers={"Last-Event-ID": f"{flow.removeprefix('/FLOW/')}/20"})
        assert (response.headers["sluicegate-flow"], response.text) == (flow, "behind")


async def test_who_the_client_is_goes_with_its_request(machine: MachineBrokers) -> None:
    """The other broker checks no password, and counts no connection; a flow is its user's."""
    await create(machine[1], "q")
    ada = httpx.BasicAuth("ada", "secret")
    async with (
        http_client(machine[2], auth=ada) as two,
        http_client(machine[1], auth=ada) as one,
        http_client(machine[1]) as stranger,
    ):
        await publish(two, "q", "mine")
        flow, _ = await poll(two, "/QUEUE/q", wait_s=5)
        assert (await stranger.get(flow)).status_code == 404
        assert (await one.get(flow, auth=httpx.BasicAuth("ada", "wrong"))).status_code == 401
        checked = machine[2].node.services.password_checks.checked_count
        assert await settle(one, f"{flow}/1") == 204
        assert machine[2].node.services.password_checks.checked_count == checked
        assert machine[2].node.default.clients.connected_count("ada") == 1


async def test_a_request_of_a_browser_is_answered_with_its_headers_once(machine: MachineBrokers) -> None:
    await create(machine[1], "q")
    async with http_client(machine[1]) as one, http_client(machine[2]) as two:
        flow, _ = await poll(two, "/QUEUE/q")
        refused = await one.get(flow, headers={"Origin": "http://elsewhere.example"})
        assert refused.status_code == 403
        closing = await one.get(flow, headers={"Connection": "close"})
        assert (closing.status_code, closing.headers["connection"]) == (204, "close")


async def test_a_flow_is_away_while_its_broker_is(machine: MachineBrokers) -> None:
    await create(machine[1], "q")
    async with http_client(machine[1]) as one:
        async with http_client(machine[2]) as two:
            flow, _ = await poll(two, "/QUEUE/q")
        await until(lambda: machine[2].node.http.open_connections() == [], "the end of a connection")
        waiting = asyncio.create_task(one.get(flow, params={"wait_s": 20}))
        await until(lambda: len(machine[2].node.http.open_connections()) == 1, "the request")
        await machine[2].stop()
        assert (await waiting).status_code in (409, 503)
        away = await one.get(flow)
        assert (away.status_code, away.headers["retry-after"]) == (503, "1")
        again = await one.get("/QUEUE/q", headers={"Last-Event-ID": f"{flow.removeprefix('/FLOW/')}/1"})
        assert again.headers["sluicegate-flow"].startswith("/FLOW/1-")
        assert (await one.delete(again.headers["sluicegate-flow"])).status_code == 204
        await machine.start(machine[2])
        assert (await one.get(flow)).status_code == 404
        await publish(one, "q", "still served")
        await shows(machine[1], lambda view: view.ready_count == 1)
