"""SUBSCRIBE and UNSUBSCRIBE with their acknowledgements. Each filter gets its own reason code."""

from typing import Final

from mypy_extensions import i64

from sluicegate.messaging.topics.syntax import QUEUE_TOPICS, Syntax, TopicError, parse_subscription
from sluicegate.protocols.mqtt.codec.events import SubscribeReceived, SubscriptionRequest, UnsubscribeReceived
from sluicegate.protocols.mqtt.codec.properties import (
    IN_SUBSCRIBE,
    IN_UNSUBSCRIBE,
    SUBSCRIPTION_IDENTIFIER,
    read_properties,
    section,
)
from sluicegate.protocols.mqtt.codec.reason_codes import (
    MALFORMED_PACKET,
    PACKET_TOO_LARGE,
    PROTOCOL_ERROR,
    QUOTA_EXCEEDED,
    REFUSAL_FIRST,
    SUBACK_CODES,
    TOPIC_FILTER_INVALID,
    UNSPECIFIED_ERROR,
    UNSUBACK_CODES,
    LocalMisuse,
    PeerViolation,
)
from sluicegate.protocols.mqtt.codec.wire import packet, read_string, read_u8, read_u16, varint

# Names of User Properties: ours, for 5.0 has neither selectors nor Deliver-To-One nor partitions.
SELECTOR_NAME: Final = "selector"
PRIORITY_NAME: Final = "dto-priority"
PARTITION_COUNT_NAME: Final = "partition-count"

_SHARE: Final = "$share/"


def read_packet_id(data: bytes, pos: i64, end: i64) -> i64:
    """Return a packet id. 0 is none [2.2.1-3] [311:2.3.1-1]."""
    packet_id = read_u16(data, pos, end)
    if packet_id == 0:
        raise PeerViolation(PROTOCOL_ERROR, "packet id 0 [2.2.1-3]")
    return packet_id


def decode_subscribe(
    data: bytes, pos: int, end: int, level: int, filters_max: int, client_packet_bytes_max: int
) -> SubscribeReceived:
    """Decode a SUBSCRIBE. In 3.x a request reads as one of 5.0 with all options off."""
    packet_id = read_packet_id(data, pos, end)
    pos += 2
    subscription_identifier = 0
    selectors: list[str] = []
    priorities: list[str] = []
    partition_counts: list[str] = []
    if level == 5:
        properties, pos = read_properties(data, pos, end, IN_SUBSCRIBE)
        subscription_identifier = properties.numbers.get(SUBSCRIPTION_IDENTIFIER, 0)
        selectors = [text for name, text in properties.user if name == SELECTOR_NAME]
        priorities = [text for name, text in properties.user if name == PRIORITY_NAME]
        partition_counts = [text for name, text in properties.user if name == PARTITION_COUNT_NAME]
    requests: list[SubscriptionRequest] = []
    while pos < end:
        filter_text, pos = read_string(data, pos, end)
        if level < 5:
            _check_filter(filter_text)
        options = read_u8(data, pos, end)
        pos += 1
        requests.append(_request(filter_text, options, level))
        _check_count(len(requests), filters_max)
    if not requests:
        raise PeerViolation(PROTOCOL_ERROR, "SUBSCRIBE without filters [3.8.3-2]")
    _check_answer("SUBACK", len(requests), client_packet_bytes_max)
    return SubscribeReceived(packet_id, requests, subscription_identifier, selectors, priorities, partition_counts)


def _request(filter_text: str, options: int, level: int) -> SubscriptionRequest:
    qos = options & 0x03
    if qos == 3:
        raise PeerViolation(PROTOCOL_ERROR, "subscription with QoS 3 (3.8.3.1) [311:3.8.3-4]")
    if options & (0xC0 if level == 5 else 0xFC):
        raise PeerViolation(MALFORMED_PACKET, f"subscription options 0x{options:02X} have reserved bits set [3.8.3-5]")
    retain_handling = options >> 4 & 3
    if retain_handling == 3:
        raise PeerViolation(PROTOCOL_ERROR, "subscription with Retain Handling 3")
    no_local = options & 0x04 != 0
    if no_local and filter_text.startswith(_SHARE):
        raise PeerViolation(PROTOCOL_ERROR, "No Local on a shared subscription [3.8.3-4]")
    return SubscriptionRequest(filter_text, qos, no_local, options & 0x08 != 0, retain_handling)


