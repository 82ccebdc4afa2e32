"""QoS 2 messages that the client has received: each is settled once the store records that.

Were a message settled first, a restart would give its packet id to another message, and the client, which has not seen
PUBREL yet, would take that for the same one. Messages in doubt after a crash are delivered to the same client again, or
kept for it, and settled then.
"""

from collections.abc import Callable
from typing import final

from sluicegate.messaging.message.publication import Publication
from sluicegate.protocols.mqtt.datapath.inflight_out import InflightRun
from sluicegate.protocols.mqtt.session.packet_ids import SentIds
from sluicegate.protocols.mqtt.session.session import Session


@final
class ReceivedQos2:
    """The received QoS 2 messages of one connection that are not settled yet."""

    def __init__(
        self,
        session: Session,
        *,
        before_exactly_once: Callable[[Callable[[], None], Publication | None], None],
        settle: Callable[[InflightRun], None],
    ) -> None:
        self._session = session
        self._before_exactly_once = before_exactly_once
        self._settle = settle
        self._unsettled: dict[int, InflightRun] = {}  # by first packet id

    def take(self, run: InflightRun) -> None:
        """Settle a run once its receipt is stored; at once if it would not be sent again after a restart."""
        ids, first, end = run.origin.ids, run.first_sequence, run.first_sequence + run.count
        if ids is not None:
            ids.add_received(first, end)
        if ids is None or not self._session.is_durable:
            self._settle(run)
            return
        ids.answered(first, end)
        ids.unsettled.add(first, end)
        packet_id = run.first_packet_id
        self._unsettled[packet_id] = run
        self._before_exactly_once(lambda: self._stored(packet_id), None)

    def settle_of(self, ids: SentIds) -> None:
        """Settle the messages of one queue now."""
        for packet_id, run in list(self._unsettled.items()):
            if run.origin.ids is ids:
                self._stored(packet_id)

    def settle_all(self) -> None:
        """Settle everything now: the directory stores the ids."""
        for packet_id in list(self._unsettled):
            self._stored(packet_id)

    def _stored(self, packet_id: int) -> None:
        run = self._unsettled.pop(packet_id, None)
        if run is not None:  # else it was settled before
            if run.origin.ids is not None:
                run.origin.ids.unsettled.discard(run.first_sequence, run.first_sequence + run.count)
            self._settle(run)
