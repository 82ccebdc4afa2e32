"""Listeners: one section for each protocol and transport. Default ports are Solace's, default hosts are loopback.

Also the types of other ports' settings: addresses, host names by which browsers may call a port, and web pages that
may use it. The rule for these is in `protocols.transport.origins`.
"""

import ipaddress
import re
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Final, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from sluicegate.gateway.config.sections.section import Section
from sluicegate.messaging.message.vpn import DEFAULT_VPN, NAME_CHARS_MAX, NAME_PATTERN
from sluicegate.messaging.queues.attributes import quoted
from sluicegate.protocols.transport.origins import ANY, DEFAULT_PORTS
from sluicegate.protocols.transport.tls.context import CertificateUser, ClientCertificates, TlsFiles
from sluicegate.storage.environment.file_kinds import is_file

LOOPBACK: Final = "127.0.0.1"
HTTP_ALPN: Final = "http/1.1"  # the name of HTTP and WebSocket in a TLS handshake [RFC 7301]
HOST_CHARS_MAX: Final = 255
# As browsers send it: no user, no path, no slash at the end; names that are not ASCII as `xn--...`.
_ORIGIN: Final = re.compile(r"[a-z][a-z0-9+.-]*://(?:[a-z0-9._-]+|\[[0-9a-f:.]+\])(?::[0-9]{1,5})?")
_HOST: Final = re.compile(r"[a-z0-9_-]+(?:\.[a-z0-9_-]+)*")

Port = Annotated[int, Field(ge=0, le=65535, description="0: any free port")]
VpnName = Annotated[str, Field(pattern=NAME_PATTERN, max_length=NAME_CHARS_MAX)]
Host = Annotated[str, Field(min_length=1, max_length=255, description="address or name to listen on")]


def _origin(given: str) -> str:
    origin = given.lower()
    if origin == ANY:
        return origin
    if origin == "null":
        text = "'null' is what every page in a sandbox says, whatever its site"
        raise ValueError(f"{text}; allowed: an origin, or {ANY!r}: all")
    if _ORIGIN.fullmatch(origin) is None:
        allowed = f"SCHEME://HOST or SCHEME://HOST:PORT, as 'https://shop.example'; {ANY!r}: all"
        raise ValueError(f"{quoted(given)} is not an origin of a web page; allowed: {allowed}")
    return origin.removesuffix(DEFAULT_PORTS.get(origin.partition("://")[0], ""))


def _host(given: str) -> str:
    name = given.lower().removesuffix(".")
    if name != ANY and (_HOST.fullmatch(name) is None or len(name) > HOST_CHARS_MAX):
        allowed = f"a name without scheme and port, as 'broker.example'; {ANY!r}: all"
        raise ValueError(f"{quoted(given)} is no name of a host; allowed: {allowed}")
    return name


AllowedHosts = tuple[Annotated[str, AfterValidator(_host)], ...]
AllowedOrigins = Annotated[
    tuple[Annotated[str, AfterValidator(_origin)], ...],
    Field(description="web pages that may use the port, such as https://shop.example; '*': all"),
]


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach the address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


class Listener(Section):
    """A port for clients."""

    enabled: bool = True
    host: Host = LOOPBACK
    port: Port = 1883
    max_connections: int = Field(
        default=10_000, ge=1, le=1_000_000, description="connections of this listener; further ones are closed at once"
    )
    vpn: VpnName = Field(default=DEFAULT_VPN, description="message VPN of clients that name none")


class TlsPort(Section):
    """A TLS port for clients or operators. With `client_ca`, clients must present a certificate that it signed."""

    enabled: bool = False
    certificate: Path | None = Field(default=None, description="PEM file with the certificate, then its chain")
    key: Path | None = Field(default=None, description="PEM file with the private key")
    client_ca: Path | None = Field(
        default=None, description="PEM file of an authority; clients must then present a certificate that it signed"
    )
    client_crl: Path | None = Field(
        default=None, description="PEM file with revocation lists of that authority; revoked certificates are refused"
    )

    def tls(self, *, alpn: str) -> TlsFiles:
        """Return the files of its TLS identity. The port must be enabled."""
        assert self.certificate is not None, "checked with the configuration"
        assert self.key is not None, "checked with the configuration"
        return TlsFiles(
            certificate=self.certificate,
            private_key=self.key,
            client_authorities=self.client_ca,
            client_certificates=(ClientCertificates.IGNORED if self.client_ca is None else ClientCertificates.REQUIRED),
            client_revocations=self.client_crl,
            alpn=(alpn,),
        )

    @model_validator(mode="after")
    def _check_files(self) -> Self:
        if self.enabled:
            if self.client_crl is not None and self.client_ca is None:
                raise ValueError("client_crl needs client_ca: without it clients show no certificates")
            for name in ("certificate", "key", "client_ca", "client_crl"):
                file: Path | None = getattr(self, name)
                if file is None and name in ("certificate", "key"):
                    raise ValueError(f"{name} is missing; an enabled TLS listener needs it")
                if file is not None:
                    _check_file(name, file)
            self.tls(alpn=HTTP_ALPN).context()  # the check of the files is the same for all protocols
        return self


