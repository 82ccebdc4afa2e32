"""What a partition moves into pages for the journal's sake, while its ledger is made anew."""

from actors.cell import ActorCell
from actors.loop_actor import LoopActor
from actors.messages import PagesWritten, WritePages
from actors.paging_out import PagingOut
from actors.runtime import Runtime
from lone_actors import spawned, turn
from messaging.memory import MemoryBudget
from unit.cores.logged_partition import PARTITION_ID, LoggedPartition
from unit.cores.messages import numbered


class Spool(LoopActor):
    """Keeps what it is asked to write."""

    def __init__(self, cell: ActorCell) -> None:
        super().__init__(cell)
        self.asked: list[WritePages] = []

    def on_receive(self, message: WritePages) -> None:
        self.asked.append(message)


def test_a_partition_that_is_made_anew_moves_what_it_was_asked_for_while_other_pages_were_on_their_way(
    runtime: Runtime,
) -> None:
    """It is asked once: the journal would grow from there, for nothing behind it goes before it does."""
    before, after, spool = LoggedPartition(), LoggedPartition(), spawned(runtime, Spool)
    for partition in (before, after):
        partition.append(numbered(1))
        partition.append(numbered(1))
    paging = PagingOut(
        spool.inbox,
        log=before.log,
        partition_id=PARTITION_ID,
        memory=MemoryBudget(bytes_max=1 << 30),
        spool=spool.inbox,
    )
    paging.page_out(1)
    paging.page_out(2)
    turn(runtime)
    (first,) = spool.actor.asked
    assert [(plan.first, plan.end) for plan in first.plans] == [(1, 2)]

    paging.go_on_with(after.log)
    paging.written(PagesWritten(first.plans, False))
    turn(runtime)

    assert [(plan.first, plan.end) for plan in spool.actor.asked[1].plans] == [(1, 3)]
