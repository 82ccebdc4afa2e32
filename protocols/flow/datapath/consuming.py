"""Deliver messages to the consumers of one client, and carry out their settlements.

Flow: consuming. Credit and settlement are independent. The client grants the highest delivery id that may be sent, and
has a separate limit of unsettled messages. The window that partitions see is the smaller of the two.
"""

from collections.abc import Callable
from typing import final

from sluicegate.actors.messages.data import Deliveries, RenewLock, release_delivery, settle_from, source_of
from sluicegate.actors.messages.queues import AcknowledgeHandoff, Assignment
from sluicegate.actors.partitions.triggers import wake_waiters
from sluicegate.actors.runtime.inbox import Dispatcher
from sluicegate.actors.runtime.runtime import ActorCell
from sluicegate.messaging.message.address import Address
from sluicegate.messaging.message.batch import AT_MOST_ONCE
from sluicegate.messaging.message.outcomes import ACCEPTED, RELEASED
from sluicegate.messaging.partitions.state.effects import Delivery
from sluicegate.messaging.partitions.state.unsettled import DeliverySource, UnsettledDeliveries, UnsettledRun
from sluicegate.messaging.queues.credit import CreditWindow
from sluicegate.protocols.flow.codec import codes
from sluicegate.protocols.flow.codec.codes import FLOW_ID_UNUSABLE, OUT_OF_TURN, PeerViolation
from sluicegate.protocols.flow.codec.frames.deliver import DeliverHead, write_alike, write_deliver
from sluicegate.protocols.flow.codec.frames.flow import ACTIVE, ENDED, INACTIVE, FlowState
from sluicegate.protocols.flow.codec.frames.partition import ASSIGNED, DRAINING, Partitions, PartitionState
from sluicegate.protocols.flow.codec.frames.settle import OUTCOME_EXTEND, Credit
from sluicegate.protocols.flow.codec.frames.settle import Settle as SettleFrame
from sluicegate.protocols.flow.codec.frames.settle import Settled as SettledFrame
from sluicegate.protocols.flow.codec.limits import RANGES_MAX


@final
class ConsumerFlow:
    """A client's flow on a queue.

    Invariant: `window.used` is the number of deliveries in `unsettled` and of those that are on their way here.
    """

    def __init__(
        self,
        flow_id: int,
        urn: int,
        queue: ActorCell,
        queue_name: str,
        window: CreditWindow[Address],
        *,
        unsettled_max: int,
        delivery_id_max: int,
    ) -> None:
        self.flow_id = flow_id
        self.urn = urn  # the flow's id on this node
        self.queue = queue  # the queue's actor
        self.queue_name = queue_name
        self.window = window
        self.unsettled_max = unsettled_max
        self.delivery_id_max = delivery_id_max  # the highest that may be sent
        self.sent_through = 0  # the highest delivery id that was sent
        self.answer = b""  # to BIND; it goes out before anything else of the flow
        self.unsettled = UnsettledDeliveries()
        self.state_number = 0
        self.is_active = False
        self.partitions: set[int] = set()  # assigned, as of the queue's last message
        self.list_number = 0  # of the PARTITIONS sent last
        self.draining: dict[tuple[int, int], int] = {}  # partition, epoch -> number of the first list with it
        self.sources: dict[int, DeliverySource] = {}  # by partition number: that of its last delivery
        self._topic = ""
        self._topic_data = b""

    def topic_data(self, topic: str) -> bytes:
        """Return a topic in UTF-8. That of the last delivery is known."""
        if topic != self._topic or not self._topic_data:
            self._topic = topic
            self._topic_data = topic.encode("utf-8")
        return self._topic_data

    def __repr__(self) -> str:
        return f"ConsumerFlow({self.flow_id} of {self.queue_name!r}, through {self.sent_through}, {self.window!r})"


