"""The settings that a link runs with: its configuration, and the contents of the files that it names."""

import ssl
from hashlib import sha256

from sluicegate.gateway.config.sections.links import Link, export_filter
from sluicegate.gateway.config.sections.security.secret_files import first_line
from sluicegate.messaging.routing.local_interest import ExportRules
from sluicegate.protocols.flow.client.options import ClientOptions, target_of
from sluicegate.protocols.network.link.settings import LinkSettings
from sluicegate.protocols.transport.tls.context import load_certificate, reading

FLOW_ALPN = "gfp/1"
CONNECT_TIMEOUT_S = 10.0


def link_settings(name: str, link: Link, *, broker: str) -> LinkSettings:
    """Return the settings of a link of a broker. Raises ValueError for an unusable file, with its name."""
    target = target_of(link.url) if link.url else None
    tls = _tls(link) if target is not None and target.is_tls else None
    options = ClientOptions(
        client_name=f"#link/{broker}",
        vpn=link.login_vpn,
        username=link.username,
        password=_password(link),
        allow_plain_without_tls=link.allow_plain_without_tls,
        connect_timeout_s=CONNECT_TIMEOUT_S,
        compress=link.compress,
        keep_alive_s=max(1.0, link.dead_time_ms / 3000),
    )
    return LinkSettings(
        name=name,
        target=target,
        other_targets=tuple(target_of(each) for each in link.other_urls),
        options=options,
        tls=tls,
        tls_digests=_digests(link) if tls is not None else (),
        vpns=tuple(link.vpns.items()),
        peer_username=link.peer_username,
        export=ExportRules(
            tuple(export_filter(text) for text in link.export_include),
            tuple(export_filter(text) for text in link.export_exclude),
            frozenset(link.export_exclude_queues),
        ),
        export_texts=(link.export_include, link.export_exclude, link.export_exclude_queues),
        dead_time_ms=link.dead_time_ms,
        subscribe_wait_ms=link.subscribe_wait_ms,
        direct_bytes_max=link.direct_bytes_max,
    )


def _password(link: Link) -> str:
    if link.password_file is None:
        return ""
    try:
        password = first_line(link.password_file)
    except OSError as error:
        raise ValueError(f"password_file {str(link.password_file)!r}: {error.strerror}") from None
    if not password:
        raise ValueError(f"password_file {str(link.password_file)!r}: its first line is empty")
    return password


def _tls(link: Link) -> ssl.SSLContext:
    authorities = link.tls_authorities_file
    with reading(f"tls_authorities_file {authorities}", "certificates in PEM"):
        context = ssl.create_default_context(cafile=authorities)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols([FLOW_ALPN])
    if link.client_certificate_file is not None:
        load_certificate(context, link.client_certificate_file, link.client_certificate_key_file)
    return context


def _digests(link: Link) -> tuple[bytes, ...]:
    """Return a key that differs for contexts of other files."""
    files = (link.tls_authorities_file, link.client_certificate_file, link.client_certificate_key_file)
    return tuple(b"" if each is None else sha256(each.read_bytes()).digest() for each in files)
