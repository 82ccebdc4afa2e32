"""Queues with their arguments, and with the policy of the highest priority whose pattern matches."""

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from sluicegate.gateway.importing.json_text import Item
from sluicegate.gateway.importing.names import queue_name_problem
from sluicegate.gateway.importing.rabbitmq.routing import BY_NAME, key_matches
from sluicegate.gateway.importing.rabbitmq.vhost import VirtualHost
from sluicegate.gateway.importing.report import ImportFailed, Report, Setting

MIB: Final = 1 << 20
SECONDS_MAX: Final = 0xFFFF_FFFF
QUORUM_DELIVERY_LIMIT: Final = 20  # of RabbitMQ 4 and later, where nothing else is said
PRIORITY_MAX: Final = 9
SMALLEST: Final = frozenset({"message-ttl", "expires", "max-length", "max-length-bytes", "delivery-limit"})
AGE_SECONDS: Final = MappingProxyType({"Y": 31_536_000, "M": 2_592_000, "D": 86_400, "h": 3600, "m": 60, "s": 1})
OF_CLUSTERS: Final = "copies of a queue on other machines: see replicas, which are of a whole broker"
ON_DISK: Final = "what does not fit into memory is in pages on disk, for every queue"

DIFFERENT: Final[Mapping[str, str]] = MappingProxyType(
    {
        "dead-letter-strategy": "a message moves to its dead message queue in one step",
        "max-in-memory-bytes": ON_DISK,
        "max-in-memory-length": ON_DISK,
        "queue-mode": ON_DISK,
        "queue-version": ON_DISK,
        "stream-max-segment-size-bytes": "files have a size of the broker's own",
        "filter-size-bytes": "range reads do not filter by a Bloom filter",
    }
)
OF_EXCHANGES: Final[Mapping[str, str]] = MappingProxyType(
    {"alternate-exchange": "a message that no binding matches goes nowhere, or is refused to its publisher"}
)
NOTHING_LIKE_IT: Final[Mapping[str, str]] = MappingProxyType(
    {
        "federation-upstream": "use a bridge: an incoming rule that consumes a queue at the upstream broker",
        "federation-upstream-pattern": "use a bridge: an incoming rule that consumes a queue at the upstream broker",
        "federation-upstream-set": "use a bridge: an incoming rule that consumes a queue at the upstream broker",
        "ha-mode": OF_CLUSTERS,
        "ha-params": OF_CLUSTERS,
        "ha-promote-on-failure": OF_CLUSTERS,
        "ha-promote-on-shutdown": OF_CLUSTERS,
        "ha-sync-batch-size": OF_CLUSTERS,
        "ha-sync-mode": OF_CLUSTERS,
        "initial-cluster-size": OF_CLUSTERS,
        "queue-leader-locator": OF_CLUSTERS,
        "queue-master-locator": OF_CLUSTERS,
        "quorum-initial-group-size": OF_CLUSTERS,
        "quorum-target-group-size": OF_CLUSTERS,
        "target-group-size": OF_CLUSTERS,
    }
)


class Argument(NamedTuple):
    """One argument of a queue, and where it comes from."""

    value: Any
    setting: Setting
    item: Item
    key: str


Attributes = dict[str, Any]
Arguments = Mapping[str, Argument]


def take_queues(vhost: VirtualHost, report: Report, *, version: int) -> None:
    """Take the queues of a virtual host. `version` is RabbitMQ's first number. Raises ImportFailed."""
    for queue in vhost.queues:
        name = queue.text("name")
        problem = queue_name_problem(name)
        if problem:
            report.not_taken(queue.setting(), problem)
            queue.skip()
            continue
        vhost.declared[name] = _attributes(queue, vhost, report, version)
        report.taken(queue.setting(), f"queues.declared: {name}")
        queue.skip("name", "vhost", "type")
        for key in ("durable", "auto_delete", "exclusive"):
            if key in queue.values:
                _lifetime(queue, key, report)
    _note_circles(vhost, report)
    for policy in (*vhost.policies, *vhost.operator_policies):
        for argument in _policy_arguments(policy).values():
            if not report.has(argument.setting):
                report.not_taken(argument.setting, _unused(policy, argument, vhost))


