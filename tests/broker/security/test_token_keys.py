"""Keys of tokens that are fetched from an authorization server, which rotates them, is away, or answers nonsense."""

import asyncio
import gzip
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

import support.mqtt.packets as mqtt
from sluicegate.gateway.config.document import ConfigError
from sluicegate.gateway.config.load import load
from sluicegate.gateway.operations.node import NodeOperations
from sluicegate.protocols.security.tokens.token_keys import FAILED, UNKNOWN_KEY_MS, FetchedKeys, KeyFetcher
from support.broker.running_broker import RunningBroker
from support.http.web_server import WebServer, absent
from support.mqtt.raw_client import DEADLINE_S
from support.network.certificates import Certificates, make_certificates
from support.network.tokens import AUDIENCE, ISSUER, TokenServer

RIGHT, WRONG = 0, 0x86


def settings_of(port: int, *more: str, scheme: str = "http") -> tuple[str, ...]:
    return (
        f"authentication.oauth.jwks_url={scheme}://127.0.0.1:{port}/keys",
        f"authentication.oauth.issuer={ISSUER}",
        f"authentication.oauth.audience={AUDIENCE}",
        "authentication.oauth.token_as_password=true",
        "authentication.allow_anonymous=false",
        *more,
    )


@asynccontextmanager
async def trusting(folder: Path, *more: str) -> AsyncIterator[tuple[RunningBroker, WebServer, TokenServer]]:
    """A broker, the web server that it has its keys from, and what signs with them."""
    tokens = TokenServer(folder)
    async with WebServer() as server:
        server.body = tokens.keys_text.encode()
        async with RunningBroker(folder / "data", settings_of(server.port, *more)) as broker:
            yield broker, server, tokens


async def login(broker: RunningBroker, token: str) -> int:
    raw = await broker.open(5)
    raw.send(mqtt.connect("device", level=5, user_name="ada", password=token.encode()))
    return mqtt.connack(await raw.packet(), 5).reason_code


async def until_let_in(broker: RunningBroker, token: str) -> None:
    async with asyncio.timeout(DEADLINE_S):
        while not await is_valid(broker, token):
            await asyncio.sleep(0.02)
    assert await login(broker, token) == RIGHT


async def is_valid(broker: RunningBroker, token: str) -> bool:
    """Return whether a token is accepted, without a failed login, after which others would be delayed."""
    principal_of = broker.node.default.accounts.authenticator.token
    return principal_of(token.encode()) is not None


async def metrics(broker: RunningBroker) -> dict[str, float]:
    samples = await NodeOperations(broker.node).metrics_snapshot()
    return {
        "/".join((each.name.removeprefix("sluicegate_token_keys_"), *each.labels)): each.value
        for each in samples
        if each.name.startswith("sluicegate_token_keys_")
    }


async def until_counted(broker: RunningBroker, outcome: str, count: int) -> None:
    async with asyncio.timeout(DEADLINE_S):
        while (await metrics(broker)).get(f"fetches_total/{outcome}", 0) < count:
            await asyncio.sleep(0.02)


async def test_a_token_is_checked_with_fetched_keys_and_their_age_is_known(tmp_path: Path) -> None:
    async with trusting(tmp_path) as (broker, server, tokens):
        await until_let_in(broker, tokens.token())
        assert [(each.method, each.path) for each in server.requests] == [("GET", "/keys")]
        broker.clock.forward(60)
        found = await metrics(broker)
        assert found["age_seconds"] >= 60
        assert (found["fetches_total/fetched"], found["fetches_total/failed"]) == (1, 0)


async def test_a_token_of_a_new_key_is_accepted_soon_after_it_was_shown_first(tmp_path: Path) -> None:
    async with trusting(tmp_path) as (broker, server, tokens):
        old = tokens.token()
        await until_let_in(broker, old)
        tokens.rotate()
        server.body = tokens.keys_text.encode()
        broker.clock.forward(UNKNOWN_KEY_MS / 1000)
        assert await login(broker, tokens.token()) == WRONG
        await until_let_in(broker, tokens.token())
        assert not await is_valid(broker, old)


async def test_tokens_of_unknown_keys_have_the_keys_fetched_once_in_a_while(tmp_path: Path) -> None:
    async with trusting(tmp_path) as (broker, server, tokens):
        await until_let_in(broker, tokens.token())
        tokens.rotate()
        broker.clock.forward(UNKNOWN_KEY_MS / 1000)
        for _ in range(20):
            assert not await is_valid(broker, tokens.token())
        await until_counted(broker, "fetched", 2)
        for _ in range(20):
            assert not await is_valid(broker, tokens.token())
        await broker.node.reload(load(settings=broker.settings))
        assert len(server.requests) == 2


