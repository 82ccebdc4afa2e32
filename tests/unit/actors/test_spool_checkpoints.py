"""When the spool makes checkpoints, beside its commits, and what a failing one does: the actor on virtual time."""

from collections.abc import Iterator

import pytest

from sluicegate.actors.messages.spool import PagesWritten, SetPageAside, WritePages
from sluicegate.actors.spool.actor import COMMIT_AGAIN_MS, PROBE_INTERVAL_MS
from sluicegate.actors.spool.checkpoints import TRY_AGAIN_MS
from sluicegate.actors.spool.health import DAMAGED, FULL, REFUSED
from sluicegate.actors.spool.store_threads import CheckpointFailed, CommitFailed
from sluicegate.messaging.message.refusals import REFUSED_SPOOL_FAILED
from sluicegate.messaging.partitions.paging import PagePlan
from sluicegate.storage.commit.checkpoint import AGE_MAX_MS, PAGES_WAIT_MS_MIN, PageRequest
from sluicegate.storage.interface import PageDamage, PageWrite
from support.cores.lone_actors import recorder
from support.cores.lone_spool import COMMIT_US, Keeper
from support.cores.messages import numbered
from support.cores.spool_steps import P

A_WHILE_US = 10_000_000
TRY_AGAIN_US, COMMIT_AGAIN_US, PROBE_US = TRY_AGAIN_MS * 1000, COMMIT_AGAIN_MS * 1000, PROBE_INTERVAL_MS * 1000


@pytest.fixture
def spool() -> Iterator[Keeper]:
    """A spool that has made the checkpoint after its start."""
    made = Keeper()
    made.write_a_row()
    made.passes(us=A_WHILE_US)
    made.began_us.clear()
    made.checkpoints.clear()
    yield made
    made.runtime.stop()


def times_us(spool: Keeper) -> list[int]:
    """Return when checkpoints began, since the fixture was made."""
    return [began_us - A_WHILE_US for began_us, _ in spool.checkpoints]


def damaged_page(spool: Keeper) -> None:
    """Have something come that is worth a checkpoint at once."""
    spool.cell.inbox.post(SetPageAside(P, 1, "bad"))


def test_one_is_made_when_it_is_due_and_none_when_nothing_happens(spool: Keeper) -> None:
    spool.passes(us=AGE_MAX_MS * 1000)
    assert len(spool.checkpoints) == 1, "of the row that the fixture wrote"
    spool.checkpoints.clear()
    spool.passes(us=10 * AGE_MAX_MS * 1000)
    assert spool.checkpoints == []

    damaged_page(spool)
    spool.passes(us=A_WHILE_US)
    ((_, job),) = spool.checkpoints
    assert job.page_quarantines == [PageDamage(P, 1, "bad")]


def test_what_can_wait_waits_for_its_time_without_other_work(spool: Keeper) -> None:
    heard: list[object] = []
    plan = PagePlan(1, 3, [(1, numbered(2))])
    spool.cell.inbox.post(WritePages(recorder(spool.runtime, heard).inbox, P, [plan]))
    spool.passes(us=A_WHILE_US)

    assert times_us(spool) == [PAGES_WAIT_MS_MIN * 1000]
    (answer,) = heard
    assert isinstance(answer, PagesWritten)
    assert (answer.plans, answer.failed) == ([plan], False)


def test_commits_are_made_while_a_checkpoint_is(spool: Keeper) -> None:
    spool.checkpoint_us = 50_000
    damaged_page(spool)
    spool.passes()
    token = spool.publish(consumers=False)
    spool.passes(us=COMMIT_US)

    assert token in spool.confirmed_us
    assert times_us(spool) == [0]
    (_, job) = spool.checkpoints[0]
    assert job.applied < spool.published[token].record_number


def test_one_is_made_at_a_time_with_a_pause_as_long_as_it_took_between_two(spool: Keeper) -> None:
    spool.checkpoint_us = 50_000
    for _ in range(3):
        damaged_page(spool)
        spool.passes(us=20_000)
    spool.passes(us=A_WHILE_US)

    assert times_us(spool) == [0, 50_000 + 50_000]


def test_a_log_that_is_too_long_holds_commits_until_a_checkpoint_is_made(spool: Keeper) -> None:
    """Its length has a bound, however slow checkpoints are."""
    spool.planner.log_bytes_max = 100
    spool.checkpoint_us = 500_000
    spool.write_a_row()
    spool.passes(us=10_000)
    for _ in range(10):
        spool.write_a_row()
        spool.passes(us=10_000)
    assert spool.began_us, "as long as no checkpoint is made, nothing is held"
    damaged_page(spool)
    spool.passes()
    held_from = len(spool.began_us)
    token = spool.publish(consumers=False)
    spool.passes(us=400_000)
    assert len(spool.began_us) == held_from

    spool.passes(us=200_000)
    assert len(spool.began_us) == held_from + 1
    assert token in spool.confirmed_us


def test_a_log_that_is_too_long_holds_nothing_while_messages_are_refused(spool: Keeper) -> None:
    """What settles has to be written: it makes the room, or shows that the store works again."""
    spool.planner.log_bytes_max = 100
    for _ in range(10):
        spool.write_a_row()
        spool.passes(us=10_000)
    spool.checkpoint_us = 500_000
    spool.checkpoint_failures_left = 1
    damaged_page(spool)
    spool.passes(us=1_600_000)
    assert spool.gate.blocked
    assert len(spool.checkpoints) == 2, "the second is being made"
    begun = len(spool.began_us)

    spool.write_a_row()
    spool.passes(us=200_000)
    assert len(spool.began_us) > begun


