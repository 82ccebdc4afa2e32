"""The sections of a node: name, folders, probes, protocols, spool, limits, queues, transactions and backpressure.

Every number has a unit and a range.
"""

from pathlib import Path
from typing import Annotated, Final, Literal, Self

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    PlainSerializer,
    PlainValidator,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic_core import PydanticCustomError

from sluicegate.gateway.config.sections.listeners import LOOPBACK, AllowedHosts, AllowedOrigins, Host, Port
from sluicegate.gateway.config.sections.section import Section
from sluicegate.gateway.config.sections.values import GIB, KIB, MIB, TIB, Size, plain_value, plain_values
from sluicegate.messaging.message.thresholds import ThresholdPair
from sluicegate.messaging.queues.attributes import ATTRIBUTE_BY_NAME, AttributeValue, quoted
from sluicegate.messaging.queues.definition import QueueDefinition, QueueInvalid, definition_from_dict
from sluicegate.messaging.queues.pressure import PressureLimits
from sluicegate.messaging.queues.template import QueueTemplate, template_from_dict
from sluicegate.messaging.selectors.dialects import Dialect
from sluicegate.messaging.selectors.selector import DIALECTS
from sluicegate.protocols.rest.allowed_targets import AllowedTargets, parse_targets

MQTT_REMAINING_LENGTH_MAX: Final = 268_435_455  # what four length bytes can say [MQTT 1.5.5]
COUNT_MAX: Final = 1 << 40  # messages; far beyond what a spool of 64 TiB holds of the smallest
QUEUE_PROBLEM: Final = "queue_problem"  # error type whose context names the attribute


def _named(path: object) -> object:
    """Refuse an empty text, which would mean the working directory: usually a variable was not set."""
    if path == "":
        raise ValueError("it is empty; allowed: a path, '.' for the working directory")
    return path


Folder = Annotated[Path, BeforeValidator(_named)]


