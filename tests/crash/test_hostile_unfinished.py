"""Clients of every protocol that stop in the middle of a large packet: one limit bounds all of them together.

Method: as in test_hostile_shapes.py. Each of many connections sends most of what it may send, and then stops.
"""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from support.hostile.message_shapes import MIB, SLACK, resident_bytes
from support.hostile.unfinished_senders import (
    AmqpSender,
    FlowSender,
    HttpSender,
    MqttSender,
    UnfinishedSender,
    WebSocketSender,
)
from support.mqtt.raw_client import DEADLINE_S
from support.processes.gateway import GatewayProcess, gateway

LIMIT = 32 * MIB
CLIENTS = 60
EACH_BYTES = 4 * MIB
PER_WRITE = 1000
ENDED_MIN = CLIENTS - LIMIT // EACH_BYTES  # there is no room for more of them

pytestmark = [pytest.mark.crash]

PORTS: dict[type[UnfinishedSender], Callable[[GatewayProcess], int]] = {
    MqttSender: lambda node: node.mqtt_port,
    WebSocketSender: lambda node: node.ws_port,
    AmqpSender: lambda node: node.amqp_port,
    FlowSender: lambda node: node.ports["flow"],
    HttpSender: lambda node: node.ports["http"],
}


async def stop_in_the_middle(node: GatewayProcess, kind: type[UnfinishedSender]) -> int:
    """Have many clients begin; return the most memory that the gateway had meanwhile."""
    clients: list[UnfinishedSender] = []
    most = 0
    for _ in range(CLIENTS):
        client = await kind.open(PORTS[kind](node))
        clients.append(client)
        for _ in range(0, EACH_BYTES, MIB):
            await client.sends(MIB)
        most = max(most, resident_bytes(node))
    async with asyncio.timeout(DEADLINE_S):
        while await asyncio.to_thread(node.metric, "sluicegate_unfinished_ended_total") < ENDED_MIN:
            most = max(most, resident_bytes(node))
    for client in clients:
        await client.vanish()
    return max(most, resident_bytes(node))


@pytest.mark.parametrize("kind", PORTS, ids=lambda kind: kind.__name__)
def test_the_bound_on_what_is_unfinished_bounds_memory(tmp_path: Path, kind: type[UnfinishedSender]) -> None:
    with gateway(tmp_path, backpressure__unfinished_bytes_max=LIMIT) as node:
        before = resident_bytes(node)

        most = asyncio.run(stop_in_the_middle(node, kind))

        assert most - before <= 1.5 * LIMIT + SLACK


async def send_short_transfers(node: GatewayProcess, count: int) -> int:
    """Send a delivery in as many transfers of nothing and of two bytes; return the memory that the gateway has then."""
    client = await AmqpSender.open(node.amqp_port)
    for _ in range(count // PER_WRITE):
        await client.sends_short([0, 2] * (PER_WRITE // 2))
    resident = resident_bytes(node)
    await client.vanish()
    return resident


def test_a_delivery_in_transfers_of_two_bytes_takes_no_more_than_its_bytes(tmp_path: Path) -> None:
    """An object for each of them would take thirty times as much; those of nothing would count for nothing."""
    with gateway(tmp_path) as node:
        before = resident_bytes(node)

        after = asyncio.run(send_short_transfers(node, 400_000))

        assert after - before <= SLACK / 4
