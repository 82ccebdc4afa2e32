"""Move dead messages of a partition to the dead message queue, or drop them where that is impossible.

The ledger decides which messages are dead. messaging.message.dead_lettering changes their headers, and
messaging.routing.queue_ways knows where the dead message queue is: here, or at another broker, to which they go through
the link queue.
"""

from typing import Any, Final

from sluicegate.actors.partitions.jobs.job import AGAIN_MS_MIN, JobContext, PartitionJob
from sluicegate.actors.partitions.jobs.move import MoveJob
from sluicegate.actors.partitions.jobs.pick import ranges_of
from sluicegate.messaging.message.batch import MessageBatch
from sluicegate.messaging.message.dead_lettering import is_eligible, was_dead_in, with_death
from sluicegate.messaging.message.headers import DeadLetter, Headers
from sluicegate.messaging.message.outcomes import DISCARD_EXPIRED, DISCARD_REJECTED
from sluicegate.messaging.message.refusals import ADMITTED, REFUSAL_COUNTERS, REFUSAL_TEXTS
from sluicegate.messaging.network.choices import to_queue
from sluicegate.messaging.observability.events import VPN_DEAD_MSG_LOST
from sluicegate.messaging.partitions.rules.moves import drop_moving
from sluicegate.messaging.partitions.state.effects import DeadRange
from sluicegate.messaging.routing.destinations import QueueTarget
from sluicegate.messaging.routing.queue_ways import QueueWay

IN_PROGRESS_MAX: Final = 4000  # messages of a partition that are being moved; the rest waits as ranges
RETRY_MS: Final = 1000  # between two attempts with a store that fails
REFUSAL_REPORT_MS: Final = 60_000  # at most one event about refused dead messages of a partition in this time
FIRST_PARTITION: Final = 0  # of a partitioned dead message queue: for messages without key


def dead_letter(context: JobContext) -> None:
    """Start moves for the ledger's dead messages, as many as may be in progress."""
    if context.awaits_way:
        return
    effects, name = context.ledger.effects, context.ledger.rules.dead_msg_queue
    way = context.ways.to(name)
    if way.waits:
        context.stuck.held_up([(dead.first, dead.end) for dead in effects.dead], way.waits)
        AwaitedWay(context)
        return
    if way.target is None:
        _report_loss(context)
        for dead in effects.dead:
            drop_moving(context.ledger, dead.first, dead.end, dead.reason, by_refusal=False)
            context.stuck.over(dead.first, dead.end)
        effects.dead = []
        return
    context.loss_reported = False
    waiting, effects.dead = effects.dead, []
    for dead in waiting:
        count = min(dead.end - dead.first, IN_PROGRESS_MAX - context.dead_lettering_count)
        if count > 0:
            context.dead_lettering_count += count
            part = DeadRange(dead.first, dead.first + count, dead.reason, dead.client, dead.cause)
            DeadLetterMove(context, part, name).begin()
            dead.first += count
        if dead.first < dead.end:
            effects.dead.append(dead)


def _report_loss(context: JobContext) -> None:
    """Emit an event for the first dead message that is lost for want of a durable dead message queue."""
    if context.loss_reported or not context.ledger.effects.dead:
        return
    context.loss_reported = True
    dead_msg_queue, reason = context.ledger.rules.dead_msg_queue, context.ledger.effects.dead[0].reason
    text = f"its dead message queue {dead_msg_queue} does not exist, or is temporary"
    where = f"Queue {context.queue_name}, partition {context.number}"
    context.events.emit(VPN_DEAD_MSG_LOST, f"{where}: dead messages are deleted ({reason}): {text}")


def _report_refusal(context: JobContext, dead_msg_queue: str, reason: str, refusal: str) -> None:
    """Emit an event for dead messages that their queue refuses: once until it takes some, and not each minute anew."""
    now_ms = context.clock.now_ms()
    is_recent = context.refusal_reported_ms > 0 and now_ms - context.refusal_reported_ms < REFUSAL_REPORT_MS
    if context.refusal_reported or is_recent:
        return
    context.refusal_reported = True
    context.refusal_reported_ms = max(now_ms, 1)
    text = REFUSAL_TEXTS[REFUSAL_COUNTERS.index(refusal)]
    where = f"Queue {context.queue_name}, partition {context.number}"
    context.events.emit(
        VPN_DEAD_MSG_LOST,
        f"{where}: dead messages are deleted ({reason}): its dead message queue {dead_msg_queue} refuses them: {text}",
    )


