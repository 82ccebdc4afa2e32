"""HTTP workers: flows on queues whose messages are read by requests and settled by URLs."""

import asyncio

import httpx
import pytest

from sluicegate.gateway.operations.node import NodeOperations
from sluicegate.messaging.message.keys import key_hash
from sluicegate.messaging.queues.assignment.slots import modulo_slots, partition_in
from support.broker.running_broker import RunningBroker
from support.http.client import (
    create,
    event_stream,
    http_client,
    poll,
    publish,
    ready_count,
    settle,
)
from support.mqtt.raw_client import DEADLINE_S


async def until_ready(broker: RunningBroker, queue: str, count: int) -> None:
    async with asyncio.timeout(DEADLINE_S):
        while await ready_count(broker, queue) != count:
            await asyncio.sleep(0.01)


async def test_a_message_is_a_response_with_its_attributes_as_headers(broker: RunningBroker) -> None:
    """Names are those that a publisher's request has; what concerns the delivery begins with Sluicegate-."""
    await create(broker, "orders")
    async with http_client(broker) as client:
        headers = {
            "Content-Type": "application/json",
            "Solace-Correlation-ID": "c-1",
            "Solace-User-Property-JMSXGroupID": "customer-7",
        }
        await client.post("/QUEUE/orders", content='{"n": 1}', headers=headers)
        got = await client.get("/QUEUE/orders")
        assert (got.status_code, got.content) == (200, b'{"n": 1}')
        assert [got.headers[name] for name in headers] == list(headers.values())
        assert got.headers["sluicegate-destination"] == "/QUEUE/orders"
        assert (got.headers["sluicegate-partition"], got.headers["sluicegate-sequence"]) == ("0", "1")
        assert "sluicegate-redelivered" not in got.headers
        assert got.headers["cache-control"] == "no-store"
        assert got.headers["sluicegate-settle"] == got.headers["sluicegate-flow"] + "/1"
        assert await settle(client, got.headers["sluicegate-settle"]) == 204
        empty = await client.get(got.headers["sluicegate-flow"])
        assert (empty.status_code, empty.content) == (204, b"")
    assert await ready_count(broker, "orders") == 0


async def test_lines_bring_many_messages_at_once(broker: RunningBroker) -> None:
    """A line can be published again as it is, but for the keys of its delivery; bytes that are no text are base64."""
    await create(broker, "q")
    async with http_client(broker) as client:
        await publish(client, "q", "one", "two")
        await client.post("/QUEUE/q", content=bytes([0, 255]))
        flow, lines = await poll(client, "/QUEUE/q", wait_s=0)
        assert [line.get("payload", line.get("base64")) for line in lines] == ["one", "two", "AP8="]
        assert [line["delivery"] for line in lines] == [1, 2, 3]
        assert {line["destination"] for line in lines} == {"/QUEUE/q"}
        assert await settle(client, f"{flow}/1-2,3") == 204
        assert await settle(client, f"{flow}/2") == 409


async def test_a_request_waits_for_a_message(broker: RunningBroker) -> None:
    await create(broker, "q")
    async with http_client(broker) as client, http_client(broker) as worker:
        waiting = asyncio.create_task(poll(worker, "/QUEUE/q", wait_s=60))
        async with asyncio.timeout(DEADLINE_S):
            while broker.node.services.credit.used == 0 and not broker.node.default.http_flows.count:
                await asyncio.sleep(0.01)
        await publish(client, "q", "late")
        _, lines = await waiting
        assert [line["payload"] for line in lines] == ["late"]
        _, lines = await poll(worker, "/QUEUE/q", wait_s=1)
        assert lines == []


@pytest.mark.parametrize(
    ("outcome", "comes_again", "count"),
    [("accepted", False, 0), ("rejected", False, 0), ("released", True, 1), ("failed", True, 2)],
)
async def test_outcomes_are_those_of_every_protocol(
    broker: RunningBroker, outcome: str, comes_again: bool, count: int
) -> None:
    """Solace 6.5: accepted, failed, rejected; released gives back without counting a failure."""
    await create(broker, "q")
    async with http_client(broker) as client:
        await publish(client, "q", "x")
        flow, [line] = await poll(client, "/QUEUE/q", wait_s=0)
        assert await settle(client, line["settle"], outcome) == 204
        _, again = await poll(client, flow, wait_s=0)
        assert [(each["redelivered"], each["delivery_count"]) for each in again] == [(True, count)] * comes_again


