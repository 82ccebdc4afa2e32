"""The plan of the next commit, and of the journal's trimming. The pure core of the spool actor.

Publications and settlements collect here until a commit takes them. A publication whose messages are all settled by
then is never written: its publisher is confirmed at once. Journal records are trimmed oldest first, once all their
messages are settled or paged; by then the partitions' cursors contain their settlements.

A publication that moves messages, or is a transaction, carries settlements of other partitions. The record that has the
publication also has these settlements. So a moving message is in exactly one of its two places, even after a power
failure. A move takes room only briefly, so it may use the reserve of a full store.

See also: the publications that are due for a commit (storage.commit.pending), the records that may be trimmed
(storage.commit.journal), the time between two commits (the spool actor), the bytes (storage.records), LMDB
(storage.store.store).
"""

from collections.abc import Callable
from typing import Final, final

from sluicegate.messaging.message.publication import UNWRITTEN, Publication
from sluicegate.messaging.message.ranges import RangeSet
from sluicegate.storage.commit.journal import RECORDS_TRIMMED_MIN, JournalIndex, JournalSlot
from sluicegate.storage.commit.pending import PendingPublications
from sluicegate.storage.interface import CommitJob, PageDamage, PageKey, PageWrite, Table, TableWrite
from sluicegate.storage.records.cursor import CursorRecord
from sluicegate.storage.records.journal import JournalEntry, Match, Settlement, encode_journal_record

# Per partition and reservation; a crash skips what is left of it. Consumers get messages before they are on disk, so
# half of it has to outlast the slowest commit: half a second at a million messages per second in one partition.
SEQUENCES_RESERVED: Final = 1 << 20


@final
class PartitionCursor:
    """The settled sequences of a partition, as the next commits will store them."""

    def __init__(self, partition_id: int, floor: int, next_sequence_reserved: int) -> None:
        self.partition_id = partition_id
        self.floor = floor
        self.settled = RangeSet()  # above the floor
        self.next_sequence_reserved = next_sequence_reserved

    def settle(self, first: int, end: int) -> None:
        """Note `[first, end)` as settled."""
        if first > self.floor:
            self.settled.add(first, end)
            return
        if end > self.floor:
            self.floor = end
        settled = self.settled
        while settled.total > 0 and settled.lowest() <= self.floor:
            if settled.lowest_end() > self.floor:
                self.floor = settled.lowest_end()
            settled.discard(settled.lowest(), settled.lowest_end())

    def state(
        self, redelivered: list[tuple[int, int, int]], delays: tuple[tuple[int, int, int], ...] = ()
    ) -> CursorRecord:
        """Return the form that is written."""
        return CursorRecord(
            self.partition_id, self.floor, self.settled.ranges(), self.next_sequence_reserved, redelivered, delays
        )


@final
class Commit:
    """A commit job, and the requests to answer when it succeeds or fails."""

    def __init__(
        self,
        job: CommitJob,
        publications: list[Publication],
        tables: "list[TableRequest]",
        pages: "list[PageRequest]",
        settlements: list[Settlement],
        elided: list[Publication],
    ) -> None:
        self.job = job
        self.publications = publications
        self.elided = elided  # only their session rows are written
        self.tables = tables
        self.pages = pages
        self.settlements = settlements


@final
class TableRequest:
    """Rows to write, and the callback for when they are safe (with an empty reason) or cannot be written.

    `uses_reserve` is for rows that consumers need to continue, so that a full store can be emptied. `until_done` is for
    rows that must not outlive the deletions of the same commit: they are retried with it until it succeeds.
    `settlements` take effect with the commit that writes the request, and never when the request is given up before.
    `left` is called when the rows are written or never will be, and the planner no longer keeps the request.
    """

    def __init__(
        self,
        writes: list[TableWrite],
        done: Callable[[str], None],
        *,
        uses_reserve: bool = False,
        until_done: bool = False,
        settlements: list[Settlement] | None = None,
        left: Callable[[], None] | None = None,
    ) -> None:
        self.writes = writes
        self.left = left
        self.settlements = settlements
        self.done = done
        self.uses_reserve = uses_reserve or until_done
        self.until_done = until_done
        self.is_given_up = False  # the requester has been told that the rows are not stored

    def end(self, reason: str) -> None:
        """Answer the requester, unless the request was given up: the rows are written, or never will be."""
        if not self.is_given_up:
            self.done(reason)
        if self.left is not None:
            self.left()

    def give_up(self, reason: str) -> None:
        """Answer the requester now. Rows that must be written stay in the queue."""
        if not self.is_given_up:
            self.done(reason)
            self.is_given_up = True


