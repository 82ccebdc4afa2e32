"""Clients that give themselves no name: no two at the brokers of a machine have the same one."""

from contextlib import AsyncExitStack

from sluicegate.gateway.operations.node import NodeOperations
from sluicegate.gateway.views.clients.clients import ClientQuery
from support.amqp.client import AmqpClient
from support.broker.machine_brokers import MachineBrokers, SiblingBroker
from support.flow.client import FlowClient
from support.http.client import create, http_client, publish


async def names(broker: SiblingBroker) -> list[str]:
    view = await NodeOperations(broker.node).list_clients(ClientQuery())
    return [each.name for each in view.clients]


async def test_a_broker_names_clients_after_their_protocol_and_itself(machine: MachineBrokers) -> None:
    """Commands of operators are carried out at every broker that has a client of the name."""
    await create(machine[1], "q")
    async with AsyncExitStack() as stack:
        for broker in machine.all:
            await publish(await stack.enter_async_context(http_client(broker)), "q", "hello")
            await stack.enter_async_context(FlowClient(broker.flow_port, name=""))
            amqp = await AmqpClient.open(broker.amqp_port, "")
            stack.callback(amqp.vanish)
        found = {broker.node.services.config.node.name: await names(broker) for broker in machine.all}
    for broker_name, theirs in found.items():
        assert [each.rpartition("/")[0] for each in theirs] == [
            f"#amqp/{broker_name}",
            f"#flow/{broker_name}",
            f"#http/{broker_name}",
        ]
