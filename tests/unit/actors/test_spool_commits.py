"""When the spool commits, and when publishers hear: the actor on virtual time, with a disk that takes everything."""

from collections.abc import Iterator
from functools import partial
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sluicegate.actors.messages.data import Confirmed, PublishFailed
from sluicegate.actors.messages.partitions import PageOut, Withdraw
from sluicegate.actors.messages.readers import CommitSeen, WatchCommits
from sluicegate.actors.messages.spool import WriteTables
from sluicegate.actors.spool.actor import PROBE_INTERVAL_MS, TRY_AGAIN_MS
from sluicegate.actors.spool.health import FULL, REFUSED, TRIES_MAX
from sluicegate.actors.spool.store_threads import CommitFailed
from sluicegate.messaging.message.publication import UNWRITTEN
from sluicegate.storage.commit.planner import LOG_RECORDS_MAX
from sluicegate.storage.interface import CommitJob, Table, TableWrite
from sluicegate.storage.records.journal import decode_journal_record
from support.cores.lone_actors import recorder
from support.cores.lone_spool import COMMIT_US, INTERVAL_MS, Keeper
from support.cores.spool_steps import P, publication_to


@pytest.fixture
def spool() -> Iterator[Keeper]:
    made = Keeper()
    yield made
    made.runtime.stop()


def test_a_message_without_a_consumer_is_committed_at_once_after_a_pause(spool: Keeper) -> None:
    token = spool.publish(consumers=False)
    spool.passes(us=COMMIT_US)

    assert spool.began_us == [0]
    assert spool.confirmed_us == {token: COMMIT_US}


def test_messages_settled_in_time_are_confirmed_at_once_without_a_commit(spool: Keeper) -> None:
    for _ in range(100):
        token = spool.publish(consumers=True)
        spool.passes(us=300)
        spool.settle(token)
        spool.passes()
        assert spool.confirmed_us[token] == spool.came_us[token] + 300
    spool.passes(us=1_000_000)

    assert spool.began_us == []


def test_publishers_of_what_consumers_have_together_hear_together(spool: Keeper) -> None:
    """Else those that publish again when they hear come back one by one."""
    first, second = spool.publish(consumers=True), spool.publish(consumers=True)
    spool.passes(us=100)
    spool.settle(first)
    spool.passes(us=100)
    assert spool.confirmed_us == {}

    spool.settle(second)
    spool.passes()
    assert spool.confirmed_us == {first: 200, second: 200}


def test_where_consumers_always_have_something_publishers_wait_for_an_interval_and_no_more(spool: Keeper) -> None:
    tokens = [spool.publish(consumers=True)]
    for _ in range(200):
        tokens.append(spool.publish(consumers=True))
        spool.passes(us=100)
        spool.settle(tokens[-2])
        spool.passes()

    assert spool.began_us == []
    waited_us = [spool.confirmed_us[token] - spool.came_us[token] for token in tokens[: -INTERVAL_MS * 10 - 2]]
    assert max(waited_us) <= INTERVAL_MS * 1000


def test_a_consumer_that_is_slow_delays_a_commit_by_an_interval_and_no_more(spool: Keeper) -> None:
    token = spool.publish(consumers=True)
    spool.passes(us=INTERVAL_MS * 1000 + COMMIT_US)

    assert spool.began_us == [INTERVAL_MS * 1000]
    assert token in spool.confirmed_us


def test_a_consumer_that_is_known_to_need_longer_is_given_its_time_and_no_more(spool: Keeper) -> None:
    """As a neighbor broker, which commits itself before it settles."""
    longer_ms = 4 * INTERVAL_MS
    settled, late = (spool.publish(consumers=True, patience_ms=longer_ms) for _ in range(2))
    spool.passes(us=2 * INTERVAL_MS * 1000)
    spool.settle(settled)
    spool.passes()
    assert (spool.began_us, spool.confirmed_us) == ([], {})

    spool.passes(us=INTERVAL_MS * 1000)
    assert (spool.began_us, list(spool.confirmed_us)) == ([], [settled]), (
        "it waits an interval for the other, no longer"
    )

    spool.passes(us=INTERVAL_MS * 1000 + COMMIT_US)
    assert spool.began_us == [longer_ms * 1000]
    assert late in spool.confirmed_us


def test_where_all_but_one_are_fast_there_is_a_commit_for_the_slow_one_and_one_for_its_settlement(
    spool: Keeper,
) -> None:
    """Not for those that come while these are made, and whose settlements would have to be written then."""
    slow = spool.publish(consumers=True)
    for step in range(200):
        token = spool.publish(consumers=True)
        spool.passes(us=100)
        spool.settle(token)
        if step == 100:
            spool.settle(slow)
        spool.passes(us=20)
    spool.passes(us=1_000_000)

    assert len(spool.began_us) <= 3  # the third: one fast one was written beside the slow one
    assert sorted(spool.confirmed_us) == sorted(spool.published)


