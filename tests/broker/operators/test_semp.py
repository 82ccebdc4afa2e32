"""SEMP on a whole node: config creates what holds messages, monitor counts them, actions act on them."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final
from urllib.parse import quote

import httpx
import pytest

import support.mqtt.packets as mqtt
from sluicegate.gateway.operations.node import NodeOperations
from support.broker.message_usage import usage_of
from support.broker.running_broker import RunningBroker
from support.http.client import create, http_client, poll, publish, ready_count
from support.http.plain import plain_async_client
from support.mqtt.raw_client import DEADLINE_S

pytestmark = pytest.mark.settings("admin.enabled=true", "admin.port=0")

KEDA: Final = "?select=msgs,msgSpoolUsage,averageRxMsgRate"


@asynccontextmanager
async def semp(broker: RunningBroker) -> AsyncIterator[httpx.AsyncClient]:
    """Yield a client whose paths begin after `/SEMP/v2`."""
    admin = broker.operator_ports.ports.servers["admin"]
    async with plain_async_client(f"http://127.0.0.1:{admin.port}/SEMP/v2", timeout=DEADLINE_S) as client:
        yield client


async def done(client: httpx.AsyncClient, method: str, path: str, body: object = None) -> dict[str, Any]:
    """Return the answer to a request that is not refused."""
    answer = await client.request(method, path, json=body)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def test_kedas_scaler_sees_backlog_and_rate_of_a_queue_that_config_made(broker: RunningBroker) -> None:
    """KEDA, solace-event-queue; `averageRxMsgRate` is the mean of the last minutes that were counted."""
    async with semp(broker) as client:
        body = {"queueName": "orders/eu", "accessType": "non-exclusive", "partitionCount": 2}
        await done(client, "POST", "/config/msgVpns/default/queues", body)
        queue = f"/config/msgVpns/default/queues/{quote('orders/eu', safe='')}"
        await done(client, "POST", f"{queue}/subscriptions", {"subscriptionTopic": "orders/>"})
        publisher = await broker.connect()
        for _ in range(600):
            await publisher.publish("orders/1", b"12345")
        broker.forward(300)
        found = await done(client, "GET", queue.replace("config", "monitor") + KEDA)
        assert found["collections"] == {"msgs": {"count": 600}}
        assert found["data"] == {"msgSpoolUsage": usage_of("orders/1", *[b"12345"] * 600), "averageRxMsgRate": 2}
        assert (await done(client, "GET", "/monitor/msgVpns/default?select=state"))["data"] == {"state": "up"}


async def test_topics_that_come_at_the_same_time_are_all_there(broker: RunningBroker) -> None:
    """Each is added to those that there are then; none is lost to another one's change."""
    async with semp(broker) as client:
        queues = "/config/msgVpns/default/queues"
        await done(client, "POST", queues, {"queueName": "q"})
        topics = [f"t/{number}" for number in range(8)]
        async with asyncio.timeout(DEADLINE_S):
            await asyncio.gather(
                *(done(client, "POST", f"{queues}/q/subscriptions", {"subscriptionTopic": topic}) for topic in topics),
                done(client, "PATCH", f"{queues}/q", {"maxBindCount": 7}),
            )
        found = await done(client, "GET", f"{queues}/q/subscriptions?count=100")
        assert sorted(each["subscriptionTopic"] for each in found["data"]) == topics
        await done(client, "DELETE", f"{queues}/q/subscriptions/t%2F3")
    await broker.restart()
    async with semp(broker) as client:
        data = await done(client, "GET", "/monitor/msgVpns/default/queues/q")
        assert data["collections"]["subscriptions"] == {"count": 7}
        assert data["data"]["maxBindCount"] == 7


