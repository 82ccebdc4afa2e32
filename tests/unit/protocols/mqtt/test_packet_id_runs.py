"""Runs of sequences and packet ids, against a plain dict."""

from hypothesis import given
from hypothesis import strategies as st

from sluicegate.protocols.mqtt.session.packet_ids import IdRuns

STEPS = st.lists(
    st.tuples(st.sampled_from(["add", "add", "discard"]), st.integers(0, 20), st.integers(1, 6)), max_size=40
)


def meaning(runs: list[tuple[int, int, int]]) -> dict[int, int]:
    """Return the packet id of each sequence."""
    return {first + step: packet_id + step for first, packet_id, count in runs for step in range(count)}


@given(steps=STEPS)
def test_runs_mean_what_was_added_and_not_discarded(steps: list[tuple[str, int, int]]) -> None:
    """Goal: no order of steps gives a sequence another id, or forgets one. Method: same steps to a dict, compare."""
    ids, plain, next_id = IdRuns(), dict[int, int](), 1
    for step, first, count in steps:
        sequences = range(first, first + count)
        if step == "add":
            ids.add(first, next_id, count)
            plain |= {sequence: next_id + sequence - first for sequence in sequences}
            next_id += count + count % 2
        else:
            ids.discard(first, first + count)
            plain = {sequence: packet_id for sequence, packet_id in plain.items() if sequence not in sequences}
        runs = ids.runs()
        assert meaning(runs) == plain
        assert [first for first, _, _ in runs] == sorted(first for first, _, _ in runs)
        assert sum(count for _, _, count in runs) == len(plain)
        assert bool(ids) is bool(plain)
        assert [ids.find(sequence) for sequence in range(30)] == [plain.get(sequence, 0) for sequence in range(30)]


def test_what_goes_out_together_and_is_answered_in_order_is_one_run() -> None:
    ids = IdRuns()
    for first in range(1, 1000, 10):
        ids.add(first, first + 7, 10)
    ids.discard(1, 301)
    assert ids.runs() == [(301, 308, 700)]
