"""The sessions of a connection: their frames, and the verbs of its owner on links and messages.

Every violation has the scope that the standard gives it: one of a link ends the link, one of a session ends the
session. Any other, and a frame on a channel without a session, ends the connection.
"""

from typing import final

from sluicegate.protocols.amqp.codec.delivery_states import DECLARED, AmqpError, DeliveryState
from sluicegate.protocols.amqp.codec.dispositions import disposition_bytes, read_disposition
from sluicegate.protocols.amqp.codec.frames import Frame, frame
from sluicegate.protocols.amqp.codec.performatives import (
    ABSENT,
    ATTACH,
    BEGIN,
    DETACH,
    DISPOSITION,
    END,
    FLOW,
    RECEIVER_FIRST,
    SENDER_SETTLED,
    SENDER_UNSETTLED,
    TRANSFER,
    Attach,
    Begin,
    Detach,
    Flow,
    encode_ending,
    read_attach,
    read_begin,
    read_detach,
    read_ending,
    read_flow,
)
from sluicegate.protocols.amqp.codec.termini import Coordinator, Source, Target
from sluicegate.protocols.amqp.codec.transfers import read_transfer
from sluicegate.protocols.amqp.engine.events import (
    AmqpEvent,
    AttachReceived,
    CreditReceived,
    CreditSpent,
    DispositionReceived,
    LinkDetached,
    SessionEnded,
    WindowOpened,
)
from sluicegate.protocols.amqp.engine.link import (
    ATTACHED,
    CLOSING,
    DETACHED,
    DETACHING,
    PENDING,
    SERIAL_MASK,
    IncomingLink,
    OutgoingLink,
    serial_difference,
)
from sluicegate.protocols.amqp.engine.receive import DeliveryAssembler
from sluicegate.protocols.amqp.engine.send import send_delivery, send_pending
from sluicegate.protocols.amqp.engine.session import ENDING, MAPPED, Session
from sluicegate.protocols.amqp.limits import (
    LINK_NAME_BYTES_MAX,
    MAP_ENTRIES_MAX,
    MIN_MAX_FRAME_SIZE,
    OUTGOING_WINDOW,
    AmqpLimits,
)
from sluicegate.protocols.amqp.types import errors as conditions
from sluicegate.protocols.amqp.types.decoding import read_fields
from sluicegate.protocols.amqp.types.errors import CONNECTION, LINK, SESSION, LocalMisuse, PeerViolation
from sluicegate.protocols.amqp.types.values import AmqpMap, AmqpValue


