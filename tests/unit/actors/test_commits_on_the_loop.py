"""The commits that the loop makes itself: which ones, and that they end as those of the writer thread do."""

from collections.abc import Iterator
from itertools import pairwise

import pytest

from sluicegate.actors.messages.spool import ReloadPartition, SetPageAside
from sluicegate.actors.spool.actor import TRY_AGAIN_MS
from sluicegate.actors.spool.checkpoints import PAUSE_MS_MIN
from sluicegate.actors.spool.health import FULL, REFUSED
from sluicegate.actors.spool.store_threads import CommitFailed, PartitionFound
from sluicegate.storage.commit.disk_pace import LONG_NS, PAUSE_FACTOR, QUICK_NS, RECENT_MS, RECORD_BYTES_MAX
from sluicegate.storage.interface import Table, TableWrite
from support.cores.lone_actors import recorder
from support.cores.lone_spool import INTERVAL_MS, Keeper
from support.cores.spool_steps import P

HERE_US = 100
QUICK_US = 300  # of the thread
INTERVAL_US = INTERVAL_MS * 1000
LONG_US = LONG_NS // 1000
SLOW_US = 2 * QUICK_NS // 1000


@pytest.fixture
def spool() -> Iterator[Keeper]:
    """A spool whose disk is known to be quick; its first commit was the thread's."""
    made = Keeper()
    made.here_us = HERE_US
    made.commit_us = QUICK_US
    made.publish(consumers=False)
    made.passes(us=INTERVAL_US)
    assert made.began_us == [0], "nothing was known of the disk"
    yield made
    made.runtime.stop()


def published(spool: Keeper) -> int:
    """Publish when the next commit is due, and let all that follows at once happen."""
    spool.passes(us=INTERVAL_US)
    token = spool.publish(consumers=False)
    spool.passes()
    return token


def test_a_small_commit_on_a_quick_disk_is_made_at_once_and_the_publisher_hears_in_the_same_turn(
    spool: Keeper,
) -> None:
    token = published(spool)
    assert spool.confirmed_us[token] == spool.came_us[token] + HERE_US
    assert len(spool.began_here_us) == spool.spool.commits_here_count == 1
    assert spool.spool.commits_count == 2
    assert spool.spool.commit_latencies.sum_ns == (QUICK_US + HERE_US) * 1000


def test_the_first_commit_after_a_pause_is_the_threads(spool: Keeper) -> None:
    """The disk may have begun to hang meanwhile."""
    spool.passes(us=RECENT_MS * 1000)
    spool.publish(consumers=False)
    spool.passes(us=QUICK_US)
    assert len(spool.began_us) == 2
    published(spool)
    assert len(spool.began_here_us) == 1


def test_after_one_long_commit_on_the_loop_the_thread_makes_them_for_many_times_as_long(spool: Keeper) -> None:
    spool.here_us = LONG_US
    published(spool)
    ended_us = spool.now_us()
    spool.here_us = HERE_US
    while len(spool.began_here_us) == 1:
        published(spool)
        spool.passes(us=QUICK_US)
    assert PAUSE_FACTOR * LONG_US <= spool.began_here_us[1] - ended_us < PAUSE_FACTOR * LONG_US + 3 * INTERVAL_US


def test_a_disk_that_takes_a_little_longer_each_time_soon_stops_the_loop_no_more(spool: Keeper) -> None:
    spool.here_us = spool.commit_us = SLOW_US
    for _ in range(200):
        published(spool)
        spool.passes(us=SLOW_US)
    assert len(spool.began_here_us) < 10


def test_a_disk_that_becomes_quick_again_has_its_commits_made_on_the_loop_again(spool: Keeper) -> None:
    spool.commit_us = SLOW_US
    spool.is_quiet = False
    for _ in range(20):
        published(spool)
        spool.passes(us=SLOW_US)
    spool.is_quiet = True
    published(spool)
    assert spool.began_here_us == []
    spool.commit_us = QUICK_US
    for _ in range(20):
        published(spool)
        spool.passes(us=QUICK_US)
    assert spool.began_here_us != []


