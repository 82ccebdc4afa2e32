"""Work for a store, with numbers and positions as a planner would give them."""

from collections.abc import Sequence

from sluicegate.storage.interface import (
    CheckpointJob,
    CommitJob,
    PageDamage,
    PageKey,
    PageWrite,
    Reservation,
    Store,
    TableWrite,
)
from sluicegate.storage.records.cursor import CursorRecord


def next_number(store: Store) -> int:
    """Return the number of the next record."""
    return store.recover().next_record_number


def commit(
    store: Store,
    *,
    record: bytes | None = None,
    rows: Sequence[TableWrite] = (),
    staged: Sequence[PageWrite] = (),
    reservations: Sequence[Reservation] = (),
    purges: Sequence[int] = (),
    uses_reserve: bool = False,
) -> int:
    """Commit under the next number, and return it."""
    number = next_number(store)
    store.commit(
        CommitJob(
            number=number,
            record=record,
            staged_pages=list(staged),
            reservations=list(reservations),
            table_writes=list(rows),
            partition_purges=list(purges),
            uses_reserve=uses_reserve,
        )
    )
    return number


def checkpoint(
    store: Store,
    *,
    pages: Sequence[PageWrite] = (),
    deletes: Sequence[PageKey] = (),
    quarantines: Sequence[PageDamage] = (),
    cursors: Sequence[CursorRecord] = (),
    needed_from: int = 1,
) -> None:
    """Make a checkpoint of everything that is committed. By default, every record stays needed."""
    store.checkpoint(
        CheckpointJob(
            applied=next_number(store) - 1,
            needed_from=needed_from,
            page_quarantines=list(quarantines),
            page_deletes=list(deletes),
            page_writes=list(pages),
            cursor_puts=list(cursors),
        )
    )


def trim(store: Store) -> None:
    """Make a checkpoint after which no record is needed."""
    checkpoint(store, needed_from=next_number(store))
