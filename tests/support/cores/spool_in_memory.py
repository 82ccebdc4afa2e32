"""A spool on dicts: the real planner, ledgers and record formats, and a store that obeys or fails on command.

Beside it is a plain model of the store's promises: which messages were written, and which were settled.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import NamedTuple

from sluicegate.gateway.node.recovery import Recovered, read_store, register_partitions
from sluicegate.messaging.message.batch import MessageBatch
from sluicegate.messaging.message.outcomes import DISCARD_NOT_STORED
from sluicegate.messaging.message.publication import Publication
from sluicegate.messaging.partitions.ledger import Ledger
from sluicegate.messaging.partitions.paging import page_loaded, pages_written, plan_pages
from sluicegate.messaging.partitions.recovery import redelivered_ranges, restore
from sluicegate.messaging.partitions.state.effects import Delivery
from sluicegate.messaging.partitions.state.flows import DeliveryRules
from sluicegate.storage.commit.checkpoint import Checkpoint, PageRequest
from sluicegate.storage.commit.pending import NEVER
from sluicegate.storage.commit.planner import Commit, CommitPlanner
from sluicegate.storage.errors import StoreFailed
from sluicegate.storage.interface import (
    CheckpointJob,
    CommitJob,
    LogEntry,
    PageEntry,
    PageKey,
    PageWrite,
    Recovery,
    StoreUsage,
    Table,
)
from sluicegate.storage.log.record import LogRecord, decode_log_record, encode_log_record, record_of
from sluicegate.storage.log.tail import TailChanges
from sluicegate.storage.records.cursor import decode_cursor, encode_cursor
from sluicegate.storage.records.journal import JournalRecord, decode_journal_record
from sluicegate.storage.records.linked_page import Link
from sluicegate.storage.records.page import PageRuns, Run, decode_page, decode_page_summary, encode_page
from support.cores.messages import batch_of, flow_of, published, sequences_of


class Place(NamedTuple):
    """A message's place: no two messages ever have the same."""

    partition_id: int
    sequence: int


