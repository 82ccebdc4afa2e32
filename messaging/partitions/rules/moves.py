"""Moves of messages from a partition to another queue.

A move has two steps. `begin_move` takes a message out of delivery: no consumer gets it, no purge drops it, and its
place in the journal or in a page is kept. One commit puts it into the other queue and settles it here, in the same
record; then `commit_move` removes it. If the other queue does not take it, `abort_move` makes it available again.

A message that comes from another broker, with a queue that moves, brings along how often it was delivered there
(`restore_deliveries`).

See also: why and where to a message moves (messaging.message.dead_lettering, the actors), and what is written
(storage.commit.planner).
"""

from sluicegate.messaging.message.outcomes import TO_DMQ_FAILED
from sluicegate.messaging.partitions.rules.expiry import hold_delayed, schedule_expiry
from sluicegate.messaging.partitions.state.segments import GAP_MOVED
from sluicegate.messaging.partitions.state.state import LedgerState


def begin_move(ledger: LedgerState, first: int, end: int) -> list[tuple[int, int]]:
    """Take those of `[first, end)` that no consumer holds out of delivery; return them as ranges, ascending."""
    ledger.advance_cursor()  # so that messages that stay after all are known to be undelivered
    departing = ledger.available_within(first, end)
    for start, stop in departing:
        ledger.take_out(start, stop)
        ledger.moving.add(start, stop)
    return departing


def commit_move(ledger: LedgerState, first: int, end: int) -> None:
    """Remove `[first, end)`: the other queue has it. The same commit settled it; nothing is left to persist."""
    effects = ledger.effects
    was_worth_a_commit = effects.settled_written
    for start, stop in ledger.end_move(first, end):
        ledger.gaps.note(GAP_MOVED, start, stop)
        ledger.remove(start, stop)
    effects.settled_written = was_worth_a_commit


def abort_move(ledger: LedgerState, first: int, end: int) -> None:
    """Make `[first, end)` available again, except what the store does not have: the other queue did not take it."""
    for start, stop in [kept for each in ledger.end_move(first, end) for kept in ledger.drop_unstored(*each)]:
        ledger.make_ready(start, stop)
        for segment in ledger.segments.overlapping(start, stop):
            hold_delayed(ledger, segment, ledger.applied_ms)
            schedule_expiry(ledger, segment)


def drop_moving(ledger: LedgerState, first: int, end: int, reason: str, *, by_refusal: bool) -> None:
    """Drop `[first, end)`: there is no dead message queue for it, or (`by_refusal`) that did not take it."""
    for start, stop in ledger.end_move(first, end):
        ledger.discard_for_good(start, stop, reason + TO_DMQ_FAILED if by_refusal else reason)


def restore_deliveries(ledger: LedgerState, first: int, earlier: list[tuple[int, int]]) -> None:
    """Note that messages which have just been numbered from `first` on were delivered before, at another broker.

    `earlier` has pairs: the place among them, and how many deliveries have failed.
    """
    ledger.advance_cursor()  # so that those behind the cursor that were never delivered are known
    for place, failed_count in earlier:
        sequence = first + place
        ledger.undelivered.discard(sequence, sequence + 1)
        if failed_count > 0:
            ledger.failures[sequence] = failed_count
