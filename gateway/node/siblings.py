"""The other brokers of this machine, as one broker sees them: their names, and the passages to them.

See `gateway.machine` for who starts them. Links to them need no address and no login: a broker makes a pair of Unix
sockets, and passes one of these.
"""

import os
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final, final

from sluicegate.messaging.clients.homes import Homes, home_of
from sluicegate.protocols.network.dialing.dialed import DialedConnection
from sluicegate.protocols.transport.interface import SIBLINGS, PeerRecord
from sluicegate.protocols.transport.passing.passage import Passage, PassageFull
from sluicegate.protocols.transport.passing.passed_peer import LINK, decode_peer
from sluicegate.protocols.transport.stream.stream import Origin, adopt


@final
@dataclass(frozen=True)
class Holdings:
    """What a broker has in its spool, and so is the home of."""

    queues: dict[str, frozenset[str]]  # names of durable queues, by message VPN
    sessions: frozenset[str]  # client identifiers of MQTT sessions that belong to other brokers by their names
    publishers: frozenset[str] = frozenset()  # identifiers of named publishers that belong to other brokers
    containers: frozenset[str] = frozenset()  # AMQP containers with durable subscriptions, likewise
    # Copies of named publishers that moves have brought, which were not opened here yet, and belong to other brokers.
    publisher_copies: frozenset[str] = frozenset()
    copied_publishers: frozenset[str] = frozenset()  # here is the home, wherever they belong; another may have a copy

    def without(self, released: "Released") -> "Holdings":
        """Return what is left."""
        return replace(
            self,
            sessions=self.sessions - released.sessions,
            publishers=self.publishers - released.publishers,
            containers=self.containers - released.containers,
            publisher_copies=self.publisher_copies - released.publishers,
            copied_publishers=self.copied_publishers - released.publishers,
        )


@final
@dataclass(frozen=True)
class Released:
    """What a broker has no more: it has ended, or is at another broker."""

    sessions: frozenset[str] = frozenset()  # as `Holdings` has them
    publishers: frozenset[str] = frozenset()
    containers: frozenset[str] = frozenset()

    @property
    def is_empty(self) -> bool:
        """Whether it is nothing."""
        return not (self.sessions or self.publishers or self.containers)


Adopt = Callable[[int, PeerRecord, bytes], None]


class SiblingAway(OSError):
    """The other broker has not been started yet, or has died."""


