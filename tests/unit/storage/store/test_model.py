"""The store against dictionaries: whatever jobs come, what is committed is what is read."""

import shutil
import tempfile
from dataclasses import replace
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from sluicegate.storage.backup.reader import SpoolReader
from sluicegate.storage.interface import (
    CheckpointJob,
    CommitJob,
    PageKey,
    PageWrite,
    Recovery,
    Reservation,
    Table,
    TableWrite,
)
from sluicegate.storage.records.cursor import CursorRecord
from sluicegate.storage.store.store import SpoolStore
from support.storage.sample_records import page_bytes, publish_job

partition_ids = st.integers(1, 3)
first_sequences = st.integers(0, 5).map(lambda number: number * 100)
moved_sequences = st.integers(1, 30).map(lambda number: number * 1000)  # of messages that were in a log record
payload_sizes = st.sampled_from([0, 100, 3000, 90_000])  # three of the largest fill a file of the log
row_writes = st.builds(
    TableWrite,
    st.sampled_from([Table.RETAINED, Table.CATALOG]),
    st.sampled_from([1, 494, 495, 511, 512, 2000]).map(lambda length: b"k" * length),
    st.none() | st.binary(max_size=9),
)


MAP_BYTES = 128 << 20  # pages of all partitions with 30 of the largest messages take 49 MB, and twice that when changed


