"""From a message to the headers and the body of a response.

A property that a header cannot hold is left out: a name that is no token (RFC 9110 5.6.2), a value with control
characters.
"""

import base64
import re
from typing import Final

from sluicegate.messaging.message.headers import PRIORITY_DEFAULT, QUEUE_REPLY, Headers, UserPropertyValue
from sluicegate.messaging.observability.trace_context import TRACE_FIELDS
from sluicegate.protocols.http.codec.message_in import PARTITION_KEY_PROPERTY
from sluicegate.protocols.http.codec.paths import QUEUE_PREFIX, TOPIC_PREFIX

INT64_MAX: Final = (1 << 63) - 1
OCTETS: Final = "application/octet-stream"
TEXT: Final = "text/plain; charset=utf-8"

_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_NO_VALUE: Final = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")


def response_headers(headers: Headers | None, wall_ms: int) -> list[tuple[bytes, bytes]]:
    """Return a message's attributes under the names that requests have for them."""
    fields: list[tuple[bytes, bytes]] = []
    if headers is None:
        append_field(fields, "content-type", OCTETS)
        return fields
    append_field(fields, "content-type", headers.content_type or (TEXT if headers.payload_is_text else OCTETS))
    if headers.correlation is not None:
        append_field(fields, "solace-correlation-id", _text(headers.correlation))
    if headers.message_id is not None:
        append_field(fields, "solace-message-id", headers.message_id)
    if headers.timestamp_ms:
        append_field(fields, "solace-timestamp", str(headers.timestamp_ms))
    if headers.priority != PRIORITY_DEFAULT:
        append_field(fields, "solace-priority", str(headers.priority))
    if headers.dmq_eligible:
        append_field(fields, "solace-dmq-eligible", "true")
    if headers.deliver_to_one:
        append_field(fields, "solace-deliver-to-one", "true")
    if headers.reply_to is not None:
        append_field(fields, "solace-reply-to-destination", _destination(headers.reply_to))
    if headers.expires_at_ms:
        append_field(fields, "solace-time-to-live-in-ms", str(max(1, headers.expires_at_ms - wall_ms)))
    has_key = False
    for name, value in headers.user_properties or []:
        has_key = has_key or name.lower() == PARTITION_KEY_PROPERTY
        _append_property(fields, name, value)
    if headers.partition_key is not None and not has_key:
        _append_property(fields, "JMSXGroupID", headers.partition_key)
    return fields


def append_field(fields: list[tuple[bytes, bytes]], name: str, value: str) -> None:
    """Add a header, unless a header cannot hold it."""
    if _TOKEN.fullmatch(name) is not None and _NO_VALUE.search(value) is None:
        fields.append((name.encode("ascii"), value.encode("utf-8")))


def _append_property(fields: list[tuple[bytes, bytes]], name: str, value: UserPropertyValue) -> None:
    header = f"Solace-User-Property-{name}"
    if value is None:
        return
    if name in TRACE_FIELDS and isinstance(value, str):
        append_field(fields, name, value)  # where the W3C has them
    elif isinstance(value, str):
        # What ends like a type would be read as one.
        append_field(fields, header, f"{value}; type=string" if "; type=" in value or ";type=" in value else value)
    elif isinstance(value, bytes):
        append_field(fields, header, base64.b64encode(value).decode("ascii"))
    elif isinstance(value, bool):
        append_field(fields, header, "true; type=boolean" if value else "false; type=boolean")
    elif isinstance(value, int):
        append_field(fields, header, f"{value}; type={'int64' if value <= INT64_MAX else 'uint64'}")
    else:
        append_field(fields, header, f"{value!r}; type=double")


def _text(correlation: bytes) -> str:
    try:
        return correlation.decode("utf-8")
    except UnicodeDecodeError:
        return correlation.hex()


def _destination(reply_to: str) -> str:
    if reply_to.startswith(QUEUE_REPLY):
        return QUEUE_PREFIX + reply_to[len(QUEUE_REPLY) :]
    return TOPIC_PREFIX + reply_to
