"""What a client's delivery state (3.4) means to a queue: its outcome, and what comes with that.

Deliberately elsewhere: which deliveries a state is about (`consuming`), and what a transaction makes of it
(`transacting`).
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
from sluicegate.protocols.amqp.messages.annotations import noted

Ranges = list[tuple[int, int]]


@final
class Verdict:
    """What a queue is told of deliveries. Never changed; equal ones are one key."""

    __slots__ = ("cause", "notes", "outcome")

    def __init__(self, outcome: int, *, cause: str = "", notes: bytes = b"") -> None:
        self.outcome = outcome  # one of messaging.message.outcomes
        self.cause = cause[:CAUSE_CHARS_MAX]  # what the client says of a rejection; empty: nothing
        self.notes = notes  # annotations to be merged into those of the messages, encoded; empty: none

    def tell(self, source: DeliverySource, ranges: Ranges, when_stored: Address | None = None) -> None:
        """Tell a queue; with `when_stored` it says there when the store knows, or that the outcome came too late."""
        if self.notes:  # before the settlement, while the flow holds the messages
            source.partition.post(
                AnnotateDelivery(source.flow_id, source.epoch, ranges, source.delivery_count, self.notes)
            )
        first, end = ranges[0]
        count = source.delivery_count
        settle = Settle(source.flow_id, source.epoch, first, end, self.outcome, self.cause, ranges[1:], count)
        source.partition.post(settle if when_stored is None else SettleDurably(settle, when_stored))

    def size(self) -> int:
        """Return how many bytes it holds beside itself."""
        return len(self.cause) + len(self.notes)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Verdict) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple[int, str, bytes]:
        return self.outcome, self.cause, self.notes

    def __repr__(self) -> str:
        return f"Verdict({self.outcome}, {self.cause!r}, {len(self.notes)} bytes of notes)"


ACCEPTED_VERDICT: Final = Verdict(ACCEPTED)
RELEASED_VERDICT: Final = Verdict(RELEASED)
FAILED_VERDICT: Final = Verdict(FAILED)


@final
class Verdicts:
    """What becomes of many deliveries, by where they come from. A sequence has one verdict, the last it was given."""

    def __init__(self) -> None:
        self.by_source: dict[DeliverySource, dict[Verdict, RangeSet]] = {}

    def give(self, source: DeliverySource, first: int, end: int, verdict: Verdict) -> None:
        """Note what becomes of `[first, end)`."""
        by_verdict = self.by_source.setdefault(source, {})
        for ranges in by_verdict.values():
            ranges.discard(first, end)
        by_verdict.setdefault(verdict, RangeSet()).add(first, end)


def verdict_of(link: OutgoingLink, state: DeliveryState | None) -> Verdict:
    """Return what a state means for deliveries of a link.

    Settled without an outcome (3.5.3): what the link said of that, or given back untouched. How much of a message has
    been received is none.
    """
    if state is None or state.code == outcomes.RECEIVED:
        terminus = link.attach.source
        state = None if terminus is None else terminus.default_outcome
    if state is None:
        return RELEASED_VERDICT
    if state.code == outcomes.ACCEPTED:
        return ACCEPTED_VERDICT
    if state.code == outcomes.REJECTED:
        return Verdict(REJECTED, cause=_cause_of(state))
    if state.code == outcomes.MODIFIED:
        outcome = FAILED if state.delivery_failed else RELEASED
        if state.undeliverable_here:
            outcome = FAILED_ELSEWHERE if state.delivery_failed else RELEASED_ELSEWHERE
        return Verdict(outcome, notes=b"" if state.annotations is None else noted(state.annotations))
    return RELEASED_VERDICT


def _cause_of(state: DeliveryState) -> str:
    """Return what a client says of a rejection: the error's condition and description (3.4.3)."""
    error = state.error
    if error is None:
        return ""
    return f"{error.condition}: {error.description}" if error.description else error.condition
