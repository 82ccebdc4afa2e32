"""The metrics of a broker with two sites, as each replica serves them."""

from typing import Final

from sluicegate.gateway.observability.metrics.metric import COUNTER, GAUGE, Metric

SITES: Final[tuple[Metric, ...]] = (
    Metric("sluicegate_replication_active", GAUGE, "Whether the site of this replica is the active one: 1 or 0"),
    Metric("sluicegate_replication_epoch", GAUGE, "Epoch of the sites: one more with each promotion of one"),
    Metric("sluicegate_replication_mate_up", GAUGE, "Whether the other site answers this replica: 1 or 0"),
    Metric("sluicegate_replication_receiving", GAUGE, "Whether this replica receives the other site's log: 1 or 0"),
    Metric("sluicegate_replication_received_total", COUNTER, "Messages of the log received from the other site"),
    Metric("sluicegate_replication_received_bytes_total", COUNTER, "Bytes of these"),
    Metric("sluicegate_replication_lag_messages", GAUGE, "Messages of the log that the standby site does not have"),
    Metric("sluicegate_replication_lag_bytes", GAUGE, "About how many bytes these have"),
    Metric("sluicegate_replication_lag_seconds", GAUGE, "How long ago the oldest of them was stored"),
    Metric("sluicegate_replication_surplus_files", GAUGE, "Files with what a site alone had, at this replica"),
)
