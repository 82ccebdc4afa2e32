"""The cost of clients that connect and subscribe at once, with the brokers of a machine in one process.

Run with `python -m bench.cores.node.bench_storm [brokers] [connections] [ready]`. The brokers listen at one port, and
the kernel spreads the clients over them; a client whose home is another broker is passed to it. The clients are those
of `storm-connect`, in a process of their own. It prints microseconds of processor time per connection, of all brokers
together. With `ready` it tells `bench.instructions` when to count.

In one process, brokers share the polls of one loop, so that a machine's second broker costs a little more than this.
"""

import asyncio
import random
import sys
import tempfile
from itertools import combinations
from pathlib import Path
from typing import Final

from bench.cases.storms import Storm
from bench.cores.node.bench_scaling import READY
from bench.cores.node.counted import measured, tell
from sluicegate.actors.runtime.clock import SystemClock
from sluicegate.gateway.config.load import load
from sluicegate.gateway.node.environment import Environment
from sluicegate.gateway.node.node import Node, open_store
from sluicegate.gateway.node.siblings import Siblings
from sluicegate.protocols.transport.loop import event_loop as socket_loop
from sluicegate.protocols.transport.passing.passage import make_pair

LISTENERS: Final = ("mqtt", "mqtt_websocket", "amqp", "flow", "http")
WARM_UP: Final = 200  # connections, which make what is made once
CONNECTIONS: Final = 2_000


def siblings_of(names: tuple[str, ...]) -> list[Siblings]:
    """Return what each broker of a machine knows of the others, with passages between all."""
    found = [Siblings(number, names, len(names)) for number in range(1, len(names) + 1)]
    for one, other in combinations(found, 2):
        here, there = make_pair()
        one.met(other.number, here)
        other.met(one.number, there)
    return found


async def start(folder: Path, name: str, siblings: Siblings | None, port: int = 0) -> Node:
    """Start a broker with MQTT at a port, 0 for any."""
    settings = [
        f"data.path={folder / name}",
        f"node.name={name}",
        "admin.enabled=false",
        *[f"listeners.{listener}.port={port if listener == 'mqtt' else 0}" for listener in LISTENERS],
    ]
    config = load(None, environment={}, settings=settings)
    around = Environment(siblings=siblings)
    node = Node(config, store=open_store(config), clock=SystemClock(), rng=random.Random(1), environment=around)
    await node.start()
    return node


async def start_machine(folder: Path, brokers: int) -> list[Node]:
    """Start the brokers of one machine, which share the port of MQTT."""
    names = tuple(f"machine-{number}" for number in range(1, brokers + 1))
    around: list[Siblings] | list[None] = siblings_of(names) if brokers > 1 else [None]
    nodes: list[Node] = []
    for name, siblings in zip(names, around, strict=True):
        port = nodes[0].mqtt.listeners["mqtt"].port if nodes else 0
        nodes.append(await start(folder, name, siblings, port))
    while not all(each.is_up for node in nodes for each in node.links.links.neighbors.values()):
        await asyncio.sleep(0.01)
    return nodes


async def measure(brokers: int, connections: int, *, told: bool) -> float:
    """Return microseconds of processor time per connection; `told` tells a counting program when to count."""
    with tempfile.TemporaryDirectory() as folder:
        nodes = await start_machine(Path(folder), brokers)
        port = nodes[0].mqtt.listeners["mqtt"].port
        taken_us = await measured(__spec__.name, [str(port), str(connections)], connections, told=told)
        for node in nodes:
            await node.stop()
        return taken_us


def run_clients(port: int, connections: int) -> None:
    """Do the work of the clients' process."""
    address = ("127.0.0.1", port)
    with Storm(address, WARM_UP, lasting=False) as storm:
        storm.connect()
    with Storm(address, connections, lasting=False) as storm:
        tell(READY)
        storm.connect()
        tell("all are in")


def main() -> None:
    """Measure, and print it."""
    given = [int(each) for each in sys.argv[1:] if each != READY]
    brokers, connections = given + [2, CONNECTIONS][len(given) :]
    told = READY in sys.argv[1:]
    socket_loop.run(_run(brokers, connections, told=told))


async def _run(brokers: int, connections: int, *, told: bool) -> None:
    taken_us = await measure(brokers, connections, told=told)
    if not told:
        print(f"{brokers} brokers: {taken_us:.1f} us per connection")


if __name__ == "__main__":
    if sys.argv[1:2] == ["clients"]:
        run_clients(int(sys.argv[2]), int(sys.argv[3]))
    else:
        main()