@final
class Consumers:
    """The consumer flows of one client."""

    def __init__(self, out: list[bytes], answer: Callable[[bytes], None], dispatcher: Dispatcher) -> None:
        self.flows: dict[int, ConsumerFlow] = {}
        self.by_urn: dict[int, ConsumerFlow] = {}
        self.sent_count = 0
        self._out = out  # frames of flows, in their order
        self._answer = answer  # sends responses, before those
        self._dispatcher = dispatcher
        self._is_shut = False  # the socket takes no more

    def add(self, flow: ConsumerFlow) -> None:
        """Know a flow. Its deliveries may come before the answer to its bind does."""
        self.flows[flow.flow_id] = flow
        self.by_urn[flow.urn] = flow
        flow.window.is_shut = self._is_shut
        self._review(flow)

    def remove(self, flow: ConsumerFlow) -> None:
        """Forget a flow. The caller returns its unsettled messages to the queue."""
        self.flows.pop(flow.flow_id, None)
        self.by_urn.pop(flow.urn, None)
        flow.window.close()

    def answer_bind(self, flow: ConsumerFlow) -> None:
        """Send the answer to BIND, unless it was sent: deliveries may be faster than the queue's own answer."""
        if flow.answer:
            self._out.append(flow.answer)
            flow.answer = b""

    # --- credit ---

    def credit(self, flow: ConsumerFlow, credit: Credit) -> None:
        """Apply the client's limit. It falls only if the client recalls credit, which is answered."""
        if credit.is_recall:
            flow.delivery_id_max = max(credit.delivery_id_max, flow.sent_through)
            self._answer(Credit(flow.flow_id, flow.delivery_id_max, False, True).encode())
        else:
            flow.delivery_id_max = max(credit.delivery_id_max, flow.delivery_id_max)
        self._review(flow)

    def hold_back(self, is_full: bool) -> None:
        """Take no deliveries while the socket is full."""
        self._is_shut = is_full
        for flow in list(self.flows.values()):
            flow.window.is_shut = is_full
            if not is_full:
                self._wake(flow)

    def _review(self, flow: ConsumerFlow) -> None:
        """Set the window to the messages the client may get now, and wake waiting partitions."""
        self._set_limit(flow)
        self._wake(flow)

    def _set_limit(self, flow: ConsumerFlow) -> None:
        flow.window.limit = min(flow.unsettled_max, flow.unsettled.count + flow.delivery_id_max - flow.sent_through)

    def _wake(self, flow: ConsumerFlow) -> None:
        wake_waiters(flow.window, self._dispatcher)

    # --- deliveries ---

    def deliver(self, message: Deliveries, wall_ms: int) -> None:
        """Send the deliveries of a partition."""
        flow = self.by_urn.get(message.flow.flow_id)
        if flow is None:
            return  # unbound meanwhile: the partition has them back
        self.answer_bind(flow)
        if message.partition_number not in flow.partitions:
            self._release_unsent(flow, message)
            return
        for delivery in message.deliveries:
            self._send(flow, source_of(flow.sources, message, delivery), delivery, wall_ms)
        self._review(flow)

    def _release_unsent(self, flow: ConsumerFlow, message: Deliveries) -> None:
        """The partition was taken away while these were on their way; it has them back already, or gets them now."""
        for delivery in message.deliveries:
            release_delivery(message, delivery)
            flow.window.give(delivery.stop_row - delivery.start_row)
        self._review(flow)

    def _send(self, flow: ConsumerFlow, source: DeliverySource, delivery: Delivery, wall_ms: int) -> None:
        """Send consecutive rows. Rows whose credit the client has recalled are returned untouched."""
        count = delivery.stop_row - delivery.start_row
        sent_count = min(count, flow.delivery_id_max - flow.sent_through)
        first_sequence = delivery.first_sequence
        if sent_count < count:
            first, end = first_sequence + sent_count, first_sequence + count
            source.partition.post(settle_from(source, first, end, RELEASED))
            flow.window.give(count - sent_count)
            if sent_count == 0:
                return
        batch = delivery.batch
        headers = batch.headers()
        head = DeliverHead(
            flow.flow_id,
            source.partition_number,
            source.epoch,
            delivery_count=delivery.delivery_count,
            redelivered=delivery.redelivered,
            was_direct=batch.qos == AT_MOST_ONCE,
            first_of_group=delivery.first_of_group,
            received_ms=batch.received_ms,
        )
        if headers is None and batch.topics is None and sent_count > 1:
            write_alike(
                self._out,
                head,
                flow.sent_through + 1,
                first_sequence,
                topic=flow.topic_data(batch.topic),
                payloads=batch.payloads(),
                start=delivery.start_row,
                stop=delivery.start_row + sent_count,
            )
        else:
            self._send_each(flow, head, delivery, sent_count, wall_ms)
        flow.unsettled.add(flow.sent_through + 1, sent_count, first_sequence, source)
        flow.sent_through += sent_count
        self.sent_count += sent_count

    def _send_each(self, flow: ConsumerFlow, head: DeliverHead, delivery: Delivery, count: int, wall_ms: int) -> None:
        """Send rows that differ in more than their payloads."""
        batch = delivery.batch
        payloads, headers = batch.payloads(), batch.headers()
        out = self._out
        for number in range(count):
            row = delivery.start_row + number
            out.append(
                write_deliver(
                    head,
                    flow.sent_through + 1 + number,
                    delivery.first_sequence + number,
                    topic=flow.topic_data(batch.topic_of(row)),
                    headers=None if headers is None else headers[row],
                    payload=payloads[row],
                    wall_ms=wall_ms,
                )
            )

    # --- settlements ---

    def settle(self, flow: ConsumerFlow, frame: SettleFrame) -> None:
        """Carry out the client's settlements, and report ids that it does not hold."""
        unknown: list[tuple[int, int]] = []
        if frame.accepted_through:
            for run in flow.unsettled.take(0, frame.accepted_through + 1):
                self._settle(flow, run, ACCEPTED)
        for first, last, outcome in frame.outcomes:
            end = last + 1
            found = flow.unsettled.peek(first, end) if outcome == OUTCOME_EXTEND else flow.unsettled.take(first, end)
            for run in found:
                if run.first_id > first:
                    unknown.append((first, run.first_id - 1))
                first = run.first_id + run.count
                if outcome == OUTCOME_EXTEND:
                    source = run.source
                    source.partition.post(RenewLock(flow.urn, source.epoch, [run.sequences()], source.delivery_count))
                else:
                    self._settle(flow, run, outcome)
            if first < end:
                unknown.append((first, last))
        for start in range(0, len(unknown), RANGES_MAX):
            part = unknown[start : start + RANGES_MAX]
            self._answer(SettledFrame(flow.flow_id, tuple(part)).encode())
        self._review(flow)

    def _settle(self, flow: ConsumerFlow, run: UnsettledRun, outcome: int) -> None:
        source = run.source
        first, end = run.sequences()
        flow.window.give(run.count)
        self._set_limit(flow)  # the partition may deliver before this returns: a settlement is no credit
        source.partition.deliver_now(settle_from(source, first, end, outcome))

    # --- partitions that come and go ---

    def state(self, flow: ConsumerFlow, partitions: set[int]) -> None:
        """Set the flow's partitions; release unsettled messages of others, and notify the client."""
        self.answer_bind(flow)
        flow.partitions = partitions
        for number in list(flow.sources):
            if number not in partitions:
                del flow.sources[number]
        for run in flow.unsettled.take_where(lambda source: source.partition_number not in partitions):
            flow.window.give(run.count)
        self._review(flow)
        is_active = len(partitions) > 0
        if is_active != flow.is_active or flow.state_number == 0:
            flow.is_active = is_active
            self._send_state(flow, ACTIVE if is_active else INACTIVE, codes.NONE, "", None)

    def assignment(self, flow: ConsumerFlow, assignment: Assignment, now_ms: int) -> None:
        """Send the list of the flow's partitions, and record which of them it has to release."""
        flow.list_number += 1
        states: list[PartitionState] = []
        draining: dict[tuple[int, int], int] = {}
        for partition, epoch, deadline_ms in assignment.partitions:
            if deadline_ms:
                key = (partition, epoch)
                draining[key] = flow.draining.get(key, flow.list_number)
                states.append(PartitionState(partition, epoch, DRAINING, max(0, deadline_ms - now_ms)))
            else:
                states.append(PartitionState(partition, epoch, ASSIGNED, 0))
        flow.draining = draining
        self._out.append(Partitions(flow.flow_id, flow.list_number, tuple(states)).encode())

    def acknowledge(self, flow: ConsumerFlow, number: int) -> None:
        """The client has released the partitions that were draining in that list. Unknown numbers are ignored."""
        released = [key for key, since in flow.draining.items() if since <= number]
        if released:
            flow.queue.inbox.post(AcknowledgeHandoff(flow.urn, released))

    def end(self, flow: ConsumerFlow, reason: str, retry_after_ms: int | None) -> None:
        """Tell the client that its flow is gone, and forget it."""
        self.answer_bind(flow)
        self._send_state(flow, ENDED, codes.REVOKED, reason, retry_after_ms)
        self.remove(flow)

    def _send_state(self, flow: ConsumerFlow, state: int, code: int, text: str, retry_after_ms: int | None) -> None:
        flow.state_number += 1
        self._out.append(FlowState(flow.flow_id, state, flow.state_number, code, text, retry_after_ms).encode())


