"""Deliver queue messages and retained messages to one client, and settle them by its acknowledgements.

Direct messages go through `protocols.mqtt.datapath.direct`; a client that gets only these has no `Deliverer`.
Everything here runs once per batch, hardly anything per message.
"""

from collections.abc import Callable
from typing import Final

from mypy_extensions import i64

from sluicegate.actors.messages.data import Deliveries, Settle
from sluicegate.actors.messages.partitions import ReleaseUnsent
from sluicegate.actors.partitions.triggers import wake_waiters
from sluicegate.actors.runtime.clock import Clock
from sluicegate.actors.runtime.events import Events
from sluicegate.actors.runtime.inbox import Dispatcher
from sluicegate.messaging.message.address import Address
from sluicegate.messaging.message.batch import AT_LEAST_ONCE, EXACTLY_ONCE
from sluicegate.messaging.message.outcomes import ACCEPTED, REJECTED, RELEASED
from sluicegate.messaging.message.publication import Publication
from sluicegate.messaging.message.ranges import RangeSet
from sluicegate.messaging.partitions.state.effects import Delivery
from sluicegate.messaging.queues.credit import CreditWindow
from sluicegate.protocols.connection.counters import ProtocolCounters
from sluicegate.protocols.connection.unwritable import report_unwritable
from sluicegate.protocols.mqtt.codec.events import AcknowledgementReceived
from sluicegate.protocols.mqtt.codec.fixed_header import PUBACK, PUBCOMP, PUBREC, PUBREL
from sluicegate.protocols.mqtt.codec.message_properties import delivery_properties
from sluicegate.protocols.mqtt.codec.reason_codes import PACKET_IDENTIFIER_NOT_FOUND
from sluicegate.protocols.mqtt.datapath.direct import send_rows
from sluicegate.protocols.mqtt.datapath.inflight_out import RETAINED_ORIGIN, DeliveryOrigin, InflightOut, InflightRun
from sluicegate.protocols.mqtt.datapath.received_qos2 import ReceivedQos2
from sluicegate.protocols.mqtt.datapath.retained import RetainedOut
from sluicegate.protocols.mqtt.engine.engine import MqttEngine
from sluicegate.protocols.mqtt.engine.publish_run import PublishRun, wall_ms_for
from sluicegate.protocols.mqtt.engine.publish_writer import encode_at_most_once
from sluicegate.protocols.mqtt.session.packet_ids import SentIds
from sluicegate.protocols.mqtt.session.session import ExtraSubscription, Session
from sluicegate.protocols.mqtt.session.subscriptions import qos_of

ERROR_FROM: Final = 0x80  # reason codes from here on refuse


class BoundFlow:
    """A queue flow that a connection is bound to, and how its messages are delivered."""

    __slots__ = ("extra", "ids", "is_named_queue", "latest", "origins", "queue")

    def __init__(
        self, queue: Address, extra: ExtraSubscription | None, ids: SentIds | None, *, is_named_queue: bool
    ) -> None:
        self.queue = queue  # the queue's actor
        self.extra = extra  # None: the session's own queue, where each topic has its own options
        self.ids = ids  # None: of a named queue
        self.is_named_queue = is_named_queue
        self.origins: dict[int, DeliveryOrigin] = {}  # by partition number: that of its present epoch
        self.latest: DeliveryOrigin | None = None  # of these, the one that delivered last: mostly there is one

    def release_unsent(self, flow_id: int, held: list[Deliveries] | None) -> None:
        """Return unsent messages before the flow ends; `held` are deliveries queued behind a request."""
        for origin in self.origins.values():
            origin.release_unsent()
        for message in held or ():
            for delivery in message.deliveries:
                if message.flow.flow_id == flow_id and not delivery.redelivered:
                    first, count = delivery.first_sequence, delivery.stop_row - delivery.start_row
                    message.partition.post(ReleaseUnsent(flow_id, delivery.epoch, [(first, first + count)]))


