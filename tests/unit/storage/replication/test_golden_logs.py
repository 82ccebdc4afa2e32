"""The bytes of a whole log at each feature level, kept as files: what one release wrote, every later one must read.

A file of `tests/data/replication` is the log of a level, a message in each line. `LEVEL_1` names everything that a log
of that level may have. Who adds to it, or writes other bytes, needs another level: replicas of an earlier release read
the log while others are upgraded, and would fail when they take over.
"""

import asyncio
import dataclasses
from pathlib import Path
from typing import Final

import pytest

from sluicegate.messaging.queues.attributes import ATTRIBUTES
from sluicegate.storage.interface import CommitJob, PageWrite, Reservation, Table, TableWrite
from sluicegate.storage.log.record import RECORD_FORMAT, encode_log_record, record_of
from sluicegate.storage.records.batch import BATCH_FORMAT
from sluicegate.storage.records.cursor import CURSOR_FORMAT, CursorRecord
from sluicegate.storage.records.journal import (
    JOURNAL_FORMAT,
    JournalEntry,
    Match,
    Settlement,
    encode_journal_record,
)
from sluicegate.storage.records.page import PAGE_FORMAT, SUMMARY_FORMAT, Run, encode_page
from sluicegate.storage.records.retained import RETAINED_FORMAT
from sluicegate.storage.records.table import ROW_FORMAT
from sluicegate.storage.replication import replica as replica_module
from sluicegate.storage.replication.levels import LEVEL, LEVEL_OLDEST
from sluicegate.storage.replication.messages import Begin, Kind, decode_clean, encode_clean
from sluicegate.storage.replication.replica import Append, Replica, first_message
from support.cores.messages import batch_of
from support.cores.replicated_log import ServedStream
from support.storage.replicas import Following, content_of

GOLDEN: Final = Path(__file__).parents[3] / "data" / "replication"
BEGIN: Final = Begin(incarnation=7, broker="edge")
PART_BYTES: Final = 200  # of a large record here
CURSOR: Final = CursorRecord(1, 2, [], 1001, [(2, 3, 4)], ((2, 1_700_000_000_000, -2),))

FACTS: Final = CommitJob(
    number=3,
    record=encode_journal_record([JournalEntry(batch_of([b"one", b"two"]), [Match(1, 1, None), Match(2, 1, [1])])], []),
    staged_pages=[PageWrite(3, encode_page([Run(1, batch_of([b"staged"]))]))],
    reservations=[Reservation(1, 1, 1001), Reservation(2, 1, 1001), Reservation(3, 1, 1001)],
    table_writes=[TableWrite(table, b"key", table.value.encode()) for table in Table],
)
CHANGES: Final = CommitJob(
    number=6,
    record=encode_journal_record([], [Settlement(1, 1, 2)]),
    table_writes=[TableWrite(Table.RETAINED, b"key", None)],
    partition_purges=[2],
)


class Written:
    """A log as its owner writes it, when the servers store all at once."""

    def __init__(self) -> None:
        self.messages = [first_message(BEGIN, 1000)]
        self.replica = Replica("a", "1.0")
        self.replica.read(1, self.messages[0])
        self.replica.take_key(5)
        epoch = self.replica.append_epoch(1, time_ms=1001)
        assert epoch is not None
        self.messages.append(epoch.data)
        self.replica.read(2, epoch.data)

    def store(self, appends: list[Append]) -> None:
        for append in appends:
            self.messages.append(append.data)
            self.replica.confirm(append, len(self.messages))


def written_log() -> list[bytes]:
    """Return a log with each kind of message, and with all that a record can have."""
    log = Written()
    log.store(log.replica.propose(encode_log_record(record_of(FACTS)), 1002))
    log.replica.propose(b"what is given up", 1003)
    log.store([log.replica.cancel(1004, len(log.messages) + 1)])
    log.store(log.replica.propose(encode_log_record(record_of(CHANGES)), 1005))
    log.store(log.replica.propose(b"", 1006))
    log.store(log.replica.close(encode_clean([CURSOR]), 1007))
    return log.messages


def golden(level: int) -> list[bytes]:
    """Return the messages of a stored log."""
    lines = (GOLDEN / f"log_level_{level}.hex").read_text(encoding="utf-8").splitlines()
    return [bytes.fromhex(line) for line in lines if not line.startswith("#")]


def test_this_release_writes_the_golden_log(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replica_module, "PART_BYTES_MAX", PART_BYTES)
    assert written_log() == golden(LEVEL_OLDEST)


@pytest.mark.parametrize("level", range(LEVEL_OLDEST, LEVEL + 1))
def test_the_golden_log_of_each_level_is_applied(level: int, tmp_path: Path) -> None:
    stream = ServedStream()
    stream.model.messages[:] = golden(level)
    standby = Following(tmp_path, stream, "b")
    asyncio.run(standby.read_all())
    found = content_of(standby.store)
    assert standby.replica.level == level
    assert found.messages == {(1, 2): b"two", (3, 1): b"staged"}
    assert found.cursors == {1: (2, [], 1001), 3: (1, [], 1001)}
    assert found.rows == {table: {} if table is Table.RETAINED else {b"key": table.value.encode()} for table in Table}
    assert found.quarantined_count == 0
    asyncio.run(standby.log.take_over(6))
    assert standby.replica.clean is not None
    assert decode_clean(standby.replica.clean, "it") == {1: CURSOR}
    standby.store.close()


LEVEL_1: Final = {
    "kinds of messages": "BEGIN EPOCH PART RECORD CANCEL CLEAN HANDED LEVEL",
    "tables": "catalog owners retained sessions readers transactions",
    "formats": "record 1, row 1, journal 2, batch 4, page 2, summary 3, cursor 2, retained 129",
    "fields of a commit": (
        "number record staged_pages reservations table_writes partition_purges uses_reserve"  # the last is not written
    ),
}


def test_a_log_has_nothing_that_its_level_does_not_name() -> None:
    """A difference here needs another level, `storage.replication.levels`, unless no release had this one yet."""
    formats = {
        "record": RECORD_FORMAT,
        "row": ROW_FORMAT,
        "journal": JOURNAL_FORMAT,
        "batch": BATCH_FORMAT,
        "page": PAGE_FORMAT,
        "summary": SUMMARY_FORMAT,
        "cursor": CURSOR_FORMAT,
        "retained": RETAINED_FORMAT,
    }
    found = {
        "kinds of messages": " ".join(kind.name for kind in Kind),
        "tables": " ".join(table.value for table in Table),
        "formats": ", ".join(f"{name} {number}" for name, number in formats.items()),
        "fields of a commit": " ".join(field.name for field in dataclasses.fields(CommitJob)),
    }
    assert found == LEVEL_1


def test_a_queue_has_no_attribute_that_its_level_does_not_name() -> None:
    """Definitions are rows of the log, and an earlier release cannot read an attribute that it does not know."""
    names = (GOLDEN / "queue_attributes_level_1.txt").read_text(encoding="utf-8").split()
    assert sorted(attribute.name for attribute in ATTRIBUTES) == names
