"""Hand messages of a queue over to its new home: into the link queue to that broker, oldest first, for the queue alone.

The order of the partition stays: a message that cannot go holds up those behind it. Which are at the new home the link
knows; here they are settled by the commit that puts them into the link queue.
"""

from typing import Final, final

from sluicegate.actors.messages.operations import HandedOver, HandOver, QueueGone
from sluicegate.actors.partitions.jobs.job import JobContext
from sluicegate.actors.partitions.jobs.move import MoveJob
from sluicegate.actors.runtime.asks import LoopFuture
from sluicegate.messaging.message.batch import MessageBatch
from sluicegate.messaging.message.headers import Headers
from sluicegate.messaging.message.refusals import ADMITTED, REFUSAL_COUNTERS
from sluicegate.messaging.network.choices import for_queue, targets_value
from sluicegate.messaging.partitions.rules.moves import abort_move, begin_move
from sluicegate.messaging.routing.destinations import QueueTarget

BATCH_BYTES: Final = 4 * 1024 * 1024  # of one job; a larger message goes alone
_PLAIN: Final = Headers()


@final
class HandOverJob(MoveJob):
    """Carries out one HandOver."""

    def __init__(self, context: JobContext, order: HandOver) -> None:
        ledger = context.ledger
        super().__init__(context, [(ledger.floor, ledger.next_sequence)], takes_out=True)
        self.answer: LoopFuture[HandedOver] = LoopFuture()
        self._order = order
        self._never_delivered = targets_value(for_queue(order.queue))
        self._failed_counts: dict[int, int] = {}  # by sequence, of picked messages that may have been delivered
        self._done = HandedOver()
        self._picked_count = 0
        self._picked_bytes = 0
        self._is_held_up = False

    def is_full(self) -> bool:
        """Return whether enough messages are picked, or one cannot go."""
        return self._is_held_up or self._picked_count >= self._order.limit or self._picked_bytes >= BATCH_BYTES

    def wants(self, sequence: int, batch: MessageBatch, row: int) -> bool:
        """Take a message out of delivery; one that a transaction holds, or that is moving already, holds up the job."""
        if not begin_move(self.context.ledger, sequence, sequence + 1):
            self._hold_up("in_flight")
            return False
        ledger = self.context.ledger
        if batch.possible_duplicate or ledger.was_delivered(sequence):
            self._failed_counts[sequence] = ledger.failures.get(sequence, 0)
        self.in_hand.add(sequence, sequence + 1)
        self._picked_count += 1
        self._picked_bytes += int(batch.payload_bytes) // batch.count
        return True

    def target_for(self, sequence: int, headers: Headers | None) -> QueueTarget | None:
        """Return the link queue."""
        return self._order.target

    def headers_for(self, sequence: int, headers: Headers | None, received_ms: int, wall_ms: int) -> Headers | None:
        """Return the message's headers, with the queue that it is for, and how often it was delivered."""
        changed = (_PLAIN if headers is None else headers).copy()
        changed.link_targets = self._never_delivered
        if sequence in self._failed_counts:
            changed.link_targets = targets_value(for_queue(self._order.queue, self._failed_counts[sequence]))
        return changed

    def crosses(self, target: QueueTarget) -> bool:
        """Return that it is the link queue."""
        return True

    def _offer(self, target: QueueTarget, batch: MessageBatch, sequences: list[int]) -> None:
        verdict = target.gate.verdict_of_moved(batch)
        if verdict != ADMITTED:
            self._hold_up(REFUSAL_COUNTERS[verdict])
        if not self._is_refused:
            self._publish(target, batch, sequences)

    @property
    def _is_refused(self) -> bool:
        return self._done.held_up_by not in ("", "in_flight")

    def _hold_up(self, reason: str) -> None:
        self._is_held_up = True
        self._done.held_up_by = reason

    def arrived(self, ranges: list[tuple[int, int]], count: int) -> None:
        """Count what the link has now."""
        self._done.count += count

    def turned_down(self, ranges: list[tuple[int, int]], count: int, reason: str) -> None:
        """Keep messages that the store refused."""
        self._hold_up(reason)
        for first, end in ranges:
            abort_move(self.context.ledger, first, end)

    def finished(self) -> None:
        """Answer with what was done, or that the job was ended early."""
        if self.failure is not None:
            self.answer.set_exception((type(self.failure), self.failure, self.failure.__traceback__))
        else:
            self.answer.set(self._done)

    def abandon(self) -> None:
        """Answer that the queue is gone, and with it what was not done."""
        super().abandon()
        gone = QueueGone(f"the queue {self.context.queue_name!r} was deleted meanwhile")
        self.answer.set_exception((QueueGone, gone, None))


def begin_hand_over(context: JobContext, order: HandOver) -> LoopFuture[HandedOver]:
    """Begin to carry out one request; return its answer, which is there later."""
    job = HandOverJob(context, order)
    job.begin()
    return job.answer
