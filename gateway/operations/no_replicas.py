"""The operations on replicas and sites, of what has none: a broker by itself, and the brokers of a machine.

A replica answers by `gateway.cluster.operations`.
"""

from sluicegate.gateway.views.cluster import NO_REPLICAS, ClusterBrokersView, ClusterView, ReplicationView
from sluicegate.gateway.views.errors import Refused


class NoReplicas:
    """Refuses them."""

    async def show_cluster(self) -> ClusterView:
        """Refuse."""
        raise Refused(NO_REPLICAS)

    async def list_cluster_brokers(self) -> ClusterBrokersView:
        """Refuse."""
        raise Refused(NO_REPLICAS)

    async def hand_over(self, replica: str, broker: str) -> None:
        """Refuse."""
        raise Refused(NO_REPLICAS)

    async def add_replica(self, name: str, before: str) -> None:
        """Refuse."""
        raise Refused(NO_REPLICAS)

    async def remove_replica(self, name: str) -> None:
        """Refuse."""
        raise Refused(NO_REPLICAS)

    async def show_replication(self) -> ReplicationView:
        """Refuse."""
        raise Refused(NO_REPLICAS)

    async def promote_site(self, *, accept_loss: bool) -> None:
        """Refuse."""
        raise Refused(NO_REPLICAS)

    async def demote_site(self) -> None:
        """Refuse."""
        raise Refused(NO_REPLICAS)
