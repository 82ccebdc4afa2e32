"""Micro-benchmark of range reads: what a row of 200 bytes costs a reader, from memory and from pages of a real store.

Run with `python bench/cores/bench_range_reads.py`, the repository's root on PYTHONPATH; for the compiled figures, after
a compiled build. Times are processor time of this thread, the best of several rounds; pages come from the page cache.
"""

import tempfile
from pathlib import Path
from time import thread_time_ns
from typing import Final

from sluicegate.messaging.bulk import range_reads as range_plan
from sluicegate.messaging.bulk.range_reads import RangeRun, gaps_of, plan_range, runs_of
from sluicegate.messaging.bulk.retained_log import RetainedLog, RetentionRules
from sluicegate.messaging.message.batch import AT_LEAST_ONCE, MessageBatch
from sluicegate.messaging.message.publication import Publication
from sluicegate.messaging.partitions.ledger import Ledger
from sluicegate.messaging.partitions.state.flows import DeliveryRules
from sluicegate.storage.interface import CheckpointJob, PageWrite
from sluicegate.storage.records.page import Run, encode_page
from sluicegate.storage.store.store import SpoolStore

ROWS: Final = 200_000
PAYLOAD: Final = bytes(200)
PARTITION_ID: Final = 1
PAGE_BYTES: Final = 32_768
CHUNK_BYTES: Final = 1 << 20
ROUNDS: Final = 5


def log_of(batch_rows: int) -> RetainedLog:
    """Return the log of a partition with all rows in the journal."""
    log = RetainedLog(Ledger(durable=True, rules=DeliveryRules()), RetentionRules(size_bytes=1 << 40))
    log.open()
    for _ in range(ROWS // batch_rows):
        batch = MessageBatch(
            topic="plant/7/temperature",
            topics=None,
            payloads=[PAYLOAD] * batch_rows,
            headers=None,
            qos=AT_LEAST_ONCE,
            retain=False,
            publisher="meter-17",
            received_ms=0,
            payload_bytes=len(PAYLOAD) * batch_rows,
        )
        publication = Publication(batch, publisher=None, token=0, partitions_count=1)
        first = log.ledger.append(batch, publication)
        log.append(first, batch, publication)
        publication.sequenced(PARTITION_ID, first, None)
        publication.record_number = 1
        publication.confirmed = True
    return log


def page_out(log: RetainedLog, store: SpoolStore) -> None:
    """Move all rows into pages of the store."""
    for plan in log.plan_pages(page_bytes=PAGE_BYTES, bytes_to_free=1 << 40, through_record=None):
        page = encode_page([Run(first, batch) for first, batch in plan.runs])
        store.checkpoint(CheckpointJob(applied=0, needed_from=1, page_writes=[PageWrite(PARTITION_ID, page)]))
        log.pages_written(plan)


def read_all(log: RetainedLog, store: SpoolStore | None) -> int:
    """Read everything in chunks, as an actor does for a reader; return the number of rows."""
    rows, at = 0, 1
    while at <= ROWS:
        plan = plan_range(log, at, ROWS + 1, CHUNK_BYTES)
        runs: list[RangeRun] = []
        for piece in plan.pieces:
            page = None
            if piece.batch is None:
                assert store is not None
                page = [(run.first_sequence, run.batch) for run in store.read_page(PARTITION_ID, piece.page_first).runs]
            runs += runs_of(piece, page)
        assert gaps_of(log, plan, runs, []) == []
        rows += sum([run.stop_row - run.start_row for run in runs])
        at = plan.next_sequence
    return rows


def best(log: RetainedLog, store: SpoolStore | None) -> float:
    """Return rows per second of processor time."""
    times = []
    for _ in range(ROUNDS):
        began = thread_time_ns()
        assert read_all(log, store) == ROWS
        times.append(thread_time_ns() - began)
    return ROWS / min(times) * 1e9


def main() -> None:
    """Print a line for each case."""
    print(f"range reads, {'compiled' if range_plan.__file__.endswith('.so') else 'uncompiled'}, rows of 200 bytes")
    for batch_rows in (1, 20, 200):
        print(f"  memory, batches of {batch_rows:3}: {best(log_of(batch_rows), None):12,.0f} rows/s")
    with tempfile.TemporaryDirectory() as folder:
        store = SpoolStore.open(Path(folder), map_bytes_max=1 << 30, sync=False)
        for batch_rows in (20, 200):
            log = log_of(batch_rows)
            page_out(log, store)
            print(f"  pages,  batches of {batch_rows:3}: {best(log, store):12,.0f} rows/s")
        store.close()


if __name__ == "__main__":
    main()
