"""Browsers walk a queue from its oldest message, follow new ones, and change nothing (Solace 4.7)."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import orjson
import pytest

from sluicegate.actors.messages.partitions import BrowsedMessage
from sluicegate.actors.messages.queues import BindRefused, DeleteBrowsed
from sluicegate.gateway.operations.node import NodeOperations
from sluicegate.storage.errors import StoreFailed
from sluicegate.storage.records.page import PageRuns
from support.broker.browser_client import Browser
from support.broker.named_queues import change, create, shown, shows
from support.broker.running_broker import RunningBroker
from support.http.plain import plain_async_client
from support.mqtt.raw_client import DEADLINE_S


def payloads(messages: list[BrowsedMessage]) -> list[bytes]:
    return [each.batch.payloads()[each.row] for each in messages]


async def publish(broker: RunningBroker, *payloads: bytes) -> None:
    publisher = await broker.connect()
    for payload in payloads:
        await publisher.publish("t", payload)


async def test_a_browser_sees_what_waits_and_what_arrives_and_removes_nothing(broker: RunningBroker) -> None:
    """Solace 4.7: oldest to newest, full message, not removed."""
    await create(broker, subscriptions=["t"])
    await publish(broker, b"one", b"two")
    browser = Browser(broker)
    await browser.bind()
    assert payloads(await browser.sees(2)) == [b"one", b"two"]
    await publish(broker, b"three")
    seen = await browser.sees(1)
    assert (payloads(seen), seen[0].sequence, seen[0].redelivered) == ([b"three"], 3, False)
    view = await shown(broker)
    assert (view.ready_count, view.unacked_count, view.delivered_total) == (3, 0, 0)
    consumer = await broker.connect(level=5)
    await consumer.subscribe("$queue/q", qos=1)
    assert [message.payload for message in await consumer.messages(3)] == [b"one", b"two", b"three"]


async def test_a_browser_is_shown_no_more_than_its_window(broker: RunningBroker) -> None:
    """Solace 4.7: it has a window of its own."""
    await create(broker, subscriptions=["t"])
    await publish(broker, b"1", b"2", b"3", b"4", b"5")
    browser = Browser(broker)
    await browser.bind(window=2)
    assert payloads(await browser.sees(2)) == [b"1", b"2"]
    await publish(broker, b"6")
    await shows(broker, lambda view: view.ready_count == 6)
    assert browser.has_seen_all()
    browser.wants(3)
    assert payloads(await browser.sees(3)) == [b"3", b"4", b"5"]


async def test_a_message_that_was_consumed_first_is_passed_over(broker: RunningBroker) -> None:
    """Solace 4.7: consumers may take messages before the browser sees them."""
    await create(broker, subscriptions=["t"])
    consumer = await broker.connect(level=5)
    await consumer.subscribe("$queue/q", qos=1)
    await publish(broker, b"gone")
    await consumer.messages(1)
    await shows(broker, lambda view: view.unacked_count == 0)
    await publish(broker, b"held")
    await consumer.message()
    browser = Browser(broker)
    await browser.bind()
    seen = await browser.sees(1)
    assert (payloads(seen), seen[0].in_flight) == ([b"held"], True)


async def test_a_browser_removes_single_messages_it_was_shown(broker: RunningBroker) -> None:
    """Solace 4.7: a browser flow may settle single messages; one that a consumer holds stays."""
    await create(broker, subscriptions=["t"], max_delivered_unacked_msgs_per_flow=1)
    await publish(broker, b"1", b"2", b"3", b"4")
    consumer = await broker.connect(level=5)
    await consumer.subscribe("$queue/q", qos=1)
    held = await consumer.message()
    browser = Browser(broker)
    await browser.bind(window=3)
    first, second, third = await browser.sees(3)
    assert await browser.deletes(second, first, second) == 1
    consumer.acknowledge(held)
    message = await consumer.message()
    assert message.payload == payloads([third])[0]
    view = await shown(broker)
    assert (view.ready_count, view.unacked_count) == (1, 1)


async def test_a_browser_cannot_remove_messages_that_it_has_not_received(broker: RunningBroker) -> None:
    await create(broker, subscriptions=["t"])
    await publish(broker, b"1", b"2")
    browser = Browser(broker)
    await browser.bind(window=1)
    (first,) = await browser.sees(1)
    assert browser.bound is not None
    assert await browser.bound.browser.ask(DeleteBrowsed([(0, first.sequence + 1), (7, 1)])) == 0


async def test_partitions_come_each_in_order(broker: RunningBroker) -> None:
    """Browsing works on partitioned queues."""
    await create(broker, subscriptions=["t"], access_type="non-exclusive", partition_count=3)
    await publish(broker, *[b"%02d" % number for number in range(40)])
    browser = Browser(broker)
    await browser.bind()
    seen = await browser.sees(40)
    assert len({each.partition_number for each in seen}) == 3
    for number in range(3):
        its = [each.sequence for each in seen if each.partition_number == number]
        assert its == list(range(1, len(its) + 1))
    times = [each.batch.received_ms for each in seen]
    assert times == sorted(times)
    with pytest.raises(BindRefused, match="'q' has no partition 3; allowed: 0 to 2"):
        await Browser(broker).bind(partition=3)
    only = Browser(broker)
    await only.bind(partition=1, after=2)
    assert (await only.sees(1))[0].sequence == 3


async def test_a_browser_of_one_partition_is_there_when_it_has_retired_and_when_there_is_another(
    broker: RunningBroker,
) -> None:
    """Meanwhile it shows nothing, and is at the tail."""
    await create(broker, subscriptions=["t"], access_type="non-exclusive", partition_count=2)
    browser = Browser(broker)
    await browser.bind(partition=1)
    await change(broker, partition_count=1)
    await shows(broker, lambda view: len(view.partitions) == 1)
    await browser.comes_to_the_tail()
    await change(broker, partition_count=2)
    await shows(broker, lambda view: len(view.partitions) == 2)
    await publish(broker, *[b"%02d" % number for number in range(40)])
    assert (await browser.sees(1))[0].partition_number == 1


async def test_a_selector_chooses_what_is_shown(broker: RunningBroker) -> None:
    """Solace 4.7: what it passes over costs no credit."""
    await create(broker, subscriptions=["t"])
    await publish(broker, *[b"x" * number for number in range(10)])
    browser = Browser(broker)
    await browser.bind(window=3, selector="AMQSize % 3 = 0")
    assert payloads(await browser.sees(3)) == [b"", b"xxx", b"xxxxxx"]


@pytest.mark.settings("spool.memory_bytes_max=1MiB")
async def test_a_browser_reads_pages(broker: RunningBroker) -> None:
    """A backlog beyond memory lies in the store, and stays there."""
    await create(broker, subscriptions=["t"])
    await publish(broker, *[b"%04d" % number + bytes(8000) for number in range(300)])
    browser = Browser(broker)
    await browser.bind(window=300)
    assert [int(payload[:4]) for payload in payloads(await browser.sees(300))] == list(range(300))


@pytest.mark.parametrize("failure", [StoreFailed("input/output error"), MemoryError("nobody expects it")])
@pytest.mark.settings("spool.memory_bytes_max=1MiB")
async def test_a_browser_waits_for_a_page_that_cannot_be_read_now(
    broker: RunningBroker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, failure: Exception
) -> None:
    """It never comes back to what it has passed over; and the thread that reads goes on, whatever the failure."""
    caplog.handler.addFilter(lambda record: "cannot be read" not in record.getMessage())
    await create(broker, subscriptions=["t"])
    await publish(broker, *[b"%04d" % number + bytes(8000) for number in range(300)])
    read_page, fails = broker.node.services.store.read_page, [True]

    def read_or_fail(partition_id: int, first_sequence: int) -> PageRuns:
        if fails and fails.pop():
            raise failure
        return read_page(partition_id, first_sequence)

    monkeypatch.setattr(broker.node.services.store, "read_page", read_or_fail)
    browser = Browser(broker)
    await browser.bind(window=300)
    assert [int(payload[:4]) for payload in payloads(await browser.sees(300))] == list(range(300))
    assert fails == []


@pytest.mark.settings("spool.memory_bytes_max=1MiB")
async def test_a_browser_passes_over_the_damaged_end_of_a_page(
    broker: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It read such a page again and again."""
    await create(broker, subscriptions=["t"])
    await publish(broker, *[b"%04d" % number + bytes(8000) for number in range(300)])
    read_page = broker.node.services.store.read_page
    lost: set[int] = set()

    def read_without_the_end(partition_id: int, first_sequence: int) -> PageRuns:
        runs = read_page(partition_id, first_sequence).runs
        lost.update(int(payload[:4]) for payload in runs[-1].batch.payloads())
        return PageRuns(runs[:-1], "the end is damaged")

    monkeypatch.setattr(broker.node.services.store, "read_page", read_without_the_end)
    browser = Browser(broker)
    await browser.bind(window=1000)
    await browser.comes_to_the_tail()
    seen = [int(payload[:4]) for payload in payloads(browser.has_seen())]
    assert seen == [number for number in range(300) if number not in lost]
    assert lost


