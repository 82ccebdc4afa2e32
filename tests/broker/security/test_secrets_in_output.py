"""Nothing that an operator can read holds a secret: logs, audit log, metrics, events, traces, admin answers, the store.

The story has every protocol and every kind of secret that the gateway is given or shown, right and wrong ones; then all
that it says is searched for each of them, in the forms in which they travel.
"""

import asyncio
import base64
import io
import logging
import re
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from urllib.parse import quote

import httpx
import pytest
from typer.testing import CliRunner

from sluicegate.gateway.cli.app import app
from sluicegate.gateway.config.sections.observability import Log
from sluicegate.gateway.observability.logs import JsonLines, TextLines, set_up_logging
from support.broker.named_queues import create
from support.broker.protocol_clients import OK, Amqp, FlowProtocol, Http, Mqtt, ProtocolClient
from support.broker.running_broker import RunningBroker
from support.http.plain import plain_async_client
from support.http.web_server import WebServer
from support.mqtt.raw_client import DEADLINE_S
from support.network.certificates import Certificates, make_certificates
from support.network.tokens import TokenServer
from support.operations.trace_collector import TraceCollector

PROTOCOLS: Final = (Mqtt, Amqp, FlowProtocol, Http)
PASSWORD: Final = "horse-battery-7431-staple"
WRONG: Final = "tr0ub4dor-9920-wrong"
OPERATOR: Final = "operators-only-8846"
MADE: Final = "made-at-run-time-5518"
PUSHED: Final = "pushed-with-basic-3307"
HEADER: Final = "pushed-in-a-header-6642"
NAMES: Final = {"name": "q", "cursor": "none", "queue": "q", "topic": "orders/eu", "key": "k"}  # of paths and queries


def forms(secret: str) -> set[str]:
    """Return a secret as it is written, quoted and encoded where it travels."""
    plain = secret.encode()
    packed = {base64.b64encode(text).decode().rstrip("=") for text in (plain, b"ada:" + plain, b"\0ada\0" + plain)}
    return {secret, quote(secret, safe=""), plain.hex(), *packed}


@contextmanager
def everything_logged() -> Iterator[list[io.StringIO]]:
    """Take what is logged from the lowest level on, in both formats. The test's own HTTP client is left out."""
    texts = [io.StringIO(), io.StringIO()]
    handlers = [logging.StreamHandler(text) for text in texts]
    root = logging.getLogger()
    level = root.level
    for handler, lines in zip(handlers, (JsonLines(), TextLines()), strict=True):
        handler.setFormatter(lines)
        handler.addFilter(lambda record: not record.name.startswith(("httpx", "httpcore")))
        root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    try:
        yield texts
    finally:
        root.setLevel(level)
        for handler in handlers:
            root.removeHandler(handler)


async def comes_and_publishes(client: ProtocolClient, user: str, password: str) -> bool:
    """Connect, and publish where that is granted; return whether it was."""
    try:
        if await client.connect(user, password) != OK:
            return False
        return await client.publish("orders/eu") == OK
    finally:
        await client.leave()


