"""The flow protocol's TLS listener: ALPN, and certificates as names."""

import ssl
from pathlib import Path

from sluicegate.protocols.flow.codec.frames.session import AUTH_DONE, AUTH_FAILED
from support.broker.running_broker import RunningBroker
from support.flow.client import FlowClient
from support.flow.tls_broker import settings_of, tls_port
from support.network.certificates import Certificates, make_certificates


def context(certificates: Certificates, *, shows_certificate: bool = False) -> ssl.SSLContext:
    """Return what a client needs to trust the broker, and with it a certificate of its own."""
    made = ssl.create_default_context(cafile=str(certificates.authority))
    made.set_alpn_protocols(["gfp/1"])
    if shows_certificate:
        made.load_cert_chain(certificates.server, certificates.server_key)
    return made


async def test_plain_is_offered_where_the_connection_is_encrypted(tmp_path: Path) -> None:
    """Flow: connections, TLS; sessions, authentication."""
    certificates = make_certificates(tmp_path)
    settings = settings_of(certificates, "flow.allow_plain_without_tls=false")
    async with RunningBroker(tmp_path / "data", settings, {"ada": "engine"}) as broker:
        client = FlowClient(tls_port(broker), tls=context(certificates))
        assert "PLAIN" in (await client.connect()).mechanisms
        secured = client.transport.get_extra_info("ssl_object")
        assert secured.selected_alpn_protocol() == "gfp/1"
        assert (await client.authenticate("PLAIN", b"\0ada\0engine")).state == AUTH_DONE
        await client.close()


async def test_a_certificate_is_a_name(tmp_path: Path) -> None:
    """Flow: sessions, authentication: EXTERNAL. The user is the certificate's common name, and nobody else."""
    certificates = make_certificates(tmp_path)
    settings = settings_of(certificates, f"listeners.flow_tls.client_ca={certificates.authority}")
    async with RunningBroker(tmp_path / "data", settings) as broker:
        client = FlowClient(tls_port(broker), tls=context(certificates, shows_certificate=True))
        assert (await client.connect()).mechanisms[0] == "EXTERNAL"
        assert (await client.authenticate("EXTERNAL", b"somebody")).state == AUTH_FAILED
        assert (await client.authenticate("EXTERNAL", b"")).state == AUTH_DONE
        assert [each.identity.user for each in broker.node.flow.open_connections()] == ["localhost"]
        await client.close()