class DeadLetterMove(MoveJob):
    """Moves messages with the same cause of death. They are out of delivery when it begins."""

    def __init__(self, context: JobContext, dead: DeadRange, dead_msg_queue: str) -> None:
        super().__init__(context, [(dead.first, dead.end)], takes_out=True)
        self._dead = dead
        self._name = dead_msg_queue
        self._way = QueueWay(None)
        self.in_hand.add(dead.first, dead.end)
        self._last: Headers | None = None  # rows of one publish often share headers: they share the new ones as well
        self._last_count = -1
        self._renewed: Headers | None = None

    def wants(self, sequence: int, batch: MessageBatch, row: int) -> bool:
        """Pick every message."""
        return True

    def complete(self) -> None:
        """Send the picked messages where the dead message queue is by now: pages may have been read meanwhile."""
        self._way = self.context.ways.to(self._name)
        if self._way.target is None:
            picked, self.picked = self.picked, []
            for each in picked:
                self._put_back([each.first + row for row in each.rows if each.first + row in self.in_hand])
        super().complete()

    def _put_back(self, sequences: list[int]) -> None:
        """Have the partition dead-letter messages again, at the end of this turn."""
        dead = self._dead
        for first, end in ranges_of(sequences):
            self.in_hand.discard(first, end)
            self.context.ledger.effects.dead.append(DeadRange(first, end, dead.reason, dead.client, dead.cause))

    def crosses(self, target: QueueTarget) -> bool:
        """Return whether the dead message queue is at another broker."""
        return self._way.home is not None

    def target_for(self, sequence: int, headers: Headers | None) -> QueueTarget | None:
        """Return the dead message queue or the link queue, unless the message must not go there."""
        eligible = is_eligible(headers, respects_flag=self.context.ledger.rules.respects_eligibility)
        if eligible and not was_dead_in(None if headers is None else headers.dead, self._name):
            return self._way.target
        drop_moving(self.context.ledger, sequence, sequence + 1, self._dead.reason, by_refusal=False)
        self.context.stuck.over(sequence, sequence + 1)
        return None

    def headers_for(self, sequence: int, headers: Headers | None, received_ms: int, wall_ms: int) -> Headers:
        """Add the death to the message's headers."""
        reason = self._dead.reason
        count = self.context.ledger.failures.get(sequence, 0) + (1 if reason == DISCARD_REJECTED else 0)
        if self._renewed is not None and headers is self._last and count == self._last_count:
            return self._renewed
        death = DeadLetter(
            reason=reason,
            queue=self.context.queue_name,
            partition=self.context.number,
            delivery_count=count if reason == DISCARD_EXPIRED else max(count, 1),
            died_ms=wall_ms,
            client=self._dead.client,
            cause=self._dead.cause,
            was_eligible=headers is not None and headers.dmq_eligible,
            via=(),
        )
        self._last = headers
        self._last_count = count
        self._renewed = with_death(headers, death, received_ms=received_ms)
        if self._way.home is not None:
            self._renewed = to_queue(self._renewed, self._name, wall_ms, restarts=True)
        return self._renewed

    def destination_of(self, target: QueueTarget) -> str:
        """Return the name of the dead message queue."""
        return self._name

    def partition_for(self, target: QueueTarget, headers: Headers | None) -> int:
        """Return one partition for all messages without key, so that they keep their order."""
        return FIRST_PARTITION

    def _offer(self, target: QueueTarget, batch: MessageBatch, sequences: list[int]) -> None:
        if self._way.home is None:
            super()._offer(target, batch, sequences)
            return
        verdict, verdict_of_link = self._way.refusal(batch), target.gate.verdict_of_moved(batch)
        if verdict == ADMITTED and verdict_of_link == ADMITTED:
            self._publish(target, batch, sequences)
        elif batch.count > 1 and (verdict != ADMITTED or target.gate.usage_count == 0):
            self._offer_halves(target, batch, sequences)
        else:
            ranges = ranges_of(sequences)
            for first, end in ranges:
                self.in_hand.discard(first, end)
            if verdict != ADMITTED:
                self.turned_down(ranges, batch.count, REFUSAL_COUNTERS[verdict])
            else:  # what the link queue has now leaves it
                self._wait(ranges, f"queue {target.name} has no room: {REFUSAL_TEXTS[verdict_of_link]}")

    def _wait(self, ranges: list[tuple[int, int]], reason: str) -> None:
        self.context.stuck.held_up(ranges, reason)
        DeadLetterRetry(self.context, self._dead, ranges, RETRY_MS)

    def arrived(self, ranges: list[tuple[int, int]], count: int) -> None:
        """Count what the dead message queue has taken."""
        self.context.refusal_reported = False
        self.context.ledger.effects.dead_lettered(self._dead.reason, count)
        self._is_over(ranges)

    def turned_down(self, ranges: list[tuple[int, int]], count: int, reason: str) -> None:
        """Drop what the dead message queue refused."""
        _report_refusal(self.context, self._name, self._dead.reason, reason)
        for first, end in ranges:
            drop_moving(self.context.ledger, first, end, self._dead.reason, by_refusal=True)
        self._is_over(ranges)

    def not_stored(self, ranges: list[tuple[int, int]], count: int, reason: str) -> None:
        """Try again later: the store still has the messages here."""
        self.context.stuck.not_stored(ranges, reason)
        DeadLetterRetry(self.context, self._dead, ranges, RETRY_MS)

    def log_failure(self, error: Exception) -> None:
        """Do nothing: `stuck` knows what was logged about these messages before."""

    def not_sent(self, ranges: list[tuple[int, int]]) -> None:
        """Return unreadable messages to the queue: a delivery will find and count the damage. Retry the rest.

        After a fault two halves are retried separately, so that one message does not stop others for good.
        """
        if self.failure is None:
            self._is_over(ranges)
            super().not_sent(ranges)
        elif ranges:
            again_ms = self.context.stuck.failed(ranges, self.failure)
            parts = halves(ranges)
            for part in parts:
                DeadLetterRetry(self.context, self._dead, part, again_ms if len(parts) == 1 else AGAIN_MS_MIN)

    def finished(self) -> None:
        """Let further messages be dead-lettered."""
        self.context.dead_lettering_count -= self._dead.end - self._dead.first

    def _is_over(self, ranges: list[tuple[int, int]]) -> None:
        for first, end in ranges:
            self.context.stuck.over(first, end)


