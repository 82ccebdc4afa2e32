"""Serve one replica of a broker: event loop, signals, ports for operators, and what is printed."""

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, cast, final

from sluicegate.actors.publishing.event_log import LOG_LEVELS
from sluicegate.gateway.cluster.operations import ReplicaOperations
from sluicegate.gateway.cluster.replica.process import EXIT_CODES, End, ReplicaProcess
from sluicegate.gateway.cluster.several.supervised import is_supervised, watch_supervisor
from sluicegate.gateway.config.model import Config
from sluicegate.gateway.config.reload import diff, in_force
from sluicegate.gateway.node.environment import OperatorPorts
from sluicegate.gateway.node.node import Node
from sluicegate.gateway.observability.metrics.metric import Sample
from sluicegate.gateway.operations.node_views import reload_view
from sluicegate.gateway.process.operator_ports import IMPORTED, make_operations
from sluicegate.gateway.process.run import (
    announce,
    first_commands,
    prepare,
    unusable_listeners,
    warn_of_unusable_listeners,
)
from sluicegate.gateway.process.standalone_ports import StandalonePorts
from sluicegate.gateway.views.cluster import ClusterBrokersView, ClusterView, ReplicationView
from sluicegate.gateway.views.errors import Refused, reading_configuration
from sluicegate.gateway.views.node.runtime import ReloadView
from sluicegate.messaging.observability.events import EventKind
from sluicegate.protocols.transport.listeners import BaseListener
from sluicegate.protocols.transport.loop import event_loop as socket_loop

if TYPE_CHECKING:
    from sluicegate.gateway.operations.interface import NodeInterface
    from sluicegate.gateway.operations.node import NodeOperations


log = logging.getLogger("sluicegate.cluster")


def serve_replica(config: Config, *, reload: Callable[[], Config]) -> int:
    """Run a replica until SIGTERM or SIGINT; return the exit code. Raises CannotStart.

    If it was the owner and is not any more, the process is replaced by a new one, with the same arguments.
    """
    prepare(config, broker=config.node.name if is_supervised() else "")

    async def run() -> End:
        return await _Served(config, reload).run()

    return EXIT_CODES.get(socket_loop.run(run()), 0)


def _begin_anew() -> None:
    """Replace this process by a new one. All its connections close with it."""
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()
    os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])


@final
class NodePorts(OperatorPorts):
    """What takes the place of the ports of a node: its operations, at the ports of the replica."""

    def __init__(self, node: Node, operations: ReplicaOperations) -> None:
        self._node = node
        self._operations = operations

    async def open(self) -> None:
        """Have the ports carry out operations on the node."""
        self._operations.node = make_operations(self._node)

    def end_streams(self) -> None:
        """End the answers that go on for as long as somebody reads: the node stops."""
        if self._operations.node is not None:
            cast("NodeOperations", self._operations.node).followers.end()

    async def stop(self) -> None:
        """Have the ports answer as those of a replica without a node."""
        self._operations.node = None

    def listeners(self) -> list[BaseListener]:
        """Return none: the replica watches the certificates of its ports."""
        return []


