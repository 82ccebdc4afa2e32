"""CONNECT, read in the order of its fields. `requests/connect.py` decides what to do with it."""

from typing import Final, final

from sluicegate.protocols.mqtt.codec.events import ConnectReceived, Will
from sluicegate.protocols.mqtt.codec.limits import MqttLimits
from sluicegate.protocols.mqtt.codec.message_properties import MessageProperties, decode_will_properties
from sluicegate.protocols.mqtt.codec.properties import (
    AUTHENTICATION_DATA,
    AUTHENTICATION_METHOD,
    IN_CONNECT,
    MAXIMUM_PACKET_SIZE,
    RECEIVE_MAXIMUM,
    REQUEST_PROBLEM_INFORMATION,
    REQUEST_RESPONSE_INFORMATION,
    SESSION_EXPIRY_INTERVAL,
    TOPIC_ALIAS_MAXIMUM,
    Properties,
    read_properties,
)
from sluicegate.protocols.mqtt.codec.reason_codes import (
    CLIENT_IDENTIFIER_NOT_VALID,
    MALFORMED_PACKET,
    PROTOCOL_ERROR,
    QOS_NOT_SUPPORTED,
    RETAIN_NOT_SUPPORTED,
    UNSUPPORTED_PROTOCOL_VERSION,
    PeerViolation,
)
from sluicegate.protocols.mqtt.codec.wire import (
    decode_topic,
    has_unwanted_characters,
    read_binary,
    read_string,
    read_u8,
    read_u16,
    read_varint,
)

SESSION_NEVER_EXPIRES: Final = 0xFFFF_FFFF

_NO_PROPERTIES: Final = Properties()  # shared by all 3.x clients: never modified
_CLEAN_START: Final = 0x02
_WILL: Final = 0x04
_WILL_RETAIN: Final = 0x20
_PASSWORD: Final = 0x40
_USER_NAME: Final = 0x80
_BRIDGE: Final = 0x80  # of the level: mosquitto's bridges try 0x83 and 0x84 first, and fall back on return code 1


@final
class Protocol:
    """The first fields of a CONNECT: how to answer it, and whether it can be read at all."""

    def __init__(self, level: int, supported: bool, announced: int, flags_at: int) -> None:
        self.level = level  # 3, 4 or 5: of the protocol when supported, else of the form to refuse it in
        self.supported = supported
        self.announced = announced  # the level as sent
        self.flags_at = flags_at


def read_protocol(data: bytes, pos: int, end: int) -> Protocol:
    """Read protocol name and level. An unknown name is a violation that cannot be answered in any form [3.1.2-1]."""
    name, pos = read_binary(data, pos, end)
    announced = read_u8(data, pos, end)
    if name == b"MQTT":
        if announced in (4, 5):
            return Protocol(announced, True, announced, pos + 1)
    elif name == b"MQIsdp":
        if announced == 3:
            return Protocol(3, True, announced, pos + 1)
    else:
        raise PeerViolation(UNSUPPORTED_PROTOCOL_VERSION, f"unknown protocol name {name[:16]!r} [3.1.2-1]")
    return Protocol(4 if announced & ~_BRIDGE < 5 else 5, False, announced, pos + 1)  # [3.1.2-2] [311:3.1.2-2]


def decode_connect(data: bytes, protocol: Protocol, end: int, limits: MqttLimits) -> ConnectReceived:
    """Decode the rest of a CONNECT from its flags on."""
    if not protocol.supported:
        raise PeerViolation(UNSUPPORTED_PROTOCOL_VERSION, f"unsupported protocol level {protocol.announced}")
    level = protocol.level
    pos = protocol.flags_at
    flags = read_u8(data, pos, end)
    _check_flags(flags, level)
    keep_alive_s = read_u16(data, pos + 1, end)
    pos += 3
    properties = _NO_PROPERTIES
    if level == 5:
        properties, pos = read_properties(data, pos, end, IN_CONNECT)
        if AUTHENTICATION_DATA in properties.binaries and AUTHENTICATION_METHOD not in properties.texts:
            raise PeerViolation(PROTOCOL_ERROR, "Authentication Data without Authentication Method")
    client_id, pos = read_string(data, pos, end)
    will: Will | None = None
    if flags & _WILL:
        will, pos = _read_will(data, pos, end, flags, level, limits)
    user_name: str | None = None
    password: bytes | None = None
    # 3.1: the remaining length is stronger than the flags; a field that is not there was not given.
    if flags & _USER_NAME and not (level == 3 and pos == end):
        user_name, pos = read_string(data, pos, end)
    if flags & _PASSWORD and not (level == 3 and pos == end):
        password, pos = read_binary(data, pos, end)
    if pos != end:
        raise PeerViolation(MALFORMED_PACKET, f"CONNECT has {end - pos} bytes after its last field")
    clean_start = flags & _CLEAN_START != 0
    _check_client_id(client_id, level, clean_start, limits)
    if user_name is not None and limits.refuse_control_characters and has_unwanted_characters(user_name):
        raise PeerViolation(MALFORMED_PACKET, "user name has control characters")
    numbers = properties.numbers
    return ConnectReceived(
        level=level,
        client_id=client_id,
        clean_start=clean_start,
        keep_alive_s=keep_alive_s,
        user_name=user_name,
        password=password,
        will=will,
        session_expiry_s=numbers.get(SESSION_EXPIRY_INTERVAL, 0)
        if level == 5
        else 0
        if clean_start
        else SESSION_NEVER_EXPIRES,
        receive_maximum=numbers.get(RECEIVE_MAXIMUM, 65_535),
        maximum_packet_size=numbers.get(MAXIMUM_PACKET_SIZE, 0),
        topic_alias_maximum=numbers.get(TOPIC_ALIAS_MAXIMUM, 0),
        request_problem_information=numbers.get(REQUEST_PROBLEM_INFORMATION, 1) == 1,
        request_response_information=numbers.get(REQUEST_RESPONSE_INFORMATION, 0) == 1,
        authentication_method=properties.texts.get(AUTHENTICATION_METHOD),
        authentication_data=properties.binaries.get(AUTHENTICATION_DATA),
        user_properties=properties.user,
    )


