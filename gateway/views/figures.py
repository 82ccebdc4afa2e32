"""What displays look at again and again: a node's totals, and a line of numbers for each queue.

Answers hold counters and the moment at which they were read, no rates: whoever asks twice has the rate between, over
the time that it chose. A queue with all it has is a `QueueView`; metrics have everything, by name.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from sluicegate.gateway.build import VERSION
from sluicegate.gateway.views.process import ProcessFigures
from sluicegate.gateway.views.text import name_pattern
from sluicegate.messaging.queues.definition import MEGABYTE, is_named

if TYPE_CHECKING:
    from sluicegate.actors.messages.directory import QueueHandle
    from sluicegate.actors.messages.queues import QueueOverview
    from sluicegate.gateway.node.node import Node


QUEUES_MAX: Final = 10_000  # of one answer
QUEUES_DEFAULT: Final = 1_000


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
    at_ms: int  # by a clock that only goes forward: for the time between two answers
    wall_ms: int
    spool_commits_total: int
    process: ProcessFigures | None  # None: its operating system does not say
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
    discarded_total: int  # that went unconsumed, into a dead message queue or nowhere
    rebalance_status: str


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuesFigures:
    """A page of queues, by name."""

    at_ms: int  # as in `NodeFigures`
    total_count: int  # of those that were asked for, on this page or not
    queues: tuple[QueueFigures, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuesQuestion:
    """Which queues somebody wants. `*` stands for any characters, `?` for one; an empty name is for all."""

    name: str = ""
    is_named_only: bool = False  # without those of sessions and shared subscriptions
    after: int = 0  # queues to pass over
    limit: int = QUEUES_DEFAULT


def node_figures(node: "Node") -> NodeFigures:
    """Return a node's totals."""
    return NodeFigures(
        name=node.config.node.name,
        version=VERSION,
        at_ms=node.clock.now_ms(),
        wall_ms=node.clock.wall_ms(),
        spool_commits_total=node.spool_actor().commits_count,
        process=node.surroundings.process(),
        protocols=tuple(
            ProtocolFigures(
                protocol=front.name,
                connections_count=len(front.open_connections()),
                messages_received_total=front.counters.messages_received,
                messages_sent_total=front.counters.messages_sent,
                bytes_received_total=front.counters.bytes_received,
                bytes_sent_total=front.counters.bytes_sent,
            )
            for front in node.fronts
        ),
    )


def wanted_queues(handles: "Iterable[QueueHandle]", question: QueuesQuestion) -> "list[QueueHandle]":
    """Return the queues that somebody wants, by name, on this page or not."""
    wanted = name_pattern(question.name)
    found = [each for each in handles if wanted.fullmatch(each.name)]
    if question.is_named_only:
        found = [each for each in found if is_named(each.name)]
    return sorted(found, key=lambda handle: handle.name)


def queue_figures(handle: "QueueHandle", overview: "QueueOverview") -> QueueFigures:
    """Return the numbers of a queue."""
    partitions, totals = overview.partitions, overview.totals
    return QueueFigures(
        name=handle.name,
        access_type=overview.config.access_type,
        durable=handle.durable,
        partition_count=len(partitions) if overview.config.partitioned() else 0,
        flows_count=len(overview.flows),
        ready_count=sum(each.ready_count for each in partitions),
        unacked_count=sum(each.in_flight_count for each in partitions),
        spooled_bytes=overview.usage_bytes,
        quota_bytes=overview.config.max_msg_spool_usage * MEGABYTE,
        accepted_total=totals.accepted_count,
        delivered_total=totals.delivered_count,
        redelivered_total=totals.redelivered_count,
        settled_total=totals.settled_count,
        discarded_total=sum(totals.discards.values()) + sum(totals.buried.values()),
        rebalance_status=overview.rebalance_status,
    )
