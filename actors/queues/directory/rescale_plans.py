"""Rescale plans: the new partitions are started, and the plan is stored, before a rescale begins.

`actors.queues.rescale` carries a plan out. messaging.queues.assignment.slots decides which slots move.
"""

from sluicegate.actors.messages.directory import LocalQueue
from sluicegate.actors.messages.queues import AddedPartition, RescaleQueue
from sluicegate.actors.messages.spool import PurgeFromStore, RegisterPartition
from sluicegate.actors.queues.assembly import QueueServices, log_for, start_partition
from sluicegate.messaging.partitions.ledger import Ledger
from sluicegate.messaging.queues.assignment.slots import Rescale, modulo_slots, resized_slots
from sluicegate.storage.catalog.queues import StoredQueue


class RescalePlans:
    """Plans that are being stored. A queue has at most one; a later request comes next."""

    def __init__(self, services: QueueServices) -> None:
        self._services = services
        self._planned: dict[str, RescaleQueue] = {}

    def pending(self, name: str) -> RescaleQueue | None:
        """Return the plan that a queue has not begun yet."""
        planned = self._planned.get(name)
        return None if planned is None or planned.begun else planned

    def plan(self, handle: LocalQueue) -> RescaleQueue | None:
        """Plan the change to the configured count; None when the queue has it, or a rescale is in progress."""
        target, core = handle.target, self._services.cores[handle.name]
        count_before = len(target.partitions)
        count = max(1, handle.definition.config.partition_count)
        if count == count_before or core.rescale is not None or self.pending(handle.name) is not None:
            return None
        slots_before = modulo_slots(count_before) if target.slots is None else target.slots
        slots = resized_slots(slots_before, count_before, count)
        rescale = Rescale(count_before=count_before, count=count, slots_before=slots_before, slots=slots)
        added: list[AddedPartition] = []
        ids = self._services.partition_ids.take(max(0, count - count_before))
        for number, partition_id in enumerate(ids, start=count_before):
            ledger = Ledger(durable=handle.durable, rules=core.rules)
            log = log_for(self._services, core, ledger, partition_id)
            cell = start_partition(self._services, handle.cell, log, number, partition_id, target)
            added.append(AddedPartition(partition_id, cell))
            if handle.durable:
                self._services.spool.post(RegisterPartition(partition_id, cell.inbox, 1))
        planned = self._planned[handle.name] = RescaleQueue(rescale, added)
        return planned

    def stored_queue(self, handle: LocalQueue) -> StoredQueue:
        """Return the catalog row of a queue, including its plan."""
        partition_ids = [partition.partition_id for partition in handle.target.partitions]
        slots, rescale = handle.target.slots, self._services.cores[handle.name].rescale
        planned = self.pending(handle.name)
        if planned is not None:
            partition_ids += [each.partition_id for each in planned.added]
            slots, rescale = planned.rescale.slots, planned.rescale
        is_lost = handle.definition_lost
        return StoredQueue(handle.definition, handle.kind, partition_ids, slots, rescale, is_lost, handle.move)

    def begin(self, handle: LocalQueue, planned: RescaleQueue | None) -> None:
        """Have the queue carry out its plan, if any: it is stored."""
        if planned is not None and self.pending(handle.name) is planned:
            handle.cell.inbox.post(planned)

    def drop(self, handle: LocalQueue, planned: RescaleQueue | None) -> None:
        """Drop a plan that has not begun, if any: it could not be stored, or the queue is gone."""
        if planned is None or self.pending(handle.name) is not planned:
            return
        del self._planned[handle.name]
        for each in planned.added:
            each.cell.stop()
            if handle.durable:
                self._services.spool.post(PurgeFromStore(each.partition_id))
