"""Clients of direct messages: each topic goes to every client, to one client, or to one member of a group.

All of them subscribe alike at all brokers. Nothing is stored for them, so the judge is a count.
"""

from collections.abc import Callable
from random import Random
from typing import Final

import support.mqtt.packets as mqtt
from simulation.client import KEEP_ALIVE_S, OFFLINE, ONLINE
from simulation.connected_client import Wired
from simulation.memory_network import Wire
from simulation.targets import Violation

EVERY, ONE, GROUP = "every", "one", "group"  # who gets what is published there
KINDS: Final = (EVERY, ONE, GROUP)
FILTERS: Final = (f"{EVERY}/#", f"{ONE}/#", f"$share/squad/{GROUP}/#")


class DirectBook:
    """What was sent, and who got it."""

    def __init__(self) -> None:
        self._sent: list[tuple[str, str]] = []  # broker of the publisher, kind
        self._got: dict[int, list[DirectClient]] = {}

    def sends(self, broker: str, kind: str) -> int:
        """A client is about to publish a message; return its number."""
        self._sent.append((broker, kind))
        return len(self._sent) - 1

    def got(self, number: int, client: "DirectClient") -> None:
        """A client got a message. Raises Violation when somebody has it who excludes that."""
        broker, kind = self._sent[number]
        before = self._got.setdefault(number, [])
        if client in before or (before and kind != EVERY):
            raise Violation(
                f"direct message {number}, for {kind}, of a client at {broker} came to {client}, and came to {before}"
            )
        before.append(client)

    def check_came(self, number: int, clients: list["DirectClient"]) -> None:
        """These clients were there, and the network was whole. Raises Violation unless they got it as they should."""
        broker, kind = self._sent[number]
        got = self._got.get(number, [])
        if kind == EVERY:
            if set(got) != set(clients):
                raise Violation(f"direct message {number} of a client at {broker} came to {got}, and not to {clients}")
            return
        near = [each for each in clients if each.broker == broker]
        if len(got) != bool(clients) or (near and got[0] not in near):
            raise Violation(f"direct message {number}, for {kind}, of a client at {broker} came to {got} of {clients}")


class DirectClient(Wired):
    """A client that subscribes to all of them, and publishes."""

    def __init__(
        self, name: str, broker: str, book: DirectBook, *, dial: Callable[["DirectClient", "DirectTap"], Wire]
    ) -> None:
        super().__init__()
        self.name = name
        self.broker = broker
        self.state = OFFLINE
        self.rng = Random(0)
        self._book = book
        self._dial = dial
        self._unread = b""

    def __repr__(self) -> str:
        return f"{self.broker}/{self.name}"

    def connect(self) -> None:
        """Connect and subscribe."""
        self._unread = b""
        self._wire = self._dial(self, DirectTap())
        self._wire.send(mqtt.connect(f"{self.name}-{self.broker}", level=5, keep_alive_s=KEEP_ALIVE_S))
        self._wire.send(mqtt.subscribe(*[(each, 0) for each in FILTERS], level=5))

    def publish(self, kind: str) -> int:
        """Publish a message; return its number."""
        number = self._book.sends(self.broker, kind)
        asks = mqtt.user_property("deliver-to-one", "true") if kind == ONE else b""
        if self._wire is not None:
            self._wire.send(mqtt.publish(f"{kind}/x", b"%d" % number, level=5, properties=asks))
        return number

    def close(self) -> None:
        """Leave in good order."""
        if self._wire is not None:
            self._wire.send(mqtt.disconnect())
            self._wire.finish()
            self._gone()

    def tick(self) -> None:
        """Show that it is alive."""
        if self._wire is not None:
            self._wire.send(mqtt.pingreq())

    def received(self, data: bytes) -> None:
        """Handle packets of the node."""
        packets, self._unread = mqtt.take_packets(self._unread + data)
        for packet in packets:
            if packet.kind == mqtt.PUBLISH:
                self._book.got(int(mqtt.published(packet, 5).payload), self)
            elif packet.kind == mqtt.SUBACK:
                self.state = ONLINE

    def disconnected(self) -> None:
        """The node, or the network, has ended the connection."""
        self._gone()

    def _gone(self) -> None:
        self._wire = None
        self.state = OFFLINE


class DirectTap:
    """Judges nothing."""

    def written(self, data: bytes) -> None:
        """The node writes."""

    def read(self, data: bytes) -> None:
        """The node reads."""

    def ended(self) -> None:
        """The node closes the connection, or has lost it."""
