"""Web pages that connect to the ports of a broker on the user's machine: which the settings allow."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import aiohttp
import httpx
import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import InvalidStatus
from websockets.typing import Origin, Subprotocol

import support.mqtt.packets as mqtt
from sluicegate.gateway.config.load import load
from sluicegate.gateway.operations.node import NodeOperations
from sluicegate.gateway.security.accounts import EVENTS_OF_DENIALS
from sluicegate.messaging.clients.rights import FOREIGN_HOST, FOREIGN_ORIGIN
from support.broker.running_broker import RunningBroker
from support.foreign.paho_client import MQTT_5, PahoClient
from support.http.client import create, event_stream, http_client, http_url, publish, ready_count
from support.mqtt.raw_client import DEADLINE_S
from support.network.certificates import Certificates, make_certificates
from support.network.closing_stream import open_closing

EVIL: Final = "https://evil.example"
SHOP: Final = "https://shop.example"
AMQP: Final = ("listeners.amqp_websocket.enabled=true", "listeners.amqp_websocket.port=0")
SHOP_IS_ALLOWED: Final = tuple(f"{protocol}.allowed_origins=[{SHOP}]" for protocol in ("mqtt", "amqp", "http"))
SUBPROTOCOLS: Final = {"mqtt": "mqtt", "amqp": "amqp"}
WITH_USERS: Final = "authentication.allow_anonymous=false"

each_protocol = pytest.mark.parametrize("protocol", ["mqtt", "amqp"])


def websocket_port(broker: RunningBroker, protocol: str, tls: str = "") -> int:
    servers = {server.name: server for server in broker.node.servers}
    return servers[protocol].listeners[f"{protocol}_websocket{tls}"].port


@asynccontextmanager
async def opened(
    broker: RunningBroker,
    protocol: str,
    *,
    host: str = "127.0.0.1",
    origin: str = "",
    tls: ssl.SSLContext | None = None,
) -> AsyncIterator[ClientConnection]:
    """Open a WebSocket as a browser does for a page of an origin, which calls the broker by this name."""
    port = websocket_port(broker, protocol, "" if tls is None else "_tls")
    url = f"{'ws' if tls is None else 'wss'}://{host}:{port}/{protocol}"
    said = None if not origin else Origin(origin.format(port=port))
    async with connect(
        url, subprotocols=[Subprotocol(SUBPROTOCOLS[protocol])], origin=said, ssl=tls, host="127.0.0.1", port=port
    ) as socket:
        yield socket


async def upgrade(broker: RunningBroker, protocol: str, **page: str) -> tuple[int, str]:
    """Return status and text that an upgrade is answered with; 101 if there is a WebSocket."""
    try:
        async with opened(broker, protocol, **page):  # type: ignore[arg-type]  # host and origin, both texts
            return 101, ""
    except InvalidStatus as refused:
        body = refused.response.body
        return refused.response.status_code, "" if body is None else bytes(body).decode()


def refused(broker: RunningBroker, protocol: str) -> dict[str, int]:
    """Return what is counted of the protocol's clients that were not let in, by reason."""
    return {server.name: server for server in broker.node.servers}[protocol].counters.refused


def in_browser(page: str, *, site: str = "cross-site") -> dict[str, str]:
    """Return what a browser says of a script's request."""
    return {"Origin": page, "Sec-Fetch-Site": site, "Sec-Fetch-Mode": "cors"}


AS_AN_IMAGE: Final = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "image"}
AS_A_LINK: Final = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}


# --- WebSocket ---


@pytest.mark.settings(*AMQP)
@each_protocol
@pytest.mark.parametrize("origin", [EVIL, "http://127.0.0.1:3000", "http://localhost:{port}", "null", "file://"])
async def test_a_page_of_elsewhere_opens_no_websocket(broker: RunningBroker, protocol: str, origin: str) -> None:
    """RFC 6455 10.2. It is told which setting would let it in; operators are told as well."""
    status, text = await upgrade(broker, protocol, origin=origin)
    assert (status, f"not in {protocol}.allowed_origins" in text) == (403, True)
    assert refused(broker, protocol) == {FOREIGN_ORIGIN: 1}
    assert broker.node.default.clients.denials.counts == {FOREIGN_ORIGIN: 1}
    [told] = [
        each
        for _, each in broker.node.services.runtime.events.record.recent(0, 1000)
        if each.kind is EVENTS_OF_DENIALS[FOREIGN_ORIGIN]
    ]
    assert f"403 Foreign Origin: {protocol} client at 127.0.0.1:" in told.text()
    assert f"not in {protocol}.allowed_origins" in told.text()


