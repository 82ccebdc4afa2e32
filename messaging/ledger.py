"""The ledger of one partition: who has which sequence, what is ready, what is settled.

The ledger works on ranges. A read of 300 messages is one segment, one delivery and, when the consumer keeps up, one
settlement, so its cost is by batches. It decides and never acts: what has to happen outside (settlements to persist,
pages to read or delete, publications the journal may forget) is left in `effects` for the partition actor to fetch.

Deliberately elsewhere: which flow may consume at all (messaging.rebalance), quotas (messaging.admission), bytes at
rest (storage), and the sending itself (the actors).
"""

from typing import final

from messaging.batch import MessageBatch
from messaging.effects import Delivery, Effects
from messaging.flows import DeliveryRules, Flow, LedgerFlow, flows_with_room
from messaging.publication import UNWRITTEN, Publication
from messaging.ranges import RangeSet
from messaging.segments import PAGE_ABSENT, PAGE_WANTED, Segment, SegmentList
from messaging.settlement import (
    ACCEPTED,
    DISCARD_EXPIRED,
    DISCARD_MAX_REDELIVERY,
    DISCARD_PURGED,
    DISCARD_REJECTED,
    FAILED,
    REJECTED,
)


@final
class Ledger:
    """One partition's messages and their states.

    Every sequence below `next_sequence` is exactly one of: settled (below `floor` or in `settled`), in flight with one
    flow, waiting to be delivered again (`requeued`), or never delivered (at or after `ready_from`). Those that are not
    settled lie in segments.

    Invariants: `floor <= ready_from <= next_sequence`; in-flight ranges of different flows are disjoint; sequences are
    dense, ascending, never reused.
    """

    def __init__(self, *, durable: bool, rules: DeliveryRules, next_sequence: int = 1) -> None:
        self.durable = durable  # settlements are worth persisting
        self.rules = rules
        self.next_sequence = next_sequence
        self.floor = next_sequence
        self.ready_from = next_sequence
        self.settled = RangeSet()
        self.requeued = RangeSet()
        self.failures: dict[int, int] = {}  # sequence -> failed deliveries, of the unsettled ones that have any
        self.suspect_end = 0  # recovered after a crash: anything below may have been delivered before
        self.flows: dict[int, LedgerFlow] = {}
        self.waiting_count = 0  # unsettled, in flight or not
        self.waiting_bytes = 0
        self.memory_bytes = 0  # of the batches that segments hold
        self.effects = Effects()
        self.segments = SegmentList()
        self.pageable_from = 0  # everything unsettled below lies in pages, read back or not
        self.paged_end = 0  # no page reaches further
        self._turn = 0
        self.may_expire = False  # some message had headers, so deliveries have to look at the time

    # --- messages in ---

    def append(self, batch: MessageBatch, publication: Publication | None) -> int:
        """Number the rows of a batch and make them ready; return the first sequence."""
        first = self.next_sequence
        count = batch.count
        end = first + count
        self.segments.append(Segment(first, end, count, batch.payload_bytes, batch, publication, None))
        self.next_sequence = end
        self.waiting_count += count
        self.waiting_bytes += batch.payload_bytes
        self.memory_bytes += batch.memory_bytes()
        if batch.headers() is not None:
            self.may_expire = True
        return first

    # --- flows ---

    def attach(self, flow: Flow, epoch: int) -> None:
        """Let a flow take messages, under the given assignment epoch; a paused one that kept its epoch goes on."""
        held = self.flows.get(flow.flow_id)
        if held is not None:
            assert held.paused, "a flow is attached once"
            assert held.epoch == epoch, "who gets a partition anew was detached before"
            held.paused = False
            return
        self.flows[flow.flow_id] = LedgerFlow(flow, epoch)

    def pause(self, flow_id: int) -> None:
        """Send nothing more to a flow; what it holds it may still settle."""
        flow = self.flows.get(flow_id)
        if flow is not None:
            flow.paused = True

    def detach(self, flow_id: int, *, count_as_failed: bool) -> None:
        """Take a flow's unsettled messages back, to be delivered again oldest first; later settlements are void."""
        flow = self.flows.pop(flow_id, None)
        if flow is None:
            return
        for first, end in flow.in_flight.ranges():
            self._requeue(first, end, 1 if count_as_failed else 0)

    def in_flight_count(self, flow_id: int) -> int:
        """Return how many messages a flow holds unsettled."""
        flow = self.flows.get(flow_id)
        return 0 if flow is None else flow.in_flight.total

    def was_delivered(self, sequence: int) -> bool:
        """Return whether an unsettled message left the queue, or may have."""
        return sequence < self.ready_from or sequence < self.suspect_end

    # --- deliveries out ---

    def deliver(self, wall_ms: int) -> list[Delivery]:
        """Give ready messages to the flows that have credit, oldest first; expired ones are dropped on the way."""
        deliveries: list[Delivery] = []
        ready_count = self.requeued.total + self.next_sequence - self.ready_from
        if ready_count == 0 or not self.flows:
            return deliveries
        unacked_count_max = self.rules.unacked_count_max
        line = flows_with_room(list(self.flows.values()), unacked_count_max)
        # Competing flows get even shares: the line is served in turns until the messages or all credit are used up.
        share = (ready_count + len(line) - 1) // len(line) if line else 0
        place = 0
        while line and (self.requeued.total > 0 or self.ready_from < self.next_sequence):
            flow = line[place]
            room = flow.room(unacked_count_max)
            if room == 0:  # used up, perhaps by another flow of the same consumer
                del line[place]
            elif not self._deliver_piece(flow, min(share, room), wall_ms, deliveries):
                return deliveries  # its page is on the way, or all that was left is settled
            else:
                place += 1
            if place >= len(line):
                place = 0
        if not line and (self.requeued.total > 0 or self.ready_from < self.next_sequence):
            self.effects.starved_flows += [flow.flow for flow in self.flows.values() if not flow.paused]
        return deliveries

    def _deliver_piece(self, flow: LedgerFlow, limit: int, wall_ms: int, out: list[Delivery]) -> bool:
        """Give a flow at most `limit` messages of one segment; return False when nothing is at hand."""
        again = self.requeued.total > 0
        piece = self._requeued_piece(limit) if again else self._fresh_piece(limit)
        if piece is None:
            return False
        segment, first, end = piece
        if again:
            self.requeued.remove(first, end)
        else:
            self.ready_from = end
        self._turn += 1
        flow.turn = self._turn
        batch = segment.batch
        assert batch is not None
        redelivered = again or first < self.suspect_end
        if self.rules.expires(again) and batch.headers() is not None:
            self._deliver_unexpired(flow, segment, first, end, redelivered, wall_ms, out)
        else:
            self._deliver_run(flow, segment, first, end, redelivered, out)
        return True

    def _deliver_run(
        self, flow: LedgerFlow, segment: Segment, first: int, end: int, redelivered: bool, out: list[Delivery]
    ) -> None:
        batch = segment.batch
        assert batch is not None
        tried_count = self.failures.get(first, 0) if self.failures else 0
        start_row = first - segment.first
        stop_row = end - segment.first
        flow.flow.window.take(end - first)
        flow.in_flight.add(first, end)
        out.append(Delivery(flow.flow, flow.epoch, batch, start_row, stop_row, first, redelivered, tried_count + 1))

    def _deliver_unexpired(
        self,
        flow: LedgerFlow,
        segment: Segment,
        first: int,
        end: int,
        redelivered: bool,
        wall_ms: int,
        out: list[Delivery],
    ) -> None:
        batch = segment.batch
        assert batch is not None
        run_first = first
        for sequence in range(first, end):
            headers = batch.headers_of(sequence - segment.first)
            if headers is not None and 0 < headers.expires_at_ms <= wall_ms:
                if run_first < sequence:
                    self._deliver_run(flow, segment, run_first, sequence, redelivered, out)
                run_first = sequence + 1
                self._discard(sequence, sequence + 1, DISCARD_EXPIRED)
        if run_first < end:
            self._deliver_run(flow, segment, run_first, end, redelivered, out)

    def _requeued_piece(self, limit: int) -> tuple[Segment, int, int] | None:
        first = self.requeued.starts[0]
        segment = self.segments.at_or_after(first)
        assert segment is not None, "what waits again is in a segment"
        assert segment.first <= first, "what waits again is in a segment"
        if not self._in_memory(segment):
            return None
        if segment.page is not None:
            self._prefetch(segment.end)
        end = min(self.requeued.ends[0], segment.end, first + limit)
        if not self.failures:
            return segment, first, end
        count = self.failures.get(first, 0)  # a delivery says how often it was tried, so it has one count
        stop = first + 1
        while stop < end and self.failures.get(stop, 0) == count:
            stop += 1
        return segment, first, stop

    def _fresh_piece(self, limit: int) -> tuple[Segment, int, int] | None:
        while True:
            segment = self.segments.at_or_after(self.ready_from)
            if segment is None:
                self.ready_from = self.next_sequence
                return None
            first = segment.first if segment.first > self.ready_from else self.ready_from
            end = min(segment.end, first + limit)
            if first < self.suspect_end < end:
                end = self.suspect_end
            if self.settled.total > 0 and self.settled.ends[-1] > first:
                # Only after a recovery, or where single messages were deleted, is something settled up here.
                first, end = self.settled.first_outside(first, end)
                if first == end:
                    self.ready_from = end
                    continue
            if not self._in_memory(segment):
                return None
            self._prefetch(segment.end)
            return segment, first, end

    def _in_memory(self, segment: Segment) -> bool:
        """Return whether a segment's messages are at hand; if not, ask for its page."""
        page = segment.page
        if segment.batch is not None or page is None:
            return True
        if page.state == PAGE_ABSENT:
            page.state = PAGE_WANTED
            self.effects.wanted_pages.append(page.first)
        return False

    def _prefetch(self, sequence: int) -> None:
        """Ask for the next page while the consumer is busy with the messages before it."""
        if sequence < self.paged_end:
            segment = self.segments.at_or_after(sequence)
            if segment is not None:
                self._in_memory(segment)

    # --- settlements ---

    def settle(self, flow_id: int, first: int, end: int, outcome: int) -> int:
        """Apply a consumer's outcome to `[first, end)`; return how many messages it applied to.

        Sequences that the flow does not hold (settled twice, or taken back meanwhile) are passed over.
        """
        flow = self.flows.get(flow_id)
        if flow is None:
            return 0
        count = 0
        for start, stop in flow.in_flight.remove(first, end):
            count += stop - start
            if outcome == ACCEPTED:
                self._settle(start, stop)
            elif outcome == REJECTED:
                self._discard(start, stop, DISCARD_REJECTED)
            else:
                self._requeue(start, stop, 1 if outcome == FAILED else 0)
        return count

    def purge(self) -> int:
        """Drop every message that no consumer holds; return how many."""
        return self.give_up(self.floor, self.next_sequence, DISCARD_PURGED)

    def give_up(self, first: int, end: int, reason: str) -> int:
        """Drop those of `[first, end)` that no consumer holds; return how many."""
        lost = self.settled.outside(max(first, self.floor), min(end, self.next_sequence))
        for flow in self.flows.values():
            lost = [part for start, stop in lost for part in flow.in_flight.outside(start, stop)]
        count = 0
        for start, stop in lost:
            count += stop - start
            self.requeued.remove(start, stop)
            self._discard(start, stop, reason)
        return count

    def close(self, publication: Publication, count: int) -> None:
        """Count rows, settled or paged, that need the publication no more.

        It is not drained while a partition has yet to number its rows.
        """
        publication.open_count -= count
        if publication.open_count == 0 and publication.unsequenced_count == 0:
            self.effects.drained.append(publication)

    def abandon(self) -> None:
        """Let go of everything, in flight or not: the queue is gone, and with it what the store has of it.

        Only `effects.drained` is left to be carried out. The ledger is not to be used any more.
        """
        for segment in self.segments.all():
            if segment.publication is not None:
                self.close(segment.publication, segment.live_count)

    def check(self) -> None:
        """Assert the invariants, each on its own line."""
        self.segments.check()
        self.settled.check()
        self.requeued.check()
        assert self.floor <= self.ready_from <= self.next_sequence
        assert self.settled.total == 0 or self.settled.starts[0] > self.floor, "the floor is as high as it can be"
        assert self.settled.total == 0 or self.settled.ends[-1] <= self.next_sequence
        held = RangeSet()
        held_count = 0
        for ranges in [self.requeued, *[flow.in_flight for flow in self.flows.values()]]:
            ranges.check()
            held_count += ranges.total
            for first, end in ranges.ranges():
                held.add(first, end)
        assert held.total == held_count, "no sequence is held twice"
        assert held.total == 0 or held.ends[-1] <= self.ready_from, "what was delivered is behind what was not"
        fresh_count = sum([stop - start for start, stop in self.settled.outside(self.ready_from, self.next_sequence)])
        assert held.total + fresh_count == self.waiting_count, "every unsettled message is held or ready"
        for start, end in self.settled.ranges():
            assert held.count_within(start, end) == 0, "what is settled is held by nobody"
        segments = self.segments.all()
        for segment in segments:
            unsettled_from = max(segment.first, self.floor)
            settled_count = self.settled.count_within(unsettled_from, segment.end)
            assert segment.live_count == segment.end - unsettled_from - settled_count
            assert segment.page is not None or segment.first >= self.pageable_from
        assert sum([segment.live_count for segment in segments]) == self.waiting_count
        assert sum([segment.bytes_left for segment in segments]) == self.waiting_bytes
        assert sum([s.batch.memory_bytes() for s in segments if s.batch is not None]) == self.memory_bytes
        for sequence in self.failures:
            assert sequence in held, "only what was delivered can have failed"

    def _requeue(self, first: int, end: int, failed: int) -> None:
        if failed == 0:
            self.requeued.add(first, end)
            return
        failures = self.failures
        maximum = self.rules.redelivery_count_max
        run_first = first
        for sequence in range(first, end):
            count = failures.get(sequence, 0) + 1
            failures[sequence] = count
            if maximum and count > maximum:
                self.requeued.add(run_first, sequence)
                run_first = sequence + 1
                self._discard(sequence, sequence + 1, DISCARD_MAX_REDELIVERY)
        self.requeued.add(run_first, end)

    def _discard(self, first: int, end: int, reason: str) -> None:
        self.effects.discard(reason, end - first)
        self._settle(first, end)

    def _settle(self, first: int, end: int) -> None:
        """Mark `[first, end)`, which is unsettled and which nobody holds any more, as done."""
        segment = self.segments.at_or_after(first)
        assert segment is not None, "what is unsettled is in a segment"
        if end <= segment.end and first >= segment.first:
            self._settle_in(segment, end - first)
        else:
            for each in self.segments.overlapping(first, end):
                self._settle_in(each, min(end, each.end) - max(first, each.first))
        if self.failures:
            for sequence in range(first, end):
                self.failures.pop(sequence, None)
        if self.durable:
            self.effects.settle(first, end)
        if first == self.floor and self.settled.total == 0:  # in order: what consumers mostly do
            self.floor = end
        else:
            self.settled.add(first, end)
            if self.settled.starts[0] == self.floor:
                self.floor = self.settled.ends[0]
                self.settled.remove(self.settled.starts[0], self.floor)
        if self.ready_from < self.floor:
            self.ready_from = self.floor

    def _settle_in(self, segment: Segment, count: int) -> None:
        effects = self.effects
        released = segment.bytes_left * count // segment.live_count
        segment.bytes_left -= released
        segment.live_count -= count
        self.waiting_count -= count
        self.waiting_bytes -= released
        effects.released_count += count
        effects.released_bytes += released
        publication = segment.publication
        if publication is None or publication.record_number != UNWRITTEN:
            effects.settled_written = True
        if publication is not None:
            self.close(publication, count)
        page = segment.page
        if page is not None:
            page.live_count -= count
            if page.live_count == 0:
                effects.dropped_pages.append(page.first)
        if segment.live_count == 0:
            if segment.batch is not None:
                self.memory_bytes -= segment.batch.memory_bytes()
            self.segments.remove(segment)
