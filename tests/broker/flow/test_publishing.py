"""Publishing over the flow protocol: acknowledgements, windows, refusals, and named publishers that return."""

import pytest

from sluicegate.gateway.operations.node import NodeOperations
from sluicegate.messaging.message.headers import Headers
from sluicegate.messaging.message.keys import key_hash
from sluicegate.protocols.flow.codec import codes
from sluicegate.protocols.flow.codec.frames.flow import OpenPub, PubOpened
from sluicegate.protocols.flow.codec.frames.publish import Refusal
from sluicegate.protocols.flow.codec.frames.session import Error
from support.broker.named_queues import change, create, shown, shows
from support.broker.running_broker import RunningBroker
from support.flow.client import FlowClient, Refused


async def payloads_in(broker: RunningBroker, queue: str = "q") -> list[bytes]:
    """Take everything out of a queue that lies there now."""
    count = (await shown(broker, queue)).ready_count
    async with FlowClient(broker.flow_port, name="reader") as client:
        flow_id = await client.binds(queue)
        got = await client.receives_in_all(count, flow_id)
        client.accepts_through(flow_id, count)
        await client.unbinds(flow_id)
    return [each.payload for each in got]


async def test_a_publisher_is_answered_when_its_messages_are_stored(broker: RunningBroker) -> None:
    """Flow: publishing. One PUB_ACK says how far."""
    await create(broker)
    async with FlowClient(broker.flow_port) as client:
        opened = await client.opens_publisher(window=100)
        assert (opened.stored_through, opened.sequence_max) == (0, 100)
        client.publishes(opened.flow_id, list(range(1, 51)), queue="q")

        assert await client.answered(opened.flow_id, 50) == []
    assert await payloads_in(broker) == [str(number).encode() for number in range(1, 51)]


async def test_topics_lead_to_the_queues_that_subscribe_to_them(broker: RunningBroker) -> None:
    """Flow: publishing. Several topics in one read are one batch."""
    await create(broker, subscriptions=["a/>"])
    await create(broker, "other", subscriptions=["b"])
    async with FlowClient(broker.flow_port) as client:
        opened = await client.opens_publisher()
        client.publishes(opened.flow_id, [1], topic="a/1")
        client.publishes(opened.flow_id, [2], topic="b")
        client.publishes(opened.flow_id, [3], topic="a/3")
        assert await client.answered(opened.flow_id, 3) == []
    assert await payloads_in(broker) == [b"1", b"3"]
    assert await payloads_in(broker, "other") == [b"2"]


async def test_one_refused_message_does_not_stop_the_others(broker: RunningBroker) -> None:
    """Flow: publishing. The refusal names the sequence, the code and the queue that said no."""
    await create(broker, max_msg_size=10)
    async with FlowClient(broker.flow_port) as client:
        opened = await client.opens_publisher()
        client.publishes(opened.flow_id, [1, 2], queue="q")
        client.publishes(opened.flow_id, [3], queue="q", payload=bytes(11))
        client.publishes(opened.flow_id, [4], queue="q")

        (refusal,) = await client.answered(opened.flow_id, 4)
        assert (refusal.first, refusal.last, refusal.code) == (3, 3, codes.MESSAGE_TOO_LARGE)
        assert "(q)" in refusal.text
    assert await payloads_in(broker) == [b"1", b"2", b"4"]


@pytest.mark.parametrize(
    ("topic", "queue", "code"),
    [
        ("", "nobody", codes.QUEUE_NOT_FOUND),
        ("a/+", "", codes.TOPIC_INVALID),
        ("$queue/q", "", codes.TOPIC_INVALID),
        ("$SYS/x", "", codes.TOPIC_INVALID),
        ("", "off", codes.QUEUE_DISABLED),
    ],
)
async def test_an_invalid_publish_is_refused_with_a_code(
    broker: RunningBroker, topic: str, queue: str, code: int
) -> None:
    """Flow: publishing, codes of refusals."""
    await create(broker, "off", ingress_enabled=False, reject_msg_to_sender_on_discard_behavior="always")
    async with FlowClient(broker.flow_port) as client:
        opened = await client.opens_publisher()
        client.publishes(opened.flow_id, [1, 2], topic=topic, queue=queue)

        refusals = await client.answered(opened.flow_id, 2)
        assert [(each.first, each.code) for each in refusals] == [(1, code), (2, code)]


async def test_messages_of_one_key_go_to_one_partition(broker: RunningBroker) -> None:
    """Flow: publishing, partition key."""
    await create(broker, access_type="non-exclusive", partition_count=4)
    async with FlowClient(broker.flow_port) as client:
        opened = await client.opens_publisher()
        for sequence in range(1, 9):
            headers = Headers(partition_key=f"k{sequence % 2}", key_hash=key_hash(f"k{sequence % 2}"))
            client.publishes(opened.flow_id, [sequence], queue="q", headers=headers)
        await client.answered(opened.flow_id, 8)
        flow_id = await client.binds("q")
        received = await client.receives_in_all(8, flow_id)

    for key in ("k0", "k1"):
        of_key = [each for each in received if each.headers is not None and each.headers.partition_key == key]
        assert len({each.partition for each in of_key}) == 1
        assert [int(each.payload) for each in of_key] == sorted(int(each.payload) for each in of_key)


