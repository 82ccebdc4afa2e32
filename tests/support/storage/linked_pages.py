"""Work with linked pages: messages that are committed, moved into pages, and read."""

from pathlib import Path

from sluicegate.messaging.message.batch import MessageBatch
from sluicegate.storage.backup.backup import Backup
from sluicegate.storage.backup.reader import SpoolReader
from sluicegate.storage.interface import CheckpointJob, CommitJob, PageKey, PageWrite
from sluicegate.storage.log.kept import kept_files
from sluicegate.storage.records.journal import JournalEntry, Match, encode_journal_record
from sluicegate.storage.records.page import Run, encode_page
from sluicegate.storage.store.store import SpoolStore
from support.storage.sample_records import batch, rows_of
from support.storage.store_work import next_number, trim

P = 1
PAYLOAD = 20_000


def numbered(number: int, *, payload_bytes: int = PAYLOAD) -> MessageBatch:
    """A batch of two messages that only this number has."""
    return batch(2, payload=(b"%d." % number).ljust(payload_bytes, b"x"))


def publish(store: SpoolStore, count: int, *, payload_bytes: int = PAYLOAD) -> list[int]:
    """Commit records with a batch each for P, with sequences from ten times their number; return the numbers."""
    numbers = [next_number(store) + each for each in range(count)]
    for number in numbers:
        entry = JournalEntry(numbered(number, payload_bytes=payload_bytes), [Match(P, number * 10, None)])
        store.commit(CommitJob(number=number, record=encode_journal_record([entry], [])))
    return numbers


def page_out(store: SpoolStore, numbers: list[int], *, payload_bytes: int = PAYLOAD) -> PageKey:
    """Move the messages of these records into one page; no record is needed any more."""
    runs = [Run(number * 10, numbered(number, payload_bytes=payload_bytes)) for number in numbers]
    last = next_number(store) - 1
    key = PageKey(P, runs[0].first_sequence)
    job = CheckpointJob(
        applied=last,
        needed_from=last + 1,
        page_writes=[PageWrite(P, encode_page(runs))],
        log_records={key: numbers},
    )
    store.checkpoint(job)
    return key


def delete(store: SpoolStore, *keys: PageKey) -> None:
    last = next_number(store) - 1
    store.checkpoint(CheckpointJob(applied=last, needed_from=last + 1, page_deletes=list(keys)))


def read(store: SpoolStore | SpoolReader, key: PageKey) -> dict[int, bytes]:
    """Return the beginnings of the messages of a page, by sequence."""
    runs = store.read_page(*key).runs
    return {run.first_sequence: rows_of(run.batch)[0][1][:8].rstrip(b"x") for run in runs}


def contents(numbers: list[int]) -> dict[int, bytes]:
    return {number * 10: b"%d." % number for number in numbers}


def kept(store: SpoolStore) -> list[Path]:
    """Return the kept files of a log."""
    return [store.folder / "log" / name for name in sorted(kept_files([each.name for each in log_of(store)]))]


def log_of(store: SpoolStore) -> list[Path]:
    return sorted((store.folder / "log").iterdir())


def fill_segment(store: SpoolStore) -> None:
    """Commit and settle so much that the log goes on in another file."""
    for _ in range(3):
        publish(store, 1, payload_bytes=200_000)
    trim(store)


def backup_of(store: SpoolStore, folder: Path) -> None:
    Backup(store, folder, incarnation=store.recover().incarnation, taken_ms=0, node="node", release="0").run()
