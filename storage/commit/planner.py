"""The plan of the next commit: one record of the log. The pure core of the spool actor.

Publications and settlements collect here until a commit takes them. A publication whose messages are all settled by
then is never written: its publisher is confirmed at once.

A publication that moves messages, or is a transaction, carries settlements of other partitions. The record that has the
publication also has these settlements. So a moving message is in exactly one of its two places, even after a power
failure. A move takes room only briefly, so it may use the reserve of a full store.

A page is deleted, and a record of the log given up, after the commit with the settlements that make it unnecessary, and
with the rows that name it. Else a power failure would lose what the commit was to replace.

See also: the publications that are due for a commit (storage.commit.pending), the records that keep the log
(storage.commit.journal), checkpoints (storage.commit.checkpoint), the time between two commits (the spool actor), the
bytes (storage.log, storage.records).
"""

from collections.abc import Callable
from typing import Final, final

from sluicegate.messaging.message.publication import UNWRITTEN, Publication
from sluicegate.messaging.message.ranges import RangeSet
from sluicegate.storage.commit.checkpoint import Checkpoint, CheckpointPlanner, PartitionCursor
from sluicegate.storage.commit.journal import LogIndex
from sluicegate.storage.commit.pending import PendingPublications
from sluicegate.storage.interface import CheckpointJob, CommitJob, PageWrite, Reservation, Table, TableWrite
from sluicegate.storage.records.cursor import CursorRecord
from sluicegate.storage.records.journal import JournalEntry, Match, Settlement, encode_journal_record

# Per partition and reservation; a crash skips what is left of it. Consumers get messages before they are on disk, so
# half of it has to outlast the slowest commit: half a second at a million messages per second in one partition.
SEQUENCES_RESERVED: Final = 1 << 20
# The part of the log with messages that no page has: above it, what keeps the head of the log is moved into pages.
LOG_BYTES_MAX: Final = 64 << 20
LOG_SHARE_MAX: Final = 16  # the log of a small store is at most one part of so many
LOG_RECORDS_MAX: Final = 16_384
# A log of so many times its maximum takes no commit until a checkpoint has trimmed it.
LOG_OVERRUN_MAX: Final = 2

_RECORD_BYTES: Final = 64  # of a record without content, about: its frame and its head
_RESERVATION_BYTES: Final = 12
_ROW_BYTES: Final = 1024  # rows that are far apart change a page of 4 KiB each, in memory until the checkpoint is made


@final
class Commit:
    """A commit job, and the requests to answer when it succeeds or fails."""

    def __init__(
        self,
        job: CommitJob,
        publications: list[Publication],
        tables: "list[TableRequest]",
        settlements: list[Settlement],
        elided: list[Publication],
        page_deletes: list[tuple[int, list[int]]],
        released: list[int],
        began_ms: int,
    ) -> None:
        content_bytes = _content_bytes_of(job)
        self.job = job
        self.began_ms = began_ms
        self.record_bytes = _RECORD_BYTES + _RESERVATION_BYTES * len(job.reservations) + content_bytes  # about
        if job.record is not None:
            self.record_bytes += len(job.record)
        self.row_bytes = _ROW_BYTES * len(job.table_writes) + content_bytes  # with their pages of the state
        self.publications = publications
        self.elided = elided  # only their session rows are written
        self.tables = tables
        self.settlements = settlements
        self.page_deletes = page_deletes  # partition and first sequences of pages that nobody needs afterwards
        self.released = released  # numbers of records; each has a publication that nobody needs afterwards


@final
class TableRequest:
    """Rows to write, and the callback for when they are safe (with an empty reason) or cannot be written.

    `uses_reserve` is for rows that consumers need to continue, so that a full store can be emptied. `until_done` is for
    rows that must not outlive the deletions of the same commit: they are retried with it until it succeeds.
    `settlements` take effect with the commit that writes the request, and never when the request is given up before.
    `left` is called when the rows are written (with an empty reason) or never will be, and the planner no longer keeps
    the request.
    `staged_pages` are written by the same commit as the rows that name them.
    """

    def __init__(
        self,
        writes: list[TableWrite],
        done: Callable[[str], None],
        *,
        uses_reserve: bool = False,
        until_done: bool = False,
        settlements: list[Settlement] | None = None,
        left: Callable[[str], None] | None = None,
        staged_pages: list[PageWrite] | None = None,
    ) -> None:
        self.writes = writes
        self.staged_pages = staged_pages
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
            self.left(reason)

    def give_up(self, reason: str) -> None:
        """Answer the requester now. Rows that must be written stay in the queue."""
        if not self.is_given_up:
            self.done(reason)
            self.is_given_up = True