async def test_sending_beyond_the_window_ends_the_flow(broker: RunningBroker) -> None:
    """Flow: publishing, window. The connection goes on."""
    await create(broker)
    async with FlowClient(broker.flow_port) as client:
        opened = await client.opens_publisher(window=5)
        client.publishes(opened.flow_id, [6], queue="q")

        error = await client.heard(Error)
        assert (error.flow_id, error.code) == (opened.flow_id, codes.WINDOW_EXCEEDED)
        await client.opens_publisher()


async def test_sequences_ascend(broker: RunningBroker) -> None:
    """Flow: publishing. Gaps are allowed: they are what a publisher gave up."""
    await create(broker)
    async with FlowClient(broker.flow_port) as client:
        opened = await client.opens_publisher()
        client.publishes(opened.flow_id, [2, 5], queue="q")
        await client.answered(opened.flow_id, 5)
        client.publishes(opened.flow_id, [5], queue="q")

        assert (await client.heard(Error)).code == codes.SEQUENCE_NOT_ASCENDING


async def test_a_publisher_that_returns_stores_nothing_twice(broker: RunningBroker) -> None:
    """Flow: publishing, resumption. What was stored is answered, and goes nowhere."""
    await create(broker)
    async with FlowClient(broker.flow_port) as client:
        opened = await client.opens_publisher("till")
        assert (opened.epoch, opened.stored_through) == (1, 0)
        client.publishes(opened.flow_id, list(range(1, 11)), queue="q")
        await client.answered(opened.flow_id, 10)
    async with FlowClient(broker.flow_port) as client:
        opened = await client.opens_publisher("till")
        assert (opened.epoch, opened.stored_through) == (2, 10)
        client.publishes(opened.flow_id, list(range(11, 16)), queue="q")
        await client.answered(opened.flow_id, 15)
    assert (await shown(broker)).ready_count == 15


async def test_a_publisher_cut_off_before_its_answer_stores_nothing_twice(broker: RunningBroker) -> None:
    """Flow: publishing, resumption. It does not know what arrived, and sends all of it again."""
    await create(broker)
    client = FlowClient(broker.flow_port)
    await client.open()
    opened = await client.opens_publisher("till")
    client.publishes(opened.flow_id, list(range(1, 101)), queue="q")
    await shows(broker, lambda view: view.ready_count > 0)
    client.cut()
    await client.ended()
    async with FlowClient(broker.flow_port) as client:
        opened = await client.opens_publisher("till")
        client.publishes(opened.flow_id, list(range(opened.stored_through + 1, 121)), queue="q")
        await client.answered(opened.flow_id, 120)
    assert await payloads_in(broker) == [str(number).encode() for number in range(1, 121)]


@pytest.mark.parametrize("how", ["restart", "crash"])
async def test_a_publisher_is_known_after_the_gateway_comes_back(broker: RunningBroker, how: str) -> None:
    """Flow: publishing, resumption. What the store has of messages and of their publisher is one commit."""
    await create(broker)
    client = FlowClient(broker.flow_port)
    await client.open()
    opened = await client.opens_publisher("till")
    for sequence in range(1, 21):
        client.publishes(opened.flow_id, [sequence], queue="q")
        await client.answered(opened.flow_id, sequence)
    await client.close()
    await (broker.crash() if how == "crash" else broker.restart())
    async with FlowClient(broker.flow_port) as client:
        opened = await client.opens_publisher("till")
        assert (opened.epoch, opened.stored_highest) == (2, 20)
        client.publishes(opened.flow_id, list(range(opened.stored_through + 1, 31)), queue="q")
        await client.answered(opened.flow_id, 30)
    assert await payloads_in(broker) == [str(number).encode() for number in range(1, 31)]


@pytest.mark.parametrize("queue", ["nobody's", "temporary"])
async def test_answers_to_messages_without_a_durable_queue_survive_a_crash(broker: RunningBroker, queue: str) -> None:
    """Flow: publishing, resumption. One that knew more than the gateway would think it forgotten."""
    await create(broker)
    if queue == "temporary":
        await NodeOperations(broker.node).create_queue({"name": queue, "subscriptions": ["away"]}, durable=False)
    client = FlowClient(broker.flow_port)
    await client.open()
    opened = await client.opens_publisher("till")
    client.publishes(opened.flow_id, [1], queue="q")
    client.publishes(opened.flow_id, [2, 3], topic="away")
    await client.answered(opened.flow_id, 3)
    await client.close()
    await broker.crash()
    async with FlowClient(broker.flow_port) as client:
        opened = await client.opens_publisher("till")
        assert (opened.stored_through, opened.stored_highest) == (3, 3)


