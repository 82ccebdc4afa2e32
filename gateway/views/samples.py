"""Samples: values of metrics as the parts of a node report them. `gateway.observability.metrics` has their names."""

from typing import Final, NamedTuple

from sluicegate.messaging.message.vpn import DEFAULT_VPN
from sluicegate.messaging.queues.definition import is_named

SESSIONS: Final = "#sessions"


class Sample(NamedTuple):
    """One metric value. `labels` are in the order of the metric's row in `gateway.observability.metrics.METRICS`, but
    for the last one of those that have a `vpn`.

    A tuple, for a scrape makes some twenty of each queue: it is made, and given its VPN, five times as fast as a
    dataclass.
    """

    name: str
    value: float
    labels: tuple[str, ...] = ()
    vpn: str = DEFAULT_VPN


def queue_label(name: str) -> str:
    """Return the label of a queue. The broker's own queues are as many as clients, and share one label."""
    return name if is_named(name) else SESSIONS