def test_while_others_wait_for_the_loop_the_thread_commits(spool: Keeper) -> None:
    spool.is_quiet = False
    published(spool)
    assert (len(spool.began_us), spool.began_here_us) == (2, [])


def test_a_large_record_is_the_threads(spool: Keeper) -> None:
    spool.passes(us=INTERVAL_US)
    row = TableWrite(Table.RETAINED, b"k", bytes(RECORD_BYTES_MAX))
    spool.write_a_row(row=row)
    spool.passes()
    assert (len(spool.began_us), spool.began_here_us) == (2, [])


def test_beside_a_checkpoint_the_thread_commits(spool: Keeper) -> None:
    """The disk is busy."""
    spool.checkpoint_us = 10 * INTERVAL_US
    spool.cell.inbox.post(SetPageAside(P, 1, "bad"))
    spool.passes(us=PAUSE_MS_MIN * 1000)
    assert len(spool.checkpoints) == 2, "that of the start, and this one"
    published(spool)
    assert (len(spool.began_us), spool.began_here_us) == (2, [])


def test_while_the_store_is_read_on_the_thread_nothing_is_committed_beside_it(spool: Keeper) -> None:
    heard: list[object] = []
    spool.cell.inbox.post(ReloadPartition(P, 0, recorder(spool.runtime, heard).inbox))
    spool.passes(us=INTERVAL_US)
    assert len(spool.reloads) == 1
    made = len(spool.began_here_us)
    published(spool)
    assert (len(spool.began_us), len(spool.began_here_us)) == (2, made)
    spool.passes(us=QUICK_US)

    spool.cell.inbox.post(PartitionFound(spool.reloads[0], None))
    published(spool)
    assert len(heard) == 1
    assert len(spool.began_here_us) == made + 1


def test_commits_on_the_loop_keep_their_interval_as_well(spool: Keeper) -> None:
    for _ in range(40):
        spool.publish(consumers=False)
        spool.passes(us=900)
    assert len(spool.began_here_us) >= 8
    assert all(later - earlier >= INTERVAL_US - 1000 for earlier, later in pairwise(spool.began_here_us))


def test_a_lone_publisher_that_waits_for_each_confirmation_has_all_its_commits_made_on_the_loop(spool: Keeper) -> None:
    for _ in range(20):
        token = spool.publish(consumers=False)
        spool.passes(us=HERE_US)
        assert token in spool.confirmed_us
    assert len(spool.began_here_us) == 20


def test_what_is_settled_meanwhile_is_committed_by_the_next_one(spool: Keeper) -> None:
    token = published(spool)
    spool.settle(token)
    spool.passes(us=INTERVAL_US)
    assert len(spool.began_here_us) == 2


def test_a_refused_commit_on_the_loop_is_withdrawn_as_any_other(spool: Keeper) -> None:
    heard: list[object] = []
    spool.partitions[P] = recorder(spool.runtime, heard).inbox
    spool.failure, spool.failures_left = CommitFailed("disk full", FULL), 1
    token = published(spool)

    assert spool.refused == {token: "disk full"}
    assert len(heard) == 1
    assert spool.spool.commits_failed[FULL] == 1
    assert spool.gate.blocked == "disk full"


def test_a_commit_in_doubt_on_the_loop_is_tried_again_by_the_thread(spool: Keeper) -> None:
    spool.failure, spool.failures_left = CommitFailed("input/output error", REFUSED, is_in_doubt=True), 1
    token = published(spool)
    assert len(spool.began_here_us) == 1
    assert (spool.refused, token in spool.confirmed_us) == ({}, False)
    spool.passes(us=TRY_AGAIN_MS * 1000 + QUICK_US)

    assert token in spool.confirmed_us
    assert spool.jobs[1].number == spool.jobs[2].number
    assert len(spool.began_here_us) == 1


def test_a_clean_stop_ends_when_the_loop_has_made_the_last_commit(spool: Keeper) -> None:
    ended: list[bool] = []
    spool.passes(us=INTERVAL_US)
    spool.publish(consumers=True)
    spool.spool.when_idle(lambda: ended.append(True))
    spool.passes()
    assert len(spool.began_here_us) == 1
    assert ended == [True]
