"""Composite and filtered destinations: what is sent to one is forwarded (docs/concepts/virtual-destinations.md).

The numbers VD-nn are those of tests/data/virtual/cases.txt. Queues are sent to by AMQP, for MQTT clients publish on
topics only.
"""

import pytest

from support.amqp.client import AmqpClient, AmqpClients, body
from support.broker.named_queues import create
from support.broker.running_broker import RunningBroker
from support.broker.virtual_clients import consumer, depth, marks, publish, redefine, subscriber

QUEUES = "virtual_destinations.composite_queues="
TOPICS = "virtual_destinations.composite_topics="
TO_FOO_AND_BAR = "forward_to: [{queue: FOO}, {topic: BAR}]"
ODD_OR_FIVE = "forward_to: [{queue: FOO, selector: \"odd = 'yes'\"}, {queue: BAR, selector: \"i = '5'\"}]"
TEST_ONLY = "selector: \"testid LIKE 'test%'\""
TEN = [b"%d" % number for number in range(10)]


async def sender(amqp: AmqpClients, *addresses: str) -> AmqpClient:
    client = await amqp.connect()
    for handle, address in enumerate(addresses):
        await client.sender(f"out-{handle}", address, handle=handle)
    return client


async def send(client: AmqpClient, payload: str, handle: int = 0) -> int:
    """Send a message; return the code of its outcome."""
    return (await client.outcome(client.transfer(handle, body(payload)))).code


ACCEPTED = 0x24


@pytest.mark.settings(f"{QUEUES}[{{name: MY.QUEUE, {TO_FOO_AND_BAR}}}]")
async def test_a_composite_queue_forwards_to_a_queue_and_a_topic(broker: RunningBroker, amqp: AmqpClients) -> None:
    """VD-38: in order; the copy under another topic says where it was sent; its own consumer gets none."""
    own, bar = await consumer(broker, "MY.QUEUE"), await subscriber(broker, "BAR")
    client = await sender(amqp, "MY.QUEUE")
    for number in range(10):
        assert await send(client, str(number)) == ACCEPTED
    got = await bar.messages(10)
    assert {message.topic for message in got} == {"BAR"}
    assert {tuple(marks(message).values()) for message in got} == {("queue://MY.QUEUE",)}
    assert await depth(broker, "FOO") == 10
    await own.is_quiet()
    await client.receiver("in", "FOO", handle=9, credit=100)
    assert [(await client.delivery()).body for _ in range(10)] == [str(number) for number in range(10)]


@pytest.mark.settings(f"{TOPICS}[{{name: MY.TOPIC, {TO_FOO_AND_BAR}}}]")
async def test_a_composite_topic_forwards_likewise(broker: RunningBroker) -> None:
    """VD-39."""
    own, foo, bar = await subscriber(broker, "MY/TOPIC"), await consumer(broker, "FOO"), await subscriber(broker, "BAR")
    await publish(broker, "MY/TOPIC", *TEN)
    assert await foo.payloads(10) == TEN
    got = await bar.messages(10)
    assert [message.payload for message in got] == TEN
    assert marks(got[0]) == {"x-opt-original-destination": "topic://MY/TOPIC"}
    await own.is_quiet()


@pytest.mark.settings(f"{QUEUES}[{{name: MY.QUEUE, forward_only: false, {TO_FOO_AND_BAR}}}]")
async def test_a_wire_tap_leaves_the_messages_to_their_consumers(broker: RunningBroker, amqp: AmqpClients) -> None:
    """VD-40."""
    own, bar = await consumer(broker, "MY.QUEUE"), await subscriber(broker, "BAR")
    client = await sender(amqp, "MY.QUEUE")
    for number in range(10):
        assert await send(client, str(number)) == ACCEPTED
    assert len(await own.payloads(10)) == 10
    assert len(await bar.payloads(10)) == 10
    assert await depth(broker, "FOO") == 10


@pytest.mark.settings(f"{TOPICS}[{{name: T, {ODD_OR_FIVE}}}]")
async def test_filters_select_by_properties(broker: RunningBroker) -> None:
    """VD-41."""
    for number in range(10):
        await publish(broker, "T", b"%d" % number, odd="yes" if number % 2 else "no", i=str(number))
    assert (await depth(broker, "FOO"), await depth(broker, "BAR")) == (5, 1)


@pytest.mark.parametrize("forward_only", [True, False])
async def test_a_message_that_no_target_selects_stays_at_its_address(forward_only: bool, broker: RunningBroker) -> None:
    """VD-42: send_when_not_matched, whatever forward_only says. The definition comes while the broker runs."""
    await redefine(
        broker,
        f"{TOPICS}[{{name: A.B, send_when_not_matched: true, forward_only: {str(forward_only).lower()}, "
        f"forward_to: [{{queue: A.C, {TEST_ONLY}}}]}}]",
    )
    await create(broker, "own", subscriptions=["A.B"])
    await publish(broker, "A.B", b"m", testid="tet13")
    assert (await depth(broker, "own"), await depth(broker, "A.C")) == (1, 0)
    await publish(broker, "A.B", b"m", testid="test13")
    assert (await depth(broker, "own"), await depth(broker, "A.C")) == (1, 1)


@pytest.mark.settings(f"{TOPICS}[{{name: A.X, forward_only: false, forward_to: [{{queue: A.Y, {TEST_ONLY}}}]}}]")
async def test_a_filtered_wire_tap_gets_what_it_selects(broker: RunningBroker) -> None:
    """VD-43."""
    await create(broker, "own", subscriptions=["A.X"])
    for testid in ("test1", "else"):
        await publish(broker, "A.X", b"m", testid=testid)
    assert (await depth(broker, "own"), await depth(broker, "A.Y")) == (2, 1)