def test_a_failing_checkpoint_shuts_the_gate_and_one_that_is_made_opens_it(spool: Keeper) -> None:
    """What is published meanwhile would make the log longer, and nobody knows when a checkpoint will be made again."""
    spool.checkpoint_failures_left = 3
    damaged_page(spool)
    spool.passes(us=COMMIT_US)
    assert spool.gate.blocked == "input/output error"
    assert spool.gate.blocked_refusal == REFUSED_SPOOL_FAILED

    spool.passes(us=2 * (TRY_AGAIN_US + COMMIT_US))
    assert spool.gate.blocked
    spool.passes(us=TRY_AGAIN_US + COMMIT_US)
    assert not spool.gate.blocked

    spool.passes(us=A_WHILE_US)
    assert times_us(spool) == [number * (TRY_AGAIN_US + COMMIT_US) for number in range(4)]
    _, last = spool.checkpoints[-1]
    assert last.page_quarantines == [PageDamage(P, 1, "bad")], "it was not forgotten"


def test_commits_that_succeed_do_not_open_the_gate_beside_a_failing_checkpoint(spool: Keeper) -> None:
    spool.checkpoint_failures_left = 3
    damaged_page(spool)
    spool.passes(us=COMMIT_US)
    spool.write_a_row()
    spool.passes(us=2 * TRY_AGAIN_US)

    assert spool.began_us
    assert spool.gate.blocked


def test_a_checkpoint_without_room_shuts_the_gate_until_one_finds_some(spool: Keeper) -> None:
    spool.checkpoint_failure = CheckpointFailed("the map is full", FULL)
    spool.checkpoint_failures_left = 2
    damaged_page(spool)
    spool.passes(us=COMMIT_US)
    assert spool.gate.blocked == "the map is full"

    spool.passes(us=A_WHILE_US)
    assert spool.checkpoint_failures_left == 0
    assert not spool.gate.blocked


def test_who_asked_for_pages_hears_that_they_are_not_written(spool: Keeper) -> None:
    heard: list[object] = []
    spool.checkpoint_failures_left = 1
    plan = PagePlan(1, 3, [(1, numbered(2))])
    spool.cell.inbox.post(WritePages(recorder(spool.runtime, heard).inbox, P, [plan]))
    spool.passes(us=A_WHILE_US)

    (answer,) = heard
    assert isinstance(answer, PagesWritten)
    assert answer.failed
    assert [len(job.page_writes) for _, job in spool.checkpoints] == [1, 0]


def test_nothing_is_written_beside_damage_that_a_checkpoint_found(spool: Keeper) -> None:
    spool.checkpoint_failure = CheckpointFailed("broken pages", DAMAGED)
    spool.checkpoint_failures_left = 1
    damaged_page(spool)
    spool.passes(us=COMMIT_US)
    token = spool.publish(consumers=False)
    spool.passes(us=A_WHILE_US)

    assert spool.gate.blocked == "broken pages"
    assert spool.began_us == []
    assert len(spool.checkpoints) == 1
    assert spool.refused == {token: "broken pages"}


def test_a_commit_that_finds_no_room_has_a_checkpoint_made(spool: Keeper) -> None:
    """It trims the log."""
    spool.write_a_row()
    spool.passes(us=10_000)
    spool.checkpoints.clear()
    spool.failure, spool.failures_left, spool.is_full = CommitFailed("the map is full", FULL), 1, True
    spool.publish(consumers=False)
    spool.passes(us=100_000)
    assert len(spool.checkpoints) == 1
    assert spool.gate.blocked == "the map is full"

    spool.is_full = False
    spool.passes(us=PROBE_US)
    assert not spool.gate.blocked


def test_a_full_spool_empties_files_of_the_log_though_nothing_is_committed(spool: Keeper) -> None:
    """A checkpoint does some of that."""
    spool.write_a_row()
    spool.passes(us=10_000)
    spool.sparse_left = 3
    spool.failure, spool.failures_left, spool.is_full = CommitFailed("the map is full", FULL), 1, True
    spool.publish(consumers=False)
    spool.passes(us=A_WHILE_US)
    assert spool.gate.blocked
    assert len(spool.checkpoints) == 4, "the last one left none"


def test_a_commit_that_the_system_refuses_has_no_checkpoint_made(spool: Keeper) -> None:
    spool.write_a_row()
    spool.passes(us=10_000)
    spool.failure, spool.failures_left = CommitFailed("input/output error", REFUSED), 1
    spool.publish(consumers=False)
    spool.passes(us=A_WHILE_US)

    assert spool.checkpoints == []


def test_a_clean_stop_waits_for_a_checkpoint_that_is_being_made(spool: Keeper) -> None:
    idle_us: list[int] = []
    spool.checkpoint_us = 50_000
    damaged_page(spool)
    spool.passes()
    spool.cell.behaviour.when_idle(lambda: idle_us.append(spool.now_us() - A_WHILE_US))
    spool.passes(us=A_WHILE_US)

    assert idle_us == [50_000]


def test_a_spool_that_closes_commits_what_is_left_however_many_pages_wait(spool: Keeper) -> None:
    """No checkpoint will write them any more; they are in the log."""
    spool.planner.checkpoints.page_bytes_max = 0
    spool.spool.checkpoints.close()
    spool.planner.checkpoints.write_pages(PageRequest([PageWrite(P, b"page")], lambda _: None), 0)
    token = spool.publish(consumers=False)
    spool.passes(us=A_WHILE_US)

    assert token in spool.confirmed_us
    assert times_us(spool) == []
