"""The REST delivery points of a message VPN: made from its configuration, and made anew where a reload changes them."""

import base64
import logging
import ssl
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from actors.supervision import VITAL
from gateway.config.rest_delivery_points import (
    SECRET_BYTES_MAX,
    RestConsumer,
    RestDeliveryPoint,
    status_codes,
)
from gateway.tree import SupervisorActor
from protocols.rest.point import RestDeliveryPoint as RunningPoint
from protocols.rest.point import RestServices
from protocols.rest.settings import BindingSettings, ConsumerSettings, PointSettings

if TYPE_CHECKING:
    from gateway.node import Node
    from gateway.vpn import MessageVpn

log = logging.getLogger("sluicegate.rest")


class RestPoints:
    """The delivery points that run, by name."""

    def __init__(self, node: "Node", vpn: "MessageVpn") -> None:
        self._node = node
        self._vpn = vpn
        self._cell = node.runtime.spawn(
            SupervisorActor, kind="rest-delivery-points", name="rest", policy=VITAL, parent=vpn.cell
        )
        self.running: dict[str, RunningPoint] = {}

    async def start(self) -> None:
        """Start those that are configured, and stop those that are no more, or otherwise."""
        node = self._node
        wanted: dict[str, PointSettings] = {}
        for configured in self._vpn.config.rest_delivery_points:
            if configured.enabled and self._vpn.config.enabled:
                try:
                    wanted[configured.name] = settings_of(configured)
                except (OSError, ValueError) as error:  # a secret or a certificate that was there is not
                    log.error("REST delivery point %r does not start: %s", configured.name, error)
        for name, point in list(self.running.items()):
            if point.settings != wanted.get(name):
                del self.running[name]
                await point.stop()
                point.cell.stop()
        services = RestServices(node.runtime, self._vpn.events, self._vpn.queues, node.credit)
        for name, settings in wanted.items():
            if name not in self.running:
                cell = node.runtime.spawn(
                    SupervisorActor, kind="rest-delivery-point", name=name, policy=VITAL, parent=self._cell
                )
                point = self.running[name] = RunningPoint(cell, settings, services)
                point.start()

    async def stop(self) -> None:
        """Stop all."""
        for point in self.running.values():
            await point.stop()
        self.running.clear()


def settings_of(configured: RestDeliveryPoint) -> PointSettings:
    """Return the settings of a point, with what its files hold. Raises OSError and ValueError."""
    return PointSettings(
        configured.name,
        tuple(
            BindingSettings(each.queue, each.target(), tuple(each.request_headers.items()))
            for each in configured.queue_bindings
        ),
        tuple(_consumer(each) for each in configured.rest_consumers),
    )


def _consumer(configured: RestConsumer) -> ConsumerSettings:
    tls_files = (
        configured.tls_authorities_file,
        configured.authentication_client_certificate_file,
        configured.authentication_client_certificate_key_file,
    )
    return ConsumerSettings(
        name=configured.name,
        enabled=configured.enabled,
        remote_host=configured.remote_host,
        remote_port=configured.remote_port,
        http_method=configured.http_method.upper(),
        outgoing_connection_count=configured.outgoing_connection_count,
        max_post_wait_ms=configured.max_post_wait_time_s * 1000,
        retry_delay_ms=configured.retry_delay_s * 1000,
        tls=_tls(configured) if configured.tls_enabled else None,
        tls_digests=tuple(b"" if each is None else sha256(each.read_bytes()).digest() for each in tls_files),
        headers=_authorization(configured),
        rejected_status_codes=status_codes(configured.rejected_status_codes),
    )


def _tls(configured: RestConsumer) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=configured.tls_authorities_file)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    certificate = configured.authentication_client_certificate_file
    if configured.authentication_scheme == "client-certificate" and certificate is not None:
        context.load_cert_chain(certificate, configured.authentication_client_certificate_key_file)
    return context


def _authorization(configured: RestConsumer) -> tuple[tuple[str, str], ...]:
    if configured.authentication_scheme == "http-basic":
        password = _secret(configured.authentication_http_basic_password_file)
        pair = f"{configured.authentication_http_basic_username}:{password}".encode()
        return (("Authorization", f"Basic {base64.b64encode(pair).decode('ascii')}"),)
    if configured.authentication_scheme == "http-header":
        value = _secret(configured.authentication_http_header_value_file)
        return ((configured.authentication_http_header_name, value),)
    return ()


def _secret(path: Path | None) -> str:
    """Return the first line of a file. Raises OSError and ValueError."""
    assert path is not None, "the configuration was checked"
    if path.stat().st_size > SECRET_BYTES_MAX:
        raise ValueError(f"{path} has more than {SECRET_BYTES_MAX} bytes")
    lines = path.read_text(encoding="utf-8").splitlines()
    return lines[0] if lines else ""
