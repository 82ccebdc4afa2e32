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
from messaging.flows import DeliveryRules, Flow, LedgerFlow
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

    Every sequence below `next_sequence` is exactly one of: settled (below `floor`, in `settled`, or in no segment),
    in flight with one flow, waiting to be delivered again (`requeued`), or never delivered (at or after `ready_from`).

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
        self.failures: dict[int, int] = {}  # sequence -> failed deliveries, for those delivered before and unsettled
        self.suspect_end = 0  # recovered after a crash: anything below may have been delivered before
        self.flows: dict[int, LedgerFlow] = {}
        self.waiting_count = 0  # unsettled, in flight or not
        self.waiting_bytes = 0
        self.memory_bytes = 0  # of the batches that segments hold
        self.effects = Effects()
        self.segments = SegmentList()

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
        return first

    # --- flows ---

    def attach(self, flow: Flow, epoch: int) -> None:
        """Let a flow take messages, under the given assignment epoch."""
        assert flow.flow_id not in self.flows, "a flow is attached once"
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
        """Return whether an unsettled message left the queue before, or may have."""
        return sequence < self.suspect_end or sequence in self.failures

    # --- deliveries out ---

    def deliver(self, wall_ms: int) -> list[Delivery]:
        """Give ready messages to the flows that have credit, oldest first; expired ones are dropped on the way."""
        deliveries: list[Delivery] = []
        while self.requeued.total > 0 or self.ready_from < self.next_sequence:
            flow = self._pick_flow()
            if flow is None:
                break
            share = self._share(flow)
            again = self.requeued.total > 0
            piece = self._requeued_piece(share) if again else self._fresh_piece(share)
            if piece is None:
                break  # its page is on the way, or nothing was left but gaps
            segment, first, end = piece
            if again:
                self.requeued.remove(first, end)
            else:
                self.ready_from = end
            batch = segment.batch
            assert batch is not None
            if batch.headers() is not None and self.rules.expires(again):
                self._deliver_unexpired(flow, segment, first, end, wall_ms, deliveries)
            else:
                self._deliver_run(flow, segment, first, end, deliveries)
        return deliveries

    def _deliver_run(self, flow: LedgerFlow, segment: Segment, first: int, end: int, out: list[Delivery]) -> None:
        batch = segment.batch
        assert batch is not None
        redelivered = self.was_delivered(first)
        flow.flow.window.take(end - first)
        flow.in_flight.add(first, end)
        out.append(
            Delivery(
                flow.flow,
                flow.epoch,
                batch,
                first - segment.first,
                end - segment.first,
                first,
                redelivered,
                self.failures.get(first, 0) + 1,
            )
        )

    def _deliver_unexpired(
        self, flow: LedgerFlow, segment: Segment, first: int, end: int, wall_ms: int, out: list[Delivery]
    ) -> None:
        batch = segment.batch
        assert batch is not None
        run_first = first
        for sequence in range(first, end):
            headers = batch.headers_of(sequence - segment.first)
            if headers is not None and 0 < headers.expires_at_ms <= wall_ms:
                if run_first < sequence:
                    self._deliver_run(flow, segment, run_first, sequence, out)
                run_first = sequence + 1
                self._discard(sequence, sequence + 1, DISCARD_EXPIRED)
        if run_first < end:
            self._deliver_run(flow, segment, run_first, end, out)

    def _pick_flow(self) -> LedgerFlow | None:
        """Return the flow with credit that holds the fewest messages; those without credit stand in line for it."""
        best: LedgerFlow | None = None
        for flow in self.flows.values():
            if flow.paused:
                continue
            if flow.room(self.rules.unacked_count_max) == 0:
                self.effects.starved_flows.append(flow.flow)
            elif best is None or flow.in_flight.total < best.in_flight.total:
                best = flow
        return best

    def _share(self, chosen: LedgerFlow) -> int:
        """Return how many messages to give to the chosen flow at once, so that competing flows get even shares."""
        available = chosen.room(self.rules.unacked_count_max)
        if len(self.flows) == 1:
            return available
        eligible = 0
        for flow in self.flows.values():
            if not flow.paused and flow.room(self.rules.unacked_count_max) > 0:
                eligible += 1
        ready = self.requeued.total + self.next_sequence - self.ready_from
        fair = (ready + eligible - 1) // eligible
        return fair if fair < available else available

    def _requeued_piece(self, limit: int) -> tuple[Segment, int, int] | None:
        first = self.requeued.starts[0]
        segment = self.segments.segments[self.segments.at_or_after(first)]
        assert segment.first <= first < segment.end, "what waits again is in a segment"
        if not self._in_memory(segment):
            return None
        end = min(self.requeued.ends[0], segment.end, first + limit)
        count = self.failures.get(first, -1)
        stop = first + 1
        while stop < end and self.failures.get(stop, -1) == count:
            stop += 1
        return segment, first, stop

    def _fresh_piece(self, limit: int) -> tuple[Segment, int, int] | None:
        segments = self.segments
        while True:
            index = segments.at_or_after(self.ready_from)
            if index == len(segments.segments):
                self.ready_from = self.next_sequence
                return None
            segment = segments.segments[index]
            first = segment.first if segment.first > self.ready_from else self.ready_from
            end = min(segment.end, first + limit)
            if self.settled.total > 0 and self.settled.ends[-1] > first:
                # Only after a recovery, or where single messages were deleted, is something settled up here.
                first, end = self._first_unsettled(first, end)
                if first == end:
                    self.ready_from = end
                    continue
            if not self._in_memory(segment):
                return None
            self._prefetch(index + 1)
            return segment, first, end

    def _first_unsettled(self, first: int, end: int) -> tuple[int, int]:
        """Return the first unsettled stretch of `[first, end)`; empty at `end` when there is none."""
        for start, stop in self.settled.ranges():
            if stop <= first:
                continue
            if start > first:
                return first, min(end, start)
            first = min(stop, end)
            if first == end:
                break
        return first, end

    def _in_memory(self, segment: Segment) -> bool:
        """Return whether a segment's messages are at hand; if not, ask for its page."""
        page = segment.page
        if segment.batch is not None or page is None:
            return True
        if page.state == PAGE_ABSENT:
            page.state = PAGE_WANTED
            self.effects.wanted_pages.append(page.first)
        return False

    def _prefetch(self, index: int) -> None:
        """Ask for the next page while the consumer is busy with the messages before it."""
        segments = self.segments.segments
        if index < len(segments):
            self._in_memory(segments[index])

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
        count = 0
        for segment in list(self.segments.segments):
            count += self.give_up(segment.first, segment.end, DISCARD_PURGED)
        self.ready_from = self.next_sequence
        return count

    def give_up(self, first: int, end: int, reason: str) -> int:
        """Drop those of `[first, end)` that no consumer holds; return how many."""
        lost = RangeSet()
        first = max(first, self.floor)
        if first < end:
            lost.add(first, end)
        for start, stop in self.settled.ranges():
            lost.remove(start, stop)
        for flow in self.flows.values():
            for start, stop in flow.in_flight.ranges():
                lost.remove(start, stop)
        count = lost.total
        for start, stop in lost.ranges():
            self.requeued.remove(start, stop)
            self._discard(start, stop, reason)
        return count

    def check(self) -> None:
        """Assert the invariants, each on its own line."""
        self.segments.check()
        self.settled.check()
        self.requeued.check()
        assert self.floor <= self.ready_from <= self.next_sequence
        assert self.settled.total == 0 or self.settled.starts[0] > self.floor, "the floor is as high as it can be"
        held = RangeSet()
        held_count = self.requeued.total
        for first, end in self.requeued.ranges():
            held.add(first, end)
        for flow in self.flows.values():
            flow.in_flight.check()
            held_count += flow.in_flight.total
            for first, end in flow.in_flight.ranges():
                held.add(first, end)
        assert held.total == held_count, "no sequence is held twice"
        assert sum([segment.live_count for segment in self.segments.segments]) == self.waiting_count
        assert sum([segment.bytes_left for segment in self.segments.segments]) == self.waiting_bytes
        for start, end in self.settled.ranges():
            assert held.count_within(start, end) == 0, "what is settled is held by nobody"

    def _requeue(self, first: int, end: int, failed: int) -> None:
        failures = self.failures
        maximum = self.rules.redelivery_count_max
        for sequence in range(first, end):
            count = failures.get(sequence, 0) + failed
            if maximum and count > maximum:
                self._discard(sequence, sequence + 1, DISCARD_MAX_REDELIVERY)
            else:
                failures[sequence] = count
                self.requeued.add(sequence, sequence + 1)

    def _discard(self, first: int, end: int, reason: str) -> None:
        self.effects.discard(reason, end - first)
        self._settle(first, end)

    def _settle(self, first: int, end: int) -> None:
        """Mark `[first, end)`, which nobody holds any more, as done."""
        segments = self.segments.segments
        index = self.segments.at_or_after(first)
        while index < len(segments) and segments[index].first < end:
            segment = segments[index]
            count = min(end, segment.end) - max(first, segment.first)
            self._settle_in(segment, count)
            index += 1
        if self.failures:
            for sequence in range(first, end):
                self.failures.pop(sequence, None)
        if self.durable:
            self.effects.settled.append((first, end))
        self.settled.add(first, end)
        self._drop_settled_head()

    def _settle_in(self, segment: Segment, count: int) -> None:
        released = segment.bytes_left * count // segment.live_count
        segment.bytes_left -= released
        segment.live_count -= count
        self.waiting_count -= count
        self.waiting_bytes -= released
        self.effects.released_count += count
        self.effects.released_bytes += released
        if segment.page is not None:
            segment.page.live_count -= count
        publication = segment.publication
        if publication is None or publication.record_number != UNWRITTEN:
            self.effects.settled_written = True
        if publication is not None:
            publication.open_count -= count
            if publication.open_count == 0:
                self.effects.drained.append(publication)

    def _drop_settled_head(self) -> None:
        for segment in self.segments.drop_settled_head():
            if segment.batch is not None:
                self.memory_bytes -= segment.batch.memory_bytes()
            page = segment.page
            if page is not None and page.live_count == 0 and segment.end == page.end:
                self.effects.dropped_pages.append(page.first)
        segments = self.segments.segments
        floor = segments[0].first if segments else self.next_sequence
        if floor < self.floor:
            floor = self.floor  # the head segment is settled in part
        if self.settled.total > 0:
            self.settled.remove(0, floor)
            if self.settled.total > 0 and self.settled.starts[0] == floor:
                floor = self.settled.ends[0]
                self.settled.remove(0, floor)
        self.floor = floor
        if self.ready_from < floor:
            self.ready_from = floor
