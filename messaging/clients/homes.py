"""The homes of names: which of several brokers on one machine has what clients have by a name.

Such a name is the identifier of an MQTT client, the container id of an AMQP client, or the name of a publisher of the
flow protocol (`publisher_key`). Below, all of them are identifiers.

Each identifier has one home, so that its session, and each later connection of its client, are at one broker. The home
is chosen by rendezvous hashing: each broker has a weight for the identifier, and the greatest wins. With one more
broker only the identifiers move that it wins, and with one less only its own.

A session does not move when there are more brokers: the broker that has it tells the others, and stays the identifier's
home. With less brokers, those that are left over are retired. They are the home of nothing but the sessions that they
have, until these are elsewhere.
"""

from collections.abc import Callable
from typing import Final, final

import xxhash
from mypy_extensions import i64

ASSIGNED_PREFIX: Final = "auto-"  # of identifiers that clients get which bring none
ASSIGNED_BITS: Final = 64  # of what is behind it
_MASK: Final = 0x7FFF_FFFF


def home_of(client_id: str, brokers: int) -> int:
    """Return the broker, 1 to `brokers`, that has the greatest weight for an identifier.

    All brokers of a machine agree on it, whatever release they are of: the weight never changes.
    """
    hashed = _hash(client_id)
    home: i64 = 1
    greatest = _weight(hashed, 1)
    broker: i64 = 2
    while broker <= brokers:
        weight = _weight(hashed, broker)
        if weight > greatest:
            home, greatest = broker, weight
        broker += 1
    return home


def publisher_key(vpn: str, name: str) -> str:
    """Return the identifier of a named publisher of a message VPN."""
    return f"{vpn}\0{name}"


def publisher_of_key(key: str) -> tuple[str, str]:
    """Return the message VPN and the name of a publisher, by its identifier."""
    vpn, _, name = key.partition("\0")
    return vpn, name


def assigned_id(draw: Callable[[int], int]) -> str:
    """Return an identifier for a client that brings none; `draw` returns random bits."""
    return f"{ASSIGNED_PREFIX}{draw(ASSIGNED_BITS):016x}"


def _is_home(client_id: str, broker: int, brokers: int) -> bool:
    """Return whether a broker is the home: mostly a few weights show that it is not."""
    if broker > brokers:
        return False
    hashed = _hash(client_id)
    weight = _weight(hashed, broker)
    for other in range(1, broker):
        if _weight(hashed, other) >= weight:
            return False
    return all(_weight(hashed, other) <= weight for other in range(broker + 1, brokers + 1))


def _hash(client_id: str) -> i64:
    """Return 31 bits that stand for an identifier. Those of equal ones have one home, which harms nothing."""
    found: int = xxhash.xxh3_64_intdigest(client_id.encode("utf-8", "surrogatepass"))
    return found >> 33


def _weight(hashed: i64, broker: i64) -> i64:
    """Return 31 bits for an identifier and a broker, which look as if they were drawn for these.

    The bits of both are mixed by multiplying and folding, twice, which takes a few instructions: with 64 brokers, each
    client that connects has 64 weights. No product has more than 63 bits, so that it is the same uncompiled.
    """
    mixed = (hashed ^ (broker * 0x1E3779B1)) & _MASK
    mixed = (mixed * 0x2C1B3C6D) & _MASK
    mixed ^= mixed >> 15
    mixed = (mixed * 0x297A2D39) & _MASK
    return mixed ^ (mixed >> 15)


@final
class Homes:
    """The homes of all identifiers, as one broker knows them."""

    def __init__(self, here: int, brokers: int) -> None:
        """`here` is the number of this broker, from 1 on; above `brokers` it is retired. Raises ValueError below 1."""
        if here < 1 or brokers < 1:
            raise ValueError(f"broker {here} of {brokers}; numbers begin with 1")
        self.here: Final = here
        self.brokers: Final = brokers
        self._held: dict[int, set[str]] = {}  # identifiers whose sessions are not where they belong, by broker

    def __repr__(self) -> str:
        return f"Homes({self.here} of {self.brokers}, {self.exceptions_count} exceptions)"

    @property
    def is_retired(self) -> bool:
        """Whether this broker is the home of nothing but the sessions that it has."""
        return self.here > self.brokers

    @property
    def exceptions_count(self) -> int:
        """How many sessions are known that are not where they belong."""
        return sum([len(held) for held in self._held.values()])

    def home_of(self, client_id: str) -> int:
        """Return the home of an identifier: the broker that has its session, else the one where it belongs."""
        if self._held:
            holders = [broker for broker, held in self._held.items() if client_id in held]
            if holders:  # several may have sessions of it in different message VPNs
                return min(holders)
        return home_of(client_id, self.brokers)

    def belongs_here(self, client_id: str) -> bool:
        """Return whether this broker is where the session of an identifier belongs, wherever it is."""
        return _is_home(client_id, self.here, self.brokers)

    def hold(self, client_id: str, broker: int) -> None:
        """A broker has a session of the identifier. Nothing is kept of one that is where it belongs."""
        if home_of(client_id, self.brokers) != broker:
            self._held.setdefault(broker, set()).add(client_id)

    def held_by(self, broker: int) -> frozenset[str]:
        """Return the identifiers of a broker that belong to others by themselves."""
        return frozenset(self._held.get(broker, ()))

    def release(self, client_id: str, broker: int) -> None:
        """The session has ended. Harmless when it was not known."""
        held = self._held.get(broker)
        if held is not None:
            held.discard(client_id)
            if not held:
                del self._held[broker]

    def forget(self, broker: int) -> None:
        """A broker is away; when it is back it tells its sessions again."""
        self._held.pop(broker, None)

    def assign(self, draw: Callable[[int], int]) -> str:
        """Return an identifier that is at home here, for a client that brings none; `draw` returns random bits."""
        assert not self.is_retired, "no client without an identifier comes to a retired broker"
        while True:
            client_id = assigned_id(draw)
            if self.belongs_here(client_id):
                return client_id
