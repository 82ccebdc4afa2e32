"""What a commit writes, what it need not write, and what the log may forget."""

from collections.abc import Callable

import pytest

from sluicegate.messaging.message.publication import UNWRITTEN, Publication
from sluicegate.storage.commit.pending import NEVER
from sluicegate.storage.commit.planner import LOG_OVERRUN_MAX, SEQUENCES_RESERVED, CommitPlanner, TableRequest
from sluicegate.storage.interface import PageKey, Reservation, Table, TableWrite
from sluicegate.storage.records.cursor import CursorRecord
from sluicegate.storage.records.journal import JournalRecord, Settlement, decode_journal_record
from support.cores.spool_steps import (
    P,
    Q,
    checkpointed,
    committed,
    done_with,
    planner_with,
    publication_to,
    record_of,
    stored,
)


def test_a_publication_settled_before_the_commit_is_never_written() -> None:
    """Accepted by all its consumers before the flush, it needs no disk."""
    planner = planner_with(P)
    gone, needed = publication_to({P: 1}, count=2), publication_to({P: 3}, count=3)
    planner.store(gone, now_ms=0)
    planner.store(needed, now_ms=0)
    done_with(planner, gone)

    assert planner.take_elided() == [gone]
    assert committed(planner).publications == [needed]
    assert (planner.elided_count, planner.written_count) == (2, 3)  # messages


def test_the_log_chooses_the_numbers_of_commits() -> None:
    """A log of several replicas has messages of its own between the records."""
    planner = planner_with(P)
    number = stored(planner, {P: 1}).record_number
    planner.store(publication_to({P: 3}), now_ms=0)
    planner.next_commit(now_ms=0, patience_ms=0)
    planner.committed(next_number=number + 40)
    last = stored(planner, {P: 5})

    job = checkpointed(planner)

    assert last.record_number == number + 40
    assert (job.applied, job.needed_from) == (number + 40, number)


def test_settlements_of_what_was_never_written_wait_for_a_commit_that_has_a_reason() -> None:
    planner = planner_with(P)
    planner.settle(P, [(1, 3)], written=False)
    assert planner.due_ms(0) == NEVER

    planner.store(publication_to({P: 3}), now_ms=0)

    assert record_of(committed(planner)).settlements == [Settlement(P, 1, 3)]


def test_settlements_of_what_was_written_are_worth_a_commit() -> None:
    planner = planner_with(P)
    planner.settle(P, [(1, 3), (3, 5)], written=True)

    assert planner.due_ms(0) == 0
    assert record_of(committed(planner)).settlements == [Settlement(P, 1, 5)]
    assert planner.due_ms(0) == NEVER


def test_settlements_that_are_worth_a_commit_remain_so_whatever_comes_behind_them() -> None:
    planner = planner_with(P)
    stored(planner, {P: 1})
    planner.settle(P, [(1, 2)], written=True)
    planner.settle(P, [(3, 4)], written=False)

    assert planner.due_ms(0) == 0


ROW = TableWrite(Table.CATALOG, b"k", b"v")
WORK: dict[str, Callable[[CommitPlanner], None]] = {
    "rows": lambda planner: planner.write_tables(TableRequest([ROW], lambda _: None)),
    "a reservation": lambda planner: planner.reserve(P, SEQUENCES_RESERVED),
    "a deleted partition": lambda planner: planner.forget(P),
}


@pytest.mark.parametrize("work", WORK.values(), ids=WORK)
def test_urgent_work_causes_a_commit_by_itself(work: Callable[[CommitPlanner], None]) -> None:
    planner = planner_with(P)
    assert planner.due_ms(0) == NEVER

    work(planner)

    assert planner.due_ms(0) == 0


def test_settlements_that_come_while_a_commit_writes_their_messages_are_worth_another() -> None:
    """Else what a consumer has accepted would come again after the next start, however long it takes until then."""
    planner = planner_with(P)
    planner.store(publication_to({P: 1}), now_ms=0)
    planner.next_commit(now_ms=0, patience_ms=0)
    planner.settle(P, [(1, 2)], written=False)  # was said before the commit began, and is heard of now
    planner.committed(planner.next_record_number + 1)

    assert planner.due_ms(0) == 0
    assert record_of(committed(planner)).settlements == [Settlement(P, 1, 2)]
    assert planner.due_ms(0) == NEVER