async def test_a_rejected_message_is_dead(broker: RunningBroker) -> None:
    """Solace 4.8: to the dead message queue, with its reason."""
    await create(broker, "dead")
    await create(broker, "q", dead_msg_queue="dead")
    async with http_client(broker) as client:
        await client.post("/QUEUE/q", content="x", headers={"Solace-DMQ-Eligible": "true"})
        _, [line] = await poll(client, "/QUEUE/q", wait_s=0)
        assert await settle(client, line["settle"], "rejected") == 204
        _, [dead] = await poll(client, "/QUEUE/dead", wait_s=60)
        assert dead["payload"] == "x"
        assert {name: dead["dead"][name] for name in ("reason", "queue")} == {"reason": "rejected", "queue": "q"}
        shown = await client.get("/QUEUE/dead", params={"browse": "true"})
        assert '"reason":"rejected"' in shown.text


async def test_a_worker_that_vanished_loses_its_messages_to_others(broker: RunningBroker) -> None:
    """A flow that nobody asks for anything ends, and so does the lock of its messages."""
    await create(broker, "q")
    async with http_client(broker) as client:
        await publish(client, "q", "a", "b")
        lost, lines = await poll(client, "/QUEUE/q", wait_s=0, lock_s=30)
        assert len(lines) == 2
        broker.forward(31)
        _, again = await poll(client, "/QUEUE/q", wait_s=60)
        assert [(each["payload"], each["redelivered"]) for each in again] == [("a", True), ("b", True)]
        assert (await client.get(lost)).status_code == 404


@pytest.mark.settings("http.keep_alive_s=3600")
async def test_a_lock_is_over_and_can_be_extended(broker: RunningBroker) -> None:
    """A message that is not settled in time has failed; its late settlement changes nothing, and says so."""
    await create(broker, "q")
    async with http_client(broker) as client:
        await publish(client, "q", "a", "b")
        flow, _ = await poll(client, "/QUEUE/q", wait_s=0, lock_s=100)
        broker.forward(70)
        assert await settle(client, f"{flow}/2", "extend") == 204
        broker.forward(70)
        late = await client.post(f"{flow}/1-2")
        assert (late.status_code, "deliveries 1 are not held" in late.text) == (409, True)
        _, [again] = await poll(client, flow, wait_s=60)
        assert (again["payload"], again["delivery_count"], again["delivery"]) == ("a", 2, 3)
        assert await settle(client, f"{flow}/1", "extend") == 409


async def test_a_queue_that_takes_back_what_is_not_settled_in_time_refuses_late_settlements(
    broker: RunningBroker,
) -> None:
    """`consumer_ack_timeout_ms` is the queue's own lock, whatever the worker's is."""
    await create(broker, "q", consumer_ack_timeout_ms=50)
    async with http_client(broker) as client:
        await publish(client, "q", "a")
        flow, [line] = await poll(client, "/QUEUE/q", wait_s=0)
        await until_ready(broker, "q", 1)
        assert await settle(client, line["settle"]) == 409
        _, [again] = await poll(client, flow, wait_s=60)
        assert (again["payload"], again["redelivered"]) == ("a", True)


async def test_a_flow_is_ended_by_its_worker(broker: RunningBroker) -> None:
    await create(broker, "q")
    async with http_client(broker) as client:
        await publish(client, "q", "a")
        flow, _ = await poll(client, "/QUEUE/q", wait_s=0)
        assert (await client.delete(flow)).status_code == 204
        assert (await client.delete(flow)).status_code == 404
        assert await settle(client, f"{flow}/1") == 404
        await until_ready(broker, "q", 1)


