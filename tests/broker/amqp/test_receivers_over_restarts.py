"""What becomes of AMQP receivers that are away when the broker stops in good order (2.6.13)."""

from sluicegate.protocols.amqp.codec.termini import NEVER, Source
from sluicegate.protocols.amqp.types.values import AmqpMap
from support.amqp.client import AmqpClients
from support.broker.inside_client import InsideClient, until
from support.broker.running_broker import RunningBroker


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


async def test_nothing_new_comes_after_a_restart_either_while_the_map_of_the_client_is_incomplete(
    broker: RunningBroker, amqp: AmqpClients
) -> None:
    """2.7.3 incomplete-unsettled: the client would have to end the link. Nothing is known of it by then."""
    orders, source = InsideClient(broker, "orders"), Source("orders", expiry_policy=NEVER)
    await orders.create(access_type="non-exclusive")
    await orders.publish(b"a")
    peer = await amqp.connect()
    await peer.receiver("in", source, handle=1, credit=10)
    held = AmqpMap([((await peer.delivery()).tag, None)])

    await broker.restart()

    peer = await amqp.connect()
    await peer.receiver("in", source, handle=1, credit=10, unsettled=held, incomplete=True)
    await peer.is_quiet()
    await peer.detached(1, closed=False)
    await peer.receiver("in", source, handle=1, credit=10)
    assert (await peer.delivery()).delivery_count == 1
