"""Transactions at one broker that settle what another broker's queue has delivered."""

from sluicegate.protocols.amqp.codec.delivery_states import ACCEPTED, DeliveryState
from support.amqp.client import AmqpClient, body, in_transaction
from support.broker.linked_brokers import Brokers, until
from support.broker.named_queues import create, shows

CONTROL, IN = 9, 1


async def test_a_transaction_that_settles_messages_of_another_broker_says_of_which(network: Brokers) -> None:
    await create(network["b"], "q")
    await until(lambda: network["a"].node.default.space.queue_home("q") is not None, "a knows q")
    publisher = await network["a"].connect("publisher", 5)
    assert await publisher.publish("$queue/q", body(b"x"), qos=1) == 0
    client = await AmqpClient.open(network["a"].amqp_port, "client")
    await client.coordinator(CONTROL)
    await client.receiver("in", "q", handle=IN)
    client.flow(IN, 1)
    (delivery,) = await client.deliveries(1)
    transaction = await client.declare(CONTROL)
    client.settle(delivery.delivery_id, state=in_transaction(transaction, DeliveryState(ACCEPTED)), settled=False)

    outcome = await client.discharge(CONTROL, transaction)

    assert outcome.error is not None
    assert outcome.error.condition == "amqp:transaction:rollback"
    assert "a queue of broker b" in (outcome.error.description or "")
    client.vanish()
    await shows(network["b"], lambda view: view.ready_count == 1)
