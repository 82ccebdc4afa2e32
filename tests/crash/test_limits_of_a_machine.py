"""Limits hold for all brokers of a machine together, also over the kill of one."""

from collections.abc import Callable
from pathlib import Path

import pytest

from support.hostile.message_shapes import MIB, QUOTA_EXCEEDED
from support.mqtt.raw_client import RawClient
from support.network.event_loops import RunOnLoop
from support.processes.gateway import wait_until
from support.processes.machine import BACK_S, MachineProcess

BROKERS = 2
CONNECTIONS_MAX = 4
ATTEMPTS = 24  # connections that the kernel spreads: with all at one broker once in millions of runs
QUOTA = 4 * MIB
PAYLOAD = bytes(20_000)
FEW_CONNECTIONS = f"[{{name: default, max_connection_count_per_client_username: {CONNECTIONS_MAX}}}]"

pytestmark = [pytest.mark.crash, pytest.mark.slow]


def test_a_username_has_its_connections_over_all_brokers(tmp_path: Path, run: RunOnLoop) -> None:
    settings: dict[str, object] = {"authentication.client_profiles": FEW_CONNECTIONS}

    async def scenario(machine: MachineProcess) -> None:
        clients = [await RawClient.open(machine.mqtt_port, 5) for _ in range(ATTEMPTS)]
        codes = [(await client.connect(f"c{number}")).reason_code for number, client in enumerate(clients)]
        admitted = [client for client, code in zip(clients, codes, strict=True) if code == 0]
        assert len(admitted) == CONNECTIONS_MAX
        for client in clients:
            await client.vanish()
        machine.kill_broker(machine.broker_pids()[-1])
        assert await _admitted_count(machine, "d") == CONNECTIONS_MAX

    with MachineProcess(tmp_path, BROKERS, settings) as machine:
        run(scenario(machine))


async def _admitted_count(machine: MachineProcess, name: str) -> int:
    """Connect until as many as may be are there, and one more is refused at each broker; return how many are."""
    clients: list[RawClient] = []
    count = 0
    for number in range(ATTEMPTS):
        clients.append(await RawClient.open(machine.mqtt_port, 5))
        count += (await clients[-1].connect(f"{name}{number}")).reason_code == 0
    for client in clients:
        await client.vanish()
    return count


def test_the_quota_of_the_spool_is_filled_from_all_brokers_and_room_at_one_is_room_at_all(
    tmp_path: Path, run: RunOnLoop
) -> None:
    settings: dict[str, object] = {"spool.usage_bytes_max": QUOTA}

    async def fill(machine: MachineProcess, topics: list[str]) -> None:
        """Publish to all topics until each of them is refused."""
        client = await RawClient.open(machine.mqtt_port, 5)
        await client.connect("publisher")
        refused: set[str] = set()
        while len(refused) < len(topics):
            for topic in topics:
                if await client.publish(topic, PAYLOAD) == QUOTA_EXCEEDED:
                    refused.add(topic)
        await client.vanish()

    with MachineProcess(tmp_path, BROKERS, settings) as machine:
        homes: dict[str, str] = {}  # a queue of each broker
        for number in range(16):
            machine.create_queue(f"q{number}", subscriptions=[f"t/{number}"])
            homes.setdefault(str(machine.queue(f"q{number}")["broker"]), f"{number}")
        assert len(homes) == BROKERS
        topics = [f"t/{number}" for number in homes.values()]

        run(fill(machine, topics))
        wait_until(_usage_is(machine, above=0.95 * QUOTA), within_s=BACK_S, what="a full spool")
        assert machine.metric("sluicegate_spool_messages_bytes") <= QUOTA

        machine.kill_broker(machine.broker_pids()[-1])
        assert machine.metric("sluicegate_spool_messages_bytes") > 0.95 * QUOTA
        run(fill(machine, topics))
        assert machine.metric("sluicegate_spool_messages_bytes") <= QUOTA

        drained, other = homes.values()
        machine.command("queues", "purge", f"q{drained}", "--yes")
        wait_until(lambda: machine.held_count(f"q{drained}") == 0, within_s=BACK_S, what="an empty queue")
        run(fill(machine, [f"t/{other}"]))
        wait_until(_usage_is(machine, above=0.95 * QUOTA), within_s=BACK_S, what="a full spool")
        assert machine.metric("sluicegate_spool_messages_bytes") <= QUOTA


def _usage_is(machine: MachineProcess, *, above: float) -> Callable[[], bool]:
    return lambda: machine.metric("sluicegate_spool_messages_bytes") > above
