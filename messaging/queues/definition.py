"""The definition of a queue: its name, attributes and subscriptions, validated once.

Everything here is off the data path and pure. The attributes with defaults and ranges are in
`messaging.queues.attributes`; the queue's actor holds its messages; topics define the syntax of subscriptions.
"""

from dataclasses import dataclass
from typing import Any, Final, final

from sluicegate.messaging.message.keys import PROPERTY
from sluicegate.messaging.queues.attributes import (
    ATTRIBUTE_BY_NAME,
    ATTRIBUTES,
    CONSUME,
    DELETE,
    EXCLUSIVE,
    MODIFY_TOPIC,
    NAME_CHARS_MAX,
    NO_ACCESS,
    NON_EXCLUSIVE,
    READ_ONLY,
    REJECT_ALWAYS,
    REJECT_NEVER,
    REJECT_WHEN_ENABLED,
    Attribute,
    AttributeValue,
    no_such_attribute,
    quoted,
)
from sluicegate.messaging.topics.syntax import (
    ANONYMOUS_QUEUES,
    DEAD_MESSAGE_QUEUE,
    TopicError,
    TopicFilter,
    parse_queue_subscription,
    syntax_of,
)

DURABLE_NAME_CHARS_MAX: Final = 200
TEMPORARY_NAME_CHARS_MAX: Final = NAME_CHARS_MAX
RECOVERED_PREFIX: Final = "#recovered/"  # queues of which only messages remain, by the id of the partition
NAME_CHARS_FORBIDDEN: Final = "'<>*?&;"
NAME_CHARS_FORBIDDEN_BESIDE_WILDCARDS: Final = "'<?&;"
SUBSCRIPTION_BYTES_MAX: Final = 65_535  # the length limit in MQTT; topics may allow less
SUBSCRIPTION_COUNT_MAX: Final = 10_000  # per queue
NO_QUOTA: Final = 1 << 60  # more than any disk holds
MEGABYTE: Final = 1 << 20  # the MB of `max_msg_spool_usage`


@final
class QueueInvalid(ValueError):
    """A definition is not valid: the field, what is wrong, and what is allowed, which is empty if the reason has it."""

    def __init__(self, field: str, reason: str, allowed: str = "") -> None:
        self.text = f"{reason}; allowed: {allowed}" if allowed else reason
        super().__init__(f"{field}: {self.text}" if field else self.text)
        self.field = field
        self.reason = reason
        self.allowed = allowed


@final
@dataclass(frozen=True)
class QueueConfig:
    """The attributes of one queue. Values from outside are checked by `config_from_dict`.

    Meaning, range and default of each field: the row of the same name in `ATTRIBUTES`.
    """

    name: str
    access_type: str = EXCLUSIVE
    partition_count: int = 0
    partition_key_source: str = PROPERTY
    ingress_enabled: bool = True
    egress_enabled: bool = True
    max_msg_size: int = 10_000_000
    max_msg_spool_usage: int = 5000
    max_bind_count: int = 1000
    max_delivered_unacked_msgs_per_flow: int = 10_000
    max_redelivery_count: int = 0
    redelivery_enabled: bool = True
    redelivery_delay_enabled: bool = False
    redelivery_delay_initial_interval_ms: int = 1000
    redelivery_delay_max_interval_ms: int = 64_000
    redelivery_delay_multiplier: int = 200
    delivery_delay_s: int = 0
    deliver_after_commit: bool = False
    consumer_ack_timeout_ms: int = 0
    respect_msg_priority_enabled: bool = False
    respect_ttl_enabled: bool = False
    max_ttl: int = 0
    dead_msg_queue: str = DEAD_MESSAGE_QUEUE
    respect_dmq_eligible_enabled: bool = False
    reject_msg_to_sender_on_discard_behavior: str = REJECT_WHEN_ENABLED
    reject_low_priority_msg_enabled: bool = False
    reject_low_priority_msg_limit: int = 0
    event_bind_count_threshold: str = "80/60%"
    event_msg_spool_usage_threshold: str = "25/18%"
    event_reject_low_priority_msg_limit_threshold: str = "80/60%"
    owner: str = ""
    permission: str = CONSUME
    expires_unbound_s: int = 0
    group_buckets: int = 1024
    group_rebalance: bool = True
    partition_rebalance_delay_s: int = 5
    partition_rebalance_max_handoff_time_s: int = 3
    retention_time_s: int = 0
    retention_size_mb: int = 0

    def partitioned(self) -> bool:
        """Return whether the queue has several partitions; a plain queue runs as one partition."""
        return self.partition_count > 0

    def groups_messages(self) -> bool:
        """Return whether the messages of a key stay with one of several consumers.

        A partitioned queue does that by its partitions; queues with priorities and last-value queues keep no order by
        key.
        """
        competing = self.access_type == NON_EXCLUSIVE and not self.partitioned()
        return (
            competing
            and self.group_buckets > 0
            and not self.respect_msg_priority_enabled
            and not self.last_value_only()
        )

    def last_value_only(self) -> bool:
        """Return whether the queue keeps only the newest message."""
        return self.max_msg_spool_usage == 0

    def spool_bytes_max(self) -> int:
        """Return the quota in bytes; for a last-value queue, which has none, a value that is never reached."""
        return NO_QUOTA if self.last_value_only() else self.max_msg_spool_usage * MEGABYTE

    def retention_bytes_max(self) -> int:
        """Return how many bytes of settled messages each partition keeps; 0: no such bound."""
        return self.retention_size_mb * MEGABYTE // max(1, self.partition_count)

    def to_dict(self) -> dict[str, AttributeValue]:
        """Return name and attributes in the order of the table, as the catalog and the admin API show them."""
        values: dict[str, AttributeValue] = {"name": self.name}
        for attribute in ATTRIBUTES:
            value: AttributeValue = getattr(self, attribute.name)
            values[attribute.name] = value
        return values


