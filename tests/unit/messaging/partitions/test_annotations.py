"""What consumers put on messages they give back, and whether a partition has more for one of them."""

from hypothesis import given
from hypothesis import strategies as st

from sluicegate.messaging.message.address import Address
from sluicegate.messaging.message.outcomes import ACCEPTED, RELEASED, WHICHEVER
from sluicegate.messaging.partitions.ledger import Ledger
from sluicegate.messaging.partitions.rules.in_flight import annotate
from sluicegate.messaging.partitions.rules.selection import has_more_for
from sluicegate.messaging.partitions.state.flows import DeliveryRules
from sluicegate.messaging.partitions.state.redelivery import (
    ANNOTATION_BYTES_MAX,
    ANNOTATIONS_BYTES_MAX,
    DeliveryAnnotations,
)
from sluicegate.messaging.queues.credit import CreditWindow
from support.cores.messages import flow_of, numbered

SEQUENCES = st.integers(1, 12)
STEPS = st.lists(st.tuples(SEQUENCES, st.integers(1, 4), st.sampled_from([b"", b"a", b"b" * 2000])), max_size=30)


@given(steps=STEPS)
def test_remarks_agree_with_a_dictionary(steps: list[tuple[int, int, bytes]]) -> None:
    """Law: what was added is there in order, until it is forgotten; a run ends before or behind a message with some."""
    remarks = DeliveryAnnotations()
    model: dict[int, bytes] = {}
    lost_count = 0
    for first, count, text in steps:
        if text:
            remarks.add(first, first + count, text)
        else:
            remarks.forget(first, first + count)
        for sequence in range(first, first + count):
            longer = model.get(sequence, b"") + text
            if not text:
                model.pop(sequence, None)
            elif len(longer) > ANNOTATION_BYTES_MAX:
                lost_count += 1
            else:
                model[sequence] = longer
        assert remarks.by_sequence == model
        assert remarks.lost_count == lost_count
        stop = remarks.alike_until(first, 20)
        assert stop == first + 1 if first in model else not model.keys() & range(first, stop)
        assert stop == 20 or first in model or stop in model


def test_the_remarks_of_a_partition_have_a_bound_together_and_make_room_when_they_go() -> None:
    """decision 0012: 1 MiB; what does not fit is counted."""
    remarks = DeliveryAnnotations()
    count = ANNOTATIONS_BYTES_MAX // ANNOTATION_BYTES_MAX
    remarks.add(1, 1 + count, b"x" * ANNOTATION_BYTES_MAX)
    remarks.add(1 + count, 2 + count, b"y")
    assert (len(remarks.by_sequence), remarks.lost_count) == (count, 1)

    remarks.forget(1, 2)
    remarks.add(1 + count, 2 + count, b"y")

    assert remarks.by_sequence[1 + count] == b"y"


def test_a_message_with_a_remark_is_delivered_alone_and_settled_without_a_trace() -> None:
    ledger = Ledger(durable=True, rules=DeliveryRules())
    ledger.append(numbered(5), None)
    ledger.attach(flow_of(1), 1)
    ledger.deliver(0)
    annotate(ledger, 1, 2, [(3, 4)], WHICHEVER, b"of another epoch")
    annotate(ledger, 1, 1, [(3, 4)], WHICHEVER, b"noted")
    ledger.settle(1, 1, 6, RELEASED)
    ledger.check()
    found = [(each.first_sequence, each.stop_row - each.start_row, each.annotation) for each in ledger.deliver(0)]
    assert found == [(1, 2, b""), (3, 1, b"noted"), (4, 2, b"")]
    ledger.settle(1, 1, 6, ACCEPTED)
    ledger.check()
    assert ledger.annotations is not None
    assert ledger.annotations.by_sequence == {}


def test_a_flow_waits_for_what_is_on_its_way_and_for_nothing_else() -> None:
    """A page that is read and a socket that is full end; a maximum, a pause and missing credit may not."""
    ledger = Ledger(durable=True, rules=DeliveryRules(unacked_count_max=3))
    ledger.append(numbered(5), None)
    assert not has_more_for(ledger, 1), "it is not attached"
    window = flow_of(1).window
    ledger.attach(flow_of(1, window=window), 1)
    window.is_shut = True
    assert has_more_for(ledger, 1)
    window.is_shut = False
    ledger.deliver(0)
    assert not has_more_for(ledger, 1), "it holds the most it may"
    ledger.pause(1)
    assert not has_more_for(ledger, 1)
    empty: CreditWindow[Address] = CreditWindow(0)
    ledger.attach(flow_of(2, window=empty), 2)
    assert not has_more_for(ledger, 2)
