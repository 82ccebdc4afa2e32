"""The console on a screen 360 pixels wide: a menu leads to the pages, and no page is wider than the screen."""

from collections.abc import Iterator
from typing import Final

import pytest
from playwright.sync_api import Browser, Page, expect

from support.http.plain import HTTP
from support.operations.console_page import PHONE, WAIT_MS, browser_page, go
from support.operations.console_traffic import client_of, publish_as_operator
from support.processes.gateway import GatewayProcess, gateway

pytestmark = [pytest.mark.slow, pytest.mark.interop]
LONG: Final = "a-name-without-a-place-to-break-it-" * 4
DETAILS: Final = (
    *("queues/wide-queue", "queues/wide-queue/messages", f"queues/{LONG}", "templates", "clients/worker-of-the-plant"),
    *("retained-messages/plant%2Fstate", "message-vpns/default", f"explain/key/wide-queue/{LONG}", "nowhere"),
)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    """Run a gateway with long names, and messages that have long values."""
    with gateway(tmp_path_factory.mktemp("console"), node__name="here") as process:
        process.create_queue("wide-queue", subscriptions=["wide"], partition_count=3, access_type="non-exclusive")
        process.create_queue(LONG)
        properties = {"properties": {LONG: LONG}, "correlation_id": LONG, "content_type": LONG}
        publish_as_operator(process, queue="wide-queue", payload=LONG, key=LONG, **properties)
        publish_as_operator(process, topic="plant/state", retain=True, payload=LONG, **properties)
        yield process


@pytest.fixture
def phone(browser: Browser, running: GatewayProcess) -> Iterator[Page]:
    with browser_page(browser, f"{running.admin_url}/console", size=PHONE, scheme="dark") as page:
        expect(page.locator("#state")).to_have_text("live")
        yield page


def test_a_button_opens_the_list_of_pages(phone: Page) -> None:
    menu, pages = phone.get_by_role("button", name="Pages"), phone.get_by_role("navigation", name="Pages")
    expect(pages).to_be_hidden()
    expect(menu).to_have_attribute("aria-expanded", "false")
    menu.click()
    expect(menu).to_have_attribute("aria-expanded", "true")
    for link in pages.locator("a:visible").all():
        expect(link).to_be_in_viewport()
    pages.get_by_role("link", name="Queues").click()
    expect(phone.locator("h1")).to_have_text("Queues")
    expect(pages).to_be_hidden()
    expect(phone.locator("#page")).to_be_focused()


def test_the_list_of_pages_works_with_the_keyboard(phone: Page) -> None:
    menu, pages = phone.get_by_role("button", name="Pages"), phone.get_by_role("navigation", name="Pages")
    menu.focus()
    phone.keyboard.press("Enter")
    expect(pages.get_by_role("link", name="Overview")).to_be_focused()
    phone.keyboard.press("Escape")
    expect(pages).to_be_hidden()
    expect(menu).to_be_focused()
    phone.keyboard.press("Enter")
    phone.keyboard.press("Tab")
    phone.keyboard.press("Enter")
    expect(phone.locator("h1")).to_have_text("Queues")


def test_the_list_closes_when_something_else_is_touched(phone: Page) -> None:
    pages = phone.get_by_role("navigation", name="Pages")
    phone.get_by_role("button", name="Pages").click()
    expect(pages).to_be_visible()
    phone.locator("#state").click()
    expect(pages).to_be_hidden()


@pytest.mark.parametrize("width", [PHONE[0], 768])
def test_the_figures_that_matter_most_are_in_sight_without_scrolling(phone: Page, width: int) -> None:
    phone.set_viewport_size({"width": width, "height": PHONE[1]})
    go(phone, "queues")
    expect(phone.get_by_role("columnheader", name="Unacked")).to_be_in_viewport(ratio=1)
    go(phone, "clients")
    expect(phone.get_by_role("columnheader", name="Unacked")).to_be_in_viewport(ratio=1)


def test_no_page_is_wider_than_the_screen(phone: Page, running: GatewayProcess) -> None:
    links = phone.locator("#pages a[data-path]").all()
    paths = [link.get_attribute("data-path") or "" for link in links if link.get_attribute("hidden") is None]
    assert len(paths) > 10
    with client_of(running, "worker-of-the-plant") as client, client.consumer(LONG):
        for path in [*paths, *DETAILS]:
            go(phone, path)
            expect(phone.locator("#page h1")).to_be_visible(timeout=WAIT_MS)
            expect(phone.locator("#state")).to_have_text("live")
            phone.wait_for_load_state("networkidle")
            assert phone.evaluate("document.documentElement.scrollWidth") <= PHONE[0], path
            ground = phone.evaluate("getComputedStyle(document.body).backgroundColor")
            assert ground == "rgb(16, 23, 27)", "dark, by the system's choice"


def test_rows_of_a_detail_page_are_lists_of_all_their_columns(phone: Page, running: GatewayProcess) -> None:
    """So nothing of a bridge's rules has to be scrolled for, and screen readers still find a table."""
    rules = [{"topic": "plant/#", "name": f"topics-{LONG}", "remote_topic": "from/here"}, {"queue": LONG}]
    body = {"name": "cloud", "remote_url": "mqtt://127.0.0.1:1", "outgoing": rules}
    made = HTTP.post(f"{running.admin_url}/bridges", json=body)
    assert made.is_success, made.text
    go(phone, "bridges/cloud")
    table = phone.get_by_role("table", name="Rules")
    for row in table.get_by_role("row").filter(has_text="outgoing").all():
        for title in ("Rule", "Direction", "From", "To", "State", "Confirmed", "Unconfirmed", "Dropped"):
            cell = row.locator(f"td[data-title={title}]")
            cell.scroll_into_view_if_needed()
            expect(cell).to_be_in_viewport(ratio=1)
    expect(table.get_by_role("columnheader", name="Confirmed", exact=True)).to_be_attached()
    assert table.evaluate("table => table.parentElement.scrollWidth <= table.parentElement.clientWidth")
