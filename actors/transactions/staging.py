"""The staging actor: stores what transactions stage, and publishes it when they commit.

messaging.bulk.staging decides what is staged, committed and forgotten; actors.transactions.staged_commit publishes.
Pages and their rows are stored in one commit; so is the removal of a transaction's pages and rows.
"""

import logging
from dataclasses import dataclass
from random import Random
from typing import Final

from sluicegate.actors.messages.data import Confirmed, PublishFailed, Settled
from sluicegate.actors.messages.spool import PageRead, ReadPage, StagedMessages, WriteTables
from sluicegate.actors.messages.staging import (
    AbortStaged,
    CommitStaged,
    DescribeStaging,
    FinishDecided,
    Stage,
    Staged,
    StagedCommitted,
    StagingOverview,
)
from sluicegate.actors.runtime.actor import LoopActor
from sluicegate.actors.runtime.asks import LoopFuture
from sluicegate.actors.runtime.runtime import ActorCell, TimerHandle
from sluicegate.actors.runtime.tasks import run
from sluicegate.actors.spool.store_threads import StoreReader
from sluicegate.actors.transactions.staged_commit import StagedCommit
from sluicegate.messaging.bulk.staging import (
    BAD_TRANSACTION,
    NOT_STORED,
    TOO_MUCH_STAGED,
    StagedPage,
    StagingRefused,
)
from sluicegate.messaging.message.address import Address
from sluicegate.messaging.message.batch import AT_MOST_ONCE, MessageBatch
from sluicegate.messaging.message.refusals import ADMITTED, REFUSAL_TEXTS, REFUSED_SPOOL_FAILED
from sluicegate.messaging.partitions.paging import PagePlan
from sluicegate.messaging.queues.admission import SpoolGate
from sluicegate.messaging.routing.routes import TopicSpace
from sluicegate.storage.catalog.staging import Decision, FoundStaging, decision_row, name_key, page_key, page_row
from sluicegate.storage.interface import Table, TableWrite

log = logging.getLogger("sluicegate.staging")

READ_AGAIN_MS: Final = 1000  # between two attempts to read a page from a store that fails
MAINTENANCE_INTERVAL_MS: Final = 1000  # how late an expired transaction may be dropped


@dataclass(frozen=True, slots=True)
class StagingServices:
    """What the staging actor of a message VPN uses."""

    partition_id: int  # of the VPN's own hidden partition
    space: TopicSpace
    spool: Address
    reader: StoreReader
    gate: SpoolGate
    rng: Random


