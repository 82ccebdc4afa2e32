"""Views of queues, messages, actors and events: frozen values, shared by the admin API, the command line and the tests.

A view is taken at one moment, and never changes. Field names are the JSON names; every unit is in the name.
"""

import base64
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, Final, Literal

from pydantic import PlainSerializer, PlainValidator, WithJsonSchema

from sluicegate.messaging.message.keys import FORM as KEY_SOURCE_FORM
from sluicegate.messaging.message.thresholds import PAIR_FORM
from sluicegate.messaging.queues.attributes import (
    ATTRIBUTES,
    CHOICE,
    FLAG,
    KEY_SOURCE,
    NUMBER,
    THRESHOLD,
    Attribute,
    AttributeValue,
)
from sluicegate.messaging.queues.definition import QueueConfig, config_from_dict

PREVIEW_BYTES_MAX: Final = 4096  # of one payload; a page of 100 messages stays below half a megabyte


class PartitionStatus(StrEnum):
    """The state of the assignment of a partition to a flow."""

    UNASSIGNED = "unassigned"  # no flow is bound to the queue
    READY = "ready"  # its flow receives
    PAUSED = "paused"  # handoff: the old flow settles what it holds
    UNBOUND = "unbound"  # its flow has ended, and the rebalance delay is running


class ScaleStatus(StrEnum):
    """Whether the configured number of partitions is in operation."""

    READY = "ready"
    SCALING_UP = "scaling-up"
    SCALING_DOWN = "scaling-down"


class RebalanceStatus(StrEnum):
    """Whether partitions are being moved between flows."""

    READY = "ready"
    HOLDDOWN = "holddown"
    REBALANCING = "rebalancing"


def attribute_schema(attribute: Attribute) -> dict[str, object]:
    """Return the JSON schema of one queue attribute."""
    schema: dict[str, object] = {"description": attribute.meaning, "default": attribute.default}
    if attribute.kind == NUMBER:
        return {"type": "integer", "minimum": attribute.low, "maximum": attribute.high, **schema}
    if attribute.kind == FLAG:
        return {"type": "boolean", **schema}
    if attribute.kind == CHOICE:
        return {"type": "string", "enum": list(attribute.choices), **schema}
    if attribute.kind == THRESHOLD:
        return {"type": "string", "pattern": f"^{PAIR_FORM.pattern}$", **schema}
    if attribute.kind == KEY_SOURCE:
        return {"type": "string", "pattern": f"^({KEY_SOURCE_FORM.pattern})$", **schema}
    return {"type": "string", "maxLength": attribute.high, **schema}


QUEUE_CONFIG_SCHEMA: Final[dict[str, object]] = {
    "type": "object",
    "properties": {"name": {"type": "string"}, **{each.name: attribute_schema(each) for each in ATTRIBUTES}},
    "required": ["name"],
    "additionalProperties": False,
}


def _config_to_json(config: QueueConfig) -> dict[str, AttributeValue]:
    return config.to_dict()


def _config_from_json(given: object) -> QueueConfig:
    if isinstance(given, QueueConfig):
        return given
    if not isinstance(given, dict):
        raise ValueError("a queue configuration is a mapping")
    return config_from_dict(given, reserved_name=True)


