"""Send picked messages to other queues, as moves, which remove them here, or as copies.

A move is a publication with settlements: the commit that writes it settles the messages here (storage.commit.planner).
The gate of the other queue is asked first, one batch at a time. A batch that is refused is halved, so that the messages
that have room are moved. Subclasses decide what becomes of a refused message.
"""

from typing import Any, final

from sluicegate.actors.messages.data import Append, Confirmed, PublishFailed
from sluicegate.actors.partitions.jobs.job import JobContext
from sluicegate.actors.partitions.jobs.pick import Picked, PickJob, ranges_of
from sluicegate.messaging.message.batch import AT_LEAST_ONCE, MessageBatch
from sluicegate.messaging.message.headers import Headers
from sluicegate.messaging.message.keys import key_hash_in
from sluicegate.messaging.message.publication import Publication
from sluicegate.messaging.message.ranges import RangeSet
from sluicegate.messaging.message.refusals import ADMITTED, REFUSAL_COUNTERS
from sluicegate.messaging.partitions.rules.moves import abort_move, begin_move, commit_move
from sluicegate.messaging.routing.destinations import QueueTarget

ANY_PARTITION = -1


@final
class _Sent:
    """A publication in progress, and the messages here that it consists of."""

    def __init__(self, ranges: list[tuple[int, int]], count: int) -> None:
        self.ranges = ranges
        self.count = count


