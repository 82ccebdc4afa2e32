"""CONNACK, in the forms of the three versions."""

from typing import Final

from sluicegate.protocols.mqtt.codec.limits import PACKET_BYTES_CEILING, MqttLimits
from sluicegate.protocols.mqtt.codec.packets.disconnect import authentication, farewells
from sluicegate.protocols.mqtt.codec.properties import (
    ASSIGNED_CLIENT_IDENTIFIER,
    MAXIMUM_PACKET_SIZE,
    MAXIMUM_QOS,
    RECEIVE_MAXIMUM,
    RESPONSE_INFORMATION,
    RETAIN_AVAILABLE,
    SERVER_KEEP_ALIVE,
    SESSION_EXPIRY_INTERVAL,
    TOPIC_ALIAS_MAXIMUM,
    number_property,
    section,
    text_property,
)
from sluicegate.protocols.mqtt.codec.reason_codes import (
    BAD_USER_NAME_OR_PASSWORD,
    CLIENT_IDENTIFIER_NOT_VALID,
    CONNACK_3X,
    CONNACK_REFUSALS,
    PROTOCOL_ERROR,
    SUCCESS,
    UNSUPPORTED_PROTOCOL_VERSION,
    LocalMisuse,
)
from sluicegate.protocols.mqtt.codec.wire import fits_string, packet

# 3.x answers a CONNECT that it cannot read by closing; only these have a return code [311:3.1.4-1].
_VIOLATIONS_3X: Final = frozenset({UNSUPPORTED_PROTOCOL_VERSION, CLIENT_IDENTIFIER_NOT_VALID})
_BAD_USER_NAME_OR_PASSWORD_3_1: Final = 4  # in 3.1.1, it is for those that are malformed
_ACCEPTED_3X: Final = b"\x20\x02\x00\x00"
_ACCEPTED_PRESENT_3X: Final = b"\x20\x02\x01\x00"


def encode_acceptance(
    level: int,
    session_present: bool,
    limits: MqttLimits,
    *,
    assigned_client_id: str | None,
    server_keep_alive_s: int,
    session_expiry_s: int,
    authentication_method: str | None,
    authentication_data: bytes | None,
    response_information: str,
) -> list[bytes]:
    """Encode the CONNACKs that may accept a client, the most telling first.

    5.0 gets the properties that differ from the default, and Response Information where the packet may be as large.
    """
    if level < 5:  # in 3.1 the byte of Session Present is reserved
        return [_ACCEPTED_PRESENT_3X if session_present and level == 4 else _ACCEPTED_3X]
    parts: list[bytes] = []
    if session_expiry_s >= 0:
        parts.append(number_property(SESSION_EXPIRY_INTERVAL, session_expiry_s))
    if limits.receive_maximum != 65_535:
        parts.append(number_property(RECEIVE_MAXIMUM, limits.receive_maximum))
    if limits.maximum_qos < 2:
        parts.append(number_property(MAXIMUM_QOS, limits.maximum_qos))
    if not limits.retain_available:
        parts.append(number_property(RETAIN_AVAILABLE, 0))
    if limits.packet_bytes_max < PACKET_BYTES_CEILING:
        parts.append(number_property(MAXIMUM_PACKET_SIZE, limits.packet_bytes_max))
    if assigned_client_id is not None:
        parts.append(text_property(ASSIGNED_CLIENT_IDENTIFIER, assigned_client_id))  # [3.2.2-16]
    if limits.topic_alias_maximum > 0:
        parts.append(number_property(TOPIC_ALIAS_MAXIMUM, limits.topic_alias_maximum))
    if server_keep_alive_s >= 0:
        parts.append(number_property(SERVER_KEEP_ALIVE, server_keep_alive_s))
    if authentication_method is not None:
        parts.append(authentication(authentication_method, authentication_data))  # [4.12.0-5]
    plain = _connack(session_present, SUCCESS, b"".join(parts))
    if not response_information or not fits_string(response_information):
        return [plain]
    parts.append(text_property(RESPONSE_INFORMATION, response_information))
    return [_connack(session_present, SUCCESS, b"".join(parts)), plain]


def encode_refusals(level: int, reason_code: int, text: str, server_reference: str = "") -> list[bytes]:
    """Encode the CONNACKs that may refuse a client, the most telling first. None: 3.x has no word and closes.

    [3.2.2-19] [311:3.1.4-1]
    """
    if reason_code not in CONNACK_REFUSALS:
        raise LocalMisuse(f"CONNACK with reason code 0x{reason_code:02X} [3.2.2-8]")
    if level < 5:
        return_code = CONNACK_3X.get(reason_code)
        if level == 3 and reason_code == BAD_USER_NAME_OR_PASSWORD:
            return_code = _BAD_USER_NAME_OR_PASSWORD_3_1
        return [] if return_code is None else [bytes((0x20, 2, 0, return_code))]
    return [_connack(False, reason_code, each) for each in farewells(text, server_reference)]


def encode_violation_refusals(level: int, reason_code: int, text: str) -> list[bytes]:
    """Encode the CONNACKs that may end a client which broke a rule before it had one, the most telling first."""
    if level < 5 and reason_code not in _VIOLATIONS_3X:
        return []
    return encode_refusals(level, reason_code if reason_code in CONNACK_REFUSALS else PROTOCOL_ERROR, text)


def _connack(session_present: bool, reason_code: int, properties: bytes) -> bytes:
    return packet(0x20, bytes((1 if session_present else 0, reason_code)) + section(properties))
