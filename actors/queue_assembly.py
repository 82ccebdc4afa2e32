"""Putting a queue together: target, gate, ledgers, access machine, and the actors around them.

The cores outlive their actors: an actor that its supervisor restarts goes on with the same ledger or access machine.
"""

from dataclasses import dataclass

from actors.cell import ActorCell
from actors.directory_messages import QueueHandle
from actors.partition import Partition
from actors.partition_actor import PartitionActor
from actors.queue import QueueActor
from actors.runtime import Runtime
from actors.spool_io import StoreReader
from actors.supervision import RESTARTED
from messaging.access import Access, ExclusiveAccess, SharedAccess
from messaging.address import Address
from messaging.admission import REJECT_ALWAYS, REJECT_NEVER, REJECT_WHEN_ENABLED, QueueGate, SpoolGate
from messaging.flows import DeliveryRules, Flow
from messaging.ledger import Ledger
from messaging.memory import MemoryBudget
from messaging.pressure import Pressure
from messaging.queue_attributes import EXCLUSIVE
from messaging.queue_config import QueueConfig, QueueDefinition
from messaging.rebalance import Rebalancer
from messaging.recovery import StoredPartition, restore
from messaging.routing import PartitionTarget, QueueTarget

# What a queue is for. Named queues belong to administrators and applications; the others come and go with their users.
NAMED = "named"
SESSION = "session"  # the guaranteed messages of one MQTT session
SHARED = "shared"  # the guaranteed messages of one shared subscription

REJECT_BEHAVIORS = {"never": REJECT_NEVER, "when-queue-enabled": REJECT_WHEN_ENABLED, "always": REJECT_ALWAYS}


@dataclass(frozen=True, slots=True)
class QueueServices:
    """What every queue of a node uses."""

    runtime: Runtime
    spool_gate: SpoolGate
    memory: MemoryBudget
    spool: Address
    reader: StoreReader
    pressure_high_bytes: int
    pressure_low_bytes: int
    stall_ms: int  # how long a queue's publishers wait for consumers that settle nothing
    partition_addresses: dict[int, Address]  # of durable partitions, shared with the spool actor


def assemble_queue(
    services: QueueServices,
    *,
    parent: ActorCell,
    definition: QueueDefinition,
    kind: str,
    durable: bool,
    partition_ids: list[int],
    stored: dict[int, StoredPartition],
    was_clean: bool,
) -> QueueHandle:
    """Build a queue and start its actors; with `stored`, from what the store held of its partitions."""
    config = definition.config
    target = _target(services, config, durable=durable)
    gate = target.gate
    rules = DeliveryRules(expires_once_delivered=kind == NAMED)
    access = _access(config)
    flows: dict[int, Flow] = {}
    partitions: list[ActorCell] = []

    def apply_config(changed: QueueConfig) -> None:
        gate.usage_bytes_max = changed.spool_bytes_max()
        gate.message_bytes_max = changed.max_msg_size
        gate.ingress_enabled = changed.ingress_enabled
        gate.reject_behavior = REJECT_BEHAVIORS[changed.reject_msg_to_sender_on_discard_behavior]
        rules.redelivery_count_max = changed.max_redelivery_count
        rules.unacked_count_max = changed.max_delivered_unacked_msgs_per_flow
        rules.respects_expiry = changed.respect_ttl_enabled

    apply_config(config)
    cell = services.runtime.spawn(
        lambda cell: QueueActor(
            cell,
            config=config,
            target=target,
            access=access,
            flows=flows,
            partitions=partitions,
            apply_config=apply_config,
        ),
        kind="queue",
        name=config.name,
        policy=RESTARTED,
        parent=parent,
    )
    for number, partition_id in enumerate(partition_ids):
        ledger = Ledger(durable=durable, rules=rules)
        held = stored.get(partition_id)
        if held is not None:
            restore(ledger, held, was_clean=was_clean)
            gate.restore(ledger.waiting_count, ledger.waiting_bytes)
        partition = _start_partition(services, cell, ledger, number, partition_id, target)
        partitions.append(partition)
        if durable:
            services.partition_addresses[partition_id] = partition.inbox
        target.partitions.append(PartitionTarget(partition_id, partition.inbox))
    return QueueHandle(config.name, kind, cell, target, durable, definition)


def _target(services: QueueServices, config: QueueConfig, *, durable: bool) -> QueueTarget:
    gate = QueueGate(
        services.spool_gate if durable else None,
        usage_bytes_max=config.spool_bytes_max(),
        message_bytes_max=config.max_msg_size,
    )
    # A durable queue takes what its quota allows and waits on disk. Only one that is never written slows publishers.
    high = config.spool_bytes_max() + 1 if durable else min(services.pressure_high_bytes, config.spool_bytes_max())
    pressure = Pressure(high_bytes=high, low_bytes=min(high, services.pressure_low_bytes))
    return QueueTarget(config.name, gate, pressure, durable=durable)


def _start_partition(
    services: QueueServices, queue: ActorCell, ledger: Ledger, number: int, partition_id: int, target: QueueTarget
) -> ActorCell:
    def make(cell: ActorCell) -> PartitionActor:
        partition = Partition(
            services.runtime,
            cell.inbox,
            ledger=ledger,
            number=number,
            partition_id=partition_id,
            queue=queue.inbox,
            gate=target.gate,
            pressure=target.pressure,
            stall_ms=services.stall_ms,
            memory=services.memory,
            spool=services.spool if target.durable else None,
            reader=services.reader if target.durable else None,
        )
        return PartitionActor(cell, partition)

    return services.runtime.spawn(
        make,
        kind="partition",
        name=str(number),
        policy=RESTARTED,
        parent=queue,
    )


def _access(config: QueueConfig) -> Access:
    if config.partitioned():
        return Rebalancer(
            config.partition_count,
            delay_ms=config.partition_rebalance_delay_s * 1000,
            handoff_ms=config.partition_rebalance_max_handoff_time_s * 1000,
        )
    return ExclusiveAccess() if config.access_type == EXCLUSIVE else SharedAccess()
