"""Messages that a consumer has settled in a transaction whose commit is in progress.

They are taken from the consumer, all or none, and are treated like messages that move
(messaging.partitions.rules.moves): no consumer gets them, and their place in the journal or in a page is kept. The
commit settles them in its own journal record, and then they are removed. If the commit fails they return to their flow,
or become available if the flow has gone.

Until then they count against what their flow may have in flight. If the flow is lost meanwhile, newer messages wait for
the commit where an order has to be kept (messaging.partitions.state.flows).

See also: the transaction (the protocols), its commit (actors.transactions.commit).
"""

from typing import final

from sluicegate.messaging.message.outcomes import WHICHEVER
from sluicegate.messaging.message.ranges import RangeSet
from sluicegate.messaging.partitions.ledger import Ledger
from sluicegate.messaging.partitions.rules.in_flight import in_flight_of, renew_lock
from sluicegate.messaging.partitions.rules.moves import begin_move
from sluicegate.messaging.partitions.state.flows import Flow

Ranges = list[tuple[int, int]]


@final
class PreparedRanges:
    """The messages that one commit took from one flow. They count as held by the flow until `end`."""

    def __init__(self, flow: Flow, epoch: int, ranges: Ranges) -> None:
        self.flow = flow
        self.epoch = epoch  # assignment epoch under which the flow held them
        self.ranges = ranges
        self._in_flight = RangeSet()
        for first, end in ranges:
            self._in_flight.add(first, end)
        flow.holdings.append(self._in_flight)

    def end(self) -> None:
        """No longer count the ranges as messages that the flow holds."""
        self.flow.holdings = [each for each in self.flow.holdings if each is not self._in_flight]


def prepare(ledger: Ledger, flow_id: int, epoch: int, ranges: Ranges, delivery_count: int) -> PreparedRanges | None:
    """Take disjoint ranges from the flow that holds them, under this epoch, from deliveries with this count.

    Return None, with nothing changed, if the flow does not hold them all.
    """
    flow = ledger.flows.get(flow_id)
    if flow is None or flow.epoch != epoch:
        return None
    for first, end in ranges:
        if in_flight_of(ledger, flow, first, end, delivery_count) != [(first, end)]:
            return None
    for first, end in ranges:
        flow.in_flight.remove(first, end)
        ledger.moving.add(first, end)
    ledger.pending_commits.begin(flow_id, epoch)
    return PreparedRanges(flow.flow, epoch, ranges)


def restore_prepared(ledger: Ledger, prepared: PreparedRanges) -> None:
    """Withhold the ranges in a reloaded ledger while the commit is in progress; those it has settled are settled."""
    for first, end in prepared.ranges:
        begin_move(ledger, first, end)
    ledger.pending_commits.begin(prepared.flow.flow_id, prepared.epoch)


def settle_prepared(ledger: Ledger, prepared: PreparedRanges) -> int:
    """Remove the ranges that the commit settled; return how many messages. The store has the settlement already."""
    _decided(ledger, prepared)
    effects = ledger.effects
    was_worth_a_commit = effects.settled_written
    count = 0
    for first, end in prepared.ranges:
        for start, stop in ledger.end_move(first, end):
            count += stop - start
            ledger.remove(start, stop)
    effects.settled_written = was_worth_a_commit
    return count


def release_prepared(ledger: Ledger, prepared: PreparedRanges, wall_ms: int) -> None:
    """Return the messages to their flow, with a new lock; if the flow no longer takes part, the deliveries failed."""
    _decided(ledger, prepared)
    flow_id = prepared.flow.flow_id
    flow = ledger.flows.get(flow_id)
    for first, end in prepared.ranges:
        for start, stop in ledger.end_move(first, end):
            if flow is not None and flow.epoch == prepared.epoch:
                flow.in_flight.add(start, stop)
                renew_lock(ledger, flow_id, prepared.epoch, [(start, stop)], WHICHEVER, wall_ms)
            else:
                ledger.effects.taken_back.append((prepared.flow, start, stop))
                ledger.requeue(start, stop, 1, prepared.flow.client)


def _decided(ledger: Ledger, prepared: PreparedRanges) -> None:
    prepared.end()
    ledger.pending_commits.end(prepared.flow.flow_id, prepared.epoch)
