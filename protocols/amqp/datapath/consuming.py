"""The way out to one client: deliveries of its flows as transfers, and what the client says of them.

A receiving link is a flow of a queue. Its credit is the flow's window: what the peer grants may be delivered. A
settlement makes no room, for in AMQP only the receiver raises credit; so the window's limit is what the peer holds and
what it may still get. What is on its way from a partition to here is in neither: it uses up credit already.
"""

from typing import TYPE_CHECKING, Final, final

from sluicegate.actors.messages.data import Deliveries, PublishFailed
from sluicegate.actors.messages.directory import QueueHandle
from sluicegate.actors.messages.partitions import DrainFlow, FlowDrained
from sluicegate.actors.messages.queues import FlowState
from sluicegate.actors.messages.router import LeaveGroup
from sluicegate.actors.partitions.triggers import wake_waiters
from sluicegate.actors.runtime.inbox import Dispatcher
from sluicegate.messaging.message.address import Address
from sluicegate.messaging.message.batch import AT_MOST_ONCE
from sluicegate.messaging.message.outcomes import ACCEPTED, RELEASED
from sluicegate.messaging.partitions.state.effects import Delivery
from sluicegate.messaging.partitions.state.unsettled import DeliverySource, UnsettledRun
from sluicegate.messaging.queues.attributes import EXCLUSIVE
from sluicegate.messaging.queues.credit import CreditWindow
from sluicegate.messaging.selectors.selector import Selector
from sluicegate.protocols.amqp.codec import delivery_states as outcomes
from sluicegate.protocols.amqp.codec.delivery_states import RELEASED_STATE, DeliveryState
from sluicegate.protocols.amqp.codec.dispositions import Disposition
from sluicegate.protocols.amqp.datapath.outcomes import Verdict, verdict_of
from sluicegate.protocols.amqp.datapath.receiver_recovery import ResumableFlow
from sluicegate.protocols.amqp.datapath.unsettled import Unsettled, wire_ids
from sluicegate.protocols.amqp.engine.link import ATTACHED, OutgoingLink
from sluicegate.protocols.amqp.engine.session import Session
from sluicegate.protocols.amqp.messages.annotations import FIRST_OF_GROUP, with_notes
from sluicegate.protocols.amqp.messages.encode import write_message
from sluicegate.protocols.amqp.types.values import AmqpMap, AmqpValue, Symbol, uint
from sluicegate.protocols.connection.settling import settle_from, source_of

if TYPE_CHECKING:
    from sluicegate.protocols.amqp.engine.sessions import Sessions

# Properties of the flows that we send to receivers.
ACTIVE: Final = "x-active"
PARTITIONS: Final = "x-partitions"


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
        self.held_count = 0  # messages that the peer has and has not settled
        self.drain_number = 0  # of the last time that the peer wanted its credit back
        self.is_subscription = False  # the queue is that of a subscription to a topic, and goes with its last link
        self.keeps_queue_on_detach = False  # but a detach that does not close the link only suspends it
        self.membership: LeaveGroup | None = None  # of a shared group, whose queue it is; how it ends
        config = queue.definition.config
        self.tells_partitions = config.partitioned()
        self.tells_activity = self.tells_partitions or config.access_type == EXCLUSIVE
        self.selector: Selector | None = None  # of the queue's messages; None: all
        self.is_no_local = False  # what its own container has published is not for it
        self.has_passed_over = False  # messages that were not for it, since the peer wanted its credit back
        self.sources: dict[int, DeliverySource] = {}  # by partition number: that of its last delivery
        self.resumable: ResumableFlow | None = None  # it stays while the client is away; None: it goes with the link
        # Else it is only there to say what became of earlier deliveries (2.7.3).
        self.takes_new = not link.attach.incomplete_unsettled
        self._gate = queue.target.gate

    def set_limit(self) -> None:
        """Let the flow have what the peer's credit allows."""
        self.window.limit = self.held_count + self.link.credit if self.takes_new else 0

    def waiting_count(self) -> int:
        """Return how many messages wait in the queue, or are with other consumers: what is shown as available."""
        return max(0, self._gate.usage_count - self.held_count)

    def __repr__(self) -> str:
        return f"ConsumerLink({self.link!r} of {self.queue_name!r})"


