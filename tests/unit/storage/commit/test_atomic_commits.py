"""What is written together or not at all: a move with the settlement of its source, a publish with its session rows.

Beside it, what a full store takes from its reserve, and what is tried once more from there.
"""

from sluicegate.messaging.message.publication import UNWRITTEN, Publication
from sluicegate.storage.commit.pending import NEVER
from sluicegate.storage.commit.planner import SEQUENCES_RESERVED, TableRequest
from sluicegate.storage.interface import Table, TableWrite
from sluicegate.storage.records.journal import Settlement
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


def move_to(first_by_partition: dict[int, int], taken: list[tuple[int, int, int]]) -> Publication:
    """Return a publication of messages that are taken out of elsewhere: partition, first, end."""
    publication = publication_to(first_by_partition)
    publication.settlements = taken
    publication.only_moves = True
    return publication


def test_a_move_and_the_settlement_of_its_source_are_in_one_record() -> None:
    """After a crash the message is in exactly one of the two."""
    planner = planner_with(P, Q)
    stored(planner, {P: 1})
    planner.store(move_to({Q: 1}, [(P, 1, 3)]), now_ms=0)
    planner.settle(P, [(9, 10)], written=False)

    record = record_of(committed(planner))

    assert [match.partition_id for entry in record.entries for match in entry.matches] == [Q]
    assert record.settlements == [Settlement(P, 9, 10), Settlement(P, 1, 3)]


def test_moved_messages_are_in_the_cursor_before_their_record_is_deleted() -> None:
    planner = planner_with(P, Q)
    source = stored(planner, {P: 1})
    move = move_to({Q: 1}, [(P, 1, 3)])
    planner.store(move, now_ms=0)
    committed(planner)
    source.open_count = 0
    planner.released(source)
    done_with(planner, move)

    committed(planner)
    job = checkpointed(planner)

    assert job.needed_from == job.applied + 1 > move.record_number
    floors = {put.partition_id: put.floor for put in job.cursor_puts}
    assert floors == {P: 3, Q: 3}


def test_a_move_whose_commit_failed_has_taken_nothing_out() -> None:
    """Not even in a cursor that is written later for another reason."""
    planner = planner_with(P, Q)
    stored(planner, {P: 1})
    planner.store(move_to({Q: 1}, [(P, 1, 3)]), now_ms=0)
    planner.next_commit(now_ms=0, patience_ms=0)
    planner.failed()
    planner.reserve(P, SEQUENCES_RESERVED)

    assert planner.cursors[P].floor == 1
    assert planner.cursors[P].settled.ranges() == []


def test_a_move_is_tried_again_from_the_reserve_when_it_failed_with_what_may_not_use_it() -> None:
    """It makes no more of the spool than there was, and emptying a full store must go on."""
    planner = planner_with(P, Q)
    publish, move = publication_to({P: 5}), move_to({Q: 1}, [(P, 1, 3)])
    planner.store(publish, now_ms=0)
    planner.store(move, now_ms=0)
    assert not planner.next_commit(now_ms=0, patience_ms=0).job.uses_reserve

    assert planner.failed().publications == [publish], "only who publishes hears of it"
    assert move.record_number == UNWRITTEN

    commit = committed(planner)
    assert commit.publications == [move]
    assert commit.job.uses_reserve
    assert record_of(commit).settlements == [Settlement(P, 1, 3)]


def test_publications_that_wait_behind_a_failed_commit_are_given_up_with_it_and_moves_are_tried_again() -> None:
    """A smaller commit might fit: it would store messages before older ones, which their publisher sends again."""
    planner = planner_with(P, Q)
    publish, move = publication_to({P: 5}), move_to({Q: 1}, [(P, 1, 3)])
    waiting, later_move = publication_to({P: 7}), move_to({Q: 5}, [(P, 3, 5)])
    planner.store(publish, now_ms=0)
    planner.store(move, now_ms=0)
    planner.next_commit(now_ms=0, patience_ms=0)
    planner.store(waiting, now_ms=0)
    planner.store(later_move, now_ms=0)

    assert planner.failed().publications == [publish, waiting]
    assert committed(planner).publications == [move, later_move]


