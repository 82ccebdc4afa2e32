"""Every metric of a node, one row each, in the order of docs/operate/metrics.md.

The rows are in the module of their subject. The node supplies samples (`NodeInterface.metrics_snapshot`); names and
meanings of metrics are only here.
"""

from typing import Final

from sluicegate.gateway.observability.metrics.bridges import BRIDGES
from sluicegate.gateway.observability.metrics.clients import CLIENTS
from sluicegate.gateway.observability.metrics.cluster import REPLICAS
from sluicegate.gateway.observability.metrics.links import LINKS
from sluicegate.gateway.observability.metrics.metric import Metric
from sluicegate.gateway.observability.metrics.node import ACTORS, BROKERS, EVENTS, NODE, TRACES
from sluicegate.gateway.observability.metrics.queues import CURSORS, QUEUES, TRANSACTIONS
from sluicegate.gateway.observability.metrics.replication import SITES
from sluicegate.gateway.observability.metrics.rest_delivery_points import REST_DELIVERY_POINTS
from sluicegate.gateway.observability.metrics.spool import BACKUPS, SPOOL

METRICS: Final[tuple[Metric, ...]] = (
    *NODE,
    *BROKERS,
    *REPLICAS,
    *SITES,
    *CLIENTS,
    *QUEUES,
    *CURSORS,
    *TRANSACTIONS,
    *BACKUPS,
    *LINKS,
    *REST_DELIVERY_POINTS,
    *BRIDGES,
    *SPOOL,
    *EVENTS,
    *TRACES,
    *ACTORS,
)

METRIC_BY_NAME: Final[dict[str, Metric]] = {metric.name: metric for metric in METRICS}
