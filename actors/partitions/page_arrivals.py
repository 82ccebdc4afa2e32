"""What a partition does with a page that was read for it, or that could not be."""

from typing import final

from sluicegate.actors.messages.queues import PageRead, ReadPage, SetPageAside
from sluicegate.actors.runtime.inbox import Inbox
from sluicegate.actors.runtime.runtime import Runtime
from sluicegate.actors.spool.store_threads import StoreReader
from sluicegate.messaging.message.address import Address
from sluicegate.messaging.partitions.ledger import Ledger
from sluicegate.messaging.partitions.paging import is_awaited, page_damaged, page_loaded
from sluicegate.messaging.partitions.parking import release_kept

READ_AGAIN_MS = 1000  # between two attempts to read a page from a store that fails


@final
class PageArrivals:
    """Takes the pages of one partition."""

    def __init__(
        self,
        runtime: Runtime,
        address: Inbox,
        *,
        partition_id: int,
        spool: Address | None,
        reader: StoreReader | None,
    ) -> None:
        self._runtime = runtime
        self._address = address
        self._partition_id = partition_id
        self._spool = spool
        self._reader = reader

    def take(self, ledger: Ledger, message: PageRead) -> None:
        """Bring a page into the ledger; one that is damaged is set aside, with its messages given up."""
        if message.failed:
            self._runtime.after(READ_AGAIN_MS, lambda: self._read_again(message.first_sequence))
        elif message.damage:
            # Set aside first: giving up its messages deletes the page in the same commit.
            assert self._spool is not None
            self._spool.post(SetPageAside(self._partition_id, message.first_sequence, message.damage))
            release_kept(ledger, message.first_sequence)
            page_damaged(ledger, message.first_sequence)
        else:
            if message.lost and is_awaited(ledger, message.first_sequence):
                assert self._spool is not None
                self._spool.post(SetPageAside(self._partition_id, message.first_sequence, message.lost, stays=True))
            page_loaded(ledger, message.first_sequence, message.runs)

    def _read_again(self, page_first: int) -> None:
        """Ask for a page again: what a disk cannot give now is not lost."""
        if not self._address.closed and self._reader is not None:
            self._reader.read(ReadPage(self._address, self._partition_id, page_first))
