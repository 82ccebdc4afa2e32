"""The queue actor: the flows bound to one queue, and which of them gets which partition.

Messages pass it by: publishers post to the partitions, and partitions to the consumers.
"""

import logging
from typing import Any

from sluicegate.actors.messages.data import WAKE
from sluicegate.actors.messages.directory import NotifyConsumers, QueueExpired
from sluicegate.actors.messages.operations import ExplainKey, HandOver, TakeMessages
from sluicegate.actors.messages.partitions import (
    Attach,
    CutTaken,
    Detach,
    DrainPartition,
    LookUpSequences,
    PartitionDrained,
    Pause,
    PurgePartition,
    RestoreSuspended,
    ResumeSuspended,
    SourceDrained,
    Suspend,
)
from sluicegate.actors.messages.queues import (
    ENDPOINT_DISABLED,
    MAX_BIND_COUNT_EXCEEDED,
    NO_SUCH_PARTITION,
    PERMISSION_DENIED,
    QUEUE_EXPIRED,
    AcknowledgeHandoff,
    BindBrowser,
    BindFlow,
    BindRefused,
    BrowseQueue,
    BrowserBound,
    DescribeQueue,
    DrainFlow,
    FlowDrained,
    FlowGone,
    FlowState,
    PurgeQueue,
    Reconfigure,
    RescaleAdvanced,
    RescaleFinished,
    RescaleQueue,
    RestoreSuspendedFlow,
    SetMoving,
    SuspendFlow,
    UnbindFlow,
)
from sluicegate.actors.messages.readers import (
    AskPartitions,
    NoSuchPartition,
    PrepareReplay,
    ReleaseQueue,
    ReplayQueue,
    ReplayRefused,
    ReserveQueue,
)
from sluicegate.actors.messages.spool import PartitionStored
from sluicegate.actors.partitions.actor import PartitionActor
from sluicegate.actors.queues.assignment import HandoffAcks, RebalanceEvents, SelectorEvents
from sluicegate.actors.queues.browser import BrowserActor
from sluicegate.actors.queues.core import BoundBrowser, QueueCore
from sluicegate.actors.queues.overview import browse, describe, notify_consumers
from sluicegate.actors.queues.rescale import begin_rescale, end_rescale, source_drained
from sluicegate.actors.runtime.actor import LoopActor
from sluicegate.actors.runtime.asks import LoopFuture, gather
from sluicegate.actors.runtime.runtime import ActorCell, TimerHandle
from sluicegate.actors.runtime.supervision import ONE_CONNECTION
from sluicegate.messaging.bulk.durable_cursors import QUEUE_IN_USE
from sluicegate.messaging.clients.rights import ClientRights
from sluicegate.messaging.message.address import Address
from sluicegate.messaging.observability.events import (
    CLIENT_BIND_FAILED,
    CLIENT_BOUND,
    CLIENT_UNBOUND,
    EventKind,
    as_word,
)
from sluicegate.messaging.partitions.recovery import StoredPartition
from sluicegate.messaging.partitions.state.flows import Flow
from sluicegate.messaging.queues.assignment.rebalance import ATTACH, PAUSE, Move
from sluicegate.messaging.queues.attributes import CONSUME, READ_ONLY
from sluicegate.messaging.queues.definition import QueueConfig, denial, is_named, permits


def replay(core: QueueCore, message: ReplayQueue) -> LoopFuture[int]:
    """Deliver again what the partitions of a queue keep: consumers get the old messages before newer ones.

    Each partition that keeps some has its ledger reloaded. Raises ReplayRefused.
    """
    if not core.retention.on():
        raise ReplayRefused(f"{core.config.name!r} keeps nothing: retention_time_s and retention_size_mb are 0")
    if core.config.last_value_only():
        raise ReplayRefused(
            f"{core.config.name!r} offers its consumers only the newest message, because max_msg_spool_usage is 0; "
            "a replay needs max_msg_spool_usage above 0"
        )
    if core.reserved_for:
        raise ReplayRefused(f"{core.config.name!r} is consumed by the durable cursor {core.reserved_for!r}")
    if core.rescale is not None:
        raise ReplayRefused(f"the number of partitions of {core.config.name!r} is changing; try again later")
    answer: LoopFuture[int] = LoopFuture()
    number = message.number
    chosen = list(core.partitions if number is None else core.partitions[number : number + 1])

    def prepared(counts: list[int]) -> None:
        if core.rescale is not None:  # it has just begun, and waits for messages to be settled once
            changing = ReplayRefused(f"the number of partitions of {core.config.name!r} has just begun to change")
            answer.set_exception((ReplayRefused, changing, None))
            return
        for partition, count in zip(chosen, counts, strict=True):
            actor = partition.actor
            assert isinstance(actor, PartitionActor)
            if count:
                actor.replay()
        answer.set(sum(counts))

    request = PrepareReplay(message.first, message.since_ms, message.end)
    gather([each.ask(request) for each in chosen], prepared, answer)
    return answer


