"""A broker whose log is trimmed: its owner, a standby that makes snapshots, and what else replicas need for that."""

import asyncio
import random
from collections.abc import AsyncIterator, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, Final, Self, TypeVar

from sluicegate.storage.backup.snapshots import Run, install_snapshot, make_snapshot
from sluicegate.storage.errors import StorageError
from sluicegate.storage.replication.jetstream import JetStream, connected
from sluicegate.storage.replication.replica import Append, first_message
from sluicegate.storage.replication.trimming.holds import Holds, ReplicaHold
from sluicegate.storage.replication.trimming.plan import Hold, Snapshot, to_install
from sluicegate.storage.replication.trimming.snapshots import Snapshots
from sluicegate.storage.replication.trimming.trimmer import Trimmer
from support.processes.nats import NatsCluster
from support.processes.nats_streams import NAMES, stored, until_bucket_created, until_created
from support.storage.answers import WITHIN_S, answered
from support.storage.replicas import BEGIN, Following, Owner

TIMES_MS: Final = count(1)
LARGE: Final = 1 << 30  # more bytes than a stream of a test has

_Result = TypeVar("_Result")


class TrimmedBroker:
    """One broker with a log of its own. Use `trimmed_broker`."""

    def __init__(self, servers: NatsCluster, folder: Path, stack: AsyncExitStack) -> None:
        self.name: Final = f"trimmed-{next(NAMES)}"
        self.revoked: Final[list[Hold]] = []
        self.replicas: tuple[str, ...] = ("a", "b", "a.b", "owner", "standby")  # that may hold the log
        self._servers: Final = servers
        self._folder: Final = folder
        self._stack: Final = stack
        self._loop: Final = asyncio.get_running_loop()
        self._seeds = 0

    async def begin(self) -> Self:
        """Make everything, and let an owner and a standby begin."""
        self.client = await connected(self._servers.urls, WITHIN_S)
        self._stack.push_async_callback(self.client.close)
        self.stream = JetStream(self.client, self.name)
        await until_created(self.stream, 64 << 20)
        await stored(self.stream, Append(0, first_message(BEGIN, 0)))
        self.snapshots = Snapshots(self.client, self.name, BEGIN.incarnation)
        await until_bucket_created(self.client)
        await answered(partial(self.snapshots.create, 3))
        self.holds = Holds(self.client, self.name)
        self.owner = Owner(self._folder / "owner", self.stream)
        self._stack.callback(self.owner.store.close)
        await self.owner.begin()
        self.standby = await self.following("standby")
        return self

    async def following(self, name: str) -> Following:
        """Open the store of a standby, and let it go on behind what that has. Raises what `Standby.resume` raises."""
        client = await connected(self._servers.urls, WITHIN_S)
        self._stack.push_async_callback(client.close)
        found = Following(self.folder_of(name), JetStream(client, self.name), name)
        self._stack.callback(found.store.close)
        try:
            await answered(partial(found.standby.resume, found.stream))
        except StorageError:
            found.store.close()
            raise
        return found

    def folder_of(self, name: str) -> Path:
        """Return the data folder of a standby."""
        return self._folder / name

    async def commits(self, count: int = 10) -> None:
        """Have the owner commit some of everything."""
        for _ in range(count):
            self._seeds += 1
            await self.owner.commit_random(random.Random(self._seeds))

    async def snapshot(self, run: Run | None = None) -> Snapshot:
        """Have the standby read all, and make a snapshot of it."""
        await self.standby.read_all()
        self.standby.standby.checkpoint()
        replica = self.standby.replica

        def make() -> Snapshot:
            return make_snapshot(
                self.standby.store,
                self.snapshots,
                run or self.run,
                incarnation=BEGIN.incarnation,
                epoch=replica.owner_epoch,
                replica=replica.name,
                taken_ms=next(TIMES_MS),
                broker=self.name,
                release="0",
                folder=self._folder,
            )

        return await asyncio.to_thread(make)

    async def install(self, name: str, snapshot: Snapshot | None = None) -> None:
        """Install a snapshot into the folder of a standby: the newest behind which the stream goes on."""
        if snapshot is None:
            first = (await answered(self.stream.bounds)).first
            snapshot = to_install(await answered(self.snapshots.all), first)[0]
        folder = self.folder_of(name)
        await asyncio.to_thread(
            install_snapshot, self.snapshots, snapshot.name, folder, self.run, copied=lambda _: None
        )

    async def trim(self, log_bytes_max: int = LARGE) -> int:
        """Have the owner trim; return the first sequence that the stream has then."""

        async def replicas() -> tuple[str, ...]:
            return self.replicas

        trimmer = Trimmer(
            self.stream,
            self.snapshots,
            self.holds,
            log_bytes_max=log_bytes_max,
            replicas=replicas,
            hold_revoked=self.revoked.append,
        )
        await answered(trimmer.trim)
        return (await answered(self.stream.bounds)).first

    async def found(self) -> list[Snapshot]:
        """Return the snapshots that are there."""
        return await answered(self.snapshots.all)

    async def held(self) -> list[Hold]:
        """Return the holds that are there."""
        return await answered(self.holds.all)

    def hold(self, replica: str) -> ReplicaHold:
        """Return the hold of a replica whose process has just started."""
        return ReplicaHold(self.holds, self.snapshots, replica)

    def run(self, coroutine: Coroutine[Any, Any, _Result]) -> _Result:
        """Run a coroutine on the loop of the test, from another thread."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()


@asynccontextmanager
async def trimmed_broker(servers: NatsCluster, folder: Path) -> AsyncIterator[TrimmedBroker]:
    """A broker for a test."""
    async with AsyncExitStack() as stack:
        yield await TrimmedBroker(servers, folder, stack).begin()
