"""The attributes of one message beside its topic and payload.

Most device traffic has none, and then no `Headers` object exists at all: a batch has a column of them only when some
row needs one. Values are normalised, so every protocol finds them under the same name. The form in which they arrived
travels along as `native`, so a consumer of the same protocol gets it back byte for byte.
"""

from collections.abc import Mapping
from typing import Final, final

REASON: Final = "sluicegate-dead-reason"
QUEUE: Final = "sluicegate-dead-queue"
PARTITION: Final = "sluicegate-dead-partition"
DELIVERY_COUNT: Final = "sluicegate-dead-delivery-count"
TIME_MS: Final = "sluicegate-dead-time-ms"
CLIENT: Final = "sluicegate-dead-client"
CAUSE: Final = "sluicegate-dead-cause"
VIA: Final = "sluicegate-dead-via"

CAUSE_CHARS_MAX: Final = 256  # of the consumer's text; AMQP clients may give any text


@final
class DeadLetter:
    """The death of a message: why, where, and after how many tries. The first one, if it died again. Never changed.

    It is a field of the headers and not a user property, so a publisher cannot forge it, and the user properties stay
    as published. Consumers of every protocol see it as the properties that `properties` returns.

    See also: adding it to a message and removing it (messaging.message.dead_lettering).
    """

    __slots__ = ("cause", "client", "delivery_count", "died_ms", "partition", "queue", "reason", "via", "was_eligible")

    def __init__(
        self,
        *,
        reason: str,
        queue: str,
        partition: int,
        delivery_count: int,
        died_ms: int,
        client: str,
        cause: str = "",
        was_eligible: bool,
        via: tuple[str, ...],
    ) -> None:
        self.reason = reason  # a DISCARD_... of messaging.message.outcomes
        self.queue = queue  # where it could not be delivered: the target of a re-drive
        self.partition = partition  # number of its partition there
        self.delivery_count = delivery_count  # deliveries that failed or were rejected, as far as is known
        self.died_ms = died_ms  # wall clock
        self.client = client  # the consumer that had it last; empty when no consumer caused the death
        self.cause = cause[:CAUSE_CHARS_MAX]  # why the consumer rejected it, in its own words; empty: not said
        self.was_eligible = was_eligible  # Headers.dmq_eligible as published
        self.via = via  # dead message queues it has died in since, in that order

    def properties(self) -> list[tuple[str, str | int]]:
        """Return the names and values that consumers see."""
        shown: list[tuple[str, str | int]] = [
            (REASON, self.reason),
            (QUEUE, self.queue),
            (PARTITION, self.partition),
            (DELIVERY_COUNT, self.delivery_count),
            (TIME_MS, self.died_ms),
        ]
        if self.client:
            shown.append((CLIENT, self.client))
        if self.cause:
            shown.append((CAUSE, self.cause))
        for name in self.via:
            shown.append((VIA, name))
        return shown

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, DeadLetter):
            return NotImplemented
        return (
            self.properties() == other.properties()
            and self.client == other.client
            and self.was_eligible == other.was_eligible
        )

    __hash__ = None  # type: ignore[assignment]  # compared by value in tests only

    def __repr__(self) -> str:
        return f"DeadLetter({self.reason} in {self.queue!r} after {self.delivery_count}, via {self.via})"


PRIORITY_MAX: Final = 9  # what is published above counts as 9
PRIORITY_DEFAULT: Final = 4  # JMS: for a message without a priority
USER_PROPERTIES_MAX: Final = 1024  # of one published message; a selector searches them for a name
PARTITION_KEY_BYTES_MAX: Final = 255  # JMSXGroupID, UTF-8
TIME_MS_MAX: Final = 253_402_300_799_999  # the end of the year 9999: a later time means never

ORIGINAL_DESTINATION: Final = "x-opt-original-destination"  # user property of copies: the destination of the original

QUEUE_REPLY: Final = "#q/"  # prefix of `Headers.reply_to` where that is a queue

NATIVE_NONE: Final = 0
NATIVE_MQTT5: Final = 1  # a property section without length prefix, message expiry and topic alias
NATIVE_AMQP: Final = 2  # the sections of an AMQP message around its payload; see protocols.amqp.messages.decode

