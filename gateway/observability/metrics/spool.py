"""The metrics of the spool and of its backups."""

from typing import Final

from sluicegate.gateway.observability.metrics.metric import COUNTER, GAUGE, HISTOGRAM, Metric
from sluicegate.messaging.observability.latency import COMMIT_BOUNDS_US

_COMMIT_BOUNDS_S: Final = tuple([bound / 1_000_000 for bound in COMMIT_BOUNDS_US])

BACKUPS: Final[tuple[Metric, ...]] = (
    Metric("sluicegate_backups_total", COUNTER, "Backups that ended", ("outcome",)),
    Metric(
        "sluicegate_backup_last_done_timestamp_seconds",
        GAUGE,
        "Time of the last complete backup since the start, Unix time",
        former_name="sluicegate_backup_last_done_seconds",
    ),
)

SPOOL: Final[tuple[Metric, ...]] = (
    Metric("sluicegate_spool_commits_total", COUNTER, "Commits to the spool"),
    Metric("sluicegate_spool_commits_by_loop_total", COUNTER, "Of these, made by the event loop itself"),
    Metric(
        "sluicegate_spool_commit_duration_seconds",
        HISTOGRAM,
        "Time that a commit took, fsync included",
        bounds_s=_COMMIT_BOUNDS_S,
        former_name="sluicegate_spool_commit_seconds_total",
    ),
    Metric("sluicegate_spool_commit_failures_total", COUNTER, "Commits that failed", ("reason",)),
    Metric("sluicegate_spool_checkpoints_total", COUNTER, "Checkpoints: the log applied to the data file"),
    Metric("sluicegate_spool_checkpoint_seconds_total", COUNTER, "Time spent in checkpoints, fsync included"),
    Metric("sluicegate_spool_checkpoint_failures_total", COUNTER, "Checkpoints that failed"),
    Metric("sluicegate_spool_log_bytes", GAUGE, "Bytes of the log that are needed"),
    Metric("sluicegate_spool_log_records", GAUGE, "Records of the log that are needed: a start reads them"),
    Metric(
        "sluicegate_spool_failed",
        GAUGE,
        "Whether the spool has failed: 1 or 0",
        ("reason",),
    ),
    Metric("sluicegate_spool_unread_partitions", GAUGE, "Partitions with pages that the spool cannot read"),
    Metric("sluicegate_spool_messages_written_total", COUNTER, "Messages written to the spool"),
    Metric("sluicegate_spool_messages_elided_total", COUNTER, "Messages settled before they had to be written"),
    Metric("sluicegate_spool_used_bytes", GAUGE, "Bytes of the spool in use"),
    Metric("sluicegate_spool_limit_bytes", GAUGE, "Bytes the spool may use"),
    Metric("sluicegate_spool_disk_room_bytes", GAUGE, "Bytes free on the disk of the spool"),
    Metric(
        "sluicegate_spool_messages_bytes", GAUGE, "Bytes that messages in durable queues, and staged ones, count for"
    ),
    Metric("sluicegate_spool_messages_limit_bytes", GAUGE, "Quota of these bytes, at which publishers are refused"),
    Metric("sluicegate_spool_damaged_records_total", COUNTER, "Records set aside because their checksum was wrong"),
)
