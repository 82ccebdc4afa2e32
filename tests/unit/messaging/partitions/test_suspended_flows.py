"""Messages that stay with a consumer whose client is away: to nobody else, and not lost [MQTT 4.8.2-4, 4.8.2-5]."""

from hypothesis import given
from hypothesis import strategies as st

from sluicegate.messaging.message.address import Address
from sluicegate.messaging.message.outcomes import (
    ACCEPTED,
    DISCARD_DAMAGED,
    DISCARD_SESSION_ENDED,
    FAILED,
    RELEASED,
    WHICHEVER,
)
from sluicegate.messaging.partitions.explain import WaitReason, wait_reason
from sluicegate.messaging.partitions.ledger import Ledger
from sluicegate.messaging.partitions.paging import PagePlan, page_damaged, page_loaded, pages_written, plan_pages
from sluicegate.messaging.partitions.rules.in_flight import annotate
from sluicegate.messaging.partitions.rules.selection import has_more_for
from sluicegate.messaging.partitions.state.flows import DeliveryRules
from sluicegate.messaging.partitions.suspended_flows import (
    deliver_again,
    discard_resends,
    has_resends,
    release_resends,
    resend,
    restore_suspended,
    resume,
    suspend,
    unsettled_among,
)
from sluicegate.messaging.queues.credit import CreditPool, CreditWindow
from support.cores.messages import flow_of, numbered, published, sequences_of

ABSENT, OTHER = 1, 2


def ledger_with(count: int) -> Ledger:
    """A partition with so many messages, stored in record 1."""
    ledger = Ledger(durable=True, rules=DeliveryRules())
    publication = published(numbered(count))
    publication.sequenced(1, ledger.append(publication.batch, publication), None)
    publication.record_number = 1
    publication.confirmed = True
    return ledger


def delivered(ledger: Ledger) -> dict[int, list[int]]:
    """Deliver what can be, and return the sequences by flow."""
    found: dict[int, list[int]] = {}
    for delivery in [*resend(ledger), *ledger.deliver(0)]:
        found.setdefault(delivery.flow.flow_id, []).extend(sequences_of(delivery))
    ledger.check()
    return found


def parked_in_a_page() -> tuple[Ledger, PagePlan]:
    """Return a ledger whose three messages wait for an absent client, and the page in which they lie."""
    ledger = ledger_with(3)
    ledger.attach(flow_of(ABSENT), 1)
    delivered(ledger)
    suspend(ledger, ABSENT, [(1, 4)])
    (plan,) = plan_pages(ledger, page_bytes=1000, bytes_to_free=1000, through_record=None)
    pages_written(ledger, plan)
    return ledger, plan


def test_resent_messages_have_their_own_delivery_count() -> None:
    ledger = ledger_with(3)
    ledger.attach(flow_of(ABSENT), 1)
    ledger.deliver(0)
    ledger.settle(ABSENT, 2, 3, FAILED)
    ledger.deliver(0)
    suspend(ledger, ABSENT, [(1, 4)])
    resume(ledger, flow_of(ABSENT))
    assert [(each.first_sequence, each.delivery_count) for each in resend(ledger)] == [(1, 1), (2, 2), (3, 1)]


