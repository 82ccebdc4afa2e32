"""paho-mqtt's client, with a loop of ours around it and some of its habits changed.

paho reads each packet with four calls of the system, and writes each with one: here they go through buffers. It
confirms a message of QoS 2 to the foreign broker before anybody has stored it: here PUBREC waits, as PUBACK does. It
takes a PUBREC that refuses a message for one that accepts it, and a PUBCOMP of an earlier message for that of the next
one with its identifier. And it publishes a message of QoS 2 again that needs no more than PUBREL, after an attempt to
connect that failed.

The names that begin with an underscore are paho's own. They are those of its releases 2.x.
"""

import socket
import struct
import time
from collections import deque
from collections.abc import Callable
from typing import Any, Final, cast

from paho.mqtt.client import Client, MQTTMessage, MQTTMessageInfo
from paho.mqtt.enums import CallbackAPIVersion, MessageState, MessageType, MQTTErrorCode, MQTTProtocolVersion
from paho.mqtt.properties import Properties

from sluicegate.protocols.bridges.remotes.mqtt.acknowledgements import Acknowledgements
from sluicegate.protocols.bridges.remotes.mqtt.outgoing import ANSWERS_BYTES_MAX
from sluicegate.protocols.bridges.remotes.sockets import READ_BYTES, TURN_BYTES_MAX, close_when_written, why
from sluicegate.protocols.mqtt.codec.reason_codes import PACKET_TOO_LARGE, PROTOCOL_ERROR, PeerViolation
from sluicegate.protocols.mqtt.codec.wire import read_varint

IDS_MAX: Final = 65_535
_SUBSCRIBE_IDS: Final = 512  # the last ones, for packets other than PUBLISH
PUBLISH_IDS_MAX: Final = IDS_MAX - _SUBSCRIBE_IDS

_RELEASED: Final = (MessageState.MQTT_MS_WAIT_FOR_PUBCOMP, MessageState.MQTT_MS_RESEND_PUBREL)
_REFUSED: Final = 0x80  # reason codes from here on are refusals
_PACKET_KIND: Final = 0xF0  # bits of the first byte
_DISCONNECT: Final = b"\xe0\x00"  # Normal disconnection
_ID: Final = struct.Struct("!H")


class Packed:
    """Properties of a PUBLISH that are encoded already; of paho's own class it has what `publish` uses."""

    def __init__(self, section: bytes) -> None:
        self._packed = _varint(len(section)) + section

    def pack(self) -> bytes:
        """Return them with their length."""
        return self._packed


def _varint(value: int) -> bytes:
    encoded = bytearray()
    while True:
        value, low = value >> 7, value & 0x7F
        encoded.append(low | (0x80 if value else 0))
        if not value:
            return bytes(encoded)