@pytest.mark.settings(*AMQP)
@each_protocol
async def test_a_page_whose_name_leads_here_opens_no_websocket(broker: RunningBroker, protocol: str) -> None:
    """DNS rebinding: it is of the origin of the port, by the name that it has for it."""
    status, text = await upgrade(broker, protocol, host="evil.example", origin="http://evil.example:{port}")
    assert (status, "node.allowed_hosts" in text) == (421, True)
    assert refused(broker, protocol) == {FOREIGN_HOST: 1}
    assert broker.node.default.clients.denials.counts == {FOREIGN_HOST: 1}


@pytest.mark.settings(*AMQP, *SHOP_IS_ALLOWED, "node.allowed_hosts=[broker.lan]")
@each_protocol
async def test_pages_that_may_open_a_websocket_do(broker: RunningBroker, protocol: str) -> None:
    for page in (
        {"origin": SHOP},
        {"origin": "http://127.0.0.1:{port}"},
        {"origin": SHOP, "host": "localhost"},
        {"origin": "http://broker.lan:{port}", "host": "broker.lan"},
    ):
        assert await upgrade(broker, protocol, **page) == (101, "")
    assert refused(broker, protocol) == {}


async def test_an_allowed_page_subscribes(tmp_path: Path) -> None:
    """What is let in is a client like any other."""
    async with RunningBroker(tmp_path / "data", SHOP_IS_ALLOWED) as broker, opened(broker, "mqtt", origin=SHOP) as page:
        await page.send(mqtt.connect("page") + mqtt.subscribe(("t", 0)) + mqtt.publish("t", b"hello"))
        heard = b""
        while b"hello" not in heard:
            frame = await asyncio.wait_for(page.recv(), DEADLINE_S)
            assert isinstance(frame, bytes)
            heard += frame


@each_protocol
async def test_clients_that_say_no_origin_open_websockets_as_ever(broker: RunningBroker, protocol: str) -> None:
    if protocol == "amqp":
        await broker.restart(*AMQP)
    assert await upgrade(broker, protocol) == (101, "")
    async with (
        aiohttp.ClientSession() as session,
        session.ws_connect(
            f"http://127.0.0.1:{websocket_port(broker, protocol)}/{protocol}", protocols=[SUBPROTOCOLS[protocol]]
        ) as socket,
    ):
        assert socket.protocol == SUBPROTOCOLS[protocol]


async def test_paho_opens_a_websocket_as_ever(broker: RunningBroker) -> None:
    """It says the origin of the port that it goes to."""

    def talk() -> bytes:
        with PahoClient("paho", version=MQTT_5, transport="websockets") as client:
            client.connect(broker.websocket_port)
            client.subscribe("t", 1)
            client.publish("t", b"hello", 1)
            return bytes(client.next().payload)

    assert await asyncio.to_thread(talk) == b"hello"


@pytest.mark.settings(WITH_USERS, *AMQP)
@each_protocol
async def test_any_name_leads_to_a_port_where_everybody_has_to_log_in(broker: RunningBroker, protocol: str) -> None:
    """A page that calls the broker so has no password for it. A page of elsewhere stays out all the same."""
    assert (await upgrade(broker, protocol, host="broker.plant.example"))[0] == 101
    assert (await upgrade(broker, protocol, host="broker.plant.example", origin=EVIL))[0] == 403


# --- HTTP ---


