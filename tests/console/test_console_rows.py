"""Lists of objects in the console's forms, such as the rules of a bridge: a row of fields for each."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from sluicegate.testing.ports import free_port
from support.http.plain import HTTP
from support.operations.axe import faults
from support.operations.console_page import PHONE, browser_page, fill_in, go
from support.processes.gateway import GatewayProcess, gateway

pytestmark = [pytest.mark.slow, pytest.mark.interop]

Own = Callable[[str], str]
MANY = 60  # rows


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    folder: Path = tmp_path_factory.mktemp("rows")
    with gateway(folder, node__name="here") as process:
        yield process


def edit_bridge(page: Page, running: GatewayProcess, name: str, *outgoing: dict[str, object]) -> Locator:
    """Create a bridge with rules, and open the form that edits it. Return the group of its outgoing rules."""
    url = f"mqtt://127.0.0.1:{free_port()}"
    body = {"name": name, "remote_url": url, "enabled": False, "outgoing": outgoing}
    created = HTTP.post(f"{running.admin_url}/bridges", json=body)
    assert created.status_code == 201, created.text
    go(page, f"bridges/{name}")
    page.get_by_role("button", name="Edit").click()
    return page.get_by_role("group", name="outgoing", exact=True)


def rules(running: GatewayProcess, name: str, *keys: str) -> list[dict[str, Any]]:
    """Return the outgoing rules of a bridge, with the keys that are asked for."""
    found = HTTP.get(f"{running.admin_url}/bridges/{name}").json()["definition"]["outgoing"]
    return [{key: each[key] for key in keys} for each in found]


def test_rows_are_added_moved_and_removed_with_the_keyboard(page: Page, running: GatewayProcess, own: Own) -> None:
    name = own("ordered")
    rows = edit_bridge(page, running, name, {"topic": "one", "qos": 1}, {"topic": "two", "strip_prefix": "t"})
    rows.get_by_role("button", name="Move outgoing rule 2 up").focus()
    page.keyboard.press("Enter")
    expect(rows.get_by_role("button", name="Move outgoing rule 1 down")).to_be_focused()
    rows.get_by_role("button", name="Remove outgoing rule 2").focus()
    page.keyboard.press("Enter")
    expect(rows.get_by_role("button", name="Remove outgoing rule 1")).to_be_focused()
    rows.get_by_role("button", name="Add outgoing rule").focus()
    page.keyboard.press("Enter")
    added = rows.get_by_role("group", name="outgoing rule 2")
    expect(added.get_by_label("name")).to_be_focused()
    page.keyboard.type("third")
    page.locator("[name='outgoing.1.queue']").fill("orders")
    added.get_by_label("QoS").select_option("2")
    added.get_by_label("topic syntax").select_option("dotted")
    fill_in(page, "Change")
    expect(page.locator("dialog")).to_have_count(0)
    assert rules(running, name, "name", "topic", "queue", "strip_prefix", "topic_syntax", "qos") == [
        {"name": "", "topic": "two", "queue": "", "strip_prefix": "t", "topic_syntax": "slashes", "qos": None},
        {"name": "third", "topic": "", "queue": "orders", "strip_prefix": "", "topic_syntax": "dotted", "qos": 2},
    ]


def test_rows_that_are_not_touched_stay_as_they_are(page: Page, running: GatewayProcess, own: Own) -> None:
    """Spaces at the ends of a topic, too; and an empty field gives the default back."""
    name = own("untouched")
    rows = edit_bridge(page, running, name, {"topic": " plant/1 ", "name": "named", "qos": 0})
    fill_in(page, "Change", retry_delay_s="9")
    expect(page.locator("dialog")).to_have_count(0)
    assert rules(running, name, "topic", "name", "qos") == [{"topic": " plant/1 ", "name": "named", "qos": 0}]

    page.get_by_role("button", name="Edit").click()
    rows.get_by_label("QoS").select_option("")
    rows.get_by_label("name").fill("")
    fill_in(page, "Change")
    expect(page.locator("dialog")).to_have_count(0)
    assert rules(running, name, "topic", "name", "qos") == [{"topic": " plant/1 ", "name": "", "qos": None}]


def test_an_error_is_shown_at_the_row_or_the_field_that_is_wrong(page: Page, running: GatewayProcess, own: Own) -> None:
    name = own("wrong")
    rows = edit_bridge(page, running, name, {"topic": "plant/#"})
    rows.get_by_role("button", name="Add outgoing rule").click()
    fill_in(page, "Change")
    second = rows.get_by_role("group", name="outgoing rule 2")
    wrong = second.get_by_text("an outgoing rule has either queue or topic", exact=True)
    expect(wrong).to_be_visible()
    expect(second.get_by_label("name")).to_be_focused()

    page.locator("[name='outgoing.1.topic']").fill("a" * 1025)
    fill_in(page, "Change", window_bytes="1")
    expect(wrong).to_be_hidden()
    window = page.locator("[name=window_bytes]")
    expect(window).to_be_focused()
    expect(window).to_have_attribute("aria-invalid", "true")
    window.fill("16777216")
    fill_in(page, "Change")
    topic = page.locator("[name='outgoing.1.topic']")
    expect(topic).to_be_focused()
    expect(topic.locator("xpath=ancestor::label")).to_contain_text("1024 characters")
    expect(window).not_to_have_attribute("aria-invalid", "true")
    topic.fill("a")
    fill_in(page, "Change")
    expect(page.locator("dialog")).to_have_count(0)
    assert rules(running, name, "topic") == [{"topic": "plant/#"}, {"topic": "a"}]


def test_many_rows_keep_their_numbers_their_errors_and_the_order_of_the_keyboard(
    page: Page, running: GatewayProcess, own: Own
) -> None:
    name = own("many")
    rows = edit_bridge(page, running, name, *[{"topic": f"t/{number}", "qos": 1} for number in range(1, MANY + 1)])
    expect(rows.get_by_role("group")).to_have_count(MANY)
    for _ in range(2):
        rows.get_by_role("button", name="Remove outgoing rule 20", exact=True).press("Enter")
        expect(rows.get_by_role("button", name="Remove outgoing rule 20", exact=True)).to_be_focused()
    expect(page.locator("[name='outgoing.19.topic']")).to_have_value("t/22")
    rows.get_by_role("button", name="Add outgoing rule").press("Enter")
    last = rows.get_by_role("group", name=f"outgoing rule {MANY - 1}", exact=True)
    expect(last.get_by_label("name")).to_be_focused()
    expect(last).to_be_in_viewport()
    for label in (f"Remove outgoing rule {MANY - 1}", f"Move outgoing rule {MANY - 1} up"):
        page.keyboard.press("Shift+Tab")
        expect(rows.get_by_role("button", name=label)).to_be_focused()

    page.locator("[name='outgoing.30.topic']").fill("")
    fill_in(page, "Change")
    wrong = rows.get_by_role("group", name="outgoing rule 31", exact=True)
    expect(wrong.get_by_text("either queue or topic")).to_be_in_viewport()
    expect(wrong.get_by_label("name")).to_be_focused()
    expect(rows.get_by_text("either queue or topic").locator("visible=true")).to_have_count(1)
    rows.get_by_role("button", name="Remove outgoing rule 5", exact=True).click()
    expect(rows.get_by_role("group", name="outgoing rule 30", exact=True)).to_contain_text("either queue or topic")
    page.locator("[name='outgoing.29.topic']").fill("mended")
    page.locator(f"[name='outgoing.{MANY - 3}.topic']").fill("last")
    fill_in(page, "Change")
    expect(page.locator("dialog")).to_have_count(0)
    topics = [f"t/{number}" for number in range(1, MANY + 1) if number not in (5, 20, 21)]
    topics[topics.index("t/33")] = "mended"
    assert rules(running, name, "topic") == [{"topic": each} for each in [*topics, "last"]]


def test_a_row_with_many_fields_folds_what_is_not_set(page: Page, running: GatewayProcess, own: Own) -> None:
    """An error there unfolds it."""
    name, path = own("pushes"), f"{running.admin_url}/rest-delivery-points"
    binding = {"queue": "orders", "post_request_target": "/", "request_headers": {"X-Site": "here", "X-Old": "1"}}
    consumer = {"name": "web", "remote_host": "127.0.0.1", "http_method": "put"}
    body = {"name": name, "enabled": False, "queue_bindings": [binding], "rest_consumers": [consumer]}
    assert HTTP.post(path, json=body).status_code == 201
    go(page, f"rest-delivery-points/{name}")
    page.get_by_role("button", name="Edit").click()
    web = page.get_by_role("group", name="REST consumer 1")
    expect(web.locator("label:visible input, label:visible select")).to_have_count(3)
    web.get_by_text("15 more settings").click()
    web.get_by_label("retry delay").fill("1000")
    web.get_by_text("15 more settings").click()
    headers = page.get_by_role("group", name="request headers")
    headers.get_by_role("button", name="Remove request header 2").click()
    headers.get_by_label("value").fill("there")
    fill_in(page, "Change")
    expect(web.get_by_label("retry delay")).to_be_focused()
    web.get_by_label("retry delay").fill("10")
    fill_in(page, "Change")
    expect(page.locator("dialog")).to_have_count(0)
    made = HTTP.get(f"{path}/{name}").json()["definition"]
    assert made["queue_bindings"][0]["request_headers"] == {"X-Site": "there"}
    assert (made["rest_consumers"][0]["retry_delay_s"], made["rest_consumers"][0]["http_method"]) == (10, "put")


def test_a_form_with_rows_fits_a_phone(browser: Browser, running: GatewayProcess, own: Own) -> None:
    with browser_page(browser, f"{running.admin_url}/console", size=PHONE) as page:
        rows = edit_bridge(page, running, own("small"), {"topic": "plant/#"})
        rows.get_by_role("button", name="Add outgoing rule").click()
        expect(rows.get_by_role("group", name="outgoing rule 2").get_by_label("name")).to_be_in_viewport(ratio=1)
        dialog = page.locator("dialog[open]")
        assert dialog.evaluate("dialog => dialog.scrollWidth <= dialog.clientWidth")
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_form_with_rows_has_no_serious_fault_of_accessibility(
    browser: Browser, running: GatewayProcess, own: Own, scheme: Literal["light", "dark"]
) -> None:
    with browser_page(browser, f"{running.admin_url}/console", scheme=scheme) as page:
        rows = edit_bridge(page, running, own("axe"), {"topic": "plant/#"}, {"queue": "orders"})
        rows.get_by_role("button", name="Add outgoing rule").click()
        fill_in(page, "Change")
        expect(rows.get_by_text("either queue or topic")).to_be_visible()
        assert faults(page) == []
