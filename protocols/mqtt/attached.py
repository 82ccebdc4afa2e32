"""A session while a connection has it: the two directions of its data, and what is written of it."""

from typing import final

from sluicegate.actors.messages.partitions import ParkFlow
from sluicegate.actors.messages.queues import UnbindFlow
from sluicegate.protocols.mqtt.codec.events import DisconnectReceived
from sluicegate.protocols.mqtt.codec.reason_codes import SUCCESS
from sluicegate.protocols.mqtt.codec.will import Will
from sluicegate.protocols.mqtt.datapath.delivering import DeliveringSide
from sluicegate.protocols.mqtt.datapath.publishing import PublishingSide
from sluicegate.protocols.mqtt.session.session import ParkedFlow, Session
from sluicegate.protocols.mqtt.session.writes import SessionWrites


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
            bound.queue.post(ParkFlow(flow_id, awaited))
        else:
            bound.queue.post(UnbindFlow(flow_id))
    delivering.flows.clear()
    delivering.window.close()
