"""A partition of a queue that delivers nothing before it is stored."""

import pytest

from sluicegate.messaging.message.batch import MessageBatch
from sluicegate.messaging.message.outcomes import ACCEPTED, DISCARD_NOT_STORED, FAILED
from sluicegate.messaging.message.publication import Publication
from sluicegate.messaging.partitions.explain import WaitReason, wait_reason
from sluicegate.messaging.partitions.ledger import Ledger
from sluicegate.messaging.partitions.state.flows import DeliveryRules
from support.cores.messages import batch_of, flow_of, published, sequences_of, with_priority

PARTITION_ID = 1


class Stored:
    """A durable ledger of such a queue, and one consumer."""

    def __init__(self, *, after_commit: bool = True, by_priority: bool = False, delivery_delay_ms: int = 0) -> None:
        self.rules = DeliveryRules(
            after_commit=after_commit, by_priority=by_priority, delivery_delay_ms=delivery_delay_ms
        )
        self.ledger = Ledger(durable=True, rules=self.rules)
        self.ledger.attach(flow_of(1, limit=1000), epoch=1)

    def append(self, batch: MessageBatch) -> Publication:
        publication = published(batch)
        publication.sequenced(PARTITION_ID, self.ledger.append(batch, publication), None)
        return publication

    def delivered(self, wall_ms: int = 0) -> list[int]:
        """Return the sequences that the consumer gets now."""
        deliveries = self.ledger.deliver(wall_ms)
        self.ledger.check()
        assert not any(each.redelivered for each in deliveries)
        return [sequence for delivery in deliveries for sequence in sequences_of(delivery)]


def test_nothing_is_delivered_before_it_is_stored() -> None:
    partition = Stored()
    publication = partition.append(batch_of([b"a", b"b"]))
    assert partition.delivered() == []
    assert wait_reason(partition.ledger, 1) is WaitReason.NOT_STORED
    assert not publication.may_be_spared(), "nobody can settle it before it is written"

    publication.confirmed = True

    assert partition.delivered() == [1, 2]


def test_without_the_attribute_a_message_is_delivered_at_once() -> None:
    partition = Stored(after_commit=False)
    partition.append(batch_of([b"a"]))

    assert partition.delivered() == [1]


def test_stored_messages_wait_for_earlier_ones() -> None:
    """Publications of several queues may be stored in another order than that in which they were numbered here."""
    partition = Stored()
    first, second = partition.append(batch_of([b"a"])), partition.append(batch_of([b"b"]))
    second.confirmed = True
    assert partition.delivered() == []

    first.confirmed = True

    assert partition.delivered() == [1, 2]


def test_a_message_that_the_store_refuses_is_delivered_to_no_consumer() -> None:
    partition = Stored()
    refused, stored = partition.append(batch_of([b"a", b"b"])), partition.append(batch_of([b"c"]))
    refused.refused = stored.confirmed = True
    assert partition.ledger.give_up(1, 3, DISCARD_NOT_STORED) == 2

    assert partition.delivered() == [3]
    assert partition.ledger.waiting_count == 1


def test_delayed_messages_still_wait_after_their_commit() -> None:
    partition = Stored(delivery_delay_ms=100)
    publication = partition.append(batch_of([b"a"], received_ms=1000))
    assert partition.delivered(2000) == [], "its time has come, but it is not stored"
    late = partition.append(batch_of([b"b"], received_ms=2000))
    publication.confirmed = late.confirmed = True

    assert partition.delivered(2050) == [1]
    assert partition.delivered(2100) == [2]


def test_a_higher_priority_does_not_go_before_its_commit() -> None:
    partition = Stored(by_priority=True)
    low = partition.append(batch_of([b"low"]))
    high = partition.append(with_priority(batch_of([b"high"]), 9))
    low.confirmed = True
    assert partition.delivered() == [1]

    high.confirmed = True

    assert partition.delivered() == [2]


def test_held_messages_are_released_after_the_attribute_is_switched_off() -> None:
    partition = Stored()
    publication = partition.append(batch_of([b"a"]))
    partition.rules.after_commit = False
    later = partition.append(batch_of([b"b"]))
    publication.confirmed = True

    assert partition.delivered() == [1, 2]
    assert not later.confirmed


@pytest.mark.parametrize(("outcome", "again"), [(ACCEPTED, []), (FAILED, [(1, True)])])
def test_after_its_commit_a_message_is_as_any_other(outcome: int, again: list[tuple[int, bool]]) -> None:
    partition = Stored()
    partition.append(batch_of([b"a"])).confirmed = True
    assert partition.delivered() == [1]

    partition.ledger.settle(1, 1, 2, outcome)

    deliveries = partition.ledger.deliver(0)
    assert [(each.first_sequence, each.redelivered) for each in deliveries] == again


def test_a_purge_takes_what_waits_for_its_commit() -> None:
    partition = Stored()
    partition.append(batch_of([b"a", b"b"]))

    assert partition.ledger.purge() == 2

    partition.ledger.check()
    assert (partition.ledger.waiting_count, partition.ledger.unstored.total) == (0, 0)
