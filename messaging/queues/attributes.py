"""The attributes of a queue: one row each with its default, range and meaning.

Names, defaults and ranges are those of Solace (in snake case, with a unit where it is not obvious), except where the
row says why not. Configuration, catalog, admin API and their documentation all read this table, so a new attribute is
one row here and one field in `QueueConfig`.
"""

from datetime import date
from typing import Final, final

from sluicegate.messaging.message.keys import ALLOWED as KEY_SOURCE_ALLOWED
from sluicegate.messaging.message.keys import PROPERTY, KeySourceInvalid, key_source_from
from sluicegate.messaging.message.thresholds import PAIR_ALLOWED, ThresholdInvalid, ThresholdPair
from sluicegate.messaging.topics.syntax import DEAD_MESSAGE_QUEUE

AttributeValue = str | int | bool

EXCLUSIVE: Final = "exclusive"  # one flow receives, the next one bound takes over
NON_EXCLUSIVE: Final = "non-exclusive"  # all flows share; in a partitioned queue each flow owns whole partitions

NO_ACCESS: Final = "no-access"
READ_ONLY: Final = "read-only"  # browse
CONSUME: Final = "consume"  # and remove
MODIFY_TOPIC: Final = "modify-topic"  # and change subscriptions
DELETE: Final = "delete"  # and delete the queue

REJECT_NEVER: Final = "never"
REJECT_WHEN_ENABLED: Final = "when-queue-enabled"
REJECT_ALWAYS: Final = "always"

PARTITION_COUNT_MAX: Final = 1000
GROUP_BUCKETS_MAX: Final = 65_536  # as many as the hash of a key can distinguish
SECONDS_MAX: Final = 0xFFFF_FFFF
NAME_CHARS_MAX: Final = 250

TEXT: Final = "text"
FLAG: Final = "flag"
NUMBER: Final = "number"
CHOICE: Final = "choice"
THRESHOLD: Final = "threshold"  # a pair, as `80/60%` or `1250/900`
KEY_SOURCE: Final = "key source"  # as `topic-level:2`


@final
class Attribute:
    """One attribute of a queue: its allowed values, and its default."""

    __slots__ = ("choices", "default", "high", "kind", "low", "meaning", "name")

    def __init__(
        self,
        name: str,
        kind: str,
        default: AttributeValue,
        meaning: str,
        *,
        low: int = 0,
        high: int = 0,
        choices: tuple[str, ...] = (),
    ) -> None:
        self.name = name
        self.kind = kind  # TEXT, FLAG, NUMBER, CHOICE, THRESHOLD or KEY_SOURCE
        self.default = default
        self.meaning = meaning
        self.low = low  # NUMBER: smallest value allowed
        self.high = high  # NUMBER: largest value allowed; TEXT: maximum number of characters
        self.choices = choices  # CHOICE: every value allowed

    def allowed(self) -> str:
        """Return the allowed values in words."""
        if self.kind == FLAG:
            return "true or false"
        if self.kind == NUMBER:
            return f"a whole number from {self.low} to {self.high}"
        if self.kind == CHOICE:
            return "one of: " + ", ".join(self.choices)
        if self.kind == THRESHOLD:
            return PAIR_ALLOWED
        if self.kind == KEY_SOURCE:
            return KEY_SOURCE_ALLOWED
        return f"a text of at most {self.high} characters"

    def accepts(self, value: object) -> bool:
        """Return whether a value has the right type and is within range."""
        if self.kind == FLAG:
            return isinstance(value, bool)
        if self.kind == NUMBER:
            return isinstance(value, int) and not isinstance(value, bool) and self.low <= value <= self.high
        if not isinstance(value, str):
            return False
        if self.kind == THRESHOLD:
            return _is_pair(value)
        if self.kind == KEY_SOURCE:
            return _is_key_source(value)
        return value in self.choices if self.kind == CHOICE else len(value) <= self.high


def _is_pair(text: str) -> bool:
    try:
        ThresholdPair(text)
    except ThresholdInvalid:
        return False
    return True


def _is_key_source(text: str) -> bool:
    try:
        key_source_from(text)
    except KeySourceInvalid:
        return False
    return True


def _flag(name: str, default: bool, meaning: str) -> Attribute:
    return Attribute(name, FLAG, default, meaning)


def _number(name: str, default: int, low: int, high: int, meaning: str) -> Attribute:
    return Attribute(name, NUMBER, default, meaning, low=low, high=high)


def _choice(name: str, default: str, choices: tuple[str, ...], meaning: str) -> Attribute:
    return Attribute(name, CHOICE, default, meaning, choices=choices)


def _text(name: str, default: str, chars_max: int, meaning: str) -> Attribute:
    return Attribute(name, TEXT, default, meaning, high=chars_max)


def _threshold(name: str, default: str, meaning: str) -> Attribute:
    return Attribute(name, THRESHOLD, default, meaning)


