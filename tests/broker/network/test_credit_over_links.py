"""Credit of consumers at queues of other brokers: windows, recalls, drains, and slow links and clients."""

import asyncio

import pytest

import support.mqtt.packets as mqtt
from sluicegate.protocols.flow.codec.frames.flow import Bind, Bound
from sluicegate.protocols.flow.codec.frames.settle import Credit
from sluicegate.protocols.flow.engine.events import DeliveriesReceived
from sluicegate.protocols.network.queues.remote.queue import RECALL_MS
from support.amqp.client import AmqpClient
from support.broker.linked_brokers import Brokers, until
from support.broker.named_queues import create, shown, shows
from support.broker.remote_queues import payloads, publish, queue_at_b
from support.flow.client import FlowClient
from support.http.client import http_client
from support.mqtt.raw_client import RawClient


async def test_a_consumer_gets_no_more_than_its_window(network: Brokers) -> None:
    await queue_at_b(network)
    await publish(network, range(20))
    async with FlowClient(network["a"].flow_port) as client:
        flow_id = await client.binds("q", credit=5)
        assert len(await client.receives_in_all(5, flow_id)) == 5
        await shows(network["b"], lambda view: view.unacked_count == 5)
        client.accepts_through(flow_id, 5)
        await shows(network["b"], lambda view: view.spooled_count == 15)
        client.grants(flow_id, 8)
        assert len(await client.receives_in_all(3, flow_id)) == 3


async def test_credit_that_was_recalled_brings_nothing_and_holds_nothing(network: Brokers) -> None:
    """The neighbor does not know of it yet: what it sends comes back untouched."""
    await queue_at_b(network, access_type="non-exclusive")
    async with FlowClient(network["a"].flow_port) as client, FlowClient(network["b"].flow_port) as other:
        flow_id = await client.binds("q", credit=3)
        await shows(network["b"], lambda view: [each.window for each in view.flows] == [3])
        client.grants(flow_id, 0, recalls=True)
        await client.heard(Credit, lambda credit: credit.flow_id == flow_id)
        await publish(network, range(10))
        found = await other.receives_in_all(10, await other.binds("q"))
        assert sorted(each.payload for each in found) == sorted(payloads(range(10)))
        assert {each.delivery_count for each in found} == {1}


async def test_credit_that_was_recalled_is_returned_once_and_keeps_the_order(network: Brokers) -> None:
    """What comes is returned, the loan with it: the neighbor does not send the same messages over and over."""
    await queue_at_b(network)
    async with FlowClient(network["a"].flow_port) as client:
        flow_id = await client.binds("q", credit=1000)
        await shows(network["b"], lambda view: [each.window for each in view.flows] == [32])
        client.grants(flow_id, 0, recalls=True)
        await client.heard(Credit, lambda credit: credit.flow_id == flow_id)
        await publish(network, range(10))
        await shows(network["b"], lambda view: (view.flows[0].window, view.ready_count) == (0, 10))
        assert network["b"].neighbor("a").vpns[0].home_flows.delivered_count <= 10
        client.grants(flow_id, 1000)
        found = await client.receives_in_all(10, flow_id)
        assert [each.payload for each in found] == payloads(range(10))


async def test_drains_that_follow_each_other_keep_the_link(network: Brokers) -> None:
    """What the second drain lends counts from the answer to the first."""
    await queue_at_b(network)
    await publish(network, range(30))
    links = (await network.proxy("a", "b")).accepted_count
    client = await AmqpClient.open(network["a"].amqp_port)
    await client.receiver("r", "queue://q", handle=1)
    client.flow(1, 10, drain=True)
    client.flow(1, 20, drain=True)
    found = await client.deliveries(20)
    assert [each.payload for each in found] == payloads(range(20))
    assert (await network.proxy("a", "b")).accepted_count == links
    await client.close()


async def test_small_windows_are_shared_by_remote_queues_in_turn(network: Brokers) -> None:
    """One client with a window of one consumes from two queues of the neighbor, and its own."""
    await queue_at_b(network)
    await create(network["b"], "p")
    await create(network["a"], "here")
    await until(lambda: network["a"].node.default.space.queue_home("p") is not None, "a knows p")
    client = await network["a"].connect("consumer", 5, properties=mqtt.receive_maximum(1))
    for name in ("q", "p", "here"):
        assert await client.subscribe((f"$queue/{name}", 1)) == [1]
    publisher = await network["b"].connect("publisher", 5)
    for name in ("p", "q", "p"):
        assert await publisher.publish(f"$queue/{name}", name.encode(), qos=1) == 0
    local = await network["a"].connect("local", 5)
    assert await local.publish("$queue/here", b"here", qos=1) == 0
    assert sorted(await client.payloads(4)) == [b"here", b"p", b"p", b"q"]


