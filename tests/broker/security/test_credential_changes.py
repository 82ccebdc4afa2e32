"""Genuine credentials that are refused, and credentials that change while the gateway runs."""

import asyncio
import json
import os
import shutil
import ssl
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import pytest

from sluicegate.gateway.config.load import load
from sluicegate.gateway.config.sections.observability import Log
from sluicegate.gateway.observability.logs import set_up_logging
from sluicegate.gateway.operations.node import NodeOperations
from sluicegate.gateway.security.credentials import validity_of
from sluicegate.protocols.flow.codec.frames.session import AUTH_DONE, AUTH_FAILED
from sluicegate.protocols.security.login_attempts import FREE_OF_USER
from support.broker.protocol_clients import OK, Amqp, Answer, FlowProtocol, Http, Mqtt, ProtocolClient
from support.broker.running_broker import RunningBroker
from support.flow.client import FlowClient
from support.mqtt.raw_client import DEADLINE_S
from support.network.certificates import CLIENT_NAMES, Certificates, make_certificates
from support.network.tokens import TokenServer

LISTENERS: Final = ("mqtt_tls", "amqp_tls", "flow_tls", "http_tls")
EXPIRED_S: Final = 1_000_000_000
TLS_FAILED: Final = "SYSTEM_AUTHENTICATION_SESSION_TLS_START_FAIL"


def tls_settings(certificates: Certificates, *names: str, **more: object) -> tuple[str, ...]:
    """Return the settings of TLS listeners that want a certificate of each client."""
    settings: list[str] = []
    for name in names:
        values: dict[str, object] = {
            "enabled": "true",
            "port": 0,
            "certificate": certificates.server,
            "key": certificates.server_key,
            "client_ca": certificates.authority,
            **more,
        }
        settings += [f"listeners.{name}.{key}={value}" for key, value in values.items()]
    return tuple(settings)


def showing(certificates: Certificates) -> ssl.SSLContext:
    """Return what a client needs that shows its certificate."""
    made = ssl.create_default_context(cafile=str(certificates.authority))
    made.load_cert_chain(certificates.client, certificates.client_key)
    return made


def port_of(broker: RunningBroker, name: str) -> int:
    return next(server.listeners[name].port for server in broker.node.servers if name in server.listeners)


async def refuses(broker: RunningBroker, name: str, context: ssl.SSLContext) -> None:
    """Wait until a listener has refused a handshake, and the client has heard it."""
    listener = next(server.listeners[name] for server in broker.node.servers if name in server.listeners)
    before = listener.handshake_failed_count
    with pytest.raises((ConnectionError, ssl.SSLError)):
        await _hears(listener.port, context)
    async with asyncio.timeout(DEADLINE_S):
        while listener.handshake_failed_count == before:
            await asyncio.sleep(0.01)


async def _hears(port: int, context: ssl.SSLContext) -> None:
    """Shake hands and read: with TLS 1.3 a client learns of a refusal with its first read."""
    async with asyncio.timeout(DEADLINE_S):
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context, server_hostname="127.0.0.1")
        try:
            if not await reader.read(1):
                raise ConnectionResetError
        finally:
            writer.transport.abort()


@pytest.mark.parametrize("name", LISTENERS)
async def test_a_revoked_certificate_is_refused_by_every_listener(tmp_path: Path, name: str) -> None:
    """RFC 5280 5: refused by TLS with an alert, counted, and told with its reason."""
    certificates = make_certificates(tmp_path)
    settings = tls_settings(certificates, name, client_crl=certificates.revocations)
    async with RunningBroker(tmp_path / "data", settings) as broker:
        await refuses(broker, name, showing(certificates))
        events = broker.node.services.runtime.events
        assert events.record.counts[TLS_FAILED] == 1
        (told,) = [each.text() for _, each in events.record.recent(0, 100) if each.kind.name == TLS_FAILED]
        assert "certificate revoked" in told.lower()


