"""The way out to one client: deliveries of its flows as transfers, and what the client says of them.

A receiving link is a flow of a queue. Its credit is the flow's window: what the peer grants may be delivered. A
settlement makes no room, for in AMQP only the receiver raises credit; so the window's limit falls with what it holds.
"""

from typing import TYPE_CHECKING, Final, final

from actors.cell import ActorCell
from actors.data_messages import WAKE, Deliveries, Settle
from messaging.address import Address
from messaging.batch import AT_MOST_ONCE
from messaging.credit import CreditWindow
from messaging.effects import Delivery
from messaging.settlement import ACCEPTED, FAILED, REJECTED, RELEASED
from protocols.amqp import outcomes
from protocols.amqp.dispositions import Disposition
from protocols.amqp.link import ATTACHED, OutgoingLink
from protocols.amqp.message_out import write_message
from protocols.amqp.outcomes import DeliveryState
from protocols.amqp.session import Session
from protocols.amqp.unsettled import DeliverySource, Unsettled, UnsettledRun

if TYPE_CHECKING:
    from protocols.amqp.sessions import Sessions

NO_OUTCOME: Final = -1


@final
class ConsumingLink:
    """A link on which the client receives from a queue."""

    def __init__(
        self,
        session: Session,
        link: OutgoingLink,
        flow_id: int,
        queue: ActorCell,
        queue_name: str,
        window: CreditWindow[Address],
    ) -> None:
        self.session = session
        self.link = link
        self.flow_id = flow_id
        self.queue = queue  # the queue's actor
        self.queue_name = queue_name
        self.window = window
        self.deletes_queue = False  # the queue is the link's own, and goes when the link is closed
        self.keeps_queue_on_detach = False  # a durable subscription: a detach that does not close only suspends it
        self.sources: dict[tuple[int, int], DeliverySource] = {}  # by partition number and epoch

    def __repr__(self) -> str:
        return f"ConsumingLink({self.link!r} of {self.queue_name!r})"


