"""The node of a simulated owner: a program that commits, and tells its publishers of it in turns."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, Final

from simulation.replicas.book import Book, Owner
from simulation.replicas.broker.load import Load
from simulation.replicas.broker.state import Change
from sluicegate.gateway.node.environment import Environment
from sluicegate.storage.errors import CommitInDoubt, StorageError, StoreFull
from sluicegate.storage.interface import CommitJob, Store
from sluicegate.storage.replication.replica import OwnershipLost

AGAIN_S: Final = 0.2  # before a commit whose outcome is not known is made again
IDLE_S: Final = 0.05


class Demand:
    """What clients want of whoever owns the broker."""

    def __init__(self, rng: Any) -> None:
        self.rng: Final = rng
        self.wanted = 0  # commits
        self.count = 0  # of commits that were begun
        self.pause_s = 0.0  # between two
        self.checkpoint_share = 0.1

    def next_number(self) -> int:
        """Return the number of another commit."""
        self.wanted -= 1
        self.count += 1
        return self.count


class ModelNode:
    """See `gateway.node.node.Node`: this has what `ReplicaProcess` asks of one."""

    def __init__(
        self,
        store: Store,
        environment: Environment,
        book: Book,
        demand: Demand,
        owner: Owner,
        *,
        begins_turn: Callable[[Owner], None],
    ) -> None:
        """`begins_turn` is called at the begin of each turn."""
        loop = asyncio.get_running_loop()
        self.failed: Final[asyncio.Future[BaseException]] = loop.create_future()
        self.services: Final = self
        self.runtime: Final = self
        self.events: Final = self
        self.emitted: Final[list[str]] = []
        self._loop: Final = loop
        self._store: Final = store
        self._book: Final = book
        self._demand: Final = demand
        self._owner: Final = owner
        self._begins_turn: Final = begins_turn
        self._turns: Final = environment.turns()
        self._stopping = False
        self._task: asyncio.Task[None] | None = None
        self._load = Load(store)

    async def start(self, *, before_opening: Callable[[], None]) -> None:
        """Read the store, and begin to serve."""
        before_opening()
        self._book.took_over(self._owner, self._load.state)
        self._task = asyncio.create_task(self._work())

    def endpoints(self) -> list[tuple[str, str]]:
        """Return none: it has no clients that find it by name."""
        return []

    def emit(self, kind: Any, text: str, **_: Any) -> None:
        """Take an event."""
        self.emitted.append(f"{kind.name}: {text}")

    async def stop(self, *, clients_s: float) -> None:
        """Stop in good order: what is under way ends first."""
        self._stopping = True
        if self._task is not None:
            await asyncio.wait([self._task])
        with suppress(StorageError):
            await self._on_thread(partial(self._store.checkpoint, self._load.checkpoint(self._demand.rng)))
            await self._on_thread(self._store.mark_clean)
        self._store.close()

    async def _work(self) -> None:
        while not self._stopping:
            if self._demand.wanted <= 0:
                await asyncio.sleep(IDLE_S)
                await self._turn()
                continue
            await self._turn()
            change, job = self._load.draw(self._demand.next_number(), self._demand.rng)
            self._book.begun(self._owner, change)
            if not await self._commit(change, job):
                return
            if self._demand.pause_s:
                await asyncio.sleep(self._demand.pause_s)
            if self._demand.rng.random() < self._demand.checkpoint_share:
                await self._on_thread(partial(self._store.checkpoint, self._load.checkpoint(self._demand.rng)))

    async def _commit(self, change: Change, job: CommitJob) -> bool:
        """Make a commit, and tell its publishers; return whether there can be another one."""
        while True:
            try:
                next_number = await self._on_thread(partial(self._store.commit, job))
            except StoreFull:
                await self._turn()
                self._book.refused(self._owner, change)
                await asyncio.sleep(AGAIN_S)
                return True
            except OwnershipLost:
                return False  # publishers are told nothing
            except CommitInDoubt:
                if self._stopping:
                    return False
                await asyncio.sleep(AGAIN_S)
                continue
            await self._turn()
            self._load.committed(change, next_number, job.number)
            self._book.confirmed(self._owner, change)
            return True

    async def _turn(self) -> None:
        """Return in a turn, as an actor gets one: never when the replica is the owner no more."""
        turn = self._loop.create_future()
        self._turns(lambda: None if turn.done() else turn.set_result(None))
        await turn
        self._begins_turn(self._owner)

    async def _on_thread(self, call: Callable[[], Any]) -> Any:
        return await self._loop.run_in_executor(None, call)