def check_writable(delivery: Delivery, row: int) -> None:
    """Encode a row without sending it; raise the error of encoding it."""
    batch = delivery.batch
    head = DeliverHead(
        1,
        0,
        0,
        delivery_count=delivery.delivery_count,
        redelivered=delivery.redelivered,
        was_direct=batch.qos == AT_MOST_ONCE,
        first_of_group=delivery.first_of_group,
        received_ms=batch.received_ms,
    )
    topic, headers, payload = batch.topic_of(row).encode("utf-8"), batch.headers_of(row), batch.payloads()[row]
    write_deliver(head, 1, delivery.first_sequence, topic=topic, headers=headers, payload=payload, wall_ms=0)


# The flow ids of one connection: each is requested once, ascending, and used up when its flow has ended.
#
# Flow: frames. Late frames for an ended flow are thereby told apart from frames for an unknown one.


@final
class FlowIds:
    """The flow ids that the client has requested so far."""

    def __init__(self) -> None:
        self._highest = 0
        self._pending: set[int] = set()  # whose request is not answered yet

    @property
    def pending_count(self) -> int:
        """How many requests for flows are not answered."""
        return len(self._pending)

    def take(self, flow_id: int) -> None:
        """Give a flow id to a request. Raises PeerViolation."""
        if flow_id <= self._highest:
            text = f"flow {flow_id} behind {self._highest}; their ids ascend"
            raise PeerViolation(FLOW_ID_UNUSABLE, text)
        self._highest = flow_id
        self._pending.add(flow_id)

    def answered(self, flow_id: int) -> None:
        """Note that the request is answered: the flow may be used, or the id is used up."""
        self._pending.discard(flow_id)

    def check_ended(self, flow_id: int) -> None:
        """Look at a frame for a flow that is not there. Raises PeerViolation unless the flow has ended."""
        if flow_id in self._pending:
            raise PeerViolation(OUT_OF_TURN, f"flow {flow_id} is used before its request was answered")
        if flow_id > self._highest:
            raise PeerViolation(FLOW_ID_UNUSABLE, f"flow {flow_id} was never requested")
