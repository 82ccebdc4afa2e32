"""One partition as an actor: its ledger decides, this module connects the ledger to the other actors.

A partition has three parts, in this order:

- What comes in: each message of a turn is applied to the ledger.
- What is decided: at the end of the turn, once, the ledger delivers.
- What goes out: deliveries go to consumers, effects to the spool, the store's reader, the queue and publishers.

No rule of messaging is here. A partition outlives restarts of its actor, which is `partitions.actor`.
"""

import logging
from typing import Any, final

from mypy_extensions import i64

from sluicegate.actors.messages.data import (
    WAKE,
    AnnotateDelivery,
    Append,
    Deliveries,
    PrepareSettlement,
    RenewLock,
    Settle,
    Settled,
    SettleDurably,
    StorePublication,
    Wake,
)
from sluicegate.actors.messages.operations import ExplainKey, HandOver, TakeMessages
from sluicegate.actors.messages.partitions import (
    Attach,
    BrowsedMessage,
    BrowsePartition,
    ClosedLedger,
    CloseLedger,
    CutTaken,
    DeleteMessages,
    DescribePartition,
    Detach,
    DrainPartition,
    EndBrowse,
    HoldSlots,
    OpenSource,
    PageOut,
    PartitionDrained,
    PartitionOverview,
    Pause,
    PurgePartition,
    RescaleOrder,
    Retire,
    SourceDrained,
    TakeCut,
    Withdraw,
)
from sluicegate.actors.messages.readers import CommitSeen, PartitionRequest
from sluicegate.actors.messages.spool import PageRead, PagesWritten, PartitionStored, ReadPage, ReloadPartition
from sluicegate.actors.partitions.browse import PartitionBrowse
from sluicegate.actors.partitions.consumer_requests import SuspendedFlows, SuspensionRequest
from sluicegate.actors.partitions.jobs.dead_lettering import dead_letter
from sluicegate.actors.partitions.jobs.hand_over import begin_hand_over
from sluicegate.actors.partitions.jobs.job import JobContext, JobReply
from sluicegate.actors.partitions.jobs.operator_actions import OperatorAction
from sluicegate.actors.partitions.jobs.prepare import begin_prepared, holds_prepared
from sluicegate.actors.partitions.paging import PageArrivals, PagingOut
from sluicegate.actors.partitions.range_reads import RangeReader
from sluicegate.actors.partitions.reload import fresh_ledger
from sluicegate.actors.partitions.triggers import CommitWatch, PressureWatch, TurnTimer, wake_waiters
from sluicegate.actors.runtime.asks import LoopFuture
from sluicegate.actors.runtime.events import Events
from sluicegate.actors.runtime.inbox import Dispatcher, Inbox
from sluicegate.actors.runtime.runtime import Behaviour, Runtime
from sluicegate.actors.spool.store_threads import StoreReader
from sluicegate.messaging.bulk.retained_log import RetainedLog
from sluicegate.messaging.message.address import Address
from sluicegate.messaging.message.outcomes import ACCEPTED, DISCARD_DELETED, DISCARD_NOT_STORED
from sluicegate.messaging.observability.latency import LatencyHistogram
from sluicegate.messaging.partitions.explain import key_status
from sluicegate.messaging.partitions.ledger import Ledger
from sluicegate.messaging.partitions.paging import MemoryBudget
from sluicegate.messaging.partitions.recovery import StoredPartition, redelivered_ranges
from sluicegate.messaging.partitions.rules.expiry import deadline_ms
from sluicegate.messaging.partitions.rules.in_flight import in_flight_of
from sluicegate.messaging.partitions.rules.moves import restore_deliveries
from sluicegate.messaging.partitions.state.effects import Delivery
from sluicegate.messaging.partitions.state.flows import Flow
from sluicegate.messaging.partitions.state.rescale_holds import RescaleHolds
from sluicegate.messaging.partitions.suspended_flows import discard_resends
from sluicegate.messaging.partitions.trace import QueueTrace
from sluicegate.messaging.queues.admission import QueueGate
from sluicegate.messaging.queues.pressure import Pressure, PressureLimits
from sluicegate.messaging.routing.queue_ways import QueueWays

