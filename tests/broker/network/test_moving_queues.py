"""A queue moves from broker b to another broker of the network, while clients go on."""

import asyncio

import pytest

import support.mqtt.packets as mqtt
from sluicegate.actors.messages.directory import UpdateRefused
from sluicegate.protocols.mqtt.codec.properties import MESSAGE_EXPIRY_INTERVAL, USER_PROPERTY
from support.broker.linked_brokers import Brokers, until
from support.broker.moving_queues import moved, moves
from support.broker.named_queues import create, shows
from support.broker.operator_views import counted, event_texts
from support.broker.remote_queues import consumer, cut, heal, payloads, publish, queue_at_b
from support.flow.client import FlowClient


async def test_a_queue_moves_with_its_messages_in_their_order(network: Brokers) -> None:
    await queue_at_b(network)
    for first in (0, 800, 1_600):
        await publish(network, range(first, first + 800))

    await moved(network)

    await shows(network["a"], lambda view: view.spooled_count == 2_400)
    client = await consumer(network, at="b")
    assert await client.payloads(2_400) == payloads(range(2_400))


async def test_what_is_published_by_name_or_topic_at_any_broker_comes_to_the_new_home(network: Brokers) -> None:
    await create(network["b"], "q", subscriptions=["moving/>"])
    await until(lambda: network["a"].node.default.space.queue_home("q") is not None, "a knows q")
    await until(lambda: "moving/>" in network["a"].wants("b"), "a knows its topic")

    await moved(network)

    for at in ("a", "b"):
        await publish(network, range(3), at=at)
        publisher = await network[at].connect(f"publisher-{at}", 5)
        await publisher.publish("moving/1", b"by topic", qos=1)
    await shows(network["a"], lambda view: view.spooled_count == 8)


@pytest.mark.parametrize("at", ["a", "b"])
async def test_a_consumer_goes_on_at_the_new_home(network: Brokers, at: str) -> None:
    await queue_at_b(network)
    client = await consumer(network, at=at)
    await publish(network, range(10))
    assert await client.payloads(10) == payloads(range(10))

    await moved(network)

    await publish(network, range(10, 20))
    found = set[bytes]()
    while not found >= set(payloads(range(10, 20))):
        found |= set(await client.payloads(1))


async def test_publishers_go_on_during_a_move_and_nothing_is_lost_or_reordered(network: Brokers) -> None:
    await queue_at_b(network)
    counts = {"a": 0, "b": 0}
    ends = asyncio.Event()

    async def publishes(at: str) -> None:
        async with FlowClient(network[at].flow_port) as client:
            opened = await client.opens_publisher()
            sequence = 0
            while not ends.is_set():
                sequence += 1
                client.publishes(opened.flow_id, [sequence], queue="q", payload=b"%s %d" % (at.encode(), sequence))
                assert await client.answered(opened.flow_id, sequence) == []
                counts[at] = sequence

    tasks = [asyncio.ensure_future(publishes(at)) for at in counts]
    await until(lambda: min(counts.values()) > 50, "messages before the move")
    await moved(network)
    before = dict(counts)
    await until(lambda: all(counts[at] > before[at] + 50 for at in counts), "messages after the move")
    ends.set()
    await asyncio.gather(*tasks)

    total = sum(counts.values())
    await shows(network["a"], lambda view: view.spooled_count == total)
    client = await consumer(network, at="a")
    got = await client.payloads(total)
    for at, count in counts.items():
        assert [each for each in got if each.startswith(at.encode())] == [
            b"%s %d" % (at.encode(), number) for number in range(1, count + 1)
        ]


@pytest.mark.parametrize(
    ("queue", "to", "reason"),
    [
        ("q", "b", "is at broker 'b' already"),
        ("q", "nobody", "there is no link to broker 'nobody'"),
        ("#link/a", "a", "only queues of clients move"),
        ("kept", "a", "keeps messages for readers"),
        ("there", "a", "does not take queue 'there'"),
    ],
)
async def test_a_queue_that_cannot_move_is_refused_with_the_reason(
    network: Brokers, queue: str, to: str, reason: str
) -> None:
    await queue_at_b(network)
    await create(network["b"], "kept", retention_size_mb=1)
    await create(network["a"], "there")
    await create(network["b"], "there")
    with pytest.raises(UpdateRefused, match=reason):
        await moves(network, "b").begin(queue, to)
    client = await consumer(network, at="b")
    await publish(network, range(1))
    assert await client.payloads(1) == payloads(range(1))


async def test_a_move_waits_for_a_link_that_is_down_and_goes_on_when_it_is_back(network: Brokers) -> None:
    await queue_at_b(network)
    await publish(network, range(100))
    await cut(network)
    with pytest.raises(UpdateRefused, match="the link to broker 'a' is down"):
        await moves(network, "b").begin("q", "a")
    await heal(network)

    await moved(network)

    await shows(network["a"], lambda view: view.spooled_count == 100)


async def test_events_say_where_a_queue_has_gone_and_the_moment_with_two_homes_is_no_conflict(network: Brokers) -> None:
    await queue_at_b(network)

    await moved(network)

    for broker in network.by_name.values():
        assert await event_texts(broker, "VPN_AD_QENDPT_NAME_CONFLICT") == []
    (gone,) = await event_texts(network["b"], "VPN_AD_QENDPT_DELETE")
    assert gone.endswith("Queue q was moved to broker a")
    begins, ends = await event_texts(network["a"], "VPN_AD_QENDPT_CREATE")
    assert begins.endswith("Queue q is being moved here from broker b")
    assert ends.endswith("Queue q was moved here from broker b")


async def test_properties_and_what_is_left_of_its_life_go_with_a_message(network: Brokers) -> None:
    await queue_at_b(network)
    publisher = await network["b"].connect("publisher", 5)
    expires, said = mqtt.message_expiry(600), mqtt.user_property("colour", "red")
    await publisher.publish("$queue/q", b"m", qos=1, properties=expires + said)
    await publisher.publish("$queue/q", b"direct", qos=0)
    await shows(network["b"], lambda view: view.spooled_count == 2)

    await moved(network)

    first, second = await (await consumer(network, at="a")).messages(2)
    assert (first.payload, second.payload) == (b"m", b"direct")
    assert ("colour", "red") in first.values(USER_PROPERTY)
    [left_s] = first.values(MESSAGE_EXPIRY_INTERVAL)
    assert isinstance(left_s, int)
    assert 0 < left_s <= 600


async def test_moves_are_counted_at_both_brokers(network: Brokers) -> None:
    await queue_at_b(network)
    await publish(network, range(7))

    await moved(network)

    assert await counted(network["b"], "sluicegate_queue_moves_total") == {"sent": 1}
    assert await counted(network["a"], "sluicegate_queue_moves_total") == {"received": 1}
    assert moves(network, "b").handed_over_count == 7
    assert [moves(network, at).holds.count for at in ("a", "b")] == [1, 1]