async def test_a_page_of_elsewhere_stores_no_message(broker: RunningBroker) -> None:
    """Fetch standard: a POST of a form or of plain text asks nobody first, so only its answer would be kept back."""
    await create(broker, "q")
    async with http_client(broker) as client:
        for says in (
            {**in_browser(EVIL), "Content-Type": "text/plain"},
            {**in_browser("null"), "Content-Type": "application/x-www-form-urlencoded"},
            {**in_browser("http://127.0.0.1:3000", site="same-site")},
            {"Origin": EVIL},
            {"Origin": EVIL, "Content-Type": "text/plain", "Sluicegate-Batch": "ndjson"},
            {"Sec-Fetch-Site": "cross-site"},
            {"Sec-Fetch-Site": "same-site"},
        ):
            answer = await client.post("/QUEUE/q", content="evil", headers=says)
            assert (answer.status_code, "http.allowed_origins" in answer.text) == (403, True), says
            assert "access-control-allow-origin" not in answer.headers
    assert await ready_count(broker, "q") == 0
    assert refused(broker, "http") == {FOREIGN_ORIGIN: 7}
    assert broker.node.default.clients.denials.counts == {FOREIGN_ORIGIN: 7}
    assert broker.node.services.runtime.events.record.counts[EVENTS_OF_DENIALS[FOREIGN_ORIGIN].name] == 7


async def test_a_page_of_elsewhere_takes_no_message(broker: RunningBroker) -> None:
    """An image is enough to send a GET: it would be handed a message, and hold it."""
    await create(broker, "q")
    async with http_client(broker) as client:
        await publish(client, "q", "kept")
        for path in ("/QUEUE/q", "/QUEUE/q?browse=true"):
            for says in (AS_AN_IMAGE, AS_A_LINK, in_browser(EVIL), {**AS_AN_IMAGE, "Accept": "text/event-stream"}):
                answer = await client.get(path, headers=says)
                assert (answer.status_code, "kept" in answer.text) == (403, False), says
        for method, path in (("POST", "/FLOW/x/1"), ("DELETE", "/FLOW/x"), ("HEAD", "/QUEUE/q"), ("PUT", "/a")):
            assert (await client.request(method, path, headers=in_browser(EVIL))).status_code == 403
    assert await ready_count(broker, "q") == 1
    assert broker.node.default.http_flows.count == 0


async def test_a_page_whose_name_leads_here_is_answered_nothing(broker: RunningBroker) -> None:
    """DNS rebinding: the page is of the origin of the port, and may read all that it is answered."""
    await create(broker, "q")
    port = broker.node.http.listeners["http"].port
    async with http_client(broker) as client:
        await publish(client, "q", "kept")
        for host in ("evil.example", f"evil.example:{port}", "127.0.0.1.evil.example"):
            for says in ({"Host": host}, {"Host": host, "Origin": f"http://{host}", "Sec-Fetch-Site": "same-origin"}):
                got = await client.get("/QUEUE/q", headers=says)
                assert (got.status_code, "node.allowed_hosts" in got.text) == (421, True)
                assert (await client.post("/QUEUE/q", content="evil", headers=says)).status_code == 421
    assert await ready_count(broker, "q") == 1
    assert refused(broker, "http") == {FOREIGN_HOST: 12}


async def raw(broker: RunningBroker, request: bytes) -> bytes:
    """Send a request by hand; return all that comes until the end of the connection."""
    reader, writer = await open_closing(broker.node.http.listeners["http"].port)
    writer.write(request)
    answer = await asyncio.wait_for(reader.read(), DEADLINE_S)
    writer.close()
    return answer


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (b"POST /QUEUE/q HTTP/1.0\r\n", 200),  # no browser leaves out Host
        (b"POST /QUEUE/q HTTP/1.0\r\nHost: evil.example\r\n", 421),
        (b"POST /QUEUE/q HTTP/1.0\r\nOrigin: https://evil.example\r\n", 403),
        (b"POST /QUEUE/q HTTP/1.0\r\nSec-Fetch-Site: cross-site\r\n", 403),
        (b"POST http://evil.example/QUEUE/q HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n", 421),
        (b"POST http://localhost/QUEUE/q HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n", 200),
        (b"POST /QUEUE/q HTTP/1.1\r\nHost: [::1]:9000\r\nConnection: close\r\n", 200),
        (b"POST /QUEUE/q HTTP/1.1\r\nHost: localhost\r\nOrigin: http://localhost\r\nConnection: close\r\n", 200),
        (
            b"POST /QUEUE/q HTTP/1.1\r\nHost: localhost\r\nOrigin: http://localhost\r\nOrigin: https://evil.example\r\n"
            b"Connection: close\r\n",
            403,
        ),
    ],
)
async def test_hosts_and_origins_count_however_they_are_written(
    broker: RunningBroker, head: bytes, status: int
) -> None:
    """RFC 9112 3.2.2: of a whole URL its host counts. RFC 6454: one origin."""
    await create(broker, "q")
    answer = await raw(broker, head + b"Content-Length: 1\r\n\r\nx")
    assert answer.startswith(b"HTTP/1.1 %d " % status), answer
    assert await ready_count(broker, "q") == int(status == 200)


