"""The state of a partition: the state of every message, and the counts derived from it.

The lower half of the ledger: the states of a message between publish and removal, how it is removed, and the effects of
that. See also: delivery and settlement (messaging.partitions.ledger).
"""

from typing import Final

from mypy_extensions import i64

from sluicegate.messaging.message.headers import PRIORITY_MAX
from sluicegate.messaging.message.keys import key_hash_in
from sluicegate.messaging.message.outcomes import (
    DEAD_REASONS,
    DISCARD_DAMAGED,
    DISCARD_EXPIRED,
    DISCARD_MAX_REDELIVERY,
    DISCARD_NOT_STORED,
    DISCARD_PURGED,
)
from sluicegate.messaging.message.publication import UNWRITTEN, Publication
from sluicegate.messaging.message.ranges import RangeSet
from sluicegate.messaging.partitions.state.effects import Effects
from sluicegate.messaging.partitions.state.flows import (
    ORDER_OF_ALL,
    DeliveryRules,
    Flow,
    FlowOrder,
    LedgerFlow,
    PendingCommits,
)
from sluicegate.messaging.partitions.state.redelivery import EVERYTHING, NO_KEY, DeliveryAnnotations, RedeliveryDelays
from sluicegate.messaging.partitions.state.rescale_holds import RescaleHolds
from sluicegate.messaging.partitions.state.segments import (
    PAGE_ABSENT,
    PAGE_WANTED,
    GapReasons,
    Page,
    Segment,
    SegmentList,
    SegmentSchedule,
)

AT_ONCE: Final = 1  # a time in the past


