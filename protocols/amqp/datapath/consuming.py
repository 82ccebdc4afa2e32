"""Consumers of one client: deliveries of its flows go out as transfers, and its dispositions come in.

A receiving link is a flow of a queue. Its credit is the flow's window: what the peer grants may be delivered. A
settlement makes no room, for in AMQP only the receiver raises credit; so the window's limit is what the peer holds plus
what it may still get. A message on its way from a partition to here is in neither: it has used credit already.
"""

from typing import TYPE_CHECKING, Final, final

from sluicegate.actors.messages.data import Deliveries, DurableSettlement, PublishFailed, settle_from, source_of
from sluicegate.actors.messages.directory import LocalQueue, QueueHandle
from sluicegate.actors.messages.queues import DrainFlow, FlowDrained, FlowState
from sluicegate.actors.messages.router import LeaveGroup
from sluicegate.actors.partitions.triggers import wake_waiters
from sluicegate.actors.runtime.inbox import Dispatcher
from sluicegate.messaging.message.address import Address
from sluicegate.messaging.message.batch import AT_MOST_ONCE
from sluicegate.messaging.message.outcomes import ACCEPTED, RELEASED
from sluicegate.messaging.partitions.state.effects import Delivery
from sluicegate.messaging.partitions.state.unsettled import DeliverySource, UnsettledDeliveries, UnsettledRun
from sluicegate.messaging.queues.attributes import EXCLUSIVE
from sluicegate.messaging.queues.credit import CreditWindow
from sluicegate.messaging.selectors.selector import Selector
from sluicegate.protocols.amqp.codec import delivery_states as outcomes
from sluicegate.protocols.amqp.codec.delivery_states import RELEASED_STATE, DeliveryState
from sluicegate.protocols.amqp.codec.dispositions import Disposition
from sluicegate.protocols.amqp.datapath.outcomes import Settlement, settlement_of
from sluicegate.protocols.amqp.datapath.receiver_recovery import ResumableFlow
from sluicegate.protocols.amqp.engine.link import ATTACHED, SERIAL_MASK, OutgoingLink
from sluicegate.protocols.amqp.engine.session import Session
from sluicegate.protocols.amqp.messages.encode import FIRST_OF_GROUP, with_annotations, write_message
from sluicegate.protocols.amqp.types.values import AmqpMap, AmqpValue, Symbol, uint

if TYPE_CHECKING:
    from sluicegate.protocols.amqp.engine.sessions import Sessions


# Properties of the flows that we send to receivers.
ACTIVE: Final = "x-active"
PARTITIONS: Final = "x-partitions"

_HALF: Final = 0x8000_0000  # of the delivery ids on the wire


@final
class ConsumerLink:
    """A link on which the client receives from a queue."""

    def __init__(
        self,
        session: Session,
        link: OutgoingLink,
        flow_id: int,
        queue: QueueHandle,
        window: CreditWindow[Address],
    ) -> None:
        self.session = session
        self.link = link
        self.flow_id = flow_id
        self.queue = queue.cell  # the queue's actor
        self.queue_name = queue.name
        self.window = window
        self.unsettled_count = 0  # messages that the peer has and has not settled
        self.drain_number = 0  # of the last time that the peer wanted its credit back
        self.is_subscription = False  # the queue is that of a subscription to a topic, and goes with its last link
        self.keeps_queue_on_detach = False  # but a detach that does not close the link only suspends it
        self.membership: LeaveGroup | None = None  # of a shared group, whose queue it is; how it ends
        config = queue.definition.config
        self.reports_partitions = config.partitioned()
        self.reports_activity = self.reports_partitions or config.access_type == EXCLUSIVE
        self.selector: Selector | None = None  # of the queue's messages; None: all
        self.is_no_local = False  # what its own container has published is not for it
        self.has_skipped = False  # messages that were not for it, since the peer wanted its credit back
        self.sources: dict[int, DeliverySource] = {}  # by partition number: that of its last delivery
        self.resumable: ResumableFlow | None = None  # it stays while the client is away; None: it goes with the link
        # Else it is only there to say what became of earlier deliveries (2.7.3).
        self.takes_new = not link.attach.incomplete_unsettled
        self.has_waiting_count: Final = isinstance(queue, LocalQueue)  # else its own broker has it
        self._gate = queue.gate

    def set_limit(self) -> None:
        """Set the flow's window to what the peer's credit allows."""
        self.window.limit = self.unsettled_count + self.link.credit if self.takes_new else 0

    def waiting_count(self) -> int:
        """Return how many messages wait in the queue, or are with other consumers: what is shown as available."""
        return max(0, self._gate.usage_count - self.unsettled_count)

    def __repr__(self) -> str:
        return f"ConsumerLink({self.link!r} of {self.queue_name!r})"