class Node(Section):
    """The node itself."""

    name: str = Field(default="sluicegate", pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", min_length=1, max_length=64)
    allowed_hosts: AllowedHosts = Field(
        default=(), description="names by which clients of HTTP and WebSocket call the node; '*': any name"
    )


class Data(Section):
    """Where the node keeps what must survive it."""

    path: Folder = Field(default=Path("sluicegate-data"), description="directory of the spool; made if it is not there")


class Backup(Section):
    """Backups of the spool, made while the node runs."""

    path: Folder = Field(
        default=Path("sluicegate-backups"), description="directory of the backups, each a folder; made when one is"
    )


class Health(Section):
    """The HTTP port for probes and scrapers: `/health/live`, `/health/ready` and `/metrics`, and nothing else."""

    enabled: bool = False
    host: Host = LOOPBACK
    port: Port = 5550


class Mqtt(Section):
    """Limits and choices of the MQTT protocols."""

    connect_timeout_s: int = Field(default=10, ge=1, le=600, description="from TCP accept to CONNECT")
    maximum_packet_size: Size = Field(
        default=16 * MIB, ge=KIB, le=MQTT_REMAINING_LENGTH_MAX, description="largest packet a client may send"
    )
    receive_maximum: int = Field(default=1000, ge=1, le=65535, description="messages a client may have in flight to us")
    topic_alias_maximum: int = Field(default=16, ge=0, le=65535, description="topic aliases a client may set")
    maximum_qos: int = Field(default=2, ge=0, le=2, description="of publishes, and that subscriptions are granted")
    retain_available: bool = Field(default=True, description="clients may publish retained messages")
    keep_alive_s_max: int = Field(
        default=0, ge=0, le=65535, description="5.0 clients are told to use this; 0: their own choice"
    )
    session_expiry_s_max: Annotated[
        int, Field(ge=0, le=0xFFFF_FFFF, description="sessions end at the latest this long after the connection")
    ] = 0xFFFF_FFFF  # MQTT's value for never: a session that a device relies on must not expire by surprise
    # 3.x clients cannot announce a limit. 256 keeps a link of 10 ms busy at 25,000 messages a second.
    unacknowledged_window_v3: int = Field(default=256, ge=1, le=65535, description="messages in flight to a 3.x client")
    # It is in the key of each row of its session. 1 KiB has room for several addresses.
    client_id_bytes_max: int = Field(default=1024, ge=23, le=65535, description="longest client id that is let in")
    strict_client_id_3_1: bool = Field(default=False, description="refuse 3.1 client ids of more than 23 characters")
    allow_zero_length_client_id: bool = Field(default=True, description="give a name to clients that have none")
    reject_control_characters: bool = Field(
        default=False, description="refuse U+0001 to U+001F and the like in topics and ids"
    )
    allowed_origins: AllowedOrigins = ()


def _pair(given: str) -> str:
    ThresholdPair(given)
    return given


# A pair of levels: an event is raised at one, and cleared below the other.
Pair = Annotated[str, AfterValidator(_pair)]


class Amqp(Section):
    """Limits and choices of AMQP 1.0."""

    connect_timeout_s: int = Field(
        default=10, ge=1, le=600, description="for each step before open: protocol header, SASL, open"
    )
    max_frame_size: Size = Field(default=64 * KIB, ge=4 * KIB, le=MIB, description="largest frame a client may send")
    max_message_size: Size = Field(
        default=30 * MIB, ge=KIB, le=GIB, description="largest message a client may send, over all its frames"
    )
    channel_max: int = Field(default=255, ge=0, le=65535, description="highest channel: one less than the sessions")
    handle_max: int = Field(default=1023, ge=0, le=65535, description="highest handle: one less than a session's links")
    link_credit: int = Field(default=1000, ge=1, le=65535, description="messages a sender may have in flight to us")
    idle_timeout_s: int = Field(default=60, ge=0, le=3600, description="silence that ends a connection; 0: none does")
    allow_plain_without_tls: bool = Field(
        default=True, description="offer SASL PLAIN, which sends passwords as they are, on listeners without TLS"
    )
    max_transactions: int = Field(default=64, ge=1, le=65535, description="open transactions of a connection")
    max_transaction_messages: int = Field(
        default=10_000, ge=1, le=1_000_000, description="messages published and settled in one transaction"
    )
    max_transaction_size: Size = Field(
        default=32 * MIB, ge=KIB, le=GIB, description="bytes that one transaction may hold in memory until its commit"
    )
    max_open_transactions_size: Size = Field(
        default=256 * MIB, ge=KIB, le=64 * GIB, description="the same for the open transactions of all connections"
    )
    transaction_timeout_s: int = Field(
        default=60, ge=1, le=3600, description="time without a use after which a transaction is rolled back"
    )
    allowed_origins: AllowedOrigins = ()

    @model_validator(mode="after")
    def _check_relation(self) -> Self:
        if self.idle_timeout_s == 1:  # half of it is announced
            raise ValueError("idle_timeout_s is 1, and clients would have half a second; allowed: 0, or 2 and more")
        if self.max_transaction_size > self.max_open_transactions_size:
            raise ValueError("max_transaction_size is larger than max_open_transactions_size, which has to hold it")
        return self


class Http(Section):
    """Limits and choices of HTTP messaging."""

    head_timeout_s: int = Field(default=10, ge=1, le=600, description="for the head of a request, and for the first")
    body_timeout_s: int = Field(
        default=30, ge=1, le=600, description="of silence within the body of a request, or with an answer not read on"
    )
    body_rate_min: Size = Field(
        default=KIB,
        ge=1,
        le=MIB,
        description="bytes a second at least, on the average of a body that takes longer than body_timeout_s",
    )
    keep_alive_s: int = Field(default=60, ge=1, le=3600, description="between two requests of a connection")
    max_body_size: Size = Field(
        default=64 * MIB, ge=KIB, le=GIB, description="largest body of a request, also after gzip is undone"
    )
    max_message_size: Size = Field(default=30 * MIB, ge=KIB, le=GIB, description="largest message a client may send")
    batch_messages_max: int = Field(default=10_000, ge=1, le=1_000_000, description="messages in one request")
    max_flows: int = Field(default=10_000, ge=1, le=1_000_000, description="flows of all workers together")
    max_flows_per_client: int = Field(
        default=100, ge=1, le=1_000_000, description="flows of one user or, without users, of one host"
    )
    unsettled_max: int = Field(
        default=1000, ge=1, le=100_000, description="messages a flow may hold, whatever its worker asks for"
    )
    lock_s: int = Field(
        default=60, ge=1, le=43_200, description="for a worker to settle a message, unless it asks for another time"
    )
    lock_s_max: int = Field(default=3600, ge=1, le=43_200, description="the longest time that a worker may ask for")
    wait_s_max: int = Field(default=300, ge=0, le=3600, description="the longest that a request waits for messages")
    allowed_origins: AllowedOrigins = ()

    @model_validator(mode="after")
    def _check_relation(self) -> Self:
        if self.lock_s > self.lock_s_max:
            raise ValueError("lock_s is larger than lock_s_max")
        return self


class Flow(Section):
    """Limits and choices of the flow protocol."""

    connect_timeout_s: int = Field(default=10, ge=1, le=600, description="from TCP accept until a client is let in")
    max_frame_size: Size = Field(
        default=32 * MIB, ge=4 * KIB, le=64 * MIB, description="largest frame a client may send; it holds one message"
    )
    max_flows: int = Field(default=1024, ge=1, le=65535, description="publishers, consumers, ranges of one connection")
    publish_window: int = Field(
        default=1000, ge=1, le=65535, description="messages a publisher may send ahead of our answers"
    )
    unsettled_max: int = Field(
        default=10_000, ge=1, le=1_000_000, description="messages a consumer may hold, whatever its credit"
    )
    keep_alive_s_max: int = Field(
        default=30, ge=1, le=3600, description="longest keep-alive; three of them without a word end a connection"
    )
    publishers_max: int = Field(
        default=100_000, ge=1, le=10_000_000, description="publishers whose names are remembered"
    )
    # As long as names of staged transactions: what a job may lie about before it is started again.
    publishers_remembered_s: int = Field(
        default=604_800, ge=60, le=31_536_000, description="a publisher nobody has open is forgotten after so long"
    )
    allow_plain_without_tls: bool = Field(
        default=True, description="offer SASL PLAIN, which sends passwords as they are, on listeners without TLS"
    )
    compression: bool = Field(default=True, description="compress frames, for clients that ask for it")


class Rest(Section):
    """What holds for the REST delivery points of all message VPNs."""

    allowed_targets: tuple[str, ...] = Field(
        default=(), max_length=1000, description="hosts and networks that they may push to; empty: all but link-local"
    )

    @field_validator("allowed_targets")
    @classmethod
    def _check_targets(cls, entries: tuple[str, ...]) -> tuple[str, ...]:
        parse_targets(entries)
        return entries

    def targets(self) -> AllowedTargets:
        """Return the list, read."""
        return parse_targets(self.allowed_targets)


class Spool(Section):
    """The store of guaranteed messages."""

    map_bytes_max: Size = Field(
        default=16 * GIB, ge=16 * MIB, le=64 * TIB, description="most the database file may grow to"
    )
    usage_bytes_max: Size = Field(default=12 * GIB, ge=MIB, le=64 * TIB, description="quota of all queues together")
    memory_bytes_max: Size = Field(default=256 * MIB, ge=MIB, le=TIB, description="message bytes kept in memory")
    usage_threshold: Pair = Field(default="80/60%", description="event for the usage; values are MB")
    commit_interval_ms: int = Field(
        default=2,
        ge=0,
        le=1000,
        description="shortest time between two commits under load, and what consumers are given to make one needless",
    )
    sync: bool = Field(
        default=True, description="fsync before a publisher is confirmed; false loses messages on power failure"
    )

    @model_validator(mode="after")
    def _check_relation(self) -> Self:
        if self.usage_bytes_max > self.map_bytes_max:
            raise ValueError("usage_bytes_max is larger than map_bytes_max, which has to hold it")
        return self


class Limits(Section):
    """Numbers of messages that the node holds at most, and what it takes for logins."""

    messages_max: int = Field(default=100_000_000, ge=1, le=COUNT_MAX, description="messages of all durable queues")
    messages_threshold: Pair = Field(default="80/60%", description="event for their number")
    delivered_unacked_max: int = Field(
        default=10_000_000, ge=1, le=COUNT_MAX, description="messages that all consumers hold unsettled together"
    )
    delivered_unacked_threshold: Pair = Field(default="80/60%", description="event for their number")
    queue_messages_max: int = Field(default=100_000_000, ge=1, le=COUNT_MAX, description="messages of one queue")
    login_memory_bytes_max: Size = Field(
        default=256 * MIB,
        ge=MIB,
        le=64 * GIB,
        description="memory for passwords that are checked at the same time; one always is",
    )


def _queue_problem(problem: QueueInvalid) -> PydanticCustomError:
    context = {"field": problem.field, "reason": problem.reason, "allowed": problem.allowed}
    return PydanticCustomError(QUEUE_PROBLEM, "{reason}", context)


def _queue_definition(given: object) -> QueueDefinition:
    if isinstance(given, QueueDefinition):
        return given
    if not isinstance(given, dict):
        raise ValueError(
            f"{quoted(given)} is not allowed; allowed: a mapping with the name of a queue, and its attributes"
        )
    try:
        return definition_from_dict(plain_values(given), wildcards=True)  # virtual topics decide which it may have
    except QueueInvalid as problem:
        raise _queue_problem(problem) from None


def _queue_defaults(given: object) -> dict[str, AttributeValue]:
    if not isinstance(given, dict):
        raise ValueError(f"{quoted(given)} is not allowed; allowed: a mapping of queue attributes")
    values: dict[str, AttributeValue] = {}
    for key, raw in given.items():
        attribute = ATTRIBUTE_BY_NAME.get(key)
        value = plain_value(key, raw)
        if attribute is None:
            raise _queue_problem(QueueInvalid(key, "there is no such attribute", ", ".join(ATTRIBUTE_BY_NAME)))
        if not attribute.accepts(value) or not isinstance(value, str | int):
            raise _queue_problem(QueueInvalid(key, f"{quoted(value)} is not allowed", attribute.allowed()))
        values[key] = value
    return values


def _queue_template(given: object) -> QueueTemplate:
    if isinstance(given, QueueTemplate):
        return given
    if not isinstance(given, dict):
        allowed = "a mapping with name, queue_name_filter, durability_override and attributes of queues"
        raise ValueError(f"{quoted(given)} is not allowed; allowed: {allowed}")
    try:
        return template_from_dict(plain_values(given))
    except QueueInvalid as problem:
        raise _queue_problem(problem) from None


QueueDefaults = Annotated[dict[str, AttributeValue], PlainValidator(_queue_defaults)]
DeclaredQueue = Annotated[
    QueueDefinition, PlainValidator(_queue_definition), PlainSerializer(lambda queue: queue.to_dict(), return_type=dict)
]
DeclaredTemplate = Annotated[
    QueueTemplate,
    PlainValidator(_queue_template),
    PlainSerializer(lambda template: template.to_dict(), return_type=dict),
]


class Queues(Section):
    """Queues that exist from the first start on. One that was created before is left as it is."""

    defaults: QueueDefaults = Field(default_factory=dict, description="attributes of declared queues that set none")
    declared: tuple[DeclaredQueue, ...] = ()
    templates: tuple[DeclaredTemplate, ...] = ()
    temporary_grace_s: int = Field(
        default=60, ge=1, le=86_400, description="temporary queues are deleted after so long without a consumer"
    )

    @field_validator("declared", mode="before")
    @classmethod
    def _fill_in_defaults(cls, given: object, info: ValidationInfo) -> object:
        defaults = info.data.get("defaults", {})
        if not isinstance(given, list | tuple):
            return given
        return [{**defaults, **queue} if isinstance(queue, dict) else queue for queue in given]

    @model_validator(mode="after")
    def _check_names(self) -> Self:
        names = [queue.config.name for queue in self.declared]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"declared: the name {name!r} appears {names.count(name)} times")
        templates = [template.name for template in self.templates]
        for name in templates:
            if templates.count(name) > 1:
                raise ValueError(f"templates: the name {name!r} appears {templates.count(name)} times")
        return self


