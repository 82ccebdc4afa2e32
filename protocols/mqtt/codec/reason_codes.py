"""Reason codes of MQTT 5.0, the packets each may appear in, and the return codes of 3.x they map to.

Behind them are the two protocol errors: `PeerViolation`, which carries a reason code, and `LocalMisuse`.
"""

from typing import Final, final

from sluicegate.messaging.clients.rights import (
    AUTHENTICATION_UNAVAILABLE,
    BROKER_RETIRED,
    EGRESS_FLOWS,
    ENDPOINT_COUNT,
    LOGINS_BUSY,
    PAYLOAD_INVALID,
    SESSION_BYTES,
    SESSION_COUNT,
    SUBSCRIPTION_COUNT,
    TOO_MANY_CONNECTIONS,
    VPN_DOWN,
)

SUCCESS: Final = 0x00  # also: normal disconnection, granted QoS 0
GRANTED_QOS_1: Final = 0x01
GRANTED_QOS_2: Final = 0x02
DISCONNECT_WITH_WILL: Final = 0x04
NO_MATCHING_SUBSCRIBERS: Final = 0x10
NO_SUBSCRIPTION_EXISTED: Final = 0x11
CONTINUE_AUTHENTICATION: Final = 0x18
RE_AUTHENTICATE: Final = 0x19
UNSPECIFIED_ERROR: Final = 0x80
MALFORMED_PACKET: Final = 0x81
PROTOCOL_ERROR: Final = 0x82
IMPLEMENTATION_SPECIFIC_ERROR: Final = 0x83
UNSUPPORTED_PROTOCOL_VERSION: Final = 0x84
CLIENT_IDENTIFIER_NOT_VALID: Final = 0x85
BAD_USER_NAME_OR_PASSWORD: Final = 0x86
NOT_AUTHORIZED: Final = 0x87
SERVER_UNAVAILABLE: Final = 0x88
SERVER_BUSY: Final = 0x89
BANNED: Final = 0x8A
SERVER_SHUTTING_DOWN: Final = 0x8B
BAD_AUTHENTICATION_METHOD: Final = 0x8C
KEEP_ALIVE_TIMEOUT: Final = 0x8D
SESSION_TAKEN_OVER: Final = 0x8E
TOPIC_FILTER_INVALID: Final = 0x8F
TOPIC_NAME_INVALID: Final = 0x90
PACKET_IDENTIFIER_IN_USE: Final = 0x91
PACKET_IDENTIFIER_NOT_FOUND: Final = 0x92
RECEIVE_MAXIMUM_EXCEEDED: Final = 0x93
TOPIC_ALIAS_INVALID: Final = 0x94
PACKET_TOO_LARGE: Final = 0x95
MESSAGE_RATE_TOO_HIGH: Final = 0x96
QUOTA_EXCEEDED: Final = 0x97
ADMINISTRATIVE_ACTION: Final = 0x98
PAYLOAD_FORMAT_INVALID: Final = 0x99
RETAIN_NOT_SUPPORTED: Final = 0x9A
QOS_NOT_SUPPORTED: Final = 0x9B
USE_ANOTHER_SERVER: Final = 0x9C
SERVER_MOVED: Final = 0x9D
SHARED_SUBSCRIPTIONS_NOT_SUPPORTED: Final = 0x9E
CONNECTION_RATE_EXCEEDED: Final = 0x9F
MAXIMUM_CONNECT_TIME: Final = 0xA0
SUBSCRIPTION_IDENTIFIERS_NOT_SUPPORTED: Final = 0xA1
WILDCARD_SUBSCRIPTIONS_NOT_SUPPORTED: Final = 0xA2

REFUSAL_FIRST: Final = 0x80  # codes from here on are refusals

NAMES: Final[dict[int, str]] = {
    SUCCESS: "success",
    GRANTED_QOS_1: "granted QoS 1",
    GRANTED_QOS_2: "granted QoS 2",
    DISCONNECT_WITH_WILL: "disconnect with will message",
    NO_MATCHING_SUBSCRIBERS: "no matching subscribers",
    NO_SUBSCRIPTION_EXISTED: "no subscription existed",
    CONTINUE_AUTHENTICATION: "continue authentication",
    RE_AUTHENTICATE: "re-authenticate",
    UNSPECIFIED_ERROR: "unspecified error",
    MALFORMED_PACKET: "malformed packet",
    PROTOCOL_ERROR: "protocol error",
    IMPLEMENTATION_SPECIFIC_ERROR: "implementation specific error",
    UNSUPPORTED_PROTOCOL_VERSION: "unsupported protocol version",
    CLIENT_IDENTIFIER_NOT_VALID: "client identifier not valid",
    BAD_USER_NAME_OR_PASSWORD: "bad user name or password",
    NOT_AUTHORIZED: "not authorized",
    SERVER_UNAVAILABLE: "server unavailable",
    SERVER_BUSY: "server busy",
    BANNED: "banned",
    SERVER_SHUTTING_DOWN: "server shutting down",
    BAD_AUTHENTICATION_METHOD: "bad authentication method",
    KEEP_ALIVE_TIMEOUT: "keep alive timeout",
    SESSION_TAKEN_OVER: "session taken over",
    TOPIC_FILTER_INVALID: "topic filter invalid",
    TOPIC_NAME_INVALID: "topic name invalid",
    PACKET_IDENTIFIER_IN_USE: "packet identifier in use",
    PACKET_IDENTIFIER_NOT_FOUND: "packet identifier not found",
    RECEIVE_MAXIMUM_EXCEEDED: "receive maximum exceeded",
    TOPIC_ALIAS_INVALID: "topic alias invalid",
    PACKET_TOO_LARGE: "packet too large",
    MESSAGE_RATE_TOO_HIGH: "message rate too high",
    QUOTA_EXCEEDED: "quota exceeded",
    ADMINISTRATIVE_ACTION: "administrative action",
    PAYLOAD_FORMAT_INVALID: "payload format invalid",
    RETAIN_NOT_SUPPORTED: "retain not supported",
    QOS_NOT_SUPPORTED: "QoS not supported",
    USE_ANOTHER_SERVER: "use another server",
    SERVER_MOVED: "server moved",
    SHARED_SUBSCRIPTIONS_NOT_SUPPORTED: "shared subscriptions not supported",
    CONNECTION_RATE_EXCEEDED: "connection rate exceeded",
    MAXIMUM_CONNECT_TIME: "maximum connect time",
    SUBSCRIPTION_IDENTIFIERS_NOT_SUPPORTED: "subscription identifiers not supported",
    WILDCARD_SUBSCRIPTIONS_NOT_SUPPORTED: "wildcard subscriptions not supported",
}

