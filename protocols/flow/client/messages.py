"""Messages that a program publishes, and deliveries that it receives.

Both are thin: all fields but topic and payload are in `messaging.message.headers.Headers`, made only when one is set.
"""

from collections.abc import Callable, Sequence
from typing import Final, final

from sluicegate.messaging.message.headers import (
    PARTITION_KEY_BYTES_MAX,
    PRIORITY_DEFAULT,
    PRIORITY_MAX,
    Headers,
    UserPropertyValue,
)
from sluicegate.messaging.message.outcomes import ACCEPTED, FAILED, REJECTED, RELEASED
from sluicegate.protocols.flow.codec.frames.deliver import Delivered
from sluicegate.protocols.flow.codec.frames.publish import write_publish
from sluicegate.protocols.flow.codec.frames.settle import OUTCOME_EXTEND
from sluicegate.protocols.flow.codec.properties import ENTRIES_MAX

TOPIC_BYTES_MAX: Final = 0xFFFF  # what its length on the wire can say; the gateway takes fewer

# Of a frame, beside topic, payload and properties of no fixed length: head, fixed part, key, times, lengths.
_OVERHEAD_BYTES: Final = 512
_PROPERTY_BYTES: Final = 9  # slot and lengths of a user property

Properties = Sequence[tuple[str, UserPropertyValue]]


@final
class Message:
    """A message to publish, to a topic or to a queue by name. It must not be changed after publishing.

        Message(b"21.5", topic="plant/7/temperature")
        Message(b"open", queue="orders", key="customer-7", priority=9, ttl_ms=60_000)
        Message("grün".encode(), topic="a/b", is_text=True, properties=[("color", "green"), ("size", 7)])

    - `payload` (bytes): the content; b"" for a message without one.
    - `topic` (str): the topic, such as "orders/eu"; at most 65,535 bytes in UTF-8, without wildcards.
    - `queue` (str): the name of a queue, instead of a topic.
    - `key` (str or None): partition key, 1 to 255 bytes in UTF-8. Messages with one key keep their order.
    - `priority` (int): 0, the lowest, to 9; default 4. Queues that respect priorities deliver the highest first.
    - `ttl_ms` (int): milliseconds until it expires, from when the gateway gets it; 0: never.
    - `delay_ms` (int): milliseconds before it is delivered, from when the gateway gets it; 0: at once.
    - `message_id` (str or None): the program's own name for it.
    - `correlation` (bytes or None): the correlation id, by which a reply is told to belong to a request.
    - `reply_to` (str or None): where a reply is wanted: a topic, or "#q/" and the name of a queue.
    - `content_type` (str or None): media type of the payload, such as "application/json".
    - `timestamp_ms` (int): when it was made, in milliseconds since 1970; 0: not set.
    - `is_text` (bool): the payload is text in UTF-8; default False, bytes.
    - `dmq_eligible` (bool): it may go to a dead message queue that takes only messages marked so; default False.
    - `deliver_to_one` (bool): only one of the topic's subscribers gets it; default False.
    - `eliding_eligible` (bool): a mark for bridges to Solace; the gateway keeps it and does not act on it.
    - `properties` (sequence of pairs): user properties by name, with values of str, int, float, bool, bytes or None.
      With the fields above that are not flags, priority or key, at most 1,024.

    Raises ValueError for a value that is out of range, and unless one of `topic` and `queue` is given.
    """

    __slots__ = ("delay_ms", "headers", "name", "payload", "size_max", "to_queue", "ttl_ms")

    def __init__(
        self,
        payload: bytes,
        *,
        topic: str = "",
        queue: str = "",
        key: str | None = None,
        priority: int = PRIORITY_DEFAULT,
        ttl_ms: int = 0,
        delay_ms: int = 0,
        message_id: str | None = None,
        correlation: bytes | None = None,
        reply_to: str | None = None,
        content_type: str | None = None,
        timestamp_ms: int = 0,
        is_text: bool = False,
        dmq_eligible: bool = False,
        deliver_to_one: bool = False,
        eliding_eligible: bool = False,
        properties: Properties = (),
    ) -> None:
        if bool(topic) == bool(queue):
            raise ValueError("a message goes to a topic or to a queue: give one of the two")
        if not 0 <= priority <= PRIORITY_MAX:
            raise ValueError(f"priority {priority}; priorities are 0 to {PRIORITY_MAX}")
        if ttl_ms < 0 or delay_ms < 0 or timestamp_ms < 0:
            raise ValueError("ttl_ms, delay_ms and timestamp_ms are 0 or more")
        if key is not None and not 0 < len(key.encode("utf-8")) <= PARTITION_KEY_BYTES_MAX:
            raise ValueError(f"a key has 1 to {PARTITION_KEY_BYTES_MAX} bytes in UTF-8")
        name = topic or queue
        if len(name) > TOPIC_BYTES_MAX // 4 and len(name.encode("utf-8")) > TOPIC_BYTES_MAX:
            raise ValueError(f"a topic of more than {TOPIC_BYTES_MAX} bytes")
        self.name = name  # of the topic or queue
        self.to_queue = not topic
        self.payload = payload
        self.ttl_ms = ttl_ms  # 0: it does not expire by itself
        self.delay_ms = delay_ms  # 0: it may be delivered at once
        self.headers: Headers | None = None
        self.size_max = len(payload) + 4 * len(name) + _OVERHEAD_BYTES  # of its frame: it has no more, maybe less
        if (
            key is not None or priority != PRIORITY_DEFAULT or ttl_ms or delay_ms or message_id is not None
            or correlation is not None or reply_to is not None or content_type is not None or timestamp_ms or is_text
            or dmq_eligible or deliver_to_one or eliding_eligible or properties
        ):  # fmt: skip
            self.headers = Headers(
                partition_key=key,
                priority=priority,
                payload_is_text=is_text,
                content_type=content_type,
                correlation=correlation,
                reply_to=reply_to,
                message_id=message_id,
                timestamp_ms=timestamp_ms,
                dmq_eligible=dmq_eligible,
                deliver_to_one=deliver_to_one,
                eliding_eligible=eliding_eligible,
                user_properties=list(properties) or None,
            )
            self.size_max += _properties_bytes_max(self.headers)
            _check_count(self.headers, ttl_ms, delay_ms)

    def encode(self, flow_id: int, sequence: int) -> bytes:
        """Return the PUBLISH frame of the message on a publisher flow; on none it is a direct message."""
        return write_publish(
            flow_id,
            sequence,
            self.name,
            self.payload,
            self.headers,
            to_queue=self.to_queue,
            ttl_ms=self.ttl_ms,
            delay_ms=self.delay_ms,
        )

    def __repr__(self) -> str:
        return f"Message({'queue' if self.to_queue else 'topic'} {self.name!r}, {len(self.payload)} bytes)"