class SelectorLanguage(Section):
    """The language of selectors, of all protocols and of the configuration."""

    compat: Literal["none", "activemq"] = Field(
        default="none", description="none: the standard's; activemq: what ActiveMQ's selectors mean"
    )

    def dialect(self) -> Dialect:
        """Return the dialect of selectors."""
        return DIALECTS[self.compat]


class Transactions(Section):
    """Staged publishing: what is kept of transactions before and after their commit."""

    staged_bytes_max: Size = Field(
        default=4 * GIB, ge=MIB, le=64 * TIB, description="staged and not committed, in all; part of the spool's quota"
    )
    stage_ttl_s: int = Field(
        default=86_400, ge=1, le=31_536_000, description="a transaction that is not heard of for so long is dropped"
    )
    # As long as a Spark checkpoint may lie about before its job is started again.
    names_kept_s: int = Field(
        default=604_800, ge=60, le=31_536_000, description="a commit that is repeated within this time does nothing"
    )


class Backpressure(Section):
    """What happens to those that send faster than others read."""

    connection_buffer_bytes_max: Size = Field(
        default=4 * MIB,
        ge=64 * KIB,
        le=GIB,
        description="output waiting for one client; beyond it nothing more is sent to it",
    )
    # A subscriber that is merely slow takes some bytes, or settles some messages, in every round trip. One that does
    # neither for 200 ms has stopped: it may cost everybody else's publishers no more than that. Nothing is dropped at
    # that moment: its buffer (QoS 0) or its queue (QoS 1 and 2) goes on filling up to its own limit.
    slow_subscriber_stall_ms: int = Field(
        default=200,
        ge=50,
        le=3_600_000,
        description="publishers wait this long for a subscriber that takes nothing, then no longer",
    )

    unfinished_bytes_max: Size = Field(
        default=256 * MIB,
        ge=MIB,
        le=64 * TIB,
        description="what all clients together have begun to send and not finished",
    )

    def limits(self) -> PressureLimits:
        """Return the marks at which queues slow down their publishers."""
        high_bytes = self.connection_buffer_bytes_max
        return PressureLimits(high_bytes=high_bytes, low_bytes=high_bytes // 4, stall_ms=self.slow_subscriber_stall_ms)
