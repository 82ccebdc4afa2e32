"""Read what the store holds into the forms that actors start from, and write what the next start needs."""

import logging
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from sluicegate.actors.messages.partitions import ClosedLedger
from sluicegate.messaging.message.publication import Publication
from sluicegate.messaging.partitions.recovery import StoredPartition
from sluicegate.messaging.routing.routes import TopicSpace
from sluicegate.storage.catalog.partition_owners import find_lost
from sluicegate.storage.catalog.queues import PartitionIds, staging_partition_id
from sluicegate.storage.catalog.recovered import NOTHING_STORED, StoredVpn, read_partitions, read_vpns
from sluicegate.storage.catalog.vpn_rows import deletion_jobs, is_being_deleted
from sluicegate.storage.commit.planner import LOG_BYTES_MAX, LOG_SHARE_MAX, CommitPlanner
from sluicegate.storage.errors import StorageError
from sluicegate.storage.interface import Store
from sluicegate.storage.records.cursor import CursorRecord
from sluicegate.storage.records.retained import decode_retained

log = logging.getLogger("sluicegate.spool")


@dataclass(slots=True)
class Recovered:
    """What the store holds when a node starts."""

    planner: CommitPlanner
    partitions: dict[int, StoredPartition]
    vpns: dict[str, StoredVpn]
    partition_ids: PartitionIds
    was_clean: bool
    incarnation: int
    records: list[tuple[int, list[Publication]]] = field(default_factory=list)
    damaged_count: int = 0
    unapplied_count: int = 0  # records of the log that the stored cursors do not include

    def stored(self, vpn: str) -> StoredVpn:
        """Return what the store has of a message VPN, or nothing."""
        return self.vpns.get(vpn, NOTHING_STORED)


def read_store(store: Store, *, is_replicated: bool = False) -> Recovered:
    """Read everything but the pages' contents, after deletions that were interrupted. Raises StorageError.

    `is_replicated`: other machines have the log as well, see `CommitPlanner`.
    """
    recovery = store.recover()
    partitions, records = read_partitions(recovery)
    vpns = read_vpns(recovery.tables)
    set_aside = list(recovery.quarantined)
    if _finish_deletions(store, vpns, recovery.next_record_number):
        recovery = store.recover()
        partitions, records = read_partitions(recovery)
        vpns = read_vpns(recovery.tables)
        set_aside += [entry for entry in recovery.quarantined if entry not in set_aside]
    partition_ids = find_lost(vpns, partitions)
    if recovery.torn:
        log.info("%s", recovery.torn)
    for entry in set_aside:
        log.error("%s was set aside: %s (%s)", entry.where, entry.reason, entry.detail)
    usage = store.usage()
    planner = CommitPlanner(
        next_record_number=recovery.next_record_number,
        log_bytes_max=min(LOG_BYTES_MAX, usage.map_bytes_max // LOG_SHARE_MAX),
        confirms_elided_late=is_replicated,
    )
    if usage.is_sparse:
        planner.checkpoints.log_spent()
    return Recovered(
        planner=planner,
        partitions=partitions,
        vpns=vpns,
        partition_ids=partition_ids,
        was_clean=recovery.was_clean,
        incarnation=recovery.incarnation,
        records=records,
        damaged_count=len(set_aside),
        unapplied_count=recovery.next_record_number - 1 - recovery.applied,
    )


def _finish_deletions(store: Store, vpns: dict[str, StoredVpn], next_record_number: int) -> bool:
    """Delete the message VPNs whose deletion an earlier process did not finish. Return whether there were any.

    A store without room for it is served as it is, with these message VPNs shut down: the next start tries again.
    """
    names = [name for name, stored in vpns.items() if is_being_deleted(stored.catalog)]
    for name in names:
        try:
            for job in deletion_jobs(name, vpns[name], next_record_number):
                next_record_number = store.commit(replace(job, number=next_record_number))
        except StorageError as error:
            log.error("message VPN %r is not deleted completely yet; the next start tries again: %s", name, error)
            break
        log.info("message VPN %r was being deleted when the last process ended; its deletion is finished", name)
    return bool(names)


def register_partitions(recovered: Recovered, partition_ids: Iterable[int]) -> None:
    """Open the spool's accounts: of the partitions of queues and of staged transactions, and of the journal."""
    planner = recovered.planner
    staging_ids = [staging_partition_id(name, vpn.catalog) for name, vpn in recovered.vpns.items()]
    for partition_id in (*partition_ids, *(each for each in staging_ids if each is not None)):
        stored = recovered.partitions.get(partition_id)
        if stored is None:
            planner.register(partition_id, floor=1, next_sequence_reserved=1)
            planner.reserve(partition_id, 1)
            continue
        cursor = planner.register(partition_id, floor=stored.floor, next_sequence_reserved=stored.next_sequence)
        for first, end in stored.settled.ranges():
            cursor.settle(first, end)
    for number, publications in recovered.records:
        planner.recovered(number, publications)
    planner.checkpoints.recovered(recovered.unapplied_count)


def restore_retained(stored: StoredVpn, space: TopicSpace) -> None:
    """Put the stored retained messages into a topic space, whatever its limits. The memory of the rows is reused."""
    rows = stored.retained
    for key in list(rows):
        version, batch = decode_retained(rows.pop(key), space.retained.clock.broker)
        space.retained.restore(key.decode(), version, batch)


def last_cursors(closed: list[ClosedLedger], planner: CommitPlanner) -> list[CursorRecord]:
    """Return the cursors of a clean stop: the exact state of every partition.

    With them the next start skips no sequences, and knows which waiting messages were delivered before.
    """
    states = []
    for each in closed:
        cursor = planner.cursors[each.partition_id]
        cursor.next_sequence_reserved = each.next_sequence
        # What a replay offers again lies below the floor, and does not outlive the node.
        redelivered = [
            (max(first, cursor.floor), end, count) for first, end, count in each.redelivered if end > cursor.floor
        ]
        delays = tuple([delay for delay in each.delays if delay[0] >= cursor.floor])
        states.append(cursor.state(redelivered, delays))
    return states
