"""The queue of passwords to be checked, for when there are more than can be checked at a time.

A login is in one of three classes: known, for an account that logged in from the same network lately; new, for a
network without failures; and failed. Known ones go first, then new ones; but every fourth turn begins at the other end,
so that no class is kept out for good. Within a class networks take turns, so many attempts of one of them delay those
of another one by one check each. The latest new network is first: in any other order those that fill the queue, and
will have given up when their turn comes, delay every network behind them.

A network is an IPv4 address, or the first 64 bits of an IPv6 address: one subscriber has that much for itself, and
neighbours of other owners do not share an IPv4 address.

Pure: time is an argument, and the checks are the caller's.
"""

import ipaddress
from collections import OrderedDict, deque
from enum import IntEnum
from typing import Final, Generic, TypeVar, final

WAITING_MAX: Final = 4096  # of each class; one that waits takes some kilobytes
WAITING_OF_NETWORK_MAX: Final = 512  # of each class: behind one address there may be a whole plant
WAIT_MS_MAX: Final = 10_000  # as long as protocols leave a client to connect: a later answer is of no use
LAST_FIRST_EVERY: Final = 4  # turns

T = TypeVar("T")


class LoginClass(IntEnum):
    """What is known of who comes, best first."""

    KNOWN = 0
    NEW = 1
    FAILED = 2


def network_of(host: str) -> str:
    """Return the network of an address; a name that is no address is its own."""
    if ":" not in host:
        return host
    try:
        address = ipaddress.IPv6Address(host.partition("%")[0])
    except ValueError:
        return host
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return f"{ipaddress.IPv6Address(int(address) >> 64 << 64)}/64"


@final
class LoginQueue(Generic[T]):
    """Those who wait, by class and network.

    Invariants: at most WAITING_MAX wait in a class, WAITING_OF_NETWORK_MAX of one network; no lane is empty.
    """

    def __init__(self) -> None:
        self._classes = tuple(_ClassQueue[T](newest_first=login_class is LoginClass.NEW) for login_class in LoginClass)
        self._joined: dict[T, tuple[LoginClass, str, int]] = {}  # with class, network and time, in the order of that
        self._turns_count = 0

    def __len__(self) -> int:
        return len(self._joined)

    def join(self, login_class: LoginClass, network: str, item: T, now_ms: int) -> bool:
        """Add an item; return False when there is no room."""
        if not self._classes[login_class].join(network, item):
            return False
        self._joined[item] = (login_class, network, now_ms)
        return True

    def leave(self, item: T) -> None:
        """Remove an item, if it still waits."""
        joined = self._joined.pop(item, None)
        if joined is not None:
            login_class, network, _ = joined
            self._classes[login_class].leave(network, item)

    def late(self, now_ms: int) -> list[T]:
        """Remove and return the items that have waited too long."""
        found: list[T] = []
        for item, (_, _, since_ms) in self._joined.items():
            if now_ms - since_ms <= WAIT_MS_MAX:
                break
            found.append(item)
        for item in found:
            self.leave(item)
        return found

    def next(self) -> T | None:
        """Remove and return the next item; None: there is none."""
        waiting = [each for each in self._classes if each.count]
        if not waiting:
            return None
        self._turns_count += 1
        item = (waiting[-1] if self._turns_count % LAST_FIRST_EVERY == 0 else waiting[0]).next()
        del self._joined[item]
        return item


@final
class _ClassQueue(Generic[T]):
    """A lane for each network, in the order of their turns."""

    def __init__(self, *, newest_first: bool) -> None:
        self.count = 0
        self._newest_first = newest_first
        self._lanes: OrderedDict[str, deque[T]] = OrderedDict()

    def join(self, network: str, item: T) -> bool:
        lane = self._lanes.get(network)
        if self.count >= WAITING_MAX or (lane is not None and len(lane) >= WAITING_OF_NETWORK_MAX):
            return False
        if lane is None:
            lane = self._lanes[network] = deque()
            if self._newest_first:
                self._lanes.move_to_end(network, last=False)
        lane.append(item)
        self.count += 1
        return True

    def leave(self, network: str, item: T) -> None:
        lane = self._lanes[network]
        lane.remove(item)
        self.count -= 1
        if not lane:
            del self._lanes[network]

    def next(self) -> T:
        network, lane = next(iter(self._lanes.items()))
        item = lane.popleft()
        self.count -= 1
        if lane:
            self._lanes.move_to_end(network)
        else:
            del self._lanes[network]
        return item
