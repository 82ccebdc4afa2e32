"""The pages of the network: a picture of the brokers, and links that are made, edited, shut down and deleted."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from support.operations.console_page import PHONE, answer, browser_page, fill_in, go, row
from support.operations.console_traffic import client_of, publish
from support.processes.gateway import GatewayProcess

pytestmark = [pytest.mark.slow, pytest.mark.interop]

MAY_LINK: dict[str, object] = {
    "authentication.client_profiles.0.name": "default",
    "authentication.client_profiles.0.allow_bridge_connections_enabled": True,
}


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    """The broker `here`."""
    folder: Path = tmp_path_factory.mktemp("here")
    with GatewayProcess(folder, {"node.name": "here", **MAY_LINK}) as process:
        yield process


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    """The broker `there`, which waits for a link."""
    folder: Path = tmp_path_factory.mktemp("there")
    with GatewayProcess(folder, {"node.name": "there", "links.here.url": "", **MAY_LINK}) as process:
        yield process


def test_a_broker_without_links_says_that_it_is_alone(page: Page) -> None:
    """So this test is the first."""
    go(page, "network")
    expect(page.locator("#page")).to_contain_text("This broker is here, of the network default.")
    expect(page.locator("#page")).to_contain_text("this broker is alone")
    expect(page.locator(".network")).to_be_hidden()


def test_a_bridge_is_in_the_picture_beside_links(page: Page) -> None:
    go(page, "bridges")
    page.get_by_role("button", name="New bridge").click()
    answer(page, "Create", name="cloud", url="mqtt://127.0.0.1:1", topic="plant/#")
    go(page, "network")
    expect(page.locator(".network .broker")).to_have_count(2)
    expect(page.locator(".network .link.bridge.down")).to_have_count(1)
    page.locator(".network").get_by_role("link", name="cloud").click()
    page.get_by_role("button", name="Delete bridge").click()
    answer(page, "Delete")
    go(page, "network")
    expect(page.locator(".network")).to_be_hidden()


def test_a_link_is_made_seen_edited_shut_down_and_deleted(
    page: Page, running: GatewayProcess, other: GatewayProcess
) -> None:
    go(page, "network")
    page.get_by_role("button", name="New link").click()
    answer(page, "Create", name="there", url=f"flow://127.0.0.1:{other.ports['flow']}")

    expect(page.locator("h1")).to_have_text("there")
    expect(page.locator("#page")).to_contain_text("up, created by an operator")
    expect(row(page, "default", table="Message VPNs")).to_contain_text("linked")
    other.create_queue("far", subscriptions=["plant/>"])
    expect(row(page, "default", table="Message VPNs").locator("td").nth(4)).to_have_text("2")  # its topic and its name

    go(page, "network")
    expect(page.locator(".network .broker")).to_have_count(2)
    expect(page.locator(".network .broker.self")).to_contain_text("here")
    expect(page.locator(".network .broker.up")).to_contain_text("there")
    expect(page.locator(".network .figures")).to_contain_text("/s out")
    expect(row(page, "there", table="Links")).to_contain_text("up")

    page.locator(".network .broker.up").click()
    expect(page.locator("h1")).to_have_text("there")
    page.get_by_role("button", name="Edit").click()
    vpns = page.locator("dialog[open]").get_by_role("group", name="VPNs", exact=True)
    vpns.get_by_role("button", name="Remove").click()
    fill_in(page, "Change")
    expect(vpns).to_contain_text("allowed")
    vpns.get_by_role("button", name="Add VPN").click()
    page.keyboard.type("default")
    page.keyboard.press("Tab")
    page.keyboard.type("default")
    answer(page, "Change", dead_time_ms="4000")
    expect(page.locator("#page")).to_contain_text("up, created by an operator")

    page.get_by_role("button", name="Shut down").click()
    expect(page.locator("#page")).to_contain_text("shut down, created by an operator")
    go(page, "network")
    expect(page.locator(".network .broker.down")).to_contain_text("there")
    go(page, "network/there")
    page.get_by_role("button", name="Delete link").click()
    answer(page, "Delete")
    expect(page.locator("#page")).to_contain_text("this broker is alone")


def test_a_queue_of_another_broker_is_found_shown_browsed_and_not_changed(
    page: Page, running: GatewayProcess, other: GatewayProcess
) -> None:
    url = f"url=flow://127.0.0.1:{other.ports['flow']}"
    assert running.command("link", "create", "there", url).returncode == 0
    other.create_queue("orders", partition_count=2, access_type="non-exclusive")
    running.create_queue("own")
    publish(other, "orders", b"first")

    go(page, "queues")
    page.get_by_label("Filter queues").fill("o*")
    expect(row(page, "orders", table="Queues of other brokers")).to_contain_text("there")
    expect(row(page, "far", table="Queues of other brokers")).to_have_count(0)
    row(page, "orders", table="Queues of other brokers").click()

    expect(page.locator("h1")).to_have_text("orders")
    expect(page.locator("#page")).to_contain_text("at broker there, durable")
    expect(page.get_by_role("table", name="Partitions").locator("tbody tr")).to_have_count(2)
    for button in ("Edit", "Re-drive", "Replay", "Purge", "Delete queue"):
        expect(page.get_by_role("button", name=button)).to_be_disabled()
    expect(page.get_by_role("button", name="Edit")).to_have_attribute(
        "title", "the queue is at broker there: change it there"
    )
    expect(page.get_by_role("button", name="Replay")).to_have_attribute("title", "the queue keeps no settled messages")
    expect(page.get_by_role("heading", name="Durable cursors")).to_be_visible()
    expect(page.locator("#page")).to_contain_text("No durable cursors.")

    page.get_by_role("button", name="Messages").click()
    expect(page.locator("#page")).to_contain_text("at broker there")
    first = row(page, "first")
    first.click()
    expect(page.locator(".details pre")).to_have_text("first")
    first.locator("input").check()
    expect(page.get_by_role("button", name="Move")).to_be_disabled()
    page.get_by_role("link", name="orders").click()
    expect(page.locator("h1")).to_have_text("orders")

    go(page, "explain")
    asked = page.locator("form").nth(1)
    asked.locator("[name=queue]").fill("orders")
    asked.locator("[name=key]").fill("customer-7")
    asked.get_by_role("button", name="Explain").click()
    expect(page.locator(".answer dl")).to_contain_text("there")

    go(page, "queues/own")
    expect(page.get_by_role("button", name="Edit")).to_be_enabled()
    expect(page.get_by_role("heading", name="Durable cursors")).to_be_visible()
    assert running.command("link", "delete", "there").returncode == 0


def test_a_consumer_at_another_broker_leads_to_the_link_and_not_to_a_client_that_is_not_here(
    page: Page, running: GatewayProcess, other: GatewayProcess
) -> None:
    """docs/concepts/networks.md: it is shown as NAME@BROKER. A client here may have such a name of its own."""
    url = f"url=flow://127.0.0.1:{other.ports['flow']}"
    assert running.command("link", "create", "there", url).returncode == 0
    running.create_queue("shared", access_type="non-exclusive", partition_count=2)
    asked: list[str] = []
    with (
        client_of(running, "ada@there") as ada,
        ada.consumer("shared"),
        client_of(other, "worker") as worker,
        worker.consumer("shared"),
    ):
        go(page, "queues/shared")
        page.reload()  # so nothing of the overview is on its way, which does ask for the links
        page.on("request", lambda request: asked.append(request.url))
        for table in ("Flows", "Partitions"):
            expect(row(page, "worker@there", table=table).get_by_role("link")).to_have_attribute(
                "href", "#/network/there"
            )
            expect(row(page, "ada@there", table=table).get_by_role("link")).to_have_text("ada@there")
        with page.expect_response(lambda response: response.url.endswith("/queues/shared")):
            pass  # a refresh
        assert not [each for each in asked if each.endswith("/links")], "the queue itself says where its consumers are"
        row(page, "ada@there", table="Flows").get_by_role("link", name="ada@there").click()
        expect(page.locator("h1")).to_have_text("ada@there")
        expect(page.get_by_role("button", name="Disconnect")).to_be_enabled()
        page.go_back()
        row(page, "worker@there", table="Flows").get_by_role("link", name="there").click()
        expect(page.locator("h1")).to_have_text("there")
        expect(page.get_by_role("button", name="Delete link")).to_be_enabled()
    assert running.command("link", "delete", "there").returncode == 0


def test_the_picture_fits_on_a_phone(browser: Browser, running: GatewayProcess, other: GatewayProcess) -> None:
    with browser_page(browser, f"{other.admin_url}/console#/network", size=PHONE, scheme="dark") as page:
        expect(page.locator(".network .broker.down")).to_contain_text("here")
        assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
