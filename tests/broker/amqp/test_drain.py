"""AMQP consumers that drain their credit: messages that are ready come first, then the reply."""

import pytest

from sluicegate.protocols.amqp.codec.performatives import Attach, Flow
from sluicegate.protocols.amqp.codec.termini import Source, Target
from support.amqp.client import AmqpClient
from support.broker.inside_client import InsideClient, until
from support.broker.running_broker import RunningBroker

KEYS = [f"k{number}" for number in range(40)]


async def queue(broker: RunningBroker, **attributes: object) -> InsideClient:
    inside = InsideClient(broker, "q")
    await inside.create(**attributes)
    return inside


async def test_an_empty_queue_gives_all_credit_back(broker: RunningBroker) -> None:
    """AMQP 2.6.7, test case 34: the flow has the delivery count advanced by the credit, none left, and drain."""
    await queue(broker)
    client = await AmqpClient.open(broker.amqp_port)
    await client.receiver("l", "q")
    client.flow(0, 10, drain=True)
    before, flow = await client.until_flow(0)
    assert (before, flow.delivery_count, flow.link_credit, flow.drain) == ([], 10, 0, True)
    await client.close()


async def test_drain_delivers_waiting_messages_before_it_returns_the_credit(broker: RunningBroker) -> None:
    """AMQP 2.6.7, test case 35."""
    inside = await queue(broker)
    await inside.publish(b"1", b"2", b"3")
    client = await AmqpClient.open(broker.amqp_port)
    await client.receiver("l", "q")
    client.flow(0, 10, drain=True)
    before, flow = await client.until_flow(0)
    assert [each.payload for each in before] == [b"1", b"2", b"3"]
    assert (flow.delivery_count, flow.link_credit) == (10, 0)

    await inside.publish(b"4")  # no credit: it waits
    await client.is_quiet()
    client.flow(0, 1, delivery_count=10)
    assert [each.payload for each in await client.deliveries(1)] == [b"4"]
    await client.close()


async def test_a_drain_may_follow_the_attach_at_once(broker: RunningBroker) -> None:
    """AMQP 2.4.1, 2.6.7: nobody has to wait for our attach, and what is there still comes first."""
    inside = await queue(broker, access_type="non-exclusive")
    await inside.publish(b"1", b"2")
    client = await AmqpClient.open(broker.amqp_port)
    client.send(Attach("l", handle=0, is_receiver=True, source=Source("q"), target=Target("here")).encode())
    client.flow(0, 10, drain=True)
    before, flow = await client.until_flow(0)
    assert [each.payload for each in before] == [b"1", b"2"]
    assert (flow.delivery_count, flow.link_credit) == (10, 0)
    await client.close()


async def test_a_drain_without_credit_is_answered(broker: RunningBroker) -> None:
    """AMQP 2.6.7: whoever pulls single messages drains after the last of them, when no credit is left."""
    inside = await queue(broker)
    await inside.publish(b"1", b"2")
    client = await AmqpClient.open(broker.amqp_port)
    await client.receiver("l", "q")
    client.flow(0, 1, drain=True)
    before, flow = await client.until_flow(0)
    assert ([each.payload for each in before], flow.delivery_count) == ([b"1"], 1)
    client.flow(0, 0, delivery_count=1, drain=True)
    before, flow = await client.until_flow(0)
    assert (before, flow.delivery_count, flow.link_credit) == ([], 1, 0)
    await client.close()


async def test_every_partition_gives_what_it_has_before_the_answer(broker: RunningBroker) -> None:
    """A partitioned queue: credit goes back when none of the partitions has more for the link."""
    inside = await queue(broker, access_type="non-exclusive", partition_count=4)
    client = await AmqpClient.open(broker.amqp_port)
    await client.receiver("l", "q")
    count = 0
    for _ in range(10):  # each time the messages have just been confirmed, and their partitions may have yet to deliver
        await inside.publish(*[key.encode() for key in KEYS], keys=KEYS)
        client.flow(0, 100, delivery_count=count, drain=True)
        before, flow = await client.until_flow(0)
        count += 100
        assert {each.payload.decode() for each in before} == set(KEYS)
        assert (flow.delivery_count, flow.link_credit) == (count, 0)
        client.settle(before[0].delivery_id, before[-1].delivery_id)
    await client.close()


