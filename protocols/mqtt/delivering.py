"""The way out to one client: direct batches, deliveries of its flows, and what the client answers.

Everything here runs for each batch, most of it for no single message.
"""

from collections import deque
from collections.abc import Callable
from typing import Final

from actors.data_messages import WAKE, Deliveries, Settle, SharedDirect
from actors.messages import UnbindFlow
from messaging.address import Address
from messaging.batch import AT_LEAST_ONCE, EXACTLY_ONCE, MessageBatch
from messaging.credit import CreditWindow
from messaging.effects import Delivery
from messaging.settlement import ACCEPTED, REJECTED
from protocols.mqtt.engine import MqttEngine
from protocols.mqtt.events import AcknowledgementReceived
from protocols.mqtt.first_bytes import PUBACK, PUBCOMP, PUBREC, PUBREL
from protocols.mqtt.granted import NOT_WANTED, DeliveryOptions, GrantedSubscription
from protocols.mqtt.outbound import RETAINED_SOURCE, Acknowledged, DeliverySource, OutboundIds
from protocols.mqtt.publish_writer import encode_at_most_once
from protocols.mqtt.reason_codes import PACKET_IDENTIFIER_NOT_FOUND
from protocols.mqtt.session import ExtraSubscription, RetainedSent, Session

ERROR_FROM: Final = 0x80  # reason codes from here on refuse
PROPERTY_PARTITION: Final = "sluicegate-partition"
PROPERTY_REDELIVERED: Final = "sluicegate-redelivered"
PROPERTY_DELIVERY_COUNT: Final = "sluicegate-delivery-count"


class BoundFlow:
    """A flow of this connection and what its messages are delivered as."""

    __slots__ = ("extra", "is_named_queue", "queue", "sources")

    def __init__(self, queue: Address, extra: ExtraSubscription | None, *, is_named_queue: bool) -> None:
        self.queue = queue  # the queue's actor
        self.extra = extra  # None: the session's own queue, where each topic has its own options
        self.is_named_queue = is_named_queue
        self.sources: dict[tuple[int, int], DeliverySource] = {}  # by partition number and epoch


