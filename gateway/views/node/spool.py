"""A view of the spool."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class SpoolView:
    """The spool. Sequences are valid within one incarnation of it only."""

    incarnation: str  # 16 hex digits: JSON numbers are not safe beyond 53 bits
    used_bytes: int
    limit_bytes: int
    messages_bytes: int  # payload of the messages in all durable queues
    messages_bytes_max: int  # their quota together
    blocked: str  # why it accepts no messages; empty: it does
    staged_bytes: int  # of transactions that are not committed
    transactions_open: int
    messages_count: int  # in all durable queues
    messages_count_max: int
    unacked_count: int  # unsettled, held by consumers
    unacked_count_max: int
    memory_bytes: int  # of messages in memory
    memory_bytes_max: int
    file_bytes: int  # the data file and the log; their unused space is used again
    disk_free_bytes: int
    log_bytes: int  # what a start reads of the log
    journal_records: int  # records in that part of the log
    pages: int
    quarantined: int  # damaged records that are kept aside


def incarnation_text(incarnation: int) -> str:
    """Return an incarnation as it is shown."""
    return f"{incarnation:016x}"