log = logging.getLogger("sluicegate.queues")

MAINTAIN_LOG_MS = 1000  # a message kept for readers may be trimmed this much late


class Partition(Behaviour):
    """One partition. Every decision is made in messaging.partitions.ledger.Ledger."""

    def __init__(
        self,
        runtime: Runtime,
        address: Inbox,
        *,
        ledger: Ledger,
        log: RetainedLog,
        number: int,
        partition_id: int,
        queue: Address,
        queue_name: str,
        ways: QueueWays,
        gate: QueueGate,
        pressure: Pressure,
        limits: PressureLimits,
        memory: MemoryBudget,
        spool: Address | None,
        reader: StoreReader | None,
        trace: QueueTrace | None,
        events: Events,
        latencies: LatencyHistogram,
    ) -> None:
        self._address = address
        self._runtime, self._clock = runtime, runtime.clock
        self._ledger = ledger
        self._log = log
        self._reading = RangeReader(log, number=number, partition_id=partition_id, reader=reader)
        self._maintenance_pending = False
        self._number = number
        self._partition_id = partition_id
        self._queue = queue
        self._gate = gate
        self._pressure = PressureWatch(runtime, address, gate=gate, pressure=pressure, limits=limits)
        self._memory = PagingOut(address, log=log, partition_id=partition_id, memory=memory, spool=spool)
        self._spool = spool  # None: this partition's messages are never written
        self._reader = reader
        self._pages = PageArrivals(runtime, address, partition_id=partition_id, spool=spool, reader=reader)
        self._trace = trace  # None: this queue is not traced
        self._browses: dict[int, PartitionBrowse] = {}  # browser -> its request that waits for new messages
        self._draining: dict[int, int] = {}  # paused flow -> epoch
        self._suspended = SuspendedFlows()
        self._rescale = RescalePart(number, queue)
        self._sender = DeliverySender(runtime.dispatcher, address, number, trace, latencies)
        self._settled_count: i64 = 0  # messages that consumers have accepted
        self._jobs = JobContext(
            runtime,
            address,
            ledger=ledger,
            queue_name=queue_name,
            number=number,
            partition_id=partition_id,
            gate=gate,
            reader=reader,
            ways=ways,
            trace=trace,
            events=events,
        )
        self._requests = self._jobs.requests
        self._timer = TurnTimer(runtime, address)
        self._commits = CommitWatch(address, spool)

    # --- what comes in ---

    def receive(self, message: Any) -> Any:
        """Apply one message to the ledger."""
        if isinstance(message, Append):
            self._append(message)
        elif isinstance(message, Settle):
            self._settle(message)
        elif isinstance(message, Wake):
            return None  # every turn ends with delivering
        elif isinstance(message, CommitSeen):
            return None  # and with a check of what was replaced or stored
        else:
            return self._receive_rare(message)
        return None

    def _receive_rare(self, message: Any) -> Any:
        ledger = self._ledger
        if isinstance(message, Attach):
            self._draining.pop(message.flow.flow_id, None)  # a paused flow resumes: the one to take over has left
            ledger.attach(message.flow, message.epoch)
        elif isinstance(message, Pause):
            ledger.pause(message.flow_id)
            self._draining[message.flow_id] = message.epoch
        elif isinstance(message, Detach):
            self._detach(message)
        elif isinstance(message, SettleDurably):
            if self._requests.takes(ledger, message):
                self._settle(message.settle)
        elif isinstance(message, (AnnotateDelivery, RenewLock, DrainPartition)):
            return self._requests.receive(ledger, message, self._clock.wall_ms())
        elif isinstance(message, PagesWritten):
            self._memory.written(message)
        elif isinstance(message, PageRead):
            self._pages.take(ledger, message)
        elif isinstance(message, JobReply):
            message.job.take_reply(message.message)
        elif isinstance(message, PageOut):
            self._memory.page_out(message.through_record)
        elif isinstance(message, PrepareSettlement):
            return begin_prepared(self._jobs, message)
        elif isinstance(message, Withdraw):
            self._log.withdraw(message.first, message.end)
            ledger.give_up(message.first, message.end, DISCARD_NOT_STORED)
        elif isinstance(message, TakeMessages):
            action = OperatorAction(self._jobs, message)
            action.begin()
            return action.answer
        elif isinstance(message, HandOver):
            return begin_hand_over(self._jobs, message)
        elif isinstance(message, SuspensionRequest):
            return self._suspended.receive(ledger, message)
        elif isinstance(message, RescaleOrder):
            self._rescale.receive(ledger, message)
        elif isinstance(message, PurgePartition):
            return self._requests.when_stored(ledger.purge())
        elif isinstance(message, DescribePartition):
            return self.overview()
        elif isinstance(message, BrowsePartition):
            return self._browse(message)
        elif isinstance(message, EndBrowse):
            browse = self._browses.get(message.flow_id)
            if browse is not None:
                browse.end()
        elif isinstance(message, DeleteMessages):
            count = sum([ledger.give_up(each, each + 1, DISCARD_DELETED) for each in message.sequences])
            return self._requests.when_stored(count)
        elif isinstance(message, ExplainKey):
            return key_status(ledger, message.key)
        elif isinstance(message, PartitionRequest):
            return self._reading.receive(message)
        else:
            assert isinstance(message, CloseLedger)
            return self._closed_ledger()
        return None

    def _append(self, message: Append) -> None:
        groups = self._ledger.groups
        order = None if groups is None else groups.arrange(self._ledger, message.batch)
        if order is not None:
            message = message.in_order(order)
        first = self._ledger.append(message.batch, message.publication)
        if message.earlier is not None:
            restore_deliveries(self._ledger, first, message.earlier)
        publication = message.publication
        if self._log.active:
            self._log.append(first, message.batch, publication)
        if publication is not None and publication.sequenced(self._partition_id, first, message.rows):
            assert self._spool is not None, "a publication goes to durable partitions only"
            self._spool.post(StorePublication(publication))

    def _settle(self, message: Settle) -> None:
        flow = self._ledger.flow_of(message.flow_id)
        if flow is None or flow.epoch != message.epoch:
            return  # stale assignment epoch: other flows have the messages by now
        outcome, cause, tries = message.outcome, message.cause, message.delivery_count
        if self._trace is not None and self._trace.held:
            held = [
                part for each in message.ranges for part in in_flight_of(self._ledger, flow, each[0], each[1], tries)
            ]
            self._trace.settled(message.flow_id, held, outcome, self._clock.wall_ms())
        count = self._ledger.settle_in_flight(flow, message.first, message.end, outcome, cause, tries)
        for first, end in message.further:
            count += self._ledger.settle_in_flight(flow, first, end, outcome, cause, tries)
        if outcome == ACCEPTED:
            self._settled_count += count
        self._wake_waiting_partitions(flow.flow)

    def _detach(self, message: Detach) -> None:
        self._draining.pop(message.flow_id, None)
        discard_resends(self._ledger, message.flow_id)
        self._ledger.detach(message.flow_id, count_as_failed=message.count_as_failed)

    def _browse(self, message: BrowsePartition) -> LoopFuture[list[BrowsedMessage]]:
        browse = PartitionBrowse(
            runtime=self._runtime,
            ledger=lambda: self._ledger,
            number=self._number,
            partition_id=self._partition_id,
            reader=self._reader,
            request=message,
            waiting=self._browses,
        )
        browse.run()
        return browse.answer

    def _closed_ledger(self) -> ClosedLedger:
        ledger = self._ledger
        delays = ledger.redelivery_delays.waiting(self._clock.wall_ms())
        return ClosedLedger(self._partition_id, ledger.next_sequence, redelivered_ranges(ledger), delays)

    # --- what is decided, at the end of a turn ---

    def turn_ended(self) -> None:
        """Deliver, and carry out what the ledger decided in this turn."""
        ledger = self._ledger
        kept = self._suspended.deliver(ledger) if self._suspended.has_resends else None
        wall_ms = self._clock.wall_ms() if ledger.needs_the_time() else 0
        deliveries = ledger.deliver(wall_ms)
        if kept is not None:
            deliveries = kept + deliveries
        if ledger.effects.taken_back:
            self._note_taken_back()  # before some of it is delivered again
        if ledger.effects.starved_flows:  # before a consumer returns credit for what it is sent
            for flow in ledger.effects.starved_flows:
                flow.window.wait(self._address)
            ledger.effects.starved_flows.clear()
        if deliveries:
            self._sender.send(deliveries)
        if self._log.active or self._log.rules.on() or self._log.holds:
            self._maintain_log()
        self._carry_out_effects()
        if wall_ms > 0:
            self._timer.set(deadline_ms(ledger), wall_ms)
        if self._draining:
            self._report_drained()
        if ledger.watched_cut or ledger.rescale_holds is not None:
            self._rescale.review(ledger)
        if self._browses:
            for browse in list(self._browses.values()):
                browse.run()
        if self._requests.is_awaited:
            self._requests.reply(ledger, self._spool)
        elif ledger.effects.ended_moves:
            ledger.effects.ended_moves = []  # no settlement waits for these
        is_replacing = ledger.rules.last_value_only and ledger.waiting_count > 1
        if is_replacing or ledger.unstored.total > 0 or self._commits.on:
            self._commits.want(is_replacing or ledger.unstored.total > 0)
        # With nothing ready, the next message needs no turn: no other message could be delivered with it.
        self._address.accepts_inline = not self._ledger.has_ready()

    def _note_taken_back(self) -> None:
        taken_back, self._ledger.effects.taken_back = self._ledger.effects.taken_back, []
        for flow, first, end in taken_back:
            if self._trace is not None:
                self._trace.taken_back(flow.flow_id, first, end, self._clock.wall_ms())
            self._wake_waiting_partitions(flow)

    def _wake_waiting_partitions(self, flow: Flow) -> None:
        """Wake partitions that wait because the flow had its maximum in flight: it has less now."""
        if flow.window.keeps_waiting():
            wake_waiters(flow.window, self._runtime.dispatcher)

    def _report_drained(self) -> None:
        for flow_id, epoch in list(self._draining.items()):
            if self._ledger.in_flight_count(flow_id) == 0 and not holds_prepared(self._jobs, flow_id):
                del self._draining[flow_id]
                self._queue.post(PartitionDrained(self._number, epoch))

    # --- what goes out ---

    def _carry_out_effects(self) -> None:
        effects = self._ledger.effects
        if effects.dead:
            dead_letter(self._jobs)
        released = effects.released_count > 0
        if released:
            self._gate.release(effects.released_count, effects.released_bytes)
            effects.released_count = 0
            effects.released_bytes = 0
        if self._spool is not None:
            self._notify_spool(self._spool)
        if self._ledger.scan_pending():
            self._address.post(WAKE)
        self._pressure.check(released)
        self._memory.balance()

    def _notify_spool(self, spool: Address) -> None:
        effects = self._ledger.effects
        if effects.dropped_pages:
            effects.dropped_pages = self._log.droppable(effects.dropped_pages)
        if effects.settled or effects.released_publications or effects.dropped_pages:
            spool.post(
                Settled(
                    self._partition_id,
                    effects.settled,
                    effects.released_publications,
                    effects.dropped_pages,
                    effects.settled_written,
                )
            )
            effects.settled = []
            effects.released_publications = []
            effects.dropped_pages = []
            effects.settled_written = False
        if effects.wanted_pages:
            assert self._reader is not None
            for first in effects.wanted_pages:
                self._reader.read(ReadPage(self._address, self._partition_id, first))
            effects.wanted_pages = []

    def _maintain_log(self) -> None:
        """Trim messages kept beyond settlement, from time to time when nothing else happens here."""
        self._log.maintain(self._clock.wall_ms())
        if self._log.active and not self._maintenance_pending:
            self._maintenance_pending = True
            self._runtime.after(MAINTAIN_LOG_MS, self._maintenance_due)

    def _maintenance_due(self) -> None:
        self._maintenance_pending = False
        self._address.post(WAKE)

    # --- a new ledger, and the end ---

    def ask_for_a_new_ledger(self) -> None:
        """Give up this ledger: have the spool send the stored state to the queue, which calls `reload`."""
        spool = self._spool
        if spool is None:
            self._queue.post(PartitionStored(self._number, StoredPartition(self._partition_id)))
            return
        try:
            self._notify_spool(spool)  # persist what consumers have settled
        except Exception as error:  # the ledger is inconsistent: what it could not report is delivered again
            log.error(
                "partition %d: inconsistent ledger, reloading from the store: %r",
                self._partition_id,
                error,
                exc_info=error,
            )
        spool.post(ReloadPartition(self._partition_id, self._number, self._queue))

    def reload(self, stored: StoredPartition) -> None:
        """Continue with a ledger made from the store; no flow is attached to it."""
        replay = self._reading.replay
        if replay is not None:
            stored.offer_again(replay[0], replay[1])
        if self._trace is not None:
            self._trace.reloaded(self._clock.wall_ms())
        self._ledger, self._log = fresh_ledger(
            self._ledger, self._log, stored, partition_id=self._partition_id, gate=self._gate, spool=self._spool
        )
        self._reading = RangeReader(
            self._log, number=self._number, partition_id=self._partition_id, reader=self._reader
        )
        self._jobs.use_ledger(self._ledger)
        self._requests.use_ledger(self._ledger)
        self._memory.use_log(self._log)
        self._draining.clear()

    def close(self, waiting: list[object]) -> None:
        """End: return memory and, if the queue was deleted, release its messages and those that wait in the inbox."""
        self._memory.end()
        for job in list(self._jobs.jobs.values()):
            job.abandon()
        self._timer.cancel()
        self._pressure.end()
        self._requests.end()
        self._commits.want(False)
        spool = self._spool
        if spool is None or not (self._gate.ended or self._rescale.retired):
            return  # the messages of a stopping node, or of a failed partition, stay in the store
        for message in waiting:
            # The other queues of the publish have it, and its publisher waits for an answer.
            if isinstance(message, Append) and message.publication is not None and message.publication.not_sequenced():
                spool.post(StorePublication(message.publication))
        self._log.abandon()
        self._ledger.abandon()
        spool.post(Settled(self._partition_id, [], self._ledger.effects.released_publications, [], True))

    # --- what operators see ---

    def overview(self) -> PartitionOverview:
        """Return the figures of the partition."""
        return overview_of(
            self._ledger,
            self._log,
            number=self._number,
            partition_id=self._partition_id,
            delivered_count=self._sender.delivered_count,
            redelivered_count=self._sender.redelivered_count,
            settled_count=self._settled_count + self._jobs.settled_count,
            dead_waiting_count=self._jobs.dead_waiting_count(),
        )


