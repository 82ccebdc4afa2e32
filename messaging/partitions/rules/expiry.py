"""The effects of time on the messages of a partition: expiry, delayed delivery, locks and redelivery delays.

Messages in pages are not known singly. Each segment has at most a few entries in the schedule, at the earliest time at
which anything may happen to its messages. A page has its entry from its marks, or from when it was last in memory:
marks do not tell which messages were due and already wait for a consumer, and would have the page read again and again.
At that time the messages decide, and the segment is entered again. Messages that consumers hold do not expire; they are
checked when they are returned.

All times are wall clock, in milliseconds; 0 is none.
"""

from typing import Final

from sluicegate.messaging.message.batch import MessageBatch
from sluicegate.messaging.message.headers import Headers
from sluicegate.messaging.partitions.state.flows import DeliveryRules, Locks
from sluicegate.messaging.partitions.state.segments import Segment, has_delays, marks_of
from sluicegate.messaging.partitions.state.state import LedgerState

# One turn of a partition handles so many segments; the rest are handled in the next turn, which follows at once.
SEGMENTS_PER_TURN: Final = 256
# Pages being read because something in them may have expired or become due. Consumers' pages are not counted.
PAGES_READ_IN_TIME_MAX: Final = 8
# Entries of the schedule beyond those that its segments need, before it is rebuilt.
ENTRIES_IN_VAIN_MAX: Final = 1024


def expires_at(rules: DeliveryRules, arrived_ms: int, publisher_expires_ms: int) -> int:
    """Return when a message expires on this queue: by its publisher or by the queue, whichever is earlier."""
    if rules.max_ttl_ms == 0:
        return publisher_expires_ms
    queue_expires_ms = arrived_ms + rules.max_ttl_ms
    return queue_expires_ms if publisher_expires_ms <= 0 else min(queue_expires_ms, publisher_expires_ms)


def due_at(rules: DeliveryRules, arrived_ms: int, not_before_ms: int) -> int:
    """Return when a message may be delivered on this queue: by its publisher and by the queue, whichever is later."""
    return max(not_before_ms, arrived_ms + rules.delivery_delay_ms if rules.delivery_delay_ms > 0 else 0)


def schedule_expiry(state: LedgerState, segment: Segment) -> None:
    """Enter a segment into the schedule, if time affects any of its messages."""
    rules = state.rules
    is_delayed = state.delayed.total > 0 and state.delayed.count_within(segment.first, segment.end) > 0
    if not rules.respects_expiry and not is_delayed:
        return
    batch = segment.batch
    if batch is not None and batch.headers() is None and rules.max_ttl_ms == 0 and not is_delayed:
        return
    at_ms = _bound(state, segment, is_delayed)
    if at_ms > 0:
        state.schedule.add(at_ms, segment.first)
        if len(state.schedule) > 4 * len(state.segments) + ENTRIES_IN_VAIN_MAX:
            _schedule_all(state)


def hold_delayed(state: LedgerState, segment: Segment, applied_ms: int) -> None:
    """Take the delayed messages of a segment out of what is ready.

    This does not read the clock: the `apply_time` that follows makes those ready whose time has come, unless a page has
    to be read. A message that was due at `applied_ms`, when time was last applied to it, does not wait again, or others
    would overtake it. For new messages `applied_ms` is 0.
    """
    rules = state.rules
    batch = segment.batch
    if rules.passes_on:
        return
    if batch is None:
        assert segment.page is not None
        marks = segment.page.marks
        if due_at(rules, marks.arrived_ms, marks.not_before_ms) > applied_ms:
            state.advance_cursor()
            _hold(state, segment.first, segment.end)
        return
    column = batch.headers()
    if rules.delivery_delay_ms > 0 and batch.received_ms + rules.delivery_delay_ms > applied_ms:
        state.advance_cursor()
        _hold(state, segment.first, segment.end)
    elif column is not None and has_delays(column):
        state.advance_cursor()
        for row, headers in enumerate(column):
            if headers is not None and headers.not_before_ms > applied_ms:
                _hold(state, segment.first + row, segment.first + row + 1)


def _hold(state: LedgerState, first: int, end: int) -> None:
    for start, stop in state.undelivered.within(first, end):
        for ready_first, ready_end in state.requeued.remove(start, stop):
            state.delayed.add(ready_first, ready_end)


