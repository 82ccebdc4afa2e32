"""Clients of direct messages: each topic goes to every client, to one client, or to one member of a group.

All of them subscribe alike at all brokers. Nothing is stored for them, so the judge is a count. They also answer others
(`replies.py`).
"""

from collections.abc import Callable
from typing import Final

import support.mqtt.packets as mqtt
from simulation.judge.targets import Violation
from simulation.network.clients.lone_clients import LoneClient, SilentTap
from simulation.network.clients.replies import ReplyBook
from simulation.wires.memory_network import Wire
from sluicegate.messaging.topics.syntax import queue_topic
from support.mqtt.packets import Packet

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


class DirectClient(LoneClient):
    """A client that subscribes to all of them, and publishes."""

    def __init__(
        self,
        name: str,
        broker: str,
        book: DirectBook,
        replies: ReplyBook,
        *,
        dial: Callable[[LoneClient, SilentTap], Wire],
    ) -> None:
        super().__init__(name, broker, f"{name}-{broker}", dial=dial)
        self._book = book
        self._replies = replies
        self._packet_id = 0
        self._unanswered: dict[int, int] = {}  # packet id -> number of the reply

    def __repr__(self) -> str:
        return f"{self.broker}/{self.name}"

    def publish(self, kind: str) -> int:
        """Publish a message; return its number."""
        number = self._book.sends(self.broker, kind)
        asks = mqtt.user_property("deliver-to-one", "true") if kind == ONE else b""
        if self._wire is not None:
            self._wire.send(mqtt.publish(f"{kind}/x", b"%d" % number, level=5, properties=asks))
        return number

    def reply(self, queue: str) -> None:
        """Publish to a temporary queue, which may be gone."""
        if self._wire is None:
            return
        number = self._replies.sends(self.broker, queue)
        self._packet_id = self._packet_id % 1000 + 1
        self._unanswered[self._packet_id] = number
        topic, payload = queue_topic(queue), b"%d|" % number
        self._wire.send(mqtt.publish(topic, payload, level=5, qos=1, packet_id=self._packet_id))

    def _subscribe(self) -> None:
        assert self._wire is not None
        self._wire.send(mqtt.subscribe(*[(each, 0) for each in FILTERS], level=5))

    def _take(self, packet: Packet) -> None:
        if packet.kind == mqtt.PUBLISH:
            self._book.got(int(mqtt.published(packet, 5).payload), self)
        elif packet.kind == mqtt.PUBACK:
            number = self._unanswered.pop(mqtt.packet_id_of(packet))
            if len(packet.body) < 3 or packet.body[2] == 0:
                self._replies.confirmed(number)

    def _gone(self) -> None:
        super()._gone()
        self._unanswered.clear()
