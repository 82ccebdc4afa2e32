"""Last-value queues: keep the newest message only, and drop an older one when a newer one is safe.

A newer message is safe when it is stored, or when it has left the queue for any reason but a refusal of the store.
Until then the older one is set aside with the moving messages (messaging.partitions.rules.moves): no consumer gets it,
and its place in the store is kept. If the newer one is refused, the older one becomes ready again. A message that a
consumer holds stays with it until then, too.

The newest message is delivered at once, safe or not, as in every queue.
"""

from sluicegate.messaging.message.outcomes import DISCARD_NOT_STORED, DISCARD_REPLACED
from sluicegate.messaging.message.ranges import RangeSet
from sluicegate.messaging.partitions.rules.moves import abort_move, begin_move
from sluicegate.messaging.partitions.state.state import LedgerState


def keep_newest(ledger: LedgerState) -> None:
    """Drop what is replaced for good, set aside what may be replaced, and restore what is not replaced after all."""
    replaced = ledger.replaced
    if not ledger.rules.last_value_only:
        if replaced is not None:
            for first, end in replaced.ranges():
                abort_move(ledger, first, end)
        ledger.replaced = None
        return
    if ledger.waiting_count <= 1 and replaced is None and ledger.gone_end <= ledger.floor:
        return
    newest, safe = _newest_and_safe(ledger)
    _drop_below(ledger, safe)
    if newest >= 0:
        _set_aside_below(ledger, newest)
    replaced = ledger.replaced
    if replaced is not None and newest in replaced:
        replaced.remove(newest, newest + 1)
        abort_move(ledger, newest, newest + 1)
    if replaced is not None and replaced.total == 0:
        ledger.replaced = None


def _newest_and_safe(ledger: LedgerState) -> tuple[int, int]:
    """Return the newest unsettled sequence not refused, or -1, and the sequence below which all is replaced."""
    newest = -1
    safe = ledger.gone_end
    for segment in reversed(ledger.segments.all()):  # few: the newest, and what came since the last commit
        publication = segment.publication
        if publication is not None and publication.refused:
            _discard_set_aside(ledger, segment.first, segment.end, DISCARD_NOT_STORED)  # its successor was refused too
            ledger.give_up(segment.first, segment.end, DISCARD_NOT_STORED)  # its withdrawal is in progress
            continue
        last = ledger.settled.outside(max(segment.first, ledger.floor), segment.end)[-1][1] - 1
        newest = max(newest, last)
        if publication is None or publication.confirmed:
            return newest, max(safe, last)
    return newest, safe


def _drop_below(ledger: LedgerState, safe: int) -> None:
    """Drop everything older than a safe message, also from consumers; their settlements come too late."""
    floor = ledger.floor
    for flow in ledger.flows.values():
        for first, end in ledger.take_back(flow, floor, safe):
            ledger.discard_for_good(first, end, DISCARD_REPLACED)
    _discard_set_aside(ledger, floor, safe, DISCARD_REPLACED)
    ledger.give_up(floor, safe, DISCARD_REPLACED)


def _discard_set_aside(ledger: LedgerState, first: int, end: int, reason: str) -> None:
    replaced = ledger.replaced
    if replaced is not None:
        for start, stop in replaced.remove(first, end):
            for its_start, its_stop in ledger.end_move(start, stop):
                ledger.discard_for_good(its_start, its_stop, reason)


def _set_aside_below(ledger: LedgerState, newest: int) -> None:
    if not ledger.available_within(ledger.floor, newest):
        return
    replaced = ledger.replaced
    if replaced is None:
        replaced = ledger.replaced = RangeSet()
    for first, end in begin_move(ledger, ledger.floor, newest):
        replaced.add(first, end)