# Memory, estimated: an object with all its fields, a str or bytes object without its content, a pair and its slot.
BYTES_PER_HEADERS: Final = 200
BYTES_PER_TEXT: Final = 49
BYTES_PER_PROPERTY: Final = 64
BYTES_PER_DEATH: Final = 400  # its texts are mostly shared with others

UserPropertyValue = str | bytes | int | float | bool | None


@final
class Headers:
    """Normalised attributes of one message. Never changed once its batch is published."""

    __slots__ = (
        "_memory_bytes",
        "content_type",
        "correlation",
        "dead",
        "deliver_to_one",
        "dmq_eligible",
        "eliding_eligible",
        "expires_at_ms",
        "key_hash",
        "link_targets",
        "message_id",
        "native",
        "native_format",
        "not_before_ms",
        "partition_key",
        "payload_is_text",
        "priority",
        "reply_to",
        "timestamp_ms",
        "user_properties",
    )

    def __init__(
        self,
        *,
        partition_key: str | None = None,
        key_hash: int = -1,
        expires_at_ms: int = 0,
        not_before_ms: int = 0,
        priority: int = PRIORITY_DEFAULT,
        payload_is_text: bool = False,
        content_type: str | None = None,
        correlation: bytes | None = None,
        reply_to: str | None = None,
        message_id: str | None = None,
        timestamp_ms: int = 0,
        dmq_eligible: bool = False,
        deliver_to_one: bool = False,
        eliding_eligible: bool = False,
        dead: DeadLetter | None = None,
        user_properties: list[tuple[str, UserPropertyValue]] | None = None,
        native_format: int = NATIVE_NONE,
        native: bytes = b"",
        link_targets: bytes = b"",
    ) -> None:
        self.partition_key = partition_key  # None: no key, the broker picks a partition at random
        self.key_hash = key_hash  # 16 bits of the key, or -1 without one
        self.expires_at_ms = expires_at_ms  # wall clock; 0: never
        self.not_before_ms = not_before_ms  # wall clock; no queue delivers it earlier. 0: at once
        self.priority = priority  # 0 (lowest) to 9
        self.payload_is_text = payload_is_text  # the publisher declares that the payload is UTF-8 text
        self.content_type = content_type
        self.correlation = correlation
        self.reply_to = reply_to  # a topic, or a queue: QUEUE_REPLY and its name
        self.message_id = message_id
        self.timestamp_ms = timestamp_ms  # as the sender set it, at most TIME_MS_MAX; 0: not set
        self.dmq_eligible = dmq_eligible
        self.deliver_to_one = deliver_to_one
        self.eliding_eligible = eliding_eligible
        self.dead = dead  # why it is in a dead message queue; None anywhere else
        self.user_properties = user_properties  # in the publisher's order, names may repeat
        self.native_format = native_format
        self.native = native
        # For whom it is at the neighbor, while it lies in a link queue (messaging.network.choices); empty: subscribers.
        self.link_targets = link_targets
        self._memory_bytes = 0  # 0: not computed yet

    def memory_bytes(self) -> int:
        """Return an estimate of the memory of the headers and of the objects that only they refer to.

        It is computed once: many similar messages of a client share their headers.
        """
        if self._memory_bytes == 0:
            self._memory_bytes = self._counted_bytes()
        return self._memory_bytes

    def _counted_bytes(self) -> int:
        size = BYTES_PER_HEADERS + len(self.native) + len(self.link_targets)
        for text in (self.partition_key, self.content_type, self.reply_to, self.message_id):
            if text is not None:
                size += BYTES_PER_TEXT + len(text)
        if self.correlation is not None:
            size += BYTES_PER_TEXT + len(self.correlation)
        if self.user_properties is not None:
            for name, value in self.user_properties:
                size += BYTES_PER_PROPERTY + BYTES_PER_TEXT + len(name)
                if isinstance(value, (str, bytes)):
                    size += BYTES_PER_TEXT + len(value)
        if self.dead is not None:
            size += BYTES_PER_DEATH
        return size

    def copy(self) -> "Headers":
        """Return an equal copy that may be changed until its own batch is published."""
        return Headers(
            partition_key=self.partition_key,
            key_hash=self.key_hash,
            expires_at_ms=self.expires_at_ms,
            not_before_ms=self.not_before_ms,
            priority=self.priority,
            payload_is_text=self.payload_is_text,
            content_type=self.content_type,
            correlation=self.correlation,
            reply_to=self.reply_to,
            message_id=self.message_id,
            timestamp_ms=self.timestamp_ms,
            dmq_eligible=self.dmq_eligible,
            deliver_to_one=self.deliver_to_one,
            eliding_eligible=self.eliding_eligible,
            dead=self.dead,
            user_properties=self.user_properties,
            native_format=self.native_format,
            native=self.native,
            link_targets=self.link_targets,
        )

    def __repr__(self) -> str:
        return f"Headers(key={self.partition_key!r}, expires_at_ms={self.expires_at_ms}, {self.user_properties})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Headers):
            return NotImplemented
        return (
            self.partition_key == other.partition_key
            and self.key_hash == other.key_hash
            and self.expires_at_ms == other.expires_at_ms
            and self.not_before_ms == other.not_before_ms
            and self.priority == other.priority
            and self.payload_is_text == other.payload_is_text
            and self.content_type == other.content_type
            and self.correlation == other.correlation
            and self.reply_to == other.reply_to
            and self.message_id == other.message_id
            and self.timestamp_ms == other.timestamp_ms
            and self.dmq_eligible == other.dmq_eligible
            and self.deliver_to_one == other.deliver_to_one
            and self.eliding_eligible == other.eliding_eligible
            and self.dead == other.dead
            and self.user_properties == other.user_properties
            and self.native_format == other.native_format
            and self.native == other.native
            and self.link_targets == other.link_targets
        )

    __hash__ = None  # type: ignore[assignment]  # compared by value in tests only