class DeliveringSide:
    """What one connection sends, and how its client settles it."""

    def __init__(
        self,
        *,
        engine: MqttEngine,
        level: int,
        session: Session,
        window: CreditWindow[Address],
        before_exactly_once: Callable[[Callable[[], None]], None],
        wall_ms: Callable[[], int],
        too_large: Callable[[int], None],
    ) -> None:
        self._too_large = too_large  # hears how many messages this client cannot take
        self._wall_ms = wall_ms
        self._held: list[Deliveries] | None = None
        self._retained_line: deque[tuple[MessageBatch, int, int]] = deque()  # batch, QoS, identifier
        self._retained_number = max(session.retained_sent, default=0)
        self._engine = engine
        self._level = level
        self._session = session
        self._before_exactly_once = before_exactly_once  # runs its argument once the session's QoS 2 state is safe
        self.window = window
        self.ids = OutboundIds()
        self.flows: dict[int, BoundFlow] = {}
        self.sent_exactly_once: dict[int, int] = {}  # sequence -> id, of the session's queue; for the QoS 2 row
        for packet_id in session.remembered.values():
            self.ids.keep(packet_id)
        for first, end in session.released.ranges():
            self.ids.restore_released(first, end)
        window.take(self.ids.released.total)

    # --- direct messages ---

    def direct(self, batch: MessageBatch, wall_ms: int) -> None:
        """Send a batch at most once."""
        table = self._session.table
        if table.uniform_qos >= 0 and not self._engine.restricts_output:
            self._engine.publish_direct(encode_at_most_once(batch, self._level, wall_ms))
            return
        own = batch.publisher == self._session.client_id
        for start, stop, options in self._runs(batch, 0, batch.count, own):
            if options is not NOT_WANTED:
                self._send(batch, start, stop, 0, 0, options, False, None, wall_ms)

    def shared_direct(self, message: SharedDirect, wall_ms: int) -> None:
        """Send a batch that this client got as a member of a shared group."""
        text = f"$share/{message.group.name}/{message.group.filter_text}"
        extra = self._session.shares.get(text)
        if extra is None:
            return  # it has left the group meanwhile
        batch = message.batch
        self._send(batch, 0, batch.count, 0, 0, _options_of(extra), False, None, wall_ms)

    # --- guaranteed messages ---

    def hold(self) -> None:
        """Keep what is delivered until `go_on`: it comes behind the answer to a request.

        mosquitto_sub leaves with the last message it wants. An answer written to it then resets the connection, and
        acknowledgements that we have not read are lost.
        """
        self._held = []

    def go_on(self) -> int:
        """Send what was kept; return how many messages."""
        held, self._held = self._held, None
        return 0 if held is None else sum([self.deliver(message) for message in held])

    def deliver(self, message: Deliveries) -> int:
        """Send what a partition delivered on one of this connection's flows; return how many messages."""
        if self._held is not None:
            self._held.append(message)
            return 0
        bound = self.flows.get(message.flow.flow_id)
        if bound is None:
            return 0  # unbound meanwhile: the partition takes its messages back
        count = 0
        for delivery in message.deliveries:
            key = (message.partition_number, delivery.epoch)
            source = bound.sources.get(key)
            if source is None:
                source = bound.sources[key] = DeliverySource(
                    message.partition, message.flow.flow_id, delivery.epoch, is_session_queue=bound.extra is None
                )
            # Without headers nothing expires, and the time is not asked for.
            wall_ms = 0 if delivery.batch.headers() is None else self._wall_ms()
            self._deliver(bound, source, message.partition_number, delivery, wall_ms)
            count += delivery.stop_row - delivery.start_row
        return count

    def _deliver(
        self, bound: BoundFlow, source: DeliverySource, partition: int, delivery: Delivery, wall_ms: int
    ) -> None:
        batch = delivery.batch
        properties: list[tuple[str, str]] | None = None
        if bound.extra is not None:
            options = _options_of(bound.extra)
            if bound.is_named_queue and self._level == 5:
                properties = _queue_properties(partition, delivery)
            runs = [(delivery.start_row, delivery.stop_row, options)]
        else:
            table = self._session.table
            if table.uniform_qos >= 0:
                runs = [(delivery.start_row, delivery.stop_row, DeliveryOptions(table.uniform_qos, False, None))]
            else:
                own = batch.publisher == self._session.client_id
                runs = self._runs(batch, delivery.start_row, delivery.stop_row, own)
        for start, stop, options in runs:
            first_sequence = delivery.first_sequence + start - delivery.start_row
            if options is NOT_WANTED:
                self._settle(source, first_sequence, first_sequence + stop - start, ACCEPTED)
                continue
            # What a queue promoted from direct is guaranteed from there on.
            qos = min(max(batch.qos, 1), options.qos)
            if qos == 0:
                self._send(batch, start, stop, 0, 0, options, False, properties, wall_ms)
                self._settle(source, first_sequence, first_sequence + stop - start, ACCEPTED)
            else:
                self._send_guaranteed(source, batch, start, stop, first_sequence, qos, options, properties, wall_ms)

    def _send_guaranteed(
        self,
        source: DeliverySource,
        batch: MessageBatch,
        start: int,
        stop: int,
        first_sequence: int,
        qos: int,
        options: DeliveryOptions,
        properties: list[tuple[str, str]] | None,
        wall_ms: int,
    ) -> None:
        remembered = self._session.remembered
        if remembered and source.is_session_queue:
            while start < stop:
                packet_id = remembered.pop(first_sequence, 0)
                if packet_id == 0 or not self.ids.take(packet_id, first_sequence, qos, source):
                    break
                self._send_when_safe(
                    source, batch, start, start + 1, first_sequence, qos, packet_id, options, True, properties, wall_ms
                )
                start += 1
                first_sequence += 1
        while start < stop:
            run = self.ids.allocate(stop - start, first_sequence, qos, source)
            count = run.count
            self._send_when_safe(
                source,
                batch,
                start,
                start + count,
                first_sequence,
                qos,
                run.first_packet_id,
                options,
                False,
                properties,
                wall_ms,
            )
            start += count
            first_sequence += count

    def _send_when_safe(
        self,
        source: DeliverySource,
        batch: MessageBatch,
        start: int,
        stop: int,
        first_sequence: int,
        qos: int,
        packet_id: int,
        options: DeliveryOptions,
        dup: bool,
        properties: list[tuple[str, str]] | None,
        wall_ms: int,
    ) -> None:
        if qos == EXACTLY_ONCE and self._session.is_durable and source.is_session_queue:
            # The id must be known after a restart, or the message would come again under another one.
            for step in range(stop - start):
                self.sent_exactly_once[first_sequence + step] = packet_id + step
            self._before_exactly_once(
                lambda: self._send(batch, start, stop, qos, packet_id, options, dup, properties, wall_ms)
            )
        else:
            self._send(batch, start, stop, qos, packet_id, options, dup, properties, wall_ms)

    def _send(
        self,
        batch: MessageBatch,
        start: int,
        stop: int,
        qos: int,
        packet_id: int,
        options: DeliveryOptions,
        dup: bool,
        properties: list[tuple[str, str]] | None,
        wall_ms: int,
    ) -> None:
        skipped = self._engine.publish(
            batch,
            start,
            stop,
            qos=qos,
            first_packet_id=packet_id,
            dup=dup,
            retain=batch.retain and options.retain_as_published,
            subscription_identifiers=options.identifiers,
            extra_user_properties=properties,
            wall_ms=wall_ms,
        )
        if skipped:
            self._too_large(len(skipped))
        if qos:
            for row in skipped:
                # Larger than the client takes: gone for this client, as if delivered [3.1.2-25].
                its_id = packet_id + row - start
                self._settle_all(self.ids.acknowledge(its_id, its_id), ACCEPTED)

    def _runs(self, batch: MessageBatch, start: int, stop: int, own: bool) -> list[tuple[int, int, DeliveryOptions]]:
        """Cut rows into runs of equal options."""
        table = self._session.table
        if batch.topics is None:
            return [(start, stop, table.options(batch.topic, own=own))]
        runs: list[tuple[int, int, DeliveryOptions]] = []
        first = start
        options = table.options(batch.topic_of(start), own=own)
        for row in range(start + 1, stop):
            its = table.options(batch.topic_of(row), own=own)
            if its != options:
                runs.append((first, row, options))
                first = row
                options = its
        runs.append((first, stop, options))
        return runs

    # --- retained messages of a new subscription ---

    def retained(self, batch: MessageBatch, granted: GrantedSubscription, wall_ms: int) -> None:
        """Send a retained message because of a subscription, with RETAIN set [3.3.1-8]."""
        qos = min(batch.qos, granted.qos)
        if qos == 0:
            self._send_retained(batch, 0, 0, granted.identifier, False, wall_ms)
        else:
            self._retained_line.append((batch, qos, granted.identifier))
            self._retained_on_credit(wall_ms)

    def resend_retained(self, wall_ms: int) -> None:
        """Send again, under their ids, those that an earlier connection did not answer for."""
        for number, sent in self._session.retained_sent.items():
            self.ids.keep(sent.packet_id)
            self.ids.take(sent.packet_id, number, sent.qos, RETAINED_SOURCE)
            self.window.take(1)
            self._send_retained(sent.batch, sent.qos, sent.packet_id, sent.identifier, True, wall_ms)

    def _retained_on_credit(self, wall_ms: int) -> None:
        line = self._retained_line
        while line and self.window.available():
            batch, qos, identifier = line.popleft()
            self.window.take(1)
            self._retained_number += 1
            run = self.ids.allocate(1, self._retained_number, qos, RETAINED_SOURCE)
            sent = RetainedSent(run.first_packet_id, batch, qos, identifier)
            self._session.retained_sent[self._retained_number] = sent
            self._send_retained(batch, qos, run.first_packet_id, identifier, False, wall_ms)

    def _send_retained(
        self, batch: MessageBatch, qos: int, packet_id: int, identifier: int, dup: bool, wall_ms: int
    ) -> None:
        # What is retained was published with RETAIN, so it goes out with it [3.3.1-8].
        options = DeliveryOptions(qos, True, [identifier] if identifier else None)
        self._send(batch, 0, 1, qos, packet_id, options, dup, None, wall_ms)

    # --- answers of the client ---

    def acknowledged(self, event: AcknowledgementReceived) -> None:
        """Take a run of PUBACK, PUBREC or PUBCOMP. Ids that stand for nothing are passed over (section 9.2)."""
        kind, first, last, reason_code = event.kind, event.first, event.last, event.reason_code
        if kind == PUBACK:
            self._settle_all(self.ids.acknowledge(first, last), REJECTED if reason_code >= ERROR_FROM else ACCEPTED)
        elif kind == PUBREC and reason_code >= ERROR_FROM:
            self._settle_all(self.ids.acknowledge(first, last), REJECTED)
        elif kind == PUBREC:
            self._released(first, last)
        elif kind == PUBCOMP:
            self._give_credit(self.ids.complete(first, last))
            self._session.released.remove(first, last + 1)

    def wrong_kind(self, event: AcknowledgementReceived) -> bool:
        """Return whether a PUBACK answers a QoS 2 message, or a PUBREC a QoS 1 message: a protocol error."""
        if event.kind not in (PUBACK, PUBREC):
            return False
        qos = EXACTLY_ONCE if event.kind == PUBREC else AT_LEAST_ONCE
        return self.ids.stands_for_other_qos(event.first, event.last, qos)

    def _released(self, first: int, last: int) -> None:
        """The messages are the client's now; say so with PUBREL once a restart would remember it."""
        count = 0
        for each in self.ids.release(first, last):
            count += each.end - each.first
            if each.source.is_session_queue:
                for sequence in range(each.first, each.end):
                    self.sent_exactly_once.pop(sequence, None)
            self._settle(each.source, each.first, each.end, ACCEPTED, keep_credit=True)
            self._session.released.add(each.first_packet_id, each.first_packet_id + each.end - each.first)
        if count == last - first + 1:
            self._say_released(first, last)
            return
        for packet_id in range(first, last + 1):  # a repeated PUBREC, or an id that stands for nothing
            if packet_id in self.ids.released or self._level < 5:
                self._say_released(packet_id, packet_id)
            else:
                self._engine.acknowledge(PUBREL, packet_id, packet_id, PACKET_IDENTIFIER_NOT_FOUND)

    def _say_released(self, first: int, last: int) -> None:
        if self._session.is_durable:
            self._before_exactly_once(lambda: self._engine.acknowledge(PUBREL, first, last))
        else:
            self._engine.acknowledge(PUBREL, first, last)

    def resend_releases(self) -> None:
        """Send PUBREL again for every id that was released on an earlier connection [4.4.0-1]."""
        for first, end in self.ids.released.ranges():
            self._engine.acknowledge(PUBREL, first, end - 1)

    # --- settlement ---

    def _settle_all(self, answered: list[Acknowledged], outcome: int) -> None:
        for each in answered:
            if each.source.is_session_queue and self.sent_exactly_once:
                for sequence in range(each.first, each.end):
                    self.sent_exactly_once.pop(sequence, None)
            self._settle(each.source, each.first, each.end, outcome)

    def _settle(self, source: DeliverySource, first: int, end: int, outcome: int, *, keep_credit: bool = False) -> None:
        if not keep_credit:
            self._give_credit(end - first)
        if source is RETAINED_SOURCE:
            for number in range(first, end):
                self._session.retained_sent.pop(number, None)
            return
        source.partition.post(Settle(source.flow_id, source.epoch, [(first, end)], outcome))

    def _give_credit(self, count: int) -> None:
        """Return credit, and let go on who waits for it: retained messages first, they are older."""
        self.window.give(count)
        if self._retained_line:
            self._retained_on_credit(self._wall_ms())
        for waiter in self.window.next_waiters():
            waiter.post(WAKE)

    def leave(self) -> None:
        """End, with the connection: its flows are unbound, and what they hold goes back to their queues."""
        for flow_id, bound in self.flows.items():
            bound.queue.post(UnbindFlow(flow_id))
        self.flows.clear()
        self.window.close()
        for waiter in self.window.next_waiters():
            waiter.post(WAKE)

    def hold_back(self, is_full: bool) -> None:
        """Take no deliveries while the socket is full: what waits in its queue takes memory once, or none."""
        self.window.is_shut = is_full
        if not is_full:
            self._give_credit(0)

    def unanswered_of_session_queue(self) -> dict[int, int]:
        """Return sequence -> packet id of what was sent from the session's queue and not answered, oldest first."""
        unanswered: dict[int, int] = dict(self._session.remembered)
        for run in self.ids.unanswered():
            if run.source.is_session_queue:
                for step in range(run.count):
                    unanswered[run.first_sequence + step] = run.first_packet_id + step
        return unanswered


def _options_of(extra: ExtraSubscription) -> DeliveryOptions:
    return DeliveryOptions(extra.qos, extra.retain_as_published, [extra.identifier] if extra.identifier else None)


def _queue_properties(partition: int, delivery: Delivery) -> list[tuple[str, str]]:
    properties = [(PROPERTY_PARTITION, str(partition))]
    if delivery.redelivered:
        properties += [
            (PROPERTY_REDELIVERED, "true"),
            (PROPERTY_DELIVERY_COUNT, str(delivery.delivery_count)),
        ]
    return properties
