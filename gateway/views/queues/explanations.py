"""Views of an explained publish or key, and the example message that a publish is explained for."""

from dataclasses import dataclass
from typing import Final

import orjson

from sluicegate.messaging.message.batch import AT_MOST_ONCE, MessageBatch
from sluicegate.messaging.message.headers import PRIORITY_DEFAULT, Headers, UserPropertyValue
from sluicegate.messaging.message.keys import key_hash
from sluicegate.messaging.partitions.explain import WaitReason
from sluicegate.messaging.queues.definition import QueueInvalid


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckView:
    """One check of a gate. It refuses a message when `usage` and `adds` together are more than `limit`."""

    check: str  # as in the counters of refused messages
    usage: int
    adds: int
    limit: int | None  # None: no limit
    unit: str  # bytes, messages, or empty
    refused: bool
    publisher_hears: bool  # otherwise the message is dropped for this queue only
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DestinationView:
    """A queue, client, shared group or neighbor broker that the topic leads to.

    Or a topic that the message is not forwarded to.
    """

    kind: str  # queue, client, shared-group, neighbor or topic
    name: str
    filter: str  # the matching subscription, or the definitions that forward to it; empty for a message sent to a queue
    verdict: str  # spooled, delivered, refused, dropped, kept-out, not-selected or not-its-turn
    reason: str = ""
    exception: str | None = None  # subscription exception of the queue that excludes the message
    queue: str | None = None  # that would spool the message
    partition: int | None = None
    partition_reason: str = ""
    checks: tuple[CheckView, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishExplanation:
    """Where a message would go if it were published now."""

    topic: str
    key: str | None
    size_bytes: int
    qos: int
    verdict: str  # accepted, refused or dropped
    reason: str
    retained_now: bool  # the topic has a retained message
    publisher: str = ""  # whose rights were checked, as text; empty: no rights were checked
    destinations: tuple[DestinationView, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyExplanation:
    """The state of a partition key in a queue."""

    broker: str = ""  # the neighbor that has the queue; empty: this broker
    queue: str
    key: str
    key_hash: int
    partition: int
    partition_status: str
    assignment_epoch: int
    flow_id: str | None  # the partition's owner, while it has one
    client: str | None
    waiting_count: int  # messages of the key that no consumer holds
    in_flight_count: int
    first_waiting: str | None  # `partition:sequence` of the oldest that waits
    reason: WaitReason
    unseen_count: int  # messages of the partition on disk, which were not examined


# The message whose publish is explained.


PAYLOAD_BYTES_MAX: Final = 1 << 28  # MQTT's largest packet; selectors see a larger payload as one of this size


@dataclass(frozen=True, slots=True, kw_only=True)
class ExampleMessage:
    """A message as its publisher would send it, and its publisher."""

    topic: str  # empty for a message sent to a queue
    size_bytes: int = 0
    qos: int = 1
    key: str | None = None
    priority: int = PRIORITY_DEFAULT
    client_id: str = ""  # of its publisher; empty: not given
    client_username: str | None = None  # of its publisher; None: that of the connected client with `client_id`, if any
    deliver_to_one: bool = False
    properties: tuple[tuple[str, UserPropertyValue], ...] = ()  # user properties

    @property
    def is_guaranteed(self) -> bool:
        """Whether it is guaranteed: queues spool it."""
        return self.qos > AT_MOST_ONCE

    def batch(self, received_ms: int) -> MessageBatch:
        """Return the message as if it were published at this wall-clock time. Its payload is zeros."""
        properties = list(self.properties)
        headers = Headers(
            partition_key=self.key,
            key_hash=-1 if self.key is None else key_hash(self.key),
            priority=self.priority,
            deliver_to_one=self.deliver_to_one,
            user_properties=properties or None,
        )
        return MessageBatch(
            topic=self.topic,
            topics=None,
            payloads=[bytes(min(self.size_bytes, PAYLOAD_BYTES_MAX))],
            headers=[headers],
            qos=self.qos,
            retain=False,
            publisher=self.client_id,
            received_ms=received_ms,
            payload_bytes=self.size_bytes,
        )


def properties_from_json(text: str) -> tuple[tuple[str, UserPropertyValue], ...]:
    """Return the user properties of a JSON object. Raises QueueInvalid."""
    allowed = "a JSON object of texts, numbers, true, false and null"
    try:
        found = orjson.loads(text)
    except orjson.JSONDecodeError as problem:
        raise QueueInvalid("properties", f"not JSON: {problem.msg} (column {problem.colno})", allowed) from None
    if not isinstance(found, dict):
        raise QueueInvalid("properties", f"{text[:40]!r} is no object", allowed)
    for name, value in found.items():
        if not isinstance(value, (str, int, float, bool, type(None))):
            raise QueueInvalid("properties", f"{name!r} is {value!r:.40}", allowed)
    return tuple(found.items())
