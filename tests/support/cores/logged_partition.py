"""A durable partition with a log beside its ledger, and a store of pages that answers at once."""

from sluicegate.messaging.bulk.range_reads import gaps_of, plan_range, runs_of
from sluicegate.messaging.bulk.retained_log import RetainedLog, RetentionRules
from sluicegate.messaging.message.batch import MessageBatch
from sluicegate.messaging.message.publication import UNWRITTEN, Publication
from sluicegate.messaging.partitions.ledger import Ledger
from sluicegate.messaging.partitions.paging import PagePlan, page_loaded
from sluicegate.messaging.partitions.state.flows import DeliveryRules
from sluicegate.messaging.partitions.state.segments import Gap
from support.cores.messages import flow_of, published, sequences_of

PARTITION_ID = 7
Runs = list[tuple[int, MessageBatch]]


class LoggedPartition:
    """What a partition actor does with ledger and log, without actors."""

    def __init__(self, *, limit: int = 1000) -> None:
        self.rules = RetentionRules()
        self.ledger = Ledger(durable=True, rules=DeliveryRules())
        self.log = RetainedLog(self.ledger, self.rules)
        self.flow = flow_of(1, limit=limit)
        self.ledger.attach(self.flow, epoch=1)
        self.stored: dict[int, Runs] = {}
        self.published: list[Publication] = []
        self.drained: list[Publication] = []
        self.payloads: dict[int, bytes] = {}
        self.seen: list[tuple[int, bytes, bool, int]] = []  # sequence, payload, redelivered, delivery count
        self.wall_ms = 0

    def append(self, batch: MessageBatch, *, stored: bool = True) -> Publication:
        """Publish a batch; with `stored`, it is on the disk at once."""
        publication = published(batch)
        first = self.ledger.append(batch, publication)
        if self.log.active:
            self.log.append(first, batch, publication)
        publication.sequenced(PARTITION_ID, first, None)
        for sequence, payload in enumerate(batch.payloads(), first):
            self.payloads[sequence] = payload
        self.published.append(publication)
        if stored:
            self.journal()
        return publication

    def journal(self) -> None:
        """Commit what is open; what is not is elided."""
        for number, publication in enumerate(self.published, 1):
            if publication.record_number == UNWRITTEN and publication.open_count > 0:
                publication.record_number = number
            publication.confirmed = True

    def plan(self, *, page_bytes: int) -> list[PagePlan]:
        return self.log.plan_pages(page_bytes=page_bytes, bytes_to_free=1 << 30, through_record=None)

    def page_out(self, *, page_bytes: int = 10) -> None:
        for plan in self.plan(page_bytes=page_bytes):
            self.written(plan)

    def written(self, plan: PagePlan) -> None:
        """The store has a page that was planned before."""
        self.stored[plan.first] = plan.runs
        self.log.pages_written(plan)
        self.end_turn()

    def deliver(self) -> None:
        while True:
            for delivery in self.ledger.deliver(0):
                payloads = delivery.batch.payloads()[delivery.start_row : delivery.stop_row]
                for sequence, payload in zip(sequences_of(delivery), payloads, strict=True):
                    self.seen.append((sequence, payload, delivery.redelivered, delivery.delivery_count))
            wanted, self.ledger.effects.wanted_pages = self.ledger.effects.wanted_pages, []
            if not wanted:
                return
            for first in wanted:
                page_loaded(self.ledger, first, self.stored[first])

    def settle(self, first: int, end: int, outcome: int) -> None:
        self.flow.window.give(self.ledger.settle(1, first, end, outcome))
        self.end_turn()

    def look_after(self) -> None:
        self.log.maintain(self.wall_ms)
        self.end_turn()

    def end_turn(self) -> None:
        """Carry out the effects as the partition actor does."""
        effects = self.ledger.effects
        for first in self.log.droppable(effects.dropped_pages):
            del self.stored[first]
        effects.dropped_pages = []
        self.drained += effects.released_publications
        effects.released_publications = []
        self.ledger.check()
        self.log.check()

    def read(self, first: int, end: int, *, bytes_max: int = 1 << 20) -> tuple[dict[int, bytes], list[Gap], int]:
        """Read one chunk: payloads by sequence, gaps, and the next sequence."""
        plan = plan_range(self.log, first, end, bytes_max)
        runs = []
        for piece in plan.pieces:
            runs += runs_of(piece, self.stored.get(piece.page_first))
        found = {
            run.first_sequence + row: run.batch.payloads()[run.start_row + row]
            for run in runs
            for row in range(run.stop_row - run.start_row)
        }
        return found, gaps_of(self.log, plan, runs, []), plan.next_sequence
