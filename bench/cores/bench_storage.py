"""Micro-benchmark of the spool: encoding, commits, recovery and memory. The disk is the one `--folder` lies on.

Run with `python bench/cores/bench_storage.py`, the repository's root on PYTHONPATH; for the compiled figures, after a
compiled build. Times are processor time of this thread unless they say wall, the best or the median of several rounds.
"""

import argparse
import shutil
import statistics
import tempfile
from collections.abc import Callable
from pathlib import Path
from random import Random
from time import perf_counter_ns, thread_time_ns
from typing import Final, TypeVar

from sluicegate.messaging.message.batch import MessageBatch
from sluicegate.messaging.message.headers import Headers
from sluicegate.storage.interface import CheckpointJob, CommitJob, PageKey, PageWrite
from sluicegate.storage.records import batch as record
from sluicegate.storage.records.batch import decode_batch, encode_batch
from sluicegate.storage.records.cursor import CursorRecord
from sluicegate.storage.records.journal import (
    JournalEntry,
    Match,
    Settlement,
    decode_journal_record,
    encode_journal_record,
)
from sluicegate.storage.records.page import Run, decode_page, encode_page
from sluicegate.storage.store.store import SpoolStore

MAP_BYTES: Final = 16 << 30
PAYLOAD_BYTES: Final = 100
COMMIT_MESSAGES: Final = 300
PAGE_MESSAGES: Final = 250
BACKLOG_PAGES: Final = 4_000  # a million messages
ROUNDS: Final = 9
COMMITS: Final = 300

Job = TypeVar("Job", CommitJob, CheckpointJob)


def batch_of(count: int, *, topic_count: int = 1, headers: Headers | None = None) -> MessageBatch:
    """Return a batch of random payloads."""
    random = Random(count)
    return MessageBatch(
        topic="plant/7/temperature" if topic_count == 1 else "",
        topics=None if topic_count == 1 else [f"plant/{row % topic_count}/temperature" for row in range(count)],
        payloads=[random.randbytes(PAYLOAD_BYTES) for _ in range(count)],
        headers=None if headers is None else [headers] * count,
        qos=1,
        retain=False,
        publisher="meter-17",
        received_ms=1_700_000_000_000,
        payload_bytes=PAYLOAD_BYTES * count,
    )


def report(name: str, microseconds: float, messages: int = 0) -> None:
    """Print one row."""
    each = f"{microseconds * 1000 / messages:9.1f} ns/message" if messages else ""
    print(f"  {name:58}{microseconds:12.1f} us{each}")


def best(action: Callable[[], object], repeats: int = 200) -> float:
    """Return the best round's microseconds for one call."""
    rounds: list[float] = []
    for _ in range(ROUNDS):
        start = thread_time_ns()
        for _ in range(repeats):
            action()
        rounds.append((thread_time_ns() - start) / repeats / 1000)
    return min(rounds)


def bench_record() -> None:
    """The record format alone."""
    print(f"record format ({'compiled' if record.__file__.endswith('.so') else 'interpreted'})")
    keyed = Headers(partition_key="pump-17", key_hash=4711, user_properties=[("JMSXGroupID", "pump-17")])
    for name, batch in (
        ("batch of 300, one topic", batch_of(300)),
        ("batch of 300, 50 topics", batch_of(300, topic_count=50)),
        ("batch of 300, a key and a user property each", batch_of(300, headers=keyed)),
        ("batch of 1", batch_of(1)),
    ):
        data = encode_batch(batch)
        report(f"encode {name}, {len(data)} bytes", best(lambda b=batch: encode_batch(b)), batch.count)  # type: ignore[misc]
        report(f"decode {name}", best(lambda d=data: decode_batch(d, 0)), batch.count)  # type: ignore[misc]
    entries = [JournalEntry(batch_of(COMMIT_MESSAGES), [Match(1, 5, None)])]
    journal = encode_journal_record(entries, [Settlement(1, 0, 5)])
    report("encode a journal record of 300", best(lambda: encode_journal_record(entries, [])), COMMIT_MESSAGES)
    report("decode a journal record of 300", best(lambda: decode_journal_record(journal)), COMMIT_MESSAGES)
    runs = [Run(1, batch_of(PAGE_MESSAGES))]
    page = encode_page(runs)
    report(f"encode a page of {PAGE_MESSAGES}, {len(page)} bytes", best(lambda: encode_page(runs)), PAGE_MESSAGES)
    report(f"decode a page of {PAGE_MESSAGES}", best(lambda: decode_page(page)), PAGE_MESSAGES)


