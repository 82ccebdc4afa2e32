"""Explain a publish: where a message would go, where not and why, its partition, and the answer of each gate.

It makes the checks of publishing, in the same order, with the message itself, and changes nothing. Publishing itself is
`actors.publishing.publisher`; what a definition forwards is `messaging.routing.virtual.resolver`.
"""

from collections.abc import Iterator
from dataclasses import replace

from sluicegate.actors.messages.directory import FindQueue, LocalQueue
from sluicegate.actors.messages.operations import ExplainKey
from sluicegate.gateway.node.vpn import MessageVpn
from sluicegate.gateway.operations.queues.asking import ask_queue, not_found, overview_of
from sluicegate.gateway.views.queues.explanations import (
    CheckView,
    DestinationView,
    ExampleMessage,
    KeyExplanation,
    PublishExplanation,
)
from sluicegate.gateway.views.queues.queues import PartitionStatus
from sluicegate.messaging.clients.rights import ClientRights
from sluicegate.messaging.message.keys import key_hash
from sluicegate.messaging.message.refusals import (
    ADMITTED,
    REFUSAL_COUNTERS,
    REFUSED_LOW_PRIORITY,
    REFUSED_MESSAGE_TOO_LARGE,
    REFUSED_NO_MATCH,
    REFUSED_NOT_FOUND,
    REFUSED_PUBLISH_ACL,
    REFUSED_QUEUE_COUNT,
    REFUSED_QUEUE_FULL,
    REFUSED_SHUT_DOWN,
    REFUSED_SPOOL_COUNT,
    limited_text,
    refusal_text,
)
from sluicegate.messaging.network.neighbors import LinkRoute
from sluicegate.messaging.partitions.explain import KeyStatus, WaitReason
from sluicegate.messaging.queues.admission import LOW_PRIORITY_BELOW, NO_LIMIT, QueueGate, SpoolGate
from sluicegate.messaging.routing.deliver_to_one import whose_turn
from sluicegate.messaging.routing.destinations import QueueTarget, ShareGroup, Subscriber
from sluicegate.messaging.routing.receivers import Way, groups_elsewhere
from sluicegate.messaging.routing.routes import TopicSpace
from sluicegate.messaging.selectors.selector import Selector
from sluicegate.messaging.topics.syntax import (
    TopicError,
    check_published_topic,
    check_topic_name,
    in_mqtt_syntax,
    is_queue_topic,
    matches,
    queue_name_of,
    queue_topic,
)

# --- explaining a gate: the result of each of its checks. The gates are `messaging.queues.admission` ---


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


TAKEN = ("spooled", "delivered")
NOT_SENT = ("kept-out", "not-selected", "not-its-turn")  # it is not sent there at all

_Turns = tuple[list[Subscriber], Subscriber | None]


def explain_publish(
    space: TopicSpace, message: ExampleMessage, rights: ClientRights | None, *, topic_problem: str, wall_ms: int
) -> PublishExplanation:
    """Explain a publish to a topic, or to a queue by its own topic.

    `rights` are its publisher's, None if unknown. `topic_problem` says why no client may publish to the topic.
    """
    explaining = _Explaining(space, message, wall_ms)
    destinations = _each_queue_once(list(explaining.destinations(message.topic, spares=False)))
    refusal = topic_problem or _refusal_of(rights, explaining)
    unmatched = space.route_of_row(explaining.batch, 0).is_empty
    verdict, reason = _verdict(space, message, destinations, refusal, is_unmatched=unmatched)
    return PublishExplanation(
        topic=message.topic,
        key=message.key,
        size_bytes=message.size_bytes,
        qos=message.qos,
        verdict=verdict,
        reason=reason,
        retained_now=space.retained.get(message.topic) is not None,
        publisher="" if rights is None else _publisher(rights),
        destinations=tuple(destinations),
    )


def _publisher(rights: ClientRights) -> str:
    user = f"client username {rights.username!r}" if rights.username else "an anonymous client"
    return f"{user}, ACL profile {rights.acl.name!r}, client profile {rights.profile.name!r}"


def _refusal_of(rights: ClientRights | None, explaining: "_Explaining") -> str:
    """Return why the publisher may not publish the message; empty if it may."""
    verdict = ADMITTED if rights is None else rights.verdict_on(explaining.batch)
    if rights is None or verdict == ADMITTED:
        return ""
    profile = f"ACL profile {rights.acl.name!r}" if verdict == REFUSED_PUBLISH_ACL else f"{rights.profile.name!r}"
    return f"{refusal_text(verdict, '')} ({profile})"


