"""Explaining a gate: what each of its checks would say of one message. The gates are `messaging.queues.admission`."""

from sluicegate.gateway.views.explanations import CheckView
from sluicegate.messaging.message.refusals import (
    REFUSAL_COUNTERS,
    REFUSED_LOW_PRIORITY,
    REFUSED_MESSAGE_TOO_LARGE,
    REFUSED_QUEUE_COUNT,
    REFUSED_QUEUE_FULL,
    REFUSED_SHUT_DOWN,
    REFUSED_SPOOL_COUNT,
    limited_text,
)
from sluicegate.messaging.queues.admission import LOW_PRIORITY_BELOW, NO_LIMIT, QueueGate, SpoolGate


def checks_of(gate: QueueGate, size_bytes: int, priority: int) -> list[CheckView]:
    """Return every check of a gate on one message, in the order in which they are made."""
    chain: list[SpoolGate] = []
    spool = gate.spool
    while spool is not None:
        chain.insert(0, spool)
        spool = spool.parent
    checks = [
        _check(
            gate,
            each.blocked_refusal if each.blocked else each.refusal,
            each.usage_bytes,
            each.usage_bytes_max,
            size_bytes,
            "bytes",
            each.blocked,
        )
        for each in chain
    ]
    checks.append(_check(gate, REFUSED_QUEUE_FULL, gate.usage_bytes, gate.usage_bytes_max, size_bytes, "bytes"))
    checks.append(_check(gate, REFUSED_MESSAGE_TOO_LARGE, 0, gate.message_bytes_max, size_bytes, "bytes"))
    shut = "" if gate.ingress_enabled else "ingress is shut down"
    checks.append(_check(gate, REFUSED_SHUT_DOWN, 0, NO_LIMIT, 0, "", shut))
    low_max = gate.low_priority_count_max if priority < LOW_PRIORITY_BELOW else NO_LIMIT
    checks.append(_check(gate, REFUSED_LOW_PRIORITY, gate.usage_count, low_max, 1, "messages"))
    checks.append(_check(gate, REFUSED_QUEUE_COUNT, gate.usage_count, gate.usage_count_max, 1, "messages"))
    checks += [
        _check(gate, REFUSED_SPOOL_COUNT, each.usage_count, each.usage_count_max, 1, "messages")
        for each in reversed(chain)
        if each.usage_count_max != NO_LIMIT
    ]
    return checks


def _check(gate: QueueGate, verdict: int, usage: int, limit: int, more: int, unit: str, blocked: str = "") -> CheckView:
    refused = bool(blocked) or usage + more > limit
    return CheckView(
        check=REFUSAL_COUNTERS[verdict],
        usage=usage,
        adds=more,
        limit=None if limit == NO_LIMIT else limit,
        unit=unit,
        refused=refused,
        publisher_hears=refused and gate.refuses_publisher(verdict),
        reason=blocked or (limited_text(verdict, gate.limit(verdict)) if refused else ""),
    )
