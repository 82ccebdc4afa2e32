"""The section of links to other brokers of the network. Numbers have their unit in the name."""

from pathlib import Path
from typing import Annotated, Final, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from sluicegate.gateway.config.sections.listeners import VpnName
from sluicegate.gateway.config.sections.section import NamedSection, Section
from sluicegate.gateway.config.sections.values import GIB, KIB, MIB, ServerReference, Size
from sluicegate.messaging.message.vpn import DEFAULT_VPN
from sluicegate.messaging.topics.syntax import TopicFilter, parse_filter, syntax_of
from sluicegate.protocols.flow.client.options import target_of

BROKER_NAME: Final = r"^[A-Za-z0-9][A-Za-z0-9._-]*$"
VPNS_MAX: Final = 100
RULES_MAX: Final = 1_000
DEAD_TIME_MS_MIN: Final = 1_500  # signs of life come three times as often, and time limits are checked twice a second

BrokerName = Annotated[str, Field(pattern=BROKER_NAME, min_length=1, max_length=64)]


def _url(text: str) -> str:
    if text:
        try:
            target_of(text)
        except ValueError as error:
            raise ValueError(str(error).replace("a gateway", "a broker")) from None
    return text


def export_filter(text: str) -> TopicFilter:
    """Return the filter of an export rule, in either syntax. Raises TopicError."""
    return parse_filter(text, syntax_of(text))


def _filter(text: str) -> str:
    export_filter(text)
    return text


Filters = Annotated[tuple[Annotated[str, AfterValidator(_filter)], ...], Field(max_length=RULES_MAX)]


class Link(Section):
    """A link to one neighbor broker, which is named by its key. Both brokers have one to each other."""

    enabled: bool = True
    url: Annotated[str, AfterValidator(_url)] = Field(
        default="",
        description="where the neighbor listens: flow://HOST[:PORT], or flows:// with TLS; empty: it connects here",
    )
    other_urls: Annotated[
        tuple[Annotated[str, Field(min_length=1), AfterValidator(_url)], ...], Field(max_length=15)
    ] = Field(
        default=(),
        description="where the neighbor listens if not at url, as one with replicas does: all are tried in turn",
    )
    vpns: Annotated[dict[VpnName, VpnName], Field(min_length=1, max_length=VPNS_MAX)] = Field(
        default_factory=lambda: {DEFAULT_VPN: DEFAULT_VPN},
        description="message VPNs that are linked: the name at this broker, and the name at the neighbor",
    )
    peer_username: str = Field(
        default="",
        max_length=255,
        description="account that the neighbor has to log in with when it connects here, or name of its certificate;"
        " empty: any that may open links",
    )
    allow_operator_actions: bool = Field(
        default=True,
        description="the neighbor's operators may change queues here: replay them, delete durable cursors, and move"
        " queues",
    )
    username: str = Field(default="", max_length=255, description="account at the neighbor to log in with")
    password_file: Path | None = Field(default=None, description="file whose first line is its password")
    login_vpn: Annotated[str, Field(max_length=32)] = Field(
        default="", description="message VPN of that account at the neighbor; empty: the one of its listener"
    )
    allow_plain_without_tls: bool = Field(
        default=False, description="send the password itself over a connection that anybody can read"
    )
    tls_authorities_file: Path | None = Field(
        default=None, description="PEM file of authorities that may have signed the neighbor's certificate"
    )
    client_certificate_file: Path | None = Field(default=None, description="PEM file with a certificate to log in with")
    client_certificate_key_file: Path | None = Field(default=None, description="PEM file with its private key")
    compress: bool = Field(default=False, description="compress, for networks that are slower than processors")
    export_include: Filters = Field(
        default=(), description="topic filters that are exported, and those that they cover; empty: all"
    )
    export_exclude: Filters = Field(default=(), description="topic filters that are not exported, nor those they cover")
    export_exclude_queues: Annotated[
        tuple[Annotated[str, Field(min_length=1, max_length=200)], ...], Field(max_length=RULES_MAX)
    ] = Field(default=(), description="queues whose subscriptions are not exported")
    server_reference: ServerReference = Field(
        default="",
        description="where MQTT clients connect to the neighbor, as HOST[:PORT] HOST[:PORT] ...: a 5.0 client whose"
        " session it keeps is sent there; empty: none is",
    )
    dead_time_ms: int = Field(
        default=3_000, ge=DEAD_TIME_MS_MIN, le=600_000, description="silence after which the neighbor counts as gone"
    )
    subscribe_wait_ms: int = Field(
        default=1_000,
        ge=0,
        le=60_000,
        description="a subscriber is answered when the neighbor knows the subscription, after so long at the latest; "
        "0: without waiting for this neighbor",
    )
    direct_bytes_max: Size = Field(
        default=16 * MIB,
        ge=64 * KIB,
        le=GIB,
        description="direct messages that may wait for a slow neighbor; beyond, the oldest are dropped",
    )

    queue_share_percent: int = Field(
        default=50,
        ge=1,
        le=100,
        description="quota of the link's queue, which keeps guaranteed messages until the neighbor has them, in percent"
        " of the message VPN's quota",
    )
    when_full: Literal["refuse", "discard"] = Field(
        default="refuse",
        description="what becomes of a guaranteed message when that queue is full: it is refused to its publisher, or"
        " only the neighbor's copy is dropped and counted",
    )

    @model_validator(mode="after")
    def _check_login(self) -> Self:
        if bool(self.username) != (self.password_file is not None):
            raise ValueError("username and password_file go together: one of them is missing")
        if self.client_certificate_key_file is not None and self.client_certificate_file is None:
            raise ValueError("client_certificate_key_file needs client_certificate_file")
        if self.other_urls and not self.url:
            raise ValueError("other_urls needs url")
        is_tls = self.url.startswith("flows://")
        if any(each.startswith("flows://") is not is_tls for each in self.other_urls):
            raise ValueError("url and other_urls: all of them begin with flow://, or all with flows://")
        for name in ("tls_authorities_file", "client_certificate_file"):
            if getattr(self, name) is not None and not is_tls:
                raise ValueError(f"{name} needs a url that begins with flows://")
        return self


class NamedLink(Link, NamedSection):
    """A link that operators create, with the name of the neighbor broker."""

    name: BrokerName

    @classmethod
    def of(cls, name: str, link: Link) -> "NamedLink":
        """Return a configured link with its name."""
        return cls.model_construct(name=name, **{field: getattr(link, field) for field in Link.model_fields})
