"""The open ports for clients as operators see them."""

from typing import Any

from sluicegate.gateway.config.sections.listeners import TlsPort
from sluicegate.gateway.node.node import Node
from sluicegate.gateway.node.servers.server import ProtocolServer
from sluicegate.gateway.views.node.listeners import ListenersView, ListenerView


def listeners_view(node: Node) -> ListenersView:
    """Return the listeners of all protocols, by name."""
    found = [each for server in node.servers for each in _views_of(node, server)]
    return ListenersView(listeners=tuple(sorted(found, key=lambda each: each.name)))


def _views_of(node: Node, server: ProtocolServer[Any, Any]) -> list[ListenerView]:
    configured = node.services.config.listeners.enabled()
    urls = dict(server.endpoints())
    views = []
    for name, listener in server.listeners.items():
        config = configured[name]
        views.append(
            ListenerView(
                name=name,
                protocol=server.name,
                host=config.host,
                port=listener.port,
                url=urls[name],
                tls=isinstance(config, TlsPort),
                websocket=hasattr(config, "path"),
                client_certificates=isinstance(config, TlsPort) and config.client_ca is not None,
                vpn_name=config.vpn,
                connections_count=listener.connection_count,
                max_connections=listener.connections_max,
                accepted_total=listener.accepted_count,
                refused_total=listener.refused_count,
                beyond_files_total=listener.beyond_files_count,
                failed_handshakes_total=listener.handshake_failed_count,
            )
        )
    return views
