"""What a client's session has on its connection, made when it is needed: many clients only ever get direct messages."""

from typing import TYPE_CHECKING, final

from sluicegate.actors.messages.partitions import SuspendFlow
from sluicegate.actors.messages.queues import UnbindFlow
from sluicegate.actors.publishing.publisher import Publisher
from sluicegate.messaging.observability.events import CLIENT_FLOW_OPENED
from sluicegate.messaging.queues.credit import CreditWindow
from sluicegate.messaging.routing.destinations import Subscriber
from sluicegate.protocols.connection.read_control import ReadControl
from sluicegate.protocols.connection.write_control import WriteControl
from sluicegate.protocols.mqtt.codec.events import DisconnectReceived, Will
from sluicegate.protocols.mqtt.codec.reason_codes import SUCCESS
from sluicegate.protocols.mqtt.datapath.delivering import DeliveringSide
from sluicegate.protocols.mqtt.datapath.publishing import PublishingSide
from sluicegate.protocols.mqtt.session.session import ParkedFlow, Session
from sluicegate.protocols.mqtt.session.writes import SessionWrites

if TYPE_CHECKING:
    from sluicegate.protocols.mqtt.connection import MqttConnection


# A session while a connection has it: the two directions of its data, and what is written of it.


@final
class AttachedSession:
    """One session on its connection, from the accepted CONNECT until it is released."""

    def __init__(
        self,
        session: Session,
        will: Will | None,
        *,
        receive_maximum: int,
        explains: bool,
    ) -> None:
        self.session = session
        self.will = will
        self.receive_maximum = receive_maximum  # what the client takes unacknowledged
        # Each is made when it is needed, by `protocols.mqtt.client`: many clients never need any.
        self.publishing: PublishingSide | None = None  # until it publishes
        self.delivering: DeliveringSide | None = None  # until anything but direct messages may come for it
        self.writes: SessionWrites | None = None  # until the session is stored
        self.explains = explains  # the client wants to read why a publish was refused [3.1.2-29]

    def says_goodbye(self, event: DisconnectReceived, session_expiry_s_max: int) -> None:
        """Take what the client's DISCONNECT says of its session and its will [3.14.4-3]."""
        if event.session_expiry_s >= 0:
            self.session.expiry_s = min(event.session_expiry_s, session_expiry_s_max)
        if event.reason_code == SUCCESS:
            self.will = None

    def release(self) -> None:
        """Take the session off its connection: flows end, packet ids are remembered."""
        session = self.session
        if self.writes is not None:
            self.writes.abandon()
        if session.subscriber is not None:
            session.subscriber.address = session.subscriber.pressure = None
        if self.publishing is not None:
            self.publishing.leave()
        if self.delivering is not None:
            _end(self.delivering)


def _end(delivering: DeliveringSide) -> None:
    delivering.remember()
    for flow_id, bound in delivering.flows.items():
        bound.give_back_unsent(flow_id, delivering.held)
        extra = bound.extra
        awaited = [] if extra is None or bound.is_named_queue else extra.ids.awaited_ranges()
        if extra is not None and awaited:
            extra.parked = ParkedFlow(flow_id, bound.queue)
            bound.queue.post(SuspendFlow(flow_id, awaited))
        else:
            bound.queue.post(UnbindFlow(flow_id))
    delivering.flows.clear()
    delivering.window.close()


def writes_of(connection: "MqttConnection", attached: AttachedSession) -> SessionWrites:
    """Return what writes the session of a client."""
    if attached.writes is None:
        attached.writes = SessionWrites(connection.cell, connection.services.spool, attached.session)
    return attached.writes


def subscriber_of(connection: "MqttConnection", session: Session) -> Subscriber:
    """Return where the messages of the session's subscriptions go."""
    subscriber = session.subscriber
    if subscriber is None:
        subscriber = session.subscriber = Subscriber(session.client_id)
        reach(connection, subscriber)
    return subscriber


