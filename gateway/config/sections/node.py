"""The sections of a node: name, folders, probes, protocols, spool, limits, queues, transactions and backpressure.

Every number has a unit and a range.
"""

from collections import Counter
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
from sluicegate.gateway.config.sections.values import (
    GIB,
    KIB,
    MIB,
    TIB,
    ServerReference,
    Size,
    plain_value,
    plain_values,
)
from sluicegate.messaging.message.thresholds import ThresholdPair
from sluicegate.messaging.queues.attributes import ATTRIBUTE_BY_NAME, AttributeValue, quoted
from sluicegate.messaging.queues.definition import QueueDefinition, QueueInvalid, definition_from_dict
from sluicegate.messaging.queues.pressure import PressureLimits
from sluicegate.messaging.queues.template import QueueTemplate, template_from_dict
from sluicegate.messaging.selectors.dialects import Dialect
from sluicegate.messaging.selectors.selector import DIALECTS
from sluicegate.protocols.mqtt.requests.response_information import check_pattern
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
    network: str = Field(
        default="default",
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$",
        max_length=64,
        description="network of linked brokers that the node belongs to; its name is unique there",
    )
    allowed_hosts: AllowedHosts = Field(
        default=(), description="host names that browsers and HTTP clients may use for the node; '*': any"
    )

    def is_named(self) -> bool:
        """Return whether it has a name of its own, not the default of all."""
        return "name" in self.model_fields_set


class Data(Section):
    """The folder with the data that must survive a restart."""

    path: Folder = Field(
        default=Path("sluicegate-data"), description="directory of the spool; created if it does not exist"
    )


class Backup(Section):
    """Backups of the spool, made while the node runs."""

    path: Folder = Field(
        default=Path("sluicegate-backups"),
        description="directory of the backups, each in its own folder; created with the first backup",
    )


class Health(Section):
    """The HTTP port for probes and scrapers: `/health/live`, `/health/ready` and `/metrics`, and nothing else."""

    enabled: bool = False
    host: Host = LOOPBACK
    port: Port = 5550


def _pattern_of_responses(given: str) -> str:
    check_pattern(given)
    return given


class Mqtt(Section):
    """Limits and options of MQTT."""

    connect_timeout_s: int = Field(
        default=10, ge=1, le=600, description="seconds from the open connection until CONNECT"
    )
    maximum_packet_size: Size = Field(
        default=16 * MIB, ge=KIB, le=MQTT_REMAINING_LENGTH_MAX, description="largest packet a client may send"
    )
    receive_maximum: int = Field(
        default=1000, ge=1, le=65535, description="Receive Maximum: messages a client may have in flight to the gateway"
    )
    topic_alias_maximum: int = Field(default=16, ge=0, le=65535, description="topic aliases a client may set")
    maximum_qos: int = Field(default=2, ge=0, le=2, description="highest QoS for publishing, and for subscriptions")
    retain_available: bool = Field(default=True, description="clients may publish retained messages")
    keep_alive_s_max: int = Field(
        default=0, ge=0, le=65535, description="longest keep-alive of a 5.0 client in seconds; 0: no limit"
    )
    session_expiry_s_max: Annotated[
        int,
        Field(
            ge=0, le=0xFFFF_FFFF, description="longest session expiry interval, in seconds after the connection ends"
        ),
    ] = 0xFFFF_FFFF  # MQTT's value for never: a session that a device relies on must not expire by surprise
    # 3.x clients cannot announce a limit. 256 keeps a link of 10 ms busy at 25,000 messages a second.
    unacknowledged_window_v3: int = Field(default=256, ge=1, le=65535, description="messages in flight to a 3.x client")
    # It is in the key of each row of its session. 1 KiB has room for several addresses.
    client_id_bytes_max: int = Field(
        default=1024, ge=23, le=65535, description="longest client identifier that is accepted, in bytes"
    )
    strict_client_id_3_1: bool = Field(
        default=False, description="refuse 3.1 client identifiers of more than 23 characters"
    )
    allow_zero_length_client_id: bool = Field(
        default=True, description="accept empty client identifiers, and assign one"
    )
    topic_levels_max: int = Field(
        default=0, ge=0, le=65536, description="levels of a topic or filter of an MQTT client; 0: no limit"
    )
    reject_control_characters: bool = Field(
        default=False, description="refuse control characters such as U+0001 to U+001F in topics and identifiers"
    )
    sys_interval_s: int = Field(
        default=10,
        ge=0,
        le=86_400,
        description="seconds between two messages on $SYS/broker/..., while somebody subscribes to them; 0: none",
    )
    response_information: Annotated[str, AfterValidator(_pattern_of_responses)] = Field(
        default="",
        description="Response Information: the topic below which a 5.0 client may have responses sent; %c: its"
        " identifier, %u: its user name; empty: none",
    )
    server_reference: ServerReference = Field(
        default="",
        description="Server Reference: where 5.0 clients are sent when this broker stops, as HOST[:PORT] HOST[:PORT]"
        " ...; empty: nowhere",
    )
    server_moved: bool = Field(
        default=False, description="this broker has moved: it sends 5.0 clients to server_reference, and serves none"
    )
    allowed_origins: AllowedOrigins = ()

    @model_validator(mode="after")
    def _check_moved(self) -> Self:
        if self.server_moved and not self.server_reference:
            raise ValueError("server_moved needs server_reference: where clients are to go")
        return self


