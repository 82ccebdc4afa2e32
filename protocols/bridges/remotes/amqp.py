"""A foreign broker that speaks AMQP 1.0, by Proton.

Messages go over at least once. Proton cannot resume links: its attach says nothing of deliveries without an outcome, so
what was under way when a connection ended is sent again, and comes again from the foreign broker.

A rule with a target has a link of its own. Mapped topics share a link for each address; or one link for all, where the
foreign broker takes the address from the message (ANONYMOUS-RELAY) and the address says what it is: `topic://a.b`.
"""

import time
from collections import deque
from typing import Any, Final, final

from cproton import (
    PN_ACCEPTED,
    PN_CONNECTION_REMOTE_CLOSE,
    PN_CONNECTION_REMOTE_OPEN,
    PN_DELIVERY,
    PN_LINK_REMOTE_CLOSE,
    PN_LINK_REMOTE_DETACH,
    PN_LINK_REMOTE_OPEN,
    PN_MODIFIED,
    PN_REJECTED,
    PN_RELEASED,
    PN_SESSION_REMOTE_CLOSE,
    pn_delivery_link,
    pn_delivery_remote_state,
    pn_delivery_settle,
    pn_delivery_settled,
    pn_delivery_tag,
    pn_delivery_updated,
    pn_event_delivery,
    pn_event_link,
    pn_event_session,
    pn_link_is_sender,
    pn_link_name,
)
from proton import Endpoint, Sender, Session, Terminus

from sluicegate.messaging.message.outcomes import FAILED, REJECTED, RELEASED
from sluicegate.protocols.bridges.remote import (
    Line,
    Opened,
    Outgoing,
    RemoteBroker,
    RemoteFailed,
    Settlement,
    Shortfall,
    Work,
)
from sluicegate.protocols.bridges.remotes.amqp_links import QUEUE, TOPIC, ReceivingLink, SendingLink, wrapped
from sluicegate.protocols.bridges.remotes.amqp_messages import MessageWriter, address_of, form_of
from sluicegate.protocols.bridges.remotes.connecting import LineClosed, connector_to
from sluicegate.protocols.bridges.remotes.proton_socket import FRAME_BYTES_MAX, ProtonSocket
from sluicegate.protocols.bridges.settings import CONNECT_S_MAX, BridgeSettings

LINKS_MAX: Final = 200  # to addresses of topics; those that nobody uses are closed first
CLOSE_S_MAX: Final = 2.0  # for the foreign broker's answer to close
_OPENING_WAIT_S: Final = 1.0  # between two looks at the time until the connection is open
_IDLE_WAIT_S: Final = 60.0  # after that; Proton says when it wants to send a heartbeat, or to hear one
_ANONYMOUS_RELAY: Final = "ANONYMOUS-RELAY"
_RELAY_NAME: Final = "relay"

# Conditions for which a link to some topic is refused that are the same the next time.
_PERMANENT: Final = (
    "amqp:not-found",
    "amqp:unauthorized-access",
    "amqp:not-allowed",
    "amqp:not-implemented",
    "amqp:invalid-field",
    "amqp:precondition-failed",
)

# Conditions of a rejected message that blame something else than the message: it may be taken later.
_FOR_NOW: Final = ("amqp:resource-limit-exceeded", "amqp:resource-locked", "amqp:unauthorized-access")