@final
class Consumers:
    """The consumers of one client, over all its links."""

    def __init__(self, sessions: "Sessions", address: Address, client: str, dispatcher: Dispatcher) -> None:
        self.by_link: dict[OutgoingLink, ConsumerLink] = {}
        self.by_flow: dict[int, ConsumerLink] = {}
        self.sent_count = 0
        self.skipped_count = 0  # messages that were delivered to links they are not for
        self._address = address  # of the connection
        self._client = client
        self._dispatcher = dispatcher
        self._sessions = sessions
        self._unsettled: dict[Session, Unsettled] = {}
        self._is_shut = False  # the socket takes no more
        self._has_resumable = False  # some link, now or earlier, has a flow that outlives it

    def add(self, consumer: ConsumerLink) -> None:
        """Add a link. Its deliveries may come before the answer to its bind does."""
        self.by_link[consumer.link] = consumer
        self.by_flow[consumer.flow_id] = consumer
        consumer.link.depth = consumer.waiting_count if consumer.has_waiting_count else None
        consumer.window.is_shut = self._is_shut or consumer.session.is_blocked
        if consumer.resumable is not None:
            self._has_resumable = True

    def remove(self, consumer: ConsumerLink) -> None:
        """Remove a link. Its unsettled deliveries return to the queue when the caller unbinds the flow."""
        self._release(consumer)
        consumer.window.close()
        if consumer.resumable is not None:
            consumer.resumable.is_bound = False

    def suspend(self, consumer: ConsumerLink, flow: ResumableFlow, now_ms: int) -> None:
        """Remove a link whose flow waits for the client, with its unsettled deliveries."""
        flow.drain_number = consumer.drain_number
        flow.detached(self._release(consumer), now_ms)

    def _release(self, consumer: ConsumerLink) -> list[UnsettledRun]:
        self.by_link.pop(consumer.link, None)
        self.by_flow.pop(consumer.flow_id, None)
        consumer.link.depth = None
        unsettled = self._unsettled.get(consumer.session)
        runs = [] if unsettled is None else unsettled.take_of(consumer.flow_id)
        consumer.link.taken_back = [wire_ids(run) for run in runs]
        return runs

    def forget_session(self, session: Session) -> None:
        """Forget a session that has no links any more."""
        self._unsettled.pop(session, None)

    # --- credit ---

    def credit(self, consumer: ConsumerLink) -> None:
        """Apply the credit that the peer grants, and drain the flow if the peer asks for that."""
        consumer.set_limit()
        self._wake(consumer.window)
        if consumer.link.drain:
            consumer.drain_number += 1
            consumer.queue.inbox.post(DrainFlow(consumer.flow_id, consumer.drain_number))

    def drained(self, message: FlowDrained) -> None:
        """Return the credit of a drained flow, unless the peer has sent another flow since."""
        consumer = self.by_flow.get(message.flow_id)
        if consumer is None or not consumer.link.drain or message.number != consumer.drain_number:
            return
        if consumer.has_skipped:  # it could have had others instead
            consumer.has_skipped = False
            self.credit(consumer)
            return
        self._sessions.drained(consumer.session, consumer.link)
        consumer.set_limit()

    def pause_output(self, is_full: bool) -> None:
        """Take no deliveries while the socket is full."""
        self._is_shut = is_full
        for consumer in list(self.by_link.values()):
            self._update_window(consumer)

    def window_opened(self, session: Session) -> None:
        """Take deliveries again for the links of a session that was blocked."""
        for consumer in list(self.by_link.values()):
            if consumer.session is session:
                self._update_window(consumer)

    def _update_window(self, consumer: ConsumerLink) -> None:
        """Shut or open a link's window, as the socket and its session's window allow."""
        consumer.window.is_shut = self._is_shut or consumer.session.is_blocked
        if not consumer.window.is_shut:
            self._wake(consumer.window)

    def _session_blocked(self, session: Session) -> None:
        for consumer in self.by_link.values():
            if consumer.session is session:
                consumer.window.is_shut = True

    def _wake(self, window: CreditWindow[Address]) -> None:
        wake_waiters(window, self._dispatcher)

    def assigned(self, message: FlowState) -> None:
        """Report to the peer whether its flow is active, and its partitions, where these change."""
        consumer = self.by_flow.get(message.flow_id)
        if consumer is None or not consumer.reports_activity or consumer.is_subscription:
            return
        about: list[tuple[AmqpValue, AmqpValue]] = [(Symbol(ACTIVE), message.active)]
        if consumer.reports_partitions:
            about.append((Symbol(PARTITIONS), [uint(each) for each in message.partitions]))
        self._sessions.send_flow(consumer.session, consumer.link, AmqpMap(about))

    # --- deliveries ---

    def deliver(self, message: Deliveries, wall_ms: int) -> None:
        """Send what a partition delivers."""
        consumer = self.by_flow.get(message.flow.flow_id)
        if consumer is None or consumer.link.state != ATTACHED:
            address = message.flow.address
            if isinstance(address, ResumableFlow):
                address.turn_back(message)
            return  # else it is unbound meanwhile: the partition has them back
        for delivery in message.deliveries:
            source = source_of(consumer.sources, message, delivery)
            if consumer.is_no_local and delivery.batch.publisher == self._client:
                self._skip(consumer, source, delivery)
            else:
                self._send(consumer, source, delivery, wall_ms)
        if consumer.session.is_blocked and not consumer.window.is_shut:
            self._session_blocked(consumer.session)

    def _send(self, consumer: ConsumerLink, source: DeliverySource, delivery: Delivery, wall_ms: int) -> None:
        session, link = consumer.session, consumer.link
        batch = delivery.batch
        payloads, headers = batch.payloads(), batch.headers()
        durable = batch.qos != AT_MOST_ONCE
        tried_count = delivery.delivery_count - 1
        unsettled = self._unsettled.get(session)
        if unsettled is None:
            unsettled = self._unsettled[session] = Unsettled()
        first_id = session.next_delivery_id
        resumable = consumer.resumable
        resumed_count = 0
        first = sequence = delivery.first_sequence
        end = first + delivery.stop_row - delivery.start_row
        for row in range(delivery.start_row, delivery.stop_row):
            if link.credit <= 0:  # the peer has taken credit back meanwhile
                break
            data = write_message(
                payloads[row],
                None if headers is None else headers[row],
                topic=batch.topic_of(row),
                durable=durable,
                delivery_count=tried_count,
                is_first=not delivery.redelivered,
                wall_ms=wall_ms,
            )
            if delivery.annotation:
                data = with_annotations(data, delivery.annotation)
            if delivery.first_of_group:
                data = with_annotations(data, FIRST_OF_GROUP)
            if resumable is None:
                self._sessions.send(session, link, data, 0)
            else:
                resumed_count += self._send_resumable(consumer, resumable, source, sequence, data)
            sequence += 1
        self.sent_count += sequence - first
        if sequence > first and not link.is_settled_by_us:
            unsettled.add(first_id, sequence - first, first, source)
            consumer.unsettled_count += sequence - first - resumed_count
            if resumed_count > 0:
                self._give_back(consumer, resumed_count)  # it held them all the time
        elif sequence > first:
            source.partition.post(settle_from(source, first, sequence, ACCEPTED))
            self._give_back(consumer, sequence - first)
        if sequence < end and resumable is not None and resumable.keeps(source, sequence, end):
            self._give_back(consumer, end - sequence)
        elif sequence < end:
            source.partition.post(settle_from(source, sequence, end, RELEASED))
            self._give_back(consumer, end - sequence)

    def _send_resumable(
        self, consumer: ConsumerLink, resumable: ResumableFlow, source: DeliverySource, sequence: int, data: bytes
    ) -> int:
        """Send a message on a link that can be resumed; return 1 if it resumes a delivery."""
        kept = resumable.take(source.partition_number, sequence)
        tag = resumable.new_tag() if kept is None else kept.tag
        resumes = kept is not None
        resumable.sent(self._sessions.send(consumer.session, consumer.link, data, 0, tag, resumes), tag)
        return 1 if resumes else 0

    def _skip(self, consumer: ConsumerLink, source: DeliverySource, delivery: Delivery) -> None:
        """Accept messages that the link does not want, and return their credit."""
        count = delivery.stop_row - delivery.start_row
        first = delivery.first_sequence
        source.partition.post(settle_from(source, first, first + count, ACCEPTED))
        consumer.has_skipped = True
        self.skipped_count += count
        self._give_back(consumer, count)

    def _give_back(self, consumer: ConsumerLink, count: int) -> None:
        """Return credit to the flow's window. The limit changes only where the link's credit was not used."""
        window = consumer.window
        window.give(count)
        consumer.set_limit()
        self._wake(window)

    def give_back(self, flow_id: int, count: int) -> None:
        """Note that the client has settled deliveries of a flow; a flow that is gone has none."""
        consumer = self.by_flow.get(flow_id)
        if consumer is not None and count > 0:
            consumer.unsettled_count -= count
            self._give_back(consumer, count)

    # --- what the client says ---

    def disposition(self, session: Session, disposition: Disposition) -> None:
        """Settle the deliveries of a disposition. Unknown ids are skipped (2.6.12)."""
        unsettled = self._unsettled.get(session)
        state = disposition.state
        if unsettled is None or (not disposition.settled and (state is None or state.code == outcomes.RECEIVED)):
            return  # progress is no outcome
        for run in self.take(session, disposition.first, disposition.last):
            link = self.link_of(run)
            settlement = settlement_of(link, state)
            if link.is_second and not disposition.settled:
                self._settle_durably(session, run, settlement, state)
                continue
            self.settle(run, settlement)
            if not disposition.settled:
                first, last = wire_ids(run)
                self._sessions.settle(session, link, first, last, state)

    def take(self, session: Session, first: int, last: int) -> list[UnsettledRun]:
        """Forget deliveries, wire ids, both included; return those that were unsettled."""
        unsettled = self._unsettled.get(session)
        runs = [] if unsettled is None else unsettled.take(first, last)
        if self._has_resumable:
            for run in runs:
                resumable = self.by_flow[run.source.flow_id].resumable
                if resumable is not None:
                    resumable.settled(run)
        return runs

    def find(self, session: Session, first: int, last: int) -> list[UnsettledRun]:
        """Return deliveries, wire ids, both included, that are unsettled and stay so."""
        unsettled = self._unsettled.get(session)
        return [] if unsettled is None else unsettled.find(first, last)

    def settle(self, run: UnsettledRun, settlement: Settlement) -> None:
        """Send the settlement of deliveries that the client has forgotten to their queue."""
        self.give_back(run.source.flow_id, run.count)
        settlement.send(run.source, [run.sequences()])

    def link_of(self, run: UnsettledRun) -> OutgoingLink:
        """Return the link on which a run went out: it is there as long as the run is unsettled."""
        return self.by_flow[run.source.flow_id].link

    def _settle_durably(
        self, session: Session, run: UnsettledRun, settlement: Settlement, state: DeliveryState | None
    ) -> None:
        """Send the settlement of deliveries to their queue, and wait until it is stored."""
        self.give_back(run.source.flow_id, run.count)
        consumer = self.by_flow[run.source.flow_id]
        waiting = RunSettlement(self._address, session, consumer.link, run, state, consumer.resumable)
        settlement.send(run.source, [run.sequences()], waiting)

    def stored(self, settlement: "RunSettlement") -> None:
        """Settle deliveries that the client leaves to the broker to settle first: the settlement is stored."""
        self._sessions.settle(settlement.session, settlement.link, settlement.first, settlement.last, settlement.state)


