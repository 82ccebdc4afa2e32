"""What a foreign broker's messages over MQTT wait for: PUBACK or PUBREC when they are stored here, PUBREL after that.

The states of QoS 2 outlive connections: a message that comes again is stored once. No socket, and no packets.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import final

from sluicegate.messaging.message.outcomes import RELEASED
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
    """The messages of one foreign broker that are not acknowledged, in the order in which they came."""

    def __init__(self, acknowledge: Callable[[int, int], None]) -> None:
        """`acknowledge` sends PUBACK or PUBREC: it gets packet identifier and QoS."""
        self._acknowledge = acknowledge
        self._waiting: OrderedDict[int, _Unacknowledged] = OrderedDict()  # by number of the arrival
        self._unsettled_ids: set[int] = set()  # of QoS 2, among those that wait
        self._stored_ids: set[int] = set()  # of QoS 2: PUBREC is sent, and PUBREL has not come
        self._orphans: dict[int, int] = {}  # packet id -> arrival of QoS 2 of an earlier connection, without settlement

    @property
    def count(self) -> int:
        """The number of messages that are not acknowledged."""
        return len(self._waiting)

    def is_known(self, packet_id: int) -> bool:
        """Return whether a PUBLISH of QoS 2 is a repetition that goes no further.

        One that is stored is acknowledged again. One that is on its way to the store, of this connection or an earlier
        one, is acknowledged when it is there.
        """
        if packet_id in self._unsettled_ids:
            return True
        if packet_id in self._stored_ids:
            self._acknowledge(packet_id, 2)
            return True
        if packet_id in self._orphans:
            self.add(self._orphans.pop(packet_id), packet_id, 2)
            return True
        return False

    def add(self, number: int, packet_id: int, qos: int) -> None:
        """Note an arrival of QoS 1 or 2."""
        self._waiting[number] = _Unacknowledged(packet_id, qos)
        if qos == 2:
            self._unsettled_ids.add(packet_id)

    def ignored(self, packet_id: int, qos: int) -> None:
        """Acknowledge a message that nobody here wants."""
        self._send(packet_id, qos)

    def released(self, packet_id: int) -> None:
        """Note a PUBREL: the identifier is free for another message."""
        self._stored_ids.discard(packet_id)

    def settle(self, settlements: Iterable[Settlement]) -> None:
        """Acknowledge what is settled, in the order in which it came [MQTT 4.6.0-2].

        A released one is not acknowledged, nor is what came behind it: all that comes again with the next connection.
        """
        waiting = self._waiting
        for settlement in settlements:
            message = waiting.get(settlement.number)
            if message is not None:
                message.outcome = settlement.outcome
            elif self._orphans:
                self._settle_orphan(settlement)
        while waiting:
            number, message = next(iter(waiting.items()))
            if message.outcome is None or message.outcome == RELEASED:
                return
            del waiting[number]
            self._unsettled_ids.discard(message.packet_id)
            self._send(message.packet_id, message.qos)

    def _settle_orphan(self, settlement: Settlement) -> None:
        """Note what is stored of an earlier connection: it is acknowledged when it comes again; the rest is new."""
        for packet_id, number in self._orphans.items():
            if number == settlement.number:
                del self._orphans[packet_id]
                if settlement.outcome != RELEASED:
                    self._stored_ids.add(packet_id)
                return

    def _send(self, packet_id: int, qos: int) -> None:
        if qos == 2:
            self._stored_ids.add(packet_id)
        self._acknowledge(packet_id, qos)

    # --- connections ---

    def connection_lost(self) -> None:
        """Remember what the foreign broker will send again: QoS 2 may be stored already, or on its way there."""
        for number, message in self._waiting.items():
            if message.qos != 2 or message.outcome == RELEASED:
                continue
            if message.outcome is None:
                self._orphans[message.packet_id] = number
            else:  # it waits for the PUBREC of an earlier one
                self._stored_ids.add(message.packet_id)
        self._waiting.clear()
        self._unsettled_ids.clear()

    def session_lost(self) -> None:
        """Forget all: the foreign broker does, and its identifiers begin anew."""
        self._stored_ids.clear()
        self._orphans.clear()

    def forget_unsettled(self) -> None:
        """Forget what is on its way to the store: its settlements never come."""
        self.connection_lost()
        self._orphans.clear()