def test_a_publication_to_two_partitions_is_one_entry_of_one_record() -> None:
    """A publish to several queues is all or nothing."""
    planner = planner_with(P, Q)
    planner.store(publication_to({P: 1, Q: 7}), now_ms=0)

    (entry,) = record_of(committed(planner)).entries

    assert [(match.partition_id, match.first_sequence) for match in entry.matches] == [(P, 1), (Q, 7)]


def needed_from(planner: CommitPlanner) -> int:
    """Return the record from which on a checkpoint would keep the log."""
    return checkpointed(planner).needed_from


def test_a_record_goes_when_all_before_it_and_itself_are_needed_no_more() -> None:
    planner = planner_with(P)
    first, second, third = (stored(planner, {P: sequence}) for sequence in (1, 3, 5))

    done_with(planner, second)
    committed(planner)
    assert needed_from(planner) == first.record_number

    done_with(planner, first)
    committed(planner)
    assert needed_from(planner) == third.record_number > second.record_number

    done_with(planner, third)
    last = committed(planner).job.number
    assert needed_from(planner) == last + 1


def test_a_record_is_kept_until_the_settlements_that_make_it_unnecessary_are_committed() -> None:
    """In a last-value queue a message is settled when another one replaces it, which is not written yet."""
    planner = planner_with(P)
    replaced = stored(planner, {P: 1})
    replacing = publication_to({P: 3})
    planner.store(replacing, now_ms=0)
    done_with(planner, replaced)
    assert needed_from(planner) == replaced.record_number

    planner.next_commit(now_ms=0, patience_ms=0)
    assert needed_from(planner) == replaced.record_number, "a checkpoint beside the commit"
    planner.failed()
    assert needed_from(planner) == replaced.record_number

    committed(planner)
    assert needed_from(planner) > replaced.record_number


def test_a_record_whose_messages_moved_into_pages_goes_at_once() -> None:
    planner = planner_with(P)
    publication = stored(planner, {P: 1})
    publication.open_count = 0
    planner.released(publication)

    assert planner.due_ms(0) == NEVER
    assert needed_from(planner) > publication.record_number


def test_settlements_that_can_wait_do_not_keep_the_log() -> None:
    """A full store needs its room, and nothing else may come that is worth a commit."""
    planner = planner_with(P)
    publication = stored(planner, {P: 1})
    planner.settle(P, [(5, 6)], written=False)
    publication.open_count = 0
    planner.released(publication)

    assert planner.due_ms(0) == 0
    committed(planner)
    assert needed_from(planner) > publication.record_number


def test_a_page_is_deleted_after_the_settlements_that_make_it_unnecessary() -> None:
    planner = planner_with(P)
    planner.settle(P, [(1, 2)], written=True)
    planner.drop_pages(P, [1])
    planner.next_commit(now_ms=0, patience_ms=0)
    assert checkpointed(planner).page_deletes == []
    planner.failed()
    assert checkpointed(planner).page_deletes == []

    committed(planner)
    assert checkpointed(planner).page_deletes == [PageKey(P, 1)]


def test_a_page_is_deleted_after_the_rows_that_name_it() -> None:
    planner = planner_with(P)
    planner.write_tables(TableRequest([TableWrite(Table.TRANSACTIONS, b"page/1", None)], lambda _: None))
    planner.drop_pages(P, [1])
    assert checkpointed(planner).page_deletes == []

    committed(planner)
    assert checkpointed(planner).page_deletes == [PageKey(P, 1)]


def test_a_page_that_nothing_waits_for_needs_no_commit() -> None:
    planner = planner_with(P)
    planner.drop_pages(P, [1])

    assert planner.due_ms(0) == NEVER
    assert checkpointed(planner).page_deletes == [PageKey(P, 1)]


