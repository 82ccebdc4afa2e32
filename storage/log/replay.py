"""Reads the log after a start: the records that the state does not include, and the messages that no page has."""

from collections.abc import Iterator
from typing import NamedTuple, Protocol, final

from sluicegate.storage.environment.identity import Positions
from sluicegate.storage.errors import DamagedRecord
from sluicegate.storage.interface import LogEntry, LogGap, Quarantined
from sluicegate.storage.log.record import LogRecord, decode_log_record
from sluicegate.storage.records.journal import JournalRecord, decode_journal_record


class ReadableLog(Protocol):
    """A log that is read: a journal, or the records in a data file."""

    @property
    def place(self) -> str:
        """The name of the log in reports."""

    @property
    def first_number(self) -> int:
        """The least number that a record may have: there is none below it."""

    @property
    def last_number(self) -> int:
        """The number of the last record; 0 when there is none."""

    @property
    def damages(self) -> list[tuple[str, str]]:
        """Place and problem of what no record can be read of."""

    @property
    def gaps(self) -> list[LogGap]:
        """The numbers of records that are missing between others, and at the ends."""

    def read(self, first: int) -> Iterator[LogEntry]:
        """Yield the records from number `first` on."""


class DamagedEntry(NamedTuple):
    """A record of the log that cannot be read, or some of it cannot."""

    entry: LogEntry
    what: Quarantined


@final
class Replay:
    """One pass over the log of a store. `damaged` collects what cannot be read; the rest is served."""

    def __init__(self, log: ReadableLog, positions: Positions) -> None:
        self._log = log
        self._positions = positions
        self._damaged: dict[int, tuple[LogEntry, list[str]]] = {}  # by record number; what cannot be read of it
        self.missing = self._missing()

    @property
    def damaged(self) -> list[DamagedEntry]:
        """The records read so far that are damaged, one entry for each."""
        found: list[DamagedEntry] = []
        for entry, details in self._damaged.values():
            detail = " and ".join(details) or "its checksum does not match, and those of its parts do"
            found.append(DamagedEntry(entry, Quarantined(_place(entry), "damaged", detail)))
        return found

    def unapplied(self) -> Iterator[tuple[int, LogRecord]]:
        """Yield the records that the state does not include. Raises UnsupportedFormat, OSError."""
        for entry in self._log.read(self._positions.applied + 1):
            record = self._record(entry)
            if record is not None:
                yield entry.number, record

    def journal(self) -> Iterator[tuple[int, JournalRecord]]:
        """Yield the journal records whose messages or settlements the state may lack; find all damage on the way.

        Raises UnsupportedFormat, OSError.
        """
        for entry in self._log.read(min(self._positions.needed_from, self._positions.applied + 1)):
            record = self._record(entry)
            if record is None:
                continue
            if record.lost and entry.number > self._positions.applied:
                self._found(entry, record.lost)
            if record.journal is None:
                continue
            try:
                journal = decode_journal_record(record.journal, _place(entry))
            except DamagedRecord as error:
                self._found(entry, error.reason)
                continue
            if journal.lost:
                self._found(entry, journal.lost)
            yield entry.number, journal

    def _record(self, entry: LogEntry) -> LogRecord | None:
        if not entry.is_sound:
            self._damaged.setdefault(entry.number, (entry, []))
        try:
            return decode_log_record(entry.data, _place(entry), is_sound=entry.is_sound)
        except DamagedRecord as error:
            self._found(entry, error.reason)
            return None

    def _found(self, entry: LogEntry, detail: str) -> None:
        _, details = self._damaged.setdefault(entry.number, (entry, []))
        if detail not in details:
            details.append(detail)

    def is_missing(self) -> bool:
        """Return whether the state needs records, and there are none at all."""
        return self._log.last_number == 0 and self._positions.needed_from <= self._positions.applied

    def _missing(self) -> list[Quarantined]:
        """Return what is known to be lost without a record of it."""
        found = [Quarantined(where, "damaged", problem) for where, problem in self._log.damages]
        applied = self._positions.applied
        needed = min(self._positions.needed_from, applied + 1)
        gaps = list(self._log.gaps)
        if self._log.last_number < applied:
            gaps.append(LogGap(self._log.last_number + 1, applied, self._log.place))
        for gap in gaps:
            if gap.last >= needed:
                first = max(gap.first, needed)
                found.append(Quarantined(gap.where, "cut short", f"its records from {first} to {gap.last} are missing"))
        return found


def _place(entry: LogEntry) -> str:
    return f"log record {entry.number}"
