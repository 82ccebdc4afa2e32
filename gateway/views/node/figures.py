"""Counters for displays that refresh often: the totals of a node, and a row for each queue.

Answers hold counters and the time at which they were read; a client computes rates between two answers, over the
interval that it chose. A queue with everything it has is a `QueueView`; metrics have every counter, by name.
"""

from dataclasses import dataclass
from typing import Final

QUEUES_MAX: Final = 10_000  # of one answer
QUEUES_DEFAULT: Final = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessFigures:
    """The process of a node. `/metrics` has the same values."""

    memory_bytes: int  # resident
    cpu_ms_total: int  # of all its threads, user and system


@dataclass(frozen=True, slots=True, kw_only=True)
class ProtocolFigures:
    """What one protocol carries."""

    protocol: str
    connections_count: int
    messages_received_total: int
    messages_sent_total: int
    bytes_received_total: int
    bytes_sent_total: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFigures:
    """A node at one moment."""

    name: str
    version: str
    at_ms: int  # on a monotonic clock: for the time between two responses
    wall_ms: int
    spool_commits_total: int
    process: ProcessFigures | None  # None: the operating system does not report it
    protocols: tuple[ProtocolFigures, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueFigures:
    """One queue at one moment."""

    name: str
    access_type: str
    durable: bool
    partition_count: int  # 0: it is not partitioned
    flows_count: int
    ready_count: int
    unacked_count: int
    spooled_bytes: int
    quota_bytes: int  # 0: it keeps the last value only
    accepted_total: int
    delivered_total: int
    redelivered_total: int
    settled_total: int
    discarded_total: int  # messages that left it unconsumed and are in no dead message queue
    rebalance_status: str
    moving_to: str = ""  # the broker that it is being moved to; empty: it stays
    refused_total: int = 0  # messages refused to their publishers
    dropped_total: int = 0  # messages not taken, without telling their publishers
    to_dmq_total: int = 0  # messages moved to a dead message queue
    dead_msg_queue: str = ""  # where dead messages go; empty: nowhere


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuesFigures:
    """A page of queues, by name."""

    at_ms: int  # as in `NodeFigures`
    total_count: int  # of those that were asked for, on this page or not
    queues: tuple[QueueFigures, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuesQuery:
    """Which queues to return. `*` stands for any characters, `?` for one; an empty name is for all."""

    name: str = ""
    is_named_only: bool = False  # without those of sessions and shared subscriptions
    after: int = 0  # queues to pass over
    limit: int = QUEUES_DEFAULT
    without: tuple[str, ...] = ()  # names of queues that are left out
