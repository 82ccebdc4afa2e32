"""A program for test_store_crash: commit without end, and print each number once its commit has returned.

Checkpoints are made beside the commits, on a thread of their own.
"""

import queue
import sys
import threading
from pathlib import Path

from sluicegate.storage.interface import CheckpointJob, CommitJob, PageKey, PageWrite, Reservation, Table, TableWrite
from sluicegate.storage.records.cursor import CursorRecord
from sluicegate.storage.store.store import SpoolStore
from support.storage.sample_records import page_bytes, publish_job

PAYLOAD = b"x" * 100


def main(folder: Path) -> None:
    """Commit one record at a time; every fourth time, a checkpoint pages what the four before it held."""
    store = SpoolStore.open(folder, map_bytes_max=64 << 20)
    recovery = store.recover()
    if recovery.was_clean or recovery.quarantined:
        sys.exit(f"opened after a kill: clean {recovery.was_clean}, quarantined {recovery.quarantined}")
    # Numbers are those of the row: it is in each record, and the log alone may have been trimmed.
    last = max([int(value) for _, value in recovery.tables[Table.READERS]], default=0)
    jobs: queue.SimpleQueue[CheckpointJob] = queue.SimpleQueue()
    threading.Thread(target=make_checkpoints, args=(store, jobs), daemon=True).start()
    journaled = [number for number, _ in recovery.journal]
    if journaled:
        jobs.put(moving(journaled, last))
    for number in range(last + 1, 1 << 40):
        job = publish_job(number, payload=PAYLOAD, count=100)
        store.commit(
            CommitJob(
                number=number,
                record=job.record,
                reservations=[Reservation(1, 0, number + 1)],
                table_writes=[TableWrite(Table.READERS, b"last", b"%d" % number)],
                staged_pages=[PageWrite(2, page_bytes(number))],
            )
        )
        print(number, flush=True)
        if number % 4 == 0:
            jobs.put(moving(range(max(last + 1, number - 3), number + 1), number))


def moving(numbers: "range | list[int]", last: int) -> CheckpointJob:
    """Return a checkpoint that moves records into pages, and settles all below them."""
    return CheckpointJob(
        applied=last,
        needed_from=last + 1,
        page_writes=[PageWrite(1, page_bytes(each * 1000, payload=PAYLOAD, count=100)) for each in numbers],
        log_records={PageKey(1, each * 1000): [each] for each in numbers},
        cursor_puts=[CursorRecord(1, last, [], last + 1, [])],
    )


def make_checkpoints(store: SpoolStore, jobs: "queue.SimpleQueue[CheckpointJob]") -> None:
    """Make each checkpoint that is asked for."""
    while True:
        store.checkpoint(jobs.get())


if __name__ == "__main__":
    main(Path(sys.argv[1]))