def _pair(given: str) -> str:
    ThresholdPair(given)
    return given


# A pair of levels: an event is raised at one, and cleared below the other.
Pair = Annotated[str, AfterValidator(_pair)]


class Amqp(Section):
    """Limits and options of AMQP 1.0."""

    connect_timeout_s: int = Field(
        default=10, ge=1, le=600, description="seconds for each step before open: protocol header, SASL, open"
    )
    max_frame_size: Size = Field(default=64 * KIB, ge=4 * KIB, le=MIB, description="largest frame a client may send")
    max_message_size: Size = Field(
        default=30 * MIB, ge=KIB, le=GIB, description="largest message a client may send, over all its frames"
    )
    channel_max: int = Field(
        default=255, ge=0, le=65535, description="highest channel: one less than the sessions of a connection"
    )
    handle_max: int = Field(
        default=1023, ge=0, le=65535, description="highest handle: one less than the links of a session"
    )
    link_credit: int = Field(
        default=1000, ge=1, le=65535, description="messages a sender may have in flight to the gateway"
    )
    idle_timeout_s: int = Field(
        default=60, ge=0, le=3600, description="seconds without a frame after which a connection is closed; 0: never"
    )
    allow_plain_without_tls: bool = Field(
        default=True, description="offer SASL PLAIN, which sends passwords in the clear, on ports without TLS"
    )
    max_transactions: int = Field(default=64, ge=1, le=65535, description="open transactions on one connection")
    max_transaction_messages: int = Field(
        default=10_000, ge=1, le=1_000_000, description="messages published and settled in one transaction"
    )
    max_transaction_size: Size = Field(
        default=32 * MIB, ge=KIB, le=GIB, description="memory that a transaction may hold until its commit"
    )
    max_open_transactions_size: Size = Field(
        default=256 * MIB,
        ge=KIB,
        le=64 * GIB,
        description="memory that the open transactions of all connections may hold",
    )
    transaction_timeout_s: int = Field(
        default=60, ge=1, le=3600, description="seconds without use after which a transaction is rolled back"
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
    """Limits and options of HTTP messaging."""

    head_timeout_s: int = Field(
        default=10, ge=1, le=600, description="seconds for the head of a request, and until the first request"
    )
    body_timeout_s: int = Field(
        default=30,
        ge=1,
        le=600,
        description="seconds without progress within the body of a request, or while a client does not read a response",
    )
    body_rate_min: Size = Field(
        default=KIB,
        ge=1,
        le=MIB,
        description="lowest average rate of a body in bytes per second, after its first body_timeout_s",
    )
    keep_alive_s: int = Field(
        default=60, ge=1, le=3600, description="seconds that a connection stays open between two requests"
    )
    max_body_size: Size = Field(
        default=64 * MIB, ge=KIB, le=GIB, description="largest body of a request, before and after decompression"
    )
    max_message_size: Size = Field(default=30 * MIB, ge=KIB, le=GIB, description="largest message a client may send")
    batch_messages_max: int = Field(default=10_000, ge=1, le=1_000_000, description="messages in one request")
    max_flows: int = Field(default=10_000, ge=1, le=1_000_000, description="flows of all workers together")
    max_flows_per_client: int = Field(
        default=100, ge=1, le=1_000_000, description="flows of one user, or of one host for clients without a user"
    )
    unsettled_max: int = Field(
        default=1000, ge=1, le=100_000, description="messages that a flow may hold, whatever its worker asks for"
    )
    lock_s: int = Field(
        default=60,
        ge=1,
        le=43_200,
        description="seconds that a worker has to settle a message, unless it asks for another time",
    )
    lock_s_max: int = Field(default=3600, ge=1, le=43_200, description="the most seconds that a worker may ask for")
    wait_s_max: int = Field(
        default=300, ge=0, le=3600, description="the most seconds that a request may wait for messages"
    )
    allowed_origins: AllowedOrigins = ()

    @model_validator(mode="after")
    def _check_relation(self) -> Self:
        if self.lock_s > self.lock_s_max:
            raise ValueError("lock_s is larger than lock_s_max")
        return self


class Flow(Section):
    """Limits and options of the flow protocol."""

    connect_timeout_s: int = Field(
        default=10, ge=1, le=600, description="seconds from the open connection until the client is admitted"
    )
    max_frame_size: Size = Field(
        default=32 * MIB,
        ge=4 * KIB,
        le=64 * MIB,
        description="largest frame a client may send; a frame holds one message",
    )
    max_flows: int = Field(
        default=1024, ge=1, le=65535, description="publishers, consumers and ranges on one connection"
    )
    publish_window: int = Field(
        default=1000, ge=1, le=65535, description="messages that a publisher may have unconfirmed"
    )
    unsettled_max: int = Field(
        default=10_000, ge=1, le=1_000_000, description="messages that a consumer may hold, whatever its credit"
    )
    keep_alive_s_max: int = Field(
        default=30,
        ge=1,
        le=3600,
        description="longest keep-alive in seconds; three intervals without a frame end a connection",
    )
    publishers_max: int = Field(
        default=100_000, ge=1, le=10_000_000, description="named publishers that the gateway remembers"
    )
    # As long as the names of staged transactions: a job may be restarted after so long.
    publishers_remembered_s: int = Field(
        default=604_800,
        ge=60,
        le=31_536_000,
        description="seconds after which a named publisher that no client has open is forgotten",
    )
    allow_plain_without_tls: bool = Field(
        default=True, description="offer SASL PLAIN, which sends passwords in the clear, on ports without TLS"
    )
    compression: bool = Field(default=True, description="compress frames, for clients that ask for it")


class Rest(Section):
    """Options of the REST delivery points of all message VPNs."""

    allowed_targets: tuple[str, ...] = Field(
        default=(),
        max_length=1000,
        description="hosts and networks that delivery points may push to; empty: all except link-local ones",
    )

    @field_validator("allowed_targets")
    @classmethod
    def _check_targets(cls, entries: tuple[str, ...]) -> tuple[str, ...]:
        parse_targets(entries)
        return entries

    def targets(self) -> AllowedTargets:
        """Return the parsed list."""
        return parse_targets(self.allowed_targets)


class Spool(Section):
    """The store of guaranteed messages."""

    map_bytes_max: Size = Field(
        default=16 * GIB, ge=16 * MIB, le=64 * TIB, description="largest size of the database file"
    )
    usage_bytes_max: Size = Field(
        default=12 * GIB, ge=MIB, le=64 * TIB, description="quota of all durable queues together"
    )
    memory_bytes_max: Size = Field(
        default=256 * MIB, ge=MIB, le=TIB, description="message bytes of all queues kept in memory"
    )
    usage_threshold: Pair = Field(
        default="80/60%",
        description="levels of usage at which an event is raised, and below which it is cleared; values are MB",
    )
    commit_interval_ms: int = Field(
        default=2,
        ge=0,
        le=1000,
        description="shortest time between two commits under load; messages settled within it need not be written",
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
    """Limits of the node: messages, unsettled messages, and memory for logins."""

    messages_max: int = Field(
        default=100_000_000, ge=1, le=COUNT_MAX, description="messages of all durable queues together"
    )
    messages_threshold: Pair = Field(
        default="80/60%",
        description="levels of their number at which an event is raised, and below which it is cleared",
    )
    delivered_unacked_max: int = Field(
        default=10_000_000, ge=1, le=COUNT_MAX, description="unsettled messages of all consumers together"
    )
    delivered_unacked_threshold: Pair = Field(
        default="80/60%",
        description="levels of their number at which an event is raised, and below which it is cleared",
    )
    queue_messages_max: int = Field(default=100_000_000, ge=1, le=COUNT_MAX, description="messages of one queue")
    login_memory_bytes_max: Size = Field(
        default=256 * MIB,
        ge=MIB,
        le=64 * GIB,
        description="memory for password checks that run at the same time; at least one check runs",
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
    """Queues that exist from the first start on. A queue that exists already is not changed."""

    defaults: QueueDefaults = Field(default_factory=dict, description="default attributes of declared queues")
    declared: tuple[DeclaredQueue, ...] = ()
    templates: tuple[DeclaredTemplate, ...] = ()
    temporary_grace_s: int = Field(
        default=60, ge=1, le=86_400, description="seconds without a consumer after which temporary queues are deleted"
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
        names = {
            "declared": Counter([queue.config.name for queue in self.declared]),
            "templates": Counter([template.name for template in self.templates]),
        }
        for key, counts in names.items():
            for name, count in counts.items():
                if count > 1:
                    raise ValueError(f"{key}: the name {name!r} appears {count} times")
        return self


class SelectorLanguage(Section):
    """The language of selectors, of all protocols and of the configuration."""

    compat: Literal["none", "activemq"] = Field(
        default="none", description="none: the standard; activemq: ActiveMQ's dialect"
    )

    def dialect(self) -> Dialect:
        """Return the dialect of selectors."""
        return DIALECTS[self.compat]


class Transactions(Section):
    """Limits of staged publishing: what is kept of transactions before and after their commit."""

    staged_bytes_max: Size = Field(
        default=4 * GIB,
        ge=MIB,
        le=64 * TIB,
        description="bytes staged and not committed in all transactions; they count towards the spool's quota",
    )
    stage_ttl_s: int = Field(
        default=86_400,
        ge=1,
        le=31_536_000,
        description="seconds after which an uncommitted transaction that stages nothing is dropped",
    )
    # A job may be restarted from a Spark checkpoint of this age.
    names_kept_s: int = Field(
        default=604_800, ge=60, le=31_536_000, description="seconds within which a repeated commit has no effect"
    )


class Backpressure(Section):
    """How publishers that send faster than subscribers read are slowed down."""

    connection_buffer_bytes_max: Size = Field(
        default=4 * MIB,
        ge=64 * KIB,
        le=GIB,
        description="bytes waiting to be written to one client, from which on it receives no more messages",
    )
    # A slow subscriber reads some bytes, or settles some messages, in every round trip. One that does neither for
    # 200 ms has stopped, and publishers to other subscribers need not wait longer for it. Nothing is dropped at that
    # moment: its buffer (QoS 0) or its queue (QoS 1 and 2) continues to fill up to its own limit.
    slow_subscriber_stall_ms: int = Field(
        default=200,
        ge=50,
        le=3_600_000,
        description="milliseconds that publishers wait for a subscriber that reads nothing",
    )

    unfinished_bytes_max: Size = Field(
        default=256 * MIB,
        ge=MIB,
        le=64 * TIB,
        description="bytes of incomplete packets, frames, deliveries and bodies of all clients together",
    )

    def limits(self) -> PressureLimits:
        """Return the marks at which queues slow down their publishers."""
        high_bytes = self.connection_buffer_bytes_max
        return PressureLimits(high_bytes=high_bytes, low_bytes=high_bytes // 4, stall_ms=self.slow_subscriber_stall_ms)
