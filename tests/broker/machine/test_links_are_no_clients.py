"""Brokers of one machine are linked over sockets of their own, which are no connections of clients."""

from sluicegate.gateway.operations.metrics import samples_of
from sluicegate.gateway.operations.node import NodeOperations
from support.broker.machine_brokers import MachineBrokers
from support.flow.client import FlowClient


async def counted(machine: MachineBrokers) -> list[tuple[int, float, float]]:
    """For each broker the flow connections that displays show, those in metrics, and how many were opened."""
    found = []
    for broker in machine.all:
        figures = await NodeOperations(broker.node).node_figures()
        [shown] = [each.connections_count for each in figures.protocols if each.protocol == "flow"]
        values = {each.name: each.value for each in samples_of(broker.node, []) if each.labels[:1] == ("flow",)}
        found.append((shown, values["sluicegate_connections"], values["sluicegate_connections_opened_total"]))
    return found


async def test_links_between_brokers_of_a_machine_count_as_no_clients(machine: MachineBrokers) -> None:
    assert await counted(machine) == [(0, 0, 0), (0, 0, 0)]
    async with FlowClient(machine[1].flow_port):
        assert await counted(machine) == [(1, 1, 1), (0, 0, 0)]
