"""The end of remote flows where the queue is: it binds a flow to the queue for each consumer of the neighbor.

The queue sees a consumer like others, whose window is what the consumer's broker has lent: `limit` is what is unsettled
and what may still be delivered. When the connection is gone, its flows end as those of a lost connection do.
"""

from typing import Any, Final, final

from sluicegate.actors.messages.data import (
    AnnotateDelivery,
    Deliveries,
    DurableSettlement,
    PublishFailed,
    RenewLock,
    Settle,
    SettleDurably,
)
from sluicegate.actors.messages.queues import (
    AcknowledgeHandoff,
    Assignment,
    BindFlow,
    DrainFlow,
    FlowDrained,
    FlowGone,
    FlowState,
    UnbindFlow,
)
from sluicegate.actors.partitions.triggers import wake_waiters
from sluicegate.actors.runtime.asks import LoopFuture, ask_at
from sluicegate.actors.runtime.runtime import ActorCell
from sluicegate.messaging.message.address import Address
from sluicegate.messaging.message.outcomes import FAILED_ELSEWHERE, REJECTED
from sluicegate.messaging.message.ranges import RangeSet
from sluicegate.messaging.partitions.state.effects import Delivery
from sluicegate.messaging.queues.credit import CreditPool, CreditWindow
from sluicegate.messaging.selectors.selector import Selector, Selectors
from sluicegate.protocols.flow.codec.frames.link_flow import FIRST_OF_GROUP, REDELIVERED
from sluicegate.protocols.network.queues import notes
from sluicegate.protocols.network.queues.channel import QueuesChannel
from sluicegate.protocols.network.queues.home.bindings import HomeBindings, HomeFlow
from sluicegate.protocols.network.queues.home.browsers import HomeBrowsers
from sluicegate.protocols.network.queues.home.pieces import bodies
from sluicegate.protocols.network.queues.notes import FlowNote


@final
class _Lent(HomeFlow):
    """A flow of a consumer at the neighbor."""

    def __init__(self, consumer: int, flow_id: int, window: CreditWindow[Address]) -> None:
        super().__init__(consumer, flow_id)
        self.window: Final = window
        self.held_count = 0  # unsettled messages that were sent
        self.delivered_count = 0
        self.delivered_max = 0
        self.partitions: dict[int, Address] = {}
        self.unsettled: dict[int, RangeSet] = {}  # by partition

    def review(self) -> None:
        """Set the window to what is unsettled, and what may still be delivered.

        What partitions have delivered, and waits in the link's inbox, counts as used and not yet as held.
        """
        self.window.limit = self.held_count + max(0, self.delivered_max - self.delivered_count)

    def gives_back(self, number: int, ranges: list[tuple[int, int]]) -> None:
        """Note that messages are settled, whether that takes effect or not."""
        held = self.unsettled.get(number)
        if held is None:
            return
        for first, end in ranges:
            count = held.count_within(first, end)
            if count:
                held.discard(first, end)
                self.held_count -= count
                self.window.give(count)

    def keeps_only(self, partitions: list[int]) -> None:
        """Note that the partitions have back what the flow holds of others."""
        for number in list(self.unsettled):
            if number not in partitions:
                count = self.unsettled.pop(number).total
                self.held_count -= count
                self.window.give(count)


