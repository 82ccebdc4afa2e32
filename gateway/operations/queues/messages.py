"""Browse, delete, move, copy and re-drive the messages of a queue, in parts small enough for one turn of an actor."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from sluicegate.actors.messages.directory import FindQueue, LocalQueue
from sluicegate.actors.messages.operations import MessagesTaken, QueueGone, TakeMessages
from sluicegate.actors.messages.partitions import BrowsedMessage, PartitionOverview
from sluicegate.actors.messages.queues import BrowseQueue
from sluicegate.actors.queues.redrive import RUNNING, CancelRedrive, RedriveActor, RedriveOrder, RedriveProgress
from sluicegate.actors.runtime.asks import ask_unless_gone
from sluicegate.actors.runtime.runtime import ActorCell
from sluicegate.actors.runtime.supervision import ONE_CONNECTION
from sluicegate.gateway.node.node import Node
from sluicegate.gateway.node.vpn import MessageVpn
from sluicegate.gateway.operations.queues.asking import ask_queue, overview_of
from sluicegate.gateway.views.errors import QueueNotFound, Refused
from sluicegate.gateway.views.queues.messages import RedriveView, TakenView
from sluicegate.gateway.views.queues.selections import MessageSelection
from sluicegate.messaging.queues.definition import QueueInvalid
from sluicegate.messaging.queues.message_filter import SEQUENCE_MAX, MessageId
from sluicegate.messaging.selectors.selector import Selector

AT_ONCE_MAX = 1000  # messages of one request to a partition
REDRIVES_MAX = 100  # running or remembered, of as many queues


class MessageOperations:
    """Operations on the messages of a message VPN's queues. It remembers the latest re-drive of each queue."""

    def __init__(self, node: Node, vpn: MessageVpn) -> None:
        self._node = node
        self._vpn = vpn
        self._redrives: dict[str, _Redrive] = {}
        self._beginning = asyncio.Lock()  # else two that start at once would both find none running

    async def take(self, handle: LocalQueue, action: str, selection: MessageSelection) -> TakenView:
        """Delete, move or copy the selected messages of all partitions. A failure undoes nothing of what was done."""
        await self._check_target(handle, selection.to)
        try:
            return await self._take(handle, action, selection)
        except QueueGone:
            raise QueueNotFound(handle.name) from None

    async def _take(self, handle: LocalQueue, action: str, selection: MessageSelection) -> TakenView:
        partitions = await _partitions(handle)
        tally = _Tally()
        if selection.ids is not None:
            await self._take_by_ids(handle, action, selection, partitions, tally)
            return tally.view()
        message_filter = selection.message_filter(self._node.services.clock.wall_ms(), self._vpn.selectors)
        for partition in partitions:
            first = partition.first_unsettled
            while first < partition.next_sequence and tally.done_count < selection.limit:
                limit = min(AT_ONCE_MAX, selection.limit - tally.done_count)
                order = TakeMessages(
                    action, partition.number, None, first, partition.next_sequence, message_filter, limit, selection.to
                )
                taken: MessagesTaken = await ask_queue(handle, order)
                tally.add(partition.number, taken)
                first = taken.next_sequence
        return tally.view()

    async def start_redrive(self, handle: LocalQueue, selection: MessageSelection) -> RedriveView:
        """Start a re-drive of a queue's messages."""
        async with self._beginning:
            return await self._start_redrive(handle, selection)

    def show_redrive(self, name: str) -> RedriveView:
        """Return the progress of the latest re-drive of a queue. Raises Refused when there was none."""
        return _redrive_view(name, self._known(name))

    async def cancel_redrive(self, name: str) -> RedriveView:
        """Cancel a re-drive; moved messages stay moved."""
        known = self._known(name)
        await ask_unless_gone(known.cell.inbox, CancelRedrive())
        return _redrive_view(name, known)

    async def _start_redrive(self, handle: LocalQueue, selection: MessageSelection) -> RedriveView:
        known = self._redrives.get(handle.name)
        if known is not None and known.progress.state == RUNNING:
            raise Refused(f"a re-drive of {handle.name!r} is running; cancel it, or wait for its end")
        await self._check_target(handle, selection.to)
        message_filter = selection.message_filter(self._node.services.clock.wall_ms(), self._vpn.selectors)
        order = RedriveOrder(message_filter, selection.to, selection.limit or SEQUENCE_MAX, selection.rate)
        self._make_place()
        ends = [partition.next_sequence for partition in await _partitions(handle)]
        if known is not None:
            known.cell.stop()
            self._redrives.pop(handle.name, None)  # added again below, as the youngest
        progress = RedriveProgress(self._node.services.clock.wall_ms())
        cell = self._node.services.runtime.spawn(
            lambda cell: RedriveActor(cell, progress, queue=handle.cell, order=order, ends=ends),
            kind="redrive",
            name=f"redrive of {handle.name}",
            policy=ONE_CONNECTION,  # a failure ends only the re-drive
            parent=self._vpn.cell,
        )
        known = self._redrives[handle.name] = _Redrive(cell, progress, selection)
        return _redrive_view(handle.name, known)

    def _make_place(self) -> None:
        """Forget the oldest re-drive that has ended, if the limit is reached. Raises Refused if all are running."""
        if len(self._redrives) < REDRIVES_MAX:
            return
        for name, known in self._redrives.items():
            if known.progress.state != RUNNING:
                known.cell.stop()
                del self._redrives[name]
                return
        raise Refused(f"{REDRIVES_MAX} re-drives are running; wait for the end of one")

    def _known(self, name: str) -> "_Redrive":
        known = self._redrives.get(name)
        if known is None:
            raise Refused(f"{name!r} was not re-driven since the node started")
        return known

    async def _check_target(self, source: LocalQueue, to: str) -> None:
        """Raise the error of the operation if messages cannot go to a queue; empty: they name it, or go nowhere."""
        if not to:
            return
        if to == source.name:
            raise QueueInvalid("to", "it is the queue of the messages", "another queue")
        way = self._vpn.ways.to(to)
        if way.target is not None:
            return
        if way.waits:
            raise Refused(f"messages cannot be moved to {to!r} now: {way.waits}")
        if await self._vpn.queues.ask(FindQueue(to)) is not None:
            raise QueueInvalid("to", f"{to!r} is not durable", "a durable queue")
        raise QueueNotFound(to)

    async def _take_by_ids(
        self,
        handle: LocalQueue,
        action: str,
        selection: MessageSelection,
        partitions: Sequence[PartitionOverview],
        tally: "_Tally",
    ) -> None:
        by_partition: dict[int, list[int]] = {}
        for partition, sequence in selection.ids or ():
            by_partition.setdefault(partition, []).append(sequence)
        message_filter = selection.message_filter(0, self._vpn.selectors)
        for number, sequences in by_partition.items():
            if number >= len(partitions):
                tally.not_found += [MessageId(number, each).text() for each in sequences]
                continue
            order = TakeMessages(action, number, sequences, 0, 0, message_filter, len(sequences), selection.to)
            tally.add(number, await ask_queue(handle, order))


