"""Credit of AMQP sender links: the gateway grants again what was used, whatever it was used for."""

import pytest

from sluicegate.protocols.amqp.codec.performatives import TRANSFER, Flow
from sluicegate.protocols.amqp.links.coordinator import CONTROL_CREDIT
from sluicegate.protocols.amqp.types.encoding import encode_composite
from sluicegate.protocols.amqp.types.values import AmqpValue, uint
from support.amqp.client import AmqpClient, AmqpClients, body
from support.broker.inside_client import InsideClient
from support.broker.running_broker import RunningBroker

CREDIT = 2
OUT = 9


def abort(client: AmqpClient, delivery_id: int) -> None:
    """Begin a delivery and take it back."""
    fields: list[AmqpValue] = [
        uint(OUT),
        uint(delivery_id),
        b"%d" % delivery_id,
        uint(0),
        False,
        False,
        None,
        None,
        False,
        True,
    ]
    client.send(encode_composite(TRANSFER, fields))


async def granted(client: AmqpClient) -> tuple[int, int]:
    """Return what the broker grants next: from which delivery on, and how many."""
    while (flow := await client.awaited(Flow)).handle != OUT:
        pass
    return flow.delivery_count, flow.link_credit


@pytest.mark.settings(f"amqp.link_credit={CREDIT}")
async def test_credit_that_aborted_deliveries_used_is_granted_again(broker: RunningBroker, amqp: AmqpClients) -> None:
    """AMQP 2.6.7, 2.6.14: an aborted delivery counts, and has no outcome that would bring credit."""
    orders = InsideClient(broker, "orders")
    await orders.create()
    client = await amqp.connect()
    await client.sender("s", "orders", handle=OUT)
    assert await granted(client) == (0, CREDIT)
    for delivery_id in range(CREDIT):
        abort(client, delivery_id)
        assert await granted(client) == (delivery_id + 1, CREDIT)
    assert (await orders.overview()).usage_count == 0


@pytest.mark.settings(f"amqp.link_credit={CREDIT}")
async def test_credit_that_a_sender_gives_up_is_granted_again(broker: RunningBroker, amqp: AmqpClients) -> None:
    """AMQP 2.6.7: a sender advances its delivery-count without sending."""
    client = await amqp.connect()
    await client.sender("s", "topic://t", handle=OUT)
    assert await granted(client) == (0, CREDIT)
    client.flow(OUT, 0, delivery_count=CREDIT)
    assert await granted(client) == (CREDIT, CREDIT)
    assert (await client.outcome(client.transfer(OUT, body("m")))).error is None


async def test_a_coordinator_grants_again_what_aborted_requests_used(broker: RunningBroker, amqp: AmqpClients) -> None:
    """AMQP 2.6.14, as for other links."""
    client = await amqp.connect()
    await client.coordinator(OUT)
    assert await granted(client) == (0, CONTROL_CREDIT)
    for delivery_id in range(CONTROL_CREDIT // 2):
        abort(client, delivery_id)
    assert await granted(client) == (CONTROL_CREDIT // 2, CONTROL_CREDIT)
