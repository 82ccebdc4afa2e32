"""What is stored of a neighbor's link queue: each message once, whatever comes again, and after any crash."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sluicegate.messaging.network.sequences import Lineages, LinkSequences, place_of_row
from support.thorough import examples

ranges = st.tuples(st.integers(1, 60), st.integers(1, 8)).map(lambda pair: (pair[0], pair[0] + pair[1]))
PREFIX = b"\0sales\0"


class Receiver:
    """A broker with a store, which may crash: then it has what was committed."""

    def __init__(self) -> None:
        self.rows: dict[bytes, bytes] = {}
        self.stored: list[int] = []  # messages, as often as they were stored
        self.uncommitted: list[tuple[int, int, bytes, bytes]] = []
        self.sequences = LinkSequences("a", 7, PREFIX)

    def take(self, first: int, end: int, floor: int) -> list[tuple[int, int]]:
        """Take messages; return what is answered at once."""
        self.sequences.raise_floor(floor)
        new, known = self.sequences.arrive(first, end)
        for start, stop in new:
            key, value = self.sequences.begin(start, stop)
            self.uncommitted.append((start, stop, key, value))
        self.sequences.check()
        return known

    def commit(self, count: int, *, is_stored: bool = True) -> list[tuple[int, int]]:
        """Commit the oldest; return what is answered."""
        done, self.uncommitted = self.uncommitted[:count], self.uncommitted[count:]
        for start, stop, key, value in done:
            self.sequences.decided(start, stop, is_stored=is_stored)
            if is_stored:
                self.rows[key] = value
                self.stored += range(start, stop)
        self.sequences.check()
        return [(start, stop) for start, stop, _, _ in done] if is_stored else []

    def crash(self) -> None:
        self.uncommitted.clear()
        self.sequences = LinkSequences("a", 7, PREFIX)
        for key, value in self.rows.items():
            assert key.startswith(PREFIX)
            name, lineage, place = place_of_row(key[len(PREFIX) :])
            assert (name, lineage) == ("a", 7)
            self.sequences.restore(place, value)
        self.sequences.check()


sends = st.tuples(st.just("send"), ranges)
others = st.tuples(st.sampled_from(["commit", "refuse", "crash"]), st.tuples(st.integers(1, 4), st.just(0)))
steps = st.lists(st.one_of(sends, others), max_size=60)


@settings(max_examples=examples(300))
@given(steps)
def test_each_message_is_stored_once_and_answered_only_then(moves: list[tuple[str, tuple[int, int]]]) -> None:
    """A sender that crashes forgets answers that it has not stored, and never moves its floor back."""
    receiver = Receiver()
    answered: set[int] = set()  # as the sender has them; its floor is below the lowest that is not
    floor = 0
    for move, (first, end) in moves:
        answers: list[tuple[int, int]] = []
        if move == "send" and first > floor:
            answers = receiver.take(first, end, floor)
        elif move == "commit":
            answers = receiver.commit(first)
        elif move == "refuse":
            answers = receiver.commit(first, is_stored=False)
        elif move == "crash":
            receiver.crash()
        for start, stop in answers:
            answered.update(range(start, stop))
        assert answered <= set(receiver.stored), "an answer is a promise"
        while floor + 1 in answered:
            floor += 1
    assert len(receiver.stored) == len(set(receiver.stored)), "nothing is stored twice"


@pytest.mark.parametrize("floor_lags", [10, 2000])
def test_rows_are_used_again_once_a_later_one_says_the_same(floor_lags: int) -> None:
    """However far the floor is behind: one message that the sender cannot settle holds it up."""
    receiver = Receiver()
    for number in range(1, 1001):
        receiver.take(number, number + 1, max(0, number - floor_lags))
        receiver.commit(1)
    assert len(receiver.rows) == 2
    receiver.crash()
    assert receiver.take(995, 1001, 0) == [(995, 1001)]
    assert receiver.uncommitted == []


def test_rows_of_many_gaps_are_used_again_once_the_floor_is_above_them() -> None:
    receiver = Receiver()
    for number in range(1, 1001):
        receiver.take(2 * number, 2 * number + 1, max(0, 2 * number - 400))
        receiver.commit(1)
    assert len(receiver.rows) < 250
    receiver.crash()
    assert receiver.take(1900, 2001, 1600) == [(each, each + 1) for each in range(1900, 2001, 2)]


def test_a_sequence_a_million_higher_is_as_good_as_the_next() -> None:
    receiver = Receiver()
    receiver.take(1, 2, 0)
    receiver.take(1_048_577, 1_048_579, 1)
    receiver.commit(2)
    assert receiver.stored == [1, 1_048_577, 1_048_578]


def test_what_is_with_the_store_is_neither_stored_again_nor_answered() -> None:
    receiver = Receiver()
    receiver.take(5, 8, 0)
    assert receiver.take(4, 9, 0) == []
    assert [(first, end) for first, end, _, _ in receiver.uncommitted] == [(5, 8), (4, 5), (8, 9)]


@pytest.mark.parametrize("value", [b"", bytes(8), bytes(23), bytes(24)])
def test_a_row_that_is_damaged_is_refused(value: bytes) -> None:
    with pytest.raises(ValueError, match="a row of"):
        LinkSequences("a", 7).restore(0, value)


def test_all_rows_can_be_deleted() -> None:
    receiver = Receiver()
    for number in range(1, 6):
        receiver.take(number, number + 1, 0)
    receiver.commit(5)
    assert {key for key, _ in receiver.sequences.rows_to_delete()} == set(receiver.rows)


# --- lineages ---


def test_what_lay_in_a_restored_queue_keeps_its_lineage() -> None:
    lineages = Lineages()
    assert lineages.begin(0xA, 1)
    assert not Lineages(lineages.value()).begin(0xA, 900), "a restart is no new life"
    restored = Lineages(lineages.value())
    assert restored.begin(0xB, 500)
    assert [restored.of(each) for each in (1, 499, 500, 10_000)] == [0xA, 0xA, 0xB, 0xB]
    assert (restored.end_of(10), restored.end_of(499), restored.end_of(500)) == (500, 500, 0)
    assert Lineages(restored.value()).value() == restored.value()


def test_lineages_that_are_damaged_are_refused() -> None:
    with pytest.raises(ValueError, match="15 bytes"):
        Lineages(bytes(15))


def test_what_is_not_for_the_store_is_known_while_the_broker_runs() -> None:
    receiver = Receiver()
    receiver.sequences.passed(1, 4)
    receiver.sequences.check()
    assert receiver.sequences.arrive(1, 5) == ([(4, 5)], [(1, 4)])
    receiver.sequences.raise_floor(2)
    receiver.sequences.passed(2, 3)  # it came late
    receiver.sequences.check()
    receiver.crash()
    assert receiver.sequences.arrive(3, 5) == ([(3, 5)], [])


def test_a_later_row_says_what_was_not_for_the_store_as_well() -> None:
    receiver = Receiver()
    receiver.sequences.passed(1, 4)
    receiver.take(4, 6, 0)
    receiver.commit(1)
    receiver.crash()
    assert receiver.sequences.arrive(1, 8) == ([(6, 8)], [(1, 6)])
