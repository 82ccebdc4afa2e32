"""Reading a backup, or the folder of a node that has stopped, without a broker, each of its VPNs by a VpnReader.

It shows what a node would that starts on these files, by the same cores: positions, what is still to be read, gaps with
their reasons. Nothing is changed, so any number of processes may read one backup at the same time. A process has one
reader of it open at a time, and that is its own: neither fork it nor send it to another one.

The journal is held in memory, as by a node; pages are read when they are asked for.
"""

from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Self, final

import lmdb

from sluicegate.messaging.message.batch import MessageBatch
from sluicegate.messaging.partitions.recovery import StoredPartition
from sluicegate.storage.backup.folder import read_note
from sluicegate.storage.backup.vpn_reader import VpnReader
from sluicegate.storage.catalog.partition_owners import find_lost
from sluicegate.storage.catalog.recovered import read_partitions, read_vpns
from sluicegate.storage.catalog.recovery import RecoveryScan, checked_page
from sluicegate.storage.environment.databases import PAGE_KEY, RECORD_KEY, Databases, key_numbers
from sluicegate.storage.environment.environment import open_to_read, translated
from sluicegate.storage.environment.identity import read_clean, read_incarnation
from sluicegate.storage.environment.quarantine import browse, describe_page
from sluicegate.storage.errors import BackupRefused, DamagedRecord, PageNotFound
from sluicegate.storage.interface import PageKey, Quarantined, QuarantinedBytes, Recovery, Table
from sluicegate.storage.records.page import PageRuns


@final
class SpoolReader:
    """A spool opened for reading. Close it, or use it in a `with` statement."""

    def __init__(self, env: lmdb.Environment, where: Path) -> None:
        """Use `open_backup` or `open_folder`; this takes over the environment."""
        self._env = env
        self._databases = Databases(env)
        scan = RecoveryScan(env, self._databases, repairs=False)
        recovery = self._recovery(scan, where)
        self.incarnation = recovery.incarnation
        self.was_clean = recovery.was_clean
        self.damage: list[Quarantined] = recovery.quarantined  # what could not be read, and was left out
        self.tables = {table: dict(rows) for table, rows in recovery.tables.items()}
        self.cursor_states = recovery.cursors  # by partition id
        self.pages = recovery.pages
        stored = read_vpns({table: rows.items() for table, rows in self.tables.items()})
        self._stored, records = read_partitions(recovery)
        find_lost(stored, self._stored)
        self.vpns = {name: VpnReader(self, name, rows) for name, rows in stored.items()}  # `default` is among them
        self.journal_records_count = len(records)

    @classmethod
    def open_backup(cls, folder: Path) -> Self:
        """Open a backup. Raises BackupRefused, UnsupportedFormat, DamagedRecord, StoreFailed."""
        read_note(folder)
        return cls.open_folder(folder)

    @classmethod
    def open_folder(cls, folder: Path) -> Self:
        """Open the data folder of a node that does not run.

        Raises BackupRefused when there is no spool, UnsupportedFormat, DamagedRecord, StoreFailed.
        """
        with translated(folder, needed_bytes=0):
            env = open_to_read(folder)
            try:
                return cls(env, folder)
            except BaseException:
                env.close()
                raise

    def partition(self, partition_id: int) -> StoredPartition | None:
        """Return what is stored of a partition, None when nothing is."""
        return self._stored.get(partition_id)

    def read_page(self, partition_id: int, first_sequence: int) -> PageRuns:
        """Return what can be read of a page. Raises PageNotFound, DamagedRecord, UnsupportedFormat, StoreFailed."""
        with translated(Path(), needed_bytes=0), self._env.begin() as txn:
            data = txn.get(PAGE_KEY.pack(partition_id, first_sequence), db=self._databases.pages)
        return checked_page(data, partition_id, first_sequence)

    def page(self, partition_id: int, first_sequence: int) -> list[tuple[int, MessageBatch]] | None:
        """Return the runs of a page, or None for one that cannot be read."""
        try:
            runs, lost = self.read_page(partition_id, first_sequence)
        except (DamagedRecord, PageNotFound) as error:
            self.damage.append(Quarantined(describe_page(partition_id, first_sequence), "damaged", str(error)))
            return None
        if lost:
            self.damage.append(Quarantined(describe_page(partition_id, first_sequence), "damaged", lost))
        return [(run.first_sequence, run.batch) for run in runs]

    def page_keys(self) -> Iterator[PageKey]:
        """Yield the names of all pages that there are, whatever the directory says."""
        with self._env.begin() as txn, txn.cursor(db=self._databases.pages) as cursor:
            for key in cursor.iternext(keys=True, values=False):
                yield PageKey(*key_numbers(PAGE_KEY, key))

    def quarantine(self, limit: int) -> list[QuarantinedBytes]:
        """Return up to `limit` items of the quarantine. Raises DamagedRecord for one that is damaged in its turn."""
        with self._env.begin() as txn:
            return list(browse(txn, self._databases, limit))

    def close(self) -> None:
        """Release the files. May be called twice."""
        self._env.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _recovery(self, scan: RecoveryScan, where: Path) -> Recovery:
        with self._env.begin() as txn:
            incarnation = read_incarnation(txn, self._databases, f"the store in {where}")
            if incarnation is None:
                raise BackupRefused(f"there is no spool in {where}")
            clean = read_clean(txn, self._databases)
            with txn.cursor(db=self._databases.journal) as cursor:
                last = key_numbers(RECORD_KEY, cursor.key())[0] if cursor.last() else 0
        return Recovery(
            incarnation=incarnation,
            was_clean=clean,
            next_record_number=last + 1,
            cursors=scan.cursors(),
            pages=scan.pages(),
            journal=scan.journal(),
            tables={table: scan.rows(table) for table in Table},
            quarantined=scan.quarantined,
            lost_cursors=scan.lost_cursors,
        )
