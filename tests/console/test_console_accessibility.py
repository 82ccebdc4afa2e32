"""No page of the console has a serious fault of accessibility, in an empty or a loaded broker, light or dark."""

from collections.abc import Iterator
from typing import Final, Literal

import pytest
from playwright.sync_api import Browser, expect

from support.operations.axe import faults
from support.operations.console_page import WAIT_MS, browser_page, go
from support.operations.console_traffic import client_of, publish
from support.processes.gateway import GatewayProcess, gateway

pytestmark = [pytest.mark.slow, pytest.mark.interop]
Scheme = Literal["light", "dark"]
LOADED: Final = (
    *("queues/wide", "queues/wide/messages", "queues/dead"),
    *("message-vpns/default", "explain/key/wide/customer-7"),
)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    with gateway(tmp_path_factory.mktemp("console")) as process:
        yield process


def faults_of_pages(browser: Browser, running: GatewayProcess, scheme: Scheme, more: tuple[str, ...]) -> list[str]:
    """Return the serious faults of the pages that the menu leads to, and of others."""
    found: list[str] = []
    with browser_page(browser, f"{running.admin_url}/console", scheme=scheme) as page:
        expect(page.locator("#state")).to_have_text("live")
        links = page.locator("#pages a[data-path]:visible").all()
        for path in [*[link.get_attribute("data-path") or "" for link in links], *more]:
            go(page, path)
            expect(page.locator("#page h1")).to_be_visible(timeout=WAIT_MS)
            expect(page.locator("#state")).to_have_text("live")
            page.wait_for_load_state("networkidle")
            found += [f"{path or 'overview'}: {fault}" for fault in faults(page)]
    return found


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_page_of_an_empty_broker_has_a_serious_fault(
    browser: Browser, running: GatewayProcess, scheme: Scheme
) -> None:
    assert faults_of_pages(browser, running, scheme, ()) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_page_of_a_loaded_broker_has_a_serious_fault(
    browser: Browser, running: GatewayProcess, scheme: Scheme
) -> None:
    if scheme == "light":
        running.create_queue("dead")
        running.create_queue("wide", partition_count=3, access_type="non-exclusive", dead_msg_queue="dead")
        publish(running, "wide", b"1", b"2")
        publish(running, "dead", b"3")
    with client_of(running, "worker") as client, client.consumer("wide"):
        assert faults_of_pages(browser, running, scheme, LOADED) == []
