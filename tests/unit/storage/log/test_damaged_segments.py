"""Any flipped bit and any truncation of a segment: what is intact is served, the rest is reported, appends go on."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sluicegate.storage.interface import CheckpointJob, CommitJob, PageWrite, Recovery, Reservation, Table, TableWrite
from sluicegate.storage.log.journal import Journal
from sluicegate.storage.log.segment import HEADER_BYTES
from sluicegate.storage.store.store import SpoolStore
from support.storage.log_files import Framed, flip, frames_in, segments_in
from support.storage.sample_records import page_bytes, publish_job
from support.thorough import examples

INCARNATION = 5
RECORDS = {number: b"record %d " % number * (3 * number) for number in range(1, 7)}
FIRST_OF_SEGMENTS = (1, 4, 6)


def journal_in(folder: Path) -> Journal:
    return Journal(folder / "log", INCARNATION, segment_bytes=4096, sync=False)


def append(folder: Path, *numbers: int) -> None:
    """Append records to a segment of their own."""
    journal = journal_in(folder)
    journal.open_for_appending(0)
    for number in numbers:
        journal.append(number, [RECORDS.get(number, b"new")], uses_reserve=False)
    journal.close()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log of three segments."""
    folder = tmp_path_factory.mktemp("journal")
    (folder / "log").mkdir()
    append(folder, 1, 2, 3)
    append(folder, 4, 5)
    append(folder, 6)
    return folder


def check(folder: Path, harmed: set[int], *, is_silent: bool = False) -> None:
    """Check that all other records are read as they were, that the harm is told, and that appends go on."""
    journal = journal_in(folder)
    entries = {entry.number: entry for entry in journal.read(1)}
    for number, record in RECORDS.items():
        if number not in harmed:
            assert (entries[number].data, entries[number].is_sound) == (record, True)
        elif number in entries:
            assert not entries[number].is_sound
    is_told = journal.damages or journal.gaps or journal.torn or not all(each.is_sound for each in entries.values())
    assert is_told or is_silent
    journal.close()
    append(folder, new := journal.last_number + 1)
    found = {entry.number: entry for entry in journal_in(folder).read(1)}
    assert found[new].data == RECORDS.get(new, b"new")
    for number, entry in entries.items():
        assert found[number] == entry


def copies(folder: Path, tmp_path: Path) -> Iterator[Path]:
    """Yield copies without end; each is removed when the next one is asked for."""
    while True:
        copy = shutil.copytree(folder, tmp_path / "copy")
        yield copy
        shutil.rmtree(copy)


def harmed_by(frames: list[Framed], offset: int, path_name: str) -> tuple[set[int], bool]:
    """Return the record that a byte of a segment belongs to, and whether nobody may notice."""
    for frame in frames:
        if frame.path.name == path_name and frame.head <= offset < frame.end:
            is_head = offset < frame.start
            return {frame.number}, is_head and frame.number == max(RECORDS)
    return set(), offset >= HEADER_BYTES or offset >= 36  # padding, and zeros behind the header


def test_a_flipped_bit_costs_the_record_that_has_it(folder: Path, tmp_path: Path) -> None:
    """Of a header it costs nothing. In the head of the last frame it looks like an append that never ended."""
    frames = frames_in(folder)
    assert [frame.number for frame in frames] == list(RECORDS)
    copied = copies(folder, tmp_path)
    for path in segments_in(folder):
        end = max(frame.end for frame in frames if frame.path == path)
        for offset in range(end):
            copy = next(copied)
            flip(copy / "log" / path.name, offset, 1 << offset % 8)
            harmed, is_silent = harmed_by(frames, offset, path.name)
            check(copy, harmed, is_silent=is_silent)


def test_a_truncated_segment_costs_the_records_behind_its_end(folder: Path, tmp_path: Path) -> None:
    """Of the last segment it looks like appends that never ended."""
    frames = frames_in(folder)
    copied = copies(folder, tmp_path)
    for path in segments_in(folder):
        of_this = [frame for frame in frames if frame.path == path]
        for size in {*range(0, of_this[-1].end, 5), *[frame.start for frame in of_this], HEADER_BYTES}:
            copy = next(copied)
            with (copy / "log" / path.name).open("r+b") as file:
                file.truncate(size)
            harmed = {frame.number for frame in of_this if frame.end > size}
            check(copy, harmed, is_silent=path == segments_in(folder)[-1])