@dataclass(frozen=True, slots=True)
class _Redrive:
    """The latest re-drive of a queue."""

    cell: ActorCell
    progress: RedriveProgress
    selection: MessageSelection


class _Tally:
    """The sum of the results of a request's parts."""

    def __init__(self) -> None:
        self.done_count = 0
        self.skipped: dict[str, int] = {}
        self.not_found: list[str] = []

    def add(self, partition: int, taken: MessagesTaken) -> None:
        self.done_count += taken.done_count
        for reason, count in taken.skipped.items():
            self.skipped[reason] = self.skipped.get(reason, 0) + count
        self.not_found += [MessageId(partition, each).text() for each in taken.not_found]

    def view(self) -> TakenView:
        return TakenView(done_count=self.done_count, kept=self.skipped, not_found=tuple(self.not_found))


async def _partitions(handle: LocalQueue) -> Sequence[PartitionOverview]:
    return (await overview_of(handle)).partitions


def _redrive_view(name: str, redrive: _Redrive) -> RedriveView:
    progress, selection = redrive.progress, redrive.selection
    partition, sequence = progress.position
    return RedriveView(
        queue=name,
        to=selection.to or None,
        state=progress.state,
        done_count=progress.done_count,
        kept=dict(progress.skipped),
        position=MessageId(partition, sequence).text(),
        started_ms=progress.started_ms,
        ended_ms=progress.ended_ms or None,
        rate=selection.rate,
        limit=selection.limit,
        failure=progress.failure,
    )


# --- one page of a browse: messages of a queue, oldest first ---


LOOKED_AT_ONCE: Final = 500  # messages of one request: a millisecond or two in which the loop does nothing else


async def browse_page(
    handle: LocalQueue, *, partition: int | None, after: int, limit: int, selector: Selector | None
) -> list[BrowsedMessage]:
    """Return at most `limit` messages with sequences above `after`, partition by partition.

    With a selector the queue is scanned in parts until `limit` messages are found.
    """
    if selector is None:
        found: list[BrowsedMessage] = await ask_queue(handle, BrowseQueue(partition, after, limit))
        return found
    numbers = range(len(handle.target.partitions)) if partition is None else (partition,)
    selected: list[BrowsedMessage] = []
    for number in numbers:
        looked_to = after
        while len(selected) < limit:
            part: list[BrowsedMessage] = await ask_queue(handle, BrowseQueue(number, looked_to, LOOKED_AT_ONCE))
            if not part:
                break
            selected += [each for each in part if selector.matches(each.batch, each.row)]
            looked_to = part[-1].sequence
    return selected[:limit]