def bench_commits(store: SpoolStore, after: str) -> None:
    """Commits of different content, each with a real fsync."""
    print(f"commits, {after}")
    record_bytes = encode_journal_record([JournalEntry(batch_of(COMMIT_MESSAGES), [Match(1, 5, None)])], [])
    pages = [PageWrite(9, encode_page([Run(first * PAGE_MESSAGES, batch_of(PAGE_MESSAGES))])) for first in range(8)]
    number = store.recover().next_record_number

    settled = encode_journal_record([], [Settlement(9, 5, 6)])

    def journal_job(step: int) -> CommitJob:
        return CommitJob(number=number + step, record=record_bytes)

    def settle_job(step: int) -> CommitJob:
        return CommitJob(number=number + COMMITS + step, record=settled, uses_reserve=True)

    def cursor_job(step: int) -> CheckpointJob:
        cursor = CursorRecord(9, step, [(step + 3, step + 4)], 1 << 20, [])
        return CheckpointJob(applied=number + step, needed_from=number + step, cursor_puts=[cursor])

    def pages_job(_: int) -> CheckpointJob:
        applied = number + 2 * COMMITS - 1
        return CheckpointJob(applied=applied, needed_from=applied + 1, page_writes=pages)

    measure(store.commit, "a record of 300 messages", journal_job, COMMIT_MESSAGES)
    measure(store.commit, "a record of one settlement", settle_job, 0)
    measure(store.checkpoint, "a checkpoint with one cursor, one record trimmed", cursor_job, 0)
    measure(store.checkpoint, "a checkpoint with 8 pages of 250", pages_job, 8 * PAGE_MESSAGES)
    last = pages_job(0).applied
    keys = [PageKey(9, first * PAGE_MESSAGES) for first in range(8)]
    store.checkpoint(CheckpointJob(applied=last, needed_from=last + 1, page_deletes=keys))


def measure(work: Callable[[Job], object], name: str, job_of: Callable[[int], Job], messages: int) -> None:
    """Print the median processor and wall time of one commit or checkpoint."""
    processor: list[float] = []
    wall: list[float] = []
    for step in range(COMMITS):
        job = job_of(step)
        start, start_wall = thread_time_ns(), perf_counter_ns()
        work(job)
        processor.append((thread_time_ns() - start) / 1000)
        wall.append((perf_counter_ns() - start_wall) / 1000)
    report(f"{name} (wall {statistics.median(wall):.0f} us)", statistics.median(processor), messages)


def checkpoint_of(store: SpoolStore, pages: list[PageWrite]) -> CheckpointJob:
    """Return a checkpoint of everything that is committed, which no longer needs the log."""
    number = store.recover().next_record_number
    return CheckpointJob(applied=number - 1, needed_from=number, page_writes=pages)


def fill_backlog(store: SpoolStore) -> None:
    """Store a million messages as pages of one partition."""
    batch = batch_of(PAGE_MESSAGES)
    for start in range(0, BACKLOG_PAGES, 100):
        firsts = [page * PAGE_MESSAGES for page in range(start, start + 100)]
        pages = [PageWrite(1, encode_page([Run(first, batch)])) for first in firsts]
        store.checkpoint(checkpoint_of(store, pages))


def bench_recovery(folder: Path) -> None:
    """Open a store with the backlog, and read it."""
    print(f"recovery of {BACKLOG_PAGES} pages, {BACKLOG_PAGES * PAGE_MESSAGES} messages")
    before = resident_kib()
    start = perf_counter_ns()
    store = SpoolStore.open(folder, map_bytes_max=MAP_BYTES)
    recovery = store.recover()
    list(recovery.journal)
    report("open and recover, wall", (perf_counter_ns() - start) / 1000)
    print_growth("after recovery", before)
    start = perf_counter_ns()
    for page in recovery.pages:
        store.read_page(page.partition_id, page.summary.first_sequence)
    report("read every page, wall", (perf_counter_ns() - start) / 1000, BACKLOG_PAGES * PAGE_MESSAGES)
    print_growth("after reading every page", before)
    report("usage", best(store.usage))
    store.close()


def resident_kib() -> dict[str, int]:
    """Return this process's resident memory by kind."""
    fields = [line.split() for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines()]
    return {field[0].rstrip(":"): int(field[1]) for field in fields if field[0] in ("RssAnon:", "RssFile:")}


def print_growth(moment: str, before: dict[str, int]) -> None:
    """Print the growth of memory."""
    grown = [f"{kind} +{kib - before[kind]} KiB" for kind, kib in resident_kib().items()]
    print(f"  {moment}: {', '.join(grown)}")


def bench_purge(store: SpoolStore) -> None:
    """Delete the backlog in one commit, and the checkpoint that applies it."""
    number = store.recover().next_record_number
    start, start_wall = thread_time_ns(), perf_counter_ns()
    store.commit(CommitJob(number=number, partition_purges=[1], uses_reserve=True))
    store.checkpoint(CheckpointJob(applied=number, needed_from=number + 1))
    wall = (perf_counter_ns() - start_wall) / 1000
    report(f"purge the backlog (wall {wall:.0f} us)", (thread_time_ns() - start) / 1000, BACKLOG_PAGES * PAGE_MESSAGES)


def main() -> None:
    """Run every scenario."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, help="where the store is made and removed (default: a temporary folder)")
    folder = Path(tempfile.mkdtemp(prefix="bench-storage-", dir=parser.parse_args().folder))
    try:
        bench_record()
        store = SpoolStore.open(folder, map_bytes_max=MAP_BYTES)
        bench_commits(store, "empty store")
        fill_backlog(store)
        bench_commits(store, "a million messages waiting")
        store.close()
        bench_recovery(folder)
        store = SpoolStore.open(folder, map_bytes_max=MAP_BYTES)
        bench_purge(store)
        bench_commits(store, "after the purge")
        store.close()
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