class DictStore:
    """What storage.store.store keeps on a disk, in dicts. The log is trimmed of everything that is not needed."""

    def __init__(self) -> None:
        self.log: dict[int, bytes] = {}
        self.applied = 0
        self.needed_from = 1
        self.pages: dict[PageKey, bytes] = {}
        self.cursors: dict[int, bytes] = {}
        self.clean = False

    def commit(self, job: CommitJob) -> int:
        assert job.number > self._last_number()
        self.log[job.number] = encode_log_record(record_of(job))
        return job.number + 1 + job.number % 3  # any number above it will do

    def is_at_hand(self, record_bytes: int) -> bool:
        return True

    def checkpoint(self, job: CheckpointJob) -> None:
        assert self.applied <= job.applied <= self._last_number()
        self.clean = False
        changes = TailChanges(self._unapplied(job.applied))
        cursors = {partition_id: decode_cursor(data) for partition_id, data in self.cursors.items()}
        changes.change_cursors(cursors, lost=set())
        cursors.update({cursor.partition_id: cursor for cursor in job.cursor_puts})
        self.cursors = {partition_id: encode_cursor(cursor) for partition_id, cursor in cursors.items()}
        self.pages = {key: page for key, page in self.pages.items() if key.partition_id not in changes.purged}
        for damage in job.page_quarantines:
            self.pages.pop(PageKey(damage.partition_id, damage.first_sequence), None)
        for key in job.page_deletes:
            assert self.pages.pop(key, None) is not None, "a page is deleted once"
        for write in job.page_writes:
            key = PageKey(write.partition_id, decode_page_summary(write.page).first_sequence)
            assert key not in self.pages, "a page is written once"
            self.pages[key] = write.page
        self.applied, self.needed_from = job.applied, job.needed_from
        self.log = {number: data for number, data in self.log.items() if number >= self._oldest_number()}

    def read_page(self, partition_id: int, first_sequence: int) -> PageRuns:
        return decode_page(self.pages[PageKey(partition_id, first_sequence)])

    def read_linked(self, link: Link) -> bytes | None:
        """Return nothing: pages here have their messages."""
        return None

    def stream_copy(self, sink: Callable[[bytes], None]) -> None:
        raise StoreFailed("there is no data file")

    def log_held(self) -> AbstractContextManager[None]:
        return nullcontext()

    def log_records(self, first: int) -> Iterator[LogEntry]:
        for number, data in self.log.items():
            if number >= first:
                yield LogEntry(number, data, is_sound=True)

    def row_keys(self, prefix: bytes) -> dict[Table, list[bytes]]:
        return {table: [] for table in Table}

    def recover(self) -> Recovery:
        changes = TailChanges(self._unapplied(self._last_number()))
        cursors = {partition_id: decode_cursor(data) for partition_id, data in self.cursors.items()}
        changes.change_cursors(cursors, lost=set())
        pages = [PageEntry(key.partition_id, decode_page_summary(page)) for key, page in sorted(self.pages.items())]
        return Recovery(
            incarnation=1,
            was_clean=self.clean and self._last_number() == self.applied,
            next_record_number=self._last_number() + 1,
            cursors=cursors,
            pages=changes.change_pages(pages),
            journal=self._records(),
            tables={table: iter(()) for table in Table},
            quarantined=[],
            applied=self.applied,
        )

    def usage(self) -> StoreUsage:
        return StoreUsage(
            used_bytes=0,
            file_bytes=0,
            map_bytes_max=1 << 40,
            reserve_bytes=0,
            disk_free_bytes=1 << 40,
            log_bytes=0,
            log_records=len(self.log),
            checkpoint_bytes=0,
            page_entries=len(self.pages),
            quarantine_entries=0,
        )

    def mark_clean(self) -> None:
        self.clean = True

    def close(self) -> None:
        pass

    def _last_number(self) -> int:
        return max([self.applied, *self.log])

    def _oldest_number(self) -> int:
        """Return the number of the oldest record that is needed."""
        return min(self.needed_from, self.applied + 1)

    def _unapplied(self, through: int) -> list[LogRecord]:
        numbers = [number for number in self.log if self.applied < number <= through]
        return [decode_log_record(self.log[number], "record", is_sound=True) for number in numbers]

    def _records(self) -> Iterator[tuple[int, JournalRecord]]:
        for number, data in self.log.items():
            journal = decode_log_record(data, "record", is_sound=True).journal
            if journal is not None:
                yield number, decode_journal_record(journal)


