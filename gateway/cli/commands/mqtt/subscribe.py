"""`sluicegate sub`: print messages from topics, or consume from a queue."""

import base64
import signal
from types import FrameType
from typing import Annotated, Final

import paho.mqtt.client as mqtt
import typer
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode
from rich.console import Console

from sluicegate.gateway.cli.commands.mqtt.session import (
    ANSWER_TIMEOUT_S,
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
from sluicegate.gateway.views.text import counted, printable
from sluicegate.messaging.topics.syntax import (
    DEAD_MESSAGE_ADDRESS,
    DEAD_MESSAGE_QUEUE,
    Syntax,
    TopicError,
    is_queue_topic,
    parse_shared,
    parse_subscription,
)

REDELIVERED_PROPERTY: Final = "sluicegate-redelivered"  # of deliveries from a named queue
RECEIVE_MAXIMUM: Final = 100  # messages that the gateway may send before they are printed


def sub(
    topics: Annotated[list[str] | None, typer.Option("--topic", "-t", help="Topic filter; repeatable.")] = None,
    queues: Annotated[
        list[str] | None, typer.Option("--queue", "-Q", help="Queue to consume from; repeatable.")
    ] = None,
    count: Annotated[
        int, typer.Option("--count", "-n", min=0, help="Exit after this number of messages; 0: never.")
    ] = 0,
    timeout: Annotated[
        float | None, typer.Option(min=0, help="Exit after this number of seconds; with --count, as a failure.")
    ] = None,
    qos: QosOption = 1,
    protocol: VersionOption = MqttVersion.V5,
    host: HostOption = "127.0.0.1",
    port: PortOption = None,
    tls: TlsOption = False,
    client_id: ClientIdOption = "",
    username: UserOption = None,
    password: PasswordOption = None,
    as_json: JsonOption = False,
) -> None:
    """Print messages until Ctrl-C. A message is acknowledged once it is printed. With --json, one object per line."""
    for text in topics or ():
        _check_filter(text)
    addresses = [DEAD_MESSAGE_ADDRESS if each == DEAD_MESSAGE_QUEUE else queue_address(each) for each in queues or ()]
    filters = [*(topics or ()), *addresses]
    if not filters:
        raise CommandFailed("no topic and no queue is given", exit_code=USAGE, advice="Give --topic or --queue.")
    peer = Peer(
        host=host,
        given_port=port,
        tls=tls,
        version=protocol,
        client_id=client_id,
        username=username,
        password=password,
    )
    ahead = min(count, RECEIVE_MAXIMUM) if count else RECEIVE_MAXIMUM
    subscriber = _Subscriber(MqttSession(peer, receive_maximum=ahead), count=count, as_json=as_json)
    finished = subscriber.run(filters, qos=qos, timeout_s=timeout)
    if count and not finished and not subscriber.is_interrupted:
        raise CommandFailed(f"only {subscriber.printed_count} of {counted(count, 'message')} arrived in {timeout} s")


def _check_filter(text: str) -> None:
    try:
        if parse_shared(text, Syntax.MQTT) is None:
            parse_subscription(text, Syntax.MQTT)
    except TopicError as error:
        raise CommandFailed(f"--topic {error}", exit_code=USAGE) from None


class _Subscriber:
    """Prints the messages that one session receives, then acknowledges them."""

    def __init__(self, session: MqttSession, *, count: int, as_json: bool) -> None:
        self.printed_count = 0
        self.is_interrupted = False
        self._session = session
        self._count = count
        self._as_json = as_json
        self._console = Console(soft_wrap=True, highlight=False)
        self._is_leaving = False
        self._has_left = False
        self._granted: list[ReasonCode] | None = None
        self._suback_properties: Properties | None = None
        session.client.on_message = self._on_message
        session.client.on_subscribe = self._on_subscribe
        session.client.on_unsubscribe = self._on_unsubscribe

    def run(self, filters: list[str], *, qos: int, timeout_s: float | None) -> bool:
        """Subscribe and print; return whether the count was reached."""
        session = self._session
        session.connect()
        session.client.subscribe([(each, qos) for each in filters])
        if not session.run_until(lambda: self._granted is not None, timeout_s=ANSWER_TIMEOUT_S):
            raise CommandFailed(f"the gateway has not answered SUBSCRIBE within {ANSWER_TIMEOUT_S:g} s")
        self._check_granted(filters)
        # A signal takes effect between two messages, so that what was printed is acknowledged. A second one kills.
        before = {number: signal.signal(number, self._on_interrupt) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            session.run_until(lambda: self.is_interrupted or self._has_all(), timeout_s=timeout_s)
            self._unsubscribe(filters)
        finally:
            for number, taken in before.items():
                signal.signal(number, taken)
        session.disconnect()
        return self._has_all()

    def _unsubscribe(self, filters: list[str]) -> None:
        """Unsubscribe and wait for UNSUBACK: the gateway has read every acknowledgement before it answers.

        Otherwise printed messages could be delivered again: closing a socket with unread deliveries resets the
        connection, and the gateway then reads no more from it.
        """
        self._is_leaving = True
        self._session.client.unsubscribe(filters)
        self._session.run_until(lambda: self._has_left, timeout_s=ANSWER_TIMEOUT_S)

    def _has_all(self) -> bool:
        return self._count > 0 and self.printed_count >= self._count

    def _on_interrupt(self, number: int, frame: FrameType | None) -> None:
        self.is_interrupted = True
        signal.signal(number, signal.SIG_DFL)

    def _check_granted(self, filters: list[str]) -> None:
        refused = {
            each: reason_text(reason, self._suback_properties)  # SUBACK has one reason string for all filters
            for each, reason in zip(filters, self._granted or (), strict=False)
            if reason.is_failure
        }
        if refused:
            advice = "`sluicegate queue list` shows the queues." if any(map(is_queue_topic, refused)) else ""
            text = f"the gateway refused {', '.join(refused)}: {'; '.join(dict.fromkeys(refused.values()))}"
            raise CommandFailed(text, exit_code=FAILED, advice=advice)

    def _on_subscribe(
        self, client: mqtt.Client, userdata: object, mid: int, reasons: list[ReasonCode], properties: Properties | None
    ) -> None:
        self._granted = reasons
        self._suback_properties = properties

    def _on_unsubscribe(
        self,
        client: mqtt.Client,
        userdata: object,
        mid: int,
        reasons: list[ReasonCode],
        properties: Properties | None,
    ) -> None:
        self._has_left = True

    def _on_message(self, client: mqtt.Client, userdata: object, message: mqtt.MQTTMessage) -> None:
        if self._is_leaving or self._has_all():
            return  # not acknowledged: the gateway redelivers it
        if self._as_json:
            print_json(_document(message))
        else:
            self._print(message)
        self.printed_count += 1
        client.ack(message.mid, message.qos)

    def _print(self, message: mqtt.MQTTMessage) -> None:
        notes = [f"{name}={value}" for name, value in _user_properties(message)]
        notes += ["redelivered"] if _redelivered(message) else []
        notes += ["retained"] if message.retain else []
        self._console.print(printable(message.topic), style="bold", markup=False, end=" ")
        self._console.print(printable(message.payload.decode(errors="backslashreplace")), markup=False, end="")
        self._console.print(f"  {printable(' '.join(notes))}" if notes else "", style="dim", markup=False)


def _redelivered(message: mqtt.MQTTMessage) -> bool:
    """Return whether the message may have been delivered before, on this session or from its queue."""
    return message.dup or (REDELIVERED_PROPERTY, "true") in [tuple(each) for each in _user_properties(message)]


def _document(message: mqtt.MQTTMessage) -> dict[str, object]:
    properties = _user_properties(message)
    document: dict[str, object] = {
        "topic": message.topic,
        "qos": message.qos,
        "retained": message.retain,
        "redelivered": _redelivered(message),
        "key": next((value for name, value in properties if name == KEY_PROPERTY), None),
        "properties": properties,
    }
    try:
        document["payload"] = message.payload.decode()
    except UnicodeDecodeError:
        document["payload_base64"] = base64.b64encode(message.payload).decode("ascii")
    return document


def _user_properties(message: mqtt.MQTTMessage) -> list[tuple[str, str]]:
    packet_properties = message.properties
    pairs: list[tuple[str, str]] = getattr(packet_properties, "UserProperty", [])
    return pairs
