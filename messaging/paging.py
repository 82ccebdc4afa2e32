"""Moving a partition's waiting messages between memory and the pages of the store.

A page is planned from segments that the journal already holds, written by the spool, and only then takes their
place. It is read back when a consumer comes near, one page ahead of the deliveries.
"""

from typing import final

from messaging.batch import MessageBatch
from messaging.ledger import Ledger
from messaging.publication import UNWRITTEN
from messaging.segments import PAGE_LOADED, Page, Segment
from messaging.settlement import DISCARD_DAMAGED


@final
class PagePlan:
    """Segments that will lie in one page once the store has it."""

    def __init__(self, first: int, end: int, runs: list[tuple[int, MessageBatch]]) -> None:
        self.first = first
        self.end = end
        self.runs = runs  # first sequence and batch of each segment, ascending


def plan_pages(ledger: Ledger, *, page_bytes: int, bytes_to_free: int, through_record: int | None) -> list[PagePlan]:
    """Choose the oldest batches in memory, about `bytes_to_free` of them, in pages of about `page_bytes` of payload.

    Batches that the journal has not got yet are passed over: durability comes first, and may make them unnecessary.
    With `through_record` only what lies in journal records up to that one is chosen.
    """
    plans: list[PagePlan] = []
    runs: list[tuple[int, MessageBatch]] = []
    page_held = 0
    freed = 0
    previous_end = 0
    for segment in ledger.segments.segments:
        if freed >= bytes_to_free:
            break
        batch = segment.batch
        publication = segment.publication
        pageable = (
            batch is not None
            and publication is not None
            and publication.record_number != UNWRITTEN
            and (through_record is None or publication.record_number <= through_record)
        )
        if runs and (not pageable or page_held >= page_bytes):
            plans.append(PagePlan(runs[0][0], previous_end, runs))
            runs = []
            page_held = 0
        if pageable and batch is not None and segment.live_count > 0:
            runs.append((segment.first, batch))
            page_held += batch.payload_bytes
            freed += batch.memory_bytes()
            previous_end = segment.end
    if runs:
        plans.append(PagePlan(runs[0][0], previous_end, runs))
    return plans


def pages_written(ledger: Ledger, plan: PagePlan) -> None:
    """Put the page in the place of the segments it was planned from: the store has it now."""
    segments = ledger.segments
    index = segments.at_or_after(plan.first)
    end = index
    live = 0
    bytes_left = 0
    while end < len(segments) and segments.segments[end].first < plan.end:
        segment = segments.segments[end]
        live += segment.live_count
        bytes_left += segment.bytes_left
        if segment.batch is not None:
            ledger.memory_bytes -= segment.batch.memory_bytes()
        publication = segment.publication
        if publication is not None and segment.live_count > 0:
            publication.open_count -= segment.live_count
            if publication.open_count == 0:
                ledger.effects.drained.append(publication)
        end += 1
    if live == 0:
        segments.replace(index, end, [])
        ledger.effects.dropped_pages.append(plan.first)
        return
    page = Page(plan.first, plan.end, live)
    segments.replace(index, end, [Segment(plan.first, plan.end, live, bytes_left, None, None, page)])


def page_loaded(ledger: Ledger, page_first: int, runs: list[tuple[int, MessageBatch]]) -> None:
    """Bring the messages of a page back into memory. A page that is not waited for any more is ignored."""
    segments = ledger.segments
    index = segments.at_or_after(page_first)
    if index == len(segments):
        return
    absent = segments.segments[index]
    page = absent.page
    if page is None or page.first != page_first or absent.batch is not None:
        return
    loaded: list[Segment] = []
    live_left = page.live_count
    bytes_left = absent.bytes_left
    for first, batch in runs:
        end = first + batch.count
        unsettled_from = max(first, ledger.floor)
        live = max(0, end - unsettled_from) - ledger.settled.count_within(unsettled_from, end)
        if live > 0:
            share = bytes_left * live // live_left  # the last one takes what is left, so quotas add up
            loaded.append(Segment(first, end, live, share, batch, None, page))
            live_left -= live
            bytes_left -= share
            ledger.memory_bytes += batch.memory_bytes()
    assert live_left == 0, "a page holds what the ledger counts in it"
    page.state = PAGE_LOADED
    if loaded:
        page.end = loaded[-1].end
    segments.replace(index, index + 1, loaded)


def page_damaged(ledger: Ledger, page_first: int) -> int:
    """Give up the messages of a page that cannot be read; return how many unsettled ones it held."""
    segments = ledger.segments
    index = segments.at_or_after(page_first)
    if index == len(segments):
        return 0
    absent = segments.segments[index]
    if absent.page is None or absent.page.first != page_first or absent.batch is not None:
        return 0
    return ledger.give_up(absent.first, absent.end, DISCARD_DAMAGED)
