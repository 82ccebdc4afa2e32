"""Holds of the replicas of a broker, as keys in the bucket that has the keys of owners. Needs nats-py.

A key is written only if its revision is the one that its replica knows, so a replica whose hold was revoked finds that
out when it renews it.
"""

from typing import NamedTuple, final

import orjson
from nats.aio.client import Client

from sluicegate.storage.errors import DamagedRecord
from sluicegate.storage.replication.jetstream import stream_name
from sluicegate.storage.replication.ownership.bucket import ANSWER_S, BUCKET, EXPECTED, STREAM
from sluicegate.storage.replication.ownership.keys import replica_of, token_of
from sluicegate.storage.replication.requests import Requests
from sluicegate.storage.replication.trimming.plan import EVERYTHING, Hold, may_rely_on_hold, position_of_new_hold
from sluicegate.storage.replication.trimming.snapshots import Snapshots


class PlacedHold(NamedTuple):
    """A hold as the leader of the bucket has it."""

    hold: Hold | None  # None: there is none
    revision: int  # of its key; 0 when it was never written


@final
class Holds:
    """The holds on the log of one broker.

    Each method raises StreamUnavailable when no answer comes, and StreamRefused.
    """

    def __init__(self, client: Client, broker: str, generation: int = 0) -> None:
        """Use a connection of `connected`. The bucket is there (`NatsBucket.create`).

        For the generation see `stream_name`.
        """
        self._requests = Requests(client, STREAM, answer_s=ANSWER_S)
        self._prefix = f"$KV.{BUCKET}.{stream_name(broker, generation)}.holds."

    async def all(self) -> list[Hold]:
        """Return all holds. Raises DamagedRecord for a key whose value is none that a replica writes."""
        found: list[Hold] = []
        for subject in await self._requests.subjects(f"{self._prefix}>"):
            placed = await self.read(replica_of(subject.removeprefix(self._prefix)))
            if placed.hold is not None:
                found.append(placed.hold)
        return found

    async def read(self, replica: str) -> PlacedHold:
        """Return the hold of a replica. Raises DamagedRecord as `all`."""
        revision, value = await self._requests.key(self._prefix + token_of(replica))
        if value is None:
            return PlacedHold(None, revision)
        try:
            position = int(orjson.loads(value)["position"])
        except (orjson.JSONDecodeError, KeyError, TypeError, ValueError) as error:
            raise DamagedRecord(f"the hold of replica {replica!r}", f"its value is {value[:100]!r}") from error
        return PlacedHold(Hold(replica, position), revision)

    async def put(self, hold: Hold, expected: int) -> int | None:
        """Write a hold if its revision is the expected one; return the new one, None when it is not.

        A write whose answer was lost is found when it is repeated: then its revision is returned, too.
        """
        value = orjson.dumps({"position": hold.position})
        revision = await self._requests.write(self._prefix + token_of(hold.replica), value, {EXPECTED: str(expected)})
        if revision is not None:
            return revision
        placed = await self.read(hold.replica)
        return placed.revision if placed.hold == hold else None

    async def remove(self, replica: str) -> None:
        """Take the hold of a replica away."""
        await self._requests.purge(self._prefix + token_of(replica))


@final
class ReplicaHold:
    """The hold of this replica, which it renews from time to time."""

    def __init__(self, holds: Holds, snapshots: Snapshots, replica: str) -> None:
        self._holds = holds
        self._snapshots = snapshots
        self._replica = replica
        self._placed: Hold | None = None  # as this replica wrote it last
        self._revision = 0  # of its key then
        self.is_held = False  # no trim passes it

    async def renew(self, last_record: int) -> bool:
        """Hold the log from the last record that the replica has; return whether no trim passes the hold.

        A new hold is placed at the newest verified snapshot. If it was revoked, the next call places another.
        Raises what `Holds` and `Snapshots` raise.
        """
        if not self.is_held or self._placed is None:
            return await self._place()
        position = max(last_record, self._placed.position)
        self.is_held = await self._put(position, self._revision)
        return self.is_held

    async def release(self) -> None:
        """Hold the log no more."""
        self.is_held, self._placed = False, None
        await self._holds.remove(self._replica)

    async def _place(self) -> bool:
        position = max(EVERYTHING, position_of_new_hold(await self._snapshots.all()))
        before = await self._holds.read(self._replica)  # of an earlier process
        if not await self._put(position, before.revision):
            return False
        self.is_held = may_rely_on_hold(position, await self._snapshots.all())
        return self.is_held

    async def _put(self, position: int, expected: int) -> bool:
        hold = Hold(self._replica, position)
        revision = await self._holds.put(hold, expected)
        self._placed, self._revision = (None, 0) if revision is None else (hold, revision)
        return revision is not None
