"""The console on a gateway with accounts: login, and what it shows to read-only operators."""

import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Final

import pytest
from playwright.sync_api import Browser, HttpCredentials, Page, expect

from support.http.plain import HTTP
from support.operations.console_page import WAIT_MS, browser_page, go
from support.processes.gateway import GatewayProcess

pytestmark = [pytest.mark.slow, pytest.mark.interop]

LEVELS = {
    "reader": "global_access_level: read-only",
    "writer": "global_access_level: read-write",
    "tenant": "msg_vpn_access_level: read-write",
}


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    folder = tmp_path_factory.mktemp("accounts")
    file = folder / "sluicegate.yaml"
    users = []
    for name, level in LEVELS.items():
        (folder / name).write_text(f"{name}-word\n")
        users.append(f"{{name: {name}, password_file: {folder / name}, {level}}}")
    file.write_text(f"queues: {{declared: [{{name: orders}}]}}\nadmin: {{users: [{', '.join(users)}]}}\n")
    with GatewayProcess(folder, config_file=file) as process:
        yield process


def opened(browser: Browser, running: GatewayProcess, name: str, path: str) -> AbstractContextManager[Page]:
    """Open a page of the console under an account."""
    account: HttpCredentials = {"username": name, "password": f"{name}-word"}
    return browser_page(browser, f"{running.admin_url}/console/#/{path}", account=account)


def test_who_may_only_look_sees_so_and_changes_nothing(browser: Browser, running: GatewayProcess) -> None:
    with opened(browser, running, "reader", "queues/orders") as page:
        expect(page.locator("#account")).to_have_text("reader, read-only")
        expect(page.get_by_role("button", name="Messages")).to_be_enabled()
        for deed in ("Edit", "Re-drive", "Replay", "Purge", "Delete queue"):
            expect(page.get_by_role("button", name=deed)).to_be_disabled()

        page.keyboard.press("P")
        expect(page.locator(".notice.wrong")).to_contain_text("access level read-write; reader has read-only")
        go(page, "spool")
        expect(page.get_by_role("button", name="New backup")).to_be_disabled()
        go(page, "actors")
        expect(page.get_by_role("table", name="Actors")).to_contain_text("spool")


PAGES_TO_LOOK_AT: Final = (
    *("queues", "queues/orders", "queues/orders/messages", "templates", "clients", "events", "publish"),
    *("subscriptions", "retained-messages", "mqtt-sessions", "listeners", "bridges", "rest-delivery-points"),
    *("network", "definitions", "users", "profiles", "message-vpns", "message-vpns/default", "explain", "spool"),
)
TO_CHANGE: Final = re.compile(
    "Apply|Bring|Cancel|Change|Copy|Create|Delete|Disconnect|Edit|End|Follow|Move|New|Pause|Publish|Purge|Re|Shut|Watch"
)


def test_no_button_offers_a_reader_what_would_be_refused(browser: Browser, running: GatewayProcess) -> None:
    with opened(browser, running, "reader", "") as page:
        for path in PAGES_TO_LOOK_AT:
            page.locator("h1").evaluate("title => title.classList.add('before')")
            go(page, path)
            expect(page.locator("h1.before")).to_have_count(0)
            expect(page.locator("#contents")).to_be_enabled()
            expect(page.locator("#state")).to_have_text("live")
            live = page.locator("#page :is(.bar-of-tools, td) button:enabled:visible").all_inner_texts()
            assert [text for text in live if TO_CHANGE.match(text)] == [], path


def test_who_may_change_queues_makes_one(browser: Browser, running: GatewayProcess, own: Callable[[str], str]) -> None:
    name = own("made-by-writer")
    with opened(browser, running, "writer", "queues") as page:
        page.get_by_role("button", name="New queue").click()
        page.locator("dialog[open] [name=name]").fill(name)
        page.locator("dialog[open]").get_by_role("button", name="Create").click()
        expect(page.locator("h1")).to_have_text(name)
        go(page, "spool")
        expect(page.locator("#page")).to_contain_text("No backup since")  # keys act from the first answer on
        expect(page.get_by_role("button", name="New backup")).to_be_disabled()  # it takes the level admin
        page.keyboard.press("b")
        expect(page.locator(".notice.wrong")).to_contain_text("access level admin; writer has read-write")
        expect(page.locator("dialog[open]")).to_have_count(0)


def test_who_has_a_message_vpn_only_sees_its_queues(browser: Browser, running: GatewayProcess) -> None:
    with opened(browser, running, "tenant", "") as page:
        expect(page.get_by_role("table", name="Busiest queues")).to_contain_text("orders")
        expect(page.locator("#account")).to_have_text("tenant, read-write")
        expect(page.locator("#state")).to_have_text("live")
        expect(page.get_by_role("link", name="Queues")).to_be_visible()
        expect(page.get_by_role("link", name="Actors")).to_be_hidden()
        expect(page.get_by_role("table", name="Protocols")).to_have_count(0)


def test_a_browser_is_asked_for_an_account_before_it_gets_a_page(running: GatewayProcess) -> None:
    answer = HTTP.get(f"{running.admin_url}/console/", timeout=WAIT_MS / 1000)
    assert answer.status_code == 401
    assert "Basic" in answer.headers["WWW-Authenticate"]
