"""Pages of other origins in a browser, beside a broker on the same machine: what Chromium itself says of them.

One web server has all pages. They differ by what it is called: its origin as `localhost` may use the broker, as an
address it is of the broker's own site, and below `localhost` it is somebody else's.
"""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final

import pytest
from playwright.sync_api import Browser, Page

from support.http.plain import HTTP
from support.operations.console_page import browser_page
from support.processes.gateway import GatewayProcess

pytestmark = [pytest.mark.slow, pytest.mark.interop]

MY_ORIGIN: Final = "localhost"
SAME_SITE: Final = "127.0.0.1"  # as the broker, and another port
ELSEWHERE: Final = "shop.localhost"  # browsers take such names to this machine, as those of a hostile DNS server

# Each returns what the page hears. `no-cors` is what may be sent without asking first.
SENDS: Final = """async ({url, options}) => {
    try { const answer = await fetch(url, options); return `${answer.type} ${answer.status}`; }
    catch { return "failed"; }
}"""
SHOWS: Final = """({url, kind}) => new Promise((heard) => {
    const element = document.createElement(kind);
    element.onload = () => heard("loaded");
    element.onerror = () => heard("failed");
    element.src = url;
    document.body.append(element);
})"""
LISTENS: Final = """(url) => new Promise((heard) => {
    const events = new EventSource(url);
    events.addEventListener("message", (event) => { events.close(); heard(JSON.parse(event.data).payload); });
    events.onerror = () => { events.close(); heard("failed"); };
})"""
CONNECTS: Final = """({url, protocol}) => new Promise((heard) => {
    const socket = new WebSocket(url, protocol);
    socket.onopen = () => { socket.close(); heard("open"); };
    socket.onerror = () => heard("failed");
})"""
SUBMITS: Final = """(url) => new Promise((heard) => {
    const frame = document.createElement("iframe");
    frame.name = "answer";
    const form = document.createElement("form");
    Object.assign(form, {method: "post", action: url, target: "answer", enctype: "text/plain"});
    form.innerHTML = '<input name="evil" value="1">';
    document.body.append(frame, form);
    frame.onload = () => heard("answered");
    form.submit();
})"""
SENDS_FROM_A_SANDBOX: Final = """(url) => new Promise((heard) => {
    addEventListener("message", (event) => heard(event.data));
    const frame = document.createElement("iframe");
    frame.sandbox = "allow-scripts";
    frame.srcdoc = `<script>fetch("${url}", {method: "POST", mode: "no-cors", body: "evil"})
        .then((answer) => parent.postMessage(answer.type, "*"), () => parent.postMessage("failed", "*"))</script>`;
    document.body.append(frame);
})"""


class Pages(BaseHTTPRequestHandler):
    """Answers every request with an empty page."""

    def do_GET(self) -> None:
        body = b"<!doctype html><title>a page</title><body></body>"
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@pytest.fixture(scope="module")
def pages_port() -> Iterator[int]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Pages)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server.server_address[1]
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory, pages_port: int) -> Iterator[GatewayProcess]:
    mine = f"[http://{MY_ORIGIN}:{pages_port}]"
    settings: dict[str, object] = {f"{protocol}.allowed_origins": mine for protocol in ("mqtt", "amqp", "http")}
    with GatewayProcess(
        tmp_path_factory.mktemp("pages"), {**settings, "listeners.amqp_websocket.enabled": True}
    ) as node:
        yield node


@pytest.fixture
def queue(running: GatewayProcess, request: pytest.FixtureRequest) -> str:
    """The URL of a queue that holds one message."""
    name = "".join(each if each.isalnum() else "-" for each in request.node.name)
    running.create_queue(name)
    url = f"{running.http_url}/QUEUE/{name}"
    assert HTTP.post(url, content="kept").status_code == 200
    return url


def ready_count(running: GatewayProcess, queue: str) -> object:
    return running.queue(queue.rpartition("/")[2])["ready_count"]


def refused_count(running: GatewayProcess, reason: str = "foreign_origin") -> float:
    return running.metric("sluicegate_connections_refused_total", reason=reason)


def websockets(running: GatewayProcess, host: str = "127.0.0.1") -> dict[str, str]:
    """Return the URLs of the WebSocket ports by their subprotocols."""
    return {name: f"ws://{host}:{running.ports[f'{name}_websocket']}/{name}" for name in ("mqtt", "amqp")}