@final
class RunSettlement(DurableSettlement):
    """A run of deliveries that the client settles after the broker (2.8.3): it waits for the store."""

    def __init__(
        self,
        connection: Address,
        session: Session,
        link: OutgoingLink,
        run: UnsettledRun,
        state: DeliveryState | None,
        resumable: ResumableFlow | None,
    ) -> None:
        self._connection = connection
        self._resumable = resumable
        if resumable is not None:
            resumable.stores()
        self.session = session
        self.link = link
        self.first, self.last = wire_ids(run)
        self.state = state

    def decided(self, refusal: PublishFailed | None) -> None:
        """Post this object to the connection, which settles the deliveries."""
        if refusal is not None:
            self.state = RELEASED_STATE  # it is delivered again
        if self._resumable is not None:
            self._resumable.stored()
        self._connection.post(self)


def check_writable(delivery: Delivery, row: int) -> None:
    """Write a row and discard it; raise the error that writing it meets."""
    batch = delivery.batch
    data = write_message(
        batch.payloads()[row],
        batch.headers_of(row),
        topic=batch.topic_of(row),
        durable=batch.qos != AT_MOST_ONCE,
        delivery_count=delivery.delivery_count - 1,
        is_first=not delivery.redelivered,
        wall_ms=0,
    )
    if delivery.annotation:
        with_annotations(data, delivery.annotation)


