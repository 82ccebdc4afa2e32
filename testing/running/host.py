"""A node on the running event loop, for tests: started, stopped, crashed, and started again on the same data.

Its clock can be put forward. The test's side says when (`sluicegate.testing.broker`); `operations` has what it asks.
"""

import asyncio
import random
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from sluicegate.gateway.config.document import ConfigError
from sluicegate.gateway.config.load import load
from sluicegate.gateway.config.model import Config
from sluicegate.gateway.node.environment import MACHINE, Environment
from sluicegate.gateway.node.node import Node, open_store
from sluicegate.gateway.process.operator_ports import AdminPorts
from sluicegate.gateway.process.run import make_node
from sluicegate.gateway.views.errors import AlreadyExists, CannotStart, NotFound, Refused
from sluicegate.messaging.queues.definition import QueueInvalid
from sluicegate.testing.errors import BrokerFailed, OperationRefused
from sluicegate.testing.running.movable_time import MovableClock, MovableTimers
from sluicegate.testing.running.operations import HostOperations
from sluicegate.testing.running.order import StartOrder

SPOOL_S: Final = 20.0  # for the spool to have written what it was given
SETTLE_ROUNDS: Final = 3  # what is due, what the actors make of it, and what comes of that
SMALL: Final = (  # in memory and on disk; and a test does not wait for the disk to have its messages
    "spool.map_bytes_max=256MiB",
    "spool.usage_bytes_max=128MiB",
    "spool.sync=false",
)


class BrokerHost:
    """A node of one configuration, between starts and stops."""

    def __init__(
        self,
        config: Config,
        *,
        clock: MovableClock | None = None,
        environment: Environment = MACHINE,
    ) -> None:
        """`config` and `environment` are those of the next start, as is `rng`."""
        self.config = config
        self.clock = clock or MovableClock()
        self.environment = environment
        self.rng: random.Random | None = None  # None: randomness of the machine
        self._node: Node | None = None
        self._timers: MovableTimers | None = None
        self._operations: HostOperations | None = None

    @property
    def node(self) -> Node:
        """The node. It runs."""
        assert self._node is not None, "the broker is stopped"
        return self._node

    @property
    def is_running(self) -> bool:
        """Whether there is a node."""
        return self._node is not None

    @property
    def operations(self) -> HostOperations:
        """What can be asked of the node."""
        if self._operations is None:
            self._operations = HostOperations(self.node)
        return self._operations

    # --- start and end ---

    def make_node(self) -> Node:
        """Make a node on the data folder, which does not run yet. Raises CannotStart."""
        self._node = make_node(
            self.config,
            open_store(self.config),
            clock=self.clock,
            rng=self.rng,
            environment=replace(self.environment, timers=self._make_timers),
            operator_ports=AdminPorts,
        )
        self._operations = None
        return self._node

    def _make_timers(self) -> Any:  # Callable[[float, Callable[[], object]], TimerHandle]
        self._timers = MovableTimers(self.clock, self.environment.timers())
        return self._timers.call_later

    async def start(self) -> list[tuple[str, str]]:
        """Start; return name and URL of each port. Raises CannotStart."""
        node = self.make_node()
        try:
            await node.start()
        except CannotStart:
            await self.stop()
            raise
        return node.endpoints()

    async def stop(self, *, clients_s: float | None = None) -> None:
        """Stop in good order. Clients have `clients_s` seconds to let go; None: as many as a gateway gives them."""
        node, self._node = self.node, None
        await (node.stop() if clients_s is None else node.stop(clients_s=clients_s))

    async def crash(self) -> None:
        """End with the data of this moment: what happens while the node stops is undone.

        Nobody hears of that: connections and links are cut first, else a peer would be confirmed what is undone.
        """
        await self.spool_is_idle()
        data: Path = self.config.data.path
        kept = data.with_name("at-the-crash")
        shutil.copytree(data, kept)
        self.cut()
        self.node.links.stop()
        await self.stop(clients_s=0)
        shutil.rmtree(data)
        kept.rename(data)

    # --- time and connections ---

    async def forward(self, seconds: float, *, keeps_clients: bool) -> None:
        """Put the clock forward, and do what is due then.

        With `keeps_clients`, clients are taken to have sent what keeps them connected meanwhile.
        """
        self.clock.forward(seconds)
        self.look_at_the_clock(int(seconds * 1000) if keeps_clients else 0)
        assert self._timers is not None, "a node has timers"
        self._timers.follow()
        for _ in range(SETTLE_ROUNDS):
            await self.node.services.runtime.sleep(0)
            await self.spool_is_idle()

    def look_at_the_clock(self, uncounted_ms: int = 0) -> None:
        """Have servers and links check the time limits of connections; so much of the time does not count for them."""
        for server in self.node.servers:
            server.tick(uncounted_ms)
        self.node.links.tick(uncounted_ms)

    def cut(self, client: str | None = None) -> int:
        """Cut the connections of a client, or all, without a word; return how many."""
        count = 0
        for server in self.node.servers:
            for connection in server.open_connections():
                rights = connection.identity.admitted()
                if client is None or (rights is not None and rights.client == client):
                    connection.fail()
                    count += 1
        return count

    async def refuse(self) -> None:
        """Close all ports for clients. Connections stay."""
        for server in self.node.servers:
            for listener in server.listeners.values():
                await listener.stop()

    async def accept(self) -> None:
        """Open the ports for clients again."""
        for server in self.node.servers:
            for listener in server.listeners.values():
                await listener.start()

    async def spool_is_idle(self) -> None:
        """Wait until the store has all that it was given."""
        idle = asyncio.get_running_loop().create_future()
        self.node.services.spool_actor().when_idle(lambda: None if idle.done() else idle.set_result(None))
        await asyncio.wait_for(idle, SPOOL_S)


