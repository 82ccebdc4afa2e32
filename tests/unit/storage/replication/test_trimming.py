"""What of a replicated log may go: never what a replica needs, as long as one of two verified snapshots is there."""

from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluicegate.storage.replication.trimming.plan import (
    EVERYTHING,
    Hold,
    Snapshot,
    has_to_begin_anew,
    may_rely_on_hold,
    plan_trim,
    position_of_new_hold,
    snapshot_is_due,
    to_install,
)


def made(position: int, *, verified: bool = True, by: str = "a") -> Snapshot:
    return Snapshot(f"{position}.{by}", position, verified)


def test_a_log_is_trimmed_to_the_second_newest_verified_snapshot() -> None:
    trim = plan_trim([made(10), made(30), made(20), made(40, verified=False)], [], revokes=False)
    assert trim.keep_from == 20
    assert trim.deletes == [made(10)]


@pytest.mark.parametrize(
    "snapshots", [[], [made(10)], [made(10), made(20, verified=False)], [made(5, verified=False), made(10)]]
)
def test_nothing_goes_before_two_snapshots_are_verified(snapshots: list[Snapshot]) -> None:
    """Not even at a hold, and not when the log is too large."""
    trim = plan_trim(snapshots, [Hold("a", 7)], revokes=True)
    assert trim == ([], EVERYTHING, [])


def test_a_hold_is_not_passed() -> None:
    assert plan_trim([made(20), made(30)], [Hold("a", 25), Hold("b", 7)], revokes=False).keep_from == 7
    assert plan_trim([made(20), made(30)], [Hold("a", 25)], revokes=False).keep_from == 20


def test_the_oldest_hold_is_revoked_when_the_log_is_too_large() -> None:
    holds = [Hold("c", 7), Hold("b", 9), Hold("a", 7)]
    trim = plan_trim([made(20), made(30)], holds, revokes=True)
    assert trim.revoked == [Hold("a", 7), Hold("c", 7)]  # to revoke one of them would gain nothing
    assert trim.keep_from == 9


def test_a_hold_that_keeps_nothing_is_not_revoked() -> None:
    trim = plan_trim([made(20), made(30)], [Hold("a", 20), Hold("b", 31)], revokes=True)
    assert trim == ([], 20, [])


def test_unfinished_snapshots_go_when_no_trim_could_rest_on_them() -> None:
    unfinished = [made(10, verified=False), made(25, verified=False), made(20, verified=False, by="b")]
    assert plan_trim([made(20), made(30), *unfinished], [], revokes=False).deletes == [unfinished[0]]


def test_two_snapshots_of_one_position_are_two() -> None:
    snapshots = [made(10), made(20, by="a"), made(20, by="b")]
    assert plan_trim(snapshots, [], revokes=False) == ([], 20, [made(10)])


def test_a_new_hold_is_at_the_newest_verified_snapshot_and_is_looked_at_again() -> None:
    snapshots = [made(10), made(20), made(30, verified=False)]
    assert position_of_new_hold([]) == 0
    assert position_of_new_hold(snapshots) == 20
    assert may_rely_on_hold(20, snapshots)
    assert not may_rely_on_hold(20, [*snapshots, made(25)])


def test_a_replica_needs_its_last_record_of_the_stream() -> None:
    assert not has_to_begin_anew(1, 0)
    assert has_to_begin_anew(2, 0)
    assert not has_to_begin_anew(20, 20)
    assert has_to_begin_anew(21, 20)


def test_a_snapshot_is_installed_if_the_stream_has_its_last_record() -> None:
    snapshots = [made(10), made(20), made(30, verified=False), made(21)]
    assert to_install(snapshots, 20) == [made(21), made(20)]


@pytest.mark.parametrize(
    ("grown_mib", "store_mib", "is_due"), [(3, 1, False), (5, 1, True), (7, 8, False), (9, 8, True), (17, 500, True)]
)
def test_a_snapshot_is_due_when_the_log_has_grown_by_what_it_costs(
    grown_mib: int, store_mib: int, is_due: bool
) -> None:
    """Between 4 and 16 MiB of a log of 64 MiB; each record has one MiB."""
    snapshots = [made(10), made(20)]
    found = snapshot_is_due(
        snapshots,
        first=10,
        end=20 + grown_mib,
        log_bytes=(10 + grown_mib) << 20,
        log_bytes_max=64 << 20,
        store_bytes=store_mib << 20,
    )
    assert found == is_due


def test_a_log_that_is_too_large_gets_another_snapshot_even_if_nothing_was_added() -> None:
    def due(snapshots: list[Snapshot]) -> bool:
        return snapshot_is_due(snapshots, first=1, end=61, log_bytes=60, log_bytes_max=64, store_bytes=1 << 30)

    assert due([])
    assert due([made(60)])
    assert due([made(20), made(60)])
    assert not due([made(60), made(60, by="b")])


SNAPSHOTS: Final = st.lists(
    st.builds(made, st.integers(1, 12), verified=st.booleans(), by=st.sampled_from("abc")), max_size=7, unique=True
)
HOLDS: Final = st.lists(
    st.builds(Hold, st.sampled_from("abc"), st.integers(1, 14)), max_size=3, unique_by=lambda hold: hold.replica
)


@given(snapshots=SNAPSHOTS, holds=HOLDS, revokes=st.booleans())
def test_whatever_is_there_a_replica_can_begin_after_one_snapshot_is_lost(
    snapshots: list[Snapshot], holds: list[Hold], revokes: bool
) -> None:
    trim = plan_trim(snapshots, holds, revokes=revokes)
    left = [each for each in snapshots if each not in trim.deletes]
    assert trim.keep_from == EVERYTHING or len(to_install(left, trim.keep_from)) >= 2
    assert all(hold.position >= trim.keep_from for hold in holds if hold not in trim.revoked)
    if trim.revoked:
        assert revokes
        assert trim.keep_from > plan_trim(snapshots, holds, revokes=False).keep_from
