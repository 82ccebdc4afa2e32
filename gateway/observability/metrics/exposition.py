"""Render samples for Prometheus.

The number of queues has no bound, so their label has one: queues beyond it are summed as `other`.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import accumulate
from operator import add
from typing import Final

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector

from sluicegate.gateway.observability.metrics.metric import COUNTER, HISTOGRAM, Metric, Sample
from sluicegate.gateway.observability.metrics.table import METRIC_BY_NAME, METRICS

CONTENT_TYPE: Final = CONTENT_TYPE_LATEST
BOUNDED_LABEL: Final = "queue"
VPN_LABEL: Final = "vpn"  # the last one of what belongs to a message VPN
BROKER_LABEL: Final = "broker"  # behind all others, on a machine with several
OTHER: Final = "other"

MetricFamily = CounterMetricFamily | GaugeMetricFamily | HistogramMetricFamily


class UnknownMetric(ValueError):
    """A sample without a row in METRICS, or with other labels than its row: a defect of the gateway."""


class LabelBound:
    """The queues that have series of their own, by name, of all message VPNs.

    First come, first served, and a queue keeps its place while it exists, so series do not flap between scrapes.
    A place becomes free when its queue is gone; a queue that was in `other` then moves out of it, which Prometheus
    takes for a counter reset, as it should. A queue that is called `other` never gets a place: it shares the sum.
    """

    def __init__(self, *, label_max: int) -> None:
        self._label_max = label_max
        self._placed: dict[str, None] = {}  # used as an ordered set

    def admit(self, names: Iterable[str]) -> None:
        """Set the queues that exist now, in the order in which they get free places."""
        existing = dict.fromkeys(names)
        self._placed = {name: None for name in self._placed if name in existing}
        for name in existing:
            if len(self._placed) >= self._label_max:
                return
            if name != OTHER:
                self._placed[name] = None

    def label(self, name: str) -> str:
        """Return the label value under which a queue is counted."""
        return name if name in self._placed else OTHER


class Exposition:
    """Renders samples as Prometheus text. One per node: it remembers which queues have series of their own."""

    def __init__(self, *, queue_label_max: int) -> None:
        self._bound = LabelBound(label_max=queue_label_max)
        self._process = CollectorRegistry(auto_describe=False)
        ProcessCollector(registry=self._process)  # memory, CPU and file handles of this process, from /proc

    def render(self, samples: Sequence[Sample]) -> bytes:
        """Return the exposition of these samples and of the process."""
        registry = CollectorRegistry(auto_describe=False)
        registry.register(_Families(self._families(samples)))
        return generate_latest(registry) + generate_latest(self._process)

    def _families(self, samples: Sequence[Sample]) -> list[MetricFamily]:
        sums: dict[str, dict[tuple[str, ...], float]] = {}
        counts: dict[str, dict[tuple[str, ...], tuple[int, ...]]] = {}
        self._bound.admit(_queues_of(samples))
        has_brokers = any(sample.broker for sample in samples)
        for sample in samples:
            metric = _row_of(sample)
            labels = sample.labels
            if metric.labels[:1] == (BOUNDED_LABEL,):
                labels = (self._bound.label(labels[0]), *labels[1:])
            if metric.labels[-1:] == (VPN_LABEL,):
                labels = (*labels, sample.vpn)
            if has_brokers:
                labels = (*labels, sample.broker)
            values = sums.setdefault(metric.name, {})
            values[labels] = values.get(labels, 0) + sample.value
            if metric.type == HISTOGRAM:
                by_labels = counts.setdefault(metric.name, {})
                before = by_labels.get(labels, (0,) * len(sample.counts))
                by_labels[labels] = tuple(map(add, before, sample.counts))
        families: list[MetricFamily] = []
        for row in METRICS:
            metric = replace(row, labels=(*row.labels, BROKER_LABEL)) if has_brokers else row
            if metric.name in counts:
                families.append(_histogram(metric, sums[metric.name], counts[metric.name]))
            elif metric.name in sums:
                families.append(_family(metric, sums[metric.name]))
            if metric.former_name and metric.name in sums:
                families.append(_family(_former(metric), sums[metric.name]))
        return families


class _Families(Collector):
    """The collector that `generate_latest` reads."""

    def __init__(self, families: list[MetricFamily]) -> None:
        self._collected = families

    def collect(self) -> list[MetricFamily]:
        return self._collected


def _queues_of(samples: Sequence[Sample]) -> Iterable[str]:
    for sample in samples:
        if _row_of(sample).labels[:1] == (BOUNDED_LABEL,):
            yield sample.labels[0]


def _row_of(sample: Sample) -> Metric:
    metric = METRIC_BY_NAME.get(sample.name)
    if metric is None:
        raise UnknownMetric(f"{sample.name} has no row in gateway.observability.metrics.table.METRICS")
    if len(metric.labels) - metric.labels.count(VPN_LABEL) != len(sample.labels):
        raise UnknownMetric(f"{sample.name} has the labels {metric.labels}, not {sample.labels}")
    return metric


def _former(metric: Metric) -> Metric:
    """Return the metric under its former name."""
    former = replace(metric, name=metric.former_name, help=f"Deprecated, use {metric.name}")
    if metric.type == HISTOGRAM:
        return replace(former, type=COUNTER, help=f"{former.help}_sum")
    return former


def _family(metric: Metric, values: dict[tuple[str, ...], float]) -> MetricFamily:
    family: MetricFamily
    if metric.type == COUNTER:
        family = CounterMetricFamily(metric.name, metric.help, labels=metric.labels)
    else:
        family = GaugeMetricFamily(metric.name, metric.help, labels=metric.labels)
    for labels, value in values.items():
        family.add_metric(labels, value)
    return family


def _histogram(
    metric: Metric, sums: dict[tuple[str, ...], float], counts: dict[tuple[str, ...], tuple[int, ...]]
) -> MetricFamily:
    family = HistogramMetricFamily(metric.name, metric.help, labels=metric.labels)
    bounds = [*map(str, metric.bounds_s), "+Inf"]
    for labels, value in sums.items():
        family.add_metric(labels, list(zip(bounds, accumulate(counts[labels]), strict=True)), value)
    return family
