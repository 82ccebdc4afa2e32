"""A plain model of a partition, with one object per message and no ranges or pages, to compare the ledger with.

It does not choose flows: it checks whether the deliveries of the ledger were allowed.
"""

from dataclasses import dataclass, field

from sluicegate.messaging.message.headers import PRIORITY_DEFAULT, Headers
from sluicegate.messaging.message.outcomes import (
    ACCEPTED,
    DISCARD_DAMAGED,
    DISCARD_EXPIRED,
    DISCARD_MAX_REDELIVERY,
    DISCARD_NOT_STORED,
    DISCARD_REJECTED,
    DISCARD_REPLACED,
    FAILED,
    REJECTED,
)
from sluicegate.messaging.partitions.state.effects import Delivery
from sluicegate.messaging.partitions.state.flows import ORDER_NONE, ORDER_OF_ALL, DeliveryRules
from support.cores.messages import sequences_of

READY = 0  # for no flow
REPLACED = -7  # set aside until a newer one is safe
NOT_YET = 1 << 60  # failed, and the clock was not read since


@dataclass
class PlainMessage:
    """One unsettled message."""

    payload: bytes
    headers: Headers | None = None
    arrived_ms: int = 0
    flow_id: int = READY
    was_delivered: bool = False
    failures: int = 0
    retry_at_ms: int = 0
    locked_ms: int = 0

    def key(self) -> int:
        return -1 if self.headers is None else self.headers.key_hash

    def rank(self, rules: DeliveryRules) -> int:
        """Return a number by which messages with a higher priority come first, where it counts."""
        return -(PRIORITY_DEFAULT if self.headers is None else self.headers.priority) if rules.by_priority else 0


