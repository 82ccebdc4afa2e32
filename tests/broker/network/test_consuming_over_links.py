"""Consumers of one broker at queues of another: deliveries, settlements, credit, partitions, and links that are cut."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

import support.mqtt.packets as mqtt
from sluicegate.gateway.operations.node import NodeOperations
from sluicegate.protocols.flow.codec import codes
from sluicegate.protocols.flow.codec.frames.settle import OUTCOME_FAILED, OUTCOME_REJECTED, OUTCOME_RELEASED, Credit
from support.amqp.client import AmqpClient
from support.broker.linked_brokers import Brokers, until
from support.broker.named_queues import create, shown, shows
from support.flow.client import FlowClient, Refused
from support.http.client import http_client, poll, settle
from support.mqtt.raw_client import RawClient


@pytest.fixture
def network(runner: asyncio.Runner, tmp_path: Path) -> Iterator[Brokers]:
    """Brokers a and b, linked: a connects. Clients of a consume from queues of b."""
    brokers = Brokers(tmp_path)

    async def start() -> None:
        await brokers.__aenter__()
        await brokers.pair()
        await brokers.are_linked()

    runner.run(start())
    yield brokers
    runner.run(brokers.__aexit__(None, None, None))


async def queue_at_b(network: Brokers, **attributes: object) -> None:
    await create(network["b"], "q", **attributes)
    await until(lambda: network["a"].node.default.space.queue_home("q") is not None, "a knows q")


async def publish(network: Brokers, numbers: range, *, at: str = "b", key: bool = False) -> None:
    """Publish messages whose payloads are their numbers to q."""
    async with FlowClient(network[at].flow_port) as client:
        opened = await client.opens_publisher()
        for sequence, number in enumerate(numbers, 1):
            client.publishes(opened.flow_id, [sequence], queue="q", payload=b"%d" % number)
        assert await client.answered(opened.flow_id, len(numbers)) == []


async def consumer(network: Brokers, name: str = "consumer", *, at: str = "a") -> RawClient:
    """Return an MQTT client that consumes q."""
    client = await network[at].connect(name, 5)
    assert await client.subscribe(("$queue/q", 1)) == [1]
    return client


async def cut(network: Brokers) -> None:
    (await network.proxy("a", "b")).cut()
    await until(lambda: not network["a"].neighbor("b").is_up, "the link is down at a")
    await until(lambda: not network["b"].neighbor("a").is_up, "the link is down at b")


async def heal(network: Brokers) -> None:
    (await network.proxy("a", "b")).heal()
    await network.are_linked()


def payloads(numbers: range) -> list[bytes]:
    return [b"%d" % number for number in numbers]


async def is_empty(network: Brokers) -> None:
    await shows(network["b"], lambda view: view.spooled_count == 0)


async def test_an_mqtt_client_consumes_from_a_queue_of_a_neighbor(network: Brokers) -> None:
    await queue_at_b(network)
    await publish(network, range(50))
    client = await consumer(network)
    assert await client.payloads(50) == payloads(range(50))
    await is_empty(network)
    await publish(network, range(50, 60))
    assert await client.payloads(10) == payloads(range(50, 60))
    await is_empty(network)


async def test_a_flow_client_consumes_and_settles_ranges(network: Brokers) -> None:
    await queue_at_b(network)
    await publish(network, range(30))
    async with FlowClient(network["a"].flow_port) as client:
        flow_id = await client.binds("q")
        received = await client.receives_in_all(30, flow_id)
        assert [each.payload for each in received] == payloads(range(30))
        assert [each.message_id for each in received] == list(range(1, 31))
        client.settles(flow_id, 11, 20)
        await shows(network["b"], lambda view: view.spooled_count == 20)
        client.accepts_through(flow_id, 30)
        await is_empty(network)


async def test_an_amqp_client_consumes_within_its_credit(network: Brokers) -> None:
    await queue_at_b(network)
    await publish(network, range(10))
    client = await AmqpClient.open(network["a"].amqp_port)
    await client.receiver("r", "queue://q", handle=1, credit=4)
    for _ in range(4):
        client.settle((await client.delivery()).delivery_id)
    await client.is_quiet()
    await shows(network["b"], lambda view: view.spooled_count == 6)
    client.flow(1, credit=100)
    for _ in range(6):
        client.settle((await client.delivery()).delivery_id)
    await is_empty(network)
    await client.close()
    await shows(network["b"], lambda view: not view.flows)


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


async def test_outcomes_have_their_effect_at_the_queue(network: Brokers) -> None:
    await create(network["b"], "#DEAD_MSG_QUEUE")
    await queue_at_b(network, access_type="non-exclusive", max_redelivery_count=1)
    await publish(network, range(4))
    async with FlowClient(network["a"].flow_port) as client:
        flow_id = await client.binds("q")
        await client.receives_in_all(4, flow_id)
        client.settles(flow_id, 1, 1, OUTCOME_REJECTED)
        client.settles(flow_id, 2, 2, OUTCOME_RELEASED)
        client.settles(flow_id, 3, 3, OUTCOME_FAILED)
        again = await client.receives_in_all(2, flow_id)
        assert {each.payload: (each.delivery_count, each.redelivered) for each in again} == {
            b"1": (1, True),
            b"2": (2, True),
        }
        client.settles(flow_id, 4, 6)
        await is_empty(network)
        await shows(network["b"], lambda view: view.spooled_count == 1, "#DEAD_MSG_QUEUE")


async def test_what_a_lost_consumer_held_is_delivered_again_marked(network: Brokers) -> None:
    await queue_at_b(network)
    await publish(network, range(5))
    client = FlowClient(network["a"].flow_port)
    await client.open()
    flow_id = await client.binds("q")
    assert not any(each.redelivered for each in await client.receives_in_all(5, flow_id))
    client.cut()
    await client.ended()
    async with FlowClient(network["b"].flow_port) as other:
        found = await other.receives_in_all(5, await other.binds("q"))
        assert all(each.redelivered and each.delivery_count == 2 for each in found)


async def test_consumers_of_both_brokers_share_a_non_exclusive_queue(network: Brokers) -> None:
    await queue_at_b(network, access_type="non-exclusive")
    async with FlowClient(network["a"].flow_port) as here, FlowClient(network["b"].flow_port) as there:
        here_id, there_id = await here.binds("q", credit=50), await there.binds("q", credit=50)
        await publish(network, range(100))
        mine, others = await here.receives_in_all(50, here_id), await there.receives_in_all(50, there_id)
        assert sorted(each.payload for each in (*mine, *others)) == sorted(payloads(range(100)))
        here.accepts_through(here_id, 50)
        there.accepts_through(there_id, 50)
        await is_empty(network)


async def test_a_standby_at_another_broker_takes_over_an_exclusive_queue(network: Brokers) -> None:
    await queue_at_b(network)
    active = await consumer(network, "active", at="b")
    standby = await consumer(network, "standby")
    await publish(network, range(5))
    assert await active.payloads(5) == payloads(range(5))
    await active.vanish()
    await publish(network, range(5, 10))
    assert await standby.payloads(5) == payloads(range(5, 10))


async def test_partitions_are_shared_out_among_flows_of_both_brokers(network: Brokers) -> None:
    await queue_at_b(
        network, access_type="non-exclusive", partition_count=4, partition_rebalance_delay_s=0,
        partition_rebalance_max_handoff_time_s=1,
    )  # fmt: skip
    async with FlowClient(network["a"].flow_port, name="here") as here:
        here_id = await here.binds("q")
        await shows(network["b"], lambda view: all(each.client == "here@a" for each in view.partitions))
        async with FlowClient(network["b"].flow_port, name="there") as there:
            await there.binds("q")
            await shows(network["b"], lambda view: [each.client for each in view.partitions].count("there") == 2)
        await shows(network["b"], lambda view: all(each.client == "here@a" for each in view.partitions))
        await publish(network, range(40))
        found = await here.receives_in_all(40, here_id)
        assert sorted(each.payload for each in found) == sorted(payloads(range(40)))
        assert {each.partition for each in found} == {0, 1, 2, 3}
        here.accepts_through(here_id, 40)
        await is_empty(network)


async def test_a_cut_link_ends_the_flow_and_mqtt_binds_anew(network: Brokers) -> None:
    await queue_at_b(network)
    client = await consumer(network)
    await publish(network, range(3))
    assert await client.payloads(3) == payloads(range(3))
    await is_empty(network)
    await cut(network)
    await shows(network["b"], lambda view: not view.flows)
    await publish(network, range(3, 6))
    await heal(network)
    assert await client.payloads(3) == payloads(range(3, 6))
    await is_empty(network)


async def test_a_cut_link_tells_flow_clients_and_detaches_amqp_links(network: Brokers) -> None:
    await queue_at_b(network, access_type="non-exclusive")
    amqp = await AmqpClient.open(network["a"].amqp_port)
    await amqp.receiver("r", "queue://q", handle=1, credit=4)
    async with FlowClient(network["a"].flow_port) as client:
        await client.binds("q")
        await shows(network["b"], lambda view: len(view.flows) == 2)
        await cut(network)
        await amqp.detached(1, closed=True)
        with pytest.raises(Refused, match="the link to its broker b is down") as refused:
            await client.binds("q")
        assert refused.value.error.code == codes.DISABLED
        await heal(network)
        await client.binds("q")
    await amqp.close()


@pytest.mark.parametrize("which", ["a", "b"])
async def test_unsettled_messages_survive_a_crash_of_either_broker(network: Brokers, which: str) -> None:
    await queue_at_b(network)
    await publish(network, range(10))
    client = FlowClient(network["a"].flow_port)
    await client.open()
    flow_id = await client.binds("q")
    await client.receives_in_all(10, flow_id)
    client.settles(flow_id, 1, 4)
    await shows(network["b"], lambda view: view.spooled_count == 6)
    await network[which].crash()
    await network.proxy("a", "b")  # b has another port now
    client.cut()
    await client.ended()
    await network.are_linked()
    async with FlowClient(network["a"].flow_port) as again:
        found = await again.receives_in_all(6, await again.binds("q"))
        assert [each.payload for each in found] == payloads(range(4, 10))


async def test_an_unknown_queue_and_one_in_conflict_are_refused(network: Brokers) -> None:
    await queue_at_b(network)
    async with FlowClient(network["a"].flow_port) as client:
        with pytest.raises(Refused, match="no queue 'other'"):
            await client.binds("other")
        await create(network["a"], "q")
        await publish(network, range(1), at="a")
        found = await client.receives_in_all(1, await client.binds("q"))
        assert [each.payload for each in found] == [b"0"]
        assert (await shown(network["b"])).flows == ()


async def test_the_home_refuses_what_its_queue_refuses(network: Brokers) -> None:
    await queue_at_b(network, egress_enabled=False)
    async with FlowClient(network["a"].flow_port) as client:
        with pytest.raises(Refused, match="egress of 'q' is shut down"):
            await client.binds("q")
        await NodeOperations(network["b"].node).update_queue("q", {"egress_enabled": True})
        await client.binds("q")
        await NodeOperations(network["b"].node).delete_queue("q")
        await until(lambda: network["a"].node.default.space.queue_home("q") is None, "it is gone")


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


async def test_credit_that_was_recalled_is_returned_once_and_keeps_the_order(network: Brokers) -> None:
    """What comes is returned, the loan with it: the neighbor does not send the same messages over and over."""
    await queue_at_b(network)
    async with FlowClient(network["a"].flow_port) as client:
        flow_id = await client.binds("q", credit=1000)
        await shows(network["b"], lambda view: [each.window for each in view.flows] == [1000])
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


async def test_an_http_worker_consumes_from_a_queue_of_a_neighbor(network: Brokers) -> None:
    await queue_at_b(network)
    await publish(network, range(3))
    async with http_client(network["a"]) as client:
        flow, lines = await poll(client, "/QUEUE/q", max=3)
        assert [each["payload"] for each in lines] == ["0", "1", "2"]
        assert await settle(client, f"{flow}/1-3") == 204
        await is_empty(network)
        assert (await client.delete(flow)).status_code == 204
    await shows(network["b"], lambda view: not view.flows)


async def shares_a_window(network: Brokers, limit: int, *names: str) -> RawClient:
    """Return a client of a with a window of so many messages for all these queues."""
    client = await network["a"].connect("consumer", 5, properties=mqtt.receive_maximum(limit))
    for name in names:
        assert await client.subscribe((f"$queue/{name}", 1)) == [1]
    await shows(network["b"], lambda view: [each.window > 0 for each in view.flows] == [True])
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