def decode_unsubscribe(
    data: bytes, pos: int, end: int, level: int, filters_max: int, client_packet_bytes_max: int
) -> UnsubscribeReceived:
    """Decode an UNSUBSCRIBE."""
    packet_id = read_packet_id(data, pos, end)
    pos += 2
    if level == 5:
        _, pos = read_properties(data, pos, end, IN_UNSUBSCRIBE)
    filters: list[str] = []
    while pos < end:
        filter_text, pos = read_string(data, pos, end)
        if level < 5:
            _check_filter(filter_text)
        filters.append(filter_text)
        _check_count(len(filters), filters_max)
    if not filters:
        raise PeerViolation(PROTOCOL_ERROR, "UNSUBSCRIBE without filters [3.10.3-2]")
    _check_answer("UNSUBACK", len(filters), client_packet_bytes_max)
    return UnsubscribeReceived(packet_id, filters)


def _check_filter(filter_text: str) -> None:
    """Refuse an empty or malformed filter of 3.x, where it ends the connection. 5.0 has a code for each filter.

    [311:4.7.1-2] [311:4.7.1-3] [311:4.7.3-1] [311:4.8.0-1]
    """
    if filter_text.startswith(QUEUE_TOPICS):  # the name behind it may have any characters
        return
    try:
        parse_subscription(filter_text, Syntax.MQTT)
    except TopicError as error:
        raise PeerViolation(TOPIC_FILTER_INVALID, f"filter {error} [311:4.8.0-1]") from None


def _check_count(count: int, filters_max: int) -> None:
    if count > filters_max:
        raise PeerViolation(QUOTA_EXCEEDED, f"more than {filters_max} filters in one packet")


def _check_answer(name: str, count: int, client_packet_bytes_max: int) -> None:
    """Refuse what could not be answered: the answer's shortest form is larger than the client takes [3.1.2-24].

    `client_packet_bytes_max`: 0: no limit, as for all of 3.x. Before anything is carried out: it would stay a secret.
    """
    if client_packet_bytes_max == 0:
        return
    length = 3 + count  # packet id, length of no properties, codes
    answer_bytes = 1 + len(varint(length)) + length
    if client_packet_bytes_max < answer_bytes:
        reason = f"its {name} has {answer_bytes} bytes, the client takes {client_packet_bytes_max} [3.1.2-24]"
        raise PeerViolation(PACKET_TOO_LARGE, reason)


def encode_suback(packet_id: int, codes: list[int], level: int, properties: bytes = b"") -> bytes:
    """Encode a SUBACK. Codes are those of 5.0; 3.1.1 knows one refusal, 3.1 none: there the caller grants or closes.

    `properties` are for 5.0 only.
    """
    shown = [packet_id >> 8, packet_id & 0xFF]
    if level == 5:
        shown += section(properties)
    for code in codes:
        if code not in SUBACK_CODES:
            raise LocalMisuse(f"SUBACK with reason code 0x{code:02X} [3.9.3-2]")
        if level == 3 and code >= REFUSAL_FIRST:
            raise LocalMisuse("MQTT 3.1 cannot refuse a subscription: grant the requested QoS, or close")
        shown.append(UNSPECIFIED_ERROR if level < 5 and code > UNSPECIFIED_ERROR else code)
    return packet(0x90, bytes(shown))


def encode_unsuback(packet_id: int, codes: list[int], level: int) -> bytes:
    """Encode an UNSUBACK. In 3.x it has no codes."""
    if level < 5:
        return packet(0xB0, packet_id.to_bytes(2, "big"))
    for code in codes:
        if code not in UNSUBACK_CODES:
            raise LocalMisuse(f"UNSUBACK with reason code 0x{code:02X} [3.11.3-2]")
    return packet(0xB0, packet_id.to_bytes(2, "big") + b"\0" + bytes(codes))