def _verdict(
    space: TopicSpace, message: ExampleMessage, destinations: list[DestinationView], refusal: str, *, is_unmatched: bool
) -> tuple[str, str]:
    """Return the verdict on the message as a whole, and the reason."""
    refused = "refused" if message.is_guaranteed else "dropped"
    refusing = next((each for each in destinations if each.verdict == "refused"), None)
    if refusal:
        return refused, refusal
    if refusing is not None:
        return refused, f"{refusing.reason} ({refusing.queue or refusing.name})"
    if is_unmatched:
        return refused if space.refuses_unmatched else "dropped", refusal_text(REFUSED_NO_MATCH, "")
    if not any(each.verdict in TAKEN for each in destinations):
        return "dropped", "no destination accepts the message, and the publisher is not informed"
    return "accepted", ""


def _each_queue_once(views: list[DestinationView]) -> list[DestinationView]:
    """Return the views with one for each queue: a queue gets a message once, by the first way that leads to it."""
    chosen: dict[str, DestinationView] = {}
    for view in views:
        first = chosen.get(view.name) if view.kind == "queue" else view
        if first is None or (first.verdict in NOT_SENT and view.verdict not in NOT_SENT):
            chosen[view.name] = view
    return [view for view in views if view.kind != "queue" or chosen[view.name] is view]