@given(
    count=st.integers(1, 30),
    kept=st.sets(st.integers(1, 30)),
    limit=st.integers(1, 8),
    was_restarted=st.booleans(),
    comes_back=st.booleans(),
)
def test_kept_messages_go_to_their_client_only(
    count: int, kept: set[int], limit: int, was_restarted: bool, comes_back: bool
) -> None:
    """Goal: kept messages reach their client and nobody else, the others are not lost. Method: settle all, compare."""
    ledger = ledger_with(count)
    ranges = [(each, each + 1) for each in sorted(kept)]
    if was_restarted:
        restore_suspended(ledger, flow_of(ABSENT, limit=0), 1, ranges)
    else:
        ledger.attach(flow_of(ABSENT), 1)
        assert delivered(ledger) == {ABSENT: list(range(1, count + 1))}
        suspend(ledger, ABSENT, ranges)
    stays = sorted(each for each in kept if each <= count)
    ledger.attach(flow_of(OTHER), 2)
    others = delivered(ledger).get(OTHER, [])
    assert sorted(others) == [each for each in range(1, count + 1) if each not in kept]
    for each in others:
        assert ledger.settle(OTHER, each, each + 1, ACCEPTED) == 1
    assert ledger.purge() == 0
    left = unsettled_among(ledger, [(0, 1), (1, count + 5)])
    assert [each for first, end in left for each in range(first, end)] == stays

    returned = flow_of(ABSENT, limit=limit)
    found: list[int] = []
    if comes_back:
        resume(ledger, returned)
        while len(found) < len(stays):
            (its,) = delivered(ledger).values()
            assert len(its) == min(limit, len(stays) - len(found))
            assert ledger.effects.starved_flows == ([returned] if len(found) + len(its) < len(stays) else [])
            ledger.effects.starved_flows.clear()
            for each in its:
                assert ledger.settle(ABSENT, each, each + 1, ACCEPTED) == 1
            returned.window.give(len(its))
            found += its
        assert found == stays
        assert ledger.effects.discards == {}
    else:
        discard_resends(ledger, ABSENT)
        ledger.detach(ABSENT, count_as_failed=True)
        assert delivered(ledger) == {}
        assert ledger.effects.discards == ({DISCARD_SESSION_ENDED: len(stays)} if stays else {})
    assert not has_resends(ledger)
    assert ledger.waiting_count == 0


def test_kept_messages_are_delivered_within_the_credit_pool() -> None:
    ledger = ledger_with(3)
    ledger.attach(flow_of(ABSENT), 1)
    delivered(ledger)
    suspend(ledger, ABSENT, [(1, 4)])
    pool: CreditPool[Address] = CreditPool(2)
    resume(ledger, flow_of(ABSENT, window=CreditWindow(10, pool)))
    assert delivered(ledger) == {ABSENT: [1, 2]}
    assert has_resends(ledger)


def test_messages_not_resent_to_a_returned_client_are_for_others_when_it_leaves() -> None:
    """Its session goes on. What a full window kept from it is nobody's loss."""
    ledger = ledger_with(3)
    ledger.attach(flow_of(ABSENT), 1)
    delivered(ledger)
    suspend(ledger, ABSENT, [(1, 4)])
    resume(ledger, flow_of(ABSENT, limit=1))
    assert delivered(ledger) == {ABSENT: [1]}

    discard_resends(ledger, ABSENT)
    ledger.detach(ABSENT, count_as_failed=True)
    ledger.attach(flow_of(OTHER), 2)

    assert delivered(ledger) == {OTHER: [1, 2, 3]}
    assert ledger.effects.discards == {}


def test_messages_that_a_restart_finds_settled_stay_with_no_consumer() -> None:
    """The ids of a session's row may be older than the settlements in the journal."""
    ledger = ledger_with(4)
    ledger.attach(flow_of(OTHER), 1)
    delivered(ledger)
    ledger.settle(OTHER, 2, 3, ACCEPTED)
    ledger.detach(OTHER, count_as_failed=False)
    restore_suspended(ledger, flow_of(ABSENT), 2, [(2, 4)])
    ledger.attach(flow_of(OTHER), 3)
    assert delivered(ledger) == {OTHER: [1, 4]}


def test_messages_a_suspended_flow_did_not_settle_in_time_outlive_its_session() -> None:
    """`consumer_ack_timeout_ms`: it is the queue's again, and perhaps somebody else's."""
    ledger = ledger_with(2)
    ledger.rules.ack_timeout_ms = 10
    ledger.attach(flow_of(ABSENT), 1)
    ledger.deliver(1)
    suspend(ledger, ABSENT, [(1, 3)])
    ledger.attach(flow_of(OTHER), 2)
    ledger.deliver(1000)
    assert ledger.settle(OTHER, 1, 2, ACCEPTED) == 1

    discard_resends(ledger, ABSENT)
    ledger.detach(ABSENT, count_as_failed=True)

    ledger.check()
    assert ledger.effects.discards == {}
    assert ledger.settle(OTHER, 2, 3, ACCEPTED) == 1


def test_paged_messages_are_read_for_the_returned_client() -> None:
    ledger, plan = parked_in_a_page()
    resume(ledger, flow_of(ABSENT))
    assert delivered(ledger) == {}
    assert ledger.effects.wanted_pages == [1]
    page_loaded(ledger, 1, plan.runs)
    assert delivered(ledger) == {ABSENT: [1, 2, 3]}


