"""Messages of MQTT remotes: between normalised headers and the properties and payloads of both versions."""

import time
from typing import Final

from sluicegate.messaging.message.headers import NATIVE_NONE, PARTITION_KEY_BYTES_MAX, Headers
from sluicegate.messaging.message.keys import key_hash
from sluicegate.protocols.bridges.path import PATH
from sluicegate.protocols.mqtt.codec.message_properties import (
    DELIVERY_DELAY_NAME,
    decode_publish_properties,
    encode_message_properties,
)
from sluicegate.protocols.mqtt.codec.properties import user_property

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
