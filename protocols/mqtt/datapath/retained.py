"""Send one client the retained messages that its subscriptions match.

They come from no queue, so the session itself records which are still to be sent, and which are sent and not
acknowledged. They are sent in slices, one per turn of the event loop, within the client's credit and while it reads
its socket: a subscription to `#` costs other clients little, however much is retained.
"""

from collections.abc import Callable
from typing import Final

from sluicegate.messaging.message.address import Address
from sluicegate.messaging.message.batch import EXACTLY_ONCE, MessageBatch
from sluicegate.messaging.message.publication import Publication
from sluicegate.messaging.queues.credit import CreditWindow
from sluicegate.messaging.routing.retained_messages import RetainedMessage
from sluicegate.messaging.topics.retained import RetainedScan
from sluicegate.protocols.connection.counters import ProtocolCounters
from sluicegate.protocols.mqtt.datapath.direct import send_rows
from sluicegate.protocols.mqtt.datapath.inflight_out import RETAINED_ORIGIN, InflightOut, InflightRun
from sluicegate.protocols.mqtt.engine.engine import MqttEngine
from sluicegate.protocols.mqtt.engine.publish_run import PublishRun
from sluicegate.protocols.mqtt.session.session import PendingRetained, RetainedSent, Session
from sluicegate.protocols.mqtt.session.subscriptions import DeliveryOptions, GrantedSubscription

SLICE_MESSAGES: Final = 256  # 0.3 ms of work
SLICE_BYTES: Final = 128 * 1024  # of payload: half of what may wait in a client's socket before it counts as full
SLICE_NODES: Final = 4096  # of the tree, scanned without a match


