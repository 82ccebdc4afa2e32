"""The spool: decides when the store commits and makes checkpoints, and reports the outcome of all work.

A commit begins at the end of a turn: at once after a pause, then at most one per commit interval, and never two at a
time. A publisher that is alone, and publishes when it hears of its last message, does not wait for the interval: no
other message would share the commit. After a failed commit the pause is longer; rows that must not be lost are retried
until the store takes them. A commit that failed and may be on the disk all the same is neither confirmed nor refused:
it is tried again.

Messages that consumers already have are given one interval to make their commit unnecessary (storage.commit.pending).
The writer thread writes; publishers are confirmed when it reports the data on disk. A small record is written on the
loop's own thread when the disk is quick and nobody else waits for the loop (storage.commit.disk_pace): the same commit,
by the same functions, with its report as their result. A checkpoint is made beside the
commits, by a thread of its own, one at a time; commits wait for it only when the log has become too long.
"""

import logging
from collections.abc import Callable
from typing import Any, Final

from sluicegate.actors.messages.data import (
    Confirmed,
    PublishFailed,
    SessionRows,
    Settled,
    SettleTogether,
    StorePublication,
)
from sluicegate.actors.messages.partitions import PageOut, Withdraw
from sluicegate.actors.messages.readers import CommitSeen, WatchCommits
from sluicegate.actors.messages.spool import (
    PagesUnread,
    PagesWritten,
    PartitionStored,
    PurgeFromStore,
    Readopted,
    RegisterPartition,
    ReloadPartition,
    SetPageAside,
    WritePages,
    WriteTables,
)
from sluicegate.actors.runtime.inbox import Flushed, Scheduled
from sluicegate.actors.runtime.runtime import ActorCell, Behaviour, TimerHandle
from sluicegate.actors.spool.checkpoints import Checkpoints
from sluicegate.actors.spool.health import COMMIT_FAILURES, DAMAGED, FULL, SpoolHealth
from sluicegate.actors.spool.store_threads import (
    CheckpointDone,
    CheckpointFailed,
    CommitDone,
    CommitFailed,
    PartitionFound,
    StoreWriter,
)
from sluicegate.messaging.message.address import Address
from sluicegate.messaging.message.publication import Publication
from sluicegate.messaging.message.refusals import REFUSED_NOT_STORED, REFUSED_SPOOL_FAILED, REFUSED_SPOOL_FULL
from sluicegate.messaging.observability.events import (
    SYSTEM_RECORD_QUARANTINED,
    SYSTEM_SPOOL_CHANGED,
    SYSTEM_SPOOL_FAILED,
)
from sluicegate.messaging.observability.latency import CommitHistogram
from sluicegate.messaging.observability.trace_records import ELIDED, NOT_STORED, WRITTEN
from sluicegate.messaging.observability.tracing import Tracing
from sluicegate.messaging.partitions.paging import PagePlan
from sluicegate.messaging.queues.admission import SpoolGate
from sluicegate.storage.commit.checkpoint import PageRequest
from sluicegate.storage.commit.disk_pace import RECORD_BYTES_MAX, DiskPace
from sluicegate.storage.commit.pending import NEVER
from sluicegate.storage.commit.planner import Commit, CommitPlanner, TableRequest
from sluicegate.storage.interface import PageDamage, PageKey, PageWrite, Table, TableWrite
from sluicegate.storage.records.journal import Settlement
from sluicegate.storage.records.linked_page import is_worth_links
from sluicegate.storage.records.page import Run, encode_page

log = logging.getLogger("sluicegate.spool")

COMMIT_AGAIN_MS: Final = 100  # after a commit that found no room
TRY_AGAIN_MS: Final = 1000  # after a commit that failed for another reason
_SESSIONS: Final = Table.SESSIONS
SOON_NS: Final = 500_000  # a publisher that publishes so soon after a confirmation has waited for it
PROBE_INTERVAL_MS: Final = 1000  # how often a store that takes no messages is probed


