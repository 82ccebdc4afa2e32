"""The counts that brokers of a machine show each other, in memory that they share.

Each broker has a table there that it alone writes, and all read: an open hash table of rows with a key and a value. So
a broker that dies leaves no count half changed, and nobody waits for another to learn what it uses. A row stays where
it is, so that rows behind it are found; one whose value is 0 is taken over by another key.

Who takes of a limit holds the lock from its look at the others until its own count is written. Who gives back does not.
Nor does who claims little of much, as mostly: the lock is two calls of the kernel, and a storm of connections would
wait for it. It shows what it wants first, and then looks whether there is still more room than others may be about to
take.

Invariant: what is claimed of a limit, with what the others show at that moment, is at most the limit.
"""

from contextlib import AbstractContextManager
from functools import lru_cache
from hashlib import blake2b
from typing import Final, final

from mypy_extensions import i64

KEYS_REMEMBERED_MAX: Final = 4096  # each takes 2 microseconds to compute, and a client that connects needs several
ROW_WORDS: Final = 2  # key, value; a key of 0: never used
WORD_BYTES: Final = 8
PROBES_MAX: Final = 64  # rows that are looked at for a key
ROOM_PART: Final = 8  # of a limit, its eighth part is room that others may be about to take,
ROOM_MIN: Final = 64  # and so much for each broker
OUTLIVES: Final = 1  # the bit of keys whose counts stay when the broker's process ends: its spool still has them

Words = memoryview  # of signed integers of 64 bits
Lock = AbstractContextManager[object]


@lru_cache(maxsize=KEYS_REMEMBERED_MAX)
def key_of(*names: str, outlives: bool = False) -> int:
    """Return the key of a count: above 0, the same in all brokers.

    `outlives`: the broker still uses so much while it does not run.
    """
    digest = blake2b("\0".join(names).encode("utf-8", "surrogatepass"), digest_size=WORD_BYTES).digest()
    key = int.from_bytes(digest, "big") >> 1  # not negative as a signed integer
    return (key | OUTLIVES if outlives else key & ~OUTLIVES) | 2


@final
class Want:
    """What a broker wants to have of a limit in total. Some are made for each client: a named tuple takes five times as
    long to make."""

    __slots__ = ("key", "limit", "value")

    def __init__(self, key: int, value: int, limit: int) -> None:
        self.key: Final = key
        self.value: Final = value
        self.limit: Final = limit


@final
class SharedCounts:
    """The counts of all brokers of a machine, as one of them sees them.

    Until `publish`, the others do not see what this one has: it reads its spool, and an earlier process of it has left
    what it used.
    """

    def __init__(self, words: Words, *, place: int, brokers_count: int, lock: Lock) -> None:
        """`words` has tables of one size, for each broker one; `place` of this one begins with 0."""
        self.brokers_count: Final = brokers_count
        self.unshared_count = 0  # counts that the others do not see, because the table is full
        self._words = words
        self._lock = lock
        self._place = place
        self._rows: i64 = rows_of(words, brokers_count)
        self._begin: i64 = place * self._rows * ROW_WORDS
        self._others = [each * self._rows * ROW_WORDS for each in range(brokers_count) if each != place]
        self._unpublished: dict[int, int] | None = {}

    def publish(self) -> None:
        """Show the others what this broker has, in place of what an earlier process of it has left."""
        unpublished = self._unpublished
        assert unpublished is not None, "once"
        self._unpublished = None
        clear_table(self._words, self._place, self.brokers_count)
        for key, value in unpublished.items():
            self.set(key, value)

    def own(self, key: int) -> int:
        """Return what this broker shows."""
        if self._unpublished is not None:
            return self._unpublished.get(key, 0)
        return _value(self._words, self._begin, self._rows, key)

    def others(self, key: int) -> int:
        """Return what all other brokers show together."""
        total = 0
        for begin in self._others:
            total += _value(self._words, begin, self._rows, key)
        return total

    def each_other(self, key: int) -> list[int]:
        """Return what each of the other brokers shows."""
        return [_value(self._words, begin, self._rows, key) for begin in self._others]

    def set(self, key: int, value: int) -> None:
        """Show what this broker has, whatever the limit is."""
        if self._unpublished is not None:
            self._unpublished[key] = value
        elif not _set_value(self._words, self._begin, self._rows, key, value):
            self.unshared_count += 1

    def claim(self, wants: list[Want]) -> int:
        """Show all that is wanted, unless one thing is more than the others leave; return the place of that, or -1."""
        before: list[int] | None = None
        if self._have_much_room(wants):
            before = [self.own(want.key) for want in wants]
            self._show(wants)
            if self._have_much_room(wants):  # the others see it: who claims from now on leaves room for it
                return -1
        with self._lock:
            for place, want in enumerate(wants):
                if want.value + self.others(want.key) > want.limit:
                    if before is not None:
                        for each, value in zip(wants, before, strict=True):
                            self.set(each.key, value)
                    return place
            self._show(wants)
        return -1

    def _show(self, wants: list[Want]) -> None:
        for want in wants:
            self.set(want.key, want.value)

    def _have_much_room(self, wants: list[Want]) -> bool:
        """Return whether there is room for all that is wanted, and for what others may be about to show."""
        for want in wants:
            room = want.limit - want.value - self.others(want.key)
            if room < want.limit // ROOM_PART + ROOM_MIN * self.brokers_count:
                return False
        return True

    def take(self, key: int, needed: int, spare: int, limit: int) -> int:
        """Show `needed`, and of `spare` what the others leave; return what is shown now, 0 for less than `needed`."""
        with self._lock:
            room = limit - self.others(key)
            if needed > room:
                return 0
            taken = min(needed + spare, room)
            self.set(key, taken)
            return taken


def rows_of(words: Words, brokers_count: int) -> int:
    """Return how many rows the table of each broker has."""
    return len(words) // (brokers_count * ROW_WORDS)


def clear_table(words: Words, place: int, brokers_count: int, *, keeps_spool: bool = False) -> None:
    """Forget what a broker shows that does not run; with `keeps_spool`, not what its spool still has."""
    begin = place * rows_of(words, brokers_count) * ROW_WORDS
    end = begin + rows_of(words, brokers_count) * ROW_WORDS
    if keeps_spool:
        for number, key in enumerate(words[begin:end].tolist()[::ROW_WORDS]):
            if key and not key & OUTLIVES:
                words[begin + number * ROW_WORDS + 1] = 0
    else:
        words.cast("B")[begin * WORD_BYTES : end * WORD_BYTES] = bytes((end - begin) * WORD_BYTES)


def _value(words: Words, begin: i64, rows: i64, key: i64) -> i64:
    row: i64 = key % rows
    for _ in range(PROBES_MAX):
        at: i64 = begin + row * ROW_WORDS
        found: i64 = words[at]
        if found == key:
            value: i64 = words[at + 1]
            return value
        if found == 0:
            return 0
        row = (row + 1) % rows
    return 0


def _set_value(words: Words, begin: i64, rows: i64, key: i64, value: i64) -> bool:
    """Set the value of a key; return False if there is no row for it."""
    row: i64 = key % rows
    free: i64 = -1  # a row that can be taken, if the key has none
    for _ in range(PROBES_MAX):
        at: i64 = begin + row * ROW_WORDS
        found: i64 = words[at]
        if found == key:
            words[at + 1] = value
            return True
        if free < 0 and (found == 0 or words[at + 1] == 0):
            free = at
        if found == 0:
            break
        row = (row + 1) % rows
    if value == 0:
        return True  # nobody sees one without a row
    if free < 0:
        return False
    words[free] = key
    words[free + 1] = value
    return True
