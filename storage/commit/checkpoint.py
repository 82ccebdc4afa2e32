"""The plan of the next checkpoint: what it moves and deletes, and the time at which it is worth its price.

A checkpoint is one transaction of LMDB, which writes the list of all free pages beside its content. So it waits until
its content is worth that: until pages of some size wait, until the log or the deleted pages have grown, or until the
store needs the room. What waits is safe meanwhile: messages that go into pages are in the log and in memory, rows and
settlements are in the log. When little happens there is a checkpoint every ten minutes, and none when nothing does.

A checkpoint includes what is committed when it is planned, and nothing of a commit in progress.

See also: commits (storage.commit.planner), the records that keep the log (storage.commit.journal).
"""

from collections.abc import Callable
from typing import Final, NamedTuple, final

from sluicegate.messaging.message.ranges import RangeSet
from sluicegate.storage.commit.pending import NEVER
from sluicegate.storage.interface import CheckpointJob, PageDamage, PageKey, PageWrite
from sluicegate.storage.records.cursor import CursorRecord

LOG_BYTES_MIN: Final = 32 << 20  # what the log has grown by is worth a checkpoint, however little that writes
LOG_RECORDS_MAX: Final = 16_384
# Rows and staged messages of the log stay in memory until a checkpoint.
ROW_BYTES_MIN: Final = 1 << 20
ROW_BYTES_MAX: Final = 16 << 20
ROW_BYTES_BEHIND: Final = 8 << 20
DELETED_PAGES_MAX: Final = 512  # of some 32 KiB each
AGE_MAX_MS: Final = 600_000
IDLE_BYTES_PER_MS: Final = 33  # at most 2 MB a minute when little happens
BEHIND: Final = 2  # so many times what makes a checkpoint due
WORTH: Final = 8  # content of so many times the list of free pages is worth a checkpoint
CONTENT_BYTES_MIN: Final = 256 << 10
LINKED_PAGE_BYTES: Final = 512  # in the database, of a page that is links into the log
# Pages that are not worth a checkpoint wait for more: longer when it costs more, so it costs 2 MB a second at most.
PAGES_WAIT_MS_MIN: Final = 10
PAGES_WAIT_MS_MAX: Final = 5000
OVERHEAD_BYTES_PER_MS: Final = 2000


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
class PageRequest:
    """Pages to write, and the callback for when they are safe (True) or cannot be written.

    `log_records` has, for the pages that may become links, the record of the log that has the batch of each run.
    """

    def __init__(
        self,
        pages: list[PageWrite],
        done: Callable[[bool], None],
        *,
        log_records: dict[PageKey, list[int]] | None = None,
        linked_bytes: int = 0,
    ) -> None:
        """`linked_bytes` is the size of the pages that may become links."""
        self.pages = pages
        self.done = done
        self.log_records = {} if log_records is None else log_records
        self.page_bytes = sum([len(write.page) for write in pages])
        # What a checkpoint writes for them, about.
        self.content_bytes = self.page_bytes - linked_bytes + LINKED_PAGE_BYTES * len(self.log_records)


@final
class Checkpoint:
    """A checkpoint job, and the requests to answer when it succeeds or fails."""

    def __init__(self, job: CheckpointJob, pages: list[PageRequest]) -> None:
        self.job = job
        self.pages = pages

    def end(self, *, succeeded: bool) -> None:
        """Answer the requests."""
        for request in self.pages:
            request.done(succeeded)


class Counts(NamedTuple):
    """What a checkpoint in progress includes."""

    page_bytes: int
    log_bytes: int
    log_records: int
    row_bytes: int
    is_log_spent: bool


NO_COUNTS: Final = Counts(0, 0, 0, 0, is_log_spent=False)