class StagingActor(LoopActor):
    """All staged transactions of a message VPN."""

    def __init__(
        self,
        cell: ActorCell,
        *,
        found: FoundStaging,
        services: StagingServices,
    ) -> None:
        super().__init__(cell)
        self._area = found.area
        self._services = services
        self._spool = services.spool
        self._partition_id = services.partition_id
        self._found = found
        self._token = 0
        self._answers: dict[int, LoopFuture[str]] = {}
        self._being_stored: set[int] = set()  # first sequences of pages
        self._ended: set[int] = set()  # pages being stored whose transaction has ended
        self._reads: dict[int, list[LoopFuture[PageRead]]] = {}
        self._timer: TimerHandle | None = None
        self._committed_count = 0
        self._aborted_count = 0
        self.handlers = {
            Stage: lambda message: run(self.runtime, self._stage(message)),
            CommitStaged: lambda message: run(self.runtime, self._commit(message)),
            AbortStaged: lambda message: run(self.runtime, self._abort(message)),
            FinishDecided: self._finish_decided,
            DescribeStaging: lambda _: self._overview(),
            PageRead: self._page_read,
            Confirmed: lambda message: self._answers.pop(message.token).set(""),
            PublishFailed: lambda message: self._answers.pop(message.token).set(message.reason),
        }

    def on_start(self) -> None:
        """Drop pages without a transaction. Commits decided before the start wait until their queues are restored."""
        found = self._found
        if found.orphans or found.gaps:
            self._spool.post(Settled(self._partition_id, found.gaps, [], found.orphans, True))
        self._timer = self.cell.after(MAINTENANCE_INTERVAL_MS, self._maintain)

    def on_stop(self) -> None:
        """Leave work in progress: it continues after the next start."""
        if self._timer is not None:
            self._timer.cancel()

    # --- requests ---

    async def _stage(self, message: Stage) -> Staged:
        batches = message.batches
        count = sum(batch.count for batch in batches)
        size = sum(batch.usage_bytes(durable=True) for batch in batches)
        if not batches or any(batch.qos == AT_MOST_ONCE or batch.retain for batch in batches):
            raise StagingRefused(BAD_TRANSACTION, "only guaranteed messages that are not retained are staged")
        gate = self._services.gate
        verdict = gate.verdict_on_bytes(size) or gate.verdict_on_count(count)
        if verdict != ADMITTED:
            gate.refused(verdict)
            raise StagingRefused(
                NOT_STORED if verdict == REFUSED_SPOOL_FAILED else TOO_MUCH_STAGED, REFUSAL_TEXTS[verdict]
            )
        page = self._area.stage(
            message.transaction,
            message.part,
            message.attempt,
            user=message.user,
            count=count,
            usage_bytes=size,
            wall_ms=self.runtime.clock.wall_ms(),
        )
        if page is None:
            return Staged(0, already=True)
        gate.count_in(count, size)
        plan = PagePlan(page.first, page.end, _runs(page.first, batches))
        self._being_stored.add(page.first)
        reason = await self._write([page_row(page)], staged=StagedMessages(self._partition_id, plan))
        self._being_stored.remove(page.first)
        if page.first in self._ended:
            self._ended.remove(page.first)
            self._delete([page.first])
            raise StagingRefused(NOT_STORED, f"transaction {page.transaction!r} has ended meanwhile")
        if reason:
            self._drop([page])
            raise StagingRefused(NOT_STORED, f"transaction {page.transaction!r}: {reason}")
        return Staged(count, already=False)

    async def _commit(self, message: CommitStaged) -> StagedCommitted:
        area, name = self._area, message.transaction
        pages = area.begin_commit(name, message.attempts, self.runtime.clock.wall_ms(), user=message.user)
        if pages is None:
            return StagedCommitted(area.committed[name].messages_count, already=True)
        commit = self._staged_commit()
        try:
            await commit.reserve(pages)
        except StagingRefused:
            area.give_up_commit(name)
            raise
        wall_ms, user = self.runtime.clock.wall_ms(), area.open[name].user
        decision = Decision(name, wall_ms, commit.messages_count, message.attempts, user)
        reason = await self._write([decision_row(decision)])
        if reason:
            commit.release_all()
            area.give_up_commit(name)
            raise StagingRefused(NOT_STORED, f"transaction {name!r}: {reason}")
        area.decided(name, decision.decided_ms, decision.messages_count)
        await self._publish(commit, decision, pages)
        return StagedCommitted(decision.messages_count, already=False)

    async def _abort(self, message: AbortStaged) -> bool:
        pages = self._area.abort(message.transaction, user=message.user)
        if pages is None:
            return False
        self._aborted_count += 1
        self._drop(pages)
        await self._until_deleted()
        return True

    # --- finishing ---

    def _finish_decided(self, _: FinishDecided) -> None:
        for decision in self._found.decisions:
            run(self.runtime, self._finish(decision)).then(_report)

    async def _finish(self, decision: Decision) -> None:
        """Publish the rest of a transaction that was decided before a crash."""
        assert decision.attempts is not None, "a decision is finished once"
        pages = self._area.resume_commit(decision.name, decision.attempts)
        log.info("transaction %r was decided before the start; %d pages are left", decision.name, len(pages))
        await self._publish(self._staged_commit(), decision, pages)

    async def _publish(self, commit: StagedCommit, decision: Decision, pages: list[StagedPage]) -> None:
        await commit.publish(pages)
        self._drop(list(self._area.open[decision.name].pages))
        self._area.published(decision.name)
        self._committed_count += 1
        await self._write([decision_row(decision.finished())])

    def _staged_commit(self) -> StagedCommit:
        services = self._services
        return StagedCommit(
            self.runtime,
            self,
            space=services.space,
            spool=self._spool,
            address=self.cell.inbox,
            rng=services.rng,
            partition_id=self._partition_id,
            published=self._found.published,
        )

    def _drop(self, pages: list[StagedPage]) -> None:
        """Remove pages, settle them, and delete them; those that are still being stored, when they are."""
        for page in pages:
            self._area.drop(page)
            self._services.gate.count_out(page.end - page.first, page.usage_bytes)
        firsts = [page.first for page in pages]
        self._ended.update([first for first in firsts if first in self._being_stored])
        self._spool.post(Settled(self._partition_id, [(page.first, page.end) for page in pages], [], [], True))
        self._delete([first for first in firsts if first not in self._being_stored])

    def _delete(self, firsts: list[int]) -> None:
        """Delete the rows of pages, however often the store refuses it, and then the pages."""
        self._forget([TableWrite(Table.TRANSACTIONS, page_key(first), None) for first in firsts])
        self._spool.post(Settled(self._partition_id, [], [], firsts, True))

    async def _until_deleted(self) -> None:
        """Wait until the store has deleted everything dropped so far, including pages that are still being stored."""
        ended = set(self._ended)
        is_last = False
        while not is_last:
            is_last = self._ended.isdisjoint(ended)
            await self._write([], until_done=True)  # with nothing to write, this waits for the commits

    def _maintain(self) -> None:
        """Drop transactions and names that are too old."""
        wall_ms = self.runtime.clock.wall_ms()
        for name in self._area.expired(wall_ms):
            log.warning("transaction %r expired: it was neither committed nor aborted in time", name)
            self._area.expired_count += 1
            self._drop(list(self._area.open[name].pages))
        names = self._area.forgotten(wall_ms)
        for name in names:
            del self._area.committed[name]
        if names:
            rows = [TableWrite(Table.TRANSACTIONS, name_key(name), None) for name in names]
            self._forget(rows)
        self._timer = self.cell.after(MAINTENANCE_INTERVAL_MS, self._maintain)

    # --- the store ---

    def read(self, page: StagedPage) -> LoopFuture[PageRead]:
        """Read a page."""
        answer: LoopFuture[PageRead] = LoopFuture()
        self._reads.setdefault(page.first, []).append(answer)
        self._services.reader.read(ReadPage(self.cell.inbox, self._partition_id, page.first))
        return answer

    def next_token(self) -> int:
        """Return a token for a publish or a row."""
        self._token += 1
        return self._token

    def answer_to(self, token: int) -> LoopFuture[str]:
        """Return the outcome of the work with this token: empty, or why it was not stored."""
        answer = self._answers[token] = LoopFuture[str]()
        return answer

    def _write(
        self, rows: list[TableWrite], *, until_done: bool = False, staged: StagedMessages | None = None
    ) -> LoopFuture[str]:
        token = self.next_token()
        self._spool.post(WriteTables(self._own(rows), self.cell.inbox, token, until_done, staged=staged))
        return self.answer_to(token)

    def _forget(self, rows: list[TableWrite]) -> None:
        self._spool.post(WriteTables(self._own(rows), None, 0, until_done=True))

    def _own(self, rows: list[TableWrite]) -> list[TableWrite]:
        return [row.under(self._services.space.row_prefix) for row in rows]

    def _page_read(self, message: PageRead) -> None:
        if message.failed:  # a disk error: the page is not lost
            request = ReadPage(self.cell.inbox, self._partition_id, message.first_sequence)
            self.cell.after(READ_AGAIN_MS, lambda: self._services.reader.read(request))
            return
        self._reads[message.first_sequence].pop(0).set(message)
        if not self._reads[message.first_sequence]:
            del self._reads[message.first_sequence]

    def _overview(self) -> StagingOverview:
        area = self._area
        return StagingOverview(
            open_count=len(area.open),
            committing_count=sum(1 for each in area.open.values() if each.committing),
            staged_bytes=area.staged_bytes,
            staged_pages_count=area.pages_count,
            committed_names_count=len(area.committed),
            committed_count=self._committed_count,
            aborted_count=self._aborted_count,
            expired_count=area.expired_count,
        )


def _runs(first: int, batches: list[MessageBatch]) -> list[tuple[int, MessageBatch]]:
    runs: list[tuple[int, MessageBatch]] = []
    for batch in batches:
        runs.append((first, batch))
        first += batch.count
    return runs


def _report(outcome: LoopFuture[None]) -> None:
    try:
        outcome.get()
    except Exception:  # the decision stands: the next start tries again
        log.exception("a committed transaction could not be published")
