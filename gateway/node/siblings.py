"""The other brokers of this machine, as one broker sees them: their names, and the passages to them.

See `gateway.machine` for who starts them. Links to them need no address and no login: a broker makes a pair of Unix
sockets, and passes one of these.
"""

import os
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, final

from sluicegate.protocols.network.dialed import DialedConnection
from sluicegate.protocols.transport.interface import SIBLINGS, PeerRecord
from sluicegate.protocols.transport.listeners import adopt
from sluicegate.protocols.transport.passage import Passage, PassageFull
from sluicegate.protocols.transport.stream import Origin


@final
@dataclass(frozen=True)
class Holdings:
    """What a broker has in its spool, and so is the home of."""

    queues: dict[str, frozenset[str]]  # names of durable queues, by message VPN
    sessions: frozenset[str]  # client identifiers of MQTT sessions

    def has_queue(self, vpn: str, name: str) -> bool:
        """Return whether it has a queue."""
        return name in self.queues.get(vpn, ())


LINK: Final = b"L"  # the first byte of a message through a passage: the socket is that of a link


class SiblingAway(OSError):
    """The other broker has not been started yet, or has died."""


@final
class Siblings:
    """The brokers of this machine. Numbers begin with 1."""

    def __init__(self, number: int, names: tuple[str, ...]) -> None:
        self.number: Final = number  # of this broker
        self.names: Final = names  # of all, in the order of their numbers
        self._adopt_link: Callable[[int, PeerRecord], None] | None = None  # None: the node does not take links yet
        self._early: list[tuple[int, PeerRecord]] = []  # sockets of links that came before
        self._holdings: dict[int, Holdings] = {}
        self._passages: dict[int, Passage] = {}  # to those that run

    @property
    def name(self) -> str:
        """The name of this broker."""
        return self.names[self.number - 1]

    @property
    def others(self) -> tuple[str, ...]:
        """The names of the other brokers."""
        return tuple(name for name in self.names if name != self.name)

    def begin(self, holdings: Mapping[int, Holdings]) -> None:
        """Take note of what all brokers of the machine have, this one included."""
        self._holdings = dict(holdings)

    def is_home_of_queue(self, vpn: str, name: str) -> bool:
        """Return whether a queue of the configuration belongs to this broker: to the one that has it, or should."""
        for number, holdings in sorted(self._holdings.items()):
            if holdings.has_queue(vpn, name):
                return number == self.number
        return self.number == 1

    def dials(self, name: str) -> bool:
        """Return whether this broker, of two, is the one that makes their link."""
        return self.names.index(name) + 1 > self.number

    def met(self, number: int, end: socket.socket) -> None:
        """Begin with a passage to another broker, which has just been started; an earlier one is closed."""
        before = self._passages.pop(number, None)
        if before is not None:
            before.close()
        self._passages[number] = Passage(end, take=lambda message, fd: self._take(number, message, fd))

    def connect(self, name: str) -> socket.socket:
        """Return a connected socket to another broker, for a link. Raises OSError."""
        passage = self._passages.get(self.names.index(name) + 1)
        if passage is None or not passage.is_open:
            raise SiblingAway(f"broker {name} is not running")
        here, there = socket.socketpair()
        passage.send(LINK, there.detach())
        return here

    def take_links(self, adopt: Callable[[int, PeerRecord], None]) -> None:
        """Have `adopt` make links of the sockets that others pass for them, from now on; some may have come already."""
        self._adopt_link = adopt
        early, self._early = self._early, []
        for fd, peer in early:
            adopt(fd, peer)

    def close(self) -> None:
        """Close all passages: the broker stops."""
        for fd, _ in self._early:
            os.close(fd)
        self._early.clear()
        for passage in self._passages.values():
            passage.close()

    def _take(self, number: int, message: bytes, fd: int) -> None:
        assert message[:1] == LINK, message[:1]
        peer = PeerRecord(SIBLINGS, self.names[number - 1], 0)
        if self._adopt_link is None:
            self._early.append((fd, peer))
        else:
            self._adopt_link(fd, peer)


def connect_to_sibling(connection: DialedConnection, siblings: Siblings, name: str) -> None:
    """Connect to another broker of this machine. A failure is reported to the connection."""
    try:
        fd = siblings.connect(name).detach()
    except (OSError, PassageFull) as error:
        connection.not_connected(str(error))
        return
    adopt(fd, PeerRecord(SIBLINGS, name, 0), lambda: connection, b"", Origin(SIBLINGS, lambda: None))