@final
class CheckpointPlanner:
    """Collects what a checkpoint does.

    Invariant: at most one checkpoint is in progress.
    """

    def __init__(self, cursors: dict[int, PartitionCursor], log_bytes_max: int) -> None:
        """Plan for these partitions, and for a log whose growth is never left alone beyond `log_bytes_max`."""
        self._cursors = cursors
        self.deleted: dict[int, PartitionCursor] = {}  # partitions whose deletion the next commits bring
        self._log_bytes_max = log_bytes_max
        self.page_bytes_max = 16 << 20  # pages to write stay in memory; a node knows how much there may be
        self._changed: set[int] = set()  # partitions whose cursors a checkpoint has to write
        self._pages: list[PageRequest] = []
        self._page_bytes = 0
        self._page_content_bytes = 0  # of these, what a checkpoint writes
        self._pages_since_ms = 0
        self._page_deletes: list[PageKey] = []
        self._page_damages: list[PageDamage] = []
        self._is_wanted = False
        self._log_bytes = 0  # committed since the last checkpoint was planned
        self._log_records = 0
        self._row_bytes = 0  # of rows and staged messages among them
        self._is_log_spent = False  # records are no longer needed, and a checkpoint would trim the log
        self._since_ms = 0  # the beginning of the first commit after the last checkpoint
        self._out: Checkpoint | None = None
        self._out_counts = NO_COUNTS  # of the checkpoint in progress
        self.overhead_bytes = 0  # what a checkpoint writes beside its content, as the store said last

    # --- requests ---

    def write_pages(self, request: PageRequest, now_ms: int) -> None:
        """Take pages to write: messages that are in the log."""
        if not self._pages:
            self._pages_since_ms = now_ms
        self._pages.append(request)
        self._page_bytes += request.page_bytes
        self._page_content_bytes += request.content_bytes

    def drop_pages(self, partition_id: int, first_sequences: list[int]) -> None:
        """Take pages to delete."""
        self._page_deletes += [PageKey(partition_id, first) for first in first_sequences]

    def quarantine_page(self, damage: PageDamage) -> None:
        """Take an unreadable page, to move it into quarantine."""
        self._page_damages.append(damage)

    def want(self) -> None:
        """Make a checkpoint due."""
        self._is_wanted = True

    def changed(self, partition_id: int) -> None:
        """Note that a cursor differs from the stored one."""
        self._changed.add(partition_id)

    def committed(self, record_bytes: int, row_bytes: int, began_ms: int) -> None:
        """Note a record that is in the log, with what it has of rows and staged messages, and when its commit began."""
        self._row_bytes += row_bytes
        if self._log_records == 0:
            self._since_ms = began_ms
        self._log_bytes += record_bytes
        self._log_records += 1

    def log_spent(self) -> None:
        """Note that the head of the log, or much of what is kept of it, is no longer needed."""
        self._is_log_spent = True

    def forget(self, partition_id: int) -> None:
        """Take a partition that a commit will delete.

        Until then its cursor is written: the log that has its settlements is trimmed, and a crash may come before that.
        """
        cursor = self._cursors.pop(partition_id, None)
        if cursor is not None:
            self.deleted[partition_id] = cursor
        self._page_deletes = [each for each in self._page_deletes if each.partition_id != partition_id]
        self._leave_out_pages(partition_id)  # a page written behind the deletion would stay

    def purged(self, partition_id: int) -> None:
        """Leave out a partition: a commit has deleted it."""
        self.deleted.pop(partition_id, None)
        self._changed.discard(partition_id)

    def withdraw_pages(self, partition_id: int, then: Callable[[], None]) -> None:
        """Leave out the pages of a partition that is read back; call `then` when none of them is being written.

        What was written behind the reading would stay: the partition would not know that it has such a page.
        """
        self._leave_out_pages(partition_id)
        out = self._out
        if out is not None and any(page.partition_id == partition_id for page in out.job.page_writes):
            out.pages.append(PageRequest([], lambda _: then()))
        else:
            then()

    def _leave_out_pages(self, partition_id: int) -> None:
        for request in self._pages:
            request.pages = [page for page in request.pages if page.partition_id != partition_id]
            records = request.log_records
            request.log_records = {key: records[key] for key in records if key.partition_id != partition_id}

    def recovered(self, log_records: int) -> None:
        """Note at the start that the log has records whose settlements the stored cursors lack."""
        if log_records:
            self._log_records = log_records
            self._changed.update(self._cursors)

    # --- checkpoints ---

    def makes_room(self) -> bool:
        """Return whether a checkpoint would free some of the store."""
        return bool(self._log_records or self._page_deletes or self._is_log_spent)

    def is_behind(self) -> bool:
        """Return whether so much waits in memory for a checkpoint that commits have to wait as well."""
        out = self._out_counts
        if self._page_bytes + out.page_bytes > BEHIND * self.page_bytes_max:
            return True
        return self._row_bytes + out.row_bytes > max(ROW_BYTES_BEHIND, BEHIND * self._row_bytes_due())

    def due_ms(self) -> int:
        """Return the time at which a checkpoint is due: 0 for at once, NEVER when nothing waits for one."""
        worth = self._worth_bytes()
        if (
            self._is_wanted
            or self._page_damages
            or self._page_bytes >= self.page_bytes_max
            or self._page_content_bytes >= worth
            or self._row_bytes >= self._row_bytes_due()
            or self._log_bytes >= min(max(LOG_BYTES_MIN, worth), self._log_bytes_max)
            or self._log_records >= LOG_RECORDS_MAX
            or len(self._page_deletes) >= DELETED_PAGES_MAX
        ):
            return 0
        if self._pages:
            wait_ms = max(PAGES_WAIT_MS_MIN, min(PAGES_WAIT_MS_MAX, self.overhead_bytes // OVERHEAD_BYTES_PER_MS))
            return self._pages_since_ms + wait_ms
        if not self.makes_room():
            return NEVER
        return self._since_ms + max(AGE_MAX_MS, self.overhead_bytes // IDLE_BYTES_PER_MS)

    def _worth_bytes(self) -> int:
        """Return the content that is worth a checkpoint."""
        return max(WORTH * self.overhead_bytes, CONTENT_BYTES_MIN)

    def _row_bytes_due(self) -> int:
        """Return the bytes of rows and staged messages that make a checkpoint due."""
        return max(ROW_BYTES_MIN, min(self._worth_bytes(), ROW_BYTES_MAX))

    def next_checkpoint(self, *, applied: int, needed_from: int) -> Checkpoint:
        """Plan a checkpoint of the records up to `applied`. The caller checked that none is in progress."""
        assert self._out is None, "one checkpoint at a time"
        pages, self._pages = self._pages, []
        self._is_wanted = False
        deletes, self._page_deletes = self._page_deletes, []
        damages, self._page_damages = self._page_damages, []
        changed, self._changed = self._changed, set()
        self._out_counts = Counts(
            self._page_bytes, self._log_bytes, self._log_records, self._row_bytes, self._is_log_spent
        )
        self._page_bytes = self._page_content_bytes = 0
        self._log_bytes = self._log_records = self._row_bytes = 0
        self._is_log_spent = False
        job = CheckpointJob(
            applied=applied,
            needed_from=needed_from,
            page_quarantines=damages,
            page_deletes=deletes,
            page_writes=[page for request in pages for page in request.pages],
            log_records={key: records for request in pages for key, records in request.log_records.items()},
            cursor_puts=[self._cursor(each).state([]) for each in sorted(changed)],
        )
        self._out = Checkpoint(job, pages)
        return self._out

    def last_checkpoint(self, states: list[CursorRecord], *, applied: int, needed_from: int) -> CheckpointJob:
        """Return the checkpoint of a clean stop. What waits to be paged stays in the log."""
        deleted = [self.deleted[each].state([]) for each in sorted(self.deleted) if each in self._changed]
        return CheckpointJob(
            applied=applied,
            needed_from=needed_from,
            page_quarantines=self._page_damages,
            page_deletes=self._page_deletes,
            cursor_puts=states + deleted,
        )

    def log_bytes(self) -> int:
        """Return the bytes of the log that the stored state does not include."""
        return self._log_bytes + self._out_counts.log_bytes

    def succeeded(self, overhead_bytes: int) -> Checkpoint:
        """Handle the success of the checkpoint in progress."""
        checkpoint = self._out
        assert checkpoint is not None
        self._out = None
        self._out_counts = NO_COUNTS
        self.overhead_bytes = overhead_bytes
        return checkpoint

    def failed(self) -> Checkpoint:
        """Handle the failure of the checkpoint in progress: take back all but its requests."""
        checkpoint = self._out
        assert checkpoint is not None
        self._out = None
        job = checkpoint.job
        counts, self._out_counts = self._out_counts, NO_COUNTS
        self._row_bytes += counts.row_bytes
        self._log_bytes += counts.log_bytes
        self._log_records += counts.log_records
        self._is_log_spent = self._is_log_spent or counts.is_log_spent
        self._page_deletes = job.page_deletes + self._page_deletes
        self._page_damages = job.page_quarantines + self._page_damages
        known = [each.partition_id for each in job.cursor_puts]
        self._changed.update([each for each in known if each in self._cursors or each in self.deleted])
        return checkpoint

    def _cursor(self, partition_id: int) -> PartitionCursor:
        cursor = self._cursors.get(partition_id)
        return self.deleted[partition_id] if cursor is None else cursor
