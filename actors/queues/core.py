"""The part of a queue that outlives its actor: configuration, access machine, flows, counters.

A restarted queue actor continues with the same core, and so with the present configuration and not with the one it was
first started with.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, final

from sluicegate.actors.messages.data import WAKE
from sluicegate.actors.messages.directory import QueueState
from sluicegate.actors.messages.queues import BindBrowser, QueueTotals, add_counts
from sluicegate.actors.queues.quota_events import QueueWatch
from sluicegate.actors.queues.temporary_owner import TemporaryOwner
from sluicegate.actors.runtime.events import Events
from sluicegate.actors.runtime.runtime import ActorCell, Runtime, TimerHandle
from sluicegate.messaging.bulk.retained_log import RetentionRules
from sluicegate.messaging.clients.rights import ClientRights
from sluicegate.messaging.message.keys import key_source_from
from sluicegate.messaging.message.refusals import REJECT_ALWAYS, REJECT_NEVER, REJECT_WHEN_ENABLED
from sluicegate.messaging.observability.latency import LatencyHistogram
from sluicegate.messaging.partitions.state.flows import ORDER_BY_KEY, ORDER_NONE, ORDER_OF_ALL, DeliveryRules, Flow
from sluicegate.messaging.queues.assignment.access import Access, access_for
from sluicegate.messaging.queues.assignment.rebalance import Rebalancer
from sluicegate.messaging.queues.assignment.slots import Rescale
from sluicegate.messaging.queues.attributes import EXCLUSIVE
from sluicegate.messaging.queues.definition import QueueConfig, denial, is_named, permits
from sluicegate.messaging.queues.pressure import PressureLimits
from sluicegate.messaging.routing.destinations import QueueTarget

if TYPE_CHECKING:
    from sluicegate.actors.messages.queues import QueueOverview


TIMER_MS_MAX: Final = 86_400_000  # event loops reject timers of years: a longer one is set again each day
NEVER: Final = 0
SELECTORS_DIFFER: Final = (
    "a message that the owner of its partition does not select waits, even if another consumer selects it: give all "
    "consumers one selector, or each its own queue"
)


class QueueExpiry:
    """When a queue without consumers is deleted: temporary queues, and durable ones that are set to expire.

    The time runs from the queue's creation, the start of the node, or the end of its last flow, whichever is latest. It
    outlives restarts of the queue's actor.
    """

    def __init__(self, runtime: Runtime, *, grace_s: int) -> None:
        self.grace_s = grace_s  # unless the queue's own attribute sets it; NEVER for durable queues
        self.ended = False  # it is being deleted, and takes no flow any more
        self._runtime = runtime
        self._unbound_since_ms: int | None = runtime.clock.now_ms()
        self._timer: TimerHandle | None = None

    def review(self, config: QueueConfig, *, is_bound: bool, look_again: Callable[[], None]) -> bool:
        """Check after a flow came or went or time has passed; return whether the queue is to be deleted now."""
        self.stop()
        if is_bound:
            self._unbound_since_ms = None
            return False
        now_ms = self._runtime.clock.now_ms()
        if self._unbound_since_ms is None:
            self._unbound_since_ms = now_ms
        period_s = config.expires_unbound_s or self.grace_s
        if period_s == NEVER or self.ended:
            return False
        left_ms = self._unbound_since_ms + period_s * 1000 - now_ms
        if left_ms <= 0:
            self.ended = True
            return True
        self._timer = self._runtime.after(min(left_ms, TIMER_MS_MAX), look_again)
        return False

    def stop(self) -> None:
        """Cancel the timer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


@final
class GoneQueues:
    """The totals of the deleted queues of a message VPN.

    Metrics are sums over the partitions of a queue, the queues of sessions, and the refusals of all queues. A partition
    that retires or a session that ends must not take its share out of such a sum: a falling counter is read as a
    restart, and all that is left in it as new.
    """

    def __init__(self) -> None:
        self.refusals: dict[
            int, int
        ] = {}  # verdict of messaging.message.refusals -> messages refused to their publishers
        self.drops: dict[int, int] = {}  # verdict -> messages dropped there without telling the publisher
        self.latencies: Final = LatencyHistogram()  # from publish to first delivery, of all queues, deleted or not
        self.sessions: Final = QueueTotals()  # of queues shown as one; a named queue takes its totals with it

    def add(self, name: str, overview: "QueueOverview") -> None:
        """Add the totals of a queue that is about to be deleted."""
        add_counts(self.refusals, overview.totals.refusals)
        add_counts(self.drops, overview.totals.drops)
        if not is_named(name):
            self.sessions.add(overview.totals)


REJECT_BEHAVIORS = {"never": REJECT_NEVER, "when-queue-enabled": REJECT_WHEN_ENABLED, "always": REJECT_ALWAYS}


@dataclass(frozen=True, slots=True)
class BoundBrowser:
    """A browser as its queue sees it."""

    request: BindBrowser
    cell: ActorCell