async def test_messages_consumed_before_a_crash_are_not_stored_again(broker: RunningBroker) -> None:
    """Flow: publishing, resumption. A message settled at once need not be written; that it came must be."""
    await create(broker)
    consumer = FlowClient(broker.flow_port, name="consumer")
    await consumer.open()
    flow_id = await consumer.binds("q")
    client = FlowClient(broker.flow_port)
    await client.open()
    opened = await client.opens_publisher("till")
    client.publishes(opened.flow_id, [1, 2, 3], queue="q")
    await consumer.receives_in_all(3, flow_id)
    consumer.accepts_through(flow_id, 3)
    await client.answered(opened.flow_id, 3)
    await consumer.close()
    await client.close()
    await broker.crash()
    async with FlowClient(broker.flow_port) as client:
        opened = await client.opens_publisher("till")
        client.publishes(opened.flow_id, list(range(opened.stored_through + 1, 5)), queue="q")
        await client.answered(opened.flow_id, 4)
    assert await payloads_in(broker) == [b"4"]


async def test_a_second_opening_fences_the_first(broker: RunningBroker) -> None:
    """Flow: publishing, epochs. The first one hears of it, and its connection goes on."""
    await create(broker)
    async with FlowClient(broker.flow_port) as first, FlowClient(broker.flow_port) as second:
        old = await first.opens_publisher("till")
        first.publishes(old.flow_id, [1], queue="q")
        await first.answered(old.flow_id, 1)
        new = await second.opens_publisher("till")
        assert (new.epoch, new.stored_through) == (2, 1)
        error = await first.heard(Error)
        assert (error.flow_id, error.code) == (old.flow_id, codes.FENCED)
        first.publishes(old.flow_id, [2], queue="q")  # comes late, and counts for nothing
        second.publishes(new.flow_id, [2, 3], queue="q")
        await second.answered(new.flow_id, 3)
        await first.opens_publisher()
    assert (await shown(broker)).ready_count == 3
    assert broker.node.flow.counters.dropped == {"unknown_flow": 1}


async def test_a_publisher_may_be_opened_again_on_its_own_connection(broker: RunningBroker) -> None:
    """Flow: publishing, epochs."""
    async with FlowClient(broker.flow_port) as client:
        first = await client.opens_publisher("till")
        client.send(OpenPub(2, 2, "till", 0).encode())
        error = await client.heard(Error)
        assert (error.flow_id, error.code) == (first.flow_id, codes.FENCED)
        assert (await client.heard(PubOpened)).epoch == 2


async def test_a_refusal_that_was_not_heard_of_does_not_count_as_stored(broker: RunningBroker) -> None:
    """Flow: publishing, resumption. The publisher that returns sends it again, and is answered anew."""
    await create(broker, max_msg_size=10)
    client = FlowClient(broker.flow_port)
    await client.open()
    opened = await client.opens_publisher("till")
    client.publishes(opened.flow_id, [1], queue="q")
    client.publishes(opened.flow_id, [2], queue="q", payload=bytes(11))
    client.publishes(opened.flow_id, [3], queue="q")
    await client.answered(opened.flow_id, 3)
    client.cut()
    await client.ended()
    await change(broker, max_msg_size=20)
    async with FlowClient(broker.flow_port) as client:
        opened = await client.opens_publisher("till")
        assert (opened.stored_through, opened.stored_highest) == (1, 3)
        client.publishes(opened.flow_id, [2], queue="q", payload=bytes(11))
        client.publishes(opened.flow_id, [3, 4], queue="q")
        assert await client.answered(opened.flow_id, 4) == []
    assert await payloads_in(broker) == [b"1", b"3", bytes(11), b"4"]


@pytest.mark.settings("flow.publishers_max=1")
async def test_the_gateway_remembers_so_many_publishers(broker: RunningBroker) -> None:
    """Flow: publishing, limits."""
    async with FlowClient(broker.flow_port) as client:
        await client.opens_publisher("one")
        with pytest.raises(Refused) as refused:
            await client.opens_publisher("two")
        assert refused.value.error.code == codes.TOO_MANY
        await client.opens_publisher()


async def test_direct_messages_need_no_publisher_and_bring_no_answer(broker: RunningBroker) -> None:
    """Flow: publishing, direct messages. They reach whoever subscribes, and a queue keeps them."""
    await create(broker, subscriptions=["a"])
    subscriber = await broker.connect("subscriber")
    await subscriber.subscribe("a")
    async with FlowClient(broker.flow_port) as client:
        client.publishes(0, [0, 0], topic="a", payload=b"direct")
        client.publishes(0, [0], topic="a/#", payload=b"nowhere")
        assert await subscriber.payloads(2) == [b"direct", b"direct"]
    await shows(broker, lambda view: view.ready_count == 2)
    assert broker.node.flow.counters.dropped == {"invalid_topic": 1}


async def test_a_full_queue_refuses_and_says_so(broker: RunningBroker) -> None:
    """Flow: publishing, codes of refusals."""
    await create(broker, max_msg_spool_usage=1)
    async with FlowClient(broker.flow_port) as client:
        opened = await client.opens_publisher()
        refusals: list[Refusal] = []
        for sequence in range(1, 13):
            client.publishes(opened.flow_id, [sequence], queue="q", payload=bytes(100_000))
            refusals += await client.answered(opened.flow_id, sequence)
        assert {each.code for each in refusals} == {codes.QUEUE_FULL}
        assert refusals[-1].last == 12