# Codes that a packet may carry; any other is malformed when received and never sent [3.2.2-8] [3.4.2-1] [3.14.2-1].
PUBLISH_ANSWER_CODES: Final = frozenset({0x00, 0x10, 0x80, 0x83, 0x87, 0x90, 0x91, 0x97, 0x99})  # PUBACK, PUBREC
RELEASE_CODES: Final = frozenset({0x00, 0x92})  # PUBREL, PUBCOMP
SUBACK_CODES: Final = frozenset({0, 1, 2, 0x80, 0x83, 0x87, 0x8F, 0x91, 0x97, 0x9E, 0xA1, 0xA2})
UNSUBACK_CODES: Final = frozenset({0x00, 0x11, 0x80, 0x83, 0x87, 0x8F, 0x91})
CONNACK_REFUSALS: Final = frozenset({*range(0x80, 0x8B), 0x8C, 0x90, 0x95, 0x97, *range(0x99, 0x9E), 0x9F})
CLIENT_DISCONNECT_CODES: Final = frozenset(
    {0x00, 0x04, *range(0x80, 0x84), 0x8C, 0x90, 0x93, 0x94, 0x95, 0x96, 0x97, 0x98, 0x99}
)
SERVER_DISCONNECT_CODES: Final = frozenset(
    {0x00, *range(0x80, 0x84), 0x87, 0x89, *range(0x8B, 0x91), *range(0x93, 0xA3)}
)

# CONNACK of 3.x knows five refusals. A code that is not here is answered by closing alone [311:3.1.4-1].
CONNACK_3X: Final[dict[int, int]] = {
    UNSPECIFIED_ERROR: 3,
    IMPLEMENTATION_SPECIFIC_ERROR: 3,
    UNSUPPORTED_PROTOCOL_VERSION: 1,
    CLIENT_IDENTIFIER_NOT_VALID: 2,
    BAD_USER_NAME_OR_PASSWORD: 5,  # 3.1: 4
    NOT_AUTHORIZED: 5,
    SERVER_UNAVAILABLE: 3,
    SERVER_BUSY: 3,
    BANNED: 5,
    BAD_AUTHENTICATION_METHOD: 5,
    QUOTA_EXCEEDED: 3,
    USE_ANOTHER_SERVER: 3,
    SERVER_MOVED: 3,
    CONNECTION_RATE_EXCEEDED: 3,
}

# The code for each denial by the client's profiles; NOT_AUTHORIZED for any other.
DENIAL_CODES: Final[dict[str, int]] = {
    LOGINS_BUSY: SERVER_BUSY,
    AUTHENTICATION_UNAVAILABLE: SERVER_UNAVAILABLE,
    VPN_DOWN: SERVER_UNAVAILABLE,
    BROKER_RETIRED: SERVER_UNAVAILABLE,
    TOO_MANY_CONNECTIONS: QUOTA_EXCEEDED,
    SUBSCRIPTION_COUNT: QUOTA_EXCEEDED,
    SESSION_COUNT: QUOTA_EXCEEDED,
    SESSION_BYTES: QUOTA_EXCEEDED,
    EGRESS_FLOWS: QUOTA_EXCEEDED,
    ENDPOINT_COUNT: QUOTA_EXCEEDED,
    PAYLOAD_INVALID: PAYLOAD_FORMAT_INVALID,
}


def name_of(reason_code: int) -> str:
    """Return the standard's name of a code, for logs."""
    return NAMES.get(reason_code, f"reason code 0x{reason_code:02X}")


@final
class PeerViolation(Exception):
    """The client broke a rule, and its connection ends. Never raised out of `MqttEngine.feed`: it becomes an event.

    The code is one of 5.0; the engine maps it for 3.x clients, which get no code in most cases.
    """

    def __init__(self, reason_code: int, text: str) -> None:
        super().__init__(text)
        self.reason_code = reason_code
        self.text = text


@final
class LocalMisuse(Exception):
    """The caller asked the engine for something the standard forbids. A bug, not an input error."""
