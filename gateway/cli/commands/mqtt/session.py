"""One MQTT connection of a command, on paho: connect, run until a condition holds, disconnect.

It starts no thread and does not reconnect. The commands are in `publish` and `subscribe`.
"""

import select
import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Final

import paho.mqtt.client as mqtt
import typer
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode

from sluicegate.gateway.cli.terminal.contexts import login_stays
from sluicegate.gateway.cli.terminal.failures import FAILED, UNREACHABLE, USAGE, CommandFailed, unreachable
from sluicegate.messaging.topics.syntax import queue_topic

PLAIN_PORT: Final = 1883
TLS_PORT: Final = 8883
KEEP_ALIVE_S: Final = 60
ANSWER_TIMEOUT_S: Final = 10.0  # for CONNACK, SUBACK
TURN_S: Final = 0.2  # longest wait for the socket in one iteration
KEY_PROPERTY: Final = "JMSXGroupID"  # the user property that carries a partition key


class MqttVersion(StrEnum):
    """The MQTT versions, as `--protocol` takes them."""

    V3_1 = "3.1"
    V3_1_1 = "3.1.1"
    V5 = "5"


_PAHO_VERSION: Final = {
    MqttVersion.V3_1: mqtt.MQTTv31,
    MqttVersion.V3_1_1: mqtt.MQTTv311,
    MqttVersion.V5: mqtt.MQTTv5,
}

HostOption = Annotated[
    str,
    typer.Option("--host", envvar="SLUICEGATE_HOST", help="Host of the gateway.", callback=login_stays("host")),
]
PortOption = Annotated[
    int | None, typer.Option("--port", "-p", min=1, max=65535, help="MQTT port. Default: 1883, or 8883 with --tls.")
]
TlsOption = Annotated[bool, typer.Option("--tls", help="Connect with TLS. SSL_CERT_FILE names a CA certificate.")]
VersionOption = Annotated[MqttVersion, typer.Option("--protocol", "-V", help="MQTT version.")]
QosOption = Annotated[int, typer.Option("--qos", "-q", min=0, max=2, help="Quality of service.")]
ClientIdOption = Annotated[str, typer.Option("--client-id", "-i", help="Client ID. Default: the gateway assigns one.")]
UserOption = Annotated[str | None, typer.Option("--username", "-u", envvar="SLUICEGATE_USERNAME", help="User name.")]
PasswordOption = Annotated[
    str | None,
    typer.Option(
        "--password",
        envvar="SLUICEGATE_PASSWORD",
        help="Password. Set the environment variable instead: others can read the command line.",
    ),
]


