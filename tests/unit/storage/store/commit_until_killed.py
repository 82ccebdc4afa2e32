"""A program for test_store_crash: commit without end, and print each number once its commit has returned."""

import sys
from pathlib import Path

from sluicegate.storage.interface import CommitJob, PageWrite
from sluicegate.storage.records.cursor import CursorRecord
from sluicegate.storage.store.store import SpoolStore
from support.storage.sample_records import page_bytes, publish_job


def main(folder: Path) -> None:
    """Journal one record per commit; every fourth commit pages what the four before it held."""
    store = SpoolStore.open(folder, map_bytes_max=256 << 20)
    recovery = store.recover()
    if recovery.was_clean or recovery.quarantined:
        sys.exit(f"opened after a kill: clean {recovery.was_clean}, quarantined {recovery.quarantined}")
    # The cursor holds the last number, for the journal alone may have been trimmed empty.
    last = recovery.cursors[1].floor if recovery.cursors else 0
    for number in range(last + 1, 1 << 40):
        paged = range(max(1, number - 4), number) if number % 4 == 0 else range(0)
        store.commit(
            CommitJob(
                record_number=number,
                record=publish_job(number, payload=b"x" * 100, count=100).record,
                journal_delete_through=number - 1 if paged else 0,
                page_writes=[PageWrite(1, page_bytes(earlier * 1000)) for earlier in paged],
                cursor_puts=[CursorRecord(1, number, [], number + 1, [])],
            )
        )
        print(number, flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
