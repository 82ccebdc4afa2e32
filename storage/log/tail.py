"""The records of the log that the state does not include yet. What they change is read here before the state.

A checkpoint applies the records up to a number, and removes them here when the state has them. Its reader looks here
first and in the state then, so it finds everything at each moment.
"""

import threading
from collections import deque
from collections.abc import Iterable
from typing import Final, final

from sluicegate.storage.interface import PageEntry, PageKey, Reservation, Table
from sluicegate.storage.log.record import LogRecord, page_key_of
from sluicegate.storage.records.cursor import CursorRecord, with_reservation
from sluicegate.storage.records.page import decode_page_summary

_SHARED_PAGE_BYTES_MAX: Final = 2000  # smaller values share a database page, larger ones have pages of their own
_PAGE_BYTES: Final = 4096
_KEY_BYTES: Final = 128  # key and node, with a margin for a page split in two


@final
class LogTail:
    """The records above the last one that the state includes, without the messages in their journal records.

    `growth_bytes` is an upper estimate of what applying them adds to the state.
    """

    def __init__(self) -> None:
        self.growth_bytes = 0
        self._lock = threading.Lock()
        self._records: deque[tuple[int, LogRecord, int]] = deque()  # with the growth that each brings
        self._pages: dict[PageKey, bytes] = {}

    def add(self, number: int, record: LogRecord) -> None:
        """Take a record that is in the log. Only what a checkpoint applies is kept."""
        if not (record.staged_pages or record.reservations or record.rows or record.partition_purges):
            return
        applied = LogRecord(None, record.staged_pages, record.reservations, record.rows, record.partition_purges)
        growth_bytes = growth_of(record)
        with self._lock:
            self._records.append((number, applied, growth_bytes))
            for write in record.staged_pages:
                self._pages[page_key_of(write)] = write.page
            self.growth_bytes += growth_bytes

    def through(self, number: int) -> list[LogRecord]:
        """Return the records up to a number, in order."""
        with self._lock:
            return [record for each, record, _ in self._records if each <= number]

    def applied(self, number: int) -> None:
        """Remove the records up to a number: the state includes them."""
        with self._lock:
            while self._records and self._records[0][0] <= number:
                _, record, growth_bytes = self._records.popleft()
                self.growth_bytes -= growth_bytes
                for write in record.staged_pages:
                    self._pages.pop(page_key_of(write), None)

    def page(self, key: PageKey) -> bytes | None:
        """Return a staged page, None when none of the records has it."""
        return self._pages.get(key)


@final
class TailChanges:
    """What some records change together, in the forms that a start reads."""

    def __init__(self, records: Iterable[LogRecord]) -> None:
        self.rows: dict[Table, dict[bytes, bytes | None]] = {table: {} for table in Table}  # by stored key
        self.pages: dict[PageKey, bytes] = {}
        self.reservations: dict[int, Reservation] = {}
        self.purged: set[int] = set()
        for record in records:
            for write in record.staged_pages:
                self.pages[page_key_of(write)] = write.page
            for reservation in record.reservations:
                known = self.reservations.get(reservation.partition_id)
                if known is None or known.next_sequence < reservation.next_sequence:
                    self.reservations[reservation.partition_id] = reservation
            for table, key, data in record.rows:
                self.rows[table][key] = data
            if record.partition_purges:
                self._purge(set(record.partition_purges))

    def change_cursors(self, cursors: dict[int, CursorRecord], *, lost: set[int]) -> None:
        """Change the cursors of the state. A lost one is not made anew: the sequences used are unknown."""
        for partition_id in self.purged:
            cursors.pop(partition_id, None)
        for partition_id, reservation in self.reservations.items():
            if partition_id not in lost:
                cursors[partition_id] = with_reservation(cursors.get(partition_id), *reservation)

    def change_pages(self, pages: list[PageEntry]) -> list[PageEntry]:
        """Return the directory of pages with the changes, by partition and sequence as it was."""
        changed = [
            page
            for page in pages
            if page.partition_id not in self.purged
            and PageKey(page.partition_id, page.summary.first_sequence) not in self.pages
        ]
        if self.pages:
            changed += [PageEntry(key.partition_id, decode_page_summary(page)) for key, page in self.pages.items()]
            changed.sort(key=lambda page: (page.partition_id, page.summary.first_sequence))
        return changed

    def _purge(self, partition_ids: set[int]) -> None:
        self.purged |= partition_ids
        self.pages = {key: page for key, page in self.pages.items() if key.partition_id not in partition_ids}
        for partition_id in partition_ids:
            self.reservations.pop(partition_id, None)


def growth_of(record: LogRecord) -> int:
    """Return an upper estimate of the database pages that a record adds to the state, in bytes."""
    if not record.staged_pages and not record.rows:  # most commits: nothing but messages and settlements
        return _KEY_BYTES * len(record.reservations)
    values = [len(write.page) for write in record.staged_pages]
    values += [len(row.key) + len(row.data) for row in record.rows if row.data is not None]
    return growth_of_values(values) + _KEY_BYTES * len(record.reservations)


def growth_of_values(sizes: list[int]) -> int:
    """Return an upper estimate of the database pages for values of these sizes, in bytes."""
    shared = sum([2 * size + _KEY_BYTES for size in sizes if size <= _SHARED_PAGE_BYTES_MAX])
    return shared + sum([size + _PAGE_BYTES + _KEY_BYTES for size in sizes if size > _SHARED_PAGE_BYTES_MAX])