# --- the way out: deliveries ---


@final
class DeliverySender:
    """Sends deliveries to their consumers and counts them. The ledger decides what is delivered."""

    def __init__(
        self,
        dispatcher: Dispatcher,
        partition: Inbox,
        number: int,
        trace: QueueTrace | None,
        latencies: LatencyHistogram,
    ) -> None:
        self._latencies = latencies  # of the message VPN
        self.delivered_count: i64 = 0
        self.redelivered_count: i64 = 0
        self._dispatcher = dispatcher
        self._partition = partition
        self._number = number
        self._trace = trace  # None: this queue is not traced

    def send(self, deliveries: list[Delivery]) -> None:
        """Send deliveries to their consumers, one message for each consumer."""
        wall_ms = self._dispatcher.both_ms()[1]
        if self._trace is not None:
            self._trace.delivered(deliveries, wall_ms)
        if len(deliveries) == 1:
            only = deliveries[0]
            self._count(only, wall_ms)
            only.flow.address.deliver_now(Deliveries(only.flow, self._partition, self._number, deliveries))
            return
        by_flow: dict[Flow, list[Delivery]] = {}
        for delivery in deliveries:
            self._count(delivery, wall_ms)
            by_flow.setdefault(delivery.flow, []).append(delivery)
        for flow, its in by_flow.items():
            flow.address.deliver_now(Deliveries(flow, self._partition, self._number, its))

    def _count(self, delivery: Delivery, wall_ms: i64) -> None:
        count = delivery.stop_row - delivery.start_row
        self.delivered_count += count
        if delivery.redelivered:
            self.redelivered_count += count
        else:
            self._latencies.observe(delivery.batch.received_ms, wall_ms, count)


