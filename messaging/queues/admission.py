"""Admission gates: decide whether a publish may be spooled, for every target before any of them takes it.

A publish to several queues is all or nothing. So admission is not a message to the queue's actor but a call of its
gate, which publishers and the queue share on the node's loop: all gates are asked, then all reserve, or none does. The
gates of one publish form a chain: node, message VPN, queue. The checks and their order are those of Solace's spool;
each refusal has a counter. `messaging.message.refusals` describes the verdicts.
"""

from typing import Final, final

from mypy_extensions import i64

from sluicegate.messaging.limits.slices import Slice
from sluicegate.messaging.message.batch import MessageBatch
from sluicegate.messaging.message.refusals import (
    ADMITTED,
    REFUSED_LOW_PRIORITY,
    REFUSED_MESSAGE_TOO_LARGE,
    REFUSED_QUEUE_COUNT,
    REFUSED_QUEUE_FULL,
    REFUSED_SHUT_DOWN,
    REFUSED_SPOOL_COUNT,
    REFUSED_SPOOL_FULL,
    REJECT_WHEN_ENABLED,
    refuses_publisher,
)
from sluicegate.messaging.message.thresholds import (
    NEVER_REACHED,
    Exceedance,
    Threshold,
    no_listener,
    no_refusal_listener,
)

LOW_PRIORITY_BELOW: Final = 4  # JMS: 4 is the priority of a message whose publisher set none
NO_LIMIT: Final = NEVER_REACHED


