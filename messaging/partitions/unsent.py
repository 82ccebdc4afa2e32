"""Messages that a consumer's connection was handed and never sent: when it ends, nobody has had them.

Unlike what may have reached the consumer they have not failed, they expire as if they had waited in the queue [MQTT
3.3.2-5], and whoever gets them next gets them for the first time.
"""

from sluicegate.messaging.partitions.state.state import AT_ONCE, LedgerState


def give_back(ledger: LedgerState, flow_id: int, epoch: int, ranges: list[tuple[int, int]]) -> None:
    """Take back what a flow that ends holds of some ranges, of messages that nobody was given before it.

    The flow gets nothing more. Under an old epoch it changes nothing.
    """
    flow = ledger.flows.get(flow_id)
    if flow is None or flow.epoch != epoch:
        return
    flow.paused = True  # or it would have them again before it ends
    for first, end in ranges:
        for taken_first, taken_end in ledger.take_back(flow, first, end):
            for start, stop in ledger.drop_refused(taken_first, taken_end):
                _wait_anew(ledger, start, stop)


def _wait_anew(ledger: LedgerState, first: int, end: int) -> None:
    ledger.make_ready(first, end)
    ledger.undelivered.add(first, end)
    for segment in ledger.segments.overlapping(first, end):
        if segment.publication is not None:
            segment.publication.undelivered_count += min(end, segment.end) - max(first, segment.first)
        if ledger.rules.respects_expiry:
            ledger.timetable.note(AT_ONCE, segment.first)
