"""What a consumer was handed and never sent is, when its flow ends, as if nobody had been given it [MQTT 3.3.2-5]."""

from sluicegate.messaging.message.outcomes import DISCARD_EXPIRED, DISCARD_NOT_STORED
from sluicegate.messaging.message.publication import Publication
from sluicegate.messaging.partitions.ledger import Ledger
from sluicegate.messaging.partitions.state.flows import DeliveryRules
from sluicegate.messaging.partitions.suspended_flows import release_unsent
from support.cores.messages import batch_of, flow_of, published, sequences_of

GONE, OTHER = 1, 2
EXPIRES_MS = 50


def delivered_to_one(*, redelivers: bool = True) -> tuple[Ledger, Publication]:
    """Return a partition whose three messages one flow holds; the second expires unless it was sent before."""
    ledger = Ledger(
        durable=True, rules=DeliveryRules(respects_expiry=True, expires_once_delivered=False, redelivers=redelivers)
    )
    publication = published(batch_of([b"a", b"b", b"c"], expires_at_ms=[0, EXPIRES_MS, 0]))
    publication.sequenced(1, ledger.append(publication.batch, publication), None)
    ledger.attach(flow_of(GONE), epoch=1)
    ledger.deliver(1)
    return ledger, publication


def seen_by_another(ledger: Ledger, *, at_ms: int) -> list[tuple[list[int], bool, int]]:
    """Return what comes to another flow: sequences, whether they are redelivered, and which delivery that is."""
    ledger.detach(GONE, count_as_failed=True)
    ledger.attach(flow_of(OTHER), epoch=2)
    return [(list(sequences_of(each)), each.redelivered, each.delivery_count) for each in ledger.deliver(at_ms)]


def test_unsent_messages_come_to_the_next_consumer_for_the_first_time() -> None:
    ledger, _ = delivered_to_one()
    release_unsent(ledger, GONE, 1, [(2, 4)])
    assert seen_by_another(ledger, at_ms=2) == [([1], True, 2), ([2, 3], False, 1)]
    ledger.check()


def test_unsent_messages_expire() -> None:
    ledger, _ = delivered_to_one()
    release_unsent(ledger, GONE, 1, [(1, 4)])
    assert seen_by_another(ledger, at_ms=EXPIRES_MS) == [([1], False, 1), ([3], False, 1)]
    assert ledger.effects.discards == {DISCARD_EXPIRED: 1}


def test_unsent_messages_expire_although_no_consumer_comes() -> None:
    ledger, _ = delivered_to_one()
    release_unsent(ledger, GONE, 1, [(1, 4)])
    ledger.detach(GONE, count_as_failed=True)
    ledger.deliver(EXPIRES_MS)
    assert ledger.effects.discards == {DISCARD_EXPIRED: 1}


def test_possibly_sent_messages_do_not_expire() -> None:
    ledger, _ = delivered_to_one()
    assert seen_by_another(ledger, at_ms=EXPIRES_MS) == [([1, 2, 3], True, 2)]


def test_a_flow_that_gives_back_gets_nothing_more() -> None:
    ledger, _ = delivered_to_one()
    release_unsent(ledger, GONE, 1, [(1, 4)])
    assert ledger.deliver(2) == []


def test_a_release_under_another_flow_or_epoch_has_no_effect() -> None:
    ledger, _ = delivered_to_one()
    release_unsent(ledger, GONE, 2, [(1, 4)])
    release_unsent(ledger, OTHER, 1, [(1, 4)])
    assert ledger.in_flight_count(GONE) == 3


def test_unsent_messages_are_kept_where_nothing_is_redelivered() -> None:
    ledger, _ = delivered_to_one(redelivers=False)
    release_unsent(ledger, GONE, 1, [(2, 4)])
    assert seen_by_another(ledger, at_ms=2) == [([2, 3], False, 1)]


def test_its_publication_is_written_at_once_for_a_message_that_no_consumer_has() -> None:
    ledger, publication = delivered_to_one()
    assert publication.may_be_spared()
    release_unsent(ledger, GONE, 1, [(2, 3)])
    assert not publication.may_be_spared()


def test_unsent_messages_that_the_store_refused_are_dropped() -> None:
    """It was promised to nobody, and its publisher sends it once more."""
    ledger, publication = delivered_to_one()
    publication.refused = True
    release_unsent(ledger, GONE, 1, [(1, 4)])
    assert ledger.effects.discards == {DISCARD_NOT_STORED: 3}
    assert ledger.waiting_count == 0