@final
class SpoolGate:
    """The spool usage of all durable queues of the node, or of one message VPN, which is its child.

    `blocked` says why the store takes no more, or is empty, and `blocked_refusal` whether that is for lack of space or
    a failure. The spool actor sets and clears them. Invariant: usage of a child is also usage of its parent.

    The limits are those of all brokers of a machine, which share them once `share` was called. Messages are compared
    with what this broker holds of them: all, if it is alone.
    """

    def __init__(
        self,
        *,
        usage_bytes_max: i64,
        usage_count_max: i64 = NO_LIMIT,
        refusal: int = REFUSED_SPOOL_FULL,
        parent: "SpoolGate | None" = None,
    ) -> None:
        self.usage_bytes_max = usage_bytes_max
        self.usage_count_max = usage_count_max
        self._held_bytes = usage_bytes_max
        self._held_count = usage_count_max
        self._bytes_slice: Slice | None = None  # of usage_bytes_max
        self._count_slice: Slice | None = None  # of usage_count_max
        self.refusal = refusal  # the verdict when the bytes are used up
        self.parent = parent
        self.usage_bytes: i64 = 0
        self.usage_count: i64 = 0
        self.accepted_bytes: i64 = 0
        self.accepted_count: i64 = 0
        self.blocked = ""
        self.blocked_refusal: int = REFUSED_SPOOL_FULL
        self.usage_threshold = Threshold(no_listener)
        self.count_threshold = Threshold(no_listener)
        self.usage_exceeded = Exceedance(no_refusal_listener)
        self.count_exceeded = Exceedance(no_refusal_listener)

    def bound(self, usage_bytes_max: i64) -> None:
        """Set the quota of bytes. What is stored already stays."""
        self.usage_bytes_max = usage_bytes_max
        self._held_bytes = usage_bytes_max
        self.settle()

    def share(self, bytes_slice: Slice, count_slice: Slice | None = None) -> None:
        """Share the limits with the other brokers of this machine from now on. `settle` from time to time."""
        self._bytes_slice = bytes_slice
        self._count_slice = count_slice
        self.settle()

    @property
    def held_bytes(self) -> int:
        """What this broker holds of the quota of bytes: all of it, unless it shares that with others."""
        return int(self._held_bytes)

    def settle(self) -> None:
        """Give back to the other brokers of this machine what is not used."""
        held = self._bytes_slice
        if held is not None:
            self._held_bytes = min(held.settle(self.usage_bytes, self.usage_bytes_max), self.usage_bytes_max)
        held = self._count_slice
        if held is not None:
            self._held_count = min(held.settle(self.usage_count, self.usage_count_max), self.usage_count_max)

    def verdict_on_bytes(self, size: i64) -> i64:
        """Return ADMITTED, or the verdict of the exceeded quota: the outermost gate is asked first."""
        parent = self.parent
        if parent is not None:
            verdict = parent.verdict_on_bytes(size)
            if verdict != ADMITTED:
                return verdict
        if self.blocked:
            return self.blocked_refusal
        if self.usage_bytes + size > self._held_bytes and not self._takes_bytes(self.usage_bytes + size):
            return self.refusal
        return ADMITTED

    def largest_bytes(self) -> i64:
        """Return the most that could be admitted, if nothing else were there."""
        largest: i64 = self.usage_bytes_max
        parent = self.parent
        if parent is not None:
            of_parent: i64 = parent.largest_bytes()
            if of_parent < largest:
                return of_parent
        return largest

    def verdict_on_count(self, count: i64) -> i64:
        """Return ADMITTED, or REFUSED_SPOOL_COUNT."""
        if self.usage_count + count > self._held_count and not self._takes_count(self.usage_count + count):
            return REFUSED_SPOOL_COUNT
        return ADMITTED if self.parent is None else self.parent.verdict_on_count(count)

    def is_blocked(self) -> bool:
        """Return whether the store takes no more."""
        return bool(self.blocked) or (self.parent is not None and self.parent.is_blocked())

    def admits_moved(self, size: i64, count: i64, *, counted_size: i64, counted_count: i64) -> bool:
        """Return whether there is room for messages of another broker of this machine, which go there once stored here.

        The limits count them there already, as `counted_size` and `counted_count`: only what they take beyond that is
        asked for. The other brokers see at once that they are here, too.
        """
        if size > counted_size and self.verdict_on_bytes(size - counted_size) != ADMITTED:
            return False
        if count > counted_count and self.verdict_on_count(count - counted_count) != ADMITTED:
            return False
        if self.is_blocked():
            return False
        self._hold(size, count)
        return True

    def _hold(self, size: i64, count: i64) -> None:
        """Hold so much more than what is used, here and in the parents, whatever the limits are."""
        held = self._bytes_slice
        if held is not None:
            held.hold(self.usage_bytes + size)
            self._held_bytes = min(held.held, self.usage_bytes_max)
        held = self._count_slice
        if held is not None:
            held.hold(self.usage_count + count)
            self._held_count = min(held.held, self.usage_count_max)
        if self.parent is not None:
            self.parent._hold(size, count)

    def _takes_bytes(self, needed: i64) -> bool:
        """Return whether this broker may use so many bytes, although it does not hold them; then it does."""
        held = self._bytes_slice
        if held is None or not held.admits(needed, self.usage_bytes_max):
            return False
        self._held_bytes = min(held.held, self.usage_bytes_max)
        return True

    def _takes_count(self, needed: i64) -> bool:
        held = self._count_slice
        if held is None or not held.admits(needed, self.usage_count_max):
            return False
        self._held_count = min(held.held, self.usage_count_max)
        return True

    def count_in(self, count: i64, size: i64) -> None:
        """Count messages in, here and in the parents."""
        self.accepted_bytes += size
        self.accepted_count += count
        self.usage_bytes += size
        self.usage_count += count
        if self.usage_bytes >= self.usage_threshold.raise_at:
            self.usage_threshold.cross(self.usage_bytes)
        if self.usage_count >= self.count_threshold.raise_at:
            self.count_threshold.cross(self.usage_count)
        if self.parent is not None:
            self.parent.count_in(count, size)

    def count_out(self, count: i64, size: i64) -> None:
        """Count settled messages out, here and in the parents."""
        self.usage_bytes -= size
        self.usage_count -= count
        if self.usage_bytes < self.usage_threshold.clear_below:
            self.usage_threshold.cross(self.usage_bytes)
        if self.usage_count < self.count_threshold.clear_below:
            self.count_threshold.cross(self.usage_count)
        if self.parent is not None:
            self.parent.count_out(count, size)

    def refused(self, verdict: int) -> None:
        """Record a refusal of this gate or a parent."""
        parent = self.parent
        if self.blocked and verdict == self.blocked_refusal:
            return  # a full or failed store is reported when it becomes so
        if verdict == self.refusal:
            self.usage_exceeded.refused(taken=self.accepted_bytes, limit=self.usage_bytes_max)
        elif parent is not None:
            parent.refused(verdict)
        elif verdict == REFUSED_SPOOL_COUNT:
            self.count_exceeded.refused(taken=self.accepted_count, limit=self.usage_count_max)


