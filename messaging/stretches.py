"""What a retained log is made of: consecutive sequences in a batch that the journal has, or in a page."""

from typing import Final, final

from messaging.batch import MessageBatch
from messaging.publication import Publication

NO_PAGE: Final = -1


@final
class Stretch:
    """Consecutive sequences `[first, end)`: the rows of one batch, or what lies of them in one page."""

    __slots__ = (
        "arrived_ms",
        "batch",
        "bytes_before",
        "end",
        "first",
        "page_first",
        "payload_bytes",
        "publication",
    )

    def __init__(
        self,
        first: int,
        end: int,
        payload_bytes: int,
        arrived_ms: int,
        *,
        batch: MessageBatch | None,
        publication: Publication | None,
        page_first: int,
    ) -> None:
        self.first = first
        self.end = end
        self.payload_bytes = payload_bytes
        self.arrived_ms = arrived_ms  # wall clock, of the oldest, or later; 0: not known, of pages of earlier releases
        self.batch = batch
        self.publication = publication
        self.page_first = page_first  # key of its page in the store; NO_PAGE while the journal has it
        self.bytes_before = 0  # payload bytes that came into the log before it: the byte index

    def __repr__(self) -> str:
        return f"Stretch({self.first}..{self.end - 1}, {'page' if self.batch is None else 'memory'})"


def journaled(first: int, batch: MessageBatch, publication: Publication) -> Stretch:
    """Return the stretch of a batch that the journal has, or will have."""
    return Stretch(
        first,
        first + batch.count,
        batch.payload_bytes,
        batch.received_ms,
        batch=batch,
        publication=publication,
        page_first=NO_PAGE,
    )


def paged(page_first: int, first: int, end: int, payload_bytes: int, arrived_ms: int) -> Stretch:
    """Return the stretch of a page of the store."""
    return Stretch(first, end, payload_bytes, arrived_ms, batch=None, publication=None, page_first=page_first)
