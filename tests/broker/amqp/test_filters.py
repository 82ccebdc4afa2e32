"""AMQP links that see part of a queue: filters, and the partitions that a link was assigned."""

import pytest

from sluicegate.protocols.amqp.codec.performatives import Attach, Detach, Flow
from sluicegate.protocols.amqp.codec.termini import COPY, Source
from sluicegate.protocols.amqp.datapath.consuming import ACTIVE, PARTITIONS
from sluicegate.protocols.amqp.links.filters import NO_LOCAL, PARTITION, SELECTOR, START_SEQUENCE
from sluicegate.protocols.amqp.messages.decode import BODY_DATA, body_bytes_of
from sluicegate.protocols.amqp.types.values import AmqpMap, AmqpValue, Described, Scalar, Symbol, uint, ulong
from support.amqp.client import AmqpClient
from support.broker.inside_client import InsideClient
from support.broker.running_broker import RunningBroker

KEYS = [f"k{number}" for number in range(20)]
SELECTOR_CODE = 0x0000468C00000004


def described(name: str, value: AmqpValue) -> Described:
    return Described(Symbol(name), value)


def filters(**filters: AmqpValue) -> AmqpMap:
    return AmqpMap([(Symbol(key), value) for key, value in filters.items()])


async def queue(broker: RunningBroker, **attributes: object) -> InsideClient:
    inside = InsideClient(broker, "q")
    await inside.create(**attributes)
    return inside


async def browser(client: AmqpClient, wanted: AmqpMap, *, handle: int = 0) -> Attach:
    source = Source("q", distribution_mode=COPY, filters=wanted)
    return await client.receiver(f"l{handle}", source, handle=handle)


async def seen(client: AmqpClient, handle: int = 0) -> list[bytes]:
    client.flow(handle, 1000, drain=True)
    copies, _ = await client.until_flow(handle)
    return [each.payload for each in copies]


async def test_a_browser_sees_what_its_selector_selects(broker: RunningBroker) -> None:
    """Test case 66: recognised by descriptor, symbol or number; what is in force is echoed."""
    inside = await queue(broker)
    await inside.publish(*[key.encode() for key in KEYS], keys=KEYS)
    client = await AmqpClient.open(broker.amqp_port)
    by_symbol = described(SELECTOR, "JMSXGroupID IN ('k3', 'k5')")
    by_number = Described(Scalar(0x80, SELECTOR_CODE), "JMSXGroupID = 'k7'")
    for handle, (value, expected) in enumerate(((by_symbol, [b"k3", b"k5"]), (by_number, [b"k7"]))):
        answer = await browser(client, filters(selector=value), handle=handle)
        assert answer.source is not None
        assert answer.source.filters == filters(selector=value)
        assert await seen(client, handle) == expected
    await client.close()


async def test_a_consumer_gets_what_its_selector_selects_and_leaves_the_rest(broker: RunningBroker) -> None:
    """Test case 66. Draining ends, though what it does not select waits."""
    inside = await queue(broker, access_type="non-exclusive")
    await inside.publish(*[key.encode() for key in KEYS], keys=KEYS)
    client = await AmqpClient.open(broker.amqp_port)
    wanted = filters(s=described(SELECTOR, "JMSXGroupID LIKE 'k_' AND JMSXGroupID <> 'k0'"))

    answer = await client.receiver("some", Source("q", filters=wanted), handle=0, credit=0)

    assert answer.source is not None
    assert answer.source.filters == wanted
    client.flow(0, 100, drain=True)
    deliveries, _ = await client.until_flow(0)
    assert [each.payload for each in deliveries] == [b"k%d" % number for number in range(1, 10)]
    await client.receiver("all", Source("q"), handle=1, credit=100)
    assert len(await client.deliveries(11)) == 11
    await client.close()


async def test_a_selector_that_is_none_is_refused(broker: RunningBroker) -> None:
    """Test case 66: with amqp:invalid-field, and the place of the mistake."""
    await queue(broker)
    client = await AmqpClient.open(broker.amqp_port)
    answer = await browser(client, filters(selector=described(SELECTOR, "a = = 1")))
    assert answer.source is None
    detach = await client.awaited(Detach)
    assert detach.error is not None
    assert detach.error.condition == "amqp:invalid-field"
    assert "character" in detach.error.description
    await client.close()


