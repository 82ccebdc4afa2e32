"""A power failure at every moment: what was confirmed is there, what was refused is not, and nothing is half there."""

import shutil
from pathlib import Path
from random import Random

import pytest

from sluicegate.storage.errors import CommitInDoubt, StoreFailed
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
from support.storage.power_loss import Disk, Recorder
from support.storage.sample_records import page_bytes, publish_job

COMMITS = 26
PAYLOAD_BYTES = 20_000  # of which three make a record: some records fill a segment
LONG = 10  # the record that takes a larger segment
LONG_BYTES = 90_000
DELETED = {1, 2, 3, 4}  # their pages are deleted by a checkpoint, and the files of the log that these linked to go
RANDOM_STATES = 2  # of the disk, for each moment
SEED = 29


def opened(folder: Path, *, sync: bool) -> SpoolStore:
    return SpoolStore.open(folder, map_bytes_max=64 << 20, reserve_bytes=1 << 20, sync=sync)


def payload_of(number: int, payload_bytes: int = PAYLOAD_BYTES) -> bytes:
    return b"%07d" % number * (payload_bytes // 7)


def job_of(number: int, payload_bytes: int = PAYLOAD_BYTES) -> CommitJob:
    return CommitJob(
        number=number,
        record=publish_job(number, payload=payload_of(number, payload_bytes)).record,
        table_writes=[
            TableWrite(Table.RETAINED, b"%d" % number, b"v"),
            TableWrite(Table.CATALOG, b"q", b"%d" % number),
        ],
        staged_pages=[PageWrite(2, page_bytes(number * 1000))],
        reservations=[Reservation(1, 0, number * 1000 + 3)],
    )


def run(recorder: Recorder, folder: Path) -> None:
    """Commit, fail, make checkpoints, and start anew; note what a client would know."""
    store = opened(folder, sync=True)
    moved: list[int] = []
    payloads: dict[int, bytes] = {}
    recorder.note(("begun",))
    for number in range(1, COMMITS + 1):
        if number % 9 == 0:
            store.close()
            store = opened(folder, sync=True)
        if number in (7, 20):
            recorder.failing_syncs = 1
            with pytest.raises(StoreFailed):
                store.commit(job_of(number))
            recorder.note(("refused", number))
            continue
        if number in (13, 16):
            recorder.failing_syncs = 2  # also that of the overwritten frame
            with pytest.raises(CommitInDoubt):
                store.commit(job_of(number))
        if number == 16:
            recorder.sound_syncs, recorder.failing_syncs = 2, 1  # it is voided twice, and then fails again
            with pytest.raises(StoreFailed) as failed:
                store.commit(job_of(number))
            assert not isinstance(failed.value, CommitInDoubt)
            recorder.note(("refused", number))
            continue
        payload_bytes = LONG_BYTES if number == LONG else PAYLOAD_BYTES if number % 3 else 100
        payloads[number] = payload_of(number, payload_bytes)
        store.commit(job_of(number, payload_bytes))
        recorder.note(("confirmed", number))
        moved.append(number)
        if number % 5 == 0:
            job = CheckpointJob(
                applied=number,
                needed_from=number,
                page_deletes=[PageKey(1, each * 1000) for each in sorted(DELETED)] if number == 15 else [],
                page_writes=[PageWrite(1, page_bytes(each * 1000, payload=payloads[each])) for each in moved[:-1]],
                log_records={PageKey(1, each * 1000): [each] for each in moved[:-1]},
                cursor_puts=[CursorRecord(1, 0, [], number * 1000 + 3, [])],
            )
            store.checkpoint(job)
            recorder.note(("checkpoint", number))
            moved = moved[-1:]
    store.close()


def numbers_in(recovery: Recovery) -> set[int]:
    """Return the numbers that are there, after a look at each place: a commit is in all of them, or in none."""
    journaled = {number for number, _ in recovery.journal}
    paged = {page.summary.first_sequence // 1000 for page in recovery.pages if page.partition_id == 1}
    staged = {page.summary.first_sequence // 1000 for page in recovery.pages if page.partition_id == 2}
    rows = {int(key) for key, _ in recovery.tables[Table.RETAINED]}
    assert journaled | paged | (DELETED & rows) == staged == rows
    newest = max(rows, default=0)
    assert dict(recovery.tables[Table.CATALOG]) == ({b"q": b"%d" % newest} if newest else {})
    if newest:
        assert recovery.cursors[1].next_sequence == newest * 1000 + 3
    assert recovery.quarantined == []
    return rows


def check_pages(store: SpoolStore, recovery: Recovery) -> None:
    """Read the pages that were moved: large ones link to the log."""
    for page in recovery.pages:
        first = page.summary.first_sequence
        if page.partition_id == 1:
            found = store.read_page(1, first)
            assert found.lost == ""
            assert {payload[:7] for run in found.runs for payload in run.batch.payloads()} == {
                b"%07d" % (first // 1000)
            }


def check(folder: Path, confirmed: set[int], in_progress: int) -> None:
    """Start on what a power failure left, twice, with a commit and a checkpoint between."""
    store = opened(folder, sync=False)
    recovery = store.recover()
    found = numbers_in(recovery)
    check_pages(store, recovery)
    assert found in (confirmed, confirmed | {in_progress})
    new = max(recovery.next_record_number, COMMITS + 10)
    store.commit(job_of(new, 100))
    store.close()
    store = opened(folder, sync=False)
    assert numbers_in(store.recover()) == found | {new}
    oldest = min(number for number, _ in store.recover().journal)
    store.checkpoint(CheckpointJob(applied=new, needed_from=oldest))
    store.close()
    store = opened(folder, sync=False)
    recovery = store.recover()
    assert numbers_in(recovery) == found | {new}
    check_pages(store, recovery)
    store.close()


def test_a_power_failure_at_any_moment_loses_nothing_that_was_confirmed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with monkeypatch.context() as patch:
        recorder = Recorder(patch, tmp_path / "spool")
        run(recorder, tmp_path / "spool")
    events = recorder.events
    kinds = {event.kind for event in events}
    assert kinds >= {"create", "write", "sync", "rename", "sync_names", "database", "note"}
    choice = Random(SEED)
    disk = Disk()
    confirmed: set[int] = set()
    in_progress = 1
    has_begun = False
    for event in events:
        disk.apply(event)
        if event.kind == "note":
            has_begun = True
            match event.note:
                case ("confirmed", int(number)):
                    confirmed.add(number)
                    in_progress = number + 1
                case ("refused", int(number)):
                    in_progress = number + 1
        if not has_begun:
            continue
        states: list[tuple[Random | None, bool]] = [(None, False), (None, True), *[(choice, False)] * RANDOM_STATES]
        is_certain = not disk.writes and not disk.changes
        for random, everything in states[:1] if is_certain else states:
            folder = tmp_path / "found"
            disk.after_power_loss(folder, random, everything=everything)
            check(folder, confirmed, in_progress)
            shutil.rmtree(folder)
