"""Explaining a publish: where a message would go, which partition it would get, and what each gate would say.

It asks what publishing asks, in the same order, and changes nothing. Publishing itself is `actors.publishing`, the
gates are `messaging.admission`.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from gateway.explanations import CheckView, DestinationView, PublishExplanation
from messaging.admission import LOW_PRIORITY_BELOW, NO_LIMIT, QueueGate, SpoolGate
from messaging.headers import PRIORITY_DEFAULT
from messaging.partitioning import key_hash
from messaging.refusals import (
    REFUSAL_COUNTERS,
    REFUSED_LOW_PRIORITY,
    REFUSED_MESSAGE_TOO_LARGE,
    REFUSED_NO_MATCH,
    REFUSED_QUEUE_COUNT,
    REFUSED_QUEUE_FULL,
    REFUSED_SHUT_DOWN,
    REFUSED_SPOOL_COUNT,
    refusal_text,
)
from messaging.routing import QueueTarget, ShareGroup, Subscriber, Subscription, TopicSpace
from messaging.selectors import Selector
from messaging.topics import matches


@dataclass(frozen=True, slots=True, kw_only=True)
class Specimen:
    """The message that is asked about."""

    topic: str  # empty for one that is sent to a queue
    size_bytes: int = 0
    qos: int = 1
    key: str | None = None
    priority: int = PRIORITY_DEFAULT
    client_id: str = ""  # of its publisher; empty: nobody said

    @property
    def is_guaranteed(self) -> bool:
        """Whether it would be spooled for clients that ask for it."""
        return self.qos > 0


def explain_publish(space: TopicSpace, message: Specimen) -> PublishExplanation:
    """Explain a publish to a topic."""
    destinations = list(_destinations(space, message))
    return _explanation(message, destinations, retained=space.retained.get(message.topic) is not None, space=space)


def explain_queue(target: QueueTarget, message: Specimen) -> PublishExplanation:
    """Explain a message that is sent to a queue."""
    destination = _queue(target, "queue", target.name, "", message)
    return _explanation(message, [destination], retained=False, space=None)


def checks_of(gate: QueueGate, size_bytes: int, priority: int) -> list[CheckView]:
    """Return every check of a gate on one message, in the order in which they are made."""
    chain: list[SpoolGate] = []
    spool = gate.spool
    while spool is not None:
        chain.insert(0, spool)
        spool = spool.parent
    checks = [
        _check(gate, each.refusal, each.usage_bytes, each.usage_bytes_max, size_bytes, "bytes", each.blocked)
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
        reason=blocked or (refusal_text(verdict, "") if refused else ""),
    )


def _destinations(space: TopicSpace, message: Specimen) -> Iterator[DestinationView]:
    """Yield where a message goes, and where definitions send it on; a queue once, as it takes a message once."""
    queues: set[str] = set()
    for view in _all_ways(space, message):
        if view.kind != "queue" or view.name not in queues:
            yield view
        if view.kind == "queue":
            queues.add(view.name)


def _all_ways(space: TopicSpace, message: Specimen) -> Iterator[DestinationView]:
    ways, keeps_own = ([], True) if space.expander is None else space.expander.ways(message.topic)
    if keeps_own:
        yield from _own(space, message)
    for way in ways:
        for view in _all_ways(space, replace(message, topic=way.topic)):
            by = f"{way.definition}: {view.filter}" if view.filter != way.topic else way.definition
            if way.condition and view.verdict in ("spooled", "delivered"):
                view = replace(view, reason=f"{way.condition}; {view.reason}" if view.reason else way.condition)
            yield replace(view, filter=by)


def _own(space: TopicSpace, message: Specimen) -> Iterator[DestinationView]:
    best: dict[Subscriber, tuple[int, str, Selector | None]] = {}
    queues: dict[QueueTarget, None] = {}
    for filter_text, found in space.trace(message.topic):
        if isinstance(found, Subscription):
            qos, _, selector = best.get(found.subscriber, (-1, "", None))
            if found.qos > qos or (found.qos == qos and selector is not None):
                best[found.subscriber] = (found.qos, filter_text, found.selector)
        elif isinstance(found, ShareGroup):
            yield _group(found, message)
        else:
            queues[found] = None
    for target in queues:
        matching = next(each.text for each in target.topic_filters if matches(each, message.topic))
        view = _queue(target, "queue", target.name, matching, message)
        yield view if target.selector is None or view.reason else replace(view, reason=_if_selected(target.selector))
    for subscriber, (qos, filter_text, selector) in best.items():
        if message.is_guaranteed and qos > 0 and subscriber.queue is not None:
            view = _queue(subscriber.queue, "client", subscriber.client, filter_text, message)
        else:
            view = _direct("client", subscriber.client, filter_text, subscriber.address is not None)
        if selector is not None and not view.reason:
            view = replace(view, reason=_if_selected(selector))
        yield view


def _if_selected(selector: Selector) -> str:
    return f"if its selector selects the message: {selector.text}"


def _group(group: ShareGroup, message: Specimen) -> DestinationView:
    if message.is_guaranteed and group.queue is not None:
        return _queue(group.queue, "shared-group", group.name, group.filter_text, message)
    present = any(member.address is not None for member in group.members.values())
    return _direct("shared-group", group.name, group.filter_text, present)


def _direct(kind: str, name: str, filter_text: str, present: bool) -> DestinationView:
    verdict = "delivered" if present else "dropped"
    reason = "" if present else "nobody of it is connected, and direct messages are not kept"
    return DestinationView(kind=kind, name=name, filter=filter_text, verdict=verdict, reason=reason)


def _queue(target: QueueTarget, kind: str, name: str, filter_text: str, message: Specimen) -> DestinationView:
    exceptions = target.exceptions if message.topic else []  # what is sent to a queue by name goes there
    exception = next((each.text for each in exceptions if matches(each, message.topic)), None)
    if exception is not None:
        reason = f"the exception !{exception} keeps it out"
        return DestinationView(
            kind=kind, name=name, filter=filter_text, verdict="kept-out", exception=exception, reason=reason
        )
    checks = checks_of(target.gate, message.size_bytes, message.priority)
    failed = next((each for each in checks if each.refused), None)
    verdict = "spooled" if failed is None else "refused" if failed.publisher_hears else "dropped"
    partition, why = _partition(target, message)
    return DestinationView(
        kind=kind,
        name=name,
        filter=filter_text,
        verdict=verdict,
        reason="" if failed is None else failed.reason,
        queue=target.name,
        partition=partition,
        partition_reason=why,
        checks=tuple(checks),
    )


def _partition(target: QueueTarget, message: Specimen) -> tuple[int | None, str]:
    count = len(target.partitions)
    if count == 1:
        return 0, "the queue has one partition"
    key, origin = message.key or "", ""
    source = target.key_source
    if not key and source is not None:
        key = source.key(message.topic, message.client_id)
        level = source.topic_level
        origin = f" {key!r} from " + (f"level {level} of the topic" if level else "the publisher's client id")
        if not key and level == 0:
            return None, f"one of {count}: the key is the publisher's client id, and none was named"
    if not key:
        return None, f"any of {count}: without a key the partition is chosen at random"
    hashed = key_hash(key)
    return target.partition_of(hashed), f"the key{origin} has hash 0x{hashed:04x} among {count} partitions"


def _explanation(
    message: Specimen, destinations: list[DestinationView], *, retained: bool, space: TopicSpace | None
) -> PublishExplanation:
    refusing = next((each for each in destinations if each.verdict == "refused"), None)
    verdict, reason = "accepted", ""
    if refusing is not None:
        verdict = "refused" if message.is_guaranteed else "dropped"
        reason = f"{refusing.reason} ({refusing.queue})"
    elif not any(each.verdict != "kept-out" for each in destinations):
        refuses = space is not None and space.refuses_unmatched and message.is_guaranteed
        verdict, reason = "refused" if refuses else "dropped", refusal_text(REFUSED_NO_MATCH, "")
    elif not any(each.verdict in ("spooled", "delivered") for each in destinations):
        verdict, reason = "dropped", "none of its destinations takes it, and its publisher does not hear of it"
    return PublishExplanation(
        topic=message.topic,
        key=message.key,
        size_bytes=message.size_bytes,
        qos=message.qos,
        verdict=verdict,
        reason=reason,
        retained_now=retained,
        destinations=tuple(destinations),
    )
