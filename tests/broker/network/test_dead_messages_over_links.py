"""Dead messages whose dead message queue is at another broker: they get there as they would on one broker."""

import asyncio

import pytest

import support.mqtt.packets as mqtt
from sluicegate.actors.messages.operations import COPY, MOVE
from sluicegate.gateway.operations.node import NodeOperations
from sluicegate.gateway.views.errors import QueueNotFound, Refused
from sluicegate.gateway.views.queues.messages import MessageView, RedriveView, TakenView
from sluicegate.gateway.views.queues.queues import QueueView
from sluicegate.gateway.views.queues.selections import FIELDS_OF_MOVE, FIELDS_OF_REDRIVE, selection_from_dict
from support.broker.linked_brokers import Brokers, LinkedBroker, until
from support.broker.named_queues import change, create, shown, shows
from support.broker.operator_views import event_texts
from support.mqtt.raw_client import RawClient

IMPLEMENTATION_ERROR = 0x83
USER_PROPERTY = 38


async def knows(broker: LinkedBroker, name: str) -> None:
    """Wait until a broker knows where a queue is."""
    space = broker.node.default.space
    await until(lambda: space.queue_home(name) is not None, f"it knows {name}")


async def dead_at_b(network: Brokers, *, respects_ttl: bool = False, **dead: object) -> None:
    """Create the queue `dead` at b, and at a the queue `q` whose dead message queue it is."""
    await create(network["b"], "dead", **dead)
    await knows(network["a"], "dead")
    await create(network["a"], subscriptions=["t"], dead_msg_queue="dead", respect_ttl_enabled=respects_ttl)


async def consumer(broker: LinkedBroker, name: str = "q", client_id: str = "worker") -> RawClient:
    client = await broker.connect(client_id, level=5)
    assert await client.subscribe(f"$queue/{name}", qos=1) == [1]
    return client


async def reject(broker: LinkedBroker, count: int = 1) -> None:
    """Refuse the next messages of q for good."""
    worker = await consumer(broker)
    for _ in range(count):
        worker.send(mqtt.puback((await worker.message()).packet_id, IMPLEMENTATION_ERROR))
    await worker.round_trip()
    await worker.vanish()


async def publish(broker: LinkedBroker, *payloads: bytes, seconds: int = 0) -> None:
    client = await broker.connect("publisher", level=5)
    for payload in payloads:
        properties = mqtt.message_expiry(seconds) if seconds else b""
        assert await client.publish("t", payload, qos=1, properties=properties) == 0
    await client.vanish()


async def holds(broker: LinkedBroker, count: int, name: str = "dead") -> QueueView:
    return await shows(broker, lambda view: view.ready_count + view.unacked_count == count, name)


async def contents(broker: LinkedBroker, name: str = "dead") -> list[MessageView]:
    return list(await NodeOperations(broker.node).browse_queue(name))


async def texts(broker: LinkedBroker, name: str = "dead") -> list[str]:
    return [message.payload or "" for message in await contents(broker, name)]


async def cut(network: Brokers) -> None:
    (await network.proxy("a", "b")).cut()
    await until(lambda: not network["a"].neighbor("b").is_up, "the link is down")


async def heal(network: Brokers) -> None:
    (await network.proxy("a", "b")).heal()
    await network.are_linked()


def user_properties(message: mqtt.Published) -> dict[str, str]:
    return dict([value for value in message.values(USER_PROPERTY) if isinstance(value, tuple)])


async def test_a_dead_message_arrives_with_its_reason_and_in_order(network: Brokers) -> None:
    await dead_at_b(network)
    await publish(network["a"], b"0", b"1", b"2")
    await reject(network["a"], 3)
    await holds(network["b"], 3)
    undertaker = await consumer(network["b"], "dead", "undertaker")
    first = await undertaker.message()
    properties = user_properties(first)
    assert (first.topic, first.payload) == ("t", b"0")
    assert properties["sluicegate-dead-reason"] == "rejected"
    assert (properties["sluicegate-dead-queue"], properties["sluicegate-dead-client"]) == ("q", "worker")
    assert properties["sluicegate-dead-delivery-count"] == "1"
    assert [(await undertaker.message()).payload for _ in range(2)] == [b"1", b"2"]
    view = await shows(network["a"], lambda view: view.discards == {"rejected_to_dmq": 3})
    assert view.spooled_count == 0