class QueueCore(QueueState):
    """One queue, without its messages."""

    def __init__(
        self,
        config: QueueConfig,
        *,
        events: Events,
        target: QueueTarget,
        rules: DeliveryRules,
        limits: PressureLimits,
        watch: QueueWatch,
        expiry: QueueExpiry,
        partitions_count: int,
    ) -> None:
        self.config = config
        self.events = events  # of the message VPN
        self.target = target
        self.rules = rules
        self.limits = limits
        self.watch = watch
        self.expiry = expiry
        self.retention = RetentionRules()
        self.owner: TemporaryOwner | None = None  # None: any connection with the permission may consume from the queue
        self.moving = ""  # why it takes no flow while it moves from or to another broker; empty: it does not move
        self.reserved_for = ""  # name of the durable cursor that is the only consumer
        self.access: Access = access_for(config, partitions_count=partitions_count)
        self.flows: dict[int, Flow] = {}
        self.suspended: set[int] = set()  # of `flows`, those whose client is disconnected
        self.users: dict[int, str] = {}  # flow -> its user name
        self.browsers: dict[int, BoundBrowser] = {}
        self.partitions: list[ActorCell] = []
        self.rescale: Rescale | None = None  # the change of the number of partitions in progress
        self.bind_refusals: dict[str, int] = {}  # reason -> binds refused
        self.gone = QueueTotals()  # totals of retired partitions and of earlier access machines
        self.apply(config)

    def clients(self) -> set[str]:
        """Return the names of the clients that consume or browse the queue."""
        return {flow.client for flow in self.flows.values()} | {each.request.client for each in self.browsers.values()}

    def denial(self, rights: ClientRights | None, user: str, needed: str) -> str:
        """Return why a connection lacks a level of permission; empty when it has it. None: not a client's."""
        config = self.config
        if self.owner is not None:
            _, text = self.owner.refusal(config.name, rights)
            if text:
                return text
        return "" if permits(config, user, needed) else denial(config, user, needed)

    def is_partitioned(self) -> bool:
        """Return whether the queue is partitioned by its present configuration."""
        return self.config.partitioned()

    def selector_hint(self) -> str:
        """Return what a consumer should know if the selectors of a partitioned queue's consumers differ, or nothing."""
        if not isinstance(self.access, Rebalancer):
            return ""
        texts = {"" if flow.selector is None else flow.selector.text for flow in self.flows.values()}
        return SELECTORS_DIFFER if len(texts) > 1 else ""

    def apply(self, config: QueueConfig) -> None:
        """Apply a configuration. The access type changes only while no flow is bound."""
        if config.access_type != self.config.access_type or config.partitioned() != self.config.partitioned():
            assert not self.flows, "the access type changes while no flow is bound"
            count = len(self.partitions)
            epoch = max([epoch for _, _, epoch in self.access.partition_statuses(count)])
            self.gone.rebalances_count += self.access.completed_count
            self.access = access_for(config, partitions_count=count, epoch=epoch)
        self.config = config
        gate, rules, access = self.target.gate, self.rules, self.access
        gate.usage_bytes_max = config.spool_bytes_max()
        gate.message_bytes_max = config.max_msg_size
        gate.set_ingress(enabled=config.ingress_enabled)
        gate.reject_behavior = REJECT_BEHAVIORS[config.reject_msg_to_sender_on_discard_behavior]
        _set_rules(rules, config)
        self.target.key_source = rules.key_source = key_source_from(config.partition_key_source)
        rules.dead_msg_queue = config.dead_msg_queue if self.target.durable and is_named(config.name) else ""
        rules.respects_eligibility = config.respect_dmq_eligible_enabled
        if isinstance(access, Rebalancer):  # a holddown or handoff in progress keeps its time
            access.delay_ms = config.partition_rebalance_delay_s * 1000
            access.handoff_ms = config.partition_rebalance_max_handoff_time_s * 1000
        self.watch.configure(config)
        if self.target.durable:
            self._set_retention()
        self._set_marks()

    def _set_retention(self) -> None:
        self.retention.time_ms = self.config.retention_time_s * 1000
        self.retention.size_bytes = self.config.retention_bytes_max()
        for partition in self.partitions:
            partition.inbox.post(WAKE)  # to begin or end keeping messages

    def _set_marks(self) -> None:
        """Set the marks: a durable queue waits on disk up to its quota; only one never written slows publishers."""
        quota = self.config.spool_bytes_max()
        high = quota + 1 if self.target.durable else min(self.limits.high_bytes, quota)
        self.target.pressure.set_marks(high_bytes=high, low_bytes=min(high, self.limits.low_bytes))


def _set_rules(rules: DeliveryRules, config: QueueConfig) -> None:
    """Set the delivery rules of the queue's partitions by its configuration."""
    rules.redelivery_count_max = config.max_redelivery_count
    rules.unacked_count_max = config.max_delivered_unacked_msgs_per_flow
    rules.respects_expiry = config.respect_ttl_enabled
    rules.max_ttl_ms = config.max_ttl * 1000 if config.respect_ttl_enabled else 0
    rules.delivery_delay_ms = config.delivery_delay_s * 1000
    rules.redelivers = config.redelivery_enabled
    rules.redelivery_delay_ms = config.redelivery_delay_initial_interval_ms if config.redelivery_delay_enabled else 0
    rules.redelivery_delay_ms_max = config.redelivery_delay_max_interval_ms
    rules.redelivery_delay_percent = config.redelivery_delay_multiplier
    rules.group_buckets = config.group_buckets if config.groups_messages() else 0
    rules.group_rebalance = config.group_rebalance
    if config.partitioned() or rules.group_buckets > 0:
        rules.order = ORDER_BY_KEY
    else:
        rules.order = ORDER_OF_ALL if config.access_type == EXCLUSIVE else ORDER_NONE
    rules.ack_timeout_ms = config.consumer_ack_timeout_ms
    rules.last_value_only = config.last_value_only()
    rules.by_priority = config.respect_msg_priority_enabled and not config.partitioned() and not rules.last_value_only
    rules.after_commit = config.deliver_after_commit
    rules.generation += 1