async def test_revocation_is_in_force_when_its_file_changes(tmp_path: Path) -> None:
    """Who was let in before is not any more; nobody has to say so to the gateway."""
    certificates = make_certificates(tmp_path)
    crl = tmp_path / "in-force.pem"
    crl.write_bytes(certificates.no_revocations.read_bytes())
    settings = tls_settings(certificates, "flow_tls", client_crl=crl)
    async with RunningBroker(tmp_path / "data", settings) as broker:
        client = FlowClient(port_of(broker, "flow_tls"), tls=showing(certificates))
        assert (await client.connect()).mechanisms[0] == "EXTERNAL"
        await client.close()
        crl.write_bytes(certificates.revocations.read_bytes())
        broker.node.watched_files.look()
        await refuses(broker, "flow_tls", showing(certificates))


async def test_a_file_that_cannot_be_used_leaves_the_old_one_in_force(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    certificates = make_certificates(tmp_path)
    settings = tls_settings(certificates, "flow_tls")
    async with RunningBroker(tmp_path / "data", settings) as broker:
        certificates.server.write_text("half of a certificate")
        broker.node.watched_files.look()
        client = FlowClient(port_of(broker, "flow_tls"), tls=showing(certificates))
        await client.connect()
        await client.close()
    assert "cannot be used" in caplog.text
    caplog.clear()


async def test_the_file_of_an_open_port_is_looked_at_while_another_one_waits_for_a_restart(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """docs/operate/configuration.md: a path takes a restart; until then the file in use is renewed."""
    certificates = make_certificates(tmp_path)
    other = tmp_path / "other.pem"
    shutil.copy(certificates.server, other)
    settings = tls_settings(certificates, "flow_tls")
    async with RunningBroker(tmp_path / "data", settings) as broker:
        await broker.node.reload(load(settings=(*broker.settings, f"listeners.flow_tls.certificate={other}")))
        os.utime(certificates.server, (EXPIRED_S, EXPIRED_S))
        broker.node.watched_files.look()
    assert f"{certificates.server} changed, and is in force" in caplog.text
    caplog.clear()


async def test_an_expired_certificate_is_reported_until_it_is_replaced(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Clients refuse it, each with an alert of its own; its owner hears it from the gateway."""
    certificates = make_certificates(tmp_path)
    validity = validity_of(certificates.server)
    assert validity is not None
    async with RunningBroker(tmp_path / "data", tls_settings(certificates, "flow_tls")) as broker:
        samples = await NodeOperations(broker.node).metrics_snapshot()
        told = {each.name: each for each in samples if each.name.startswith("sluicegate_certificate")}
        begins, ends = (
            told[f"sluicegate_certificate_{name}_timestamp_seconds"] for name in ("not_before", "not_after")
        )
        assert (begins.labels, begins.value) == (("flow_tls",), validity.begins_s)
        assert (ends.labels, ends.value) == (("flow_tls",), validity.ends_s)
        assert "certificate" not in caplog.text

        broker.clock.set_wall(datetime.fromtimestamp(validity.ends_s, UTC))
        certificates.server.touch()
        broker.node.watched_files.look()
    assert f"flow_tls: certificate {certificates.server} expired at" in caplog.text
    caplog.clear()


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("common-name", "device-7"),
        ("dns-name", CLIENT_NAMES[0].value),
        ("email", CLIENT_NAMES[1].value),
        ("uri", CLIENT_NAMES[2].value),
    ],
)
async def test_a_name_of_the_certificate_is_the_user(tmp_path: Path, kind: str, expected: str) -> None:
    """Subject or subject alternative name, as the listener says."""
    certificates = make_certificates(tmp_path)
    settings = tls_settings(certificates, "flow_tls", certificate_user=kind)
    async with RunningBroker(tmp_path / "data", settings) as broker:
        client = FlowClient(port_of(broker, "flow_tls"), tls=showing(certificates))
        await client.connect()
        assert (await client.authenticate("EXTERNAL", b"")).state == AUTH_DONE
        assert [each.identity.user for each in broker.node.flow.open_connections()] == [expected]
        await client.close()


EXPIRED: Final[dict[str, Answer]] = {"mqtt": 0x86, "amqp": "sasl-1", "flow": "auth-failed", "http": 401}
CLIENTS: Final[dict[str, Callable[[RunningBroker], ProtocolClient]]] = {
    "mqtt": Mqtt,
    "amqp": Amqp,
    "flow": FlowProtocol,
    "http": Http,
}


@pytest.mark.parametrize("protocol", CLIENTS)
async def test_an_expired_token_is_refused_in_each_protocol(tmp_path: Path, protocol: str) -> None:
    """RFC 7519 4.1.4; shown as a password, which every protocol has."""
    server = TokenServer(tmp_path)
    settings = (*server.settings, "authentication.oauth.token_as_password=true", "authentication.allow_anonymous=false")
    async with RunningBroker(tmp_path / "data", settings) as broker:
        for token, expected in ((server.token(exp=EXPIRED_S), EXPIRED[protocol]), (server.token(), OK)):
            client = CLIENTS[protocol](broker)
            assert await client.connect("ada", token) == expected
            await client.leave()
        assert broker.node.default.clients.denials.counts == {"not_authenticated": 1}
        told = " ".join(each.text() for _, each in broker.node.services.runtime.events.record.recent(0, 100))
        assert server.token(exp=EXPIRED_S) not in told


async def test_a_rotated_key_set_is_taken_over(tmp_path: Path) -> None:
    """RFC 7517: the authorization server signs with a new key, and its file has changed before."""
    server, folder = TokenServer(tmp_path), tmp_path / "new"
    folder.mkdir()
    later = TokenServer(folder)
    settings = (*server.settings, "flow.allow_plain_without_tls=true")
    async with RunningBroker(tmp_path / "data", settings) as broker:
        states = []
        for token in (server.token(), later.token()):
            client = FlowClient(broker.flow_port)
            await client.connect()
            answer = await client.authenticate("XOAUTH2", f"user=ada\x01auth=Bearer {token}\x01\x01".encode())
            states.append(answer.state)
            client.cut()
            await client.ended()
            server.jwks_file.write_text(later.keys_text)
            broker.node.watched_files.look()
        assert states == [AUTH_DONE, AUTH_DONE]
        client = FlowClient(broker.flow_port)
        await client.connect()
        answer = await client.authenticate("XOAUTH2", f"user=ada\x01auth=Bearer {server.token()}\x01\x01".encode())
        assert answer.state == AUTH_FAILED
        client.cut()
        await client.ended()


@pytest.mark.accounts(ada="engine", bob="builder")
async def test_only_the_guessing_client_waits(broker: RunningBroker) -> None:
    """Brute force: the delay is per user name and address, and over all protocols."""
    for client in (Mqtt(broker), Amqp(broker), Http(broker)):
        assert await client.connect("ada", "guess") != OK
        await client.leave()
    assert broker.node.services.attempts.delayed_count == 0
    assert FREE_OF_USER == 3
    bob = Mqtt(broker, "bob")
    assert await bob.connect("bob", "builder") == OK
    await bob.leave()
    assert broker.node.services.attempts.delayed_count == 0
    late = Mqtt(broker, "late")
    assert await late.connect("ada", "engine") == OK
    assert broker.node.services.attempts.delayed_count == 1
    await late.leave()


async def test_the_audit_log_has_a_line_for_everything_that_was_denied(tmp_path: Path) -> None:
    """docs/operate/security.md, audit log: JSON lines of their own, without secrets."""
    file = tmp_path / "audit.jsonl"
    set_up_logging(Log(audit_file=file))
    try:
        async with RunningBroker(tmp_path / "data", (), {"ada": "engine"}) as broker:
            client = Mqtt(broker)
            await client.connect("ada", "my secret")
            await client.leave()
            async with asyncio.timeout(DEADLINE_S):
                while not file.read_text():
                    await asyncio.sleep(0.01)
    finally:
        set_up_logging(Log())
    (line,) = [json.loads(each) for each in file.read_text().splitlines()]
    assert (line["logger"], line["event"], line["client"]) == (
        "sluicegate.audit",
        "CLIENT_CLIENT_CONNECT_FAIL",
        "device",
    )
    assert line["message"].startswith("401 Unauthorized: MQTT client at 127.0.0.1:")
    assert "secret" not in file.read_text()
