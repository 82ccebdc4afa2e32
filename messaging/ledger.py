"""The ledger of one partition: who has which sequence, what is ready, what is settled.

The ledger works on ranges. A read of 300 messages is one segment, one delivery and, when the consumer keeps up, one
settlement, so its cost is by batches. It decides and never acts: what has to happen outside (settlements to persist,
pages to read or delete, publications the journal may forget) is left in `effects` for the partition actor to fetch.

Deliberately elsewhere: which flow may consume at all (messaging.rebalance), quotas (messaging.admission), bytes at
rest (storage), and the sending itself (the actors).
"""

from typing import final

from messaging.batch import MessageBatch
from messaging.effects import Delivery
from messaging.flows import Flow, LedgerFlow, flows_with_room
from messaging.ledger_state import LedgerState
from messaging.publication import Publication
from messaging.segments import PAGE_ABSENT, PAGE_WANTED, Segment
from messaging.settlement import (
    ACCEPTED,
    DISCARD_EXPIRED,
    DISCARD_MAX_REDELIVERY,
    DISCARD_REJECTED,
    FAILED,
    REJECTED,
)


@final
class Ledger(LedgerState):
    """One partition's messages on their way to consumers and off. States and invariants: LedgerState."""

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
        flow.leave()
        for first, end in flow.in_flight.ranges():
            self._requeue(first, end, 1 if count_as_failed else 0, flow.flow.client)

    def in_flight_count(self, flow_id: int) -> int:
        """Return how many messages a flow holds unsettled."""
        flow = self.flows.get(flow_id)
        return 0 if flow is None else flow.in_flight.total

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
        tries = self.failures.get(first, 0) + 1 if self.failures else 1
        start_row = first - segment.first
        stop_row = end - segment.first
        flow.flow.window.take(end - first)
        flow.in_flight.add(first, end)
        out.append(
            Delivery(flow.flow, flow.epoch, batch, start_row, stop_row, first, redelivered, tries, segment.publication)
        )

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
                self._discard(sequence, sequence + 1, DISCARD_EXPIRED, "")
        if run_first < end:
            self._deliver_run(flow, segment, run_first, end, redelivered, out)

    def _requeued_piece(self, limit: int) -> tuple[Segment, int, int] | None:
        first = self.requeued.starts[0]
        segment = self.segments.at_or_after(first)
        assert segment is not None, "what waits again is in a segment"
        assert segment.first <= first, "what waits again is in a segment"
        if not self.at_hand(segment):
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
            if self.leaving.total > 0 and self.leaving.ends[-1] > first:
                first, end = self.leaving.first_outside(first, end)
                if first == end:
                    self.ready_from = end
                    continue
            if not self.at_hand(segment):
                return None
            self._prefetch(segment.end)
            return segment, first, end

    def at_hand(self, segment: Segment) -> bool:
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
                self.at_hand(segment)

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
                self._discard(start, stop, DISCARD_REJECTED, flow.flow.client)
            else:
                self._requeue(start, stop, 1 if outcome == FAILED else 0, flow.flow.client)
        return count

    def _requeue(self, first: int, end: int, failed: int, client: str) -> None:
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
                self._discard(sequence, sequence + 1, DISCARD_MAX_REDELIVERY, client)
        self.requeued.add(run_first, end)