async def test_dead_messages_wait_for_a_broker_that_is_away_also_over_restarts(network: Brokers) -> None:
    await dead_at_b(network)
    await publish(network["a"], b"0", b"1", b"2", b"3")
    await cut(network)
    await reject(network["a"], 2)
    await shows(network["a"], lambda view: view.discards == {"rejected_to_dmq": 2})
    await network["a"].restart()
    await reject(network["a"], 2)
    await network["a"].restart()
    assert (await shown(network["a"])).spooled_count == 0
    await heal(network)
    await holds(network["b"], 4)
    assert await texts(network["b"]) == ["0", "1", "2", "3"]
    await network["b"].restart()
    assert len(await contents(network["b"])) == 4


async def test_what_expires_while_the_broker_is_stopped_arrives(network: Brokers) -> None:
    """It is dead when its queue begins, before there is a link."""
    await dead_at_b(network, respects_ttl=True)
    await publish(network["a"], b"late", seconds=60)
    network["a"].clock.forward(61)
    await network["a"].restart()
    await holds(network["b"], 1)
    (message,) = await contents(network["b"])
    assert message.dead is not None
    assert message.dead.reason == "expired"


async def test_the_time_to_live_begins_at_the_dead_message_queue(network: Brokers) -> None:
    """Solace 4.8: TTL restarts. In the queue of the link it does not pass."""
    await dead_at_b(network, respect_ttl_enabled=True)
    await publish(network["a"], b"x", seconds=60)
    await cut(network)
    await reject(network["a"])
    await shows(network["a"], lambda view: view.discards == {"rejected_to_dmq": 1})
    network["a"].clock.forward(3600)
    await heal(network)
    await holds(network["b"], 1)
    message = await (await consumer(network["b"], "dead", "undertaker")).message()
    assert message.values(2) == [60]


async def test_dead_messages_without_a_key_stay_in_order_in_a_partitioned_queue(network: Brokers) -> None:
    await dead_at_b(network, access_type="non-exclusive", partition_count=8)
    payloads = [b"%d" % number for number in range(20)]
    await publish(network["a"], *payloads)
    await reject(network["a"], 20)
    view = await holds(network["b"], 20)
    assert view.partitions[0].ready_count == 20
    assert await texts(network["b"]) == [each.decode() for each in payloads]


async def test_a_message_that_was_published_with_qos_0_is_not_lost_on_the_way(network: Brokers) -> None:
    await dead_at_b(network)
    client = await network["a"].connect("publisher", level=5)
    await client.publish("t", b"direct", qos=0)
    await client.round_trip()
    await cut(network)
    await reject(network["a"])
    await heal(network)
    await holds(network["b"], 1)


async def test_what_the_dead_message_queue_would_refuse_is_deleted_as_on_one_broker(network: Brokers) -> None:
    await dead_at_b(network, max_msg_size=10)
    await publish(network["a"], bytes(11), b"small")
    await reject(network["a"], 2)
    await holds(network["b"], 1)
    await shows(network["a"], lambda view: view.discards == {"rejected_to_dmq": 1, "rejected_to_dmq_failed": 1})
    (text,) = await event_texts(network["a"], "VPN_AD_DEAD_MSG_LOST")
    assert "refuses them" in text