async def test_a_refused_page_costs_the_others_on_its_connection_nothing(broker: RunningBroker) -> None:
    """A proxy sends requests of many over one connection; and a body behind a refused head is passed over."""
    await create(broker, "q")
    fine = b"POST /QUEUE/q HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\n\r\nx"
    evil = fine.replace(b"localhost\r\n", b"localhost\r\nOrigin: https://evil.example\r\n")
    large = evil.replace(b"Length: 1\r\n\r\nx", b"Length: 200000\r\n\r\n" + bytes(200_000))
    last = fine.replace(b"localhost\r\n", b"localhost\r\nConnection: close\r\n")
    answers = (await raw(broker, fine + evil + fine + large + last)).split(b"HTTP/1.1 ")[1:]
    assert [int(each[:3]) for each in answers] == [200, 403, 200, 403, 200]
    assert await ready_count(broker, "q") == 3


@pytest.mark.settings(*SHOP_IS_ALLOWED)
async def test_an_allowed_page_publishes_consumes_and_reads_events(broker: RunningBroker) -> None:
    """Fetch standard, CORS protocol; server-sent events."""
    await create(broker, "q")
    says = in_browser(SHOP)
    asks = {**says, "Access-Control-Request-Headers": "sluicegate-partition-key, authorization"}
    async with http_client(broker) as client:
        for path, method in (("/QUEUE/q", "POST"), ("/FLOW/x/1", "POST"), ("/FLOW/x", "DELETE")):
            may = await client.options(path, headers={**asks, "Access-Control-Request-Method": method})
            assert may.status_code == 204
            assert method in may.headers["access-control-allow-methods"]
            assert may.headers["access-control-allow-headers"] == "sluicegate-partition-key, authorization"
            assert "access-control-allow-private-network" not in may.headers
        private = {**asks, "Access-Control-Request-Private-Network": "true"}
        assert (await client.options("/QUEUE/q", headers=private)).headers["access-control-allow-private-network"]
        posted = await client.post("/QUEUE/q", content="hello", headers=says)
        assert posted.status_code == 200
        got = await client.get("/QUEUE/q?wait_s=60", headers=says)
        assert (got.text, got.headers["access-control-allow-origin"]) == ("hello", SHOP)
        settled = await client.post(got.headers["sluicegate-settle"], headers=says)
        assert (settled.status_code, settled.headers["access-control-allow-origin"]) == (204, SHOP)
        ended = await client.delete(got.headers["sluicegate-flow"], headers=says)
        assert (ended.status_code, ended.headers["access-control-allow-origin"]) == (204, SHOP)
        async with event_stream(client, "/QUEUE/q", headers=says) as stream:
            assert stream.response.headers["access-control-allow-origin"] == SHOP
            await client.post("/QUEUE/q", content="streamed", headers=says)
            assert (await stream.next("message")).data["payload"] == "streamed"
    assert refused(broker, "http") == {}


