"""When a foreign broker is pinged, and when it is given up. No clock: times are given."""

from enum import Enum
from typing import Final, final

SILENT_KEEP_ALIVES_MAX: Final = 2  # keep-alives of silence, after which the broker is given up


class Look(Enum):
    """What a look at the time says."""

    FINE = "fine"
    PING = "ping"  # one is to be sent
    SILENT = "silent"  # the broker has answered no ping


@final
class KeepAlive:
    """The keep-alive of one connection, in which either side may be silent."""

    def __init__(self, keep_alive_s: int, now_ms: int) -> None:
        self._limit_ms = keep_alive_s * 1000
        self._heard_ms = now_ms
        self._sent_ms = now_ms
        self._is_pinged = False  # a ping waits for its answer, or for anything else

    def heard(self, now_ms: int) -> None:
        """Note that the broker has sent something."""
        self._heard_ms = now_ms
        self._is_pinged = False

    def sent(self, now_ms: int) -> None:
        """Note that something was sent."""
        self._sent_ms = now_ms

    def look(self, now_ms: int, stalled_ms: int, *, is_listening: bool) -> Look:
        """Look at the time. `stalled_ms` is how long this process stood still since the last look.

        That time, and any in which nothing is read, is no silence of the broker. A PING is taken for sent.
        """
        if not is_listening:
            self.heard(now_ms)
        self._heard_ms = min(self._heard_ms + stalled_ms, now_ms)
        silent_ms = now_ms - self._heard_ms
        if silent_ms >= SILENT_KEEP_ALIVES_MAX * self._limit_ms:
            return Look.SILENT
        if now_ms - self._sent_ms < self._limit_ms and (silent_ms < self._limit_ms or self._is_pinged):
            return Look.FINE
        self._is_pinged = True
        self._sent_ms = now_ms
        return Look.PING