def _unused(policy: Item, argument: Argument, vhost: VirtualHost) -> str:
    """Return why an argument of a policy is in no queue."""
    if policy.text("apply-to", "all") == "exchanges" or argument.key in OF_EXCHANGES:
        return OF_EXCHANGES.get(argument.key, "a policy for exchanges: there are none here, only topics")
    if any(_policy_for(queue, [policy]) is not None for queue in vhost.queues):
        return "the queues that it applies to have their own argument, or another policy, which counts"
    return "it applies to no queue of these definitions; see queue templates"


def _lifetime(queue: Item, key: str, report: Report) -> None:
    setting = queue.setting(key)
    if key == "durable":
        if queue.flag(key, True):
            report.taken(setting, "declared queues are durable")
        else:
            report.differs(setting, "a queue of the configuration is durable; clients create temporary ones")
    elif queue.flag(key):
        report.not_taken(setting, "it stays when its consumers have gone; expires_unbound_s deletes it after a time")
    else:
        report.taken(setting, "as here")


def _policy_arguments(policy: Item) -> dict[str, Argument]:
    definition = policy.inner("definition")
    return {key: Argument(value, definition.setting(key), definition, key) for key, value in definition.values.items()}


def _policy_for(queue: Item, policies: list[Item]) -> Item | None:
    """Return the policy that applies: the one of the highest priority."""
    kind = _type_of(queue)
    kinds = {"all", "queues", {"quorum": "quorum_queues", "stream": "streams"}.get(kind, "classic_queues")}
    found = [
        each
        for each in policies
        if each.text("apply-to", "all") in kinds and pattern_matches(each, "pattern", queue.text("name"))
    ]
    return max(found, key=lambda each: each.number("priority"), default=None)


def pattern_matches(item: Item, key: str, name: str) -> bool:
    """Return whether a regular expression of the definitions is found in a name. Raises ImportFailed."""
    try:
        return re.search(item.text(key), name) is not None
    except re.error as problem:
        raise ImportFailed(item.setting(key).where, f"{item.text(key)!r} is no regular expression: {problem}") from None


def _type_of(queue: Item) -> str:
    arguments = queue.values.get("arguments") or {}
    found = arguments.get("x-queue-type") if isinstance(arguments, dict) else None
    return str(found or queue.values.get("type") or "classic")


def _arguments(queue: Item, vhost: VirtualHost) -> dict[str, Argument]:
    """Return the arguments in force: the smaller of two numbers, otherwise the queue's own before the policy's."""
    own = queue.inner("arguments")
    found: dict[str, Argument] = {
        key.removeprefix("x-"): Argument(value, own.setting(key), own, key) for key, value in own.values.items()
    }
    for policies in (vhost.policies, vhost.operator_policies):
        policy = _policy_for(queue, policies)
        for key, argument in {} if policy is None else _policy_arguments(policy).items():
            other = found.get(key)
            if other is None or (key in SMALLEST and _is_less(argument.value, other.value)):
                found[key] = argument
    return found


def _is_less(one: object, other: object) -> bool:
    return isinstance(one, int) and isinstance(other, int) and one < other


def _attributes(queue: Item, vhost: VirtualHost, report: Report, version: int) -> Attributes:
    arguments = _arguments(queue, vhost)
    kind = _type_of(queue)
    made: Attributes = {"name": queue.text("name"), "access_type": "non-exclusive", "respect_ttl_enabled": True}
    made["dead_msg_queue"] = ""
    for key, argument in arguments.items():
        if key in TAKEN:
            TAKEN[key](argument, made, report)
        elif key in DIFFERENT:
            report.differs(argument.setting, DIFFERENT[key])
        elif key in NOTHING_LIKE_IT:
            report.not_taken(argument.setting, NOTHING_LIKE_IT[key])
        elif key not in ("dead-letter-exchange", "dead-letter-routing-key", "max-length", "overflow", "queue-type"):
            report.not_taken(argument.setting, "this importer does not know it")
    _limits(arguments, made, report)
    _dead_letters(arguments, made, vhost, report)
    if "type" in queue.values or "queue-type" in arguments:
        _kind(queue, arguments, kind, made, report)
    if kind == "quorum" and "delivery-limit" not in arguments and version >= 4:
        made["max_redelivery_count"] = QUORUM_DELIVERY_LIMIT
        report.taken(queue.setting(), f"max_redelivery_count: {QUORUM_DELIVERY_LIMIT}, the default of quorum queues")
    return made


