"""The way out of a link queue: its messages go to the neighbor while there is a connection, and are settled when the
neighbor has stored them.

It is a consumer of the queue like others, with a window. What was on its way when a connection broke returns to the
queue, and goes out again in order; the neighbor knows by the sequences what it has.
"""

import logging
from typing import Any, Final, final

from sluicegate.actors.messages.data import Deliveries, Settle
from sluicegate.actors.messages.directory import LocalQueue
from sluicegate.actors.messages.partitions import DescribePartition, PartitionOverview
from sluicegate.actors.messages.queues import BindFlow, FlowGone, UnbindFlow
from sluicegate.actors.network.link_batches import link_body, piece_end
from sluicegate.actors.partitions.triggers import wake_waiters
from sluicegate.actors.runtime.asks import LoopFuture
from sluicegate.actors.runtime.runtime import ActorCell
from sluicegate.messaging.message.address import Address
from sluicegate.messaging.message.batch import MessageBatch
from sluicegate.messaging.message.outcomes import ACCEPTED, REJECTED
from sluicegate.messaging.message.ranges import RangeSet
from sluicegate.messaging.network.sequences import Lineages
from sluicegate.messaging.partitions.state.effects import Delivery
from sluicegate.messaging.queues.credit import CreditWindow
from sluicegate.protocols.flow.codec.frames.link import LinkStore
from sluicegate.protocols.flow.links import LinkWire

log = logging.getLogger("sluicegate.network")

PROTOCOL: Final = "link"
WINDOW: Final = 32_768  # messages on their way
WINDOW_BEFORE: Final = 4_096  # the same to a neighbor of an earlier release
WINDOW_BYTES: Final = 16 * 1024 * 1024  # of them; a larger message goes alone
FRAME_HEAD_BYTES: Final = 4_096  # room for everything in a frame beside the messages and the names of groups
FLOOR_EVERY: Final = 512  # messages settled until the floor is looked up again
BIND_AGAIN_MS: Final = 1_000
ANSWER_MS_MAX: Final = 10  # on average: for a neighbor that takes longer no commit is put off


@final
class AnswerTime:
    """How long the neighbor takes to answer, by one message at a time, and so how long a commit may wait for it.

    A message that is settled before the commit is never written here, and the neighbor makes a commit of its own before
    it answers. A neighbor that takes longer, as over a long distance, would only delay confirmations.
    """

    def __init__(self) -> None:
        self.patience_ms = 0  # of the store of this broker; 0: the usual one
        self._average_ms = 0.0
        self._sequence = 0  # of the message whose answer is awaited; 0: of none
        self._sent_ms = 0

    def sent(self, end: int, now_ms: int) -> None:
        """Note that messages up to the sequence before `end` are sent."""
        if self._sequence == 0:
            self._sequence = end - 1
            self._sent_ms = now_ms

    def answered(self, first: int, end: int, now_ms: int) -> bool:
        """Note an answer; return whether `patience_ms` was reckoned anew."""
        if not first <= self._sequence < end:
            return False
        self._sequence = 0
        self._average_ms += (now_ms - self._sent_ms - self._average_ms) / 4
        self.patience_ms = 2 * int(self._average_ms + 1) if self._average_ms <= ANSWER_MS_MAX else 0
        return True

    def forget(self) -> None:
        """The connection is gone: no answer comes."""
        self._sequence = 0


