"""The names of queues in a network: known everywhere, published to from everywhere, and in conflict if two have one."""

import asyncio

import pytest

from sluicegate.gateway.operations.node import NodeOperations
from sluicegate.gateway.views.errors import QueueNotFound
from sluicegate.gateway.views.queues.queues import NetworkQueueView
from sluicegate.protocols.amqp.codec.delivery_states import ACCEPTED
from sluicegate.protocols.flow.codec import codes
from support.amqp.client import AmqpClient, body
from support.broker.linked_brokers import Brokers, until
from support.broker.named_queues import change, create, shown, shows
from support.broker.operator_views import counted, event_texts, explained
from support.flow.client import FlowClient
from support.http.client import http_client, publish
from support.mqtt.raw_client import RawClient

QUOTA_EXCEEDED = 0x97


async def names(network: Brokers, at: str = "a") -> dict[str, NetworkQueueView]:
    """Return the queues of neighbors that a broker knows."""
    return {view.name: view for view in await NodeOperations(network[at].node).list_network_queues()}


async def known(network: Brokers, name: str = "q", at: str = "a") -> None:
    """Wait until a broker knows a queue of its neighbor."""
    space = network[at].node.default.space
    await until(lambda: space.neighbors is not None and bool(space.neighbors.queues.homes(name)), f"{at} knows {name}")
    await network.are_linked()


async def queue_at_b(network: Brokers, **attributes: object) -> None:
    await create(network["b"], "q", **attributes)
    await known(network)


async def contents(network: Brokers, count: int, at: str = "b") -> list[bytes]:
    """Wait until q has so many messages, and return them."""
    await shows(network[at], lambda view: view.spooled_count >= count)
    reader = await network[at].connect("reader")
    await reader.subscribe(("$queue/q", 1))
    found = await reader.payloads(count)
    await reader.is_quiet()
    return found


async def cut(network: Brokers) -> None:
    (await network.proxy("a", "b")).cut()
    await until(lambda: not network["a"].neighbor("b").is_up, "the link is down")


async def heal(network: Brokers) -> None:
    (await network.proxy("a", "b")).heal()
    await network.are_linked()


async def test_a_durable_queue_is_known_at_the_neighbor_with_its_facts(network: Brokers) -> None:
    await queue_at_b(network, access_type="non-exclusive", partition_count=4, max_msg_size=1000)
    view = (await names(network))["q"]
    assert (view.broker, view.access_type, view.partition_count, view.max_msg_size) == ("b", "non-exclusive", 4, 1000)
    assert view.reachable
    assert not view.full
    assert view.conflict == ()


async def test_a_change_and_the_deletion_of_a_queue_are_told(network: Brokers) -> None:
    await queue_at_b(network)
    await change(network["b"], ingress_enabled=False)
    await until(lambda: not _home(network).ingress_enabled, "the change is known")
    await NodeOperations(network["b"].node).delete_queue("q")
    await until(lambda: not _homes(network), "the deletion is known")
    assert await names(network) == {}


def _homes(network: Brokers, name: str = "q", at: str = "a") -> list[object]:
    neighbors = network[at].node.default.space.neighbors
    assert neighbors is not None
    return list(neighbors.queues.homes(name))


def _home(network: Brokers) -> NetworkQueueView:
    (home,) = _homes(network)
    facts: NetworkQueueView = home.facts  # type: ignore[attr-defined]
    return facts


@pytest.mark.parametrize("name", ["#DEAD_MSG_QUEUE", "$own"])
async def test_a_name_that_begins_with_a_sign_stays(network: Brokers, name: str) -> None:
    await create(network["b"], name)
    await queue_at_b(network)
    assert list(await names(network)) == ["q"]


async def test_temporary_queues_and_those_of_sessions_stay(network: Brokers) -> None:
    session = await network["b"].connect_durable("session")
    await session.subscribe(("t", 1))
    await NodeOperations(network["b"].node).create_queue({"name": "passing"}, durable=False)
    await queue_at_b(network)
    assert list(await names(network)) == ["q"]


async def test_an_export_rule_keeps_a_name_back(brokers: Brokers) -> None:
    await brokers.pair(b=("links.a.export_exclude_queues.0=secret", "links.a.export_include.0=t/>"))
    await brokers.are_linked()
    await create(brokers["b"], "secret")
    await queue_at_b(brokers)
    assert list(await names(brokers)) == ["q"]


