"""The ledger of one partition: the state of each sequence, from publish to settlement.

The ledger works on ranges. A read of 300 messages is one segment, one delivery and, when the consumer keeps up, one
settlement, so its cost is per batch. It decides and never acts: external actions (settlements to persist, pages to read
or delete, publications the journal may forget) are left in `effects` for the partition actor.

See also: which flow may consume at all (messaging.queues.assignment.rebalance), quotas (messaging.queues.admission),
bytes at rest (storage), and sending (the actors).
"""

from typing import Final, final

from mypy_extensions import i64

from sluicegate.messaging.message.batch import MessageBatch
from sluicegate.messaging.message.keys import key_hash_in
from sluicegate.messaging.message.outcomes import (
    ACCEPTED,
    DISCARD_EXPIRED,
    DISCARD_REJECTED,
    FAILED,
    FAILED_ELSEWHERE,
    REJECTED,
    RELEASED_ELSEWHERE,
    WHICHEVER,
)
from sluicegate.messaging.message.publication import Publication
from sluicegate.messaging.partitions.rules.expiry import apply_time, expires_at, hold_delayed, schedule_expiry
from sluicegate.messaging.partitions.rules.groups import MessageGroups, groups_for, has_keys
from sluicegate.messaging.partitions.rules.in_flight import alike_until, in_flight_of
from sluicegate.messaging.partitions.rules.last_value import keep_newest
from sluicegate.messaging.partitions.rules.priorities import next_by_priority
from sluicegate.messaging.partitions.rules.selection import BY_SELECTOR, SCANS_PER_TURN, Choice, next_chosen
from sluicegate.messaging.partitions.rules.undeliverable import dead_letter_declined, decline
from sluicegate.messaging.partitions.state.effects import Delivery
from sluicegate.messaging.partitions.state.flows import (
    DeliveryRules,
    Flow,
    LedgerFlow,
    flows_with_room,
    least_loaded,
    starved,
)
from sluicegate.messaging.partitions.state.segments import Segment
from sluicegate.messaging.partitions.state.state import LedgerState

_NONE: Final[list[Delivery]] = []


