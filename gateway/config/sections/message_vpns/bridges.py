"""The section of bridges to foreign brokers. Numbers have their unit in the name; defaults are Solace's, if it has any.

`gateway.config.settings.bridges` makes what a bridge runs with, and refuses those that would send messages in circles.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Final, Literal, Self
from urllib.parse import SplitResult, unquote, urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from sluicegate.gateway.config.sections.node import MQTT_REMAINING_LENGTH_MAX
from sluicegate.gateway.config.sections.section import NamedSection, Section
from sluicegate.gateway.config.sections.values import GIB, KIB, MIB, Size
from sluicegate.messaging.topics.syntax import (
    SHARE_TOPICS,
    TopicError,
    TopicFilter,
    check_published_topic,
    is_queue_topic,
    parse_filter,
    syntax_of,
)

PORTS: Final = {"mqtt": 1883, "mqtts": 8883, "amqp": 5672, "amqps": 5671, "flow": 55555, "flows": 55443}
URL_ALLOWED: Final = (
    "mqtt://HOST[:PORT], amqp://HOST[:PORT][/VIRTUAL-HOST] or flow://HOST[:PORT][/MESSAGE-VPN]; "
    "with TLS mqtts://, amqps://, flows://"
)
URL_CHARS_MAX: Final = 1024
QOS_MAX: Final = 2
RULES_MAX: Final = 256  # in each direction
NODE_NAME_MISSING: Final = (
    "node.name is missing: a message that comes back is known by the names of the brokers that it has passed, so a "
    "broker with bridges has a name of its own"
)

File = Annotated[Path | None, BeforeValidator(lambda given: None if given == "" else given)]
Text = Annotated[str, Field(max_length=1024)]
Prefix = Annotated[str, Field(max_length=1024, description="of topics")]


def split_url(url: str) -> SplitResult:
    """Return the parts of a URL. Raises ValueError."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise ValueError(f"{url!r:.120} is no URL of a broker: {error}; allowed: {URL_ALLOWED}") from None
    if parts.scheme not in PORTS or not parts.hostname or port == 0:
        raise ValueError(f"{url!r:.120} is no URL of a broker; allowed: {URL_ALLOWED}")
    if parts.username is not None or parts.password is not None:
        raise ValueError("credentials in a URL are shown and logged; allowed: username and password_file")
    if parts.query or parts.fragment or (parts.path not in ("", "/") and parts.scheme.startswith("mqtt")):
        raise ValueError(f"{url!r:.120} has more than a host and a port; allowed: {URL_ALLOWED}")
    return parts


def _url_checked(url: str) -> str:
    if len(url) > URL_CHARS_MAX:
        raise ValueError(f"it has {len(url)} characters; allowed: {URL_CHARS_MAX}")
    split_url(url)
    return url


def _qos_checked(qos: int | None) -> int | None:
    if qos is not None and not 0 <= qos <= QOS_MAX:
        raise ValueError(f"{qos} is not allowed; allowed: 0, 1 or {QOS_MAX}")
    return qos


class _Rule(Section):
    """What rules of both directions have."""

    name: str = Field(default="", max_length=150, description="for operators; by default its queue or topic")
    strip_prefix: Prefix = ""
    add_prefix: Prefix = ""
    topic_syntax: Literal["slashes", "dotted"] = Field(
        default="slashes", description="how the foreign broker separates the levels of a topic: a/b or a.b"
    )

    def _check_prefixes(self, filter_text: str, *, target: str) -> None:
        """Raise ValueError for prefixes that cannot be stripped, or that the target leaves no use for."""
        if target and (self.strip_prefix or self.add_prefix):
            raise ValueError("a fixed topic or queue leaves nothing to strip_prefix and add_prefix")
        if not filter_text or is_queue_topic(filter_text):  # messages of a queue have any topic
            return
        head = _literal_head(filter_text)
        if self.strip_prefix and not head.startswith(self.strip_prefix):
            raise ValueError(
                f"strip_prefix {self.strip_prefix!r} is not what all topics of {filter_text!r} begin with; "
                f"allowed: {head!r} or a part of its beginning"
            )


