"""The metrics of the node as a whole: its release, whether it is ready, events, traces, actors."""

from typing import Final

from sluicegate.gateway.observability.metrics.metric import COUNTER, GAUGE, Metric

NODE: Final[tuple[Metric, ...]] = (
    Metric(
        "sluicegate_build_info",
        GAUGE,
        "Always 1; says which release runs",
        ("version",),
        former_name="sluicegate_build",
    ),
    Metric("sluicegate_ready", GAUGE, "Whether the node accepts traffic: 1 or 0"),
)

BROKERS: Final[tuple[Metric, ...]] = (
    Metric("sluicegate_broker_up", GAUGE, "Whether the broker takes traffic: 1 or 0"),
    Metric("sluicegate_broker_restarts_total", COUNTER, "Times that the broker was started again because it had ended"),
    Metric("sluicegate_broker_unresponsive_total", COUNTER, "Times that the broker stopped to answer the supervisor"),
    Metric("sluicegate_broker_killed_total", COUNTER, "Times that the broker was killed because it did not answer"),
    Metric(
        "sluicegate_broker_retiring",
        GAUGE,
        "Queues, sessions and other objects that a retired broker still has; only of retired brokers",
    ),
    Metric("sluicegate_broker_memory_bytes", GAUGE, "Resident memory of the broker's process"),
    Metric("sluicegate_broker_cpu_seconds_total", COUNTER, "Processor time of the broker's process"),
    Metric(
        "sluicegate_broker_limits_unshared_total",
        COUNTER,
        "Counts for limits of the machine that the other brokers were not shown, for want of room",
    ),
    Metric(
        "sluicegate_broker_spool_quota_bytes",
        GAUGE,
        "Part of `sluicegate_spool_messages_limit_bytes`, the machine's, that the broker holds",
    ),
)

EVENTS: Final[tuple[Metric, ...]] = (
    Metric("sluicegate_events_total", COUNTER, "Events emitted", ("event",)),
    Metric(
        "sluicegate_events_suppressed_total",
        COUNTER,
        "Events suppressed because there were too many of a kind",
        ("event",),
    ),
)

TRACES: Final[tuple[Metric, ...]] = (
    Metric("sluicegate_trace_spans_exported_total", COUNTER, "Spans that the trace collector accepted"),
    Metric("sluicegate_trace_spans_failed_total", COUNTER, "Spans that the trace collector did not accept"),
    Metric("sluicegate_trace_records_dropped_total", COUNTER, "Trace records dropped because the buffer was full"),
)

ACTORS: Final[tuple[Metric, ...]] = (
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
