"""The settings that a REST delivery point runs with: its configuration, and the contents of the files that it names.

Some settings have the right form and are refused all the same.
"""

import base64
import ssl
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Final

from sluicegate.gateway.config.findings import Finding
from sluicegate.gateway.config.sections.message_vpns.rest_delivery_points import (
    RestConsumer,
    RestDeliveryPoint,
    status_codes,
)
from sluicegate.gateway.config.sections.security.secret_files import first_line
from sluicegate.protocols.rest.allowed_targets import SETTING, AllowedTargets
from sluicegate.protocols.rest.settings import (
    HEADERS_ALLOWED,
    BindingSettings,
    ConsumerSettings,
    PointSettings,
    is_reserved,
)
from sluicegate.protocols.transport.tls.context import load_certificate, reading

ALLOWED_HOSTS: Final = f"hosts that `{SETTING}` allows"


def settings_of(configured: RestDeliveryPoint, targets: AllowedTargets) -> PointSettings:
    """Return the settings of a point.

    Raises ValueError for a header that a point may not set, and for an unusable file, with its name.
    """
    for finding in reserved_headers(configured):
        raise ValueError(f"{finding.field}: {finding}")
    return PointSettings(
        configured.name,
        tuple(
            BindingSettings(each.queue, each.target(), tuple(each.request_headers.items()))
            for each in configured.queue_bindings
        ),
        tuple(consumer_settings(each, targets) for each in configured.rest_consumers),
    )


def consumer_settings(configured: RestConsumer, targets: AllowedTargets) -> ConsumerSettings:
    """Return the settings of a consumer. Raises ValueError for an unusable file, with its name."""
    tls = _tls(configured) if configured.tls_enabled else None
    return ConsumerSettings(
        name=configured.name,
        enabled=configured.enabled,
        remote_host=configured.remote_host,
        remote_port=configured.remote_port,
        targets=targets,
        http_method=configured.http_method.upper(),
        outgoing_connection_count=configured.outgoing_connection_count,
        max_post_wait_ms=configured.max_post_wait_time_s * 1000,
        retry_delay_ms=configured.retry_delay_s * 1000,
        tls=tls,
        tls_digests=() if tls is None else _digests(configured),
        headers=_authorization(configured),
        rejected_status_codes=status_codes(configured.rejected_status_codes),
    )


def _tls(configured: RestConsumer) -> ssl.SSLContext:
    authorities = configured.tls_authorities_file
    with reading(f"tls_authorities_file {authorities}", "certificates in PEM"):
        context = ssl.create_default_context(cafile=authorities)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    certificate = configured.authentication_client_certificate_file
    if configured.authentication_scheme == "client-certificate" and certificate is not None:
        load_certificate(context, certificate, configured.authentication_client_certificate_key_file)
    return context


def _digests(configured: RestConsumer) -> tuple[bytes, ...]:
    """Return a key that differs for contexts of other files."""
    files = (
        configured.tls_authorities_file,
        configured.authentication_client_certificate_file,
        configured.authentication_client_certificate_key_file,
    )
    return tuple(b"" if each is None else sha256(_bytes_of(each)).digest() for each in files)


def _bytes_of(file: Path) -> bytes:
    with reading(str(file), "a file"):
        return file.read_bytes()


def _authorization(configured: RestConsumer) -> tuple[tuple[str, str], ...]:
    if configured.authentication_scheme == "http-basic":
        password = _secret(configured, "authentication_http_basic_password_file")
        pair = f"{configured.authentication_http_basic_username}:{password}".encode()
        return (("Authorization", f"Basic {base64.b64encode(pair).decode('ascii')}"),)
    if configured.authentication_scheme == "http-header":
        value = _secret(configured, "authentication_http_header_value_file")
        return ((configured.authentication_http_header_name, value),)
    return ()


def _secret(configured: RestConsumer, name: str) -> str:
    file = getattr(configured, name)
    assert isinstance(file, Path), "the configuration was checked"
    try:
        return first_line(file)
    except OSError as error:
        raise ValueError(f"{name} {str(file)!r}: {error.strerror}") from None


# --- settings that have the right form and are refused all the same ---
#
# They are checked when a point is configured or created, and again before a stored one runs: an earlier release may
# have accepted it.


def reserved_headers(point: RestDeliveryPoint) -> Iterator[Finding]:
    """Yield the headers that a point sets and only the gateway may set."""
    for index, binding in enumerate(point.queue_bindings):
        for name in binding.request_headers:
            if is_reserved(name):
                yield _reserved(("queue_bindings", index, "request_headers"), name)
    for index, consumer in enumerate(point.rest_consumers):
        if is_reserved(consumer.authentication_http_header_name):
            place = ("rest_consumers", index, "authentication_http_header_name")
            yield _reserved(place, consumer.authentication_http_header_name)


def refused_hosts(point: RestDeliveryPoint, targets: AllowedTargets) -> Iterator[Finding]:
    """Yield the hosts that messages may not be pushed to. Names of hosts are checked at each connection."""
    for index, consumer in enumerate(point.rest_consumers):
        refusal = targets.host_refusal(consumer.remote_host)
        if refusal:
            yield Finding(("rest_consumers", index, "remote_host"), refusal)


def _reserved(place: tuple[str | int, ...], name: str) -> Finding:
    return Finding(place, f"{name} is written by the gateway, and cannot be set", HEADERS_ALLOWED)