class StoreAgainstDictionaries(RuleBasedStateMachine):
    """Goal: no sequence of jobs loses, doubles or revives anything. Method: same jobs to both, compare."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="spool-model-"))
        self.store = self.open()
        self.number = 0
        self.applied = 0
        self.is_marked = False
        self.journal: list[int] = []
        self.payloads: dict[int, bytes] = {}  # of its records
        self.needed_from = 1
        self.pages: dict[PageKey, int] = {}
        self.cursors: dict[int, CursorRecord] = {}
        self.rows: dict[Table, dict[bytes, bytes]] = {Table.RETAINED: {}, Table.CATALOG: {}}

    def open(self) -> SpoolStore:
        """Open the store; without fsync, which is not what is looked at here."""
        return SpoolStore.open(self.folder, map_bytes_max=MAP_BYTES, reserve_bytes=1 << 20, sync=False)

    @rule(
        payload_bytes=st.none() | payload_sizes,
        staged=st.none() | st.tuples(partition_ids, first_sequences, st.integers(1, 30)),
        reserved=st.lists(st.tuples(partition_ids, st.integers(0, 1 << 40)), max_size=2),
        rows=st.lists(row_writes, max_size=3),
        purges=st.lists(partition_ids, max_size=1),
        skipped=st.integers(0, 1),
    )
    def commit(
        self,
        payload_bytes: int | None,
        staged: tuple[int, int, int] | None,
        reserved: list[tuple[int, int]],
        rows: list[TableWrite],
        purges: list[int],
        skipped: int,
    ) -> None:
        self.number += 1 + skipped
        job = CommitJob(number=self.number, table_writes=rows, partition_purges=purges)
        if payload_bytes is not None:
            payload = (b"%d" % self.number)[:payload_bytes].ljust(payload_bytes, b".")
            job = replace(job, record=publish_job(self.number, payload=payload).record)
            self.journal.append(self.number)
            self.payloads[self.number] = payload
        if staged is not None:
            partition_id, first, count = staged
            job.staged_pages.append(PageWrite(partition_id, page_bytes(first, count=count)))
            self.pages[PageKey(partition_id, first)] = count
        for partition_id, next_sequence in reserved:
            job.reservations.append(Reservation(partition_id, 7, next_sequence))
            known = self.cursors.get(partition_id, CursorRecord(partition_id, 7, [], 0, []))
            self.cursors[partition_id] = known._replace(next_sequence=max(known.next_sequence, next_sequence))
        for table, key, value in rows:
            if value is None:
                self.rows[table].pop(key, None)
            else:
                self.rows[table][key] = value
        for partition_id in purges:
            self.pages = {key: count for key, count in self.pages.items() if key.partition_id != partition_id}
            self.cursors.pop(partition_id, None)
        self.store.commit(job)

    @rule(
        kept=st.integers(0, 3),
        written=st.lists(st.tuples(partition_ids, first_sequences, payload_sizes, st.integers(1, 30)), max_size=3),
        deleted=st.lists(st.builds(PageKey, partition_ids, first_sequences | moved_sequences), max_size=4),
        moved=st.lists(st.tuples(partition_ids, st.integers(0, 1 << 40)), max_size=2),
        paged=st.integers(0, 2),
    )
    def checkpoint(
        self,
        kept: int,
        written: list[tuple[int, int, int, int]],
        deleted: list[PageKey],
        moved: list[tuple[int, int]],
        paged: int,
    ) -> None:
        """Apply the log, and trim what is not among the last few journal records. Some move into pages before."""
        moving = {PageKey(1, number * 1000): number for number in self.journal[:paged]}
        self.journal = self.journal[len(self.journal) - kept :] if kept < len(self.journal) else self.journal
        self.needed_from = self.journal[0] if self.journal else self.number + 1
        for key in deleted:
            self.pages.pop(key, None)
        cursors: list[CursorRecord] = []
        for partition_id, floor in moved:
            cursors.append(CursorRecord(partition_id, floor, [(floor + 2, floor + 3)], floor + 9, []))
            self.cursors[partition_id] = cursors[-1]
        writes: list[PageWrite] = []
        for partition_id, first, payload_bytes, count in written:
            writes.append(PageWrite(partition_id, page_bytes(first, payload=bytes(payload_bytes), count=count)))
            self.pages[PageKey(partition_id, first)] = count
        for key, number in moving.items():
            writes.append(PageWrite(1, page_bytes(key.first_sequence, payload=self.payloads[number])))
            self.pages[key] = 3
        self.applied = self.number
        self.is_marked = False
        self.store.checkpoint(
            CheckpointJob(
                applied=self.number,
                needed_from=self.needed_from,
                page_deletes=deleted,
                page_writes=writes,
                log_records={key: [number] for key, number in moving.items()},
                cursor_puts=cursors,
            )
        )

    @rule(clean=st.booleans())
    def reopen(self, clean: bool) -> None:
        if clean:
            self.store.mark_clean()
            self.is_marked = True
        self.store.close()
        with SpoolReader.open_folder(self.folder) as reader:
            assert reader.damage == []
            assert {table: reader.tables[table] for table in self.rows} == self.rows
            assert {PageKey(page.partition_id, page.summary.first_sequence) for page in reader.pages} == set(self.pages)
        self.store = self.open()
        assert self.store.recover().was_clean == (self.is_marked and self.number <= self.applied)

    @rule(number=st.integers(0, 3))
    def page_that_is_there_is_read(self, number: int) -> None:
        for key, count in list(self.pages.items())[number : number + 1]:
            assert sum(run.batch.count for run in self.store.read_page(*key).runs) == count

    @invariant()
    def the_store_holds_what_the_dictionaries_hold(self) -> None:
        recovery: Recovery = self.store.recover()
        numbers = [number for number, _ in recovery.journal]
        assert numbers == self.journal
        found = {
            PageKey(page.partition_id, page.summary.first_sequence): page.summary.message_count
            for page in recovery.pages
        }
        assert found == self.pages
        assert recovery.cursors == self.cursors
        for table, rows in self.rows.items():
            assert dict(recovery.tables[table]) == rows
        assert recovery.quarantined == []
        assert recovery.next_record_number == self.number + 1

    @invariant()
    def the_messages_that_were_moved_are_read(self) -> None:
        """Large ones are read from the log, whatever was trimmed of it."""
        for key in self.pages:
            if key.first_sequence >= 1000:
                (run,) = self.store.read_page(*key).runs
                assert run.batch.payloads() == [self.payloads[key.first_sequence // 1000]] * 3

    def teardown(self) -> None:
        self.store.close()
        shutil.rmtree(self.folder)


StoreAgainstDictionaries.TestCase.settings = settings(max_examples=25, stateful_step_count=25, deadline=None)
TestStoreAgainstDictionaries = StoreAgainstDictionaries.TestCase