def _check_count(headers: Headers, ttl_ms: int, delay_ms: int) -> None:
    """Raise ValueError for more properties than the gateway takes."""
    fields: list[object] = [headers.message_id, headers.correlation, headers.reply_to, headers.content_type]
    fields += [each or None for each in (ttl_ms, delay_ms, headers.timestamp_ms)]
    count = len(headers.user_properties or ()) + len(fields) - fields.count(None)
    if count > ENTRIES_MAX:
        raise ValueError(f"{count} properties, with the fields that are set; at most {ENTRIES_MAX} are taken")


def _properties_bytes_max(headers: Headers) -> int:
    size = 0 if headers.correlation is None else len(headers.correlation)
    for text in (headers.message_id, headers.reply_to, headers.content_type):
        size += 0 if text is None else 4 * len(text)
    for name, value in headers.user_properties or ():
        value_bytes = 4 * len(value) if isinstance(value, str | bytes) else 8
        size += 4 * len(name) + _PROPERTY_BYTES + value_bytes
    return size


_NO_HEADERS: Final = Headers()


class Received:
    """A message as a program gets it."""

    __slots__ = ("_delivered", "_headers")

    def __init__(self, delivered: Delivered) -> None:
        self._delivered = delivered
        self._headers = delivered.headers or _NO_HEADERS

    @property
    def payload(self) -> bytes:
        """The published payload."""
        return self._delivered.payload

    @property
    def topic(self) -> str:
        """The topic it was published to; `$queue/NAME` for a queue by name."""
        return self._delivered.topic

    @property
    def key(self) -> str | None:
        """Its partition key. Messages with one key come in order."""
        return self._headers.partition_key

    @property
    def redelivered(self) -> bool:
        """Whether it was, or may have been, delivered before."""
        return self._delivered.redelivered

    @property
    def was_direct(self) -> bool:
        """Whether it was published as a direct message."""
        return self._delivered.was_direct

    @property
    def received_ms(self) -> int:
        """When the gateway got it, by the gateway's clock: ms since 1970."""
        return self._delivered.received_ms

    @property
    def expires_at_ms(self) -> int:
        """When it expires, by this machine's clock: ms since 1970; 0: never."""
        return self._headers.expires_at_ms

    @property
    def timestamp_ms(self) -> int:
        """When it was sent, set by the sender: ms since 1970; 0: not set."""
        return self._headers.timestamp_ms

    @property
    def priority(self) -> int:
        """0, the lowest, to 9."""
        return self._headers.priority

    @property
    def message_id(self) -> str | None:
        """Its sender's name for it."""
        return self._headers.message_id

    @property
    def correlation(self) -> bytes | None:
        """The correlation id that the sender set."""
        return self._headers.correlation

    @property
    def reply_to(self) -> str | None:
        """Where an answer is wanted: a topic, or `#q/` and the name of a queue."""
        return self._headers.reply_to

    @property
    def content_type(self) -> str | None:
        """The content type of the payload."""
        return self._headers.content_type

    @property
    def is_text(self) -> bool:
        """Whether the sender marked the payload as UTF-8 text."""
        return self._headers.payload_is_text

    @property
    def dmq_eligible(self) -> bool:
        """Whether it may go to a dead message queue that takes only messages marked so."""
        return self._headers.dmq_eligible

    @property
    def deliver_to_one(self) -> bool:
        """Whether it was for one of the topic's subscribers."""
        return self._headers.deliver_to_one

    @property
    def eliding_eligible(self) -> bool:
        """A mark for bridges to Solace; the gateway keeps it and does not act on it."""
        return self._headers.eliding_eligible

    @property
    def properties(self) -> list[tuple[str, UserPropertyValue]]:
        """User properties in the sender's order; names may repeat. Why a message is dead stands here, too."""
        return list(self._headers.user_properties or ())

    @property
    def headers(self) -> Headers | None:
        """All of these but the topic, the payload and what the gateway says of the delivery; None: it has none.

        It must not be changed.
        """
        return self._delivered.headers

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.topic!r}, {len(self.payload)} bytes)"


