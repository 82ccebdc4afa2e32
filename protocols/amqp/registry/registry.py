"""The registry of one message VPN: what its AMQP connections know of each other."""

from typing import final

from sluicegate.protocols.amqp.datapath.receiver_recovery import ResumableFlows
from sluicegate.protocols.amqp.registry.containers import Containers
from sluicegate.protocols.amqp.registry.subscriptions import Subscriptions
from sluicegate.protocols.amqp.registry.temporary_nodes import TemporaryNodes


@final
class Registry:
    """One for all connections; it outlives changes of the configuration."""

    def __init__(self) -> None:
        self.containers = Containers()
        self.resumable = ResumableFlows()
        self.temporary_nodes = TemporaryNodes()
        self.subscriptions = Subscriptions()