def test_a_message_without_a_consumer_does_not_wait_for_others_that_have_one(spool: Keeper) -> None:
    spool.publish(consumers=True)
    spool.passes(us=1500)
    spool.publish(consumers=False)
    spool.passes()

    assert spool.began_us == [1500]


def test_earlier_due_messages_are_committed_before_those_at_consumers(spool: Keeper) -> None:
    spool.publish(consumers=False)
    spool.passes(us=2000)
    spool.publish(consumers=True)
    spool.passes(us=1000)
    spool.publish(consumers=False)
    spool.passes(us=1000)

    assert spool.began_us == [0, INTERVAL_MS * 1000]


def test_rows_do_not_wait_for_consumers(spool: Keeper) -> None:
    token = spool.publish(consumers=True)
    spool.write_a_row()
    spool.passes(us=COMMIT_US)

    assert spool.began_us == [0]
    assert token in spool.confirmed_us, "what came before the rows is written with them"


def test_who_waits_for_rows_hears_whether_they_are_safe_and_others_need_not_wait(spool: Keeper) -> None:
    heard: list[object] = []
    listener = recorder(spool.runtime, heard).inbox
    spool.failures_left = 1
    spool.write_a_row()
    spool.write_a_row(listener, token=7)
    spool.passes(us=COMMIT_US)
    (refused,) = heard
    assert isinstance(refused, PublishFailed)
    assert (refused.token, refused.reason) == (7, "input/output error")

    spool.write_a_row()
    spool.write_a_row(listener, token=8)
    spool.passes(us=1_000_000 + COMMIT_US)
    _, confirmed = heard
    assert isinstance(confirmed, Confirmed)
    assert confirmed.token == 8


def test_who_watches_commits_hears_of_each_until_it_watches_no_more(spool: Keeper) -> None:
    heard: dict[str, list[object]] = {"staying": [], "leaving": []}
    staying, leaving = (recorder(spool.runtime, each).inbox for each in heard.values())
    for listener in (staying, leaving):
        spool.cell.inbox.post(WatchCommits(listener, True))
    spool.write_a_row()
    spool.passes(us=1_000_000)
    spool.cell.inbox.post(WatchCommits(leaving, False))
    spool.write_a_row()
    spool.passes(us=1_000_000)

    assert heard == {"staying": [CommitSeen(), CommitSeen()], "leaving": [CommitSeen()]}


def test_who_holds_up_the_head_of_a_long_log_is_asked_to_move_into_pages(spool: Keeper) -> None:
    """Once, with those a little behind it; and again if what was asked for may not have been written."""
    heard: dict[int, list[object]] = {1: [], 2: [], 3: [], 4: []}  # at the head, behind it, far behind, no longer there
    spool.partitions.update({each: recorder(spool.runtime, heard[each]).inbox for each in heard})
    through = LOG_RECORDS_MAX // 4
    spool.planner.next_record_number = LOG_RECORDS_MAX + 2
    for number in range(1, LOG_RECORDS_MAX + 2):
        partition_id = {1: 1, through: 2, through + 1: 3}.get(number, 4)
        publication = publication_to({partition_id: number})
        publication.record_number = number
        spool.planner.recovered(number, [publication])
        if partition_id == 4:
            spool.planner.released(publication)
    for failures in (0, 0, 1):
        spool.failures_left = failures
        spool.write_a_row()
        spool.passes(us=1_000_000)
    assert heard == {1: [PageOut(through)], 2: [PageOut(through)], 3: [], 4: []}

    spool.write_a_row()
    spool.passes(us=1_000_000)
    assert heard == {1: [PageOut(through)] * 2, 2: [PageOut(through)] * 2, 3: [], 4: []}


def test_refused_messages_are_withdrawn_and_their_publisher_is_told(spool: Keeper) -> None:
    heard: list[object] = []
    spool.partitions[P] = recorder(spool.runtime, heard).inbox
    spool.failures_left = 1
    spool.publish(consumers=False)
    spool.publish(consumers=False)
    spool.passes(us=COMMIT_US)

    assert heard == [Withdraw(1, 2), Withdraw(2, 3)]
    assert spool.refused == {1: "input/output error", 2: "input/output error"}
    assert spool.confirmed_us == {}


