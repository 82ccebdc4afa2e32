"""The example of docs/connect/amqp.md in Chromium: AMQP over WebSocket from a web page, with rhea."""

import re
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Final

import pytest
from playwright.sync_api import Browser, expect

from support.operations.console_page import chromium
from support.processes.foreign_programs import ROOT, node_modules
from support.processes.gateway import GatewayProcess

EXAMPLE: Final = re.compile(r'^```html title="orders.html"\n(.*?)^```$', re.DOTALL | re.MULTILINE)
LIBRARY: Final = "rhea.min.js"
URL: Final = "ws://127.0.0.1:8010/amqp"  # of the example

pytestmark = pytest.mark.interop


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:  # its base names it so
        """Say nothing on standard error."""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as started:
        yield started


@pytest.fixture
def site(tmp_path: Path) -> Iterator[str]:
    """The origin of a web site with the example, which is written once the gateway runs, and the library."""
    folder = tmp_path / "site"
    folder.mkdir()
    (folder / LIBRARY).write_bytes((node_modules("rhea") / "rhea" / "dist" / LIBRARY).read_bytes())
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder)))
    thread = Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()
    thread.join()


def test_the_page_of_the_example_sends_and_receives(tmp_path: Path, browser: Browser, site: str) -> None:
    (example,) = EXAMPLE.findall((ROOT / "docs" / "connect" / "amqp.md").read_text())
    assert URL in example
    settings: dict[str, object] = {"listeners.amqp_websocket.enabled": True, "amqp.allowed_origins": [site]}
    with GatewayProcess(tmp_path / "node", settings) as node:
        node.create_queue("orders")
        page_text = example.replace(URL, f"ws://127.0.0.1:{node.ports['amqp_websocket']}/amqp")
        (tmp_path / "site" / "index.html").write_text(page_text)
        page = browser.new_page()
        page.goto(f"{site}/index.html")
        expect(page.locator("li")).to_have_text(["hello"])
        expect(page.locator("#state")).to_have_text("accepted")
        page.close()
