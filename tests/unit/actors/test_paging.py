"""What a partition moves into pages, for the journal's sake or to save memory."""

from sluicegate.actors.messages.spool import PagesWritten, WritePages
from sluicegate.actors.partitions.paging import PagingOut
from sluicegate.actors.runtime.actor import LoopActor
from sluicegate.actors.runtime.runtime import ActorCell, Runtime
from sluicegate.messaging.partitions.paging import PARTITION_BYTES_MAX, MemoryBudget
from support.cores.logged_partition import PARTITION_ID, LoggedPartition
from support.cores.lone_actors import spawned, turn
from support.cores.messages import batch_of, numbered


class Spool(LoopActor):
    """Keeps what it is asked to write."""

    def __init__(self, cell: ActorCell) -> None:
        super().__init__(cell)
        self.asked: list[WritePages] = []

    def on_receive(self, message: WritePages) -> None:
        self.asked.append(message)


def paging_of(partition: LoggedPartition, memory: MemoryBudget, spool: ActorCell) -> PagingOut:
    return PagingOut(spool.inbox, log=partition.log, partition_id=PARTITION_ID, memory=memory, spool=spool.inbox)


def test_a_partition_that_is_made_anew_moves_what_it_was_asked_for_while_other_pages_were_on_their_way(
    runtime: Runtime,
) -> None:
    """It is asked once: the journal would grow from there, for nothing behind it goes before it does."""
    before, after, spool = LoggedPartition(), LoggedPartition(), spawned(runtime, Spool)
    for partition, second_count in ((before, 1), (after, 2)):
        partition.append(numbered(1))
        partition.append(numbered(second_count))
    paging = paging_of(before, MemoryBudget(bytes_max=1 << 30), spool)
    paging.page_out(1)
    paging.page_out(2)
    turn(runtime)
    (first,) = spool.actor.asked
    assert [(plan.first, plan.end) for plan in first.plans] == [(1, 2)]

    paging.use_log(after.log)
    paging.written(PagesWritten(first.plans, False))
    turn(runtime)

    assert [(plan.first, plan.end) for plan in spool.actor.asked[1].plans] == [(1, 4)]


def test_messages_stay_in_memory_until_pages_with_them_are_written(runtime: Runtime) -> None:
    """A store that fails has none of them, and the next pages are made of them, too."""
    partition, spool = LoggedPartition(), spawned(runtime, Spool)
    partition.append(numbered(1))
    partition.append(numbered(1))
    held_bytes = partition.ledger.memory_bytes
    paging = paging_of(partition, MemoryBudget(bytes_max=1 << 30), spool)
    paging.page_out(1)
    paging.page_out(2)
    turn(runtime)
    (failed,) = spool.actor.asked

    paging.written(PagesWritten(failed.plans, True))
    turn(runtime)
    _, again = spool.actor.asked
    assert [(plan.first, plan.end) for plan in again.plans] == [(1, 3)]

    paging.written(PagesWritten(failed.plans, False))  # not those that are on their way
    assert partition.ledger.memory_bytes == held_bytes
    paging.written(PagesWritten(again.plans, False))
    assert partition.ledger.memory_bytes == 0


def test_a_partition_moves_what_is_beyond_its_share_into_pages_and_gives_all_memory_back_in_the_end(
    runtime: Runtime,
) -> None:
    """Down to half of its share, so that not each message that comes is moved by itself."""
    partition, spool = LoggedPartition(), spawned(runtime, Spool)
    memory = MemoryBudget(bytes_max=1 << 40)
    memory.count(100)  # of others
    paging = paging_of(partition, memory, spool)
    batch = batch_of([bytes(64 << 10)])
    while partition.ledger.memory_bytes + batch.memory_bytes() <= PARTITION_BYTES_MAX:
        partition.append(batch)
        paging.balance()
    turn(runtime)
    assert spool.actor.asked == []

    partition.append(batch)
    for _ in range(2):  # what is on its way already is not asked for again
        paging.balance()
    turn(runtime)
    (asked,) = spool.actor.asked
    assert memory.used_bytes == 100 + partition.ledger.memory_bytes

    paging.written(PagesWritten(asked.plans, False))
    paging.balance()
    half = PARTITION_BYTES_MAX // 2
    assert half - batch.memory_bytes() < partition.ledger.memory_bytes <= half
    assert memory.used_bytes == 100 + partition.ledger.memory_bytes

    paging.end()
    paging.end()
    assert memory.used_bytes == 100