async def shares_a_window(network: Brokers, limit: int, *names: str, is_lent: bool = True) -> RawClient:
    """Return a client of a with a window of so many messages for all these queues."""
    client = await network["a"].connect("consumer", 5, properties=mqtt.receive_maximum(limit))
    for name in names:
        assert await client.subscribe((f"$queue/{name}", 1)) == [1]
    await shows(network["b"], lambda view: [each.window > 0 for each in view.flows] == [is_lent])
    return client


async def publish_to(network: Brokers, at: str, name: str, count: int) -> None:
    publisher = await network[at].connect(f"publisher-{name}", 5)
    for _ in range(count):
        assert await publisher.publish(f"$queue/{name}", name.encode(), qos=1) == 0
    await publisher.leave()


@pytest.mark.parametrize("limit", [1, 2, 3, 10])
async def test_an_idle_remote_queue_leaves_a_shared_window_to_local_ones(network: Brokers, limit: int) -> None:
    await queue_at_b(network)
    await create(network["a"], "here")
    await create(network["a"], "beside")
    client = await shares_a_window(network, limit, "q", "here", "beside")
    await publish_to(network, "a", "here", 10)
    await publish_to(network, "a", "beside", 10)
    assert sorted(await client.payloads(20)) == [b"beside"] * 10 + [b"here"] * 10
    await publish_to(network, "b", "q", 5)
    assert await client.payloads(5) == [b"q"] * 5


async def test_a_loan_is_returned_to_those_that_stood_in_line_as_it_was_made(network: Brokers) -> None:
    await queue_at_b(network)
    await create(network["a"], "here")
    await create(network["a"], "beside")
    await publish_to(network, "a", "here", 1)
    await publish_to(network, "a", "beside", 2)
    client = await shares_a_window(network, 1, "here", "q", "beside", is_lent=False)
    await asyncio.sleep(2 * RECALL_MS / 1000)  # until nobody looks for idle loans because of those that came into line
    assert await client.payloads(3) == [b"here", b"beside", b"beside"]


async def test_an_idle_remote_queue_leaves_a_shared_window_to_retained_messages(network: Brokers) -> None:
    await queue_at_b(network)
    publisher = await network["a"].connect("publisher", 5)
    for number in range(3):
        assert await publisher.publish(f"kept/{number}", b"%d" % number, qos=1, retain=True) == 0
    client = await shares_a_window(network, 1, "q")
    assert await client.subscribe(("kept/#", 1)) == [1]
    assert sorted(await client.payloads(3)) == payloads(range(3))


@pytest.mark.parametrize("limit", [1, 3])
async def test_an_idle_local_queue_leaves_a_shared_window_to_a_remote_one(network: Brokers, limit: int) -> None:
    await queue_at_b(network)
    await create(network["a"], "here")
    client = await shares_a_window(network, limit, "here", "q")
    await publish_to(network, "b", "q", 20)
    assert await client.payloads(20) == [b"q"] * 20
    await publish_to(network, "a", "here", 5)
    assert await client.payloads(5) == [b"here"] * 5


@pytest.mark.parametrize("limit", [1, 3])
async def test_busy_queues_of_both_brokers_share_a_window(network: Brokers, limit: int) -> None:
    await queue_at_b(network)
    await create(network["a"], "here")
    client = await shares_a_window(network, limit, "q", "here")
    await publish_to(network, "a", "here", 10)
    await publish_to(network, "b", "q", 10)
    assert sorted(await client.payloads(20)) == [b"here"] * 10 + [b"q"] * 10


@pytest.mark.parametrize("limit", [2, 3])
async def test_an_idle_remote_queue_leaves_a_shared_window_to_another(network: Brokers, limit: int) -> None:
    await create(network["b"], "p")
    await queue_at_b(network)
    await until(lambda: network["a"].node.default.space.queue_home("p") is not None, "a knows p")
    client = await shares_a_window(network, limit, "q", "p")
    await publish_to(network, "b", "p", 10)
    assert await client.payloads(10) == [b"p"] * 10
    await publish_to(network, "b", "q", 10)
    assert await client.payloads(10) == [b"q"] * 10


async def test_a_drain_of_more_than_a_loan_brings_all_there_is(network: Brokers) -> None:
    """The neighbor is lent a part of the credit at a time; the client hears of the drain when the queue is empty."""
    await queue_at_b(network)
    await publish(network, range(100))
    client = await AmqpClient.open(network["a"].amqp_port)
    await client.receiver("r", "queue://q", handle=1)
    client.flow(1, 500, drain=True)
    assert [each.payload for each in await client.deliveries(100)] == payloads(range(100))
    await client.close()


