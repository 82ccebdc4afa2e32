"""Failed logins: a client that guesses passwords has to wait, longer each time, and no other client does.

Two things are counted: failures of one user name from one network, and failures of one network whatever the name. From
the fourth of the first and the twentieth of the second on, further attempts wait their turn, one after the other. So a
user cannot be locked out from elsewhere, and many connections guess no faster than one. A user who logged in from a
network lately does not wait for the failures of other names there. Brokers of one machine count together (`share`).

Pure: time is an argument, and waiting is the caller's.
"""

from collections import Counter, OrderedDict
from collections.abc import Callable
from typing import Final, final

from sluicegate.messaging.limits.failures import SharedFailures
from sluicegate.protocols.security.login_queue import WAITING_OF_NETWORK_MAX, LoginClass, network_of

FREE_OF_USER: Final = 3  # failures of a name from a network that cost nothing: people mistype
FREE_OF_HOST: Final = 20  # of a network: behind one there may be a whole plant
DELAY_MS: Final = 250  # after the first that counts; doubled by each further one
DELAY_MS_MAX: Final = 5_000  # below the time that any protocol leaves a client to connect
WAIT_MS_MAX: Final = 5_000  # an attempt that would have to wait longer is refused at once
REMEMBERED_MS: Final = 600_000  # without a further failure
REMEMBERED_MAX: Final = 10_000  # names and networks; the one that was quiet longest is forgotten first

Key = tuple[str, str]  # network and user name, which is empty for the network itself


@final
class _Record:
    __slots__ = ("elsewhere", "failures", "free", "last_ms", "next_ms")

    def __init__(self, free: int, now_ms: int) -> None:
        self.free = free
        self.failures = 0
        self.elsewhere = 0  # failures at other brokers of this machine
        self.next_ms = now_ms  # when the next attempt may be looked at
        self.last_ms = now_ms

    def delay_ms(self) -> int:
        """Return how far apart attempts have to be."""
        counted = self.failures + self.elsewhere - self.free
        return 0 if counted < 0 else min(DELAY_MS << min(counted, 8), DELAY_MS_MAX)