SUBJECT: Final = "subject"
TO: Final = "to"
USER_ID: Final = "user-id"
CONTENT_ENCODING: Final = "content-encoding"
GROUP_SEQUENCE: Final = "group-sequence"
REPLY_TO_GROUP_ID: Final = "reply-to-group-id"
FIELDS: Final = (SUBJECT, TO, USER_ID, CONTENT_ENCODING, GROUP_SEQUENCE, REPLY_TO_GROUP_ID)


class NativeFields:
    """Reads the fields of a native form that have no place among the normalised headers.

    A protocol that stores such a form in `Headers.native` derives a reader. The node gives the readers to selectors
    (`messaging.selectors.selector`), and to code that adds broker properties to messages. A class and not a Protocol,
    for the reason given in `Address`.
    """

    def field(self, native: bytes, name: str) -> UserPropertyValue:
        """Return one of FIELDS, or None when the message does not have it."""
        raise AssertionError("NativeFields is abstract")

    def is_durable(self, native: bytes) -> bool:
        """Return whether the publisher sent the message as durable."""
        raise AssertionError("NativeFields is abstract")

    def annotation(self, native: bytes, key: str) -> UserPropertyValue:
        """Return a value that an intermediary put on the message, or None."""
        raise AssertionError("NativeFields is abstract")

    def with_annotation(self, native: bytes, key: str, value: UserPropertyValue) -> bytes:
        """Return the form with a value added to the message, or replaced."""
        raise AssertionError("NativeFields is abstract")


def marked(
    headers: Headers | None,
    marks: list[tuple[str, UserPropertyValue]],
    natives: Mapping[int, NativeFields],
    *,
    without: tuple[str, ...] = (),
) -> Headers:
    """Return headers with the user properties of `marks` added or replaced, and those in `without` removed.

    A native form listed in `natives` gets them as annotations. Any other native form repeats the headers, and is
    dropped.
    """
    changed = Headers() if headers is None else headers.copy()
    names = [*without, *[name for name, _ in marks]]
    changed.user_properties = [each for each in changed.user_properties or [] if each[0] not in names] + marks
    native = natives.get(changed.native_format)
    if native is None:
        changed.native_format = NATIVE_NONE
        changed.native = b""
    else:
        for name, value in marks:
            changed.native = native.with_annotation(changed.native, name, value)
    return changed
