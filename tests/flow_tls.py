"""A broker with a TLS listener of the flow protocol."""

from certificates import Certificates
from running_broker import RunningBroker


def settings_of(certificates: Certificates, *more: str) -> tuple[str, ...]:
    """Return the settings of a broker with a TLS listener."""
    return (
        "listeners.flow_tls.enabled=true",
        "listeners.flow_tls.port=0",
        f"listeners.flow_tls.certificate={certificates.server}",
        f"listeners.flow_tls.key={certificates.server_key}",
        *more,
    )


def tls_port(broker: RunningBroker) -> int:
    return broker.node.flow.listeners["flow_tls"].port