class MoveJob(PickJob):
    """Picks messages, and sends them to other queues.

    With `takes_out` they are taken out of delivery (messaging.partitions.rules.moves) before they are sent; else they
    are copied. `in_hand` has the messages taken out for this job that were neither sent nor refused yet.
    """

    def __init__(self, context: JobContext, ranges: list[tuple[int, int]], *, takes_out: bool) -> None:
        super().__init__(context, ranges)
        self._takes_out = takes_out
        self.in_hand = RangeSet()
        self.failure: Exception | None = None  # that ended it early
        self._sent: dict[int, _Sent] = {}
        self._next_token = 1

    # --- what derives from this says ---

    def target_for(self, sequence: int, headers: Headers | None) -> QueueTarget | None:
        """Return the target of a message; None, after handling it, if it has none."""
        raise AssertionError("MoveJob is abstract")

    def headers_for(self, sequence: int, headers: Headers | None, received_ms: int, wall_ms: int) -> Headers | None:
        """Return the message's headers in the target queue."""
        return headers

    def partition_for(self, target: QueueTarget, headers: Headers | None) -> int:
        """Return the number of the partition for a message without a key, or ANY_PARTITION."""
        return ANY_PARTITION

    def crosses(self, target: QueueTarget) -> bool:
        """Return whether the target is the queue of a link, through which a message goes to a queue elsewhere."""
        return False

    def destination_of(self, target: QueueTarget) -> str:
        """Return the name of the queue that messages go to, for traces."""
        return target.name

    def arrived(self, ranges: list[tuple[int, int]], count: int) -> None:
        """Handle messages that are in the other queue, and no longer here if they were taken out."""

    def turned_down(self, ranges: list[tuple[int, int]], count: int, reason: str) -> None:
        """Handle messages that the other queue refused, for this reason: they are still out of delivery."""
        raise AssertionError("MoveJob is abstract")

    def not_stored(self, ranges: list[tuple[int, int]], count: int, reason: str) -> None:
        """Handle messages that the other queue took, but the store refused: they are still out of delivery."""
        self.turned_down(ranges, count, reason)

    def not_sent(self, ranges: list[tuple[int, int]]) -> None:
        """Handle messages that were not sent and are still out of delivery: not found, or the job was ended early."""
        for first, end in ranges:
            abort_move(self.context.ledger, first, end)

    def finished(self) -> None:
        """Finish: every message has arrived or was refused, or the job was ended early."""

    # --- sending ---

    def complete(self) -> None:
        """Send the picked messages."""
        picked, self.picked = self.picked, []
        wall_ms = self.context.clock.wall_ms()
        for each in picked:
            self._send(each, wall_ms)
        self._finish_if_done()

    def answered(self, message: Any) -> None:
        """Handle a page, or the outcome of a publication."""
        if isinstance(message, Confirmed):
            sent = self._sent.pop(message.token)
            self._arrived(sent.ranges, sent.count)
        elif isinstance(message, PublishFailed):
            sent = self._sent.pop(message.token)
            self.not_stored(sent.ranges, sent.count, message.reason)
        else:
            super().answered(message)
            return
        self._finish_if_done()

    def failed(self, error: Exception) -> None:
        """Send nothing more; outcomes of what is sent are still awaited."""
        self.failure = error
        self.picked = []
        self._finish_if_done()

    def reloaded(self) -> None:
        """Withhold what is sent; the store told the ledger what has arrived. The rest is available to consumers."""
        self.in_hand = RangeSet()
        if self._takes_out:
            for sent in self._sent.values():
                for first, end in sent.ranges:
                    begin_move(self.context.ledger, first, end)

    def _send(self, picked: Picked, wall_ms: int) -> None:
        batch = picked.batch
        rows_by_target: dict[QueueTarget, list[int]] = {}
        for row in picked.rows:
            sequence = picked.first + row
            if self._takes_out and sequence not in self.in_hand:
                continue  # the ledger was reloaded meanwhile: the message is ready again
            target = self.target_for(sequence, batch.headers_of(row))
            if target is None:
                self.in_hand.discard(sequence, sequence + 1)
            else:
                rows_by_target.setdefault(target, []).append(row)
        for target, rows in rows_by_target.items():
            changed = self._changed(picked, rows, wall_ms, crosses=self.crosses(target))
            self._offer(target, changed, [picked.first + row for row in rows])

    def _changed(self, picked: Picked, rows: list[int], wall_ms: int, *, crosses: bool) -> MessageBatch:
        """Return a batch of these rows as they arrive in the other queue now."""
        batch = picked.batch
        payloads = batch.payloads()
        topics = batch.topics
        chosen = [payloads[row] for row in rows]
        headers = [
            self.headers_for(picked.first + row, batch.headers_of(row), batch.received_ms, wall_ms) for row in rows
        ]
        return MessageBatch(
            topic=batch.topic,
            topics=None if topics is None else [topics[row] for row in rows],
            payloads=chosen,
            headers=headers if any(each is not None for each in headers) else None,
            qos=max(batch.qos, AT_LEAST_ONCE) if crosses else batch.qos,  # a queue holds it: no link must lose it
            retain=False,
            publisher=batch.publisher,
            received_ms=wall_ms,
            payload_bytes=sum([len(payload) for payload in chosen]),
        )

    def _offer(self, target: QueueTarget, batch: MessageBatch, sequences: list[int]) -> None:
        gate = target.gate
        verdict = gate.verdict_of_moved(batch) if self._takes_out else gate.verdict(batch)
        if verdict == ADMITTED:
            self._publish(target, batch, sequences)
        elif batch.count == 1:
            gate.refuse(verdict, 1, hears=True)
            self.in_hand.discard(sequences[0], sequences[0] + 1)
            self.turned_down(ranges_of(sequences), 1, REFUSAL_COUNTERS[verdict])
        else:
            self._offer_halves(target, batch, sequences)

    def _offer_halves(self, target: QueueTarget, batch: MessageBatch, sequences: list[int]) -> None:
        middle = batch.count // 2
        for start, stop in ((0, middle), (middle, batch.count)):
            self._offer(target, batch.select(list(range(start, stop))), sequences[start:stop])

    def _publish(self, target: QueueTarget, batch: MessageBatch, sequences: list[int]) -> None:
        if self.context.trace is not None and self._takes_out:
            self.context.trace.moved(batch, self.destination_of(target), batch.received_ms)
        rows_by_partition: dict[int, list[int]] = {}
        for row in range(batch.count):
            rows_by_partition.setdefault(self._partition_of(target, batch, row), []).append(row)
        ranges = ranges_of(sequences)
        target.gate.reserve(batch)
        for first, end in ranges:
            self.in_hand.discard(first, end)
        publication: Publication | None = None
        if target.durable:
            token = self._next_token
            self._next_token += 1
            self._sent[token] = _Sent(ranges, batch.count)
            publication = Publication(batch, publisher=self, token=token, partitions_count=len(rows_by_partition))
            if self._takes_out:
                publication.settlements = [(self.context.partition_id, first, end) for first, end in ranges]
                publication.only_moves = True
        for number, rows in rows_by_partition.items():
            whole = len(rows) == batch.count
            append = Append(batch if whole else batch.select(rows), publication, None if whole else rows)
            target.partitions[number].address.post(append)
        if publication is None:
            self._arrived(ranges, batch.count)

    def _partition_of(self, target: QueueTarget, batch: MessageBatch, row: int) -> int:
        if len(target.partitions) == 1:
            return 0
        hashed = key_hash_in(target.key_source, batch, row)
        if hashed >= 0:
            return target.partition_of(hashed)
        number = self.partition_for(target, batch.headers_of(row))
        return number if number != ANY_PARTITION else target.partition_of(self.context.rng.getrandbits(16))

    def _arrived(self, ranges: list[tuple[int, int]], count: int) -> None:
        if self._takes_out:
            for first, end in ranges:
                commit_move(self.context.ledger, first, end)
        self.arrived(ranges, count)

    def _finish_if_done(self) -> None:
        if not self._sent:
            self.over()
            in_hand, self.in_hand = self.in_hand.ranges(), RangeSet()
            self.not_sent(in_hand)
            self.finished()
