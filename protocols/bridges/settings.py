"""The settings that a bridge runs with: texts are checked, and secrets are read from their files."""

import ssl
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Final

from sluicegate.messaging.topics.syntax import TopicFilter
from sluicegate.protocols.bridges.topic_maps import TopicMap
from sluicegate.protocols.transport.tls.context import load_certificate, reading

RETRY_DELAY_MS_MAX: Final = 60_000  # what delays between two attempts to connect are doubled up to
CLIENT_PREFIX: Final = "#bridge/"  # of the name under which a bridge consumes and publishes here
CONNECT_S_MAX: Final = 10  # for a connection, its TLS and the greeting of the protocol


class Protocol(Enum):
    """What the foreign broker speaks."""

    MQTT_3 = "mqtt-3.1.1"
    MQTT_5 = "mqtt-5"
    AMQP = "amqp-1.0"
    FLOW = "flow"


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """The files of a TLS connection. The foreign broker's certificate is verified, its host name too."""

    authorities_file: Path | None  # PEM; None: those of the machine
    certificate_file: Path | None  # of the bridge as a client, with its chain; None: it shows none
    certificate_key_file: Path | None  # None: the key is in `certificate_file`
    digests: tuple[bytes, ...]  # of their contents: settings with other contents are other settings

    def context(self) -> ssl.SSLContext:
        """Return a context. Raises ValueError for an unusable file, with its name."""
        with reading(f"tls_authorities_file {self.authorities_file}", "certificates in PEM"):
            context = ssl.create_default_context(cafile=self.authorities_file)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        if self.certificate_file is not None:
            load_certificate(context, self.certificate_file, self.certificate_key_file)
        return context


@dataclass(frozen=True, slots=True)
class RemoteSettings:
    """The foreign broker, and how the bridge connects to it."""

    protocol: Protocol
    host: str
    port: int
    message_vpn: str  # of a Sluicegate broker; in AMQP a virtual host as well. Empty: the default
    tls: TlsFiles | None  # None: no TLS
    username: str  # empty: none
    password: str = field(repr=False)  # as it was when the settings were read; see `current_password`
    read_password: Callable[[], str] | None = field(repr=False, compare=False)  # raises ValueError; None: no file
    client_id: str  # client identifier, container id or client name
    keep_alive_s: int
    session_expiry_s: int  # how long the foreign broker is to keep subscriptions and messages while we are away
    packet_bytes_max: int  # the largest packet of MQTT, in either direction
    # Topic filters that its session may have from an earlier configuration, and that no rule has: MQTT unsubscribes.
    stale_filters: tuple[str, ...] = field(default=(), compare=False)

    def current_password(self) -> str:
        """Return the password as its file has it now, for the next connection. Raises ValueError with the file's name.

        Whoever rotates a secret writes the file, and sends no signal.
        """
        return self.password if self.read_password is None else self.read_password()

    def url(self) -> str:
        """Return the URL, without credentials."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        scheme = {Protocol.AMQP: "amqp", Protocol.FLOW: "flow"}.get(self.protocol, "mqtt")
        path = f"/{self.message_vpn}" if self.message_vpn else ""
        return f"{scheme}{'' if self.tls is None else 's'}://{host}:{self.port}{path}"


@dataclass(frozen=True, slots=True)
class OutgoingRule:
    """Messages that go to the foreign broker, and where. Exactly one of `queue` and `topic_filter` is set.

    `qos` is the delivery guarantee towards the foreign broker: 0, 1 or 2 as in MQTT. In AMQP 0 is settled by the
    sender, 1 and 2 are unsettled until the foreign broker has an outcome.
    """

    name: str  # unique within the bridge and direction, for operators
    queue: str  # of ours, consumed; empty: none
    topic_filter: TopicFilter | None  # of ours, subscribed: direct messages, at most once
    topic_map: TopicMap
    target: str  # the foreign broker's topic or queue for all of them; empty: each its own topic, mapped
    is_queue: bool  # `target` is a queue
    qos: int


@dataclass(frozen=True, slots=True)
class IncomingRule:
    """Messages that come from the foreign broker, and where they go. `qos` as for outgoing rules."""

    name: str
    source: str  # the foreign broker's topic filter, in its own syntax, or its queue
    is_queue: bool  # `source` is a queue
    topic_map: TopicMap
    target: str  # a topic of ours for all of them; `$queue/NAME`: a queue. Empty: each its own topic, mapped
    qos: int


@dataclass(frozen=True, slots=True)
class BridgeSettings:
    """A bridge. Two are equal when nothing was changed."""

    name: str
    remote: RemoteSettings
    outgoing: tuple[OutgoingRule, ...]
    incoming: tuple[IncomingRule, ...]
    window_messages: int  # unconfirmed messages: of each outgoing rule, and of all incoming ones together
    window_bytes: int  # of their payloads, as far as sizes are known before they are there
    retry_delay_ms: int  # after a failure; each one after the other doubles it, up to RETRY_DELAY_MS_MAX
    retry_count: int  # retries in a row that fail before the bridge gives up; 0: it never does