def test_a_checkpoint_includes_nothing_of_a_commit_in_progress() -> None:
    planner = planner_with(P, Q)
    planner.settle(P, [(1, 3)], written=True)
    before = committed(planner).job.number
    planner.settle(Q, [(1, 3)], written=True)
    planner.settle(P, [(3, 4)], written=True)
    planner.next_commit(now_ms=0, patience_ms=0)

    job = checkpointed(planner)

    assert (job.applied, job.needed_from) == (before, before + 1)
    assert {put.partition_id: put.floor for put in job.cursor_puts} == {P: 3, Q: 1}
    planner.committed(planner.next_record_number + 1)
    job = checkpointed(planner)
    assert (job.applied, job.needed_from) == (before + 1, before + 2)
    assert {put.partition_id: put.floor for put in job.cursor_puts} == {P: 4, Q: 3}


def test_a_record_that_a_partition_was_read_back_from_goes_when_the_new_ledger_needs_it_no_more() -> None:
    """The old ledger lets go of what is still in the new one."""
    planner = planner_with(P)
    publication = stored(planner, {P: 1})
    found = publication_to({P: 1})
    found.record_number = publication.record_number
    planner.readopt(found)

    publication.open_count = 0
    planner.released(publication)
    assert needed_from(planner) == found.record_number

    done_with(planner, found)
    committed(planner)
    assert needed_from(planner) > found.record_number
    planner.readopt(found)  # late


def test_records_found_at_the_start_go_when_what_they_hold_is_needed_no_more() -> None:
    planner = CommitPlanner(next_record_number=8)
    planner.register(P, floor=1, next_sequence_reserved=1)
    settled, waiting = publication_to({P: 1}), publication_to({P: 3})
    settled.open_count = 0
    waiting.record_number = 7
    planner.recovered(7, [settled, waiting])
    committed(planner)
    assert needed_from(planner) == 7

    done_with(planner, waiting)
    committed(planner)
    assert needed_from(planner) > 7


def test_the_cursor_is_written_by_the_checkpoint_that_includes_its_settlements() -> None:
    planner = planner_with(P)
    publication = stored(planner, {P: 1})
    kept = stored(planner, {P: 3})
    planner.settle(P, [(3, 4)], written=True)
    done_with(planner, publication)
    number = committed(planner).job.number

    job = checkpointed(planner)

    assert (job.applied, job.needed_from) == (number, kept.record_number)
    assert job.cursor_puts == [CursorRecord(P, 4, [], SEQUENCES_RESERVED + 1, [])]
    assert checkpointed(planner).cursor_puts == [], "it is written"


def test_unsettled_messages_hold_the_floor_of_their_partition() -> None:
    """Below the floor a start finds nothing."""
    planner = planner_with(P)
    steps: list[tuple[list[tuple[int, int]], tuple[int, list[tuple[int, int]]]]] = [
        ([(2, 3), (6, 8)], (1, [(2, 3), (6, 8)])),
        ([(1, 2)], (3, [(6, 8)])),
        ([(1, 2)], (3, [(6, 8)])),
        ([(3, 9)], (9, [])),
    ]
    for settled, expected in steps:
        planner.settle(P, settled, written=True)
        committed(planner)
        assert planner.settled_of(P) == expected

    planner.settle(P, [(10, 11)], written=True)
    assert planner.settled_of(P) == (9, [(10, 11)]), "that of the next commit, too"


def test_a_failed_commit_gives_up_its_publications_and_keeps_everything_else() -> None:
    planner = planner_with(P, Q)
    old = [stored(planner, {P: sequence}) for sequence in (1, 3)]
    done_with(planner, old[0])
    refused = publication_to({Q: 1})
    planner.store(refused, now_ms=0)
    planner.settle(Q, [(90, 95)], written=False)
    planner.drop_pages(P, [11])
    planner.forget(99)
    answers: list[str] = []
    planner.write_tables(TableRequest([TableWrite(Table.CATALOG, b"k", b"v")], answers.append, uses_reserve=False))
    checkpointed(planner)
    failed_job = planner.next_commit(now_ms=0, patience_ms=0).job
    commit = planner.failed()

    assert commit.publications == [refused]
    assert refused.record_number == UNWRITTEN
    assert len(commit.tables) == 1
    job = checkpointed(planner)
    assert (job.applied, job.needed_from) == (failed_job.number - 1, old[0].record_number)
    assert (job.cursor_puts, job.page_deletes) == ([], [])

    again = committed(planner).job
    assert again.number == failed_job.number
    assert record_of_bytes(again.record).entries == []
    assert record_of_bytes(again.record).settlements == [Settlement(P, 1, 3), Settlement(Q, 90, 95)]
    assert again.partition_purges == [99]
    assert again.uses_reserve, "it settles and publishes nothing, so it may empty a full store"
    job = checkpointed(planner)
    assert job.page_deletes == [PageKey(P, 11)]
    assert [put.partition_id for put in job.cursor_puts] == [P, Q]


