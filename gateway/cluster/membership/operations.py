"""What operators do with the replicas of a broker, and ask about all brokers of the cluster. Any replica is asked."""

import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final, final

from nats.aio.client import Client

from sluicegate.gateway.cluster.membership import members
from sluicegate.gateway.cluster.membership.members import Members, ReplicaState
from sluicegate.gateway.cluster.membership.names import Names, ReplicaNames
from sluicegate.gateway.cluster.membership.survey import Surveyed, survey
from sluicegate.gateway.views.cluster import ClusterBrokersView, ClusterBrokerView, ReplicaView
from sluicegate.gateway.views.errors import Refused
from sluicegate.storage.errors import StorageError
from sluicegate.storage.replication.ownership.replica_list import with_replica, without_replica

Ask = Callable[[Callable[[Client], Coroutine[Any, Any, Any]]], Awaitable[Any]]


@final
class Membership:
    """The operations, for the event loop of the process."""

    def __init__(self, ask: Ask, names: ReplicaNames, heard: Members) -> None:
        """`ask` returns what a coroutine on the thread of `names` returns, which gets the connection."""
        self._ask: Final = ask
        self._names: Final = names
        self._heard: Final = heard

    async def brokers(self) -> ClusterBrokersView:
        """Return all brokers of the cluster. Raises Refused."""
        try:
            found = await self._ask(survey)
        except StorageError as error:
            raise Refused(f"the brokers of the cluster cannot be read: {error}") from None
        return ClusterBrokersView(brokers=tuple(_broker_view(each) for each in found))

    async def add(self, replica: str, before: str) -> None:
        """Add a replica, before another one or behind all; one that is there moves before that one. Raises Refused."""
        await self._change(lambda names: with_replica(names, replica, before))

    async def remove(self, replica: str) -> None:
        """Take a replica out. Its hold on the log goes with it, and its process waits to be added. Raises Refused."""
        owner = self._heard.owner(time.monotonic())
        if owner is not None and owner.name == replica:
            raise Refused(f"replica {replica!r} owns the broker: have another one own it before")
        await self._change(lambda names: without_replica(names, replica))

    async def _change(self, change: Callable[[Names], Names]) -> None:
        async def ask(_: Client) -> None:
            await self._names.change(change)

        await self._ask(ask)


def view_of(name: str, state: ReplicaState | None, *, reads_level: int = 0, away: str = "") -> ReplicaView:
    """Return the view of a replica; None: nothing was heard of it.

    Then `reads_level` is what it has said before, and `away` why it may be away, if that is known.
    """
    if state is None:
        return ReplicaView(
            name=name,
            role=members.AWAY,
            caught_up=False,
            position=0,
            lag_messages=0,
            lag_bytes=0,
            hold=0,
            release="",
            reads_level=reads_level,
            endpoints=(),
            problem=away or "nothing was heard of it lately",
        )
    return ReplicaView(
        name=name,
        role=state.role,
        caught_up=state.caught_up,
        position=state.position,
        lag_messages=state.lag_messages,
        lag_bytes=state.lag_bytes,
        hold=0,
        release=state.release,
        reads_level=state.reads_level,
        endpoints=state.endpoints,
        problem=state.problem or ("" if state.has_room else "its disk has no room"),
    )


def _broker_view(surveyed: Surveyed) -> ClusterBrokerView:
    owner = surveyed.owner()
    return ClusterBrokerView(
        broker=surveyed.replicas.broker,
        owner="" if owner is None else owner.name,
        epoch=max((each.epoch for each in surveyed.states.values()), default=0),
        preferred=surveyed.preferred(),
        replicas=tuple(view_of(name, surveyed.states.get(name)) for name in surveyed.replicas.names),
    )