def test_what_was_admitted_before_a_refusal_is_refused_as_well_until_there_is_room(spool: Keeper) -> None:
    """A publisher sends refused messages again: they must not come behind younger ones that were confirmed."""
    spool.failure = CommitFailed("the disk is full", FULL)
    spool.failures_left = 1
    spool.is_full = True
    first = spool.publish(consumers=False)
    spool.passes(us=COMMIT_US // 2)
    waiting = spool.publish(consumers=False)  # for the next commit
    spool.passes(us=COMMIT_US)
    late = spool.publish(consumers=False)
    spool.passes(us=COMMIT_US)
    assert spool.refused == dict.fromkeys([first, waiting, late], "the disk is full")

    spool.is_full = False
    spool.passes(us=PROBE_INTERVAL_MS * 1_000)
    again = spool.publish(consumers=False)
    spool.passes(us=INTERVAL_MS * 1_000 + COMMIT_US)
    assert list(spool.confirmed_us) == [again]


def test_a_clean_stop_does_not_wait_for_consumers(spool: Keeper) -> None:
    token = spool.publish(consumers=True)
    idle_us: list[int] = []
    spool.passes(us=100)
    spool.cell.behaviour.when_idle(lambda: idle_us.append(spool.now_us()))
    spool.passes(us=1_000_000)

    assert token in spool.confirmed_us
    assert idle_us == [100 + COMMIT_US]


def test_commits_keep_their_interval(spool: Keeper) -> None:
    for _ in range(100):
        spool.publish(consumers=False)
        spool.passes(us=100)
    spool.passes(us=10 * INTERVAL_MS * 1000)

    assert spool.began_us == [0, 4000, 8000, 12000][: len(spool.began_us)]
    assert len(spool.began_us) == 4


def published_in(job: CommitJob) -> int:
    return 0 if job.record is None else len(decode_journal_record(job.record).entries)


def test_a_lone_publisher_that_waits_for_each_confirmation_does_not_wait_for_the_interval(spool: Keeper) -> None:
    for number in range(5):
        spool.publish(consumers=False)
        spool.passes(us=COMMIT_US + 100)
        assert len(spool.confirmed_us) == number + 1
    assert spool.began_us == [number * (COMMIT_US + 100) for number in range(5)]


def test_a_publisher_that_publishes_later_than_at_once_waits_for_others_to_share_the_commit(spool: Keeper) -> None:
    for _ in range(4):
        spool.publish(consumers=False)
        spool.passes(us=COMMIT_US + 800)
    assert [published_in(job) for job in spool.jobs] == [1, 2]


def test_two_publishers_that_wait_for_confirmations_share_commits(spool: Keeper) -> None:
    """Each of them would wait for the commit of the other."""
    other = spool.another_publisher()
    spool.publish(consumers=False)
    spool.passes(us=COMMIT_US // 2)
    spool.publish(consumers=False, publisher=other)
    spool.passes(us=COMMIT_US // 2 + 100)
    spool.publish(consumers=False)
    spool.passes(us=INTERVAL_MS * 1000)

    assert spool.began_us == [0, INTERVAL_MS * 1000]
    assert [published_in(job) for job in spool.jobs] == [1, 2]


STEPS = st.lists(
    st.one_of(
        st.builds(lambda consumers: ("publish", int(consumers)), st.booleans()),
        st.builds(lambda back: ("settle", back), st.integers(0, 5)),
        st.builds(lambda us: ("pass", us), st.sampled_from([0, 1, 300, 1000, 2500, 9000])),
        st.just(("write rows", 0)),
    ),
    max_size=40,
)


@settings(deadline=None)
@given(steps=STEPS, interval_ms=st.sampled_from([0, 1, 4]), here_us=st.sampled_from([None, 100, COMMIT_US]))
def test_publishers_hear_when_their_messages_are_written_or_settled_and_never_wait_longer_than_for_an_interval(
    steps: list[tuple[str, int]], interval_ms: int, here_us: int | None
) -> None:
    """Beside the interval of consumers there is that between commits, one that may be under way, and clock's grain."""
    spool = Keeper(interval_ms)
    spool.here_us = here_us
    waiting: list[int] = []  # for their consumers
    for step, value in [*steps, ("pass", 50_000)]:
        if step == "publish":
            waiting.append(spool.publish(consumers=bool(value)))
        elif step == "settle" and len(waiting) > value:
            spool.settle(waiting.pop(value))
        elif step == "write rows":
            spool.write_a_row()
        elif step == "pass":
            spool.passes(us=value)
        for token in spool.confirmed_us:
            publication = spool.published[token]
            assert publication.record_number != UNWRITTEN or publication.open_count == 0
    for token, came_us in spool.came_us.items():
        assert spool.confirmed_us[token] <= came_us + 2 * interval_ms * 1000 + 2 * COMMIT_US
    for first, (earlier, later) in enumerate(pairwise(sorted(spool.began_us + spool.began_here_us))):
        are_lone = published_in(spool.jobs[first]) == published_in(spool.jobs[first + 1]) == 1
        took_us = COMMIT_US if here_us is None else min(here_us, COMMIT_US)
        assert later - earlier >= max(took_us, 0 if are_lone else (interval_ms - 1) * 1000)
    spool.runtime.stop()


def test_a_store_that_fails_is_given_a_pause_before_it_is_tried_again(spool: Keeper) -> None:
    """What has to be written is tried until it is: without a pause, a disk that fails for hours costs a core."""
    token = spool.publish(consumers=False)
    spool.passes(us=COMMIT_US)
    spool.failures_left = 2
    spool.settle(token)
    spool.passes(us=3_000_000)

    pause_us = TRY_AGAIN_MS * 1_000 + COMMIT_US
    first_us = INTERVAL_MS * 1_000
    assert spool.began_us == [0, *[first_us + number * pause_us for number in range(3)]]
    assert spool.failures_left == 0


def test_a_commit_in_doubt_is_tried_again_and_its_publisher_hears_when_it_is_written(spool: Keeper) -> None:
    """The disk may have what it failed to write: who was refused could find it there after the next start."""
    spool.failure, spool.failures_left = CommitFailed("input/output error", REFUSED, is_in_doubt=True), 2
    doubtful = spool.publish(consumers=False)
    spool.passes(us=COMMIT_US)
    assert (spool.confirmed_us, spool.refused) == ({}, {})
    assert spool.gate.blocked == "input/output error"
    late = spool.publish(consumers=False)
    spool.passes(us=3 * TRY_AGAIN_MS * 1000)

    assert spool.refused == {late: "input/output error"}
    assert list(spool.confirmed_us) == [doubtful]
    assert [job.number for job in spool.jobs[:3]] == [spool.jobs[0].number] * 3
    assert spool.gate.blocked == ""


def test_a_commit_in_doubt_is_refused_once_it_is_certain_that_the_disk_does_not_have_it(spool: Keeper) -> None:
    spool.failure, spool.failures_left = CommitFailed("input/output error", REFUSED, is_in_doubt=True), 1
    token = spool.publish(consumers=False)
    spool.passes(us=COMMIT_US)
    spool.failure, spool.failures_left = CommitFailed("read-only file system", REFUSED), 1
    spool.passes(us=TRY_AGAIN_MS * 1000 + COMMIT_US)

    assert spool.refused == {token: "read-only file system"}


def test_who_waits_behind_a_commit_in_doubt_hears_when_the_store_is_given_up(spool: Keeper) -> None:
    heard: list[object] = []
    spool.failure, spool.failures_left = CommitFailed("input/output error", REFUSED, is_in_doubt=True), TRIES_MAX
    spool.publish(consumers=False)
    spool.passes(us=COMMIT_US // 2)
    spool.write_a_row(recorder(spool.runtime, heard).inbox, token=7)
    spool.passes(us=(TRIES_MAX - 1) * (TRY_AGAIN_MS * 1000 + COMMIT_US))
    assert heard == []
    spool.passes(us=COMMIT_US)
    (refused,) = heard
    assert isinstance(refused, PublishFailed)

    spool.passes(us=TRY_AGAIN_MS * 1000 + COMMIT_US)
    assert len(spool.confirmed_us) == 1


def test_a_clean_stop_waits_for_a_commit_in_doubt_until_the_store_is_given_up(spool: Keeper) -> None:
    spool.failure, spool.failures_left = CommitFailed("input/output error", REFUSED, is_in_doubt=True), 1 << 20
    spool.publish(consumers=False)
    idle_us: list[int] = []
    spool.passes(us=100)
    spool.cell.behaviour.when_idle(lambda: idle_us.append(spool.now_us()))
    spool.passes(us=10 * TRY_AGAIN_MS * 1000)

    assert idle_us == [(TRIES_MAX - 1) * (TRY_AGAIN_MS * 1000 + COMMIT_US) + COMMIT_US]
    assert (spool.confirmed_us, spool.refused) == ({}, {})


def test_rows_have_left_when_they_are_written_or_never_will_be(spool: Keeper) -> None:
    """A deletion is tried until it is done, also when nobody waits for it any more."""
    left: dict[str, bool] = {}  # name -> whether it is written
    spool.failures_left = 20

    def leaves(name: str, reason: str) -> None:
        assert name not in left
        left[name] = not reason

    for name, until_done in (("put", False), ("deletion", True)):
        row = TableWrite(Table.RETAINED, name.encode(), None if until_done else b"v")
        message = WriteTables([row], None, 0, until_done=until_done, left=partial(leaves, name))
        spool.cell.inbox.post(message)
    spool.passes(us=COMMIT_US)
    assert left == {"put": False}
    spool.passes(us=10 * TRY_AGAIN_MS * 1000)
    assert left == {"put": False}
    spool.passes(us=20 * TRY_AGAIN_MS * 1000)
    assert left == {"put": False, "deletion": True}