@pytest.mark.settings(
    f"{TOPICS}[{{name: A.W, forward_to: [{{queue: A.Y, {TEST_ONLY}}}]}}]",
    "vpn.reject_msg_to_sender_on_no_subscription_match=true",
)
async def test_an_unselected_message_of_a_forward_only_composite_is_dropped_and_counted(broker: RunningBroker) -> None:
    """VD-44: its publisher hears of success, whatever unmatched messages come to."""
    assert await publish(broker, "A.W", b"m", testid="else") == [0]
    assert await depth(broker, "A.Y") == 0
    assert broker.node.default.space.filtered_count == 1


@pytest.mark.settings(
    f"{QUEUES}[{{name: X.Y, forward_to: [{{queue: X.Z}}]}},"
    "{name: R.S, forward_only: false, forward_to: [{queue: R.T}]}]"
)
async def test_forward_only_says_whether_the_queue_itself_gets_it(broker: RunningBroker, amqp: AmqpClients) -> None:
    """VD-45; a queue that a definition names is there from the start."""
    client = await sender(amqp, "X.Y", "R.S")
    for handle in (0, 1):
        assert await send(client, "m", handle) == ACCEPTED
    assert [await depth(broker, name) for name in ("X.Y", "X.Z", "R.S", "R.T")] == [0, 1, 1, 1]


@pytest.mark.settings(
    f"{TOPICS}[{{name: PUB.ALL, set_original_destination: true, forward_to: [{{queue: SUB1}}]}},"
    "{name: PUB.SUB1, set_original_destination: true, forward_to: [{queue: SUB1}]}]"
)
async def test_a_target_of_two_definitions_says_by_which_it_got_a_message(broker: RunningBroker) -> None:
    """VD-46."""
    sub = await consumer(broker, "SUB1")
    await publish(broker, "PUB.ALL", b"all")
    await publish(broker, "PUB.SUB1", b"one")
    origins = [marks(message)["x-opt-original-destination"] for message in await sub.messages(2)]
    assert origins == ["topic://PUB.ALL", "topic://PUB.SUB1"]


@pytest.mark.settings(
    f"{TOPICS}[{{name: T, forward_only: false, concurrent_send: true,"
    "forward_to: [{queue: Q1}, {queue: Q2}, {queue: Q3}, {queue: Q4}]}]"
)
async def test_a_topic_that_is_forwarded_holds_nothing_itself(broker: RunningBroker) -> None:
    """VD-47: 20 messages of 20 KiB in four queues lie in memory once, and nothing of the topic stays."""
    await publish(broker, "T", *[bytes(20 * 1024)] * 20)
    assert [await depth(broker, f"Q{number}") for number in (1, 2, 3, 4)] == [20] * 4
    for number in (1, 2, 3, 4):
        client = await consumer(broker, f"Q{number}")
        await client.messages(20)
        await client.round_trip()
        await client.vanish()
    assert broker.node.services.spool_gate.usage_bytes == 0


@pytest.mark.settings(
    f"{QUEUES}[{{name: X, forward_to: [{{topic: VirtualTopic.O}}, {{queue: Consumer.A.VirtualTopic.O}}]}}]",
    "virtual_destinations.virtual_topics=[{set_original_destination: true}]",
    "virtual_destinations.route_trace=true",
)
async def test_definitions_chain_and_a_queue_gets_a_message_once(broker: RunningBroker, amqp: AmqpClients) -> None:
    """VD-48: by the first way that leads there, which is on the copy."""
    a = await consumer(broker, "Consumer.A.VirtualTopic.O")
    assert await send(await sender(amqp, "X"), "m") == ACCEPTED
    [message] = await a.messages(1)
    assert marks(message) == {
        "x-opt-original-destination": "topic://VirtualTopic.O",
        "x-opt-route-trace": "queue://X > topic://VirtualTopic.O",
    }
    await a.is_quiet()


@pytest.mark.settings(f"{TOPICS}[{{name: 'sensors.>', forward_only: false, forward_to: [{{topic: all/sensors}}]}}]")
async def test_a_pattern_forwards_each_of_its_topics_and_retained_copies_stay(broker: RunningBroker) -> None:
    """Section 8: a retained publish leaves a retained message on the target as well."""
    client = await broker.connect(level=5)
    for number in (1, 2):
        assert await client.publish(f"sensors/{number}", b"%d" % number, retain=True) == 0
    got = await (await subscriber(broker, "all/#")).messages(1)
    assert (got[0].topic, got[0].payload, got[0].retain) == ("all/sensors", b"2", True)
    assert len(await (await subscriber(broker, "sensors/#")).messages(2)) == 2


@pytest.mark.settings(f"{TOPICS}[{{name: T, forward_only: false, forward_to: [{{topic: other}}]}}]")
async def test_a_batch_of_several_topics_keeps_its_order_for_each_subscriber(broker: RunningBroker) -> None:
    both = await subscriber(broker, "T", "U", "other", qos=1)
    await publish(broker, "T", b"1")
    await publish(broker, "U", b"2")
    await publish(broker, "T", b"3")
    got = [(message.topic, message.payload) for message in await both.messages(5)]
    assert [each for each in got if each[0] != "other"] == [("T", b"1"), ("U", b"2"), ("T", b"3")]
    assert [payload for topic, payload in got if topic == "other"] == [b"1", b"3"]