def _literal_head(filter_text: str) -> str:
    """Return what every topic of a filter begins with, in any syntax, without the group of a shared subscription."""
    if filter_text.startswith(SHARE_TOPICS):
        filter_text = filter_text.removeprefix(SHARE_TOPICS).partition("/")[2]
    ends = [filter_text.find(each) for each in "+#*>" if each in filter_text]
    return filter_text[: min(ends)] if ends else filter_text


class OutgoingRule(_Rule):
    """Messages of a queue, or of topics, that go to the foreign broker."""

    queue: str = Field(
        default="", max_length=200, description="it keeps its messages until the foreign broker has them"
    )
    topic: Text = Field(default="", description="topic filter; direct messages, at most once")
    remote_topic: Text = Field(default="", description="topic of the foreign broker for all of them")
    remote_queue: Text = Field(default="", description="queue of the foreign broker for all of them; not for MQTT")
    qos: Annotated[int | None, AfterValidator(_qos_checked)] = Field(
        default=None,
        description="delivery guarantee; by default 1 for a queue, 0 for topics",
        json_schema_extra={"minimum": 0, "maximum": QOS_MAX},
    )

    @model_validator(mode="after")
    def _check_ends(self) -> Self:
        if bool(self.queue) == bool(self.topic):
            raise ValueError("an outgoing rule has either queue or topic")
        if self.remote_topic and self.remote_queue:
            raise ValueError("an outgoing rule has at most one of remote_topic and remote_queue")
        if self.topic:
            try:
                self.topic_filter()
            except TopicError as error:
                raise ValueError(f"topic: {error}") from None
        self._check_prefixes(self.topic, target=self.remote_topic or self.remote_queue)
        return self

    def topic_filter(self) -> TopicFilter:
        """Return the filter of its topics. Raises TopicError."""
        return parse_filter(self.topic, syntax_of(self.topic))

    def guarantee(self) -> int:
        """Return the QoS."""
        return self.qos if self.qos is not None else 1 if self.queue else 0

    def label(self) -> str:
        """Return the name for operators."""
        return self.name or self.queue or self.topic


class IncomingRule(_Rule):
    """Messages that come from the foreign broker, and where they go."""

    remote_topic: Text = Field(default="", description="topic filter, in the foreign broker's syntax")
    remote_queue: Text = Field(default="", description="queue of the foreign broker; not for MQTT")
    topic: Text = Field(default="", description="topic for all of them")
    queue: str = Field(default="", max_length=200, description="queue for all of them")
    qos: int = Field(default=1, ge=0, le=QOS_MAX)

    @model_validator(mode="after")
    def _check_ends(self) -> Self:
        if bool(self.remote_topic) == bool(self.remote_queue):
            raise ValueError("an incoming rule has either remote_topic or remote_queue")
        if self.topic and self.queue:
            raise ValueError("an incoming rule has at most one of topic and queue")
        if self.topic:
            try:
                check_published_topic(self.topic)
            except TopicError as error:
                raise ValueError(f"topic: {error}") from None
        self._check_prefixes(self.remote_topic, target=self.topic or self.queue)
        return self

    def label(self) -> str:
        """Return the name for operators."""
        return self.name or self.remote_queue or self.remote_topic


