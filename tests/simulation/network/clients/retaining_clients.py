"""Clients that set and delete retained messages, on the same few topics at all brokers.

The brokers agree on one message for each topic, or on none. It is one that no other change has replaced for sure: not
one of the same client that was confirmed behind it, and not one that was confirmed after all brokers had agreed on it.
"""

from collections.abc import Callable
from typing import Final

import support.mqtt.packets as mqtt
from simulation.judge.targets import Violation
from simulation.network.clients.lone_clients import LoneClient, SilentTap
from simulation.wires.memory_network import Wire
from support.mqtt.packets import Packet

TOPICS: Final = tuple(f"kept/{number}" for number in range(4))
FILTER: Final = "kept/#"
REFUSED: Final = 0x80  # reason codes from here on


class Change:
    """A retained message that a client has set, or the deletion of one."""

    def __init__(self, number: int, broker: str, topic: str, *, deletes: bool, rests: int, life: int) -> None:
        self.number = number
        self.broker = broker
        self.topic = topic
        self.deletes = deletes
        self.is_confirmed = False
        self.rests = rests  # how often all brokers had agreed before
        self.life = life  # how often its broker had been restored before
        self.knew_all = True  # its broker was not restored since they agreed

    def __repr__(self) -> str:
        return f"{'deletion' if self.deletes else 'message'} {self.number} of a client at {self.broker}"

    def replaces(self, other: "Change") -> bool:
        """Return whether the other one cannot be in force any more."""
        if not self.is_confirmed:
            return False
        if self.broker == other.broker and self.life == other.life:
            return self.number > other.number
        return self.rests > other.rests and self.knew_all


class RetainBook:
    """All changes of a run."""

    def __init__(self) -> None:
        self._changes: list[Change] = []
        self._rests = 0
        self._lives: dict[str, int] = {}
        self._restored: set[str] = set()  # brokers, since all agreed

    def sends(self, broker: str, topic: str, *, deletes: bool) -> int:
        """A client is about to set or delete what is retained of a topic; return the number of the change."""
        life = self._lives.get(broker, 0)
        change = Change(len(self._changes), broker, topic, deletes=deletes, rests=self._rests, life=life)
        change.knew_all = broker not in self._restored
        self._changes.append(change)
        return change.number

    def confirmed(self, number: int) -> None:
        """The client has heard that its change is made."""
        self._changes[number].is_confirmed = True

    def restored(self, broker: str) -> None:
        """A broker has its last backup: what it confirmed is lost, unless another broker has it already.

        It brings back what was deleted since then: the others have forgotten the deletions that they all knew.
        """
        self._lives[broker] = self._lives.get(broker, 0) + 1
        forgets_all = bool(self._restored - {broker})  # what the others had for it they may have lost before
        deleted = {each.topic: each.number for each in self._changes if each.deletes}  # the last deletion
        for change in self._changes:
            is_deleted = change.number <= deleted.get(change.topic, -1)
            if forgets_all or is_deleted or (change.broker == broker and change.rests == self._rests):
                change.is_confirmed = False
        self._restored.add(broker)

    def agreed(self, retained: dict[str, int]) -> None:
        """All brokers retain these changes, by topic. Raises Violation if one of them was replaced."""
        for topic in TOPICS:
            number = retained.get(topic)
            changes = [each for each in self._changes if each.topic == topic]
            may_be = [each for each in changes if not any(other.replaces(each) for other in changes)]
            if number is not None and self._changes[number] not in may_be:
                raise Violation(f"{topic} has the retained {self._changes[number]}, and can have {may_be}")
            nothing_is_right = any(each.deletes for each in may_be) or not any(each.is_confirmed for each in changes)
            if number is None and not nothing_is_right:
                raise Violation(f"{topic} has no retained message, and can have {may_be}")
        self._rests += 1
        self._restored.clear()


class RetainingClient(LoneClient):
    """A client that sets and deletes, and looks at what is retained."""

    def __init__(
        self, name: str, broker: str, book: RetainBook, *, dial: Callable[[LoneClient, SilentTap], Wire]
    ) -> None:
        super().__init__(name, broker, name, dial=dial)
        self.saw: dict[str, int] = {}  # by topic: what was retained when it looked last
        self._book = book
        self._packet_id = 0
        self._unanswered: dict[int, int] = {}  # packet id -> number of the change

    def look(self) -> None:
        """Ask for what is retained."""
        self.saw = {}
        if self._wire is not None:
            self._wire.send(mqtt.subscribe((FILTER, 0), level=5))

    def change(self, topic: str, *, deletes: bool) -> None:
        """Set or delete what is retained of a topic."""
        if self._wire is None:
            return
        number = self._book.sends(self.broker, topic, deletes=deletes)
        self._packet_id = self._packet_id % 1000 + 1
        self._unanswered[self._packet_id] = number
        payload = b"" if deletes else b"%d" % number
        self._wire.send(mqtt.publish(topic, payload, level=5, qos=1, packet_id=self._packet_id, retain=True))

    @property
    def is_waiting(self) -> bool:
        """Whether it has not heard what became of a change."""
        return bool(self._unanswered)

    def _subscribe(self) -> None:
        self.look()

    def _take(self, packet: Packet) -> None:
        if packet.kind == mqtt.PUBLISH:
            publish = mqtt.published(packet, 5)
            if publish.retain:
                self.saw[publish.topic] = int(publish.payload)
        elif packet.kind == mqtt.PUBACK:
            number = self._unanswered.pop(int.from_bytes(packet.body[:2], "big"))
            if len(packet.body) < 3 or packet.body[2] < REFUSED:
                self._book.confirmed(number)

    def _gone(self) -> None:
        super()._gone()
        self._unanswered.clear()
