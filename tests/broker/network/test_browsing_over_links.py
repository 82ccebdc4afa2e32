"""Browsers of one broker at queues of another: in every protocol, of operators, with selectors, and when links end."""

import asyncio

import httpx
import pytest

from sluicegate.gateway.operations.node import NodeOperations
from sluicegate.gateway.views.errors import Refused as OperationRefused
from sluicegate.protocols.amqp.codec.termini import COPY, Source
from sluicegate.protocols.flow.codec.frames.flow import Bind, Bound
from support.amqp.client import AmqpClient
from support.broker.linked_brokers import Brokers, until
from support.broker.named_queues import create, shows
from support.flow.client import FlowClient
from support.http.client import event_stream, http_client


@pytest.fixture
def network(network: Brokers, runner: asyncio.Runner) -> Brokers:
    """Brokers a and b, linked. Clients of a browse queue q of b, which has two partitions."""

    async def make() -> None:
        await create(network["b"], "q", access_type="non-exclusive", partition_count=2)
        await until(lambda: network["a"].node.default.space.queue_home("q") is not None, "a knows q")

    runner.run(make())
    return network


async def publish(network: Brokers, numbers: range) -> None:
    """Publish messages whose payloads are their numbers to q, with a property `odd`."""
    async with http_client(network["b"]) as client:
        for number in numbers:
            headers = {"Solace-User-Property-odd": f"{number % 2};type=int32"}
            answer = await client.post("/QUEUE/q", content=f"{number}", headers=headers)
            assert answer.status_code == 200, answer.text


async def browses(client: FlowClient, *, credit: int = 1000, selector: str = "") -> int:
    flow_id, request_id = client.ids()
    client.send(Bind(flow_id, request_id, "q", 0, credit, browses=True, selector=selector).encode())
    await client.heard(Bound, lambda bound: bound.request_id == request_id)
    return flow_id


def sorted_numbers(payloads: list[bytes]) -> list[int]:
    return sorted(int(each) for each in payloads)


async def has_all(network: Brokers, count: int) -> None:
    await shows(network["b"], lambda view: (view.spooled_count, view.unacked_count) == (count, 0))


async def test_a_flow_client_browses_and_consumes_nothing(network: Brokers) -> None:
    await publish(network, range(20))
    async with FlowClient(network["a"].flow_port) as client:
        flow_id = await browses(client)
        found = await client.receives_in_all(20, flow_id)
        assert sorted_numbers([each.payload for each in found]) == list(range(20))
        assert {each.partition for each in found} == {0, 1}
        await publish(network, range(20, 22))
        assert sorted_numbers([each.payload for each in await client.receives_in_all(2, flow_id)]) == [20, 21]
        await has_all(network, 22)
        await client.unbinds(flow_id)
        await shows(network["b"], lambda view: not view.flows)


async def test_a_browser_gets_no_more_than_its_credit(network: Brokers) -> None:
    await publish(network, range(20))
    async with FlowClient(network["a"].flow_port) as client:
        flow_id = await browses(client, credit=3)
        assert len(await client.receives_in_all(3, flow_id)) == 3
        client.grants(flow_id, 10)
        assert len(await client.receives_in_all(7, flow_id)) == 7


async def test_a_selector_is_applied_where_the_queue_is(network: Brokers) -> None:
    await publish(network, range(20))
    async with FlowClient(network["a"].flow_port) as client:
        flow_id = await browses(client, selector="odd = 1")
        found = await client.receives_in_all(10, flow_id)
        assert sorted_numbers([each.payload for each in found]) == list(range(1, 20, 2))


async def test_an_amqp_receiver_gets_copies_and_drains_to_the_tail(network: Brokers) -> None:
    await publish(network, range(12))
    client = await AmqpClient.open(network["a"].amqp_port)
    answer = await client.receiver("l", Source("q", distribution_mode=COPY), handle=0)
    assert answer.source is not None
    assert answer.source.distribution_mode == COPY
    client.flow(0, 100, drain=True)
    copies, flow = await client.until_flow(0)
    assert sorted_numbers([each.payload for each in copies]) == list(range(12))
    assert (flow.link_credit, all(each.settled for each in copies)) == (0, True)
    await client.close()
    await has_all(network, 12)


