"""What is known of messages that are not in memory: bounds for when they expire or become due, and their priorities."""

from functools import reduce

from hypothesis import given
from hypothesis import strategies as st

from sluicegate.messaging.message.batch import MessageBatch
from sluicegate.messaging.message.headers import PRIORITY_MAX
from sluicegate.messaging.partitions.state.segments import marks_of, marks_together
from support.storage.sample_records import batches


@given(stretch=st.lists(batches(), min_size=1, max_size=4))
def test_marks_are_bounds_for_every_message_of_a_stretch(stretch: list[MessageBatch]) -> None:
    """Law: no message is older, expires or becomes due earlier, or has a priority that is not marked."""
    marks = reduce(marks_together, [marks_of(batch) for batch in stretch])

    for batch in stretch:
        assert marks.arrived_ms <= batch.received_ms
        for row in range(batch.count):
            headers = batch.headers_of(row)
            expires_ms = 0 if headers is None else headers.expires_at_ms
            assert expires_ms <= 0 or 0 < marks.expires_ms <= expires_ms
            assert marks.not_before_ms <= (0 if headers is None else max(headers.not_before_ms, 0))
            assert marks.priorities >> (4 if headers is None else min(headers.priority, PRIORITY_MAX)) & 1


@given(stretch=st.lists(batches(), min_size=1, max_size=4))
def test_marks_name_nothing_that_no_message_has(stretch: list[MessageBatch]) -> None:
    """Law: bounds are reached, so no page is read in vain."""
    marks = reduce(marks_together, [marks_of(batch) for batch in stretch])
    column = [batch.headers_of(row) for batch in stretch for row in range(batch.count)]

    expiries = [each.expires_at_ms for each in column if each is not None and each.expires_at_ms > 0]
    assert marks.expires_ms == min(*expiries, (1 << 63) - 1) if expiries else marks.expires_ms == 0
    assert marks.priorities == reduce(
        int.__or__, [1 << (4 if each is None else min(each.priority, PRIORITY_MAX)) for each in column]
    )
