"""The whole configuration: its sections, and the rules between them."""

from collections.abc import Iterator
from typing import Annotated, Final, Literal, Self

from pydantic import Field, model_validator

from sluicegate.gateway.config.document import Path
from sluicegate.gateway.config.sections.admin import Admin, AdminTls
from sluicegate.gateway.config.sections.cluster import Cluster
from sluicegate.gateway.config.sections.links import BrokerName, Link
from sluicegate.gateway.config.sections.listeners import Listener, Listeners, TlsPort
from sluicegate.gateway.config.sections.message_vpns.bridges import NODE_NAME_MISSING, Bridges
from sluicegate.gateway.config.sections.message_vpns.message_vpns import (
    NOT_CONFIGURED,
    MessageVpn,
    OtherVpnName,
    PayloadRules,
    Vpn,
    vpn_path,
)
from sluicegate.gateway.config.sections.message_vpns.payload_rules import Schemas
from sluicegate.gateway.config.sections.message_vpns.rest_delivery_points import RestDeliveryPoints
from sluicegate.gateway.config.sections.message_vpns.virtual_destinations import VirtualDestinationsSection
from sluicegate.gateway.config.sections.node import (
    Amqp,
    Backpressure,
    Backup,
    Data,
    Flow,
    Health,
    Http,
    Limits,
    Mqtt,
    Node,
    Queues,
    Rest,
    SelectorLanguage,
    Spool,
    Transactions,
)
from sluicegate.gateway.config.sections.observability import Events, Log, Metrics, Tracing
from sluicegate.gateway.config.sections.section import Section
from sluicegate.gateway.config.sections.security.authentication import Account, Authentication
from sluicegate.gateway.config.sections.watchdog import Watchdog
from sluicegate.messaging.message.vpn import DEFAULT_VPN

BROKERS_MAX: Final = 64

Brokers = Annotated[
    Annotated[int, Field(ge=1, le=BROKERS_MAX)] | Literal["auto"] | None,
    Field(
        description="broker processes that serve this machine as one; auto: one for each processor that this process "
        "may use; empty: one process, without a supervisor"
    ),
]


