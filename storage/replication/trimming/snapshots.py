"""The snapshots of a broker, in an object store of JetStream that only it uses. Needs nats-py.

A snapshot is the data file of a backup, with the backup's note as a label. Its name has the incarnation of the spool,
the epoch and the number of the last record that it has, the replica that made it, and when:

    00000000000000a7.12.90341.b.1795820400000

Who made it reads it back from the servers, and then marks it as verified.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator
from typing import Any, Final, NamedTuple, final

from nats.aio.client import Client

from sluicegate.storage.errors import DamagedRecord
from sluicegate.storage.replication.jetstream import stream_name
from sluicegate.storage.replication.ownership.keys import replica_of, token_of
from sluicegate.storage.replication.trimming.objects import Description, Objects
from sluicegate.storage.replication.trimming.plan import Snapshot

NOTE: Final = "note"  # labels of an object
VERIFIED: Final = "verified"


class SnapshotName(NamedTuple):
    """What a snapshot is called."""

    incarnation: int
    epoch: int
    position: int
    replica: str
    taken_ms: int

    def __str__(self) -> str:
        """Return the name of its object."""
        return f"{self.incarnation:016x}.{self.epoch}.{self.position}.{token_of(self.replica)}.{self.taken_ms}"


class StoredSnapshot(NamedTuple):
    """A snapshot that counts, for operators."""

    position: int  # number of the last record that it has
    taken_ms: int  # by the clock of the replica that made it
    byte_count: int


def snapshot_name(text: str) -> SnapshotName | None:
    """Return what a name says, None when it is none of a snapshot."""
    try:
        incarnation, epoch, position, replica, taken_ms = text.split(".")
        name = SnapshotName(int(incarnation, 16), int(epoch), int(position), replica_of(replica), int(taken_ms))
    except ValueError:
        return None
    return name if str(name) == text else None


@final
class Snapshots:
    """The snapshots of one broker. Each method may raise StreamUnavailable, StreamRefused and DamagedRecord."""

    def __init__(self, client: Client, broker: str, incarnation: int | None, generation: int = 0) -> None:
        """Use a connection of `connected`. For the generation see `stream_name`.

        Snapshots of another incarnation are as if they were not there. None: a new replica does not know it, and the
        last record of what it installs shows whether that is right.
        """
        self._objects = Objects(client, stream_name(broker, generation))
        self._incarnation = incarnation

    async def create(self, replica_count: int) -> None:
        """Create the object store, if there is none. One of another configuration is refused."""
        await self._objects.create(replica_count)

    async def differences(self, replica_count: int) -> dict[str, Any]:
        """Return the settings of the object store that could lose snapshots, with the values that they have."""
        return await self._objects.differences(replica_count)

    async def all(self) -> list[Snapshot]:
        """Return what is there, also what is not finished or not verified. What cannot be read is not verified."""
        found: list[Snapshot] = []
        for text in await self._objects.names():
            name = snapshot_name(text)
            if name is None or self._incarnation not in (None, name.incarnation):
                continue
            try:
                known = await self._objects.describe(text)
            except DamagedRecord:
                known = None
            found.append(Snapshot(text, name.position, known is not None and known.labels.get(VERIFIED) == "yes"))
        return sorted(found)

    async def newest(self) -> StoredSnapshot | None:
        """Return the newest snapshot that counts, None when there is none."""
        verified = [each for each in await self.all() if each.is_verified]
        newest = max(verified, key=lambda each: each.position, default=None)
        name = None if newest is None else snapshot_name(newest.name)
        if newest is None or name is None:
            return None
        known = await self._known(newest.name)
        return StoredSnapshot(newest.position, name.taken_ms, known.byte_count)

    async def put(self, name: SnapshotName, note: str, chunks: Iterable[bytes]) -> None:
        """Store a snapshot that is not verified. Raises ObjectChanged when there is one of its name."""
        await self._objects.put(str(name), chunks, {NOTE: note})

    async def verify(self, name: str) -> None:
        """Read a snapshot back and compare its checksum; then it counts. Raises DamagedRecord, ObjectChanged."""
        known = await self._known(name)
        async for _ in self._objects.read(known):
            pass
        await self._objects.relabel(known, known.labels | {VERIFIED: "yes"})

    async def copy(self, name: str, source: "Snapshots", replica: str) -> None:
        """Store a snapshot that another site has, as one of a replica here, and verify it. Raises ObjectChanged."""
        known = snapshot_name(name)
        assert known is not None
        own = str(known._replace(replica=replica))
        await self.remove(own)  # what an earlier process of this replica left of it
        loop = asyncio.get_running_loop()
        reading = source.chunks(name)

        async def next_chunk() -> bytes | None:
            return await anext(reading, None)

        def chunks() -> Iterator[bytes]:  # on another thread
            while (chunk := asyncio.run_coroutine_threadsafe(next_chunk(), loop).result()) is not None:
                yield chunk

        await self._objects.put(own, chunks(), {NOTE: await source.note(name)})
        await self.verify(own)

    async def note(self, name: str) -> str:
        """Return the note of the backup."""
        known = await self._known(name)
        if NOTE not in known.labels:
            raise DamagedRecord(f"snapshot {name}", "it has no note")
        return known.labels[NOTE]

    async def chunks(self, name: str) -> AsyncIterator[bytes]:
        """Yield the data file. Raises DamagedRecord at the end if its checksum is another."""
        async for chunk in self._objects.read(await self._known(name)):
            yield chunk

    async def remove(self, name: str) -> None:
        """Remove a snapshot, whole or not."""
        await self._objects.remove(name)

    async def _known(self, name: str) -> Description:
        known = await self._objects.describe(name)
        if known is None:
            raise DamagedRecord(f"snapshot {name}", "it is gone, or was not finished")
        return known
