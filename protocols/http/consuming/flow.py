"""One HTTP worker's flow on a queue: its unsettled messages, its present reader, and how long it waits for its worker.

A flow belongs to no connection: requests come over whichever its worker's HTTP library has open. So it ends when no
request used it for as long as its locks last; that is how a worker that has vanished is noticed. Requests are read and
answered in `requests.consume`; the flows of a message VPN are in `flows`.
"""

from typing import Any, Final, final

from mypy_extensions import mypyc_attr

from sluicegate.actors.messages.data import (
    Deliveries,
    DurableSettlement,
    PublishFailed,
    RenewLock,
    SettleDurably,
    release_delivery,
    source_of,
)
from sluicegate.actors.messages.queues import DrainFlow, FlowDrained, FlowGone, FlowState, UnbindFlow
from sluicegate.actors.partitions.triggers import wake_waiters
from sluicegate.actors.runtime.asks import LoopFuture, ask_unless_gone
from sluicegate.actors.runtime.runtime import ActorCell, Behaviour
from sluicegate.messaging.message.address import Address
from sluicegate.messaging.message.outcomes import FAILED, RELEASED
from sluicegate.messaging.message.refusals import REFUSED_SPOOL_FAILED
from sluicegate.messaging.partitions.state.effects import Delivery
from sluicegate.messaging.partitions.state.unsettled import DeliverySource
from sluicegate.messaging.queues.credit import CreditWindow
from sluicegate.protocols.http.codec.responses import not_stored
from sluicegate.protocols.http.consuming.unsettled import UnsettledMessage, UnsettledMessages

ANSWER_MESSAGES_MAX: Final = 1000  # in one answer: a client wants to begin with the first
STREAM_WINDOW: Final = 100  # messages that a stream is ahead of its client, unless the request says otherwise
HEARTBEAT_MS: Final = 15_000  # proxies give up on a response that says nothing for a minute, some for less

# The present reader of an HTTP flow: a request that waits for messages, or one that streams them.
#
# A reader limits what its flow may hold; without one a flow gets nothing. Messages are written in `requests.consume`
# and `requests.browse`. The connection of the request brings time, and ends the reader with its client.


@mypyc_attr(allow_interpreted_subclasses=True)
class FlowReader:
    """The interface of a reader to its flow and its connection. It is called on the loop, and must not block."""

    def limit(self, held_count: int, waiting_count: int) -> int:
        """Return how many messages the flow may hold, of `held_count` of which `waiting_count` wait for the reader."""
        return held_count

    def arrived(self) -> None:
        """Messages wait."""

    def drained(self, number: int) -> None:
        """The queue has answered a drain of that number: everything it had was delivered before."""

    def state_changed(self) -> None:
        """The flow has other partitions than before."""

    def tick(self, now_ms: int) -> None:
        """Time has passed."""

    def ended(self, reason: str) -> None:
        """The reader gets nothing more: its flow is gone, another reader has it, or the client has left."""


@final
class PollingReader(FlowReader):
    """A request that wants some messages, and waits until there is at least one.

    To have all there is up to its maximum, from all partitions, it drains: once at the start, again when messages
    come after that, and a last time when its time is over. So a wait of 0 says truly that there is nothing. What came
    may be gone again before the request goes on, with its partition; then it waits for the rest of its time.
    """

    def __init__(self, flow: "HttpFlow", *, count_max: int) -> None:
        self.end_reason = ""  # empty: it may take what waits
        self._flow = flow
        self._count_max = count_max
        self._drain_number = 0  # of the drain that is under way; 0: none is
        self._is_late = False
        self._is_over = False  # nothing more will come
        self._woken: LoopFuture[None] | None = None

    async def wait(self, wait_ms: int) -> None:
        """Wait for messages, for the end, or until the time is over."""
        unsettled = self._flow.unsettled
        timer: Any = None
        if wait_ms > 0:
            timer = self._flow.cell.after(wait_ms, self._time_is_over)
        else:
            self._is_late = True
        while not self._is_over and unsettled.waiting_count < self._count_max:
            woken: LoopFuture[None] = LoopFuture()
            self._woken = woken
            self._drain()
            await woken
            if unsettled.waiting_count > 0:
                break
        if timer is not None:
            timer.cancel()

    def limit(self, held_count: int, waiting_count: int) -> int:
        """Return how many messages are still wanted."""
        return held_count - waiting_count + self._count_max

    def arrived(self) -> None:
        """End with enough messages; else drain the flow for the rest."""
        if self._flow.unsettled.waiting_count >= self._count_max:
            self._wake()
        else:
            self._drain()

    def drained(self, number: int) -> None:
        """End with the messages there are, or go on waiting."""
        if number != self._drain_number:
            return
        self._drain_number = 0
        if self._is_late:
            self._is_over = True
        if self._is_over or self._flow.unsettled.waiting_count > 0:
            self._wake()

    def ended(self, reason: str) -> None:
        """End with nothing: waiting messages are not for this reader."""
        self.end_reason = reason
        self._is_over = True
        self._wake()

    def _time_is_over(self) -> None:
        self._is_late = True
        self._drain()

    def _drain(self) -> None:
        if self._drain_number == 0:
            self._drain_number = self._flow.drain()

    def _wake(self) -> None:
        woken, self._woken = self._woken, None
        if woken is not None:
            woken.set()