# The core's class is plain (and compiled), so its pydantic schema is here.
QueueConfigField = Annotated[
    QueueConfig,
    PlainValidator(_config_from_json),
    PlainSerializer(_config_to_json),
    WithJsonSchema(QUEUE_CONFIG_SCHEMA),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionView:
    """One partition of a queue; a plain queue shows itself as partition 0."""

    number: int
    status: PartitionStatus
    ready_count: int  # waiting for a flow
    unacked_count: int  # delivered, not settled
    spooled_bytes: int
    next_sequence: int  # the next message gets this one
    kept_from: int = 1  # first sequence that can still be read
    kept_bytes: int = 0  # payload kept beyond its settlement; no part of the quota
    assignment_epoch: int = 0
    held_count: int = 0  # of the ready ones: held until older ones of their key, in another partition, are settled
    dead_waiting_count: int = 0  # neither ready nor unacked: dead, and not in the dead message queue yet
    flow_id: str | None = None  # its owner, while it has one
    client: str | None = None  # the owner's client


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowView:
    """One consumer bound to a queue."""

    id: str
    client: str
    protocol: str
    window: int  # most messages it takes at once
    unacked_count: int
    active: bool  # it may receive: holds a partition, or is first on an exclusive queue; or it browses
    activity: str  # active-consumer, inactive (stands by) or active-browser
    partitions: tuple[int, ...] = ()
    delivered_count: int = 0
    selector: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueView:
    """One queue: its configuration and its present state. Counters start at zero when the node starts."""

    config: QueueConfigField
    subscriptions: tuple[str, ...]
    broker: str = ""  # the neighbor that has it; empty: this broker
    at_ms: int = 0  # when it was read, on a monotonic clock: for the time between two responses
    durable: bool = True  # False: temporary, kept in memory only
    definition_lost: bool = False  # its attributes are defaults until an operator sets them
    ready_count: int
    unacked_count: int
    spooled_bytes: int
    spooled_count: int = 0  # messages in it, including delayed ones, which are neither ready nor unacked
    partition_operational_count: int = 0  # partitions there are; 0 when the queue is not partitioned
    scale_status: ScaleStatus = ScaleStatus.READY
    rebalance_status: RebalanceStatus = RebalanceStatus.READY
    accepted_total: int = 0  # messages taken into the queue
    accepted_rate: float = 0.0  # of them in a second, mean of the last minute
    delivered_total: int = 0  # deliveries, first ones and repeated ones
    redelivered_total: int = 0
    settled_total: int = 0  # messages a consumer accepted
    discards: dict[str, int] = field(default_factory=dict)  # reason and outcome -> messages that went unconsumed
    refusals: dict[str, int] = field(default_factory=dict)  # reason -> messages refused to their publishers
    drops: dict[str, int] = field(default_factory=dict)  # reason -> messages not taken, unknown to their publishers
    bind_refusals: dict[str, int] = field(default_factory=dict)  # reason -> consumers that could not bind
    kept_bytes: int = 0  # payload of settled messages that are kept for replay and durable cursors
    warnings: tuple[str, ...] = ()  # what may lose messages
    spool_incarnation: str = ""  # sequences are valid within it only; 16 hex digits
    partitions: tuple[PartitionView, ...] = ()
    flows: tuple[FlowView, ...] = ()

    @property
    def name(self) -> str:
        """The queue's name."""
        return self.config.name


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkQueueView:
    """A queue of a neighbor broker, as this broker knows it."""

    name: str
    broker: str  # where it is
    access_type: str
    partition_count: int  # 0: it is not partitioned
    max_msg_size: int  # bytes of payload
    ingress_enabled: bool
    egress_enabled: bool
    full: bool  # it refuses messages for its quota
    reachable: bool  # there is a link to its broker now
    conflict: tuple[str, ...] = ()  # neighbors with a queue of this name: the name means none of them


@dataclass(frozen=True, slots=True, kw_only=True)
class DeathView:
    """Why a message is in a dead message queue."""

    reason: str  # expired, max_redelivery_exceeded, rejected or undeliverable
    queue: str  # where it died
    partition: int
    delivery_count: int
    time_ms: int  # wall clock
    client: str | None = None  # the last consumer that held it
    cause: str | None = None  # what that consumer gave as the reason when it rejected the message
    via: tuple[str, ...] = ()  # dead message queues it has left since


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageView:
    """A message in a queue, with the beginning of its payload."""

    id: str  # `partition:sequence`
    partition: int
    sequence: int
    topic: str
    size_bytes: int  # of the whole payload
    delivery_count: int  # times it was handed to a consumer
    received_ms: int  # wall clock
    key: str | None = None  # partition key
    payload: str = ""
    payload_encoding: Literal["text", "base64"] = "text"
    payload_truncated: bool = False
    dead: DeathView | None = None
    broker: str = ""  # the neighbor that has it; empty: this broker

    @property
    def redelivered(self) -> bool:
        """Whether the next delivery carries the redelivered flag."""
        return self.delivery_count > 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TakenView:
    """The result of an action on selected messages."""

    done_count: int
    kept: dict[str, int]  # reason -> messages that were selected and left as they were
    not_found: tuple[str, ...] = ()  # ids of no message that is in the queue


@dataclass(frozen=True, slots=True, kw_only=True)
class RedriveView:
    """The progress of the re-drive of a queue."""

    queue: str
    to: str | None  # None: each message goes to the queue it died in
    state: str  # running, done, cancelled or failed
    done_count: int
    kept: dict[str, int]  # reason -> messages that stay
    position: str  # `partition:sequence` up to which everything was looked at
    started_ms: int  # wall clock
    ended_ms: int | None
    rate: int  # messages per second; 0: as fast as it goes
    limit: int  # most messages; 0: all
    failure: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ActorView:
    """One actor and what it supervises."""

    name: str  # last part of the path
    path: str  # names from the root, joined by '/'
    kind: str
    state: str
    inbox_depth: int
    handled_count: int  # messages between actors: one of them carries many messages of clients
    batch_count: int  # times that the inbox was emptied
    batch_size_mean: float  # messages each time
    handling_time_us: float  # mean of each time
    restart_count: int
    children: tuple["ActorView", ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class EventView:
    """One event."""

    number: int  # ascending by one since the start of the node
    time_ms: int  # wall clock
    level: str  # info, notice, warning or error
    scope: str  # SYSTEM, VPN or CLIENT
    event: str  # its name
    text: str  # as it is logged and published
    vpn: str | None = None
    client: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """Liveness and readiness of the node."""

    live: bool
    ready: bool
    reasons: tuple[str, ...] = ()  # why it is not ready, a sentence each


def payload_preview(payload: bytes) -> tuple[str, Literal["text", "base64"], bool]:
    """Return the beginning of a payload as (text, encoding, truncated); readable text where it is UTF-8."""
    head = payload[:PREVIEW_BYTES_MAX]
    truncated = len(payload) > PREVIEW_BYTES_MAX
    try:
        return head.decode(), "text", truncated
    except UnicodeDecodeError as problem:
        # A character cut by the limit does not make the text binary: UTF-8 uses at most four bytes.
        if truncated and problem.reason == "unexpected end of data" and problem.start >= PREVIEW_BYTES_MAX - 3:
            return head[: problem.start].decode(), "text", True
        return base64.b64encode(head).decode("ascii"), "base64", truncated


# --- virtual destinations and reloads ---


@dataclass(frozen=True, slots=True, kw_only=True)
class DurableSelectorView:
    """The selectors of a subscriber of a virtual topic's queue, which stay in force while it is offline."""

    queue: str
    subscriber: str  # its client id; under compat activemq the selector itself
    selectors: tuple[str, ...]  # an empty text: everything
    seen_ms: int  # wall clock: when it last bound or was set


@dataclass(frozen=True, slots=True, kw_only=True)
class ReloadView:
    """The result of a reload of the configuration."""

    taken_over: tuple[str, ...]  # changed settings that are in force now
    restart_needed: tuple[str, ...]  # changed settings that are not in force yet
    warnings: tuple[str, ...]  # about declared objects: probably unintended, or could not be created
