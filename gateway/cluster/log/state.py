"""How the log is kept short, for operators: the newest snapshot, how much of the log is behind it, and the holds."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, final

from sluicegate.gateway.observability.metrics.metric import Sample
from sluicegate.gateway.views.cluster import LogView
from sluicegate.storage.replication.stream import Stream
from sluicegate.storage.replication.trimming.holds import Holds
from sluicegate.storage.replication.trimming.plan import bytes_behind
from sluicegate.storage.replication.trimming.snapshots import Snapshots, StoredSnapshot

LOOK_S: Final = 15.0  # between two looks


@dataclass(slots=True)
class Made:
    """The snapshots that this process has made."""

    count: int = 0
    failed_count: int = 0
    ended_ms: int = 0  # when the last one was made, or failed, by the wall clock; 0: there was none
    took_s: float = 0.0
    problem: str = ""  # why the last one failed


@final
class LogState:
    """What there is of a log beside its stream. `look` is for the thread of the connection, all else for any thread."""

    def __init__(self, stream: Stream, snapshots: Snapshots, holds: Holds, *, monotonic_s: Callable[[], float]) -> None:
        self._monotonic_s: Final = monotonic_s
        self._stream: Final = stream
        self._snapshots: Final = snapshots
        self._holds: Final = holds
        self._look_at_s = float("-inf")  # not earlier
        self.made: Final = Made()
        self.newest: StoredSnapshot | None = None  # that counts
        self.behind_bytes = 0  # of the log behind it, about
        self.holds: dict[str, int] = {}  # by replica: the first record that it needs

    async def look(self) -> None:
        """Look, if the last look was long ago. Raises StreamUnavailable, StreamRefused, DamagedRecord."""
        if self._monotonic_s() < self._look_at_s:
            return
        self._look_at_s = self._monotonic_s() + LOOK_S
        newest = await self._snapshots.newest()
        holds = await self._holds.all()
        bounds = await self._stream.bounds()
        position = 0 if newest is None else newest.position
        self.behind_bytes = bytes_behind(position, first=bounds.first, end=bounds.last + 1, log_bytes=bounds.byte_count)
        self.newest, self.holds = newest, {hold.replica: hold.position for hold in holds}

    def view(self) -> LogView:
        """Return what an operator sees."""
        newest, made = self.newest, self.made
        return LogView(
            snapshot_position=0 if newest is None else newest.position,
            snapshot_bytes=0 if newest is None else newest.byte_count,
            snapshot_taken_ms=0 if newest is None else newest.taken_ms,
            bytes_behind_snapshot=self.behind_bytes,
            last_try_ms=made.ended_ms,
            last_try_took_s=round(made.took_s, 3),
            last_try_problem=made.problem,
        )

    def samples(self) -> list[Sample]:
        """Return what is measured."""
        newest, now_s = self.newest, time.time()
        values = {
            "snapshot_position": 0 if newest is None else newest.position,
            "snapshot_bytes": 0 if newest is None else newest.byte_count,
            "snapshot_age_seconds": 0 if newest is None else max(0.0, now_s - newest.taken_ms / 1000),
            "snapshot_behind_bytes": self.behind_bytes,
            "snapshots_made_total": self.made.count,
            "snapshots_failed_total": self.made.failed_count,
            "snapshot_last_seconds": self.made.took_s,
        }
        samples = [Sample(f"sluicegate_replica_{name}", float(value)) for name, value in values.items()]
        holds = sorted(self.holds.items())
        return samples + [Sample("sluicegate_replica_hold_position", position, (name,)) for name, position in holds]