async def test_every_protocol_publishes_to_a_queue_of_a_neighbor(network: Brokers) -> None:
    await queue_at_b(network)
    a = network["a"]
    client = await a.connect("publisher", 5)
    assert await client.publish("$queue/q", b"mqtt", qos=1) == 0
    async with FlowClient(a.flow_port) as flow:
        opened = await flow.opens_publisher()
        flow.publishes(opened.flow_id, [1], queue="q", payload=b"flow")
        await flow.answered(opened.flow_id, 1)
    amqp = await AmqpClient.open(a.amqp_port)
    await amqp.sender("sender", "queue://q", handle=9)
    assert (await amqp.outcome(amqp.transfer(9, body("amqp")))).code == ACCEPTED
    await amqp.close()
    async with http_client(a) as http:
        await publish(http, "q", "http")
    assert {b"flow", b"http", b"mqtt"} < set(await contents(network, 4))


async def test_messages_for_a_queue_wait_for_the_link_also_over_a_restart(network: Brokers) -> None:
    await queue_at_b(network)
    await cut(network)
    await network["a"].restart()
    publisher = await network["a"].connect("publisher", 5)
    for number in range(5):
        assert await publisher.publish("$queue/q", b"%d" % number, qos=1) == 0
    await heal(network)
    assert await contents(network, 5) == [b"%d" % number for number in range(5)]


async def test_messages_of_one_batch_for_queues_here_and_there_reach_both(network: Brokers) -> None:
    await queue_at_b(network)
    await create(network["a"], "here")
    async with FlowClient(network["a"].flow_port) as flow:
        opened = await flow.opens_publisher()
        for sequence, name in enumerate(("q", "here", "q"), 1):
            flow.publishes(opened.flow_id, [sequence], queue=name, payload=name.encode())
        assert await flow.answered(opened.flow_id, 3) == []
    assert await contents(network, 2) == [b"q", b"q"]
    assert (await shown(network["a"], "here")).spooled_count == 1


async def _reason(client: RawClient, payload: bytes = b"x") -> int:
    return int(await client.publish("$queue/q", payload, qos=1))


async def test_a_publisher_is_refused_where_the_home_would_refuse_it(network: Brokers) -> None:
    await queue_at_b(network, max_msg_size=10)
    client = await network["a"].connect("publisher", 5)
    assert await _reason(client, bytes(11)) == QUOTA_EXCEEDED
    assert await _reason(client, bytes(10)) == 0
    await change(network["b"], ingress_enabled=False, reject_msg_to_sender_on_discard_behavior="always")
    await until(lambda: not _home(network).ingress_enabled, "the change is known")
    assert await _reason(client) >= 0x80
    found = await counted(network["a"], "sluicegate_link_refused_early_total")
    assert sum(found.values()) == 2
    assert (await shown(network["b"])).spooled_count == 1


async def test_a_full_queue_refuses_at_every_broker_until_there_is_room(network: Brokers) -> None:
    await queue_at_b(network, max_msg_spool_usage=1)
    client = await network["a"].connect("publisher", 5)
    while await _reason(client, bytes(100_000)) == 0:
        await asyncio.sleep(0.01)
    assert await _reason(client) == QUOTA_EXCEEDED
    assert (await names(network))["q"].full
    await NodeOperations(network["b"].node).purge_queue("q")
    await until(lambda: not _home(network).is_full, "there is room")  # type: ignore[attr-defined]
    assert await _reason(client) == 0


async def _fill(client: RawClient) -> None:
    """Publish until the queue is full, and the publisher's broker knows."""
    while await _reason(client, bytes(10_000)) == 0:
        await asyncio.sleep(0.01)
    assert await _reason(client) == QUOTA_EXCEEDED


async def test_a_full_queue_stays_full_when_another_attribute_of_it_changes(network: Brokers) -> None:
    await queue_at_b(network, max_msg_spool_usage=1)
    client = await network["a"].connect("publisher", 5)
    await _fill(client)
    await change(network["b"], max_redelivery_count=3)
    await known(network)
    assert (await names(network))["q"].full
    assert await _reason(client) == QUOTA_EXCEEDED


