"""The metrics of a broker with replicas, as each replica serves them."""

from typing import Final

from sluicegate.gateway.observability.metrics.metric import COUNTER, GAUGE, Metric

REPLICAS: Final[tuple[Metric, ...]] = (
    Metric("sluicegate_replica_owner", GAUGE, "Whether this replica owns the broker and serves clients: 1 or 0"),
    Metric("sluicegate_replica_caught_up", GAUGE, "Whether this replica has the log, or nearly all of it: 1 or 0"),
    Metric("sluicegate_replica_epoch", GAUGE, "Epoch of the last owner in the log, as this replica has read it"),
    Metric("sluicegate_replica_position", GAUGE, "Number of the last message of the log that this replica has read"),
    Metric("sluicegate_replica_lag_messages", GAUGE, "Messages of the log that this standby has not read"),
    Metric("sluicegate_replica_lag_bytes", GAUGE, "About how many bytes these have"),
    Metric("sluicegate_replica_level", GAUGE, "Feature level of the log, as this replica has read it"),
    Metric("sluicegate_replica_reads_level", GAUGE, "The highest feature level that this replica reads"),
    Metric("sluicegate_replica_void_total", COUNTER, "Messages of the log that do not count: an owner of the past"),
    Metric("sluicegate_replica_appends_total", COUNTER, "Messages that this replica has appended to the log"),
    Metric("sluicegate_replica_append_seconds_total", COUNTER, "How long it took until a majority had them, in all"),
    Metric("sluicegate_replica_append_waits_seconds", GAUGE, "How long the oldest append has waited for a majority"),
    Metric("sluicegate_replica_log_bytes", GAUGE, "Size of the stream that has the log"),
    Metric("sluicegate_replica_log_bytes_max", GAUGE, "The size that it may have; then publishers are refused"),
    Metric(
        "sluicegate_replica_clock_ahead_seconds", GAUGE, "How far this clock is ahead of the log's time; 0: trusted"
    ),
    Metric("sluicegate_replica_snapshot_position", GAUGE, "Number of the last record of the newest snapshot; 0: none"),
    Metric("sluicegate_replica_snapshot_bytes", GAUGE, "Size of the newest snapshot"),
    Metric("sluicegate_replica_snapshot_age_seconds", GAUGE, "How long ago the newest snapshot was begun"),
    Metric("sluicegate_replica_snapshot_behind_bytes", GAUGE, "About how much of the log the newest snapshot lacks"),
    Metric("sluicegate_replica_snapshots_made_total", COUNTER, "Snapshots that this replica has made"),
    Metric("sluicegate_replica_snapshots_failed_total", COUNTER, "Snapshots that this replica could not make"),
    Metric("sluicegate_replica_snapshot_last_seconds", GAUGE, "How long this replica's last try took to make one"),
    Metric("sluicegate_replica_hold_position", GAUGE, "The first record for which the log waits", ("replica",)),
    Metric("sluicegate_replicas", GAUGE, "Replicas of this broker, by the list of the cluster"),
    Metric("sluicegate_replicas_present", GAUGE, "Replicas of this broker that were heard lately"),
    Metric("sluicegate_replicas_outdated", GAUGE, "Replicas of this broker that need a later release to read the log"),
)
