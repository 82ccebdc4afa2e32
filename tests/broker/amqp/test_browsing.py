"""AMQP receivers that browse a queue and take nothing from it: `distribution-mode` copy."""

from sluicegate.protocols.amqp.codec.performatives import SENDER_SETTLED, Attach, Detach
from sluicegate.protocols.amqp.codec.termini import COPY, Source
from support.amqp.client import AmqpClient
from support.broker.inside_client import InsideClient
from support.broker.running_broker import RunningBroker


async def queue(broker: RunningBroker, **attributes: object) -> InsideClient:
    inside = InsideClient(broker, "q")
    await inside.create(**attributes)
    return inside


async def browser(client: AmqpClient, name: str = "l", *, handle: int = 0) -> Attach:
    return await client.receiver(name, Source("q", distribution_mode=COPY), handle=handle)


async def test_a_browser_gets_settled_copies_and_the_queue_keeps_its_messages(broker: RunningBroker) -> None:
    """AMQP 3.5.3, test case 65: ten copies, settled; a second look shows the same; the queue is as it was."""
    inside = await queue(broker)
    payloads = [b"%d" % number for number in range(10)]
    await inside.publish(*payloads)
    client = await AmqpClient.open(broker.amqp_port)
    for handle, name in enumerate(("first", "second")):
        answer = await browser(client, name, handle=handle)
        assert answer.source is not None
        assert answer.source.distribution_mode == COPY
        assert answer.sender_settle_mode == SENDER_SETTLED
        client.flow(handle, 100)
        copies = await client.deliveries(10)
        assert [each.payload for each in copies] == payloads
        assert all(each.settled for each in copies)
    overview = await inside.overview()
    assert (overview.usage_count, overview.partitions[0].in_flight_count) == (10, 0)
    await client.close()


async def test_a_browser_gets_no_more_than_its_credit(broker: RunningBroker) -> None:
    """AMQP 2.6.7: what has been read ahead waits for credit, and credit that was taken back is not used."""
    inside = await queue(broker)
    await inside.publish(*[b"%d" % number for number in range(250)])
    client = await AmqpClient.open(broker.amqp_port)
    await browser(client)
    client.flow(0, 3)
    copies = await client.deliveries(3)
    await client.is_quiet()
    client.flow(0, 200, delivery_count=3)
    client.flow(0, 0, delivery_count=3)
    client.flow(0, 0, delivery_count=3, drain=True)
    more, flow = await client.until_flow(0)
    assert flow.delivery_count == 3 + len(more)
    client.flow(0, 1000, delivery_count=flow.delivery_count)
    copies += more + await client.deliveries(250 - 3 - len(more))
    assert [each.payload for each in copies] == [b"%d" % number for number in range(250)]
    await client.close()


async def test_a_browser_that_drains_hears_of_the_tail_and_goes_on_from_there(broker: RunningBroker) -> None:
    """AMQP 2.6.7, as JMS's QueueBrowser asks: everything, then the rest of the credit; what comes later is shown."""
    inside = await queue(broker, access_type="non-exclusive", partition_count=4)
    keys = [f"k{number}" for number in range(300)]
    await inside.publish(*[key.encode() for key in keys], keys=keys)
    client = await AmqpClient.open(broker.amqp_port)
    await browser(client)
    client.flow(0, 1000, drain=True)
    copies, flow = await client.until_flow(0)
    assert sorted(each.payload for each in copies) == sorted(key.encode() for key in keys)
    assert (flow.delivery_count, flow.link_credit) == (1000, 0)

    await inside.publish(b"later")
    await client.is_quiet()
    client.flow(0, 1, delivery_count=1000, drain=True)
    copies, flow = await client.until_flow(0)
    assert ([each.payload for each in copies], flow.delivery_count) == ([b"later"], 1001)
    client.flow(0, 5, delivery_count=1001, drain=True)
    copies, flow = await client.until_flow(0)
    assert (copies, flow.delivery_count) == ([], 1006)
    await client.close()


async def test_outcomes_for_copies_change_nothing(broker: RunningBroker) -> None:
    """AMQP 2.6.12: what was sent settled is settled."""
    inside = await queue(broker)
    await inside.publish(b"m")
    client = await AmqpClient.open(broker.amqp_port)
    await browser(client)
    client.flow(0, 1)
    (copy,) = await client.deliveries(1)
    client.settle(copy.delivery_id)
    await client.is_quiet()
    assert (await inside.overview()).usage_count == 1
    await client.close()


async def test_a_deleted_queue_ends_its_browsers(broker: RunningBroker) -> None:
    inside = await queue(broker)
    client = await AmqpClient.open(broker.amqp_port)
    await browser(client)
    client.flow(0, 1, drain=True)
    await client.until_flow(0)
    await inside.delete()
    detach = await client.awaited(Detach)
    assert detach.error is not None
    assert (detach.closed, detach.error.condition) == (True, "amqp:resource-deleted")
    await client.close()


async def test_a_detached_browser_is_gone_from_the_queue(broker: RunningBroker) -> None:
    inside = await queue(broker)
    client = await AmqpClient.open(broker.amqp_port)
    await browser(client)
    client.flow(0, 1, drain=True)
    await client.until_flow(0)
    assert len((await inside.overview()).flows) == 1
    client.detach(0)
    await client.awaited(Detach)
    assert (await inside.overview()).flows == []
    await client.close()
