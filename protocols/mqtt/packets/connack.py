"""CONNACK, in the forms of the three versions."""

from protocols.mqtt.events import ConnectReceived
from protocols.mqtt.limits import PACKET_BYTES_CEILING
from protocols.mqtt.packets.session_end import authentication
from protocols.mqtt.properties import (
    ASSIGNED_CLIENT_IDENTIFIER,
    MAXIMUM_PACKET_SIZE,
    MAXIMUM_QOS,
    REASON_STRING,
    RECEIVE_MAXIMUM,
    RESPONSE_INFORMATION,
    RETAIN_AVAILABLE,
    SERVER_KEEP_ALIVE,
    SERVER_REFERENCE,
    SESSION_EXPIRY_INTERVAL,
    TOPIC_ALIAS_MAXIMUM,
    number_property,
    section,
    text_property,
)
from protocols.mqtt.reason_codes import CONNACK_3X
from protocols.mqtt.wire import fits_string, packet


def encode_acceptance_3x(level: int, session_present: bool) -> bytes:
    """Encode the CONNACK that accepts a 3.x client. In 3.1 the byte of Session Present is reserved."""
    return bytes((0x20, 2, 1 if session_present and level == 4 else 0, 0))


def encode_refusal_3x(reason_code: int) -> bytes:
    """Encode the CONNACK that refuses a 3.x client; empty when 3.x has no word for it and closes [311:3.1.4-1]."""
    return_code = CONNACK_3X.get(reason_code)
    return b"" if return_code is None else bytes((0x20, 2, 0, return_code))


def encode_connack(session_present: bool, reason_code: int, properties: bytes) -> bytes:
    """Encode a CONNACK of 5.0 with encoded properties."""
    return packet(0x20, bytes((1 if session_present else 0, reason_code)) + section(properties))


def acceptance_properties(
    connect: ConnectReceived,
    *,
    assigned_client_id: str | None,
    server_keep_alive_s: int,
    session_expiry_s: int,
    receive_maximum: int,
    topic_alias_maximum: int,
    maximum_packet_size: int,
    maximum_qos: int,
    retain_available: bool,
    authentication_method: str | None,
    authentication_data: bytes | None,
    response_information: str | None,
) -> bytes:
    """Encode what a 5.0 client is told with its acceptance: only what differs from the standard's default."""
    parts: list[bytes] = []
    if session_expiry_s >= 0:
        parts.append(number_property(SESSION_EXPIRY_INTERVAL, session_expiry_s))
    if receive_maximum != 65_535:
        parts.append(number_property(RECEIVE_MAXIMUM, receive_maximum))
    if maximum_qos < 2:
        parts.append(number_property(MAXIMUM_QOS, maximum_qos))
    if not retain_available:
        parts.append(number_property(RETAIN_AVAILABLE, 0))
    if maximum_packet_size < PACKET_BYTES_CEILING:
        parts.append(number_property(MAXIMUM_PACKET_SIZE, maximum_packet_size))
    if assigned_client_id is not None:
        parts.append(text_property(ASSIGNED_CLIENT_IDENTIFIER, assigned_client_id))  # [3.2.2-16]
    if topic_alias_maximum > 0:
        parts.append(number_property(TOPIC_ALIAS_MAXIMUM, topic_alias_maximum))
    if server_keep_alive_s >= 0:
        parts.append(number_property(SERVER_KEEP_ALIVE, server_keep_alive_s))
    if response_information is not None and connect.request_response_information:
        parts.append(text_property(RESPONSE_INFORMATION, response_information))  # [3.1.2-28]
    if authentication_method is not None:
        parts.append(authentication(authentication_method, authentication_data))  # [4.12.0-5]
    return b"".join(parts)


def explanation(text: str, server_reference: str) -> bytes:
    """Encode the properties that a refusal may carry: Server Reference and Reason String."""
    properties = b""
    if server_reference and fits_string(server_reference):
        properties += text_property(SERVER_REFERENCE, server_reference)
    if text and fits_string(text):
        properties += text_property(REASON_STRING, text)
    return properties