@final
class AmqpRemote(RemoteBroker):
    """A foreign broker that speaks AMQP 1.0."""

    def __init__(self, settings: BridgeSettings, line: Line) -> None:
        super().__init__(settings, line)
        self._writer = MessageWriter()
        self._connector = connector_to(settings.remote)
        self._last_arrival = 0
        self._forget()

    def _forget(self) -> None:
        """Forget the connection."""
        self._proton: Any = None  # the ProtonSocket of this connection
        self._out_session: Any = None
        self._targets: dict[int, SendingLink] = {}  # by index of the rule
        self._addresses: dict[str, SendingLink] = {}  # of topics; empty: the anonymous terminus
        self._senders: dict[str, SendingLink] = {}  # by name of the link: all of them
        self._closing: dict[str, Sender] = {}  # by name: links that were closed here, and not yet there
        self._receivers: dict[str, ReceivingLink] = {}
        self._arrivals: dict[int, tuple[ReceivingLink, Any]] = {}  # without a settlement
        self._queue: deque[Outgoing] = deque()  # for links that are yet to be made
        self._unwritten: list[int] = []  # numbers of QoS 0 that are not in the socket yet
        self._has_relay = False
        self._is_open = False
        self._is_closed = False  # by the foreign broker, as an answer to ours
        self._turn = 0
        self._last_link = 0

    def run(self) -> None:
        """Connect and serve."""
        proton = self._proton = ProtonSocket(self.settings.remote)
        try:
            self.line.wake_with(proton.waker.wake)
            proton.open(self._connector, lambda: self._take_work().is_closed)
            self._attach(proton.connection)
            self._serve(proton)
        except LineClosed:
            pass
        finally:
            self.line.wake_with(None)
            proton.close()
            self._forget()

    def _attach(self, connection: Any) -> None:
        """Open sessions, one for each direction, and the links of rules."""
        settings = self.settings
        self._out_session = connection.session()
        self._out_session.open()
        for index, outgoing in enumerate(settings.outgoing):
            if outgoing.target:
                self._targets[index] = self._sender(
                    f"out/{outgoing.name}",
                    address=outgoing.target,
                    kind=QUEUE if outgoing.is_queue else TOPIC,
                    rule=index,
                    is_durable=outgoing.is_queue and outgoing.qos > 0,
                )
        if not settings.incoming:
            return
        session = connection.session()
        session.incoming_capacity = max(settings.window_bytes, 4 * FRAME_BYTES_MAX)
        session.open()
        window = max(1, settings.window_messages // len(settings.incoming))
        for index, incoming in enumerate(settings.incoming):
            name = f"{settings.name}/{incoming.name}"  # with the container id it names a durable subscription
            self._receivers[name] = ReceivingLink(
                session,
                name,
                rule=incoming,
                index=index,
                window=window,
                session_expiry_s=settings.remote.session_expiry_s,
            )

    def _sender(self, suffix: str, *, address: str, kind: str, rule: int = -1, is_durable: bool = False) -> SendingLink:
        name = f"{self.settings.name}/{suffix}"
        link = SendingLink(self._out_session, name, address=address, kind=kind, rule=rule, is_durable=is_durable)
        self._senders[name] = link
        return link

    # --- serving ---

    def _serve(self, proton: ProtonSocket) -> None:
        line = self.line
        deadline_s = time.monotonic() + CONNECT_S_MAX
        while True:
            proton.wait(_IDLE_WAIT_S if self._is_open else _OPENING_WAIT_S)
            self._turn += 1
            for kind, event in proton.events():
                self._handle(kind, event)
            _check(proton)
            if proton.is_ended:
                raise RemoteFailed("the connection was lost")
            work = self._take_work()
            self._distribute()
            self._receive()
            self._send()
            if work.is_closed:
                self._close(proton)
                return
            if proton.write() and self._unwritten and not self._out_session.outgoing_bytes:
                for number in self._unwritten:
                    line.confirmed(number)
                self._unwritten.clear()
            _check(proton)  # writing looks at the time: the foreign broker may be silent for too long
            if not self._is_open:
                self._look_whether_open()
                if not self._is_open and time.monotonic() > deadline_s:
                    raise RemoteFailed(f"{self._lacking()} within {CONNECT_S_MAX} s")
            line.flush()

    def _take_work(self) -> Work:
        """Take what the bridge wants done, and settle what it has settled."""
        work = self.line.work()
        if work.settlements:
            self._settle(work.settlements)
        self._queue += work.messages
        return work

    def _look_whether_open(self) -> None:
        connection = self._proton.connection
        if not connection.state & Endpoint.REMOTE_ACTIVE:
            return
        links: list[SendingLink | ReceivingLink] = [*self._targets.values(), *self._receivers.values()]
        if not all(each.is_open for each in links):
            return
        self._is_open = True
        properties = connection.remote_properties or {}
        detail = " ".join(str(properties[each]) for each in ("product", "version") if properties.get(each))
        self.line.opened(Opened(detail=detail))

    def _lacking(self) -> str:
        if not self._proton.connection.state & Endpoint.REMOTE_ACTIVE:
            return "no answer to open"
        names = [f"{each.address!r}" for each in self._targets.values() if not each.is_open]
        names += [f"{each.rule.source!r}" for each in self._receivers.values() if not each.is_open]
        return f"no answer to the attach of {', '.join(names)}"

    def _close(self, proton: ProtonSocket) -> None:
        """Close the connection, and wait a little for the answer."""
        proton.connection.close()
        deadline_s = time.monotonic() + CLOSE_S_MAX
        while not (self._is_closed or proton.is_ended or proton.failure) and time.monotonic() < deadline_s:
            proton.write()
            proton.wait(CLOSE_S_MAX)
            for kind, event in proton.events():
                if kind == PN_CONNECTION_REMOTE_CLOSE:
                    self._is_closed = True
                else:
                    self._handle(kind, event)
        proton.write()

    # --- what the foreign broker says ---

    def _handle(self, kind: int, event: Any) -> None:
        if kind == PN_DELIVERY:
            delivery = pn_event_delivery(event)
            if pn_delivery_updated(delivery) and pn_link_is_sender(pn_delivery_link(delivery)):
                self._outcome(delivery)
        elif kind == PN_LINK_REMOTE_OPEN:
            self._attached(pn_link_name(pn_event_link(event)))
        elif kind in (PN_LINK_REMOTE_CLOSE, PN_LINK_REMOTE_DETACH):
            self._detached(pn_link_name(pn_event_link(event)))
        elif kind == PN_CONNECTION_REMOTE_OPEN:
            offered = self._proton.connection.remote_offered_capabilities or ()
            self._has_relay = _ANONYMOUS_RELAY in [str(each) for each in offered]
        elif kind == PN_SESSION_REMOTE_CLOSE:
            session = Session.wrap(pn_event_session(event))  # type: ignore[no-untyped-call]  # Proton has no annotation
            raise RemoteFailed(f"the foreign broker has ended a session{_said(session)}")
        elif kind == PN_CONNECTION_REMOTE_CLOSE:
            raise RemoteFailed(f"the foreign broker has closed the connection{_said(self._proton.connection)}")

    def _attached(self, name: str) -> None:
        """A link is attached; without its terminus it is refused, and a detach follows (2.6.3)."""
        receiver = self._receivers.get(name)
        if receiver is not None:
            if receiver.link.remote_source.type != Terminus.UNSPECIFIED:
                receiver.opened()
                for text in receiver.shortfalls:
                    self.line.lowered(Shortfall(is_incoming=True, rule=receiver.index, text=text))
            return
        sender = self._senders.get(name)
        if sender is not None and sender.link.remote_target.type != Terminus.UNSPECIFIED:
            sender.opened()
            for text in sender.shortfalls:
                self.line.lowered(Shortfall(is_incoming=False, rule=sender.rule, text=text))

    def _detached(self, name: str) -> None:
        """A link is gone. One to a mapped topic takes its messages along; any other ends the connection."""
        receiver = self._receivers.get(name)
        if receiver is not None:
            what = "refused" if not receiver.is_open else "ended"
            text = f"the foreign broker has {what} the link from {receiver.rule.source!r}{_said(receiver.link)}"
            raise RemoteFailed(f"{text} ({receiver})")
        sender = self._senders.get(name)
        if sender is None:  # closed by us
            self._free(name)
            return
        text = f"the foreign broker has {'ended' if sender.is_open else 'refused'} the link to {sender.address!r}"
        text += _said(sender.link)
        if sender.rule >= 0:
            raise RemoteFailed(f"{text} (rule {self.settings.outgoing[sender.rule].name!r})")
        condition = sender.link.remote_condition
        is_permanent = condition is not None and condition.name in _PERMANENT
        for message in sender.waiting:
            self.line.refused(message.number, REJECTED if is_permanent else FAILED, text)
        for number in sender.unsettled:
            self.line.refused(number, FAILED, text)
        sender.waiting.clear()
        sender.unsettled.clear()
        self._end(sender)
        self._free(name)

    def _outcome(self, delivery: Any) -> None:
        """Report what the foreign broker has done with a message of ours (3.4)."""
        state = pn_delivery_remote_state(delivery)
        if state not in _FINAL and not pn_delivery_settled(delivery):
            return
        sender = self._senders.get(pn_link_name(pn_delivery_link(delivery)))
        number = int(pn_delivery_tag(delivery))
        if sender is not None and number in sender.unsettled:
            sender.unsettled.discard(number)
            if state == PN_ACCEPTED:
                self.line.confirmed(number)
            else:
                self._refused(number, state, wrapped(delivery))
        pn_delivery_settle(delivery)

    def _refused(self, number: int, state: int, delivery: Any) -> None:
        if state == PN_REJECTED:
            condition = delivery.remote.condition
            text = "" if condition is None else f": {condition.name}"
            text += f": {condition.description}" if condition is not None and condition.description else ""
            is_for_now = condition is not None and condition.name in _FOR_NOW
            self.line.refused(number, FAILED if is_for_now else REJECTED, f"rejected{text}")
        elif state == PN_RELEASED:
            self.line.refused(number, RELEASED, "released")
        elif state == PN_MODIFIED:
            remote = delivery.remote
            outcome = FAILED if remote.failed or remote.undeliverable else RELEASED
            self.line.refused(number, outcome, "modified" + (", undeliverable here" if remote.undeliverable else ""))
        else:
            self.line.refused(number, FAILED, "settled without an outcome")

    # --- messages of the foreign broker ---

    def _receive(self) -> None:
        for receiver in self._receivers.values():
            self._last_arrival = receiver.receive(self.line, self._arrivals, self._last_arrival)

    def _settle(self, settlements: list[Settlement]) -> None:
        for settlement in settlements:
            arrival = self._arrivals.pop(settlement.number, None)
            if arrival is not None:  # None: of an earlier connection
                arrival[0].settle(arrival[1], settlement)
        for receiver in self._receivers.values():
            receiver.grant()

    # --- messages for the foreign broker ---

    def _send(self) -> None:
        for sender in [*self._senders.values()]:
            if sender.waiting and sender.is_open:
                sender.used = self._turn
                sender.send(self.line, self._writer, self._unwritten)

    def _distribute(self) -> None:
        """Hand messages to their links, in order, as long as there are links."""
        queue = self._queue
        while queue:
            link = self._targets.get(queue[0].rule) or self._link_of(queue[0])
            if link is None:
                return
            link.waiting.append(queue.popleft())

    def _link_of(self, message: Outgoing) -> SendingLink | None:
        """Return the link of a mapped topic; None while all links are in use."""
        topic = message.topic
        key = "" if self._has_relay and form_of(topic) else topic
        found = self._addresses.get(key)
        if found is None:
            if len(self._addresses) >= LINKS_MAX and not self._end_unused():
                return None
            self._last_link += 1
            name = f"topic/{self._last_link}" if key else _RELAY_NAME
            kind = TOPIC if key and not form_of(topic) else ""
            found = self._addresses[key] = self._sender(name, address=key and address_of(key), kind=kind)
        found.used = self._turn
        return found

    def _end_unused(self) -> bool:
        """Close links that nobody waits for, the longest unused first, up to a fourth; return whether any was."""
        idle = sorted((each for each in self._addresses.values() if each.is_idle), key=lambda each: each.used)
        for link in idle[: LINKS_MAX // 4]:
            self._end(link)
        return bool(idle)

    def _free(self, name: str) -> None:
        """Have Proton forget a link that is closed at both ends: it keeps it with its session otherwise."""
        link = self._closing.pop(name, None)
        if link is not None:
            link.free()

    def _end(self, sender: SendingLink) -> None:
        sender.link.close()
        self._closing[sender.link.name] = sender.link
        self._senders = {name: each for name, each in self._senders.items() if each is not sender}
        self._addresses = {key: each for key, each in self._addresses.items() if each is not sender}


_FINAL: Final = (PN_ACCEPTED, PN_REJECTED, PN_RELEASED, PN_MODIFIED)


def _check(proton: ProtonSocket) -> None:
    """Raise RemoteFailed if Proton has ended the connection."""
    if failure := proton.failure:
        raise RemoteFailed(f"the sign-in was refused: {failure}" if proton.was_refused else failure)


def _said(endpoint: Any) -> str:
    """Return why the foreign broker has ended a link, session or connection, behind a colon; empty: it does not say."""
    condition = endpoint.remote_condition
    if condition is None:
        return ""
    return f": {condition.name}: {condition.description}" if condition.description else f": {condition.name}"
