"""The section of a broker that several machines can serve, one at a time. Numbers have their unit in the name."""

from pathlib import Path
from typing import Annotated, Final, Literal, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, field_serializer, model_validator

from sluicegate.gateway.config.sections.links import BROKER_NAME, BrokerName
from sluicegate.gateway.config.sections.section import Section
from sluicegate.gateway.config.sections.values import GIB, MIB, TIB, Size

REPLICAS_MAX: Final = 16
BROKERS_MAX: Final = 64
SERVERS_MAX: Final = 64
SCHEMES: Final = ("nats", "tls")
LEASE_MS_MIN: Final = 2_000


def _server(text: str) -> str:
    parts = urlsplit(text)
    if parts.scheme not in SCHEMES or not parts.hostname or parts.path not in ("", "/"):
        raise ValueError(f"{text!r} is no NATS server: nats://HOST[:PORT], or tls:// for TLS")
    if parts.username is not None or parts.password is not None:
        raise ValueError("a server's address has no user name and password: see username and password_file")
    _ = parts.port  # raises ValueError
    return text


Server = Annotated[str, AfterValidator(_server)]


class ClusterBroker(Section):
    """One of several brokers of which a machine has replicas, named by its key."""

    replicas: Annotated[tuple[BrokerName, ...], Field(min_length=1, max_length=REPLICAS_MAX)] = Field(
        description="as cluster.replicas: those of a new broker, the first shall own it rather than others"
    )
    port_offset: int = Field(default=0, ge=0, le=60_000, description="what is added to every port that is set")
    settings: dict[str, object] = Field(
        default_factory=dict, description="settings of this broker alone, in the place of those that all share"
    )

    @field_serializer("settings", when_used="json")
    def _without_secrets(self, settings: dict[str, object]) -> dict[str, object]:
        """Show which sections there are: what is in them is checked, and has its secrets marked, as that of a node."""
        return dict.fromkeys(settings, "(hidden)")


class Replication(Section):
    """Another site with replicas of this broker, on NATS servers of its own. Without a mate there is none."""

    site: Annotated[str, Field(max_length=64)] = Field(default="", description="name of this site")
    mate: Annotated[str, Field(max_length=64)] = Field(
        default="", description="name of the other site; empty: this broker has one site"
    )
    mate_servers: Annotated[tuple[Server, ...], Field(max_length=SERVERS_MAX)] = Field(
        default=(), description="NATS servers of the other site; the account there is that of this site's servers"
    )
    role: Literal["active", "standby"] = Field(
        default="active", description="role of this site as long as it never had one: `active` or `standby`"
    )
    lag_s_max: int = Field(
        default=60, ge=1, le=86_400, description="age of what the other site lacks above which that is an event"
    )

    @property
    def enabled(self) -> bool:
        """Whether the broker has two sites."""
        return bool(self.mate)

    @model_validator(mode="after")
    def _check_sites(self) -> Self:
        given = [name for name, value in (("site", self.site), ("mate_servers", self.mate_servers)) if value]
        if not self.mate:
            if given:
                raise ValueError(f"{given[0]} is given, and mate is missing: the name of the other site")
            return self
        if len(given) < 2:
            raise ValueError("site, mate and mate_servers go together: one of them is missing")
        if self.site == self.mate:
            raise ValueError(f"site and mate are both {self.site!r}: the two sites have different names")
        return self


class Cluster(Section):
    """Replicas of this broker, whose common log is a stream of NATS JetStream. Without servers there is none."""

    servers: Annotated[tuple[Server, ...], Field(max_length=SERVERS_MAX)] = Field(
        default=(),
        description="NATS servers with JetStream: nats://HOST[:PORT], or tls://; empty: this broker has no replicas",
    )
    replica: Annotated[str, Field(pattern=rf"^$|{BROKER_NAME}")] = Field(
        default="", max_length=64, description="name of this replica: another one at each machine"
    )
    replicas: Annotated[tuple[BrokerName, ...], Field(max_length=REPLICAS_MAX)] = Field(
        default=(),
        description="names of all replicas of a new broker, those first that shall own it rather than others; from then"
        " on the cluster has the list, see `sluicegate cluster add`",
    )
    brokers: Annotated[dict[BrokerName, ClusterBroker], Field(max_length=BROKERS_MAX)] = Field(
        default_factory=dict,
        description="brokers of which this machine has replicas, each in a process of its own; empty: one, node.name",
    )
    broker: str = Field(default="", description="the one of `brokers` that this process is for; empty: it runs all")
    lease_ms: int = Field(
        default=3_000,
        ge=LEASE_MS_MIN,
        le=60_000,
        description="silence of the owner after which a standby takes over; the same at all replicas",
    )
    copies: int = Field(
        default=3, ge=3, le=5, description="NATS servers that keep each record; a majority of them confirms it"
    )
    log_bytes_max: Size = Field(
        default=16 * GIB,
        ge=64 * MIB,
        le=16 * TIB,
        description="size of the stream; when it is full, publishers are refused",
    )
    username: str = Field(default="", max_length=255, description="account at the NATS servers")
    password_file: Path | None = Field(default=None, description="file whose first line is its password")
    credentials_file: Path | None = Field(default=None, description="NATS credentials: a JWT and its key")
    tls_authorities_file: Path | None = Field(
        default=None, description="PEM file of authorities that may have signed the servers' certificates"
    )
    client_certificate_file: Path | None = Field(default=None, description="PEM file with a certificate to log in with")
    client_certificate_key_file: Path | None = Field(default=None, description="PEM file with its private key")

    replication: Replication = Replication()

    pod_label: str = Field(
        default="",
        pattern=r"^([A-Za-z0-9]([A-Za-z0-9._/-]*[A-Za-z0-9])?)?$",
        max_length=317,
        description="on Kubernetes: label of this replica's pod that is `true` while it owns the broker, for services",
    )

    @property
    def enabled(self) -> bool:
        """Whether the broker has replicas."""
        return bool(self.servers)

    @property
    def runs_several(self) -> bool:
        """Whether the process runs replicas of several brokers, and is none itself."""
        return bool(self.brokers) and not self.broker

    @model_validator(mode="after")
    def _check_brokers(self) -> Self:
        if self.brokers and not self.servers:
            raise ValueError("brokers need servers")
        if self.broker and self.broker not in self.brokers:
            names = ", ".join(self.brokers) or "none is given"
            raise ValueError(f"broker is {self.broker!r}; allowed: one of brokers, which are: {names}")
        if self.runs_several and self.replicas:
            raise ValueError("replicas: each of brokers has its own")
        return self

    @model_validator(mode="after")
    def _check_replicas(self) -> Self:
        if not self.servers:
            return self
        if len(set(self.replicas)) < len(self.replicas):
            raise ValueError("replicas: a name is there twice")
        if not self.replica:
            raise ValueError("replica is missing: the name of this replica")
        if self.copies % 2 == 0:
            raise ValueError(f"copies is {self.copies}; allowed: 3 or 5, for a majority decides")
        return self

    @model_validator(mode="after")
    def _check_login(self) -> Self:
        if bool(self.username) != (self.password_file is not None):
            raise ValueError("username and password_file go together: one of them is missing")
        if self.username and self.credentials_file is not None:
            raise ValueError("credentials_file takes the place of username and password_file: give one of them")
        if self.client_certificate_key_file is not None and self.client_certificate_file is None:
            raise ValueError("client_certificate_key_file needs client_certificate_file")
        return self