async def test_workers_share_a_partitioned_queue_with_each_key_in_order(broker: RunningBroker) -> None:
    """Solace 5.3, and what the vendor refuses over HTTP: each partition has one worker; workers see which they have."""
    await create(broker, "parts", access_type="non-exclusive", partition_count=4, partition_rebalance_delay_s=0)
    async with http_client(broker) as client:
        first, _ = await poll(client, "/QUEUE/parts", wait_s=0)
        second, _ = await poll(client, "/QUEUE/parts", wait_s=0)
        owned: dict[str, set[int]] = {}
        async with asyncio.timeout(DEADLINE_S):
            while sorted(map(len, owned.values())) != [2, 2]:
                for flow in (first, second):
                    answer = await client.get(flow)
                    owned[flow] = {
                        int(each) for each in answer.headers["sluicegate-flow-partitions"].split(",") if each
                    }
        assert owned[first] | owned[second] == {0, 1, 2, 3}
        for number in range(40):
            await publish(client, "parts", str(number), key=f"k{number % 8}")
        seen: dict[str, list[int]] = {}
        for flow in (first, second):
            _, lines = await poll(client, flow, wait_s=0)
            assert {line["partition"] for line in lines} <= owned[flow]
            for line in lines:
                seen.setdefault(line["headers"]["Solace-User-Property-JMSXGroupID"], []).append(int(line["payload"]))
        assert seen == {f"k{key}": list(range(key, 40, 8)) for key in range(8)}


async def test_a_selector_chooses_messages(broker: RunningBroker) -> None:
    """docs/concepts/selectors.md; what is no selector is refused with its place."""
    await create(broker, "q", access_type="non-exclusive")
    async with http_client(broker) as client:
        for region in ("eu", "us", "eu"):
            await client.post("/QUEUE/q", content=region, headers={"Solace-User-Property-region": region})
        _, lines = await poll(client, "/QUEUE/q", wait_s=0, selector="region = 'us'")
        assert [line["payload"] for line in lines] == ["us"]
        wrong = await client.get("/QUEUE/q", params={"selector": "region ="})
        assert (wrong.status_code, "Invalid Selector" in wrong.text) == (400, True)


async def test_a_stream_of_events_brings_messages_as_they_come(broker: RunningBroker) -> None:
    """The HTML standard's server-sent events; settling makes room in the window."""
    await create(broker, "q")
    async with http_client(broker) as client, event_stream(client, "/QUEUE/q", window=2) as stream:
        state = await stream.next("state")
        while not state.data["active"]:
            state = await stream.next("state")
        assert state.data["partitions"] == [0]
        await publish(client, "q", "1", "2", "3")
        first, second = await stream.next("message"), await stream.next("message")
        assert [first.data["payload"], second.data["payload"]] == ["1", "2"]
        assert first.id == state.data["flow"].removeprefix("/FLOW/") + "/1"
        assert await ready_count(broker, "q") == 1, "the window is full"
        assert await settle(client, first.data["settle"]) == 204
        assert (await stream.next("message")).data["payload"] == "3"


async def test_a_client_that_connects_again_gets_what_it_has_not_seen(broker: RunningBroker) -> None:
    """Last-Event-ID: the flow is the same, and what it holds behind that event comes again under the same numbers."""
    await create(broker, "q")
    async with http_client(broker) as client:
        await publish(client, "q", "1", "2", "3")
        async with event_stream(client, "/QUEUE/q") as stream:
            events = [await stream.next("message") for _ in range(3)]
        again = {"Last-Event-ID": events[0].id}
        async with event_stream(client, "/QUEUE/q", again) as stream:
            repeated = [await stream.next("message") for _ in range(2)]
            assert [each.id for each in repeated] == [each.id for each in events[1:]]
            await client.delete("/FLOW/" + events[0].id.partition("/")[0])
            assert (await stream.next("end")).data == {"reason": "its worker has ended it"}
        async with event_stream(client, "/QUEUE/q", again) as stream:  # the flow is gone: this is another one
            assert (await stream.next("message")).id.endswith("/1")


async def test_a_second_reader_takes_the_place_of_the_first(broker: RunningBroker) -> None:
    await create(broker, "q")
    async with http_client(broker) as client, event_stream(client, "/QUEUE/q") as stream:
        flow = (await stream.next("state")).data["flow"]
        await poll(client, flow, wait_s=0)
        assert (await stream.next("end")).data == {"reason": "another request reads this flow"}


async def test_a_deleted_queue_ends_its_flows(broker: RunningBroker) -> None:
    await create(broker, "q")
    async with http_client(broker) as client, event_stream(client, "/QUEUE/q") as stream:
        await stream.next("state")
        waiting_flow, _ = await poll(client, "/QUEUE/q", wait_s=0)
        await NodeOperations(broker.node).delete_queue("q")
        assert (await stream.next("end")).data == {"reason": "the queue was deleted"}
        assert (await client.get(waiting_flow)).status_code == 404


