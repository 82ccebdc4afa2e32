"""Make a listener from its configuration: plain or TLS, with or without WebSocket framing."""

from collections.abc import Callable

from sluicegate.actors.runtime.events import Events
from sluicegate.gateway.config.sections.listeners import HTTP_ALPN, TlsListener
from sluicegate.gateway.config.sections.listeners import Listener as ListenerConfig
from sluicegate.gateway.node.environment import Environment
from sluicegate.gateway.node.os_limits import files_for_clients
from sluicegate.messaging.observability.events import SYSTEM_TLS_FAILED
from sluicegate.protocols.transport.interface import ConnectionFactory, PeerInfo
from sluicegate.protocols.transport.listeners import BaseListener, Listener
from sluicegate.protocols.transport.origins import OriginRefusal, WebPages
from sluicegate.protocols.transport.unfinished import UnfinishedBytes
from sluicegate.protocols.transport.websocket import MESSAGE_BYTES_MAX, WebSocketSettings, over_websocket


def make_listener(
    name: str,
    config: ListenerConfig,
    connect: ConnectionFactory,
    *,
    environment: Environment,
    alpn: str,
    subprotocols: tuple[str, ...],
    message_bytes_max: int,
    pages: WebPages,
    on_foreign: Callable[[PeerInfo, OriginRefusal], None],
    unfinished: UnfinishedBytes,
) -> Listener:
    """Return a listener, not started yet. Raises TlsFilesRefused for a certificate that cannot be used.

    `pages`, `on_foreign` and `unfinished` are for WebSocket only.
    """
    path = getattr(config, "path", None)
    if path is not None:
        bytes_max = max(message_bytes_max, MESSAGE_BYTES_MAX)  # clients put several packets or frames into one, too
        settings = WebSocketSettings(
            pages=pages,
            on_foreign=on_foreign,
            path=path,
            subprotocols=subprotocols,
            message_bytes_max=bytes_max,
            unfinished=unfinished,
        )
        connect = over_websocket(connect, settings)
    tls = config.tls(alpn=alpn if path is None else HTTP_ALPN) if isinstance(config, TlsListener) else None
    return environment.listener(
        name=name,
        host=config.host,
        port=config.port,
        connect=connect,
        tls=tls,
        connections_max=config.max_connections,
        files_max=files_for_clients(),
        shares_port=environment.siblings is not None,
    )


def report_failed_handshakes(listener: BaseListener, events: Events, who: str) -> None:
    """Emit an event for each TLS handshake that fails. `who` names the clients of the port."""

    def report(host: str, reason: str) -> None:
        events.emit(SYSTEM_TLS_FAILED, f"TLS handshake with {who} at {host} failed: {reason}")

    listener.on_handshake_failed = report
