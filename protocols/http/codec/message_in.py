"""From the headers of a request to the attributes of its message.

Names are those of Solace's REST encoding, and ours where it has none. A header that is not about the message (Accept,
User-Agent) is ignored; one that is and cannot be read refuses the request.
"""

import re
from typing import Final, final

from sluicegate.messaging.message.batch import AT_LEAST_ONCE, AT_MOST_ONCE
from sluicegate.messaging.message.headers import (
    PARTITION_KEY_BYTES_MAX,
    PRIORITY_MAX,
    QUEUE_REPLY,
    TIME_MS_MAX,
    Headers,
    UserPropertyValue,
)
from sluicegate.messaging.message.keys import key_hash
from sluicegate.messaging.observability.trace_context import TRACE_FIELDS
from sluicegate.protocols.http.codec.paths import QUEUE_PREFIX, TOPIC_PREFIX, destination_of_name
from sluicegate.protocols.http.codec.responses import BAD_REQUEST, HttpProblem

# Typed user properties in header values: `value` is a string, `value; type=int32` a number.


PREFIX: Final = "solace-user-property-"  # lower case, as headers are compared

_INTEGER_BITS: Final = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}
_UNSIGNED_BITS: Final = {"uint8": 8, "uint16": 16, "uint32": 32, "uint64": 64}
_TYPED: Final = re.compile(r"^(.*);\s*type=([A-Za-z0-9]+)\s*$", re.DOTALL)
_DECIMAL: Final = re.compile(r"^[+-]?[0-9]{1,20}$")


def property_value(name: str, text: str) -> UserPropertyValue:
    """Return the value of a user property. Raises HttpProblem."""
    typed = _TYPED.match(text)
    if typed is None:
        return text
    value: str = typed.group(1).strip()
    kind: str = typed.group(2).lower()
    if kind == "string":
        return value
    if kind in _INTEGER_BITS:
        bits = _INTEGER_BITS[kind]
        return _integer(name, value, kind, -(1 << (bits - 1)), (1 << (bits - 1)) - 1)
    if kind in _UNSIGNED_BITS:
        return _integer(name, value, kind, 0, (1 << _UNSIGNED_BITS[kind]) - 1)
    if kind in ("float", "double"):
        try:
            return float(value)
        except ValueError:
            raise _refused(name, f"{value!r:.80} is no number") from None
    if kind == "boolean":
        if value.lower() not in ("true", "false"):
            raise _refused(name, f"{value!r:.80} is neither true nor false")
        return value.lower() == "true"
    allowed = ", ".join(["string", "boolean", "float", "double", *_INTEGER_BITS, *_UNSIGNED_BITS])
    raise _refused(name, f"the type {kind!r:.80} is none of {allowed}")


def _integer(name: str, value: str, kind: str, low: int, high: int) -> int:
    if _DECIMAL.match(value) is None:
        raise _refused(name, f"{value!r:.80} is no whole number")
    number = int(value)
    if not low <= number <= high:
        raise _refused(name, f"{value} is no {kind}: {low} to {high}")
    return number


def _refused(name: str, why: str) -> HttpProblem:
    return HttpProblem(BAD_REQUEST, f"user property {name!r:.80}: {why}")


SOLACE_PRIORITY_MAX: Final = 255
MILLISECONDS_MAX: Final = 1 << 53  # what every client's JSON and every clock can say
PARTITION_KEY_PROPERTY: Final = "jmsxgroupid"
TEXT_TYPES: Final = ("application/json", "application/xml", "application/x-www-form-urlencoded")
VPN_HEADER: Final = "sluicegate-message-vpn"
REQUIRE_MATCH_HEADER: Final = "sluicegate-require-match"
OF_THE_REQUEST: Final = (  # not of a message
    "sluicegate-batch",
    "sluicegate-destination",
    REQUIRE_MATCH_HEADER,
    VPN_HEADER,
)

_MODES: Final = {"direct": AT_MOST_ONCE, "non-persistent": AT_LEAST_ONCE, "persistent": AT_LEAST_ONCE}


@final
class MessageIn:
    """What a request's headers say of its message."""

    __slots__ = ("headers", "qos")

    def __init__(self, headers: Headers, qos: int) -> None:
        self.headers = headers
        self.qos = qos


