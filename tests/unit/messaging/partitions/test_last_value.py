"""A queue that keeps its newest message only, where the store, or a mistake, comes between."""

import pytest

from sluicegate.actors.partitions.reload import fresh_ledger
from sluicegate.messaging.bulk.retained_log import RetainedLog, RetentionRules
from sluicegate.messaging.message.outcomes import ACCEPTED, DISCARD_NOT_STORED, DISCARD_REPLACED
from sluicegate.messaging.partitions.ledger import Ledger
from sluicegate.messaging.partitions.recovery import StoredBatch, StoredPartition
from sluicegate.messaging.partitions.state.flows import DeliveryRules
from sluicegate.messaging.queues.admission import QueueGate
from support.cores.messages import flow_of, numbered, published, sequences_of

PARTITION_ID = 1


def last_value_ledger(*counts: int) -> Ledger:
    """Return a ledger that got so many messages at a time; the store has the first of these publishes."""
    ledger = Ledger(durable=True, rules=DeliveryRules(last_value_only=True))
    for number, count in enumerate(counts):
        publication = published(numbered(count))
        publication.sequenced(PARTITION_ID, ledger.append(publication.batch, publication), None)
        publication.confirmed = number == 0
    return ledger


def delivered(ledger: Ledger) -> list[int]:
    found = [sequence for each in ledger.deliver(1) for sequence in sequences_of(each)]
    ledger.check()
    return found


def test_everything_that_was_refused_together_goes() -> None:
    """One of it was set aside by its own newest: nobody ever gets either, and the one before is the last again."""
    ledger = last_value_ledger(1, 2)
    assert delivered(ledger) == []

    refused = ledger.segments.all()[1].publication
    assert refused is not None
    refused.refused = True
    ledger.give_up(2, 4, DISCARD_NOT_STORED)
    ledger.attach(flow_of(1), 1)

    assert delivered(ledger) == [1]
    assert ledger.effects.discards == {DISCARD_NOT_STORED: 2}


def test_in_flight_messages_are_replaced_by_one_settled_before_it_was_stored() -> None:
    """Given back, it would come to somebody behind the newer one."""
    ledger = last_value_ledger(1)
    ledger.attach(flow_of(1), 1)
    assert delivered(ledger) == [1]
    newer = published(numbered(1))
    newer.sequenced(PARTITION_ID, ledger.append(newer.batch, newer), None)
    assert delivered(ledger) == [2]

    ledger.settle(1, 2, 3, ACCEPTED)

    assert delivered(ledger) == []
    assert ledger.waiting_count == 0
    assert ledger.effects.discards == {DISCARD_REPLACED: 1}


@pytest.mark.parametrize("is_replay", [False, True])
def test_messages_replaced_by_a_settled_one_do_not_return_with_a_new_ledger(is_replay: bool) -> None:
    """The partition fails in the turn of the settlement, before the older one is dropped; a replay may offer that."""
    old = last_value_ledger(1, 1)
    old.attach(flow_of(1), 1)
    assert delivered(old) == [2]
    assert old.settle(1, 2, 3, ACCEPTED) == 1
    first = old.segments.all()[0]
    assert first.batch is not None
    assert first.publication is not None
    stored = StoredPartition(PARTITION_ID)
    stored.batches.append(StoredBatch(1, first.batch, first.publication))
    if is_replay:
        stored.offer_again(1, 2)

    log = RetainedLog(old, RetentionRules())
    gate = QueueGate(None, usage_bytes_max=0, message_bytes_max=100)
    fresh, _ = fresh_ledger(old, log, stored, partition_id=PARTITION_ID, gate=gate, spool=None)
    fresh.attach(flow_of(2), 2)

    assert delivered(fresh) == ([1] if is_replay else [])
    assert fresh.effects.discards.get(DISCARD_REPLACED, 0) == (0 if is_replay else 1)