# --- a change of the number of partitions ---


class RescalePart:
    """Carries out the queue's rescale orders: holds the slots it gains, and reports when slots it lost are settled.

    `queues.rescale` decides which partition does which, and messaging.partitions.state.rescale_holds what may be
    delivered. Its state is in the ledger.
    """

    def __init__(self, number: int, queue: Address) -> None:
        self._number = number
        self._queue = queue
        self.retired = False  # the partition ends, and none of it is needed

    def receive(self, ledger: Ledger, order: RescaleOrder) -> None:
        """Apply an order of the queue."""
        if isinstance(order, HoldSlots):
            holds = ledger.rescale_holds = ledger.rescale_holds or RescaleHolds()
            holds.close(order.number, order.slots_before, order.sources)
        elif isinstance(order, OpenSource):
            ledger.open_source(order.number)
        elif isinstance(order, Retire):
            self.retired = True
        else:
            assert isinstance(order, TakeCut)
            ledger.watched_cut = order.cut or ledger.next_sequence
            if not order.cut:
                self._queue.post(CutTaken(self._number, ledger.watched_cut))

    def review(self, ledger: Ledger) -> None:
        """Report to the queue when everything below the cut is settled; remove holds that have ended."""
        if ledger.watched_cut and ledger.is_settled_below(ledger.watched_cut):
            ledger.watched_cut = 0
            self._queue.post(SourceDrained(self._number))
        if ledger.rescale_holds is not None and ledger.rescale_holds.are_over():
            ledger.rescale_holds = None


