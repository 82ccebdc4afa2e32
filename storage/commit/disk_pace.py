"""How quickly the disk takes commits: whether the loop may wait for one by itself.

A commit by a thread of its own takes the way there and back: two wake-ups, the interpreter lock four times, a turn of
the loop. That costs more than a quick disk takes for a small record. So where the disk is quick and nobody else waits
for the loop, the loop makes the commit, and stands still meanwhile.

A disk that is slow, or hangs, must not stop it again and again. So:

- The loop waits only for a disk that has lately taken little time for a commit, on average over some of them.
- It waits only where another commit has ended well a moment ago. The first one after a pause goes to the thread.
- After a commit that took long the thread makes them, for a hundred times as long. So commits that take long stop the
  loop for a hundredth of the time at most, and one that takes for ever stops it once.

See also: the caller, which says whether anybody waits (actors.spool.actor).
"""

from typing import Final, final

from mypy_extensions import i64

RECORD_BYTES_MAX: Final = 16 << 10  # about; a larger record takes longer, and is worth the way to the thread
QUICK_NS: Final = 500_000  # the average; disks with a cache that survives a power failure take a fifth of it
SHARE: Final = 8  # each commit is one part of so many of the average
LONG_NS: Final = 5_000_000  # for as long one client may keep the loop (`protocols.transport.loop.tcp`)
PAUSE_FACTOR: Final = 100
PAUSE_MS_MAX: Final = 600_000
RECENT_MS: Final = 1000

_NEVER_MS: Final = -(1 << 62)  # earlier than any moment


@final
class DiskPace:
    """What is known of the disk from the commits that it has taken."""

    def __init__(self) -> None:
        self._average_ns: i64 = 0
        self._last_ms: i64 = _NEVER_MS  # when the last commit ended; never: it failed, or there was none
        self._not_before_ms: i64 = _NEVER_MS

    def is_quick(self, now_ms: int) -> bool:
        """Return whether the next commit will probably be quick."""
        now: i64 = now_ms
        return self._average_ns <= QUICK_NS and now - self._last_ms < RECENT_MS and now >= self._not_before_ms

    def took(self, taken_ns: int, now_ms: int) -> None:
        """Note a commit that ended now, and how long it took, whoever made it."""
        taken: i64 = taken_ns
        self._average_ns += (taken - self._average_ns) // SHARE
        self._last_ms = now_ms
        if taken >= LONG_NS:
            pause_ms = min(taken // 1_000_000 * PAUSE_FACTOR, PAUSE_MS_MAX)
            self._not_before_ms = max(self._not_before_ms, self._last_ms + pause_ms)

    def failed(self) -> None:
        """Note a commit that failed: nobody knows how long the next one takes."""
        self._last_ms = _NEVER_MS