@final
class Siblings:
    """The brokers of this machine. Numbers begin with 1.

    The last of them may be retired: the machine is to have fewer, and they run until others have what they had.
    """

    def __init__(self, number: int, names: tuple[str, ...], count: int) -> None:
        """`count` brokers are not retired."""
        self.number: Final = number  # of this broker
        self.names: Final = names  # of all, in the order of their numbers
        self.count: Final = count
        self.homes: Final = Homes(number, count)  # of client identifiers
        self.container_homes: Final = Homes(number, count)  # of AMQP containers
        self.publisher_homes: Final = Homes(number, count)  # of named publishers of the flow protocol
        self.stale_copies: frozenset[str] = frozenset()  # named publishers that this broker has, and is not the home of
        self._copied_publishers: dict[int, frozenset[str]] = {}  # as `Holdings` has them, by broker
        self._gone: set[int] = set()  # retired ones that have ended for good
        self._adopts: dict[bytes, Adopt] = {}  # by kind; of others, sockets wait until the node takes them
        self._early: list[tuple[bytes, int, PeerRecord, bytes]] = []
        self._queues: dict[int, dict[str, frozenset[str]]] = {}  # durable ones that brokers have
        self._passages: dict[int, Passage] = {}  # to those that run

    @property
    def name(self) -> str:
        """The name of this broker."""
        return self.names[self.number - 1]

    @property
    def others(self) -> tuple[str, ...]:
        """The names of the other brokers."""
        return tuple(
            name for number, name in enumerate(self.names, 1) if number != self.number and number not in self._gone
        )

    @property
    def is_retired(self) -> bool:
        """Whether this broker is to hand all that it has to the others."""
        return self.number > self.count

    def begin(self, holdings: Mapping[int, Holdings]) -> None:
        """Take note of what all brokers of the machine have, this one included."""
        for number, held in holdings.items():
            self._copied_publishers[number] = held.copied_publishers
        for number, held in holdings.items():
            self.learn(number, held)

    def learn(self, number: int, holdings: Holdings) -> None:
        """Take note of what a broker has that was started, in place of what it had before."""
        self._queues[number] = holdings.queues
        self._copied_publishers[number] = holdings.copied_publishers
        stale = holdings.publisher_copies.intersection(
            frozenset().union(*[held for other, held in self._copied_publishers.items() if other != number])
        )
        if number == self.number:
            self.stale_copies = stale
        for homes, held in (
            (self.homes, holdings.sessions),
            (self.publisher_homes, holdings.publishers | (holdings.publisher_copies - stale)),
            (self.container_homes, holdings.containers),
        ):
            homes.forget(number)
            for identifier in held:
                homes.hold(identifier, number)

    def released(self, number: int, released: Released) -> None:
        """A broker has no more of what belongs to others by its names."""
        for client_id in released.sessions:
            self.homes.release(client_id, number)
        for publisher in released.publishers:
            self.publisher_homes.release(publisher, number)
        if released.publishers and number in self._copied_publishers:
            self._copied_publishers[number] -= released.publishers
        for container in released.containers:
            self.container_homes.release(container, number)

    def gone(self, number: int) -> None:
        """A retired broker has ended for good."""
        self._gone.add(number)
        self._queues.pop(number, None)
        self._copied_publishers.pop(number, None)
        self.homes.forget(number)
        self.container_homes.forget(number)
        self.publisher_homes.forget(number)
        passage = self._passages.pop(number, None)
        if passage is not None:
            passage.close()

    def is_home_of_queue(self, vpn: str, name: str) -> bool:
        """Return whether a queue of the configuration belongs to this broker: to the one that had it at the start.

        One that no broker had belongs to the broker that its name chooses.
        """
        for number, queues in sorted(self._queues.items()):
            if name in queues.get(vpn, ()):
                return number == self.number
        return home_of(name, self.count) == self.number

    def dials(self, name: str) -> bool:
        """Return whether this broker, of two, is the one that makes their link."""
        return self.names.index(name) + 1 > self.number

    def met(self, number: int, end: socket.socket) -> None:
        """Begin with a passage to another broker, which has just been started; an earlier one is closed."""
        before = self._passages.pop(number, None)
        if before is not None:
            before.close()
        self._passages[number] = Passage(end, take=lambda message, fd: self._take(number, message, fd))

    def passage_to(self, broker: int) -> Passage | None:
        """Return the passage to a broker, None while it does not run."""
        return self._passages.get(broker)

    def connect(self, name: str) -> socket.socket:
        """Return a connected socket to another broker, for a link. Raises OSError and PassageFull."""
        passage = self._passages.get(self.names.index(name) + 1)
        if passage is None or not passage.is_open:
            raise SiblingAway(f"broker {name} is not running")
        here, there = socket.socketpair()
        here.setblocking(False)
        there.setblocking(False)  # in the other process as well
        try:
            passage.send(LINK, there.fileno())
        except PassageFull:
            here.close()
            there.close()
            raise
        there.detach()  # the passage closes it
        return here

    def take_links(self, adopt: Adopt) -> None:
        """Have `adopt` make links of the sockets that others pass for them, from now on; some may have come already."""
        self._take_from_now_on(LINK, adopt)

    def take_clients(self, kind: bytes, adopt: Adopt) -> None:
        """Have `adopt` serve the clients of a kind that others pass, from now on; some may have come already."""
        self._take_from_now_on(kind, adopt)

    def close(self) -> None:
        """Close all passages: the broker stops."""
        for _, fd, _, _ in self._early:
            os.close(fd)
        self._early.clear()
        for passage in self._passages.values():
            passage.close()

    def _take(self, number: int, message: bytes, fd: int) -> None:
        kind = message[:1]
        if kind == LINK:
            peer, data = PeerRecord(SIBLINGS, self.names[number - 1], 0), b""
        else:
            peer, data = decode_peer(message, len(kind))
        adopt = self._adopts.get(kind)
        if adopt is None:
            self._early.append((kind, fd, peer, data))
        else:
            adopt(fd, peer, data)

    def _take_from_now_on(self, kind: bytes, adopt: Adopt) -> None:
        self._adopts[kind] = adopt
        early, self._early = self._early, []
        for each in early:
            if each[0] == kind:
                adopt(*each[1:])
            else:
                self._early.append(each)


def connect_to_sibling(connection: DialedConnection, siblings: Siblings, name: str) -> None:
    """Connect to another broker of this machine. A failure is reported to the connection."""
    try:
        fd = siblings.connect(name).detach()
    except (OSError, PassageFull) as error:
        connection.not_connected(str(error))
        return
    adopt(fd, PeerRecord(SIBLINGS, name, 0), lambda: connection, b"", Origin(SIBLINGS, lambda: None))
