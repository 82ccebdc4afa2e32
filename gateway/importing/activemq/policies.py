"""Policies of destinations: attributes of the queues that are declared, and templates for those that clients create."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final, TypeVar, final

from sluicegate.gateway.importing.activemq.values import flag_of, number_of
from sluicegate.gateway.importing.imported import Imported
from sluicegate.gateway.importing.names import queue_name_problem
from sluicegate.gateway.importing.report import Report
from sluicegate.gateway.importing.xml_text import Element
from sluicegate.messaging.queues.definition import QueueInvalid
from sluicegate.messaging.queues.template import template_from_dict

SHARED_DLQ: Final = "ActiveMQ.DLQ"  # where everything dies that has no other place
REDELIVERIES: Final = 6  # of a client that says nothing
FLOW_MAX: Final = 1_000_000
EVERYTHING: Final = ">"
T = TypeVar("T")

DIFFERENT: Final[Mapping[str, str]] = MappingProxyType(
    dict.fromkeys(
        ("memoryLimit", "cursorMemoryHighWaterMark", "maxPageSize", "maxBrowsePageSize", "useCache",
         "storeUsageHighWaterMark"),
        "memory is shared by all queues (spool.memory_bytes_max); what does not fit is on disk",
    )
    | dict.fromkeys(
        ("producerFlowControl", "alwaysRetroactive", "blockedProducerWarningInterval"),
        "a full queue refuses messages (max_msg_spool_usage); producers are not blocked",
    )
    | dict.fromkeys(
        ("optimizedDispatch", "lazyDispatch", "strictOrderDispatch", "useConsumerPriority", "timeBeforeDispatchStarts",
         "consumersBeforeDispatchStarts", "topicPrefetch", "durableTopicPrefetch", "queueBrowserPrefetch",
         "usePrefetchExtension"),
        "consumers give credit, and the one with the fewest unsettled messages is served first",
    )
    | dict.fromkeys(
        ("expireMessagesPeriod", "maxExpirePageSize", "optimizeMessageStoreInFlightLimit", "doOptimzeMessageStorage",
         "persistJMSRedelivered", "reduceMemoryFootprint", "enableAudit", "maxProducersToAudit", "maxAuditDepth",
         "maxQueueAuditDepth"),
        "the broker sees to it by itself",
    )
    | dict.fromkeys(
        ("advisoryForConsumed", "advisoryForDelivery", "advisoryForDiscardingMessages", "advisoryForFastProducers",
         "advisoryForSlowConsumers", "advisoryWhenFull", "sendAdvisoryIfNoConsumers", "includeBodyForAdvisory"),
        "counters of each queue, metrics and events say it",
    )
)  # fmt: skip
DIFFERENT_ELEMENTS: Final = (
    "pendingQueuePolicy", "pendingSubscriberPolicy", "pendingDurableSubscriberPolicy", "dispatchPolicy",
    "subscriptionRecoveryPolicy", "pendingMessageLimitStrategy", "slowConsumerStrategy", "messageEvictionStrategy",
    "messageGroupMapFactory", "networkBridgeFilterFactory", "destination",
)  # fmt: skip


@final
@dataclass(slots=True)
class Policies:
    """What queues get, by their names."""

    by_name: dict[str, dict[str, Any]] = field(default_factory=dict)  # attributes of a policy, by its pattern
    individual: dict[str, str] = field(default_factory=dict)  # prefix of dead message queues, by pattern
    declared: dict[str, dict[str, Any]] = field(default_factory=dict)
    templates: list[dict[str, Any]] = field(default_factory=list)

    def declare(self, name: str) -> str:
        """Declare a queue with what its policy says; return why it cannot be, empty if it can."""
        problem = queue_name_problem(name)
        if problem or name in self.declared:
            return problem
        attributes = {"name": name, **_closest(self.by_name, name, {})}
        prefix = _closest(self.individual, name, "")
        if prefix:
            attributes["dead_msg_queue"] = prefix + name
        self.declared[name] = attributes
        dead = str(attributes.get("dead_msg_queue", ""))
        if dead and dead not in self.declared and not queue_name_problem(dead):
            self.declared[dead] = {"name": dead, "access_type": "non-exclusive", "dead_msg_queue": ""}
        return ""

    def set_everywhere(self, attribute: str, value: object) -> None:
        """Set an attribute of all queues but those for dead messages."""
        for attributes in (*self.by_name.values(), *self.templates):
            attributes[attribute] = value
        dead = {each.get("dead_msg_queue") for each in self.declared.values()}
        for name, attributes in self.declared.items():
            if name not in dead:
                attributes[attribute] = value
        if attribute == "max_ttl":
            self.set_everywhere("respect_ttl_enabled", True)


def _closest(entries: Mapping[str, T], name: str, default: T) -> T:
    """Return what the closest pattern for a name has."""
    found = [pattern for pattern in entries if matches(pattern, name)]
    return entries[max(found, key=_closeness)] if found else default


def matches(pattern: str, name: str) -> bool:
    """Return whether a name with wildcards is one for this name, as ActiveMQ has it."""
    ours, theirs = pattern.split("."), name.split(".")
    if ours[-1] == EVERYTHING:
        ours = ours[:-1]
        if len(theirs) < len(ours):
            return False
        theirs = theirs[: len(ours)]
    return len(ours) == len(theirs) and all(one in ("*", other) for one, other in zip(ours, theirs, strict=True))


def _closeness(pattern: str) -> tuple[int, ...]:
    return tuple({EVERYTHING: 0, "*": 1}.get(level, 2) for level in pattern.split("."))


def take_policies(broker: Element, imported: Imported) -> Policies:
    """Take the policies, and declare the destinations that are created at the start. Raises ImportFailed."""
    report = imported.report
    policies = Policies()
    for name in ("policyEntry", "defaultEntry"):
        for entry in broker.all(name):
            if entry.name == "policyEntry":
                _entry(entry, policies, report)
    policies.by_name.setdefault(EVERYTHING, _defaults())
    for pattern, attributes in policies.by_name.items():
        _template(pattern, attributes, policies, broker, report)
    policies.declare(SHARED_DLQ)
    policies.declared[SHARED_DLQ] = {"name": SHARED_DLQ, "access_type": "non-exclusive", "dead_msg_queue": ""}
    text = (
        f"{REDELIVERIES} redeliveries, as ActiveMQ's clients have by default: there the client counts, here the queue"
    )
    report.differs(broker.setting(), f"max_redelivery_count: {text}")
    for destinations in broker.children:
        if destinations.name == "destinations":
            for each in destinations.children:
                _destination(each, policies, report)
    return policies


def _destination(each: Element, policies: Policies, report: Report) -> None:
    name = each.get("physicalName")
    if each.name != "queue":
        report.taken(each.setting(), "a topic needs no declaration")
        return
    problem = policies.declare(name)
    if problem:
        report.not_taken(each.setting(), problem)
    else:
        report.taken(each.setting(), f"queues.declared: {name}")


def _defaults() -> dict[str, Any]:
    return {
        "access_type": "non-exclusive",
        "dead_msg_queue": SHARED_DLQ,
        "max_redelivery_count": REDELIVERIES,
        "respect_ttl_enabled": True,
    }


def _template(pattern: str, attributes: dict[str, Any], policies: Policies, broker: Element, report: Report) -> None:
    made = {"name": f"activemq-{len(policies.templates) + 1}", "queue_name_filter": pattern, **attributes}
    try:
        template_from_dict(dict(made))
    except QueueInvalid as problem:
        report.not_taken(broker.setting(), f"a template for {pattern!r}: {problem.reason}; allowed: {problem.allowed}")
        return
    policies.templates.append(made)


def _entry(entry: Element, policies: Policies, report: Report) -> None:
    queue, topic = entry.get("queue"), entry.get("topic")
    entry.is_noted = True
    attributes = _defaults()
    pattern = queue or topic
    for attribute in [each for each in entry.attributes if each not in ("queue", "topic", "tempQueue", "tempTopic")]:
        _attribute(entry, attribute, attributes, bool(queue), report)
    for each in entry.children:
        if each.name == "deadLetterStrategy" and queue:
            _dead_letters(each, pattern, attributes, policies, report)
        elif each.name == "deadLetterStrategy":
            each.note(report.differs, "queues of subscriptions to topics have no dead message queue")
        elif each.name in DIFFERENT_ELEMENTS:
            each.note(report.differs, "queues keep order, and slow consumers do not hold up others; see queues.md")
    if queue:
        policies.by_name[pattern] = attributes
        report.taken(entry.setting(), f"a template for queues of {pattern!r}, and attributes of those declared")
        if pattern.endswith(".*"):
            report.differs(entry.setting(), "`*` at the end of a template's filter is any number of levels with dots")
    else:
        report.differs(entry.setting(), "a topic has no policy here: each durable subscription has a queue of its own")


def _attribute(entry: Element, attribute: str, made: dict[str, Any], is_queue: bool, report: Report) -> None:
    setting = entry.setting(attribute)
    if attribute in DIFFERENT or not is_queue:
        report.differs(setting, DIFFERENT.get(attribute, "a topic has no policy here"))
    elif attribute == "prioritizedMessages":
        made["respect_msg_priority_enabled"] = flag_of(entry, attribute, False)
        report.taken(setting, "respect_msg_priority_enabled")
    elif attribute == "allConsumersExclusiveByDefault":
        made["access_type"] = "exclusive" if flag_of(entry, attribute, False) else "non-exclusive"
        report.taken(setting, f"access_type: {made['access_type']}")
    elif attribute == "queuePrefetch":
        made["max_delivered_unacked_msgs_per_flow"] = min(max(number_of(entry, attribute), 1), FLOW_MAX)
        report.taken(setting, f"max_delivered_unacked_msgs_per_flow: {made['max_delivered_unacked_msgs_per_flow']}")
    elif attribute in ("inactiveTimeoutBeforeGC", "inactiveTimoutBeforeGC"):
        if flag_of(entry, "gcInactiveDestinations", False):
            made["expires_unbound_s"] = max(-(-number_of(entry, attribute) // 1000), 1)
            report.taken(setting, f"expires_unbound_s: {made['expires_unbound_s']}")
            report.differs(setting, "a queue that expires is deleted with its messages; there only an empty one is")
        else:
            report.taken(setting, "without gcInactiveDestinations it has no meaning, there and here")
    elif attribute == "gcInactiveDestinations":
        report.taken(setting, "expires_unbound_s")
    else:
        report.not_taken(setting, "this importer does not know it")


def _dead_letters(outer: Element, pattern: str, made: dict[str, Any], policies: Policies, report: Report) -> None:
    outer.is_noted = True
    for each in outer.children:
        if each.name == "individualDeadLetterStrategy":
            prefix = each.get("queuePrefix", "ActiveMQ.DLQ.Queue.")
            policies.individual[pattern] = prefix
            report.taken(each.setting(), f"dead_msg_queue: {prefix}NAME, of queues that are declared")
            text = f"those of queues that clients create are in {SHARED_DLQ}; sluicegate-dead-queue says of which"
            report.not_taken(each.setting(), text)
        elif each.name == "discarding":
            made["dead_msg_queue"] = ""
            report.taken(each.setting(), "dead_msg_queue: empty")
        elif each.name == "sharedDeadLetterStrategy":
            named = each.get("deadLetterQueue") or next((q.get("physicalName") for q in each.all("queue")), "")
            made["dead_msg_queue"] = SHARED_DLQ if not named or named.startswith("#") else named
            report.taken(each.setting(), f"dead_msg_queue: {made['dead_msg_queue']}")
            for inner in each.children:
                inner.note(report.taken, f"dead_msg_queue: {made['dead_msg_queue']}")
        else:
            report.not_taken(each.setting(), "this importer does not know it")
        for attribute in each.attributes:
            if attribute in ("queuePrefix", "deadLetterQueue"):
                continue
            texts = {
                "processExpired": "expired messages go to the dead message queue, too: respect_ttl_enabled",
                "processNonPersistent": "every message of a queue is treated alike",
                "expiration": "give the dead message queue a max_ttl",
                "enableAudit": "a message dies once",
            }
            report.differs(each.setting(attribute), texts.get(attribute, "a queue has one dead message queue"))