def next_change_ms(state: LedgerState, segment: Segment) -> int:
    """Return the next time at which a message of a segment in memory, not with a consumer, expires or becomes due."""
    batch, rules = segment.batch, state.rules
    assert batch is not None
    next_ms = 0
    for first, end in state.delayed.within(segment.first, segment.end):
        for sequence in range(first, end):
            headers = batch.headers_of(sequence - segment.first)
            at_ms = due_at(rules, batch.received_ms, 0 if headers is None else headers.not_before_ms)
            next_ms = earlier(next_ms, max(at_ms, 1))
    if rules.respects_expiry:
        for first, end in _may_expire(state, segment):
            for sequence in range(first, end):
                headers = batch.headers_of(sequence - segment.first)
                at_ms = expires_at(rules, batch.received_ms, 0 if headers is None else headers.expires_at_ms)
                next_ms = earlier(next_ms, at_ms)
    return next_ms


def apply_time(state: LedgerState, now_ms: int) -> None:
    """Apply the current time, as far as one turn allows."""
    state.applied_ms = now_ms
    if state.rules_seen != state.rules.generation:
        _follow_rules(state, now_ms)
    if state.rules.ack_timeout_ms > 0:
        _take_back_unsettled(state, now_ms)
    for _ in range(SEGMENTS_PER_TURN):
        if len(state.pages_read_in_time) >= PAGES_READ_IN_TIME_MAX:
            break
        at_ms = state.schedule.next_ms()
        sequence = state.schedule.take_due(now_ms)
        if sequence < 0:
            break
        segment = state.segments.at_or_after(sequence)
        if segment is None or segment.first > sequence:
            continue
        if segment.batch is not None and state.pages_read_in_time:
            state.schedule.add(at_ms, sequence)  # of the same time, pages come first
            break
        _apply_to_segment(state, segment, now_ms)
    back_off = state.redelivery_delays
    if back_off.failed.total > 0:
        back_off.start(now_ms)
        for first, end in back_off.take_due(now_ms):
            state.make_ready(first, end)


def deadline_ms(state: LedgerState) -> int:
    """Return when `apply_time` next has work, unless something else happens before; 0: never."""
    earliest = 0
    if not state.pages_read_in_time:  # otherwise the arrival of the page causes a turn
        earliest = state.schedule.next_ms()
    earliest = earlier(earliest, state.redelivery_delays.next_ms())
    for flow in state.flows.values():
        if flow.locks is not None:
            earliest = earlier(earliest, flow.locks.next_ms())
    return earliest


def earlier(one_ms: int, other_ms: int) -> int:
    """Return the earlier of two times, 0 being none."""
    if one_ms == 0 or other_ms == 0:
        return one_ms + other_ms
    return min(one_ms, other_ms)


# --- the schedule ---


def _bound(state: LedgerState, segment: Segment, is_delayed: bool) -> int:
    """Return a time before which nothing happens to the waiting messages of a segment."""
    rules = state.rules
    if segment.batch is not None:
        marks = marks_of(segment.batch)
    else:
        page = segment.page
        assert page is not None
        if page.next_rules == rules.generation:
            return page.next_ms
        marks = page.marks
    at_ms = 0
    if rules.respects_expiry:
        at_ms = expires_at(rules, marks.arrived_ms, marks.expires_ms)
        segment.expires_ms = at_ms
    if is_delayed:
        at_ms = earlier(at_ms, max(due_at(rules, marks.arrived_ms, marks.not_before_ms), 1))
    return at_ms


def _apply_to_segment(state: LedgerState, segment: Segment, now_ms: int) -> None:
    """Apply the current time to one segment; a page is requested first."""
    batch = segment.batch
    if batch is not None:
        at_ms = _release_due(state, segment, batch, now_ms)
        if state.rules.respects_expiry:
            at_ms = earlier(at_ms, _drop_expired(state, segment, batch, now_ms))
        if at_ms > 0 and segment.live_count > 0:
            state.schedule.add(at_ms, segment.first)
        return
    at_ms = _bound(state, segment, state.delayed.count_within(segment.first, segment.end) > 0)
    if at_ms > now_ms:
        state.schedule.add(at_ms, segment.first)
    elif at_ms > 0 and segment.page is not None and not (segment.is_lost() or state.ensure_loaded(segment)):
        state.pages_read_in_time.add(segment.page.first)  # when loaded it is entered again