async def test_filters_that_are_not_applied_are_not_echoed(broker: RunningBroker) -> None:
    """AMQP 3.5.8, test case 30: unknown filters, and known ones where they mean nothing; the link goes on."""
    inside = await queue(broker)
    await inside.publish(b"m")
    client = await AmqpClient.open(broker.amqp_port)
    unknown = described("example:filter", "x")
    answer = await browser(client, filters(a=unknown, b=described(NO_LOCAL, []), c=described(SELECTOR, "TRUE")))
    assert answer.source is not None
    assert answer.source.filters == filters(c=described(SELECTOR, "TRUE"))
    source = Source("q", filters=filters(a=described(PARTITION, uint(0))))
    answer = await client.receiver("consumer", source, handle=1, credit=1)
    assert answer.source is not None
    assert answer.source.filters is None
    assert [each.payload for each in await client.deliveries(1)] == [b"m"]
    await client.close()


async def test_a_browser_sees_one_partition_or_begins_at_a_sequence(broker: RunningBroker) -> None:
    inside = await queue(broker, access_type="non-exclusive", partition_count=2)
    await inside.publish(*[key.encode() for key in KEYS], keys=KEYS)
    overview = await inside.overview()
    counts = [each.waiting_count for each in overview.partitions]
    assert min(counts) > 2
    client = await AmqpClient.open(broker.amqp_port)
    for number in (0, 1):
        await browser(client, filters(p=described(PARTITION, uint(number))), handle=number)
        assert len(await seen(client, number)) == counts[number]
    await browser(client, filters(s=described(START_SEQUENCE, ulong(3))), handle=2)
    assert len(await seen(client, 2)) == sum(counts) - 4
    for handle, wrong in ((3, described(PARTITION, uint(2))), (4, described(PARTITION, "two"))):
        await browser(client, filters(p=wrong), handle=handle)
        detach = await client.awaited(Detach)
        assert detach.error is not None
        assert detach.error.condition == ("amqp:not-found" if handle == 3 else "amqp:invalid-field")
    await client.close()


@pytest.mark.parametrize("containers", [("mine", "other"), ("", "")])
async def test_no_local_keeps_what_its_container_published_from_a_subscription(
    broker: RunningBroker, containers: tuple[str, str]
) -> None:
    """Test case 67; its credit is for the messages of others, and draining gives those that wait.

    A client that names no container is one of its own.
    """
    client = await AmqpClient.open(broker.amqp_port, containers[0])
    source = Source("topic://t", filters=filters(n=described(NO_LOCAL, [])))
    answer = await client.receiver("l", source)
    assert answer.source is not None
    assert answer.source.filters == filters(n=described(NO_LOCAL, []))
    await client.sender("s", "topic://t")
    other = await AmqpClient.open(broker.amqp_port, containers[1])
    await other.sender("s", "topic://t")
    for number in range(6):
        for each in (client, other):
            each.transfer(9, body_bytes_of(BODY_DATA, b"%d of %d" % (number, id(each))))
            await each.confirmed()
    client.flow(0, 6, drain=True)
    copies, flow = await client.until_flow(0)
    assert [each.payload for each in copies] == [b"%d of %d" % (number, id(other)) for number in range(6)]
    assert (flow.delivery_count, flow.link_credit) == (6, 0)
    assert broker.node.amqp.counters.dropped == {"no_local": 6}
    await client.close()
    await other.close()


async def test_a_link_hears_which_partitions_it_has(broker: RunningBroker) -> None:
    """The properties of flows say so, at the beginning and whenever it changes."""
    await queue(broker, access_type="non-exclusive", partition_count=4, partition_rebalance_delay_s=0)
    clients = [await AmqpClient.open(broker.amqp_port, container) for container in ("a", "b")]
    await clients[0].receiver("l", "q")
    assert await told(clients[0]) == (True, [0, 1, 2, 3])
    await clients[1].receiver("l", "q")
    has = []
    for client in clients:
        active, partitions = await told(client)
        while len(partitions) != 2:
            active, partitions = await told(client)
        assert active
        has += partitions
    assert sorted(has) == [0, 1, 2, 3]
    for client in clients:
        await client.close()


async def test_a_link_on_an_exclusive_queue_hears_whether_it_is_the_one(broker: RunningBroker) -> None:
    await queue(broker, access_type="exclusive")
    first = await AmqpClient.open(broker.amqp_port, "a")
    await first.receiver("l", "q")
    assert await told(first) == (True, [])
    second = await AmqpClient.open(broker.amqp_port, "b")
    await second.receiver("l", "q")
    assert await told(second) == (False, [])
    first.vanish()
    assert await told(second) == (True, [])
    await second.close()


async def told(client: AmqpClient) -> tuple[bool, list[int]]:
    """Return the next that a client hears of its link's activity and partitions."""
    while True:
        properties = (await client.awaited(Flow)).properties
        if properties is not None:
            active, partitions = properties.symbol(ACTIVE), properties.symbol(PARTITIONS)
            assert isinstance(active, bool)
            assert partitions is None or isinstance(partitions, list)
            numbers = [each.value for each in partitions or [] if isinstance(each, Scalar)]
            return active, [each for each in numbers if isinstance(each, int)]