async def test_pages_have_the_messages_of_all_partitions_once_each(broker: RunningBroker) -> None:
    """A page goes on in the partition in which the one before ended, however many are empty in between."""
    async with semp(broker) as client:
        body = {"queueName": "q", "accessType": "non-exclusive", "partitionCount": 40}
        await done(client, "POST", "/config/msgVpns/default/queues", body)
        await done(client, "POST", "/config/msgVpns/default/queues/q/subscriptions", {"subscriptionTopic": "t"})
        publisher = await broker.connect(level=5)
        for number in range(30):
            properties = mqtt.user_property("JMSXGroupID", f"key {number % 5}")
            await publisher.publish("t", b"%d" % number, properties=properties)
        seen: list[str] = []
        query = "count=4"
        while query:
            found = await done(client, "GET", f"/monitor/msgVpns/default/queues/q/msgs?{query}")
            seen += [each["msgId"] for each in found["data"]]
            paging = found["meta"].get("paging")
            query = f"count=4&{paging['cursorQuery']}" if paging else ""
        assert len(set(seen)) == len(seen) == 30
        assert len({each.partition(":")[0] for each in seen}) > 1


async def test_a_client_is_sent_away_and_may_come_again(broker: RunningBroker) -> None:
    """MQTT 5 3.14.2.1: the client hears that the server ends the connection."""
    async with semp(broker) as client:
        worker, other = await broker.connect("worker", level=5), await broker.connect("other", level=5)
        await done(client, "PUT", "/action/msgVpns/default/clients/worker/disconnect", {})
        assert await worker.ended_with() is not None
        await other.round_trip()
        await (await broker.connect("worker", level=5)).round_trip()
        answer = await client.put("/action/msgVpns/default/clients/nobody/disconnect", json={})
        assert answer.json()["meta"]["error"]["status"] == "NOT_FOUND"


async def test_the_flows_of_an_http_client_end_when_it_is_sent_away(broker: RunningBroker) -> None:
    """They outlive connections; what they held is delivered again."""
    await create(broker, "q")
    async with http_client(broker, headers={"Solace-Client-Name": "worker"}) as worker:
        await publish(worker, "q", "waits")
        assert len((await poll(worker, "/QUEUE/q"))[1]) == 1
    async with semp(broker) as client:
        await done(client, "PUT", "/action/msgVpns/default/clients/worker/disconnect", {})
    async with asyncio.timeout(DEADLINE_S):
        while (await NodeOperations(broker.node).show_queue("q")).flows:
            await asyncio.sleep(0.01)
    assert await ready_count(broker, "q") == 1


async def test_messages_are_copied_deleted_and_offered_again(broker: RunningBroker) -> None:
    """Solace 4.15: copyMsgFromQueue leaves the original where it is; a replay needs messages that are kept."""
    async with semp(broker) as client:
        for name in ("q", "other"):
            await done(client, "POST", "/config/msgVpns/default/queues", {"queueName": name, "retentionSize": 1})
        await done(client, "POST", "/config/msgVpns/default/queues/q/subscriptions", {"subscriptionTopic": "t"})
        publisher = await broker.connect()
        for number in range(3):
            await publisher.publish("t", b"%d" % number)
        monitor, action = "/monitor/msgVpns/default/queues", "/action/msgVpns/default/queues"
        copied = {"sourceQueueName": "q", "replicationGroupMsgId": "0:2"}
        await done(client, "PUT", f"{action}/other/copyMsgFromQueue", copied)
        await done(client, "PUT", f"{action}/q/msgs/0:1/delete", {})
        left = await done(client, "GET", f"{monitor}/q/msgs?select=msgId")
        assert [each["msgId"] for each in left["data"]] == ["0:2", "0:3"]
        consumer = await broker.connect(level=5)
        await consumer.subscribe("$queue/other", qos=1)
        first = await consumer.message()
        assert first.payload == b"1"
        consumer.acknowledge(first)
        await consumer.round_trip()
        flows = await done(client, "GET", f"{monitor}/other/txFlows?select=activityState")
        assert flows["data"] == [{"activityState": "active-consumer"}]
        await done(client, "PUT", f"{action}/other/startReplay", {"afterMsg": "0:1"})
        await done(client, "PUT", f"{action}/other/startReplay", {})
        assert (await consumer.message()).payload == b"1"
        await done(client, "PUT", f"{action}/q/deleteMsgs", {})
        assert (await done(client, "GET", f"{monitor}/q?select=msgs"))["collections"] == {"msgs": {"count": 0}}
