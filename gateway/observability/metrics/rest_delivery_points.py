"""The metrics of REST delivery points."""

from typing import Final

from sluicegate.gateway.observability.metrics.metric import COUNTER, GAUGE, Metric

REST_DELIVERY_POINTS: Final[tuple[Metric, ...]] = (
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
)
