"""Whether a partition has more for a flow at this moment: the question of a consumer that wants its credit back."""

from sluicegate.messaging.partitions.state.segments import PAGE_WANTED
from sluicegate.messaging.partitions.state.state import LedgerState


def has_more_for(ledger: LedgerState, flow_id: int) -> bool:
    """Return whether more is on its way to a flow of a ledger that has just delivered all it could.

    It is while a page is read, while a flow that selects has more to look at, and while messages wait for the
    consumer's socket. It is not when messages wait for
    their time, or when the flow, or everybody together, holds the most there may be: that can last for ever.
    """
    flow = ledger.flows.get(flow_id)
    if flow is None or flow.paused or not (flow.kept or ledger.has_ready()):
        return False
    window = flow.flow.window
    if window.used >= window.limit:
        return False
    if window.is_shut:
        return True
    if flow.kept:
        return window.room() > 0
    if flow.room(ledger.rules.unacked_count_max) == 0:
        return False
    if flow.selects() and ledger.looks_on():
        return True
    pages = [segment.page for segment in ledger.segments.all()]
    return any(page is not None and page.state == PAGE_WANTED for page in pages)
