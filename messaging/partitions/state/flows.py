"""The flows of consumers as the partitions see them: rules of delivery, locks, order of service, pending commits."""

from typing import Final, final

from mypy_extensions import i64

from sluicegate.messaging.message.address import Address
from sluicegate.messaging.message.batch import MessageBatch
from sluicegate.messaging.message.keys import KeySource
from sluicegate.messaging.message.ranges import RangeSet
from sluicegate.messaging.queues.credit import CreditWindow
from sluicegate.messaging.selectors.selector import Selector

# A lock lasts its time and at most a sixteenth more, so that deliveries of about the same time expire as one range.
ROUNDINGS_PER_TIMEOUT: Final = 16


@final
class Locks:
    """The locks of one flow on one partition: how long its consumer may hold a delivery without settling it.

    Locks are ranges that expire together. Messages settled meanwhile may still be listed; that does no harm.
    Invariants: deadlines ascend; a sequence is under one deadline, the latest it was given.
    """

    def __init__(self) -> None:
        self._deadlines_ms: list[int] = []
        self._locked: list[RangeSet] = []

    def grant(self, first: int, end: int, *, now_ms: int, timeout_ms: int) -> None:
        """Lock `[first, end)`, which has no lock, from now on."""
        step_ms = max(1, timeout_ms // ROUNDINGS_PER_TIMEOUT)
        deadline_ms = (now_ms + timeout_ms + step_ms - 1) // step_ms * step_ms
        place = len(self._deadlines_ms)
        while place > 0 and self._deadlines_ms[place - 1] > deadline_ms:  # the timeout was shortened, or the clock set
            place -= 1
        if place == 0 or self._deadlines_ms[place - 1] != deadline_ms:
            self._deadlines_ms.insert(place, deadline_ms)
            self._locked.insert(place, RangeSet())
            place += 1
        self._locked[place - 1].add(first, end)

    def forget(self, first: int, end: int) -> None:
        """Remove the locks of `[first, end)`."""
        for ranges in self._locked:
            ranges.discard(first, end)

    def next_ms(self) -> int:
        """Return when the next locks expire; 0 when there are none."""
        return self._deadlines_ms[0] if self._deadlines_ms else 0

    def take_expired(self, now_ms: int) -> list[tuple[int, int]]:
        """Remove and return what was locked until now."""
        expired: list[tuple[int, int]] = []
        while self._deadlines_ms and self._deadlines_ms[0] <= now_ms:
            del self._deadlines_ms[0]
            expired += self._locked.pop(0).ranges()
        return expired


UNBOUNDED: Final = 1 << 40  # limit on one partition of a consumer that takes as much as its window has room for


@final
class Flow:
    """One consumer on one queue, whatever its protocol: an MQTT subscription, an AMQP link, a BIND, a long poll."""

    __slots__ = (
        "address",
        "bound_order",
        "broker",
        "client",
        "flow_id",
        "holdings",
        "of_partition_max",
        "protocol",
        "queue_name",
        "selector",
        "window",
    )

    def __init__(
        self,
        *,
        flow_id: int,
        queue_name: str,
        client: str,
        address: Address,
        window: CreditWindow[Address],
        bound_order: int,
        protocol: str = "mqtt",
        selector: Selector | None = None,
        of_partition_max: i64 = UNBOUNDED,
        broker: str = "",
    ) -> None:
        self.flow_id = flow_id  # unique on this node
        self.queue_name = queue_name
        self.client = client  # client id or container id; a client that returns under it gets its partitions again
        self.broker = broker  # the neighbor at which the client is connected; empty: this broker
        self.address = address  # where deliveries and flow states go
        self.window = window
        self.holdings: list[RangeSet] = []  # unsettled messages, for each partition it takes messages from
        self.of_partition_max = of_partition_max  # maximum of unsettled messages of one partition
        self.protocol = protocol  # spoken by the consumer
        self.selector = selector  # selects the messages it wants; None: all
        self.bound_order = bound_order  # ascending in the order of binding; the standby order of exclusive queues

    def unacked_count(self) -> int:
        """Return how many unsettled messages the flow holds, over all its partitions."""
        return sum([holding.total for holding in self.holdings])

    def __repr__(self) -> str:
        return f"Flow({self.flow_id}, {self.client!r} on {self.queue_name!r}, {self.window!r})"


# The messages that a failed message holds up while its next delivery is delayed.
ORDER_NONE: Final = 0  # none: consumers compete, so there is no order to keep
ORDER_BY_KEY: Final = 1  # those with its key: a partition
ORDER_OF_ALL: Final = 2  # those with its key; without a key all after it: an exclusive queue


@final
class DeliveryRules:
    """How a queue delivers. Shared by its partitions; the queue actor changes it when the configuration changes.

    A change of one of the times, or of `by_priority`, has to increase `generation`.
    """

    def __init__(
        self,
        *,
        redelivery_count_max: int = 0,
        unacked_count_max: i64 = 10_000,
        respects_expiry: bool = False,
        expires_once_delivered: bool = True,
        dead_msg_queue: str = "",
        respects_eligibility: bool = False,
        max_ttl_ms: i64 = 0,
        delivery_delay_ms: i64 = 0,
        redelivers: bool = True,
        redelivery_delay_ms: i64 = 0,
        redelivery_delay_ms_max: int = 0,
        redelivery_delay_percent: int = 100,
        order: int = ORDER_NONE,
        ack_timeout_ms: i64 = 0,
        by_priority: bool = False,
        group_buckets: i64 = 0,
        group_rebalance: bool = False,
        last_value_only: bool = False,
        key_source: KeySource | None = None,
        after_commit: bool = False,
        passes_on: bool = False,
    ) -> None:
        self.redelivery_count_max = redelivery_count_max  # 0: no limit
        self.unacked_count_max = unacked_count_max  # per flow
        self.respects_expiry = respects_expiry
        # MQTT forbids a session to drop a message whose delivery has begun [3.3.2-5] [4.3.3-7].
        self.expires_once_delivered = expires_once_delivered
        self.dead_msg_queue = dead_msg_queue  # takes dropped messages, if the queue exists; empty: none
        self.respects_eligibility = respects_eligibility  # only messages whose publisher permits it
        self.max_ttl_ms = max_ttl_ms  # a message expires this long after its arrival; 0: never. With respects_expiry
        self.delivery_delay_ms = delivery_delay_ms  # a message is delivered this long after its arrival at the earliest
        self.redelivers = redelivers  # False: a message delivered once is dropped instead of delivered again
        self.redelivery_delay_ms = redelivery_delay_ms  # after the first failure; 0: never a delay
        self.redelivery_delay_ms_max = redelivery_delay_ms_max
        self.redelivery_delay_percent = redelivery_delay_percent  # each delay in percent of the last; 100 or more
        self.order = order  # ORDER_*
        self.ack_timeout_ms = ack_timeout_ms  # a delivery not settled by then has failed; 0: never
        self.by_priority = by_priority  # higher ones first
        self.group_buckets = (
            group_buckets  # of messaging.partitions.rules.groups; 0: any flow gets the messages of a key
        )
        self.group_rebalance = group_rebalance  # a new flow is given its share of the groups
        self.last_value_only = last_value_only  # a message replaces the older ones
        self.key_source = key_source  # of keys that publishers did not set; None: those messages have no key
        self.after_commit = after_commit  # a message is delivered only after it is stored
        # The queue of a link: it keeps one order, and the neighbor's queues wait for the time of delivery. A message
        # that comes with something else to store is delivered only with it in the store, and nothing overtakes it.
        self.passes_on = passes_on
        self.generation: i64 = 0

    def watches_the_clock(self) -> bool:
        """Return whether time matters for messages that set no time themselves."""
        return (
            self.max_ttl_ms > 0 or self.delivery_delay_ms > 0 or self.redelivery_delay_ms > 0 or self.ack_timeout_ms > 0
        )

    def keeps_order(self, is_grouped: bool) -> bool:
        """Return whether an order has to be kept, of all messages or by key; `is_grouped`: some have a key."""
        return self.order != ORDER_NONE and not self.by_priority and (self.group_buckets == 0 or is_grouped)

    def redelivery_delay_after(self, failed_count: int) -> int:
        """Return how long a message waits after this many failed deliveries, in milliseconds."""
        delay_ms = self.redelivery_delay_ms
        if self.redelivery_delay_percent > 100:
            for _ in range(failed_count - 1):
                delay_ms = delay_ms * self.redelivery_delay_percent // 100
                if delay_ms >= self.redelivery_delay_ms_max:
                    break
        return min(delay_ms, self.redelivery_delay_ms_max)

    def expires(self, again: bool) -> bool:
        """Return whether messages may expire before this delivery; `again` when they were delivered before."""
        return self.respects_expiry and (not again or self.expires_once_delivered)


@final
class LedgerFlow:
    """The state of a flow in one ledger that it takes messages from."""

    __slots__ = (
        "again",
        "declined",
        "ends_with_session",
        "epoch",
        "flow",
        "in_flight",
        "is_new",
        "locks",
        "paused",
        "scanned_to",
        "to_resend",
    )

    def __init__(self, flow: Flow, epoch: i64) -> None:
        self.flow = flow
        self.epoch = epoch  # assignment epoch under which it may settle
        self.is_new = True  # it has never got a message
        self.in_flight = RangeSet()
        flow.holdings.append(self.in_flight)
        self.to_resend: RangeSet | None = None  # of `in_flight`: delivered again, first of all, when its client is back
        self.ends_with_session = False  # `to_resend` ends with the client's session: no other flow gets it
        self.declined: RangeSet | None = (
            None  # unsettled, and for other flows only (messaging.partitions.rules.undeliverable); None: none
        )
        self.locks: Locks | None = None  # where deliveries have to be settled in time
        self.paused = False
        self.scanned_to = 0  # where it selects: it has scanned every ready message below, except those of `again`
        self.again = RangeSet()  # sequences below `scanned_to`; some may be with another flow by now, or settled

    def room(self, unacked_count_max: i64) -> i64:
        """Return how many more messages the flow may get now: none before what it has kept."""
        if self.to_resend:
            return 0
        window = self.flow.window
        available = window.room()
        # The flow holds no more than its window has in use. So the partitions are added up only near the maximum.
        if available > unacked_count_max - window.used:
            available = min(available, unacked_count_max - self.flow.unacked_count())
        return max(0, min(available, self.share()))

    def share(self) -> i64:
        """Return how many more messages of this partition its consumer takes."""
        return self.flow.of_partition_max - self.in_flight.total

    def has_room(self, unacked_count_max: i64) -> bool:
        """Return whether the flow may get a message now."""
        return not self.paused and self.room(unacked_count_max) > 0

    def selects(self) -> bool:
        """Return whether the flow takes only some of the ready messages."""
        return self.flow.selector is not None or self.declined is not None

    def wants(self, batch: MessageBatch, row: int, sequence: int) -> bool:
        """Return whether the flow wants a message."""
        if self.declined is not None and sequence in self.declined:
            return False
        selector = self.flow.selector
        return selector is None or selector.matches(batch, row)

    def scan_weight(self, batch: MessageBatch, row: int) -> int:
        """Return the cost of deciding whether the flow wants a message."""
        selector = self.flow.selector
        return 1 if selector is None else selector.weight(batch, row)

    def passed_over(self, first: int, end: int) -> None:
        """Record that the flow does not select these ready messages, the oldest that it had not scanned."""
        if first < self.scanned_to:
            self.again.discard(first, end)
        else:
            self.scanned_to = end

    def rescan(self) -> None:
        """Have every ready message scanned again: what was skipped is not known."""
        self.scanned_to = 0
        self.again = RangeSet()

    def is_ready_again(self, first: int, end: int) -> None:
        """Have messages scanned that the flow may have passed while they were not ready."""
        if first < self.scanned_to:
            self.again.add(first, min(end, self.scanned_to))

    def lock(self, first: int, end: int, *, now_ms: int, timeout_ms: int) -> None:
        """Start the lock, possibly again, for what the flow holds."""
        locks = self.locks = self.locks or Locks()
        locks.forget(first, end)
        locks.grant(first, end, now_ms=now_ms, timeout_ms=timeout_ms)

    def release(self) -> None:
        """Detach the flow from the partition: what it holds of it is taken back."""
        self.flow.holdings = [holding for holding in self.flow.holdings if holding is not self.in_flight]


@final
class FlowOrder:
    """The flows of a ledger in order of service: those that never got a message, then the longest waiting."""

    __slots__ = ("_new_count", "flows")

    def __init__(self) -> None:
        self.flows: list[LedgerFlow] = []
        self._new_count: i64 = 0

    def add(self, flow: LedgerFlow) -> None:
        """Add a flow after those that never got a message."""
        self.flows.insert(self._new_count, flow)
        self._new_count += 1

    def remove(self, flow: LedgerFlow) -> None:
        """Take a flow out."""
        if flow.is_new:
            self._new_count -= 1
        self._take(flow)

    def served(self, flow: LedgerFlow) -> None:
        """Move a flow behind all others: it gets a message now."""
        if flow.is_new:
            flow.is_new = False
            self._new_count -= 1
        if self.flows[-1] is not flow:
            self._take(flow)
            self.flows.append(flow)

    def _take(self, flow: LedgerFlow) -> None:
        """Remove a flow from the order.

        Where all flows take messages, it is the first. Where few do, these stand behind all others, so the search
        starts at the end.
        """
        place: i64 = 0 if self.flows[0] is flow else len(self.flows) - 1
        while self.flows[place] is not flow:
            place -= 1
        del self.flows[place]

    def check(self, flows: dict[int, LedgerFlow]) -> None:
        """Assert the invariants; `flows` are the ledger's."""
        assert sorted([flow.flow.flow_id for flow in self.flows]) == sorted(flows)
        assert [flow.is_new for flow in self.flows] == [place < self._new_count for place in range(len(self.flows))]


def least_loaded(flows: list[LedgerFlow], unacked_count_max: i64) -> LedgerFlow | None:
    """Return the first of `flows_with_room`, if there is any.

    A message that comes alone goes to one flow, and a thousand may share the queue: most are not asked for room, and
    none after the first that holds nothing.
    """
    least: LedgerFlow | None = None
    for flow in flows:
        if (least is None or flow.in_flight.total < least.in_flight.total) and flow.has_room(unacked_count_max):
            if flow.in_flight.total == 0:
                return flow
            least = flow
    return least


def flows_with_room(flows: list[LedgerFlow], unacked_count_max: i64, most: i64) -> list[LedgerFlow]:
    """Return up to `most` flows that may get messages now, in the order in which they are served.

    The flow that holds least comes first; of equals, the first in `flows`. Most hold nothing, and need not be sorted;
    those after the last one wanted are not examined.
    """
    idle: list[LedgerFlow] = []
    busy: list[LedgerFlow] = []
    for flow in flows:
        if flow.has_room(unacked_count_max):
            if flow.in_flight.total:
                busy.append(flow)
                continue
            idle.append(flow)
            if len(idle) == most:
                return idle
    if len(busy) > 1:
        busy.sort(key=_held)
    return idle + busy


def starved(flows: list[LedgerFlow], unacked_count_max: i64, *, gets_any: bool) -> list[Flow]:
    """Return the flows that messages wait for; a flow that does not get any message may have room left."""
    return [
        flow.flow
        for flow in flows
        if not flow.paused and ((gets_any and not flow.selects()) or flow.room(unacked_count_max) == 0)
    ]


def _held(flow: LedgerFlow) -> int:
    return flow.in_flight.total


@final
class PendingCommits:
    """Pending commits that settle messages of a ledger: the flow and epoch they were taken from, once for each commit.

    When a commit fails, its messages return to the consumer. If that consumer is gone, any consumer gets them, and they
    are older than what others got since. So where a ledger keeps an order, nothing is delivered until the commit ends.
    The whole partition waits, not only the key: keys of paged messages are not in memory.

    See also: which messages a commit takes and how they return (messaging.partitions.prepared).
    """

    __slots__ = ("_taken_from",)

    def __init__(self) -> None:
        self._taken_from: list[tuple[int, int]] = []

    def begin(self, flow_id: int, epoch: int) -> None:
        """Record that a commit took messages."""
        self._taken_from.append((flow_id, epoch))

    def end(self, flow_id: int, epoch: int) -> None:
        """Record that the commit is decided."""
        self._taken_from.remove((flow_id, epoch))

    def took_from_lost_flow(self, flows: dict[int, LedgerFlow]) -> bool:
        """Return whether a commit took from a flow that no longer takes part; `flows` are those that do."""
        for flow_id, epoch in self._taken_from:
            flow = flows.get(flow_id)
            if flow is None or flow.epoch != epoch:
                return True
        return False
