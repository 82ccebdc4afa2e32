"""The rows of staged transactions: one for each page, one for each committed name. JSON, as in the catalog.

A name's row contains the committed attempts until they are published; after that, only the name.
"""

from typing import Final, NamedTuple

import orjson

from sluicegate.messaging.bulk.staging import CommittedName, StagedPage, StagingArea
from sluicegate.messaging.message.ranges import RangeSet
from sluicegate.messaging.partitions.recovery import StoredPartition
from sluicegate.messaging.queues.definition import ANONYMOUS
from sluicegate.storage.interface import Table, TableWrite

PAGE_ROW: Final = b"page/"
_NAME: Final = b"name/"


class Decision(NamedTuple):
    """A committed transaction; it has `attempts` until they are published."""

    name: str
    decided_ms: int
    messages_count: int
    attempts: list[tuple[int, int]] | None
    user: str = ANONYMOUS

    def finished(self) -> "Decision":
        """Return the part that is kept after publication."""
        return self._replace(attempts=None)


class FoundStaging(NamedTuple):
    """The staged transactions found at a start."""

    area: StagingArea
    decisions: list[Decision]  # not finished
    published: RangeSet
    orphans: list[int]  # pages without a row
    gaps: list[tuple[int, int]]  # unsettled sequences without a page

    @property
    def messages_count(self) -> int:
        """The number of staged messages."""
        return sum(page.end - page.first for each in self.area.open.values() for page in each.pages)


def page_key(first: int) -> bytes:
    """Return the key of a page's row."""
    return PAGE_ROW + b"%020d" % first


def name_key(name: str) -> bytes:
    """Return the key of a name's row."""
    return _NAME + name.encode()


def page_row(page: StagedPage) -> TableWrite:
    """Return the row of a page."""
    return TableWrite(Table.TRANSACTIONS, page_key(page.first), orjson.dumps(list(page)))


def decision_row(decision: Decision) -> TableWrite:
    """Return the row of a committed name."""
    return TableWrite(Table.TRANSACTIONS, name_key(decision.name), orjson.dumps(list(decision)))


def find_staging(
    rows: dict[bytes, bytes],
    stored: StoredPartition | None,
    *,
    wall_ms: int,
    bytes_max: int,
    ttl_ms: int,
    names_kept_ms: int,
) -> FoundStaging:
    """Return the transactions in the store at a start: open, committed, and the published part of these."""
    published = RangeSet()
    pages = [] if stored is None else [(page.first, page.end) for page in stored.pages]
    next_sequence = 1
    if stored is not None:
        published.add(0, stored.floor)
        for first, end in stored.settled.ranges():
            published.add(first, end)
        next_sequence = max([stored.next_sequence, published.end(), *[end for _, end in pages]])
    area = StagingArea(next_sequence=next_sequence, bytes_max=bytes_max, ttl_ms=ttl_ms, names_kept_ms=names_kept_ms)
    decisions: list[Decision] = []
    known: set[int] = set()
    for key, value in rows.items():
        row = orjson.loads(value)
        if key.startswith(PAGE_ROW):
            page = StagedPage(*row)
            known.add(page.first)
            area.add_page(page, wall_ms)
            continue
        decision = Decision(*row)
        area.committed[decision.name] = CommittedName(decision.decided_ms, decision.messages_count, decision.user)
        if decision.attempts is not None:
            decisions.append(decision._replace(attempts=[(part, attempt) for part, attempt in decision.attempts]))
    held = RangeSet()
    for first, end in published.ranges():
        held.add(first, end)
    for transaction in area.open.values():
        for page in transaction.pages:
            held.add(page.first, page.end)
    orphans = [first for first, _ in pages if first not in known]
    return FoundStaging(area, decisions, published, orphans, held.outside(0, next_sequence))