def queue_address(name: str) -> str:
    """Return the topic that MQTT clients publish to and subscribe to for a queue. Raises CommandFailed."""
    if not name or "+" in name or "#" in name:
        problem = f"--queue: {name!r} cannot be named over MQTT; allowed: a name without '+' and '#'"
        raise CommandFailed(problem, exit_code=USAGE)
    return queue_topic(name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """The address and the login of a connection."""

    host: str
    given_port: int | None  # None: the default
    tls: bool
    version: MqttVersion
    client_id: str
    username: str | None
    password: str | None

    @property
    def port(self) -> int:
        """The port to connect to."""
        return self.given_port or (TLS_PORT if self.tls else PLAIN_PORT)

    def require_v5(self, option: str) -> None:
        """Refuse an option that needs MQTT 5. Raises CommandFailed."""
        if self.version is not MqttVersion.V5:
            text = f"{option} needs MQTT 5; MQTT {self.version} has no properties"
            raise CommandFailed(text, exit_code=USAGE, advice="Omit --protocol, or give --protocol 5.")


class MqttSession:
    """A connection for the length of a command. Failures raise CommandFailed."""

    def __init__(self, peer: Peer, *, receive_maximum: int = 0) -> None:
        self._peer = peer
        self._receive_maximum = receive_maximum
        self._connack: ReasonCode | None = None
        self._answer = ""  # the reason in CONNACK
        self._close_reason = ""  # the reason in the gateway's DISCONNECT, if it sent one
        # Manual acknowledgement: a message that was received but not printed is not acknowledged, so it is not lost.
        self.client = mqtt.Client(
            CallbackAPIVersion.VERSION2,
            client_id=peer.client_id,
            protocol=_PAHO_VERSION[peer.version],
            manual_ack=True,
            reconnect_on_failure=False,
        )
        self.client.on_connect = self._on_connect
        self.client.on_disconnect = self._on_disconnect
        if peer.tls:
            self.client.tls_set_context(ssl.create_default_context())
        if peer.username is not None:
            self.client.username_pw_set(peer.username, peer.password)

    def connect(self) -> None:
        """Connect and wait for CONNACK."""
        peer = self._peer
        properties: Properties | None = None
        if peer.version is MqttVersion.V5 and self._receive_maximum:
            properties = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]  # paho left it untyped
            properties.ReceiveMaximum = self._receive_maximum
        try:
            self.client.connect(peer.host, peer.port, KEEP_ALIVE_S, properties=properties)
        except OSError as problem:
            raise unreachable(f"{peer.host}:{peer.port}", problem, "--host and --port") from None
        if not self.run_until(lambda: self._connack is not None, timeout_s=ANSWER_TIMEOUT_S):
            text = (
                f"{peer.host}:{peer.port} has not answered CONNECT within {ANSWER_TIMEOUT_S:g} s; is it an MQTT port?"
            )
            raise CommandFailed(text, exit_code=UNREACHABLE)
        assert self._connack is not None, "run_until returned true"
        if self._connack.is_failure:
            advice = (
                "Give --username; `sluicegate user list` shows the users." if _is_about_accounts(self._connack) else ""
            )
            raise CommandFailed(f"the gateway refused the connection: {self._answer}", exit_code=FAILED, advice=advice)

    def run_until(self, done: Callable[[], bool], *, timeout_s: float | None = None) -> bool:
        """Serve the connection until `done` returns true; return false if the timeout comes first."""
        end = None if timeout_s is None else time.monotonic() + timeout_s
        while not done():
            left = TURN_S if end is None else end - time.monotonic()
            if left <= 0:
                return False
            if self.client.loop(timeout=min(left, TURN_S)) != mqtt.MQTT_ERR_SUCCESS and not done():
                raise self._lost()
        return True

    def run_until_readable(self, file: int) -> None:
        """Serve the connection until a file is readable or at its end."""
        while True:
            connection = self.client.socket()
            ends = [] if connection is None else [connection.fileno()]  # None: it is lost, and `loop` reports that
            readable, _, _ = select.select([file, *ends], ends if self.client.want_write() else [], [], TURN_S)
            if file in readable:
                return
            if self.client.loop(timeout=0) != mqtt.MQTT_ERR_SUCCESS:
                raise self._lost()

    def disconnect(self) -> None:
        """Send DISCONNECT. The gateway redelivers messages that are not acknowledged."""
        self.client.disconnect()
        while self.client.want_write():
            if self.client.loop(timeout=TURN_S) != mqtt.MQTT_ERR_SUCCESS:
                return

    def _lost(self) -> CommandFailed:
        if self._connack is not None and self._connack.is_failure:
            return CommandFailed(f"the gateway refused the connection: {self._answer}", exit_code=FAILED)
        if self._connack is None:
            text = f"{self._peer.host}:{self._peer.port} closed the connection without an answer; is it an MQTT port?"
            return CommandFailed(
                text, exit_code=UNREACHABLE, advice="" if self._peer.tls else "If the port uses TLS, give --tls."
            )
        if self._close_reason:
            return CommandFailed(f"the gateway closed the connection: {self._close_reason}", exit_code=FAILED)
        return CommandFailed("the connection to the gateway was lost", exit_code=UNREACHABLE)

    def _on_connect(
        self, client: mqtt.Client, userdata: object, flags: object, reason: ReasonCode, properties: Properties | None
    ) -> None:
        self._connack = reason
        self._answer = reason_text(reason, properties)

    def _on_disconnect(
        self, client: mqtt.Client, userdata: object, flags: object, reason: ReasonCode, properties: Properties | None
    ) -> None:
        self._close_reason = reason_text(reason, properties) if reason.is_failure else ""


def reason_text(reason: ReasonCode, properties: Properties | None) -> str:
    """Return the gateway's reason string, or the standard name of the reason code."""
    return str(getattr(properties, "ReasonString", "") or reason)


def _is_about_accounts(reason: ReasonCode) -> bool:
    return reason.getName() in ("Not authorized", "Bad user name or password")
