"""Trims the log of a broker: looks at snapshots and holds, and does what the plan says. For its owner.

An owner that is one no more may still be at it: what it does late harms nothing, see `plan.py`.
"""

from collections.abc import Awaitable, Callable, Collection
from typing import final

from sluicegate.storage.replication.stream import Stream
from sluicegate.storage.replication.trimming.holds import Holds
from sluicegate.storage.replication.trimming.plan import Hold, Trim, is_too_large, plan_trim
from sluicegate.storage.replication.trimming.snapshots import Snapshots


@final
class Trimmer:
    """Trims one log, as often as it is asked to."""

    def __init__(
        self,
        stream: Stream,
        snapshots: Snapshots,
        holds: Holds,
        *,
        log_bytes_max: int,
        replicas: Callable[[], Awaitable[Collection[str]]],
        hold_revoked: Callable[[Hold], None],
    ) -> None:
        """`replicas` reads the names of those that may hold the log.

        `hold_revoked` is called with each hold that is taken away because the log is too large.
        """
        self._stream = stream
        self._snapshots = snapshots
        self._holds = holds
        self._log_bytes_max = log_bytes_max
        self._replicas = replicas
        self._hold_revoked = hold_revoked

    async def trim(self) -> Trim:
        """Trim as far as possible; return what was done.

        A hold of none of the replicas is taken away. Raises StreamUnavailable, StreamRefused, DamagedRecord for a hold
        that cannot be read, and what reading the replicas raises: the next call does the rest.
        """
        snapshots = await self._snapshots.all()  # first: see `plan.py`
        holds = await self._holds.all()
        replicas = await self._replicas()  # behind the holds: who has placed one was a replica by then
        for hold in [each for each in holds if each.replica not in replicas]:
            await self._holds.remove(hold.replica)
        holds = [each for each in holds if each.replica in replicas]
        bounds = await self._stream.bounds()
        trim = plan_trim(snapshots, holds, revokes=is_too_large(bounds.byte_count, self._log_bytes_max))
        for hold in trim.revoked:
            await self._holds.remove(hold.replica)
            self._hold_revoked(hold)
        if trim.keep_from > bounds.first:
            await self._stream.trim(trim.keep_from)
        for snapshot in trim.deletes:
            await self._snapshots.remove(snapshot.name)
        return trim
