"""A queue answers a flow that drains: when each of its partitions has given it what it could."""

from sluicegate.actors.messages.drain_messages import DrainFlow, DrainPartition, FlowDrained
from sluicegate.actors.queues.core import QueueCore
from sluicegate.actors.runtime.asks import LoopFuture
from sluicegate.actors.runtime.gathering import gather


def drain_flow(core: QueueCore, message: DrainFlow) -> None:
    """Ask every partition, and tell the consumer when all have answered; one that ends meanwhile has nothing more."""
    flow = core.flows.get(message.flow_id)
    if flow is None:  # its consumer has let go of it, or hears that it is gone
        return
    address = flow.address

    def tell(_: object) -> None:
        address.post(FlowDrained(message.flow_id, message.number))

    failed: LoopFuture[None] = LoopFuture()
    failed.then(tell)
    gather([each.ask(DrainPartition(message.flow_id)) for each in core.partitions], tell, failed)