class Config(Section):
    """The whole configuration of a node. Frozen: a reload makes a new one, and compares the two."""

    node: Node = Node()
    brokers: Brokers = None
    watchdog: Watchdog = Watchdog()
    cluster: Cluster = Cluster()
    data: Data = Data()
    backup: Backup = Backup()
    listeners: Listeners = Listeners()
    admin: Admin = Admin()
    health: Health = Health()
    mqtt: Mqtt = Mqtt()
    amqp: Amqp = Amqp()
    flow: Flow = Flow()
    http: Http = Http()
    links: dict[BrokerName, Link] = Field(
        default_factory=dict,
        description="links to other brokers of the network, by the names of these; the entry of this broker"
        " itself is skipped, so that all may have the same file",
    )
    rest: Rest = Rest()
    rest_delivery_points: RestDeliveryPoints = ()
    bridges: Bridges = ()
    schemas: Schemas = Schemas()
    payload_rules: PayloadRules = ()
    authentication: Authentication = Authentication()
    spool: Spool = Spool()
    vpn: Vpn = Vpn()
    vpns: dict[OtherVpnName, MessageVpn] = Field(default_factory=dict, description="message VPNs besides `default`")
    limits: Limits = Limits()
    queues: Queues = Queues()
    selectors: SelectorLanguage = SelectorLanguage()
    virtual_destinations: VirtualDestinationsSection = VirtualDestinationsSection()
    transactions: Transactions = Transactions()
    backpressure: Backpressure = Backpressure()
    events: Events = Events()
    metrics: Metrics = Metrics()
    tracing: Tracing = Tracing()
    log: Log = Log()

    def message_vpns(self) -> dict[str, MessageVpn]:
        """Return the configuration of each message VPN, by name."""
        default = MessageVpn.model_construct(
            **dict(self.vpn),
            authentication=self.authentication,
            queues=self.queues,
            virtual_destinations=self.virtual_destinations,
            rest_delivery_points=self.rest_delivery_points,
            bridges=self.bridges,
            payload_rules=self.payload_rules,
        )
        return {DEFAULT_VPN: default} | {name: self._with_inherited(vpn) for name, vpn in self.vpns.items()}

    def _with_inherited(self, vpn: MessageVpn) -> MessageVpn:
        """Return the section of a message VPN, with the top level's `allow_anonymous` where it has none of its own."""
        authentication = vpn.authentication
        if "allow_anonymous" in authentication.model_fields_set:
            return vpn
        inherited = {"allow_anonymous": self.authentication.allow_anonymous}
        return vpn.model_copy(update={"authentication": authentication.model_copy(update=inherited)})

    def message_vpn(self, name: str) -> MessageVpn:
        """Return the configuration of one message VPN; one that is not configured is shut down."""
        return self.message_vpns().get(name, NOT_CONFIGURED)

    def has_payload_rules(self) -> bool:
        """Return whether any message VPN has rules for payloads."""
        return bool(self.payload_rules) or any(vpn.payload_rules for vpn in self.vpns.values())

    def accounts(self) -> Iterator[tuple[Path, Account]]:
        """Yield every account, of clients and of operators, with the path of its section."""
        for name, vpn in self.message_vpns().items():
            for index, user in enumerate(vpn.authentication.users):
                yield (*vpn_path(name), "authentication", "users", index), user
        for index, operator in enumerate(self.admin.users):
            yield ("admin", "users", index), operator

    def operator_ports(self) -> dict[str, Admin | AdminTls | Health]:
        """Return the enabled ports for operators, by the path of their section."""
        ports: dict[str, Admin | AdminTls | Health]
        ports = {"admin": self.admin, "admin.tls": self.admin.tls, "health": self.health}
        return {path: port for path, port in ports.items() if port.enabled}

    def tls_ports(self) -> dict[str, TlsPort]:
        """Return the enabled TLS ports, by the path of their section."""
        ports: dict[str, TlsPort] = {
            f"listeners.{name}": listener
            for name, listener in self.listeners.enabled().items()
            if isinstance(listener, TlsPort)
        }
        return ports | ({"admin.tls": self.admin.tls} if self.admin.tls.enabled else {})

    @model_validator(mode="after")
    def _check_vpns_of_listeners(self) -> Self:
        names = [DEFAULT_VPN, *self.vpns]
        for name, listener in self.listeners.by_name().items():
            if listener.vpn not in names:
                text = f"there is no message VPN {listener.vpn!r}; allowed: {', '.join(names)}"
                raise ValueError(f"listeners.{name}.vpn: {text}")
        return self

    @model_validator(mode="after")
    def _check_links(self) -> Self:
        if not self.links:
            return self
        if not self.node.is_named() and not self.cluster.brokers:
            raise ValueError(
                "links: node.name is missing: a broker with links has a name that is unique in its network"
            )
        self.links.pop(self.node.name, None)  # so that the brokers of a network can have the same file
        return self

    @model_validator(mode="after")
    def _check_cluster(self) -> Self:
        if not self.cluster.enabled:
            return self
        if self.cluster.runs_several and self.node.is_named():
            raise ValueError("cluster.brokers: they have the names of their keys, so node.name is not given")
        if not self.node.is_named() and not self.cluster.brokers:
            raise ValueError("cluster: node.name is missing: it is the broker's, and the same at all of its replicas")
        if self.brokers is not None:
            raise ValueError("cluster and brokers do not go together: a broker with replicas is one process")
        return self

    @model_validator(mode="after")
    def _check_bridges(self) -> Self:
        if not (self.node.is_named() or self.cluster.brokers) and (
            self.bridges or any(vpn.bridges for vpn in self.vpns.values())
        ):
            raise ValueError(f"bridges: {NODE_NAME_MISSING}")
        return self

    @model_validator(mode="after")
    def _check_ports(self) -> Self:
        ports: dict[str, Admin | AdminTls | Health | Listener] = {**self.operator_ports()}
        ports |= {f"listeners.{name}": listener for name, listener in self.listeners.by_name().items()}
        taken: dict[tuple[str, int], str] = {}
        for name, port in ports.items():
            address = (port.host, port.port)
            if not port.enabled or not port.port:
                continue
            if address in taken:
                raise ValueError(f"{name} and {taken[address]} both want {port.host}:{port.port}")
            taken[address] = name
        return self
