"""The referee of MQTT 3.1, 3.1.1 and 5.0: which packets a gateway may send on one connection, and when.

The statements are those of 5.0; most of them are in 3.1.1 under other numbers. `grammar` checks the form of a packet,
`deliveries` the messages in flight on a connection.
"""

from collections import deque
from typing import Final

from support.mqtt.packets import (
    AUTH,
    CONNACK,
    CONNECT,
    DISCONNECT,
    PINGREQ,
    PINGRESP,
    PUBACK,
    PUBCOMP,
    PUBLISH,
    PUBREC,
    PUBREL,
    SUBACK,
    SUBSCRIBE,
    UNSUBACK,
    UNSUBSCRIBE,
)
from support.referees.mqtt.deliveries import TOPIC_ALIAS, Asked, Deliveries, Sessions, Subscribed, asked_of, filters_of
from support.referees.mqtt.grammar import CODES, CODES_3, Body, Packet, cut
from support.referees.mqtt.publications import Published
from support.referees.violations import ClientViolation, expect

SILENT, CONNECTED, OVER = "silent", "connected", "over"  # how far what the gateway says has come
FROM_SERVER: Final = {
    CONNACK, PUBLISH, PUBACK, PUBREC, PUBREL, PUBCOMP, SUBACK, UNSUBACK, PINGRESP, DISCONNECT, AUTH,
}  # fmt: skip
REASON_STRING, USER_PROPERTY = 31, 38
ASSIGNED_CLIENT_ID, AUTHENTICATION_METHOD, RESPONSE_INFORMATION = 18, 21, 26


