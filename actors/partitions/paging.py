"""What of a partition is in memory: its share of the node's budget, and moving the rest into pages of the store.

Which batches go is planned in messaging.partitions.paging and messaging.bulk.retained_log.
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
from sluicegate.messaging.partitions.suspended_flows import release_kept

PAGE_BYTES = 32_768  # of payload; between the 16 and 64 KiB at which LMDB's overflow pages waste little


@final
class PagingOut:
    """The memory of one partition. At most one set of pages is on its way to the store."""

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
        self._plans_out: list[PagePlan] | None = None  # pages on their way to the store
        self._through_record = 0  # asked for while pages were on their way; 0: nothing

    def use_log(self, log: RetainedLog) -> None:
        """Take the log of a ledger that was read back; pages that are on their way are no plans of theirs."""
        self._log = log
        self._plans_out = None
        if self._through_record:
            self.page_out(0)

    def balance(self) -> None:
        """Keep to the partition's share of memory."""
        held = self._held_bytes()
        memory = self._memory
        if held != self._counted_bytes:
            memory.count(held - self._counted_bytes)
            self._counted_bytes = held
        if self._spool is not None and held > memory.share():
            self._write(bytes_to_free=held - memory.share() // 2, through_record=None)

    def end(self) -> None:
        """Give the memory back."""
        self._memory.count(-self._counted_bytes)
        self._counted_bytes = 0

    def page_out(self, through_record: int) -> None:
        """Move what old journal records hold into pages, as soon as no others are on their way."""
        self._through_record = max(self._through_record, through_record)
        if self._plans_out is None:
            through, self._through_record = self._through_record, 0
            self._write(bytes_to_free=self._held_bytes(), through_record=through)

    def written(self, message: PagesWritten) -> None:
        """Let the pages take the place of what they were made of."""
        if message.plans is not self._plans_out:
            return  # planned by a ledger that was made anew since: it has found the pages, or what they were made of
        self._plans_out = None
        if not message.failed:
            for plan in message.plans:
                self._log.pages_written(plan)
        if self._through_record:
            self.page_out(0)

    def _held_bytes(self) -> i64:
        """Return what ledger and log hold; a batch that both hold counts twice, so pages are written the earlier."""
        return self._log.ledger.memory_bytes + self._log.memory_bytes

    def _write(self, *, bytes_to_free: int, through_record: int | None) -> None:
        if self._plans_out is not None or self._spool is None:
            return
        plans = self._log.plan_pages(page_bytes=PAGE_BYTES, bytes_to_free=bytes_to_free, through_record=through_record)
        if plans:
            self._plans_out = plans
            self._spool.post(WritePages(self._address, self._partition_id, plans))


# What a partition does with a page that was read for it, or that could not be.


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