async def test_browsing_shows_and_takes_nothing(broker: RunningBroker) -> None:
    """Solace 4.7; going on behind a sequence, and following what comes."""
    await create(broker, "q")
    async with http_client(broker) as client:
        await publish(client, "q", "1", "2", "3")
        shown = await client.get("/QUEUE/q", params={"browse": "true", "max": 2})
        lines = [httpx.Response(200, text=each).json() for each in shown.text.splitlines()]
        assert [(each["payload"], each["sequence"]) for each in lines] == [("1", 1), ("2", 2)]
        rest = await client.get("/QUEUE/q", params={"browse": "true", "after": 2})
        assert [httpx.Response(200, text=each).json()["payload"] for each in rest.text.splitlines()] == ["3"]
        async with event_stream(client, "/QUEUE/q", browse="true", after=2) as stream:
            assert (await stream.next("message")).data["payload"] == "3"
            await publish(client, "q", "4")
            assert (await stream.next("message")).data["payload"] == "4"
    assert await ready_count(broker, "q") == 4


@pytest.mark.accounts(anna="secret", otto="other")
async def test_rights_are_those_of_every_protocol(broker: RunningBroker) -> None:
    """Solace 4.3: a right to read is none to consume; a flow is its user's only."""
    await create(broker, "q", permission="read-only", owner="anna")
    async with http_client(broker) as client:
        assert (await client.get("/QUEUE/q")).status_code == 401
        client.auth = ("otto", "other")
        refused = await client.get("/QUEUE/q")
        assert (refused.status_code, "Permission Denied" in refused.text) == (403, True)
        assert (await client.get("/QUEUE/q", params={"browse": "true"})).status_code == 200
        client.auth = ("anna", "secret")
        flow, _ = await poll(client, "/QUEUE/q", wait_s=0)
        client.auth = ("otto", "other")
        assert (await client.get(flow)).status_code == 404
        assert (await client.delete(flow)).status_code == 404


@pytest.mark.settings("http.max_flows_per_client=2", "http.unsettled_max=3", "http.lock_s_max=100", "http.wait_s_max=5")
async def test_the_flows_and_messages_of_one_client_are_limited(broker: RunningBroker) -> None:
    await create(broker, "q", access_type="non-exclusive")
    async with http_client(broker) as client:
        await publish(client, "q", *map(str, range(5)))
        flow, lines = await poll(client, "/QUEUE/q", wait_s=0)
        assert len(lines) == 3
        await poll(client, "/QUEUE/q", wait_s=0)
        third = await client.get("/QUEUE/q")
        assert (third.status_code, "Too Many Flows" in third.text) == (503, True)
        assert (await client.delete(flow)).status_code == 204
        assert (await client.get("/QUEUE/q")).status_code == 200


@pytest.mark.parametrize(
    ("method", "path", "status", "detail"),
    [
        ("GET", "/QUEUE/none", 400, "there is no queue 'none'"),
        ("GET", "/QUEUE/", 400, "/QUEUE/ without the name of a queue"),
        ("GET", "/QUEUE/q?wait_s=301", 400, "is no whole number from 0 to 300"),
        ("GET", "/QUEUE/q?lock_s=0", 400, "is no whole number from 1 to 3600"),
        ("GET", "/QUEUE/q?max=2", 400, "is no whole number from 1 to 1"),
        ("GET", "/QUEUE/q?wait=1", 400, "?wait: allowed here are browse, lock_s, selector, max, wait_s, window"),
        ("GET", "/QUEUE/q?wait_s=1&wait_s=2", 400, "?wait_s: given more than once"),
        ("GET", "/QUEUE/q?browse=yes", 400, "neither true nor false"),
        ("GET", "/QUEUE/q?browse=true&partition=9", 400, "has no partition 9"),
        ("GET", "/FLOW/none", 404, "there is no flow 'none'"),
        ("POST", "/FLOW/none/1", 404, "there is no flow 'none'"),
        ("DELETE", "/QUEUE/q", 405, "DELETE is not allowed here; allowed: GET, OPTIONS, POST"),
        ("GET", "/TOPIC/t", 405, "GET is not allowed here; allowed: OPTIONS, POST"),
    ],
)
async def test_an_invalid_consume_request_gets_the_reason(
    broker: RunningBroker, method: str, path: str, status: int, detail: str
) -> None:
    await create(broker, "q")
    async with http_client(broker) as client:
        answer = await client.request(method, path)
        assert (answer.status_code, detail in answer.text.replace("&gt;", ">")) == (status, True), answer.text