async def test_a_dead_message_queue_of_the_name_is_used_first_at_its_own_broker(network: Brokers) -> None:
    await create(network["b"], "dead")
    await knows(network["a"], "dead")
    await create(network["a"], "dead")
    await create(network["a"], subscriptions=["t"], dead_msg_queue="dead")
    await publish(network["a"], b"x")
    await reject(network["a"])
    await holds(network["a"], 1)
    await holds(network["b"], 0)


async def test_dead_messages_wait_while_two_brokers_have_the_queue(network: Brokers) -> None:
    """None of them is the right one, and no message is lost for that."""
    await network.add("c", f"links.a.url=flow://127.0.0.1:{network['a'].flow_port}", start=False)
    await network["c"].start()
    await NodeOperations(network["a"].node).create_link({"name": "c"})
    await network.are_linked("a", "c")
    await dead_at_b(network)
    await create(network["c"], "dead")
    await until(lambda: bool(network["a"].node.default.space.conflict("dead")), "a knows both")
    await publish(network["a"], b"x")
    await reject(network["a"])
    await shows(network["a"], lambda view: view.spooled_count == 1 and not view.discards)
    await NodeOperations(network["c"].node).delete_queue("dead")
    await holds(network["b"], 1)


async def test_without_a_dead_message_queue_anywhere_it_is_deleted(network: Brokers) -> None:
    await create(network["a"], subscriptions=["t"], dead_msg_queue="dead")
    await publish(network["a"], b"x")
    await reject(network["a"])
    await shows(network["a"], lambda view: view.discards == {"rejected_discarded": 1})
    (text,) = await event_texts(network["a"], "VPN_AD_DEAD_MSG_LOST")
    assert "dead does not exist" in text


async def test_a_dead_message_queue_that_is_made_later_takes_what_dies_then(network: Brokers) -> None:
    await create(network["a"], subscriptions=["t"], dead_msg_queue="dead")
    await publish(network["a"], b"lost", b"kept")
    await reject(network["a"])
    await shows(network["a"], lambda view: view.discards == {"rejected_discarded": 1})
    await create(network["b"], "dead")
    await knows(network["a"], "dead")
    await reject(network["a"])
    await holds(network["b"], 1)
    assert await texts(network["b"]) == ["kept"]


async def test_the_default_dead_message_queue_is_that_of_its_own_broker(network: Brokers) -> None:
    """Brokers of different machines have one each, and need not agree."""
    await create(network["b"], "#DEAD_MSG_QUEUE")
    await create(network["a"], subscriptions=["t"])
    await publish(network["a"], b"x")
    await network.are_linked()
    await reject(network["a"])
    await shows(network["a"], lambda view: view.discards == {"rejected_discarded": 1})
    await holds(network["b"], 0, "#DEAD_MSG_QUEUE")
    with pytest.raises(Refused, match="only brokers of this machine know queue '#DEAD_MSG_QUEUE'"):
        await NodeOperations(network["b"].node).move_queue("#DEAD_MSG_QUEUE", "a")


async def test_a_message_never_goes_to_a_queue_that_it_died_in_before(network: Brokers) -> None:
    """Two queues, each the other's dead message queue, at two brokers."""
    await dead_at_b(network)
    await change(network["b"], "dead", dead_msg_queue="q")
    await until(lambda: network["b"].node.default.space.queue_home("q") is not None, "b knows q")
    await publish(network["a"], b"x")
    await reject(network["a"])
    await holds(network["b"], 1)
    undertaker = await consumer(network["b"], "dead", "undertaker")
    undertaker.send(mqtt.puback((await undertaker.message()).packet_id, IMPLEMENTATION_ERROR))
    await shows(network["b"], lambda view: view.discards == {"rejected_discarded": 1}, "dead")
    assert (await shown(network["a"])).spooled_count == 0


