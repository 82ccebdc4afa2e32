"""Subscriptions of flow clients to topics: direct messages, groups, Deliver-To-One, selectors."""

import pytest

from sluicegate.messaging.message.headers import Headers
from sluicegate.protocols.flow.codec import codes
from sluicegate.protocols.flow.codec import frame as frames
from sluicegate.protocols.flow.codec.frames.deliver import Delivered
from sluicegate.protocols.flow.codec.frames.flow import Bind, Bound
from support.broker.named_queues import create
from support.broker.running_broker import RunningBroker
from support.flow.client import FlowClient, Refused, subscribes


async def unsubscribes(client: FlowClient, topic_filter: str) -> None:
    await subscribes(client, topic_filter, kind=frames.UNSUBSCRIBE)


def payloads(received: list[Delivered]) -> list[bytes]:
    return [each.payload for each in received]


async def test_direct_messages_come_on_flow_0_to_all_that_subscribe(broker: RunningBroker) -> None:
    """Flow: subscriptions. In either syntax, also one's own; guaranteed ones come as copies."""
    async with FlowClient(broker.flow_port) as smf, FlowClient(broker.flow_port) as mqtt:
        await subscribes(smf, "plant/*/>")
        await subscribes(mqtt, "plant/+/speed/#")
        headers = Headers(content_type="text/plain", user_properties=[("a", 1)])
        smf.publishes(0, [0], topic="plant/7/speed", payload=b"1", headers=headers)
        smf.publishes(0, [0], topic="plant/7", payload=b"nobody's")
        opened = await smf.opens_publisher()
        smf.publishes(opened.flow_id, [1], topic="plant/8/speed", payload=b"2")
        await smf.answered(opened.flow_id, 1)

        for client in (smf, mqtt):
            first, second = await client.receives_in_all(2, 0)
            assert (first.topic, first.payload, first.was_direct) == ("plant/7/speed", b"1", True)
            assert (first.delivery_id, first.message_id, first.epoch) == (0, 0, 0)
            assert first.headers is not None
            assert (first.headers.content_type, first.headers.user_properties) == ("text/plain", [("a", 1)])
            assert (second.payload, second.was_direct) == (b"2", False)


async def test_an_ended_subscription_brings_nothing_any_more(broker: RunningBroker) -> None:
    """Flow: subscriptions. Its end is answered when it is in force, and also if there was none."""
    async with FlowClient(broker.flow_port) as client:
        await subscribes(client, "a/>")
        await subscribes(client, "#share/group/b")
        await subscribes(client, "c")
        await unsubscribes(client, "a/>")
        await unsubscribes(client, "#share/group/b")
        await unsubscribes(client, "never/there")
        for topic in ("a/1", "b", "c"):
            client.publishes(0, [0], topic=topic, payload=topic.encode())
        assert payloads(await client.receives_in_all(1, 0)) == [b"c"]
    async with FlowClient(broker.flow_port) as client:  # and those of a connection end with it
        await subscribes(client, "d")
        client.publishes(0, [0], topic="c", payload=b"c")
        client.publishes(0, [0], topic="d", payload=b"d")
        assert payloads(await client.receives_in_all(1, 0)) == [b"d"]


@pytest.mark.parametrize("prefix", ["#share", "$share"])
async def test_each_message_of_a_group_goes_to_one_member(broker: RunningBroker, prefix: str) -> None:
    """Flow: subscriptions. Members may have the same client name."""
    async with FlowClient(broker.flow_port) as one, FlowClient(broker.flow_port) as two:
        await subscribes(one, f"{prefix}/g/jobs")
        await subscribes(two, f"{prefix}/g/jobs")
        for number in range(10):
            one.publishes(0, [0], topic="jobs", payload=b"%d" % number)
        got = await one.receives_in_all(5, 0) + await two.receives_in_all(5, 0)
        assert sorted(payloads(got)) == [b"%d" % number for number in range(10)]


async def test_a_publisher_that_wants_one_receiver_gets_the_best(broker: RunningBroker) -> None:
    """Flow: subscriptions, deliver-to-one. `DA` gets all; of the others the best priority shares."""
    async with (
        FlowClient(broker.flow_port) as best,
        FlowClient(broker.flow_port) as worst,
        FlowClient(broker.flow_port) as always,
    ):
        await subscribes(worst, "t", "P4")
        await subscribes(best, "t", "P2")
        await subscribes(always, "t", "DA")
        best.publishes(0, [0], topic="t", payload=b"one", headers=Headers(deliver_to_one=True))
        best.publishes(0, [0], topic="t", payload=b"all")

        assert payloads(await best.receives_in_all(2, 0)) == [b"one", b"all"]
        assert payloads(await always.receives_in_all(2, 0)) == [b"one", b"all"]
        assert payloads(await worst.receives_in_all(1, 0)) == [b"all"]