ATTRIBUTES: Final[tuple[Attribute, ...]] = (
    _choice("access_type", EXCLUSIVE, (EXCLUSIVE, NON_EXCLUSIVE), "flows that receive: the first one bound, or all"),
    _number("partition_count", 0, 0, PARTITION_COUNT_MAX, "partitions; 0: not partitioned. Non-exclusive queues only"),
    # Ours: Solace has keys from publishers only, and MQTT 3.1.1 publishers cannot set one.
    Attribute("partition_key_source", KEY_SOURCE, PROPERTY, "where the key of a message without one comes from"),
    # Solace creates queues disabled and the operator enables them; a queue that is declared here is meant to work.
    _flag("ingress_enabled", True, "the queue accepts messages"),
    _flag("egress_enabled", True, "flows may bind and receive"),
    _number("max_msg_size", 10_000_000, 0, 30_000_000, "largest payload accepted, in bytes"),
    _number("max_msg_spool_usage", 5000, 0, 6_000_000, "quota in MB of 1024 x 1024 bytes; 0: keep the last value only"),
    _number("max_bind_count", 1000, 0, 10_000, "most flows bound at once"),
    _number("max_delivered_unacked_msgs_per_flow", 10_000, 1, 1_000_000, "most messages a flow may hold unsettled"),
    _number("max_redelivery_count", 0, 0, 255, "redeliveries before a message is discarded or dead; 0: no limit"),
    _flag("redelivery_enabled", True, "unsettled messages are delivered again; false: discarded or dead"),
    _flag("redelivery_delay_enabled", False, "a failed message waits before it is delivered again"),
    _number("redelivery_delay_initial_interval_ms", 1000, 1, 3_600_000, "milliseconds after its first failure"),
    _number("redelivery_delay_max_interval_ms", 64_000, 1, 10_800_000, "most milliseconds after any failure"),
    _number("redelivery_delay_multiplier", 200, 100, 500, "each delay in hundredths of the one before"),
    _number("delivery_delay_s", 0, 0, SECONDS_MAX, "seconds after its arrival before which no message is delivered"),
    # Ours: Solace always stores before it delivers.
    _flag("deliver_after_commit", False, "deliver messages only when stored; no effect on queues in memory only"),
    # Solace has no such limit: an unsettled message stays with its flow as long as the flow lasts.
    _number("consumer_ack_timeout_ms", 0, 0, 86_400_000, "milliseconds a flow has to settle a delivery; 0: no limit"),
    _flag("respect_msg_priority_enabled", False, "higher priorities first; not on partitioned queues"),
    _flag("respect_ttl_enabled", False, "messages expire; without it neither the publisher's TTL nor max_ttl counts"),
    _number("max_ttl", 0, 0, SECONDS_MAX, "seconds a message may stay, if respect_ttl_enabled; 0: no limit"),
    _text("dead_msg_queue", DEAD_MESSAGE_QUEUE, NAME_CHARS_MAX, "queue that takes what expired or failed too often"),
    _flag("respect_dmq_eligible_enabled", False, "only messages marked by their publisher go to dead_msg_queue"),
    _choice(
        "reject_msg_to_sender_on_discard_behavior",
        REJECT_WHEN_ENABLED,
        (REJECT_NEVER, REJECT_WHEN_ENABLED, REJECT_ALWAYS),
        "when a publisher is refused for a message that this queue cannot take",
    ),
    _flag("reject_low_priority_msg_enabled", False, "messages of a priority below 4 have a limit of their own"),
    _number(
        "reject_low_priority_msg_limit", 0, 0, SECONDS_MAX, "they are refused while the queue holds this many messages"
    ),
    _threshold("event_bind_count_threshold", "80/60%", "flows bound at which an event is raised and cleared"),
    _threshold("event_msg_spool_usage_threshold", "25/18%", "the same for spool usage; values are MB"),
    _threshold("event_reject_low_priority_msg_limit_threshold", "80/60%", "the same for the limit of low priority"),
    _text("owner", "", NAME_CHARS_MAX, "user with every right on the queue; empty: none"),
    # Solace: no-access. There an administrator writes a profile for every client; here a new queue is usable at once.
    _choice(
        "permission",
        CONSUME,
        (NO_ACCESS, READ_ONLY, CONSUME, MODIFY_TOPIC, DELETE),
        "permissions of all other users, each including the ones before it",
    ),
    # Ours: Solace has a fixed time for temporary queues, and none for durable ones.
    _number("expires_unbound_s", 0, 0, SECONDS_MAX, "seconds without a consumer until the queue is deleted; 0: never"),
    # From ActiveMQ and Artemis: Solace has groups as partitions only.
    _number(
        "group_buckets",
        1024,
        0,
        GROUP_BUCKETS_MAX,
        "buckets of message groups, each owned by one consumer; 0: none",
    ),
    _flag("group_rebalance", True, "a new consumer is given its share of the message groups"),
    _number("partition_rebalance_delay_s", 5, 0, SECONDS_MAX, "seconds flows must be stable before a rebalance"),
    _number("partition_rebalance_max_handoff_time_s", 3, 0, SECONDS_MAX, "seconds an old owner has to settle"),
    # Ours: Solace has one replay log for a whole message VPN, with a quota of its own.
    _number("retention_time_s", 0, 0, SECONDS_MAX, "seconds a settled message is kept for replay; 0: no such bound"),
    _number("retention_size_mb", 0, 0, 6_000_000, "MB of settled messages kept for replay; 0: no such bound"),
)

ATTRIBUTE_BY_NAME: Final[dict[str, Attribute]] = {attribute.name: attribute for attribute in ATTRIBUTES}


# How a value that is not allowed is quoted to its author, from YAML, JSON, or a command line.


SEEN_CHARS_MAX: Final = 60  # of a value, in a message


def no_such_attribute(name: str) -> str:
    """Return the text about an attribute that queues do not have, with the most similar one."""
    import difflib  # late: only for a mistake

    close = difflib.get_close_matches(name, list(ATTRIBUTE_BY_NAME), n=1)
    return f"there is no such attribute (did you mean {close[0]!r}?)" if close else "there is no such attribute"


def quoted(value: object) -> str:
    """Return a value as a message quotes it: in quotes when it is text, cut when it is long."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return "nothing"
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    if isinstance(value, date):  # YAML's type for a value tagged as a date
        return str(value)
    shown = repr(value)
    return shown if len(shown) <= SEEN_CHARS_MAX else shown[: SEEN_CHARS_MAX - 3] + "..."
