"""The topics that this broker holds while a queue of the network changes its home.

A broker is asked to hold by the old home. It has everything wait that is published to the queue, then waits until what
it has sent before is stored at the old home, and answers. From then on it does not release by itself, whatever happens:
the new home may have become the home already, and messages would overtake others, or come twice. So a hold is stored,
and is in force again before ports open. It ends when the old home says so: nothing has changed, or who is the home now,
and then only when this broker knows that from the new home itself.
"""

import logging
from collections.abc import Callable
from typing import Final, final

from sluicegate.actors.messages.data import SessionRows, StoredAnswer
from sluicegate.actors.messages.partitions import DescribePartition, PartitionOverview
from sluicegate.actors.publishing.held import release_some
from sluicegate.actors.runtime.asks import LoopFuture
from sluicegate.actors.runtime.runtime import Runtime
from sluicegate.actors.runtime.tasks import run
from sluicegate.messaging.message.address import Address
from sluicegate.messaging.network.interest import text_of
from sluicegate.messaging.network.neighbors import stays_local
from sluicegate.messaging.queues.moves import filters_in, is_of_client
from sluicegate.messaging.routing.routes import TopicSpace
from sluicegate.messaging.topics.syntax import queue_topic_filter
from sluicegate.protocols.network.guaranteed.kept import KeptLink
from sluicegate.protocols.network.guaranteed.queue_hold import QueueHold
from sluicegate.protocols.network.moves.requests import MoveFailed

LOOK_AGAIN_MS: Final = 20
RELEASED_PER_TURN: Final = 64  # batches: some milliseconds of the loop
DRAIN_MS_MAX: Final = 5_000  # until what was sent before is stored at the old home; else the hold ends
NOT_TOLD_MS_MAX: Final = 10_000  # the new home is there, and tells nothing of its queue: export rules keep it back

log = logging.getLogger("sluicegate.network")

HasTold = Callable[[str], bool]  # whether all that a neighbor wants is known here, over a connection that there is


async def passed(link: KeptLink, runtime: Runtime, deadline_ms: int) -> None:
    """Wait until everything that is in a link's queue now is stored at the neighbor. Raises MoveFailed."""
    assert link.queue is not None, "there is a link"
    [partition] = [each for each in link.queue.cell.children or () if each.kind == "partition"]
    overview: PartitionOverview = await partition.ask(DescribePartition())
    point = overview.next_sequence
    while overview.first_unsettled < point:
        if runtime.clock.now_ms() >= deadline_ms:
            raise MoveFailed(f"broker {link.neighbor!r} is slow to store what was sent to it")
        await runtime.sleep(LOOK_AGAIN_MS)
        overview = await partition.ask(DescribePartition())


