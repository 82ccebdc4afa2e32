"""When a checkpoint is due, what it does, and what becomes of that when it fails."""

from collections.abc import Callable

import pytest

from sluicegate.storage.commit.checkpoint import (
    AGE_MAX_MS,
    CONTENT_BYTES_MIN,
    DELETED_PAGES_MAX,
    IDLE_BYTES_PER_MS,
    LOG_BYTES_MIN,
    LOG_RECORDS_MAX,
    OVERHEAD_BYTES_PER_MS,
    PAGES_WAIT_MS_MAX,
    PAGES_WAIT_MS_MIN,
    ROW_BYTES_BEHIND,
    ROW_BYTES_MIN,
    WORTH,
    Checkpoint,
    CheckpointPlanner,
    PageRequest,
    PartitionCursor,
)
from sluicegate.storage.commit.pending import NEVER
from sluicegate.storage.commit.planner import LOG_BYTES_MAX
from sluicegate.storage.interface import CheckpointJob, PageDamage, PageKey, PageWrite
from support.cores.spool_steps import P, Q

NOW_MS = 5_000_000
OVERHEAD_BYTES = 2_000_000  # of the list of free pages in a file that once held gigabytes


def planner_of(*partition_ids: int, overhead_bytes: int = 0) -> CheckpointPlanner:
    """Return a planner with these partitions, whose last checkpoint was made now."""
    planner = CheckpointPlanner({each: PartitionCursor(each, 1, 100) for each in partition_ids}, LOG_BYTES_MAX)
    planner.committed(1, 0, NOW_MS)
    next_one(planner)
    planner.succeeded(overhead_bytes)
    return planner


def next_one(planner: CheckpointPlanner, *, applied: int = 7, needed_from: int = 5) -> Checkpoint:
    return planner.next_checkpoint(applied=applied, needed_from=needed_from)


def pages_of(partition_id: int, *, size: int = 10, done: Callable[[bool], None] = lambda _: None) -> PageRequest:
    return PageRequest([PageWrite(partition_id, bytes(size))], done)


def test_nothing_is_never_due() -> None:
    planner = planner_of(P)

    assert planner.due_ms() == NEVER


def many_records(planner: CheckpointPlanner) -> None:
    for _ in range(LOG_RECORDS_MAX):
        planner.committed(1, 0, NOW_MS)


AT_ONCE: dict[str, Callable[[CheckpointPlanner], None]] = {
    "a store that wants room": lambda planner: planner.want(),
    "a damaged page": lambda planner: planner.quarantine_page(PageDamage(P, 1, "bad")),
    "many pages": lambda planner: planner.write_pages(pages_of(P, size=CONTENT_BYTES_MIN), NOW_MS),
    "a long log": lambda planner: planner.committed(LOG_BYTES_MIN, 0, NOW_MS),
    "many records": many_records,
    "many rows": lambda planner: planner.committed(100, ROW_BYTES_MIN, NOW_MS),
    "many pages to delete": lambda planner: planner.drop_pages(P, list(range(DELETED_PAGES_MAX))),
}


@pytest.mark.parametrize("comes", AT_ONCE.values(), ids=AT_ONCE)
def test_it_is_due_at_once_for_what_is_worth_it_or_cannot_wait(comes: Callable[[CheckpointPlanner], None]) -> None:
    planner = planner_of(P)
    comes(planner)

    assert planner.due_ms() == 0


LATE: dict[str, Callable[[CheckpointPlanner], None]] = {
    "a record": lambda planner: planner.committed(100, 0, NOW_MS),
    "a page to delete": lambda planner: planner.drop_pages(P, [1]),
    "a log with a head that is no longer needed": lambda planner: planner.log_spent(),
}


@pytest.mark.parametrize("comes", LATE.values(), ids=LATE)
def test_what_costs_no_more_later_waits_for_the_age_of_the_last_checkpoint(
    comes: Callable[[CheckpointPlanner], None],
) -> None:
    planner = planner_of(P)
    comes(planner)

    assert planner.makes_room()
    assert planner.due_ms() == NOW_MS + AGE_MAX_MS


def test_pages_wait_for_others_from_the_coming_of_the_first() -> None:
    """Longer when a checkpoint costs more, and for so long at most."""
    for overhead_bytes, wait_ms in (
        (0, PAGES_WAIT_MS_MIN),
        (100 * OVERHEAD_BYTES_PER_MS, 100),
        (1 << 40, PAGES_WAIT_MS_MAX),
    ):
        planner = planner_of(P, overhead_bytes=overhead_bytes)
        planner.write_pages(pages_of(P), NOW_MS + 3)
        planner.write_pages(pages_of(P), NOW_MS + 4)
        assert planner.due_ms() == NOW_MS + 3 + wait_ms


def test_what_a_checkpoint_costs_says_how_much_is_worth_one() -> None:
    planner = planner_of(P, overhead_bytes=OVERHEAD_BYTES)
    planner.write_pages(pages_of(P, size=WORTH * OVERHEAD_BYTES - 1), NOW_MS)
    assert planner.due_ms() > NOW_MS

    planner.write_pages(pages_of(P, size=1), NOW_MS)
    assert planner.due_ms() == 0


