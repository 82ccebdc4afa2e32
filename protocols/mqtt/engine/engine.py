"""The server side of one MQTT connection: bytes in, events out; commands in, bytes out. No socket, clock or actor.

The engine does the framing, every check that needs no session, the response to a violation, PINGRESP, keep alive,
topic aliases, the receive maximum and size limits. It does not store subscriptions or messages, detect duplicates,
choose packet ids, or decide who may connect: the session does, in response to events.

Three rules for the caller:

1. Events come in wire order. Packets after a CONNECT are reported at once, but take effect only once it is accepted.
2. The last event may be DisconnectReceived or PeerViolated. The engine has ended then: it ignores input, and commands
   too, because a response may be under way when the client leaves.
3. Unread input must not expire the keep alive: while the caller does not read it calls `alive` instead of `tick`.
"""

from typing import Final, final

from mypy_extensions import i32, i64, u8

from sluicegate.messaging.message.batch import MessageBatch
from sluicegate.protocols.connection.counters import Traffic
from sluicegate.protocols.mqtt.codec.events import (
    AuthReceived,
    ConnectReceived,
    DisconnectReceived,
    PeerViolated,
    ReceivedEvents,
)
from sluicegate.protocols.mqtt.codec.fixed_header import (
    AUTHENTICATING,
    BEFORE_CONNECT,
    CONNECT,
    CONNECTED,
    DISCONNECT,
    NAMES,
    PINGREQ,
    PUBACK,
    PUBCOMP,
    PUBLISH,
    PUBREC,
    SUBSCRIBE,
    UNSUBSCRIBE,
    refusal,
)
from sluicegate.protocols.mqtt.codec.limits import MqttLimits
from sluicegate.protocols.mqtt.codec.packets.acknowledgements import encode_acknowledgements, read_acknowledgements
from sluicegate.protocols.mqtt.codec.packets.connack import (
    encode_acceptance,
    encode_refusals,
    encode_violation_refusals,
)
from sluicegate.protocols.mqtt.codec.packets.connect import decode_connect, read_protocol
from sluicegate.protocols.mqtt.codec.packets.disconnect import (
    decode_auth,
    decode_disconnect,
    encode_auth,
    encode_disconnects,
    explanation,
)
from sluicegate.protocols.mqtt.codec.packets.subscribe import (
    decode_subscribe,
    decode_unsubscribe,
    encode_suback,
    encode_unsuback,
)
from sluicegate.protocols.mqtt.codec.reason_codes import (
    CONNACK_REFUSALS,
    CONTINUE_AUTHENTICATION,
    KEEP_ALIVE_TIMEOUT,
    MALFORMED_PACKET,
    PACKET_TOO_LARGE,
    PROTOCOL_ERROR,
    RE_AUTHENTICATE,
    REFUSAL_FIRST,
    SUCCESS,
    UNSPECIFIED_ERROR,
    LocalMisuse,
    PeerViolation,
)
from sluicegate.protocols.mqtt.codec.wire import is_padded, read_length
from sluicegate.protocols.mqtt.engine.partial_packet import PartialPacket, misses_much
from sluicegate.protocols.mqtt.engine.publish_reader import PublishReader
from sluicegate.protocols.mqtt.engine.publish_run import PublishRun
from sluicegate.protocols.mqtt.engine.publish_writer import NONE_SKIPPED, PublishWriter

_PINGRESP: Final = b"\xd0\x00"
_PACKET_BYTES_MAX: Final = 0x7FFF_FFFF  # above any packet there can be
_NO_PIECES: Final[list[bytes]] = []  # of all engines that write one piece at a time; nothing is added to it

# Stages of a connection.
_SILENT: Final = 0  # no CONNECT yet
_ASKING: Final = 1  # CONNECT was reported, CONNACK was not sent
_OPEN: Final = 2
_ENDED: Final = 3


