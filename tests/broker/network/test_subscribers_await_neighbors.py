"""A subscription is answered when the connected neighbors know it: then nothing that is published there is missed."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from support.amqp.client import AmqpClient
from support.broker.linked_brokers import Brokers, LinkProxy, until
from support.broker.named_queues import change, create
from support.flow.client import FlowClient, subscribes

LONG_MS = 60_000


async def paired(brokers: Brokers, wait_ms: int = LONG_MS) -> LinkProxy:
    """Link `a` and `b`; return the way between. `b` waits so long until `a` knows what is subscribed there."""
    dead = "links.{}.dead_time_ms=60000"
    await brokers.pair(a=(dead.format("b"),), b=(dead.format("a"), f"links.a.subscribe_wait_ms={wait_ms}"))
    await brokers.are_linked()
    return await brokers.proxy("a", "b")


async def asked(brokers: Brokers, *answers: Coroutine[Any, Any, object]) -> list["asyncio.Task[object]"]:
    """Begin to ask `b`; return when the link has something to say that the neighbor does not know yet."""
    link = brokers["b"].neighbor("a").vpns[0]
    tasks = [asyncio.ensure_future(each) for each in answers]
    await until(lambda: not link.interests.sender.is_known, "a change of interest")
    return tasks


async def still_waits(brokers: Brokers, *tasks: "asyncio.Task[object]") -> None:
    other = await brokers["b"].connect("other")
    await other.round_trip()
    assert not [each for each in tasks if each.done()]


@pytest.mark.parametrize(
    "kind", ["mqtt", "mqtt-qos-1", "shared", "shared-qos-1", "flow", "amqp", "queue", "topic of a queue"]
)
async def test_the_answer_waits_until_the_neighbor_knows(brokers: Brokers, kind: str) -> None:
    link = await paired(brokers)
    broker = brokers["b"]
    client = await broker.connect("client", 5)
    await create(broker, "old")

    flow = FlowClient(broker.flow_port)
    await flow.open()
    amqp = await AmqpClient.open(broker.amqp_port)
    asks: dict[str, Coroutine[Any, Any, object]] = {
        "mqtt": client.subscribe("t/1", "t/2"),
        "mqtt-qos-1": client.subscribe("t/1", qos=1),
        "shared": client.subscribe("$share/crew/t/1"),
        "shared-qos-1": client.subscribe("$share/crew/t/1", qos=1),
        "flow": subscribes(flow, "t/1"),
        "amqp": amqp.receiver("link", "topic://t/1"),
        "queue": create(broker, "new", subscriptions=["t/1"]),
        "topic of a queue": change(broker, "old", subscriptions=["t/1"]),
    }
    asking = asks.pop(kind)
    for each in asks.values():
        each.close()

    link.freeze_answers()
    [task] = await asked(brokers, asking)
    await still_waits(brokers, task)
    assert "t/1" not in brokers["a"].wants("b")
    link.heal()
    await task

    assert "t/1" in brokers["a"].wants("b")
    assert broker.neighbor("a").vpns[0].interests.waits.timeouts_count == 0
    await flow.close()
    await amqp.close()


async def test_what_is_published_at_a_neighbor_after_the_suback_comes(brokers: Brokers) -> None:
    await paired(brokers)
    publisher = await brokers["a"].connect("publisher")
    subscriber = await brokers["b"].connect("subscriber")
    for number in range(50):
        await subscriber.subscribe(f"t/{number}")
        await publisher.publish(f"t/{number}", b"%d" % number, qos=0)
    assert await subscriber.payloads(50) == [b"%d" % number for number in range(50)]


async def test_a_neighbor_that_takes_too_long_is_waited_for_no_longer(brokers: Brokers) -> None:
    link = await paired(brokers, 50)
    subscriber = await brokers["b"].connect("subscriber")
    link.freeze_answers()
    assert await subscriber.subscribe("t/1") == [0]
    assert await subscriber.subscribe("t/2") == [0]
    assert brokers["b"].neighbor("a").vpns[0].interests.waits.timeouts_count == 2
    link.heal()


async def test_without_a_wait_the_answer_comes_at_once(brokers: Brokers) -> None:
    link = await paired(brokers, 0)
    subscriber = await brokers["b"].connect("subscriber")
    link.freeze_answers()
    assert await subscriber.subscribe("t/1") == [0]
    assert brokers["a"].wants("b") == set()
    link.heal()


async def test_a_topic_that_somebody_wants_already_needs_no_waiting(brokers: Brokers) -> None:
    link = await paired(brokers)
    one, other = [await brokers["b"].connect(name) for name in ("one", "other")]
    await one.subscribe("t/1")
    link.freeze_answers()
    assert await other.subscribe("t/1") == [0]
    [unanswered] = await asked(brokers, one.subscribe("t/2"))
    assert await other.subscribe("t/1", "$SYS/broker/uptime") == [0, 0]  # it is not held up by what others wait for
    await still_waits(brokers, unanswered)
    link.heal()
    await unanswered


async def test_a_neighbor_that_is_away_is_not_waited_for(brokers: Brokers) -> None:
    link = await paired(brokers)
    subscriber = await brokers["b"].connect("subscriber")
    link.cut()
    await until(lambda: not brokers["b"].neighbor("a").is_up)
    assert await subscriber.subscribe("t/1") == [0]
    link.heal()


async def test_a_connection_that_breaks_ends_the_waiting(brokers: Brokers) -> None:
    link = await paired(brokers)
    subscriber = await brokers["b"].connect("subscriber")
    link.freeze_answers()
    [unanswered] = await asked(brokers, subscriber.subscribe("t/1"))
    link.cut()
    assert await unanswered == [0]
    link.heal()
