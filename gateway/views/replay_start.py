"""Where a replay begins: as people write it, checked."""

from datetime import UTC, datetime
from typing import Final, NamedTuple

from sluicegate.messaging.queues.definition import QueueInvalid

BEGINNING: Final = "beginning"
ALLOWED: Final = "beginning, a sequence, or a time such as 2026-01-31T12:00:00Z"
SEQUENCE_MAX: Final = (1 << 63) - 1


class ReplayStart(NamedTuple):
    """A sequence, or with `since_ms` above 0 a time of the wall clock."""

    first: int = 1
    since_ms: int = 0


def replay_start(text: str) -> ReplayStart:
    """Return where to begin. Raises QueueInvalid for what is neither of the three."""
    if text.lower() == BEGINNING:
        return ReplayStart()
    if text.isascii() and text.isdigit() and len(text) <= 19 and 1 <= int(text) <= SEQUENCE_MAX:
        return ReplayStart(first=int(text))
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise QueueInvalid("from", f"{text!r} is not allowed", ALLOWED) from None
    since = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    since_ms = int(since.timestamp() * 1000)
    if since_ms <= 0:
        raise QueueInvalid("from", f"{text!r} is before 1970", ALLOWED)
    return ReplayStart(since_ms=since_ms)
