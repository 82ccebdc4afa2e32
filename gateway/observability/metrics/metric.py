"""A metric, and a sample, which is a value of it."""

from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

from sluicegate.messaging.message.vpn import DEFAULT_VPN

COUNTER: Final = "counter"
GAUGE: Final = "gauge"
HISTOGRAM: Final = "histogram"


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric: counters end in `_total`, times in `_timestamp_seconds`; units are bytes and seconds."""

    name: str
    type: Literal["counter", "gauge", "histogram"]
    help: str
    labels: tuple[str, ...] = ()
    bounds_s: tuple[float, ...] = ()  # upper bounds of a histogram's buckets, without the last one
    former_name: str = ""  # deprecated, and served with the same values, a histogram's sum as a counter; empty: none


class Sample(NamedTuple):
    """One value of a metric.

    A tuple, because a scrape makes some twenty of each queue: it is made, and given its VPN, five times as fast as a
    dataclass.
    """

    name: str
    value: float
    labels: tuple[str, ...] = ()  # in the order of the metric's row in METRICS, without `vpn`
    vpn: str = DEFAULT_VPN
    counts: tuple[int, ...] = ()  # of a histogram, by bucket, not cumulative; `value` is the sum in seconds
    broker: str = ""  # of a machine with several; empty: there is one
