"""The settings that a bridge runs with: its configuration, and the contents of the files that it names.

A bridge may have the right form and be refused all the same: where messages would go in circles, or come twice.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Final

from sluicegate.gateway.config.findings import Finding
from sluicegate.gateway.config.sections.message_vpns.bridges import Bridge, IncomingRule, OutgoingRule
from sluicegate.gateway.config.sections.security.secret_files import first_line
from sluicegate.messaging.message.vpn import DEFAULT_VPN
from sluicegate.messaging.topics.relations import overlap
from sluicegate.messaging.topics.syntax import (
    Syntax,
    TopicError,
    TopicFilter,
    check_published_topic,
    check_topic_syntax,
    is_queue_topic,
    parse_filter,
    parse_shared,
    queue_topic,
    syntax_of,
)
from sluicegate.protocols.bridges.settings import BridgeSettings, Protocol, RemoteSettings, TlsFiles
from sluicegate.protocols.bridges.settings import IncomingRule as Incoming
from sluicegate.protocols.bridges.settings import OutgoingRule as Outgoing
from sluicegate.protocols.bridges.topic_maps import TopicMap, TopicSyntax
from sluicegate.protocols.transport.tls.context import reading

QUEUE_ALONE: Final = (
    "messages of a queue have any topic, so over MQTT they are not told from those of other rules",
    "a bridge of its own for the queue",
)
DISJOINT: Final = "topics of outgoing and incoming rules that have none in common, or mqtt_version '5'"


def settings_of(configured: Bridge, *, node: str, vpn: str) -> BridgeSettings:
    """Return the settings of a bridge. Raises ValueError for an unusable file, with its name."""
    scheme, host, port, remote_vpn = configured.address()
    protocol = {"mqtt": _mqtt(configured), "amqp": Protocol.AMQP, "flow": Protocol.FLOW}[scheme.removesuffix("s")]
    has_tls = scheme.endswith("s")
    return BridgeSettings(
        name=configured.name,
        remote=RemoteSettings(
            protocol=protocol,
            host=host,
            port=port,
            message_vpn=remote_vpn,
            tls=_tls(configured) if has_tls else None,
            username=configured.username,
            password="" if configured.password_file is None else _secret(configured.password_file),
            read_password=None if configured.password_file is None else partial(_secret, configured.password_file),
            client_id=configured.client_id or client_id_of(node, vpn, configured.name),
            keep_alive_s=configured.keep_alive_s,
            session_expiry_s=configured.session_expiry_s,
            packet_bytes_max=configured.maximum_packet_size,
        ),
        outgoing=tuple(_outgoing(each) for each in configured.outgoing),
        incoming=tuple(_incoming(each) for each in configured.incoming),
        window_messages=configured.window_messages,
        window_bytes=configured.window_bytes,
        retry_delay_ms=configured.retry_delay_s * 1000,
        retry_count=configured.retry_count,
    )


def client_id_of(node: str, vpn: str, bridge: str) -> str:
    """Return the client identifier of a bridge that has none configured: no other of a network has the same."""
    return "-".join([node, bridge] if vpn == DEFAULT_VPN else [node, vpn, bridge])


def _mqtt(configured: Bridge) -> Protocol:
    return Protocol.MQTT_5 if configured.mqtt_version == "5" else Protocol.MQTT_3


def _outgoing(rule: OutgoingRule) -> Outgoing:
    return Outgoing(
        name=rule.label(),
        queue=rule.queue,
        topic_filter=rule.topic_filter() if rule.topic else None,
        topic_map=TopicMap(rule.strip_prefix, rule.add_prefix, TopicSyntax(rule.topic_syntax)),
        target=rule.remote_topic or rule.remote_queue,
        is_queue=bool(rule.remote_queue),
        qos=rule.guarantee(),
    )


def _incoming(rule: IncomingRule) -> Incoming:
    return Incoming(
        name=rule.label(),
        source=rule.remote_topic or rule.remote_queue,
        is_queue=bool(rule.remote_queue),
        topic_map=TopicMap(rule.strip_prefix, rule.add_prefix, TopicSyntax(rule.topic_syntax)),
        target=queue_topic(rule.queue) if rule.queue else rule.topic,
        qos=rule.qos,
    )


def _tls(configured: Bridge) -> TlsFiles:
    digests = tuple(b"" if each is None else sha256(_bytes_of(each)).digest() for each in configured.tls_files())
    files = TlsFiles(*configured.tls_files(), digests)
    files.context()  # once now, so that an unusable file is found before the bridge starts
    return files


def _bytes_of(file: Path) -> bytes:
    with reading(str(file), "a file"):
        return file.read_bytes()


def _secret(file: Path) -> str:
    try:
        return first_line(file)
    except OSError as error:
        raise ValueError(f"password_file {str(file)!r}: {error.strerror}") from None


# --- bridges that have the right form and are refused all the same ---


def refused_rules(bridge: Bridge) -> Iterator[Finding]:
    """Yield the rules that would lose messages, bring them twice, send them in circles, or guarantee too much."""
    scheme, _, _, _ = bridge.address()
    yield from _impossible_topics(bridge, scheme)
    if scheme.startswith("flow"):
        yield from _too_much_of_flow(bridge)
        yield from _doubled(_flow_filters(bridge))
    if not scheme.startswith("mqtt"):
        if bridge.mqtt_version != "5":
            yield Finding(("mqtt_version",), f"{scheme}:// is not MQTT", "mqtt:// and mqtts://, or no mqtt_version")
        if bridge.maximum_packet_size != Bridge.model_fields["maximum_packet_size"].default:
            allowed = "mqtt:// and mqtts://, or no maximum_packet_size"
            yield Finding(("maximum_packet_size",), f"{scheme}:// is not MQTT", allowed)
        return
    filters: list[tuple[int, IncomingRule, TopicFilter]] = []
    for index, incoming in enumerate(bridge.incoming):
        place = ("incoming", index, "remote_topic")
        try:
            filters.append((index, incoming, incoming_filter(incoming)))
        except TopicError as error:
            yield Finding(place, f"it is no topic filter of MQTT: {error}")
            continue
        if is_queue_topic(incoming.remote_topic) and len(bridge.incoming) > 1:
            yield Finding(place, *QUEUE_ALONE)
    yield from _doubled(filters)
    if bridge.mqtt_version == "5":
        return  # No Local, and the path of each message
    if bridge.session_expiry_s not in (0, Bridge.model_fields["session_expiry_s"].default):
        text = "a session of MQTT 3.1.1 does not expire: it is kept for good, or with 0 not at all"
        yield Finding(("session_expiry_s",), text, "0, or none given")
    yield from _circles(bridge, filters)


def incoming_filter(rule: IncomingRule) -> TopicFilter:
    """Return the topics that a rule may bring over MQTT: all, from a queue. Raises TopicError."""
    shared = parse_shared(rule.remote_topic, Syntax.MQTT)
    found = parse_filter(rule.remote_topic, Syntax.MQTT) if shared is None else shared.filter
    return parse_filter("#", Syntax.MQTT) if is_queue_topic(rule.remote_topic) else found


def _flow_filters(bridge: Bridge) -> Iterator[tuple[int, IncomingRule, TopicFilter]]:
    for index, rule in enumerate(bridge.incoming):
        with suppress(TopicError):  # the remote refuses it, and says why
            if rule.remote_topic:
                yield index, rule, parse_filter(rule.remote_topic, syntax_of(rule.remote_topic))


def _doubled(filters: Iterable[tuple[int, IncomingRule, TopicFilter]]) -> Iterator[Finding]:
    """Find topic filters that overlap."""
    earlier: list[tuple[IncomingRule, TopicFilter]] = []
    for index, incoming, found in filters:
        for other, other_filter in earlier:
            if overlap(found, other_filter):
                text = f"it has topics in common with that of rule {other.label()!r}, whose messages would come twice"
                yield Finding(("incoming", index, "remote_topic"), text, "topic filters that have none in common")
        earlier.append((incoming, found))


def _impossible_topics(bridge: Bridge, scheme: str) -> Iterator[Finding]:
    """Find topics and prefixes that make topics which the side a message goes to never takes."""
    if not scheme.startswith("amqp"):  # there the other broker says what an address is
        for index, outgoing in enumerate(bridge.outgoing):
            for key, made in (("remote_topic", outgoing.remote_topic), ("add_prefix", outgoing.add_prefix)):
                try:
                    check_topic_syntax(made or "x")
                except TopicError as error:
                    yield Finding(("outgoing", index, key), f"no message can have such a topic: {error}")
    for index, incoming in enumerate(bridge.incoming):
        try:
            check_published_topic(f"{incoming.add_prefix}x")
        except TopicError as error:
            yield Finding(("incoming", index, "add_prefix"), f"no message can have such a topic: {error}")


def _too_much_of_flow(bridge: Bridge) -> Iterator[Finding]:
    for index, rule in enumerate(bridge.incoming):
        if rule.remote_queue and rule.qos != 1:
            text = (
                "a queue is consumed at least once; for exactly once give the other broker an outgoing rule with qos 2"
            )
            yield Finding(("incoming", index, "qos"), text, "1")
        elif rule.remote_topic and rule.qos != 0:
            text = "topics bring direct messages in the flow protocol"
            yield Finding(("incoming", index, "qos"), text, "0, or remote_queue, a queue that subscribes to the topics")


def _circles(bridge: Bridge, filters: Sequence[tuple[int, IncomingRule, TopicFilter]]) -> Iterator[Finding]:
    for index, outgoing in enumerate(bridge.outgoing):
        image = image_of(outgoing)
        for _, incoming, topic_filter in filters:
            if overlap(image, topic_filter):
                yield Finding(
                    ("outgoing", index),
                    f"its messages would come back by the incoming rule {incoming.label()!r}: MQTT 3.1.1 has neither "
                    "No Local nor user properties",
                    DISJOINT,
                )


def image_of(rule: OutgoingRule) -> TopicFilter:
    """Return a filter of the foreign broker's topics that an outgoing rule may publish to.

    All topics, where the broker has topics that are none of MQTT.
    """
    text, syntax = rule.remote_topic, Syntax.MQTT
    if not text and rule.topic and rule.topic_syntax == "slashes":
        text, syntax = rule.add_prefix + rule.topic[len(rule.strip_prefix) :], syntax_of(rule.topic)
    if not text:
        head = rule.add_prefix.rpartition("/")
        text = f"{head[0]}{head[1]}#"
    try:
        return parse_filter(text, syntax)
    except TopicError:
        return parse_filter("#", Syntax.MQTT)