@final
class StreamingReader(FlowReader):
    """A request that gets messages for as long as it lasts."""

    def __init__(self, *, window: int, heartbeat_ms: int, now_ms: int) -> None:
        self.end_reason: str | None = None  # None: it goes on
        self.has_new_state = True
        self.is_silent = False  # nothing was written for so long that the client should see a sign of life
        self._window = window
        self._heartbeat_ms = heartbeat_ms
        self._wrote_at_ms = now_ms
        self._woken: LoopFuture[None] | None = None

    def limit(self, held_count: int, waiting_count: int) -> int:
        """Return the window."""
        return self._window

    async def news(self) -> None:
        """Wait until there is something to write, or the end. One task waits."""
        self._woken = LoopFuture()
        await self._woken

    def wrote(self, now_ms: int) -> None:
        """Note that something was written."""
        self._wrote_at_ms = now_ms
        self.is_silent = False

    def arrived(self) -> None:
        """Have the messages written."""
        self._wake()

    def state_changed(self) -> None:
        """Have the partitions written."""
        self.has_new_state = True
        self._wake()

    def tick(self, now_ms: int) -> None:
        """Request a sign of life: to a vanished client it fails in the end, and proxies keep the connection."""
        if now_ms - self._wrote_at_ms >= self._heartbeat_ms:
            self.is_silent = True
            self._wake()

    def ended(self, reason: str) -> None:
        """Have the end written."""
        if self.end_reason is None:
            self.end_reason = reason
        self._wake()

    def _wake(self) -> None:
        woken, self._woken = self._woken, None
        if woken is not None:
            woken.set()


READ_ELSEWHERE: Final = "another request reads this flow"


@final
class FlowOptions:
    """What a flow is bound with."""

    __slots__ = ("client", "flow_id", "host", "lock_ms", "queue_name", "unsettled_max", "user")

    def __init__(
        self, flow_id: str, *, queue_name: str, user: str, host: str, client: str, lock_ms: int, unsettled_max: int
    ) -> None:
        self.flow_id = flow_id  # in URLs; it cannot be guessed
        self.queue_name = queue_name
        self.user = user  # empty: anonymous
        self.host = host  # that the worker asked from
        self.client = client
        self.lock_ms = lock_ms  # that a worker has to settle a delivery, and to ask for anything
        self.unsettled_max = unsettled_max


