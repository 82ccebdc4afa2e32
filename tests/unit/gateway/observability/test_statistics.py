"""How fast messages come into queues, and what bulk readers report of their batches, added up for the metrics."""

from dataclasses import replace

from sluicegate.actors.messages.readers import CursorOverview
from sluicegate.gateway.observability.statistics import SAMPLE_MS, SAMPLES_MAX, QueueRates, ReaderBatch, ReaderBatches
from sluicegate.gateway.operations.metrics import reader_samples
from sluicegate.messaging.bulk.durable_cursors import LIMITS_DEFAULT

FIRST = ReaderBatch(job="archive", reference="q/0", rows_count=5, undecodable_count=1, duration_ms=1500)


def totals(batches: ReaderBatches) -> dict[str, float]:
    return {each.name.removeprefix("sluicegate_reader_"): each.value for each in reader_samples(batches)}


def test_a_batch_that_is_reported_again_counts_once() -> None:
    batches = ReaderBatches()
    for batch in (FIRST, FIRST, replace(FIRST, reference="q/1")):
        batches.add("orders", "a", batch, now_ms=7_000)
    assert totals(batches) == {
        "batches_total": 2, "rows_total": 10, "undecodable_rows_total": 2, "batch_seconds_total": 3.0,
        "last_batch_timestamp_seconds": 7.0,
    }  # fmt: skip


def test_a_job_that_takes_a_cursor_over_is_counted_from_the_beginning() -> None:
    batches = ReaderBatches()
    batches.add("orders", "a", FIRST, now_ms=1)
    batches.add("orders", "a", replace(FIRST, job="aggregate"), now_ms=1)
    assert {each.labels for each in reader_samples(batches)} == {("orders", "a", "aggregate")}


def test_readers_are_forgotten_with_their_cursor() -> None:
    batches = ReaderBatches()
    batches.add("orders", "a", FIRST, now_ms=1)
    batches.add("orders", "b", FIRST, now_ms=1)
    batches.keep_only([
        CursorOverview("orders", "b", "tap", 1, False, "", "", False, LIMITS_DEFAULT, [])
    ])  # fmt: skip
    assert {each.labels[1] for each in reader_samples(batches)} == {"b"}


def test_the_rate_is_the_mean_of_the_last_minute() -> None:
    rates = QueueRates()
    assert rates.rate("q", 100, 0) == 0.0
    for number in range(20):
        rates.add(number * SAMPLE_MS, {"q": number * 50})
    now_ms = 20 * SAMPLE_MS
    assert rates.rate("q", 20 * 50, now_ms) == 5.0
    assert SAMPLES_MAX * SAMPLE_MS == 60_000


def test_a_queue_that_is_new_or_was_made_again_has_a_rate_of_its_own() -> None:
    rates = QueueRates()
    for number in range(SAMPLES_MAX):
        rates.add(number * SAMPLE_MS, {"again": 1_000_000})
    now_ms = SAMPLES_MAX * SAMPLE_MS
    assert rates.rate("new", 60, now_ms) == rates.rate("again", 60, now_ms) == 1.0


def test_a_burst_of_the_first_moments_is_no_rate() -> None:
    rates = QueueRates()
    rates.add(0, {})
    assert rates.rate("q", 10, 1) == 1.0


def test_queues_at_work_are_those_that_have_accepted_messages_since_the_sample_before() -> None:
    rates = QueueRates()
    assert rates.working() == []
    rates.add(0, {"a": 5})
    assert rates.working() == ["a"]
    rates.add(SAMPLE_MS, {"a": 5, "b": 1})
    assert rates.working() == ["b"]
