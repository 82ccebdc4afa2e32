"""What a node brings back after a crash or a clean stop: exactly what the store promised.

The planner, the ledgers and all record formats are the real ones; only LMDB is a dict.
"""

from hypothesis import settings

from sluicegate.messaging.message.batch import MessageBatch
from sluicegate.messaging.message.publication import Publication
from sluicegate.messaging.partitions.ledger import Ledger
from sluicegate.messaging.partitions.recovery import StoredBatch, StoredPage, StoredPartition, restore
from sluicegate.messaging.partitions.state.flows import DeliveryRules
from sluicegate.messaging.partitions.state.segments import marks_of
from support.cores.messages import flow_of, numbered, published, sequences_of
from support.cores.spool_machine import SpoolMachine
from support.thorough import examples

TestTheSpoolKeepsItsPromises = SpoolMachine.TestCase
TestTheSpoolKeepsItsPromises.settings = settings(max_examples=examples(200), stateful_step_count=80, deadline=None)


def stored_with(
    *, floor: int = 1, settled: list[tuple[int, int]] | None = None, next_sequence: int = 1
) -> StoredPartition:
    """Return what a store might hold of a partition."""
    stored = StoredPartition(7)
    stored.floor = floor
    stored.next_sequence = next_sequence
    for first, end in settled or []:
        stored.settle(first, end)
    return stored


def stored_batch(first: int, batch: MessageBatch) -> StoredBatch:
    publication: Publication = published(batch, partitions_count=0)
    publication.record_number = 1
    return StoredBatch(first, batch, publication)


def restored(stored: StoredPartition, *, was_clean: bool = False) -> Ledger:
    ledger = Ledger(durable=True, rules=DeliveryRules())
    restore(ledger, stored, was_clean=was_clean)
    ledger.check()
    return ledger


def unsettled(ledger: Ledger) -> list[int]:
    ledger.attach(flow_of(1), epoch=1)
    return [sequence for delivery in ledger.deliver(0) for sequence in sequences_of(delivery)]


def test_after_a_crash_everything_may_have_been_delivered_before() -> None:
    stored = stored_with(floor=2, next_sequence=100)
    stored.batches.append(stored_batch(1, numbered(3)))
    ledger = restored(stored)
    ledger.append(numbered(1), None)
    ledger.attach(flow_of(1), epoch=1)

    shown = [ledger.was_delivered(sequence) for sequence in (2, 3, 100)]
    told = [(list(sequences_of(each)), each.redelivered) for each in ledger.deliver(0)]

    assert shown == [True, True, False], "a browser says so before a consumer has them"
    assert told == [([2, 3], True), ([100], False)]


def test_batches_whose_commits_were_made_in_another_order_come_back_in_their_own() -> None:
    """A publication to several queues is committed when the last has numbered it: later ones may be before it."""
    stored = stored_with(next_sequence=7)
    stored.batches = [stored_batch(4, numbered(3, start=4)), stored_batch(1, numbered(3))]

    assert unsettled(restored(stored)) == [1, 2, 3, 4, 5, 6]


def test_sequences_that_were_reserved_and_not_used_are_settled_once_and_for_all() -> None:
    """A later page may span them: nothing must take them for messages."""
    stored = stored_with(next_sequence=1000)
    stored.batches.append(stored_batch(5, numbered(2)))

    ledger = restored(stored)

    assert ledger.effects.settled == [(1, 5), (7, 1000)]
    assert unsettled(ledger) == [5, 6]


def test_a_page_with_gaps_that_were_settled_keeps_all_the_messages_in_it() -> None:
    """A page of 1-10 and 21-30: 11-20 were settled before it was written, and count as settled once."""
    stored = stored_with(settled=[(11, 21)], next_sequence=31)
    stored.pages.append(StoredPage(1, 31, usage_bytes=200, message_count=20, marks=marks_of(numbered(1))))

    ledger = restored(stored)

    assert ledger.waiting_count == 20
    assert ledger.waiting_bytes == 200


def test_a_page_of_which_nothing_is_unsettled_is_dropped_at_the_start() -> None:
    """It was settled, and the power failed before the commit that deletes it."""
    stored = stored_with(floor=11, next_sequence=11)
    stored.pages.append(StoredPage(1, 6, usage_bytes=50, message_count=5, marks=marks_of(numbered(1))))

    assert restored(stored).effects.dropped_pages == [1]


def test_a_batch_that_is_in_a_page_as_well_counts_once() -> None:
    """The page was written, and the journal record had not been deleted yet."""
    stored = stored_with(next_sequence=4)
    stored.batches.append(stored_batch(1, numbered(3)))
    stored.pages.append(StoredPage(1, 4, usage_bytes=3, message_count=3, marks=marks_of(numbered(1))))

    ledger = restored(stored)

    assert ledger.waiting_count == 3
    assert stored.batches[0].publication.open_count == 0, "the journal may let it go"


def test_settlements_below_and_around_the_cursor_meet() -> None:
    stored = stored_with(settled=[(2, 4), (8, 12), (15, 16)], next_sequence=20)
    stored.floor = 9
    stored.batches.append(stored_batch(10, numbered(8)))

    ledger = restored(stored)

    assert ledger.floor == 12
    assert unsettled(ledger) == [12, 13, 14, 16, 17]


def test_records_of_earlier_deliveries_are_dropped_with_their_messages() -> None:
    """The record that held 3 and 4 was damaged and set aside."""
    stored = stored_with(next_sequence=7)
    stored.redelivered = [(1, 3, 0), (3, 6, 2)]
    stored.batches += [stored_batch(1, numbered(2)), stored_batch(5, numbered(2))]
    ledger = restored(stored, was_clean=True)
    ledger.attach(flow_of(1), epoch=1)

    told = [(list(sequences_of(each)), each.redelivered, each.delivery_count) for each in ledger.deliver(0)]

    assert told == [([1, 2], True, 1), ([5], True, 3), ([6], False, 1)]


def test_failed_deliveries_known_from_a_clean_stop_survive_a_crash_after_it() -> None:
    stored = stored_with(next_sequence=4)
    stored.redelivered = [(1, 2, 2)]
    stored.batches.append(stored_batch(1, numbered(3)))
    ledger = restored(stored, was_clean=False)
    ledger.attach(flow_of(1), epoch=1)

    told = [(list(sequences_of(each)), each.redelivered, each.delivery_count) for each in ledger.deliver(0)]

    assert told == [([1], True, 3), ([2, 3], True, 1)]


def test_no_sequence_that_the_store_has_heard_of_is_used_again() -> None:
    """The cursor with the reservation was damaged; a settlement in the journal names the highest sequence."""
    assert restored(stored_with(settled=[(40, 50)])).next_sequence == 50
