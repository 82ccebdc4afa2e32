"""A ledger in the place of one that cannot be trusted: what it takes over that the store does not have."""

import pytest

from sluicegate.actors.partitions.reload import fresh_ledger
from sluicegate.messaging.message.outcomes import DISCARD_NOT_STORED
from sluicegate.messaging.partitions.ledger import Ledger
from sluicegate.messaging.partitions.recovery import StoredPartition
from sluicegate.messaging.partitions.state.redelivery import ANNOTATION_BYTES_MAX, DeliveryAnnotations
from sluicegate.messaging.queues.admission import QueueGate
from support.cores.logged_partition import PARTITION_ID, LoggedPartition
from support.cores.messages import batch_of

ENDLESS = 1 << 40


def made_anew(partition: LoggedPartition) -> Ledger:
    """Return a ledger that is made from a store without messages."""
    gate = QueueGate(None, usage_bytes_max=ENDLESS, message_bytes_max=ENDLESS)
    gate.restore(partition.ledger.waiting_count, partition.ledger.waiting_bytes)
    stored = StoredPartition(PARTITION_ID)
    ledger, _ = fresh_ledger(partition.ledger, partition.log, stored, partition_id=PARTITION_ID, gate=gate, spool=None)
    ledger.check()
    return ledger


def test_unstored_messages_are_taken_over_and_refused_ones_are_not() -> None:
    """A consumer had it, and is lost with the ledger: its publisher may send it once more."""
    partition = LoggedPartition()
    refused = partition.append(batch_of([b"refused"]), stored=False)
    partition.deliver()
    refused.refused = True
    partition.append(batch_of([b"on its way"]), stored=False)

    ledger = made_anew(partition)

    assert [segment.batch.payloads() for segment in ledger.segments.all() if segment.batch] == [[b"on its way"]]
    assert ledger.effects.discards == {DISCARD_NOT_STORED: 1}


def test_counters_survive_a_reload() -> None:
    """A counter that falls is taken for one that began anew."""
    partition = LoggedPartition()
    partition.ledger.lock_losses_count = 3
    partition.ledger.annotations = DeliveryAnnotations()
    partition.ledger.annotations.add(1, 3, bytes(ANNOTATION_BYTES_MAX + 1))

    ledger = made_anew(partition)

    assert ledger.lock_losses_count == 3
    assert ledger.annotations is not None
    assert ledger.annotations.lost_count == 2


def test_a_log_that_cannot_be_made_leaves_publications_as_they_were() -> None:
    """What was settled long ago is the log's alone."""
    partition = LoggedPartition()
    partition.log.hold("reader", 1)
    partition.look_after()
    settled = partition.append(batch_of([b"a"]))
    publication = partition.append(batch_of([b"b"]), stored=False)
    counts = [settled.open_count, publication.open_count]
    stored = StoredPartition(PARTITION_ID)
    stored.floor = 2
    stored.pages.append("damaged")  # type: ignore[arg-type]  # as no store of ours writes it
    gate = QueueGate(None, usage_bytes_max=ENDLESS, message_bytes_max=ENDLESS)

    with pytest.raises((TypeError, AttributeError)):  # compiled, or not
        fresh_ledger(partition.ledger, partition.log, stored, partition_id=PARTITION_ID, gate=gate, spool=None)

    assert [settled.open_count, publication.open_count] == counts


def test_a_ledger_that_cannot_be_made_leaves_publications_as_they_were() -> None:
    """It is tried again: what counted each time would stay in the journal for good."""
    partition = LoggedPartition()
    publication = partition.append(batch_of([b"a", b"b"]), stored=False)
    open_count = publication.open_count
    stored = StoredPartition(PARTITION_ID)
    stored.redelivered.append((1, "damaged", 0))  # type: ignore[arg-type]  # as no store of ours writes it
    gate = QueueGate(None, usage_bytes_max=ENDLESS, message_bytes_max=ENDLESS)

    with pytest.raises(TypeError):
        fresh_ledger(partition.ledger, partition.log, stored, partition_id=PARTITION_ID, gate=gate, spool=None)

    assert publication.open_count == open_count