@pytest.mark.settings(*SHOP_IS_ALLOWED)
async def test_errors_are_readable_for_allowed_pages_only(broker: RunningBroker) -> None:
    """A page reads an answer only if that allows it: also one that says what the page has to change."""
    async with http_client(broker) as client:
        wrong = await client.post("/QUEUE/none", headers=in_browser(SHOP))
        assert (wrong.status_code, wrong.headers["access-control-allow-origin"]) == (400, SHOP)
        named = await client.post("/a", headers={**in_browser(SHOP), "Host": "broker.lan"})
        assert (named.status_code, named.headers["access-control-allow-origin"]) == (421, SHOP)
        asks = {**in_browser(EVIL), "Access-Control-Request-Method": "POST"}
        preflight = await client.options("/a", headers=asks)
        assert preflight.status_code == 403
        assert not [name for name in preflight.headers if name.startswith("access-control")]


@pytest.mark.settings("http.allowed_origins=['*']")
async def test_all_pages_may_where_the_setting_says_so(broker: RunningBroker) -> None:
    async with http_client(broker) as client:
        for says in (in_browser(EVIL), in_browser("null"), AS_A_LINK):
            assert (await client.post("/a", headers=says)).status_code == 200
        assert (await client.post("/a", headers={"Host": "evil.example"})).status_code == 421


@pytest.mark.settings("vpn.service_rest_mode=gateway")
async def test_a_page_of_elsewhere_asks_nothing_of_a_service(broker: RunningBroker) -> None:
    """docs/connect/http.md, gateway mode."""
    behind = await broker.connect()
    await behind.subscribe("GET/#", "OPTIONS/#")
    async with http_client(broker) as client:
        for says in (AS_AN_IMAGE, in_browser(EVIL), {"Host": "evil.example"}):
            assert (await client.get("/prices/eu", headers=says)).status_code in (403, 421)
            assert (await client.options("/prices/eu", headers=says)).status_code in (403, 421)
    await behind.is_quiet()


async def test_programs_that_say_no_origin_are_answered_as_ever(broker: RunningBroker) -> None:
    await create(broker, "q")
    url = http_url(broker)
    async with aiohttp.ClientSession() as session:
        async with session.post(f"{url}/QUEUE/q", data=b"by aiohttp") as answer:
            assert answer.status == 200
        async with session.get(f"{url.replace('127.0.0.1', 'localhost')}/QUEUE/q?wait_s=60") as answer:
            assert (answer.status, await answer.read()) == (200, b"by aiohttp")
    async with http_client(broker) as client:
        assert (await client.options("/a")).status_code == 204
    assert refused(broker, "http") == {}


async def test_a_message_is_no_page_of_the_port(broker: RunningBroker) -> None:
    """Somebody publishes a page, and somebody opens it: its scripts would be of the origin of the port."""
    await create(broker, "q")
    async with http_client(broker) as client:
        await client.post("/QUEUE/q", content="<script>", headers={"Content-Type": "text/html"})
        got = await client.get("/QUEUE/q?wait_s=60")
    assert got.headers["content-type"] == "text/html"
    assert got.headers["content-security-policy"] == "default-src 'none'; sandbox"
    assert got.headers["x-content-type-options"] == "nosniff"


# --- where somebody has to log in, and where not ---


@pytest.mark.accounts(anna="secret")
async def test_a_client_that_must_log_in_may_use_any_host_name(broker: RunningBroker) -> None:
    async with http_client(broker, auth=("anna", "secret")) as client:
        assert (await client.post("/a", headers={"Host": "broker.plant.example"})).status_code == 200
        assert (await client.post("/a", headers=in_browser(EVIL))).status_code == 403


@pytest.mark.settings(WITH_USERS, "vpns.sales.authentication.allow_anonymous=on-loopback")
async def test_a_message_vpn_that_lets_strangers_in_makes_a_port_an_open_one(broker: RunningBroker) -> None:
    """Every message VPN can be reached by every port."""
    async with http_client(broker) as client:
        says = {"Host": "evil.example", "Sluicegate-Message-VPN": "sales"}
        assert (await client.post("/a", headers=says)).status_code == 421
        assert (await client.post("/a", headers={"Host": "evil.example"})).status_code == 421


