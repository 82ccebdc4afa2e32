"""DISCONNECT and AUTH: the two packets that may omit reason code and properties at their end."""

from typing import Final

from sluicegate.protocols.mqtt.codec.events import AuthReceived, DisconnectReceived
from sluicegate.protocols.mqtt.codec.properties import (
    AUTHENTICATION_DATA,
    AUTHENTICATION_METHOD,
    IN_AUTH,
    IN_DISCONNECT,
    REASON_STRING,
    SERVER_REFERENCE,
    SESSION_EXPIRY_INTERVAL,
    binary_property,
    read_properties,
    section,
    text_property,
)
from sluicegate.protocols.mqtt.codec.reason_codes import (
    CLIENT_DISCONNECT_CODES,
    CONTINUE_AUTHENTICATION,
    MALFORMED_PACKET,
    PROTOCOL_ERROR,
    RE_AUTHENTICATE,
    SERVER_DISCONNECT_CODES,
    SUCCESS,
    LocalMisuse,
    PeerViolation,
)
from sluicegate.protocols.mqtt.codec.wire import fits_string, packet

EXPIRY_UNCHANGED: Final = -1


def decode_disconnect(data: bytes, pos: int, end: int, level: int) -> DisconnectReceived:
    """Decode a client's DISCONNECT. Whether it may change the session's expiry depends on CONNECT."""
    if pos == end:
        return DisconnectReceived(SUCCESS, EXPIRY_UNCHANGED)
    if level < 5:
        raise PeerViolation(MALFORMED_PACKET, f"DISCONNECT of {end - pos} bytes, 3.x allows none")
    reason_code = data[pos]
    if reason_code not in CLIENT_DISCONNECT_CODES:
        raise PeerViolation(MALFORMED_PACKET, f"DISCONNECT with reason code 0x{reason_code:02X} [3.14.2-1]")
    if pos + 1 == end:
        return DisconnectReceived(reason_code, EXPIRY_UNCHANGED)
    properties, pos = read_properties(data, pos + 1, end, IN_DISCONNECT)
    _check_end(pos, end, "DISCONNECT")
    return DisconnectReceived(reason_code, properties.numbers.get(SESSION_EXPIRY_INTERVAL, EXPIRY_UNCHANGED))


def decode_auth(data: bytes, pos: int, end: int) -> AuthReceived:
    """Decode a client's AUTH. Its method has to be there: without one the packet means nothing [4.12.0-5]."""
    if pos == end:
        raise PeerViolation(PROTOCOL_ERROR, "AUTH with success is sent by servers only")
    reason_code = data[pos]
    if reason_code not in (SUCCESS, CONTINUE_AUTHENTICATION, RE_AUTHENTICATE):
        raise PeerViolation(MALFORMED_PACKET, f"AUTH with reason code 0x{reason_code:02X} [3.15.2-1]")
    properties, pos = read_properties(data, pos + 1, end, IN_AUTH)
    _check_end(pos, end, "AUTH")
    method = properties.texts.get(AUTHENTICATION_METHOD)
    if method is None:
        raise PeerViolation(PROTOCOL_ERROR, "AUTH without Authentication Method")
    if reason_code == SUCCESS:
        raise PeerViolation(PROTOCOL_ERROR, "AUTH with success is sent by servers only")
    return AuthReceived(reason_code, method, properties.binaries.get(AUTHENTICATION_DATA))


def _check_end(pos: int, end: int, name: str) -> None:
    if pos != end:
        raise PeerViolation(MALFORMED_PACKET, f"{name} has {end - pos} bytes after its properties")


def encode_disconnects(reason_code: int, text: str, server_reference: str = "") -> list[bytes]:
    """Encode the DISCONNECTs of 5.0 that may end a connection, the most telling first."""
    if reason_code not in SERVER_DISCONNECT_CODES:
        raise LocalMisuse(f"DISCONNECT with reason code 0x{reason_code:02X} [3.14.2-1]")
    told = [packet(0xE0, bytes((reason_code,)) + section(each)) for each in farewells(text, server_reference) if each]
    return [*told, bytes((0xE0, 1, reason_code))]


def farewells(text: str, server_reference: str) -> list[bytes]:
    """Encode the properties that may tell a client why it is sent away, and where to; the most telling first.

    Server Reference goes before Reason String where a client takes no packet with both (section 4.11).
    """
    reference = text_property(SERVER_REFERENCE, server_reference) if server_reference else b""
    reason = explanation(text)
    forms = [reference + reason] if reason else []
    return [*forms, reference, b""] if reference else [*forms, b""]


def explanation(text: str) -> bytes:
    """Encode the Reason String that a refusal may carry; nothing where there is no text, or too long a one."""
    return text_property(REASON_STRING, text) if text and fits_string(text) else b""


def authentication(method: str, data: bytes | None) -> bytes:
    """Encode the properties that name a method and its data, for AUTH and CONNACK."""
    properties = text_property(AUTHENTICATION_METHOD, method)
    return properties if data is None else properties + binary_property(AUTHENTICATION_DATA, data)


def encode_auth(reason_code: int, method: str, data: bytes | None) -> bytes:
    """Encode an AUTH."""
    return packet(0xF0, bytes((reason_code,)) + section(authentication(method, data)))
