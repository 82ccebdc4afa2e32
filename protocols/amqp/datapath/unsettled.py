"""The deliveries of one session that are sent and not settled, by their ids on the wire.

The deliveries themselves are in `messaging.partitions.state.unsettled`, which counts on without wrapping; ids on the
wire are serial numbers of 32 bits.
"""

from typing import Final, final

from sluicegate.messaging.partitions.state.unsettled import DeliverySource, UnsettledDeliveries, UnsettledRun
from sluicegate.protocols.amqp.engine.link import SERIAL_MASK

_HALF: Final = 0x8000_0000


@final
class Unsettled:
    """The unsettled deliveries of one session, over all its links."""

    def __init__(self) -> None:
        self._held = UnsettledDeliveries()
        self._next_id = 0  # not wrapped

    def add(self, wire_id: int, count: int, first_sequence: int, source: DeliverySource) -> None:
        """Note deliveries, the next ones sent."""
        first_id = self._unwrapped(wire_id)
        self._next_id = first_id + count
        self._held.add(first_id, count, first_sequence, source)

    def take(self, first: int, last: int) -> list[UnsettledRun]:
        """Remove the deliveries `first` to `last`, wire ids, both included; return those there were."""
        return self._held.take(self._unwrapped(first), self._unwrapped(last) + 1)

    def find(self, first: int, last: int) -> list[UnsettledRun]:
        """Return the deliveries `first` to `last`, wire ids, both included, that there are; they stay."""
        return self._held.peek(self._unwrapped(first), self._unwrapped(last) + 1)

    def take_of(self, flow_id: int) -> list[UnsettledRun]:
        """Remove every delivery of a flow; return them, oldest first."""
        return self._held.take_where(lambda source: source.flow_id == flow_id)

    def _unwrapped(self, wire_id: int) -> int:
        """Return the count behind a wire id: the one nearest to what was sent last."""
        distance = (wire_id - self._next_id) & SERIAL_MASK
        return self._next_id + (distance if distance < _HALF else distance - (1 << 32))


def wire_ids(run: UnsettledRun) -> tuple[int, int]:
    """Return the first and the last delivery id of a run, as they are on the wire."""
    return run.first_id & SERIAL_MASK, (run.first_id + run.count - 1) & SERIAL_MASK