@final
class _Served:
    """The replica of this process with its ports."""

    def __init__(self, config: Config, read: Callable[[], Config]) -> None:
        self._config = config
        self._read = read
        self._reloading = asyncio.Lock()
        self._ports = StandalonePorts(config, emit=self._emit)
        self._operations = ReplicaOperations(self)
        self._replica = ReplicaProcess(
            config,
            operator_ports=lambda node: NodePorts(node, self._operations),
            operator_endpoints=self._ports.endpoints,
        )

    async def run(self) -> End:
        """Run until SIGTERM or SIGINT, or until the replica cannot go on. Raises CannotStart."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._replica.stop)
        watch_supervisor(self._replica.stop)
        await self._ports.bind()
        for module in IMPORTED:  # before it takes over: an owner has no time for that
            import_module(module)
        await self._ports.open(cast("NodeInterface", self._operations))
        reloads: set[asyncio.Task[None]] = set()

        def reload() -> None:
            task = loop.create_task(self._reload_on_signal())
            reloads.add(task)
            task.add_done_callback(reloads.discard)

        loop.add_signal_handler(signal.SIGHUP, reload)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGHUP])
        try:
            end = await self._replica.run(ready=self._ready, standing_by=self._standing_by)
            if end is End.LOST and not self._replica.is_told_to_stop:
                _begin_anew()  # here: to end the loop in good order may take seconds, and clients wait for it
            return end
        finally:
            signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGHUP])
            for task in reloads:
                task.cancel()
            await self._ports.stop()

    def _standing_by(self) -> None:
        name, broker = self._config.cluster.replica, self._config.node.name
        announce(f"replica {name} of broker {broker} stands by.", self._ports.endpoints(), [])

    def _ready(self, node: Node) -> None:
        name, broker = self._config.cluster.replica, self._config.node.name
        mqtt = node.mqtt.listeners.get("mqtt")
        commands = first_commands(None if mqtt is None else mqtt.port, self._ports.admin_port)
        announce(f"replica {name} owns broker {broker}, and is ready.", self._replica.endpoints(), commands)
        warn_of_unusable_listeners(unusable_listeners(node, self._config), self._ports.admin_port)
        node.configuration = self._read

    # --- for operators ---

    @property
    def role(self) -> str:
        """What the replica does."""
        return self._replica.role

    def view(self) -> ClusterView:
        """Return the broker and its replicas."""
        return self._replica.view()

    def obstacle(self) -> str:
        """Return why the replica does not do what it is there for; empty if it does."""
        return self._replica.obstacle()

    async def brokers(self) -> ClusterBrokersView:
        """Return all brokers of the cluster. Raises Refused."""
        return await self._replica.membership.brokers()

    async def hand_over(self, successor: str, broker: str) -> None:
        """Have the owner of a broker hand over. Raises Refused."""
        await self._replica.ownership.ask_owner(successor, broker)

    async def add(self, replica: str, before: str) -> None:
        """Add a replica to those of this broker. Raises Refused."""
        await self._replica.membership.add(replica, before)

    async def remove(self, replica: str) -> None:
        """Take a replica from those of this broker. Raises Refused."""
        await self._replica.membership.remove(replica)

    def replication_view(self) -> ReplicationView:
        """Return the two sites of this broker. Raises Refused if it has one."""
        return self._replica.replicating().view()

    async def promote_site(self, *, accept_loss: bool) -> None:
        """Have this site serve. Raises Refused."""
        await self._replica.replicating().promote(accept_loss=accept_loss)

    async def demote_site(self) -> None:
        """Have this site give the broker up to the other one. Raises Refused."""
        await self._replica.replicating().demote()

    async def reload(self) -> ReloadView:
        """Read the configuration, and put it in force here. Raises Refused."""
        async with self._reloading:
            with reading_configuration():
                config = await asyncio.to_thread(self._read)
                self._ports.reload(config)
            node = self._operations.node
            if node is not None:
                return await node.reload()
            changes = diff(self._replica.config, config)
            self._replica.config = in_force(self._replica.config, config)
            return reload_view(changes)

    def samples(self) -> list[Sample]:
        """Return what the replica measures of itself, and of its ports."""
        return [*self._ports.samples(), *self._replica.samples()]

    async def _reload_on_signal(self) -> None:
        try:
            await self.reload()
        except Refused as refusal:
            log.error("the configuration was not taken over: %s", refusal)

    async def _emit(self, kind: EventKind, text: str, details: dict[str, str] | None) -> None:
        node = self._replica.node
        if node is not None:
            node.services.runtime.events.emit(kind, text, details=details)
        else:
            log.log(LOG_LEVELS[kind.level], "%s: %s", kind.name, text)
