"""Why a sequence has no message, for readers of ranges: they count what they get, and the gaps have to be explained.

Reasons are recorded as they arise and live as long as the process: sequences that went before the last start are called
settled. Ranges are kept up to a limit; the oldest are forgotten first, and are then called settled as well.
"""

from typing import Final, NamedTuple, final

from sluicegate.messaging.message.ranges import RangeSet

GAP_SETTLED: Final = "settled"  # consumed, or gone for a reason that is no longer known
GAP_NEVER_USED: Final = "never_used"  # skipped by a crash, or lost with a damaged record: see the quarantine
GAP_MOVED: Final = "moved"  # it is in another queue: the dead message queue, or the target of an operator's move

RANGES_MAX: Final = 4096  # per reason and partition: 64 KiB; scattered discards beyond it lose their reason


class Gap(NamedTuple):
    """Sequences `[first, end)` without messages, and the reason."""

    first: int
    end: int
    reason: str


@final
class GapReasons:
    """Reasons for the sequences of one partition that no consumer settled."""

    def __init__(self) -> None:
        self._ranges: dict[str, RangeSet] = {}

    def note(self, reason: str, first: int, end: int) -> None:
        """Record why `[first, end)` went. The reasons are those of messaging.message.outcomes, and GAP_NEVER_USED."""
        ranges = self._ranges.get(reason)
        if ranges is None:
            ranges = self._ranges[reason] = RangeSet()
        ranges.add(first, end)
        if ranges.ranges_count() > RANGES_MAX:
            ranges.discard(ranges.lowest(), ranges.lowest_end())

    def explain(self, first: int, end: int) -> list[Gap]:
        """Return the gaps of `[first, end)`, none of which holds a message, each with its reason, ascending."""
        explained: list[Gap] = []
        known = RangeSet()
        for reason, ranges in self._ranges.items():
            for start, stop in ranges.within(first, end):
                explained.append(Gap(start, stop, reason))
                known.add(start, stop)
        explained += [Gap(start, stop, GAP_SETTLED) for start, stop in known.outside(first, end)]
        explained.sort()
        return explained