class HttpFlow(Behaviour):
    """A worker's flow.

    Invariant: `window.used` is the number of deliveries in `unsettled` and of those that are on their way here.
    """

    def __init__(
        self, cell: ActorCell, *, options: FlowOptions, queue: ActorCell, window: CreditWindow[Address]
    ) -> None:
        self.runtime = cell.runtime
        self.cell = cell
        self.options = options
        self.urn = cell.runtime.next_urn()
        self.queue = queue
        self.window = window
        self.unsettled = UnsettledMessages()
        self.partitions: list[int] = []  # it takes messages from, as the queue last said
        self.end_reason = ""  # empty: it goes on
        self._clock = cell.runtime.clock
        self._sources: dict[int, DeliverySource] = {}  # by partition number: that of its last delivery
        self._reader: FlowReader | None = None
        self._last_number = 0
        self._drains_count = 0
        self._used_at_ms = self._clock.now_ms()
        self._settlements: dict[int, AwaitedSettlement] = {}  # by delivery: the store has yet to know

    # --- its reader ---

    def read(self, reader: FlowReader, *, after: int | None) -> None:
        """Give all further messages to a reader; the reader before it ends.

        `after` is the last delivery that the worker has seen: it gets its unsettled deliveries behind that again.
        """
        before = self._reader
        if before is not None:
            before.ended(READ_ELSEWHERE)
        if after is not None:
            self.unsettled.wait_again(after)
        self._reader = reader
        self.use()
        self.review()
        if self.end_reason:  # while the request came
            reader.ended(self.end_reason)

    def leave(self, reader: FlowReader) -> None:
        """Release a reader. Messages that came for it and were delivered to no reader go back untouched."""
        if self._reader is not reader:
            return
        self._reader = None
        for number in self.unsettled.stop_waiting():
            self.settle_at_once(number, RELEASED)
        self.use()
        self.review()

    def drain(self) -> int:
        """Drain the flow up to the reader's limit; return the number of the drain."""
        self._drains_count += 1
        self.queue.inbox.post(DrainFlow(self.urn, self._drains_count))
        return self._drains_count

    def use(self) -> None:
        """Note that a request used the flow."""
        self._used_at_ms = self._clock.now_ms()

    def tick(self, now_ms: int) -> None:
        """Bring time: deliveries whose lock is over have failed, and an unused flow ends."""
        expired = self.unsettled.expired(now_ms)
        if expired:
            for number in expired:
                message = self.unsettled.get(number)
                was_delivered = message is not None and message.was_delivered
                self.settle_at_once(number, FAILED if was_delivered else RELEASED)
            self.review()
        if self._reader is None and now_ms - self._used_at_ms > self.options.lock_ms > 0:
            self.end(f"nothing was asked of it for {self.options.lock_ms} ms")

    def review(self) -> None:
        """Set the window to what the reader takes, and wake partitions that wait."""
        reader = self._reader
        count = self.unsettled.count
        limit = count if reader is None else reader.limit(count, self.unsettled.waiting_count)
        self.window.limit = min(limit, self.options.unsettled_max)
        wake_waiters(self.window, self.runtime.dispatcher)

    # --- what the worker says ---

    async def settle(self, numbers: list[int], outcome: int) -> list[int]:
        """Settle deliveries; return, once that is stored, the numbers of those that were not unsettled.

        Raises HttpProblem when the store has failed: then they are delivered again after the next start.
        """
        not_unsettled: list[int] = []
        settlements: list[AwaitedSettlement] = []
        for number in numbers:
            message = self.unsettled.take(number)
            if message is None:
                not_unsettled.append(number)
                continue
            settlement = AwaitedSettlement(number)
            settlements.append(settlement)
            self._settlements[number] = settlement
            self.window.give(1)
            message.source.partition.post(SettleDurably(message.settle(outcome), settlement))
        self.use()
        self.review()
        for settlement in settlements:
            if not await settlement.done:
                not_unsettled.append(settlement.number)
            self._settlements.pop(settlement.number, None)
        for settlement in settlements:
            if settlement.failure is not None:
                raise not_stored(settlement.failure)
        return sorted(not_unsettled)

    def extend(self, numbers: list[int]) -> list[int]:
        """Lock deliveries anew; return the numbers of those that the flow does not hold."""
        not_unsettled: list[int] = []
        until_ms = self._locked_until_ms()
        for number in numbers:
            message = self.unsettled.get(number)
            if message is None:
                not_unsettled.append(number)
                continue
            self.unsettled.extend(message, until_ms)
            source = message.source
            ranges = [(message.sequence, message.sequence + 1)]
            source.partition.post(RenewLock(source.flow_id, source.epoch, ranges, source.delivery_count))
        self.use()
        return not_unsettled

    async def holds(self, message: UnsettledMessage) -> bool:
        """Return whether a delivery is unsettled, and its queue has not taken it back; lock it anew at the queue."""
        if not self.unsettled.contains(message):
            return False
        source, sequence = message.source, message.sequence
        request = RenewLock(source.flow_id, source.epoch, [(sequence, sequence + 1)], source.delivery_count)
        held_count = await ask_unless_gone(source.partition, request)
        if not held_count and self.unsettled.contains(message):
            self.unsettled.take(message.number)
            self.window.give(1)
            self.review()
        return self.unsettled.contains(message)

    def settle_at_once(self, number: int, outcome: int) -> None:
        """Settle a delivery, if it is unsettled, without waiting for the store; `review` lets the queue go on."""
        message = self.unsettled.take(number)
        if message is not None:
            self.window.give(1)
            message.source.partition.post(message.settle(outcome))

    def _locked_until_ms(self) -> int:
        return self._clock.now_ms() + self.options.lock_ms if self.options.lock_ms > 0 else 0

    # --- messages of other actors ---

    def receive(self, message: Any) -> Any:
        """Handle deliveries, or messages of the queue about the flow."""
        if isinstance(message, Deliveries):
            self._deliver(message)
        elif isinstance(message, FlowDrained):
            if self._reader is not None:
                self._reader.drained(message.number)
        elif isinstance(message, FlowState):
            self._state(message.partitions)
        else:
            assert isinstance(message, FlowGone)
            self.gone(message.reason)
        return None

    def turn_ended(self) -> None:
        """Whatever came in a turn was handed on as it came."""

    def _deliver(self, message: Deliveries) -> None:
        number = message.partition_number
        is_wanted = self._reader is not None and number in self.partitions
        for delivery in message.deliveries:
            if is_wanted:
                self._hold(source_of(self._sources, message, delivery), delivery)
            else:  # the reader has left, or the partition was taken away, while these were on their way
                self.window.give(delivery.stop_row - delivery.start_row)
                release_delivery(message, delivery)
        self.review()
        if is_wanted and self._reader is not None:
            self._reader.arrived()

    def _hold(self, source: DeliverySource, delivery: Delivery) -> None:
        until_ms = self._locked_until_ms()
        for row in range(delivery.start_row, delivery.stop_row):
            self._last_number += 1
            message = UnsettledMessage(
                self._last_number,
                source,
                delivery.first_sequence + row - delivery.start_row,
                delivery.batch,
                row,
                delivery.redelivered,
                delivery.delivery_count,
                delivery.first_of_group,
                until_ms,
            )
            if self.unsettled.add(message) is not None:
                self.window.give(1)

    def _state(self, partitions: list[int]) -> None:
        """Set the partitions of the flow; messages of others return to the queue."""
        self.partitions = partitions
        kept = set(partitions)
        for number in list(self._sources):
            if number not in kept:
                del self._sources[number]
        for _ in self.unsettled.take_others(kept):
            self.window.give(1)
        self.review()
        if self._reader is not None:
            self._reader.state_changed()

    # --- the end ---

    def fail(self) -> None:
        """End the flow after a fault of the broker; its worker binds another."""
        self.end("a fault of this broker; its log says more")

    def end(self, reason: str) -> None:
        """Unbind from the queue, which gets all unsettled messages back, and stop."""
        if not self.end_reason:
            self.queue.inbox.post(UnbindFlow(self.urn, may_return=False))
            self.gone(reason)

    def gone(self, reason: str) -> None:
        """Stop: the queue has ended the flow, or never bound it."""
        if self.end_reason:
            return
        self.end_reason = reason
        self.unsettled.take_others(set())
        self.window.close()
        if self.queue.is_stopped():
            for settlement in list(self._settlements.values()):
                settlement.give_up()
        reader, self._reader = self._reader, None
        if reader is not None:
            reader.ended(reason)
        self.cell.stop()

    def __repr__(self) -> str:
        return f"HttpFlow({self.options.flow_id} of {self.options.queue_name!r}, {self.unsettled.count} unsettled)"


@final
class AwaitedSettlement(DurableSettlement):
    """A settlement that a request waits for: in force for ever, or never.

    A flow that has lost the delivery meanwhile may have settled it before that.
    """

    def __init__(self, number: int) -> None:
        self.number = number
        self.done: LoopFuture[bool] = LoopFuture()
        self.failure: PublishFailed | None = None  # of the store

    def decided(self, refusal: PublishFailed | None) -> None:
        """Let the request go on."""
        if refusal is not None and refusal.verdict == REFUSED_SPOOL_FAILED:
            self.failure = refusal
        if not self.done.done:
            self.done.set(refusal is None)

    def give_up(self) -> None:
        """No answer comes any more: the queue is deleted."""
        if not self.done.done:
            self.done.set(False)
