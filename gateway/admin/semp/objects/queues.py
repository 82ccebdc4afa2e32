"""SEMP's objects around queues: a row for each attribute, with its name there and where it is read.

Names and meanings are those of the reference; attributes that it does not have are ours, named in its manner. What is
not counted here is not in the table, rather than there with a zero.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from sluicegate.actors.messages.queues import ENDPOINT_DISABLED, MAX_BIND_COUNT_EXCEEDED
from sluicegate.gateway.admin.semp.errors import invalid_parameter
from sluicegate.gateway.admin.semp.objects.attributes import (
    BOOLEAN,
    INTEGER,
    TEXT,
    Schema,
    SempAttribute,
    SempCollection,
    SempObject,
    View,
    semp_name,
)
from sluicegate.gateway.admin.semp.query import Value
from sluicegate.gateway.views.queues.attributes import attribute_schema
from sluicegate.gateway.views.queues.messages import MessageView
from sluicegate.gateway.views.queues.queues import FlowView, QueueView
from sluicegate.messaging.message.thresholds import ThresholdPair
from sluicegate.messaging.queues.attributes import ATTRIBUTES, THRESHOLD, Attribute, AttributeValue, quoted
from sluicegate.messaging.queues.template import DURABILITY_OVERRIDES, NOT_IN_TEMPLATES, QueueTemplate

NAMED_BIND_FAILURES: Final = (ENDPOINT_DISABLED, MAX_BIND_COUNT_EXCEEDED)  # the others have no attribute of their own

PAIRS: Final = (("setPercent", "clearPercent", "%"), ("setValue", "clearValue", ""))
PAIR: Final[Schema] = {
    "type": "object",
    "properties": {name: {"type": "integer", "minimum": 1} for pair in PAIRS for name in pair[:2]},
    "additionalProperties": False,
}


@dataclass(frozen=True, slots=True)
class QueueFlow:
    """A consumer, and the queue that it is bound to."""

    queue: str
    flow: FlowView


def _pair_of(text: AttributeValue) -> Value:
    pair = ThresholdPair(str(text))
    unit = "Percent" if pair.is_percent else "Value"
    return {f"clear{unit}": pair.clear, f"set{unit}": pair.set}


def _pair_text(given: object) -> object:
    """Return a pair of thresholds as the admin API takes it, which checks it further. Raises SempError."""
    for set_name, clear_name, sign in PAIRS:
        if isinstance(given, dict) and given.keys() == {set_name, clear_name}:
            return f"{given[set_name]}/{given[clear_name]}{sign}"
    allowed = "setPercent and clearPercent, or setValue and clearValue"
    raise invalid_parameter(f"{quoted(given)} is not a pair of thresholds; allowed: {allowed}")


def _configuring(attribute: Attribute, read: Callable[[View], AttributeValue]) -> SempAttribute[View]:
    name = semp_name(attribute.name)
    if attribute.kind == THRESHOLD:
        return SempAttribute(
            name, PAIR, attribute.meaning, lambda view: _pair_of(read(view)), attribute.name, _pair_text
        )
    return SempAttribute(name, attribute_schema(attribute), attribute.meaning, read, attribute.name)


def _of_queue(name: str) -> Callable[[QueueView], AttributeValue]:
    return lambda queue: queue.config.to_dict()[name]


def _of_template(attribute: Attribute) -> Callable[[QueueTemplate], AttributeValue]:
    return lambda template: template.attributes.get(attribute.name, attribute.default)


def _discards(name: str, meaning: str, counted: str) -> SempAttribute[QueueView]:
    return SempAttribute(name, INTEGER, meaning, lambda queue: queue.discards.get(counted, 0))


def _refused(name: str, meaning: str, *reasons: str) -> SempAttribute[QueueView]:
    """Return a counter of messages that the queue did not take, whether their publishers were told or not."""

    def count(queue: QueueView) -> int:
        return sum(counts.get(reason, 0) for counts in (queue.refusals, queue.drops) for reason in reasons)

    return SempAttribute(name, INTEGER, meaning, count)


def _bind_failures(name: str, meaning: str, counted: str) -> SempAttribute[QueueView]:
    return SempAttribute(name, INTEGER, meaning, lambda queue: queue.bind_refusals.get(counted, 0))


def _other_bind_failures(queue: QueueView) -> int:
    return sum(count for reason, count in queue.bind_refusals.items() if reason not in NAMED_BIND_FAILURES)


QUEUE: Final[SempObject[QueueView]] = SempObject(
    "queue",
    "queueName",
    (
        SempAttribute("queueName", TEXT, "name", lambda queue: queue.name, "name"),
        *(_configuring(each, _of_queue(each.name)) for each in ATTRIBUTES),
        SempAttribute(
            "brokerName",
            TEXT,
            "neighbor, or broker of this machine, that has it; empty: this broker",
            lambda queue: queue.broker,
        ),
        SempAttribute(
            "moveToBrokerName",
            TEXT,
            "broker that it is being moved to; empty: it stays",
            lambda queue: "" if queue.move is None else queue.move.broker,
        ),
        SempAttribute(
            "moveBeginTime",
            INTEGER,
            "seconds since 1970; 0: it stays",
            lambda queue: 0 if queue.move is None else queue.move.begun_ms // 1000,
        ),
        SempAttribute(
            "movedMsgCount",
            INTEGER,
            "messages that were moved to that broker",
            lambda queue: 0 if queue.move is None else queue.move.moved_count,
        ),
        SempAttribute("durable", BOOLEAN, "false: temporary", lambda queue: queue.durable),
        SempAttribute("msgSpoolUsage", INTEGER, "bytes of its messages", lambda queue: queue.spooled_bytes),
        SempAttribute(
            "spooledMsgCount", INTEGER, "messages accepted since the start", lambda queue: queue.accepted_total
        ),
        SempAttribute(
            "averageRxMsgRate",
            INTEGER,
            "incoming messages per second, mean of the last minute",
            lambda queue: round(queue.accepted_rate),
        ),
        SempAttribute("bindCount", INTEGER, "bound consumers", lambda queue: len(queue.flows)),
        SempAttribute(
            "txUnackedMsgCount", INTEGER, "delivered but unsettled messages", lambda queue: queue.unacked_count
        ),
        SempAttribute("redeliveredMsgCount", INTEGER, "redeliveries", lambda queue: queue.redelivered_total),
        SempAttribute("topicSubscriptionCount", INTEGER, "topic subscriptions", lambda queue: len(queue.subscriptions)),
        SempAttribute(
            "partitionOperationalCount",
            INTEGER,
            "existing partitions",
            lambda queue: queue.partition_operational_count,
        ),
        SempAttribute(
            "partitionRebalanceStatus",
            TEXT,
            "whether partitions are moving between consumers",
            lambda queue: str(queue.rebalance_status),
        ),
        SempAttribute(
            "partitionScaleStatus",
            TEXT,
            "whether the configured number of partitions exists",
            lambda queue: str(queue.scale_status),
        ),
        _discards("maxTtlExpiredDiscardedMsgCount", "expired and discarded", "expired_discarded"),
        _discards("maxTtlExpiredToDmqMsgCount", "expired and moved to the dead message queue", "expired_to_dmq"),
        _discards(
            "maxTtlExpiredToDmqFailedMsgCount",
            "expired and refused by the dead message queue",
            "expired_to_dmq_failed",
        ),
        _discards(
            "maxRedeliveryExceededDiscardedMsgCount",
            "delivered too often and discarded",
            "max_redelivery_exceeded_discarded",
        ),
        _discards(
            "maxRedeliveryExceededToDmqMsgCount",
            "delivered too often and moved to the dead message queue",
            "max_redelivery_exceeded_to_dmq",
        ),
        _discards(
            "maxRedeliveryExceededToDmqFailedMsgCount",
            "delivered too often and refused by the dead message queue",
            "max_redelivery_exceeded_to_dmq_failed",
        ),
        _refused(
            "maxMsgSpoolUsageExceededDiscardedMsgCount",
            "not taken because maxMsgSpoolUsage was reached",
            "endpoint_usage_exceeded",
        ),
        _refused("maxMsgSizeExceededDiscardedMsgCount", "not taken: larger than maxMsgSize", "max_msg_size_exceeded"),
        _refused("disabledDiscardedMsgCount", "not taken because ingress was shut down", "endpoint_disabled"),
        _refused(
            "lowPriorityMsgCongestionDiscardedMsgCount",
            "not taken: of low priority, and rejectLowPriorityMsgLimit was reached",
            "low_priority_msg_congestion",
        ),
        _refused(
            "spoolUsageExceededDiscardedMsgCount",
            "not taken because the spool or the message VPN's part of it was full",
            "spool_usage_exceeded",
            "vpn_usage_exceeded",
        ),
        _refused("spoolNotReadyDiscardedMsgCount", "not taken because the spool had failed", "spool_failed"),
        _refused(
            "localMsgCountExceededDiscardedMsgCount",
            "not taken because the queue or the broker held the most messages it may",
            "queue_msg_count_exceeded",
            "spool_msg_count_exceeded",
        ),
        _bind_failures("disabledBindFailureCount", "binds refused because egress was shut down", ENDPOINT_DISABLED),
        _bind_failures(
            "maxBindCountExceededBindFailureCount",
            "binds refused because maxBindCount was reached",
            MAX_BIND_COUNT_EXCEEDED,
        ),
        SempAttribute("otherBindFailureCount", INTEGER, "binds refused for other reasons", _other_bind_failures),
    ),
    (
        SempCollection("msgs", lambda queue: queue.spooled_count),
        SempCollection("subscriptions", lambda queue: len(queue.subscriptions), configures=True),
        SempCollection("txFlows", lambda queue: len(queue.flows)),
    ),
)

MESSAGE: Final[SempObject[MessageView]] = SempObject(
    "msg",
    "msgId",
    (
        SempAttribute("msgId", TEXT, "partition and sequence", lambda message: message.id),
        SempAttribute("replicationGroupMsgId", TEXT, "the same ID, for copyMsgFromQueue", lambda message: message.id),
        SempAttribute("spooledTime", INTEGER, "seconds since 1970", lambda message: message.received_ms // 1000),
        SempAttribute(
            "redeliveryCount",
            INTEGER,
            "redeliveries so far",
            lambda message: max(0, message.delivery_count - 1),
        ),
        SempAttribute("partitionKey", TEXT, "partition key; empty: none", lambda message: message.key or ""),
        SempAttribute("contentSize", INTEGER, "bytes of the payload", lambda message: message.size_bytes),
    ),
)

SUBSCRIPTION: Final[SempObject[str]] = SempObject(
    "subscription",
    "subscriptionTopic",
    (SempAttribute("subscriptionTopic", TEXT, "the topic filter", lambda topic: topic, "topic"),),
)

TX_FLOW: Final[SempObject[QueueFlow]] = SempObject(
    "txFlow",
    "flowId",
    (
        SempAttribute("flowId", TEXT, "id", lambda bound: bound.flow.id),
        SempAttribute("queueName", TEXT, "queue that it is bound to", lambda bound: bound.queue),
        SempAttribute("clientName", TEXT, "its client", lambda bound: bound.flow.client),
        SempAttribute(
            "activityState", TEXT, "active-consumer, active-browser or inactive", lambda bound: bound.flow.activity
        ),
        SempAttribute("windowSize", INTEGER, "maximum number of unsettled messages", lambda bound: bound.flow.window),
        SempAttribute(
            "unackedMsgCount", INTEGER, "delivered but unsettled messages", lambda bound: bound.flow.unacked_count
        ),
        SempAttribute("selector", TEXT, "selector; empty: everything", lambda bound: bound.flow.selector or ""),
    ),
)

QUEUE_TEMPLATE: Final[SempObject[QueueTemplate]] = SempObject(
    "queueTemplate",
    "queueTemplateName",
    (
        SempAttribute("queueTemplateName", TEXT, "name", lambda template: template.name, "name"),
        SempAttribute(
            "queueNameFilter",
            TEXT,
            "queue names; `*` stands for a level or its rest, a final `>` for one or more levels",
            lambda template: template.queue_name_filter,
            "queue_name_filter",
        ),
        SempAttribute(
            "durabilityOverride",
            {**TEXT, "enum": list(DURABILITY_OVERRIDES)},
            "non-durable: queues that clients create as durable become temporary",
            lambda template: template.durability_override,
            "durability_override",
        ),
        *(_configuring(each, _of_template(each)) for each in ATTRIBUTES if each.name not in NOT_IN_TEMPLATES),
    ),
)
