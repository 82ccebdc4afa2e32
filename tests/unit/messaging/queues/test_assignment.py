"""The assignment of partitions to flows: balanced, and moving as little as it can."""

from collections import Counter
from itertools import product

from hypothesis import given, settings
from hypothesis import strategies as st

from sluicegate.messaging.queues.assignment.rebalance import assign_partitions
from support.thorough import examples

FLOWS = st.lists(st.integers(1, 5), unique=True, max_size=5)
OWNERS = st.lists(st.integers(0, 6), max_size=6)  # 0: nobody; 6 and those not bound: gone


def moves(owners: list[int], wanted: list[int], flow_ids: list[int]) -> int:
    """Return how many partitions change hands from a flow that is still there."""
    return sum(1 for old, new in zip(owners, wanted, strict=True) if old in flow_ids and old != new)


def is_balanced(wanted: list[int], flow_ids: list[int]) -> bool:
    """Tell whether flows own equally many, give or take one, and none is idle while another owns two."""
    if not flow_ids:
        return set(wanted) <= {0}
    owned = Counter(wanted)
    sizes = [owned[flow_id] for flow_id in flow_ids]
    return 0 not in owned and max(sizes) - min(sizes) <= 1


@settings(max_examples=examples(150), deadline=None)
@given(owners=OWNERS, flow_ids=FLOWS)
def test_no_balanced_assignment_moves_less(owners: list[int], flow_ids: list[int]) -> None:
    """Goal: sticky (solace 5.3). Method: try every assignment there is."""
    wanted = assign_partitions(owners, flow_ids)

    assert is_balanced(wanted, flow_ids)
    fewest = min(
        moves(owners, list(other), flow_ids)
        for other in product(flow_ids or [0], repeat=len(owners))
        if is_balanced(list(other), flow_ids)
    )
    assert moves(owners, wanted, flow_ids) == fewest


@given(owners=OWNERS, flow_ids=FLOWS)
def test_an_assignment_is_at_rest(owners: list[int], flow_ids: list[int]) -> None:
    wanted = assign_partitions(owners, flow_ids)

    assert assign_partitions(wanted, flow_ids) == wanted


def test_of_idle_flows_beyond_the_partitions_the_oldest_become_active() -> None:
    assert set(assign_partitions([7, 0], [5, 6, 7])) == {5, 7}