async def test_browsing_needs_read_only_and_removing_consume(broker: RunningBroker) -> None:
    """Solace 4.3: read-only = browse, consume = browse and remove."""
    await create(broker, subscriptions=["t"], permission="no-access")
    with pytest.raises(BindRefused, match=r"403 Permission Denied: .* 'read-only' is needed"):
        await Browser(broker).bind()
    await change(broker, permission="read-only")
    await publish(broker, b"x")
    browser = Browser(broker)
    await browser.bind()
    (message,) = await browser.sees(1)
    with pytest.raises(BindRefused, match="'consume' is needed"):
        await browser.deletes(message)
    await change(broker, permission="no-access")
    assert "403" in (await browser.is_told_that_it_ended()).reason
    operator = Browser(broker)
    await operator.bind(user=None)
    assert payloads(await operator.sees(1)) == [b"x"]


async def test_browsers_count_as_binds_and_are_shown(broker: RunningBroker) -> None:
    """Solace 4.5: activityState active-browser."""
    await create(broker, max_bind_count=1)
    browser = Browser(broker)
    await browser.bind(window=7)
    (flow,) = (await shown(broker)).flows
    assert (flow.client, flow.activity, flow.window) == ("looker", "active-browser", 7)
    assert await (await broker.connect(level=5)).subscribe("$queue/q", qos=1) == [0x97]
    browser.leaves()
    await shows(broker, lambda view: not view.flows)
    assert await (await broker.connect(level=5)).subscribe("$queue/q", qos=1) == [1]
    assert (await shown(broker)).flows[0].activity == "active-consumer"


