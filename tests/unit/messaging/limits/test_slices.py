"""Limits of a machine: what brokers hold together, whoever comes, goes, and dies."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from sluicegate.messaging.limits.counts import PROBES_MAX, SharedCounts, Want, clear_table, key_of
from sluicegate.messaging.limits.slices import Slice
from sluicegate.messaging.limits.totals import SharedTotal
from support.cores.shared_counts import ROWS, counts_at, running_brokers, shared_words
from support.thorough import examples

BROKERS = 3
SPOOL = key_of("spool", outlives=True)
USER = key_of("user")


def test_a_total_is_exact_over_all_brokers() -> None:
    totals = [SharedTotal(each, "user") for each in running_brokers(shared_words(BROKERS), BROKERS)]
    assert totals[0].admits(3, 4)
    assert totals[1].admits(1, 4)
    assert not totals[2].admits(1, 4)
    totals[0].settle(2)
    assert totals[2].admits(1, 4)
    assert not totals[1].admits(2, 4)


def test_of_several_wants_all_are_claimed_or_none() -> None:
    one, other, _ = running_brokers(shared_words(BROKERS), BROKERS)
    assert other.claim([Want(USER, 2, 2)]) == -1
    assert one.claim([Want(SPOOL, 5, 9), Want(USER, 1, 2)]) == 1
    assert (one.own(SPOOL), one.own(USER)) == (0, 0)
    assert one.claim([Want(SPOOL, 5, 9), Want(USER, 1, 3)]) == -1
    assert (other.others(SPOOL), other.others(USER)) == (5, 1)


def test_the_counts_of_a_process_that_ended_are_forgotten_but_for_those_of_its_spool() -> None:
    words = shared_words(BROKERS)
    one, other, _ = running_brokers(words, BROKERS)
    one.set(SPOOL, 100)
    one.set(USER, 3)
    clear_table(words, 0, BROKERS, keeps_spool=True)
    assert (other.others(SPOOL), other.others(USER)) == (100, 0)
    again = counts_at(words, 0, BROKERS)
    again.set(SPOOL, 70)
    assert other.others(SPOOL) == 100, "until it has read its spool"
    again.publish()
    assert (again.own(SPOOL), other.others(SPOOL)) == (70, 70)


def test_rows_of_names_that_are_not_in_use_serve_others() -> None:
    one, other, _ = running_brokers(shared_words(BROKERS), BROKERS)
    crowd = [2 + 4 * (1 + number * ROWS) for number in range(2 * PROBES_MAX)]  # all of them begin at the same row
    for key in crowd[:PROBES_MAX]:
        one.set(key, 1)
    one.set(crowd[PROBES_MAX], 1)
    assert (one.unshared_count, other.others(crowd[PROBES_MAX])) == (1, 0)
    one.set(crowd[5], 0)
    one.set(crowd[PROBES_MAX], 7)
    assert (one.unshared_count, other.others(crowd[PROBES_MAX]), other.others(crowd[5])) == (1, 7, 0)
    assert other.others(crowd[PROBES_MAX - 1]) == 1


class Machine(RuleBasedStateMachine):
    """A quota that brokers share, beside a plain model: what each of them uses."""

    def __init__(self) -> None:
        super().__init__()
        self.words = shared_words(BROKERS)
        self.counts: list[SharedCounts | None] = list(running_brokers(self.words, BROKERS))
        self.slices = [Slice(each, SPOOL) for each in self.counts if each is not None]
        self.used = [0] * BROKERS
        self.limit = 10_000
        self.limits_are_kept = True  # no limit was lowered, and nothing came in without a question

    @rule(place=st.integers(0, BROKERS - 1), size=st.integers(1, 3_000))
    def publishes(self, place: int, size: int) -> None:
        if self.counts[place] is None:
            return
        before = sum(self.used)
        if self.slices[place].admits(self.used[place] + size, self.limit):
            self.used[place] += size
            assert self.used[place] <= self.limit
            assert sum(self.used) <= self.limit or not self.limits_are_kept
        elif all(self.counts) and all(
            held.held == held.settle(used, self.limit) for held, used in zip(self.slices, self.used, strict=True)
        ):
            assert before + size > 0.95 * self.limit, "refused while there is room"

    @rule(place=st.integers(0, BROKERS - 1), size=st.integers(1, 3_000))
    def drains(self, place: int, size: int) -> None:
        if self.counts[place] is not None:
            self.used[place] -= min(self.used[place], size)

    @rule(place=st.integers(0, BROKERS - 1))
    def settles(self, place: int) -> None:
        if self.counts[place] is not None:
            assert self.slices[place].settle(self.used[place], self.limit) >= self.used[place]

    @rule(limit=st.sampled_from([1, 30, 4_000, 10_000]))
    def sets_the_limit(self, limit: int) -> None:
        self.limits_are_kept = self.limits_are_kept and limit >= self.limit
        self.limit = limit

    @rule(place=st.integers(0, BROKERS - 1), size=st.integers(1, 3_000))
    def takes_what_another_confirmed(self, place: int, size: int) -> None:
        if self.counts[place] is not None:
            self.used[place] += size
            self.limits_are_kept = False
            self.slices[place].settle(self.used[place], self.limit)

    @rule(place=st.integers(0, BROKERS - 1))
    def dies(self, place: int) -> None:
        self.counts[place] = None
        clear_table(self.words, place, BROKERS, keeps_spool=True)

    @precondition(lambda self: not all(self.counts))
    @rule()
    def comes_back(self) -> None:
        place = self.counts.index(None)
        counts = self.counts[place] = counts_at(self.words, place, BROKERS)
        self.slices[place] = Slice(counts, SPOOL)
        self.slices[place].settle(self.used[place], self.limit)
        counts.publish()

    @invariant()
    def the_limit_holds(self) -> None:
        shown = counts_at(self.words, 0, BROKERS).others(SPOOL) + counts_at(self.words, 1, BROKERS).others(SPOOL)
        shown += counts_at(self.words, 2, BROKERS).others(SPOOL)
        assert shown // 2 == sum([each.held for each in self.slices])
        if self.limits_are_kept:
            assert shown // 2 <= self.limit


TestMachine = Machine.TestCase
TestMachine.settings = settings(max_examples=examples(40), stateful_step_count=40, deadline=None)
