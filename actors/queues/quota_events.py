"""Events for quotas: the thresholds of gates and queues, and the events they emit.

`messaging.message.thresholds` decides when a threshold is crossed; this module says which event that is, in which
words.
"""

from functools import partial
from typing import final
from weakref import ref

from sluicegate.actors.messages.router import QueueFactsChanged
from sluicegate.actors.runtime.events import Events
from sluicegate.messaging.message.address import Address
from sluicegate.messaging.message.thresholds import Exceedance, Threshold, ThresholdPair
from sluicegate.messaging.observability.events import (
    SYSTEM_MESSAGES_EXCEEDED,
    SYSTEM_MESSAGES_HIGH,
    SYSTEM_MESSAGES_HIGH_CLEAR,
    SYSTEM_SPOOL_HIGH,
    SYSTEM_SPOOL_HIGH_CLEAR,
    SYSTEM_SPOOL_QUOTA_EXCEEDED,
    SYSTEM_UNACKED_EXCEEDED,
    SYSTEM_UNACKED_HIGH,
    SYSTEM_UNACKED_HIGH_CLEAR,
    VPN_BINDS_HIGH,
    VPN_BINDS_HIGH_CLEAR,
    VPN_LOW_PRIORITY_EXCEEDED,
    VPN_LOW_PRIORITY_HIGH,
    VPN_LOW_PRIORITY_HIGH_CLEAR,
    VPN_RETAINED_EXCEEDED,
    VPN_SPOOL_HIGH,
    VPN_SPOOL_HIGH_CLEAR,
    VPN_SPOOL_QUOTA_EXCEEDED,
    EventKind,
)
from sluicegate.messaging.queues.admission import NO_LIMIT, SpoolGate
from sluicegate.messaging.queues.credit import CreditPool
from sluicegate.messaging.queues.definition import MEGABYTE, QueueConfig
from sluicegate.messaging.routing.destinations import QueueTarget
from sluicegate.messaging.routing.retained_messages import RetainedMessages

KILOBYTE = 1024


def threshold(events: Events, high: EventKind, clear: EventKind, what: str, unit: str, scale: int = 1) -> Threshold:
    """Return a threshold with two events, such as `Queue q message spool threshold 80 kB exceeded: 81 kB`."""

    def tell(raised: bool, level: int, value: int) -> None:
        kind, word = (high, "exceeded") if raised else (clear, "cleared")
        events.emit(kind, f"{what} threshold {level // scale} {unit} {word}: {value // scale} {unit}")

    return Threshold(tell)


def exceedance(events: Events, kind: EventKind, what: str, unit: str, scale: int = 1) -> Exceedance:
    """Return an exceedance with an event, such as `Queue q message spool quota 5120000 kB exceeded`."""
    return Exceedance(lambda limit: events.emit(kind, f"{what} {limit // scale} {unit} exceeded"))


def watch_node(events: Events, gate: SpoolGate, *, usage: ThresholdPair, messages: ThresholdPair) -> None:
    """Emit events for the node's spool: its usage and its number of messages."""
    high, clear = SYSTEM_SPOOL_HIGH, SYSTEM_SPOOL_HIGH_CLEAR
    gate.usage_threshold = threshold(events, high, clear, "Message spool usage", "kB", KILOBYTE)
    gate.usage_threshold.watch(usage, limit=gate.usage_bytes_max, unit=MEGABYTE, value=gate.usage_bytes)
    gate.usage_exceeded = exceedance(events, SYSTEM_SPOOL_QUOTA_EXCEEDED, "Message spool usage quota", "kB", KILOBYTE)
    high, clear = SYSTEM_MESSAGES_HIGH, SYSTEM_MESSAGES_HIGH_CLEAR
    gate.count_threshold = threshold(events, high, clear, "Message count", "messages")
    gate.count_threshold.watch(messages, limit=gate.usage_count_max, unit=1, value=gate.usage_count)
    gate.count_exceeded = exceedance(events, SYSTEM_MESSAGES_EXCEEDED, "Message count limit", "messages")


def watch_vpn(events: Events, gate: SpoolGate) -> None:
    """Emit events for a message VPN's usage of the spool, after `bound_vpn` has set its quota."""
    what = "Message VPN message spool"
    gate.usage_threshold = threshold(events, VPN_SPOOL_HIGH, VPN_SPOOL_HIGH_CLEAR, what, "kB", KILOBYTE)
    gate.usage_exceeded = exceedance(events, VPN_SPOOL_QUOTA_EXCEEDED, f"{what} quota", "kB", KILOBYTE)


def bound_vpn(gate: SpoolGate, *, usage_bytes_max: int, usage: ThresholdPair) -> None:
    """Set the spool quota of a message VPN. What is stored already stays."""
    gate.bound(usage_bytes_max)
    gate.usage_threshold.watch(usage, limit=usage_bytes_max, unit=MEGABYTE, value=gate.usage_bytes)


