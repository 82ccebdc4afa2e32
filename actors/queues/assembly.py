"""Assemble a queue: target, gate, ledgers, access machine, and the actors around them.

The cores outlive their actors: a restarted actor continues with the same partition or queue core.
"""

from dataclasses import dataclass

from sluicegate.actors.messages.directory import LINK, NAMED, TEMPORARY, LocalQueue
from sluicegate.actors.partitions.actor import PartitionActor
from sluicegate.actors.partitions.partition import Partition
from sluicegate.actors.queues.actor import QueueActor
from sluicegate.actors.queues.core import NEVER, REJECT_BEHAVIORS, GoneQueues, QueueCore, QueueExpiry
from sluicegate.actors.queues.quota_events import QueueWatch
from sluicegate.actors.queues.temporary_owner import TemporaryOwner
from sluicegate.actors.runtime.events import Events
from sluicegate.actors.runtime.runtime import ActorCell, Runtime
from sluicegate.actors.runtime.supervision import RELOADED, RESTARTED
from sluicegate.actors.spool.store_threads import StoreReader
from sluicegate.messaging.bulk.durable_cursors import CONSUME, CursorBook
from sluicegate.messaging.bulk.retained_log import RetainedLog
from sluicegate.messaging.clients.rights import ClientRights
from sluicegate.messaging.clients.roster import ClientRoster
from sluicegate.messaging.message.address import Address
from sluicegate.messaging.network.queue_names import QueueFacts
from sluicegate.messaging.observability.latency import LatencyHistogram
from sluicegate.messaging.observability.tracing import Tracing
from sluicegate.messaging.partitions.ledger import Ledger
from sluicegate.messaging.partitions.paging import MemoryBudget
from sluicegate.messaging.partitions.recovery import StoredPartition, restore
from sluicegate.messaging.partitions.state.flows import DeliveryRules
from sluicegate.messaging.partitions.trace import QueueTrace
from sluicegate.messaging.queues.admission import QueueGate, SpoolGate
from sluicegate.messaging.queues.assignment.slots import Rescale
from sluicegate.messaging.queues.definition import QueueConfig, QueueDefinition
from sluicegate.messaging.queues.moves import RECEIVING, QueueMove
from sluicegate.messaging.queues.pressure import Pressure, PressureLimits
from sluicegate.messaging.routing.destinations import PartitionTarget, QueueTarget
from sluicegate.messaging.routing.queue_ways import QueueWays
from sluicegate.storage.catalog.queues import PartitionIds


@dataclass(slots=True)
class QueueServices:
    """The services that every queue of a message VPN uses."""

    broker: str  # name of this one
    runtime: Runtime
    events: Events  # of the message VPN
    row_prefix: bytes  # before the keys of its rows
    partition_ids: PartitionIds  # of the node
    spool_gate: SpoolGate  # of the message VPN
    queue_messages_max: int
    memory: MemoryBudget
    spool: Address
    reader: StoreReader
    pressure: PressureLimits
    temporary_grace_s: int  # how long a temporary queue waits for a consumer; set by the directory
    cursors: CursorBook
    partition_addresses: dict[int, Address]  # of durable partitions, shared with the spool actor
    router: Address  # of the message VPN
    clients: ClientRoster  # the clients of the VPN
    ways: QueueWays  # to every queue, for moves
    cores: dict[str, QueueCore]  # state of every queue, for the directory
    tracing: Tracing | None  # None: no message is traced
    gone: GoneQueues  # totals of deleted queues
    latencies: LatencyHistogram  # from publish to first delivery, of all queues


def assemble_queue(
    services: QueueServices,
    *,
    parent: ActorCell,
    definition: QueueDefinition,
    kind: str,
    durable: bool,
    partition_ids: list[int],
    slots: bytes | None = None,
    rescale: Rescale | None = None,
    stored: dict[int, StoredPartition],
    was_clean: bool,
    owner: ClientRights | None = None,
    definition_lost: bool = False,
    move: QueueMove | None = None,
) -> LocalQueue:
    """Build a queue and start its actors; with `stored`, from what the store held of its partitions.

    A rescale in progress (`rescale`) continues. `owner` is the only connection that may consume from it; None: any.
    """
    config = definition.config
    target = _target(services, config, slots, durable=durable)
    rules = DeliveryRules(expires_once_delivered=kind in (NAMED, TEMPORARY), passes_on=kind == LINK)
    core = _core(services, config, target, rules, kind, partitions_count=len(partition_ids))
    core.rescale = rescale
    core.owner = None if owner is None else TemporaryOwner(owner)
    if move is not None:
        _begin_move(core, move)
    consuming = [each for each in services.cursors.of(config.name) if each.mode == CONSUME]
    core.reserved_for = next((each.name for each in consuming if each.bound), "")  # also over a restart of the node
    cell = services.runtime.spawn(
        lambda cell: QueueActor(cell, core), kind="queue", name=config.name, policy=RESTARTED, parent=parent
    )
    for number, partition_id in enumerate(partition_ids):
        ledger = Ledger(durable=durable, rules=rules)
        held = stored.get(partition_id)
        if held is not None:
            restore(ledger, held, was_clean=was_clean)
            target.gate.restore(ledger.waiting_count, ledger.waiting_bytes)
        log = log_for(services, core, ledger, partition_id)
        if held is not None and (core.retention.on() or log.holds):
            log.restore(held)
            log.count_rows()
        for cursor in consuming:  # its last acknowledgement may not have reached the partition before a crash
            ledger.consume(ledger.floor, cursor.position(partition_id))
        partition = start_partition(services, cell, log, number, partition_id, target)
        core.partitions.append(partition)
        if durable:
            services.partition_addresses[partition_id] = partition.inbox
        target.partitions.append(PartitionTarget(partition_id, partition.inbox))
    services.ways.targets[config.name], services.cores[config.name] = target, core
    return LocalQueue(
        config.name, kind, cell, target.gate, durable, definition, core, definition_lost, target=target, move=move
    )


