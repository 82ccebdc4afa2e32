"""The metrics of links to neighbor brokers."""

from typing import Final

from sluicegate.gateway.observability.metrics.metric import COUNTER, GAUGE, Metric

LINKS: Final[tuple[Metric, ...]] = (
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
    Metric("sluicegate_queue_moves", GAUGE, "Queues that are being moved to other brokers", ("vpn",)),
    Metric(
        "sluicegate_queue_moves_waiting",
        GAUGE,
        "Of these, queues that have waited for a minute or longer for one reason",
        ("vpn",),
    ),
    Metric(
        "sluicegate_queue_moves_total",
        COUNTER,
        "Queues that were moved from here to other brokers (`sent`), or from them (`received`)",
        ("vpn", "direction"),
    ),
    Metric(
        "sluicegate_queue_moves_cancelled_total",
        COUNTER,
        "Moves of queues to other brokers that operators ended",
        ("vpn",),
    ),
    Metric(
        "sluicegate_queue_move_messages_total",
        COUNTER,
        "Messages handed over to the new brokers of their queues",
        ("vpn",),
    ),
    Metric(
        "sluicegate_queue_move_holds_total",
        COUNTER,
        "Times that publishers to a queue had to wait because its broker was about to change",
        ("vpn",),
    ),
    Metric("sluicegate_queue_move_held_seconds_total", COUNTER, "How long they had to, in all", ("vpn",)),
)
