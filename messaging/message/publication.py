"""One guaranteed publish on its way into queues: where it matched, what is still open, and the publisher to confirm.

The publisher's connection, the partitions it went to and the spool share a publication. All of them run on the node's
loop, so its counters need no lock.
"""

from typing import Final, final

from mypy_extensions import i64

from sluicegate.messaging.message.address import Address
from sluicegate.messaging.message.batch import MessageBatch

UNWRITTEN: Final = 0  # record numbers start at 1


@final
class PublicationMatch:
    """A partition that took rows of the publication, and the sequence its first row got there."""

    __slots__ = ("first_sequence", "partition_id", "rows")

    def __init__(self, partition_id: int, first_sequence: int, rows: list[int] | None) -> None:
        self.partition_id = partition_id
        self.first_sequence = first_sequence
        self.rows = rows  # the rows of the batch that went there; None: all


@final
class Publication:
    """A guaranteed batch and its state.

    `unsequenced_count` partitions have yet to number their rows; the last of them hands the publication to the spool.
    `open_count` is the number of (row, durable partition) pairs that are neither settled nor paged: at zero the journal
    no longer needs the publication, and one that was never written need not be. Until it is written,
    `undelivered_count` is the number of pairs that were never delivered to a consumer.
    """

    __slots__ = (
        "batch",
        "confirmed",
        "is_transaction",
        "matches",
        "only_moves",
        "open_count",
        "patience_ms",
        "publisher",
        "record_number",
        "refused",
        "rows_can_wait",
        "session_rows",
        "settlements",
        "token",
        "undelivered_count",
        "unsequenced_count",
    )

    def __init__(self, batch: MessageBatch, *, publisher: Address | None, token: int, partitions_count: i64) -> None:
        self.batch = batch
        self.publisher = publisher  # the address to confirm to; None after recovery
        self.token = token  # the publisher's own id of this publish
        self.matches: list[PublicationMatch] = []
        self.unsequenced_count = partitions_count
        self.open_count: i64 = 0
        self.undelivered_count: i64 = 0
        self.patience_ms: i64 = 0  # what its consumers mostly need to settle; 0: less than a commit interval
        self.record_number: i64 = UNWRITTEN
        self.confirmed = False
        self.refused = False  # the store could not write it
        # The commit that writes the publication writes both of these.
        self.session_rows: list[tuple[bytes, bytes]] | None = None
        self.rows_can_wait = False  # these rows, until consumers have had their time to settle the messages
        # Sequences in other partitions that it settles: its messages came from there, or its publisher consumed them.
        # Partition, first, end.
        self.settlements: list[tuple[int, int, int]] | None = None
        self.is_transaction = False  # a link sends nothing of it to a neighbor before it is stored
        self.only_moves = False  # it removes as much from the spool as it adds

    def sequenced(self, partition_id: int, first_sequence: int, rows: list[int] | None) -> bool:
        """Record that a partition numbered its rows; return whether it was the last."""
        self.note_match(partition_id, first_sequence, rows)
        self.opened(self.batch.count if rows is None else len(rows))
        self.unsequenced_count -= 1
        return self.unsequenced_count == 0

    def opened(self, count: i64) -> None:
        """Count rows that need the publication from now on and that no consumer has yet."""
        self.open_count += count
        self.undelivered_count += count

    def may_be_spared(self) -> bool:
        """Return whether consumers may settle all of it before it is written, so that it need not be."""
        if self.undelivered_count > 0 or self.settlements is not None:
            return False
        return self.session_rows is None or self.rows_can_wait

    def not_sequenced(self) -> bool:
        """Record that a partition stopped before it numbered its rows; return whether it was the last one awaited."""
        self.unsequenced_count -= 1
        return self.unsequenced_count == 0

    def note_match(self, partition_id: int, first_sequence: int, rows: list[int] | None) -> None:
        """Record the rows of a partition."""
        self.matches.append(PublicationMatch(partition_id, first_sequence, rows))

    def __repr__(self) -> str:
        return f"Publication({self.batch!r}, record={self.record_number}, open={self.open_count})"