def _check_file(name: str, file: Path) -> None:
    try:
        found = is_file(file)
    except OSError as problem:  # no permission for a folder above it
        raise ValueError(f"{name} {str(file)!r}: {problem.strerror}") from None
    if not found:
        raise ValueError(f"{name}: there is no file {str(file)!r}")


class TlsListener(TlsPort, Listener):
    """A port for clients over TLS."""

    port: Port = 8883
    certificate_user: Literal["common-name", "dns-name", "email", "uri"] = Field(
        default="common-name", description="field of a client's certificate that is its user name"
    )

    def tls(self, *, alpn: str) -> TlsFiles:
        """Return the files of its TLS identity, and how a client certificate gives the user name."""
        return replace(super().tls(alpn=alpn), certificate_user=CertificateUser(self.certificate_user))


WebSocketPath = Annotated[str, Field(pattern=r"^/[!-~]*$", max_length=255, description="a path that starts with '/'")]


class WebSocketListener(Listener):
    """A port for MQTT over WebSocket."""

    port: Port = 8000
    path: WebSocketPath = "/mqtt"


class WebSocketTlsListener(TlsListener):
    """A port for MQTT over WebSocket and TLS."""

    port: Port = 8443
    path: WebSocketPath = "/mqtt"


class AmqpListener(Listener):
    """A port for AMQP 1.0 over TCP."""

    port: Port = 5672


class AmqpTlsListener(TlsListener):
    """A port for AMQP 1.0 over TLS. With `client_ca`, clients must present a certificate: SASL EXTERNAL."""

    port: Port = 5671


class AmqpWebSocketListener(Listener):
    """A port for AMQP 1.0 over WebSocket."""

    enabled: bool = False
    port: Port = 8010
    path: WebSocketPath = "/amqp"


class AmqpWebSocketTlsListener(TlsListener):
    """A port for AMQP 1.0 over WebSocket and TLS."""

    port: Port = 8453
    path: WebSocketPath = "/amqp"


class FlowListener(Listener):
    """A port for the flow protocol."""

    port: Port = 55555


class FlowTlsListener(TlsListener):
    """A port for the flow protocol over TLS."""

    port: Port = 55443


class HttpListener(Listener):
    """A port for HTTP messaging."""

    port: Port = 9000


class HttpTlsListener(TlsListener):
    """A port for HTTPS."""

    port: Port = 9443


class Listeners(Section):
    """Every port for clients."""

    mqtt: Listener = Listener()
    mqtt_tls: TlsListener = TlsListener()
    mqtt_websocket: WebSocketListener = WebSocketListener()
    mqtt_websocket_tls: WebSocketTlsListener = WebSocketTlsListener()
    amqp: AmqpListener = AmqpListener()
    amqp_tls: AmqpTlsListener = AmqpTlsListener()
    amqp_websocket: AmqpWebSocketListener = AmqpWebSocketListener()
    amqp_websocket_tls: AmqpWebSocketTlsListener = AmqpWebSocketTlsListener()
    flow: FlowListener = FlowListener()
    flow_tls: FlowTlsListener = FlowTlsListener()
    http: HttpListener = HttpListener()
    http_tls: HttpTlsListener = HttpTlsListener()

    def by_name(self) -> dict[str, Listener]:
        """Return the listeners under their section names."""
        return {
            "mqtt": self.mqtt,
            "mqtt_tls": self.mqtt_tls,
            "mqtt_websocket": self.mqtt_websocket,
            "mqtt_websocket_tls": self.mqtt_websocket_tls,
            "amqp": self.amqp,
            "amqp_tls": self.amqp_tls,
            "amqp_websocket": self.amqp_websocket,
            "amqp_websocket_tls": self.amqp_websocket_tls,
            "flow": self.flow,
            "flow_tls": self.flow_tls,
            "http": self.http,
            "http_tls": self.http_tls,
        }

    def enabled(self) -> dict[str, Listener]:
        """Return the enabled listeners."""
        return {name: listener for name, listener in self.by_name().items() if listener.enabled}