@final
class HomeFlows(HomeBindings[_Lent]):
    """The consumers of one neighbor at queues of this broker, in one message VPN."""

    def __init__(
        self, cell: ActorCell, neighbor: str, *, queues: ActorCell, selectors: Selectors, credit: CreditPool[Address]
    ) -> None:
        super().__init__(cell, neighbor, "consumers", queues=queues, selectors=selectors)
        self.delivered_count = 0  # messages
        self._browsers: Final = HomeBrowsers(cell, neighbor, queues=queues, selectors=selectors)
        self._unwritable_count = 0
        self._credit = credit
        self._is_held_back = False  # too much waits for the socket: partitions deliver no more

    @property
    def flows_count(self) -> int:
        """The number of consumers and browsers."""
        return self.count + self._browsers.count

    @property
    def unwritable_count(self) -> int:
        """The messages that could not be encoded, or that no frame of the neighbor takes."""
        return self._unwritable_count + self._browsers.unwritable_count

    def connected(self, channel: QueuesChannel) -> None:
        """Begin on a new connection, without consumers."""
        super().connected(channel)
        self._browsers.connected(channel)

    def disconnected(self) -> None:
        """End all flows: what they hold is delivered again."""
        self._is_held_back = False
        self._browsers.disconnected()
        super().disconnected()

    # --- what the neighbor says ---

    def received(self, note: FlowNote) -> None:
        """Carry out a note of the neighbor. Raises ValueError."""
        if self._channel is None:
            raise ValueError(f"LINK_FLOW of kind {note.kind}, and no consumers were agreed on")
        is_new = note.kind in (notes.BIND, notes.BROWSE)
        if is_new and (self.has(note.consumer) or self._browsers.has(note.consumer)):
            raise ValueError(f"consumer {note.consumer} is bound already")
        if note.kind == notes.BIND:
            self._bind_consumer(note)
            return
        if note.kind == notes.BROWSE or self._browsers.has(note.consumer):
            self._browsers.received(note)
            return
        lent = self._by_consumer.get(note.consumer)
        if lent is None:
            return  # it is gone, which the neighbor may not know yet
        kind = note.kind
        if kind == notes.CREDIT:
            lent.delivered_max = max(lent.delivered_max, note.number(0))
            self._review(lent)
        elif kind == notes.SETTLE:
            self._settle(lent, note)
        elif kind == notes.RENEW:
            self._renew(lent, note)
        elif kind == notes.ANNOTATE:
            annotation = note.text(4).encode("latin-1")
            request = AnnotateDelivery(lent.flow_id, note.number(1), note.ranges(3), note.number(2), annotation)
            self._post(lent, note.number(0), request)
        elif kind == notes.UNBIND:
            self._end(lent, UnbindFlow(lent.flow_id, note.flag(0), note.flag(1)))
        elif kind == notes.HANDOFF:
            released = [(row[0], row[1]) for row in note.rows(0, 2)]
            self._tell(lent, AcknowledgeHandoff(lent.flow_id, released))
        elif kind == notes.DRAIN and note.number(0):
            self._tell(lent, DrainFlow(lent.flow_id, note.number(0)))
        elif kind == notes.DRAIN:
            self._recall(lent)
        else:
            raise ValueError(f"LINK_FLOW of kind {kind} for a consumer")

    def _bind_consumer(self, note: FlowNote) -> None:
        name, client, user, protocol, text = [note.text(place) for place in range(5)]
        acknowledges, of_partition_max = note.flag(5), note.number(6)
        lent = _Lent(note.consumer, self._cell.runtime.next_urn(), CreditWindow(0, self._credit))
        lent.window.is_shut = self._is_held_back

        def request(selector: Selector | None) -> BindFlow:
            found = BindFlow(
                lent.flow_id,
                f"{client}@{self._neighbor}",
                user,
                self._cell.inbox,
                lent.window,
                protocol,
                selector=selector,
                of_partition_max=of_partition_max,
                broker=self._neighbor,
            )
            found.acknowledges = acknowledges
            return found

        self._bind(lent, name, text, request)

    def _settle(self, lent: _Lent, note: FlowNote) -> None:
        number, ranges, token = note.number(0), note.ranges(6), note.number(5)
        outcome = note.number(2)
        if outcome > FAILED_ELSEWHERE:
            raise ValueError(f"LINK_FLOW with outcome {outcome}")
        first, end = ranges[0]
        settle = Settle(lent.flow_id, note.number(1), first, end, outcome, note.text(4), ranges[1:], note.number(3))
        lent.gives_back(number, ranges)
        lent.review()
        if token:
            answer = _DurableAnswer(self, lent, token)
            if not self._post(lent, number, SettleDurably(settle, answer)):
                answer.post(PublishFailed(0, "the flow holds none of it"))
        else:
            self._post(lent, number, settle)

    def _renew(self, lent: _Lent, note: FlowNote) -> None:
        number, token = note.number(0), note.number(4)
        request = RenewLock(lent.flow_id, note.number(1), note.ranges(3), note.number(2))
        partition = lent.partitions.get(number)
        if partition is None:
            self._send(lent, notes.RENEWED, token, 0)
            return

        def renewed(answer: LoopFuture[Any]) -> None:
            if not lent.is_over:
                self._send(lent, notes.RENEWED, token, 0 if answer.error() is not None else answer.get())

        ask_at(partition, request).then(renewed)

    def _recall(self, lent: _Lent) -> None:
        """Let partitions deliver no more, and answer behind what they have delivered."""
        lent.delivered_max = lent.delivered_count
        lent.review()
        self._cell.inbox.post(_Recalled(lent.flow_id))

    def _post(self, lent: _Lent, number: int, message: object) -> bool:
        partition = lent.partitions.get(number)
        if partition is None:
            return False
        partition.post(message)
        return True

    def _forget(self, flow: _Lent) -> None:
        super()._forget(flow)
        flow.window.close()

    def _review(self, lent: _Lent) -> None:
        lent.review()
        wake_waiters(lent.window, self._cell.runtime.dispatcher)

    # --- what the queue says ---

    def take(self, message: object) -> bool:
        """Pass on a message of a queue or partition; return whether it was for a flow of the neighbor."""
        if isinstance(message, Deliveries):
            lent = self._by_flow.get(message.flow.flow_id)
            if lent is not None:
                self._deliver(lent, message)
        elif isinstance(message, FlowState):
            lent = self._by_flow.get(message.flow_id)
            if lent is not None:
                lent.keeps_only(message.partitions)
                self._send(lent, notes.STATE, message.active, message.partitions)
                self._review(lent)
        elif isinstance(message, Assignment):
            lent = self._by_flow.get(message.flow_id)
            if lent is not None:
                now_ms = self._cell.runtime.clock.now_ms()
                rows = [(number, epoch, _left_ms(deadline, now_ms)) for number, epoch, deadline in message.partitions]
                self._send(lent, notes.ASSIGNMENT, rows)
        elif isinstance(message, FlowDrained):
            lent = self._by_flow.get(message.flow_id)
            if lent is not None:
                self._drained(lent, message.number)
        elif isinstance(message, _Recalled):
            lent = self._by_flow.get(message.flow_id)
            if lent is not None:
                self._drained(lent, 0)
        elif isinstance(message, FlowGone):
            if self._gone(message.flow_id, message.reason, may_return=message.may_return):
                return True
            lent = None
        else:
            lent = None
        return lent is not None or self._browsers.take(message)

    def _drained(self, lent: _Lent, number: int) -> None:
        """Tell how much was delivered: the rest of the credit is no more."""
        lent.delivered_max = lent.delivered_count
        lent.review()
        self._send(lent, notes.DRAINED, number, lent.delivered_count)

    def _deliver(self, lent: _Lent, message: Deliveries) -> None:
        channel = self._channel
        if channel is None:
            return  # the flow ends: the partition gets them back
        number = message.partition_number
        lent.partitions[number] = message.partition
        held = lent.unsettled.get(number)
        if held is None:
            held = lent.unsettled[number] = RangeSet()
        for delivery in message.deliveries:
            first, count = delivery.first_sequence, delivery.stop_row - delivery.start_row
            again = held.count_within(first, first + count)
            if again:  # they were taken back, or the partition was loaded again
                lent.window.give(again)
            held.add(first, first + count)
            lent.held_count += count - again
            lent.delivered_count += count
            self.delivered_count += count
            self._write(channel, lent, number, delivery)
        lent.review()
        if channel.wire.holds_back and not self._is_held_back:
            self._hold_back(True)
            channel.wire.call_when_written(self._written)

    def _hold_back(self, is_held_back: bool) -> None:
        self._is_held_back = is_held_back
        for lent in self._by_flow.values():
            lent.window.is_shut = is_held_back

    def _written(self) -> None:
        """Let partitions deliver again: the socket has taken what waited."""
        self._hold_back(False)
        for lent in list(self._by_flow.values()):
            wake_waiters(lent.window, self._cell.runtime.dispatcher)

    def _write(self, channel: QueuesChannel, lent: _Lent, number: int, delivery: Delivery) -> None:
        start = delivery.start_row
        for row, count, body in bodies(delivery.batch, start, delivery.stop_row, channel, self._neighbor):
            first = delivery.first_sequence + row - start
            if not body:
                self._unwritable(lent, number, delivery, first, count)
                continue
            flags = (REDELIVERED if delivery.redelivered else 0) | (
                FIRST_OF_GROUP if delivery.first_of_group and row == start else 0
            )
            channel.deliver(
                lent.consumer,
                number,
                flags,
                first,
                body,
                delivery_count=delivery.delivery_count,
                epoch=delivery.epoch,
                annotation=delivery.annotation,
            )

    def _unwritable(self, lent: _Lent, number: int, delivery: Delivery, first: int, count: int) -> None:
        """Reject what cannot cross: it goes to the dead message queue, if there is one."""
        self._unwritable_count += count
        self.delivered_count -= count
        lent.delivered_count -= count  # the consumer's broker hears nothing of them
        lent.gives_back(number, [(first, first + count)])
        cause = "it cannot be sent over the link"
        settle = Settle(
            lent.flow_id, delivery.epoch, first, first + count, REJECTED, cause, delivery_count=delivery.delivery_count
        )
        self._post(lent, number, settle)

    def settled(self, lent: _Lent, token: int, verdict: int, text: str) -> None:
        """Tell the consumer's broker that a settlement is stored, or refused."""
        if not lent.is_over:
            self._send(lent, notes.SETTLED, token, verdict, text)


@final
class _Recalled:
    """Stands in the link's inbox behind what partitions delivered before credit was recalled."""

    def __init__(self, flow_id: int) -> None:
        self.flow_id: Final = flow_id


@final
class _DurableAnswer(DurableSettlement):
    """A settlement whose consumer's broker waits until it is stored."""

    def __init__(self, flows: HomeFlows, lent: _Lent, token: int) -> None:
        self._flows = flows
        self._lent = lent
        self._token = token

    def decided(self, refusal: PublishFailed | None) -> None:
        """Tell it."""
        if refusal is None:
            self._flows.settled(self._lent, self._token, 0, "")
        else:
            self._flows.settled(self._lent, self._token, refusal.verdict, refusal.reason)


def _left_ms(deadline_ms: int, now_ms: int) -> int:
    return max(1, deadline_ms - now_ms) if deadline_ms else 0