async def story(
    broker: RunningBroker, admin: httpx.AsyncClient, tokens: list[str], web: WebServer, files: Path
) -> None:
    """Everybody comes, with the right secrets and wrong ones; a user and a delivery point are made at run time."""
    await create(broker, subscriptions=["orders/>"])
    assert (await admin.get("/queues", auth=("ada", WRONG))).status_code == 401
    made = await admin.post("/users", json={"name": "eve", "password": MADE})
    assert made.status_code == 201, made.text
    refused = await admin.post("/users", json={"name": "ada", "password": WRONG})
    assert refused.status_code >= 400
    for scheme, more in {
        "http-basic": {
            "authentication_http_basic_username": "ada",
            "authentication_http_basic_password_file": str(files / "basic"),
        },
        "http-header": {
            "authentication_http_header_name": "X-Api-Key",
            "authentication_http_header_value_file": str(files / "header"),
        },
    }.items():
        consumer = {
            "name": "web",
            "remote_host": "127.0.0.1",
            "remote_port": web.port,
            "authentication_scheme": scheme,
            **more,
        }
        await create(broker, scheme, subscriptions=["orders/>"])
        point = {
            "name": scheme,
            "queue_bindings": [{"queue": scheme, "post_request_target": "/"}],
            "rest_consumers": [consumer],
        }
        pointed = await admin.post("/rest-delivery-points", json=point)
        assert pointed.status_code == 201, pointed.text
    for protocol in PROTOCOLS:
        assert await comes_and_publishes(protocol(broker), "ada", PASSWORD)
        assert await comes_and_publishes(protocol(broker), "eve", MADE)
        assert not await comes_and_publishes(protocol(broker), "ada", WRONG)
        assert not await comes_and_publishes(protocol(broker), "nobody", WRONG)
    good, expired = tokens
    assert await comes_and_publishes(Mqtt(broker), "grace", good)
    assert not await comes_and_publishes(Mqtt(broker), "grace", expired)
    async with plain_async_client(timeout=DEADLINE_S) as client:
        url = f"http://127.0.0.1:{broker.node.http.listeners['http'].port}/TOPIC/orders/eu"
        for token in tokens:
            await client.post(url, content=b"x", headers={"Authorization": f"Bearer {token}"})
        await client.post(url, content=b"x", params={"password": WRONG}, auth=("ada", WRONG))


async def until_pushed(web: WebServer) -> None:
    """Wait until both delivery points have used their secrets."""
    count = 1
    while {"authorization", "x-api-key"} - {name for each in web.requests for name in each.headers}:
        count = len(await web.has(count)) + 1
    assert HEADER in {each.headers.get("x-api-key") for each in web.requests}


# Answers without an end. tests/broker/operators/test_client_traces.py looks at passwords in what they tell.
ENDLESS = frozenset({"/clients/{name}/trace", "/trace", "/watch"})


async def answers(admin: httpx.AsyncClient) -> str:
    """Return what the admin port answers to everything that only asks."""
    document = (await admin.get("/openapi.json")).json()
    said: list[str] = []
    for path, operations in document["paths"].items():
        if "get" not in operations or path in ENDLESS:
            continue
        named = {each["name"] for each in operations["get"].get("parameters", [])}
        for user in ("ada", "eve", "q", "http-basic"):
            names = {**NAMES, "name": user}
            filled = re.sub(r"{([a-z_]+)}", lambda found: names.get(found.group(1), "q"), path)  # noqa: B023
            wanted = {name: value for name, value in names.items() if name in named and f"{{{name}}}" not in path}
            answer = await admin.get(filled, params=wanted)
            assert answer.status_code < 500, f"{filled}: {answer.text}"
            said.append(answer.text)
    return "\n".join(said)


def commands(file: Path, settings: tuple[str, ...]) -> str:
    """Return what commands say that read the configuration."""
    options = ["--config", str(file), *[part for each in settings for part in ("--set", each)]]
    runner = CliRunner()
    said = [runner.invoke(app, [*command, *options]) for command in (["check-config"], ["check-config", "--json"])]
    assert [each.exit_code for each in said] == [0, 0], [each.output for each in said]
    return "\n".join(each.output + each.stderr for each in said)


def secret_settings(folder: Path, certificates: Certificates, audit: Path, endpoint: str) -> tuple[str, ...]:
    """Return the settings of a gateway that has operators, tokens, TLS, an audit log and traces."""
    return (
        "admin.enabled=true",
        "admin.port=0",
        f"admin.users=[{{name: ada, password_file: {folder}/operator, global_access_level: admin}}]",
        f"log.audit_file={audit}",
        "authentication.oauth.token_as_password=true",
        *certificates.in_tls("listeners.mqtt_tls"),
        "tracing.enabled=true",
        f"tracing.endpoint={endpoint}",
        "tracing.begin_traces=true",
        "tracing.export_interval_ms=50",
    )


