"""AMQP consumers beside others: withdrawn credit, slow consumers, and what a lost one had in flight."""

import pytest

from sluicegate.protocols.amqp.codec.delivery_states import MODIFIED, RECEIVED, DeliveryState
from sluicegate.protocols.amqp.codec.performatives import DISPOSITION
from sluicegate.protocols.amqp.codec.sections import NOWHERE, find_sections
from sluicegate.protocols.amqp.codec.termini import Source
from sluicegate.protocols.amqp.types.decoding import decode_list
from sluicegate.protocols.amqp.types.encoding import encode_composite
from sluicegate.protocols.amqp.types.fields import Fields
from sluicegate.protocols.amqp.types.values import AmqpValue, Described, uint, ulong
from support.amqp.client import AmqpClient
from support.amqp.received import Ended, Received
from support.broker.inside_client import InsideClient, until
from support.broker.running_broker import RunningBroker


async def queue(broker: RunningBroker, *payloads: bytes) -> InsideClient:
    inside = InsideClient(broker, "q")
    await inside.create(access_type="non-exclusive")
    if payloads:
        await inside.publish(*payloads)
    return inside


def delivery_count(received: Received) -> int:
    """Return the delivery-count of the header section, 0 when it is not there."""
    at = find_sections(received.message).header_at
    assert at != NOWHERE
    items, _ = decode_list(received.message, at, len(received.message))
    return Fields("header", items).uint(4, "delivery-count", 0)


def payloads(deliveries: list[Received]) -> list[bytes]:
    return [each.payload for each in deliveries]


async def in_flight_becomes(inside: InsideClient, count: int) -> None:
    async def is_so() -> bool:
        return sum(each.in_flight_count for each in (await inside.overview()).partitions) == count

    await until(is_so, f"{count} in flight")


async def test_credit_that_was_taken_back_is_not_used(broker: RunningBroker) -> None:
    """AMQP 2.6.7, test case 38: with the credit at 0 nothing comes, whatever was granted before."""
    inside = await queue(broker, b"0", b"1")
    client = await AmqpClient.open(broker.amqp_port)
    await client.receiver("l", "q", credit=100)
    await client.deliveries(2)
    client.flow(0, 0, delivery_count=2)
    await client.is_quiet()  # then it is known
    await inside.publish(b"2", b"3")
    await client.is_quiet()
    client.flow(0, 1, delivery_count=2)
    assert payloads(await client.deliveries(1)) == [b"2"]
    await client.close()


@pytest.mark.parametrize("settled", [True, False])
async def test_messages_beyond_the_session_window_stay_in_their_queue(broker: RunningBroker, settled: bool) -> None:
    """AMQP 2.5.6: a client that grants credit and no window has nothing gathered for it in memory."""
    inside = await queue(broker)
    client = await AmqpClient.open(broker.amqp_port, window=1)
    await client.receiver("l", "q", settled=settled)
    await client.receiver("other", "q", handle=1, settled=settled)
    for handle in (0, 1):
        client.flow(handle, 1_000_000, window=1)
    await client.round_trip(window=1)
    await inside.publish(b"0")
    await client.deliveries(1)
    for number in range(1, 50):
        await inside.publish(b"%d" % number)
    await client.is_quiet(window=0)
    overview = await inside.overview()
    waiting = overview.usage_count - sum(each.in_flight_count for each in overview.partitions)
    assert waiting == 48, "one came to wait for the window, and was the last"
    got = 1
    while got < 50:
        await client.round_trip(window=2)
        got += len(await client.deliveries(min(2, 50 - got)))
    await client.close()


async def test_a_slow_consumer_delays_no_other(broker: RunningBroker) -> None:
    """Test case 40: what one without credit does not take goes to the other."""
    inside = await queue(broker)
    slow = await AmqpClient.open(broker.amqp_port, "slow")
    await slow.receiver("l", "q", credit=1)
    fast = await AmqpClient.open(broker.amqp_port, "fast")
    await fast.receiver("l", "q", credit=100)
    for client in (slow, fast):
        await client.is_quiet()  # both have their credit
    await inside.publish(*[b"%d" % number for number in range(20)])
    held = await slow.deliveries(1)
    rest = await fast.deliveries(19)
    assert sorted(payloads(held + rest), key=int) == [b"%d" % number for number in range(20)]
    await slow.close()
    await fast.close()


async def test_the_end_of_a_session_gives_back_what_its_links_held_in_order(broker: RunningBroker) -> None:
    """AMQP 2.5.5, test cases 31 and 53: delivered again, counted, and no longer to a first acquirer."""
    sent = [b"%d" % number for number in range(6)]
    inside = await queue(broker, *sent)
    client = await AmqpClient.open(broker.amqp_port)
    await client.receiver("l", "q", handle=0, credit=3)
    await client.deliveries(3)
    await client.receiver("m", "q", handle=1, credit=2)
    await client.deliveries(2)
    client.end_session()
    await client.awaited(Ended)
    await in_flight_becomes(inside, 0)
    await client.close()

    client = await AmqpClient.open(broker.amqp_port)
    await client.receiver("l", "q", credit=10)
    again = await client.deliveries(6)
    assert payloads(again) == sent
    assert [delivery_count(each) for each in again] == [1] * 5 + [0]
    client.vanish()
    await in_flight_becomes(inside, 0)


async def test_ids_that_stand_for_nothing_are_passed_over(broker: RunningBroker) -> None:
    """AMQP 2.6.12, test case 50."""
    inside = await queue(broker, *[b"%d" % number for number in range(5)])
    client = await AmqpClient.open(broker.amqp_port)
    await client.receiver("l", "q", credit=5)
    held = await client.deliveries(5)
    client.settle(held[2].delivery_id)
    client.settle(0, 99)
    await in_flight_becomes(inside, 0)
    assert (await inside.overview()).usage_count == 0
    await client.close()


@pytest.mark.parametrize("state", [None, Described(ulong(RECEIVED), [uint(0), ulong(0)])])
async def test_a_settlement_without_an_outcome_has_the_default_outcome(broker: RunningBroker, state: AmqpValue) -> None:
    """AMQP 3.5.3, test case 52: here modified, with delivery-failed."""
    await queue(broker, b"m")
    failed = DeliveryState(MODIFIED, delivery_failed=True)
    client = await AmqpClient.open(broker.amqp_port)
    await client.receiver("l", Source("q", default_outcome=failed), credit=2)
    (first,) = await client.deliveries(1)
    client.send(encode_composite(DISPOSITION, [True, uint(first.delivery_id), None, True, state]))
    (again,) = await client.deliveries(1)
    assert (delivery_count(first), delivery_count(again)) == (0, 1)
    await client.close()