def _check_flags(flags: int, level: int) -> None:
    if flags & 0x01 and level > 3:  # 3.1 has no use for it, and does not require that it is 0
        raise PeerViolation(MALFORMED_PACKET, "CONNECT has its reserved flag set [3.1.2-3]")
    will_qos = flags >> 3 & 3
    if will_qos == 3:
        raise PeerViolation(MALFORMED_PACKET, "CONNECT has will QoS 3 [3.1.2-12]")
    if not flags & _WILL and (will_qos or flags & _WILL_RETAIN):
        raise PeerViolation(
            MALFORMED_PACKET, "CONNECT has will QoS or will retain without a will [3.1.2-11] [3.1.2-13]"
        )
    if level < 5 and flags & _PASSWORD and not flags & _USER_NAME:
        raise PeerViolation(MALFORMED_PACKET, "CONNECT has a password without user name [311:3.1.2-22]")


def _read_will(data: bytes, pos: int, end: int, flags: int, level: int, limits: MqttLimits) -> tuple[Will, int]:
    properties: MessageProperties | None = None
    if level == 5:
        length, start = read_varint(data, pos, end)
        pos = start + length
        if pos > end:
            raise PeerViolation(MALFORMED_PACKET, f"will properties of {length} bytes run past the end of the packet")
        if length:
            properties = decode_will_properties(data[start:pos])
    raw_topic, pos = read_binary(data, pos, end)
    payload, pos = read_binary(data, pos, end)
    qos, retain = flags >> 3 & 3, flags & _WILL_RETAIN != 0
    if qos > limits.maximum_qos:
        text = f"will with QoS {qos}, at most {limits.maximum_qos} is supported [3.2.2-12]"
        raise PeerViolation(QOS_NOT_SUPPORTED, text)
    if retain and not limits.retain_available:
        raise PeerViolation(RETAIN_NOT_SUPPORTED, "will with RETAIN, which this server does not have [3.2.2-13]")
    will = Will(
        topic=decode_topic(raw_topic, limits.refuse_control_characters, limits.topic_levels_max),
        payload=payload,
        qos=qos,
        retain=retain,
        delay_s=0 if properties is None else properties.delay_s,
        properties=properties,
    )
    return will, pos


def _check_client_id(client_id: str, level: int, clean_start: bool, limits: MqttLimits) -> None:
    if limits.refuse_control_characters and has_unwanted_characters(client_id):
        raise PeerViolation(CLIENT_IDENTIFIER_NOT_VALID, "client id has control characters")
    if len(client_id) > limits.client_id_bytes_max or len(client_id.encode()) > limits.client_id_bytes_max:
        text = f"client id of {len(client_id.encode())} bytes, {limits.client_id_bytes_max} are allowed"
        raise PeerViolation(CLIENT_IDENTIFIER_NOT_VALID, text)
    if level == 3:
        if client_id == "":
            raise PeerViolation(CLIENT_IDENTIFIER_NOT_VALID, "MQTT 3.1 has no empty client id")
        if 0 < limits.level3_client_id_chars_max < len(client_id):
            raise PeerViolation(
                CLIENT_IDENTIFIER_NOT_VALID,
                f"client id of {len(client_id)} characters, {limits.level3_client_id_chars_max} are allowed",
            )
    elif level == 4 and client_id == "" and not clean_start:
        raise PeerViolation(CLIENT_IDENTIFIER_NOT_VALID, "empty client id without clean session [311:3.1.3-8]")