async def test_a_broker_starts_without_its_server_and_refuses_tokens_until_it_has_keys(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    tokens, server = TokenServer(tmp_path), await absent()
    server.body = tokens.keys_text.encode()
    async with RunningBroker(tmp_path / "data", settings_of(server.port)) as broker:
        await until_counted(broker, "failed", 1)
        assert await login(broker, tokens.token()) == WRONG
        assert "VPN_OAUTH_KEYS_DOWN" in caplog.text
        assert "age_seconds" not in await metrics(broker)
        await server.start()
        await until_let_in(broker, tokens.token())
        await server.stop()


async def test_the_last_keys_stay_in_force_while_the_server_is_away(tmp_path: Path) -> None:
    async with trusting(tmp_path) as (broker, server, tokens):
        await until_let_in(broker, tokens.token())
        await server.stop()
        (tmp_path / "stranger").mkdir()
        stranger = TokenServer(tmp_path / "stranger")
        stranger.rotate()  # so the name of its key is another one
        broker.clock.forward(UNKNOWN_KEY_MS / 1000)
        assert not await is_valid(broker, stranger.token())
        await until_counted(broker, "failed", 1)
        assert await login(broker, tokens.token()) == RIGHT


async def test_keys_that_are_too_old_are_no_longer_in_force(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with trusting(tmp_path, "authentication.oauth.jwks_stale_max_s=7200") as (broker, server, tokens):
        await until_let_in(broker, tokens.token())
        await server.stop()
        (tmp_path / "stranger").mkdir()
        stranger = TokenServer(tmp_path / "stranger")
        stranger.rotate()  # so the name of its key is another one
        broker.clock.forward(7200)
        assert not await is_valid(broker, stranger.token())  # it has the keys fetched now
        async with asyncio.timeout(DEADLINE_S):
            while await is_valid(broker, tokens.token()):
                await asyncio.sleep(0.02)
        assert "7200 s old, and tokens are refused" in caplog.text
        assert (await metrics(broker))["age_seconds"] >= 7200
        await server.start()
        broker.clock.forward(60)
        await until_let_in(broker, tokens.token())


async def test_no_failure_of_a_fetch_ends_the_fetches(broker: RunningBroker) -> None:
    """Even one that nobody thought of."""
    outcomes: list[str] = []

    async def fetch() -> FetchedKeys:
        raise RuntimeError("odd")

    fetcher = KeyFetcher(fetch, refresh_ms=60_000, stale_ms_max=120_000, clock=broker.clock, on_outcome=outcomes.append)
    fetcher.start()
    async with asyncio.timeout(DEADLINE_S):
        while fetcher.counts[FAILED] < 2:
            broker.clock.forward(60)
            await asyncio.sleep(0.02)
    await fetcher.close()
    assert outcomes == ["RuntimeError: odd"]


async def test_a_compressed_answer_is_none(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The bound on what is read would be none on what it unpacks to."""
    async with WebServer() as server:
        server.body, server.header = gzip.compress(b" " * (64 << 20)), b"Content-Encoding: gzip\r\n"
        async with RunningBroker(tmp_path / "data", settings_of(server.port)) as broker:
            await until_counted(broker, "failed", 1)
        assert server.requests[0].headers["accept-encoding"] == "identity"
    assert "its answer is compressed ('gzip')" in caplog.text


async def test_fetched_keys_stay_in_force_over_a_reload(tmp_path: Path) -> None:
    async with trusting(tmp_path) as (broker, server, tokens):
        await until_let_in(broker, tokens.token())
        await broker.node.reload(load(settings=(*broker.settings, "authentication.oauth.user_claim=upn")))
        assert await login(broker, tokens.token(upn="ada")) == RIGHT
        assert len(server.requests) == 1


async def test_another_url_has_other_keys(tmp_path: Path) -> None:
    (tmp_path / "others").mkdir()
    others = TokenServer(tmp_path / "others")
    async with WebServer() as second, trusting(tmp_path) as (broker, _, tokens):
        second.body = others.keys_text.encode()
        await until_let_in(broker, tokens.token())
        await broker.node.reload(load(settings=(*broker.settings, settings_of(second.port)[0])))
        await until_let_in(broker, others.token())
        assert not await is_valid(broker, tokens.token())
        assert (await metrics(broker))["fetches_total/fetched"] == 2


@pytest.mark.parametrize(
    ("status", "body", "reason"),
    [
        (500, b"", "status 500"),
        (302, b"", "status 302"),
        (200, b"keys", "no JSON"),
        (200, b"\xff", "its answer"),
        (200, b'{"keys": []}', "no key set"),
        (200, b'{"keys": [{"kty": "oct", "k": "c2VjcmV0"}]}', "no public key"),
        (200, b" " * ((1 << 20) + 1), "more than"),
        (200, b'{"keys": ' + b"[" * 100_000, "nested too deep"),
    ],
)
async def test_an_answer_without_usable_keys_is_none(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, status: int, body: bytes, reason: str
) -> None:
    async with WebServer(status=lambda _: status) as server:
        server.body = body
        async with RunningBroker(tmp_path / "data", settings_of(server.port)) as broker:
            await until_counted(broker, "failed", 1)
    assert reason in caplog.text


async def test_a_silent_server_is_given_up(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with WebServer(status=lambda _: 200) as server:
        server.hold = asyncio.Event()
        settings = settings_of(server.port, "authentication.oauth.jwks_timeout_ms=50")
        async with RunningBroker(tmp_path / "data", settings) as broker:
            await until_counted(broker, "failed", 1)
    assert "no answer within 0.05 s" in caplog.text


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("certificates"))


@pytest.mark.parametrize("is_trusted", [True, False])
async def test_keys_come_from_a_server_whose_certificate_is_trusted(
    tmp_path: Path, certificates: Certificates, caplog: pytest.LogCaptureFixture, is_trusted: bool
) -> None:
    tokens = TokenServer(tmp_path)
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(certificates.server, certificates.server_key)
    async with WebServer(tls=tls) as server:
        server.body = tokens.keys_text.encode()
        more = (f"authentication.oauth.jwks_ca_file={certificates.authority}",) if is_trusted else ()
        async with RunningBroker(tmp_path / "data", settings_of(server.port, *more, scheme="https")) as broker:
            await until_counted(broker, "fetched" if is_trusted else "failed", 1)
            assert await is_valid(broker, tokens.token()) is is_trusted
    assert ("CERTIFICATE_VERIFY_FAILED" in caplog.text) is not is_trusted


@pytest.mark.parametrize("section", ["authentication.oauth", "admin.oauth"])
def test_a_configuration_that_cannot_work_is_refused(tmp_path: Path, section: str) -> None:
    tokens = TokenServer(tmp_path)
    (tmp_path / "password").write_text("correct-horse")
    users = f"admin.users=[{{name: ada, password_file: {tmp_path}/password}}]"
    url = f"{section}.jwks_url=https://login.example/keys"
    claims = (f"{section}.issuer={ISSUER}", f"{section}.audience={AUDIENCE}")
    for settings, reason in (
        ((url,), "issuer is required with jwks_url"),
        ((url, *claims, f"{section}.jwks_file={tokens.jwks_file}"), "set one of jwks_file and jwks_url"),
        ((f"{section}.jwks_url=http://login.example/keys", *claims), "jwks_allow_http"),
        ((f"{section}.jwks_url=ftp://login.example/keys", *claims), "an https URL"),
        ((url, *claims, f"{section}.jwks_ca_file={tmp_path}/absent"), "jwks_ca_file"),
        ((f"{section}.jwks_url=https://keys..example.com/", *claims), "with a valid host"),
        ((f"{section}.jwks_url=https://login.example:99999/", *claims), "[Pp]ort"),
        ((url, *claims, f"{section}.jwks_stale_max_s=3600"), "more than jwks_refresh_s"),
        ((f"{section}.jwks_ca_file=/x",), "jwks_ca_file needs jwks_url"),
        ((f"{section}.token_as_password=true",), "token_as_password needs jwks_file or jwks_url"),
    ):
        with pytest.raises(ConfigError, match=reason):
            load(settings=(users, *settings))
    load(settings=(users, f"{section}.jwks_url=http://login.example/", *claims, f"{section}.jwks_allow_http=true"))


def test_tokens_of_operators_need_accounts_and_accounts_without_password_need_tokens() -> None:
    claims = (f"admin.oauth.issuer={ISSUER}", f"admin.oauth.audience={AUDIENCE}")
    url, users = "admin.oauth.jwks_url=https://login.example/keys", "admin.users=[{name: ada}]"
    with pytest.raises(ConfigError, match="jwks_url is set without users"):
        load(settings=(url, *claims))
    with pytest.raises(ConfigError, match="tokens are not taken"):
        load(settings=(users,))
    load(settings=(url, *claims, users))
