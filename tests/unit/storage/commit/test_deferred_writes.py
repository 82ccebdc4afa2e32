"""Which publications are worth a commit, and from when on."""

from sluicegate.messaging.message.publication import Publication
from sluicegate.storage.commit.pending import GIVEN_TIME_MAX, NEVER, PendingPublications
from sluicegate.storage.commit.planner import CommitPlanner, TableRequest
from sluicegate.storage.interface import Table, TableWrite
from sluicegate.storage.records.journal import Settlement
from support.cores.spool_steps import P, Q, planner_with, publication_to, record_of

PATIENCE_MS = 10


def with_consumers(publication: Publication) -> Publication:
    """Have consumers get all messages of a publication."""
    publication.undelivered_count = 0
    return publication


def due_ms_of(*publications: Publication) -> int:
    """Return when these are due, which came at 100, 101 and so on."""
    unwritten = PendingPublications()
    for now_ms, publication in enumerate(publications, 100):
        unwritten.add(publication, now_ms)
    return unwritten.due_ms(PATIENCE_MS)


def test_nothing_is_never_due() -> None:
    assert due_ms_of() == NEVER


def test_a_message_with_no_consumer_is_worth_a_commit_at_once() -> None:
    assert due_ms_of(with_consumers(publication_to({P: 1})), publication_to({P: 3})) == 0


def test_consumers_that_have_everything_are_given_time_from_the_coming_of_the_oldest() -> None:
    first, second = with_consumers(publication_to({P: 1})), with_consumers(publication_to({P: 3}))
    assert due_ms_of(first, second) == 110
    assert due_ms_of(second) == 110, "with the oldest gone the others have their own time"


def test_many_at_once_are_given_no_time() -> None:
    """Until consumers that are slow have settled they would be looked through again at the end of every turn."""
    many = [with_consumers(publication_to({P: 1 + 2 * number})) for number in range(GIVEN_TIME_MAX + 1)]
    assert due_ms_of(*many) == 0
    assert due_ms_of(*many[1:]) == 110


def test_one_queue_without_a_consumer_is_enough() -> None:
    publication = publication_to({P: 1, Q: 1}, count=2)
    publication.undelivered_count -= 2
    assert due_ms_of(publication) == 0


def test_writes_that_belong_to_another_write_are_due_at_once() -> None:
    """MQTT QoS 2 publishers are known by rows, and what moves is settled where it came from, by its very record."""
    remembered, moved = with_consumers(publication_to({P: 1})), with_consumers(publication_to({P: 1}))
    remembered.session_rows = [(b"received/1", b"\1")]
    moved.settlements = [(Q, 1, 3)]
    assert due_ms_of(remembered) == 0
    assert due_ms_of(moved) == 0


def test_rows_of_a_neighbors_messages_wait_as_long_as_the_messages() -> None:
    publication = with_consumers(publication_to({P: 1}))
    publication.session_rows = [(b"link-publisher/b/1", b"\1")]
    publication.rows_can_wait = True
    assert due_ms_of(publication) == 110

    publication.undelivered_count = 1
    assert due_ms_of(publication) == 0


def test_consumers_that_are_known_to_need_longer_are_given_that_time() -> None:
    usual, slower = with_consumers(publication_to({P: 1})), with_consumers(publication_to({P: 3}))
    slower.patience_ms = 3 * PATIENCE_MS
    assert due_ms_of(slower) == 130
    assert due_ms_of(slower, usual) == 111, "others are not"

    unwritten = PendingPublications()
    unwritten.add(slower, 100)
    assert unwritten.due_ms(0) <= 100, "a store that stops waits for nobody"


def planner_with_one_at_consumers(now_ms: int) -> tuple[CommitPlanner, Publication]:
    planner = planner_with(P, Q)
    publication = with_consumers(publication_to({P: 1}))
    planner.store(publication, now_ms)
    return planner, publication


def test_a_commit_that_only_settles_leaves_out_what_consumers_have() -> None:
    """Written with it their settlement would be worth a commit as well, with those that came meanwhile, and so on."""
    planner, young = planner_with_one_at_consumers(now_ms=100)
    planner.settle(Q, [(1, 2)], written=True)
    assert planner.due_ms(PATIENCE_MS) == 0

    commit = planner.next_commit(101, PATIENCE_MS)
    planner.committed(planner.next_record_number + 1)

    assert (commit.publications, record_of(commit).settlements) == ([], [Settlement(Q, 1, 2)])
    assert planner.due_ms(PATIENCE_MS) == 110
    assert planner.next_commit(110, PATIENCE_MS).publications == [young]


def test_a_commit_that_writes_rows_takes_everything_that_came_before_them() -> None:
    """A partition that is read back behind such a commit has to find all it has said."""
    planner, young = planner_with_one_at_consumers(now_ms=100)
    planner.write_tables(TableRequest([TableWrite(Table.SESSIONS, b"k", b"v")], lambda _: None, uses_reserve=True))

    assert planner.next_commit(100, PATIENCE_MS).publications == [young]


def test_earlier_messages_are_written_with_a_message_that_has_to_be_written() -> None:
    """Else a crash would have the older one come behind it, when its publisher sends it once more."""
    planner, young = planner_with_one_at_consumers(now_ms=100)
    waiting = publication_to({P: 3})
    planner.store(waiting, 101)

    assert planner.due_ms(PATIENCE_MS) == 0
    assert planner.next_commit(101, PATIENCE_MS).publications == [young, waiting]


def test_messages_settled_in_time_need_no_commit() -> None:
    planner, young = planner_with_one_at_consumers(now_ms=100)
    young.open_count = 0
    planner.settle(P, [(1, 3)], written=False)
    planner.released(young)

    assert planner.take_elided() == [young]
    assert planner.take_elided() == []
    assert planner.due_ms(PATIENCE_MS) == NEVER


def test_the_settlement_of_one_of_two_messages_may_be_written_before_them() -> None:
    """What comes back after a crash is told by the store's records, in whichever order they say it: test_recovery."""
    planner, young = planner_with_one_at_consumers(now_ms=100)
    planner.settle(P, [(1, 2)], written=False)
    planner.settle(Q, [(1, 2)], written=True)
    first = planner.next_commit(101, PATIENCE_MS)
    planner.committed(planner.next_record_number + 1)

    assert Settlement(P, 1, 2) in record_of(first).settlements
    assert planner.next_commit(110, PATIENCE_MS).publications == [young]