@pytest.mark.parametrize("path", ["x", "1-", "3-1x", "1-20000", ""])
async def test_deliveries_that_mean_nothing_are_refused(broker: RunningBroker, path: str) -> None:
    await create(broker, "q")
    async with http_client(broker) as client:
        flow, _ = await poll(client, "/QUEUE/q", wait_s=0)
        assert await settle(client, f"{flow}/{path}") == 400
        assert await settle(client, f"{flow}/1", "done") == 400


@pytest.mark.settings("http.allowed_origins=[https://shop.example]")
async def test_scripts_of_allowed_pages_may_consume(broker: RunningBroker) -> None:
    """Fetch standard: the page asks for the methods first, and may read the headers."""
    await create(broker, "q")
    asks = {"Origin": "https://shop.example", "Access-Control-Request-Method": "DELETE"}
    async with http_client(broker) as client:
        may = await client.options("/FLOW/x", headers=asks)
        assert may.headers["access-control-allow-methods"] == "DELETE, GET, OPTIONS, POST"
        got = await client.get("/QUEUE/q", headers={"Origin": "https://shop.example"})
        assert got.headers["access-control-allow-origin"] == "https://shop.example"
        assert got.headers["access-control-expose-headers"] == "*"


async def test_a_stopping_gateway_lets_its_workers_go(broker: RunningBroker) -> None:
    """What they hold is there after the start; a waiting request and a stream end at once."""
    await create(broker, "q")
    async with http_client(broker) as client, event_stream(client, "/QUEUE/q") as stream:
        await stream.next("state")
        await publish(client, "q", "kept")
        assert (await stream.next("message")).data["payload"] == "kept"
        stopping = asyncio.create_task(broker.stop())
        assert (await stream.next("end")).data == {"reason": "the gateway stops"}
        await stopping
    await broker.start()
    async with http_client(broker) as client:
        _, [again] = await poll(client, "/QUEUE/q", wait_s=60)
        assert (again["payload"], again["redelivered"]) == ("kept", True)


async def test_a_client_that_leaves_while_it_waits_takes_nothing_along(broker: RunningBroker) -> None:
    await create(broker, "q")
    _, writer = await asyncio.open_connection("127.0.0.1", broker.node.http.listeners["http"].port)
    writer.write(b"GET /QUEUE/q?wait_s=300 HTTP/1.1\r\nHost: localhost\r\n\r\n")
    async with asyncio.timeout(DEADLINE_S):
        while not broker.node.default.http_flows.count:
            await asyncio.sleep(0.01)
        writer.transport.abort()
        while broker.node.http.open_connections():
            await asyncio.sleep(0.01)
    async with http_client(broker) as client:
        await publish(client, "q", "x")
        assert await ready_count(broker, "q") == 1


async def flow_of_both_partitions(client: httpx.AsyncClient, queue: str) -> str:
    """Bind a flow to a queue of two partitions, and return its path once it has both: each comes in its own time."""
    answer = await client.get(f"/QUEUE/{queue}")
    flow = answer.headers["sluicegate-flow"]
    async with asyncio.timeout(DEADLINE_S):
        while answer.headers["sluicegate-flow-partitions"] != "0,1":
            answer = await client.get(flow)
    return flow


async def test_partitions_take_turns_at_what_a_worker_asks_for(broker: RunningBroker) -> None:
    """One with a long backlog does not come first again with each GET, until it has nothing left."""
    await create(broker, "parts", access_type="non-exclusive", partition_count=2, partition_rebalance_delay_s=0)
    key_of = {partition_in(modulo_slots(2), key_hash(key)): key for key in "abcdefgh"}
    async with http_client(broker) as client:
        flow = await flow_of_both_partitions(client, "parts")
        for key in key_of.values():
            await publish(client, "parts", *[f"{key}{number}" for number in range(12)], key=key)
        _, got = await poll(client, flow, max=4)
        turns = [{line["partition"] for line in got}]
        for _ in range(3):
            for line in got:
                assert await settle(client, line["settle"]) == 204
            _, got = await poll(client, flow, max=4)
            turns.append({line["partition"] for line in got})
    assert turns in ([{0}, {1}, {0}, {1}], [{1}, {0}, {1}, {0}])
