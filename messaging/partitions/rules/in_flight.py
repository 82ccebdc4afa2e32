"""Match a settlement to a flow's in-flight messages, by sequence and delivery count.

A delivery that is not settled in time has failed. Its message is delivered again, perhaps to the same flow, with a
higher delivery count; a settlement of the earlier delivery does not apply to the later one.

See also: outcomes (messaging.partitions.ledger), and when a lock expires (messaging.partitions.rules.expiry).
"""

from sluicegate.messaging.message.outcomes import WHICHEVER
from sluicegate.messaging.partitions.state.flows import LedgerFlow
from sluicegate.messaging.partitions.state.redelivery import DeliveryAnnotations
from sluicegate.messaging.partitions.state.state import LedgerState

Ranges = list[tuple[int, int]]


def in_flight_of(state: LedgerState, flow: LedgerFlow, first: int, end: int, delivery_count: int) -> Ranges:
    """Return the ranges of `[first, end)` that a flow holds from deliveries with this count."""
    held = flow.in_flight.within(first, end)
    failures = state.failures
    if delivery_count == WHICHEVER or (delivery_count == 1 and not failures):
        return held
    found: Ranges = []
    for start, stop in held:
        run_first = start
        for sequence in range(start, stop + 1):
            if sequence < stop and failures.get(sequence, 0) + 1 == delivery_count:
                continue
            if run_first < sequence:
                found.append((run_first, sequence))
            run_first = sequence + 1
    return found


def alike_until(state: LedgerState, first: int, end: int) -> int:
    """Return the end of the part of `[first, end)` that can be one delivery: same annotations, same delivery count."""
    if state.annotations is not None:
        end = state.annotations.alike_until(first, end)
    failures = state.failures
    if not failures:
        return end
    count = failures.get(first, 0)
    stop = first + 1
    while stop < end and failures.get(stop, 0) == count:
        stop += 1
    return stop


def annotate(
    state: LedgerState, flow_id: int, epoch: int, ranges: Ranges, delivery_count: int, annotation: bytes
) -> None:
    """Annotate what a flow holds of some ranges, for the next delivery. Has no effect under an old epoch."""
    flow = state.flows.get(flow_id)
    if flow is None or flow.epoch != epoch:
        return
    annotations = state.annotations
    if annotations is None:
        annotations = state.annotations = DeliveryAnnotations()
    for first, end in ranges:
        for start, stop in in_flight_of(state, flow, first, end, delivery_count):
            annotations.add(start, stop, annotation)


def renew_lock(state: LedgerState, flow_id: int, epoch: int, ranges: Ranges, delivery_count: int, wall_ms: int) -> int:
    """Restart the lock of what a flow holds of some ranges, where deliveries have locks.

    Return how many messages it holds; 0 under an old epoch.
    """
    flow = state.flows.get(flow_id)
    if flow is None or flow.epoch != epoch:
        return 0
    count = 0
    for first, end in ranges:
        for start, stop in in_flight_of(state, flow, first, end, delivery_count):
            count += stop - start
            if flow.locks is not None:
                flow.lock(start, stop, now_ms=wall_ms, timeout_ms=state.rules.ack_timeout_ms)
    return count
