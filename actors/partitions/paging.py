"""The memory of a partition: its share of the node's budget, and moving the rest into pages of the store.

messaging.partitions.paging and messaging.bulk.retained_log plan which batches are paged.
"""

from typing import final

from mypy_extensions import i64

from sluicegate.actors.messages.spool import PageRead, PagesWritten, ReadPage, SetPageAside, WritePages
from sluicegate.actors.runtime.inbox import Inbox
from sluicegate.actors.runtime.runtime import Runtime
from sluicegate.actors.spool.store_threads import StoreReader
from sluicegate.messaging.bulk.retained_log import RetainedLog
from sluicegate.messaging.message.address import Address
from sluicegate.messaging.partitions.ledger import Ledger
from sluicegate.messaging.partitions.paging import MemoryBudget, PagePlan, is_awaited, page_damaged, page_loaded
from sluicegate.messaging.partitions.suspended_flows import release_resends

PAGE_BYTES = 32_768  # of payload; between the 16 and 64 KiB at which LMDB's overflow pages waste little


@final
class PagingOut:
    """The memory of one partition. At most one set of pages is being written."""

    def __init__(
        self,
        address: Address,
        *,
        log: RetainedLog,
        partition_id: int,
        memory: MemoryBudget,
        spool: Address | None,
    ) -> None:
        self._address = address
        self._log = log
        self._partition_id = partition_id
        self._memory = memory
        self._spool = spool  # None: this partition's messages are never written
        self._counted_bytes: i64 = 0
        self._plans_out: list[PagePlan] | None = None  # pages being written
        self._through_record = 0  # requested while pages were being written; 0: none

    def use_log(self, log: RetainedLog) -> None:
        """Use the log of a reloaded ledger; pages that are being written are not its plans."""
        self._log = log
        self._plans_out = None
        if self._through_record:
            self.page_out(0)

    def balance(self) -> None:
        """Page out what exceeds the partition's share of memory."""
        held = self._held_bytes()
        memory = self._memory
        if held != self._counted_bytes:
            memory.count(held - self._counted_bytes)
            self._counted_bytes = held
        if self._spool is not None and held > memory.share():
            self._write(bytes_to_free=held - memory.share() // 2, through_record=None)

    def end(self) -> None:
        """Return the memory to the budget."""
        self._memory.count(-self._counted_bytes)
        self._counted_bytes = 0

    def page_out(self, through_record: int) -> None:
        """Page out what old journal records hold, as soon as no other pages are being written."""
        self._through_record = max(self._through_record, through_record)
        if self._plans_out is None:
            through, self._through_record = self._through_record, 0
            self._write(bytes_to_free=self._held_bytes(), through_record=through)

    def written(self, message: PagesWritten) -> None:
        """Replace the planned segments by the written pages."""
        if message.plans is not self._plans_out:
            return  # planned by a ledger that was reloaded since: it has found the pages, or their segments
        self._plans_out = None
        if not message.failed:
            for plan in message.plans:
                self._log.pages_written(plan)
        if self._through_record:
            self.page_out(0)

    def _held_bytes(self) -> i64:
        """Return the bytes in ledger and log; a batch in both counts twice, so pages are written earlier."""
        return self._log.ledger.memory_bytes + self._log.memory_bytes

    def _write(self, *, bytes_to_free: int, through_record: int | None) -> None:
        if self._plans_out is not None or self._spool is None:
            return
        plans = self._log.plan_pages(page_bytes=PAGE_BYTES, bytes_to_free=bytes_to_free, through_record=through_record)
        if plans:
            self._plans_out = plans
            self._spool.post(WritePages(self._address, self._partition_id, plans))


READ_AGAIN_MS = 1000  # between two attempts to read a page from a store that fails


@final
class PageArrivals:
    """Handles the pages that were read for one partition, or could not be."""

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
        """Load a page into the ledger; a damaged page is quarantined, and its messages are given up."""
        if message.failed:
            self._runtime.after(READ_AGAIN_MS, lambda: self._read_again(message.first_sequence))
        elif message.damage:
            # Quarantined first: giving up its messages deletes the page in the same commit.
            assert self._spool is not None
            self._spool.post(SetPageAside(self._partition_id, message.first_sequence, message.damage))
            release_resends(ledger, message.first_sequence)
            page_damaged(ledger, message.first_sequence)
        else:
            if message.lost and is_awaited(ledger, message.first_sequence):
                assert self._spool is not None
                self._spool.post(SetPageAside(self._partition_id, message.first_sequence, message.lost, stays=True))
            page_loaded(ledger, message.first_sequence, message.runs)

    def _read_again(self, page_first: int) -> None:
        """Request a page again: after a disk error it is not lost."""
        if not self._address.closed and self._reader is not None:
            self._reader.read(ReadPage(self._address, self._partition_id, page_first))
