"""Limits hold for all brokers of a machine together, also over the kill of one."""

import asyncio
from pathlib import Path

import pytest

from sluicegate.messaging.clients.homes import home_of
from support.flow.client import FlowClient, Refused
from support.hostile.message_shapes import MIB, QUOTA_EXCEEDED
from support.http.plain import plain_client
from support.mqtt.raw_client import RawClient
from support.processes.gateway import wait_until
from support.processes.machine import BACK_S, MachineProcess

BROKERS = 2
CONNECTIONS_MAX = 4
ATTEMPTS = 24  # connections that the kernel spreads: with all at one broker once in millions of runs
QUOTA = 4 * MIB
FULL, OVERFULL = 0.95 * QUOTA, 1.05 * QUOTA
QUEUES = 4  # some have their home at each broker
PAYLOAD = bytes(50_000)
FEW = 3
FEW_CONNECTIONS = f"[{{name: default, max_connection_count_per_client_username: {CONNECTIONS_MAX}}}]"

pytestmark = [pytest.mark.crash, pytest.mark.slow]


def test_a_username_has_its_connections_over_all_brokers(tmp_path: Path) -> None:
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
        asyncio.run(scenario(machine))


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


def test_the_quota_of_the_spool_is_filled_from_all_brokers_and_room_at_one_is_room_at_all(tmp_path: Path) -> None:
    settings: dict[str, object] = {"spool.usage_bytes_max": QUOTA}
    with MachineProcess(tmp_path, BROKERS, settings) as machine:
        homes: dict[str, str] = {}  # a queue of each broker
        for number in range(QUEUES):
            machine.create_queue(f"q{number}", subscriptions=[f"t/q{number}"])
            homes.setdefault(str(machine.queue(f"q{number}")["broker"]), f"q{number}")
        assert len(homes) == BROKERS
        drained, other = queues = list(homes.values())
        confirmed: list[int] = []

        asyncio.run(_fill(machine, queues, confirmed))
        wait_until(lambda: _is_full(machine), within_s=BACK_S, what="a full spool")

        machine.kill_broker(machine.broker_pids()[-1])
        asyncio.run(_fill(machine, queues, confirmed))
        wait_until(lambda: _is_full(machine), within_s=BACK_S, what="a full spool")

        confirmed.append(-machine.held_count(drained))
        assert machine.command("queue", "purge", drained, "--yes").returncode == 0
        asyncio.run(_fill(machine, [other], confirmed))
        wait_until(lambda: _is_full(machine), within_s=BACK_S, what="a full spool")


async def _fill(machine: MachineProcess, queues: list[str], confirmed: list[int]) -> None:
    """Publish to queues from a client of each broker until each of these is refused, and the spool is full.

    Each round waits for what is on its way between brokers, which counts at both. A refusal alone is not the end: a
    broker gives back some times a second what it no longer uses.
    """
    names = {home_of(name, BROKERS): name for name in ("p1", "p2", "p3", "p4", "p5", "p6", "p7", "p8")}
    assert len(names) == BROKERS
    clients = [await RawClient.open(machine.mqtt_port, 5) for _ in names]
    for client, name in zip(clients, names.values(), strict=True):
        assert (await client.connect(name)).reason_code == 0
    is_refused = False
    while not (is_refused and sum(confirmed) * len(PAYLOAD) > FULL):
        codes = [await client.publish(f"t/{queue}", PAYLOAD) for client in clients for queue in queues]
        confirmed.append(codes.count(0))
        wait_until(lambda: _held(machine) == sum(confirmed), within_s=BACK_S, what="all that was confirmed")
        is_refused = set(codes) == {QUOTA_EXCEEDED}
    for client in clients:
        await client.vanish()


def _held(machine: MachineProcess) -> int:
    return sum(machine.held_count(f"q{number}") for number in range(QUEUES))


def _is_full(machine: MachineProcess) -> bool:
    held_by_all = machine.metric("sluicegate_broker_spool_quota_bytes")
    return FULL < machine.metric("sluicegate_spool_messages_bytes") < OVERFULL and FULL < held_by_all < OVERFULL


def test_flows_of_http_clients_and_named_publishers_are_counted_over_all_brokers(tmp_path: Path) -> None:
    settings: dict[str, object] = {"http.max_flows_per_client": FEW, "flow.publishers_max": FEW}
    with MachineProcess(tmp_path, BROKERS, settings) as machine:
        machine.create_queue("q", access_type="non-exclusive")
        assert sorted(_flows_over_new_connections(machine)) == [204] * FEW + [503] * (ATTEMPTS - FEW)
        assert asyncio.run(_publishers_admitted(machine)) == FEW


def _flows_over_new_connections(machine: MachineProcess) -> list[int]:
    """Ask for a flow over one connection after the other, which the kernel spreads."""
    codes: list[int] = []
    for _ in range(ATTEMPTS):
        with plain_client(machine.http_url, timeout=BACK_S) as client:
            codes.append(client.get("/QUEUE/q", params={"wait_s": "0"}).status_code)
    return codes


async def _publishers_admitted(machine: MachineProcess) -> int:
    """Open publishers, whose names have homes at all brokers; return how many are admitted."""
    count = 0
    for number in range(ATTEMPTS):
        async with FlowClient(machine.ports["flow"]) as client:
            try:
                await client.opens_publisher(f"p{number}")
            except Refused:
                continue
            count += 1
    return count
