"""Messages of the AMQP remote: between normalised headers and the bytes that Proton sends and receives.

They are encoded and decoded as those of AMQP clients are (protocols.amqp.messages), so a message that came by AMQP goes
on with its body, annotations and properties as they were. Three things are the bridge's: `to` is where it sends the
message, the application property `Sluicegate-Path` names the brokers passed, and `durable` is the QoS of its rule. The
foreign broker may lose what is not durable after it has confirmed it.
"""

import time
from typing import Final, final
from urllib.parse import quote

from sluicegate.messaging.message.headers import NATIVE_AMQP, Headers
from sluicegate.protocols.amqp.codec.sections import APPLICATION_PROPERTIES, NOWHERE, PROPERTIES, find_sections
from sluicegate.protocols.amqp.messages.decode import BODY_DATA, body_bytes_of, read_message
from sluicegate.protocols.amqp.messages.encode import with_annotations, write_message
from sluicegate.protocols.amqp.types.decoding import decode, decode_list
from sluicegate.protocols.amqp.types.encoding import encode, encode_composite
from sluicegate.protocols.amqp.types.values import AmqpMap, AmqpValue, Symbol
from sluicegate.protocols.bridges.path import PATH
from sluicegate.protocols.bridges.remote import Outgoing

_PREFIXES_MAX: Final = 1024  # beginnings of messages without headers that are remembered
_TO_FIELD: Final = 2  # of the properties

# How brokers write that an address is a topic, or a queue; its name is behind that.
TOPIC_FORMS: Final = (
    "topic://",  # ActiveMQ, Solace, Sluicegate
    "/exchanges/amq.topic/",  # RabbitMQ 4
    "/exchange/amq.topic/",  # the plugin of RabbitMQ 3
    "/topic/",
)
QUEUE_FORMS: Final = ("queue://", "/queues/", "/amq/queue/", "/queue/")
FORMS: Final = (*TOPIC_FORMS, *QUEUE_FORMS)
_QUOTED_FORMS: Final = ("/exchanges/amq.topic/", "/queues/")
# RabbitMQ's annotation with the topic that a message was published to, whatever its `to` is.
_ROUTING_KEY: Final = "x-routing-key"

# A delay that was kept here already; the foreign broker would keep it once more.
_DELAY: Final = "x-opt-delivery-delay"
_DELAY_BYTES: Final = _DELAY.encode()
_NO_DELAY: Final = encode(AmqpMap([(Symbol(_DELAY), None)]))


def wall_ms() -> int:
    """Return the time of day. Remotes run in threads, which the clock of the loop does not reach."""
    return time.time_ns() // 1_000_000


@final
class MessageWriter:
    """Encodes messages for a foreign broker."""

    def __init__(self) -> None:
        self._prefixes: dict[tuple[str, str, bool], bytes] = {}  # by address, path and durability: all but the body

    def write(self, message: Outgoing, address: str) -> bytes:
        """Return the bytes of a message that goes to an address. What is left of its time to live is in them."""
        headers, durable = message.headers, message.qos > 0
        if headers is None:
            return self._prefix(address, message.path, durable=durable) + body_bytes_of(BODY_DATA, message.payload)
        if headers.native_format != NATIVE_AMQP:
            return _write(message.payload, _with_path(headers, message.path), address, durable=durable)
        data = _write(message.payload, headers, address, durable=durable)
        if _DELAY_BYTES in headers.native:
            data = with_annotations(data, _NO_DELAY)
        return _readdressed(data, address, message.path)

    def _prefix(self, address: str, path: str, *, durable: bool) -> bytes:
        key = (address, path, durable)
        prefix = self._prefixes.get(key)
        if prefix is None:
            if len(self._prefixes) >= _PREFIXES_MAX:
                self._prefixes.clear()
            empty = _write(b"", _with_path(Headers(), path), address, durable=durable)
            prefix = self._prefixes[key] = empty[: -len(body_bytes_of(BODY_DATA, b""))]
        return prefix


def _write(payload: bytes, headers: Headers, address: str, *, durable: bool) -> bytes:
    return write_message(
        payload,
        headers,
        topic=address,
        durable=durable,
        delivery_count=0,
        is_first=True,
        wall_ms=wall_ms(),
        heeds_sender=False,
    )


def _with_path(headers: Headers, path: str) -> Headers:
    if not path:
        return headers
    changed = headers.copy()
    changed.user_properties = [*(headers.user_properties or ()), (PATH, path)]
    return changed


def _readdressed(data: bytes, address: str, path: str) -> bytes:
    """Return an encoded message with another `to`, and another path."""
    found = find_sections(data)
    end = found.bare_at
    properties = encode_composite(PROPERTIES, [None, None, address])
    if found.properties_at != NOWHERE:
        fields, end = decode_list(data, found.properties_at, len(data))
        fields += [None] * (_TO_FIELD + 1 - len(fields))
        if fields[_TO_FIELD] == address:
            properties = data[found.bare_at : end]
        else:
            fields[_TO_FIELD] = address
            properties = encode_composite(PROPERTIES, fields)
    pairs: list[tuple[AmqpValue, AmqpValue]] = []
    if found.application_at != NOWHERE:
        application, end = decode(data, found.application_at, len(data))
        assert isinstance(application, AmqpMap), "what came in was a map"
        pairs += [each for each in application.pairs if each[0] != PATH]
    if path:
        pairs.append((PATH, path))
    section = bytes((0x00, 0x53, APPLICATION_PROPERTIES)) + encode(AmqpMap(pairs)) if pairs else b""
    return b"".join((data[: found.bare_at], properties, section, data[end:]))


def read(data: bytes, source: str) -> tuple[bytes, Headers | None, str]:
    """Return payload, headers and topic of a message that came from an address. Raises DecodeError.

    The topic has the form of the source where that is one of topics: `topic://a.b` from `topic://a.*`, and `a.b` from
    `a.*` or from a queue. A message that does not say its topic has the name of the source for it.
    """
    message = read_message(data, wall_ms())
    topic = message.to or source
    headers = message.headers
    if headers is not None and headers.user_properties is not None:
        for name, value in headers.user_properties:
            if name == _ROUTING_KEY and isinstance(value, str) and value:
                topic = value
                break
    form = form_of(source)
    return message.payload, headers, (form if form in TOPIC_FORMS else "") + topic[len(form_of(topic)) :]


def address_of(topic: str) -> str:
    """Return the address of a mapped topic. RabbitMQ 4 wants names in its addresses percent-encoded."""
    form = form_of(topic)
    return form + quote(topic[len(form) :], safe="") if form in _QUOTED_FORMS else topic


def form_of(address: str) -> str:
    """Return how an address says what it is; empty: it is a plain name."""
    if address[:1] != "/" and "://" not in address:
        return ""
    for form in FORMS:
        if address.startswith(form):
            return form
    return ""