@final
class QueueHolds:
    """All holds of one message VPN at this broker."""

    def __init__(
        self, runtime: Runtime, *, broker: str, space: TopicSpace, spool: Address, kept: dict[str, KeptLink]
    ) -> None:
        """Put the stored ones in force again."""
        self.by_queue: dict[str, QueueHold] = {}
        self.count = 0  # begun, since the start
        self.held_ms = 0  # how long they lasted, in all
        self._runtime = runtime
        self._broker = broker
        self._space = space
        self._spool = spool
        self._kept = kept
        self._is_releasing = False
        for link in kept.values():
            for hold in link.holds.values():
                self._begin(hold)

    def _begin(self, hold: QueueHold) -> None:
        self.by_queue[hold.queue] = hold
        self.count += 1
        hold.since_ms = self._runtime.clock.now_ms()
        self._space.hold(hold.queue, [*filters_in(hold.filters), queue_topic_filter(hold.queue)])

    async def begin(self, hold: QueueHold) -> None:
        """Hold the topics of a queue, and store that. Raises MoveFailed."""
        before = self.by_queue.get(hold.queue)
        if before is not None and (before.old, before.new) != (hold.old, hold.new):
            raise MoveFailed(f"broker {self._broker!r} holds the topics of {hold.queue!r} for another move")
        if before is not None and before.released is not None:
            await before.released
        self._begin(hold)
        link = self._link(hold)
        link.holds[hold.queue] = hold
        answer = StoredAnswer(None)
        self._spool.post(SessionRows([link.hold_row(hold.queue)], answer, 0))
        try:
            await answer.future
        except Exception as error:
            self.end(hold)
            raise MoveFailed(f"broker {self._broker!r} cannot store that it holds topics: {error}") from None

    async def drain(self, hold: QueueHold) -> None:
        """Wait until both homes have stored what was published here before. Raises MoveFailed: the hold has ended.

        The new one, for what others there want would come to the queue as well if it came behind the move.
        """
        try:
            for broker in (hold.old, hold.new):
                link = self._kept.get(broker)
                if link is not None and link.queue is not None:
                    await passed(link, self._runtime, hold.since_ms + DRAIN_MS_MAX)
            if self.by_queue.get(hold.queue) is not hold or hold.released is not None:
                raise MoveFailed("the hold was ended meanwhile")
        except MoveFailed:
            self.end(hold)
            raise
        hold.is_answered = True

    def _link(self, hold: QueueHold) -> KeptLink:
        """Return the link that a hold is stored with: that to the other broker of the move."""
        return self._kept[hold.new if hold.old == self._broker else hold.old]

    def end(self, hold: QueueHold) -> LoopFuture[None]:
        """End a hold: nothing has changed. Return what is set when everything is published."""
        if hold.released is None:
            hold.released = run(self._runtime, self._release(hold))
        return hold.released

    def end_at(self, hold: QueueHold, has_told: HasTold) -> LoopFuture[None]:
        """End a hold as soon as this broker knows the new home; the queue is not at the old one any more."""
        if hold.released is None:
            hold.released = run(self._runtime, self._release_when_known(hold, has_told))
        return hold.released

    async def _release_when_known(self, hold: QueueHold, has_told: HasTold) -> None:
        # The name alone says nothing: after a break what is wanted comes in any order.
        silent_ms = 0
        while not (has_told(hold.new) and self._knows(hold)):
            silent_ms = silent_ms + LOOK_AGAIN_MS if has_told(hold.new) else 0
            if silent_ms >= NOT_TOLD_MS_MAX:
                log.warning("queue %s is at broker %s now, which does not tell of it here", hold.queue, hold.new)
                break
            await self._runtime.sleep(LOOK_AGAIN_MS)
        await self._release(hold)

    def _knows(self, hold: QueueHold) -> bool:
        """Return whether messages for the queue go to its new home, and only there."""
        space = self._space
        if is_of_client(hold.queue):
            return hold.new == self._broker or self._wants(hold)
        names = None if space.neighbors is None else space.neighbors.queues
        homes = [] if names is None else [each.output.neighbor for each in names.homes(hold.queue)]
        if hold.new == self._broker:
            return not homes and space.has_queue(hold.queue)
        return homes == [hold.new] and not space.has_queue(hold.queue)

    def _wants(self, hold: QueueHold) -> bool:
        """Return whether the new home of what a client has, whose name nobody is told, has told what enters it."""
        link = self._kept.get(hold.new)
        known = {} if link is None else link.interests
        told = {(each.topic_filter, each.syntax) for each in known if each.is_guaranteed}
        wanted = [text_of(each) for each in filters_in(hold.filters) if not stays_local(each)]
        return all(each is None or each in told for each in wanted)

    async def _release(self, hold: QueueHold) -> None:
        held = self._space.held
        if self.by_queue.get(hold.queue) is hold:
            del self.by_queue[hold.queue]
            self.held_ms += self._runtime.clock.now_ms() - hold.since_ms
            if held is not None:
                held.end(hold.queue)
        link = self._kept.get(hold.new if hold.old == self._broker else hold.old)
        if link is not None and link.holds.get(hold.queue) is hold:
            del link.holds[hold.queue]
            self._spool.post(SessionRows([link.hold_row(hold.queue)], None, 0, until_done=True))
        while release_some(self._space, RELEASED_PER_TURN):
            await self._runtime.sleep(0)

    def of(self, old: str) -> list[QueueHold]:
        """Return the holds for which a broker is the old home."""
        return [each for each in self.by_queue.values() if each.old == old]
