"""Messages of MQTT remotes: between normalised headers and the properties and payloads of both versions."""

import time
from typing import Final

from sluicegate.messaging.message.headers import NATIVE_NONE, PARTITION_KEY_BYTES_MAX, Headers
from sluicegate.messaging.message.keys import key_hash
from sluicegate.messaging.topics.syntax import (
    Syntax,
    TopicError,
    TopicFilter,
    check_topic_syntax,
    is_queue_topic,
    matches,
    parse_filter,
    parse_shared,
)
from sluicegate.protocols.bridges.path import PATH
from sluicegate.protocols.bridges.remote import Outgoing
from sluicegate.protocols.bridges.settings import BridgeSettings
from sluicegate.protocols.mqtt.codec.message_properties import (
    DELIVERY_DELAY_NAME,
    decode_publish_properties,
    encode_message_properties,
)
from sluicegate.protocols.mqtt.codec.properties import user_property

_PACKET_EXTRA_BYTES: Final = 16  # fixed header, lengths and packet id of a PUBLISH, at most
QUEUE_ALONE: Final = (
    "messages of a queue have any topic, so over MQTT a bridge that reads one has no other incoming rule; "
    "allowed: a bridge of its own for it"
)
GROUP_ID: Final = "group-id"  # AMQP's name of the key, which some publishers use in MQTT as well


def wall_ms() -> int:
    """Return the time of day. Remotes run in threads, which the clock of the loop does not reach."""
    return time.time_ns() // 1_000_000


def encoded_properties(headers: Headers | None, path: str) -> bytes:
    """Return the properties of a PUBLISH, without their length; the expiry is what is left of it now."""
    now_ms = wall_ms()
    if headers is not None and 0 < headers.not_before_ms <= now_ms:
        headers = _without_delay(headers)
    section = b"" if headers is None else encode_message_properties(headers, now_ms)
    return section + user_property(PATH, path) if path else section


def _without_delay(headers: Headers) -> Headers:
    """Return headers without the delivery delay, which is over: another Sluicegate would delay the message again."""
    changed = headers.copy()
    kept = [each for each in changed.user_properties or [] if each[0] != DELIVERY_DELAY_NAME]
    changed.user_properties = kept or None
    changed.native_format, changed.native = NATIVE_NONE, b""  # it repeats the user properties
    return changed


def decoded_headers(section: bytes) -> Headers | None:
    """Return the headers of a received PUBLISH, of its properties without their length. Raises PeerViolation."""
    headers = decode_publish_properties(section).headers(wall_ms())
    if headers is None or headers.partition_key is not None or headers.user_properties is None:
        return headers
    for name, value in headers.user_properties:
        if name == GROUP_ID and isinstance(value, str) and 0 < len(value.encode()) <= PARTITION_KEY_BYTES_MAX:
            keyed = headers.copy()
            keyed.partition_key = value
            keyed.key_hash = key_hash(value)
            if keyed.native_format == NATIVE_NONE:
                keyed.native = b""
            return keyed
    return headers


def check_outgoing(message: Outgoing) -> str:
    """Return why MQTT cannot carry a message; empty: it can. Its size is another matter: see `too_large`."""
    try:
        check_topic_syntax(message.topic)
    except TopicError as error:
        return f"MQTT cannot carry it: {error}"
    return ""


def too_large(message: Outgoing, properties_bytes: int, packet_bytes_max: int) -> str:
    """Return why a message is larger than packets may be; empty: it is not."""
    size = len(message.topic.encode()) + properties_bytes + len(message.payload) + _PACKET_EXTRA_BYTES
    if size <= packet_bytes_max:
        return ""
    return f"its packet has {size} bytes; allowed by the foreign broker or maximum_packet_size: {packet_bytes_max}"


class RuleFinder:
    """Finds the incoming rule of a topic: the first whose filter matches."""

    def __init__(self, settings: BridgeSettings) -> None:
        """Raises ValueError for an invalid filter, and a queue beside other sources: its messages have any topic."""
        sources = [each.source for each in settings.incoming]
        self._filters: list[TopicFilter] = []
        for rule in settings.incoming:
            try:
                self._filters.append(_filter_of(rule.source))
            except TopicError as error:
                raise ValueError(f"incoming rule {rule.name!r}: {error}") from None
        self._has_queue = any(is_queue_topic(each) for each in sources)
        if self._has_queue and len(sources) > 1:
            raise ValueError(f"{' and '.join(sources)}: {QUEUE_ALONE}")

    def rule(self, topic: str) -> int:
        """Return the index of the rule; -1: none, so it is of a subscription that an earlier configuration made."""
        if self._has_queue or (len(self._filters) == 1 and self._filters[0].is_everything()):
            return 0
        for index, topic_filter in enumerate(self._filters):
            if matches(topic_filter, topic):
                return index
        return -1


def _filter_of(source: str) -> TopicFilter:
    """Return the filter of a subscription, also of a shared one. Raises TopicError."""
    shared = parse_shared(source, Syntax.MQTT)
    return parse_filter(source, Syntax.MQTT) if shared is None else shared.filter