def test_a_move_that_was_consumed_while_its_commit_failed_is_not_tried_again() -> None:
    planner = planner_with(P, Q)
    publish, move = publication_to({P: 5}), move_to({Q: 1}, [(P, 1, 3)])
    planner.store(publish, now_ms=0)
    planner.store(move, now_ms=0)
    planner.next_commit(now_ms=0, patience_ms=0)
    done_with(planner, move)
    planner.failed()

    assert planner.take_elided() == [move]
    commit = committed(planner)
    assert commit.publications == []
    assert Settlement(P, 1, 3) in record_of(commit).settlements


def test_a_move_that_the_reserve_has_no_room_for_is_given_up() -> None:
    planner = planner_with(P, Q)
    move = move_to({Q: 1}, [(P, 1, 3)])
    planner.store(move, now_ms=0)
    assert planner.next_commit(now_ms=0, patience_ms=0).job.uses_reserve

    assert planner.failed().publications == [move]
    assert planner.due_ms(0) == NEVER


def test_a_move_that_was_consumed_before_it_was_written_still_takes_its_messages_out() -> None:
    """Accepted before the flush it needs no disk, but its source has to know."""
    planner = planner_with(P, Q)
    move = move_to({Q: 1}, [(P, 1, 3)])
    planner.store(move, now_ms=0)
    done_with(planner, move)

    assert planner.take_elided() == [move]
    assert planner.due_ms(0) == 0
    assert Settlement(P, 1, 3) in record_of(committed(planner)).settlements


def test_a_move_out_of_a_queue_that_was_deleted_meanwhile_is_only_a_publication() -> None:
    planner = planner_with(P, Q)
    planner.store(move_to({Q: 1}, [(P, 1, 3)]), now_ms=0)
    planner.forget(P)

    assert record_of(committed(planner)).settlements == []


def test_what_moves_out_of_a_queue_is_settled_there_until_the_store_has_the_deletion_of_the_queue() -> None:
    planner = planner_with(P, Q)
    planner.store(move_to({Q: 1}, [(P, 1, 3)]), now_ms=0)
    planner.next_commit(now_ms=0, patience_ms=0)
    planner.forget(P)
    planner.committed(planner.next_record_number + 1)

    assert [(put.partition_id, put.floor) for put in checkpointed(planner).cursor_puts] == [(P, 3), (Q, 1)]
    assert committed(planner).job.partition_purges == [P]
    assert checkpointed(planner).cursor_puts == []


def test_rows_of_a_session_are_written_by_the_very_commit_that_writes_the_publication() -> None:
    """MQTT QoS 2: the packet id is remembered exactly when the message is safe."""
    planner = planner_with(P)
    publication = publication_to({P: 1})
    publication.session_rows = [(b"received/1", b"\1")]
    planner.store(publication, now_ms=0)

    job = committed(planner).job

    assert job.record is not None
    assert job.table_writes == [TableWrite(Table.SESSIONS, b"received/1", b"\1")]


def test_later_rows_of_a_session_come_behind_those_of_publications() -> None:
    """PUBREL deletes the row that the publish made: in one commit the deletion has to be the last word."""
    planner = planner_with(P)
    deletion = TableWrite(Table.SESSIONS, b"received/1", None)
    planner.write_tables(TableRequest([deletion], lambda _: None, uses_reserve=True))
    publication = publication_to({P: 1})
    publication.session_rows = [(b"received/1", b"\1")]
    planner.store(publication, now_ms=0)

    assert committed(planner).job.table_writes == [TableWrite(Table.SESSIONS, b"received/1", b"\1"), deletion]