class QueueMessage(Received):
    """A message of a queue, as a browser sees it."""

    __slots__ = ()

    @property
    def sequence(self) -> int:
        """Its number in its partition, for good."""
        return self._delivered.message_id

    @property
    def partition(self) -> int:
        """Number of the partition it lies in, from 0."""
        return self._delivered.partition

    @property
    def delivery_count(self) -> int:
        """How often it was delivered, with this time; it stays at 65535."""
        return self._delivered.delivery_count


@final
class Delivery(QueueMessage):
    """A message of a queue. It is the consumer's until it is settled, or taken back.

    A delivery is settled once; later settlements change nothing. The words go out with the next write and
    are not answered.
    """

    __slots__ = ("_settle", "bind_number")

    def __init__(self, delivered: Delivered, bind_number: int, settle: Callable[["Delivery", int], None]) -> None:
        super().__init__(delivered)
        self._settle = settle
        self.bind_number = bind_number  # which of the consumer's binds it came by

    # --- what became of it ---

    def accept(self) -> None:
        """It is consumed."""
        self._settle(self, ACCEPTED)

    def release(self) -> None:
        """Give it back untouched: it is delivered again, and its count stays."""
        self._settle(self, RELEASED)

    def fail(self) -> None:
        """Give it back after a try: it is delivered again, and its count rises."""
        self._settle(self, FAILED)

    def reject(self) -> None:
        """Never again from this queue: it goes to the dead message queue, or is dropped."""
        self._settle(self, REJECTED)

    def extend(self) -> None:
        """Go on holding it: the queue's time to settle begins anew."""
        self._settle(self, OUTCOME_EXTEND)

    # --- which it is ---

    @property
    def delivery_id(self) -> int:
        """Its number among the deliveries of the flow, from 1; a consumer that reconnects begins anew."""
        return self._delivered.delivery_id

    @property
    def assignment_epoch(self) -> int:
        """Which ownership of the partition it was delivered under."""
        return self._delivered.epoch

    @property
    def first_of_group(self) -> bool:
        """Whether it is the first message of its message group that this consumer gets."""
        return self._delivered.first_of_group
