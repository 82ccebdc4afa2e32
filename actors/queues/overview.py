"""The overview of a queue for operators and metrics: its figures, its waiting messages, its consumers."""

from sluicegate.actors.messages.partitions import BrowsedMessage, BrowsePartition, DescribePartition, PartitionOverview
from sluicegate.actors.messages.queues import (
    ACTIVE_BROWSER,
    ACTIVE_CONSUMER,
    INACTIVE,
    BrowseQueue,
    FlowOverview,
    QueueOverview,
    QueueTotals,
)
from sluicegate.actors.messages.router import ConsumersChanged
from sluicegate.actors.queues.core import QueueCore
from sluicegate.actors.runtime.asks import LoopFuture, ask_at, gather
from sluicegate.messaging.queues.assignment.slots import SCALE_READY
from sluicegate.messaging.selectors.selector import Selector


def describe(core: QueueCore) -> LoopFuture[QueueOverview]:
    """Ask all partitions, and return the overview of the queue."""
    answer: LoopFuture[QueueOverview] = LoopFuture()

    def combine(overviews: list[PartitionOverview]) -> None:
        answer.set(_overview(core, overviews))

    gather([partition.ask(DescribePartition()) for partition in core.partitions], combine, answer)
    return answer


def last_overview(core: QueueCore) -> QueueOverview:
    """Return the overview of a queue that is about to end, without the partitions that failed too often."""
    sound = [cell for cell in core.partitions if not (cell.suspended or cell.is_stopped())]
    return _overview(core, [cell.actor.overview() for cell in sound])


def notify_consumers(core: QueueCore) -> LoopFuture[None] | None:
    """Send the consumers and their selectors to the queue's watcher; return None when it has none."""
    watcher = core.target.watcher
    if watcher is None:
        return None
    consumers = [(flow.client, _text(flow.selector)) for flow in core.flows.values()]
    return ask_at(watcher, ConsumersChanged(core.target, consumers))


def _overview(core: QueueCore, partitions: list[PartitionOverview]) -> QueueOverview:
    partitions = partitions[: len(core.partitions)]  # some may have retired while they were asked
    flows = []
    for flow_id, flow in core.flows.items():
        owned = core.access.partitions_of(flow_id)
        unacked = sum(partition.in_flight_by_flow.get(flow_id, 0) for partition in partitions)
        activity = ACTIVE_CONSUMER if owned else INACTIVE
        window, text = flow.window.limit, _text(flow.selector)
        flows.append(
            FlowOverview(flow_id, flow.client, flow.protocol, window, unacked, activity, owned, text, flow.broker)
        )
    for flow_id, browser in core.browsers.items():
        asked = browser.request
        seen = list(range(len(partitions))) if asked.partition_number is None else [asked.partition_number]
        window, text = asked.window, _text(asked.selector)
        flows.append(
            FlowOverview(flow_id, asked.client, asked.protocol, window, 0, ACTIVE_BROWSER, seen, text, asked.broker)
        )
    return QueueOverview(
        config=core.config,
        durable=core.target.durable,
        rebalance_status=core.access.status,
        scale_status=SCALE_READY if core.rescale is None else core.rescale.status,
        partition_statuses=core.access.partition_statuses(len(partitions)),
        partitions=partitions,
        flows=flows,
        usage_bytes=core.target.gate.usage_bytes,
        usage_count=core.target.gate.usage_count,
        totals=_totals(core, partitions),
    )


def _totals(core: QueueCore, partitions: list[PartitionOverview]) -> QueueTotals:
    totals = QueueTotals(
        accepted_count=core.target.gate.accepted_count,
        rebalances_count=core.access.completed_count,
        bind_refusals=dict(core.bind_refusals),
        refusals=dict(core.target.gate.refusals),
        drops=dict(core.target.gate.drops),
    )
    totals.add(core.gone)
    for each in partitions:
        totals.add_partition(each)
    return totals


def _text(selector: Selector | None) -> str:
    return "" if selector is None else selector.text


def browse(core: QueueCore, message: BrowseQueue) -> LoopFuture[list[BrowsedMessage]]:
    """Return waiting messages, by partition and sequence."""
    answer: LoopFuture[list[BrowsedMessage]] = LoopFuture()
    number = message.partition_number
    chosen = core.partitions if number is None else core.partitions[number : number + 1]

    def combine(found: list[list[BrowsedMessage]]) -> None:
        answer.set([each for messages in found for each in messages][: message.limit])

    gather([each.ask(BrowsePartition(message.after, message.limit)) for each in chosen], combine, answer)
    return answer