class SpoolInMemory:
    """A node's spool and partitions through one life after the other."""

    def __init__(self, partition_ids: list[int]) -> None:
        self.store = DictStore()
        self.partition_ids = partition_ids
        self.rules = DeliveryRules()
        self.promised: dict[Place, bytes] = {}  # written by a commit that was made, or moved into a page by one
        self.promised_settled: set[Place] = set()
        self.given_out: set[Place] = set()  # in any life
        self.commit_out: Commit | None = None
        self.checkpoint_out: Checkpoint | None = None
        self.start()

    # --- lives ---

    def start(self) -> None:
        """Come up from what is in the store; the first commit reserves sequences before anybody publishes."""
        self.commit_out = None
        self.checkpoint_out = None
        self.confirmed: list[Publication] = []
        self.refused: list[Publication] = []
        recovered: Recovered = read_store(self.store)
        self.planner: CommitPlanner = recovered.planner
        self.paging: set[int] = set()  # partitions with pages that wait for a checkpoint
        self.ledgers: dict[int, Ledger] = {}
        for partition_id in self.partition_ids:
            ledger = self.ledgers[partition_id] = Ledger(durable=True, rules=self.rules)
            stored = recovered.partitions.get(partition_id)
            if stored is not None:
                restore(ledger, stored, was_clean=recovered.was_clean)
            ledger.check()
        register_partitions(recovered, self.partition_ids)
        self.carry_out_effects()
        self.begin_commit()
        self.end_commit(succeeds=True)

    def crash(self, *, keeps_commit: bool = False, keeps_checkpoint: bool = False) -> dict[Place, bytes]:
        """Nothing that was in memory is left. Return what has to come back.

        A commit or a checkpoint that was out was made or not.
        """
        if keeps_commit and self.commit_out is not None:
            self.store.commit(self.commit_out.job)
            self._promise(self.commit_out)
        if keeps_checkpoint and self.checkpoint_out is not None:
            self.store.checkpoint(self.checkpoint_out.job)
        expected = self.unsettled()
        self.start()
        return expected

    def stop_and_start(self) -> dict[Place, bytes]:
        """Commit all there is, write the last cursors, and come up again. Return what has to come back."""
        self.commit_everything()
        self.end_checkpoint(succeeds=True)
        states = []
        for partition_id, ledger in self.ledgers.items():
            cursor = self.planner.cursors[partition_id]
            cursor.next_sequence_reserved = ledger.next_sequence
            states.append(cursor.state(redelivered_ranges(ledger)))
        self.store.checkpoint(self.planner.last_checkpoint(states))
        self.store.mark_clean()
        expected = self.unsettled()
        self.start()
        return expected

    # --- what actors do ---

    def publish(self, payloads: list[bytes], rows_by_partition: dict[int, list[int] | None]) -> Publication:
        return self.publish_batch(batch_of(payloads), rows_by_partition)

    def publish_batch(self, batch: MessageBatch, rows_by_partition: Mapping[int, list[int] | None]) -> Publication:
        publication = published(batch, partitions_count=len(rows_by_partition))
        for partition_id, rows in rows_by_partition.items():
            part = publication.batch if rows is None else publication.batch.select(rows)
            first = self.ledgers[partition_id].append(part, publication)
            places = {Place(partition_id, sequence) for sequence in range(first, first + part.count)}
            assert not places & self.given_out, "no sequence is used twice, in no life"
            self.given_out |= places
            if publication.sequenced(partition_id, first, rows):
                self.planner.store(publication, now_ms=0)
        return publication

    def open_partition(self, partition_id: int) -> None:
        self.ledgers[partition_id] = Ledger(durable=True, rules=self.rules)
        self.planner.register(partition_id, floor=1, next_sequence_reserved=1)

    def forget_partition(self, partition_id: int) -> None:
        del self.ledgers[partition_id]
        self.planner.forget(partition_id)

    def read_wanted_pages(self, partition_id: int) -> bool:
        """Read what deliveries waited for; return whether there was any."""
        ledger = self.ledgers[partition_id]
        wanted, ledger.effects.wanted_pages = ledger.effects.wanted_pages, []
        for first in wanted:
            page_loaded(ledger, first, [(run, batch) for run, batch in self.store.read_page(partition_id, first).runs])
        return bool(wanted)

    def deliver(self, partition_id: int) -> list[Delivery]:
        """Deliver to one consumer without limits, reading pages as they are wanted."""
        ledger = self.ledgers[partition_id]
        if not ledger.flows:
            ledger.attach(flow_of(1, limit=1_000_000), epoch=1)
        deliveries = ledger.deliver(0)
        while self.read_wanted_pages(partition_id):
            deliveries += ledger.deliver(0)
        self.carry_out_effects()
        return deliveries

    def settle(self, partition_id: int, first: int, end: int, outcome: int) -> None:
        self.ledgers[partition_id].settle(1, first, end, outcome)
        self.carry_out_effects()

    def page_out(self, partition_id: int, *, page_bytes: int, bytes_to_free: int) -> None:
        ledger = self.ledgers[partition_id]
        if partition_id in self.paging:
            return  # one at a time, as the partition actor does
        plans = plan_pages(ledger, page_bytes=page_bytes, bytes_to_free=bytes_to_free, through_record=None)
        if not plans:
            return
        pages = [
            PageWrite(partition_id, encode_page([Run(first, batch) for first, batch in plan.runs])) for plan in plans
        ]
        self.paging.add(partition_id)

        def paged(written: bool) -> None:
            self.paging.discard(partition_id)
            for plan in plans if written else []:
                pages_written(ledger, plan)

        self.planner.checkpoints.write_pages(PageRequest(pages, paged), now_ms=0)

    def carry_out_effects(self) -> None:
        for partition_id, ledger in self.ledgers.items():
            effects = ledger.effects
            self.planner.settle(partition_id, effects.settled, written=effects.settled_written)
            for publication in effects.released_publications:
                self.planner.released(publication)
            if effects.dropped_pages:
                self.planner.drop_pages(partition_id, effects.dropped_pages)
            effects.settled, effects.released_publications, effects.dropped_pages = [], [], []
            effects.settled_written = False

    # --- commits ---

    def begin_commit(self, *, patience_ms: int = 0) -> None:
        """Begin a commit if one is due, at the moment 0 at which everything comes; consumers are given some time."""
        if self.commit_out is None:
            self.confirmed += self.planner.take_elided()
            if self.planner.due_ms(patience_ms) <= 0:
                self.commit_out = self.planner.next_commit(0, patience_ms)

    def end_commit(self, *, succeeds: bool) -> None:
        if self.commit_out is None:
            return
        self.commit_out = None
        if succeeds:
            commit = self.planner.committed(self.store.commit(self.planner.commit_in_progress().job))
            self._promise(commit)
            for publication in commit.publications:
                publication.confirmed = True
            self.confirmed += commit.publications
        else:
            commit = self.planner.failed()
            for publication in commit.publications:
                self._withdraw(publication)
        for table in commit.tables:
            table.done("" if succeeds else "it failed")
        self.carry_out_effects()

    def commit_everything(self) -> None:
        self.end_commit(succeeds=True)
        self.begin_commit()
        while self.commit_out is not None:
            self.end_commit(succeeds=True)
            self.begin_commit()

    # --- checkpoints ---

    def begin_checkpoint(self) -> None:
        """Begin a checkpoint if it would change anything, due or not."""
        if self.checkpoint_out is None and self.planner.checkpoints.due_ms() != NEVER:
            self.checkpoint_out = self.planner.next_checkpoint()

    def end_checkpoint(self, *, succeeds: bool) -> None:
        if self.checkpoint_out is None:
            return
        if succeeds:
            self.store.checkpoint(self.checkpoint_out.job)
            checkpoint = self.planner.checkpoints.succeeded(overhead_bytes=0)
        else:
            checkpoint = self.planner.checkpoints.failed()
        self.checkpoint_out = None
        checkpoint.end(succeeded=succeeds)
        self.carry_out_effects()

    def checkpoint_everything(self) -> None:
        """Commit all there is, and have the state include it."""
        self.end_checkpoint(succeeds=True)
        for _ in range(2):  # messages that have moved into pages let pages and records go
            self.commit_everything()
            self.begin_checkpoint()
            self.end_checkpoint(succeeds=True)

    # --- what can be seen ---

    def unsettled(self) -> dict[Place, bytes]:
        """Return what the store has promised to bring back."""
        return {place: payload for place, payload in self.promised.items() if place not in self.promised_settled}

    def take_all(self) -> dict[Place, tuple[bytes, bool, int]]:
        """Deliver whatever is ready; return payload, redelivered flag and delivery count of each message."""
        seen: dict[Place, tuple[bytes, bool, int]] = {}
        for partition_id in self.partition_ids:
            for delivery in self.deliver(partition_id):
                payloads = delivery.batch.payloads()[delivery.start_row : delivery.stop_row]
                for sequence, payload in zip(sequences_of(delivery), payloads, strict=True):
                    place = Place(partition_id, sequence)
                    assert place not in seen
                    seen[place] = (payload, delivery.redelivered, delivery.delivery_count)
        return seen

    def _promise(self, commit: Commit) -> None:
        for publication in commit.publications:
            payloads = publication.batch.payloads()
            for match in publication.matches:
                rows = range(len(payloads)) if match.rows is None else match.rows
                for sequence, row in enumerate(rows, match.first_sequence):
                    self.promised[Place(match.partition_id, sequence)] = payloads[row]
        for partition_id, first, end in commit.settlements:
            self.promised_settled |= {
                place
                for place in self.given_out
                if place.partition_id == partition_id and first <= place.sequence < end
            }
        for partition_id in commit.job.partition_purges:
            self.promised = {place: each for place, each in self.promised.items() if place.partition_id != partition_id}

    def _withdraw(self, publication: Publication) -> None:
        self.refused.append(publication)
        for match in publication.matches:
            count = publication.batch.count if match.rows is None else len(match.rows)
            first = match.first_sequence
            self.ledgers[match.partition_id].give_up(first, first + count, DISCARD_NOT_STORED)
