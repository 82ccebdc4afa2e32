"""Views of queues, with their partitions and flows, and of durable selectors.

A view is taken at one moment, and never changes. Field names are the JSON names; every unit is in the name.
"""

from dataclasses import dataclass, field
from enum import StrEnum

from sluicegate.gateway.views.queues.attributes import QueueConfigField


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
    broker: str = ""  # where the client is connected, and `client` is NAME@BROKER. Empty: at the queue's broker
    of_machine: bool = False  # that broker is one of this machine


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueMoveView:
    """A queue that is being moved from its broker to another one."""

    name: str
    broker: str  # where it is moved to
    begun_ms: int  # wall clock
    moved_count: int  # messages that were handed over
    left_count: int  # messages that are still at its broker
    switching: bool = False  # publishers wait for the new broker
    waits_for: str = ""  # what has to change before it goes on; empty: it goes on

    @property
    def total_count(self) -> int:
        """Messages that were handed over, and those that will be."""
        return self.moved_count + self.left_count

    @property
    def state(self) -> str:
        """What it does, in words."""
        return self.waits_for or ("publishers wait" if self.switching else "goes on")


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueView:
    """One queue: its configuration and its present state. Counters start at zero when the node starts."""

    config: QueueConfigField
    subscriptions: tuple[str, ...]
    broker: str = ""  # the neighbor that has it, or which broker of this machine; empty: this broker
    of_machine: bool = False  # that broker is one of this machine, so the queue is changed here
    move: QueueMoveView | None = None  # to another broker, in progress
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
class DurableSelectorView:
    """The selectors of a subscriber of a virtual topic's queue, which stay in force while it is offline."""

    queue: str
    subscriber: str  # its client id; under compat activemq the selector itself
    selectors: tuple[str, ...]  # an empty text: everything
    seen_ms: int  # wall clock: when it last bound or was set