# --- what operators see ---


def overview_of(
    ledger: Ledger,
    log: RetainedLog,
    *,
    number: int,
    partition_id: int,
    delivered_count: int,
    redelivered_count: int,
    settled_count: int,
    dead_waiting_count: int,
) -> PartitionOverview:
    """Return the figures of a partition. The counts are the partition's own, over all of its ledgers."""
    in_flight = {flow_id: flow.in_flight.total for flow_id, flow in ledger.flows.items()}
    in_flight_count = sum(in_flight.values())
    delayed_count = ledger.delayed.total + ledger.unstored.total + ledger.redelivery_delays.total()
    return PartitionOverview(
        number=number,
        partition_id=partition_id,
        waiting_count=ledger.waiting_count,
        waiting_bytes=ledger.waiting_bytes,
        ready_count=ledger.waiting_count - in_flight_count - ledger.moving.total - delayed_count,
        delayed_count=delayed_count,
        in_flight_count=in_flight_count,
        memory_bytes=ledger.memory_bytes,
        first_unsettled=ledger.floor,
        next_sequence=ledger.next_sequence,
        delivered_count=delivered_count,
        redelivered_count=redelivered_count,
        settled_count=settled_count,
        lock_losses_count=ledger.lock_losses_count,
        annotations_lost_count=0 if ledger.annotations is None else ledger.annotations.lost_count,
        discards=dict(ledger.effects.discards),
        dead_lettered=dict(ledger.effects.dead_lettered_counts),
        in_flight_by_flow=in_flight,
        kept_from=log.low(),
        kept_bytes=log.settled_bytes(),
        dead_waiting_count=dead_waiting_count,
        held_count=0 if ledger.rescale_holds is None else ledger.rescale_holds.count(),
    )