@final
class Sessions:
    """All sessions of one connection."""

    def __init__(self, limits: AmqpLimits, out: list[bytes]) -> None:
        self.frame_bytes_max = MIN_MAX_FRAME_SIZE  # towards the peer; its open may raise it
        self.by_channel: dict[int, Session] = {}
        self._limits = limits
        self._out = out  # shared with the engine, which empties it
        self._receiving = DeliveryAssembler(limits)
        self._touched: list[Session] = []  # with dispositions that wait for the end of the turn

    @property
    def has_output(self) -> bool:
        """Whether outcomes wait to be written."""
        return bool(self._touched)

    @property
    def unfinished_bytes(self) -> int:
        """The number of bytes of unfinished deliveries."""
        return self._receiving.partial_bytes

    def drop_unfinished(self) -> None:
        """Drop unfinished deliveries: nothing more is read."""
        for session in self.by_channel.values():
            for link in session.incoming.values():
                self._receiving.forget(link)

    # --- frames ---

    def receive(self, code: int, frame_: Frame, data: bytes, body_at: int, events: list[AmqpEvent]) -> None:
        """Handle a performative whose list begins at `body_at`. Raises PeerViolation (connection), DecodeError."""
        channel = frame_.channel
        if code == BEGIN:
            self._begin(channel, read_fields(data, body_at, frame_.end), events)
            return
        session = self.by_channel.get(channel)
        if session is None:
            raise PeerViolation(CONNECTION, conditions.NOT_ALLOWED, f"no session on channel {channel}")
        if session.state == ENDING:  # nothing counts before the peer's end
            if code == END:
                del self.by_channel[channel]
            return
        try:
            if code == TRANSFER:
                self._transfer(session, data, body_at, frame_.end, events)
            elif code == DISPOSITION:
                self._disposition(session, data, body_at, frame_.end, events)
            elif code == FLOW:
                self._flow(session, read_flow(read_fields(data, body_at, frame_.end)), events)
            elif code == ATTACH:
                self._attach(session, read_attach(read_fields(data, body_at, frame_.end)), events)
            elif code == DETACH:
                self._detach(session, read_detach(read_fields(data, body_at, frame_.end)), events)
            else:
                assert code == END, "the engine passes no other performative"
                self._end(session, read_ending(read_fields(data, body_at, frame_.end)), events)
        except PeerViolation as violation:
            if violation.scope != SESSION:
                raise
            error = AmqpError(violation.condition, violation.text)
            self.end(session, error)
            events.append(SessionEnded(session, error))

    def _begin(self, channel: int, items: list[AmqpValue], events: list[AmqpEvent]) -> None:
        if channel > self._limits.channel_max:
            text = f"channel {channel}; the highest is {self._limits.channel_max}"
            raise PeerViolation(CONNECTION, conditions.FRAMING_ERROR, text)
        if channel in self.by_channel:
            raise PeerViolation(CONNECTION, conditions.FRAMING_ERROR, f"begin on channel {channel}, which is in use")
        begin = read_begin(items)
        session = Session(channel, begin, self._limits.incoming_window)
        self.by_channel[channel] = session
        ours = Begin(
            remote_channel=channel,
            next_outgoing_id=session.next_outgoing_id,
            incoming_window=session.incoming_window,
            outgoing_window=OUTGOING_WINDOW,
            handle_max=self._limits.handle_max,
        )
        self._out.append(frame(channel, ours.encode()))

    def _end(self, session: Session, error: AmqpError | None, events: list[AmqpEvent]) -> None:
        self.write_dispositions()
        self._out.append(frame(session.channel, encode_ending(END, None)))
        self._forget(session)
        del self.by_channel[session.channel]
        events.append(SessionEnded(session, error))

    def _attach(self, session: Session, attach: Attach, events: list[AmqpEvent]) -> None:
        handle = attach.handle
        if handle > self._limits.handle_max:
            text = f"handle {handle}; the highest is {self._limits.handle_max}"
            raise PeerViolation(CONNECTION, conditions.FRAMING_ERROR, text)
        if handle in session.incoming or handle in session.outgoing:
            raise PeerViolation(SESSION, conditions.HANDLE_IN_USE, f"attach on handle {handle}, which is in use")
        if len(attach.name.encode()) > LINK_NAME_BYTES_MAX:
            text = f"a link name of more than {LINK_NAME_BYTES_MAX} bytes"
            raise PeerViolation(SESSION, conditions.INVALID_FIELD, text)
        if attach.properties is not None and len(attach.properties.pairs) > MAP_ENTRIES_MAX:
            text = f"more than {MAP_ENTRIES_MAX} link properties"
            raise PeerViolation(SESSION, conditions.INVALID_FIELD, text)
        closing = session.closing_on(handle)
        if closing is not None and closing.next is not None:
            text = f"attach on handle {handle}, where two links before it are not detached yet"
            raise PeerViolation(SESSION, conditions.HANDLE_IN_USE, text)
        link: IncomingLink | OutgoingLink
        if attach.is_receiver:
            link = session.outgoing[handle] = OutgoingLink(attach)
        else:
            link = session.incoming[handle] = IncomingLink(attach)
        if closing is None:
            events.append(AttachReceived(session, link))
        else:
            closing.next = link

    def _detach(self, session: Session, detach: Detach, events: list[AmqpEvent]) -> None:
        link = self._link(session, detach.handle)
        closing = session.closing_on(detach.handle)
        if closing is not None:  # the owner has not heard of the link
            closing.next_detach = detach
            link.state = DETACHED
            session.drop_link(link)
            return
        if isinstance(link, OutgoingLink) and link.state == ATTACHED and detach.closed and link.answers_close_later:
            self.write_dispositions()
            self._release(session, link)
            link.state = CLOSING
            session.begin_closing(link)
            events.append(LinkDetached(session, link, closed=True, error=detach.error))
            return
        was_known = link.state in (PENDING, ATTACHED)
        if was_known:
            if link.state == PENDING:  # 2.6.4: a detach answers an attach, so ours has to be seen first
                self._answer_attach(session, link)
            self.write_dispositions()
            self._release(session, link)
            self._out.append(frame(session.channel, Detach(link.handle, closed=detach.closed).encode()))
        link.state = DETACHED
        session.drop_link(link)
        if was_known:
            events.append(LinkDetached(session, link, closed=detach.closed, error=detach.error))

    def _transfer(self, session: Session, data: bytes, body_at: int, end: int, events: list[AmqpEvent]) -> None:
        transfer = read_transfer(data, body_at, end)
        session.count_incoming()
        link = session.incoming.get(transfer.handle)
        if link is None:
            text = f"a transfer on handle {transfer.handle}, where no sender is attached"
            raise PeerViolation(SESSION, conditions.UNATTACHED_HANDLE, text)
        if link.state != ATTACHED:
            self._receiving.skip(session, transfer)
        else:
            try:
                self._receiving.transfer(session, link, transfer, data, end, events)
            except PeerViolation as violation:
                if violation.scope != LINK:
                    raise
                self._receiving.skip(session, transfer)
                error = AmqpError(violation.condition, violation.text)
                self.detach(session, link, closed=True, error=error)
                events.append(LinkDetached(session, link, closed=True, error=error))
        if session.wants_window():
            self._out.append(frame(session.channel, session.flow()))

    def _flow(self, session: Session, flow: Flow, events: list[AmqpEvent]) -> None:
        session.apply_flow(flow)
        if session.is_blocked:
            self._send_on(session, events)
        if flow.handle == ABSENT:
            if flow.echo:
                self._out.append(frame(session.channel, session.flow()))
            return
        link = self._link(session, flow.handle)
        if link.state not in (PENDING, ATTACHED):
            return
        if flow.properties is not None and flow.properties.symbol("txn-id") is not None:
            error = AmqpError(conditions.NOT_IMPLEMENTED, "messages are not acquired in transactions here")
            self.detach(session, link, closed=True, error=error)
            events.append(LinkDetached(session, link, closed=True, error=error))
            return
        if isinstance(link, OutgoingLink):
            link.take_credit(flow)
            events.append(CreditReceived(session, link))
        elif link.take_delivery_count(flow):
            events.append(CreditSpent(link))
        if isinstance(link, OutgoingLink) and link.state == PENDING:
            link.wants_echo = flow.echo or link.wants_echo  # the other kind gets credit behind its attach in any case
        elif flow.echo and link.state == ATTACHED and not (isinstance(link, OutgoingLink) and link.drain):
            self._out.append(frame(session.channel, session.flow(link)))

    def _send_on(self, session: Session, events: list[AmqpEvent]) -> None:
        """Send what waited for the peer's window, and give back the credit of links that were to be drained behind."""
        send_pending(session, self._out, self.frame_bytes_max)
        if not session.pending:
            session.is_blocked = False
            events.append(WindowOpened(session))
        for link in session.outgoing.values():
            if link.is_drained and not session.has_pending(link):
                self.drained(session, link)
                events.append(CreditReceived(session, link))

    def _disposition(self, session: Session, data: bytes, body_at: int, end: int, events: list[AmqpEvent]) -> None:
        disposition = read_disposition(data, body_at, end)
        if serial_difference(disposition.last, disposition.first) < 0:
            text = f"a disposition from {disposition.first} to {disposition.last}"
            raise PeerViolation(SESSION, conditions.INVALID_FIELD, text)
        state = disposition.state
        if state is not None and state.code == DECLARED:
            raise PeerViolation(SESSION, conditions.INVALID_FIELD, "only a coordinator declares a transaction")
        events.append(DispositionReceived(session, disposition))

    def _link(self, session: Session, handle: int) -> IncomingLink | OutgoingLink:
        link: IncomingLink | OutgoingLink | None = session.incoming.get(handle)
        if link is None:
            link = session.outgoing.get(handle)
        if link is None:
            raise PeerViolation(SESSION, conditions.UNATTACHED_HANDLE, f"no link is attached on handle {handle}")
        return link

    def _release(self, session: Session, link: IncomingLink | OutgoingLink) -> None:
        """Drop what is half done on a link. What went out in part is not aborted: the window has no room."""
        if isinstance(link, IncomingLink):
            self._receiving.forget(link)
        else:
            session.forget_pending(link)

    def _forget(self, session: Session) -> None:
        for link in session.incoming.values():
            self._receiving.forget(link)
            link.state = DETACHED
        for outgoing in session.outgoing.values():
            outgoing.state = DETACHED
        for closing in () if session.closing is None else session.closing.values():
            closing.link.state = DETACHED

    # --- links ---

    def attach(
        self,
        session: Session,
        link: IncomingLink | OutgoingLink,
        *,
        source: Source | None,
        target: Target | Coordinator | None,
        offered: list[str],
    ) -> None:
        """Answer an attach with what is in force. A link that was detached meanwhile stays so."""
        if link.state != PENDING or session.state != MAPPED:
            return
        if isinstance(link, IncomingLink):
            link.message_bytes_max = self._limits.message_bytes_max
        self._write_attach(session, link, source, target, offered)
        if isinstance(link, OutgoingLink) and link.wants_echo and not link.drain:
            self._out.append(frame(session.channel, session.flow(link)))

    def _write_attach(
        self,
        session: Session,
        link: IncomingLink | OutgoingLink,
        source: Source | None,
        target: Target | Coordinator | None,
        offered: list[str],
    ) -> None:
        we_receive = isinstance(link, IncomingLink)
        mode = link.attach.sender_settle_mode
        receiver_mode = RECEIVER_FIRST
        if isinstance(link, OutgoingLink):
            mode = SENDER_SETTLED if link.is_settled_by_us else SENDER_UNSETTLED
            receiver_mode = link.attach.receiver_settle_mode
        answer = Attach(
            link.name,
            handle=link.handle,
            is_receiver=we_receive,
            source=source,
            target=target,
            sender_settle_mode=mode,
            receiver_settle_mode=receiver_mode,
            initial_delivery_count=ABSENT if we_receive else 0,
            max_message_size=self._limits.message_bytes_max if we_receive else 0,
            offered=offered,
        )
        answer.unsettled = link.unsettled
        if isinstance(link, IncomingLink):
            answer.incomplete_unsettled = link.incomplete_unsettled
        self._out.append(frame(session.channel, answer.encode()))
        link.state = ATTACHED

    def _answer_attach(self, session: Session, link: IncomingLink | OutgoingLink) -> None:
        """Answer an attach that is refused: without the terminus that was asked for (2.6.3)."""
        asked = link.attach
        if isinstance(link, IncomingLink):
            self._write_attach(session, link, asked.source, None, [])
        else:
            self._write_attach(session, link, None, asked.target, [])

    def answer_close(self, session: Session, link: OutgoingLink, error: AmqpError | None) -> list[AmqpEvent]:
        """Answer the closing detach of a link that `answers_close_later`; return the events that waited for that.

        Has no effect when the session has ended meanwhile.
        """
        if link.state != CLOSING or session.closing is None:
            return []
        closing = session.closing.pop(link.handle)
        link.state = DETACHED
        self._out.append(frame(session.channel, Detach(link.handle, closed=True, error=error).encode()))
        follower = closing.next
        if follower is None:
            return []
        if closing.next_detach is None:
            return [AttachReceived(session, follower)]
        self._answer_attach(session, follower)
        follower.state = DETACHED
        self._out.append(frame(session.channel, Detach(link.handle, closed=closing.next_detach.closed).encode()))
        return []

    def refuse(self, session: Session, link: IncomingLink | OutgoingLink, error: AmqpError) -> None:
        """Refuse an attach: an attach without the terminus that was asked for, then a detach (2.6.3)."""
        if link.state != PENDING or session.state != MAPPED:
            return
        self._answer_attach(session, link)
        self.detach(session, link, closed=True, error=error)

    def detach(
        self, session: Session, link: IncomingLink | OutgoingLink, *, closed: bool, error: AmqpError | None
    ) -> None:
        """Detach a link by the broker's will, or for a fault of the peer. It is gone for its owner from now on."""
        if link.state != ATTACHED or session.state != MAPPED:
            return
        self.write_dispositions()
        self._release(session, link)
        self._out.append(frame(session.channel, Detach(link.handle, closed=closed, error=error).encode()))
        link.state = DETACHING

    def grant(self, session: Session, link: IncomingLink, credit: int) -> None:
        """Let the peer send so many deliveries from now on. What crosses a reduction on the way is still taken."""
        if link.state != ATTACHED or session.state != MAPPED:
            return
        if credit < link.credit:
            link.credit_overdrawn_max = max(link.credit_overdrawn_max, link.credit - credit)
        else:
            link.credit_overdrawn_max = 0
        link.credit = credit
        self._out.append(frame(session.channel, session.flow(link)))

    def drained(self, session: Session, link: OutgoingLink) -> None:
        """Give back the credit that is left: nothing more waits here (2.6.7). Answered even when none is left.

        Behind deliveries that wait for the peer's window it is done once they are sent, and a CreditReceived says so.
        """
        if link.state != ATTACHED or session.state != MAPPED:
            return
        if session.has_pending(link):
            link.is_drained = True
            return
        link.delivery_count = (link.delivery_count + link.credit) & SERIAL_MASK
        link.credit = 0
        self._out.append(frame(session.channel, session.flow(link)))
        link.drain = False
        link.is_drained = False

    def send_flow(self, session: Session, link: OutgoingLink, properties: AmqpMap) -> None:
        """Send properties of a link, in a flow with the link's state (2.7.4)."""
        if link.state == ATTACHED and session.state == MAPPED:
            self._out.append(frame(session.channel, session.flow(link, properties)))

    # --- messages ---

    def send(
        self,
        session: Session,
        link: OutgoingLink,
        payload: bytes,
        message_format: int,
        tag: bytes | None = None,
        resume: bool = False,
    ) -> int:
        """Send a message on a link with credit; return its delivery id.

        Without a tag it gets one of the link's; with `resume` it is a delivery that the peer knows by its tag (2.6.13).
        """
        if link.state != ATTACHED or link.credit <= 0:
            raise LocalMisuse(f"a delivery on {link!r} in state {link.state}")
        return send_delivery(session, link, payload, self._out, self.frame_bytes_max, message_format, tag, resume)

    def settle(
        self,
        session: Session,
        link: IncomingLink | OutgoingLink,
        first: int,
        last: int,
        state: DeliveryState | None,
    ) -> None:
        """Settle deliveries `first` to `last` of a link, both included. They end with the link (2.6.6)."""
        if link.state == ATTACHED:
            session.dispositions.add(first, last, state, is_receiver=isinstance(link, IncomingLink), settled=True)
            self._touch(session)

    def report_state(self, session: Session, link: OutgoingLink, first: int, last: int, state: DeliveryState) -> None:
        """Send the state of deliveries `first` to `last`, both included, which stay unsettled."""
        if link.state == ATTACHED:
            session.dispositions.add(first, last, state, is_receiver=False, settled=False)
            self._touch(session)

    def _touch(self, session: Session) -> None:
        if session not in self._touched:
            self._touched.append(session)

    def end(self, session: Session, error: AmqpError) -> None:
        """End a session, for a fault of the peer."""
        if session.state == MAPPED:
            self.write_dispositions()
            self._forget(session)
            self._out.append(frame(session.channel, encode_ending(END, error)))
            session.state = ENDING

    def write_dispositions(self) -> None:
        """Write the outcomes of this turn. Before everything that ends what they are about, and before `take`."""
        for session in self._touched:
            for run in session.dispositions.take():
                if session.state == MAPPED:
                    body = disposition_bytes(
                        is_receiver=run.is_receiver,
                        first=run.first,
                        last=run.last,
                        settled=run.settled,
                        state=run.state,
                    )
                    self._out.append(frame(session.channel, body))
        self._touched.clear()
