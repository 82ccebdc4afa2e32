"""The names of the replicas of a broker, as one of them follows the list that the cluster has.

The configuration's `cluster.replicas` is where the list comes from when there is none. From then on operators change it
in the running cluster. A replica that is not in it follows nothing and holds nothing: it waits until it is added.
"""

import asyncio
import logging
import random
from collections.abc import Callable
from contextlib import suppress
from typing import Final, NamedTuple, final

from nats.aio.client import Client

from sluicegate.gateway.config.sections.cluster import Cluster
from sluicegate.gateway.views.errors import CannotStart, NotReady, Refused
from sluicegate.storage.errors import StorageError
from sluicegate.storage.replication.ownership.replica_list import (
    ListRefused,
    ReplicaList,
    ReplicaLists,
    subject_of_list,
)

LOOK_S: Final = 5.0  # between two looks at the list; a change is heard of at once, if no message is lost
SOON_S: Final = 0.2  # a change is heard of as it is sent, which may be before it is stored
SOON_LOOKS: Final = 5
CHANGES_MAX: Final = 20  # tries to change the list while others change it
AGAIN_S_MIN, AGAIN_S_MAX = 0.02, 0.2  # between two of them

Names = tuple[str, ...]

log = logging.getLogger("sluicegate.cluster")


class _Stored(NamedTuple):
    """The list as it is stored."""

    names: Names
    revision: int


@final
class ReplicaNames:
    """The list, for the loop of the thread that has the connection."""

    def __init__(self, broker: str, cluster: Cluster, *, read: Callable[[Names], None]) -> None:
        """`read` is called with the names each time that they have been read."""
        self._broker: Final = broker
        self._cluster: Final = cluster
        self._read: Final = read
        self._looks: Final = asyncio.Event()
        self._soon_count = 0  # looks that follow each other sooner
        self._is_closed = False
        self._lists: ReplicaLists | None = None  # None: there is no connection yet
        self.names: Names = cluster.replicas  # for any thread
        self.waits = ""  # why this replica is not one yet

    async def join(self, client: Client) -> None:
        """Return when this replica is in the list, however long that takes. Raises CannotStart.

        The bucket is there.
        """

        async def changed(_: object) -> None:
            self.look()

        self._lists = lists = ReplicaLists(client)
        await client.subscribe(subject_of_list(self._broker), cb=changed)
        me = self._cluster.replica
        while not self._is_closed:
            try:
                self._take((await self._stored(lists)).names)
            except StorageError as error:
                self._note(f"the list of replicas cannot be read: {error}")
            else:
                if me in self.names:
                    self.waits = ""
                    self._read(self.names)
                    return
                self._note(f"it is none of the replicas of broker {self._broker}: sluicegate cluster add {me}")
            await self._wait()

    def _note(self, waits: str) -> None:
        if waits != self.waits:
            self.waits = waits
            log.warning("waits: %s", waits)

    async def follow(self) -> None:
        """Read the list again from time to time, until `close`."""
        lists = self._joined()
        while not self._is_closed:
            await self._wait()
            with suppress(StorageError):
                self._take((await self._stored(lists)).names)
                self._read(self.names)

    async def change(self, change: Callable[[Names], Names]) -> None:
        """Change the list, also while others do. Raises NotReady, Refused, and what `change` raises but ListRefused."""
        lists = self._joined()
        for _ in range(CHANGES_MAX):
            try:
                stored = await self._stored(lists)
                names = change(stored.names)
                revision = await lists.put(ReplicaList(self._broker, names), stored.revision)
            except ListRefused as refusal:
                raise Refused(str(refusal)) from None
            except CannotStart as error:  # there is no list any more, and this replica is none of those that it knows
                raise Refused(error.text) from None
            except StorageError as error:
                raise Refused(f"look at the replicas whether it was done: {error}") from None
            if revision is not None:
                self.look()
                return
            # The servers refuse others while a change is on its way to a majority of them.
            await asyncio.sleep(random.uniform(AGAIN_S_MIN, AGAIN_S_MAX))  # no secret
        raise Refused("others change the replicas as well; look at them, and try again")

    def look(self) -> None:
        """Read the list now, and a few times more."""
        self._soon_count = SOON_LOOKS
        self._looks.set()

    def close(self) -> None:
        """End `join` and `follow`."""
        self._is_closed = True
        self.look()

    def _joined(self) -> ReplicaLists:
        """Return the lists. Raises NotReady before `join`."""
        if self._lists is None:
            raise NotReady(f"replica {self._cluster.replica} starts, and does not know the list yet; try again")
        return self._lists

    async def _stored(self, lists: ReplicaLists) -> _Stored:
        """Return the list; one that is not there is made of the names that are known here."""
        while (stored := await lists.read(self._broker)).replicas is None:
            if self._cluster.replica not in self.names:
                text = f"cluster.replica is {self._cluster.replica!r}, and the cluster does not know broker"
                known = ", ".join(self.names) or "none is given"
                raise CannotStart(
                    f"{text} {self._broker!r} yet, so that it has to be one of cluster.replicas, which are: {known}"
                )
            await lists.put(ReplicaList(self._broker, self.names), stored.revision)
        return _Stored(stored.replicas.names, stored.revision)

    def _take(self, names: Names) -> None:
        if names != self.names:
            log.info("the replicas of broker %s are %s", self._broker, ", ".join(names))
        self.names = names

    async def _wait(self) -> None:
        wait_s, self._soon_count = SOON_S if self._soon_count else LOOK_S, max(0, self._soon_count - 1)
        with suppress(TimeoutError):
            async with asyncio.timeout(wait_s):
                await self._looks.wait()
        self._looks.clear()
