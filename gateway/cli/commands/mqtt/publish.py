"""`sluicegate pub`: publish messages from the command line or from lines of standard input."""

import os
import sys
from collections import deque
from collections.abc import Iterator
from typing import Annotated, Final

import paho.mqtt.client as mqtt
import typer
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode

from sluicegate.gateway.cli.commands.mqtt.session import (
    KEY_PROPERTY,
    ClientIdOption,
    HostOption,
    MqttSession,
    MqttVersion,
    PasswordOption,
    Peer,
    PortOption,
    QosOption,
    TlsOption,
    UserOption,
    VersionOption,
    queue_address,
    reason_text,
)
from sluicegate.gateway.cli.terminal.failures import FAILED, USAGE, CommandFailed
from sluicegate.gateway.cli.terminal.output import JsonOption, print_json
from sluicegate.gateway.views.text import counted
from sluicegate.messaging.topics.syntax import TopicError, check_topic_name

UNCONFIRMED_MAX: Final = 1000  # above it, reading of standard input waits
CONFIRM_TIMEOUT_S: Final = 30.0
REFUSALS_SHOWN_MAX: Final = 5
NO_MATCHING_SUBSCRIBERS: Final = 0x10  # reason code of PUBACK in MQTT 5; paho does not report that of PUBREC
READ_BYTES: Final = 1 << 16  # of standard input, at once


def pub(
    topic: Annotated[str | None, typer.Option("--topic", "-t", help="Topic to publish to.")] = None,
    queue: Annotated[str | None, typer.Option("--queue", "-Q", help="Queue to publish to.")] = None,
    message: Annotated[
        list[str] | None,
        typer.Option("--message", "-m", help="Payload; repeatable. Default: the lines of standard input."),
    ] = None,
    count: Annotated[int, typer.Option("--count", "-n", min=1, help="Number of times to send each message.")] = 1,
    qos: QosOption = 1,
    retain: Annotated[bool, typer.Option("--retain", "-r", help="Retain the message on its topic.")] = False,
    key: Annotated[str | None, typer.Option("--key", "-k", help="Partition key (JMSXGroupID).")] = None,
    properties: Annotated[
        list[str] | None, typer.Option("--property", "-P", metavar="NAME=VALUE", help="User property; repeatable.")
    ] = None,
    require_match: Annotated[
        bool, typer.Option("--require-match", help="Fail if nobody gets a message. Needs MQTT 5 and QoS 1.")
    ] = False,
    protocol: VersionOption = MqttVersion.V5,
    host: HostOption = "127.0.0.1",
    port: PortOption = None,
    tls: TlsOption = False,
    client_id: ClientIdOption = "",
    username: UserOption = None,
    password: PasswordOption = None,
    as_json: JsonOption = False,
) -> None:
    """Publish messages and wait until the gateway has confirmed them. Each line of standard input is a message."""
    peer = Peer(
        host=host,
        given_port=port,
        tls=tls,
        version=protocol,
        client_id=client_id,
        username=username,
        password=password,
    )
    if require_match:
        peer.require_v5("--require-match")
        if qos != 1:
            raise CommandFailed("--require-match needs QoS 1", exit_code=USAGE)
    destination = _destination(topic, queue)
    packet_properties = _properties(peer, key, properties or [])
    session = MqttSession(peer)
    publisher = _Publisher(session, topic=destination, qos=qos, retain=retain, properties=packet_properties)
    publisher.run(_lines_of_input(session) if message is None else map(os.fsencode, message), count)
    if as_json:
        unmatched = {"unmatched": publisher.unmatched_count}
        print_json({"confirmed": publisher.confirmed_count, "refused": len(publisher.refusals), **unmatched})
    if publisher.refusals:
        shown = ", ".join(list(dict.fromkeys(publisher.refusals))[:REFUSALS_SHOWN_MAX])
        total = publisher.confirmed_count + len(publisher.refusals)
        raise CommandFailed(
            f"the gateway refused {len(publisher.refusals)} of {counted(total, 'message')}: {shown}", exit_code=FAILED
        )
    if not as_json:
        what = counted(publisher.confirmed_count, "message")
        typer.echo(f"{what} {'sent' if qos == 0 else 'confirmed'}", err=True)
    if publisher.unmatched_count:
        _tell_unmatched(destination, publisher.unmatched_count, is_failure=require_match)


