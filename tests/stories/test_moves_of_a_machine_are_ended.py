"""Operators of a machine with two brokers end moves of queues, with commands to its one admin port."""

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from support.mqtt.raw_client import RawClient
from support.processes.gateway import GatewayProcess, wait_until
from support.processes.machine import MachineProcess

FIRST, SECOND = "sluicegate", "sluicegate-2"
AWAY: Final = "c"  # a neighbor that never comes: every move waits for it
WITHIN_S: Final = 60
MAY_LINK: Final = {
    "authentication.client_profiles.0.name": "default",
    "authentication.client_profiles.0.allow_bridge_connections_enabled": True,
}

pytestmark = [pytest.mark.slow]


async def publish(port: int, first: int, end: int) -> None:
    client = await RawClient.open(port, 5)
    await client.connect("publisher")
    for number in range(first, end):
        assert await client.publish("q/1", b"%d" % number, qos=1) == 0
    await client.leave()


def does(gateway: GatewayProcess, *command: str) -> str:
    """Run a command that succeeds; return what it prints."""
    done = gateway.command(*command)
    assert done.returncode == 0, done.stderr
    return done.stdout


def moves(gateway: GatewayProcess) -> dict[str, str]:
    """The queues that move, and their states, as the command lists them."""
    return {each["name"]: each["waits_for"] for each in json.loads(does(gateway, "queue", "moves", "--json"))}


def waits_for(gateway: GatewayProcess, text: str) -> None:
    wait_until(lambda: text in moves(gateway).get("q", ""), within_s=WITHIN_S, what=f"a move that waits: {text}")


def test_a_move_between_brokers_of_the_machine_is_cancelled_and_the_queue_serves_as_before(tmp_path: Path) -> None:
    with MachineProcess(tmp_path, 2, {"node.name": FIRST, f"links.{AWAY}.url": ""}) as machine:
        for name, home, to in (("q", FIRST, SECOND), ("r", SECOND, FIRST)):
            machine.create_queue(name, home=home, subscriptions=["q/#"])
            assert f"{name} is being moved to {to}" in does(machine, "queue", "move", name, "--to", to)
        asyncio.run(publish(machine.mqtt_port, 0, 3))
        waits_for(machine, f"the link to broker '{AWAY}' is down")
        assert sorted(moves(machine)) == ["q", "r"]

        for name in "qr":
            assert does(machine, "queue", "move", name, "--cancel") == f"{name} stays\n"

        assert moves(machine) == {}
        refused = machine.command("queue", "move", "q", "--cancel")
        assert (refused.returncode != 0, "is not being moved" in refused.stderr) == (True, True), refused.stderr
        asyncio.run(publish(machine.mqtt_port, 3, 5))
        for name, home in (("q", FIRST), ("r", SECOND)):
            assert machine.queue(name)["broker"] == home
            assert machine.payloads(name) == ["0", "1", "2", "3", "4"]


@contextmanager
def machine_and_neighbor(folder: Path) -> Iterator[tuple[MachineProcess, GatewayProcess]]:
    """A machine with two brokers, each linked to another gateway; both have a neighbor that never comes."""
    for name in ("b", "machine"):
        (folder / name).mkdir()
    links = {f"links.{each}.url": "" for each in (FIRST, SECOND, AWAY)}
    b = GatewayProcess(folder / "b", {"node.name": "b", "brokers": 1, **links, **MAY_LINK})
    with b:
        settings = {"node.name": FIRST, f"links.{AWAY}.url": "", **MAY_LINK}
        with MachineProcess(folder / "machine", 2, settings) as machine:
            does(machine, "link", "create", "b", f"url=flow://127.0.0.1:{b.ports['flow']}")
            yield machine, b


@pytest.mark.parametrize("home", [FIRST, SECOND])
def test_a_move_to_a_broker_that_does_not_come_back_is_ended_without_it(home: str, tmp_path: Path) -> None:
    with machine_and_neighbor(tmp_path) as (machine, b):
        machine.create_queue("q", home=home, subscriptions=["q/#"])
        wait_until(lambda: bool(b.leads_to("q/1")), within_s=WITHIN_S, what="a link")
        asyncio.run(publish(machine.mqtt_port, 0, 3))
        does(machine, "queue", "move", "q", "--to", "b")
        waits_for(machine, f"the link to broker '{AWAY}' is down")

        known = machine.command("queue", "move", "q", "--without", "b", "--yes")
        assert (known.returncode != 0, "broker 'b' is known here" in known.stderr) == (True, True), known.stderr
        b.stop()
        does(machine, "link", "delete", "b")
        does(machine, "link", "forget", "b", "--force")
        ended = does(machine, "queue", "move", "q", "--without", "b", "--yes")

        assert ended == "q is at this broker, with the messages that were here\n"
        assert moves(machine) == {}
        asyncio.run(publish(machine.mqtt_port, 3, 5))
        assert machine.queue("q")["broker"] == home
        assert machine.payloads("q") == ["0", "1", "2", "3", "4"]
