"""From a listener's configuration to the listener: plain or TLS, with WebSocket frames around the protocol or not."""

from gateway.config.listeners import Listener as ListenerConfig
from gateway.config.listeners import TlsListener
from gateway.start_errors import CannotStart, cannot_listen
from gateway.surroundings import Surroundings
from protocols.errors import TlsFilesRefused
from protocols.listeners import Listener
from protocols.tls import CertificateUser, ClientCertificates, TlsFiles
from protocols.transports import ConnectionFactory
from protocols.websocket import WebSocketSettings, over_websocket


def make_listener(
    name: str,
    config: ListenerConfig,
    connect: ConnectionFactory,
    *,
    surroundings: Surroundings,
    alpn: str,
    subprotocols: tuple[str, ...],
    message_bytes_max: int,
) -> Listener:
    """Return a listener, not started yet. Raises TlsFilesRefused for a certificate that cannot be used."""
    path = getattr(config, "path", None)
    if path is not None:
        connect = over_websocket(
            connect, WebSocketSettings(path=path, subprotocols=subprotocols, message_bytes_max=message_bytes_max)
        )
    tls: TlsFiles | None = None
    if isinstance(config, TlsListener):
        assert config.certificate is not None, "checked with the configuration"
        assert config.key is not None, "checked with the configuration"
        tls = TlsFiles(
            certificate=config.certificate,
            private_key=config.key,
            client_authorities=config.client_ca,
            client_certificates=(
                ClientCertificates.IGNORED if config.client_ca is None else ClientCertificates.REQUIRED
            ),
            client_revocations=config.client_crl,
            certificate_user=CertificateUser(config.certificate_user),
            alpn=(alpn,) if path is None else ("http/1.1",),
        )
    return surroundings.listener(
        name=name, host=config.host, port=config.port, connect=connect, tls=tls, connections_max=config.max_connections
    )


async def start_listener(listener: Listener, config: ListenerConfig) -> None:
    """Open a listener. Raises CannotStart when the port cannot be had, or a certificate not be used."""
    try:
        await listener.start()
    except OSError as error:
        raise cannot_listen(f"listeners.{listener.name}", config.host, config.port, error) from None
    except TlsFilesRefused as refusal:
        raise CannotStart(f"listeners.{listener.name}: {refusal}") from None
