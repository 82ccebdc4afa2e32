"""Every metric of a node, one row each; samples, which are values of metrics; and their rendering for Prometheus.

The node supplies samples (`NodeInterface.metrics_snapshot`); names and meanings of metrics are only here. The number of
queues has no bound, so their label has one: queues beyond it are summed as `other`.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from operator import add
from typing import Final, Literal, NamedTuple

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector

from sluicegate.messaging.message.vpn import DEFAULT_VPN
from sluicegate.messaging.observability.latency import BOUNDS_MS, COMMIT_BOUNDS_US

CONTENT_TYPE: Final = CONTENT_TYPE_LATEST
BOUNDED_LABEL: Final = "queue"
VPN_LABEL: Final = "vpn"  # the last one of what belongs to a message VPN
OTHER: Final = "other"

COUNTER: Final = "counter"
GAUGE: Final = "gauge"
HISTOGRAM: Final = "histogram"

_MESSAGE_BOUNDS_S: Final = tuple([bound / 1000 for bound in BOUNDS_MS])
_COMMIT_BOUNDS_S: Final = tuple([bound / 1_000_000 for bound in COMMIT_BOUNDS_US])

MetricFamily = CounterMetricFamily | GaugeMetricFamily | HistogramMetricFamily


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


METRICS: Final[tuple[Metric, ...]] = (
    Metric(
        "sluicegate_build_info",
        GAUGE,
        "Always 1; says which release runs",
        ("version",),
        former_name="sluicegate_build",
    ),
    Metric("sluicegate_ready", GAUGE, "Whether the node accepts traffic: 1 or 0"),
    Metric("sluicegate_connections", GAUGE, "Open client connections", ("protocol",)),
    Metric("sluicegate_connections_opened_total", COUNTER, "Client connections accepted", ("protocol",)),
    Metric("sluicegate_connections_refused_total", COUNTER, "Client connections refused", ("protocol", "reason")),
    Metric("sluicegate_clients_denied_total", COUNTER, "Requests of clients that were denied", ("reason", "vpn")),
    Metric("sluicegate_logins_checked_total", COUNTER, "Passwords checked against hashes"),
    Metric("sluicegate_logins_waiting", GAUGE, "Passwords that wait for a check against hashes"),
    Metric("sluicegate_logins_refused_total", COUNTER, "Logins refused without a check of the password", ("reason",)),
    Metric(
        "sluicegate_operator_requests_refused_total",
        COUNTER,
        "Requests and connections of operators refused because a limit was reached",
        ("listener", "reason"),
    ),
    Metric(
        "sluicegate_connections_failed_total",
        COUNTER,
        "Connections closed after a protocol error",
        ("protocol", "reason"),
    ),
    Metric(
        "sluicegate_certificate_not_before_timestamp_seconds",
        GAUGE,
        "Start of the validity of a listener's certificate, Unix time",
        ("listener",),
        former_name="sluicegate_certificate_begins_seconds",
    ),
    Metric(
        "sluicegate_certificate_not_after_timestamp_seconds",
        GAUGE,
        "Expiry of a listener's certificate, Unix time",
        ("listener",),
        former_name="sluicegate_certificate_expires_seconds",
    ),
    Metric("sluicegate_slow_subscribers", GAUGE, "Connections whose output is stalled"),
    Metric(
        "sluicegate_messages_received_total",
        COUNTER,
        "Messages published; staged ones when they are committed",
        ("protocol",),
    ),
    Metric("sluicegate_bytes_received_total", COUNTER, "Bytes read from clients", ("protocol",)),
    Metric(
        "sluicegate_messages_sent_total", COUNTER, "Messages sent, including browsed and bulk-read ones", ("protocol",)
    ),
    Metric("sluicegate_bytes_sent_total", COUNTER, "Bytes written to clients", ("protocol",)),
    Metric(
        "sluicegate_flow_compression_saved_bytes_total",
        COUNTER,
        "Bytes that compression of the flow protocol saved",
        ("direction",),
    ),
    Metric(
        "sluicegate_messages_dropped_total", COUNTER, "Messages dropped without notice to their publisher", ("reason",)
    ),
    Metric(
        "sluicegate_link_guaranteed_sent_total",
        COUNTER,
        "Guaranteed messages sent to direct subscribers of neighbor brokers only, at most once",
    ),
    Metric("sluicegate_messages_refused_total", COUNTER, "Guaranteed messages refused to their publisher", ("reason",)),
    Metric(
        "sluicegate_publish_to_confirmation_seconds",
        HISTOGRAM,
        "Time from the arrival of guaranteed messages to the confirmation that they are safe",
        ("protocol",),
        bounds_s=_MESSAGE_BOUNDS_S,
    ),
    Metric(
        "sluicegate_publish_to_delivery_seconds",
        HISTOGRAM,
        "Time from the arrival of messages to their first delivery from a queue",
        ("vpn",),
        bounds_s=_MESSAGE_BOUNDS_S,
    ),
    Metric("sluicegate_message_bytes", GAUGE, "Message bytes held in memory"),
    Metric("sluicegate_unfinished_bytes", GAUGE, "Bytes of large packets, frames and bodies received in part"),
    Metric("sluicegate_unfinished_limit_bytes", GAUGE, "Limit of these bytes for all clients together"),
    Metric("sluicegate_unfinished_ended_total", COUNTER, "Connections closed because this limit was reached"),
    Metric(
        "sluicegate_publishers_paused",
        GAUGE,
        "Publishers that the gateway does not read from because a destination is full",
    ),
    Metric("sluicegate_delivered_unacked_messages", GAUGE, "Messages that consumers hold unsettled"),
    Metric("sluicegate_sessions", GAUGE, "MQTT sessions, connected or not", ("vpn",)),
    Metric("sluicegate_sessions_kept", GAUGE, "MQTT sessions whose client is offline", ("vpn",)),
    Metric("sluicegate_sessions_bytes", GAUGE, "Bytes that MQTT sessions count for, with names and wills", ("vpn",)),
    Metric("sluicegate_subscriptions_bytes", GAUGE, "Bytes that topic subscriptions count for", ("vpn",)),
    Metric("sluicegate_http_flows", GAUGE, "Flows of HTTP workers", ("vpn",)),
    Metric("sluicegate_subscriptions", GAUGE, "Topic subscriptions of clients and queues", ("vpn",)),
    Metric("sluicegate_retained_messages", GAUGE, "Retained messages", ("vpn",)),
    Metric("sluicegate_retained_bytes", GAUGE, "Bytes that retained messages count for", ("vpn",)),
    Metric("sluicegate_retained_limit_bytes", GAUGE, "Bytes that retained messages may count for", ("vpn",)),
    Metric(
        "sluicegate_retained_deletions", GAUGE, "Deletions of retained messages kept for neighbor brokers", ("vpn",)
    ),
    Metric(
        "sluicegate_retained_deletions_forgotten_total",
        COUNTER,
        "Deletions of retained messages forgotten before every neighbor broker knew them",
        ("reason", "vpn"),
    ),
    Metric(
        "sluicegate_retained_refused_total",
        COUNTER,
        "Messages not retained because a limit was reached, refused or only delivered",
        ("reason", "vpn"),
    ),
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
    Metric(
        "sluicegate_transactions_open", GAUGE, "Staged transactions that are neither committed nor aborted", ("vpn",)
    ),
    Metric("sluicegate_transactions_ended_total", COUNTER, "Staged transactions that ended", ("outcome", "vpn")),
    Metric("sluicegate_staged_bytes", GAUGE, "Payload bytes staged and not published", ("vpn",)),
    Metric("sluicegate_amqp_transactions_open", GAUGE, "AMQP transactions that are not discharged"),
    Metric("sluicegate_amqp_transactions_bytes", GAUGE, "Memory that open AMQP transactions hold"),
    Metric("sluicegate_amqp_transactions_committed_total", COUNTER, "AMQP transactions committed"),
    Metric("sluicegate_amqp_transactions_rolled_back_total", COUNTER, "AMQP transactions rolled back", ("reason",)),
    Metric("sluicegate_backups_total", COUNTER, "Backups that ended", ("outcome",)),
    Metric(
        "sluicegate_backup_last_done_timestamp_seconds",
        GAUGE,
        "Time of the last complete backup since the start, Unix time",
        former_name="sluicegate_backup_last_done_seconds",
    ),
    Metric("sluicegate_link_up", GAUGE, "Whether the link to a neighbor broker is up: 1 or 0", ("neighbor",)),
    Metric(
        "sluicegate_link_missing",
        GAUGE,
        "Brokers that neighbor brokers are linked to, and this broker is not",
        ("vpn",),
    ),
    Metric("sluicegate_link_dials_total", COUNTER, "Connections to a neighbor broker that were tried", ("neighbor",)),
    Metric("sluicegate_link_connects_total", COUNTER, "Times that a link came up", ("neighbor",)),
    Metric(
        "sluicegate_link_refusals_total",
        COUNTER,
        "Connections of a link that either broker refused; `neighbor` is empty where no link is configured,"
        " or the account may not open it",
        ("neighbor", "reason"),
    ),
    Metric(
        "sluicegate_link_messages_sent_total", COUNTER, "Direct messages written to a neighbor broker", ("neighbor",)
    ),
    Metric(
        "sluicegate_link_messages_dropped_total",
        COUNTER,
        "Direct messages for a neighbor broker that were lost",
        ("neighbor", "reason"),
    ),
    Metric("sluicegate_link_waiting_bytes", GAUGE, "Direct messages that wait for a neighbor broker", ("neighbor",)),
    Metric(
        "sluicegate_link_messages_received_total",
        COUNTER,
        "Direct messages that came from a neighbor broker",
        ("neighbor", "vpn"),
    ),
    Metric(
        "sluicegate_link_exported_interests",
        GAUGE,
        "Topics, groups, priorities and queues that a neighbor broker is told of",
        ("neighbor", "vpn"),
    ),
    Metric(
        "sluicegate_link_imported_interests",
        GAUGE,
        "Topics, groups, priorities and queues that a neighbor broker tells of",
        ("neighbor", "vpn"),
    ),
    Metric(
        "sluicegate_link_subscribe_timeouts_total",
        COUNTER,
        "Subscribers that were answered before a neighbor broker knew the subscription: it took too long",
        ("neighbor", "vpn"),
    ),
    Metric("sluicegate_link_queue_messages", GAUGE, "Guaranteed messages in the queue of a link", ("neighbor", "vpn")),
    Metric("sluicegate_link_queue_bytes", GAUGE, "Usage of the queue of a link", ("neighbor", "vpn")),
    Metric("sluicegate_link_queue_quota_bytes", GAUGE, "Quota of the queue of a link", ("neighbor", "vpn")),
    Metric(
        "sluicegate_link_guaranteed_in_flight",
        GAUGE,
        "Guaranteed messages sent to a neighbor broker and not answered",
        ("neighbor", "vpn"),
    ),
    Metric(
        "sluicegate_link_guaranteed_stored_total",
        COUNTER,
        "Guaranteed messages that a neighbor broker has stored, or nobody there wants",
        ("neighbor", "vpn"),
    ),
    Metric(
        "sluicegate_link_guaranteed_too_large_total",
        COUNTER,
        "Guaranteed messages that no frame of a neighbor broker takes",
        ("neighbor", "vpn"),
    ),
    Metric(
        "sluicegate_link_guaranteed_received_total",
        COUNTER,
        "Guaranteed messages that came from a neighbor broker, also again",
        ("neighbor", "vpn"),
    ),
    Metric(
        "sluicegate_link_guaranteed_repeated_total",
        COUNTER,
        "Guaranteed messages of a neighbor broker that were stored already",
        ("neighbor", "vpn"),
    ),
    Metric(
        "sluicegate_link_guaranteed_waiting",
        GAUGE,
        "Guaranteed messages of a neighbor broker that wait for room",
        ("neighbor", "vpn"),
    ),
    Metric(
        "sluicegate_link_retained_sent_total",
        COUNTER,
        "Retained messages, and deletions of such, sent to a neighbor broker",
        ("neighbor", "vpn"),
    ),
    Metric(
        "sluicegate_link_retained_received_total",
        COUNTER,
        "Retained messages, and deletions of such, taken from a neighbor broker",
        ("neighbor", "vpn"),
    ),
    Metric(
        "sluicegate_link_retained_rejected_total",
        COUNTER,
        "Retained messages, and deletions of such, not taken from a neighbor broker, or too large for it",
        ("neighbor", "reason", "vpn"),
    ),
    Metric(
        "sluicegate_link_consumers",
        GAUGE,
        "Consumers and browsers here at queues of a neighbor broker",
        ("neighbor", "vpn"),
    ),
    Metric(
        "sluicegate_link_neighbor_consumers",
        GAUGE,
        "Consumers at a neighbor broker at queues here",
        ("neighbor", "vpn"),
    ),
    Metric(
        "sluicegate_link_deliveries_total",
        COUNTER,
        "Deliveries to consumers at a neighbor broker",
        ("neighbor", "vpn"),
    ),
    Metric(
        "sluicegate_link_deliveries_unwritable_total",
        COUNTER,
        "Messages rejected because no frame of a neighbor broker takes them to their consumer",
        ("neighbor", "vpn"),
    ),
    Metric(
        "sluicegate_link_range_messages_total",
        COUNTER,
        "Messages of ranges sent to readers at a neighbor broker",
        ("neighbor", "vpn"),
    ),
    Metric(
        "sluicegate_link_refused_early_total",
        COUNTER,
        "Messages refused to publishers because the queue of a neighbor broker would have refused them, by reason",
        ("reason", "vpn"),
    ),
    Metric(
        "sluicegate_link_unreadable_queues_total",
        COUNTER,
        "Descriptions of queues of neighbor brokers that this release does not read: the queues are unknown here",
        ("vpn",),
    ),
    Metric(
        "sluicegate_link_overrun_total",
        COUNTER,
        "Messages of neighbor brokers that queues took beyond their limits",
        ("vpn",),
    ),
    Metric(
        "sluicegate_mqtt_clients_moved_total",
        COUNTER,
        "MQTT connections that ended because their clients have connected at a neighbor broker",
        ("vpn",),
    ),
    Metric(
        "sluicegate_mqtt_other_users_connected_total",
        COUNTER,
        "Connections at neighbor brokers with the client identifier of another user's session here",
        ("vpn",),
    ),
    Metric(
        "sluicegate_rest_delivery_point_up",
        GAUGE,
        "Whether a delivery point pushes messages: 1 or 0",
        ("rest_delivery_point", "vpn"),
    ),
    Metric(
        "sluicegate_rest_consumer_up",
        GAUGE,
        "Whether a REST consumer can be reached: 1 or 0",
        ("rest_delivery_point", "rest_consumer", "vpn"),
    ),
    Metric(
        "sluicegate_rest_consumer_requests_total",
        COUNTER,
        "Requests to REST consumers, by status",
        ("rest_delivery_point", "rest_consumer", "status", "vpn"),
    ),
    Metric(
        "sluicegate_rest_consumer_targets_refused_total",
        COUNTER,
        "Connections to REST consumers refused because their address is not allowed",
        ("rest_delivery_point", "rest_consumer", "vpn"),
    ),
    Metric(
        "sluicegate_rest_delivery_point_messages_total",
        COUNTER,
        "Messages that delivery points settled",
        ("queue", "rest_delivery_point", "outcome", "vpn"),
    ),
    Metric("sluicegate_bridge_up", GAUGE, "Whether a bridge is connected to its foreign broker", ("bridge", "vpn")),
    Metric("sluicegate_bridge_connections_total", COUNTER, "Connections that bridges made", ("bridge", "vpn")),
    Metric(
        "sluicegate_bridge_unmatched_total",
        COUNTER,
        "Messages that came over MQTT for no rule of the bridge, and were dropped",
        ("bridge", "vpn"),
    ),
    Metric(
        "sluicegate_bridge_unconfirmed_messages",
        GAUGE,
        "Messages that wait for the other side's confirmation",
        ("bridge", "direction", "rule", "vpn"),
    ),
    Metric(
        "sluicegate_bridge_messages_total",
        COUNTER,
        "Messages that bridges have carried, and the other side has confirmed",
        ("bridge", "direction", "rule", "vpn"),
    ),
    Metric(
        "sluicegate_bridge_bytes_total",
        COUNTER,
        "Payloads of these messages",
        ("bridge", "direction", "rule", "vpn"),
    ),
    Metric(
        "sluicegate_bridge_failures_total",
        COUNTER,
        "Times that a message was not taken and is tried again",
        ("bridge", "direction", "rule", "vpn"),
    ),
    Metric(
        "sluicegate_bridge_dropped_total",
        COUNTER,
        "Messages that bridges did not carry",
        ("bridge", "direction", "rule", "reason", "vpn"),
    ),
    Metric(
        "sluicegate_bridge_lowered_total",
        COUNTER,
        "Times that a foreign broker gave a rule less than it asks for, such as a lower QoS",
        ("bridge", "direction", "rule", "vpn"),
    ),
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
    Metric("sluicegate_events_total", COUNTER, "Events emitted", ("event",)),
    Metric(
        "sluicegate_events_suppressed_total",
        COUNTER,
        "Events suppressed because there were too many of a kind",
        ("event",),
    ),
    Metric("sluicegate_trace_spans_exported_total", COUNTER, "Spans that the trace collector accepted"),
    Metric("sluicegate_trace_spans_failed_total", COUNTER, "Spans that the trace collector did not accept"),
    Metric("sluicegate_trace_records_dropped_total", COUNTER, "Trace records dropped because the buffer was full"),
    Metric("sluicegate_actors", GAUGE, "Running actors", ("kind",)),
    Metric("sluicegate_actor_inbox_messages", GAUGE, "Messages in actors' inboxes", ("kind",)),
    Metric(
        "sluicegate_actor_messages_handled_total",
        COUNTER,
        "Messages from other actors handled; one may carry many client messages",
        ("kind",),
    ),
    Metric("sluicegate_actor_batches_handled_total", COUNTER, "Batches taken from inboxes", ("kind",)),
    Metric("sluicegate_actor_handling_seconds_total", COUNTER, "Time spent handling batches", ("kind",)),
    Metric("sluicegate_actor_restarts_total", COUNTER, "Restarts after a failure", ("kind",)),
)

METRIC_BY_NAME: Final[dict[str, Metric]] = {metric.name: metric for metric in METRICS}


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
        for sample in samples:
            metric = _row_of(sample)
            labels = sample.labels
            if metric.labels[:1] == (BOUNDED_LABEL,):
                labels = (self._bound.label(labels[0]), *labels[1:])
            if metric.labels[-1:] == (VPN_LABEL,):
                labels = (*labels, sample.vpn)
            values = sums.setdefault(metric.name, {})
            values[labels] = values.get(labels, 0) + sample.value
            if metric.type == HISTOGRAM:
                by_labels = counts.setdefault(metric.name, {})
                before = by_labels.get(labels, (0,) * len(sample.counts))
                by_labels[labels] = tuple(map(add, before, sample.counts))
        families: list[MetricFamily] = []
        for metric in METRICS:
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
        raise UnknownMetric(f"{sample.name} has no row in gateway.observability.metrics.METRICS")
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