def _kind(queue: Item, arguments: Arguments, kind: str, made: Attributes, report: Report) -> None:
    setting = arguments["queue-type"].setting if "queue-type" in arguments else queue.setting("type")
    if "type" in queue.values and "queue-type" in arguments:
        report.taken(queue.setting("type"), "a durable queue")
    report.taken(setting, "a durable queue")
    if kind == "stream":
        made.setdefault("retention_time_s", SECONDS_MAX)
        report.differs(setting, "consumers settle messages here; what is settled is kept for replay and range reads")


def _number(argument: Argument, lowest: int = 0) -> int:
    value = argument.item.number(argument.key)
    if value < lowest:
        raise argument.item.wrong(argument.key, f"a number from {lowest} on")
    return value


def _seconds(argument: Argument, report: Report) -> int:
    milliseconds = _number(argument)
    if milliseconds % 1000:
        report.differs(argument.setting, "times are in whole seconds here, rounded up")
    return min(-(-milliseconds // 1000), SECONDS_MAX)


def _message_ttl(argument: Argument, made: Attributes, report: Report) -> None:
    seconds = _seconds(argument, report)
    if seconds:
        made["max_ttl"] = seconds
        report.taken(argument.setting, f"{made['name']}: max_ttl: {seconds}")
    else:
        report.not_taken(argument.setting, "a message that expires at once, unless a consumer waits, is not possible")


def _expires(argument: Argument, made: Attributes, report: Report) -> None:
    made["expires_unbound_s"] = max(_seconds(argument, report), 1)
    report.taken(argument.setting, f"{made['name']}: expires_unbound_s: {made['expires_unbound_s']}")


def _max_length_bytes(argument: Argument, made: Attributes, report: Report) -> None:
    made["max_msg_spool_usage"] = max(-(-_number(argument) // MIB), 1)
    report.taken(argument.setting, f"{made['name']}: max_msg_spool_usage: {made['max_msg_spool_usage']} MiB")
    report.differs(argument.setting, "the quota counts topic, properties and record of a message as well")


def _delivery_limit(argument: Argument, made: Attributes, report: Report) -> None:
    made["max_redelivery_count"] = min(max(argument.item.number(argument.key), 0), 255)
    report.taken(argument.setting, f"{made['name']}: max_redelivery_count: {made['max_redelivery_count']}")


def _single_active(argument: Argument, made: Attributes, report: Report) -> None:
    if argument.item.flag(argument.key):
        made["access_type"] = "exclusive"
    report.taken(argument.setting, f"{made['name']}: access_type: {made['access_type']}")


def _max_priority(argument: Argument, made: Attributes, report: Report) -> None:
    made["respect_msg_priority_enabled"] = True
    report.taken(argument.setting, f"{made['name']}: respect_msg_priority_enabled: true")
    if _number(argument) > PRIORITY_MAX:
        report.differs(argument.setting, f"priorities are 0 to {PRIORITY_MAX}; a message without one has 4")


def _max_age(argument: Argument, made: Attributes, report: Report) -> None:
    text = argument.item.text(argument.key)
    if not re.fullmatch(r"[0-9]{1,9}[YMDhms]", text):
        raise argument.item.wrong(argument.key, "a number with Y, M, D, h, m or s")
    made["retention_time_s"] = min(int(text[:-1]) * AGE_SECONDS[text[-1]], SECONDS_MAX)
    report.taken(argument.setting, f"{made['name']}: retention_time_s: {made['retention_time_s']}")


def _consumer_timeout(argument: Argument, made: Attributes, report: Report) -> None:
    made["consumer_ack_timeout_ms"] = min(_number(argument), SECONDS_MAX)
    report.taken(argument.setting, f"{made['name']}: consumer_ack_timeout_ms: {made['consumer_ack_timeout_ms']}")
    report.differs(argument.setting, "the delivery is taken back, and its channel is not closed")


TAKEN: Final[Mapping[str, Callable[[Argument, Attributes, Report], None]]] = MappingProxyType(
    {
        "consumer-timeout": _consumer_timeout,
        "delivery-limit": _delivery_limit,
        "expires": _expires,
        "max-age": _max_age,
        "max-length-bytes": _max_length_bytes,
        "max-priority": _max_priority,
        "message-ttl": _message_ttl,
        "single-active-consumer": _single_active,
    }
)


def _limits(arguments: Arguments, made: Attributes, report: Report) -> None:
    """Take the number of messages, and what happens beyond a limit."""
    length, overflow = arguments.get("max-length"), arguments.get("overflow")
    behaviour = "drop-head" if overflow is None else overflow.item.text(overflow.key)
    if length is not None and _number(length) == 1 and behaviour == "drop-head":
        made["max_msg_spool_usage"] = 0
        report.taken(length.setting, f"{made['name']}: max_msg_spool_usage: 0, a queue of the last value")
    elif length is not None:
        text = "a queue has a quota in bytes (max_msg_spool_usage); limits.queue_messages_max is of all queues"
        report.not_taken(length.setting, text)
    limited = length or arguments.get("max-length-bytes")
    if overflow is not None and behaviour == "reject-publish":
        report.taken(overflow.setting, "publishers are refused what the queue does not take")
    elif overflow is not None or (limited is not None and made.get("max_msg_spool_usage") != 0):
        setting = overflow.setting if overflow is not None else limited.setting if limited is not None else None
        assert setting is not None, "one of the two is there"
        report.differs(setting, f"{behaviour}: here a full queue refuses the newest message, and its publisher is told")


def _dead_letters(arguments: Arguments, made: Attributes, vhost: VirtualHost, report: Report) -> None:
    exchange, key = arguments.get("dead-letter-exchange"), arguments.get("dead-letter-routing-key")
    if exchange is None:
        if key is not None:
            report.taken(key.setting, "without an exchange it has no meaning, there and here")
        return
    name = exchange.item.text(exchange.key)
    routing_key = None if key is None else key.item.text(key.key)
    targets = _targets(name, routing_key, vhost)
    for each in (exchange, key):
        if each is None:
            continue
        if targets:
            made["dead_msg_queue"] = targets[0]
            report.taken(each.setting, f"{made['name']}: dead_msg_queue: {targets[0]}")
        else:
            report.not_taken(each.setting, f"no queue can be told that dead messages of {made['name']!r} would go to")
    if len(targets) > 1:
        report.not_taken(exchange.setting, f"dead messages go to one queue: {', '.join(targets[1:])} get no copy")


def _targets(exchange: str, routing_key: str | None, vhost: VirtualHost) -> list[str]:
    """Return the queues that dead messages are routed to."""
    if not exchange:
        names = [each.text("name") for each in vhost.queues]
        return [routing_key] if routing_key in names else []
    kind = vhost.types().get(exchange, "")
    found = [
        each.text("destination")
        for each in vhost.bound(exchange)
        if kind in BY_NAME or routing_key is None or key_matches(kind, each.text("routing_key"), routing_key)
    ]
    return [each for each in dict.fromkeys(found) if not queue_name_problem(each)]


def _note_circles(vhost: VirtualHost, report: Report) -> None:
    """Note queues whose dead messages come back: RabbitMQ's way to try again later."""
    for queue in vhost.queues:
        name = seen = queue.text("name")
        for _ in vhost.declared:
            seen = vhost.declared.get(seen, {}).get("dead_msg_queue", "")
            if seen == name:
                text = "a message never returns to a queue that it died in: use redelivery_delay_enabled to try later"
                report.differs(queue.setting(), text)
                break
