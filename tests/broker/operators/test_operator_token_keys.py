"""Keys of operators' tokens that are fetched from an authorization server: as for clients, at the admin port."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from sluicegate.gateway.config.load import load
from sluicegate.messaging.observability.events import SYSTEM_TOKEN_KEYS_DOWN, SYSTEM_TOKEN_KEYS_UP
from sluicegate.protocols.security.tokens.token_keys import UNKNOWN_KEY_MS
from support.broker.running_broker import RunningBroker
from support.http.plain import plain_async_client
from support.http.web_server import WebServer, absent
from support.mqtt.raw_client import DEADLINE_S
from support.network.certificates import Certificates, make_certificates
from support.network.tokens import AUDIENCE, ISSUER, TokenServer

FETCHES, AGE = "sluicegate_operator_token_keys_fetches_total", "sluicegate_operator_token_keys_age_seconds"


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture
def tls(certificates: Certificates) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificates.server, certificates.server_key)
    return context


def settings_of(port: int, certificates: Certificates, *more: str) -> tuple[str, ...]:
    return (
        "admin.enabled=true",
        "admin.port=0",
        "admin.users=[{name: ada, global_access_level: admin}]",
        f"admin.oauth.jwks_url=https://127.0.0.1:{port}/keys",
        f"admin.oauth.jwks_ca_file={certificates.authority}",
        f"admin.oauth.issuer={ISSUER}",
        f"admin.oauth.audience={AUDIENCE}",
        *more,
    )


@asynccontextmanager
async def trusting(
    folder: Path, tls: ssl.SSLContext, certificates: Certificates, *more: str
) -> AsyncIterator[tuple[RunningBroker, WebServer, TokenServer]]:
    """A broker, the web server that it has the keys of its operators from, and what signs with them."""
    tokens = TokenServer(folder)
    async with WebServer(tls=tls) as server:
        server.body = tokens.keys_text.encode()
        async with RunningBroker(folder / "data", settings_of(server.port, certificates, *more)) as broker:
            yield broker, server, tokens


async def status(broker: RunningBroker, token: str) -> int:
    """Return the status of a request to the admin port with this token."""
    port = broker.operator_ports.ports.servers["admin"].port
    async with plain_async_client(f"http://127.0.0.1:{port}", timeout=DEADLINE_S) as client:
        return (await client.get("/account", headers={"Authorization": f"Bearer {token}"})).status_code


def measured(broker: RunningBroker) -> dict[str, float]:
    return {"/".join((each.name, *each.labels)): each.value for each in broker.operator_ports.samples()}


async def until_counted(broker: RunningBroker, outcome: str, count: int) -> None:
    async with asyncio.timeout(DEADLINE_S):
        while measured(broker).get(f"{FETCHES}/{outcome}", 0) < count:
            await asyncio.sleep(0.02)


def reports(broker: RunningBroker) -> list[str]:
    """Return the events about the keys: up and down."""
    kinds = {SYSTEM_TOKEN_KEYS_UP: "up", SYSTEM_TOKEN_KEYS_DOWN: "down"}
    recent = broker.node.services.runtime.events.record.recent(0, 1000)
    return [kinds[event.kind] for _, event in recent if event.kind in kinds]


async def test_an_operators_token_is_checked_with_fetched_keys(
    tmp_path: Path, tls: ssl.SSLContext, certificates: Certificates
) -> None:
    async with trusting(tmp_path, tls, certificates) as (broker, server, tokens):
        await until_counted(broker, "fetched", 1)
        assert await status(broker, tokens.token()) == 200
        assert await status(broker, tokens.token(sub="eve")) == 401
        assert [(each.method, each.path) for each in server.requests] == [("GET", "/keys")]
        assert reports(broker) == ["up"]
        broker.clock.forward(60)
        found = measured(broker)
        assert found[AGE] >= 60
        assert (found[f"{FETCHES}/fetched"], found[f"{FETCHES}/failed"]) == (1, 0)


async def test_a_token_of_a_new_key_lets_an_operator_in_soon_after_it_was_shown_first(
    tmp_path: Path, tls: ssl.SSLContext, certificates: Certificates
) -> None:
    async with trusting(tmp_path, tls, certificates) as (broker, server, tokens):
        await until_counted(broker, "fetched", 1)
        old = tokens.token()
        tokens.rotate()
        server.body = tokens.keys_text.encode()
        broker.clock.forward(UNKNOWN_KEY_MS / 1000)
        assert await status(broker, tokens.token()) == 401
        await until_counted(broker, "fetched", 2)
        assert await status(broker, tokens.token()) == 200
        assert await status(broker, old) == 401


async def test_the_admin_port_opens_without_the_server_and_refuses_tokens_until_there_are_keys(
    tmp_path: Path, certificates: Certificates, caplog: pytest.LogCaptureFixture
) -> None:
    tokens, server = TokenServer(tmp_path), await absent()
    server.body = tokens.keys_text.encode()
    password = tmp_path / "password"
    password.write_text("correct-horse")
    users = f"admin.users=[{{name: ada, password_file: {password}, global_access_level: admin}}]"
    settings = [
        each.replace("https://127.0.0.1", "http://127.0.0.1") for each in settings_of(server.port, certificates)
    ]
    async with RunningBroker(tmp_path / "data", (*settings, users)) as broker:
        await until_counted(broker, "failed", 1)
        assert await status(broker, tokens.token()) == 401
        port = broker.operator_ports.ports.servers["admin"].port
        async with plain_async_client(f"http://127.0.0.1:{port}", timeout=DEADLINE_S) as client:
            assert (await client.get("/account", auth=("ada", "correct-horse"))).status_code == 200
            assert (await client.get("/health/ready")).status_code == 200
        assert "SYSTEM_OAUTH_KEYS_DOWN" in caplog.text
        assert AGE not in measured(broker)
        await server.start()
        broker.clock.forward(60)
        await until_counted(broker, "fetched", 1)
        assert await status(broker, tokens.token()) == 200
        assert reports(broker) == ["down", "up"]
        await server.stop()


async def test_keys_of_operators_that_are_too_old_are_no_longer_in_force(
    tmp_path: Path, tls: ssl.SSLContext, certificates: Certificates, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "stranger").mkdir()
    stranger = TokenServer(tmp_path / "stranger")
    stranger.rotate()  # so the name of its key is another one
    more = "admin.oauth.jwks_stale_max_s=7200"
    async with trusting(tmp_path, tls, certificates, more) as (broker, server, tokens):
        await until_counted(broker, "fetched", 1)
        await server.stop()
        broker.clock.forward(UNKNOWN_KEY_MS / 1000)
        assert await status(broker, stranger.token()) == 401  # it has the keys fetched now
        await until_counted(broker, "failed", 1)
        assert await status(broker, tokens.token()) == 200
        broker.clock.forward(7200)
        async with asyncio.timeout(DEADLINE_S):
            while "7200 s old, and tokens are refused" not in caplog.text:
                await asyncio.sleep(0.02)
        assert await status(broker, tokens.token()) == 401
        assert measured(broker)[AGE] >= 7200


async def test_a_reload_changes_where_the_keys_of_operators_are_from(
    tmp_path: Path, tls: ssl.SSLContext, certificates: Certificates
) -> None:
    """Keys of the same URL stay in force; another URL, or a file, has other keys, and a file needs no fetch."""
    (tmp_path / "others").mkdir()
    others = TokenServer(tmp_path / "others")
    async with WebServer(tls=tls) as second, trusting(tmp_path, tls, certificates) as (broker, server, tokens):
        second.body = others.keys_text.encode()
        await until_counted(broker, "fetched", 1)
        await broker.node.reload(load(settings=(*broker.settings, "admin.oauth.user_claim=upn")))
        assert await status(broker, tokens.token(sub="x", upn="ada")) == 200
        assert len(server.requests) == 1
        await broker.node.reload(load(settings=(*broker.settings, settings_of(second.port, certificates)[3])))
        await until_counted(broker, "fetched", 2)
        assert await status(broker, others.token()) == 200
        assert await status(broker, tokens.token()) == 401
        from_file = [each for each in broker.settings if "admin.oauth.jwks" not in each]
        await broker.node.reload(load(settings=(*from_file, f"admin.oauth.jwks_file={tokens.jwks_file}")))
        assert await status(broker, tokens.token()) == 200
        assert measured(broker)[f"{FETCHES}/fetched"] == 2
        assert AGE not in measured(broker)


async def test_nobody_fetches_keys_where_no_operator_can_log_in(
    tmp_path: Path, tls: ssl.SSLContext, certificates: Certificates
) -> None:
    more = ("admin.enabled=false", "health.enabled=true", "health.port=0")
    async with trusting(tmp_path, tls, certificates, *more) as (broker, server, _):
        assert measured(broker).keys().isdisjoint({AGE, f"{FETCHES}/fetched"})
    assert server.requests == []