@final
@dataclass(frozen=True)
class QueueDefinition:
    """The declaration of a queue: its configuration, and the topics it subscribes to."""

    config: QueueConfig
    subscriptions: tuple[str, ...] = ()
    selector: str = ""  # selects among the messages of its topics, in the broker's own queues; empty: everything

    def to_dict(self) -> dict[str, object]:
        """Return the form that `definition_from_dict` reads."""
        values: dict[str, object] = dict(self.config.to_dict())
        values["subscriptions"] = list(self.subscriptions)
        if self.selector:
            values["selector"] = self.selector
        return values


def check_queue_name(name: str, *, wildcards: bool = False, durable: bool = True) -> None:
    """Raise QueueInvalid, naming the rule, unless a client or an administrator may use this name for a queue.

    The names of the broker's own queues (`#...`), and of queues that it named (`$anonymous/...`), are refused, except
    the dead message queue, which administrators create. Names with wildcards are for consumers of virtual topics.
    """
    chars_max = DURABLE_NAME_CHARS_MAX if durable else TEMPORARY_NAME_CHARS_MAX
    kind = "durable" if durable else "temporary"
    if not name:
        raise QueueInvalid("name", "it is empty", f"1 to {chars_max} characters")
    if len(name) > chars_max:
        raise QueueInvalid("name", f"it has {len(name)} characters", f"1 to {chars_max} for a {kind} queue")
    forbidden = NAME_CHARS_FORBIDDEN_BESIDE_WILDCARDS if wildcards else NAME_CHARS_FORBIDDEN
    for character in name:
        if character in forbidden:
            others = f"any printable character except {' '.join(forbidden)}"
            raise QueueInvalid("name", f"{name!r} contains {quoted(character)}", others)
        if not character.isprintable():  # control characters, lone surrogates, exotic spaces: unreadable in every tool
            raise QueueInvalid("name", f"{name!r} contains {character!r}", "printable characters only")
    if name.startswith("/") or name.endswith("/"):
        raise QueueInvalid("name", f"{name!r} starts or ends with '/'", "'/' between levels only")
    if "//" in name:
        raise QueueInvalid("name", f"{name!r} has an empty level", "at least one character between two '/'")
    if not is_named(name) or name.startswith(RECOVERED_PREFIX):
        start = ANONYMOUS_QUEUES if name.startswith(ANONYMOUS_QUEUES) else "#"
        reason = f"{name!r} starts with {start!r}"
        raise QueueInvalid("name", reason, f"{start!r} starts reserved names; only {DEAD_MESSAGE_QUEUE}")


