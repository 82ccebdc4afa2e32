"""What readers in bulk say of their batches, added up for the metrics."""

from dataclasses import replace

from sluicegate.actors.messages.readers import CursorOverview
from sluicegate.gateway.observability.reader_batches import ReaderBatch, ReaderBatches
from sluicegate.messaging.bulk.durable_cursors import LIMITS_DEFAULT

FIRST = ReaderBatch(job="archive", reference="q/0", rows_count=5, undecodable_count=1, duration_ms=1500)


def totals(batches: ReaderBatches) -> dict[str, float]:
    return {each.name.removeprefix("sluicegate_reader_"): each.value for each in batches.samples()}


def test_a_batch_that_is_reported_again_counts_once() -> None:
    batches = ReaderBatches()
    for batch in (FIRST, FIRST, replace(FIRST, reference="q/1")):
        batches.add("orders", "a", batch, now_ms=7_000)
    assert totals(batches) == {
        "batches_total": 2, "rows_total": 10, "undecodable_rows_total": 2, "batch_seconds_total": 3.0,
        "last_batch_seconds": 7.0,
    }  # fmt: skip


def test_a_job_that_takes_a_cursor_over_is_counted_from_the_beginning() -> None:
    batches = ReaderBatches()
    batches.add("orders", "a", FIRST, now_ms=1)
    batches.add("orders", "a", replace(FIRST, job="aggregate"), now_ms=1)
    assert {each.labels for each in batches.samples()} == {("orders", "a", "aggregate")}


def test_readers_are_forgotten_with_their_cursor() -> None:
    batches = ReaderBatches()
    batches.add("orders", "a", FIRST, now_ms=1)
    batches.add("orders", "b", FIRST, now_ms=1)
    batches.keep_only([
        CursorOverview("orders", "b", "tap", 1, False, "", "", False, LIMITS_DEFAULT, [])
    ])  # fmt: skip
    assert {each.labels[1] for each in batches.samples()} == {"b"}