class LedgerState:
    """One partition's messages and their states.

    Every sequence below `next_sequence` is exactly one of: settled (below `floor` or in `settled`), in flight with one
    flow, on its way to another queue (`moving`, see messaging.partitions.rules.moves), ready behind the cursor
    (`requeued`), waiting for its commit (`unstored`), for its time (`delayed`), after a failure (`redelivery_delays`)
    or for older messages elsewhere (`rescale_holds`), or fresh: ready, at or after the cursor `ready_from`, and never
    delivered. Those that are not settled lie in segments. What waits behind the cursor was delivered before, unless it
    is in `undelivered`.

    Invariants: `floor <= ready_from <= next_sequence`; in-flight ranges of different flows are disjoint; sequences are
    dense, ascending, never reused.
    """

    def __init__(self, *, durable: bool, rules: DeliveryRules, next_sequence: int = 1) -> None:
        self.durable = durable  # settlements are worth persisting
        self.rules = rules
        self.next_sequence: i64 = next_sequence
        self.floor: i64 = next_sequence
        self.ready_from: i64 = next_sequence
        self.settled = RangeSet()
        self.requeued = RangeSet()
        self.moving = RangeSet()  # given to no consumer; settled when the other queue has them, else they stay
        self.pending_commits = PendingCommits()  # commits that may settle some of `moving`
        self.replaced: RangeSet | None = (
            None  # the part of `moving` that messaging.partitions.rules.last_value has set aside; None: nothing
        )
        self.gone_end: i64 = 0  # of a last-value queue: a message right below it has left, so older ones are replaced
        self.undelivered = RangeSet()
        self.delayed = RangeSet()
        self.unstored = RangeSet()  # of a queue that delivers only stored messages
        self.redelivery_delays = RedeliveryDelays()
        self.rescale_holds: RescaleHolds | None = None  # while slots of the queue move
        self.watched_cut: i64 = 0  # a rescale waits until everything below is settled; 0: none does
        self.failures: dict[int, int] = {}  # sequence -> failed deliveries, of unsettled messages that have any
        self.suspect_end: i64 = 0  # recovered after a crash: anything below may have been delivered before
        self.annotations: DeliveryAnnotations | None = None  # from consumers; None: none yet
        self.flows: dict[int, LedgerFlow] = {}
        self.flow_order = FlowOrder()  # the same flows
        self.selecting_count: i64 = 0  # flows that take only some of the ready messages
        self.is_grouped = False  # keys belong to flows (messaging.partitions.rules.groups)
        self.scan_budget: i64 = 0  # messages that flows may scan in this turn
        self.waiting_count: i64 = 0  # unsettled, in flight or not
        self.waiting_bytes: i64 = 0
        self.memory_bytes: i64 = 0  # of the batches that segments hold
        self.effects = Effects()
        self.gaps = GapReasons()  # why sequences that no consumer settled have no message
        self.segments = SegmentList()
        self.pageable_from = 0  # everything unsettled below is in pages, loaded or not
        self.paged_end: i64 = 0  # no page reaches further
        self.loaded_pages: dict[int, Page] = {}  # by first sequence, the longest loaded first
        self.schedule = SegmentSchedule()  # when segments have messages that expire or become due
        self.pages_read_in_time: set[int] = set()  # requested because the schedule said so
        self.rules_seen: i64 = 0  # generation of the rules that the schedule is based on
        self.applied_ms = 0  # when time was last applied (messaging.partitions.rules.expiry)
        self.ready_from_of = [1] * (PRIORITY_MAX + 1)  # no message of the priority is ready below; by_priority only
        self.lock_losses_count = 0  # deliveries taken back because they were not settled in time
        self.may_expire = False  # some message had headers, or waited by the rules: deliveries check the time

    def has_ready(self) -> bool:
        """Return whether messages wait for a consumer."""
        return self.requeued.total > 0 or self.ready_from < self.next_sequence

    def scan_pending(self) -> bool:
        """Return whether flows may have more to scan than one turn allows: another turn is needed."""
        return (self.selecting_count > 0 or self.is_grouped) and self.scan_budget <= 0

    def awaits_commit(self) -> bool:
        """Return whether nothing may be delivered before a commit is decided (messaging.partitions.state.flows)."""
        return self.pending_commits.took_from_lost_flow(self.flows) and self.rules.keeps_order(self.is_grouped)

    def was_delivered(self, sequence: int) -> bool:
        """Return whether an unsettled message was delivered, or may have been."""
        return sequence < self.suspect_end or (sequence < self.ready_from and sequence not in self.undelivered)

    def needs_the_time(self) -> bool:
        """Return whether deliveries need the current time."""
        rules = self.rules
        return self.may_expire or self.rules_seen != rules.generation or rules.watches_the_clock()

    def is_settled_below(self, sequence: int) -> bool:
        """Return whether everything below a sequence, as far as it exists, is settled."""
        return self.floor >= sequence or self.floor == self.next_sequence

    # --- flows ---

    def add_flow(self, flow: Flow, epoch: int) -> LedgerFlow:
        """Add a flow."""
        found = self.flows[flow.flow_id] = LedgerFlow(flow, epoch)
        self.flow_order.add(found)
        return found

    def flow_of(self, flow_id: int) -> LedgerFlow | None:
        """Return a flow, if it exists: mostly the one that got a message last."""
        flows = self.flow_order.flows
        if flows and flows[-1].flow.flow_id == flow_id:
            return flows[-1]
        return self.flows.get(flow_id)

    def remove_flow(self, flow_id: int) -> LedgerFlow | None:
        """Remove a flow; return it, if it exists."""
        flow = self.flows.pop(flow_id, None)
        if flow is not None:
            self.flow_order.remove(flow)
            flow.release()
        return flow

    # --- what waits ---

    def advance_cursor(self) -> None:
        """Move the cursor to the end: fresh messages become ranges, so that some of them can wait."""
        first = self.ready_from
        if first == self.next_sequence:
            return
        for start, stop in self.settled.outside(first, self.next_sequence):
            self.make_ready(start, stop)
            self.undelivered.add(start, stop)
        self.ready_from = self.next_sequence

    def make_ready(self, first: int, end: int) -> None:
        """Make messages behind the cursor, held by no consumer, available for delivery."""
        self.requeued.add(first, end)
        if self.selecting_count or self.is_grouped:
            for flow in self.flows.values():
                flow.is_ready_again(first, end)
        if self.rules.by_priority:
            cursors = self.ready_from_of
            for priority in range(len(cursors)):
                cursors[priority] = min(cursors[priority], first)

    def never_delivered(self, first: int, end: int) -> list[tuple[int, int]]:
        """Return the parts of `[first, end)` that were never delivered; it is unsettled and held by no consumer."""
        ranges = self.undelivered.within(first, end)
        if end > self.ready_from:
            ranges.append((max(first, self.ready_from), end))
        return ranges

    def expire(self, first: int, end: int) -> None:
        """Drop expired messages that no consumer holds."""
        if self.rules.dead_msg_queue:
            self.advance_cursor()  # what is removed is behind the cursor
        self.take_out(first, end)
        self._discard(first, end, DISCARD_EXPIRED, "")

    def take_out(self, first: int, end: int) -> None:
        """Remove messages that no consumer holds from every set they wait in."""
        self.requeued.discard(first, end)
        if self.delayed.total > 0:
            self.delayed.discard(first, end)
        if self.unstored.total > 0:
            self.unstored.discard(first, end)
        if self.rescale_holds is not None:
            self.rescale_holds.forget(first, end)
        if self.redelivery_delays.failed.total > 0:
            for start, stop in self.redelivery_delays.remove(first, end):
                self.make_ready(start, stop)

    def ensure_loaded(self, segment: Segment) -> bool:
        """Return whether a segment's messages are in memory; if not, request its page."""
        page = segment.page
        if segment.batch is not None or page is None:
            return True
        if page.state == PAGE_ABSENT:
            page.state = PAGE_WANTED
            self.effects.wanted_pages.append(page.first)
        return False

    def prefetch(self, sequence: i64) -> None:
        """Request the next page while the consumer is busy with the messages before it."""
        if sequence < self.paged_end:
            segment = self.segments.at_or_after(sequence)
            if segment is not None:
                self.ensure_loaded(segment)

    def take_back(self, flow: LedgerFlow, first: int, end: int) -> list[tuple[int, int]]:
        """Take from a flow what it holds of `[first, end)`; return it. Later settlements of it have no effect."""
        taken = flow.in_flight.remove(first, end)
        for start, stop in taken:
            self.effects.taken_back.append((flow.flow, start, stop))
        return taken

    def requeue(self, first: int, end: int, failed: int, client: str) -> None:
        """Have `[first, end)`, taken from a client, delivered again; `failed` is 1 for a failure, else 0."""
        for start, stop in self.drop_unstored(first, end):
            self._requeue(start, stop, failed, client)

    def drop_unstored(self, first: int, end: int) -> list[tuple[int, int]]:
        """Drop what the store refused (it may come again) or has lost of `[first, end)`; return the rest.

        No consumer holds any of it.
        """
        unstored = RangeSet()
        for segment in self.segments.overlapping(first, end):
            refused = segment.publication is not None and segment.publication.refused
            if refused or segment.is_lost():
                start, stop = max(first, segment.first), min(end, segment.end)
                unstored.add(start, stop)
                self.discard_for_good(start, stop, DISCARD_NOT_STORED if refused else DISCARD_DAMAGED)
        return unstored.outside(first, end)

    def _requeue(self, first: int, end: int, failed: int, client: str) -> None:
        rules = self.rules
        if not rules.redelivers:
            self._discard(first, end, DISCARD_MAX_REDELIVERY, client)
            return
        if failed == 0:
            self.make_ready(first, end)
        else:
            self._requeue_failed(first, end, client)
        if rules.respects_expiry and rules.expires_once_delivered:
            for segment in self.segments.overlapping(first, end):
                self.schedule.add(AT_ONCE, segment.first)

    def _requeue_failed(self, first: int, end: int, client: str) -> None:
        failures = self.failures
        maximum = self.rules.redelivery_count_max
        waits = self.rules.redelivery_delay_ms > 0
        run_first = first
        for sequence in range(first, end):
            count = failures.get(sequence, 0) + 1
            failures[sequence] = count
            is_last = maximum > 0 and count > maximum
            if is_last or waits:
                self.make_ready(run_first, sequence)
                run_first = sequence + 1
                if is_last:
                    self._discard(sequence, sequence + 1, DISCARD_MAX_REDELIVERY, client)
                else:
                    delay_ms = self.rules.redelivery_delay_after(count)
                    self.redelivery_delays.fail(sequence, delay_ms, self._held_up_by(sequence))
        self.make_ready(run_first, end)

    def _held_up_by(self, sequence: int) -> int:
        """Return the key of the messages that a failed message holds up while it waits."""
        if not self.rules.keeps_order(self.is_grouped):
            return NO_KEY
        segment = self.segments.at_or_after(sequence)
        assert segment is not None, "a delivered message is in a segment"
        if segment.batch is None:
            return EVERYTHING  # it is in a page, and so is its key
        key_hash = key_hash_in(self.rules.key_source, segment.batch, sequence - segment.first)
        if key_hash >= 0:
            return key_hash
        return EVERYTHING if self.rules.order == ORDER_OF_ALL else NO_KEY

    # --- what goes ---

    def purge(self) -> int:
        """Drop every message that no consumer holds; return how many."""
        return self.give_up(self.floor, self.next_sequence, DISCARD_PURGED)

    def give_up(self, first: int, end: int, reason: str, client: str = "") -> int:
        """Drop those of `[first, end)` that no consumer holds; return how many. `client` had them last."""
        count = 0
        for start, stop in self.available_within(first, end):
            count += stop - start
            self.take_out(start, stop)
            self._discard(start, stop, reason, client)
        return count

    def consume(self, first: int, end: int) -> int:
        """Settle those of `[first, end)` that no consumer holds, for a reader that took them; return how many."""
        count = 0
        for start, stop in self.available_within(first, end):
            count += stop - start
            self.take_out(start, stop)
            self._settle(start, stop)
        return count

    def available_within(self, first: int, end: int) -> list[tuple[int, int]]:
        """Return those of `[first, end)` that are unsettled, with no consumer and not moving."""
        free = self.settled.outside(max(first, self.floor), min(end, self.next_sequence))
        for ranges in [self.moving, *[flow.in_flight for flow in self.flows.values()]]:
            if ranges.total > 0:
                free = [part for start, stop in free for part in ranges.outside(start, stop)]
        return free

    def end_move(self, first: int, end: int) -> list[tuple[int, int]]:
        """Take those of `[first, end)` that are moving out of `moving`; return them as ranges, ascending."""
        ended = self.moving.remove(first, end)
        self.effects.ended_moves += ended
        return ended

    def close(self, publication: Publication, count: i64) -> None:
        """Count rows, settled or paged, that no longer need the publication.

        It is not drained while a partition has yet to number its rows.
        """
        publication.open_count -= count
        if publication.open_count == 0 and publication.unsequenced_count == 0:
            self.effects.released_publications.append(publication)

    def abandon(self) -> None:
        """Release everything, in flight or not: the queue is deleted, together with its stored messages.

        Only `effects.released_publications` is left to be carried out. The ledger must not be used any more.
        """
        for segment in self.segments.all():
            if segment.publication is not None:
                self.close(segment.publication, segment.live_count)

    def _discard(self, first: int, end: int, reason: str, client: str, cause: str = "") -> None:
        """Drop messages that no consumer holds, or send them to the dead message queue; `client` had them last."""
        if self.rules.dead_msg_queue and reason in DEAD_REASONS:
            self.moving.add(first, end)
            self.effects.dead_letter(first, end, reason, client, cause)
        else:
            self.discard_for_good(first, end, reason)

    def discard_for_good(self, first: int, end: int, reason: str) -> None:
        """Drop messages that no consumer holds."""
        self.effects.discard(reason, end - first)
        self.gaps.note(reason, first, end)
        gone_end = self.gone_end
        self._settle(first, end)
        if reason == DISCARD_NOT_STORED:
            self.gone_end = gone_end  # it has never replaced anything

    def _settle(self, first: i64, end: i64) -> None:
        if self.durable:
            self.effects.settle(first, end)
        self.remove(first, end)

    def remove(self, first: i64, end: i64) -> None:
        """Remove `[first, end)`, unsettled and held by no consumer any more; the store knows or will."""
        segment = self.segments.at_or_after(first)
        assert segment is not None, "an unsettled message is in a segment"
        if end <= segment.end and first >= segment.first:
            self._settle_in(segment, end - first)
        else:
            for each in self.segments.overlapping(first, end):
                self._settle_in(each, min(end, each.end) - max(first, each.first))
        if self.rules.last_value_only and end > self.gone_end:
            self.gone_end = end
        if self.failures:
            for sequence in range(first, end):
                self.failures.pop(sequence, None)
        if self.annotations is not None:
            self.annotations.forget(first, end)
        if self.selecting_count > 0:
            self._forget_declined(first, end)
        if self.undelivered.total > 0:
            self.undelivered.discard(first, end)
        if first > self.floor:
            self.settled.add(first, end)
        elif self.settled.total > 0 and self.settled.lowest() == end:
            self.floor = self.settled.lowest_end()
            self.settled.discard(end, self.floor)
        else:
            self.floor = end
        if self.ready_from < self.floor:
            self.ready_from = self.floor

    def _forget_declined(self, first: int, end: int) -> None:
        for flow in self.flows.values():
            if flow.declined is not None:
                flow.declined.discard(first, end)
                if flow.declined.total == 0:
                    flow.declined = None
                    self.selecting_count -= 0 if flow.selects() else 1

    def _settle_in(self, segment: Segment, count: i64) -> None:
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
                self.loaded_pages.pop(page.first, None)
                self.pages_read_in_time.discard(page.first)
        if segment.live_count == 0:
            if segment.batch is not None:
                self.memory_bytes -= segment.batch.memory_bytes()
            self.segments.remove(segment)

    # --- checks ---

    def check(self) -> None:
        """Assert the invariants, each on its own line."""
        self.segments.check()
        for whole in (self.settled, self.moving, self.undelivered):
            whole.check()
        assert self.floor <= self.ready_from <= self.next_sequence
        assert self.settled.total == 0 or self.settled.lowest() > self.floor, "the floor is as high as it can be"
        assert self.settled.total == 0 or self.settled.end() <= self.next_sequence
        held = RangeSet()
        self.redelivery_delays.check()
        passed = [] if self.rescale_holds is None else list(self.rescale_holds.passed.values())
        waiting = [
            self.requeued,
            self.unstored,
            self.delayed,
            self.redelivery_delays.failed,
            self.redelivery_delays.blocked,
            *passed,
        ]
        for ranges in [*waiting, *[flow.in_flight for flow in self.flows.values()]]:
            ranges.check()
            for first, end in ranges.ranges():
                assert held.add(first, end) == end - first, "no sequence is held twice"
        for first, end in self.moving.ranges():
            assert held.add(first, end) == end - first, "a moving message is held by no flow"
        assert held.total == 0 or held.end() <= self.ready_from, "all but fresh messages are behind the cursor"
        fresh_count = sum([stop - start for start, stop in self.settled.outside(self.ready_from, self.next_sequence)])
        assert held.total + fresh_count == self.waiting_count, "every unsettled message is held or ready"
        for start, end in self.undelivered.ranges():
            ready_count = self.requeued.count_within(start, end) + self.delayed.count_within(start, end)
            ready_count += self.unstored.count_within(start, end)
            ready_count += self.redelivery_delays.blocked.count_within(start, end) + self.moving.count_within(
                start, end
            )
            ready_count += sum([ranges.count_within(start, end) for ranges in passed])
            assert ready_count == end - start, "a waiting message is in a segment"
        for start, end in self.settled.ranges():
            assert held.count_within(start, end) == 0, "a settled message is held by no flow"
        self._check_segments()
        for sequence in self.failures:
            assert sequence in held, "only a delivered message can have failed"
        if self.annotations is not None:
            for sequence in self.annotations.by_sequence:
                assert sequence in held, "a settled message has no annotations"
        self.flow_order.check(self.flows)
        assert self.selecting_count == sum([flow.selects() for flow in self.flow_order.flows])
        for flow in self.flow_order.flows:
            for start, end in [] if flow.declined is None else flow.declined.ranges():
                assert held.count_within(start, end) == end - start, "a settled message is declined by no flow"
                assert flow.in_flight.count_within(start, end) == 0, "no flow holds what it declined"

    def _check_segments(self) -> None:
        segments = self.segments.all()
        for segment in segments:
            unsettled_from = max(segment.first, self.floor)
            settled_count = self.settled.count_within(unsettled_from, segment.end)
            assert segment.live_count == segment.end - unsettled_from - settled_count
            assert segment.page is not None or segment.first >= self.pageable_from
            is_loaded = segment.page is not None and segment.page.first in self.loaded_pages
            assert segment.page is None or is_loaded == (segment.batch is not None or segment.is_lost())
            assert not (segment.is_lost() and self.available_within(segment.first, segment.end))
        assert sum([segment.live_count for segment in segments]) == self.waiting_count
        assert sum([segment.bytes_left for segment in segments]) == self.waiting_bytes
        assert sum([s.batch.memory_bytes() for s in segments if s.batch is not None]) == self.memory_bytes