@final
class ConsumingSide:
    """What one client receives, over all its links."""

    def __init__(self, sessions: "Sessions") -> None:
        self.by_link: dict[OutgoingLink, ConsumingLink] = {}
        self.by_flow: dict[int, ConsumingLink] = {}
        self.sent_count = 0
        self._sessions = sessions
        self._unsettled: dict[Session, Unsettled] = {}
        self._is_shut = False  # the socket takes no more

    def add(self, consuming: ConsumingLink) -> None:
        """Know a link. Its deliveries may come before the answer to its bind does."""
        self.by_link[consuming.link] = consuming
        self.by_flow[consuming.flow_id] = consuming
        consuming.window.is_shut = self._is_shut

    def remove(self, consuming: ConsumingLink) -> None:
        """Forget a link; what it holds is its queue's again, who is told elsewhere."""
        self.by_link.pop(consuming.link, None)
        self.by_flow.pop(consuming.flow_id, None)
        unsettled = self._unsettled.get(consuming.session)
        if unsettled is not None:
            unsettled.take_of(consuming.link)
        consuming.window.close()
        self._wake(consuming.window)

    def forget_session(self, session: Session) -> None:
        """Forget a session that has no links any more."""
        self._unsettled.pop(session, None)

    # --- credit ---

    def credit(self, consuming: ConsumingLink) -> None:
        """Take over the credit that the peer grants."""
        window = consuming.window
        window.limit = window.used + consuming.link.credit
        self._wake(window)

    def hold_back(self, is_full: bool) -> None:
        """Take no deliveries while the socket is full."""
        self._is_shut = is_full
        for consuming in list(self.by_link.values()):
            consuming.window.is_shut = is_full
            if not is_full:
                self._wake(consuming.window)

    def _wake(self, window: CreditWindow[Address]) -> None:
        for waiter in window.next_waiters():
            waiter.post(WAKE)

    # --- deliveries ---

    def deliver(self, message: Deliveries, wall_ms: int) -> None:
        """Send what a partition delivers."""
        consuming = self.by_flow.get(message.flow.flow_id)
        if consuming is None or consuming.link.state != ATTACHED:
            return  # unbound meanwhile: the partition has them back
        for delivery in message.deliveries:
            source = self._source(consuming, message, delivery.epoch)
            self._send(consuming, source, delivery, wall_ms)

    def _source(self, consuming: ConsumingLink, message: Deliveries, epoch: int) -> DeliverySource:
        key = (message.partition_number, epoch)
        source = consuming.sources.get(key)
        if source is None:
            source = DeliverySource(message.partition, consuming.flow_id, epoch, consuming.link)
            consuming.sources = {
                each: its for each, its in consuming.sources.items() if each[0] != message.partition_number
            }
            consuming.sources[key] = source
        return source

    def _send(self, consuming: ConsumingLink, source: DeliverySource, delivery: Delivery, wall_ms: int) -> None:
        session, link = consuming.session, consuming.link
        batch = delivery.batch
        payloads, headers = batch.payloads(), batch.headers()
        durable = batch.qos != AT_MOST_ONCE
        tried_count = delivery.delivery_count - 1
        unsettled = self._unsettled.get(session)
        if unsettled is None:
            unsettled = self._unsettled[session] = Unsettled()
        sequence = delivery.first_sequence
        for row in range(delivery.start_row, delivery.stop_row):
            if link.credit <= 0:  # the peer has taken credit back meanwhile
                end = delivery.first_sequence + delivery.stop_row - delivery.start_row
                source.partition.post(Settle(source.flow_id, source.epoch, [(sequence, end)], RELEASED))
                self._give_back(consuming, end - sequence)
                break
            data = write_message(
                payloads[row],
                None if headers is None else headers[row],
                topic=batch.topic_of(row),
                durable=durable,
                delivery_count=tried_count,
                wall_ms=wall_ms,
            )
            delivery_id = self._sessions.send(session, link, data, 0)
            if not link.is_settled_by_us:
                unsettled.add(delivery_id, sequence, source)
            sequence += 1
        self.sent_count += sequence - delivery.first_sequence
        if link.is_settled_by_us and sequence > delivery.first_sequence:
            ranges = [(delivery.first_sequence, sequence)]
            source.partition.post(Settle(source.flow_id, source.epoch, ranges, ACCEPTED))
            self._give_back(consuming, sequence - delivery.first_sequence)

    def _give_back(self, consuming: ConsumingLink, count: int) -> None:
        """Note that the client holds less; how much it may get does not change with that."""
        window = consuming.window
        window.give(count)
        window.limit -= count
        self._wake(window)  # consumers of other clients that wait for the node's maximum

    def give_back(self, link: OutgoingLink, count: int) -> None:
        """Note that the client holds less of what a link brought; a link that is gone held nothing any more."""
        consuming = self.by_link.get(link)
        if consuming is not None and count > 0:
            self._give_back(consuming, count)

    # --- what the client says ---

    def disposition(self, session: Session, disposition: Disposition) -> None:
        """Settle what the client speaks of. Ids that stand for nothing are passed over (2.6.12)."""
        unsettled = self._unsettled.get(session)
        state = disposition.state
        if unsettled is None or (not disposition.settled and (state is None or state.code == outcomes.RECEIVED)):
            return  # progress is no outcome
        for run in unsettled.take(disposition.first, disposition.last):
            self.settle(run, outcome_of(run.source.link, state))
        if not disposition.settled:
            self._sessions.settle(session, disposition.first, disposition.last, state, is_receiver=False)

    def take(self, session: Session, first: int, last: int) -> list[UnsettledRun]:
        """Forget deliveries, wire ids, both included; return those that were unsettled."""
        unsettled = self._unsettled.get(session)
        return [] if unsettled is None else unsettled.take(first, last)

    def find(self, session: Session, first: int, last: int) -> list[UnsettledRun]:
        """Return deliveries, wire ids, both included, that are unsettled and stay so."""
        unsettled = self._unsettled.get(session)
        return [] if unsettled is None else unsettled.find(first, last)

    def settle(self, run: UnsettledRun, outcome: int) -> None:
        """Tell a queue the outcome of deliveries that the client has no more."""
        source = run.source
        self.give_back(source.link, run.count)
        ranges = [(run.first_sequence, run.first_sequence + run.count)]
        source.partition.post(Settle(source.flow_id, source.epoch, ranges, outcome))


def outcome_of(link: OutgoingLink, state: DeliveryState | None) -> int:
    """Return what an AMQP outcome (3.4) means to a queue.

    Settled without one: what the link said of that, or given back untouched.
    """
    if state is None:
        terminus = link.attach.source
        state = None if terminus is None else terminus.default_outcome
    if state is None:
        return RELEASED
    if state.code == outcomes.ACCEPTED:
        return ACCEPTED
    if state.code == outcomes.REJECTED:
        return REJECTED
    if state.code == outcomes.MODIFIED:
        if state.undeliverable_here:  # nobody remembers for whom: it is dead
            return REJECTED
        return FAILED if state.delivery_failed else RELEASED
    return RELEASED