def test_messages_consumed_while_their_commit_failed_are_confirmed() -> None:
    """Its publisher would send again what its consumers have done with."""
    planner = planner_with(P)
    consumed, open_still = publication_to({P: 1}, count=2), publication_to({P: 3})
    for publication in (consumed, open_still):
        planner.store(publication, now_ms=0)
    planner.next_commit(now_ms=0, patience_ms=0)
    done_with(planner, consumed)

    assert planner.failed().publications == [open_still]
    assert planner.take_elided() == [consumed]
    assert planner.elided_count == 2


def record_of_bytes(record: bytes | None) -> JournalRecord:
    assert record is not None
    return decode_journal_record(record)


def test_a_partition_that_goes_before_its_first_commit_has_no_cursor_written() -> None:
    """A queue that is made and deleted within a turn: nobody knows where it stood."""
    planner = planner_with(P)
    checkpointed(planner)
    planner.register(Q, floor=1, next_sequence_reserved=1)
    planner.forget(Q)

    job = committed(planner).job

    assert (job.reservations, job.partition_purges) == ([], [Q])
    assert checkpointed(planner).cursor_puts == []


def test_a_partition_that_goes_while_its_first_commit_is_made_has_no_cursor_written() -> None:
    """A checkpoint would bring it back, behind the commit that deletes it."""
    planner = planner_with(P)
    checkpointed(planner)
    planner.register(Q, floor=1, next_sequence_reserved=1)
    planner.next_commit(now_ms=0, patience_ms=0)
    planner.forget(Q)
    planner.committed(planner.next_record_number + 1)

    assert checkpointed(planner).cursor_puts == []
    assert committed(planner).job.partition_purges == [Q]


def test_rows_that_must_go_with_a_purge_are_written_by_the_commit_that_makes_it_however_often_it_takes() -> None:
    planner = planner_with(P)
    answers: list[str] = []
    planner.forget(P)
    planner.write_tables(TableRequest([TableWrite(Table.CATALOG, b"queue/q", None)], answers.append, until_done=True))

    for _ in range(3):
        job = planner.next_commit(now_ms=0, patience_ms=0).job
        assert (job.partition_purges, [row.key for row in job.table_writes]) == ([P], [b"queue/q"])
        assert job.uses_reserve, "it makes room, so a full store has to take it"
        assert planner.failed().tables == [], "nobody is refused"

    planner.next_commit(now_ms=0, patience_ms=0)
    for table in planner.committed(planner.next_record_number + 1).tables:
        table.done("")
    assert answers == [""]


def test_messages_settled_again_after_a_failed_commit_count_once() -> None:
    planner = planner_with(P)
    planner.settle(P, [(3, 5), (7, 9)], written=True)
    planner.next_commit(now_ms=0, patience_ms=0)
    planner.failed()
    planner.settle(P, [(1, 8)], written=True)
    committed(planner)

    assert planner.cursors[P].floor == 9
    assert planner.cursors[P].settled.ranges() == []