@pytest.mark.settings("listeners.http.host=localhost", "node.allowed_hosts=[broker.lan]")
async def test_names_of_the_node_are_configured(broker: RunningBroker) -> None:
    async with http_client(broker) as client:
        for host, status in (("broker.lan:9000", 200), ("Broker.LAN.", 200), ("localhost", 200), ("other.lan", 421)):
            assert (await client.post("/a", headers={"Host": host})).status_code == status


async def test_a_reload_changes_permissions(broker: RunningBroker) -> None:
    """docs/operate/configuration.md: for the next request, on connections that are open, too."""
    async with http_client(broker) as client:
        assert (await client.post("/a", headers=in_browser(SHOP))).status_code == 403
        assert (await client.post("/a", headers={"Host": "broker.lan"})).status_code == 421
        assert (await upgrade(broker, "mqtt", origin=SHOP))[0] == 403
        changed = (*broker.settings, *SHOP_IS_ALLOWED, "node.allowed_hosts=[broker.lan]")
        await broker.node.reload(load(None, settings=changed))
        assert (await client.post("/a", headers=in_browser(SHOP))).status_code == 200
        assert (await client.post("/a", headers={"Host": "broker.lan"})).status_code == 200
        assert (await upgrade(broker, "mqtt", origin=SHOP))[0] == 101
        assert broker.node.http.counters.connected == 1
        await broker.node.reload(load(None, settings=broker.settings))
        assert (await client.post("/a", headers=in_browser(SHOP))).status_code == 403


async def test_metrics_count_what_was_refused(broker: RunningBroker) -> None:
    async with http_client(broker) as client:
        await client.post("/a", headers=in_browser(EVIL))
        await client.post("/a", headers={"Host": "evil.example"})
    counted = {(each.name, each.labels): each.value for each in await NodeOperations(broker.node).metrics_snapshot()}
    for reason in (FOREIGN_ORIGIN, FOREIGN_HOST):
        assert counted["sluicegate_connections_refused_total", ("http", reason)] == 1


# --- TLS ---


def in_tls(certificates: Certificates) -> tuple[str, ...]:
    names = ("mqtt_websocket_tls", "amqp_websocket_tls", "http_tls")
    return tuple(line for name in names for line in certificates.in_tls(f"listeners.{name}"))


async def test_ports_in_tls_have_the_same_rule(tmp_path: Path) -> None:
    """And a page that came without TLS is of another origin than they are, though host and port are the same."""
    certificates = make_certificates(tmp_path)
    trusts = ssl.create_default_context(cafile=str(certificates.authority))
    careless = ssl.create_default_context(cafile=str(certificates.authority))
    careless.check_hostname = False  # else the browser itself would refuse the certificate of another name
    async with RunningBroker(tmp_path / "data", (*in_tls(certificates), *SHOP_IS_ALLOWED)) as broker:
        for protocol in ("mqtt", "amqp"):
            for host, origin, status in (
                ("localhost", "", 101),
                ("localhost", SHOP, 101),
                ("localhost", "https://localhost:{port}", 101),
                ("localhost", "http://localhost:{port}", 403),
                ("localhost", EVIL, 403),
                ("localhost", "null", 403),
                ("evil.example", "https://evil.example:{port}", 421),
            ):
                tls = careless if host == "evil.example" else trusts
                try:
                    async with opened(broker, protocol, host=host, origin=origin, tls=tls):
                        heard = 101
                except InvalidStatus as no:
                    heard = no.response.status_code
                assert heard == status, (protocol, host, origin)
        port = broker.node.http.listeners["http_tls"].port
        url = f"https://127.0.0.1:{port}"
        async with httpx.AsyncClient(base_url=url, verify=trusts, trust_env=False, timeout=DEADLINE_S) as client:
            for says, status in (
                ({}, 200),
                (in_browser(SHOP), 200),
                (in_browser(url, site="same-origin"), 200),
                (in_browser(f"http://127.0.0.1:{port}"), 403),
                (in_browser(EVIL), 403),
                (AS_AN_IMAGE, 403),
                ({"Host": "evil.example"}, 421),
            ):
                assert (await client.post("/a", headers=says)).status_code == status, says