def _core(
    services: QueueServices,
    config: QueueConfig,
    target: QueueTarget,
    rules: DeliveryRules,
    kind: str,
    *,
    partitions_count: int,
) -> QueueCore:
    return QueueCore(
        config,
        events=services.events,
        target=target,
        rules=rules,
        limits=services.pressure,
        watch=QueueWatch(services.events, target, services.router),
        expiry=QueueExpiry(services.runtime, grace_s=services.temporary_grace_s if kind == TEMPORARY else NEVER),
        partitions_count=partitions_count,
    )


def _begin_move(core: QueueCore, move: QueueMove) -> None:
    """Have a queue take part in a move from the start on."""
    core.moving = move.refusal(core.config.name)
    if move.stage == RECEIVING:
        core.target.gate.set_ingress_of_move(enabled=True)  # what its home has taken it takes


def facts_of(handle: LocalQueue) -> QueueFacts | None:
    """Return what neighbor brokers are told of a queue; None: nothing."""
    if handle.kind != NAMED or not handle.durable or handle.definition_lost:
        return None
    config = handle.definition.config
    return QueueFacts(
        config.access_type,
        config.partition_count,
        config.max_msg_size,
        config.ingress_enabled,
        config.egress_enabled,
        REJECT_BEHAVIORS[config.reject_msg_to_sender_on_discard_behavior],
    )


def _target(services: QueueServices, config: QueueConfig, slots: bytes | None, *, durable: bool) -> QueueTarget:
    gate = QueueGate(
        services.spool_gate if durable else None,
        usage_bytes_max=config.spool_bytes_max(),
        message_bytes_max=config.max_msg_size,
        usage_count_max=services.queue_messages_max,
    )
    target = QueueTarget(config.name, gate, Pressure(high_bytes=0, low_bytes=0), durable=durable)
    target.slots = slots
    return target


def log_for(services: QueueServices, core: QueueCore, ledger: Ledger, partition_id: int) -> RetainedLog:
    """Return the log of a partition's ledger, which keeps what the queue's durable cursors need."""
    log = RetainedLog(ledger, core.retention)
    for cursor in services.cursors.of(core.config.name):
        hold = cursor.hold(partition_id)
        if hold is not None:
            log.hold(cursor.name, hold)
    return log


def start_partition(
    services: QueueServices, queue: ActorCell, log: RetainedLog, number: int, partition_id: int, target: QueueTarget
) -> ActorCell:
    """Start the actor of one partition. Publishers do not know it yet."""
    made: list[Partition] = []

    def make(cell: ActorCell) -> PartitionActor:
        if not made:
            made.append(partition_at(cell))
        return PartitionActor(cell, made[0])

    def partition_at(cell: ActorCell) -> Partition:
        return Partition(
            services.runtime,
            cell.inbox,
            ledger=log.ledger,
            log=log,
            number=number,
            partition_id=partition_id,
            queue=queue.inbox,
            queue_name=target.name,
            ways=services.ways,
            gate=target.gate,
            pressure=target.pressure,
            limits=services.pressure,
            memory=services.memory,
            spool=services.spool if target.durable else None,
            reader=services.reader if target.durable else None,
            trace=_trace_of(services, target.name, number),
            events=services.events,
            latencies=services.latencies,
        )

    return services.runtime.spawn(
        make,
        kind="partition",
        name=str(number),
        policy=RELOADED,
        parent=queue,
    )


def _trace_of(services: QueueServices, queue: str, number: int) -> QueueTrace | None:
    tracing = services.tracing
    if tracing is None or not tracing.wants_queue(queue):
        return None
    return QueueTrace(tracing, queue=queue, partition=number)
