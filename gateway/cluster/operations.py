"""The operations of operators on a replica: those of its node while it is the owner, and few while it is a standby."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Protocol, final

from sluicegate.gateway.cluster.membership import members
from sluicegate.gateway.observability.metrics.metric import Sample
from sluicegate.gateway.operations.interface import NodeInterface
from sluicegate.gateway.views.cluster import ClusterBrokersView, ClusterView, ReplicationView
from sluicegate.gateway.views.errors import Refused
from sluicegate.gateway.views.node.runtime import Health, ReloadView


class OperatedReplica(Protocol):
    """A replica, as its operators ask it."""

    @property
    def role(self) -> str:
        """What it does; one of those in `gateway.cluster.membership.members`."""

    def view(self) -> ClusterView:
        """Return the broker and its replicas."""

    def obstacle(self) -> str:
        """Return why it does not do what it is there for; empty if it does."""

    def samples(self) -> list[Sample]:
        """Return what it measures of itself, and of its ports."""

    async def brokers(self) -> ClusterBrokersView:
        """Return all brokers of the cluster. Raises Refused."""

    async def hand_over(self, successor: str, broker: str) -> None:
        """Have the owner of a broker hand over, for an empty name of this one. Raises Refused."""

    async def add(self, replica: str, before: str) -> None:
        """Add a replica to those of this broker. Raises Refused."""

    async def remove(self, replica: str) -> None:
        """Take a replica from those of this broker. Raises Refused."""

    def replication_view(self) -> ReplicationView:
        """Return the two sites of this broker. Raises Refused if it has one."""

    async def promote_site(self, *, accept_loss: bool) -> None:
        """Have this site serve. Raises Refused."""

    async def demote_site(self) -> None:
        """Have this site give the broker up to the other one. Raises Refused."""

    async def reload(self) -> ReloadView:
        """Read the configuration again. Raises Refused."""


@final
class ReplicaOperations:
    """What a replica's ports carry out: a `NodeInterface` whose node comes when the replica takes over."""

    def __init__(self, replica: OperatedReplica) -> None:
        self._replica = replica
        self.node: NodeInterface | None = None  # of the owner, once it takes traffic

    def __getattr__(self, operation: str) -> Any:
        """Return an operation of the node. Raises Refused while there is none."""
        return getattr(self._node_here(), operation)

    def in_vpn(self, name: str) -> Any:
        """Return the operations on a message VPN; at a standby, those that there are."""
        return self if self.node is None else self.node.in_vpn(name)

    async def show_cluster(self) -> ClusterView:
        """Return the replicas of this broker."""
        return self._replica.view()

    async def list_cluster_brokers(self) -> ClusterBrokersView:
        """Return all brokers of the cluster."""
        return await self._replica.brokers()

    async def hand_over(self, replica: str, broker: str) -> None:
        """Have a standby own a broker."""
        await self._replica.hand_over(replica, broker)

    async def add_replica(self, name: str, before: str) -> None:
        """Add a replica to those of this broker."""
        await self._replica.add(name, before)

    async def remove_replica(self, name: str) -> None:
        """Take a replica from those of this broker."""
        await self._replica.remove(name)

    async def show_replication(self) -> ReplicationView:
        """Return the two sites of this broker."""
        return self._replica.replication_view()

    async def promote_site(self, *, accept_loss: bool) -> None:
        """Have this site serve."""
        await self._replica.promote_site(accept_loss=accept_loss)

    async def demote_site(self) -> None:
        """Have this site give the broker up to the other one."""
        await self._replica.demote_site()

    async def reload(self) -> ReloadView:
        """Read the configuration again."""
        return await self._replica.reload()

    async def health(self) -> Health:
        """Return whether the replica works; it is ready as the owner, or as a standby that could take over."""
        obstacle = self._replica.obstacle()
        if self._replica.role == members.OWNER and self.node is not None:
            health = await self.node.health()
            return replace(health, ready=False, reasons=(*health.reasons, obstacle)) if obstacle else health
        return Health(live=True, ready=not obstacle, reasons=(obstacle,) if obstacle else (), active=False)

    async def metrics_snapshot(self) -> Sequence[Sample]:
        """Return the samples of the node, and those of the replica."""
        of_node = [] if self.node is None else list(await self.node.metrics_snapshot())
        return _added_up([*of_node, *self._replica.samples()])

    def _node_here(self) -> NodeInterface:
        if self.node is not None:
            return self.node
        view = self._replica.view()
        if view.role != members.STANDBY:
            raise Refused(f"replica {view.replica} is {view.role}; try again in a moment")
        owner = next((each for each in view.replicas if each.name == view.owner), None)
        if owner is None:
            raise Refused(f"replica {view.replica} is a standby, and no owner is known; try again in a moment")
        url = next((url for name, url in owner.endpoints if name.startswith("admin")), "")
        raise Refused(
            f"replica {view.replica} is a standby: ask the owner, {owner.name}" + (f", at {url}" if url else "")
        )


def _added_up(samples: Sequence[Sample]) -> list[Sample]:
    """Return samples without doubles: what node and ports both count is added up."""
    found: dict[tuple[object, ...], Sample] = {}
    for sample in samples:
        key = (sample.name, sample.labels, sample.vpn, sample.broker)
        before = found.get(key)
        found[key] = sample if before is None else before._replace(value=before.value + sample.value)
    return list(found.values())
