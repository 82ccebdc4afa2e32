"""A partition as plain as can be: one object per message, no ranges, no pages. What the ledger is held against.

It does not choose flows: it looks at what the ledger delivered and says whether that was allowed.
"""

from dataclasses import dataclass, field

from messaging.effects import Delivery
from messaging.flows import DeliveryRules
from messaging.settlement import (
    ACCEPTED,
    DISCARD_EXPIRED,
    DISCARD_MAX_REDELIVERY,
    DISCARD_REJECTED,
    FAILED,
    REJECTED,
)
from unit.cores.messages import sequences_of

READY = 0  # for no flow


@dataclass
class PlainMessage:
    """One unsettled message."""

    payload: bytes
    expires_at_ms: int = 0
    flow_id: int = READY
    was_delivered: bool = False
    failures: int = 0


@dataclass
class PlainPartition:
    """Unsettled messages by sequence, and what was ever settled."""

    rules: DeliveryRules
    messages: dict[int, PlainMessage] = field(default_factory=dict)
    settled: set[int] = field(default_factory=set)
    discards: dict[str, int] = field(default_factory=dict)

    def append(self, first: int, payloads: list[bytes], expires_at_ms: list[int]) -> None:
        for sequence, (payload, expiry) in enumerate(zip(payloads, expires_at_ms, strict=True), first):
            assert sequence not in self.settled, "sequences are not used twice"
            assert sequence not in self.messages, "sequences are not used twice"
            self.messages[sequence] = PlainMessage(payload, expiry)

    def held_by(self, flow_id: int) -> list[int]:
        return sorted(sequence for sequence, message in self.messages.items() if message.flow_id == flow_id)

    def ready(self) -> list[int]:
        return self.held_by(READY)

    def delivered(self, deliveries: list[Delivery]) -> None:
        """Take over deliveries of one turn; every row has to be the right message, told the right way."""
        previous = 0
        for delivery in deliveries:
            for sequence, payload in zip(
                sequences_of(delivery),
                delivery.batch.payloads()[delivery.start_row : delivery.stop_row],
                strict=True,
            ):
                message = self.messages[sequence]
                assert message.flow_id == READY, "nobody else holds it"
                assert message.payload == payload
                assert delivery.redelivered == message.was_delivered
                assert delivery.delivery_count == message.failures + 1
                assert sequence > previous, "oldest first"
                previous = sequence
                message.flow_id = delivery.flow.flow_id
                message.was_delivered = True

    def dropped_as_expired(self, sequence: int, wall_ms: int) -> None:
        message = self.messages[sequence]
        assert message.flow_id == READY
        assert 0 < message.expires_at_ms <= wall_ms
        assert self.rules.respects_expiry
        assert self.rules.expires_once_delivered or not message.was_delivered
        self._discard(sequence, DISCARD_EXPIRED)

    def settle(self, flow_id: int, first: int, end: int, outcome: int) -> int:
        held = [sequence for sequence in self.held_by(flow_id) if first <= sequence < end]
        for sequence in held:
            if outcome == ACCEPTED:
                self._remove(sequence)
            elif outcome == REJECTED:
                self._discard(sequence, DISCARD_REJECTED)
            else:
                self._give_back(sequence, failed=outcome == FAILED)
        return len(held)

    def detach(self, flow_id: int, *, count_as_failed: bool) -> None:
        for sequence in self.held_by(flow_id):
            self._give_back(sequence, failed=count_as_failed)

    def give_up(self, first: int, end: int, reason: str) -> int:
        lost = [sequence for sequence in self.ready() if first <= sequence < end]
        for sequence in lost:
            self._discard(sequence, reason)
        return len(lost)

    def _give_back(self, sequence: int, *, failed: bool) -> None:
        message = self.messages[sequence]
        message.flow_id = READY
        message.failures += failed
        maximum = self.rules.redelivery_count_max
        if failed and maximum and message.failures > maximum:
            self._discard(sequence, DISCARD_MAX_REDELIVERY)

    def _discard(self, sequence: int, reason: str) -> None:
        self.discards[reason] = self.discards.get(reason, 0) + 1
        self._remove(sequence)

    def _remove(self, sequence: int) -> None:
        del self.messages[sequence]
        self.settled.add(sequence)
