"""The unsettled deliveries of a consumer: the messages that its delivery ids refer to.

Ids are assigned in ascending runs and mostly settled in runs, so a run is one entry. They do not wrap here: a protocol
whose ids wrap extends them. See also: what a settlement does (messaging.partitions.ledger).
"""

from bisect import bisect_right
from collections.abc import Callable
from typing import final

from sluicegate.messaging.message.address import Address
from sluicegate.messaging.partitions.state.effects import Delivery


@final
class DeliverySource:
    """The target of settlements: a partition, with the flow, epoch and delivery count of the deliveries.

    Equal sources are one dict key: deliveries come from several in turn.
    """

    __slots__ = ("delivery_count", "epoch", "flow_id", "partition", "partition_number")

    def __init__(
        self, partition: Address, partition_number: int, flow_id: int, epoch: int, delivery_count: int
    ) -> None:
        self.partition = partition
        self.partition_number = partition_number
        self.flow_id = flow_id  # of the queue's flow, whatever the protocol's own id
        self.epoch = epoch
        self.delivery_count = delivery_count

    def has_brought(self, delivery: Delivery) -> bool:
        """Return whether a delivery of the partition has the source's flow, epoch and count."""
        return self.epoch == delivery.epoch and self.delivery_count == delivery.delivery_count

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DeliverySource) and self.partition is other.partition and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple[int, int, int, int]:
        return self.partition_number, self.flow_id, self.epoch, self.delivery_count


@final
class UnsettledRun:
    """Consecutive delivery ids that refer to consecutive sequences of one source."""

    __slots__ = ("count", "first_id", "first_sequence", "source")

    def __init__(self, first_id: int, count: int, first_sequence: int, source: DeliverySource) -> None:
        self.first_id = first_id
        self.count = count
        self.first_sequence = first_sequence
        self.source = source

    def sequences(self) -> tuple[int, int]:
        """Return the sequences as a half-open range."""
        return self.first_sequence, self.first_sequence + self.count

    def __repr__(self) -> str:
        return f"UnsettledRun({self.first_id}..{self.first_id + self.count - 1}, sequence {self.first_sequence})"


@final
class UnsettledDeliveries:
    """The unsettled deliveries of one sequence of ids: of a flow, or of several flows that share one.

    Invariants: runs ascend and are disjoint; none is empty; `count` is the sum of theirs.
    """

    def __init__(self) -> None:
        self.count = 0
        self._runs: list[UnsettledRun] = []
        self._firsts: list[int] = []

    def add(self, first_id: int, count: int, first_sequence: int, source: DeliverySource) -> None:
        """Add the deliveries that are sent next."""
        self.count += count
        if self._runs:
            last = self._runs[-1]
            if (
                last.source is source
                and last.first_id + last.count == first_id
                and last.first_sequence + last.count == first_sequence
            ):
                last.count += count
                return
        self._runs.append(UnsettledRun(first_id, count, first_sequence, source))
        self._firsts.append(first_id)

    def peek(self, first: int, end: int) -> list[UnsettledRun]:
        """Return the runs within the half-open range of ids, ascending."""
        return self._within(first, end, takes=False)

    def take(self, first: int, end: int) -> list[UnsettledRun]:
        """Remove and return the runs within the half-open range of ids, ascending."""
        return self._within(first, end, takes=True)

    def take_where(self, is_gone: Callable[[DeliverySource], bool]) -> list[UnsettledRun]:
        """Remove and return the runs of some sources, ascending."""
        taken = [run for run in self._runs if is_gone(run.source)]
        if taken:
            self._runs = [run for run in self._runs if not is_gone(run.source)]
            self._firsts = [run.first_id for run in self._runs]
            self.count -= sum([run.count for run in taken])
        return taken

    def _within(self, first: int, end: int, *, takes: bool) -> list[UnsettledRun]:
        found: list[UnsettledRun] = []
        index = max(0, bisect_right(self._firsts, first) - 1)
        while index < len(self._runs):
            run = self._runs[index]
            stop = run.first_id + run.count
            if run.first_id >= end:
                break
            if stop <= first:
                index += 1
                continue
            low = max(first, run.first_id)
            high = min(end, stop)
            found.append(UnsettledRun(low, high - low, run.first_sequence + low - run.first_id, run.source))
            index = self._cut(index, run, low, high) if takes else index + 1
        if takes:
            self.count -= sum([run.count for run in found])
        return found

    def _cut(self, index: int, run: UnsettledRun, low: int, high: int) -> int:
        """Remove ids from one run; return the index of the run after what is left of it."""
        stop = run.first_id + run.count
        rest: list[UnsettledRun] = []
        if run.first_id < low:
            rest.append(UnsettledRun(run.first_id, low - run.first_id, run.first_sequence, run.source))
        if high < stop:
            rest.append(UnsettledRun(high, stop - high, run.first_sequence + high - run.first_id, run.source))
        self._runs[index : index + 1] = rest
        self._firsts[index : index + 1] = [each.first_id for each in rest]
        return index + len(rest)

    def check(self) -> None:
        """Assert the invariants."""
        assert self._firsts == [run.first_id for run in self._runs]
        assert self.count == sum([run.count for run in self._runs])
        for run in self._runs:
            assert run.count > 0, "no run is empty"
        for before, after in zip(self._runs, self._runs[1:], strict=False):
            assert before.first_id + before.count <= after.first_id, "runs ascend and are disjoint"
