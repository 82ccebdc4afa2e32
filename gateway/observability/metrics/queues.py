"""The metrics of queues, of their cursors and readers, and of transactions."""

from typing import Final

from sluicegate.gateway.observability.metrics.metric import COUNTER, GAUGE, Metric

QUEUES: Final[tuple[Metric, ...]] = (
    Metric("sluicegate_queues", GAUGE, "Queues", ("vpn",)),
    Metric(
        "sluicegate_queues_definition_lost",
        GAUGE,
        "Queues whose definition is lost and that wait for an operator's decision",
        ("vpn",),
    ),
    Metric("sluicegate_queue_messages_ready", GAUGE, "Messages that wait for a consumer", ("queue", "vpn")),
    Metric("sluicegate_queue_messages_delayed", GAUGE, "Messages that wait for their delivery time", ("queue", "vpn")),
    Metric("sluicegate_queue_messages_unacked", GAUGE, "Messages delivered and not settled", ("queue", "vpn")),
    Metric("sluicegate_queue_spooled_bytes", GAUGE, "Bytes of a queue that count towards its quota", ("queue", "vpn")),
    Metric(
        "sluicegate_queue_messages_dead_waiting",
        GAUGE,
        "Dead messages that wait to get into their dead message queue",
        ("queue", "vpn"),
    ),
    Metric(
        "sluicegate_queue_messages_held",
        GAUGE,
        "Ready messages held until older ones of their key in another partition are settled",
        ("queue", "vpn"),
    ),
    Metric(
        "sluicegate_queue_partitions", GAUGE, "Partitions of a queue, including those being retired", ("queue", "vpn")
    ),
    Metric("sluicegate_queue_flows", GAUGE, "Consumers bound to a queue", ("queue", "vpn")),
    Metric("sluicegate_queue_messages_accepted_total", COUNTER, "Messages accepted by a queue", ("queue", "vpn")),
    Metric(
        "sluicegate_queue_messages_delivered_total", COUNTER, "Deliveries, including redeliveries", ("queue", "vpn")
    ),
    Metric("sluicegate_queue_messages_redelivered_total", COUNTER, "Redeliveries", ("queue", "vpn")),
    Metric("sluicegate_queue_messages_settled_total", COUNTER, "Messages that consumers accepted", ("queue", "vpn")),
    Metric(
        "sluicegate_queue_messages_discarded_total",
        COUNTER,
        "Messages that a queue discarded",
        ("queue", "reason", "vpn"),
    ),
    Metric(
        "sluicegate_queue_messages_to_dmq_total",
        COUNTER,
        "Messages moved to a dead message queue",
        ("queue", "reason", "vpn"),
    ),
    Metric(
        "sluicegate_queue_messages_refused_total",
        COUNTER,
        "Messages that a queue refused to their publisher",
        ("queue", "reason", "vpn"),
    ),
    Metric(
        "sluicegate_queue_messages_dropped_total",
        COUNTER,
        "Messages that a queue did not take, without notice to their publisher",
        ("queue", "reason", "vpn"),
    ),
    Metric(
        "sluicegate_queue_bind_refusals_total",
        COUNTER,
        "Refused attempts to bind to a queue",
        ("queue", "reason", "vpn"),
    ),
    Metric(
        "sluicegate_queue_annotations_lost_total",
        COUNTER,
        "Annotations returned by consumers and dropped for lack of space",
        ("queue", "vpn"),
    ),
    Metric("sluicegate_queue_ack_timeouts_total", COUNTER, "Deliveries not settled in time", ("queue", "vpn")),
    Metric("sluicegate_queue_rebalances_total", COUNTER, "Partition rebalances", ("queue", "vpn")),
    Metric(
        "sluicegate_queue_kept_bytes",
        GAUGE,
        "Payload kept after its settlement; it does not count towards the quota",
        ("queue", "vpn"),
    ),
)

CURSORS: Final[tuple[Metric, ...]] = (
    Metric("sluicegate_cursor_lag_messages", GAUGE, "Sequences a durable cursor is behind", ("queue", "cursor", "vpn")),
    Metric(
        "sluicegate_cursor_lag_bytes", GAUGE, "Payload bytes a durable cursor is behind", ("queue", "cursor", "vpn")
    ),
    Metric(
        "sluicegate_cursor_exceeded",
        GAUGE,
        "Whether a cursor exceeded its lag limit and its messages were released: 1 or 0",
        ("queue", "cursor", "vpn"),
    ),
    Metric("sluicegate_reader_batches_total", COUNTER, "Batches reported by jobs", ("queue", "cursor", "job", "vpn")),
    Metric("sluicegate_reader_rows_total", COUNTER, "Messages in these batches", ("queue", "cursor", "job", "vpn")),
    Metric(
        "sluicegate_reader_undecodable_rows_total",
        COUNTER,
        "Messages in these batches that could not be decoded",
        ("queue", "cursor", "job", "vpn"),
    ),
    Metric(
        "sluicegate_reader_batch_seconds_total",
        COUNTER,
        "Time spent on these batches",
        ("queue", "cursor", "job", "vpn"),
    ),
    Metric(
        "sluicegate_reader_last_batch_timestamp_seconds",
        GAUGE,
        "Time of the last reported batch, Unix time",
        ("queue", "cursor", "job", "vpn"),
        former_name="sluicegate_reader_last_batch_seconds",
    ),
)

TRANSACTIONS: Final[tuple[Metric, ...]] = (
    Metric(
        "sluicegate_transactions_open", GAUGE, "Staged transactions that are neither committed nor aborted", ("vpn",)
    ),
    Metric("sluicegate_transactions_ended_total", COUNTER, "Staged transactions that ended", ("outcome", "vpn")),
    Metric("sluicegate_staged_bytes", GAUGE, "Payload bytes staged and not published", ("vpn",)),
    Metric("sluicegate_amqp_transactions_open", GAUGE, "AMQP transactions that are not discharged"),
    Metric("sluicegate_amqp_transactions_bytes", GAUGE, "Memory that open AMQP transactions hold"),
    Metric("sluicegate_amqp_transactions_committed_total", COUNTER, "AMQP transactions committed"),
    Metric("sluicegate_amqp_transactions_rolled_back_total", COUNTER, "AMQP transactions rolled back", ("reason",)),
)