class Spool(Behaviour, Flushed):
    """The owner of the store. storage.commit.planner.CommitPlanner decides everything about what is written."""

    def __init__(
        self,
        cell: ActorCell,
        *,
        planner: CommitPlanner,
        writer: StoreWriter,
        gate: SpoolGate,
        health: SpoolHealth,
        commit_interval_ms: int,
        partitions: dict[int, Address],
        tracing: Tracing | None,
    ) -> None:
        self._cell = cell
        self._runtime = cell.runtime
        self._planner = planner
        self._writer = writer
        self._gate = gate
        self._commit_interval_ms = commit_interval_ms
        self._partitions = partitions
        self._tracing = tracing  # None: no message is traced
        self._writing = False
        self._is_in_doubt = False  # the commit in progress failed, the disk may have it, and it waits to be tried again
        self.checkpoints = Checkpoints(cell, planner, writer, self.turn_ended)
        self._last_commit_ms = -commit_interval_ms
        self._timer: TimerHandle | None = None
        self._timer_ms = 0  # when it fires
        self._flush_asked = False
        self._paging_through = 0
        self._idle_callbacks: list[Callable[[], None]] = []
        self._watchers: dict[Address, None] = {}  # addresses to notify of each commit; used as an ordered set
        self.commits_count = 0
        self._health = health
        self.commits_failed: dict[str, int] = dict.fromkeys(COMMIT_FAILURES, 0)  # kind -> commits
        self.commits_here_count = 0  # of these, made on the loop's own thread
        self._disk_pace = DiskPace()
        self._reloads_count = 0  # in progress: the store is read on the writer thread
        self.commit_latencies = CommitHistogram()  # from the handover to the writer's report, when it succeeds
        self._commit_began_ns = 0
        self._lone_publisher: Address | None = None  # of the only publication in the last commit
        self._confirmed_ns = 0  # when it was confirmed
        self.damaged_pages_count = 0
        self.handlers: dict[type, Callable[[Any], None]] = {  # of messages other than those of the data path
            SettleTogether: self._settle_together,
            WriteTables: self._write_tables,
            SessionRows: self._session_rows,
            WritePages: self._write_pages,
            RegisterPartition: self._register,
            SetPageAside: self._set_page_aside,
            PagesUnread: self._pages_unread,
            PurgeFromStore: self._purge,
            ReloadPartition: self._reload,
            PartitionFound: self._partition_found,
            Readopted: self._readopted,
            WatchCommits: self._watch,
            CommitDone: self._commit_done,
            CommitFailed: self._commit_failed,
            CheckpointDone: self._checkpoint_done,
            CheckpointFailed: self._checkpoint_failed,
        }
        writer.report_reads(cell.inbox)

    def receive(self, message: Any) -> None:
        """Take a publication or settlement, or carry out a request."""
        if isinstance(message, Settled):
            self._settled(message)
        elif isinstance(message, StorePublication):
            self._store(message)
        else:
            self.handlers[type(message)](message)

    def turn_ended(self) -> None:
        """Decide at the end of the turn whether to commit, when all of this turn's work is here."""
        if not self._flush_asked:
            self._flush_asked = True
            self._runtime.dispatcher.at_turn_end_last(self)

    def owner(self) -> Scheduled | None:
        """Return the actor that fails if a flush does."""
        return self._cell

    def flush(self) -> None:
        """Confirm what need not be written, and commit the rest if it is time.

        While consumers still hold messages, publishers of settled ones wait for the others, or for an interval: they
        are confirmed together, and so publish together again, and many cost little more than one.
        """
        self._flush_asked = False
        if self._planner.pending.is_empty():
            self._confirm_elided()
        if self._planner.checkpoints.due_ms() < self.checkpoints.looks_ms and not self._health.is_damaged():
            self.checkpoints.begin_if_due()
        if self._writing or self._has_to_wait():
            if self._is_in_doubt and self._idle_callbacks and self._health.is_given_up():
                self._idle()
            return
        patience_ms = 0 if self._idle_callbacks else self._commit_interval_ms
        due_ms = self._planner.due_ms(patience_ms)
        if due_ms == NEVER or (self._idle_callbacks and self._health.is_given_up()):
            if self._timer is not None:  # what it was for is settled
                self._timer.cancel()
                self._timer = None
            if self._idle_callbacks and not self.checkpoints.in_progress:
                self._idle()
            return
        at_ms = max(due_ms, self._last_commit_ms + self._commit_interval_ms)
        now_ms = self._runtime.clock.now_ms()
        if self._planner.has_elided():
            at_ms = min(at_ms, now_ms + self._commit_interval_ms)  # consumers of others may take longer
        if self._timer is not None and self._timer_ms <= at_ms:
            return  # another flush will follow
        if at_ms > now_ms and (due_ms > now_ms or not self._waits_alone()):
            self._schedule_flush(at_ms, now_ms)
        else:
            self._commit(now_ms, patience_ms)

    def _waits_alone(self) -> bool:
        """Return whether only the publisher of the last commit waits for the next, and published when it heard."""
        if self._lone_publisher is None:
            return False
        publication = self._planner.pending.only_one()
        if publication is None or publication.publisher is not self._lone_publisher:
            return False
        return self._runtime.clock.now_ns() - self._confirmed_ns <= SOON_NS

    def _has_to_wait(self) -> bool:
        """Return whether a checkpoint has to come first: publishers are ahead of what can be moved out of memory."""
        if self._gate.blocked or self.checkpoints.is_closed:
            return False  # only consumers go on, or the node makes the last checkpoint
        if self._planner.checkpoints.is_behind():
            return True
        return self.checkpoints.in_progress and self._planner.log_is_too_long()

    def when_idle(self, callback: Callable[[], None]) -> None:
        """Call back when all work so far is in the store, or the store is given up; for a clean stop."""
        self._idle_callbacks.append(callback)
        self.turn_ended()

    def _schedule_flush(self, at_ms: int, now_ms: int) -> None:
        """Schedule a flush at that time."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer_ms = at_ms
        self._timer = self._cell.after(at_ms - now_ms, self._timer_ended)

    def _timer_ended(self) -> None:
        self._timer = None
        self._confirm_elided()
        self.turn_ended()

    def _commit(self, now_ms: int, patience_ms: int) -> None:
        self._confirm_elided()
        if self._health.is_failing():
            self._planner.prove()
        commit = self._planner.next_commit(now_ms, patience_ms)
        self._writing = True
        self._last_commit_ms = now_ms
        if self._health.is_damaged():
            self._commit_failed(CommitFailed(self._gate.blocked, DAMAGED))
            return
        self._commit_began_ns = self._runtime.clock.now_ns()
        self.commits_count += 1
        report = self._commit_here(commit, now_ms)
        if report is None:
            self._writer.write(commit.job, self._cell.inbox)
        elif isinstance(report, CommitFailed):
            self._commit_failed(report)
            self.turn_ended()
        else:
            self._commit_done(report)
            if self._idle_callbacks or self._planner.due_ms(patience_ms) != NEVER:
                self.turn_ended()

    def _commit_here(self, commit: Commit, now_ms: int) -> CommitDone | CommitFailed | None:
        """Make the commit on this thread if it will be quick and nobody else waits; else return None."""
        if (
            commit.record_bytes > RECORD_BYTES_MAX
            or not self._disk_pace.is_quick(now_ms)
            or self.checkpoints.in_progress
            or self._reloads_count > 0
            or not self._runtime.is_quiet()
        ):
            return None
        report = self._writer.commit_here(commit.job)
        if report is not None:
            self.commits_here_count += 1
        return report

    def _idle(self) -> None:
        callbacks, self._idle_callbacks = self._idle_callbacks, []
        for callback in callbacks:
            callback()

    # --- what comes in ---

    def _store(self, message: StorePublication) -> None:
        publication = message.publication
        if self._gate.blocked and publication.open_count > 0 and not publication.only_moves:
            # It was admitted before older ones were refused, which their publisher sends again.
            self._planner.assigned(publication)
            self._withdraw(publication, CommitFailed(self._gate.blocked, self._health.kind))
        else:
            self._planner.store(publication, self._runtime.dispatcher.both_ms()[0])

    def _settled(self, message: Settled) -> None:
        planner = self._planner
        planner.settle(message.partition_id, message.ranges, written=message.written)
        for publication in message.released:
            planner.released(publication)
        if message.dropped_pages:
            planner.drop_pages(message.partition_id, message.dropped_pages)

    def _settle_together(self, message: SettleTogether) -> None:
        settlements = [Settlement(partition_id, first, end) for partition_id, first, end in message.settlements]
        done = self._answer(message.reply_to, message.token)
        self._planner.write_tables(TableRequest([], done, until_done=True, settlements=settlements))

    def _write_tables(self, message: WriteTables) -> None:
        done = self._answer(message.reply_to, message.token)
        staged = message.staged
        pages = None if staged is None else [_page_of(staged.partition_id, staged.plan)]
        request = TableRequest(
            message.writes,
            done,
            uses_reserve=message.uses_reserve,
            until_done=message.until_done,
            left=message.left,
            staged_pages=pages,
        )
        self._planner.write_tables(request)

    def _session_rows(self, message: SessionRows) -> None:
        # Calling the class would run the interpreted constructor of a named tuple: 2,400 instructions for each client
        # that returns.
        writes = [tuple.__new__(TableWrite, (_SESSIONS, key, value)) for key, value in message.rows]
        done = self._answer(message.reply_to, message.token)
        self._planner.write_tables(TableRequest(writes, done, uses_reserve=True, until_done=message.until_done))

    def _write_pages(self, message: WritePages) -> None:
        pages = [_page_of(message.partition_id, plan) for plan in message.plans]
        records: dict[PageKey, list[int]] = {}
        linked_bytes = 0
        for write, plan in zip(pages, message.plans, strict=True):
            if plan.log_records is not None and is_worth_links(write.page, len(plan.log_records)):
                records[PageKey(message.partition_id, plan.first)] = plan.log_records
                linked_bytes += len(write.page)

        def done(written: bool) -> None:
            message.partition.post(PagesWritten(message.plans, not written))

        request = PageRequest(pages, done, log_records=records, linked_bytes=linked_bytes)
        self._planner.checkpoints.write_pages(request, self._runtime.clock.now_ms())

    def _register(self, message: RegisterPartition) -> None:
        self._partitions[message.partition_id] = message.partition
        self._planner.register(
            message.partition_id, floor=message.next_sequence, next_sequence_reserved=message.next_sequence
        )

    def _set_page_aside(self, message: SetPageAside) -> None:
        what = "some of a page" if message.stays else "a page"
        text = f"{what} of partition {message.partition_id} cannot be read: {message.damage}"
        log.error("%s", text)
        self.damaged_pages_count += 1
        self._runtime.events.emit(SYSTEM_RECORD_QUARANTINED, text)
        damage = PageDamage(message.partition_id, message.first_sequence, message.damage, message.stays)
        self._planner.checkpoints.quarantine_page(damage)

    def _pages_unread(self, message: PagesUnread) -> None:
        """Report once that consumers of a partition wait for the store, and once that they no longer do."""
        partition_id, reason = message.partition_id, message.reason
        if not reason:
            self._health.unread_partitions.discard(partition_id)
            log.info("pages of partition %d can be read again", partition_id)
            return
        self._health.unread_partitions.add(partition_id)
        text = f"pages of partition {partition_id} cannot be read: {reason}"
        if message.is_damage and not self._health.is_damaged():
            self._shut(CommitFailed(text, DAMAGED))
        else:
            log.error(text, exc_info=message.mistake)
            self._runtime.events.emit(SYSTEM_SPOOL_FAILED, text)

    def _purge(self, message: PurgeFromStore) -> None:
        self._partitions.pop(message.partition_id, None)
        self._health.unread_partitions.discard(message.partition_id)
        self._planner.forget(message.partition_id)

    def _reload(self, message: ReloadPartition) -> None:
        """Read a partition after the next commit, which contains all that the partition has reported so far."""

        def read() -> None:
            self._reloads_count += 1
            self._writer.reload(message, self._cell.inbox)

        def committed(_: str) -> None:  # or refused, and then the refused publications are withdrawn
            self._planner.checkpoints.withdraw_pages(message.partition_id, read)

        self._planner.write_tables(TableRequest([], committed, uses_reserve=True))

    def _partition_found(self, message: PartitionFound) -> None:
        self._reloads_count -= 1
        request, stored = message.request, message.stored
        if request.partition_id not in self._planner.cursors:
            return  # its queue was deleted meanwhile
        if stored is not None:
            floor, settled = self._planner.settled_of(request.partition_id)
            stored.floor = floor
            for first, end in settled:
                stored.settle(first, end)
        request.queue.post(PartitionStored(request.partition_number, stored))

    def _readopted(self, message: Readopted) -> None:
        for publication in message.publications:
            self._planner.readopt(publication)

    def _watch(self, message: WatchCommits) -> None:
        if message.on:
            self._watchers[message.address] = None
        else:
            self._watchers.pop(message.address, None)

    # --- what comes back ---

    def _commit_done(self, message: CommitDone) -> None:
        self._writing = False
        now_ns = self._runtime.clock.now_ns()
        taken_ns = now_ns - self._commit_began_ns
        self.commit_latencies.observe(taken_ns)
        self._disk_pace.took(taken_ns, self._runtime.clock.now_ms())
        commit = self._planner.committed(message.next_number)
        publications = commit.publications
        self._lone_publisher = publications[0].publisher if len(publications) == 1 else None
        self._confirmed_ns = now_ns
        self._confirm_all(commit.publications, WRITTEN)
        self._confirm_all(commit.elided, ELIDED)
        for table in commit.tables:
            table.end("")
        if self.checkpoints.is_failing:
            pass  # the next checkpoint says whether the store can be written
        elif self._health.is_failing():
            if not self._health.is_damaged():
                self._unblock("the spool can be written again")
        elif self._gate.blocked and not commit.job.uses_reserve:
            # A commit from the reserve says nothing about room for messages; the probe does.
            self._unblock("the spool takes messages again")
        for watcher in self._watchers:
            watcher.post(CommitSeen())
        self._page_out_the_oldest()

    def _confirm_elided(self) -> None:
        elided = self._planner.take_elided()
        if elided:
            self._confirm_all(elided, ELIDED)

    def _confirm_all(self, publications: list[Publication], outcome: str) -> None:
        """Confirm publications to their publishers."""
        for publication in publications:
            _confirm(publication)
        if self._tracing is not None:
            for publication in publications:
                self._tracing.stored(publication.batch, outcome, self._runtime.clock.wall_ms())

    def _commit_failed(self, message: CommitFailed) -> None:
        self._disk_pace.failed()
        if message.is_in_doubt:
            self._commit_doubtful(message)
            return
        self._writing = False
        self._lone_publisher = None
        again_ms = COMMIT_AGAIN_MS if message.kind == FULL else TRY_AGAIN_MS
        self._last_commit_ms = self._runtime.clock.now_ms() + max(0, again_ms - self._commit_interval_ms)
        self.commits_failed[message.kind] += 1
        self._shut(message)
        commit = self._planner.failed(gives_up=message.reason if self._health.is_given_up() else "")
        self._paging_through = 0  # pages requested for it may be among what was not written
        for publication in commit.publications:
            self._withdraw(publication, message)
        for table in commit.tables:
            table.end(message.reason)
        if message.kind == FULL:
            self.checkpoints.make_room()

    def _commit_doubtful(self, message: CommitFailed) -> None:
        """Try the same commit again: a message that was refused must not be there after the next start."""
        self.commits_failed[message.kind] += 1
        self._is_in_doubt = True
        self._shut(message)
        if self._health.is_given_up():
            self._planner.give_up_waiting(message.reason)
        self._cell.after(TRY_AGAIN_MS, self._write_again)

    def _write_again(self) -> None:
        if not self.checkpoints.is_closed and not self._health.is_damaged():
            self._is_in_doubt = False
            self._writer.write(self._planner.commit_in_progress().job, self._cell.inbox)

    def _shut(self, message: CommitFailed) -> None:
        """Stop taking messages; report it if that is new, or if the reason is of another kind."""
        gate, health = self._gate, self._health
        was_open, was_live = not gate.blocked, health.is_live()
        is_news = health.failed(message.kind)
        if is_news or not health.is_damaged():  # the first report of damage stays the reason
            gate.blocked = message.reason
        if is_news and message.kind == FULL:
            gate.blocked_refusal = REFUSED_SPOOL_FULL
            log.warning("the spool takes no more messages: %s", message.reason)
            self._runtime.events.emit(SYSTEM_SPOOL_CHANGED, f"message spool takes no more messages: {message.reason}")
        elif is_news:
            gate.blocked_refusal = REFUSED_SPOOL_FAILED
            log.error("the spool has failed, and takes no messages: %s", message.reason, exc_info=message.mistake)
            self._runtime.events.emit(SYSTEM_SPOOL_FAILED, f"message spool has failed: {message.reason}")
        if was_live and not health.is_live():
            log.error("the spool has failed %d times in a row: /health/live fails", health.tries_failed)
        if was_open:
            self._cell.after(PROBE_INTERVAL_MS, self._probe)

    def _answer(self, reply_to: Address | None, token: int) -> Callable[[str], None]:
        """Return the callback that reports the outcome of a write."""

        def done(reason: str) -> None:
            if reply_to is None:
                return
            verdict = REFUSED_SPOOL_FAILED if self._health.is_failing() else REFUSED_NOT_STORED
            reply_to.post(PublishFailed(token, reason, verdict) if reason else Confirmed(token))

        return done

    def _withdraw(self, publication: Publication, failure: CommitFailed) -> None:
        """Report a failure to the publisher, and have the partitions remove the messages that no consumer holds yet."""
        publication.refused = True
        if self._tracing is not None:
            self._tracing.stored(publication.batch, NOT_STORED, self._runtime.clock.wall_ms())
        for match in publication.matches:
            partition = self._partitions.get(match.partition_id)
            if partition is not None:
                count = publication.batch.count if match.rows is None else len(match.rows)
                partition.post(Withdraw(match.first_sequence, match.first_sequence + count))
        if publication.publisher is not None:
            verdict = REFUSED_NOT_STORED if failure.kind == FULL else REFUSED_SPOOL_FAILED
            publication.publisher.post(PublishFailed(publication.token, failure.reason, verdict))

    def _probe(self) -> None:
        """Probe a full or failed store for room, until publishers can be admitted again."""
        if not self._gate.blocked:
            return
        if self._health.is_failing() or self.checkpoints.is_failing:
            self._planner.prove()
            self.turn_ended()
            self._cell.after(PROBE_INTERVAL_MS, self._probe)
        elif self._writer.has_room():
            self._unblock("the spool has room again")
            self.turn_ended()
        else:
            self.checkpoints.make_room()
            self.turn_ended()
            self._cell.after(PROBE_INTERVAL_MS, self._probe)

    def _unblock(self, text: str) -> None:
        log.info(text)
        self._health.recovered()
        self._gate.blocked = ""
        self._runtime.events.emit(SYSTEM_SPOOL_CHANGED, "message spool takes messages again")

    def _page_out_the_oldest(self) -> None:
        """Keep the log short: ask the partitions that keep its head to move it into pages."""
        through, wanted = self._planner.wanted_pages()
        if through <= self._paging_through:
            return
        self._paging_through = through
        for partition_id in wanted:
            partition = self._partitions.get(partition_id)
            if partition is not None:
                partition.post(PageOut(through))

    # --- checkpoints ---

    def _checkpoint_done(self, message: CheckpointDone) -> None:
        was_failing = self.checkpoints.is_failing
        checkpoint = self.checkpoints.succeeded(message.overhead_bytes)
        if message.is_sparse:
            self._planner.checkpoints.log_spent()
        if was_failing and self._health.is_failing() and not self._health.is_damaged():
            self._unblock("the spool can be written again")
        checkpoint.end(succeeded=True)
        self.turn_ended()

    def _checkpoint_failed(self, message: CheckpointFailed) -> None:
        """Report the failure, and try again: the log has everything, and grows until a checkpoint succeeds."""
        checkpoint = self.checkpoints.failed()
        self._paging_through = 0  # pages requested for it are among what was not written
        self._shut(CommitFailed(message.reason, message.kind, message.mistake))
        checkpoint.end(succeeded=False)
        self._planner.checkpoints.want()
        self.turn_ended()


def _page_of(partition_id: int, plan: PagePlan) -> PageWrite:
    return PageWrite(partition_id, encode_page([Run(first, batch) for first, batch in plan.runs]))


def _confirm(publication: Publication) -> None:
    publication.confirmed = True
    if publication.publisher is not None:
        publication.publisher.post(Confirmed(publication.token))