@final
class PageRequest:
    """Pages to write, and the callback for when they are safe (True) or cannot be written."""

    def __init__(self, pages: list[PageWrite], done: Callable[[bool], None]) -> None:
        self.pages = pages
        self.done = done


@final
class CommitPlanner:
    """Collects work for the store and accounts for the journal.

    Invariant: at most one commit is in progress.
    """

    def __init__(self, *, next_record_number: int, records_trimmed_min: int = RECORDS_TRIMMED_MIN) -> None:
        self.next_record_number = next_record_number
        self.journal = JournalIndex(records_trimmed_min)
        self.cursors: dict[int, PartitionCursor] = {}
        self.elided_count = 0  # messages that needed no write
        self.written_count = 0  # messages
        self.pending = PendingPublications()  # candidates for the next commit
        self._consumed: list[Publication] = []  # they need no write; their publishers are not confirmed yet
        self._elided: list[Publication] = []  # they need no write, but their session rows do
        self._settled: dict[int, RangeSet] = {}
        self._settled_is_urgent = False
        self._changed_cursors: set[int] = set()
        self._urgent_cursors: set[int] = set()
        self._tables: list[TableRequest] = []
        self._pages: list[PageRequest] = []
        self._page_deletes: list[PageKey] = []
        self._page_damages: list[PageDamage] = []
        self._purged: list[int] = []
        self._proof_wanted = False
        self._out: Commit | None = None

    # --- requests ---

    def register(self, partition_id: int, *, floor: int, next_sequence_reserved: int) -> PartitionCursor:
        """Start the account of a partition, and reserve sequences from the first that may be unused."""
        cursor = PartitionCursor(partition_id, floor, next_sequence_reserved)
        self.cursors[partition_id] = cursor
        self.reserve(partition_id, next_sequence_reserved)
        return cursor

    def reserve(self, partition_id: int, next_sequence: int) -> None:
        """Make the store reserve sequences well ahead of `next_sequence`."""
        cursor = self.cursors[partition_id]
        if next_sequence + SEQUENCES_RESERVED // 2 > cursor.next_sequence_reserved:
            cursor.next_sequence_reserved = next_sequence + SEQUENCES_RESERVED
            self._urgent_cursors.add(partition_id)

    def store(self, publication: Publication, now_ms: int) -> None:
        """Take a publication to which all its partitions have assigned sequences."""
        if publication.open_count > 0:
            self.pending.add(publication, now_ms)
        else:
            self._elide(publication)
        for match in publication.matches:
            if match.partition_id in self.cursors:  # else its queue was deleted meanwhile
                count = publication.batch.count if match.rows is None else len(match.rows)
                self.reserve(match.partition_id, match.first_sequence + count)

    def settle(self, partition_id: int, ranges: list[tuple[int, int]], *, written: bool) -> None:
        """Note settled ranges. `written`: the store has some of these messages."""
        if partition_id not in self.cursors:
            return  # its queue was deleted meanwhile
        pending = self._settled.get(partition_id)
        if pending is None:
            pending = self._settled[partition_id] = RangeSet()
        for first, end in ranges:
            pending.add(first, end)
        self._settled_is_urgent = self._settled_is_urgent or written

    def released(self, publication: Publication) -> None:
        """Note that every message of a publication is settled or paged."""
        if self.pending.drop(publication):
            self._elide(publication)
            return
        self.journal.released(publication.record_number)

    def readopt(self, publication: Publication) -> None:
        """Note one more user of a publication of the journal: a partition was read back from it."""
        self.journal.readopt(publication.record_number)

    def settled_of(self, partition_id: int) -> tuple[int, list[tuple[int, int]]]:
        """Return the floor of a partition and the settled ranges above it, including those of the next commit."""
        cursor = self.cursors[partition_id]
        pending = self._settled.get(partition_id)
        return cursor.floor, cursor.settled.ranges() + ([] if pending is None else pending.ranges())

    def write_tables(self, request: TableRequest) -> None:
        """Take rows of the catalog, retained or session tables."""
        self._tables.append(request)

    def write_pages(self, request: PageRequest) -> None:
        """Take pages to write."""
        self._pages.append(request)

    def drop_pages(self, partition_id: int, first_sequences: list[int]) -> None:
        """Take pages to delete."""
        self._page_deletes += [PageKey(partition_id, first) for first in first_sequences]

    def quarantine_page(self, damage: PageDamage) -> None:
        """Take an unreadable page, to move it into quarantine."""
        self._page_damages.append(damage)

    def forget(self, partition_id: int) -> None:
        """Take a partition to delete, with all its data in the store."""
        self.cursors.pop(partition_id, None)
        self._settled.pop(partition_id, None)
        self._changed_cursors.discard(partition_id)
        self._urgent_cursors.discard(partition_id)
        self._page_deletes = [delete for delete in self._page_deletes if delete.partition_id != partition_id]
        for request in self._pages:  # a page that the purging commit wrote would stay
            request.pages = [page for page in request.pages if page.partition_id != partition_id]
        self._purged.append(partition_id)

    def prove(self) -> None:
        """Make the next commit write something, so that it shows whether the store is writable."""
        self._proof_wanted = True

    def recovered(self, number: int, publications: list[Publication]) -> None:
        """Start the account of a record that was in the journal at the start."""
        self.journal.add(number, publications, [each for each in publications if each.open_count > 0])

    # --- commits ---

    def take_elided(self) -> list[Publication]:
        """Return the publications that need no write, to confirm them now.

        Publications with session rows are confirmed when the rows are safe: the rows detect a publisher's duplicates.
        """
        consumed, self._consumed = self._consumed, []
        return consumed

    def due_ms(self, patience_ms: int) -> int:
        """Return the time at which a commit is due; see `PendingPublications.due_ms`."""
        at_once = (
            self._elided
            or self._tables
            or self._pages
            or self._settled_is_urgent
            or self._page_deletes
            or self._page_damages
            or self._purged
            or self._proof_wanted
            or self._urgent_cursors
            or self.journal.holds_too_much
        )
        return 0 if at_once else self.pending.due_ms(patience_ms)

    def next_commit(self, now_ms: int, patience_ms: int) -> Commit:
        """Build a commit from the work that is due. The caller checked that there is work, and no commit in progress.

        Publications may wait for a later commit, unless this one writes rows: rows may depend on earlier publications.
        """
        assert self._out is None, "one commit at a time"
        takes_publications = bool(self._tables) or self.pending.due_ms(patience_ms) <= now_ms
        publications = self.pending.take() if takes_publications else []
        elided, self._elided = self._elided, []
        tables, self._tables = self._tables, []
        pages, self._pages = self._pages, []
        page_deletes, self._page_deletes = self._page_deletes, []
        page_damages, self._page_damages = self._page_damages, []
        purges, self._purged = self._purged, []
        proves, self._proof_wanted = self._proof_wanted, False
        settlements = self._take_settlements()
        record = self._record(publications, settlements, _moved(publications) + _asked(tables))
        number = self.next_record_number - 1 if record is not None else 0
        delete_through, cursor_ids = self._trim(number)
        job = CommitJob(
            record_number=number,
            record=record,
            journal_delete_through=delete_through,
            page_writes=[page for request in pages for page in request.pages],
            page_deletes=page_deletes,
            page_quarantines=page_damages,
            cursor_puts=[self.cursors[each].state([]) for each in cursor_ids],
            partition_purges=purges,
            # Sessions' later rows come behind those of publications, which were made before them.
            table_writes=_session_rows(publications + elided) + [row for request in tables for row in request.writes],
            # What settles, deletes or moves makes room; what publishes needs it.
            uses_reserve=all(each.only_moves for each in publications)
            and all(request.uses_reserve for request in tables),
            proves=proves,
        )
        self._out = Commit(job, publications, tables, pages, settlements, elided)
        return self._out

    def committed(self) -> Commit:
        """Handle the success of the commit in progress."""
        commit = self._out
        assert commit is not None
        self._out = None
        self.journal.cut_off(commit.job.journal_delete_through)
        self.written_count += _count(commit.publications)
        if commit.publications and self._settled:
            # Some may have been settled as not written while this commit wrote them.
            self._settled_is_urgent = True
        # Not earlier: settlements of a failed commit must have no effect.
        for settlement in _moved(commit.publications) + _asked(commit.tables):
            cursor = self.cursors.get(settlement.partition_id)
            if cursor is not None:  # else its queue was deleted meanwhile
                cursor.settle(settlement.first, settlement.end)
                self._changed_cursors.add(settlement.partition_id)
        return commit

    def failed(self, *, gives_up: str = "") -> Commit:
        """Handle the failure of the commit in progress: take back required work, give up its publications.

        `gives_up` is the reason to answer all requesters now; empty when another commit may succeed. Required rows stay
        in the queue, and their requesters are answered, as are requesters that only wait for the commit.
        """
        commit = self._out
        assert commit is not None
        self._out = None
        job = commit.job
        if job.record is not None:
            self.journal.take_back()
            for publication in commit.publications:
                publication.record_number = UNWRITTEN
        for partition_id, first, end in commit.settlements:
            self.settle(partition_id, [(first, end)], written=True)
        self._elided = commit.elided + self._elided  # they have been consumed: there is nothing to refuse any more
        # What may use the reserve can be had by the next commit, without the others.
        again = [each for each in commit.tables if each.until_done or (each.uses_reserve and not job.uses_reserve)]
        if gives_up:
            for request in again:
                request.give_up(gives_up)
            again = [each for each in again if each.writes]
        stays = set(again)  # thousands may have come while the disk was slow
        commit.tables = [each for each in commit.tables if each not in stays and not each.is_given_up]
        self._tables = again + self._tables
        given_up: list[Publication] = []
        moves: list[Publication] = []
        for publication in commit.publications:
            if publication.open_count == 0:  # consumers settled it before the commit failed
                self._elide(publication)
            elif publication.only_moves and not job.uses_reserve:
                moves.append(publication)
            else:
                given_up.append(publication)
        self.pending.put_back(moves)
        commit.publications = given_up
        self._page_deletes = job.page_deletes + self._page_deletes
        self._page_damages = job.page_quarantines + self._page_damages
        self._purged = job.partition_purges + self._purged
        self._urgent_cursors.update([put.partition_id for put in job.cursor_puts if put.partition_id in self.cursors])
        return commit

    def _elide(self, publication: Publication) -> None:
        """Skip the write of a publication that is settled completely."""
        self.elided_count += publication.batch.count
        for settlement in _moved([publication]):
            self.settle(settlement.partition_id, [(settlement.first, settlement.end)], written=True)
        (self._consumed if publication.session_rows is None else self._elided).append(publication)

    def oldest_needed(self, records_max: int) -> JournalSlot | None:
        """Return the record at the journal's head when the journal has grown beyond `records_max`, else None."""
        slots = self.journal.slots
        return slots[0] if len(slots) > records_max else None

    def _take_settlements(self) -> list[Settlement]:
        settlements: list[Settlement] = []
        for partition_id, ranges in self._settled.items():
            cursor = self.cursors[partition_id]
            for first, end in ranges.ranges():
                settlements.append(Settlement(partition_id, first, end))
                cursor.settle(first, end)
            self._changed_cursors.add(partition_id)
        self._settled.clear()
        self._settled_is_urgent = False
        return settlements

    def _record(
        self, publications: list[Publication], settlements: list[Settlement], moved: list[Settlement]
    ) -> bytes | None:
        """Number and encode the journal record, if there is anything to record."""
        if not publications and not settlements and not moved:
            return None
        number = self.next_record_number
        self.next_record_number = number + 1
        for publication in publications:
            publication.record_number = number
        self.journal.add(number, publications, publications)
        entries = [
            JournalEntry(each.batch, [Match(m.partition_id, m.first_sequence, m.rows) for m in each.matches])
            for each in publications
        ]
        there = [each for each in moved if each.partition_id in self.cursors]
        return encode_journal_record(entries, settlements + there if there else settlements)

    def _trim(self, number: int) -> tuple[int, list[int]]:
        """Trim the journal's unneeded head; return the last trimmed record and the partitions with cursors to write."""
        cursor_ids = self._urgent_cursors
        self._urgent_cursors = set()
        through = self.journal.trimmed_through(number)
        if through == 0:
            return 0, sorted(cursor_ids)
        cursor_ids |= self._changed_cursors
        self._changed_cursors = set()
        return through, sorted(cursor_ids)


def _count(publications: list[Publication]) -> int:
    """Return the number of messages in the publications."""
    return sum([each.batch.count for each in publications])


def _session_rows(publications: list[Publication]) -> list[TableWrite]:
    """Return the session rows that commit together with these publications."""
    writes: list[TableWrite] = []
    for publication in publications:
        rows = publication.session_rows
        if rows is not None:
            writes += [TableWrite(Table.SESSIONS, key, value) for key, value in rows]
    return writes


def _moved(publications: list[Publication]) -> list[Settlement]:
    """Return the settlements that these publications bring for the partitions their messages came from."""
    settlements: list[Settlement] = []
    for publication in publications:
        taken = publication.settlements
        if taken is not None:
            settlements += [Settlement(partition_id, first, end) for partition_id, first, end in taken]
    return settlements


def _asked(tables: list[TableRequest]) -> list[Settlement]:
    """Return the settlements that commit together with these requests."""
    return [settlement for each in tables if each.settlements is not None for settlement in each.settlements]
