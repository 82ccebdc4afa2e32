"""One machine with a replica: its process in one life after another, and its disk."""

import shutil
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from simulation.judge.targets import Violation
from simulation.network.wires.joined_loops import JoinedLoops
from simulation.replicas.process.batons import VirtualLoopThread
from simulation.replicas.process.loops import Clocks, MachineLoop, running
from simulation.replicas.servers.connection import Connection
from sluicegate.gateway.cluster.membership.members import STARTING
from sluicegate.gateway.cluster.replica.process import End, ReplicaProcess
from sluicegate.gateway.config.model import Config
from sluicegate.gateway.node.environment import OperatorPorts
from sluicegate.gateway.node.node import Node
from sluicegate.gateway.views.errors import CannotStart, Refused
from sluicegate.storage.store.store import SpoolStore

AGAIN_S: Final = 0.05  # for Python to begin anew


class Machine:
    """One of the machines."""

    def __init__(
        self,
        config: Config,
        joined: JoinedLoops,
        failed: Callable[[Violation], None],
        *,
        lost: "Callable[[Machine, ReplicaProcess], None]",
        log_begins: Callable[[], int],
    ) -> None:
        """`failed` is called when the replica has ended in a way in which none may, `lost` when it begins anew."""
        self.name: Final = config.cluster.replica
        self.clocks: Final = Clocks(self.name)
        self.process: ReplicaProcess | None = None  # None: it is down
        self.connections: list[Connection] = []  # of the process
        self._config: Final = config
        self._joined: Final = joined
        self._failed: Final = failed
        self._lost: Final = lost
        self._log_begins: Final = log_begins
        self.log_began = 1  # as the process began: the first sequence of the log
        self._loops: list[MachineLoop] = []

    # --- its process ---

    @property
    def is_up(self) -> bool:
        """Whether there is a process."""
        return self.process is not None

    @property
    def main_loop(self) -> MachineLoop:
        """The loop of the process."""
        return self._loops[0]

    def start(self) -> None:
        """Start a process."""
        self.log_began = self._log_begins()
        loop = self.begin_loop()
        with running(loop):
            self.process = process = ReplicaProcess(self._config, operator_ports=_no_ports, operator_endpoints=list)
        loop.create_task(self._run(process))

    async def _run(self, process: ReplicaProcess) -> None:
        try:
            end = await process.run(ready=lambda _: None, standing_by=lambda: None)
        except CannotStart as error:
            self._failed(Violation(f"replica {self.name} cannot start: {error}"))
            return
        except Violation as violation:
            self._failed(violation)
            return
        if end is End.FAILED:
            self._failed(Violation(f"replica {self.name} has failed"))
        if end is End.LOST:
            self._lost(self, process)
        self._loops[0].call_later(AGAIN_S, self.restart)  # as `execv` does

    def restart(self) -> None:
        """Have another process begin where one was."""
        self.crash()
        self.start()

    def crash(self) -> None:
        """Lose the process; what it wrote to files stays."""
        process, self.process = self.process, None
        for connection in self.connections:
            connection.die()
        self.connections = []
        loops, self._loops = self._loops, []
        for loop in reversed(loops):
            loop.close()
        store = None if process is None else process.spool._store
        if store is not None:
            release(store)
        self.clocks.is_paused = False

    def lose_disk(self) -> None:
        """Lose all files. The process is down."""
        assert not self.is_up
        shutil.rmtree(self._config.data.path, ignore_errors=True)

    def pause(self, *, is_paused: bool) -> None:
        """Have the process stand still, or go on."""
        self.clocks.is_paused = is_paused

    def stop(self) -> None:
        """Tell the process to stop: it hands the broker over if it is the owner."""
        if self.process is not None:
            self._loops[0].call_soon(self.process.stop)

    def asks_to_hand_over(self, successor: str) -> None:
        """Have an operator ask this replica to have the owner hand over."""
        process = self.process
        if process is None or process.role == STARTING:
            return

        async def ask() -> None:
            with suppress(Refused):
                await process.ownership.ask_owner(successor)

        self.main_loop.create_task(ask())

    # --- what it has ---

    def describe(self) -> str:
        """Return what the replica does, in words."""
        if self.process is None:
            return "down"
        spool = self.process.spool
        return f"{self.process.role}, has read {spool.replica.read_through}, {spool.problem or 'no problem'}"

    def begin_loop(self) -> MachineLoop:
        """Return another event loop of the process."""
        loop = MachineLoop(self._joined, self.clocks)  # type: ignore[abstract]  # as for `virtual_loop`
        self._joined.add(loop)
        self._loops.append(loop)
        return loop

    def loop_thread(self) -> VirtualLoopThread:
        """Return what the process has for a thread with an event loop."""
        return VirtualLoopThread(self.begin_loop())

    def store(self) -> SpoolStore | None:
        """Return the store of the process, if it has opened one."""
        return None if self.process is None else self.process.spool._store


def _no_ports(_: Node) -> OperatorPorts:
    return OperatorPorts()


def release(store: SpoolStore) -> None:
    """Let go of the files, as the end of a process does."""
    with suppress(Exception):
        store.close()