def is_named(name: str) -> bool:
    """Return whether people named a queue; the others are the broker's own, and as many as clients.

    A queue whose definition was lost counts as named: an operator has to decide what becomes of it.
    """
    if name.startswith(RECOVERED_PREFIX):
        return True
    return not (name.startswith("#") or name.startswith(ANONYMOUS_QUEUES)) or name == DEAD_MESSAGE_QUEUE


def config_from_dict(
    values: dict[str, object], *, reserved_name: bool = False, wildcards: bool = False, durable: bool = True
) -> QueueConfig:
    """Build a checked configuration from name and attributes; absent attributes have their defaults.

    With `reserved_name` the name is not checked: the broker names its queues freely. Else see `check_queue_name`.
    """
    for key in values:
        if key != "name" and key not in ATTRIBUTE_BY_NAME:
            raise QueueInvalid(key, no_such_attribute(key), ", ".join(["name", *ATTRIBUTE_BY_NAME]))
    name = values.get("name")
    if not isinstance(name, str):
        raise QueueInvalid("name", "it is missing" if name is None else f"{quoted(name)} is not a text", "a text")
    if name == DEAD_MESSAGE_QUEUE and "dead_msg_queue" not in values:
        values = {**values, "dead_msg_queue": ""}  # the default would make the queue its own dead message queue
    # The fields of QueueConfig and the rows of ATTRIBUTES have the same names; a test compares their types.
    attributes: dict[str, Any] = {each.name: _checked_value(values, each) for each in ATTRIBUTES}
    config = QueueConfig(name=name, **attributes)
    if not reserved_name:
        check_queue_name(name, wildcards=wildcards, durable=durable)
    _check_together(config)
    return config


def definition_from_dict(
    values: dict[str, object], *, reserved_name: bool = False, wildcards: bool = False, durable: bool = True
) -> QueueDefinition:
    """Build a checked definition; `subscriptions` is a list of topics beside the attributes.

    `selector`, an already compiled text, is allowed with `reserved_name` only: it is for the broker's own queues.
    """
    beside = ("subscriptions", "selector") if reserved_name else ("subscriptions",)
    attributes = {key: value for key, value in values.items() if key not in beside}
    config = config_from_dict(attributes, reserved_name=reserved_name, wildcards=wildcards, durable=durable)
    return QueueDefinition(config, _subscriptions(values.get("subscriptions", [])), str(values.get("selector", "")))


def changed(definition: QueueDefinition, changes: dict[str, object], *, durable: bool = True) -> QueueDefinition:
    """Return the definition with some attributes replaced. The name stays: a queue cannot be renamed."""
    name = changes.get("name", definition.config.name)
    if name != definition.config.name:
        raise QueueInvalid("name", f"{definition.config.name!r} cannot become {name!r}", "create a queue and move over")
    values = definition.to_dict()
    values.update(changes)
    if not definition.config.name.startswith(RECOVERED_PREFIX):
        return definition_from_dict(values, wildcards=True, durable=durable)
    if "selector" in changes:
        raise QueueInvalid("selector", "there is no such attribute", ", ".join(["name", *ATTRIBUTE_BY_NAME]))
    return definition_from_dict(values, reserved_name=True, durable=durable)


def shut_definition(
    name: str, *, partition_count: int = 0, owner: str = "", retention_time_s: int = 0, retention_size_mb: int = 0
) -> QueueDefinition:
    """Return the definition of a queue that has lost its own: it keeps its messages, and only operators have access.

    Nothing expires, is dead-lettered, or reaches a maximum of deliveries. A publisher is told that the queue is shut
    down.
    """
    config = QueueConfig(
        name=name,
        access_type=NON_EXCLUSIVE if partition_count else EXCLUSIVE,
        partition_count=partition_count,
        ingress_enabled=False,
        egress_enabled=False,
        dead_msg_queue="" if name == DEAD_MESSAGE_QUEUE else DEAD_MESSAGE_QUEUE,
        reject_msg_to_sender_on_discard_behavior=REJECT_ALWAYS,
        owner=owner,
        permission=NO_ACCESS,
        retention_time_s=retention_time_s,
        retention_size_mb=retention_size_mb,
    )
    return QueueDefinition(config)


