"""Explain a partition key: how many of its messages wait in a partition, and why the first of them waits now.

Only messages in memory are examined, and a bounded number of them: an operator's question must not read pages.
"""

from enum import StrEnum
from typing import Final, final

from sluicegate.messaging.message.keys import key_hash_in, key_in
from sluicegate.messaging.partitions.ledger import Ledger
from sluicegate.messaging.partitions.rules.selection import may_select
from sluicegate.messaging.partitions.state.rescale_holds import NOT_HELD
from sluicegate.messaging.partitions.state.segments import Segment

# The reasons why a message waits, by the names that operators see. `wait_reason` determines which one applies.


class WaitReason(StrEnum):
    """Why a message is not delivered, or not yet."""

    NOTHING_WAITS = "nothing-waits"  # no message of the key is in the partition, or all are with a consumer
    NOT_EXAMINED = "not-examined"  # none waits in memory; messages on disk were not examined, and may have the key
    NO_CONSUMER = "no-consumer"  # no flow is bound
    HOLDDOWN = "holddown"  # the owner has disconnected, and may return within the rebalance delay
    HANDOFF = "handoff"  # the partition is paused: its old owner settles what it holds
    SOCKET_SHUT = "socket-shut"  # the consumer does not read its socket
    WINDOW_FULL = "window-full"  # the consumer holds as many unsettled messages as its window allows
    UNACKED_MAX = "unacked-max"  # it holds as many as the queue allows one flow
    NODE_UNACKED_MAX = "node-unacked-max"  # all consumers together hold as many as the node allows
    NOT_STORED = "not-stored"  # the queue delivers only stored messages, and the commit is in progress
    DELAYED = "delayed"  # its earliest time of delivery has not come
    REDELIVERY_DELAY = "redelivery-delay"  # it failed, and is delivered again after a delay
    BEHIND_A_FAILED_ONE = "behind-a-failed-one"  # an earlier message of its key waits for its redelivery
    RESCALE = "rescale"  # partitions changed, and older messages are unsettled in the former partition of its key
    LEAVING = "leaving"  # it is moving to another queue
    GROUP_BUSY = "group-busy"  # the consumer that owns its message group has no room, or the group changes hands
    ON_DISK = "on-disk"  # it is in a page that is read when its turn comes
    NOT_SELECTED = "not-selected"  # no present consumer selects it
    NOT_SELECTED_BY_OWNER = "not-selected-by-owner"  # the partition's owner does not select it; others may
    BEHIND_OTHERS = "behind-others"  # it is delivered after the messages before it


EXAMINED_MAX: Final = 50_000  # messages; some 10 ms of the loop, compiled


@final
class KeyStatus:
    """The state of one key in its partition."""

    __slots__ = ("first_waiting", "in_flight_count", "reason", "unseen_count", "waiting_count")

    def __init__(
        self, *, waiting_count: int, in_flight_count: int, first_waiting: int, reason: WaitReason, unseen_count: int
    ) -> None:
        self.waiting_count = waiting_count  # of the messages examined
        self.in_flight_count = in_flight_count  # with a consumer
        self.first_waiting = first_waiting  # sequence of the oldest waiting message; 0: none was found
        self.reason = reason
        self.unseen_count = unseen_count  # messages in pages, or beyond EXAMINED_MAX, that were not examined


def key_status(ledger: Ledger, key: str) -> KeyStatus:
    """Examine the messages of a key."""
    waiting_count = in_flight_count = first_waiting = examined_count = unseen_count = 0
    for segment in ledger.segments.all():
        if segment.batch is None or examined_count >= EXAMINED_MAX:
            unseen_count += segment.live_count
            continue
        examined_count += segment.live_count
        for sequence in _of_key(ledger, segment, key):
            if any(sequence in flow.in_flight for flow in ledger.flows.values()):
                in_flight_count += 1
                continue
            waiting_count += 1
            first_waiting = first_waiting or sequence
    reason = wait_reason(ledger, first_waiting) if first_waiting else WaitReason.NOTHING_WAITS
    if not first_waiting and unseen_count:
        reason = WaitReason.NOT_EXAMINED
    return KeyStatus(
        waiting_count=waiting_count,
        in_flight_count=in_flight_count,
        first_waiting=first_waiting,
        reason=reason,
        unseen_count=unseen_count,
    )


def wait_reason(ledger: Ledger, sequence: int) -> WaitReason:
    """Return why an unsettled message that no consumer holds is not delivered now."""
    if sequence in ledger.moving:
        return WaitReason.LEAVING
    if sequence in ledger.unstored:
        return WaitReason.NOT_STORED
    if sequence in ledger.delayed:
        return WaitReason.DELAYED
    if sequence in ledger.redelivery_delays.failed:
        return WaitReason.REDELIVERY_DELAY
    if sequence in ledger.redelivery_delays.blocked:
        return WaitReason.BEHIND_A_FAILED_ONE
    if _is_held_by_a_rescale(ledger, sequence):
        return WaitReason.RESCALE
    flows = list(ledger.flows.values())
    if not flows:
        return WaitReason.NO_CONSUMER
    active = [flow for flow in flows if not flow.paused]
    if not active:
        return WaitReason.HANDOFF
    active = [flow for flow in active if may_select(ledger, flow, sequence)]
    if not active:
        return WaitReason.NOT_SELECTED
    unacked_count_max = ledger.rules.unacked_count_max
    groups = ledger.groups
    owners = active if groups is None else [flow for flow in active if groups.may_have(ledger, flow, sequence)]
    if not any(flow.room(unacked_count_max) > 0 for flow in owners) and len(owners) < len(active):
        return WaitReason.GROUP_BUSY
    if any(flow.to_resend or flow.room(unacked_count_max) > 0 for flow in active):
        segment = ledger.segments.at_or_after(sequence)
        on_disk = segment is not None and segment.batch is None
        return WaitReason.ON_DISK if on_disk else WaitReason.BEHIND_OTHERS
    windows = [flow.flow.window for flow in active]
    if all(window.is_shut for window in windows):
        return WaitReason.SOCKET_SHUT
    if any(window.pool is not None and window.pool.available() == 0 for window in windows):
        return WaitReason.NODE_UNACKED_MAX
    if any(flow.flow.window.available() > 0 and flow.share() > 0 for flow in active):
        return WaitReason.UNACKED_MAX
    return WaitReason.WINDOW_FULL


def _is_held_by_a_rescale(ledger: Ledger, sequence: int) -> bool:
    """Return whether deliveries skip a message in memory, or will: its key recently came from another partition."""
    holds = ledger.rescale_holds
    segment = None if holds is None else ledger.segments.at_or_after(sequence)
    if holds is None or segment is None or segment.batch is None:
        return False
    return holds.source_of(key_hash_in(ledger.rules.key_source, segment.batch, sequence - segment.first)) != NOT_HELD


def _of_key(ledger: Ledger, segment: Segment, key: str) -> list[int]:
    """Return the unsettled sequences of a segment in memory whose messages have this key."""
    batch = segment.batch
    assert batch is not None
    found: list[int] = []
    source = ledger.rules.key_source
    if batch.headers() is None and source is None:
        return found
    for sequence in range(max(segment.first, ledger.floor), segment.end):
        if key_in(source, batch, sequence - segment.first) == key and sequence not in ledger.settled:
            found.append(sequence)
    return found
