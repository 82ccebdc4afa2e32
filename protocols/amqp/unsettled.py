"""The deliveries of one session that we sent and nobody has settled: which message each delivery id stands for.

Ids are given out in ascending runs and mostly settled in runs, so a run is one entry. Ids on the wire are serial
numbers of 32 bits; here they are counted on without wrapping.
"""

from bisect import bisect_right
from typing import Final, final

from messaging.address import Address
from protocols.amqp.link import SERIAL_MASK, OutgoingLink

_HALF: Final = 0x8000_0000


@final
class DeliverySource:
    """Where settlements go: a partition, under the flow and epoch that messages were delivered with."""

    __slots__ = ("epoch", "flow_id", "link", "partition")

    def __init__(self, partition: Address, flow_id: int, epoch: int, link: OutgoingLink) -> None:
        self.partition = partition
        self.flow_id = flow_id
        self.epoch = epoch
        self.link = link


@final
class UnsettledRun:
    """Consecutive delivery ids that stand for consecutive sequences of one source."""

    __slots__ = ("count", "first_id", "first_sequence", "source")

    def __init__(self, first_id: int, count: int, first_sequence: int, source: DeliverySource) -> None:
        self.first_id = first_id
        self.count = count
        self.first_sequence = first_sequence
        self.source = source

    def wire_ids(self) -> tuple[int, int]:
        """Return the first and the last delivery id, as they are on the wire."""
        return self.first_id & SERIAL_MASK, (self.first_id + self.count - 1) & SERIAL_MASK


@final
class Unsettled:
    """The unsettled deliveries of one session.

    Invariants: runs ascend and are disjoint; none is empty.
    """

    def __init__(self) -> None:
        self._runs: list[UnsettledRun] = []
        self._firsts: list[int] = []
        self._next_id = 0  # not wrapped

    def add(self, wire_id: int, count: int, first_sequence: int, source: DeliverySource) -> None:
        """Note deliveries, the next ones sent."""
        first_id = self._unwrapped(wire_id)
        self._next_id = first_id + count
        runs = self._runs
        if runs:
            last = runs[-1]
            if (
                last.source is source
                and last.first_id + last.count == first_id
                and last.first_sequence + last.count == first_sequence
            ):
                last.count += count
                return
        runs.append(UnsettledRun(first_id, count, first_sequence, source))
        self._firsts.append(first_id)

    def take(self, first: int, last: int) -> list[UnsettledRun]:
        """Remove the deliveries `first` to `last`, wire ids, both included; return those there were."""
        begin = self._unwrapped(first)
        end = self._unwrapped(last) + 1
        taken: list[UnsettledRun] = []
        index = bisect_right(self._firsts, begin) - 1
        if index < 0:
            index = 0
        while index < len(self._runs):
            run = self._runs[index]
            stop = run.first_id + run.count
            if run.first_id >= end:
                break
            if stop <= begin:
                index += 1
                continue
            low = max(begin, run.first_id)
            high = min(end, stop)
            taken.append(UnsettledRun(low, high - low, run.first_sequence + low - run.first_id, run.source))
            index = self._cut(index, run, low, high)
        return taken

    def find(self, first: int, last: int) -> list[UnsettledRun]:
        """Return the deliveries `first` to `last`, wire ids, both included, that there are; they stay."""
        begin = self._unwrapped(first)
        end = self._unwrapped(last) + 1
        found: list[UnsettledRun] = []
        for index in range(max(0, bisect_right(self._firsts, begin) - 1), len(self._runs)):
            run = self._runs[index]
            if run.first_id >= end:
                break
            low = max(begin, run.first_id)
            high = min(end, run.first_id + run.count)
            if low < high:
                found.append(UnsettledRun(low, high - low, run.first_sequence + low - run.first_id, run.source))
        return found

    def take_of(self, link: OutgoingLink) -> list[UnsettledRun]:
        """Remove every delivery of a link; return them, oldest first."""
        taken = [run for run in self._runs if run.source.link is link]
        if taken:
            self._runs = [run for run in self._runs if run.source.link is not link]
            self._firsts = [run.first_id for run in self._runs]
        return taken

    def _cut(self, index: int, run: UnsettledRun, low: int, high: int) -> int:
        """Take `[low, high)` out of a run; return the index of what follows it."""
        stop = run.first_id + run.count
        rest: list[UnsettledRun] = []
        if run.first_id < low:
            rest.append(UnsettledRun(run.first_id, low - run.first_id, run.first_sequence, run.source))
        if high < stop:
            rest.append(UnsettledRun(high, stop - high, run.first_sequence + high - run.first_id, run.source))
        self._runs[index : index + 1] = rest
        self._firsts[index : index + 1] = [each.first_id for each in rest]
        return index + len(rest)

    def _unwrapped(self, wire_id: int) -> int:
        """Return the count behind a wire id: the one nearest to what was sent last."""
        distance = (wire_id - self._next_id) & SERIAL_MASK
        return self._next_id + (distance if distance < _HALF else distance - (1 << 32))
