"""What is kept for AMQP receivers that are away, when the broker stops in good order (2.6.13)."""

from amqp_client import AmqpClients
from inside_client import InsideClient, until
from protocols.amqp.termini import NEVER, Source
from running_broker import RunningBroker


async def test_what_an_absent_client_held_counts_as_tried_when_the_broker_was_stopped(
    broker: RunningBroker, amqp: AmqpClients
) -> None:
    """As what any client held by then: nobody comes back to what was kept."""
    orders = InsideClient(broker, "orders")
    await orders.create(access_type="non-exclusive")
    await orders.publish(b"a")
    peer = await amqp.connect()
    await peer.receiver("in", Source("orders", expiry_policy=NEVER), handle=1, credit=10)
    assert (await peer.delivery()).delivery_count == 0
    peer.vanish()
    await until(lambda: not broker.node.amqp.open_connections(), "the end of the connection")

    await broker.restart()

    other = await amqp.connect("other")
    await other.receiver("in", "orders", handle=1, credit=10)
    assert (await other.delivery()).delivery_count == 1