def _destination(topic: str | None, queue: str | None) -> str:
    """Return the topic to publish to: the one that is given, or that of the queue."""
    if (topic is None) is (queue is None):
        problem = "no topic and no queue is given" if topic is None else "a topic and a queue are given"
        raise CommandFailed(problem, exit_code=USAGE, advice="Give --topic or --queue.")
    if topic is None:
        return queue_address(queue or "")
    try:
        check_topic_name(topic)
    except TopicError as error:
        raise CommandFailed(f"--topic {error}", exit_code=USAGE) from None
    return topic


def _tell_unmatched(topic: str, count: int, *, is_failure: bool) -> None:
    text = f"no queue and no client subscribes to {topic!r}: {counted(count, 'message')} reached nobody"
    if is_failure:
        raise CommandFailed(text, exit_code=FAILED, advice="`sluicegate explain publish` shows who would get it.")
    typer.echo(f"warning: {text}", err=True)


class _Publisher:
    """Publishes messages over one session, with a bounded number of them unconfirmed."""

    def __init__(
        self, session: MqttSession, *, topic: str, qos: int, retain: bool, properties: Properties | None
    ) -> None:
        self.confirmed_count = 0
        self.refusals: list[str] = []  # the reason of each message that was refused
        self.unmatched_count = 0  # of the confirmed ones, those that reached nobody, as far as the gateway says so
        self._session = session
        self._topic = topic
        self._qos = qos
        self._retain = retain
        self._properties = properties
        self._unconfirmed: set[int] = set()
        self._early: set[int] = set()  # confirmed before `publish` returned the id
        session.client.on_publish = self._on_publish
        session.client.max_inflight_messages_set(UNCONFIRMED_MAX)

    def run(self, payloads: Iterator[bytes], count: int) -> None:
        """Send every payload `count` times and wait for the last confirmation."""
        self._session.connect()
        for payload in payloads:
            for _ in range(count):
                self._await_room(UNCONFIRMED_MAX)
                self._send(payload)
        self._await_room(1)
        self._session.disconnect()

    def _send(self, payload: bytes) -> None:
        try:
            sent = self._session.client.publish(self._topic, payload, self._qos, self._retain, self._properties)
        except ValueError as problem:  # paho checks the size
            raise CommandFailed(f"cannot publish: {problem}", exit_code=USAGE) from None
        if sent.mid in self._early:
            self._early.remove(sent.mid)
        else:
            self._unconfirmed.add(sent.mid)

    def _await_room(self, unconfirmed_max: int) -> None:
        if not self._session.run_until(lambda: len(self._unconfirmed) < unconfirmed_max, timeout_s=CONFIRM_TIMEOUT_S):
            text = f"{counted(len(self._unconfirmed), 'message')} not confirmed within {CONFIRM_TIMEOUT_S:.0f} s"
            advice = "A queue over its quota delays confirmations; see `sluicegate queue list`."
            raise CommandFailed(text, advice=advice)

    def _on_publish(
        self, client: mqtt.Client, userdata: object, mid: int, reason: ReasonCode, properties: Properties | None
    ) -> None:
        if mid in self._unconfirmed:
            self._unconfirmed.remove(mid)
        else:
            self._early.add(mid)
        if reason.is_failure:
            self.refusals.append(reason_text(reason, properties))
        else:
            self.confirmed_count += 1
            if reason.value == NO_MATCHING_SUBSCRIBERS and not self._retain:  # a retained one waits for subscribers
                self.unmatched_count += 1


def _lines_of_input(session: MqttSession) -> Iterator[bytes]:
    """Yield the lines of standard input as they arrive; serve the connection meanwhile, so that it stays alive."""
    file, rest = sys.stdin.fileno(), b""
    while True:
        session.run_until_readable(file)
        piece = os.read(file, READ_BYTES)
        if not piece:
            break
        *lines, rest = (rest + piece).split(b"\n")
        yield from (line.rstrip(b"\r") for line in lines)
    if rest:
        yield rest.rstrip(b"\r")


def _properties(peer: Peer, key: str | None, given: list[str]) -> Properties | None:
    pairs: deque[tuple[str, str]] = deque()
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise CommandFailed(f"{text!r} is not NAME=VALUE", exit_code=USAGE)
        pairs.append((name, value))
    if key is not None:
        pairs.appendleft((KEY_PROPERTY, key))
    if not pairs:
        return None
    peer.require_v5("--key" if key is not None else "--property")
    packet_properties = Properties(PacketTypes.PUBLISH)  # type: ignore[no-untyped-call]  # paho left it untyped
    packet_properties.UserProperty = list(pairs)
    return packet_properties
