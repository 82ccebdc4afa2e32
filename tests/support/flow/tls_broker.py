"""A broker with a TLS listener of the flow protocol."""

from support.broker.running_broker import RunningBroker
from support.network.certificates import Certificates


def settings_of(certificates: Certificates, *more: str) -> tuple[str, ...]:
    """Return the settings of a broker with a TLS listener."""
    return (*certificates.in_tls("listeners.flow_tls"), *more)


def tls_port(broker: RunningBroker) -> int:
    return broker.node.flow.listeners["flow_tls"].port
