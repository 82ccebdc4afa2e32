"""Delivery ids and what they stand for, against a plain dictionary."""

from functools import partial

from hypothesis import given
from hypothesis import strategies as st

from sluicegate.messaging.message.address import Address
from sluicegate.messaging.partitions.state.unsettled import DeliverySource, UnsettledDeliveries, UnsettledRun

SOURCES = [DeliverySource(Address(), number, 1, 1, 1) for number in range(3)]

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.integers(0, 2), st.integers(1, 5)),
        st.tuples(st.just("take"), st.integers(0, 40), st.integers(0, 10)),
        st.tuples(st.just("peek"), st.integers(0, 40), st.integers(0, 10)),
        st.tuples(st.just("keep"), st.integers(0, 2), st.just(0)),
        st.tuples(st.just("skip"), st.integers(0, 2), st.integers(1, 3)),
    ),
    max_size=40,
)


def each_of(runs: list[UnsettledRun]) -> dict[int, tuple[int, int]]:
    """Return partition and sequence of every id."""
    return {
        run.first_id + number: (run.source.partition_number, run.first_sequence + number)
        for run in runs
        for number in range(run.count)
    }


def is_other(partition_number: int, source: DeliverySource) -> bool:
    return source.partition_number != partition_number


@given(steps=STEPS)
def test_held_agrees_with_a_dictionary(steps: list[tuple[str, int, int]]) -> None:
    """Goal: every id stands for its message until it is taken. Method: the same steps to both."""
    held, model = UnsettledDeliveries(), dict[int, tuple[int, int]]()
    next_id, next_sequence = 1, [1, 1, 1]
    for kind, one, two in steps:
        if kind == "add":
            held.add(next_id, two, next_sequence[one], SOURCES[one])
            model |= {next_id + number: (one, next_sequence[one] + number) for number in range(two)}
            next_id += two
            next_sequence[one] += two
        elif kind == "skip":  # others got these
            next_sequence[one] += two
        elif kind == "keep":
            gone = {key: value for key, value in model.items() if value[0] != one}
            assert each_of(held.take_where(partial(is_other, one))) == gone
            model = {key: value for key, value in model.items() if value[0] == one}
        else:
            found = {key: value for key, value in model.items() if one <= key < one + two}
            assert each_of(held.take(one, one + two) if kind == "take" else held.peek(one, one + two)) == found
            if kind == "take":
                model = {key: value for key, value in model.items() if key not in found}
        held.check()
        assert held.count == len(model)
