"""What a foreign broker's messages over MQTT wait for: PUBACK or PUBREC when they are stored here, PUBREL after that.

The states of QoS 2 outlive connections: a message that comes again is stored once. No socket, and no packets.
"""

from collections import deque
from collections.abc import Callable, Iterable
from typing import final

from sluicegate.messaging.message.outcomes import ACCEPTED, RELEASED
from sluicegate.protocols.bridges.remote import Settlement


@final
class _Unacknowledged:
    """A message that neither PUBACK nor PUBREC was sent for."""

    __slots__ = ("outcome", "packet_id", "qos")

    def __init__(self, packet_id: int, qos: int) -> None:
        self.packet_id = packet_id
        self.qos = qos
        self.outcome: int | None = None  # None: it is not settled yet


@final
class Acknowledgements:
    """The messages of one foreign broker that are not acknowledged, in the order in which they came.

    Invariants: `_by_number` has the messages of `_waiting` that are not settled. An identifier that is in both
    `_waiting_ids` and `_stored_ids` is one of a repetition that waits for its turn.
    """

    def __init__(self, acknowledge: Callable[[int, int], None]) -> None:
        """`acknowledge` sends PUBACK or PUBREC: it gets packet identifier and QoS."""
        self._acknowledge = acknowledge
        self._waiting: deque[_Unacknowledged] = deque()
        self._by_number: dict[int, _Unacknowledged] = {}  # arrival -> message
        self._waiting_ids: set[int] = set()  # of QoS 2
        self._stored_ids: set[int] = set()  # of QoS 2: PUBREC is sent, and PUBREL has not come
        self._unsettled_earlier: dict[int, int] = {}  # QoS 2 of an earlier connection: packet id -> arrival

    @property
    def count(self) -> int:
        """The number of messages that are not acknowledged."""
        return len(self._waiting)

    def repeats(self, packet_id: int) -> bool:
        """Return whether a PUBLISH of QoS 2 is a repetition, which goes no further; it is acknowledged in its turn.

        What it repeats is stored, or on its way to the store, on this connection or an earlier one.
        """
        if packet_id in self._waiting_ids:
            return True
        if packet_id in self._stored_ids:
            self.ignored(packet_id, 2)
            return True
        if packet_id in self._unsettled_earlier:
            self.add(self._unsettled_earlier.pop(packet_id), packet_id, 2)
            return True
        return False

    def add(self, number: int, packet_id: int, qos: int) -> None:
        """Note an arrival of QoS 1 or 2."""
        self._by_number[number] = self._append(packet_id, qos)

    def ignored(self, packet_id: int, qos: int) -> None:
        """Acknowledge a message that goes no further, behind those that came before it [MQTT 4.6.0-2]."""
        self._append(packet_id, qos).outcome = ACCEPTED
        self._send()

    def _append(self, packet_id: int, qos: int) -> _Unacknowledged:
        message = _Unacknowledged(packet_id, qos)
        self._waiting.append(message)
        if qos == 2:
            self._waiting_ids.add(packet_id)
        return message

    def released(self, packet_id: int) -> None:
        """Note a PUBREL: the identifier is free for another message."""
        if packet_id not in self._stored_ids:
            return
        self._stored_ids.remove(packet_id)
        if packet_id in self._waiting_ids:  # a PUBREC of the repetition would confirm the next message of this id
            self._waiting_ids.remove(packet_id)
            self._waiting = deque(each for each in self._waiting if each.qos != 2 or each.packet_id != packet_id)

    def settle(self, settlements: Iterable[Settlement]) -> None:
        """Acknowledge what is settled, in the order in which it came [MQTT 4.6.0-2].

        A released one is not acknowledged, nor is what came behind it: all that comes again with the next connection.
        """
        for settlement in settlements:
            message = self._by_number.pop(settlement.number, None)
            if message is not None:
                message.outcome = settlement.outcome
            elif self._unsettled_earlier:
                self._settle_earlier(settlement)
        self._send()

    def _settle_earlier(self, settlement: Settlement) -> None:
        """Note what is stored of an earlier connection: it is acknowledged when it comes again; the rest is new."""
        for packet_id, number in self._unsettled_earlier.items():
            if number == settlement.number:
                del self._unsettled_earlier[packet_id]
                if settlement.outcome != RELEASED:
                    self._stored_ids.add(packet_id)
                return

    def _send(self) -> None:
        waiting = self._waiting
        while waiting and waiting[0].outcome is not None and waiting[0].outcome != RELEASED:
            message = waiting.popleft()
            if message.qos == 2:
                self._waiting_ids.discard(message.packet_id)
                self._stored_ids.add(message.packet_id)
            self._acknowledge(message.packet_id, message.qos)

    # --- connections ---

    def connection_lost(self) -> None:
        """Remember what the foreign broker will send again: QoS 2 may be stored already, or on its way there."""
        for number, message in self._by_number.items():
            if message.qos == 2:
                self._unsettled_earlier[message.packet_id] = number
        for message in self._waiting:
            if message.qos == 2 and message.outcome is not None and message.outcome != RELEASED:
                self._stored_ids.add(message.packet_id)  # it waits for the PUBREC of an earlier one
        self._waiting.clear()
        self._by_number.clear()
        self._waiting_ids.clear()

    def session_lost(self) -> None:
        """Forget all: the foreign broker does, and its identifiers begin anew."""
        self._stored_ids.clear()
        self._unsettled_earlier.clear()

    def forget_unsettled(self) -> None:
        """Forget what is on its way to the store: its settlements never come."""
        self.connection_lost()
        self._unsettled_earlier.clear()