def test_sequences_are_reserved_before_half_of_the_last_reservation_is_used_up() -> None:
    """Never reused. What consumers saw may never have been written, so the bound has to be well ahead."""
    planner = planner_with(P)
    planner.store(publication_to({P: SEQUENCES_RESERVED // 2}, count=2), now_ms=0)

    assert committed(planner).job.reservations == [Reservation(P, 1, SEQUENCES_RESERVED // 2 + 2 + SEQUENCES_RESERVED)]


def test_a_partition_that_comes_back_reserves_anew_before_it_is_used() -> None:
    """After a crash it starts at the reserved bound: a second crash must not start there again."""
    planner = CommitPlanner(next_record_number=1)
    planner.register(P, floor=1, next_sequence_reserved=500)

    assert planner.due_ms(0) == 0
    assert committed(planner).job.reservations == [Reservation(P, 1, 500 + SEQUENCES_RESERVED)]
    assert committed(planner).job.reservations == []


def test_a_reservation_that_a_failed_commit_should_have_made_is_made_by_the_next() -> None:
    """Else a crash would begin again with sequences that consumers saw."""
    planner = CommitPlanner(next_record_number=1)
    planner.register(P, floor=1, next_sequence_reserved=500)
    planner.next_commit(now_ms=0, patience_ms=0)
    planner.failed()

    assert planner.due_ms(0) == 0
    assert committed(planner).job.reservations == [Reservation(P, 1, 500 + SEQUENCES_RESERVED)]
    assert committed(planner).job.reservations == []


def test_rows_of_what_was_consumed_are_written_though_a_commit_of_them_fails() -> None:
    """By them a publisher that repeats itself is known; it is confirmed when they are safe, and never refused."""
    planner = planner_with(P)
    consumed = publication_to({P: 1})
    consumed.session_rows = [(b"publisher", b"1")]
    planner.store(consumed, now_ms=0)
    done_with(planner, consumed)
    planner.next_commit(now_ms=0, patience_ms=0)
    assert planner.failed().publications == []

    assert planner.due_ms(0) == 0
    commit = committed(planner)
    assert commit.elided == [consumed]
    assert commit.job.table_writes == [TableWrite(Table.SESSIONS, b"publisher", b"1")]


def test_rows_that_nobody_needs_to_go_on_leave_the_reserve_alone() -> None:
    planner = planner_with(P)
    answers: list[str] = []
    for uses_reserve in (True, False):
        planner.write_tables(TableRequest([TableWrite(Table.CATALOG, b"k", b"v")], answers.append, uses_reserve=True))
        planner.write_tables(
            TableRequest([TableWrite(Table.CATALOG, b"l", b"v")], answers.append, uses_reserve=uses_reserve)
        )
        assert committed(planner).job.uses_reserve == uses_reserve


def test_settlements_of_a_deleted_partition_are_not_written() -> None:
    planner = planner_with(P)
    publication = stored(planner, {P: 1})
    planner.settle(P, [(1, 2)], written=True)
    committed(planner)
    planner.settle(P, [(2, 3)], written=True)
    planner.forget(P)
    publication.open_count = 0
    planner.released(publication)

    job = committed(planner).job

    assert (job.record, job.reservations, job.partition_purges) == (None, [], [P])
    after = checkpointed(planner)
    assert (after.cursor_puts, after.needed_from) == ([], job.number + 1)


def test_late_messages_of_a_deleted_partition_are_ignored() -> None:
    planner = planner_with(P)
    planner.forget(P)
    planner.settle(P, [(1, 2)], written=True)
    planner.store(publication_to({P: 1}), now_ms=0)

    assert record_of(committed(planner)).settlements == []


def test_the_head_of_the_log_is_named_when_the_log_has_grown_too_long() -> None:
    planner = planner_with(P, Q)
    assert planner.wanted_pages() == (0, set())
    head, behind = stored(planner, {P: 1}), stored(planner, {Q: 3})
    assert planner.wanted_pages() == (0, set())

    planner.log_bytes_max = 4 * planner.journal.needed_bytes() // 5
    assert planner.wanted_pages() == (head.record_number, {P})

    planner.log_bytes_max = 4 * planner.journal.needed_bytes() - 4
    assert planner.wanted_pages() == (0, set()), "it is short enough"
    assert behind.record_number > head.record_number


def test_a_log_of_twice_its_maximum_takes_no_commit() -> None:
    """Until a checkpoint has included it, or has moved what keeps its head."""
    planner = planner_with(P)
    checkpointed(planner)
    planner.log_bytes_max = 50
    publications: list[Publication] = []
    while not planner.log_is_too_long():
        publications.append(stored(planner, {P: 1 + 2 * len(publications)}))
    assert planner.journal.needed_bytes() > LOG_OVERRUN_MAX * 50

    planner.next_checkpoint()
    assert planner.log_is_too_long(), "it is not made yet"
    planner.checkpoints.succeeded(overhead_bytes=0)
    assert planner.log_is_too_long(), "no page has its messages"
    for publication in publications:
        planner.released(publication)
    assert not planner.log_is_too_long()