class _Explaining:
    """Explains where one message goes."""

    def __init__(self, space: TopicSpace, message: ExampleMessage, wall_ms: int) -> None:
        self.batch = message.batch(wall_ms)  # selectors see the message as published, also where it is forwarded
        self._space = space
        self._message = message
        self._wall_ms = wall_ms

    def destinations(self, topic: str, *, spares: bool) -> Iterator[DestinationView]:
        """Yield the destinations of the message at a topic, and those it is forwarded to; `spares`: as `Way.spares`."""
        expander = self._space.expander
        ways, kept_by = ([], "") if expander is None else expander.ways(topic, self.batch, 0)
        own = list(self._own(topic))
        if is_queue_topic(topic) and not own and not ways:
            name, reason = queue_name_of(topic), refusal_text(REFUSED_NOT_FOUND, "")
            verdict = "dropped" if spares else "refused"
            yield DestinationView(kind="queue", name=name, filter="", verdict=verdict, reason=reason)
        for view in own:
            if kept_by:
                yield _not_sent(view.kind, view.name, view.filter, "kept-out", kept_by)
            else:
                yield replace(view, verdict="dropped") if spares and view.verdict == "refused" else view
        for way in ways:
            if way.obstacle:
                kind = "queue" if is_queue_topic(way.topic) else "topic"
                name = queue_name_of(way.topic) if kind == "queue" else way.topic
                yield _not_sent(kind, name, way.definition, "not-selected", way.obstacle)
                continue
            for view in self.destinations(way.topic, spares=spares or way.spares):
                yield _by_way(way, view)

    def _own(self, topic: str) -> Iterator[DestinationView]:
        """Yield the subscribers of a topic, without forwarding."""
        best: dict[Subscriber, tuple[int, str, Selector | None]] = {}
        passed: dict[Subscriber, tuple[str, Selector]] = {}
        queues: dict[QueueTarget, None] = {}
        groups: list[ShareGroup] = []
        for filter_text, found in self._space.trace(topic):
            if isinstance(found, ShareGroup):
                groups.append(found)
            elif isinstance(found, QueueTarget):
                queues[found] = None
            elif found.selector is not None and not found.selector.matches(self.batch, 0):
                passed[found.subscriber] = (filter_text, found.selector)
            elif found.qos > best.get(found.subscriber, (-1, "", None))[0]:
                best[found.subscriber] = (found.qos, filter_text, found.selector)
        links = None if self._space.neighbors is None else self._space.neighbors.route(topic)
        elsewhere = groups_elsewhere(groups, links, guaranteed=self._message.is_guaranteed)
        for group in groups:
            if all(each.key != group.key for each in elsewhere):
                yield self._group(group, topic)
        turns = self._turns(topic, best, list(queues), links)
        for target in queues:
            yield self._own_queue(target, topic, turns)
        for subscriber, (qos, filter_text, selector) in best.items():
            if self._message.is_guaranteed and qos > 0 and subscriber.queue is not None:
                view = self._queue(subscriber.queue, "client", subscriber.client, filter_text, topic)
            else:
                view = _direct("client", subscriber.client, filter_text, subscriber.address is not None)
                view = _with_turn(view, subscriber, turns)
            yield (
                view
                if selector is None or view.reason
                else replace(view, reason=f"the selector matches: {selector.text}")
            )
        for subscriber, (filter_text, selector) in passed.items():
            if subscriber not in best:
                reason = f"the selector does not match: {selector.text}"
                yield _not_sent("client", subscriber.client, filter_text, "not-selected", reason)
        if links is not None:
            yield from self._neighbors(topic, links, turns)
        for remote in elsewhere:
            name, topic_filter = remote.key
            reason = f"no local member takes it; it is the turn of neighbor {remote.next_neighbor().output.neighbor}"
            yield _over_link("shared-group", name, in_mqtt_syntax(topic_filter), reason)

    def _neighbors(self, topic: str, links: LinkRoute, turns: _Turns | None) -> Iterator[DestinationView]:
        """Yield the neighbor brokers that want messages of a topic."""
        assert self._space.neighbors is not None, "one wants them"
        filters = self._space.neighbors.filters(topic)
        stored = links.stored if self._message.is_guaranteed else []
        for output in stored:
            queue = self._space.link_queues[output]
            view = self._queue(queue, "neighbor", output.neighbor, ", ".join(filters[output]), topic)
            where = "of the link's queue" if links.home is None else f"queue {links.home.name} is at {output.neighbor}"
            yield replace(view, partition=None, partition_reason=where)
        for match in links.matches:
            if match.output in stored:
                continue
            name, filter_text = match.output.neighbor, ", ".join(filters[match.output])
            reason = "sent over the link, at most once" if self._message.is_guaranteed else "sent over the link"
            if not self._message.deliver_to_one or match.always or self._message.is_guaranteed:
                yield _over_link("neighbor", name, filter_text, reason)
            elif turns is not None and turns[1] is not None:
                taken = f"it is the turn of {turns[1].client}"
                yield _not_sent("neighbor", name, filter_text, "not-its-turn", taken)
            elif links.candidate() is not match.neighbor:
                taken = f"it is the turn of neighbor {links.candidate().output.neighbor}"
                yield _not_sent("neighbor", name, filter_text, "not-its-turn", taken)
            else:
                yield _over_link("neighbor", name, filter_text, f"{reason}; no client of this broker has the turn")

    def _turns(
        self,
        topic: str,
        best: dict[Subscriber, tuple[int, str, Selector | None]],
        queues: list[QueueTarget],
        links: LinkRoute | None,
    ) -> _Turns | None:
        """Return whose turn it is if the message is for one of several receivers; None if it is for all of them."""
        is_direct = not self._message.is_guaranteed
        receivers = [subscriber for subscriber, (qos, _, _) in best.items() if is_direct or qos == 0]
        if is_direct:
            receivers += [target.turns for target in queues if target.turns is not None]
        if not self._message.deliver_to_one or (len(receivers) < 2 and links is None):
            return None
        return whose_turn(self._space, replace(self._message, topic=topic).batch(self._wall_ms), 0, receivers)

    def _own_queue(self, target: QueueTarget, topic: str, turns: _Turns | None) -> DestinationView:
        matching = next(each.text for each in target.topic_filters if matches(each, topic))
        if is_queue_topic(topic):
            matching = ""
        if target.selector is not None and not target.selector.matches(self.batch, 0):
            return _not_sent(
                "queue", target.name, matching, "not-selected", f"the selector does not match: {target.selector.text}"
            )
        view = self._queue(target, "queue", target.name, matching, topic)
        if target.turns is not None and not self._message.is_guaranteed:
            view = _with_turn(view, target.turns, turns)
        if target.selector is not None and not view.reason:
            view = replace(view, reason=f"the selector matches: {target.selector.text}")
        return view

    def _group(self, group: ShareGroup, topic: str) -> DestinationView:
        member = group.whose_turn()
        queue = group.queue if self._message.is_guaranteed or member is None else group.queue_of(member)
        if queue is not None and (self._message.is_guaranteed or member is not None):
            return self._queue(queue, "shared-group", group.name, group.filter_text, topic)
        view = _direct("shared-group", group.name, group.filter_text, member is not None)
        if member is None:
            return view
        return replace(view, reason=f"it is the turn of {member.client}, one of {len(group.members)} members")

    def _queue(self, target: QueueTarget, kind: str, name: str, filter_text: str, topic: str) -> DestinationView:
        exception = next((each.text for each in target.exceptions if matches(each, topic)), None)
        if exception is not None:
            view = _not_sent(
                kind, name, filter_text, "kept-out", f"the subscription exception !{exception} excludes it"
            )
            return replace(view, exception=exception)
        message = self._message
        checks = checks_of(target.gate, message.size_bytes, message.priority)
        failed = next((each for each in checks if each.refused), None)
        verdict = "spooled" if failed is None else "refused" if failed.publisher_hears else "dropped"
        partition, why = self._partition(target, topic)
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

    def _partition(self, target: QueueTarget, topic: str) -> tuple[int | None, str]:
        count = len(target.partitions)
        if count == 1:
            return 0, "the queue has one partition"
        message = self._message
        key, origin = message.key or "", ""
        source = target.key_source
        if not key and source is not None:
            key = source.key(topic, message.client_id)
            level = source.topic_level
            origin = f" {key!r} from " + (f"level {level} of the topic" if level else "the publisher's client ID")
            if not key and level == 0:
                return None, f"one of {count}: the key is the publisher's client ID, which was not given"
        if not key:
            return None, f"any of {count}: without a key the partition is chosen at random"
        hashed = key_hash(key)
        return target.partition_of(hashed), f"the key{origin} has hash 0x{hashed:04x} among {count} partitions"