@pytest.mark.parametrize("called", [SAME_SITE, ELSEWHERE])
def test_a_page_of_elsewhere_reaches_nothing(
    browser: Browser, running: GatewayProcess, pages_port: int, queue: str, called: str
) -> None:
    before = refused_count(running)
    with browser_page(browser, f"http://{called}:{pages_port}/") as page:
        post = {"method": "POST", "mode": "no-cors", "body": "evil"}
        assert page.evaluate(SENDS, {"url": queue, "options": post}) == "opaque 0"  # sent, and its answer is hidden
        assert page.evaluate(SENDS, {"url": queue, "options": {"mode": "no-cors"}}) == "opaque 0"
        assert page.evaluate(SENDS, {"url": queue, "options": {"method": "POST", "body": "evil"}}) == "failed"
        asks_first = {"method": "POST", "body": "evil", "headers": {"Solace-Priority": "1"}}
        assert page.evaluate(SENDS, {"url": queue, "options": asks_first}) == "failed"
        assert page.evaluate(SHOWS, {"url": queue, "kind": "img"}) == "failed"
        assert page.evaluate(SHOWS, {"url": queue, "kind": "script"}) == "failed"
        assert page.evaluate(LISTENS, queue) == "failed"
        assert page.evaluate(SUBMITS, queue) == "answered"
        assert page.evaluate(SENDS_FROM_A_SANDBOX, queue) == "opaque"
        for protocol, url in websockets(running).items():
            assert page.evaluate(CONNECTS, {"url": url, "protocol": protocol}) == "failed"
    assert ready_count(running, queue) == 1
    assert running.metric("sluicegate_http_flows") == 0
    assert refused_count(running) == before + 11


def test_a_link_to_a_queue_takes_no_message(
    browser: Browser, running: GatewayProcess, pages_port: int, queue: str
) -> None:
    with browser_page(browser, f"http://{ELSEWHERE}:{pages_port}/") as page:
        page.evaluate("url => { location.href = url }", queue)
        page.wait_for_url(queue)
        assert "may not use this port" in page.content()
    assert ready_count(running, queue) == 1


def test_a_page_whose_name_leads_to_the_broker_reaches_nothing(
    browser: Browser, running: GatewayProcess, queue: str
) -> None:
    """DNS rebinding: it is of the origin of the port, and could read whatever it was answered."""
    before = refused_count(running, "foreign_host")
    rebound = queue.replace("127.0.0.1", ELSEWHERE)
    with browser_page(browser, rebound) as page:
        assert "node.allowed_hosts" in page.content()
        assert page.evaluate(SENDS, {"url": rebound, "options": {}}) == "basic 421"
        assert page.evaluate(SENDS, {"url": rebound, "options": {"method": "POST", "body": "evil"}}) == "basic 421"
        for protocol, url in websockets(running, ELSEWHERE).items():
            assert page.evaluate(CONNECTS, {"url": url, "protocol": protocol}) == "failed"
    assert ready_count(running, queue) == 1
    assert refused_count(running, "foreign_host") >= before + 5  # a browser asks for an icon as well


def test_an_allowed_page_publishes_consumes_and_connects(
    browser: Browser, running: GatewayProcess, pages_port: int, queue: str
) -> None:
    """docs/connect/http.md: a browser asks first for what has headers of ours."""
    with browser_page(browser, f"http://{MY_ORIGIN}:{pages_port}/") as page:
        keyed = {"method": "POST", "body": "hello", "headers": {"Sluicegate-Partition-Key": "k"}}
        assert page.evaluate(SENDS, {"url": queue, "options": keyed}) == "cors 200"
        assert settles(page, queue) == ["kept", 204, 204]
        assert page.evaluate(LISTENS, queue) == "hello"
        for protocol, url in websockets(running).items():
            assert page.evaluate(CONNECTS, {"url": url, "protocol": protocol}) == "open"


def settles(page: Page, queue: str) -> list[object]:
    """Return what a page reads from a new flow, and the answers to its settling that and ending the flow."""
    settled: list[object] = page.evaluate(
        """async (queue) => {
            const at = (name) => new URL(got.headers.get(name), queue);
            const got = await fetch(`${queue}?wait_s=60`);
            const settled = await fetch(at("sluicegate-settle"), {method: "POST"});
            const ended = await fetch(at("sluicegate-flow"), {method: "DELETE"});
            return [await got.text(), settled.status, ended.status];
        }""",
        queue,
    )
    return settled