class RetainedOut:
    """Retained messages towards one client, within the credit that they share with what its queues deliver."""

    def __init__(
        self,
        *,
        engine: MqttEngine,
        session: Session,
        ids: InflightOut,
        window: CreditWindow[Address],
        before_exactly_once: Callable[[Callable[[], None], Publication | None], None],
        counters: ProtocolCounters,
        later: Callable[[], object],
        address: Address,
    ) -> None:
        self._counters = counters
        self._address = address  # of the connection
        self._before_exactly_once = before_exactly_once  # runs its argument once the session's ids are safe
        self._later = later  # schedules another `send_slice` in the next turn
        self._later_asked = False
        self._engine = engine
        self._session = session
        self._ids = ids
        self._window = window
        self._number = max(session.retained_sent) if session.retained_sent else 0

    @property
    def waits(self) -> bool:
        """Whether there is more to send."""
        return len(self._session.pending_retained) > 0

    def add(self, scan: RetainedScan[RetainedMessage], granted: GrantedSubscription, wall_ms: int) -> None:
        """Send the retained messages of a subscription, with RETAIN set [311:3.3.1-8]; an older scan is dropped."""
        wanted = self._session.pending_retained
        wanted.pop(granted.topic_filter.text, None)
        if not scan.is_done:  # as it is at once where nothing is retained
            wanted[granted.topic_filter.text] = PendingRetained(scan, granted)
            self.send_slice(wall_ms)

    def forget(self, granted: GrantedSubscription) -> None:
        """Send no more because of a subscription that has ended."""
        self._session.pending_retained.pop(granted.topic_filter.text, None)

    def send_scheduled_slice(self, wall_ms: int) -> None:
        """Continue in the scheduled turn."""
        self._later_asked = False
        self.send_slice(wall_ms)

    def send_slice(self, wall_ms: int) -> None:
        """Send a slice of what waits, as far as the credit goes."""
        all_wanted = self._session.pending_retained
        messages = SLICE_MESSAGES
        bytes_left = SLICE_BYTES
        while all_wanted and not self._window.is_shut:
            if messages <= 0 or bytes_left <= 0:
                self._ask_for_a_turn()
                return
            text = next(iter(all_wanted))
            wanted = all_wanted[text]
            if not wanted.has_next(messages, SLICE_NODES):
                if wanted.scan.is_done:
                    del all_wanted[text]
                else:
                    messages = 0  # many nodes scanned without a match
                continue
            batch = wanted.next()
            qos = min(batch.qos, wanted.granted.qos)
            if qos and not self._window.available():  # called again when the client has returned credit
                if self._window.lenders is not None:  # or, by WAKE, when a queue of a neighbor has
                    self._window.wait(self._address)
                return
            wanted.passed()
            if _is_for(batch, wanted.granted, self._session.client_id, wall_ms):
                self._send_first(batch, qos, wanted.granted.identifier, wall_ms)
            messages -= 1
            bytes_left -= batch.payload_bytes

    def _ask_for_a_turn(self) -> None:
        if not self._later_asked:
            self._later_asked = True
            self._later()

    def _send_first(self, batch: MessageBatch, qos: int, identifier: int, wall_ms: int) -> None:
        if not qos:
            self._send(batch, 0, 0, identifier, False, wall_ms)
            return
        self._window.take(1)
        self._number += 1
        run = self._ids.allocate(1, self._number, qos, RETAINED_ORIGIN)
        sent = self._session.retained_sent[self._number] = RetainedSent(run.first_packet_id, batch, qos, identifier)
        self._send_when_safe(sent, run, wall_ms)

    def resend(self, wall_ms: int) -> None:
        """Send, under their ids, those that an earlier connection did not answer for, or did not send any more."""
        for number, sent in list(self._session.retained_sent.items()):
            self._ids.keep(sent.packet_id)
            run = self._ids.take(sent.packet_id, number, sent.qos, RETAINED_ORIGIN)
            assert run is not None, "it was kept"
            self._window.take(1)
            self._send_when_safe(sent, run, wall_ms)

    def _send_when_safe(self, sent: RetainedSent, run: InflightRun, wall_ms: int) -> None:
        """Send at QoS 2 once the id is stored: after a restart the message is not sent again."""
        if sent.qos == EXACTLY_ONCE and not sent.was_sent and self._session.is_durable:
            run.waits = True
            self._before_exactly_once(lambda: self._send_known(sent, run, wall_ms), None)
        else:
            self._send_known(sent, run, wall_ms)

    def _send_known(self, sent: RetainedSent, run: InflightRun, wall_ms: int) -> None:
        """Send, with DUP if it was sent before [3.3.1-1]."""
        run.waits = False
        dup, sent.was_sent = sent.was_sent, True
        self._send(sent.batch, sent.qos, sent.packet_id, sent.identifier, dup, wall_ms)

    def settled(self, first: int, end: int) -> None:
        """Forget messages `[first, end)` by our own numbers: the client has answered for them."""
        for number in range(first, end):
            self._session.retained_sent.pop(number, None)

    def _send(self, batch: MessageBatch, qos: int, packet_id: int, identifier: int, dup: bool, wall_ms: int) -> None:
        # A retained message was published with RETAIN, so it is sent with it [311:3.3.1-8].
        options = DeliveryOptions(qos, True, [identifier] if identifier else None)
        rows = PublishRun(batch, 0, 1, qos, options, None, wall_ms, None)
        if send_rows(self._engine, self._counters, rows, packet_id, dup=dup) and qos:
            # Larger than the client takes: gone for this client, as if delivered [3.1.2-25].
            for run in self._ids.acknowledge(packet_id, packet_id):
                self.settled(run.first_sequence, run.first_sequence + run.count)
                self._window.give(run.count)


def _is_for(batch: MessageBatch, granted: GrantedSubscription, client_id: str, wall_ms: int) -> bool:
    """Return whether a message is neither expired nor passed over, and not the client's own where it wants none."""
    headers = batch.headers_of(0)
    if headers is not None and 0 < headers.expires_at_ms <= wall_ms:
        return False
    if granted.selector is not None and not granted.selector.matches(batch, 0):
        return False
    return not (granted.no_local and batch.publisher == client_id)