def watch_retained(events: Events, retained: RetainedMessages) -> None:
    """Emit events of a message VPN when there is no room for more retained messages."""
    what, kind = "Message VPN retained message", VPN_RETAINED_EXCEEDED
    retained.usage_exceeded = exceedance(events, kind, f"{what} quota", "kB", KILOBYTE)
    retained.count_exceeded = exceedance(events, kind, f"{what} limit", "messages")


def watch_credit(events: Events, pool: CreditPool[Address], pair: ThresholdPair) -> None:
    """Emit events of the pool of all consumers: when they hold many unsettled messages, and when none gets more."""
    what = "Delivered unacked msgs"
    pool.threshold = threshold(events, SYSTEM_UNACKED_HIGH, SYSTEM_UNACKED_HIGH_CLEAR, what, "messages")
    pool.threshold.watch(pair, limit=pool.limit, unit=1, value=pool.used)
    pool.exceeded = exceedance(events, SYSTEM_UNACKED_EXCEEDED, f"{what} limit", "messages")


@final
class QueueWatch:
    """The thresholds of one queue: spool usage, messages of low priority, flows bound."""

    def __init__(self, events: Events, target: QueueTarget, router: Address) -> None:
        """`router` is told when the queue is full, and when it is not any more, for neighbor brokers."""
        name, gate = target.name, target.gate
        self._gate = gate
        self._target = target
        self._router = router
        self._binds_count = 0
        spool, low, binds = (f"Queue {name} {what}" for what in ("message spool", "low priority msg", "bind count"))
        usage = threshold(events, VPN_SPOOL_HIGH, VPN_SPOOL_HIGH_CLEAR, spool, "kB", KILOBYTE)
        exceeded = exceedance(events, VPN_SPOOL_QUOTA_EXCEEDED, f"{spool} quota", "kB", KILOBYTE)
        # Weakly: the watch has the gate, and a strong reference back would leave both to the cycle collector.
        gate.usage_threshold = usage.followed_by(partial(_usage_crossed, ref(self)))
        gate.usage_exceeded = exceeded.followed_by(partial(_refused, ref(self)))
        gate.low_priority_threshold = threshold(
            events, VPN_LOW_PRIORITY_HIGH, VPN_LOW_PRIORITY_HIGH_CLEAR, low, "messages"
        )
        gate.low_priority_exceeded = exceedance(events, VPN_LOW_PRIORITY_EXCEEDED, f"{low} limit", "messages")
        self._binds = threshold(events, VPN_BINDS_HIGH, VPN_BINDS_HIGH_CLEAR, binds, "flows")

    def usage_crossed(self, raised: bool) -> None:
        """Tell the router that there is room again, if the queue was full."""
        if not raised:
            self._set_full(False)
            self._gate.usage_exceeded.forget()  # neighbors were told that there is room, however little it is

    def refused(self) -> None:
        """Tell the router that the queue is full."""
        if self._gate.usage_threshold.is_raised:  # else nothing would tell that there is room again
            self._set_full(True)

    def _set_full(self, is_full: bool) -> None:
        facts = self._target.facts
        if facts is not None and facts.is_full != is_full:
            self._target.facts = facts._replace(is_full=is_full)
            self._router.post(QueueFactsChanged(self._target))

    def configure(self, config: QueueConfig) -> None:
        """Apply a queue's limit for low priority and its thresholds."""
        gate = self._gate
        limited = config.reject_low_priority_msg_enabled
        gate.low_priority_count_max = config.reject_low_priority_msg_limit if limited else NO_LIMIT
        gate.usage_threshold.watch(
            ThresholdPair(config.event_msg_spool_usage_threshold),
            limit=config.spool_bytes_max(),
            unit=MEGABYTE,
            value=gate.usage_bytes,
        )
        gate.low_priority_threshold.watch(
            ThresholdPair(config.event_reject_low_priority_msg_limit_threshold),
            limit=config.reject_low_priority_msg_limit if limited else 0,
            unit=1,
            value=gate.usage_count,
        )
        self._binds.watch(
            ThresholdPair(config.event_bind_count_threshold),
            limit=config.max_bind_count,
            unit=1,
            value=self._binds_count,
        )

    def binds(self, count: int) -> None:
        """Set how many flows are bound."""
        self._binds_count = count
        if count >= self._binds.raise_at or count < self._binds.clear_below:
            self._binds.cross(count)


def _usage_crossed(watch: "ref[QueueWatch]", raised: bool) -> None:
    found = watch()
    if found is not None:  # else the queue is gone
        found.usage_crossed(raised)


def _refused(watch: "ref[QueueWatch]") -> None:
    found = watch()
    if found is not None:
        found.refused()