def _check_together(config: QueueConfig) -> None:
    """Raise QueueInvalid for attributes that are valid alone but not together."""
    if config.partition_count > 0 and config.access_type != NON_EXCLUSIVE:
        raise QueueInvalid(
            "partition_count",
            f"{config.partition_count} partitions on an {config.access_type} queue",
            f"0, or access_type {NON_EXCLUSIVE}",
        )
    if config.reject_low_priority_msg_enabled and config.reject_msg_to_sender_on_discard_behavior == REJECT_NEVER:
        raise QueueInvalid(
            "reject_low_priority_msg_enabled",
            "nobody would be told: reject_msg_to_sender_on_discard_behavior is never",
            "false, or another behavior",
        )
    if config.dead_msg_queue == config.name:
        raise QueueInvalid("dead_msg_queue", "a queue cannot be its own dead message queue", "another queue, or empty")


def _subscriptions(given: object) -> tuple[str, ...]:
    allowed = f"a list of at most {SUBSCRIPTION_COUNT_MAX} topics, 1 to {SUBSCRIPTION_BYTES_MAX} bytes each"
    if not isinstance(given, list | tuple) or len(given) > SUBSCRIPTION_COUNT_MAX:
        raise QueueInvalid("subscriptions", "it is no list of topics, or too long", allowed)
    topics: list[str] = []
    for topic in given:
        if not isinstance(topic, str) or not 1 <= len(topic.encode(errors="replace")) <= SUBSCRIPTION_BYTES_MAX:
            raise QueueInvalid("subscriptions", f"{quoted(topic)} is no topic", allowed)
        if topic not in topics:
            topics.append(topic)
    return tuple(topics)


def _checked_value(values: dict[str, object], attribute: Attribute) -> object:
    value = values.get(attribute.name, attribute.default)
    if not attribute.accepts(value):
        raise QueueInvalid(attribute.name, f"{quoted(value)} is not allowed", attribute.allowed())
    return value


# The permissions on a queue: five levels, each with the rights of those before it, and an owner who has all. They apply
# to clients only: administrators have no user name here. An unauthenticated client has the empty user name, which owns
# nothing.


ANONYMOUS: Final = ""  # the user name of a client that gave none; a queue with this owner has no owner
LEVELS: Final = (NO_ACCESS, READ_ONLY, CONSUME, MODIFY_TOPIC, DELETE)  # cumulative [Solace 4.3]


def permits(config: QueueConfig, user: str, needed: str) -> bool:
    """Return whether a user has the rights of the level `needed` on a queue."""
    if user != ANONYMOUS and user == config.owner:
        return True
    return LEVELS.index(config.permission) >= LEVELS.index(needed)


def denial(config: QueueConfig, user: str, needed: str) -> str:
    """Return the text of a refusal: the level that was needed, and the level that is granted."""
    who = f"user {user!r}" if user != ANONYMOUS else "a client without user name"
    return f"403 Permission Denied: {who} has {config.permission!r} on queue {config.name!r}, and {needed!r} is needed"


def topics_of(definition: QueueDefinition) -> tuple[list[TopicFilter], list[TopicFilter]]:
    """Return the topics of a queue and its exceptions, parsed. Raises QueueInvalid naming the bad one."""
    filters: list[TopicFilter] = []
    exceptions: list[TopicFilter] = []
    for text in definition.subscriptions:
        try:
            is_exception, topic_filter = parse_queue_subscription(text, syntax_of(text))
        except TopicError as error:
            raise QueueInvalid("subscriptions", str(error), "a topic filter in SMF or MQTT syntax") from error
        (exceptions if is_exception else filters).append(topic_filter)
    return filters, exceptions


def topics_added(before: QueueDefinition, after: QueueDefinition) -> list[TopicFilter]:
    """Return the topics that a changed definition adds; all of them where an exception was removed."""
    old_filters, old_exceptions = topics_of(before)
    filters, exceptions = topics_of(after)
    is_exception_gone = not {each.text for each in old_exceptions} <= {each.text for each in exceptions}
    known: set[str] = set() if is_exception_gone else {each.text for each in old_filters}
    return [each for each in filters if each.text not in known]