def _by_way(way: Way, view: DestinationView) -> DestinationView:
    """Return a destination that a definition leads to, with the definition and its condition."""
    if way.condition and view.verdict in TAKEN:
        view = replace(view, reason=f"{way.condition}; {view.reason}" if view.reason else way.condition)
    by = view.filter not in ("", way.topic)
    return replace(view, filter=f"{way.definition}: {view.filter}" if by else way.definition)


def _with_turn(view: DestinationView, subscriber: Subscriber, turns: _Turns | None) -> DestinationView:
    """Return a destination with the effect of Deliver-To-One on it; it has none on subscribers that are away."""
    if turns is None or view.verdict == "dropped":
        return view
    always, chosen = turns
    if subscriber in always:
        return replace(view, reason="Deliver-To-One: its subscription is deliver-always")
    if subscriber is chosen:
        return replace(view, reason="Deliver-To-One: it is its turn")
    whose = (
        "only subscriptions with deliver-always receive it" if chosen is None else f"it is the turn of {chosen.client}"
    )
    return _not_sent(view.kind, view.name, view.filter, "not-its-turn", f"Deliver-To-One: {whose}")


def _not_sent(kind: str, name: str, filter_text: str, verdict: str, reason: str) -> DestinationView:
    return DestinationView(kind=kind, name=name, filter=filter_text, verdict=verdict, reason=reason)


def _direct(kind: str, name: str, filter_text: str, present: bool) -> DestinationView:
    verdict = "delivered" if present else "dropped"
    reason = "" if present else "no client is connected, and direct messages are not kept"
    return DestinationView(kind=kind, name=name, filter=filter_text, verdict=verdict, reason=reason)


def _over_link(kind: str, name: str, filter_text: str, reason: str) -> DestinationView:
    return DestinationView(kind=kind, name=name, filter=filter_text, verdict="delivered", reason=reason)


# --- explaining on a running node ---


async def publish_explained(
    vpn: MessageVpn, message: ExampleMessage, queue: str | None, *, wall_ms: int
) -> PublishExplanation:
    """Explain a publish to a topic, or to a queue when one is named. Raises QueueNotFound."""
    if queue is not None:
        if not vpn.space.is_elsewhere(queue):
            await _find(vpn, queue)
        message = replace(message, topic=queue_topic(queue))
    rights = vpn.clients.rights_of(message.client_username, message.client_id)
    problem = "" if queue is not None else _topic_problem(message.topic)
    return explain_publish(vpn.space, message, rights, topic_problem=problem, wall_ms=wall_ms)


async def key_explained(vpn: MessageVpn, queue: str, key: str) -> KeyExplanation:
    """Explain the state of a partition key in a queue. Raises QueueNotFound."""
    handle = await _find(vpn, queue)
    hashed = key_hash(key)
    number = handle.target.partition_of(hashed)
    state: KeyStatus = await ask_queue(handle, ExplainKey(key, number))
    overview = await overview_of(handle)
    status, flow_id, epoch = overview.partition_statuses[number]
    clients = {flow.flow_id: flow.client for flow in overview.flows}
    first = state.first_waiting
    reason = state.reason
    if reason is WaitReason.NO_CONSUMER and status == PartitionStatus.UNBOUND:
        reason = WaitReason.HOLDDOWN
    selectors = {flow.selector for flow in overview.flows}
    if reason is WaitReason.NOT_SELECTED and overview.config.partitioned() and len(selectors) > 1:
        reason = WaitReason.NOT_SELECTED_BY_OWNER
    return KeyExplanation(
        queue=queue,
        key=key,
        key_hash=hashed,
        partition=number,
        partition_status=status,
        assignment_epoch=epoch,
        flow_id=str(flow_id) if flow_id else None,
        client=clients.get(flow_id),
        waiting_count=state.waiting_count,
        in_flight_count=state.in_flight_count,
        first_waiting=f"{number}:{first}" if first else None,
        reason=reason,
        unseen_count=state.unseen_count,
    )


def _topic_problem(topic: str) -> str:
    """Return why no client may publish to a topic; empty if clients may. MQTT clients name queues by their topics."""
    check = check_topic_name if is_queue_topic(topic) else check_published_topic
    try:
        check(topic)
    except TopicError as error:
        return f"400 Invalid Topic: {error}"
    return ""


async def _find(vpn: MessageVpn, name: str) -> LocalQueue:
    handle: LocalQueue | None = await vpn.queues.ask(FindQueue(name))
    if handle is None or handle.is_received:
        raise not_found(vpn.space, name)
    return handle