def test_a_log_grows_no_longer_than_it_may_whatever_a_checkpoint_costs() -> None:
    planner = planner_of(P, overhead_bytes=LOG_BYTES_MAX)
    planner.committed(LOG_BYTES_MAX - 1, 0, NOW_MS)
    assert planner.due_ms() > NOW_MS

    planner.committed(1, 0, NOW_MS)
    assert planner.due_ms() == 0


def test_a_checkpoint_that_costs_much_is_made_less_often_when_little_happens() -> None:
    planner = planner_of(P, overhead_bytes=2 * AGE_MAX_MS * IDLE_BYTES_PER_MS)
    planner.committed(1, 0, NOW_MS)

    assert planner.due_ms() == NOW_MS + 2 * AGE_MAX_MS


def test_it_takes_everything_that_has_come_and_is_made_once() -> None:
    planner = planner_of(P, Q)
    planner.drop_pages(P, [3])
    planner.quarantine_page(PageDamage(P, 12, "torn"))
    planner.write_pages(pages_of(P), NOW_MS)
    planner.write_pages(pages_of(Q), NOW_MS)
    planner.changed(Q)
    planner.changed(P)

    job = next_one(planner).job

    assert job == CheckpointJob(
        applied=7,
        needed_from=5,
        page_quarantines=[PageDamage(P, 12, "torn")],
        page_deletes=[PageKey(P, 3)],
        page_writes=[PageWrite(P, bytes(10)), PageWrite(Q, bytes(10))],
        cursor_puts=[PartitionCursor(each, 1, 100).state([]) for each in (P, Q)],
    )
    planner.succeeded(0)
    assert planner.due_ms() == NEVER
    assert next_one(planner).job == CheckpointJob(applied=7, needed_from=5)


def test_who_asked_for_pages_hears_what_became_of_the_checkpoint_that_was_planned_then() -> None:
    planner = planner_of(P)
    answers: list[tuple[str, bool]] = []
    planner.write_pages(pages_of(P, done=lambda made: answers.append(("pages", made))), NOW_MS)
    planner.want()
    next_one(planner)
    planner.write_pages(pages_of(P, done=lambda made: answers.append(("late", made))), NOW_MS)
    planner.want()
    planner.succeeded(0).end(succeeded=True)
    assert answers == [("pages", True)]

    assert planner.due_ms() == 0
    next_one(planner)
    planner.failed().end(succeeded=False)
    assert answers[1:] == [("late", False)]


