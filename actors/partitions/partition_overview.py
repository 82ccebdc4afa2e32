"""What operators see of a partition: its ledger in numbers."""

from sluicegate.actors.messages.queues import PartitionOverview
from sluicegate.messaging.bulk.retained_log import RetainedLog
from sluicegate.messaging.partitions.ledger import Ledger


def overview_of(
    ledger: Ledger,
    log: RetainedLog,
    *,
    number: int,
    partition_id: int,
    delivered_count: int,
    redelivered_count: int,
    settled_count: int,
) -> PartitionOverview:
    """Return how a partition stands; the counts are the partition's own, over all of its ledgers."""
    in_flight = {flow_id: flow.in_flight.total for flow_id, flow in ledger.flows.items()}
    in_flight_count = sum(in_flight.values())
    delayed_count = ledger.delayed.total + ledger.unstored.total + ledger.back_off.total()
    return PartitionOverview(
        number=number,
        partition_id=partition_id,
        waiting_count=ledger.waiting_count,
        waiting_bytes=ledger.waiting_bytes,
        ready_count=ledger.waiting_count - in_flight_count - ledger.leaving.total - delayed_count,
        delayed_count=delayed_count,
        in_flight_count=in_flight_count,
        memory_bytes=ledger.memory_bytes,
        first_unsettled=ledger.floor,
        next_sequence=ledger.next_sequence,
        delivered_count=delivered_count,
        redelivered_count=redelivered_count,
        settled_count=settled_count,
        lock_losses_count=ledger.lock_losses_count,
        remarks_lost_count=0 if ledger.remarks is None else ledger.remarks.lost_count,
        discards=dict(ledger.effects.discards),
        buried=dict(ledger.effects.buried_counts),
        in_flight_by_flow=in_flight,
        kept_from=log.low(),
        kept_bytes=log.settled_bytes(),
        held_count=0 if ledger.holds is None else ledger.holds.count(),
    )
