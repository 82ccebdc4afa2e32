"""Publishers to the queue that moves, and consumers of it, at each broker; and the book that judges what they see.

Some of what they publish goes into a queue of their own broker, expires there, and dies into the queue that moves.

What was confirmed comes, and what comes of one publisher comes in the order in which it was sent; after the last crash
it comes once. A publisher sends each message once, so no message may be in the queue twice.
"""

from collections.abc import Callable
from typing import Final

import support.mqtt.packets as mqtt
from simulation.clients.client import ONLINE
from simulation.judge.targets import Violation
from simulation.network.clients.lone_clients import LoneClient, SilentTap
from simulation.wires.memory_network import Wire
from simulation.wires.mqtt_tap import number_of
from sluicegate.messaging.topics.syntax import queue_topic
from support.mqtt.packets import Packet

QUEUE: Final = "traveller"
TOPICS: Final = "travel"
FIRST: Final = 2_000_000_000  # number of a message, above those that the judges of brokers know
DYING: Final = "dying"  # of the queues whose messages expire, and of their topics; the broker's name follows
ASIDE: Final = "aside"  # of queues that nobody consumes, one at each broker, and of their topics
OWN_TOPIC: Final = "travels-not"  # to which nobody subscribes but the publisher itself


class MoveBook:
    """All messages of a run, by number."""

    def __init__(self) -> None:
        self.publisher_of: dict[int, str] = {}
        self.confirmed: dict[int, None] = {}
        self.seen: dict[int, int] = {}  # how often it came
        self.is_draining = False  # nothing fails any more, and one consumer takes what is left
        self._came_in_drain: set[int] = set()
        self._last_seen: dict[str, int] = {}  # by publisher: the latest of its messages that came for the first time

    def sends(self, publisher: str) -> int:
        """A publisher is about to send a message; return its number."""
        number = FIRST + len(self.publisher_of)
        self.publisher_of[number] = publisher
        return number

    def is_confirmed(self, number: int) -> None:
        """A publisher has the answer to a message."""
        if self.publisher_of[number] != ASIDE:
            self.confirmed[number] = None

    def comes(self, number: int) -> None:
        """A consumer gets a message. Raises Violation."""
        publisher = self.publisher_of[number]
        if self.is_draining:
            if number in self._came_in_drain:
                raise Violation(f"message {number} of {publisher} is in the queue twice")
            self._came_in_drain.add(number)
        if number not in self.seen:
            before = self._last_seen.get(publisher, -1)
            if number < before:
                raise Violation(f"message {number} of {publisher} came behind its message {before}")
            self._last_seen[publisher] = number
        self.seen[number] = self.seen.get(number, 0) + 1

    @property
    def missing(self) -> list[int]:
        """Messages that were confirmed, and have not come."""
        return [number for number in self.confirmed if number not in self.seen]


class TravelPublisher(LoneClient):
    """Publishes to the queue, by its name and by its topics. With QoS 2 a message crosses a link once it is stored."""

    def __init__(
        self, name: str, broker: str, book: MoveBook, *, qos: int, dial: Callable[[LoneClient, SilentTap], Wire]
    ) -> None:
        super().__init__(name, broker, name, dial=dial)
        self._book = book
        self._qos = qos
        self._packet_id = 0
        self._unanswered: dict[int, int] = {}  # packet id -> number of the message

    def publish(self, *, by_name: bool, dies: bool) -> None:
        """Send a message."""
        if self._wire is None or self.state != ONLINE or len(self._unanswered) > 200:
            return
        number = self._book.sends(f"{self.name}, {DYING}" if dies else self.name)
        topic = queue_topic(QUEUE) if by_name else f"{TOPICS}/{self.broker}"
        if dies:
            topic = f"{DYING}/{self.broker}"
        self._send(self._wire, topic, number)

    def publish_aside(self) -> None:
        """Send a message to other queues, at every broker."""
        if self._wire is not None and self.state == ONLINE:
            self._send(self._wire, f"{ASIDE}/{self.broker}", self._book.sends(ASIDE))

    def _send(self, wire: Wire, topic: str, number: int) -> None:
        self._packet_id = self._packet_id % 1000 + 1
        self._unanswered[self._packet_id] = number
        wire.send(mqtt.publish(topic, b"%d|" % number, level=5, qos=self._qos, packet_id=self._packet_id))

    def _subscribe(self) -> None:
        assert self._wire is not None
        self._wire.send(mqtt.subscribe((OWN_TOPIC, 0), level=5))

    def _take(self, packet: Packet) -> None:
        if packet.kind not in (mqtt.PUBACK, mqtt.PUBREC):
            return
        packet_id = mqtt.packet_id_of(packet)
        number = self._unanswered.pop(packet_id)
        reason_code = packet.body[2] if len(packet.body) > 2 else 0
        if reason_code < 0x80:
            self._book.is_confirmed(number)
            if packet.kind == mqtt.PUBREC and self._wire is not None:
                self._wire.send(mqtt.pubrel(packet_id))

    def _gone(self) -> None:
        super()._gone()
        self._unanswered.clear()


class TravelConsumer(LoneClient):
    """Consumes the queue, wherever it is, and settles everything at once."""

    def __init__(
        self, name: str, broker: str, book: MoveBook, *, dial: Callable[[LoneClient, SilentTap], Wire]
    ) -> None:
        super().__init__(name, broker, name, dial=dial)
        self._book = book

    def _subscribe(self) -> None:
        assert self._wire is not None
        self._wire.send(mqtt.subscribe((queue_topic(QUEUE), 1), level=5))

    def _take(self, packet: Packet) -> None:
        if packet.kind == mqtt.PUBLISH:
            published = mqtt.published(packet, 5)
            self._book.comes(number_of(published.payload))
            if self._wire is not None and published.qos:
                self._wire.send(mqtt.puback(published.packet_id))
