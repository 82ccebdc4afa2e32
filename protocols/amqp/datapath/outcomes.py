"""The meaning of a client's delivery state (3.4) for a queue: a settlement with its outcome, cause and annotations.

See also: which deliveries a state is about (`consuming`), and states in a transaction (`links.coordinator`).
"""

from typing import Final, final

from sluicegate.actors.messages.data import AnnotateDelivery, Settle, SettleDurably
from sluicegate.messaging.message.address import Address
from sluicegate.messaging.message.headers import CAUSE_CHARS_MAX
from sluicegate.messaging.message.outcomes import (
    ACCEPTED,
    FAILED,
    FAILED_ELSEWHERE,
    REJECTED,
    RELEASED,
    RELEASED_ELSEWHERE,
)
from sluicegate.messaging.message.ranges import RangeSet
from sluicegate.messaging.partitions.state.unsettled import DeliverySource
from sluicegate.protocols.amqp.codec import delivery_states as outcomes
from sluicegate.protocols.amqp.codec.delivery_states import DeliveryState
from sluicegate.protocols.amqp.engine.link import OutgoingLink
from sluicegate.protocols.amqp.messages.encode import encode_annotations

Ranges = list[tuple[int, int]]


@final
class Settlement:
    """The outcome of deliveries as their queue gets it. Immutable; equal ones are one key."""

    __slots__ = ("annotations", "cause", "outcome")

    def __init__(self, outcome: int, *, cause: str = "", annotations: bytes = b"") -> None:
        self.outcome = outcome  # one of messaging.message.outcomes
        self.cause = cause[:CAUSE_CHARS_MAX]  # what the client says of a rejection; empty: nothing
        self.annotations = annotations  # annotations to be merged into those of the messages, encoded; empty: none

    def send(self, source: DeliverySource, ranges: Ranges, when_stored: Address | None = None) -> None:
        """Send it to a queue; with `when_stored` the queue answers there when it is stored, or came too late."""
        if self.annotations:  # before the settlement, while the flow holds the messages
            source.partition.post(
                AnnotateDelivery(source.flow_id, source.epoch, ranges, source.delivery_count, self.annotations)
            )
        first, end = ranges[0]
        count = source.delivery_count
        settle = Settle(source.flow_id, source.epoch, first, end, self.outcome, self.cause, ranges[1:], count)
        source.partition.post(settle if when_stored is None else SettleDurably(settle, when_stored))

    def size(self) -> int:
        """Return how many bytes its texts take."""
        return len(self.cause) + len(self.annotations)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Settlement) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple[int, str, bytes]:
        return self.outcome, self.cause, self.annotations

    def __repr__(self) -> str:
        return f"Settlement({self.outcome}, {self.cause!r}, {len(self.annotations)} bytes of annotations)"


ACCEPTED_SETTLEMENT: Final = Settlement(ACCEPTED)
RELEASED_SETTLEMENT: Final = Settlement(RELEASED)
FAILED_SETTLEMENT: Final = Settlement(FAILED)


@final
class Settlements:
    """Settlements of many deliveries, by their source. A sequence has one settlement, the last recorded."""

    def __init__(self) -> None:
        self.by_source: dict[DeliverySource, dict[Settlement, RangeSet]] = {}

    def record(self, source: DeliverySource, first: int, end: int, settlement: Settlement) -> None:
        """Record the settlement of `[first, end)`."""
        by_settlement = self.by_source.setdefault(source, {})
        for ranges in by_settlement.values():
            ranges.discard(first, end)
        by_settlement.setdefault(settlement, RangeSet()).add(first, end)


def settlement_of(link: OutgoingLink, state: DeliveryState | None) -> Settlement:
    """Return what a state means for deliveries of a link.

    Settled without an outcome (3.5.3): what the link said of that, or given back untouched. How much of a message has
    been received is none.
    """
    if state is None or state.code == outcomes.RECEIVED:
        terminus = link.attach.source
        state = None if terminus is None else terminus.default_outcome
    if state is None:
        return RELEASED_SETTLEMENT
    if state.code == outcomes.ACCEPTED:
        return ACCEPTED_SETTLEMENT
    if state.code == outcomes.REJECTED:
        return Settlement(REJECTED, cause=_cause_of(state))
    if state.code == outcomes.MODIFIED:
        outcome = FAILED if state.delivery_failed else RELEASED
        if state.undeliverable_here:
            outcome = FAILED_ELSEWHERE if state.delivery_failed else RELEASED_ELSEWHERE
        return Settlement(
            outcome, annotations=b"" if state.annotations is None else encode_annotations(state.annotations)
        )
    return RELEASED_SETTLEMENT


def _cause_of(state: DeliveryState) -> str:
    """Return the cause of a rejection: the error's condition and description (3.4.3)."""
    error = state.error
    if error is None:
        return ""
    return f"{error.condition}: {error.description}" if error.description else error.condition
