"""The feature level of the log: each replica says what it reads, and the owner raises the level when all read more.

It runs on the thread of the replica's spool. See `storage.replication.levels`.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, final

from nats.aio.client import Client

from sluicegate.gateway.build import VERSION
from sluicegate.storage.errors import StorageError
from sluicegate.storage.replication.levels import level_to_write
from sluicegate.storage.replication.ownership.readable_levels import ReadableLevel, ReadableLevels
from sluicegate.storage.replication.ownership.replica_list import ReplicaLists
from sluicegate.storage.replication.replica import OwnershipLost, Replica, Role
from sluicegate.storage.replication.stream import StreamUnavailable

TURN_S: Final = 5.0
AGAIN_S: Final = 0.5

log = logging.getLogger("sluicegate.cluster")


@final
class LogLevel:
    """One replica's part in the level of the log."""

    def __init__(
        self,
        broker: str,
        client: Client,
        replica: Replica,
        *,
        raise_level: Callable[[int], Awaitable[bool]],
        raised: Callable[[int], None],
        lost: Callable[[str], None],
    ) -> None:
        """`raise_level` is that of `ReplicatedLog`; `raised` is called with the level that this owner has raised it to.

        `lost` is told why this replica is the owner no more.
        """
        self._broker: Final = broker
        self._replica: Final = replica
        self._raise_level: Final = raise_level
        self._raised: Final = raised
        self._lost: Final = lost
        self._keys: Final = ReadableLevels(client, broker)
        self._lists: Final = ReplicaLists(client)
        self._problem = ""
        self.readable: Mapping[str, ReadableLevel] = {}  # of the replicas that have said so; for any thread

    async def say(self) -> None:
        """Say what this replica reads; return when it is stored. Raises StreamRefused, UnreadableKey."""
        while True:
            try:
                if await self._say():
                    return
            except StreamUnavailable as error:
                log.info("%s; trying again", error)
            await asyncio.sleep(AGAIN_S)

    async def _say(self) -> bool:
        return await self._keys.say(self._replica.name, ReadableLevel(self._replica.reads, VERSION))

    async def keep(self) -> None:
        """Look what all replicas read, and raise the level when it is time, until this is cancelled."""
        while True:
            try:
                await self._turn()
                self._problem = ""
            except OwnershipLost as error:
                self._lost(str(error))
            except StorageError as error:
                if str(error) != self._problem:
                    log.warning("the level of the log cannot be looked at now: %s; trying again", error)
                self._problem = str(error)
            await asyncio.sleep(TURN_S)

    async def _turn(self) -> None:
        stored = await self._lists.read(self._broker)
        known = self.readable = await self._keys.all()
        if self._replica.name not in known:  # somebody has deleted it
            await self._say()
        if stored.replicas is None or self._replica.role is not Role.OWNER:
            return
        before = self._replica.level
        wanted = level_to_write(before, {name: each.level for name, each in known.items()}, stored.replicas.names)
        if before < wanted <= self._replica.reads and await self._raise_level(wanted):
            log.info("the log has feature level %d from now on", wanted)
            self._raised(wanted)

    def why_it_cannot_read(self, replica: str) -> str:
        """Return why a replica cannot read the log, empty if it can, or has not said. For any thread."""
        said = self.readable.get(replica)
        if said is None or said.level >= self._replica.level:
            return ""
        return (
            f"release {said.release} reads feature level {said.level}, and the log has level "
            f"{self._replica.level}: it needs a later release"
        )
