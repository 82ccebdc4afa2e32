"""The list of connected clients on a whole node, whatever they speak."""

from sluicegate.gateway.operations.node import NodeView
from sluicegate.gateway.views.clients import ClientQuestion
from support.amqp.client import AmqpClients
from support.broker.inside_client import until
from support.broker.named_queues import create
from support.broker.running_broker import RunningBroker


async def test_clients_of_all_protocols_are_listed_until_they_go(broker: RunningBroker, amqp: AmqpClients) -> None:
    await create(broker, subscriptions=["t"])
    worker = await broker.connect("worker", level=5)
    assert await worker.subscribe("$queue/q", qos=1) == [1]
    await broker.connect("other")
    await amqp.connect("shop")
    await worker.publish("t", b"held", qos=1)
    await worker.message()
    view = NodeView(broker.node)

    everybody = await view.list_clients(ClientQuestion())

    assert [(each.name, each.protocol) for each in everybody.clients] == [
        ("other", "mqtt"),
        ("shop", "amqp"),
        ("worker", "mqtt"),
    ]
    by_name = {each.name: each for each in everybody.clients}
    assert (by_name["worker"].flows_count, by_name["worker"].unacked_count) == (1, 1)
    assert by_name["worker"].address.startswith("127.0.0.1:")
    assert by_name["other"].flows_count == 0
    page = await view.list_clients(ClientQuestion(client_name="*o*", after=1, limit=1))
    assert (page.total_count, [each.name for each in page.clients]) == (3, ["shop"])
    await worker.vanish()

    async def has_gone() -> bool:
        return (await view.list_clients(ClientQuestion(client_name="worker"))).total_count == 0

    await until(has_gone, "the end of the client")