def reach(connection: "MqttConnection", subscriber: Subscriber) -> None:
    """Have the messages of a session come to its connection."""
    connection.services.space.prioritise(subscriber, connection.identity.rights.profile.dto_local_priority)
    subscriber.address = connection.cell.inbox
    subscriber.pressure = None if connection.write_control is None else connection.write_control.pressure


def gate_of(connection: "MqttConnection") -> ReadControl:
    """Return what says whether a client is read from: the first to ask is who may keep it from being."""
    gate = connection.read_control
    if gate is None:
        gate = connection.read_control = ReadControl(connection.cell.inbox)
        gate.attach(connection.transport)
        rights = connection.identity.admitted()
        if rights is not None:
            gate.limit(rights)
    return gate


def begin_publishing(connection: "MqttConnection", attached: AttachedSession) -> PublishingSide:
    """Give a client its way in, with the first that it publishes: many never do."""
    services, session, writes = connection.services, attached.session, writes_of(connection, attached)
    publisher = Publisher(
        space=services.space, spool=services.spool, address=connection.cell.inbox, rng=connection.cell.runtime.rng
    )
    publisher.rights = connection.identity.rights
    publisher.hears_of_retained = connection.engine.level == 5
    attached.publishing = PublishingSide(
        engine=connection.engine,
        level=connection.engine.level,
        session=session,
        room=services.session_room,
        publisher=publisher,
        counters=services.counters,
        before_answer=writes.before_exactly_once,
        forget_received=writes.forget_received,
        explains=attached.explains,
        opens_flow=lambda: services.events.emit(CLIENT_FLOW_OPENED, "publisher flow opened", client=session.client_id),
    )
    return attached.publishing


def delivering_of(connection: "MqttConnection", attached: AttachedSession) -> DeliveringSide:
    """Return the way out for what is not direct. What comes by it waits for the answer to the request under way."""
    if attached.delivering is not None:
        return attached.delivering
    delivering = begin_delivering(connection, attached)
    if connection.is_asking:
        delivering.hold()
    return delivering


def begin_delivering(connection: "MqttConnection", attached: AttachedSession) -> DeliveringSide:
    """Give a client its way out for what is not direct."""
    services = connection.services
    delivering = attached.delivering = DeliveringSide(
        engine=connection.engine,
        level=connection.engine.level,
        session=attached.session,
        window=CreditWindow(attached.receive_maximum, services.credit),
        dispatcher=connection.cell.runtime.dispatcher,
        before_exactly_once=writes_of(connection, attached).before_exactly_once,
        clock=connection.cell.runtime.clock,
        counters=services.counters,
        events=services.events,
        later=lambda: connection.cell.after(0, lambda: _go_on(connection)),
    )
    if connection.is_writing_paused:
        delivering.hold_back(True)
    return delivering


def _go_on(connection: "MqttConnection") -> None:
    """Send the next slice of retained messages, now that other sockets had their turn."""
    delivering = connection.delivering()
    if delivering is not None:
        delivering.retained.go_on_later(connection.cell.runtime.clock.wall_ms())
        connection.turn_ended()


def watch_of(connection: "MqttConnection") -> WriteControl | None:
    """Return what watches whether a client reads what it is sent; None: it is not let in yet, or gone.

    Publishers, who wait for it, need not know of it before it lags.
    """
    services, attached, transport = connection.services, connection.attached, connection.transport
    if connection.write_control is not None or attached is None or transport is None:
        return connection.write_control
    watch = connection.write_control = WriteControl(
        connection.cell,
        services.counters,
        buffer_bytes_max=services.connection_buffer_bytes_max,
        slow_subscriber_stall_ms=services.slow_subscriber_stall_ms,
    )
    watch.attach(transport)
    if attached.session.subscriber is not None:
        attached.session.subscriber.pressure = watch.pressure
    return watch