def test_a_segment_that_is_gone_is_told(folder: Path, tmp_path: Path) -> None:
    copied = copies(folder, tmp_path)
    for path in segments_in(folder)[:-1]:
        copy = next(copied)
        (copy / "log" / path.name).unlink()
        check(copy, {frame.number for frame in frames_in(folder) if frame.path == path})


@pytest.fixture(scope="module")
def spool(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A spool whose log has all kinds of parts, in two segments, and which nothing was applied of."""
    folder = tmp_path_factory.mktemp("spool")
    for numbers in (range(1, 5), range(5, 9)):
        store = opened(folder)
        for number in numbers:
            store.commit(job_of(number))
        store.close()
    return folder


def opened(folder: Path) -> SpoolStore:
    return SpoolStore.open(folder, map_bytes_max=16 << 20, reserve_bytes=1 << 20, sync=False)


def job_of(number: int) -> CommitJob:
    return CommitJob(
        number=number,
        record=publish_job(number).record,
        table_writes=[
            TableWrite(Table.RETAINED, b"%d" % number, b"v"),
            TableWrite(Table.SESSIONS, b"s", b"%d" % number),
        ],
        staged_pages=[PageWrite(2, page_bytes(number * 1000))],
        reservations=[Reservation(1, 0, number * 1000 + 3)],
    )


def served(recovery: Recovery) -> tuple[set[int], set[int], set[int]]:
    """Return the records whose message, row, and staged page are there."""
    messages = {number for number, record in recovery.journal if record.entries}
    rows = {int(key) for key, _ in recovery.tables[Table.RETAINED]}
    for _ in recovery.tables[Table.SESSIONS]:
        pass
    pages = {page.summary.first_sequence // 1000 for page in recovery.pages}
    return messages, rows, pages


def check_spool(folder: Path, damaged: set[int], *, is_silent: bool) -> None:
    """Open, recover, append, and open again, with and without a checkpoint."""
    store = opened(folder)
    recovery = store.recover()
    before = served(recovery)
    intact = set(range(1, 9)) - damaged
    for found in before:
        assert intact <= found <= set(range(1, 9))
    if not all(found == set(range(1, 9)) for found in before):
        assert recovery.quarantined or recovery.torn or is_silent
    number = recovery.next_record_number
    store.commit(job_of(number))
    store.close()
    store = opened(folder)
    again = store.recover()
    for found, earlier in zip(served(again), before, strict=True):
        assert found == earlier | {number}
    store.checkpoint(CheckpointJob(applied=number, needed_from=1))
    store.close()
    store = opened(folder)
    for found, earlier in zip(served(store.recover()), before, strict=True):
        assert found == earlier | {number}
    store.close()


@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_spool_with_a_flipped_bit_or_a_truncated_segment_serves_the_rest(
    spool: Path, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    copy = tmp_path_factory.mktemp("copy") / "spool"
    shutil.copytree(spool, copy, ignore=shutil.ignore_patterns("spare*"))
    frames = frames_in(copy)
    path = data.draw(st.sampled_from(segments_in(copy)))
    of_this = [frame for frame in frames if frame.path == path]
    is_last = path == segments_in(copy)[-1]
    offset = data.draw(st.integers(0, of_this[-1].end - 1))
    if data.draw(st.booleans()):
        with path.open("r+b") as file:
            file.truncate(offset)
        damaged = {frame.number for frame in of_this if frame.end > offset}
        is_silent = is_last
    else:
        flip(path, offset, 1 << data.draw(st.integers(0, 7)))
        damaged = {frame.number for frame in of_this if frame.head <= offset < frame.end}
        is_silent = is_last and of_this[-1].head <= offset < of_this[-1].start
    check_spool(copy, damaged, is_silent=is_silent)
    shutil.rmtree(copy.parent)