@dataclass
class PlainPartition:
    """Unsettled messages by sequence, and what was ever settled."""

    rules: DeliveryRules
    messages: dict[int, PlainMessage] = field(default_factory=dict)
    settled: set[int] = field(default_factory=set)
    discards: dict[str, int] = field(default_factory=dict)
    refused: set[int] = field(default_factory=set)  # by the store
    unread: set[int] = field(default_factory=set)  # by the store, while a consumer had it
    gone: int = 0  # the newest message that left, and not because it could not be stored

    def append(self, first: int, payloads: list[bytes], headers: list[Headers | None], arrived_ms: int) -> None:
        for sequence, (payload, its) in enumerate(zip(payloads, headers, strict=True), first):
            assert sequence not in self.settled, "sequences are not used twice"
            assert sequence not in self.messages, "sequences are not used twice"
            self.messages[sequence] = PlainMessage(payload, its, arrived_ms)

    def held_by(self, flow_id: int) -> list[int]:
        return sorted(sequence for sequence, message in self.messages.items() if message.flow_id == flow_id)

    def ready(self) -> list[int]:
        """Return the messages that no consumer has, whether they may be delivered now or must wait."""
        return self.held_by(READY)

    # --- time ---

    def expires_at(self, message: PlainMessage) -> int:
        """Return when a message expires; 0: never."""
        moments = [] if message.headers is None else [message.headers.expires_at_ms]
        if self.rules.max_ttl_ms:
            moments.append(message.arrived_ms + self.rules.max_ttl_ms)
        return min([each for each in moments if each > 0], default=0)

    def expired(self, now_ms: int) -> list[int]:
        """Return what must not wait any longer."""
        if not self.rules.respects_expiry:
            return []
        return [
            sequence
            for sequence in self.ready()
            if 0 < self.expires_at(self.messages[sequence]) <= now_ms
            and (self.rules.expires_once_delivered or not self.messages[sequence].was_delivered)
        ]

    def begin_delays(self, now_ms: int) -> None:
        """The clock is read: what failed since the last time waits from now on."""
        for message in self.messages.values():
            if message.retry_at_ms == NOT_YET:
                delay_ms = self.rules.redelivery_delay_ms
                for _ in range(message.failures - 1):
                    delay_ms = delay_ms * self.rules.redelivery_delay_percent // 100
                message.retry_at_ms = now_ms + min(delay_ms, self.rules.redelivery_delay_ms_max)

    def may_be_delivered(self, sequence: int, now_ms: int) -> bool:
        message = self.messages[sequence]
        not_before = 0 if message.headers is None else message.headers.not_before_ms
        if not message.was_delivered and max(not_before, message.arrived_ms + self.rules.delivery_delay_ms) > now_ms:
            return False
        if message.retry_at_ms > now_ms:
            return False
        return not any(
            self.holds_up(other, message) for place, other in self.messages.items()
            if place < sequence and other.flow_id == READY and other.retry_at_ms > now_ms
        )  # fmt: skip

    def holds_up(self, failed: PlainMessage, message: PlainMessage) -> bool:
        """Return whether a failed message that waits keeps one behind it from being delivered."""
        if self.rules.order == ORDER_NONE or self.rules.by_priority:
            return False
        if failed.key() >= 0:
            return failed.key() == message.key()
        return self.rules.order == ORDER_OF_ALL

    # --- what happens ---

    def delivered(self, deliveries: list[Delivery], now_ms: int) -> None:
        """Take over deliveries of one turn; every row has to be the right message, told the right way."""
        previous = (-10, 0)
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
                assert self.may_be_delivered(sequence, now_ms), "its time has come"
                place = (message.rank(self.rules), sequence)
                assert place > previous, "higher priorities first, then oldest first"
                previous = place
                message.flow_id = delivery.flow.flow_id
                message.was_delivered = True
                message.retry_at_ms = 0
                message.locked_ms = now_ms
        left = [
            (self.messages[sequence].rank(self.rules), sequence)
            for sequence in self.ready()
            if self.may_be_delivered(sequence, now_ms)
        ]
        assert not deliveries or not left or min(left) > previous, "nothing is left behind"

    def dropped_as_expired(self, sequence: int, now_ms: int) -> None:
        assert sequence in self.expired(now_ms)
        self._discard(sequence, DISCARD_EXPIRED)

    def keep_newest(self, stored: set[int], refused: set[int]) -> None:
        """Drop what a newer message has replaced for certain; of what nobody holds, the newest may be delivered."""
        is_alone = len(self.messages) <= 1 and all(each > self.gone for each in self.messages)
        if is_alone and not self.held_by(REPLACED):
            return
        newest_stored = max([each for each in self.messages if each in stored], default=0)
        set_aside = [each for each in self.held_by(REPLACED) if each > newest_stored]
        for sequence in [each for each in [*self.ready(), *set_aside] if each in refused]:
            self._discard(sequence, DISCARD_NOT_STORED)
        newest = max([each for each in self.messages if each not in refused], default=0)
        safe = max([self.gone, *(each for each in self.messages if each in stored)])
        for sequence in sorted(each for each in self.messages if each < safe):
            if self.messages[sequence].flow_id >= READY or self.messages[sequence].flow_id == REPLACED:
                self._discard(sequence, DISCARD_REPLACED)
        for sequence in self.ready():
            if sequence < newest:
                self.messages[sequence].flow_id = REPLACED
        if newest in self.messages and self.messages[newest].flow_id == REPLACED:
            self.messages[newest].flow_id = READY

    def settle(self, flow_id: int, first: int, end: int, outcome: int) -> int:
        held = [sequence for sequence in self.held_by(flow_id) if first <= sequence < end]
        for sequence in held:
            if outcome == ACCEPTED:
                self._remove(sequence)
            elif outcome == REJECTED:
                self._discard(sequence, DISCARD_REJECTED)
            else:
                self.give_back(sequence, failed=outcome == FAILED)
        return len(held)

    def detach(self, flow_id: int, *, count_as_failed: bool) -> None:
        for sequence in self.held_by(flow_id):
            self.give_back(sequence, failed=count_as_failed)

    def was_not_sent(self, sequences: list[int]) -> None:
        """A consumer gives back what it was given for the first time, and what it did not get."""
        for sequence in sequences:
            self.messages[sequence].flow_id = READY
            self.messages[sequence].was_delivered = False
            if sequence in self.refused:
                self._discard(sequence, DISCARD_NOT_STORED)

    def give_up(self, first: int, end: int, reason: str) -> int:
        lost = [sequence for sequence in self.ready() if first <= sequence < end]
        for sequence in lost:
            self._discard(sequence, reason)
        return len(lost)

    def give_back(self, sequence: int, *, failed: bool) -> None:
        message = self.messages[sequence]
        message.flow_id = READY
        if sequence in self.refused or sequence in self.unread:
            self._discard(sequence, DISCARD_NOT_STORED if sequence in self.refused else DISCARD_DAMAGED)
            return
        if not self.rules.redelivers:
            self._discard(sequence, DISCARD_MAX_REDELIVERY)
            return
        message.failures += failed
        maximum = self.rules.redelivery_count_max
        if failed and maximum and message.failures > maximum:
            self._discard(sequence, DISCARD_MAX_REDELIVERY)
        elif failed and self.rules.redelivery_delay_ms:
            message.retry_at_ms = NOT_YET

    def _discard(self, sequence: int, reason: str) -> None:
        self.discards[reason] = self.discards.get(reason, 0) + 1
        gone = self.gone
        self._remove(sequence)
        if reason == DISCARD_NOT_STORED:
            self.gone = gone

    def _remove(self, sequence: int) -> None:
        del self.messages[sequence]
        self.settled.add(sequence)
        self.gone = max(self.gone, sequence)
