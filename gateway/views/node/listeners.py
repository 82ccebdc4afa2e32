"""The ports for clients as operators see them."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenerView:
    """One open port for clients. Counters start at zero when the node starts."""

    name: str  # of its section in the configuration
    protocol: str
    host: str
    port: int
    url: str
    tls: bool
    websocket: bool
    client_certificates: bool  # clients have to show one
    vpn_name: str  # message VPN of clients that name none
    connections_count: int  # handshakes included
    max_connections: int
    accepted_total: int
    refused_total: int  # closed at once because there were too many
    beyond_files_total: int  # closed at once because the process has too many files open
    failed_handshakes_total: int  # of TLS


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenersView:
    """All open ports for clients, by name."""

    listeners: tuple[ListenerView, ...]
