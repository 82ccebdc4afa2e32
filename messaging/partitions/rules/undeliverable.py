"""Messages that a consumer returns for other consumers: its flow never gets them again (AMQP's undeliverable-here).

They wait like any message; a flow that has declined some scans as a selecting flow does
(messaging.partitions.rules.selection), and skips them. A message that every eligible flow has declined is dead: a
consumer for it may never come, and offering it again would go on for ever. A paused flow continues or has a successor,
so it is waited for. When a flow leaves, what it declined is open to any new flow.

On an exclusive queue, in a partition, and in a message group there is no other flow, so a declined message is dead at
once. The ledger alone remembers what was declined; a restart forgets it.

See also: where a dead message goes (messaging.message.dead_lettering).
"""

from typing import Final

from sluicegate.messaging.message.outcomes import DISCARD_UNDELIVERABLE
from sluicegate.messaging.message.ranges import RangeSet
from sluicegate.messaging.partitions.rules.groups import MessageGroups
from sluicegate.messaging.partitions.rules.selection import may_select
from sluicegate.messaging.partitions.state.flows import LedgerFlow
from sluicegate.messaging.partitions.state.state import LedgerState

DECLINED_RANGES_MAX: Final = 1_000  # of one flow; further declined messages are dead, as if there were no other flow


def decline(
    state: LedgerState, groups: MessageGroups | None, flow: LedgerFlow, first: int, end: int, failed: int
) -> None:
    """Offer `[first, end)`, taken from a flow, to other flows; `failed` is 1 for a failure, else 0."""
    declined = flow.declined
    if declined is None:
        if not flow.selects():
            state.selecting_count += 1
        flow.declined = declined = RangeSet()
        flow.rescan()
    declined.add(first, end)
    client = flow.flow.client
    state.requeue(first, end, failed, client)
    if declined.ranges_count() > DECLINED_RANGES_MAX:
        state.give_up(first, end, DISCARD_UNDELIVERABLE, client)
    else:
        _dead_letter_unwanted(state, groups, first, end, client)


def dead_letter_declined(state: LedgerState, groups: MessageGroups | None, client: str) -> None:
    """Dead-letter what only a flow that has left had not declined; the flow was this client's."""
    for flow in list(state.flows.values()):
        if flow.declined is not None:
            for first, end in flow.declined.ranges():
                _dead_letter_unwanted(state, groups, first, end, client)


def dead_letter_loaded(state: LedgerState, groups: MessageGroups | None, first: int, end: int) -> None:
    """Dead-letter the declined messages of a loaded page that no flow selects: unknown while it was on disk."""
    for flow in list(state.flows.values()):
        if flow.declined is not None:
            for start, stop in flow.declined.within(first, end):
                _dead_letter_unwanted(state, groups, start, stop, flow.flow.client)


def _dead_letter_unwanted(state: LedgerState, groups: MessageGroups | None, first: int, end: int, client: str) -> None:
    for start, stop in state.available_within(first, end):
        for sequence in range(start, stop):
            if not any(_may_have(state, groups, flow, sequence) for flow in state.flows.values()):
                state.give_up(sequence, sequence + 1, DISCARD_UNDELIVERABLE, client)


def _may_have(state: LedgerState, groups: MessageGroups | None, flow: LedgerFlow, sequence: int) -> bool:
    """Return whether a flow could be given a message, now or when it continues."""
    if flow.paused:
        return True
    return may_select(state, flow, sequence) and (groups is None or groups.may_have(state, flow, sequence))
