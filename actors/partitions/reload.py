"""Build a new ledger for a partition, in place of one that is inconsistent.

Its messages come from the store. Of the old ledger only this is used: how far its sequences have gone, what the newest
message of a last-value queue has replaced, its usage, and which publications it held that were not in the store when
that was read.
"""

from sluicegate.actors.messages.data import Settled
from sluicegate.actors.messages.spool import Readopted
from sluicegate.messaging.bulk.retained_log import RetainedLog
from sluicegate.messaging.message.address import Address
from sluicegate.messaging.message.outcomes import DISCARD_NOT_STORED, DISCARD_PARTITION_FAILED
from sluicegate.messaging.partitions.ledger import Ledger
from sluicegate.messaging.partitions.recovery import StoredBatch, StoredPartition, restore
from sluicegate.messaging.queues.admission import QueueGate


def fresh_ledger(
    old: Ledger,
    old_log: RetainedLog,
    stored: StoredPartition,
    *,
    partition_id: int,
    gate: QueueGate,
    spool: Address | None,
) -> tuple[Ledger, RetainedLog]:
    """Return a ledger and its log made from the store; no flow is attached to it, nor to the old one now.

    Sequences continue after those assigned, and all messages may have been delivered before. The messages of a queue
    that is never written (`spool` is None) are lost, and counted.
    """
    stored.next_sequence = old.next_sequence
    readopted = [batch.publication for batch in stored.batches]
    found = {batch.first for batch in stored.batches}
    refused_count = 0
    for segment in old.segments.all():
        publication = segment.publication
        if publication is not None and publication.refused:
            refused_count += segment.live_count  # a consumer held it, and it is lost with the ledger
        elif segment.batch is not None and publication is not None and segment.first not in found:
            # Other partitions had yet to number it, so it was not in the store when that was read.
            stored.batches.append(StoredBatch(segment.first, segment.batch, publication))
    ledger = Ledger(durable=old.durable, rules=old.rules)
    ledger.watched_cut = old.watched_cut
    ledger.rescale_holds = None if old.rescale_holds is None else old.rescale_holds.restarted()
    ledger.gone_end = 0 if stored.is_offered_again else old.gone_end
    log = old_log.renewed(ledger)
    if old_log.active:
        log.restore(stored)
    restore(ledger, stored, was_clean=False)
    log.count_rows()
    # From here on the old ledger is released. A failure before this point can be retried.
    released = old.effects
    gate.release(
        min(old.waiting_count + released.released_count, gate.usage_count),
        min(old.waiting_bytes + released.released_bytes, gate.usage_bytes),
    )
    for flow in old.flows.values():
        flow.release()
    ledger.gaps = old.gaps
    ledger.effects.discards = old.effects.discards
    ledger.effects.dead_lettered_counts = old.effects.dead_lettered_counts
    ledger.lock_losses_count = old.lock_losses_count
    ledger.annotations = None if old.annotations is None else old.annotations.cleared()
    if refused_count > 0:
        ledger.effects.discard(DISCARD_NOT_STORED, refused_count)
    lost_count = old.waiting_count - refused_count - ledger.waiting_count
    if lost_count > 0:
        ledger.effects.discard(DISCARD_PARTITION_FAILED, lost_count)
    gate.restore(ledger.waiting_count, ledger.waiting_bytes)
    if spool is not None:
        spool.post(Readopted([each for each in readopted if each.open_count > 0]))
        old_log.abandon()
        old.abandon()
        spool.post(Settled(partition_id, [], old.effects.released_publications, [], True))
    return ledger, log