@pytest.mark.settings("spool.memory_bytes_max=1MiB")
async def test_messages_in_pages_are_read_before_the_answer(broker: RunningBroker) -> None:
    """A backlog in the store is there, if not at hand: draining waits until its pages were read."""
    inside = await queue(broker)
    for _ in range(16):
        await inside.publish(*[bytes(100_000)] * 5)

    async def mostly_paged() -> bool:
        return (await inside.overview()).partitions[0].memory_bytes < 1_500_000

    await until(mostly_paged, "the backlog is in pages")
    client = await AmqpClient.open(broker.amqp_port)
    await client.receiver("l", "q")
    client.flow(0, 1000, drain=True)
    before, flow = await client.until_flow(0)
    assert len(before) == 80
    assert (flow.delivery_count, flow.link_credit) == (1000, 0)
    await client.close()


async def test_credit_without_drain_ends_the_draining(broker: RunningBroker) -> None:
    """AMQP 2.6.7: the last flow of the receiver counts; only what is drained is given back."""
    inside = await queue(broker)
    client = await AmqpClient.open(broker.amqp_port)
    await client.receiver("l", "q")
    client.flow(0, 10, drain=True)
    client.flow(0, 20)
    await client.is_quiet()
    await inside.publish(b"1")
    assert [each.payload for each in await client.deliveries(1)] == [b"1"]
    await client.close()


async def test_a_drain_waits_for_the_window_of_the_session(broker: RunningBroker) -> None:
    """AMQP 2.5.6, test case 28: nothing overtakes deliveries that the session's window holds back."""
    inside = await queue(broker)
    await inside.publish(b"1", b"2", b"3")
    client = await AmqpClient.open(broker.amqp_port, window=1)
    await client.receiver("l", "q")
    client.flow(0, 10, drain=True, window=1)
    (first,) = await client.deliveries(1)
    await client.is_quiet(window=0)
    client.flow(0, 10, drain=True)
    before, flow = await client.until_flow(0)
    assert [each.payload for each in [first, *before]] == [b"1", b"2", b"3"]
    assert (flow.delivery_count, flow.link_credit) == (10, 0)
    await client.close()


async def test_an_echo_shows_the_links_state_and_what_waits(broker: RunningBroker) -> None:
    """AMQP 2.7.4, test cases 36 and 41: a session flow for a session's echo, a link flow for a link's."""
    inside = await queue(broker, access_type="non-exclusive")
    await inside.publish(b"1", b"2", b"3")
    client = await AmqpClient.open(broker.amqp_port)
    await client.receiver("l", "q")
    client.flow(0, 0, echo=True)
    flow = await client.awaited(Flow)
    assert (flow.handle, flow.delivery_count, flow.link_credit, flow.available) == (0, 0, 0, 3)
    assert not flow.echo
    await client.is_quiet()
    client.flow(0, 2)
    await client.deliveries(2)
    client.flow(0, 0, delivery_count=2, echo=True)
    flow = await client.awaited(Flow)
    assert (flow.delivery_count, flow.link_credit, flow.available) == (2, 0, 1)
    await client.close()


async def test_an_echo_that_is_asked_for_with_the_attach_comes_behind_it(broker: RunningBroker) -> None:
    """AMQP 2.7.4: a client that sends both at once waits for a flow, though there is nothing to deliver."""
    await queue(broker, access_type="non-exclusive")
    client = await AmqpClient.open(broker.amqp_port)
    asked = Attach("l", handle=0, is_receiver=True, source=Source("q"), target=Target("here"))
    client.send(asked.encode())
    client.flow(0, 5, echo=True)
    await client.awaited(Attach)
    flow = await client.awaited(Flow)
    assert (flow.handle, flow.delivery_count, flow.link_credit) == (0, 0, 5)
    assert not flow.echo
    await client.is_quiet()
    await client.close()


async def test_credit_is_never_overdrawn_however_often_it_is_granted(broker: RunningBroker) -> None:
    """AMQP 2.6.7, test case 33: the same credit said again is no more credit, though deliveries are on their way."""
    inside = await queue(broker, access_type="non-exclusive", partition_count=4)
    await inside.publish(*[key.encode() for key in KEYS], keys=KEYS)
    client = await AmqpClient.open(broker.amqp_port)
    await client.receiver("l", "q")
    for _ in range(50):
        client.flow(0, 10)
    held = await client.deliveries(10)
    await client.is_quiet()
    assert [each.delivery_id for each in held] == list(range(10))
    overview = await inside.overview()
    assert sum(each.in_flight_count for each in overview.partitions) == 10
    await client.close()
