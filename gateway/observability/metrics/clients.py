"""The metrics of clients: connections, logins, messages, sessions, subscriptions, retained messages."""

from typing import Final

from sluicegate.gateway.observability.metrics.metric import COUNTER, GAUGE, HISTOGRAM, Metric
from sluicegate.messaging.observability.latency import BOUNDS_MS

_MESSAGE_BOUNDS_S: Final = tuple([bound / 1000 for bound in BOUNDS_MS])

CLIENTS: Final[tuple[Metric, ...]] = (
    Metric("sluicegate_connections", GAUGE, "Open client connections", ("protocol",)),
    Metric("sluicegate_connections_opened_total", COUNTER, "Client connections accepted", ("protocol",)),
    Metric("sluicegate_connections_refused_total", COUNTER, "Client connections refused", ("protocol", "reason")),
    Metric(
        "sluicegate_mqtt_clients_redirected_total", COUNTER, "MQTT 5.0 clients sent to other servers", ("reason", "vpn")
    ),
    Metric("sluicegate_clients_denied_total", COUNTER, "Requests of clients that were denied", ("reason", "vpn")),
    Metric(
        "sluicegate_external_logins_total",
        COUNTER,
        "Logins that a web server or a directory decided about: "
        "allowed, denied, remembered, failed, not_asked, profile_missing",
        ("outcome", "vpn"),
    ),
    Metric(
        "sluicegate_token_keys_fetches_total",
        COUNTER,
        "Fetches of token keys from an authorization server: fetched, failed",
        ("outcome", "vpn"),
    ),
    Metric("sluicegate_token_keys_age_seconds", GAUGE, "How long ago token keys were fetched last", ("vpn",)),
    Metric(
        "sluicegate_operator_token_keys_fetches_total",
        COUNTER,
        "Fetches of the keys of operators' tokens from an authorization server: fetched, failed",
        ("outcome",),
    ),
    Metric(
        "sluicegate_operator_token_keys_age_seconds",
        GAUGE,
        "How long ago the keys of operators' tokens were fetched last",
    ),
    Metric(
        "sluicegate_payload_rule_messages_total",
        COUNTER,
        "Messages that a payload rule is for, by what became of them: fits, refuse, mark, count",
        ("outcome", "rule", "vpn"),
    ),
    Metric(
        "sluicegate_payload_rules_stale",
        GAUGE,
        "Payload rules whose schema file cannot be used, so that an earlier schema is in force",
        ("vpn",),
    ),
    Metric("sluicegate_logins_checked_total", COUNTER, "Passwords checked against hashes"),
    Metric("sluicegate_logins_waiting", GAUGE, "Passwords that wait for a check against hashes"),
    Metric("sluicegate_logins_refused_total", COUNTER, "Logins refused without a check of the password", ("reason",)),
    Metric(
        "sluicegate_connections_passed_total",
        COUNTER,
        "Connections passed on to other brokers of this machine",
        ("protocol", "way"),
    ),
    Metric(
        "sluicegate_connections_relayed",
        GAUGE,
        "Connections relayed to other brokers of this machine",
        ("protocol",),
    ),
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
    Metric("sluicegate_http_error_responses_total", COUNTER, "Requests of HTTP clients that failed", ("status",)),
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
)