@final
class QueueGate:
    """Admission to one queue. Its usage is that of all unsettled messages (messaging.message.usage)."""

    def __init__(
        self,
        spool: SpoolGate | None,
        *,
        usage_bytes_max: i64,
        message_bytes_max: i64,
        usage_count_max: i64 = NO_LIMIT,
        reject_behavior: int = REJECT_WHEN_ENABLED,
    ) -> None:
        self.spool = spool  # of the queue's VPN. None: the queue's messages are never written
        self.usage_bytes_max = usage_bytes_max
        self.message_bytes_max = message_bytes_max
        self.usage_count_max = usage_count_max
        self.low_priority_count_max: i64 = NO_LIMIT  # from this count on, messages of low priority are refused
        self.reject_behavior = reject_behavior
        self.ingress_enabled = True  # set by `set_ingress`
        self._ingress_of_move: bool | None = None
        self.ended = False  # the queue was deleted: its messages count for nothing any more
        self.usage_bytes: i64 = 0
        self.usage_count: i64 = 0
        self.accepted_bytes: i64 = 0
        self.accepted_count: i64 = 0
        self.refusals: dict[int, int] = {}  # reason -> messages refused to their publishers
        self.drops: dict[int, int] = {}  # reason -> messages dropped here without telling the publisher
        self.usage_threshold = Threshold(no_listener)
        self.low_priority_threshold = Threshold(no_listener)
        self.usage_exceeded = Exceedance(no_refusal_listener)
        self.low_priority_exceeded = Exceedance(no_refusal_listener)

    def set_ingress(self, *, enabled: bool) -> None:
        """Have the queue take messages or not, by its configuration; while it moves, that comes first."""
        of_move = self._ingress_of_move
        self.ingress_enabled = enabled if of_move is None else of_move

    def set_ingress_of_move(self, *, enabled: bool | None, configured: bool = True) -> None:
        """Have the queue take messages or not, whatever its configuration says; None: again as `configured`."""
        self._ingress_of_move = enabled
        self.set_ingress(enabled=configured)

    def usage_of(self, batch: MessageBatch) -> i64:
        """Return the usage of these messages in this queue."""
        return batch.usage_bytes(durable=self.spool is not None)

    def verdict(self, batch: MessageBatch) -> i64:
        """Return ADMITTED, or why not all of these messages may be taken."""
        spool = self.spool
        if spool is not None:
            verdict = spool.verdict_on_bytes(batch.usage_bytes(durable=True))
            if verdict != ADMITTED:
                return verdict
        verdict = self.verdict_of_moved(batch)
        return verdict if verdict != ADMITTED or spool is None else spool.verdict_on_count(batch.count)

    def verdict_of_moved(self, batch: MessageBatch) -> i64:
        """Return the verdict of the queue alone: messages that move between queues add nothing to the spool."""
        size = self.usage_of(batch)
        count = batch.count
        if self.usage_bytes + size > self.usage_bytes_max:
            return REFUSED_QUEUE_FULL
        if batch.payload_bytes > self.message_bytes_max and _largest(batch) > self.message_bytes_max:
            return REFUSED_MESSAGE_TOO_LARGE
        if not self.ingress_enabled:
            return REFUSED_SHUT_DOWN
        if self.usage_count + count > self.low_priority_count_max and has_low_priority(batch):
            return REFUSED_LOW_PRIORITY
        if self.usage_count + count > self.usage_count_max:
            return REFUSED_QUEUE_COUNT
        return ADMITTED

    def verdict_of_confirmed(self, batch: MessageBatch) -> i64:
        """Return the verdict on messages that another broker has confirmed: no limit refuses them that may pass."""
        if batch.payload_bytes > self.message_bytes_max and _largest(batch) > self.message_bytes_max:
            return REFUSED_MESSAGE_TOO_LARGE
        return ADMITTED if self.ingress_enabled else REFUSED_SHUT_DOWN

    def refuses_publisher(self, verdict: int) -> bool:
        """Return whether a verdict is reported to the publisher; else the message is only dropped here."""
        return refuses_publisher(verdict, self.reject_behavior)

    def limit(self, verdict: int) -> str:
        """Return the limit of the queue that a verdict refers to; empty where it refers to something else."""
        if verdict == REFUSED_QUEUE_FULL:
            return f"{self.usage_bytes_max} bytes"
        if verdict == REFUSED_MESSAGE_TOO_LARGE:
            return f"{self.message_bytes_max} bytes"
        return str(self.usage_count_max) if verdict == REFUSED_QUEUE_COUNT else ""

    def reserve(self, batch: MessageBatch) -> None:
        """Count a batch in, after every gate has admitted it."""
        size = self.usage_of(batch)
        self.accepted_bytes += size
        self.accepted_count += batch.count
        self.restore(batch.count, size)

    def restore(self, count: i64, size: i64) -> None:
        """Count in what a recovery found."""
        self.usage_bytes += size
        self.usage_count += count
        if self.usage_bytes >= self.usage_threshold.raise_at:
            self.usage_threshold.cross(self.usage_bytes)
        if self.usage_count >= self.low_priority_threshold.raise_at:
            self.low_priority_threshold.cross(self.usage_count)
        if self.spool is not None:
            self.spool.count_in(count, size)

    def release(self, count: i64, size: i64) -> None:
        """Count settled messages out."""
        self.usage_bytes -= size
        self.usage_count -= count
        assert self.usage_bytes >= 0, "more bytes released than reserved"
        assert self.usage_count >= 0, "more messages released than reserved"
        if self.usage_bytes < self.usage_threshold.clear_below:
            self.usage_threshold.cross(self.usage_bytes)
        if self.usage_count < self.low_priority_threshold.clear_below:
            self.low_priority_threshold.cross(self.usage_count)
        if self.spool is not None:
            self.spool.count_out(count, size)

    def overrun(self) -> None:
        """Note that messages which another broker has confirmed are taken beyond a limit."""
        if self.usage_bytes >= self.usage_bytes_max:
            self.usage_exceeded.refused(taken=self.accepted_bytes, limit=self.usage_bytes_max)

    def close(self) -> None:
        """Release all usage: the queue is deleted. Called before its actors stop."""
        self.ended = True
        self.ingress_enabled = False
        self.release(self.usage_count, self.usage_bytes)

    def refuse(self, verdict: int, count: i64, *, hears: bool) -> None:
        """Count messages that were refused; or dropped here, when their publisher is not told."""
        counts = self.refusals if hears else self.drops
        counts[verdict] = counts.get(verdict, 0) + count
        if verdict == REFUSED_QUEUE_FULL:
            self.usage_exceeded.refused(taken=self.accepted_bytes, limit=self.usage_bytes_max)
        elif verdict == REFUSED_LOW_PRIORITY:
            self.low_priority_exceeded.refused(taken=self.accepted_count, limit=self.low_priority_count_max)
        elif self.spool is not None:
            self.spool.refused(verdict)


def has_low_priority(batch: MessageBatch) -> bool:
    """Return whether a message of the batch was published with less than the default priority."""
    headers = batch.headers()
    if headers is None:
        return False
    return any(each is not None and each.priority < LOW_PRIORITY_BELOW for each in headers)


def _largest(batch: MessageBatch) -> int:
    return max([len(payload) for payload in batch.payloads()])