def read_attributes(fields: list[tuple[str, str]], payload: bytes, wall_ms: int) -> MessageIn:
    """Return the attributes of a message. `fields` are header names as they were sent, and values. Raises HttpProblem.

    A message is persistent unless its delivery mode says otherwise: whoever waits for the answer of a POST wants to
    know that the message is safe.
    """
    headers = Headers()
    qos = AT_LEAST_ONCE
    properties: list[tuple[str, UserPropertyValue]] = []
    trace: dict[str, str] = {}  # of several headers of one name one list is made (RFC 9110 5.3)
    for name, value in fields:
        lower = name.lower()
        if lower == "content-type":
            headers.content_type = value
            headers.payload_is_text = _is_text(value) and _is_utf8(payload)
        elif lower.startswith(PREFIX):
            _read_property(headers, properties, name[len(PREFIX) :], value)
        elif lower == "solace-delivery-mode":
            qos = _mode(value)
        elif lower in TRACE_FIELDS:
            trace[lower] = f"{trace[lower]},{value}" if lower in trace else value
        elif lower.startswith("solace-") or lower.startswith("sluicegate-"):
            _read_attribute(headers, lower, value, wall_ms)
    properties += trace.items()
    headers.user_properties = properties or None
    key = headers.partition_key
    if key is not None:
        if len(key.encode()) > PARTITION_KEY_BYTES_MAX:
            raise HttpProblem(BAD_REQUEST, f"a partition key of more than {PARTITION_KEY_BYTES_MAX} bytes")
        headers.key_hash = key_hash(key)
    return MessageIn(headers, qos)


def _read_property(headers: Headers, properties: list[tuple[str, UserPropertyValue]], name: str, text: str) -> None:
    if not name:
        raise HttpProblem(BAD_REQUEST, "a Solace-User-Property- header without the property's name")
    value = property_value(name, text)
    properties.append((name, value))
    if name.lower() == PARTITION_KEY_PROPERTY and headers.partition_key is None and isinstance(value, str) and value:
        headers.partition_key = value


def _read_attribute(headers: Headers, name: str, value: str, wall_ms: int) -> None:
    if name == "solace-time-to-live-in-ms":
        ttl_ms = _number(name, value, MILLISECONDS_MAX)
        headers.expires_at_ms = wall_ms + ttl_ms if ttl_ms else 0
    elif name == "solace-dmq-eligible":
        headers.dmq_eligible = _flag(name, value)
    elif name == "solace-deliver-to-one":
        headers.deliver_to_one = _flag(name, value)
    elif name == "solace-message-id":
        headers.message_id = value
    elif name == "solace-correlation-id":
        headers.correlation = value.encode()
    elif name == "solace-timestamp":
        headers.timestamp_ms = min(_number(name, value, MILLISECONDS_MAX), TIME_MS_MAX)
    elif name == "solace-priority":
        headers.priority = min(_number(name, value, SOLACE_PRIORITY_MAX), PRIORITY_MAX)
    elif name == "solace-reply-to-destination":
        headers.reply_to = _reply_to(value)
    elif name == "sluicegate-partition-key":
        headers.partition_key = value or None  # before a user property of that meaning, wherever it stands
    elif name == "sluicegate-delivery-delay-in-ms":
        delay_ms = _number(name, value, MILLISECONDS_MAX)
        headers.not_before_ms = wall_ms + delay_ms if delay_ms else 0
    elif name.startswith("sluicegate-") and name not in OF_THE_REQUEST:
        raise HttpProblem(BAD_REQUEST, f"there is no header {name!r:.80}")


def requires_match(value: str) -> bool:
    """Return whether a request is refused when nobody subscribes to its topic. Raises HttpProblem."""
    return bool(value) and _flag("Sluicegate-Require-Match", value)


def _mode(value: str) -> int:
    mode = _MODES.get(value.strip().lower())
    if mode is None:
        raise HttpProblem(
            BAD_REQUEST, f"Solace-Delivery-Mode: {value!r:.80} is none of Direct, Non-Persistent, Persistent"
        )
    return mode


def _number(name: str, value: str, high: int) -> int:
    text = value.strip()
    if not text.isascii() or not text.isdigit() or len(text) > 20 or int(text) > high:
        raise HttpProblem(BAD_REQUEST, f"{name}: {value!r:.80} is no whole number from 0 to {high}")
    return int(text)


def _flag(name: str, value: str) -> bool:
    text = value.strip().lower()
    if text not in ("true", "false"):
        raise HttpProblem(BAD_REQUEST, f"{name}: {value!r:.80} is neither true nor false")
    return text == "true"


def _reply_to(value: str) -> str:
    """Return a reply address in its normalised form. Raises HttpProblem."""
    destination_of_name(value)
    return QUEUE_REPLY + value[len(QUEUE_PREFIX) :] if value.startswith(QUEUE_PREFIX) else value[len(TOPIC_PREFIX) :]


def _is_text(content_type: str) -> bool:
    kind = content_type.partition(";")[0].strip().lower()
    return kind.startswith("text/") or kind in TEXT_TYPES or kind.endswith("+json") or kind.endswith("+xml")


def _is_utf8(payload: bytes) -> bool:
    try:
        payload.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True