@final
class CommitPlanner:
    """Collects work for the store and accounts for the journal.

    Invariant: at most one commit is in progress.
    """

    def __init__(
        self, *, next_record_number: int, log_bytes_max: int = LOG_BYTES_MAX, confirms_elided_late: bool = False
    ) -> None:
        """`confirms_elided_late`: with a commit that began later, which shows that this is the owner of the log still.

        Else an elided publication, which needs no write, is confirmed at once.
        """
        self.next_record_number = next_record_number
        self.journal = LogIndex()
        self.log_bytes_max = log_bytes_max
        self.cursors: dict[int, PartitionCursor] = {}
        self.checkpoints = CheckpointPlanner(self.cursors, log_bytes_max)
        self.elided_count = 0  # messages that needed no write
        self._confirms_elided_late = confirms_elided_late
        self.written_count = 0  # messages
        self.pending = PendingPublications()  # candidates for the next commit
        self._last_committed = next_record_number - 1
        self._consumed: list[Publication] = []  # they need no write; their publishers are not confirmed yet
        self._elided: list[Publication] = []  # they need no write, but a commit: for their session rows, or at all
        self._settled: dict[int, RangeSet] = {}
        self._settled_is_urgent = False
        self._reserving: set[int] = set()  # partitions whose reservation is not in the log
        self._tables: list[TableRequest] = []
        self._page_deletes: list[tuple[int, list[int]]] = []
        self._released: list[int] = []  # records with a publication that is needed until the next commit is made
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
            self._reserving.add(partition_id)

    def store(self, publication: Publication, now_ms: int) -> None:
        """Take a publication to which all its partitions have assigned sequences."""
        if publication.open_count > 0:
            self.pending.add(publication, now_ms)
        else:
            self._elide(publication)
        self.assigned(publication)

    def assigned(self, publication: Publication) -> None:
        """Note the sequences that partitions assigned to a publication."""
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
        self._released.append(publication.record_number)
        if self._settled:  # what waits for a commit with another reason would keep the log
            self._settled_is_urgent = True
        self._pass_on()

    def readopt(self, publication: Publication) -> None:
        """Note one more user of a publication of the journal: a partition was read back from it."""
        self.journal.readopt(publication.record_number)

    def settled_of(self, partition_id: int) -> tuple[int, list[tuple[int, int]]]:
        """Return the floor of a partition and settled ranges, including those of this commit and the next one."""
        cursor = self.cursors[partition_id]
        ranges = cursor.settled.ranges()
        if self._out is not None:
            out = _settlements_of(self._out)
            ranges = ranges + [(each.first, each.end) for each in out if each.partition_id == partition_id]
        pending = self._settled.get(partition_id)
        return cursor.floor, ranges + ([] if pending is None else pending.ranges())

    def write_tables(self, request: TableRequest) -> None:
        """Take rows of the catalog, retained or session tables."""
        self._tables.append(request)

    def drop_pages(self, partition_id: int, first_sequences: list[int]) -> None:
        """Take pages to delete once all that was taken before is committed."""
        self._page_deletes.append((partition_id, first_sequences))
        self._pass_on()

    def forget(self, partition_id: int) -> None:
        """Take a partition to delete, with all its data in the store."""
        self._settled.pop(partition_id, None)
        self._reserving.discard(partition_id)
        self._page_deletes = [delete for delete in self._page_deletes if delete[0] != partition_id]
        self.checkpoints.forget(partition_id)
        self._purged.append(partition_id)

    def prove(self) -> None:
        """Make the next commit write something, so that it shows whether the store is writable."""
        self._proof_wanted = True

    def recovered(self, number: int, publications: list[Publication]) -> None:
        """Start the account of a record that was in the log at the start."""
        assert number < self.next_record_number, "it is in the log"
        size = sum([each.batch.content_bytes() for each in publications])
        self.journal.add(number, [each for each in publications if each.open_count > 0], size)

    # --- commits ---

    def take_elided(self) -> list[Publication]:
        """Return the publications that need no write, to confirm them now.

        Publications with session rows are confirmed when the rows are safe: the rows detect a publisher's duplicates.
        """
        consumed, self._consumed = self._consumed, []
        return consumed

    def has_elided(self) -> bool:
        """Return whether there are any."""
        return bool(self._consumed)

    def due_ms(self, patience_ms: int) -> int:
        """Return the time at which a commit is due; see `PendingPublications.due_ms`."""
        at_once = (
            self._elided
            or self._tables
            or self._settled_is_urgent
            or self._purged
            or self._proof_wanted
            or self._reserving
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
        page_deletes, self._page_deletes = self._page_deletes, []
        released, self._released = self._released, []
        purges, self._purged = self._purged, []
        reserving, self._reserving = self._reserving, set()
        self._proof_wanted = False
        settlements = self._take_settlements()
        number = self.next_record_number
        job = CommitJob(
            number=number,
            record=self._record(publications, settlements, _moved(publications) + _asked(tables)),
            staged_pages=[page for request in tables for page in request.staged_pages or ()],
            reservations=[self._reservation(each) for each in sorted(reserving)],
            # Sessions' later rows come behind those of publications, which were made before them.
            table_writes=_session_rows(publications + elided) + [row for request in tables for row in request.writes],
            partition_purges=purges,
            # What settles, deletes or moves makes room; what publishes needs it.
            uses_reserve=all(each.only_moves for each in publications)
            and all(request.uses_reserve for request in tables),
        )
        for publication in publications:
            publication.record_number = number
        self._out = Commit(job, publications, tables, settlements, elided, page_deletes, released, now_ms)
        self.journal.add(number, publications, self._out.record_bytes)
        return self._out

    def commit_in_progress(self) -> Commit:
        """Return the commit in progress. The caller checked that there is one."""
        commit = self._out
        assert commit is not None
        return commit

    def committed(self, next_number: int) -> Commit:
        """Handle the success of the commit in progress; the store numbers the next one."""
        commit = self._out
        assert commit is not None
        assert next_number > commit.job.number
        self._out = None
        self.next_record_number = next_number
        self._last_committed = commit.job.number
        self.checkpoints.committed(commit.record_bytes, commit.row_bytes, commit.began_ms)
        self.written_count += _count(commit.publications)
        if commit.publications and self._settled:
            # Some may have been settled as not written while this commit wrote them.
            self._settled_is_urgent = True
        # Not earlier: settlements of a failed commit must have no effect, and no checkpoint may have them.
        for settlement in _settlements_of(commit):
            cursor = self.cursors.get(settlement.partition_id)
            if cursor is None:  # its queue is being deleted
                cursor = self.checkpoints.deleted.get(settlement.partition_id)
            if cursor is not None:  # else that has been done
                cursor.settle(settlement.first, settlement.end)
                self.checkpoints.changed(settlement.partition_id)
        for reservation in commit.job.reservations:
            if reservation.partition_id in self.cursors:
                self.checkpoints.changed(reservation.partition_id)
        for partition_id, first_sequences in commit.page_deletes:
            if partition_id in self.cursors:
                self.checkpoints.drop_pages(partition_id, first_sequences)
        for partition_id in commit.job.partition_purges:
            self.checkpoints.purged(partition_id)
        self._release(commit.released)
        self._pass_on()
        return commit

    def failed(self, *, gives_up: str = "") -> Commit:
        """Handle the failure of the commit in progress: take back required work, give up its publications.

        The next commit has its number.

        Those that wait for the next commit are given up as well: a smaller commit might fit, and would store messages
        before older ones, which their publisher sends again.

        `gives_up` is the reason to answer all requesters now; empty when another commit may succeed. Required rows stay
        in the queue, and their requesters are answered, as are requesters that only wait for the commit.
        """
        commit = self._out
        assert commit is not None
        self._out = None
        job = commit.job
        self.journal.take_back(job.number)
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
        waiting = self.pending.take()
        self.pending.put_back(moves + [each for each in waiting if each.only_moves])
        commit.publications = given_up + [each for each in waiting if not each.only_moves]
        self._page_deletes = [each for each in commit.page_deletes if each[0] in self.cursors] + self._page_deletes
        # What was settled of it meanwhile is in no record. The next commit has this number.
        self._released = commit.released + [each for each in self._released if each != job.number]
        self._purged = job.partition_purges + self._purged
        self._reserving.update([each.partition_id for each in job.reservations if each.partition_id in self.cursors])
        return commit

    def give_up_waiting(self, reason: str) -> None:
        """Answer the requesters that wait for the next commit, because it may never be made. Required rows stay."""
        tables, self._tables = self._tables, []
        for request in tables:
            if not request.until_done:
                request.end(reason)
                continue
            request.give_up(reason)
            if request.writes:
                self._tables.append(request)

    # --- checkpoints ---

    def next_checkpoint(self) -> Checkpoint:
        """Plan a checkpoint of all that is committed."""
        end = self._last_committed + 1
        needed_from = self.journal.needed_from(end)
        return self.checkpoints.next_checkpoint(applied=self._last_committed, needed_from=needed_from)

    def last_checkpoint(self, states: list[CursorRecord]) -> CheckpointJob:
        """Return the checkpoint of a clean stop: with these cursors, and without pages that are not written yet."""
        needed_from = self.journal.needed_from(self._last_committed + 1)
        return self.checkpoints.last_checkpoint(states, applied=self._last_committed, needed_from=needed_from)

    def log_is_too_long(self) -> bool:
        """Return whether commits have to wait for the checkpoint in progress."""
        size = max(self.journal.needed_bytes(), self.checkpoints.log_bytes())
        return size > LOG_OVERRUN_MAX * self.log_bytes_max

    def wanted_pages(self) -> tuple[int, set[int]]:
        """Return the record up to which messages should move into pages, and the partitions that have some of them.

        (0, set()) when the log is short enough.
        """
        index = self.journal
        records = self._last_committed + 1 - index.needed_from(self._last_committed + 1)
        if records <= LOG_RECORDS_MAX and index.needed_bytes() <= self.log_bytes_max:
            return 0, set()
        return index.page_out(records=LOG_RECORDS_MAX // 4, size=self.log_bytes_max // 4)

    def _pass_on(self) -> None:
        """Give pages and records to the next checkpoint when nothing is left to commit before they go."""
        if self._out is None and not (self._settled or self._tables or self._purged):
            for partition_id, first_sequences in self._page_deletes:
                self.checkpoints.drop_pages(partition_id, first_sequences)
            self._page_deletes = []
            self._release(self._released)
            self._released = []

    def _release(self, numbers: list[int]) -> None:
        for number in numbers:
            if self.journal.released(number):
                self.checkpoints.log_spent()

    def _elide(self, publication: Publication) -> None:
        """Skip the write of a publication that is settled completely."""
        self.elided_count += publication.batch.count
        for settlement in _moved([publication]):
            self.settle(settlement.partition_id, [(settlement.first, settlement.end)], written=True)
        waits = self._confirms_elided_late or publication.session_rows is not None
        (self._elided if waits else self._consumed).append(publication)

    def _take_settlements(self) -> list[Settlement]:
        settlements = [
            Settlement(partition_id, first, end)
            for partition_id, ranges in self._settled.items()
            for first, end in ranges.ranges()
        ]
        self._settled.clear()
        self._settled_is_urgent = False
        return settlements

    def _record(
        self, publications: list[Publication], settlements: list[Settlement], moved: list[Settlement]
    ) -> bytes | None:
        """Encode the journal record, if there is anything to record."""
        if not publications and not settlements and not moved:
            return None
        entries = [
            JournalEntry(each.batch, [Match(m.partition_id, m.first_sequence, m.rows) for m in each.matches])
            for each in publications
        ]
        there = [each for each in moved if each.partition_id in self.cursors]
        return encode_journal_record(entries, settlements + there if there else settlements)

    def _reservation(self, partition_id: int) -> Reservation:
        cursor = self.cursors[partition_id]
        return Reservation(partition_id, cursor.floor, cursor.next_sequence_reserved)


def _content_bytes_of(job: CommitJob) -> int:
    """Return the bytes of the rows and staged messages of a job."""
    size = sum([len(write.page) for write in job.staged_pages])
    return size + sum([len(row.key) + (0 if row.value is None else len(row.value)) for row in job.table_writes])


def _settlements_of(commit: Commit) -> list[Settlement]:
    """Return all settlements that take effect with a commit."""
    return commit.settlements + _moved(commit.publications) + _asked(commit.tables)


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