def test_a_failure_puts_everything_back_before_what_came_meanwhile_except_those_who_were_answered() -> None:
    """Who asked for pages asks again: what the page was to hold may be settled by then."""
    planner = planner_of(P, Q)
    planner.drop_pages(P, [3])
    planner.quarantine_page(PageDamage(P, 12, "torn"))
    planner.write_pages(pages_of(P), NOW_MS)
    planner.changed(P)
    planner.committed(LOG_BYTES_MIN // 2, 0, NOW_MS)
    next_one(planner)
    assert planner.log_bytes() == LOG_BYTES_MIN // 2, "until it is made"
    planner.drop_pages(Q, [4])
    planner.quarantine_page(PageDamage(Q, 13, "torn"))
    planner.changed(Q)
    planner.committed(LOG_BYTES_MIN // 2, 0, NOW_MS)
    planner.failed()

    assert planner.log_bytes() == LOG_BYTES_MIN
    assert planner.due_ms() == 0
    job = next_one(planner, applied=8).job
    assert job.page_deletes == [PageKey(P, 3), PageKey(Q, 4)]
    assert job.page_quarantines == [PageDamage(P, 12, "torn"), PageDamage(Q, 13, "torn")]
    assert [put.partition_id for put in job.cursor_puts] == [P, Q]
    assert job.page_writes == []
    planner.succeeded(0)
    assert planner.log_bytes() == 0


def test_commits_have_to_wait_while_rows_of_many_bytes_wait_for_a_checkpoint_or_are_in_one() -> None:
    planner = planner_of(P)
    planner.committed(100, ROW_BYTES_BEHIND // 2, NOW_MS)
    next_one(planner)
    planner.committed(100, ROW_BYTES_BEHIND // 2, NOW_MS)
    assert not planner.is_behind()

    planner.committed(100, 1, NOW_MS)
    assert planner.is_behind()
    planner.failed()
    assert planner.is_behind()
    next_one(planner)
    planner.succeeded(overhead_bytes=0)
    assert not planner.is_behind()


def test_pages_that_may_become_links_count_for_memory_and_little_for_what_is_written() -> None:
    planner = planner_of(P)
    planner.page_bytes_max = 4 * CONTENT_BYTES_MIN
    page = PageWrite(P, bytes(CONTENT_BYTES_MIN))
    linked = PageRequest([page], ignored, log_records={PageKey(P, 1): [7]}, linked_bytes=CONTENT_BYTES_MIN)
    planner.write_pages(linked, NOW_MS)
    assert planner.due_ms() > NOW_MS
    for _ in range(3):
        planner.write_pages(linked, NOW_MS)
    assert planner.due_ms() == 0, "so much waits in memory"

    assert next_one(planner).job.log_records == {PageKey(P, 1): [7]}
    planner.succeeded(0)
    planner.write_pages(PageRequest([page], ignored), NOW_MS)
    assert planner.due_ms() == 0, "so much is to be written"


def ignored(_: bool) -> None:
    """Take an answer."""


def test_a_failure_leaves_a_spent_log_to_the_next_one() -> None:
    planner = planner_of(P)
    planner.log_spent()
    next_one(planner)
    assert not planner.makes_room()
    planner.failed()
    assert planner.makes_room()


def test_pages_of_a_partition_that_is_read_back_are_left_out_with_their_log_records() -> None:
    """It plans a page of the same name with other batches."""
    planner = planner_of(P, Q)
    planner.write_pages(PageRequest([PageWrite(P, b"old")], ignored, log_records={PageKey(P, 1): [7, 8]}), NOW_MS)
    planner.write_pages(pages_of(Q), NOW_MS)
    read: list[str] = []
    planner.withdraw_pages(P, lambda: read.append("now"))
    assert read == ["now"]
    planner.write_pages(PageRequest([PageWrite(P, b"new")], ignored), NOW_MS)
    job = next_one(planner).job
    assert [write.page for write in job.page_writes if write.partition_id == P] == [b"new"]
    assert [write.partition_id for write in job.page_writes] == [Q, P]
    assert job.log_records == {}


@pytest.mark.parametrize("succeeds", [True, False])
def test_a_partition_is_read_back_when_its_pages_in_the_checkpoint_in_progress_are_written_or_not(
    succeeds: bool,
) -> None:
    planner = planner_of(P, Q)
    planner.write_pages(pages_of(P), NOW_MS)
    checkpoint = next_one(planner)
    read: list[int] = []
    planner.withdraw_pages(Q, lambda: read.append(Q))
    planner.withdraw_pages(P, lambda: read.append(P))
    assert read == [Q], "none of its pages is being written"
    ended = planner.succeeded(0) if succeeds else planner.failed()
    assert ended is checkpoint
    ended.end(succeeded=succeeds)
    assert read == [Q, P]


def test_a_deleted_partition_is_left_out() -> None:
    """What a checkpoint wrote of it behind its deletion would stay for ever. Who asked for pages hears all the same."""
    cursors = {each: PartitionCursor(each, 1, 100) for each in (P, Q)}
    planner = CheckpointPlanner(cursors, LOG_BYTES_MAX)
    answers: list[bool] = []
    request = PageRequest([PageWrite(P, b"page"), PageWrite(Q, b"other")], answers.append)
    planner.write_pages(request, NOW_MS)
    planner.drop_pages(P, [3])
    planner.drop_pages(Q, [4])
    planner.changed(P)
    planner.changed(Q)
    planner.forget(P)
    planner.purged(P)

    job = next_one(planner).job

    assert job.page_writes == [PageWrite(Q, b"other")]
    assert job.page_deletes == [PageKey(Q, 4)]
    assert [put.partition_id for put in job.cursor_puts] == [Q]
    planner.succeeded(0).end(succeeded=True)
    assert answers == [True]


def test_a_partition_that_is_deleted_while_a_checkpoint_fails_is_left_out_of_the_next() -> None:
    cursors = {each: PartitionCursor(each, 1, 100) for each in (P, Q)}
    planner = CheckpointPlanner(cursors, LOG_BYTES_MAX)
    planner.changed(P)
    planner.changed(Q)
    next_one(planner)
    planner.forget(P)
    planner.purged(P)
    planner.failed()

    assert [put.partition_id for put in next_one(planner).job.cursor_puts] == [Q]


def test_the_cursor_of_a_partition_is_written_until_its_deletion_is_committed() -> None:
    """The checkpoint trims the settlements from the log, and the partition is still there after a crash."""
    planner = planner_of(P, Q)
    planner.changed(P)
    planner.forget(P)
    next_one(planner)
    planner.failed()

    assert [put.partition_id for put in planner.last_checkpoint([], applied=7, needed_from=7).cursor_puts] == [P]
    assert [put.partition_id for put in next_one(planner).job.cursor_puts] == [P]


def test_a_start_that_found_records_has_every_cursor_written_by_the_first_checkpoint() -> None:
    """The stored ones lack the settlements of these records."""
    planner = planner_of(P, Q)
    planner.recovered(0)
    assert planner.due_ms() == NEVER

    planner.recovered(3)

    assert planner.makes_room()
    assert [put.partition_id for put in next_one(planner).job.cursor_puts] == [P, Q]


def test_the_last_checkpoint_leaves_pages_that_are_not_written_yet_in_the_log() -> None:
    planner = planner_of(P)
    planner.write_pages(pages_of(P), NOW_MS)
    planner.drop_pages(P, [3])
    state = PartitionCursor(P, 9, 10).state([])

    job = planner.last_checkpoint([state], applied=7, needed_from=5)

    assert job == CheckpointJob(applied=7, needed_from=5, page_deletes=[PageKey(P, 3)], cursor_puts=[state])