class PahoClient(Client):
    """A client of MQTT 5 that one thread serves.

    Its packet ids of messages begin at 1 and are used again when they are free, so that only the first few are ever
    under way: those can be released after a crash of ours (`release_ids`).
    """

    def __init__(
        self,
        client_id: str,
        *,
        received: Callable[[str, bytes, bytes, int, bool, int], None],
        confirmed: Callable[[int, int, str], None],
        packet_bytes_max: int,
    ) -> None:
        """`received` gets topic, properties without length, payload, QoS, retain and packet id of each PUBLISH.

        `confirmed` gets the packet id of a message, and the reason code of its PUBACK, PUBREC or PUBCOMP with a text.
        A packet of more than `packet_bytes_max` is not received: the foreign broker knows that limit.
        """
        super().__init__(
            CallbackAPIVersion.VERSION2,
            client_id,
            protocol=MQTTProtocolVersion.MQTTv5,
            reconnect_on_failure=False,
            manual_ack=True,
        )
        self.suppress_exceptions = False
        self.max_inflight_messages_set(0)  # the window is kept by the caller
        self.on_socket_register_write = _nothing  # packets are written at the end of a turn
        self.connect_socket: Callable[[], socket.socket] = _no_socket  # makes the next connection
        self.loss = ""  # why the connection was lost; empty: the foreign broker has closed it
        self._received = received
        self._confirmed = confirmed
        self._packet_bytes_max = packet_bytes_max
        self.acknowledgements = Acknowledgements(self._acknowledge)
        self.unreleased_ids: set[int] = set()  # PUBREL is sent for them, on suspicion, and PUBCOMP has not come
        self.session_present = False
        self._free_ids: deque[int] = deque()  # given back; the one that was longest unused is the next
        self._last_id = 0
        self._last_other_id = PUBLISH_IDS_MAX
        self._is_publishing = False
        self._input = b""
        self._input_pos = 0
        self._read_bytes = 0  # in this turn
        self._output = bytearray()
        self._output_bytes_max = ANSWERS_BYTES_MAX
        self.written_bytes = 0  # to all sockets
        self.is_readable = False  # the socket, or the TLS above it

    # --- the loop around it ---

    def read(self) -> MQTTErrorCode:
        """Read and handle what is there, up to a bound."""
        self.is_readable = True
        self._read_bytes = 0
        while self.is_readable and self._read_bytes < TURN_BYTES_MAX:
            result = self.loop_read()
            if result != MQTTErrorCode.MQTT_ERR_SUCCESS:
                return result
        return MQTTErrorCode.MQTT_ERR_SUCCESS

    def write(self) -> bool:
        """Write what there is; return whether all is written. Raises OSError."""
        output = self._output
        while output:
            try:
                sent = super()._sock_send(output)
            except BlockingIOError:
                return False
            del output[:sent]
            self.written_bytes += sent
            self._last_msg_out = time.monotonic()
            if self.is_output_full:  # nothing is read then: that the peer takes something is its only sign of life
                self.misses_nothing()
        return True

    def disconnect_when_written(self) -> None:
        """Send DISCONNECT behind what there is, and close the socket."""
        if self._sock is not None:
            self._output += _DISCONNECT
            self.written_bytes += close_when_written(cast(socket.socket, self._sock), self._output)
            self._sock_close()

    def misses_nothing(self) -> None:
        """Wait for no answer to PINGREQ: nothing is read at present, so it may lie in the socket."""
        self._ping_t = 0.0
        self._last_msg_in = self._last_bytes_received = time.monotonic()  # its names in releases of paho

    def _packet_queue(
        self,
        command: int,
        packet: bytes | bytearray,
        mid: int,
        qos: int,
        info: MQTTMessageInfo | None = None,
    ) -> MQTTErrorCode:
        """Append a packet to what is to be written."""
        self._output += packet
        return MQTTErrorCode.MQTT_ERR_SUCCESS

    @property
    def output_bytes(self) -> int:
        """What is not written yet."""
        return len(self._output)

    @property
    def is_output_full(self) -> bool:
        """Whether the peer takes no answers: what it sends is not to be read before it has taken some."""
        return len(self._output) >= self._output_bytes_max

    def close(self) -> None:
        """Close the socket."""
        self._sock_close()

    def _create_socket(self) -> socket.socket:
        """Connect. Raises what `connect_socket` raises; paho would resolve the name in this thread, without a limit."""
        self.loss = ""
        return self.connect_socket()

    def _sock_recv(self, bufsize: int) -> bytes:
        remaining = self._in_packet["remaining_length"]
        if remaining > self._packet_bytes_max:  # [MQTT 3.1.2-24]
            text = f"{remaining} bytes behind its fixed header; allowed are {self._packet_bytes_max} with it"
            raise PeerViolation(PACKET_TOO_LARGE, text)
        pos = self._input_pos
        if pos >= len(self._input):
            try:
                self._input = super()._sock_recv(READ_BYTES)
            except BlockingIOError:
                self.is_readable = False
                raise
            except OSError as error:  # paho logs it
                self.loss = why(error)
                raise
            self._read_bytes += len(self._input)
            pos = 0
        chunk = self._input[pos : pos + bufsize]
        self._input_pos = pos + len(chunk)
        return chunk

    def _sock_send(self, buf: bytes | bytearray) -> int:
        self._output += buf
        return len(buf)

    def _sock_close(self) -> None:
        super()._sock_close()
        self._input = b""
        self._input_pos = 0
        self._output.clear()

    # --- packet ids ---

    def publish_as(self, topic: str, payload: bytes, *, qos: int, retain: bool, properties: Packed) -> int:
        """Publish, and return the packet id. Raises ValueError for what no packet can hold."""
        self._is_publishing = qos > 0
        try:
            return self.publish(topic, payload, qos, retain, cast(Properties, properties)).mid
        finally:
            self._is_publishing = False
            self._output_bytes_max = len(self._output) + ANSWERS_BYTES_MAX

    def _mid_generate(self) -> int:
        if not self._is_publishing:
            self._last_other_id = self._last_other_id + 1 if self._last_other_id < IDS_MAX else PUBLISH_IDS_MAX + 1
            return self._last_other_id
        if self._free_ids:
            return self._free_ids.popleft()
        self._last_id += 1
        assert self._last_id <= PUBLISH_IDS_MAX, "the window is smaller"
        return self._last_id

    def release_ids(self, count: int) -> None:
        """Release the first packet ids, which an earlier run of ours may have left under way (MQTT 3.7.2.1, 0x92).

        The foreign broker would take a new message of QoS 2 under such an id for a repetition, and drop it.
        """
        self.unreleased_ids = set(range(1, count + 1))
        self.repeat_releases()

    def repeat_releases(self) -> None:
        """Release the packet ids again whose PUBCOMP has not come."""
        for packet_id in sorted(self.unreleased_ids):
            self._send_pubrel(packet_id)

    def first_unanswered(self) -> tuple[int, str, int]:
        """Return packet id, topic and payload bytes of the first message with neither PUBACK nor PUBREC; 0: none."""
        for message in self._out_messages.values():
            if message.state not in _RELEASED:
                return message.mid, message.topic, len(message.payload)
        return 0, "", 0

    def forget(self) -> None:
        """Forget all messages under way."""
        self._out_messages.clear()
        self._free_ids.clear()
        self._last_id = 0

    # --- packets that are handled otherwise ---

    def _messages_reconnect_reset_out(self) -> None:
        """Prepare what is under way for the next connection.

        After an attempt to connect that failed paho would publish again what only waits for PUBCOMP.
        """
        resend = MessageState.MQTT_MS_RESEND_PUBREL
        released = [message for message in self._out_messages.values() if message.state == resend]
        super()._messages_reconnect_reset_out()
        for message in released:
            message.state = resend

    def _packet_handle(self) -> MQTTErrorCode:
        """Handle a packet. CONNACK comes first, and once [MQTT 3.2.0-1]."""
        kind = self._in_packet["command"] & _PACKET_KIND
        if (kind == MessageType.CONNACK) == self.is_connected():
            raise PeerViolation(PROTOCOL_ERROR, f"a packet of type {kind >> 4} before CONNACK, or a second CONNACK")
        return super()._packet_handle()

    def _handle_connack(self) -> MQTTErrorCode:
        packet = self._in_packet["packet"]
        is_accepted = len(packet) > 1 and packet[1] == 0
        self.session_present = is_accepted and bool(packet[0] & 1)
        if is_accepted and not self.session_present:
            # The foreign broker knows nothing of what was under way: PUBREL alone would lose it. A refusal says nothing
            # of the session: its flag is always 0 [MQTT 3.2.2-6].
            self.unreleased_ids.clear()
            for message in self._out_messages.values():
                message.dup = False
                if message.state == MessageState.MQTT_MS_RESEND_PUBREL:
                    message.state = MessageState.MQTT_MS_PUBLISH
            self.acknowledgements.session_lost()
        result = super()._handle_connack()
        self._output_bytes_max = len(self._output) + ANSWERS_BYTES_MAX  # it has repeated what was under way
        return result

    def _handle_publish(self) -> MQTTErrorCode:
        command, packet = self._in_packet["command"], bytes(self._in_packet["packet"])
        end = len(packet)
        qos = (command >> 1) & 3
        if end < 2 or qos > 2:
            return MQTTErrorCode.MQTT_ERR_PROTOCOL
        pos = 2 + _ID.unpack_from(packet, 0)[0]
        if end < pos + (2 if qos else 0) + 1:
            return MQTTErrorCode.MQTT_ERR_PROTOCOL
        topic = packet[2:pos].decode("utf-8", "replace")
        packet_id = 0
        if qos:
            (packet_id,) = _ID.unpack_from(packet, pos)
            pos += 2
        length, pos = read_varint(packet, pos, end)
        if qos == 2 and self.acknowledgements.repeats(packet_id):
            return MQTTErrorCode.MQTT_ERR_SUCCESS
        section_end = pos + length
        self._received(topic, packet[pos:section_end], packet[section_end:], qos, bool(command & 1), packet_id)
        return MQTTErrorCode.MQTT_ERR_SUCCESS

    def _acknowledge(self, packet_id: int, qos: int) -> None:
        if qos == 1:
            self._send_puback(packet_id)
        else:
            self._send_pubrec(packet_id)

    def _handle_pubrel(self) -> MQTTErrorCode:
        (packet_id,) = _ID.unpack_from(self._in_packet["packet"], 0)
        self.acknowledgements.released(packet_id)
        return self._send_pubcomp(packet_id)

    def _handle_pubrec(self) -> MQTTErrorCode:
        packet = self._in_packet["packet"]
        code = packet[2] if len(packet) > 2 else 0
        (packet_id,) = _ID.unpack_from(packet, 0)
        if code < _REFUSED:
            if packet_id not in self._out_messages:  # it comes again, and paho does not answer that
                return self._send_pubrel(packet_id)
            return super()._handle_pubrec()
        self._done(packet_id, code, _reason_string(packet))
        return MQTTErrorCode.MQTT_ERR_SUCCESS

    def _handle_pubackcomp(self, cmd: Any) -> MQTTErrorCode:
        packet = self._in_packet["packet"]
        (packet_id,) = _ID.unpack_from(packet, 0)
        if cmd == "PUBCOMP":
            if packet_id in self.unreleased_ids:
                self.unreleased_ids.discard(packet_id)
                return MQTTErrorCode.MQTT_ERR_SUCCESS
            message: MQTTMessage | None = self._out_messages.get(packet_id)
            # Without PUBREC it is for an earlier message: PUBREL that went twice is answered twice. 0x92: the packet id
            # is not known there any more, which means the same.
            if message is not None and message.state in _RELEASED:
                self._done(packet_id, 0, "")
            return MQTTErrorCode.MQTT_ERR_SUCCESS
        code = packet[2] if len(packet) > 2 else 0
        self._done(packet_id, code, _reason_string(packet))
        return MQTTErrorCode.MQTT_ERR_SUCCESS

    def _done(self, packet_id: int, code: int, text: str) -> None:
        message: MQTTMessage | None = self._out_messages.pop(packet_id, None)
        if message is not None:
            self._inflight_messages -= 1
            self._free_ids.append(packet_id)
            self._confirmed(packet_id, code, text)


def _reason_string(packet: bytes | bytearray) -> str:
    """Return the Reason String of an acknowledgement; empty: none."""
    data = bytes(packet)
    if len(data) < 5:
        return ""
    end = len(data)
    _, pos = read_varint(data, 3, end)
    while pos + 3 <= end and data[pos] == 0x1F:
        size = _ID.unpack_from(data, pos + 1)[0]
        return data[pos + 3 : pos + 3 + size].decode("utf-8", "replace")
    return ""


def _nothing(*_: Any) -> None:
    pass


def _no_socket() -> socket.socket:
    raise AssertionError("connect_socket is not set")