class Bridge(NamedSection):
    """A foreign broker, and the messages that go there and come from there."""

    name: str = Field(min_length=1, max_length=150, pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")
    enabled: bool = True
    remote_url: Annotated[str, AfterValidator(_url_checked)]
    mqtt_version: Literal["3.1.1", "5"] = Field(default="5", description="of mqtt:// and mqtts://")
    username: str = Field(default="", max_length=255)
    # Over other protocols clients send messages of up to 30 MiB here, which a bridge is to carry.
    maximum_packet_size: Size = Field(
        default=32 * MIB,
        ge=KIB,
        le=MQTT_REMAINING_LENGTH_MAX,
        description="of MQTT, in either direction",
    )
    password_file: File = None
    tls_authorities_file: File = Field(default=None, description="PEM; by default those of the machine")
    tls_certificate_file: File = Field(default=None, description="PEM; of the bridge as a client")
    tls_certificate_key_file: File = None
    client_id: str = Field(default="", max_length=255, description="by default node, VPN and name of the bridge")
    keep_alive_s: int = Field(default=30, ge=1, le=3600)
    session_expiry_s: int = Field(
        default=86_400, ge=0, le=0xFFFF_FFFF, description="how long the foreign broker keeps messages while we are away"
    )
    retry_delay_s: int = Field(default=3, ge=1, le=300, description="doubled by each failure, up to a minute")
    retry_count: int = Field(default=0, ge=0, le=1_000_000, description="retries after which it gives up; 0: never")
    window_messages: int = Field(default=255, ge=1, le=10_000, description="unconfirmed messages")
    window_bytes: Size = Field(default=16 * MIB, ge=64 * KIB, le=4 * GIB, description="their payloads")
    outgoing: tuple[OutgoingRule, ...] = Field(default=(), max_length=RULES_MAX)
    incoming: tuple[IncomingRule, ...] = Field(default=(), max_length=RULES_MAX)

    @model_validator(mode="after")
    def _check_together(self) -> Self:
        scheme = split_url(self.remote_url).scheme
        for kind, labels in (
            ("outgoing", [each.label() for each in self.outgoing]),
            ("incoming", [each.label() for each in self.incoming]),
        ):
            for label in labels:
                if labels.count(label) > 1:
                    raise ValueError(
                        f"{kind}: the name {label!r} appears {labels.count(label)} times; give each a name"
                    )
        if scheme.startswith("mqtt"):
            rules: Iterable[OutgoingRule | IncomingRule] = (*self.outgoing, *self.incoming)
            for rule in rules:
                if rule.remote_queue:
                    raise ValueError(
                        f"rule {rule.label()!r}: MQTT has no queues; allowed: remote_topic, which may be "
                        "$queue/NAME or $share/GROUP/FILTER where the foreign broker has such"
                    )
        if not scheme.endswith("s") and any(self.tls_files()):
            raise ValueError(f"{scheme}:// is without TLS, so tls_... files have no use; allowed: {scheme}s://")
        if self.password_file is not None and not self.username:
            raise ValueError("password_file needs username")
        if self.tls_certificate_key_file is not None and self.tls_certificate_file is None:
            raise ValueError("tls_certificate_key_file needs tls_certificate_file")
        return self

    def tls_files(self) -> tuple[Path | None, Path | None, Path | None]:
        """Return the files of its TLS."""
        return self.tls_authorities_file, self.tls_certificate_file, self.tls_certificate_key_file

    def tls_key(self) -> Path | None:
        """Return the file with the private key, if it shows a certificate."""
        return self.tls_certificate_key_file or self.tls_certificate_file

    def address(self) -> tuple[str, str, int, str]:
        """Return scheme, host, port and message VPN or virtual host of the foreign broker."""
        parts = split_url(self.remote_url)
        assert parts.hostname is not None, "the URL was checked"
        return parts.scheme, parts.hostname, parts.port or PORTS[parts.scheme], unquote(parts.path.strip("/"))

    def names_a_file(self) -> bool:
        """Return whether it names a file."""
        return any(isinstance(value, Path) for _, value in self)


def _check_names(bridges: tuple[Bridge, ...]) -> tuple[Bridge, ...]:
    names = [each.name for each in bridges]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"the name {name!r} appears {names.count(name)} times")
    return bridges


Bridges = Annotated[tuple[Bridge, ...], AfterValidator(_check_names)]  # of one message VPN
