"""The retained messages that subscriptions of one client have brought, on their way to it.

They come from no queue, so the session itself remembers those that are sent and not answered for.
"""

from collections import deque
from collections.abc import Callable

from messaging.address import Address
from messaging.batch import MessageBatch
from messaging.credit import CreditWindow
from protocols.mqtt.engine import MqttEngine
from protocols.mqtt.granted import DeliveryOptions, GrantedSubscription
from protocols.mqtt.outbound import RETAINED_SOURCE, OutboundIds
from protocols.mqtt.rows_out import RowsOut
from protocols.mqtt.session import RetainedSent, Session


class RetainedOut:
    """Retained messages towards one client, within the credit that they share with what its queues deliver."""

    def __init__(
        self,
        *,
        engine: MqttEngine,
        session: Session,
        ids: OutboundIds,
        window: CreditWindow[Address],
        too_large: Callable[[int], None],
    ) -> None:
        self._too_large = too_large
        self._engine = engine
        self._session = session
        self._ids = ids
        self._window = window
        self._line: deque[tuple[MessageBatch, int, int]] = deque()  # batch, QoS, identifier
        self._number = max(session.retained_sent, default=0)

    @property
    def waits(self) -> bool:
        """Whether some wait for credit."""
        return len(self._line) > 0

    def add(self, batch: MessageBatch, granted: GrantedSubscription, wall_ms: int) -> None:
        """Send a message because of a subscription, with RETAIN set [3.3.1-8]."""
        qos = min(batch.qos, granted.qos)
        if qos == 0:
            self._send(batch, 0, 0, granted.identifier, False, wall_ms)
        else:
            self._line.append((batch, qos, granted.identifier))
            self.go_on(wall_ms)

    def go_on(self, wall_ms: int) -> None:
        """Send what waits, as far as the credit goes."""
        line = self._line
        while line and self._window.available():
            batch, qos, identifier = line.popleft()
            self._window.take(1)
            self._number += 1
            run = self._ids.allocate(1, self._number, qos, RETAINED_SOURCE)
            self._session.retained_sent[self._number] = RetainedSent(run.first_packet_id, batch, qos, identifier)
            self._send(batch, qos, run.first_packet_id, identifier, False, wall_ms)

    def resend(self, wall_ms: int) -> None:
        """Send again, under their ids, those that an earlier connection did not answer for."""
        for number, sent in list(self._session.retained_sent.items()):
            self._ids.keep(sent.packet_id)
            self._ids.take(sent.packet_id, number, sent.qos, RETAINED_SOURCE)
            self._window.take(1)
            self._send(sent.batch, sent.qos, sent.packet_id, sent.identifier, True, wall_ms)

    def settled(self, first: int, end: int) -> None:
        """Forget messages `[first, end)` by our own numbers: the client has answered for them."""
        for number in range(first, end):
            self._session.retained_sent.pop(number, None)

    def _send(self, batch: MessageBatch, qos: int, packet_id: int, identifier: int, dup: bool, wall_ms: int) -> None:
        # What is retained was published with RETAIN, so it goes out with it [3.3.1-8].
        options = DeliveryOptions(qos, True, [identifier] if identifier else None)
        skipped = RowsOut(batch, 0, 1, qos, options, None, wall_ms, None).send(self._engine, packet_id, dup=dup)
        if not skipped:
            return
        self._too_large(1)
        if qos:
            # Larger than the client takes: gone for this client, as if delivered [3.1.2-25].
            for each in self._ids.acknowledge(packet_id, packet_id):
                self.settled(each.first, each.end)
                self._window.give(each.end - each.first)