async def test_a_link_that_reads_slowly_keeps_what_waits_for_it_in_the_queue(network: Brokers) -> None:
    await queue_at_b(network, access_type="non-exclusive")
    message = bytes(100_000)
    async with FlowClient(network["a"].flow_port) as client:
        flows = [await client.binds("q") for _ in range(10)]
        (await network.proxy("a", "b")).freeze_answers()
        await publish_all(network, [message] * 320)
        await shows(network["b"], lambda view: view.spooled_count == 320)
        assert (await shown(network["b"])).unacked_count < 250, "some 4 MiB, and what sockets take"
        (await network.proxy("a", "b")).heal()
        count = 0
        while count < 320:
            event = await client.heard(DeliveriesReceived, lambda event: event.flow_id in flows)
            count += len(event.deliveries)


async def test_a_slow_client_does_not_fill_its_broker(network: Brokers) -> None:
    """Its broker asks for some 4 MiB of messages at a time, and for none while the client's socket is full."""
    await queue_at_b(network)
    client = await network["a"].connect("consumer", 5)
    assert await client.subscribe(("$queue/q", 1)) == [1]
    client.stop_reading()
    await publish_all(network, [bytes(100_000)] * 400)
    await shows(network["b"], lambda view: view.spooled_count == 400)
    assert (await shown(network["b"])).unacked_count < 300, "a loan, and what sockets take"
    client.resume_reading()
    assert len(await client.payloads(400)) == 400


async def publish_all(network: Brokers, messages: list[bytes]) -> None:
    async with FlowClient(network["b"].flow_port) as client:
        opened = await client.opens_publisher()
        for sequence, payload in enumerate(messages, 1):
            client.publishes(opened.flow_id, [sequence], queue="q", payload=payload)
        assert await client.answered(opened.flow_id, len(messages)) == []


async def test_credit_that_waits_at_a_neighbor_takes_no_part_of_the_nodes_limit(brokers: Brokers) -> None:
    await brokers.pair(a=("limits.delivered_unacked_max=40",))
    await brokers.are_linked()
    await queue_at_b(brokers, access_type="non-exclusive")
    await create(brokers["a"], "here")
    async with FlowClient(brokers["a"].flow_port) as client:
        remote = [await client.binds("q") for _ in range(3)]
        await shows(brokers["b"], lambda view: [each.window for each in view.flows] == [32, 32, 32])
        local = await client.binds("here")
        await publish_to(brokers, "a", "here", 40)
        await client.receives_in_all(40, local)
        await publish_all(brokers, [b"m"] * 20)
        await shows(brokers["b"], lambda view: view.ready_count == 20)  # they came back: the limit is reached
        client.accepts_through(local, 40)
        count = 0
        while count < 20:
            event = await client.heard(DeliveriesReceived, lambda event: event.flow_id in remote)
            count += len(event.deliveries)


async def test_the_end_of_a_queues_actor_ends_its_flows_at_the_neighbor(network: Brokers) -> None:
    """Else they would hold what they were sent for as long as the link is up."""
    await queue_at_b(network, access_type="non-exclusive")
    async with FlowClient(network["a"].flow_port) as client:
        flow_id = await client.binds("q")
        await publish(network, range(3))
        await client.receives_in_all(3, flow_id)
        cell, _ = network["a"].neighbor("b").vpns[0].remote_queues.queue("q")
        cell.stop()
        await shows(network["b"], lambda view: (len(view.flows), view.ready_count) == (0, 3))


async def test_a_selector_is_applied_where_the_queue_is(network: Brokers) -> None:
    await queue_at_b(network, access_type="non-exclusive")
    async with FlowClient(network["a"].flow_port) as client, http_client(network["b"]) as publisher:
        flow_id, request_id = client.ids()
        client.send(Bind(flow_id, request_id, "q", 0, 100, selector="odd = 1").encode())
        await client.heard(Bound, lambda bound: bound.request_id == request_id)
        for number in range(6):
            headers = {"Solace-User-Property-odd": f"{number % 2};type=int32"}
            answer = await publisher.post("/QUEUE/q", content=f"{number}", headers=headers)
            assert answer.status_code == 200, answer.text
        found = await client.receives_in_all(3, flow_id)
        assert [each.payload for each in found] == [b"1", b"3", b"5"]
        await shows(network["b"], lambda view: view.ready_count == 3)