def drain_flow(core: QueueCore, message: DrainFlow) -> None:
    """Drain a flow: ask every partition, and tell the consumer when all have answered. A stopped one has no more."""
    flow = core.flows.get(message.flow_id)
    if flow is None:  # its consumer has ended it, or is told that it is gone
        return
    address = flow.address

    def tell(_: object) -> None:
        address.post(FlowDrained(message.flow_id, message.number))

    failed: LoopFuture[None] = LoopFuture()
    failed.then(tell)
    gather([each.ask(DrainPartition(message.flow_id)) for each in core.partitions], tell, failed)


log = logging.getLogger("sluicegate.queues")

RELOAD_AGAIN_MS = 1000  # between two attempts to reload a partition


class QueueActor(LoopActor):
    """One queue. Every decision about flows is made in its Access machine."""

    def __init__(self, cell: ActorCell, core: QueueCore) -> None:
        super().__init__(cell)
        self._core = core
        self._shown: dict[int, list[int]] = {}  # flow -> partitions it was last told of
        self._timer: TimerHandle | None = None
        self._rebalances = RebalanceEvents(core)
        self._handoffs = HandoffAcks(core)
        self._selectors = SelectorEvents(core)
        self.handlers = {
            BindFlow: self._bind,
            BindBrowser: self._bind_browser,
            UnbindFlow: self._unbind,
            NotifyConsumers: lambda _: notify_consumers(self._core),
            DrainFlow: lambda message: drain_flow(self._core, message),
            SuspendFlow: self._suspend,
            RestoreSuspendedFlow: self._restore_suspended,
            LookUpSequences: lambda message: self._only_partition().ask(message),
            PartitionDrained: self._partition_drained,
            AcknowledgeHandoff: self._acknowledge,
            PartitionStored: self._reload,
            DescribeQueue: lambda _: describe(self._core),
            BrowseQueue: lambda message: browse(self._core, message),
            ExplainKey: lambda message: self._partition(message.partition_number).ask(message),
            PurgeQueue: lambda _: self._purge(),
            HandOver: lambda message: self._partition(message.partition_number).ask(message),
            TakeMessages: lambda message: self._partition(message.partition_number).ask(message),
            Reconfigure: self._reconfigure,
            AskPartitions: self._ask_partitions,
            ReplayQueue: lambda message: replay(self._core, message),
            ReserveQueue: self._reserve,
            ReleaseQueue: self._release,
            SetMoving: self._set_moving,
            RescaleQueue: self._rescale,
            CutTaken: self._cut_taken,
            SourceDrained: self._source_drained,
        }

    def on_start(self) -> None:
        """Start the expiry timer, if the queue expires."""
        self._review_expiry()

    def on_stop(self) -> None:
        """Tell the consumers that their flows are gone."""
        self._core.expiry.stop()
        if self._timer is not None:
            self._timer.cancel()
        for flow in self._core.flows.values():
            flow.address.post(FlowGone(flow.flow_id, "the queue was deleted", may_return=False))
        for flow_id, browser in self._core.browsers.items():
            browser.request.address.post(FlowGone(flow_id, "the queue was deleted", may_return=False))
        self._core.flows.clear()
        self._core.browsers.clear()

    # --- flows ---

    def _bind(self, message: BindFlow) -> LoopFuture[None] | None:
        core = self._core
        config = core.config
        known = message.flow_id in core.suspended
        self._may_bind(message, message.user, CONSUME, known=known)
        flow_id = message.flow_id
        flow = Flow(
            flow_id=flow_id,
            queue_name=config.name,
            client=message.client,
            address=message.address,
            window=message.window,
            bound_order=flow_id,
            protocol=message.protocol,
            selector=message.selector,
            of_partition_max=message.of_partition_max,
            broker=message.broker,
        )
        core.flows[flow_id] = flow
        core.watch.binds(len(core.flows))
        core.users[flow_id] = message.user
        self._handoffs.binds(message)
        self._emit(CLIENT_BOUND, message.client, f"bound to queue {as_word(config.name)}, flow {flow_id}")
        self._selectors.review(message.client)
        if known:
            core.suspended.discard(flow_id)
            self._only_partition().inbox.post(ResumeSuspended(flow))
        else:
            self._move(core.access.bind(flow_id, message.client, self.runtime.clock.now_ms()), count_as_failed=True)
        self._review_expiry()
        return notify_consumers(core)

    def _bind_browser(self, message: BindBrowser) -> BrowserBound:
        core = self._core
        if message.user is not None:
            self._may_bind(message, message.user, READ_ONLY, known=False)
        number, count = message.partition_number, len(core.partitions)
        if number is not None and not 0 <= number < count:
            text = f"400 Queue Not Found: {core.config.name!r} has no partition {number}; allowed: 0 to {count - 1}"
            raise BindRefused(NO_SUCH_PARTITION, text)
        browser = self.runtime.spawn(
            lambda cell: BrowserActor(cell, request=message, core=core),
            kind="browser",
            name=str(message.flow_id),
            policy=ONE_CONNECTION,
            parent=self.cell,
        )
        core.browsers[message.flow_id] = BoundBrowser(message, browser)
        self._emit(CLIENT_BOUND, message.client, f"browses queue {as_word(core.config.name)}, flow {message.flow_id}")
        self._review_expiry()
        return BrowserBound(browser)

    def _may_bind(self, message: BindFlow | BindBrowser, user: str, needed: str, *, known: bool) -> None:
        """Raise BindRefused, counted and reported, unless one more flow may be bound for this user."""
        core, client = self._core, message.client
        try:
            self._check_bind(message.rights, user, needed, known=known)
        except BindRefused as refusal:
            core.bind_refusals[refusal.code] = core.bind_refusals.get(refusal.code, 0) + 1
            self._emit(CLIENT_BIND_FAILED, client, f"bind to queue {as_word(core.config.name)} failed: {refusal}")
            raise
        if core.owner is not None:
            core.owner.take_over(message.rights)

    def _check_bind(self, rights: ClientRights | None, user: str, needed: str, *, known: bool) -> None:
        """Raise BindRefused unless a client and user may bind one more flow; a known flow is bound again."""
        config, expiry = self._core.config, self._core.expiry
        if expiry.ended:
            raise BindRefused(
                QUEUE_EXPIRED, f"400 Queue Not Found: {config.name!r} was without a consumer for too long"
            )
        if self._core.owner is not None:
            code, text = self._core.owner.refusal(config.name, rights)
            if code:
                raise BindRefused(code, text)
        denied = self._core.denial(rights, user, needed)
        if denied:
            raise BindRefused(PERMISSION_DENIED, denied)
        if not config.egress_enabled:
            raise BindRefused(ENDPOINT_DISABLED, f"503 Queue Shutdown: egress of {config.name!r} is shut down")
        if self._core.moving:
            raise BindRefused(ENDPOINT_DISABLED, self._core.moving)
        if self._core.reserved_for:
            text = f"503 Queue In Use: {config.name!r} is consumed by the durable cursor {self._core.reserved_for!r}"
            raise BindRefused(QUEUE_IN_USE, text)
        if not known and len(self._core.flows) + len(self._core.browsers) >= config.max_bind_count:
            text = f"503 Max clients exceeded for Queue: {config.name!r} takes {config.max_bind_count} flows"
            raise BindRefused(MAX_BIND_COUNT_EXCEEDED, text)

    def _reserve(self, message: ReserveQueue) -> None:
        core = self._core
        holder = f"{len(core.flows)} flows" if core.flows else f"the durable cursor {core.reserved_for!r}"
        if core.flows or core.reserved_for not in ("", message.cursor):
            raise BindRefused(QUEUE_IN_USE, f"503 Queue In Use: {core.config.name!r} is consumed by {holder}")
        core.reserved_for = message.cursor

    def _release(self, message: ReleaseQueue) -> None:
        if self._core.reserved_for == message.cursor:
            self._core.reserved_for = ""

    def _only_partition(self) -> ActorCell:
        """Return the partition of a session's or a shared subscription's queue."""
        assert len(self._core.partitions) == 1, "flows are suspended on queues without partitions"
        return self._core.partitions[0]

    def _suspend(self, message: SuspendFlow) -> None:
        if message.flow_id in self._core.flows:
            self._core.suspended.add(message.flow_id)
            self._only_partition().inbox.post(Suspend(message.flow_id, message.to_resend))

    def _restore_suspended(self, message: RestoreSuspendedFlow) -> None:
        flow = message.flow
        core = self._core
        core.flows[flow.flow_id] = flow
        core.suspended.add(flow.flow_id)
        core.users[flow.flow_id] = ""  # its user is known when it is bound
        for move in core.access.bind(flow.flow_id, flow.client, self.runtime.clock.now_ms()):
            assert move.kind == ATTACH, "no flow has bound before"
            core.partitions[move.partition].inbox.post(RestoreSuspended(flow, move.epoch, message.to_resend))

    def _emit(self, kind: EventKind, client: str, description: str) -> None:
        if is_named(self._core.config.name):
            self._core.events.emit(kind, description, client=client)

    def _review_expiry(self) -> None:
        core = self._core
        is_bound = (
            bool(core.flows)
            or bool(core.moving)
            or any(each.request.user is not None for each in core.browsers.values())
        )
        if core.expiry.review(core.config, is_bound=is_bound, look_again=lambda: self.cell.do(self._check_expiry)):
            self._expire()

    def _check_expiry(self) -> None:
        if not self.cell.is_stopped():
            self._review_expiry()

    def _expire(self) -> None:
        self._core.expiry.ended = True
        assert self.cell.parent is not None
        self.cell.parent.inbox.post(QueueExpired(self._core.config.name))

    def _unbind(self, message: UnbindFlow) -> None:
        self._end_binding(message)
        expiry = self._core.expiry
        if self._core.owner is not None and not message.may_return and not expiry.ended:
            self._expire()  # its client no longer needs it
        else:
            self._review_expiry()

    def _end_binding(self, message: UnbindFlow) -> None:
        browser = self._core.browsers.pop(message.flow_id, None)
        if browser is not None:
            browser.cell.stop()
            return
        gone = self._core.flows.pop(message.flow_id, None)
        if gone is None:
            return
        self._core.suspended.discard(message.flow_id)
        self._core.users.pop(message.flow_id, None)
        self._core.watch.binds(len(self._core.flows))
        name = as_word(self._core.config.name)
        self._emit(CLIENT_UNBOUND, gone.client, f"unbound from queue {name}, flow {gone.flow_id}")
        self._selectors.review()
        self._shown.pop(message.flow_id, None)
        notify_consumers(self._core)
        moves = self._core.access.unbind(message.flow_id, self.runtime.clock.now_ms())
        self._move(moves, count_as_failed=message.count_as_failed)

    def _partition_drained(self, message: PartitionDrained) -> None:
        if message.partition_number < len(self._core.partitions):  # else it retired meanwhile
            moves = self._core.access.drained(message.partition_number, message.epoch)
            self._move(moves, count_as_failed=True)

    def _acknowledge(self, message: AcknowledgeHandoff) -> None:
        self._move(self._handoffs.acknowledge(message), count_as_failed=True)

    def _move(self, moves: list[Move], *, count_as_failed: bool) -> None:
        for move in moves:
            partition = self._core.partitions[move.partition].inbox
            if move.kind == ATTACH:
                partition.post(Attach(self._core.flows[move.flow_id], move.epoch))
            elif move.kind == PAUSE:
                partition.post(Pause(move.flow_id, move.epoch))
            else:
                partition.post(Detach(move.flow_id, count_as_failed))
        self._rebalances.report(moves, self._emit)
        self._show_states()
        self._set_timer()

    def _show_states(self) -> None:
        """Send FlowState to every flow whose partitions changed."""
        for flow_id, flow in self._core.flows.items():
            partitions = self._core.access.partitions_of(flow_id)
            if self._shown.get(flow_id) != partitions:
                self._shown[flow_id] = partitions
                flow.address.post(FlowState(flow_id, bool(partitions), partitions))
        self._handoffs.notify()

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        deadline_ms = self._core.access.deadline_ms()
        if deadline_ms:
            delay_ms = max(0, deadline_ms - self.runtime.clock.now_ms())
            self._timer = self.cell.after(delay_ms, self._timer_ended)

    def _timer_ended(self) -> None:
        self._timer = None
        if not self.cell.is_stopped():
            self._move(self._core.access.tick(self.runtime.clock.now_ms()), count_as_failed=True)

    def _reload(self, message: PartitionStored) -> None:
        """Reload a partition that failed too often from the store."""
        core, number = self._core, message.partition_number
        ids = [each.partition_id for each in core.target.partitions[number : number + 1]]
        if not ids or (message.stored is not None and message.stored.partition_id != ids[0]):
            return  # it retired meanwhile
        actor = core.partitions[number].actor
        assert isinstance(actor, PartitionActor)
        if message.stored is None or not self._is_reloaded(actor, message.stored):  # the reason is logged
            core.partitions[number].after(RELOAD_AGAIN_MS, actor.on_failing_too_often)
            return  # its inbox continues to wait
        for flow_id in list(self._core.suspended):  # no message waits for its client any more
            self._unbind(UnbindFlow(flow_id))
        self._move(self._core.access.renew(number), count_as_failed=True)

    def _is_reloaded(self, actor: PartitionActor, stored: StoredPartition) -> bool:
        try:
            actor.reload(stored)
        except Exception:  # an inconsistent ledger, or one that cannot be built
            log.exception("queue %r: a partition could not be reloaded", self._core.config.name)
            return False
        return True

    # --- configuration ---

    def _reconfigure(self, message: Reconfigure) -> None:
        """Apply a configuration; flows that it does not permit end first."""
        core, config = self._core, message.config
        for flow_id, user in list(core.users.items()):
            reason = _why_not(config, user, CONSUME)
            if reason:
                self._end_flow(flow_id, core.flows[flow_id].address, reason, may_return=not config.egress_enabled)
        for flow_id, browser in list(core.browsers.items()):
            asked = browser.request
            reason = "" if asked.user is None else _why_not(config, asked.user, READ_ONLY)
            if reason:
                self._end_flow(flow_id, asked.address, reason, may_return=not config.egress_enabled)
        core.apply(config)
        self._review_expiry()
        for partition in core.partitions:
            partition.inbox.post(WAKE)  # a raised limit may release waiting messages

    def _set_moving(self, message: SetMoving) -> None:
        core = self._core
        core.moving = message.text
        if message.text:
            for flow_id, flow in list(core.flows.items()):
                self._end_flow(flow_id, flow.address, message.text, may_return=True)
            for flow_id, browser in list(core.browsers.items()):
                self._end_flow(flow_id, browser.request.address, message.text, may_return=True)
        self._review_expiry()

    def _end_flow(self, flow_id: int, address: Address, reason: str, *, may_return: bool) -> None:
        self._unbind(UnbindFlow(flow_id))
        address.post(FlowGone(flow_id, reason, may_return=may_return))

    def _rescale(self, message: RescaleQueue) -> None:
        self._move(begin_rescale(self._core, message, self.runtime.clock.now_ms()), count_as_failed=True)

    def _cut_taken(self, message: CutTaken) -> None:
        rescale = self._core.rescale
        if rescale is not None and rescale.take_cut(message.partition_number, message.cut):
            self._notify_directory(RescaleAdvanced(self._core.config.name))

    def _source_drained(self, message: SourceDrained) -> None:
        core, rescale = self._core, self._core.rescale
        if rescale is None or not source_drained(core, rescale, message.partition_number):
            return
        moves = core.access.resize(rescale.count, self.runtime.clock.now_ms())
        retired_ids = end_rescale(core, rescale)
        self._move([move for move in moves if move.partition < rescale.count], count_as_failed=True)
        self._notify_directory(RescaleFinished(core.config.name, retired_ids))

    def _notify_directory(self, message: object) -> None:
        assert self.cell.parent is not None, "a queue belongs to the directory"
        self.cell.parent.inbox.post(message)

    # --- readers ---

    def _partition(self, number: int) -> ActorCell:
        """Return a partition. Raises NoSuchPartition."""
        partitions = self._core.partitions
        if not 0 <= number < len(partitions):
            text = f"{self._core.config.name!r} has no partition {number}, but 0 to {len(partitions) - 1}"
            raise NoSuchPartition(text)
        return partitions[number]

    def _ask_partitions(self, message: AskPartitions) -> LoopFuture[list[Any]]:
        answer: LoopFuture[list[Any]] = LoopFuture()
        number = message.number
        chosen = self._core.partitions if number is None else [self._partition(number)]
        gather([each.ask(message.request) for each in chosen], answer.set, answer)
        return answer

    def _purge(self) -> LoopFuture[int]:
        answer: LoopFuture[int] = LoopFuture()

        def combine(counts: list[int]) -> None:
            answer.set(sum(counts))

        gather([partition.ask(PurgePartition()) for partition in self._core.partitions], combine, answer)
        return answer


def _why_not(config: QueueConfig, user: str, needed: str) -> str:
    """Return why a bound flow may not continue under a new configuration; empty when it may."""
    if not config.egress_enabled:
        return "503 Queue Shutdown: the queue's egress was shut down"
    return "" if permits(config, user, needed) else denial(config, user, needed)
