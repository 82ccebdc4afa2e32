"""Consumers of one broker at queues of another: deliveries, settlements, credit, partitions, and links that are cut."""

from dataclasses import replace

import pytest

from sluicegate.actors.messages.directory import FindElsewhere, QueueHandle
from sluicegate.gateway.operations.node import NodeOperations
from sluicegate.gateway.views.clients.clients import ClientQuery
from sluicegate.protocols.amqp.codec.performatives import ABSENT, Flow
from sluicegate.protocols.amqp.codec.termini import COPY, Source
from sluicegate.protocols.flow.codec import codes
from sluicegate.protocols.flow.codec.frames.flow import Bind, Bound
from sluicegate.protocols.flow.codec.frames.settle import OUTCOME_FAILED, OUTCOME_REJECTED, OUTCOME_RELEASED
from support.amqp.client import AmqpClient
from support.broker.inside_client import until as eventually
from support.broker.linked_brokers import Brokers, until
from support.broker.named_queues import create, shown, shows
from support.broker.remote_queues import consumer, cut, heal, is_empty, payloads, publish, queue_at_b
from support.flow.client import FlowClient, Refused
from support.http.client import http_client, poll, settle


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


async def test_sequences_of_a_neighbor_are_said_to_be_of_its_spool(network: Brokers) -> None:
    """Never of this broker's own: they would be other messages. The neighbor may be back just now."""
    await queue_at_b(network)
    linked = network["a"].neighbor("b").vpns[0].vpn
    theirs = network["b"].node.services.recovered.incarnation

    def found_while_away(name: str) -> QueueHandle | None:
        found = linked.find(name)
        return None if found is None else replace(found, incarnation=0)

    async with FlowClient(network["a"].flow_port) as client:
        for find, incarnation in ((linked.find, theirs), (found_while_away, 0)):
            linked.queues.inbox.post(FindElsewhere(find))
            flow_id, request_id = client.ids()
            client.send(Bind(flow_id, request_id, "q", 0, 10).encode())
            bound = await client.heard(Bound)
            assert (bound.request_id, bound.incarnation) == (request_id, incarnation)


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


async def test_the_broker_of_a_client_shows_its_flows_at_a_queue_of_a_neighbor(network: Brokers) -> None:
    await queue_at_b(network, access_type="exclusive")
    await publish(network, range(10))
    operations = NodeOperations(network["a"].node)
    async with FlowClient(network["a"].flow_port, name="first") as first:
        flow_id = await first.binds("q")
        await first.receives_in_all(10, flow_id)
        first.settles(flow_id, 2, 4)
        await shows(network["b"], lambda view: view.spooled_count == 7)

        (connection,) = (await operations.show_client("first")).connections
        (its,) = connection.flows
        assert (its.queue, its.flow.client) == ("q", "first")
        assert (its.flow.unacked_count, its.flow.activity) == (7, "active-consumer")
        (listed,) = (await operations.list_clients(ClientQuery())).clients
        assert (listed.flows_count, listed.unacked_count) == (1, 7)

        async with FlowClient(network["a"].flow_port, name="second") as second:
            await second.binds("q")
            (standby,) = (await operations.show_client("second")).connections[0].flows
            assert (standby.flow.activity, standby.flow.unacked_count) == ("inactive", 0)


async def test_a_queue_shows_at_which_broker_each_consumer_is(network: Brokers) -> None:
    """A client of its own broker may be called as if it were at another one."""
    await queue_at_b(network, access_type="non-exclusive")
    async with (
        FlowClient(network["a"].flow_port, name="far") as far,
        FlowClient(network["b"].flow_port, name="near@a") as near,
    ):
        await far.binds("q")
        await near.binds("q")
        for broker in ("a", "b"):  # asked at either
            view = await NodeOperations(network[broker].node).show_queue("q")
            assert {(each.client, each.broker) for each in view.flows} == {("far@a", "a"), ("near@a", "")}


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
        await _has_unsettled(network, 40)
        async with FlowClient(network["b"].flow_port, name="there") as there:
            there_id = await there.binds("q")
            view = await shows(network["b"], lambda view: [each.client for each in view.partitions].count("there") == 2)
            lost = {each.number for each in view.partitions if each.client == "there"}
            lost_count = sum(each.partition in lost for each in found)
            await there.receives_in_all(lost_count, there_id)
            await _has_unsettled(network, 40 - lost_count)
            here.accepts_through(here_id, 40)
            await _has_unsettled(network, 0)
            there.accepts_through(there_id, lost_count)
            await is_empty(network)


async def _has_unsettled(network: Brokers, count: int) -> None:
    """Wait until both brokers say that the only consumer at a has so many unsettled messages."""
    operations = NodeOperations(network["a"].node)

    async def is_shown() -> bool:
        (listed,) = (await operations.list_clients(ClientQuery())).clients
        return listed.unacked_count == count

    await eventually(is_shown, f"{count} unsettled messages")
    await shows(
        network["b"], lambda view: [each.unacked_count for each in view.flows if each.client == "here@a"] == [count]
    )


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


@pytest.mark.parametrize("mode", [None, COPY])
async def test_an_amqp_link_says_nothing_of_what_waits_at_another_broker(network: Brokers, mode: str | None) -> None:
    """AMQP 2.7.4: a sender that does not know how many messages there are leaves `available` out."""
    await queue_at_b(network)
    await publish(network, range(3))
    client = await AmqpClient.open(network["a"].amqp_port)
    await client.receiver("r", Source("queue://q", distribution_mode=mode), handle=1)
    client.flow(1, 0, echo=True)
    flow = await client.awaited(Flow)
    assert (flow.handle, flow.link_credit, flow.available) == (1, 0, ABSENT)
    await client.close()
