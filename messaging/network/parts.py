"""Divide one batch among neighbors: which rows each gets, and for whom there."""

from typing import Final, final

from sluicegate.messaging.message.batch import AT_MOST_ONCE, MessageBatch
from sluicegate.messaging.network.link import SUBSCRIBERS, GroupKey, LinkOutput, LinkTargets
from sluicegate.messaging.network.neighbors import LinkRoute, NeighborInterest, RemoteGroup

_FOR_SUBSCRIBERS: Final = 1
_FOR_ONE: Final = 2


@final
class _RowTargets:
    """The destinations of one row at one neighbor."""

    __slots__ = ("classes", "groups")

    def __init__(self) -> None:
        self.classes = 0
        self.groups: list[GroupKey] = []

    def is_like(self, other: "_RowTargets") -> bool:
        return self.classes == other.classes and self.groups == other.groups

    def targets(self) -> LinkTargets:
        if self.classes == _FOR_SUBSCRIBERS and not self.groups:
            return SUBSCRIBERS
        return LinkTargets(
            subscribers=bool(self.classes & _FOR_SUBSCRIBERS),
            deliver_to_one=bool(self.classes & _FOR_ONE),
            groups=tuple(self.groups),
        )


@final
class LinkParts:
    """What goes to each neighbor of the rows of one batch: first gathered, route by route, then sent."""

    def __init__(self, interest: NeighborInterest, batch: MessageBatch) -> None:
        self._interest = interest
        self.batch: Final = batch
        self._is_guaranteed: Final = batch.qos != AT_MOST_ONCE
        self._plain: dict[LinkOutput, list[int]] = {}  # rows for subscribers, of neighbors that get nothing else
        self._mixed: dict[LinkOutput, dict[int, _RowTargets]] = {}

    def add(self, links: LinkRoute, rows: list[int], groups: list[RemoteGroup], unclaimed: list[int] | None) -> None:
        """Add rows with the same route.

        `groups` are shared groups without a local member that could take the rows. `unclaimed` are Deliver-To-One rows
        that no local client has the turn for; None: no row asks for Deliver-To-One.
        """
        for group in groups:
            for row in rows:
                self._targets(group.next_output(), row).groups.append(group.key)
        if unclaimed is not None:
            self._add_asking(links, rows, unclaimed)
            return
        for output in links.beside if self._is_guaranteed else links.outputs:
            self._plain.setdefault(output, []).extend(rows)

    def _add_asking(self, links: LinkRoute, rows: list[int], unclaimed: list[int]) -> None:
        """Add rows some of which ask for Deliver-To-One."""
        is_guaranteed = self._is_guaranteed
        for match in links.matches:
            if is_guaranteed and match.output not in links.beside:
                continue  # they get it from the link's queue, as queues there do
            for row in rows:
                headers = self.batch.headers_of(row)
                # Of a guaranteed message only the direct copies are shared out; every queue gets it.
                if match.always or is_guaranteed or headers is None or not headers.deliver_to_one:
                    self._targets(match.output, row).classes |= _FOR_SUBSCRIBERS
        if links.has_candidates:
            for row in unclaimed:
                self._interest.turns_count += 1
                self._targets(links.next_candidate(self._interest.turns_count), row).classes |= _FOR_ONE

    def _targets(self, output: LinkOutput, row: int) -> _RowTargets:
        by_row = self._mixed.get(output)
        if by_row is None:
            by_row = self._mixed[output] = {}
        found = by_row.get(row)
        if found is None:
            found = by_row[row] = _RowTargets()
        return found

    def stored(self) -> list[tuple[LinkOutput, int, LinkTargets]]:
        """Take out what is chosen for one receiver, where the neighbor has a link queue: it goes there instead.

        Only of guaranteed messages. Returned are neighbor, row and targets, in the order of the rows.
        """
        found: list[tuple[LinkOutput, int, LinkTargets]] = []
        for output, by_row in self._mixed.items():
            if not output.has_queue:
                continue
            for row in [row for row, each in by_row.items() if each.groups or each.classes & _FOR_ONE]:
                found.append((output, row, by_row.pop(row).targets()))
        found.sort(key=_row_of)
        return found

    def send(self) -> int:
        """Send the parts; return the number of messages that the neighbors get together."""
        sent_count = 0
        selections: list[tuple[list[int], MessageBatch]] = []  # parts that were sent: neighbors often get the same
        for output in self._mixed:
            for row in self._plain.pop(output, []):
                self._targets(output, row).classes |= _FOR_SUBSCRIBERS
        for output, plain_rows in self._plain.items():
            plain_rows.sort()
            sent_count += self._send(output, plain_rows, SUBSCRIBERS, selections)
        for output, by_row in self._mixed.items():
            for rows, targets in _runs(by_row):
                sent_count += self._send(output, rows, targets, selections)
        return sent_count

    def _send(
        self,
        output: LinkOutput,
        rows: list[int],
        targets: LinkTargets,
        parts: list[tuple[list[int], MessageBatch]],
    ) -> int:
        if len(rows) == self.batch.count:
            output.send(self.batch, targets)
            return len(rows)
        for known, part in parts:
            if known == rows:
                output.send(part, targets)
                return len(rows)
        part = self.batch.select(rows)
        parts.append((rows, part))
        output.send(part, targets)
        return len(rows)


def _row_of(choice: tuple[LinkOutput, int, LinkTargets]) -> int:
    return choice[1]


def _runs(by_row: dict[int, _RowTargets]) -> list[tuple[list[int], LinkTargets]]:
    """Return the rows in order, cut where the targets change: two batches for all would change the order."""
    runs: list[tuple[list[int], LinkTargets]] = []
    last: _RowTargets | None = None
    for row in sorted(by_row):
        found = by_row[row]
        if last is not None and last.is_like(found):
            runs[-1][0].append(row)
        else:
            runs.append(([row], found.targets()))
            last = found
    return runs
