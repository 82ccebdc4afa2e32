"""The store against dictionaries: whatever jobs come, what is committed is what is read."""

import shutil
import tempfile
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from sluicegate.storage.interface import CommitJob, PageKey, PageWrite, Table, TableWrite
from sluicegate.storage.records.cursor import CursorRecord
from sluicegate.storage.store.store import SpoolStore
from support.storage.sample_records import page_bytes, publish_job

partition_ids = st.integers(1, 3)
first_sequences = st.integers(0, 5).map(lambda number: number * 100)
payloads = st.sampled_from([b"", b"x" * 100, b"x" * 3000])


class StoreAgainstDictionaries(RuleBasedStateMachine):
    """Goal: no sequence of jobs loses, doubles or revives anything. Method: same jobs to both, compare."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="spool-model-"))
        self.store = self.open()
        self.journal: list[int] = []
        self.pages: dict[PageKey, int] = {}
        self.cursors: dict[int, CursorRecord] = {}
        self.retained: dict[bytes, bytes] = {}

    def open(self) -> SpoolStore:
        """Open the store; without fsync, which is not what is looked at here."""
        return SpoolStore.open(self.folder, map_bytes_max=16 << 20, reserve_bytes=1 << 20, sync=False)

    @rule(payload=payloads)
    def publish(self, payload: bytes) -> None:
        number = self.store.recover().next_record_number
        self.store.commit(publish_job(number, payload=payload))
        self.journal.append(number)

    @rule(kept=st.integers(0, 3))
    def trim(self, kept: int) -> None:
        going = self.journal[: len(self.journal) - kept]
        if going:
            self.store.commit(CommitJob(journal_delete_through=going[-1], uses_reserve=True))
            self.journal = self.journal[len(going) :]

    @rule(partition_id=partition_ids, first=first_sequences, payload=payloads, count=st.integers(1, 30))
    def page(self, partition_id: int, first: int, payload: bytes, count: int) -> None:
        write = PageWrite(partition_id, page_bytes(first, payload=payload, count=count))
        self.store.commit(CommitJob(page_writes=[write], uses_reserve=True))
        self.pages[PageKey(partition_id, first)] = count

    @rule(keys=st.lists(st.builds(PageKey, partition_ids, first_sequences), max_size=4))
    def delete_pages(self, keys: list[PageKey]) -> None:
        self.store.commit(CommitJob(page_deletes=keys, uses_reserve=True))
        for key in keys:
            self.pages.pop(key, None)

    @rule(partition_id=partition_ids, floor=st.integers(0, 1 << 40))
    def move_cursor(self, partition_id: int, floor: int) -> None:
        cursor = CursorRecord(partition_id, floor, [(floor + 2, floor + 3)], floor + 9, [])
        self.store.commit(CommitJob(cursor_puts=[cursor], uses_reserve=True))
        self.cursors[partition_id] = cursor

    @rule(partition_id=partition_ids)
    def purge(self, partition_id: int) -> None:
        self.store.commit(CommitJob(partition_purges=[partition_id], uses_reserve=True))
        self.pages = {key: count for key, count in self.pages.items() if key.partition_id != partition_id}
        self.cursors.pop(partition_id, None)

    @rule(length=st.sampled_from([1, 494, 495, 511, 512, 2000]), value=st.none() | st.binary(max_size=9))
    def write_row(self, length: int, value: bytes | None) -> None:
        key = b"k" * length
        self.store.commit(CommitJob(table_writes=[TableWrite(Table.RETAINED, key, value)]))
        if value is None:
            self.retained.pop(key, None)
        else:
            self.retained[key] = value

    @rule()
    def reopen(self) -> None:
        self.store.close()
        self.store = self.open()

    @invariant()
    def the_store_holds_what_the_dictionaries_hold(self) -> None:
        recovery = self.store.recover()
        assert [number for number, _ in recovery.journal] == self.journal
        found = {
            PageKey(page.partition_id, page.summary.first_sequence): page.summary.message_count
            for page in recovery.pages
        }
        assert found == self.pages
        for key, count in self.pages.items():
            assert sum(run.batch.count for run in self.store.read_page(*key).runs) == count
        assert recovery.cursors == self.cursors
        assert dict(recovery.tables[Table.RETAINED]) == self.retained
        assert recovery.quarantined == []
        usage = self.store.usage()
        assert (usage.journal_entries, usage.page_entries) == (len(self.journal), len(self.pages))

    def teardown(self) -> None:
        self.store.close()
        shutil.rmtree(self.folder)


StoreAgainstDictionaries.TestCase.settings = settings(max_examples=25, stateful_step_count=25, deadline=None)
TestStoreAgainstDictionaries = StoreAgainstDictionaries.TestCase