@final
class LoginAttempts:
    """Who has failed lately, and who was right. Invariant: at most REMEMBERED_MAX of each are remembered."""

    def __init__(self) -> None:
        self.delayed_count = 0
        self.refused_count = 0
        self._records: OrderedDict[Key, _Record] = OrderedDict()
        self._known: OrderedDict[Key, None] = OrderedDict()  # who was right
        self._under_way: Counter[Key] = Counter()  # passwords that are not found right or wrong yet
        self._when_ended: dict[str, list[Callable[[], None]]] = {}  # by network
        self._shared: SharedFailures | None = None

    def share(self, failures: SharedFailures) -> None:
        """Count together with the other brokers of this machine. Nobody has tried yet."""
        self._shared = failures

    def begin(self, host: str, user: str, now_ms: int) -> int | None:
        """Return for how long an attempt has to wait before it is looked at; None: it is refused."""
        keys = self._counted_keys(host, user)
        found = [each for key in keys if (each := self._known_of(key, now_ms)) is not None]
        wait_ms = max([each.next_ms - now_ms for each in found], default=0)
        if wait_ms > WAIT_MS_MAX:
            self.refused_count += 1
            return None
        for each in found:
            if each.delay_ms():
                each.next_ms = max(each.next_ms, now_ms) + each.delay_ms()
        self._show(keys)
        if wait_ms > 0:
            self.delayed_count += 1
        return max(0, wait_ms)

    def must_queue(self, host: str, user: str, now_ms: int) -> bool:
        """Return whether attempts from there wait for each other by now. Until then they may begin side by side."""
        return any(each.delay_ms() > 0 for each in self._found(host, user, now_ms))

    def login_class(self, host: str, user: str, now_ms: int) -> LoginClass:
        """Return what is known of who comes."""
        if self._is_known(host, user) and not self.must_queue(host, user, now_ms):
            return LoginClass.KNOWN
        return LoginClass.FAILED if self._found(host, user, now_ms) else LoginClass.NEW

    def check_begins(self, host: str, user: str) -> None:
        """Note that a password is going to be checked."""
        keys = _keys(host, user)
        self._under_way.update(keys)
        self._show_under_way(keys)

    def check_ended(self, host: str, user: str) -> None:
        """Note that it was."""
        keys = _keys(host, user)
        for key in keys:
            self._under_way[key] -= 1
            if not self._under_way[key]:
                del self._under_way[key]
        self._show_under_way(keys)
        for tell in self._when_ended.pop(network_of(host), ()):
            tell()

    def when_ended(self, host: str, tell: Callable[[], None]) -> bool:
        """Have `tell` called once, when the next check of somebody from there has ended; False: too many wait for that.

        It is called before the outcome is noted, and so may do no more than have somebody look again later.
        """
        waiting = self._when_ended.setdefault(network_of(host), [])
        if len(waiting) >= WAITING_OF_NETWORK_MAX:
            return False
        waiting.append(tell)
        return True

    def is_crowded(self, host: str, user: str, now_ms: int) -> bool:
        """Return whether the free failures are used up if all that are under way fail."""
        for key in self._counted_keys(host, user):
            record = self._known_of(key, now_ms)
            count = self._under_way[key] + (0 if record is None else record.failures + record.elsewhere)
            if self._shared is not None:
                count += self._shared.under_way(*key)
            if count >= _free(key):
                return True
        return False

    def unchecked(self, host: str, now_ms: int) -> None:
        """Note that there was no time or room for an attempt: its network comes after new ones. It has not failed."""
        key = (network_of(host), "")
        if self._record(key, now_ms) is None:
            self._remember(key, now_ms)

    def failed(self, host: str, user: str, now_ms: int) -> None:
        """Note that an attempt failed."""
        keys = _keys(host, user)
        for key in keys:
            record = self._known_of(key, now_ms) or self._remember(key, now_ms)
            record.failures += 1
            record.last_ms = now_ms
            record.next_ms = max(record.next_ms, now_ms + record.delay_ms())
            self._records.move_to_end(key)
        self._show(keys)

    def succeeded(self, host: str, user: str, now_ms: int) -> None:
        """Note that a user is who it says: its own failures are forgotten, those of the network are not."""
        if not user:  # a token says whose it is
            return
        key = (network_of(host), user)
        had_failed = self._known_of(key, now_ms) is not None
        self._records.pop(key, None)
        self._known[key] = None
        self._known.move_to_end(key)
        if self._shared is not None and had_failed:
            self._shared.was_right(*key, now_ms)
        if len(self._known) > REMEMBERED_MAX:
            forgotten, _ = self._known.popitem(last=False)
            if self._shared is not None:
                self._shared.forget_right(*forgotten)

    def _is_known(self, host: str, user: str) -> bool:
        return (network_of(host), user) in self._known

    def _counted_keys(self, host: str, user: str) -> list[Key]:
        keys = _keys(host, user)
        return keys[:1] if self._is_known(host, user) else keys

    def _found(self, host: str, user: str, now_ms: int) -> list[_Record]:
        found = [self._known_of(key, now_ms) for key in self._counted_keys(host, user)]
        return [each for each in found if each is not None]

    def _remember(self, key: Key, now_ms: int) -> _Record:
        record = self._records[key] = _Record(_free(key), now_ms)
        self._records.move_to_end(key)
        if len(self._records) > REMEMBERED_MAX:
            forgotten, _ = self._records.popitem(last=False)
            if self._shared is not None:
                self._shared.forget(*forgotten)
        return record

    def _known_of(self, key: Key, now_ms: int) -> _Record | None:
        """Return what is known of a name or network, here and at the other brokers of this machine."""
        shared = self._shared
        if shared is None:
            return self._record(key, now_ms)
        right_ms = shared.right_ms(*key) if key[1] else 0
        elsewhere = shared.of_others(*key, max(right_ms, now_ms - REMEMBERED_MS))
        record = self._record(key, now_ms)
        if record is not None and record.last_ms <= right_ms:  # another broker has found it right since
            record = None
        if record is None:
            if not elsewhere.failures_count:
                return None
            record = self._remember(key, now_ms)
        record.elsewhere = elsewhere.failures_count
        record.next_ms = max(record.next_ms, elsewhere.next_ms)
        return record

    def _show(self, keys: list[Key]) -> None:
        """Show the other brokers of this machine what is known here."""
        if self._shared is None:
            return
        for key in keys:
            record = self._records.get(key)
            if record is not None:
                self._shared.show(*key, record.failures, record.last_ms, record.next_ms)

    def _show_under_way(self, keys: list[Key]) -> None:
        if self._shared is not None:
            for key in keys:
                self._shared.show_under_way(*key, self._under_way[key])

    def _record(self, key: Key, now_ms: int) -> _Record | None:
        record = self._records.get(key)
        return None if record is None or now_ms - record.last_ms >= REMEMBERED_MS else record


def _keys(host: str, user: str) -> list[Key]:
    network = network_of(host)
    return [(network, user), (network, "")] if user else [(network, "")]


def _free(key: Key) -> int:
    return FREE_OF_USER if key[1] else FREE_OF_HOST