async def test_dead_messages_reach_a_queue_that_gets_another_home(network: Brokers) -> None:
    await dead_at_b(network)
    await publish(network["a"], b"before", b"after")
    await reject(network["a"])
    await holds(network["b"], 1)
    await NodeOperations(network["b"].node).move_queue("dead", "a")
    await until(lambda: network["a"].node.default.space.has_queue("dead"), "it is at a")
    await until(lambda: not network["a"].node.links.moves(network["a"].node.default).holds.by_queue, "nobody waits")
    await reject(network["a"])
    await holds(network["a"], 2)
    assert sorted(await texts(network["a"])) == ["after", "before"]


async def test_the_warning_about_lost_dead_messages_knows_queues_of_neighbors(network: Brokers) -> None:
    await dead_at_b(network)
    assert (await shown(network["a"])).warnings == ()
    await NodeOperations(network["b"].node).delete_queue("dead")
    await until(lambda: network["a"].node.default.space.queue_home("dead") is None, "a knows")
    assert len((await shown(network["a"])).warnings) == 1


async def taken(broker: LinkedBroker, action: str, name: str, **selection: object) -> TakenView:
    return await NodeOperations(broker.node).take_messages(name, action, selection_from_dict(selection, FIELDS_OF_MOVE))


async def redriven(broker: LinkedBroker, **selection: object) -> RedriveView:
    """Re-drive the queue `dead`, and return what it came to."""
    node = NodeOperations(broker.node)
    await node.start_redrive("dead", selection_from_dict(selection, FIELDS_OF_REDRIVE))
    while (view := await node.show_redrive("dead")).state == "running":
        await asyncio.sleep(0.01)
    return view


async def test_dead_messages_return_to_the_queue_where_they_died(network: Brokers) -> None:
    await dead_at_b(network, respects_ttl=True)
    await publish(network["a"], b"0", b"1", seconds=60)
    await reject(network["a"], 2)
    await holds(network["b"], 2)
    await knows(network["b"], "q")
    await cut(network)
    view = await redriven(network["b"])
    assert (view.done_count, view.kept) == (2, {})
    assert (await shown(network["b"], "dead")).spooled_count == 0
    network["b"].clock.forward(3600)
    await heal(network)
    await holds(network["a"], 2, "q")
    worker = await consumer(network["a"])
    messages = [await worker.message() for _ in range(2)]
    assert [each.payload for each in messages] == [b"0", b"1"]
    assert [each.values(2) for each in messages] == [[60], [60]]
    assert user_properties(messages[0]) == {"sluicegate-partition": "0"}, "they are as they were published"


async def test_a_dead_message_stays_that_its_queue_elsewhere_would_refuse(network: Brokers) -> None:
    await dead_at_b(network)
    await publish(network["a"], bytes(100), b"small")
    await reject(network["a"], 2)
    await holds(network["b"], 2)
    await change(network["a"], max_msg_size=10)
    space = network["b"].node.default.space
    await until(lambda: (home := space.queue_home("q")) is not None and home.facts.message_bytes_max == 10, "b knows")
    view = await redriven(network["b"])
    assert (view.done_count, view.kept) == (1, {"max_msg_size_exceeded": 1})
    await holds(network["b"], 1)
    await NodeOperations(network["a"].node).delete_queue("q")
    await until(lambda: space.queue_home("q") is None, "b knows")
    assert (await redriven(network["b"])).kept == {"queue_not_found": 1}


@pytest.mark.parametrize(("action", "left_count"), [(MOVE, 0), (COPY, 2)])
async def test_messages_are_moved_and_copied_to_a_queue_of_a_neighbor(
    network: Brokers, action: str, left_count: int
) -> None:
    await create(network["b"], "dead")
    await knows(network["a"], "dead")
    await create(network["a"], subscriptions=["t"])
    await publish(network["a"], b"0", b"1")
    view = await taken(network["a"], action, "q", to="dead")
    assert (view.done_count, view.kept) == (2, {})
    await holds(network["b"], 2)
    assert await texts(network["b"]) == ["0", "1"]
    assert (await shown(network["a"])).spooled_count == left_count
    with pytest.raises(QueueNotFound):
        await taken(network["a"], action, "q", to="nowhere")
