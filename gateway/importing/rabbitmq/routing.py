"""Exchanges and bindings: topics that queues subscribe to, and composites.

A message that was published to an exchange with a routing key has here the topic `EXCHANGE/KEY`, with a `/` for each
dot of the key; of the exchange `amq.topic` the topic is the key alone, as RabbitMQ's MQTT clients have it. The topic of
a fanout or headers exchange is its name.
"""

import re
from typing import Any, Final

from sluicegate.gateway.importing.json_text import Item
from sluicegate.gateway.importing.rabbitmq.vhost import TOPIC_EXCHANGE, VirtualHost
from sluicegate.gateway.importing.report import Report
from sluicegate.messaging.topics.syntax import TopicError, parse_queue_subscription, syntax_of

TOPIC_KINDS: Final = ("direct", "topic")
BY_NAME: Final = ("fanout", "headers")
HASHING: Final = ("x-consistent-hash", "x-modulus-hash")
BY_HASH: Final = "use one partitioned queue: it distributes messages to its consumers by their partition key"
REST_IN_THE_MIDDLE: Final = "`#` stands for further levels only at the end"
NAME: Final = re.compile(r"[A-Za-z_$][A-Za-z0-9_$]*")  # that a selector can speak of


class NotSayable(Exception):
    """A binding that no subscription is like."""


def key_matches(kind: str, pattern: str, key: str) -> bool:
    """Return whether a binding key matches a routing key."""
    if kind != "topic":
        return pattern == key
    return _words_match(pattern.split("."), key.split("."))


def _words_match(pattern: list[str], words: list[str]) -> bool:
    reachable = {0}
    for each in pattern:
        if each == "#":
            reachable = {end for start in reachable for end in range(start, len(words) + 1)}
        else:
            reachable = {at + 1 for at in reachable if at < len(words) and each in ("*", words[at])}
    return len(words) in reachable


def subscription_of(exchange: str, kind: str, key: str) -> str:
    """Return the topic filter of a binding, in MQTT's syntax. Raises NotSayable."""
    levels = key.split(".") if key else []
    if any("/" in each or "+" in each for each in levels):
        raise NotSayable("a `/` or `+` in a key means something else in a topic")
    if kind == "topic":
        while levels[-2:] == ["#", "#"]:
            levels.pop()
        if "#" in levels[:-1]:
            raise NotSayable(REST_IN_THE_MIDDLE)
        levels = ["+" if each == "*" else each for each in levels]
    elif {"*", "#"} & {*key}:
        raise NotSayable("`*` and `#` in the key of a direct exchange mean something else in a topic")
    base = [] if exchange == TOPIC_EXCHANGE else [exchange]
    made = "/".join([*base, *levels])
    return checked(made)


def checked(topic: str) -> str:
    """Return a filter that a queue may have. Raises NotSayable."""
    if not topic or any(each in topic for each in "*>"):
        raise NotSayable("an empty topic, or `*` or `>` within a level, mean something else here")
    try:
        parse_queue_subscription(topic, syntax_of(topic))
    except TopicError as problem:
        raise NotSayable(str(problem)) from None
    return topic


def take_routing(vhost: VirtualHost, report: Report) -> None:
    """Take the exchanges and bindings of a virtual host."""
    types = vhost.types()
    for exchange in vhost.exchanges:
        _exchange(exchange, types, report)
    for binding in vhost.bindings:
        binding.skip("vhost", "source", "destination", "destination_type", "routing_key", "properties_key")
        try:
            if binding.text("destination_type", "queue") == "queue":
                _to_queue(binding, vhost, types, report)
            else:
                _to_exchange(binding, vhost, types, report)
        except NotSayable as problem:
            report.not_taken(_called(binding), str(problem))


def _called(binding: Item) -> Any:
    source, target = binding.text("source"), binding.text("destination")
    binding.label = f"binding {source!r} -> {target!r} with {binding.text('routing_key')!r}"
    return binding.setting()