@pytest.mark.slow
async def test_no_secret_appears_in_any_output(tmp_path: Path) -> None:
    """docs/operate/security.md: no secret leaks in logs or /metrics; they come from files or environment."""
    (tmp_path / "basic").write_text(PUSHED)
    (tmp_path / "header").write_text(HEADER)
    (tmp_path / "operator").write_text(OPERATOR)
    certificates = make_certificates(tmp_path)
    server = TokenServer(tmp_path)
    tokens = [server.token(sub="grace"), server.token(sub="grace", exp=1_000_000_000)]
    audit = tmp_path / "audit.log"
    async with TraceCollector() as collector, WebServer() as web:
        settings = (*server.settings, *secret_settings(tmp_path, certificates, audit, collector.endpoint))
        broker = RunningBroker(tmp_path / "data", settings, accounts={"ada": PASSWORD})
        set_up_logging(Log(level="debug", audit_file=audit))
        try:
            with everything_logged() as texts:
                async with broker:
                    port = broker.operator_ports.ports.servers["admin"].port
                    async with plain_async_client(
                        f"http://127.0.0.1:{port}", auth=("ada", OPERATOR), timeout=DEADLINE_S
                    ) as admin:
                        await story(broker, admin, tokens, web, tmp_path)
                        await until_pushed(web)
                        said = await answers(admin)
                        export = await admin.get("/definitions", params={"with_password_hashes": "true"})
                    port = broker.node.mqtt.listeners["mqtt_tls"].port
                    with pytest.raises(ssl.SSLError):  # a client that does not trust us: that is told, too
                        await asyncio.open_connection("127.0.0.1", port, ssl=ssl.create_default_context())
        finally:
            set_up_logging(Log())
        traces = repr(collector.spans)
    told = {
        "log as JSON": texts[0].getvalue(),
        "log as text": texts[1].getvalue(),
        "audit log": audit.read_text(),
        "admin port": said,
        "traces": traces,
        "check-config": commands(tmp_path / "data" / "gateway.yaml", broker.settings),
        "store": (tmp_path / "data" / "data.mdb").read_bytes().decode("latin-1"),
    }
    assert len(told["log as JSON"].splitlines()) > 20
    assert "CLIENT_CLIENT_CONNECT_FAIL" in told["audit log"]
    assert "sluicegate_clients_denied_total" in told["admin port"]
    assert "publish" in told["traces"]
    signatures = [token.split(".")[2] for token in tokens]
    key = "".join(certificates.server_key.read_text().splitlines()[1:-1])
    assert leaks(told, [PASSWORD, WRONG, OPERATOR, MADE, PUSHED, HEADER, *tokens, *signatures, key[:40]]) == []
    # Hashes are in one answer alone, which an admin has to ask for, and in nothing that tells of it.
    [eve] = export.json()["message_vpns"]["default"]["users"]
    assert leaks({"export": export.text}, [MADE]) == []
    assert eve["password_hash"].startswith("$argon2id$")
    assert "SYSTEM_PASSWORD_HASHES_EXPORT" in told["audit log"]
    keys = eve["scram_secret"].rpartition("$")[2]
    assert not any("$argon2id$" in text or keys in text for where, text in told.items() if where != "store")


def leaks(told: dict[str, str], secrets: list[str]) -> list[tuple[str, str]]:
    """Return where secrets stand, in any form."""
    return [
        (where, each) for where, text in told.items() for each in secrets if any(form in text for form in forms(each))
    ]


def test_a_leak_would_be_found() -> None:
    basic = base64.b64encode(f"ada:{PASSWORD}".encode()).decode()
    told = {"a": f"Authorization: Basic {basic}", "b": f"?password={PASSWORD}", "c": "nothing"}
    assert leaks(told, [PASSWORD, WRONG]) == [("a", PASSWORD), ("b", PASSWORD)]