class MqttReferee:
    """Judges one connection. `sessions` is what connections of one gateway's life have left behind."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions
        self._from_gateway = bytearray()
        self._from_client = bytearray()
        self._state = SILENT
        self._asked: Asked | None = None  # by CONNECT
        self._auths_due = 0
        self._pings_due = 0
        self._subscribes: list[tuple[int, list[Subscribed]]] = []  # with their packet ids, until they are answered
        self._unsubscribes: list[tuple[int, list[Subscribed]]] = []
        self._pubacks_due: deque[int] = deque()  # of what the client has published, in order
        self._pubrecs_due: deque[int] = deque()
        self._pubcomps_due: list[int] = []
        self._aliases: dict[object, str] = {}  # of the client's topics
        self._deliveries: Deliveries | None = None  # from CONNACK on

    # --- the gateway ---

    def gateway_says(self, data: bytes) -> None:
        """Judge what the gateway writes. Raises WireViolation."""
        self._from_gateway += data
        for packet in cut(self._from_gateway):
            self._judge(packet)

    def _judge(self, packet: Packet) -> None:
        asked, kind = self._asked, packet.kind
        expect(asked is not None, "3.1.0-1", "packet {} before a CONNECT", kind)
        assert asked is not None
        expect(kind in FROM_SERVER, "2.1.2", "a server sent packet {}", kind)
        expect(self._state != OVER, "3.2.2-7, 3.14.4-1", "packet {} behind the last one", kind)
        expect(asked.level == 5 or kind not in (DISCONNECT, AUTH), "2.1.2", "packet {} of {}", kind, asked.level)
        if kind not in (CONNACK, AUTH):
            expect(self._state == CONNECTED, "3.2.0-1", "packet {} before CONNACK", kind)
        flags = packet.first_byte & 15
        expect(kind == PUBLISH or flags == (2 if kind == PUBREL else 0), "2.1.3-1", "packet {}, flags {}", kind, flags)
        limit = asked.packet_bytes_max
        expect(packet.size <= limit, "3.1.2-24", "packet {} of {} bytes; {} are taken", kind, packet.size, limit)
        body = Body(packet)
        if kind == PUBLISH:
            assert self._deliveries is not None
            self._deliveries.published(packet.first_byte, body)
        elif kind in (PUBACK, PUBREC, PUBREL, PUBCOMP):
            self._acknowledgement(kind, body, asked)
        elif kind == CONNACK:
            self._connack(body, asked)
        elif kind in (SUBACK, UNSUBACK):
            self._answer(kind, body, asked)
        elif kind == PINGRESP:
            expect(self._pings_due > 0, "3.12.4-1", "PINGRESP, and nothing was asked")
            self._pings_due -= 1
        elif not body.is_empty:  # 3.14.2.1: a DISCONNECT or AUTH without anything says 0
            self._code_and_properties(kind, body, asked)
        expect(body.is_empty, "2.1.4", "packet {} has {!r:.80} behind its end", kind, body)
        if kind == DISCONNECT:
            self._state = OVER
        if kind == AUTH:
            expect(self._auths_due > 0, "4.12", "AUTH, and nothing was asked")
            self._auths_due -= 1

    def _code_and_properties(self, kind: int, body: Body, asked: Asked) -> int:
        """Read a reason code and what is behind it; a packet may end before either. Return the code."""
        if body.is_empty:
            return 0
        code = body.number(1)
        expect(code in CODES[kind], "2.4", "packet {} with the code {:#x}", kind, code)
        if not body.is_empty:
            self._properties(kind, body, asked)
        return code

    def _properties(self, kind: int, body: Body, asked: Asked) -> None:
        found = body.properties()
        for identifier, value in found:
            if identifier in (REASON_STRING, USER_PROPERTY) and kind not in (CONNACK, DISCONNECT):
                expect(asked.wants_problems, "3.1.2-29", "packet {} with {!r}", kind, value)
            elif identifier == ASSIGNED_CLIENT_ID:
                expect(not asked.client_id, "3.2.2-16", "the client id {} instead of {}", value, asked.client_id)
                asked.client_id = str(value)
            elif identifier == AUTHENTICATION_METHOD:
                expect(value == asked.method, "4.12.0-5", "the method {} instead of {}", value, asked.method)
            elif identifier == RESPONSE_INFORMATION:
                expect(asked.wants_response_information, "3.1.2-28", "response information {!r}", value)

    def _connack(self, body: Body, asked: Asked) -> None:
        expect(self._state == SILENT, "3.2.0-2", "a second CONNACK")
        flags, code = body.number(1), body.number(1)
        codes = CODES[CONNACK] if asked.level == 5 else CODES_3[CONNACK]
        expect(code in codes, "3.2.2-8", "CONNACK with the code {:#x}", code)
        expect(flags <= (asked.level > 3), "3.2.2-1", "CONNACK with the flags {}", flags)
        expect(not flags or (code == 0 and not asked.clean), "3.2.2-2, 3.2.2-6", "a session is there, code {:#x}", code)
        if asked.level == 5:
            self._properties(CONNACK, body, asked)
        if code:
            self._state = OVER
            return
        self._state = CONNECTED
        # 3.1 has no such flag: a session that is kept may be there.
        is_resumed = bool(flags) or (asked.level == 3 and not asked.clean)
        self._deliveries = Deliveries(asked, self._sessions, is_resumed=is_resumed)

    def _acknowledgement(self, kind: int, body: Body, asked: Asked) -> None:
        packet_id = body.number(2)
        expect(packet_id != 0, "2.2.1-3", "packet {} for the id 0", kind)
        expect(asked.level == 5 or body.is_empty, "3.4.2", "packet {} of {} is longer", kind, asked.level)
        self._code_and_properties(kind, body, asked)
        assert self._deliveries is not None
        if kind == PUBREL:
            self._deliveries.released(packet_id)
        elif kind == PUBCOMP:
            expect(packet_id in self._pubcomps_due, "4.3.3", "PUBCOMP {}, and no PUBREL", packet_id)
            self._pubcomps_due.remove(packet_id)
        else:
            due = self._pubacks_due if kind == PUBACK else self._pubrecs_due
            expect(bool(due) and due[0] == packet_id, "4.6.0-2, 4.6.0-3", "{} for {}: due is {}", kind, packet_id, due)
            due.popleft()

    def _answer(self, kind: int, body: Body, asked: Asked) -> None:
        packet_id = body.number(2)
        if asked.level == 5:
            self._properties(kind, body, asked)
        codes = body.rest()
        requests = self._subscribes if kind == SUBACK else self._unsubscribes
        request = next((each for each in requests if each[0] == packet_id), (0, []))
        expect(request in requests, "3.8.4-2, 3.10.4-4", "packet {} for {}, and nothing was asked", kind, packet_id)
        requests.remove(request)
        filters = request[1]
        if kind == UNSUBACK:
            count = len(filters) if asked.level == 5 else 0
            expect(len(codes) == count, "3.11.3-2", "UNSUBACK {} has {} codes for {}", packet_id, len(codes), count)
            expect(CODES[UNSUBACK].issuperset(codes), "3.11.3-2", "UNSUBACK with {!r}", codes)
            return
        expect(len(codes) == len(filters), "3.9.3-1", "SUBACK has {} codes for {} filters", len(codes), len(filters))
        allowed = CODES[SUBACK] if asked.level == 5 else CODES_3[SUBACK]
        for code, each in zip(codes, filters, strict=True):
            expect(code in allowed, "3.9.3-2", "SUBACK with the code {:#x}", code)
            # What a named queue gives is settled, and so has QoS 1 at least.
            allowed_max = max(each.qos, 1) if each.is_of_queue else each.qos
            expect(code >= 0x80 or code <= allowed_max, "3.8.4-8", "{} was granted of {}", code, each)
            each.qos = code if code < 0x80 else -1
            each.answered_at = self._sessions.publications.now()

    # --- the client ---

    def client_says(self, data: bytes) -> None:
        """Take the client's bytes. Raises ClientViolation, after which the gateway cannot be judged."""
        self._from_client += data
        for packet in cut(self._from_client, _must):
            try:
                self._learn(packet)
            except (AssertionError, IndexError) as error:
                raise ClientViolation(str(error)) from None

    def _learn(self, packet: Packet) -> None:
        kind, body = packet.kind, Body(packet)
        if kind == CONNECT:
            _must(self._asked is None, "3.1.0-2", "a second CONNECT")
            self._asked = asked = asked_of(packet)
            _must(asked.level in (3, 4, 5), "3.1.2-2", "a level of its own")
            _must(asked.packet_bytes_max > 0 and asked.receive_maximum > 0, "3.1.2.11", "a maximum of nothing")
            self._auths_due += asked.level == 5 and asked.method != ""
            return
        deliveries = self._deliveries
        if self._asked is None:
            raise ClientViolation("3.1.0-1: no CONNECT")
        asked = self._asked
        if kind == PINGREQ:
            self._pings_due += 1
        elif kind == AUTH:
            self._auths_due += 1
        elif kind in (SUBSCRIBE, UNSUBSCRIBE):
            request = filters_of(packet, asked.level)
            (self._subscribes if kind == SUBSCRIBE else self._unsubscribes).append(request)
            if kind == SUBSCRIBE:
                asked.subscribed += request[1]
            else:
                asked.has_unsubscribed = True
        elif kind == PUBLISH:
            self._learn_publish(packet.first_byte, body, asked)
        elif kind == PUBREL:
            self._pubcomps_due.append(body.number(2))
        elif kind in (PUBACK, PUBREC, PUBCOMP) and deliveries is not None:
            packet_id = body.number(2)
            deliveries.answered(kind, packet_id, 0 if body.is_empty else body.number(1))

    def _learn_publish(self, first_byte: int, body: Body, asked: Asked) -> None:
        topic, qos = body.text(), first_byte >> 1 & 3
        if qos:
            (self._pubacks_due if qos == 1 else self._pubrecs_due).append(body.number(2))
        properties = body.properties() if asked.level == 5 else []
        alias = dict(properties).get(TOPIC_ALIAS)
        if alias is not None:
            topic = self._aliases[alias] = topic or self._aliases.get(alias, "")
        publisher = asked.client_id or f"without a name, {id(self)}"
        publications = self._sessions.publications
        published = Published(publisher, publications.now(), qos, bool(first_byte & 1), properties)
        publications.add(topic, body.rest(), published)


def _must(holds: bool, section: str, text: str) -> None:
    if not holds:
        raise ClientViolation(f"{section}: {text}")