async def test_selectors_choose_among_direct_messages_and_in_queues(broker: RunningBroker) -> None:
    """Flow: subscriptions and BIND, selectors."""
    await create(broker)
    red, blue = (Headers(user_properties=[("colour", colour)]) for colour in ("red", "blue"))
    async with FlowClient(broker.flow_port) as client:
        await subscribes(client, "t", selector="colour = 'red'")
        flow_id, request_id = client.ids()
        client.send(Bind(flow_id, request_id, "q", 0, 100, False, "colour = 'blue'").encode())
        await client.heard(Bound)
        opened = await client.opens_publisher()
        for sequence, headers in enumerate((red, blue), 1):
            client.publishes(0, [0], topic="t", payload=b"%d" % sequence, headers=headers)
            client.publishes(opened.flow_id, [sequence], queue="q", headers=headers)
        assert payloads(await client.receives_in_all(1, 0)) == [b"1"]
        assert payloads(await client.receives_in_all(1, flow_id)) == [b"2"]


@pytest.mark.parametrize(
    ("topic_filter", "priorities", "selector"),
    [
        ("", (), ""),
        ("a/+/#/b", (), ""),
        ("#share/g", (), ""),
        ("a", ("P5",), ""),
        ("a", ("P1", "P2"), ""),
        ("a", (), "colour ="),
        ("#share/g/a", (), "colour = 'red'"),
        ("#share/g/a", ("P1",), ""),
    ],
)
async def test_an_invalid_subscription_is_refused(
    broker: RunningBroker, topic_filter: str, priorities: tuple[str, ...], selector: str
) -> None:
    """Flow: errors. The connection goes on, and the text says what is allowed."""
    async with FlowClient(broker.flow_port) as client:
        with pytest.raises(Refused) as refusal:
            await subscribes(client, topic_filter, *priorities, selector=selector)
        assert refusal.value.error.code == codes.REQUEST_INVALID
        assert refusal.value.error.text
        await subscribes(client, "a")


@pytest.mark.settings("backpressure.connection_buffer_bytes_max=1MiB", "backpressure.slow_subscriber_stall_ms=200")
async def test_a_client_that_reads_nothing_costs_itself(broker: RunningBroker) -> None:
    """Flow: subscriptions. Publishers wait for it for a while; then what it cannot take is dropped and counted."""
    slow = FlowClient(broker.flow_port, receive_buffer_bytes=4096)
    await slow.open()
    await subscribes(slow, "t")
    slow.transport.pause_reading()
    async with FlowClient(broker.flow_port) as other, FlowClient(broker.flow_port) as publisher:
        await subscribes(other, "t")
        for _ in range(5):  # 3 MB each: more, read in one turn, would be too much for who reads, too
            for _ in range(60):
                publisher.publishes(0, [0], topic="t", payload=bytes(50_000))
            await other.receives_in_all(60, 0)
        assert broker.node.flow.counters.dropped["transmit_congestion"] > 0
    slow.cut()
    await slow.ended()


async def test_filters_that_match_alike_are_one_group_in_either_syntax(broker: RunningBroker) -> None:
    """Solace 2.6: `$share/n/f` is `#share/n/f'`: members of both protocols share the messages."""
    device = await broker.connect("a", 5)
    assert await device.subscribe("$share/g/t/+") == [0]
    async with FlowClient(broker.flow_port) as worker:
        await subscribes(worker, "#share/g/t/*")
        publisher = await broker.connect(level=5)
        for number in range(4):
            await publisher.publish("t/1", b"%d" % number, qos=0)
        shares = [payloads(await worker.receives_in_all(2, 0)), await device.payloads(2)]
        assert sorted(payload for its in shares for payload in its) == [b"0", b"1", b"2", b"3"]
        await device.is_quiet()
        assert broker.node.default.space.subscriptions_count == 1
        await device.unsubscribe("$share/g/t/+")
        await publisher.publish("t/1", b"4", qos=0)
        assert payloads(await worker.receives_in_all(1, 0)) == [b"4"]


@pytest.mark.parametrize("share", ["", "$share/g/"])
async def test_a_client_of_mqtt_that_is_called_like_another_subscriber_takes_nothing_from_it(
    broker: RunningBroker, share: str
) -> None:
    """Names of clients are chosen; MQTT's are identifiers, and the others' are not."""
    async with FlowClient(broker.flow_port, name="meter") as client:
        await subscribes(client, share + "t")
        (connection,) = broker.node.flow.open_connections()
        namesake = await broker.connect(f"meter/{connection.cell.name}", level=5)
        assert await namesake.subscribe(share + "t", qos=0) == [0]
        assert await namesake.unsubscribe(share + "t") == [0]
        client.publishes(0, [0], topic="t", payload=b"1")
        assert payloads(await client.receives_in_all(1, 0)) == [b"1"]