@final
class Unsettled:
    """The deliveries of one session, over all its links, that are sent and not settled, by their ids on the wire.

    The deliveries themselves are in `messaging.partitions.state.unsettled`, which counts on without wrapping; ids on
    the wire are serial numbers of 32 bits.
    """

    def __init__(self) -> None:
        self._held = UnsettledDeliveries()
        self._next_id = 0  # not wrapped

    def add(self, wire_id: int, count: int, first_sequence: int, source: DeliverySource) -> None:
        """Note deliveries, the next ones sent."""
        first_id = self._unwrapped(wire_id)
        self._next_id = first_id + count
        self._held.add(first_id, count, first_sequence, source)

    def take(self, first: int, last: int) -> list[UnsettledRun]:
        """Remove the deliveries `first` to `last`, wire ids, both included; return those there were."""
        return self._held.take(self._unwrapped(first), self._unwrapped(last) + 1)

    def find(self, first: int, last: int) -> list[UnsettledRun]:
        """Return the deliveries `first` to `last`, wire ids, both included, that there are; they stay."""
        return self._held.peek(self._unwrapped(first), self._unwrapped(last) + 1)

    def take_of(self, flow_id: int) -> list[UnsettledRun]:
        """Remove every delivery of a flow; return them, oldest first."""
        return self._held.take_where(lambda source: source.flow_id == flow_id)

    def _unwrapped(self, wire_id: int) -> int:
        """Return the count behind a wire id: the one nearest to what was sent last."""
        distance = (wire_id - self._next_id) & SERIAL_MASK
        return self._next_id + (distance if distance < _HALF else distance - (1 << 32))


def wire_ids(run: UnsettledRun) -> tuple[int, int]:
    """Return the first and the last delivery id of a run, as they are on the wire."""
    return run.first_id & SERIAL_MASK, (run.first_id + run.count - 1) & SERIAL_MASK