@final
class LinkQueueSender:
    """Sends what is in a link queue. One for each link and message VPN; it outlives connections."""

    def __init__(self, cell: ActorCell, neighbor: str, queue: LocalQueue, lineages: Lineages) -> None:
        self.queue: Final = queue
        self.sent_count = 0  # messages, those that were sent again included
        self.stored_count = 0  # that the neighbor has answered
        self.too_large_count = 0  # that no frame of the neighbor takes
        self.flow_id = 0  # of the present connection; 0: not bound
        self._client: Final = f"#link/{neighbor}"
        self._cell = cell
        self._lineages = lineages
        self._wire: LinkWire | None = None
        self._link_flow_id = 0
        self._frame_bytes_max = 0
        self._window_max = WINDOW_BEFORE
        self._window: CreditWindow[Address] = CreditWindow(0)
        self._answers: Final = AnswerTime()
        self._partition: Address | None = None
        self._epoch = 0
        self._sizes: dict[int, tuple[int, int]] = {}  # first sequence of what is on its way -> its end, and its bytes
        self._unanswered = RangeSet()
        self._bytes = 0
        self._floor = 0
        self._sent_end = 0  # up to here something was sent, on any connection
        self._settled_count = 0  # since the floor was looked up

    @property
    def window(self) -> int:
        """The number of messages that may be on their way."""
        return self._window.limit

    @property
    def unanswered_count(self) -> int:
        """The number of messages on their way."""
        return self._unanswered.total

    # --- the connection ---

    def connected(self, wire: LinkWire, link_flow_id: int, frame_bytes_max: int, *, is_wide: bool) -> None:
        """Begin to send. `is_wide`: the neighbor takes `WINDOW` messages without an answer."""
        self._wire = wire
        self._link_flow_id = link_flow_id
        self._frame_bytes_max = frame_bytes_max
        self._window_max = WINDOW if is_wide else WINDOW_BEFORE
        self._look_up_floor()
        self._bind()

    def disconnected(self) -> None:
        """Stop sending: what is on its way returns to the queue."""
        self._wire = None
        if self.flow_id:
            self.queue.cell.inbox.post(UnbindFlow(self.flow_id, count_as_failed=False))
            self._unbound()

    def _unbound(self) -> None:
        self.flow_id = 0
        self._answers.forget()
        self._window.close()
        self._sizes = {}
        self._unanswered = RangeSet()
        self._bytes = 0

    def _bind(self) -> None:
        wire = self._wire
        if wire is None or self.flow_id:
            return
        flow_id = self.flow_id = self._cell.runtime.next_urn()
        window = self._window = CreditWindow(self._window_max)
        window.settles_in_ms = self._answers.patience_ms

        def bound(answer: LoopFuture[Any]) -> None:
            if answer.error() is not None and self.flow_id == flow_id:
                log.error("link queue %s: %s", self.queue.name, answer.error())
                self._unbound()
                self._cell.after(BIND_AGAIN_MS, self._bind)

        request = BindFlow(flow_id, self._client, "", self._cell.inbox, window, PROTOCOL)
        self.queue.cell.ask(request).then(bound)

    def gone(self, message: FlowGone) -> None:
        """The queue has ended the flow: its actor failed, or it was deleted."""
        if message.flow_id == self.flow_id:
            self._unbound()
            self._cell.after(BIND_AGAIN_MS, self._bind)

    def _look_up_floor(self) -> None:
        """Ask for the sequence below which everything is settled for good."""
        self._settled_count = 0
        partitions = [each for each in self.queue.cell.children or () if each.kind == "partition"]
        if not partitions:
            return

        def told(answer: LoopFuture[PartitionOverview]) -> None:
            if answer.error() is None:
                self._floor = max(self._floor, answer.get().first_unsettled - 1)

        partitions[0].ask(DescribePartition()).then(told)

    # --- out ---

    def deliver(self, message: Deliveries) -> None:
        """Send messages of the queue."""
        wire = self._wire
        if wire is None or message.flow.flow_id != self.flow_id:
            return  # the flow has ended: they are in the queue
        self._partition = message.partition
        for delivery in message.deliveries:
            self._epoch = delivery.epoch
            self._send(wire, delivery)
        if self._bytes >= WINDOW_BYTES:
            self._window.is_shut = True

    def _send(self, wire: LinkWire, delivery: Delivery) -> None:
        batch, first = delivery.batch, delivery.first_sequence
        start, stop = delivery.start_row, delivery.stop_row
        count = stop - start
        again = self._unanswered.count_within(first, first + count)
        if again:  # the partition was loaded again: it does not know that we have them
            self._window.give(again)
        self._unanswered.add(first, first + count)
        is_repeated = delivery.redelivered or first < self._sent_end
        self._sent_end = max(self._sent_end, first + count)
        while start < stop:
            piece = stop
            end_of_lineage = self._lineages.end_of(first)
            if end_of_lineage:
                piece = min(piece, start + end_of_lineage - first)
            piece = piece_end(batch, start, piece)
            whole = start == 0 and piece == batch.count
            self._write(wire, batch if whole else batch.select(list(range(start, piece))), first, is_repeated)
            first += piece - start
            start = piece

    def _write(self, wire: LinkWire, batch: MessageBatch, first: int, is_repeated: bool) -> None:
        end = first + batch.count
        try:
            body = link_body(batch)
        except Exception:  # a fault of ours; it must not hold up what is behind it
            log.exception("%d messages of link queue %s could not be written", batch.count, self.queue.name)
            self._settle(first, end, REJECTED, "it could not be written")
            return
        if len(body) + FRAME_HEAD_BYTES > self._frame_bytes_max:
            if batch.count > 1:
                for row in range(batch.count):
                    self._write(wire, batch.select([row]), first + row, is_repeated)
                return
            self.too_large_count += 1
            self._settle(first, end, REJECTED, "it is larger than the neighbor's frames")
            return
        self.sent_count += batch.count
        self._answers.sent(end, self._cell.runtime.dispatcher.both_ms()[0])
        if first in self._sizes:
            self._bytes -= self._sizes[first][1]
        self._sizes[first] = (end, len(body))
        self._bytes += len(body)
        lineage = self._lineages.of(first)
        floor = min(self._floor, first - 1)
        wire.store(LinkStore(self._link_flow_id, 0, lineage, floor, first, body, is_repeated))

    # --- answers ---

    def answered(self, ranges: list[tuple[int, int]]) -> None:
        """Settle what the neighbor will not need again."""
        if not self.flow_id:
            return
        for first, end in ranges:
            if self._answers.answered(first, end, self._cell.runtime.dispatcher.both_ms()[0]):
                self._window.settles_in_ms = self._answers.patience_ms
            for start, stop in self._unanswered.within(first, end):
                self.stored_count += stop - start
                self._settle(start, stop, ACCEPTED, "")
        while self._sizes:  # pieces are answered whole, and in order but for rare ones
            first = next(iter(self._sizes))
            end, size = self._sizes[first]
            if self._unanswered.count_within(first, end):
                break
            del self._sizes[first]
            self._bytes -= size
        if self._window.is_shut and self._bytes < WINDOW_BYTES:
            self._window.is_shut = False
        wake_waiters(self._window, self._cell.runtime.dispatcher)
        if self._settled_count >= FLOOR_EVERY:
            self._look_up_floor()

    def _settle(self, first: int, end: int, outcome: int, cause: str) -> None:
        self._unanswered.discard(first, end)
        self._settled_count += end - first
        self._window.give(end - first)
        assert self._partition is not None, "it has delivered them"
        self._partition.post(Settle(self.flow_id, self._epoch, first, end, outcome, cause))