async def test_a_queue_is_full_again_however_little_room_there_was(network: Brokers) -> None:
    await queue_at_b(network, max_msg_spool_usage=1, event_msg_spool_usage_threshold="98/97%")
    client = await network["a"].connect("publisher", 5)
    await _fill(client)
    reader = await network["b"].connect("reader", 5)
    await reader.subscribe(("$queue/q", 1))
    await reader.messages(4)
    await reader.round_trip()
    await reader.vanish()
    await until(lambda: not _home(network).is_full, "there is room")  # type: ignore[attr-defined]
    for _ in range(6):  # four find room
        await _reason(client, bytes(10_000))
    await until(lambda: bool(_home(network).is_full), "it is full")  # type: ignore[attr-defined]


async def test_while_the_link_is_down_the_link_queue_takes_what_a_full_queue_refused(network: Brokers) -> None:
    """Nobody would tell that there is room again."""
    await queue_at_b(network, max_msg_spool_usage=1)
    client = await network["a"].connect("publisher", 5)
    await _fill(client)
    await cut(network)
    assert await _reason(client) == 0
    await NodeOperations(network["b"].node).purge_queue("q")
    await heal(network)
    await shows(network["b"], lambda view: view.spooled_count == 1)


async def test_a_name_that_nobody_has_is_refused(network: Brokers) -> None:
    await queue_at_b(network)
    client = await network["a"].connect("publisher", 5)
    assert await client.publish("$queue/other", b"x", qos=1) >= 0x80
    async with FlowClient(network["a"].flow_port) as flow:
        opened = await flow.opens_publisher()
        flow.publishes(opened.flow_id, [1], queue="other")
        (refusal,) = await flow.answered(opened.flow_id, 1)
        assert refusal.code == codes.QUEUE_NOT_FOUND


async def test_two_queues_of_one_name_serve_their_own_clients_and_both_brokers_say_so(network: Brokers) -> None:
    await create(network["a"])
    await queue_at_b(network)
    await known(network, at="b")
    client = await network["a"].connect("publisher", 5)
    assert await _reason(client) == 0
    assert (await shown(network["a"])).spooled_count == 1
    assert (await shown(network["b"])).spooled_count == 0
    assert (await names(network))["q"].conflict == ("b",)
    for name, other in (("a", "b"), ("b", "a")):
        (text,) = await event_texts(network[name], "VPN_AD_QENDPT_NAME_CONFLICT")
        assert f"neighbors {other} and this broker" in text
    await NodeOperations(network["a"].node).delete_queue("q")
    await until(lambda: network["a"].node.default.space.queue_home("q") is not None, "the name means b's queue")
    assert len(await event_texts(network["a"], "VPN_AD_QENDPT_NAME_CONFLICT_CLEAR")) == 1
    assert await _reason(client) == 0
    await shows(network["b"], lambda view: view.spooled_count == 1)


async def test_a_third_broker_takes_none_of_two_queues(brokers: Brokers) -> None:
    network = brokers
    ports: dict[str, int] = {}
    for name in "bca":
        links = [f"links.{each}.url={f'flow://127.0.0.1:{ports[each]}' if each in ports else ''}" for each in "abc"]
        await network.add(name, *[each for each in links if not each.startswith(f"links.{name}.")])
        ports[name] = network[name].flow_port
    await network.are_linked("a", "b", "c")
    await create(network["a"])
    await create(network["b"])
    await until(lambda: len(_homes(network, at="c")) == 2, "c knows both")
    client = await network["c"].connect("publisher", 5)
    assert await _reason(client) >= 0x80
    async with http_client(network["c"]) as http:
        answer = await http.post("/QUEUE/q", content=b"x")
    assert "there is no such queue (q); brokers a, b have one each" in answer.text
    (text,) = await event_texts(network["c"], "VPN_AD_QENDPT_NAME_CONFLICT")
    assert "at several brokers: a, b" in text


async def test_operators_learn_where_a_queue_is(network: Brokers) -> None:
    await queue_at_b(network)
    node = NodeOperations(network["a"].node)
    with pytest.raises(QueueNotFound, match="queue 'q' is at broker b: ask there"):
        await node.purge_queue("q")
    (there,) = (await explained(network["a"], "$queue/q", qos=1)).destinations
    assert (there.kind, there.name, there.queue) == ("neighbor", "b", "#link/b")
