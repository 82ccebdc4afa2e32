"""Delete, move, copy or re-drive messages of a partition that an operator selected."""

from typing import Final

from sluicegate.actors.messages.operations import COPY, DELETE, REDRIVE, MessagesTaken, QueueGone, TakeMessages
from sluicegate.actors.partitions.jobs.job import JobContext
from sluicegate.actors.partitions.jobs.move import MoveJob
from sluicegate.actors.partitions.jobs.pick import ranges_of
from sluicegate.actors.runtime.asks import LoopFuture
from sluicegate.messaging.message.batch import MessageBatch
from sluicegate.messaging.message.dead_lettering import restored
from sluicegate.messaging.message.headers import Headers
from sluicegate.messaging.message.outcomes import DISCARD_DELETED
from sluicegate.messaging.message.refusals import ADMITTED, REFUSAL_COUNTERS
from sluicegate.messaging.network.choices import to_queue
from sluicegate.messaging.partitions.rules.moves import abort_move, begin_move
from sluicegate.messaging.routing.destinations import QueueTarget
from sluicegate.messaging.routing.queue_ways import QueueWay

EXAMINED_MAX: Final = 5000  # messages of one request: a few milliseconds in which the node does nothing else

KEPT_IN_FLIGHT: Final = "in_flight"  # a consumer holds it, or it is moving already
KEPT_NOT_DEAD: Final = "not_dead"  # it names no queue to return to
KEPT_NO_QUEUE: Final = "queue_not_found"  # the queue does not exist any more, or is not durable
KEPT_FOR_NOW: Final = "queue_not_reached"  # it is not known now where the queue is, or it gets another home
KEPT_SAME_QUEUE: Final = "already_there"


class OperatorAction(MoveJob):
    """Carries out one TakeMessages."""

    def __init__(self, context: JobContext, order: TakeMessages) -> None:
        sequences = order.sequences
        ranges = [(order.first, order.end)] if sequences is None else ranges_of(sequences)
        super().__init__(context, ranges, takes_out=order.action != COPY)
        self.answer: LoopFuture[MessagesTaken] = LoopFuture()
        self._order = order
        self._taken = MessagesTaken()
        self._chosen_count = 0
        self._examined_count = 0
        self._seen: set[int] = set()  # of the requested sequences
        self._ways: dict[str, QueueWay] = {}  # as they are now; asked again when messages are sent
        self._links: set[QueueTarget] = set()  # the link queues among them

    def is_full(self) -> bool:
        """Return whether enough messages are selected, or examined."""
        return self._chosen_count >= self._order.limit or self._examined_count >= EXAMINED_MAX

    def wants(self, sequence: int, batch: MessageBatch, row: int) -> bool:
        """Select a message that matches and is available; one that is to leave is taken out of delivery at once."""
        order = self._order
        self._examined_count += 1
        if order.sequences is not None:
            self._seen.add(sequence)
        if not order.message_filter.matches(batch, row):
            return False
        if order.action != DELETE:
            reason = self._hindrance(batch, row)
            if reason:
                self._keep(reason, 1)
                return False
        ledger = self.context.ledger
        if order.action == DELETE:
            free = bool(ledger.available_within(sequence, sequence + 1))
        else:
            free = order.action == COPY or bool(begin_move(ledger, sequence, sequence + 1))
        if not free:
            self._keep(KEPT_IN_FLIGHT, 1)
            return False
        if order.action not in (DELETE, COPY):
            self.in_hand.add(sequence, sequence + 1)
        self._chosen_count += 1
        return True

    def complete(self) -> None:
        """Delete the picked messages, or send them."""
        if self._order.action == DELETE:
            for each in self.picked:
                for first, end in ranges_of([each.first + row for row in each.rows]):
                    self._taken.done_count += self.context.ledger.give_up(first, end, DISCARD_DELETED)
            self.picked = []
        self._ways = {}  # pages may have been read meanwhile
        super().complete()

    def target_for(self, sequence: int, headers: Headers | None) -> QueueTarget | None:
        """Return the target of a message, or the link queue to its broker."""
        way = self._way(self._destination(headers))
        if way.target is None:
            self._keep(_without(way), 1)
            if self._order.action != COPY:
                abort_move(self.context.ledger, sequence, sequence + 1)
        elif way.home is not None:
            self._links.add(way.target)
        return way.target

    def crosses(self, target: QueueTarget) -> bool:
        """Return whether messages for this target are for a queue at another broker."""
        return target in self._links

    def headers_for(self, sequence: int, headers: Headers | None, received_ms: int, wall_ms: int) -> Headers | None:
        """Return the message as published when it is re-driven, else as it is; with the queue, if that is elsewhere."""
        name = self._destination(headers)
        is_restored = self._order.action == REDRIVE
        if is_restored and headers is not None:
            headers = restored(headers, received_ms=received_ms, wall_ms=wall_ms)
        if self._way(name).home is None:
            return headers
        return to_queue(headers, name, wall_ms, restarts=is_restored)

    def arrived(self, ranges: list[tuple[int, int]], count: int) -> None:
        """Count what is done."""
        self._taken.done_count += count

    def turned_down(self, ranges: list[tuple[int, int]], count: int, reason: str) -> None:
        """Keep messages that the other queue refused."""
        self._keep(reason, count)
        if self._order.action != COPY:
            for first, end in ranges:
                abort_move(self.context.ledger, first, end)

    def finished(self) -> None:
        """Answer with what was done, or that the job was ended early."""
        if self.failure is not None:
            self.answer.set_exception((type(self.failure), self.failure, self.failure.__traceback__))
            return
        self._taken.next_sequence = self.next_sequence
        sequences = self._order.sequences
        if sequences is not None:
            self._taken.not_found = [each for each in sequences if each not in self._seen]
        if self._order.action == DELETE:  # moved messages are in the store by now
            self.context.requests.when_stored(self._taken).pass_on(self.answer)
        else:
            self.answer.set(self._taken)

    def abandon(self) -> None:
        """Answer that the queue is deleted, and with it what was not done."""
        super().abandon()
        gone = QueueGone(f"the queue {self.context.queue_name!r} was deleted meanwhile")
        self.answer.set_exception((QueueGone, gone, None))

    def _destination(self, headers: Headers | None) -> str:
        """Return the name of the queue that a message goes to; empty: it names none."""
        if self._order.to or self._order.action != REDRIVE:
            return self._order.to
        return "" if headers is None or headers.dead is None else headers.dead.queue

    def _way(self, name: str) -> QueueWay:
        way = self._ways.get(name)
        if way is None:
            way = self._ways[name] = self.context.ways.to(name)
        return way

    def _hindrance(self, batch: MessageBatch, row: int) -> str:
        """Return why a message cannot be sent, or an empty text."""
        name = self._destination(batch.headers_of(row))
        if not name:
            return KEPT_NOT_DEAD
        if name == self.context.queue_name:
            return KEPT_SAME_QUEUE
        way = self._way(name)
        if way.target is None:
            return _without(way)
        verdict = ADMITTED if way.home is None else way.refusal(batch.select([row]))
        return "" if verdict == ADMITTED else REFUSAL_COUNTERS[verdict]

    def _keep(self, reason: str, count: int) -> None:
        self._taken.skipped[reason] = self._taken.skipped.get(reason, 0) + count


def _without(way: QueueWay) -> str:
    """Return why messages without a way stay."""
    return KEPT_FOR_NOW if way.waits else KEPT_NO_QUEUE