@final
class AuthenticationDialogue:
    """The order of AUTH packets on one connection, from CONNECT on [4.12]. The SASL mechanism checks their data.

    Each AUTH of the client but 0x19 answers one of ours.
    """

    def __init__(self, method: str | None) -> None:
        self.awaits_client = False  # our AUTH 0x18 is not answered yet
        self._method = method  # None: CONNECT named none, and no AUTH is allowed
        self._accepted = False  # CONNACK was sent
        self._again = False  # the client has requested a re-authentication

    def accepted(self) -> None:
        """CONNACK ends the first exchange."""
        self._accepted = True
        self.awaits_client = False

    def received(self, event: AuthReceived) -> None:
        """Check the client's turn."""
        if self._method is None:
            raise PeerViolation(PROTOCOL_ERROR, "AUTH, but CONNECT named no method [4.12.0-7]")
        if event.method != self._method:
            raise PeerViolation(
                PROTOCOL_ERROR, f"AUTH with method {event.method[:80]!r}, not {self._method!r} [4.12.0-5]"
            )
        if event.reason_code == RE_AUTHENTICATE:
            if not self._accepted or self._again:
                raise PeerViolation(PROTOCOL_ERROR, "re-authentication in the middle of authentication")
            self._again = True
        elif not self.awaits_client:
            raise PeerViolation(PROTOCOL_ERROR, "AUTH that was not requested")
        self.awaits_client = False

    def sends(self, reason_code: int, method: str) -> None:
        """Check our turn, and take it."""
        if self._method != method:
            raise LocalMisuse(f"AUTH with method {method!r}, which the client did not name [4.12.0-5] [4.12.0-6]")
        if reason_code == CONTINUE_AUTHENTICATION and (self._again or not self._accepted):
            self.awaits_client = True
        elif reason_code == SUCCESS and self._again:
            self._again = False
            self.awaits_client = False
        else:
            raise LocalMisuse(f"AUTH with reason code 0x{reason_code:02X} at this point")


NO_DIALOGUE: Final = AuthenticationDialogue(None)  # of all whose CONNECT names no method: there are no turns to take


@final
class EngineParts:
    """What an engine has that waits for its client or for the rest of a packet, or has authentication."""

    def __init__(self) -> None:
        self.connect: ConnectReceived | None = None  # while it waits for an answer
        self.pings_early = 0  # PINGREQs before CONNACK; they are answered behind it
        self.authentication = NO_DIALOGUE
        self.partial: PartialPacket | None = None  # of a packet that has not come whole
        self.disconnected_by: DisconnectReceived | None = None  # the client's DISCONNECT, once read


