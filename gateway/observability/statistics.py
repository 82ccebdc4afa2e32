"""Statistics of a message VPN that its node keeps in memory: rates of messages, and what bulk readers report.

The rate of a queue is the mean of the last minute, from counts taken every ten seconds. A bulk reader reports its
batches, because only the reader knows how long a batch took and how many rows it could not decode.
"""

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Self, final

from sluicegate.actors.messages.readers import CursorOverview
from sluicegate.messaging.queues.attributes import quoted
from sluicegate.messaging.queues.definition import QueueInvalid

SAMPLE_MS: Final = 10_000
SAMPLES_MAX: Final = 6  # a minute of them
JOB_CHARS_MAX: Final = 64
REFERENCE_CHARS_MAX: Final = 250
COUNT_MAX: Final = (1 << 53) - 1  # what JSON numbers are exact to


@final
class QueueRates:
    """The recent counts of one message VPN's queues. Invariant: at most SAMPLES_MAX are kept."""

    def __init__(self) -> None:
        self._samples: deque[tuple[int, Mapping[str, int]]] = deque(maxlen=SAMPLES_MAX)

    def add(self, now_ms: int, counts: Mapping[str, int]) -> None:
        """Record how many messages each queue has accepted since it was created, or since the node started."""
        self._samples.append((now_ms, counts))

    def rate(self, queue: str, count: int, now_ms: int) -> float:
        """Return the messages a second into a queue that has accepted `count` by now; 0 before the first sample."""
        if not self._samples:
            return 0.0
        since_ms, counts = self._samples[0]
        before = counts.get(queue, 0)
        # A queue that was deleted and created again has accepted fewer than before.
        taken = count - before if count >= before else count
        return taken * 1000 / max(now_ms - since_ms, SAMPLE_MS)  # a burst in the first moments is not a rate

    def working(self) -> list[str]:
        """Return the queues that have accepted messages between the last two samples."""
        if not self._samples:
            return []
        _, counts = self._samples[-1]
        _, before = self._samples[-2] if len(self._samples) > 1 else (0, dict[str, int]())
        return [queue for queue, count in counts.items() if count != before.get(queue)]


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ReaderBatch:
    """One batch, as its reader reports it."""

    job: str
    reference: str  # the same if the batch is reported again
    rows_count: int
    undecodable_count: int
    duration_ms: int

    @classmethod
    def of_json(cls, found: Mapping[str, object]) -> Self:
        """Return the batch of a request's body. Raises QueueInvalid, which names the member."""
        for name in found:
            if name not in cls.__slots__:
                raise QueueInvalid(name, "there is no such member", ", ".join(cls.__slots__))
        return cls(
            job=_text(found, "job", JOB_CHARS_MAX),
            reference=_text(found, "reference", REFERENCE_CHARS_MAX),
            rows_count=_count(found, "rows_count"),
            undecodable_count=_count(found, "undecodable_count"),
            duration_ms=_count(found, "duration_ms"),
        )


@final
class ReaderTotals:
    """What the reader of one durable cursor has reported so far."""

    def __init__(self) -> None:
        self.reference = ""  # of the last batch
        self.batches_count = 0
        self.rows_count = 0
        self.undecodable_count = 0
        self.duration_ms = 0
        self.last_ms = 0  # by the wall clock


@final
class ReaderBatches:
    """The totals of each reader since the node started. The number of cursors bounds them."""

    def __init__(self) -> None:
        self._totals: dict[tuple[str, str, str], ReaderTotals] = {}  # by queue, cursor and job

    def knows(self, queue: str, cursor: str) -> bool:
        """Return whether the reader of a cursor has reported a batch."""
        return any(key[:2] == (queue, cursor) for key in self._totals)

    def add(self, queue: str, cursor: str, batch: ReaderBatch, *, now_ms: int) -> None:
        """Count a batch; one that is reported again counts once. The cursor exists."""
        for key in [key for key in self._totals if key[:2] == (queue, cursor) and key[2] != batch.job]:
            del self._totals[key]  # another job took the cursor over
        totals = self._totals.setdefault((queue, cursor, batch.job), ReaderTotals())
        totals.last_ms = now_ms
        if totals.reference == batch.reference:
            return
        totals.reference = batch.reference
        totals.batches_count += 1
        totals.rows_count += batch.rows_count
        totals.undecodable_count += batch.undecodable_count
        totals.duration_ms += batch.duration_ms

    def keep_only(self, cursors: Iterable[CursorOverview]) -> None:
        """Forget the readers of deleted cursors."""
        existing = {(each.queue, each.name) for each in cursors}
        self._totals = {key: totals for key, totals in self._totals.items() if key[:2] in existing}

    def totals(self) -> Mapping[tuple[str, str, str], ReaderTotals]:
        """Return the totals of all readers, by queue, cursor and job."""
        return self._totals


def _text(found: Mapping[str, object], name: str, chars_max: int) -> str:
    value = found.get(name)
    if not isinstance(value, str) or not 0 < len(value) <= chars_max:
        raise QueueInvalid(name, f"{quoted(value)} is not allowed", f"1 to {chars_max} characters")
    return value


def _count(found: Mapping[str, object], name: str) -> int:
    value = found.get(name)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= COUNT_MAX:
        raise QueueInvalid(name, f"{quoted(value)} is not allowed", f"a whole number from 0 to {COUNT_MAX}")
    return value