class HostedBroker:
    """What the test's side calls, by name: the broker of one order. Every method is a coroutine."""

    def __init__(self) -> None:
        self._host: BrokerHost | None = None

    async def call(self, name: str, arguments: tuple[object, ...]) -> object:
        """Carry out a call. Raises BrokerFailed for a broker that cannot start, and OperationRefused."""
        try:
            method = getattr(self, name, None) or getattr(self._running().operations, name)
            return await method(*arguments)
        except CannotStart as error:
            raise BrokerFailed(f"{error.text}. {error.advice}".rstrip(". ")) from None
        except ConfigError as error:
            raise BrokerFailed(f"the configuration is invalid:\n{error}") from None
        except (NotFound, AlreadyExists, QueueInvalid, Refused) as error:
            raise OperationRefused(str(error)) from None

    async def start(self, order: StartOrder) -> Mapping[str, str]:
        """Start a broker; return the URL of each of its ports, by name."""
        self._host = BrokerHost(config_of(order), clock=MovableClock(order.ahead_ms))
        return dict(await self._host.start())

    async def stop(self) -> None:
        """Stop it in good order."""
        await self._running().stop()

    async def drop(self) -> None:
        """End it at once: its data are no longer wanted."""
        self._running().cut()
        await self._running().stop(clients_s=0)

    async def crash(self) -> None:
        """End it with the data of this moment."""
        await self._running().crash()

    async def forward(self, seconds: float, keeps_clients: bool) -> None:
        """Put its clock forward."""
        await self._running().forward(seconds, keeps_clients=keeps_clients)

    async def cut(self, client: str | None) -> int:
        """Cut connections."""
        return self._running().cut(client)

    async def refuse(self) -> None:
        """Refuse connections."""
        await self._running().refuse()

    async def accept(self) -> None:
        """Accept connections again."""
        await self._running().accept()

    def _running(self) -> BrokerHost:
        assert self._host is not None, "`start` comes first"
        return self._host


def config_of(order: StartOrder) -> Config:
    """Return the configuration of a broker under test. Raises ConfigError."""
    return load(order.config_file, settings=(*SMALL, *order.settings))