def test_new_messages_wait_while_pages_of_kept_ones_are_read() -> None:
    """It would come first, and be out of order."""
    ledger, plan = parked_in_a_page()
    ledger.append(numbered(2), None)
    resume(ledger, flow_of(ABSENT))
    assert delivered(ledger) == {}
    assert has_more_for(ledger, ABSENT)
    assert wait_reason(ledger, 4) is WaitReason.BEHIND_OTHERS

    page_loaded(ledger, 1, plan.runs)

    assert delivered(ledger) == {ABSENT: [1, 2, 3, 4, 5]}
    assert not has_more_for(ledger, ABSENT)


def test_resends_are_kept_while_a_partition_changes_owner() -> None:
    """AMQP 2.6.13, where its owner is asked to settle, and stays its owner."""
    ledger = ledger_with(3)
    flow = flow_of(OTHER)
    ledger.attach(flow, 1)
    delivered(ledger)
    deliver_again(ledger, OTHER, 1, [(1, 2)])
    ledger.pause(OTHER)
    assert delivered(ledger) == {}
    assert has_resends(ledger)
    ledger.attach(flow, 1)
    assert delivered(ledger) == {OTHER: [1]}
    assert not has_resends(ledger)


def test_messages_of_a_damaged_page_are_given_up() -> None:
    """Else the client would be waited for, and its page be asked for, without end."""
    ledger, _ = parked_in_a_page()
    resume(ledger, flow_of(ABSENT))
    delivered(ledger)
    release_resends(ledger, 1)
    assert page_damaged(ledger, 1) == 3
    assert delivered(ledger) == {}
    assert ledger.effects.discards == {DISCARD_DAMAGED: 3}
    assert not has_resends(ledger)


def test_messages_of_a_damaged_part_of_a_page_are_lost_and_the_rest_is_resent() -> None:
    ledger, _ = parked_in_a_page()
    resume(ledger, flow_of(ABSENT))
    delivered(ledger)
    page_loaded(ledger, 1, [(1, numbered(2))])
    assert delivered(ledger) == {ABSENT: [1, 2]}
    assert ledger.effects.discards == {DISCARD_DAMAGED: 1}
    assert not has_resends(ledger)
    ledger.check()


def test_a_flow_is_resent_its_own_messages_only() -> None:
    """AMQP 2.6.13: a delivery that is resumed is sent again; it is still the flow's, and stays so."""
    ledger = ledger_with(6)
    ledger.attach(flow_of(ABSENT), 1)
    ledger.attach(flow_of(OTHER, limit=0), 2)
    assert delivered(ledger) == {ABSENT: [1, 2, 3, 4, 5, 6]}
    ledger.settle(ABSENT, 2, 3, ACCEPTED)
    annotate(ledger, ABSENT, 1, [(4, 5)], WHICHEVER, b"noted")

    assert deliver_again(ledger, ABSENT, 1, [(1, 5)]) == [(1, 2), (3, 5)]
    assert deliver_again(ledger, ABSENT, 0, [(5, 6)]) == [], "an old epoch"

    again = resend(ledger)
    assert [(list(sequences_of(each)), each.delivery_count, each.annotation) for each in again] == [
        ([1], 1, b""),
        ([3], 1, b""),
        ([4], 1, b"noted"),
    ]
    assert ledger.in_flight_count(ABSENT) == 5
    ledger.check()


def test_messages_taken_back_before_their_resend_do_not_go_to_two_consumers() -> None:
    ledger = ledger_with(3)
    ledger.attach(flow_of(ABSENT, limit=3), 1)
    assert delivered(ledger) == {ABSENT: [1, 2, 3]}
    deliver_again(ledger, ABSENT, 1, [(1, 4)])
    ledger.settle(ABSENT, 1, 3, RELEASED)
    ledger.attach(flow_of(OTHER), 2)
    ledger.flows[ABSENT].flow.window.give(3)

    assert [list(sequences_of(each)) for each in resend(ledger)] == [[3]]
    ledger.pause(ABSENT)
    assert delivered(ledger) == {OTHER: [1, 2]}