class Deliverer:
    """Delivers queue and retained messages on one connection, and settles them."""

    def __init__(
        self,
        *,
        engine: MqttEngine,
        level: int,
        session: Session,
        window: CreditWindow[Address],
        dispatcher: Dispatcher,
        before_exactly_once: Callable[[Callable[[], None], Publication | None], None],
        clock: Clock,
        counters: ProtocolCounters,
        later: Callable[[], object],
        address: Address,
        events: Events,
    ) -> None:
        self._counters = counters
        self._events = events
        self._clock = clock
        self.queued: list[Deliveries] | None = None  # deliveries behind the response to a request; None: no request
        self._engine = engine
        self._level = level
        self._session = session
        self._dispatcher = dispatcher
        self._before_exactly_once = before_exactly_once  # runs its argument once the session's ids are safe
        self._received_qos2: ReceivedQos2 | None = None  # until the client has taken a QoS 2 message
        self.window = window
        self.ids = InflightOut(session.not_sent_again)
        self.flows: dict[int, BoundFlow] = {}
        for sent in [session.ids, *[extra.ids for extra in session.shares.values()]]:
            for _, packet_id, count, _ in sent.remembered_runs():
                for step in range(count):
                    self.ids.keep(packet_id + step)
        for first, end in session.released.ranges():
            self.ids.restore_released(first, end)
        window.take(self.ids.released.total)
        self.retained = RetainedOut(
            engine=engine,
            session=session,
            ids=self.ids,
            window=window,
            before_exactly_once=before_exactly_once,
            counters=counters,
            later=later,
            address=address,
        )

    # --- guaranteed messages ---

    def hold(self) -> None:
        """Queue deliveries until `resume`: they follow the response to a request.

        mosquitto_sub leaves with the last message it wants. An answer written to it then resets the connection, and
        acknowledgements that we have not read are lost.
        """
        self.queued = []

    def resume(self) -> None:
        """Send the queued deliveries."""
        queued, self.queued = self.queued, None
        for message in queued or ():
            self.deliver(message)

    def deliver(self, message: Deliveries) -> None:
        """Send the deliveries of a partition on one of this connection's flows."""
        if self.queued is not None:
            self.queued.append(message)
            return
        bound = self.flows.get(message.flow.flow_id)
        if bound is None:
            return  # unbound meanwhile: the partition takes its messages back
        for delivery in message.deliveries:
            origin = bound.latest
            if origin is None or origin.epoch != delivery.epoch or origin.partition is not message.partition:
                origin = bound.latest = self._origin_of(bound, message, delivery.epoch)
            self._deliver(bound, origin, message.partition_number, delivery)

    def _origin_of(self, bound: BoundFlow, message: Deliveries, epoch: int) -> DeliveryOrigin:
        origin = bound.origins.get(message.partition_number)
        if origin is None or origin.epoch != epoch or origin.partition is not message.partition:
            origin = DeliveryOrigin(message.partition, message.flow.flow_id, epoch, bound.ids)
            bound.origins[message.partition_number] = origin
            self._take_over(origin)
        return origin

    def _take_over(self, origin: DeliveryOrigin) -> None:
        """Map messages in flight to a new epoch: the partition's ledger was rebuilt, and delivers them again."""
        ids = origin.ids
        if ids is None:
            return
        in_flight = self.ids.move_to(origin)
        for known in (in_flight, ids.received):
            if known.total > 0:
                origin.known_below = max(origin.known_below, known.end())
        origin.in_flight = in_flight if in_flight.total > 0 else None

    def _deliver(self, bound: BoundFlow, origin: DeliveryOrigin, partition: int, delivery: Delivery) -> None:
        batch, start, stop, publication = delivery.batch, delivery.start_row, delivery.stop_row, delivery.publication
        wall_ms, redelivered = wall_ms_for(batch, self._clock), delivery.redelivered
        table = self._session.table
        if bound.extra is not None:
            options = bound.extra.options()
            properties = None
            if self._level == 5:
                properties = delivery_properties(partition, delivery, is_named_queue=bound.is_named_queue)
            qos = qos_of(batch, options.qos)
            rows = PublishRun(batch, start, stop, qos, options, properties, wall_ms, publication, redelivered)
            self._deliver_rows(origin, delivery.first_sequence, rows)
        elif table.uniform_qos >= 0:
            qos, options = qos_of(batch, table.uniform_qos), table.uniform_options
            rows = PublishRun(batch, start, stop, qos, options, None, wall_ms, publication, redelivered)
            self._deliver_rows(origin, delivery.first_sequence, rows)
        else:
            own = batch.publisher == self._session.client_id
            for first_row, end_row, options in table.runs(batch, start, stop, own=own):
                qos = qos_of(batch, options.qos)
                rows = PublishRun(batch, first_row, end_row, qos, options, None, wall_ms, publication, redelivered)
                self._deliver_rows(origin, delivery.first_sequence + first_row - start, rows)

    def _deliver_rows(self, origin: DeliveryOrigin, first_sequence: i64, rows: PublishRun) -> None:
        """Send rows with the same options, and complete those that were sent before."""
        if first_sequence < origin.known_below:
            self._send_unknown(origin, first_sequence, rows)
        else:
            self._send_rows(origin, first_sequence, rows)

    def _send_unknown(self, origin: DeliveryOrigin, first_sequence: int, rows: PublishRun) -> None:
        """Send the rows that the client has not received and that are not in flight on this connection."""
        ids = origin.ids
        assert ids is not None, "nothing is known of other queues"
        offset = rows.start - first_sequence
        for start, stop in ids.received.within(first_sequence, rows.stop - offset):
            ids.unsettled.discard(start, stop)
            self._settle(origin, start, stop, ACCEPTED)
        for start, stop in ids.received.outside(first_sequence, rows.stop - offset):
            unknown = [(start, stop)]
            if origin.in_flight is not None:
                unknown = origin.in_flight.outside(start, stop)
                self._give_credit(origin.in_flight.count_within(start, stop))  # it was taken when they were sent
            for first, end in unknown:
                self._send_rows(origin, first, rows.part(first + offset, end + offset))

    def _send_rows(self, origin: DeliveryOrigin, first_sequence: i64, rows: PublishRun) -> None:
        start, stop = rows.start, rows.stop
        ids = origin.ids
        if ids is not None and (ids.remembered or first_sequence < ids.maybe_sent_below):
            self._send_again(origin, ids, first_sequence, rows)
            return
        if rows.qos <= 0:
            self._pass_by(origin, first_sequence, rows)
            return
        while start < stop:
            run = self.ids.allocate(stop - start, first_sequence, rows.qos, origin)
            count = run.count
            its = rows if count == rows.stop - rows.start else rows.part(start, start + count)
            if self._waits_for_the_store(origin, rows.qos):
                run.waits = True
                self._send_when_safe(origin, its, run, dup=False)
            else:
                self._send(origin, first_sequence, its, run.first_packet_id, dup=False)
            start += count
            first_sequence += count

    def _pass_by(self, origin: DeliveryOrigin, first_sequence: int, rows: PublishRun) -> None:
        """Send rows at most once, or not at all if no subscription matches (any more), and settle them."""
        if rows.qos == 0:
            self._send(origin, first_sequence, rows, 0, dup=False)
        self._settle(origin, first_sequence, first_sequence + rows.stop - rows.start, ACCEPTED)

    def _send_again(self, origin: DeliveryOrigin, ids: SentIds, first_sequence: int, rows: PublishRun) -> None:
        """Send rows some of which the client had on an earlier connection, or may have had [3.3.1-1] [4.4.0-1].

        Those are completed at the QoS they were sent at [3.10.4-3].
        """
        row = rows.start
        while row < rows.stop:
            packet_id, qos = ids.recall(first_sequence)
            known = self.ids.take(packet_id, first_sequence, qos, origin) if packet_id else None
            run, dup, count = known, known is not None, 1
            if run is None:
                qos = rows.qos
                count = 1 if ids.remembered else rows.stop - row
                # Ids of QoS 2 are always known, so what has none was not sent.
                dup = qos == AT_LEAST_ONCE and first_sequence < ids.maybe_sent_below
                if dup:
                    count = min(count, ids.maybe_sent_below - first_sequence)
                if qos > 0:
                    run = self.ids.allocate(count, first_sequence, qos, origin)
                    count = run.count
            its = rows.part(row, row + count)
            its.qos = qos
            if run is None:
                self._pass_by(origin, first_sequence, its)
            elif self._waits_for_the_store(origin, qos):
                run.waits = known is None
                self._send_when_safe(origin, its, run, dup=dup)
            else:
                self._send(origin, first_sequence, its, run.first_packet_id, dup=dup)
            row += count
            first_sequence += count

    def _waits_for_the_store(self, origin: DeliveryOrigin, qos: i64) -> bool:
        """Return whether rows wait until the store has the ids of those before them, and theirs if QoS 2."""
        return (qos == EXACTLY_ONCE or origin.unsent_count > 0) and self._session.is_durable

    def _send_when_safe(self, origin: DeliveryOrigin, rows: PublishRun, run: InflightRun, *, dup: bool) -> None:
        """Send once the ids are stored.

        Else, after a restart, the messages would be sent again under other ids, or their ids would stand for other
        messages, which the client would take for the same.
        """
        ids, packet_id = origin.ids, run.first_packet_id
        if rows.qos == EXACTLY_ONCE and ids is not None:
            ids.exactly_once.add(run.first_sequence, packet_id, run.count)
        first, end = run.first_sequence, run.first_sequence + run.count
        origin.wait(first, end, given_first=not (dup or rows.redelivered))
        self._before_exactly_once(lambda: self._send_stored(origin, rows, run, packet_id, dup=dup), rows.publication)

    def _send_stored(
        self, origin: DeliveryOrigin, rows: PublishRun, run: InflightRun, packet_id: int, *, dup: bool
    ) -> None:
        """Send rows, unless they would come twice.

        If the store has refused them, their publisher sends them again; if their flow has ended, another consumer gets
        them. The client may have some of them from before: it gets PUBREL for those of QoS 2.
        """
        origin.waited(run.first_sequence, run.first_sequence + run.count)
        is_new, run.waits = run.waits, False
        last = packet_id + rows.stop - rows.start - 1
        if self.ids.run_of(packet_id, last, rows.qos) is not run:
            return  # it was sent on an earlier connection, and is answered
        is_refused = rows.publication is not None and rows.publication.refused
        if origin.flow_id in self.flows and not is_refused:
            self._send(origin, run.first_sequence, rows, packet_id, dup=dup)
        elif is_refused or is_new or rows.qos != EXACTLY_ONCE:
            self._settle_all(self.ids.acknowledge(packet_id, last), RELEASED)
        else:
            self._withdraw(packet_id, last)

    def _send(
        self, origin: DeliveryOrigin, first_sequence: i64, rows: PublishRun, packet_id: i64, *, dup: bool
    ) -> None:
        try:
            skipped = send_rows(self._engine, self._counters, rows, packet_id, dup=dup)
        except Exception:
            self._reject_unwritable(origin, first_sequence, rows)
            raise
        if rows.qos:
            for row in skipped:
                # Larger than the client takes: gone for this client, as if delivered [3.1.2-25].
                its_id = packet_id + row - rows.start
                self._settle_all(self.ids.acknowledge(its_id, its_id), ACCEPTED)

    def _reject_unwritable(self, origin: DeliveryOrigin, first_sequence: int, rows: PublishRun) -> None:
        """Reject those rows that cannot be written (`protocols.connection.unwritable`). Some go out long after they
        came.
        """
        for row in range(rows.start, rows.stop):
            try:
                encode_at_most_once(rows.batch.select([row]), self._level, rows.wall_ms)
            except Exception as error:
                first = first_sequence + row - rows.start
                if origin.ids is not None:
                    origin.ids.answered(first, first + 1)
                origin.partition.post(Settle(origin.flow_id, origin.epoch, first, first + 1, REJECTED))
                report_unwritable(self._events, self._counters, first, error, client=self._session.client_id)

    # --- answers of the client ---

    def acknowledged(self, event: AcknowledgementReceived) -> bool:
        """Take a run of PUBACK, PUBREC or PUBCOMP; return False if it is of the wrong kind for one of its ids.

        Ids that stand for nothing are passed over (section 9.2).
        """
        kind, first, last = event.kind, event.first, event.last
        if kind == PUBCOMP:
            count = self.ids.complete(first, last)
            self._give_credit(count)
            self._session.released.discard(first, last + 1)
            return count > last - first or not self.ids.stands_for_a_message(first, last)
        refuses = event.reason_code >= ERROR_FROM
        qos = AT_LEAST_ONCE if kind == PUBACK else EXACTLY_ONCE
        run = self.ids.run_of(first, last, qos)
        if run is None:
            if self.ids.stands_for_other_qos(first, last, qos):
                return False
            if kind == PUBACK and self.ids.released.count_within(first, last + 1):
                return False
            if kind == PUBREC and not refuses:
                self._released(first, last)
            else:
                self._settle_all(self.ids.acknowledge(first, last), REJECTED if refuses else ACCEPTED)
        elif kind == PUBREC and not refuses:  # the usual case: a run is acknowledged as a whole
            self.ids.release_run(run)
            self._note_received(run)
            self._send_pubrel(first, last)
        else:
            self.ids.acknowledge_run(run)
            outcome = REJECTED if refuses else ACCEPTED
            self._settle(run.origin, run.first_sequence, run.first_sequence + run.count, outcome)
        return True

    def _note_received(self, run: InflightRun) -> None:
        self._session.released.add(run.first_packet_id, run.first_packet_id + run.count)
        self._received_runs().take(run)

    def _released(self, first: int, last: int) -> None:
        """The messages are the client's now; say so with PUBREL once a restart would remember it."""
        count = 0
        for run in self.ids.release(first, last):
            count += run.count
            self._note_received(run)
        if count == last - first + 1:
            self._send_pubrel(first, last)
            return
        for packet_id in range(first, last + 1):  # a repeated PUBREC, or an id that stands for nothing
            if packet_id in self.ids.released or self._level < 5:
                self._send_pubrel(packet_id, packet_id)
            else:
                self._engine.acknowledge(PUBREL, packet_id, packet_id, PACKET_IDENTIFIER_NOT_FOUND)

    def _received_runs(self) -> ReceivedQos2:
        if self._received_qos2 is None:
            self._received_qos2 = ReceivedQos2(
                self._session, before_exactly_once=self._before_exactly_once, settle=self._settle_received
            )
        return self._received_qos2

    def _send_pubrel(self, first: int, last: int) -> None:
        if self._session.is_durable:
            self._before_exactly_once(lambda: self._engine.acknowledge(PUBREL, first, last), None)
        else:
            self._engine.acknowledge(PUBREL, first, last)

    def resend_pubrels(self) -> None:
        """Send PUBREL again for every id that was released on an earlier connection [4.4.0-1]."""
        for first, end in self.ids.released.ranges():
            self._engine.acknowledge(PUBREL, first, end - 1)

    # --- settlement ---

    def _settle_all(self, answered: list[InflightRun], outcome: int) -> None:
        for run in answered:
            self._settle(run.origin, run.first_sequence, run.first_sequence + run.count, outcome)

    def _settle_received(self, run: InflightRun) -> None:
        self._settle(run.origin, run.first_sequence, run.first_sequence + run.count, ACCEPTED, keep_credit=True)

    def _settle(self, origin: DeliveryOrigin, first: i64, end: i64, outcome: i64, *, keep_credit: bool = False) -> None:
        if not keep_credit:
            self._give_credit(end - first)
        if origin is RETAINED_ORIGIN:
            self.retained.settled(first, end)
            return
        ids = origin.ids
        if ids is not None:
            ids.answered(first, end)
            if origin.in_flight is not None:
                origin.in_flight.discard(first, end)
        origin.partition.deliver_now(Settle(origin.flow_id, origin.epoch, first, end, outcome))

    def _give_credit(self, count: i64) -> None:
        """Return credit, and wake those that wait for it: retained messages first, they are older."""
        self.window.give(count)
        if self.retained.waits:
            self.retained.send_slice(self._clock.wall_ms())
        wake_waiters(self.window, self._dispatcher)

    def flow_of(self, extra: ExtraSubscription) -> BoundFlow | None:
        """Return the flow that a subscription has; None while it has none."""
        for bound in self.flows.values():
            if bound.extra is extra:
                return bound
        return None

    def hold_back(self, is_full: bool) -> None:
        """Take no deliveries while the socket is full: what waits in its queue takes memory once, or none."""
        self.window.is_shut = is_full
        if not is_full:
            self._give_credit(0)

    def forget_settled(self, ids: SentIds, unsettled: list[tuple[int, int]]) -> None:
        """Free the packet ids of remembered messages of which there is nothing left, only those of some ranges are.

        The client may have those of QoS 2: it gets PUBREL before another message has the id.
        """
        left = RangeSet()
        for first, end in unsettled:
            left.add(first, end)
        for first, _, count, qos in ids.remembered_runs():
            for start, stop in left.outside(first, first + count):
                for packet_id in [ids.recall(sequence)[0] for sequence in range(start, stop)]:
                    if qos == AT_LEAST_ONCE:
                        self.ids.drop(packet_id)
                    elif self.ids.release_kept(packet_id):
                        self._session.released.add(packet_id, packet_id + 1)
                        self.window.take(1)
                        self._send_pubrel(packet_id, packet_id)

    def _withdraw(self, first: int, last: int) -> None:
        """Have the client forget messages that it may have and that are not sent to it again."""
        for run in self.ids.release(first, last):
            if run.origin.ids is not None:
                run.origin.ids.answered(run.first_sequence, run.first_sequence + run.count)
            self._session.released.add(run.first_packet_id, run.first_packet_id + run.count)
            self._send_pubrel(run.first_packet_id, run.first_packet_id + run.count - 1)

    def disown(self, ids: SentIds) -> None:
        """Send nothing again of a queue: the client's subscription has ended. Before its flow ends."""
        if self._received_qos2 is not None:
            self._received_qos2.settle_of(ids)
        self.forget_settled(ids, [])
        self.ids.disown(ids)

    def remember(self) -> None:
        """Record unacknowledged messages in the session, at the end: they are sent again under the same ids."""
        if self._received_qos2 is not None:
            self._received_qos2.settle_all()  # the directory stores the ids now
            self._received_qos2 = None  # which knows this side: together they would wait for the cycle collector
        session, own = self._session, self._session.ids
        for run in self.ids.unanswered():
            ids, first, is_once = run.origin.ids, run.first_packet_id, run.qos == EXACTLY_ONCE
            if run.origin is RETAINED_ORIGIN:
                continue  # the session records these itself
            if ids is not None:
                ids.answered(run.first_sequence, run.first_sequence + run.count)
            if run.waits:  # nothing was sent under these ids: they are free
                session.not_sent_again.discard(first, first + run.count)
            # Of a shared subscription another member gets it again, but for QoS 2 [4.8.2-4].
            elif ids is not None and (ids is own or is_once):
                ids.remember(run.first_sequence, first, run.count, run.qos)
            elif is_once:
                # A named queue gives it to another consumer. PUBREL makes the client forget the id before it is reused.
                session.released.add(first, first + run.count)
                session.not_sent_again.discard(first, first + run.count)
