"""How fast messages come into queues."""

from sluicegate.gateway.observability.rates import SAMPLE_MS, SAMPLES_MAX, QueueRates


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