@final
class Consumers:
    """What one client receives, over all its links."""

    def __init__(self, sessions: "Sessions", address: Address, client: str, dispatcher: Dispatcher) -> None:
        self.by_link: dict[OutgoingLink, ConsumerLink] = {}
        self.by_flow: dict[int, ConsumerLink] = {}
        self.sent_count = 0
        self.passed_over_count = 0  # messages that were delivered to links they are not for
        self._address = address  # of the connection
        self._client = client
        self._dispatcher = dispatcher
        self._sessions = sessions
        self._unsettled: dict[Session, Unsettled] = {}
        self._is_shut = False  # the socket takes no more
        self._has_resumable = False  # some link, now or earlier, has a flow that outlives it

    def add(self, consuming: ConsumerLink) -> None:
        """Know a link. Its deliveries may come before the answer to its bind does."""
        self.by_link[consuming.link] = consuming
        self.by_flow[consuming.flow_id] = consuming
        consuming.link.depth = consuming.waiting_count
        consuming.window.is_shut = self._is_shut or consuming.session.is_blocked
        if consuming.resumable is not None:
            self._has_resumable = True

    def remove(self, consuming: ConsumerLink) -> None:
        """Forget a link; what it holds is its queue's again, who is told elsewhere."""
        self._let_go(consuming)
        consuming.window.close()
        if consuming.resumable is not None:
            consuming.resumable.is_bound = False

    def suspend(self, consuming: ConsumerLink, flow: ResumableFlow, now_ms: int) -> None:
        """Forget a link whose flow waits for the client, with what it holds."""
        flow.drain_number = consuming.drain_number
        flow.detached(self._let_go(consuming), now_ms)

    def _let_go(self, consuming: ConsumerLink) -> list[UnsettledRun]:
        self.by_link.pop(consuming.link, None)
        self.by_flow.pop(consuming.flow_id, None)
        consuming.link.depth = None
        unsettled = self._unsettled.get(consuming.session)
        runs = [] if unsettled is None else unsettled.take_of(consuming.flow_id)
        consuming.link.taken_back = [wire_ids(run) for run in runs]
        return runs

    def forget_session(self, session: Session) -> None:
        """Forget a session that has no links any more."""
        self._unsettled.pop(session, None)

    # --- credit ---

    def credit(self, consuming: ConsumerLink) -> None:
        """Take over the credit that the peer grants, and have the flow drained if it wants what is left of it back."""
        consuming.set_limit()
        self._wake(consuming.window)
        if consuming.link.drain:
            consuming.drain_number += 1
            consuming.queue.inbox.post(DrainFlow(consuming.flow_id, consuming.drain_number))

    def drained(self, message: FlowDrained) -> None:
        """Give credit back: the flow has what there was for it. Not if the peer has said something else since."""
        consuming = self.by_flow.get(message.flow_id)
        if consuming is None or not consuming.link.drain or message.number != consuming.drain_number:
            return
        if consuming.has_passed_over:  # it could have had others instead
            consuming.has_passed_over = False
            self.credit(consuming)
            return
        self._sessions.drained(consuming.session, consuming.link)
        consuming.set_limit()

    def hold_back(self, is_full: bool) -> None:
        """Take no deliveries while the socket is full."""
        self._is_shut = is_full
        for consuming in list(self.by_link.values()):
            self._look_at(consuming)

    def window_opened(self, session: Session) -> None:
        """Take deliveries again for the links of a session that was blocked."""
        for consuming in list(self.by_link.values()):
            if consuming.session is session:
                self._look_at(consuming)

    def _look_at(self, consuming: ConsumerLink) -> None:
        """Take no deliveries for a link while the socket takes no more, or its session's window."""
        consuming.window.is_shut = self._is_shut or consuming.session.is_blocked
        if not consuming.window.is_shut:
            self._wake(consuming.window)

    def _session_blocked(self, session: Session) -> None:
        for consuming in self.by_link.values():
            if consuming.session is session:
                consuming.window.is_shut = True

    def _wake(self, window: CreditWindow[Address]) -> None:
        wake_waiters(window, self._dispatcher)

    def assigned(self, message: FlowState) -> None:
        """Tell the peer whether its flow gets messages, and of which partitions, where that is not always so."""
        consuming = self.by_flow.get(message.flow_id)
        if consuming is None or not consuming.tells_activity or consuming.is_subscription:
            return
        about: list[tuple[AmqpValue, AmqpValue]] = [(Symbol(ACTIVE), message.active)]
        if consuming.tells_partitions:
            about.append((Symbol(PARTITIONS), [uint(each) for each in message.partitions]))
        self._sessions.tell(consuming.session, consuming.link, AmqpMap(about))

    # --- deliveries ---

    def deliver(self, message: Deliveries, wall_ms: int) -> None:
        """Send what a partition delivers."""
        consuming = self.by_flow.get(message.flow.flow_id)
        if consuming is None or consuming.link.state != ATTACHED:
            address = message.flow.address
            if isinstance(address, ResumableFlow):
                address.turn_back(message)
            return  # else it is unbound meanwhile: the partition has them back
        for delivery in message.deliveries:
            source = source_of(consuming.sources, message, delivery)
            if consuming.is_no_local and delivery.batch.publisher == self._client:
                self._pass_over(consuming, source, delivery)
            else:
                self._send(consuming, source, delivery, wall_ms)
        if consuming.session.is_blocked and not consuming.window.is_shut:
            self._session_blocked(consuming.session)

    def _send(self, consuming: ConsumerLink, source: DeliverySource, delivery: Delivery, wall_ms: int) -> None:
        session, link = consuming.session, consuming.link
        batch = delivery.batch
        payloads, headers = batch.payloads(), batch.headers()
        durable = batch.qos != AT_MOST_ONCE
        tried_count = delivery.delivery_count - 1
        unsettled = self._unsettled.get(session)
        if unsettled is None:
            unsettled = self._unsettled[session] = Unsettled()
        first_id = session.next_delivery_id
        resumable = consuming.resumable
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
                data = with_notes(data, delivery.annotation)
            if delivery.first_of_group:
                data = with_notes(data, FIRST_OF_GROUP)
            if resumable is None:
                self._sessions.send(session, link, data, 0)
            else:
                resumed_count += self._send_resumable(consuming, resumable, source, sequence, data)
            sequence += 1
        self.sent_count += sequence - first
        if sequence > first and not link.is_settled_by_us:
            unsettled.add(first_id, sequence - first, first, source)
            consuming.held_count += sequence - first - resumed_count
            if resumed_count > 0:
                self._give_back(consuming, resumed_count)  # it held them all the time
        elif sequence > first:
            source.partition.post(settle_from(source, first, sequence, ACCEPTED))
            self._give_back(consuming, sequence - first)
        if sequence < end and resumable is not None and resumable.keeps(source, sequence, end):
            self._give_back(consuming, end - sequence)
        elif sequence < end:
            source.partition.post(settle_from(source, sequence, end, RELEASED))
            self._give_back(consuming, end - sequence)

    def _send_resumable(
        self, consuming: ConsumerLink, resumable: ResumableFlow, source: DeliverySource, sequence: int, data: bytes
    ) -> int:
        """Send a message on a link that may come back; return 1 if it is a delivery that has come back with it."""
        kept = resumable.take(source.partition_number, sequence)
        tag = resumable.new_tag() if kept is None else kept.tag
        resumes = kept is not None
        resumable.sent(self._sessions.send(consuming.session, consuming.link, data, 0, tag, resumes), tag)
        return 1 if resumes else 0

    def _pass_over(self, consuming: ConsumerLink, source: DeliverySource, delivery: Delivery) -> None:
        """Settle what is not for the link; its credit goes on."""
        count = delivery.stop_row - delivery.start_row
        first = delivery.first_sequence
        source.partition.post(settle_from(source, first, first + count, ACCEPTED))
        consuming.has_passed_over = True
        self.passed_over_count += count
        self._give_back(consuming, count)

    def _give_back(self, consuming: ConsumerLink, count: int) -> None:
        """Note that the flow holds less. How much it may get changes with that only where its credit was not used."""
        window = consuming.window
        window.give(count)
        consuming.set_limit()
        self._wake(window)

    def give_back(self, flow_id: int, count: int) -> None:
        """Note that the client holds less of what a flow brought; one that is gone held nothing any more."""
        consuming = self.by_flow.get(flow_id)
        if consuming is not None and count > 0:
            consuming.held_count -= count
            self._give_back(consuming, count)

    # --- what the client says ---

    def disposition(self, session: Session, disposition: Disposition) -> None:
        """Settle what the client speaks of. Ids that stand for nothing are passed over (2.6.12)."""
        unsettled = self._unsettled.get(session)
        state = disposition.state
        if unsettled is None or (not disposition.settled and (state is None or state.code == outcomes.RECEIVED)):
            return  # progress is no outcome
        for run in self.take(session, disposition.first, disposition.last):
            link = self.link_of(run)
            verdict = verdict_of(link, state)
            if link.is_second and not disposition.settled:
                self._settle_durably(session, run, verdict, state)
                continue
            self.settle(run, verdict)
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

    def settle(self, run: UnsettledRun, verdict: Verdict) -> None:
        """Tell a queue what became of deliveries that the client has no more."""
        self.give_back(run.source.flow_id, run.count)
        verdict.tell(run.source, [run.sequences()])

    def link_of(self, run: UnsettledRun) -> OutgoingLink:
        """Return the link on which a run went out: it is there as long as the run is unsettled."""
        return self.by_flow[run.source.flow_id].link

    def _settle_durably(
        self, session: Session, run: UnsettledRun, verdict: Verdict, state: DeliveryState | None
    ) -> None:
        """Tell a queue what became of deliveries, and have it say when the store knows."""
        self.give_back(run.source.flow_id, run.count)
        consuming = self.by_flow[run.source.flow_id]
        settlement = DurableSettlement(self._address, session, consuming.link, run, state, consuming.resumable)
        verdict.tell(run.source, [run.sequences()], settlement)

    def stored(self, settlement: "DurableSettlement") -> None:
        """Settle what the client spoke of and left to us to settle first: the store knows."""
        self._sessions.settle(settlement.session, settlement.link, settlement.first, settlement.last, settlement.state)


@final
class DurableSettlement(Address):
    """A run of deliveries that the client settles after us (2.8.3): it waits for the store, and then comes back."""

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

    def post(self, message: object) -> None:
        """Take the partition's refusal, or the word that the store has it."""
        if isinstance(message, PublishFailed):
            self.state = RELEASED_STATE  # it is delivered to somebody again
        if self._resumable is not None:
            self._resumable.stored()
        self._connection.post(self)


def check_writable(delivery: Delivery, row: int) -> None:
    """Write a row for nobody; raise what writing it fails over."""
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
        with_notes(data, delivery.annotation)
