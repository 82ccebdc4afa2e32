"""What Prometheus reads: names from one table, and a bound on the number of series."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from sluicegate.gateway.observability.metrics.exposition import OTHER, Exposition, LabelBound, UnknownMetric
from sluicegate.gateway.observability.metrics.metric import COUNTER, Sample
from sluicegate.gateway.observability.metrics.table import METRICS
from sluicegate.messaging.observability.latency import CommitHistogram, LatencyHistogram
from support.operations.memory_node import MemoryNode
from support.operations.running_admin import running_admin

READY = "sluicegate_queue_messages_ready"


def values(exposition: bytes, name: str) -> dict[str, float]:
    """Return the values of a metric by its queue label."""
    return {
        sample.labels.get("queue", ""): sample.value
        for family in text_string_to_metric_families(exposition.decode())
        for sample in family.samples
        if sample.name == name
    }


def waiting(**counts: int) -> list[Sample]:
    return [Sample(READY, count, (name,)) for name, count in counts.items()]


def test_queues_beyond_the_bound_are_summed_into_other() -> None:
    exposition = Exposition(queue_label_max=2)
    assert values(exposition.render(waiting(a=1, b=2, c=4, d=8)), READY) == {"a": 1, "b": 2, OTHER: 12}


def test_a_queue_keeps_its_series_while_it_exists() -> None:
    exposition = Exposition(queue_label_max=2)
    exposition.render(waiting(m=1, n=2))
    assert values(exposition.render(waiting(a=4, m=1, n=2)), READY) == {"m": 1, "n": 2, OTHER: 4}
    assert values(exposition.render(waiting(a=4, n=2)), READY) == {"a": 4, "n": 2}


def test_a_queue_that_is_called_other_shares_the_sum() -> None:
    exposition = Exposition(queue_label_max=1)
    assert values(exposition.render(waiting(other=1, a=2, b=4)), READY) == {"a": 2, OTHER: 5}


@given(
    scrapes=st.lists(st.lists(st.sampled_from("abcdefgh"), unique=True), max_size=20),
    label_max=st.integers(0, 4),
)
def test_the_bound_holds_and_places_are_kept(scrapes: list[list[str]], label_max: int) -> None:
    """Goal: never more than the bound, no flapping. Method: compare each scrape with the one before."""
    bound = LabelBound(label_max=label_max)
    before: set[str] = set()
    for existing in scrapes:
        bound.admit(existing)
        placed = {name for name in existing if bound.label(name) == name}
        assert len(placed) == min(label_max, len(existing))
        assert before & set(existing) <= placed
        before = placed


def test_label_values_are_escaped_and_reasons_kept_apart() -> None:
    name = "sluicegate_queue_messages_discarded_total"
    text = Exposition(queue_label_max=9).render([Sample(name, 1, ('a"\n\\', "ttl")), Sample(name, 2, ("b", "ttl"))])
    assert values(text, name) == {'a"\n\\': 1, "b": 2}


def test_a_sample_without_a_row_is_our_mistake() -> None:
    with pytest.raises(UnknownMetric, match="has no row"):
        Exposition(queue_label_max=1).render([Sample("sluicegate_nothing", 1)])
    with pytest.raises(UnknownMetric, match="has the labels"):
        Exposition(queue_label_max=1).render([Sample(READY, 1)])


def test_the_table_follows_the_conventions_of_prometheus() -> None:
    assert len({metric.name for metric in METRICS}) == len(METRICS)
    for metric in METRICS:
        assert metric.name.startswith("sluicegate_")
        assert (metric.type == COUNTER) == metric.name.endswith("_total"), metric.name
        assert "queue" not in metric.labels[1:], "the bounded label comes first"
        assert metric.help[0].isupper()
        assert not metric.help.endswith(".")


def test_metrics_are_served_beside_those_of_the_process() -> None:
    node = MemoryNode(samples=[Sample("sluicegate_ready", 1), *waiting(a=1, b=2, c=3)])
    with running_admin(node, queue_label_max=1) as admin:
        answer = admin.ask("GET", "/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=")
    assert values(answer.body, READY) == {"a": 1, OTHER: 5}
    assert values(answer.body, "sluicegate_ready") == {"": 1}
    assert b"process_resident_memory_bytes" in answer.body


def test_a_metric_is_served_under_its_former_name_as_well() -> None:
    text = Exposition(queue_label_max=1).render([Sample("sluicegate_build_info", 1, ("2.0",))]).decode()
    assert 'sluicegate_build_info{version="2.0"} 1.0' in text
    assert 'sluicegate_build{version="2.0"} 1.0' in text
    assert "# HELP sluicegate_build Deprecated, use sluicegate_build_info" in text


def test_names_follow_the_conventions_of_prometheus() -> None:
    """https://prometheus.io/docs/practices/naming/: unit last, `_total` for counters only, `_info`."""
    for metric in METRICS:
        assert metric.name.endswith("_total") == (metric.type == COUNTER)
        assert metric.name.endswith("_timestamp_seconds") == ("Unix time" in metric.help)
        assert metric.name.endswith("_info") == metric.help.startswith("Always 1")


def test_the_time_of_commits_is_a_histogram_and_its_sum_is_served_under_its_former_name() -> None:
    latencies = CommitHistogram()
    for took_us, count in ((50, 2), (51, 1), (400, 4), (20_000_000, 1)):
        for _ in range(count):
            latencies.observe(took_us * 1000)
    name = "sluicegate_spool_commit_duration_seconds"
    sample = Sample(name, latencies.sum_ns / 1_000_000_000, counts=tuple(latencies.counts))
    text = Exposition(queue_label_max=1).render([sample]).decode()
    assert f'{name}_bucket{{le="5e-05"}} 2.0' in text
    assert f'{name}_bucket{{le="0.0005"}} 7.0' in text
    assert f'{name}_bucket{{le="10.0"}} 7.0' in text
    assert f'{name}_bucket{{le="+Inf"}} 8.0' in text
    assert f"{name}_sum {latencies.sum_ns / 1_000_000_000}" in text
    assert f"sluicegate_spool_commit_seconds_total {latencies.sum_ns / 1_000_000_000}" in text
    assert "# TYPE sluicegate_spool_commit_seconds_total counter" in text


def test_a_histogram_has_cumulative_buckets_in_seconds() -> None:
    latencies = LatencyHistogram()
    for took_ms, count in ((0, 2), (1, 1), (3, 4), (4_000_000, 1), (-5, 1)):
        latencies.observe(1000, 1000 + took_ms, count)
    name = "sluicegate_publish_to_delivery_seconds"
    sample = Sample(name, latencies.sum_ms / 1000, counts=latencies.counts())
    text = Exposition(queue_label_max=1).render([sample, sample._replace(vpn="sales"), sample]).decode()
    assert f'{name}_bucket{{le="0.001",vpn="default"}} 8.0' in text
    assert f'{name}_bucket{{le="0.005",vpn="sales"}} 8.0' in text
    assert f'{name}_bucket{{le="+Inf",vpn="sales"}} 9.0' in text
    assert f'{name}_count{{vpn="default"}} 18.0' in text
    assert f'{name}_sum{{vpn="sales"}} {latencies.sum_ms / 1000}' in text