def _drop_expired(state: LedgerState, segment: Segment, batch: MessageBatch, now_ms: int) -> int:
    """Drop the expired messages among those waiting in a segment; return when the next of them expires."""
    rules = state.rules
    column = batch.headers()
    first = segment.first
    next_ms = 0
    for run_first, run_end in _may_expire(state, segment):
        if column is None:
            at_ms = expires_at(rules, batch.received_ms, 0)
            if 0 < at_ms <= now_ms:
                state.expire(run_first, run_end)
            else:
                next_ms = earlier(next_ms, at_ms)
        else:
            next_ms = earlier(next_ms, _drop_expired_rows(state, batch, column, first, run_first, run_end, now_ms))
    segment.expires_ms = next_ms
    return next_ms


def _may_expire(state: LedgerState, segment: Segment) -> list[tuple[int, int]]:
    """Return the waiting messages of a segment that may expire."""
    free = state.available_within(segment.first, segment.end)
    if state.rules.expires_once_delivered:
        return free
    return [part for first, end in free for part in state.never_delivered(first, end)]


def _drop_expired_rows(
    state: LedgerState,
    batch: MessageBatch,
    column: list[Headers | None],
    segment_first: int,
    first: int,
    end: int,
    now_ms: int,
) -> int:
    rules = state.rules
    next_ms = 0
    run_first = first
    for sequence in range(first, end + 1):
        at_ms = 0
        if sequence < end:
            headers = column[sequence - segment_first]
            at_ms = expires_at(rules, batch.received_ms, 0 if headers is None else headers.expires_at_ms)
        if 0 < at_ms <= now_ms:
            continue
        if run_first < sequence:
            state.expire(run_first, sequence)
        run_first = sequence + 1
        if at_ms > 0:
            next_ms = earlier(next_ms, at_ms)
    return next_ms


def _release_due(state: LedgerState, segment: Segment, batch: MessageBatch, now_ms: int) -> int:
    """Make the due messages of a segment ready; return when the next of its delayed messages is due."""
    if state.delayed.total == 0:
        return 0
    rules = state.rules
    next_ms = 0
    for first, end in state.delayed.within(segment.first, segment.end):
        run_first = first
        for sequence in range(first, end + 1):
            at_ms = now_ms + 1
            if sequence < end:
                headers = batch.headers_of(sequence - segment.first)
                at_ms = due_at(rules, batch.received_ms, 0 if headers is None else headers.not_before_ms)
                if at_ms <= now_ms:
                    continue
                next_ms = earlier(next_ms, at_ms)
            if run_first < sequence:
                state.delayed.discard(run_first, sequence)
                state.make_ready(run_first, sequence)
            run_first = sequence + 1
    return next_ms


def _follow_rules(state: LedgerState, now_ms: int) -> None:
    """Apply changed rules: reset the times of delayed messages, rebuild the schedule, start or end locks."""
    state.rules_seen = state.rules.generation
    if state.rules.watches_the_clock():
        state.may_expire = True  # messages that wait because of these rules may still wait under later ones
    for segment in state.segments.all():
        hold_delayed(state, segment, now_ms)
    _schedule_all(state)
    if state.rules.by_priority:
        for priority in range(len(state.ready_from_of)):
            state.ready_from_of[priority] = state.floor
    for flow in state.flows.values():
        if state.rules.ack_timeout_ms == 0:
            flow.locks = None
        elif flow.locks is None:
            flow.locks = Locks()
            for first, end in flow.in_flight.ranges():
                flow.locks.grant(first, end, now_ms=now_ms, timeout_ms=state.rules.ack_timeout_ms)


def _schedule_all(state: LedgerState) -> None:
    state.schedule.clear()
    for segment in state.segments.all():
        schedule_expiry(state, segment)


def _take_back_unsettled(state: LedgerState, now_ms: int) -> None:
    for flow in state.flows.values():
        locks = flow.locks
        if locks is None or not 0 < locks.next_ms() <= now_ms:
            continue
        for first, end in locks.take_expired(now_ms):
            for start, stop in state.take_back(flow, first, end):
                state.lock_losses_count += stop - start
                state.requeue(start, stop, 1, flow.flow.client)
