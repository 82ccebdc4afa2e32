"""A queue has its partitions offer what they keep to its consumers again."""

from sluicegate.actors.messages.readers import PrepareReplay, ReplayQueue, ReplayRefused
from sluicegate.actors.partitions.actor import PartitionActor
from sluicegate.actors.queues.core import QueueCore
from sluicegate.actors.runtime.asks import LoopFuture
from sluicegate.actors.runtime.gathering import gather


def replay(core: QueueCore, message: ReplayQueue) -> LoopFuture[int]:
    """Have each partition that keeps some of it made anew: its consumers get the old messages before the newer.

    Raises ReplayRefused.
    """
    if not core.retention.on():
        raise ReplayRefused(f"{core.config.name!r} keeps nothing: retention_time_s and retention_size_mb are 0")
    if core.reserved_for:
        raise ReplayRefused(f"{core.config.name!r} is consumed by the durable cursor {core.reserved_for!r}")
    if core.rescale is not None:
        raise ReplayRefused(f"the number of partitions of {core.config.name!r} is changing; try again later")
    answer: LoopFuture[int] = LoopFuture()
    number = message.number
    chosen = list(core.partitions if number is None else core.partitions[number : number + 1])

    def prepared(counts: list[int]) -> None:
        if core.rescale is not None:  # it began just now, and waits for what is settled once
            changing = ReplayRefused(f"the number of partitions of {core.config.name!r} has just begun to change")
            answer.set_exception((ReplayRefused, changing, None))
            return
        for partition, count in zip(chosen, counts, strict=True):
            actor = partition.actor
            assert isinstance(actor, PartitionActor)
            if count:
                actor.replay()
        answer.set(sum(counts))

    request = PrepareReplay(message.first, message.since_ms, message.end)
    gather([each.ask(request) for each in chosen], prepared, answer)
    return answer