async def test_a_browser_hears_that_its_queue_was_deleted(broker: RunningBroker) -> None:
    await create(broker)
    browser = Browser(broker)
    await browser.bind()
    await NodeOperations(broker.node).delete_queue("q")
    assert (await browser.is_told_that_it_ended()).reason == "the queue was deleted"


@asynccontextmanager
async def following(broker: RunningBroker, query: str = "") -> AsyncIterator[AsyncIterator[dict[str, object]]]:
    """Follow queue `q` over HTTP, line by line."""
    admin = broker.operator_ports.ports.servers["admin"]
    url = f"http://127.0.0.1:{admin.port}/queues/q/messages?follow=1{query}"
    async with plain_async_client(timeout=2 * DEADLINE_S) as client, client.stream("GET", url) as answer:
        assert answer.headers["content-type"] == "application/x-ndjson"

        async def lines() -> AsyncIterator[dict[str, object]]:
            async for line in answer.aiter_lines():
                yield orjson.loads(line)

        yield lines()


@pytest.mark.settings("admin.enabled=true", "admin.port=0")
async def test_a_queue_is_followed_over_http(broker: RunningBroker) -> None:
    """GET /queues/NAME/messages?follow=1: a line for each message, until the client hangs up."""
    await create(broker, subscriptions=["t"])
    await publish(broker, *[b"%d" % number for number in range(250)])
    async with following(broker, "&after=1") as lines:
        assert [(await anext(lines))["payload"] for _ in range(249)] == [str(number) for number in range(1, 250)]
        await publish(broker, b"new")
        assert (await anext(lines))["payload"] == "new"
        assert [(flow.client, flow.protocol) for flow in (await shown(broker)).flows] == [("admin", "http")]
    await shows(broker, lambda view: not view.flows)


@pytest.mark.settings("admin.enabled=true", "admin.port=0")
async def test_a_head_request_follows_nothing(broker: RunningBroker) -> None:
    """RFC 9110, 9.3.2: its answer has no body. Else it would read the queue for ever, for nobody."""
    await create(broker)
    port = broker.operator_ports.ports.servers["admin"].port
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"HEAD /queues/q/messages?follow=1 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
    writer.write(b"GET /health/live HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
    async with asyncio.timeout(DEADLINE_S):
        head, live = (await reader.read()).split(b"HTTP/1.1 200 OK\r\n")[1:]
    assert b"content-type: application/x-ndjson\r\n" in head
    assert head.endswith(b"\r\n\r\n")
    assert b"content-length: 0" not in head, "an answer to GET has no length"
    assert live.endswith(b"}")
    writer.close()


@pytest.mark.settings("admin.enabled=true", "admin.port=0")
async def test_a_stopping_node_ends_followers(broker: RunningBroker) -> None:
    await create(broker)
    async with following(broker) as lines:
        await shows(broker, lambda view: bool(view.flows))
        stopping = asyncio.create_task(broker.stop())
        async with asyncio.timeout(DEADLINE_S):
            assert [line async for line in lines] == []
            await stopping