def test_rows_of_a_session_are_written_though_their_publication_need_not_be() -> None:
    """A publisher that does not hear of its confirmation before a crash repeats itself, and is known by its rows."""
    planner = planner_with(P)
    publication = publication_to({P: 1})
    publication.session_rows = [(b"received/1", b"\1")]
    publication.open_count = 0
    planner.store(publication, now_ms=0)

    assert planner.take_elided() == []
    commit = committed(planner)
    assert commit.elided == [publication]
    assert commit.publications == []
    assert commit.job.table_writes == [TableWrite(Table.SESSIONS, b"received/1", b"\1")]
    assert commit.job.uses_reserve
    assert planner.due_ms(0) == NEVER


def test_rows_of_what_was_consumed_before_it_was_written_are_tried_until_they_are_safe() -> None:
    planner = planner_with(P)
    consumed, waiting = publication_to({P: 1}), publication_to({P: 3})
    consumed.session_rows = [(b"received/1", b"\1")]
    consumed.open_count = 0
    planner.store(consumed, now_ms=0)
    planner.store(waiting, now_ms=0)
    planner.take_elided()
    planner.next_commit(now_ms=0, patience_ms=0)

    assert planner.failed().publications == [waiting]
    assert committed(planner).elided == [consumed]


def test_rows_of_a_session_go_with_a_publication_that_is_refused() -> None:
    planner = planner_with(P)
    publication = publication_to({P: 1})
    publication.session_rows = [(b"received/1", b"\1")]
    planner.store(publication, now_ms=0)
    planner.next_commit(now_ms=0, patience_ms=0)
    planner.failed()
    planner.settle(P, [(1, 3)], written=True)

    assert committed(planner).job.table_writes == []


def test_rows_that_consumers_need_are_tried_again_from_the_reserve() -> None:
    """What a full store could not take together with a publish, it takes alone."""
    planner = planner_with(P)
    planner.store(publication_to({P: 1}), now_ms=0)
    answers: list[str] = []
    row = TableWrite(Table.SESSIONS, b"sent/1", b"\1")
    planner.write_tables(TableRequest([row], lambda reason: answers.append(f"row {reason}"), uses_reserve=True))
    other = TableWrite(Table.CATALOG, b"queue/q", b"{}")
    planner.write_tables(TableRequest([other], lambda reason: answers.append(f"queue {reason}"), uses_reserve=False))
    planner.next_commit(now_ms=0, patience_ms=0)

    for request in planner.failed().tables:
        request.done("full")
    commit = committed(planner)
    for request in commit.tables:
        request.done("")

    assert answers == ["queue full", "row "]
    assert commit.job.table_writes == [row]
    assert commit.job.uses_reserve


def test_rows_that_the_reserve_has_no_room_for_are_refused() -> None:
    planner = planner_with(P)
    answers: list[str] = []
    row = TableWrite(Table.SESSIONS, b"sent/1", b"\1")
    planner.write_tables(TableRequest([row], answers.append, uses_reserve=True))
    planner.next_commit(now_ms=0, patience_ms=0)

    for request in planner.failed().tables:
        request.done("full")

    assert answers == ["full"]
    assert planner.due_ms(0) == NEVER


def test_a_transaction_that_brings_messages_leaves_the_reserve_alone() -> None:
    """What it settles makes no room: its messages may be larger than what they are made of."""
    planner = planner_with(P, Q)
    transaction = move_to({Q: 1}, [(P, 1, 3)])
    transaction.only_moves = False
    planner.store(transaction, now_ms=0)
    assert not planner.next_commit(now_ms=0, patience_ms=0).job.uses_reserve
    assert planner.failed().publications == [transaction], "it is refused, and not tried again"


def test_what_is_settled_while_its_commit_fails_says_nothing_of_the_next_one_with_its_number() -> None:
    """Else the log would be trimmed of messages that are nowhere else."""
    planner = planner_with(P, Q)
    settled, moved = publication_to({P: 3}), move_to({Q: 1}, [(P, 1, 3)])
    planner.store(settled, now_ms=0)
    planner.store(moved, now_ms=0)
    failed_job = planner.next_commit(now_ms=0, patience_ms=0).job
    done_with(planner, settled)
    planner.failed()

    again = committed(planner)

    assert (again.job.number, again.publications) == (failed_job.number, [moved])
    assert checkpointed(planner).needed_from == failed_job.number