def _exchange(exchange: Item, types: dict[str, str], report: Report) -> None:
    name, kind = exchange.text("name"), exchange.text("type", "direct")
    exchange.skip("name", "vhost", "type", "durable", "auto_delete", "internal")
    topic = f"topics {name}/KEY" if types[name] in TOPIC_KINDS else f"topic {name}"
    if types[name] not in (*TOPIC_KINDS, *BY_NAME):
        report.not_taken(
            exchange.setting(), BY_HASH if kind in HASHING else f"exchanges of the type {kind!r} are not known here"
        )
    else:
        report.taken(exchange.setting(), f"what was published to it is published to the {topic}")
    if kind == "x-delayed-message":
        report.differs(exchange.setting(), "a delay is the user property sluicegate-delivery-delay-ms, in milliseconds")
    arguments = exchange.inner("arguments")
    for key in arguments.values:
        if key == "x-delayed-type":
            report.taken(arguments.setting(key), "the type of the exchange")
        else:
            text = "a message that no binding matches goes nowhere, or is refused to its publisher"
            unknown = "this importer does not know it"
            report.not_taken(arguments.setting(key), text if key == "alternate-exchange" else unknown)


def _to_queue(binding: Item, vhost: VirtualHost, types: dict[str, str], report: Report) -> None:
    source, name = binding.text("source"), binding.text("destination")
    arguments = binding.inner("arguments")
    queue = vhost.declared.get(name)
    setting = _called(binding)
    if queue is None:
        raise NotSayable(f"there is no queue {name!r} here")
    if not source:
        arguments.skip()
        report.taken(setting, f"a message for the queue goes to its own topic, $queue/{name}")
        return
    kind = types.get(source, "")
    if kind in BY_NAME:
        target = {"queue": name}
        if kind == "headers" and (selector := _selector(arguments)):
            target["selector"] = selector
        _forward(vhost, checked(source), target)
        arguments.skip()
        report.taken(setting, f"virtual_destinations.composite_topics: {source} to {target}")
        return
    if kind not in TOPIC_KINDS:
        raise NotSayable(f"the exchange {source!r} is not known here")
    topic = subscription_of(source, kind, binding.text("routing_key"))
    arguments.skip()
    topics = queue.setdefault("subscriptions", [])
    if topic not in topics:
        topics.append(topic)
    report.taken(setting, f"{name}: subscriptions: {topic}")


def _to_exchange(binding: Item, vhost: VirtualHost, types: dict[str, str], report: Report) -> None:
    """Take a binding between exchanges: where the second one is a fanout, as a composite."""
    source, target = binding.text("source"), binding.text("destination")
    setting = _called(binding)
    if types.get(target) != "fanout":
        raise NotSayable("a message keeps its topic, and cannot have the routing key for another exchange")
    if _leads_to(vhost, target, source):
        raise NotSayable("it would close a circle")
    name = checked(source)
    if types.get(source) in TOPIC_KINDS:
        name = subscription_of(source, types[source], binding.text("routing_key"))
        name = ("*" if name == "+" else name).replace("/+", "/*").replace("+/", "*/")
        name = f"{name[:-1]}>" if name.endswith("#") else name
    binding.inner("arguments").skip()
    _forward(vhost, name, {"topic": checked(target)})
    report.taken(setting, f"virtual_destinations.composite_topics: {name} to the topic {target}")


def _forward(vhost: VirtualHost, name: str, target: dict[str, str]) -> None:
    composites = vhost.section.setdefault("virtual_destinations", {}).setdefault("composite_topics", [])
    found = next((each for each in composites if each["name"] == name), None)
    if found is None:
        found = {"name": name, "forward_only": False, "forward_to": []}
        composites.append(found)
    if target not in found["forward_to"]:
        found["forward_to"].append(target)


def _leads_to(vhost: VirtualHost, start: str, end: str) -> bool:
    """Return whether bindings between exchanges lead from one to another."""
    reached, waiting = {start}, [start]
    while waiting:
        here = waiting.pop()
        for each in vhost.bindings:
            if each.text("source") == here and each.text("destination_type") == "exchange":
                target = each.text("destination")
                if target not in reached:
                    reached.add(target)
                    waiting.append(target)
    return end in reached


def _selector(arguments: Item) -> str:
    """Return the selector that a headers exchange is like; empty: everything. Raises NotSayable."""
    how = str(arguments.values.get("x-match", "all"))
    terms: list[str] = []
    for key, value in arguments.values.items():
        if key == "x-match" or (key.startswith("x-") and not how.endswith("with-x")):
            continue
        if NAME.fullmatch(key) is None:
            raise NotSayable(f"a selector cannot speak of the header {key!r}")
        if isinstance(value, bool):
            terms.append(f"{key} = {str(value).upper()}")
        elif isinstance(value, int | float):
            terms.append(f"{key} = {value}")
        elif isinstance(value, str):
            text = value.replace("'", "''")
            terms.append(f"{key} = '{text}'")
        else:
            terms.append(f"{key} IS NOT NULL")
    return (" OR " if how.startswith("any") else " AND ").join(terms)
