"""Change the number of partitions of a running queue: the actions on its core.

All of it happens in one step, so that publishers on the loop see the old slot map or the new one. Messages published
before are in the inboxes ahead of the orders to take a cut (in partitions that lose slots) and to hold (in those that
gain some).

See also: preparing and storing it (`rescale_plans`), what is waited for (messaging.queues.assignment.slots), and the
wait itself (messaging.partitions.state.rescale_holds).
"""

from sluicegate.actors.messages.partitions import HoldSlots, OpenSource, Retire, TakeCut
from sluicegate.actors.messages.queues import PartitionsChanged, RescaleQueue
from sluicegate.actors.queues.core import QueueCore
from sluicegate.actors.runtime.runtime import ActorCell
from sluicegate.messaging.queues.assignment.rebalance import Move
from sluicegate.messaging.queues.assignment.slots import Rescale, modulo_slots
from sluicegate.messaging.routing.destinations import PartitionTarget


def begin_rescale(core: QueueCore, message: RescaleQueue, now_ms: int) -> list[Move]:
    """Switch the queue to the new slot map; return the moves for new partitions."""
    rescale = message.rescale
    message.begun = True
    core.rescale = rescale
    core.partitions += [each.cell for each in message.added]
    resume_rescale(core, rescale)
    core.target.partitions += [PartitionTarget(each.partition_id, each.cell.inbox) for each in message.added]
    core.target.slots = rescale.slots
    _notify_browsers(core)
    return core.access.resize(len(core.partitions), now_ms)


def resume_rescale(core: QueueCore, rescale: Rescale) -> None:
    """Tell the partitions what to hold and what to wait for."""
    sources = rescale.waits_for()
    for number in range(rescale.count):
        if number not in rescale.cuts:
            core.partitions[number].inbox.post(HoldSlots(number, rescale.slots_before, sources))
    for number in sources:
        core.partitions[number].inbox.post(TakeCut(rescale.cuts[number]))


def source_drained(core: QueueCore, rescale: Rescale, number: int) -> bool:
    """Open a drained source; return whether it was the last one."""
    for gaining in range(rescale.count):
        if gaining not in rescale.cuts:
            core.partitions[gaining].inbox.post(OpenSource(number))
    return rescale.drain(number)


def end_rescale(core: QueueCore, rescale: Rescale) -> list[int]:
    """Remove the retired partitions, which are empty; return their ids."""
    core.rescale = None
    if rescale.slots == modulo_slots(rescale.count):
        core.target.slots = None
    retired: list[ActorCell] = core.partitions[rescale.count :]
    retired_ids = [partition.partition_id for partition in core.target.partitions[rescale.count :]]
    del core.partitions[rescale.count :]
    del core.target.partitions[rescale.count :]
    for cell in retired:
        core.gone.add_partition(cell.actor.overview())  # it has no messages and no flow: these are its final figures
        cell.inbox.post(Retire())
        cell.actor.actor_ref.stop(block=False)  # behind earlier requests, so that they are answered
    _notify_browsers(core)
    return retired_ids


def _notify_browsers(core: QueueCore) -> None:
    for each in core.browsers.values():
        each.cell.inbox.post(PartitionsChanged())