@final
class MqttEngine:
    """One client's connection, from its first byte to its last.

    Invariants: at most one CONNACK, before anything else but AUTH [3.2.0-1]; nothing is sent after the end; `feed`
    never raises because of input.
    """

    def __init__(self, limits: MqttLimits, now_ms: int) -> None:
        # What is smaller than a pointer stands together: there may be a hundred thousand of these.
        self.level: u8 = 0  # 3, 4 or 5, from CONNECT on
        self._stage: u8 = _SILENT
        self.tells_reasons = False
        self.restricts_output = (
            False  # only `publish` observes its size limit, and uses its aliases: see `publish_direct`
        )
        self.has_output = False
        self._expires_at_close = False  # CONNECT had no Session Expiry Interval, or 0
        self.clean_start = False  # CONNECT had it
        self.client_packet_bytes_max: i32 = 0  # Maximum Packet Size of the client; 0: no limit
        self._packet_bytes_max: i32 = limits.connect_bytes_max
        self._topic_alias_maximum: i32 = 0  # the client's
        self._keep_alive_ms: i32 = 0  # with the half that the standard adds; 0: off
        self.answered_bytes = 0  # ever; messages are no answers
        self._limits = limits
        self._fixed_headers = BEFORE_CONNECT
        self._client_id = ""  # from CONNECT on
        self.traffic = Traffic()  # counted by its owner
        self._reader: PublishReader | None = None
        self._writer: PublishWriter | None = None  # from the first message that is the client's own
        self._only = b""  # the one piece to be written, if there is one: mostly it is all of a turn
        self._pieces = _NO_PIECES  # more of them; empty while there is but one
        self._last_packet_ms = now_ms
        self._parts: EngineParts | None = None

    @property
    def partial(self) -> PartialPacket | None:
        """What has come of a packet that is not whole."""
        return None if self._parts is None else self._parts.partial

    @property
    def disconnected_by(self) -> DisconnectReceived | None:
        """The client's DISCONNECT, once read."""
        return None if self._parts is None else self._parts.disconnected_by

    @property
    def keep_alive_s(self) -> int:
        """The keep alive in force; 0: off."""
        return int(self._keep_alive_ms) // 1500

    @property
    def topic_alias_maximum(self) -> int:
        """How many topic aliases the client takes."""
        return int(self._topic_alias_maximum)

    # --- the three verbs ---

    def feed(self, data: bytes, now_ms: int, wall_ms: int) -> ReceivedEvents:
        """Return the events of these bytes; after a violation PeerViolated is the last. Empty: see `filled`."""
        received = ReceivedEvents()
        if self._stage != _ENDED:
            parts = self._parts
            if parts is not None and parts.partial is not None and len(data := parts.partial.join(data)) > 0:
                parts.partial = None
            try:
                pos = self._read(data, wall_ms, received)
                if pos > 0 or (self._stage == _OPEN and misses_much(self.partial)):
                    self._last_packet_ms = now_ms
                if pos < len(data) and self._stage != _ENDED:
                    self._made_parts().partial = PartialPacket(data, pos)
            except PeerViolation as violation:
                self._add_violation(violation, received)
            except (IndexError, ValueError, OverflowError) as error:  # none should come through; it costs this client
                self._add_violation(PeerViolation(MALFORMED_PACKET, f"unreadable packet: {error}"), received)
        return received

    def tick(self, now_ms: int) -> PeerViolated | None:
        """Bring time. Once a second is enough: keep alive may be exceeded by as much."""
        silent_ms = now_ms - self._last_packet_ms
        awaits_auth = self._parts is not None and self._parts.authentication.awaits_client
        if self._stage == _SILENT or (self._stage == _ASKING and awaits_auth):
            if silent_ms >= self._limits.connect_timeout_ms:
                what = "AUTH" if awaits_auth else "CONNECT"
                return self._violated(PeerViolation(UNSPECIFIED_ERROR, f"no {what} within {silent_ms} ms"))
        elif self._stage == _OPEN and 0 < self._keep_alive_ms <= silent_ms:
            return self._violated(PeerViolation(KEEP_ALIVE_TIMEOUT, f"silent for {silent_ms} ms [3.1.2-22]"))
        return None

    def take_only(self) -> bytes:
        """Return the bytes to be written if they are in one piece; empty if there are none, or more for `take`."""
        only = self._only
        if len(only) > 0:
            self._only = b""
            self.has_output = False
        return only

    def take(self) -> list[bytes]:
        """Return the bytes to be written, in pieces that belong together in this order."""
        pieces, self._pieces = self._several(), _NO_PIECES
        self.has_output = False
        return pieces

    def alive(self, now_ms: int) -> None:
        """Count this moment as one in which the client spoke: for a caller that has stopped reading."""
        self._last_packet_ms = now_ms

    def stalled(self, stall_ms: int, now_ms: int) -> None:
        """Do not count a time in which the caller read nothing: what the client has sent may yet have to be read."""
        self._last_packet_ms = min(now_ms, self._last_packet_ms + stall_ms)

    def forget_partial(self) -> None:
        """Free what has come of a packet that is not whole: the client is gone."""
        if self._parts is not None:
            self._parts.partial = None

    def _made_parts(self) -> EngineParts:
        parts = self._parts
        if parts is None:
            parts = self._parts = EngineParts()
        return parts

    # --- large packets, read directly into their memory ---

    def buffer(self) -> memoryview | None:
        """Return memory for the missing bytes of a packet, if there are enough of them to pay off."""
        partial = self.partial
        return None if partial is None else partial.buffer(self.level)

    def filled(self, count: int, now_ms: int) -> bool:
        """Note that so many bytes have come to `room`; return whether the packet is whole: then `feed` no bytes."""
        if self._stage == _OPEN:  # before that, a slow client runs into the connect timeout
            self._last_packet_ms = now_ms
        partial = self.partial
        assert partial is not None, "who places bytes has asked for room"
        payload = partial.filled(count)
        if payload is None:
            return False
        self._publish_reader().apart = payload
        return True

    # --- commands: the beginning ---

    def accept(
        self,
        session_present: bool,
        *,
        assigned_client_id: str | None = None,
        server_keep_alive_s: int = -1,
        session_expiry_s: int = -1,
        authentication_method: str | None = None,
        authentication_data: bytes | None = None,
        response_information: str = "",
    ) -> bool:
        """Send CONNACK with success. An argument left at -1, None or "" is not announced.

        3.x clients are told nothing but Session Present, and their own keep alive stays. False: the client is refused
        after all. It broke a rule meanwhile, or takes no packet as large as this CONNACK, and hears nothing [3.1.2-24].
        """
        connect = self._asked("accept")
        if connect is None:
            return self.disconnected_by is not None
        client_id = connect.client_id if assigned_client_id is None else assigned_client_id
        if client_id == "":
            raise LocalMisuse("a client without id has to be given one [3.1.3-6]")
        connacks = encode_acceptance(
            self.level,
            session_present,
            self._limits,
            assigned_client_id=assigned_client_id,
            server_keep_alive_s=server_keep_alive_s,
            session_expiry_s=session_expiry_s,
            authentication_method=authentication_method,
            authentication_data=authentication_data,
            response_information=response_information,
        )
        if not self._queue_first_that_fits(connacks):
            self._end()
            return False
        self._client_id = client_id
        if self._reader is not None:
            self._reader.publisher = client_id
        overridden = self.level == 5 and server_keep_alive_s >= 0  # [3.2.2-21]
        self._keep_alive_ms = (server_keep_alive_s if overridden else connect.keep_alive_s) * 1500
        self._stage = _OPEN
        self._fixed_headers = CONNECTED[self.level]
        parts = self._made_parts()
        parts.connect = None
        parts.authentication.accepted()
        if parts.pings_early:
            self._queue(_PINGRESP * parts.pings_early)
        if parts.partial is None and parts.authentication is NO_DIALOGUE:
            self._parts = None
        return True

    def refuse(self, reason_code: int, text: str = "", server_reference: str = "") -> None:
        """Send CONNACK with a refusal, a code of 5.0, and end. 3.x gets the nearest code it has, if it has one."""
        if self._asked("refuse") is not None:
            self._queue_first_that_fits(encode_refusals(self.level, reason_code, text, server_reference))
            self._end()

    def auth(self, reason_code: int, method: str, data: bytes | None = None) -> bool:
        """Send a step: 0x18, or 0x00 to finish a re-authentication. False: larger than the client takes [3.1.2-24]."""
        if self._stage == _ENDED:
            return True
        if self._stage == _SILENT:
            raise LocalMisuse("AUTH before CONNECT")
        dialogue = NO_DIALOGUE if self._parts is None else self._parts.authentication
        dialogue.sends(reason_code, method)
        return len(self._queue_first_that_fits([encode_auth(reason_code, method, data)])) > 0

    # --- commands: answers and messages ---

    def acknowledge(self, kind: i64, first: i64, last: i64, reason_code: i64 = SUCCESS, text: str = "") -> None:
        """Send PUBACK, PUBREC, PUBREL or PUBCOMP for the packet ids from `first` to `last`, both included."""
        if self._may_send():
            room = self.client_packet_bytes_max
            self._answer(encode_acknowledgements(kind, first, last, reason_code, self.level, text, room))
            ends = kind in (PUBACK, PUBCOMP) or (kind == PUBREC and reason_code >= REFUSAL_FIRST)
            if ends and self._reader is not None:
                self._reader.acknowledged(last - first + 1)

    def suback(self, packet_id: int, codes: list[int], reason: str = "") -> None:
        """Answer a SUBSCRIBE: a code of 5.0 for each request. 3.1.1 gets 0x80 for every refusal, 3.1 knows none."""
        if self._may_send():
            properties = explanation(reason) if self.tells_reasons else b""
            suback = encode_suback(packet_id, codes, self.level, properties)
            if 0 < self.client_packet_bytes_max < len(suback):
                suback = encode_suback(packet_id, codes, self.level, b"")  # [3.9.2-1]
            self._answer(suback)

    def unsuback(self, packet_id: int, codes: list[int]) -> None:
        """Answer an UNSUBSCRIBE: a code of 5.0 for each filter, which 3.x does not get to see."""
        if self._may_send():
            self._answer(encode_unsuback(packet_id, codes, self.level))

    def publish(self, rows: PublishRun, first_packet_id: i64, *, dup: bool) -> list[int]:
        """Send rows; return those too large for this client, which are to be taken as delivered.

        The first row has `first_packet_id`, each further one the next id, skipped rows too; QoS 0 has no ids.
        """
        if not self._may_send():
            return NONE_SKIPPED
        writer = self._publish_writer()
        if rows.stop - rows.start == 1:
            packet = writer.alone(rows, first_packet_id, dup=dup)
            if len(packet) > 0:
                self._queue(packet)
                return NONE_SKIPPED
        skipped = writer.write(self._several(), rows, first_packet_id, dup=dup)
        self.has_output = len(self._pieces) > 0
        return skipped

    def publish_direct(self, block: bytes) -> None:
        """Send PUBLISH packets that are encoded already, for this client's dialect. Not when `restricts_output`."""
        if self._may_send():
            self._queue(block)

    def publish_aliased(self, batch: MessageBatch, wall_ms: int) -> bool:
        """Send QoS 0 messages of one topic with its alias; return False, with nothing done, if `publish` has to.

        That is so for clients that allow no aliases, and for those with a size limit.
        """
        if self._topic_alias_maximum == 0 or self.client_packet_bytes_max > 0:
            return False
        if self._may_send():
            self._queue(self._publish_writer().aliased(batch, wall_ms))
        return True

    def disconnect(self, reason_code: int, text: str = "", server_reference: str = "") -> None:
        """End from our side. A 5.0 client gets the reason [3.14.0-1]; one that waits for CONNACK is refused."""
        if self._stage == _ASKING:
            self.refuse(reason_code if reason_code in CONNACK_REFUSALS else UNSPECIFIED_ERROR, text, server_reference)
        elif self._stage == _OPEN and self.level == 5:
            self._queue_first_that_fits(encode_disconnects(reason_code, text, server_reference))
        self._end()

    # --- reading ---

    def _read(self, data: bytes, wall_ms: int, received: ReceivedEvents) -> i64:
        """Read complete packets; return the position after the last. A wrong fixed header is refused at once."""
        pos: i64 = 0
        end: i64 = len(data)
        while pos < end and self._stage != _ENDED:
            first_byte: i64 = data[pos]
            if self._fixed_headers[first_byte]:
                raise refusal(self._fixed_headers, first_byte)
            packet_type = first_byte >> 4
            if packet_type == PUBLISH:
                stop = self._publish_reader().read(data, pos, end, wall_ms, received)
            elif PUBACK <= packet_type <= PUBCOMP:
                stop = read_acknowledgements(data, pos, end, self.level, self._packet_bytes_max, received)
            else:
                stop = self._read_single(data, pos, end, packet_type, received)
            if stop == pos:
                break  # incomplete
            pos = stop
        return pos

    def _publish_reader(self) -> PublishReader:
        """Return what reads PUBLISH packets, which is made with the first."""
        if self._reader is None:
            self._reader = PublishReader(self.level, self._limits, self._client_id)
        return self._reader

    def _publish_writer(self) -> PublishWriter:
        """Return what writes PUBLISH packets of the client's own, which is made with the first."""
        writer = self._writer
        if writer is None:
            writer = self._writer = PublishWriter(self.level, self.client_packet_bytes_max, self._topic_alias_maximum)
        return writer

    def _read_single(self, data: bytes, pos: i64, end: i64, packet_type: i64, received: ReceivedEvents) -> i64:
        """Read one packet of a type that does not come in runs."""
        length, body = read_length(data, pos + 1, end)
        if length < 0:
            return pos
        stop = body + length
        if stop - pos > i64(self._packet_bytes_max):
            text = f"{NAMES[packet_type]} of {stop - pos} bytes, at most {self._packet_bytes_max} are allowed"
            raise PeerViolation(PACKET_TOO_LARGE, text)
        if packet_type == PINGREQ and length:
            raise PeerViolation(MALFORMED_PACKET, f"PINGREQ with remaining length {length}")
        if self.level == 5 and is_padded(data, pos + 1, body):
            raise PeerViolation(MALFORMED_PACKET, "remaining length is not in its shortest form [1.5.5-1]")
        if stop > end:
            return pos
        room = self.client_packet_bytes_max
        if packet_type == PINGREQ and self._stage == _OPEN:
            self._answer(_PINGRESP)
        elif packet_type == PINGREQ:
            self._made_parts().pings_early += 1  # no packet may precede CONNACK [3.2.0-1]
        elif packet_type == SUBSCRIBE:
            received.add(decode_subscribe(data, body, stop, self.level, self._limits.filters_per_packet_max, room))
        elif packet_type == UNSUBSCRIBE:
            received.add(decode_unsubscribe(data, body, stop, self.level, self._limits.filters_per_packet_max, room))
        elif packet_type == CONNECT:
            self._read_connect(data, body, stop, received)
        elif packet_type == DISCONNECT:
            self._read_disconnect(data, body, stop, received)
        else:
            auth = decode_auth(data, body, stop)
            dialogue = NO_DIALOGUE if self._parts is None else self._parts.authentication
            dialogue.received(auth)
            received.add(auth)
        return stop

    def _read_connect(self, data: bytes, body: int, stop: int, received: ReceivedEvents) -> None:
        protocol = read_protocol(data, body, stop)
        self.level = protocol.level  # from here on there is a form to answer in
        self._stage = _ASKING
        connect = decode_connect(data, protocol, stop, self._limits)
        parts = self._made_parts()
        parts.connect = connect
        self._expires_at_close = connect.session_expiry_s == 0
        self.clean_start = connect.clean_start
        if connect.authentication_method is not None:
            parts.authentication = AuthenticationDialogue(connect.authentication_method)
        self.client_packet_bytes_max = min(connect.maximum_packet_size, _PACKET_BYTES_MAX)
        self.restricts_output = connect.maximum_packet_size > 0 or connect.topic_alias_maximum > 0
        self.tells_reasons = self.level == 5 and connect.request_problem_information  # [3.1.2-29]
        self._packet_bytes_max = self._limits.packet_bytes_max
        self._client_id = connect.client_id
        self._topic_alias_maximum = connect.topic_alias_maximum
        self._fixed_headers = CONNECTED[self.level] if connect.authentication_method is None else AUTHENTICATING
        received.add(connect)

    def _read_disconnect(self, data: bytes, body: int, stop: int, received: ReceivedEvents) -> None:
        event = decode_disconnect(data, body, stop, self.level)
        if event.session_expiry_s > 0 and self._expires_at_close:
            raise PeerViolation(PROTOCOL_ERROR, "DISCONNECT sets a Session Expiry Interval, CONNECT had 0 (3.14.2.2.2)")
        self._made_parts().disconnected_by = event
        received.add(event)
        self._end()

    # --- ending and writing ---

    def _add_violation(self, violation: PeerViolation, received: ReceivedEvents) -> None:
        if self._stage == _ASKING:
            received.drop()  # CONNECT is refused, and nothing that came with it is processed [3.1.4-6]
        received.add(self._violated(violation))

    def _violated(self, violation: PeerViolation) -> PeerViolated:
        """End because of the peer: queue the answer its version has for it; return what to report."""
        answer = b""
        if self._stage == _OPEN and self.level == 5:
            answer = self._queue_first_that_fits(encode_disconnects(violation.reason_code, violation.text))
        elif self._stage == _ASKING:
            refusals = encode_violation_refusals(self.level, violation.reason_code, violation.text)
            answer = self._queue_first_that_fits(refusals)
        self._end()
        return PeerViolated(violation.reason_code, violation.text, answer)

    def _queue_first_that_fits(self, packets: list[bytes]) -> bytes:
        """Queue the first of these forms that the client takes; return it, empty if there is none."""
        for packet in packets:
            if not 0 < self.client_packet_bytes_max < len(packet):
                self._queue(packet)
                return packet
        return b""

    def _answer(self, packets: bytes) -> None:
        self.answered_bytes += len(packets)
        self._queue(packets)

    def _queue(self, packet: bytes) -> None:
        if self.has_output:
            self._several().append(packet)
        else:
            self._only = packet
            self.has_output = True

    def _several(self) -> list[bytes]:
        """Return the pieces to be written as a list, to be added to; none is alone any more."""
        if self._pieces is _NO_PIECES:
            self._pieces = []
        if len(self._only) > 0:
            self._pieces.append(self._only)
            self._only = b""
        return self._pieces

    def _end(self) -> None:
        self._stage = _ENDED
        self.forget_partial()

    def _asked(self, command: str) -> ConnectReceived | None:
        """Return the CONNECT that waits for an answer; None when the client has left meanwhile."""
        if self._stage == _ENDED:
            return None
        connect = None if self._parts is None else self._parts.connect
        if self._stage != _ASKING or connect is None:
            raise LocalMisuse(f"{command} without a CONNECT that waits for it [3.2.0-2]")
        return connect

    def _may_send(self) -> bool:
        if self._stage == _OPEN:
            return True
        if self._stage != _ENDED:
            raise LocalMisuse("a packet before CONNACK [3.2.0-1]")
        return False