async def test_an_http_client_browses_pages_and_follows(network: Brokers) -> None:
    await publish(network, range(9))
    async with http_client(network["a"]) as client:
        answer = await client.get("/QUEUE/q", params={"browse": "true", "selector": "odd = 1"})
        lines = [httpx.Response(200, text=each).json() for each in answer.text.splitlines()]
        assert sorted(each["payload"] for each in lines) == ["1", "3", "5", "7"]
        async with event_stream(client, "/QUEUE/q", browse="true", max=1) as stream:
            for _ in range(9):
                await stream.next("message")
            await publish(network, range(9, 10))
            assert (await stream.next("message")).data["payload"] == "9"
        refused = await client.get("/QUEUE/q", params={"browse": "true", "partition": 2})
        assert (refused.status_code, "has no partition 2" in refused.text) == (400, True)


async def test_what_a_consumer_holds_is_shown_as_in_flight(network: Brokers) -> None:
    await publish(network, range(2))
    async with FlowClient(network["b"].flow_port) as consumer, http_client(network["a"]) as client:
        flow_id = await consumer.binds("q", credit=1)
        await consumer.receives_in_all(1, flow_id)
        answer = await client.get("/QUEUE/q", params={"browse": "true"})
        lines = [httpx.Response(200, text=each).json() for each in answer.text.splitlines()]
        assert sorted(each["in_flight"] for each in lines) == [False, True]


async def test_an_operator_browses_a_queue_of_a_neighbor(network: Brokers) -> None:
    await publish(network, range(6))
    operations = NodeOperations(network["a"].node)
    page = await operations.browse_queue("q", limit=4)
    assert [(int(each.payload), each.broker) for each in page] == [(0, "b"), (1, "b"), (2, "b"), (3, "b")]
    assert {each.broker for each in await NodeOperations(network["b"].node).browse_queue("q")} == {""}
    odd = await operations.browse_queue("q", selector="odd = 1")
    assert [int(each.payload) for each in odd] == [1, 3, 5]
    followed = await operations.follow_queue("q")
    assert [int((await anext(followed)).payload) for _ in range(6)] == list(range(6))
    assert (await operations.show_queue("q")).broker == "b"
    await publish(network, range(6, 7))
    assert (await anext(followed)).payload == "6"
    await followed.aclose()  # type: ignore[attr-defined]  # it is a generator
    await shows(network["b"], lambda view: not view.flows)


async def test_a_cut_link_ends_browsers_and_refuses_new_ones(network: Brokers) -> None:
    await publish(network, range(1))
    async with http_client(network["a"]) as client:
        async with event_stream(client, "/QUEUE/q", browse="true") as stream:
            await stream.next("message")
            (await network.proxy("a", "b")).cut()
            reason = (await stream.next("end")).data["reason"]
            assert "the link to its broker b is down" in reason
        await until(lambda: not network["b"].neighbor("a").is_up, "the link is down at b")
        await shows(network["b"], lambda view: not view.flows)
        refused = await client.get("/QUEUE/q", params={"browse": "true"})
        assert (refused.status_code, "the link to its broker b is down" in refused.text) == (503, True)
        with pytest.raises(OperationRefused, match="the link to its broker b is down"):
            await NodeOperations(network["a"].node).browse_queue("q")


async def test_a_deleted_queue_ends_browsers_at_other_brokers(network: Brokers) -> None:
    async with http_client(network["a"]) as client, event_stream(client, "/QUEUE/q", browse="true") as stream:
        await shows(network["b"], lambda view: len(view.flows) == 1)
        await NodeOperations(network["b"].node).delete_queue("q")
        assert (await stream.next("end")).data == {"reason": "the queue was deleted"}
