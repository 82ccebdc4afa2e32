"""Attempts to log in: whoever guesses passwords has to wait, longer each time, and nobody else does.

Two things are counted: failures of one user name from one address, and failures of one address whatever the name. From
the fourth of the first and the twentieth of the second on, further attempts wait their turn, one after the other. So a
user cannot be locked out from elsewhere, and many connections guess no faster than one.

Pure: time is an argument, and waiting is the caller's.
"""

from collections import OrderedDict
from typing import Final, final

FREE_OF_USER: Final = 3  # failures of a name from an address that cost nothing: people mistype
FREE_OF_HOST: Final = 20  # of an address: behind one there may be a whole plant
DELAY_MS: Final = 250  # after the first that counts; doubled by each further one
DELAY_MS_MAX: Final = 5_000  # below the time that any protocol leaves a client to connect
WAIT_MS_MAX: Final = 5_000  # an attempt that would have to wait longer is refused at once
REMEMBERED_MS: Final = 600_000  # without a further failure
REMEMBERED_MAX: Final = 10_000  # names and addresses; the one that was quiet longest is forgotten first

Key = tuple[str, str]  # address and user name, which is empty for the address itself


@final
class _Record:
    __slots__ = ("failures", "free", "last_ms", "next_ms")

    def __init__(self, free: int, now_ms: int) -> None:
        self.free = free
        self.failures = 0
        self.next_ms = now_ms  # when the next attempt may be looked at
        self.last_ms = now_ms

    def delay_ms(self) -> int:
        """Return how far apart attempts have to be."""
        counted = self.failures - self.free
        return 0 if counted < 0 else min(DELAY_MS << min(counted, 8), DELAY_MS_MAX)


@final
class LoginAttempts:
    """Who has failed lately. Invariant: at most REMEMBERED_MAX are remembered."""

    def __init__(self) -> None:
        self.delayed_count = 0
        self.refused_count = 0
        self._records: OrderedDict[Key, _Record] = OrderedDict()

    def begin(self, host: str, user: str, now_ms: int) -> int | None:
        """Return for how long an attempt has to wait before it is looked at; None: it is refused."""
        found = self._found(host, user, now_ms)
        wait_ms = max([each.next_ms - now_ms for each in found], default=0)
        if wait_ms > WAIT_MS_MAX:
            self.refused_count += 1
            return None
        for each in found:
            if each.delay_ms():
                each.next_ms = max(each.next_ms, now_ms) + each.delay_ms()
        if wait_ms > 0:
            self.delayed_count += 1
        return max(0, wait_ms)

    def wait_in_line(self, host: str, user: str, now_ms: int) -> bool:
        """Return whether attempts from there wait for each other by now. Until then they may begin side by side."""
        return any(each.delay_ms() > 0 for each in self._found(host, user, now_ms))

    def failed(self, host: str, user: str, now_ms: int) -> None:
        """Note that an attempt failed."""
        for key in _keys(host, user):
            record = self._records.get(key)
            if record is None or now_ms - record.last_ms >= REMEMBERED_MS:
                record = self._records[key] = _Record(FREE_OF_USER if key[1] else FREE_OF_HOST, now_ms)
            record.failures += 1
            record.last_ms = now_ms
            record.next_ms = max(record.next_ms, now_ms + record.delay_ms())
            self._records.move_to_end(key)
        while len(self._records) > REMEMBERED_MAX:
            self._records.popitem(last=False)

    def succeeded(self, host: str, user: str) -> None:
        """Note that a user is who it says: its own failures are forgotten, those of the address are not."""
        self._records.pop((host, user), None)

    def _found(self, host: str, user: str, now_ms: int) -> list[_Record]:
        found = [each for each in map(self._records.get, _keys(host, user)) if each is not None]
        return [each for each in found if now_ms - each.last_ms < REMEMBERED_MS]


def _keys(host: str, user: str) -> list[Key]:
    return [(host, user), (host, "")] if user else [(host, "")]
