"""What a replica does so that the log stays short: holds, snapshots, trims; and how it begins anew from a snapshot.

All of this can wait: it runs on the thread of the replica's spool, every few seconds, and what fails is tried again.
See `storage.replication.trimming`.
"""

import asyncio
import logging
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, final

from nats.aio.client import Client

from sluicegate.gateway.build import VERSION
from sluicegate.gateway.cluster.log.state import LogState
from sluicegate.gateway.config.model import Config
from sluicegate.storage.backup.snapshots import SCRATCH, Run, install_snapshot, make_snapshot
from sluicegate.storage.environment.environment import READERS_FILE, sync_folders
from sluicegate.storage.environment.folder_lock import DATA_FILE, FolderLock
from sluicegate.storage.errors import BackupRefused, DamagedRecord, StorageError
from sluicegate.storage.log.journal import LOG_FOLDER
from sluicegate.storage.replication.ownership.replica_list import ReplicaLists
from sluicegate.storage.replication.replica import Replica
from sluicegate.storage.replication.stream import Stream, StreamRefused
from sluicegate.storage.replication.trimming.holds import Holds, ReplicaHold
from sluicegate.storage.replication.trimming.plan import Hold, Snapshot, snapshot_is_due, to_install
from sluicegate.storage.replication.trimming.snapshots import Snapshots
from sluicegate.storage.replication.trimming.trimmer import Trimmer
from sluicegate.storage.store.store import SpoolStore

TURN_S: Final = 5.0
MAKE_AGAIN_S: Final = 60.0  # after a snapshot that failed: each try copies the whole spool
INSTALLED: Final = "installed"  # a folder beside the spool that a snapshot is to replace

log = logging.getLogger("sluicegate.cluster")


@final
class LogTrimming:
    """One replica's part in keeping the log short. For the loop of the spool's thread."""

    def __init__(
        self,
        config: Config,
        client: Client,
        store: SpoolStore,
        stream: Stream,
        replica: Replica,
        *,
        run: Run,
        generation: int,
        trims: Callable[[], bool],
        is_maker: Callable[[], bool],
        hold_revoked: Callable[[Hold], None],
    ) -> None:
        """For the generation see `stream_name`. `trims` returns whether it is for this replica to trim.

        `is_maker` returns whether it is for this replica to make snapshots.

        `hold_revoked` is called when the log is too large to wait for a replica any longer.
        """
        name, cluster = config.node.name, config.cluster
        self._config: Final = config
        self._store: Final = store
        self._stream: Final = stream
        self._replica: Final = replica
        self._run: Final = run
        self._trims: Final = trims
        self._is_maker: Final = is_maker
        self._snapshots: Final = Snapshots(client, name, store.incarnation, generation)
        holds = Holds(client, name, generation)
        self._hold: Final = ReplicaHold(holds, self._snapshots, cluster.replica)
        self._lists: Final = ReplicaLists(client)
        self._trimmer: Final = Trimmer(
            stream,
            self._snapshots,
            holds,
            log_bytes_max=cluster.log_bytes_max,
            replicas=self._replicas,
            hold_revoked=hold_revoked,
        )
        self.state: Final = LogState(stream, self._snapshots, holds, monotonic_s=lambda: time.monotonic())
        self._making: asyncio.Task[None] | None = None
        self._make_at_s = 0.0  # not earlier
        self._problem = ""

    async def keep_short(self) -> None:
        """Do what there is to do, until this is cancelled."""
        while True:
            try:
                await self._turn()
                self._problem = ""
            except (StorageError, OSError) as error:
                self._report(f"the log cannot be trimmed now: {error}")
            await asyncio.sleep(TURN_S)

    async def _turn(self) -> None:
        if self._store.last_number > 0:
            await self._hold.renew(self._store.last_number)
        if self._trims():
            await self._trimmer.trim()
        if self._may_make() and await self._is_due():
            self._making = asyncio.create_task(self._make())
        await self.state.look()

    async def _replicas(self) -> tuple[str, ...]:
        replicas, _ = await self._lists.read(self._config.node.name)
        if replicas is None:
            raise StreamRefused("the list of replicas is gone; a replica makes it again")
        return replicas.names

    def _may_make(self) -> bool:
        is_making = self._making is not None and not self._making.done()
        return not is_making and time.monotonic() >= self._make_at_s and self._is_maker()

    async def _is_due(self) -> bool:
        bounds = await self._stream.bounds()
        return snapshot_is_due(
            await self._snapshots.all(),
            first=bounds.first,
            end=bounds.last + 1,
            log_bytes=bounds.byte_count,
            log_bytes_max=self._config.cluster.log_bytes_max,
            store_bytes=self._store.usage().used_bytes,
        )

    async def _make(self) -> None:
        began_s, state = time.monotonic(), self.state.made
        try:
            made = await asyncio.to_thread(self._made)
        except (StorageError, OSError) as error:
            self._failed(str(error))
        except Exception as error:  # it can wait: a replica that ended here would have the next one make it, and end
            log.exception("task 'snapshot' has ended; it is begun again")
            self._failed(repr(error))
        else:
            state.count += 1
            state.problem = ""
            log.info("made snapshot %s in %.1f s", made.name, time.monotonic() - began_s)
        state.ended_ms, state.took_s = time.time_ns() // 1_000_000, time.monotonic() - began_s

    def _failed(self, problem: str) -> None:
        self._make_at_s = time.monotonic() + MAKE_AGAIN_S
        self.state.made.failed_count += 1
        self.state.made.problem = problem
        self._report(f"no snapshot of the log could be made: {problem}")

    def _made(self) -> Snapshot:
        return make_snapshot(
            self._store,
            self._snapshots,
            self._run,
            incarnation=self._store.incarnation,
            epoch=self._replica.owner_epoch,
            replica=self._config.cluster.replica,
            taken_ms=time.time_ns() // 1_000_000,
            broker=self._config.node.name,
            release=VERSION,
            folder=self._config.data.path,
        )

    def _report(self, problem: str) -> None:
        if problem != self._problem:
            log.warning("%s; trying again", problem)
        self._problem = problem


def begin_anew(snapshots: Snapshots, first: int, folder: Path, run: Run) -> None:
    """Put the newest snapshot in the place of the spool in a folder, of which the log was trimmed past the end.

    `first` is the first sequence of the stream. The spool stays until the snapshot is there as a whole. Blocks. Raises
    BackupRefused when there is no snapshot that can be used, StreamUnavailable, StreamRefused, FolderInUse, and what
    `install_snapshot` raises.
    """
    new = folder / INSTALLED
    shutil.rmtree(folder / SCRATCH, ignore_errors=True)
    for snapshot in to_install(run(snapshots.all()), first):
        shutil.rmtree(new, ignore_errors=True)  # of a process that was killed
        log.info("begins with snapshot %s: the log does not go back to what this replica has", snapshot.name)
        try:
            note = install_snapshot(snapshots, snapshot.name, new, run, copied=lambda _: None)
        except DamagedRecord as error:
            log.error("%s; trying an older one", error)
            continue
        lock = FolderLock(folder)
        try:
            (folder / DATA_FILE).unlink(missing_ok=True)
            (folder / READERS_FILE).unlink(missing_ok=True)
            shutil.rmtree(folder / LOG_FOLDER, ignore_errors=True)
            (new / DATA_FILE).rename(folder / DATA_FILE)
            sync_folders(folder)
        finally:
            lock.release()
        shutil.rmtree(new)
        log.info("has %d bytes of record %d and before", note.data_bytes, snapshot.position)
        return
    raise BackupRefused(f"the log begins with message {first}, and no snapshot of what was before can be used")
