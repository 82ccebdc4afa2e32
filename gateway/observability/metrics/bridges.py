"""The metrics of bridges to foreign brokers."""

from typing import Final

from sluicegate.gateway.observability.metrics.metric import COUNTER, GAUGE, Metric

BRIDGES: Final[tuple[Metric, ...]] = (
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
)