def halves(ranges: list[tuple[int, int]]) -> list[list[tuple[int, int]]]:
    """Return half-open ranges in two parts with about as many messages each; one message is one part."""
    left_count = sum([end - first for first, end in ranges]) // 2
    if left_count == 0:
        return [ranges]
    lower: list[tuple[int, int]] = []
    upper: list[tuple[int, int]] = []
    for first, end in ranges:
        middle = min(end, first + left_count)
        left_count -= middle - first
        if first < middle:
            lower.append((first, middle))
        if middle < end:
            upper.append((middle, end))
    return [lower, upper]


class DeadLetterRetry(PartitionJob):
    """Dead messages whose move failed. They are dead-lettered again, some time later."""

    def __init__(self, context: JobContext, dead: DeadRange, ranges: list[tuple[int, int]], again_ms: int) -> None:
        super().__init__(context)
        self._dead = dead
        self._ranges = ranges
        self._count = sum([end - first for first, end in ranges])
        context.dead_lettering_count += self._count  # so many fewer are tried until then
        context.runtime.after(again_ms, self._remind)

    def answered(self, message: Any) -> None:
        """Have the partition dead-letter them at the end of this turn."""
        self.over()
        self.context.dead_lettering_count -= self._count
        dead = self._dead
        for first, end in self._ranges:  # not merged with neighbours: they may be retried separately
            self.context.ledger.effects.dead.append(DeadRange(first, end, dead.reason, dead.client, dead.cause))

    def reloaded(self) -> None:
        """End: in the new ledger they are ready for consumers."""
        self._ranges = []

    def _remind(self) -> None:
        if id(self) in self.context.jobs:  # else its queue is deleted
            self.post(self)


class AwaitedWay(PartitionJob):
    """Dead messages that wait until it is known where their queue is. The partition looks again, some time later."""

    def __init__(self, context: JobContext) -> None:
        super().__init__(context)
        context.awaits_way = True
        context.runtime.after(RETRY_MS, self._remind)

    def answered(self, message: Any) -> None:
        """Have the partition look again at the end of this turn."""
        self.over()
        self.context.awaits_way = False

    def _remind(self) -> None:
        if id(self) in self.context.jobs:  # else its queue is deleted
            self.post(self)
