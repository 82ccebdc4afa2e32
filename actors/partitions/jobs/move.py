"""Send picked messages to other queues, as moves, which remove them here, or as copies.

A move is a publication with settlements: the commit that writes it settles the messages here (storage.commit.planner).
The gate of the other queue is asked first, one batch at a time. A batch that is refused is halved, so that the messages
that have room are moved. Subclasses decide what becomes of a message that is not taken.
"""

from typing import Any, final

from sluicegate.actors.messages.data import Append, Confirmed, PublishFailed
from sluicegate.actors.partitions.jobs.job import JobContext
from sluicegate.actors.partitions.jobs.pick import Picked, PickJob, ranges_of
from sluicegate.messaging.message.batch import MessageBatch
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
    """A publication under way, and the messages here that it is made of."""

    def __init__(self, ranges: list[tuple[int, int]], count: int) -> None:
        self.ranges = ranges
        self.count = count


class MoveJob(PickJob):
    """Picks messages, and brings them elsewhere.

    With `takes_out` they have departed (messaging.partitions.rules.moves) before they are sent; else they are copied.
    What has departed for this job, and was neither sent nor turned down yet, is in `in_hand`.
    """

    def __init__(self, context: JobContext, ranges: list[tuple[int, int]], *, takes_out: bool) -> None:
        super().__init__(context, ranges)
        self._takes_out = takes_out
        self.in_hand = RangeSet()
        self.failure: Exception | None = None  # over which it was broken off
        self._sent: dict[int, _Sent] = {}
        self._next_token = 1

    # --- what derives from this says ---

    def target_for(self, sequence: int, headers: Headers | None) -> QueueTarget | None:
        """Return where a message goes; None after having seen to one that goes nowhere."""
        raise AssertionError("somebody moves to somewhere")

    def headers_for(self, sequence: int, headers: Headers | None, received_ms: int, wall_ms: int) -> Headers | None:
        """Return what a message carries there."""
        return headers

    def partition_for(self, target: QueueTarget, headers: Headers | None) -> int:
        """Return the number of its partition there when it has no key, or ANY_PARTITION."""
        return ANY_PARTITION

    def arrived(self, ranges: list[tuple[int, int]], count: int) -> None:
        """Messages are in the other queue, and no longer here if they were to be taken out."""

    def turned_down(self, ranges: list[tuple[int, int]], count: int, reason: str) -> None:
        """Messages were not taken by the other queue, for this reason: they are still on their way."""
        raise AssertionError("a refusal has consequences")

    def not_stored(self, ranges: list[tuple[int, int]], count: int, reason: str) -> None:
        """The other queue took messages, but the store did not, for this reason: they are still on their way."""
        self.turned_down(ranges, count, reason)

    def not_sent(self, ranges: list[tuple[int, int]]) -> None:
        """Messages are on their way still that were not sent: they were not found, or it was broken off."""
        for first, end in ranges:
            abort_move(self.context.ledger, first, end)

    def finished(self) -> None:
        """Every message has arrived or was turned down, or it was broken off."""

    # --- sending ---

    def complete(self) -> None:
        """Send what was picked."""
        picked, self.picked = self.picked, []
        wall_ms = self.context.clock.wall_ms()
        for each in picked:
            self._send(each, wall_ms)
        self._finish_if_done()

    def answered(self, message: Any) -> None:
        """Take a page, or what became of a publication."""
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
        """Send nothing more; of what is sent it is still to be heard what becomes of it."""
        self.failure = error
        self.picked = []
        self._finish_if_done()

    def reloaded(self) -> None:
        """Keep what is sent from consumers; of what has arrived, the store told the ledger. The rest waits for them."""
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
                continue  # the ledger was made anew meanwhile: it waits for a consumer again
            target = self.target_for(sequence, batch.headers_of(row))
            if target is None:
                self.in_hand.discard(sequence, sequence + 1)
            else:
                rows_by_target.setdefault(target, []).append(row)
        for target, rows in rows_by_target.items():
            changed = self._changed(picked, rows, wall_ms)
            self._offer(target, changed, [picked.first + row for row in rows])

    def _changed(self, picked: Picked, rows: list[int], wall_ms: int) -> MessageBatch:
        """Return a batch of these rows as they arrive elsewhere now."""
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
            qos=batch.qos,
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
            middle = batch.count // 2
            for start, stop in ((0, middle), (middle, batch.count)):
                self._offer(target, batch.select(list(range(start, stop))), sequences[start:stop])

    def _publish(self, target: QueueTarget, batch: MessageBatch, sequences: list[int]) -> None:
        if self.context.trace is not None and self._takes_out:
            self.context.trace.moved(batch, target.name, batch.received_ms)
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