@final
class Ledger(LedgerState):
    """The messages of one partition on their way to consumers and back. States and invariants: LedgerState."""

    def __init__(self, *, durable: bool, rules: DeliveryRules, next_sequence: int = 1) -> None:
        super().__init__(durable=durable, rules=rules, next_sequence=next_sequence)
        self.groups: MessageGroups | None = None  # None: no message has a key, or the rules do not group by key
        self._buckets_seen: i64 = 0  # of the rules, when they were last checked

    # --- messages in ---

    def append(self, batch: MessageBatch, publication: Publication | None) -> i64:
        """Number the rows of a batch and make them ready; return the first sequence."""
        first = self.next_sequence
        count = batch.count
        end = first + count
        size = batch.usage_bytes(durable=self.durable)
        segment = Segment(first, end, count, size, batch, publication, None)
        self.segments.append(segment)
        self.next_sequence = end
        self.waiting_count += count
        self.waiting_bytes += size
        self.memory_bytes += batch.memory_bytes()
        if self.rules.after_commit or (self.rules.passes_on and self._awaits_its_commit(publication)):
            self._hold_until_stored(segment)
        if batch.headers() is not None or self.rules.watches_the_clock():
            self.may_expire = True
            hold_delayed(self, segment, 0)
            schedule_expiry(self, segment)
            if self.groups is None and self.rules.group_buckets > 0 and has_keys(batch):
                self._buckets_seen = -1
        return first

    # --- delivery after commit ---

    # With `after_commit` the queue delivers only stored messages. Other queues deliver a message before it is stored,
    # which saves the commit if the consumer settles in time. After a crash between the two, the publisher sends the
    # message again, and it is delivered twice. A queue with `after_commit` pays the commit for each message, and its
    # consumers never have a message that the store lost. Order is kept: a stored message waits while an older message
    # of the partition is not stored.

    def _awaits_its_commit(self, publication: Publication | None) -> bool:
        """Return whether a new message of a link's queue has to be stored first, or is behind one that has to be.

        What a crash would take back must not be at a neighbor already, where it would stay: a publisher that is
        promised to be stored once sends it again, and gets a new sequence. Of a transaction nothing would be left here.
        """
        if self.unstored.total > 0:
            return True
        if publication is None:
            return False
        comes_with_more = publication.session_rows is not None or publication.settlements is not None
        return comes_with_more or publication.is_transaction

    def _hold_until_stored(self, segment: Segment) -> None:
        """Hold the messages of a new segment, unless they are stored already or never will be."""
        publication = segment.publication
        if publication is None or publication.confirmed:
            return
        self.advance_cursor()
        for first, end in self.requeued.remove(segment.first, segment.end):
            self.unstored.add(first, end)

    def _release_stored(self) -> None:
        """Make ready what has been stored meanwhile; messages with a later time of delivery continue to wait."""
        while self.unstored.total > 0:
            segment = self.segments.at_or_after(self.unstored.lowest())
            assert segment is not None, "a message that waits for its commit is in a segment"
            publication = segment.publication
            if publication is not None and not publication.confirmed:
                return  # the store refused it; it is withdrawn soon
            for first, end in self.unstored.remove(segment.first, segment.end):
                self.make_ready(first, end)
            hold_delayed(self, segment, 0)
            schedule_expiry(self, segment)

    # --- flows ---

    def attach(self, flow: Flow, epoch: int) -> None:
        """Let a flow take messages, under the given assignment epoch; a paused flow that kept its epoch continues."""
        held = self.flows.get(flow.flow_id)
        if held is not None:
            assert held.paused, "a flow is attached once"
            assert held.epoch == epoch, "a flow is detached before it is attached again"
            held.paused = False
            return
        held = self.add_flow(flow, epoch)
        if flow.selector is not None:
            self.selecting_count += 1
        if self.groups is not None and self.rules.group_rebalance:
            self.groups.share_anew(self, held)

    def pause(self, flow_id: int) -> None:
        """Deliver nothing more to a flow; it may still settle what it holds."""
        flow = self.flows.get(flow_id)
        if flow is not None:
            flow.paused = True

    def detach(self, flow_id: int, *, count_as_failed: bool) -> None:
        """Take a flow's unsettled messages back, to be delivered again oldest first; later settlements are void."""
        flow = self.remove_flow(flow_id)
        if flow is None:
            return
        if flow.selects():
            self.selecting_count -= 1
        for first, end in self.take_back(flow, self.floor, self.next_sequence):
            self.requeue(first, end, 1 if count_as_failed else 0, flow.flow.client)
        if self.groups is not None:
            self.groups.leave(self, flow_id)
        if self.selecting_count > 0:
            dead_letter_declined(self, self.groups, flow.flow.client)

    def in_flight_count(self, flow_id: int) -> int:
        """Return how many unsettled messages a flow holds."""
        flow = self.flows.get(flow_id)
        return 0 if flow is None else flow.in_flight.total

    # --- deliveries out ---

    def deliver(self, wall_ms: i64) -> list[Delivery]:
        """Deliver ready messages to the flows that have credit, oldest first; expired ones are dropped."""
        rules = self.rules
        if self.unstored.total > 0:
            self._release_stored()
        if wall_ms > 0:
            apply_time(self, wall_ms)
        if rules.last_value_only or self.replaced is not None:
            keep_newest(self)
        if self._buckets_seen != rules.group_buckets:
            self._buckets_seen = rules.group_buckets
            self.groups = groups_for(self)
            self.is_grouped = self.groups is not None
        groups = self.groups
        if (
            rules.by_priority
            or self.redelivery_delays.failed.total > 0
            or self.selecting_count > 0
            or groups is not None
        ):
            self.advance_cursor()
            self.scan_budget = SCANS_PER_TURN
            if groups is not None:
                groups.pass_on(self)
        ready_count = self.requeued.total + self.next_sequence - self.ready_from
        if ready_count == 0 or not self.flow_order.flows or self.awaits_commit():
            return _NONE
        deliveries: list[Delivery] = []
        if ready_count == 1 and groups is None and self.selecting_count == 0:
            least = least_loaded(self.flow_order.flows, rules.unacked_count_max)
            if least is not None:
                self._deliver_piece(least, 1, wall_ms, deliveries)
            else:
                self.effects.starved_flows += starved(self.flow_order.flows, rules.unacked_count_max, gets_any=True)
        else:
            self._deal(ready_count, wall_ms, deliveries)
        return deliveries

    def _deal(self, ready_count: i64, wall_ms: i64, out: list[Delivery]) -> None:
        """Deliver even shares to competing flows: serve them in turn until the messages or all credit are used up."""
        groups = self.groups
        unacked_count_max = self.rules.unacked_count_max
        flows = self.flow_order.flows
        # Where each flow takes what is ready, no more flows are looked for than there are messages: thousands may be
        # idle.
        line_max = ready_count if groups is None and self.selecting_count == 0 else len(flows)
        line = flows_with_room(flows, unacked_count_max, line_max)
        if groups is not None and len(line) > 1:
            groups.put_owner_first(line, self.requeued.lowest())
        share = (ready_count + len(line) - 1) // len(line) if line else 0
        place = 0
        idle_count = 0  # consecutive flows that got nothing now, and may after others have
        while idle_count < len(line) and (self.requeued.total > 0 or self.ready_from < self.next_sequence):
            flow = line[place]
            room = flow.room(unacked_count_max)
            if room == 0:  # used up, possibly by another flow of the same consumer
                del line[place]
                idle_count = 0
                if not line and share == 1:  # there may be flows that were not looked for
                    line = flows_with_room(flows, unacked_count_max, line_max)
            elif self._deliver_piece(flow, min(share, room), wall_ms, out):
                place += 1
                idle_count = 0
            elif groups is not None:
                place += 1
                idle_count += 1
            elif not flow.selects():
                return  # its page is being read, or all that was left is settled
            else:
                del line[place]  # it takes none of the messages in memory
            if place >= len(line):
                place = 0
        if (not line or groups is not None) and (self.requeued.total > 0 or self.ready_from < self.next_sequence):
            self.effects.starved_flows += starved(flows, unacked_count_max, gets_any=groups is None)

    def _deliver_piece(self, flow: LedgerFlow, limit: i64, wall_ms: i64, out: list[Delivery]) -> bool:
        """Deliver at most `limit` messages of one segment to a flow; return False when none is in memory."""
        again = self.requeued.total > 0
        segment, first, end = self._requeued_piece(flow, limit) if again else self._fresh_piece(limit)
        if segment is None:
            return again and self.requeued.total == 0  # all of these are held, and fresh messages may not be
        if again:
            self.requeued.discard(first, end)
            if self.undelivered.total > 0 and first in self.undelivered:
                self.undelivered.discard(first, end)
                again = False
        else:
            self.ready_from = end
        self.flow_order.served(flow)
        batch = segment.batch
        redelivered = again or first < self.suspect_end or (batch is not None and batch.possible_duplicate)
        if 0 < segment.expires_ms <= wall_ms and self.rules.expires(again):
            self._deliver_unexpired(flow, segment, first, end, redelivered, wall_ms, out)
        else:
            self._deliver_run(flow, segment, first, end, redelivered, wall_ms, out)
        return True

    def _deliver_run(
        self,
        flow: LedgerFlow,
        segment: Segment,
        first: i64,
        end: i64,
        redelivered: bool,
        wall_ms: i64,
        out: list[Delivery],
    ) -> None:
        batch = segment.batch
        assert batch is not None
        tries = self.failures.get(first, 0) + 1 if self.failures else 1
        start_row = first - segment.first
        stop_row = end - segment.first
        window = flow.flow.window
        window.take(end - first)
        flow.in_flight.add(first, end)
        if self.rules.ack_timeout_ms > 0:
            flow.lock(first, end, now_ms=wall_ms, timeout_ms=self.rules.ack_timeout_ms)
        publication = segment.publication
        if publication is not None and not redelivered:
            publication.undelivered_count -= end - first
            publication.patience_ms = max(publication.patience_ms, window.settles_in_ms)
        delivery = Delivery(flow.flow, flow.epoch, batch, start_row, stop_row, first, redelivered, tries, publication)
        if self.annotations is not None:
            delivery.annotation = self.annotations.by_sequence.get(first, b"")
        if self.groups is not None:
            delivery.first_of_group = self.groups.delivered(self, flow, batch, start_row, stop_row)
        out.append(delivery)

    def _deliver_unexpired(
        self,
        flow: LedgerFlow,
        segment: Segment,
        first: i64,
        end: i64,
        redelivered: bool,
        wall_ms: i64,
        out: list[Delivery],
    ) -> None:
        """Deliver the messages of `[first, end)` that have not expired, which may be more than one turn examines."""
        batch = segment.batch
        assert batch is not None
        run_first = first
        for sequence in range(first, end):
            headers = batch.headers_of(sequence - segment.first)
            publisher_ms = 0 if headers is None else headers.expires_at_ms
            if 0 < expires_at(self.rules, batch.received_ms, publisher_ms) <= wall_ms:
                if run_first < sequence:
                    self._deliver_run(flow, segment, run_first, sequence, redelivered, wall_ms, out)
                run_first = sequence + 1
                self._discard(sequence, sequence + 1, DISCARD_EXPIRED, "")
        if run_first < end:
            self._deliver_run(flow, segment, run_first, end, redelivered, wall_ms, out)

    def _requeued_piece(self, flow: LedgerFlow, limit: i64) -> tuple[Segment | None, i64, i64]:
        """Return the next messages behind the cursor that one delivery can describe."""
        piece = self._free_requeued(flow, limit)
        if piece is None:
            return None, 0, 0
        segment, first, end = piece
        if self.undelivered.total > 0:
            new_first, new_end = self.undelivered.next_range(first)
            if new_first == first:
                end = min(end, new_end)
            elif first < new_first < end:
                end = new_first
            if first < self.suspect_end < end:
                end = self.suspect_end
        return segment, first, alike_until(self, first, end)

    def _free_requeued(self, flow: LedgerFlow, limit: int) -> tuple[Segment, int, int] | None:
        """Return the next messages behind the cursor for a flow, skipping those that are held."""
        selects = flow.selects() or self.groups is not None
        by_priority = self.rules.by_priority
        while True:
            if selects:
                piece = self._oldest_selected(flow, limit)
            else:
                piece = next_by_priority(self, limit) if by_priority else self._oldest_requeued(limit)
            if piece is None or self.rescale_holds is None:
                return piece
            if self.rescale_holds.is_full():
                return None
            segment, first, end = piece
            assert segment.batch is not None
            free_first, free_end = self.rescale_holds.free_run(
                segment.batch, segment.first, first, end, self.rules.key_source
            )
            if free_first > first:
                self.requeued.remove(first, free_first)
            if free_first < free_end:
                return segment, free_first, free_end

    def open_source(self, source: int) -> None:
        """Release the messages that were held until everything older in partition `source` was settled."""
        if self.rescale_holds is not None:
            for first, end in self.rescale_holds.open(source):
                self.make_ready(first, end)

    def _oldest_requeued(self, limit: int) -> tuple[Segment, int, int] | None:
        while self.requeued.total > 0:
            first = self.requeued.lowest()
            segment = self.segments.at_or_after(first)
            assert segment is not None, "a requeued message is in a segment"
            assert segment.first <= first, "a requeued message is in a segment"
            if not self.ensure_loaded(segment):
                return None
            if segment.page is not None:
                self.prefetch(segment.end)
            end = min(self.requeued.lowest_end(), segment.end, first + limit)
            if self.redelivery_delays.failed.total == 0:
                return segment, first, end
            end = self._held_up_from(segment, first, end)
            if first < end:
                return segment, first, end
            if self.requeued.total > 0 and self.requeued.lowest() == first:
                return None  # it was not blocked: everything waits
        return None

    def _oldest_selected(self, flow: LedgerFlow, limit: int) -> tuple[Segment, int, int] | None:
        choice: Choice = BY_SELECTOR if self.groups is None else self.groups
        while True:
            piece = next_chosen(self, flow, limit, choice)
            if piece is None or self.redelivery_delays.failed.total == 0:
                return piece
            segment, first, end = piece
            end = self._held_up_from(segment, first, end)
            if first < end:
                return segment, first, end
            if first in self.requeued:
                return None  # it was not blocked: everything waits

    def _held_up_from(self, segment: Segment, first: int, end: int) -> int:
        """Return the end of the part of `[first, end)` that no failed message holds up; what follows it is blocked."""
        back_off = self.redelivery_delays
        stop_at = back_off.stop_at()
        if 0 < stop_at < end:
            end = stop_at
        batch = segment.batch
        assert batch is not None
        key_source = self.rules.key_source
        if batch.headers() is None and key_source is None:
            return end
        for sequence in range(first, end):
            key_hash = key_hash_in(key_source, batch, sequence - segment.first)
            if key_hash >= 0 and back_off.holds_up(sequence, key_hash):
                self.requeued.discard(sequence, sequence + 1)
                back_off.block(sequence, key_hash)
                return sequence
        return end

    def _fresh_piece(self, limit: i64) -> tuple[Segment | None, i64, i64]:
        while True:
            segment = self.segments.at_or_after(self.ready_from)
            if segment is None:
                self.ready_from = self.next_sequence
                return None, 0, 0
            first = segment.first if segment.first > self.ready_from else self.ready_from
            end = min(segment.end, first + limit)
            if first < self.suspect_end < end:
                end = self.suspect_end
            if self.settled.total > 0 and self.settled.end() > first:
                # Only after a recovery, or where single messages were deleted, this finds settled sequences here.
                first, end = self.settled.first_outside(first, end)
                if first == end:
                    self.ready_from = end
                    continue
            if not self.ensure_loaded(segment):
                return None, 0, 0
            self.prefetch(segment.end)
            if self.rescale_holds is None:
                return segment, first, end
            if self.rescale_holds.is_full():
                return None, 0, 0
            assert segment.batch is not None
            free_first, free_end = self.rescale_holds.free_run(
                segment.batch, segment.first, first, end, self.rules.key_source
            )
            self.undelivered.add(first, free_first)
            if free_first < free_end:
                return segment, free_first, free_end
            self.ready_from = end

    # --- settlements ---

    def settle(self, flow_id: int, first: int, end: int, outcome: int, cause: str = "") -> int:
        """Apply a consumer's outcome to `[first, end)`; return how many messages it applied to.

        `cause` is the consumer's reason for a rejection. Sequences that the flow does not hold (settled twice, or taken
        back meanwhile) are skipped.
        """
        flow = self.flows.get(flow_id)
        return 0 if flow is None else self.settle_in_flight(flow, first, end, outcome, cause, WHICHEVER)

    def settle_in_flight(
        self, flow: LedgerFlow, first: i64, end: i64, outcome: i64, cause: str, delivery_count: i64
    ) -> i64:
        """Apply an outcome as `settle` does, for a known flow, to deliveries with this count."""
        if delivery_count == WHICHEVER or (delivery_count == 1 and not self.failures):  # the usual case
            return self._apply(flow, first, end, outcome, cause)
        count: i64 = 0
        for start, stop in in_flight_of(self, flow, first, end, delivery_count):
            count += self._apply(flow, start, stop, outcome, cause)
        return count

    def _apply(self, flow: LedgerFlow, first: i64, end: i64, outcome: i64, cause: str) -> i64:
        if outcome == ACCEPTED and flow.in_flight.take_lowest(first, end):  # in order: the usual case
            self._settle(first, end)
            return end - first
        count: i64 = 0
        for start, stop in flow.in_flight.remove(first, end):
            count += stop - start
            if outcome == ACCEPTED:
                self._settle(start, stop)
            elif outcome == REJECTED:
                self._discard(start, stop, DISCARD_REJECTED, flow.flow.client, cause)
            elif outcome in (RELEASED_ELSEWHERE, FAILED_ELSEWHERE):
                decline(self, self.groups, flow, start, stop, 1 if outcome == FAILED_ELSEWHERE else 0)
            else:
                self.requeue(start, stop, 1 if outcome == FAILED else 0, flow.flow.client)
        return count
