"""The sites of a broker on the page of its replicas: a standby site is promoted, an active one demoted."""

from collections.abc import Iterator
from dataclasses import replace

import pytest
from playwright.sync_api import Browser, Page, expect

from support.operations.console_page import answer, browser_page, go
from support.operations.memory_node import MemoryNode
from support.operations.replica_views import LONDON, ORDERS
from support.operations.running_admin import running_admin

pytestmark = [pytest.mark.slow, pytest.mark.interop]


@pytest.fixture
def node() -> MemoryNode:
    return MemoryNode(cluster=ORDERS, replication=LONDON)


@pytest.fixture
def page(browser: Browser, node: MemoryNode) -> Iterator[Page]:
    with running_admin(node) as admin, browser_page(browser, f"{admin.url}/console") as opened:
        go(opened, "replicas")
        yield opened


def test_what_the_standby_site_lacks_is_shown_and_its_loss_accepted(page: Page, node: MemoryNode) -> None:
    sites = page.locator("section").filter(has_text="Sites")
    expect(page.locator("#page")).to_contain_text("replica b owns it")
    expect(sites).to_contain_text("This is site london, which is standby, with epoch 3; site paris is active")
    expect(sites).to_contain_text("lacks 12 messages, about 2.0 KiB, the oldest from 1 s ago")
    expect(sites).to_contain_text("/data/surplus-london-epoch-2.jsonl")
    expect(page.get_by_role("button", name="Demote this site")).to_be_hidden()
    page.get_by_role("button", name="Promote this site").click()
    expect(page.locator("dialog[open]")).to_contain_text("is lost for clients")
    answer(page, "Promote, and accept the loss")
    expect(sites).to_contain_text("which is active")
    assert node.replication is not None
    assert node.replication.role == "active"


def test_a_site_that_has_the_whole_log_is_promoted_without_a_loss(page: Page, node: MemoryNode) -> None:
    node.replication = replace(LONDON, lag_messages=0, lag_bytes=0, lag_seconds=0.0, ends_with_handover=True)
    expect(page.locator("#page")).to_contain_text("The standby site has the whole log")
    page.get_by_role("button", name="Promote this site").click()
    expect(page.locator("dialog[open]")).to_contain_text("nothing is lost")
    answer(page, "Promote")
    expect(page.get_by_role("button", name="Promote this site")).to_be_hidden()
    page.get_by_role("button", name="Demote this site").click()
    answer(page, "Demote")
    expect(page.locator("#page")).to_contain_text("which is demoting")


def test_the_problem_of_a_site_is_told(page: Page, node: MemoryNode) -> None:
    node.replication = replace(
        LONDON, mate_role="", lag_messages=None, lag_bytes=None, lag_seconds=None, problem="no server answers"
    )
    expect(page.locator("#page")).to_contain_text(
        "site paris does not answer. How far the standby site is, is not known"
    )
    expect(page.locator("#page")).to_contain_text("no server answers")


def test_a_replica_that_is_away_says_nothing_and_nobody_can_take_over_for_it(page: Page, node: MemoryNode) -> None:
    hand_over = page.get_by_role("button", name="Hand over")
    expect(page.locator("tr[data-key=a]")).to_contain_text("2.0 KiB")
    expect(hand_over).to_be_enabled()
    away = replace(ORDERS.replicas[2], name="a")
    node.cluster = replace(ORDERS, replicas=(away, *ORDERS.replicas[1:]))
    expect(page.locator("tr[data-key=a] td").nth(3)).to_have_text("\N{EN DASH}")
    expect(hand_over).to_be_disabled()
    expect(hand_over).to_have_attribute("title", "no standby could take over now")


def test_a_broker_that_nobody_owns_is_wrong_unless_the_other_site_serves_it(page: Page, node: MemoryNode) -> None:
    lost = page.get_by_role("alert")
    node.cluster = replace(ORDERS, owner="")
    expect(page.locator("#page")).to_contain_text("site paris serves it")
    expect(lost).to_be_hidden()
    node.replication = replace(LONDON, mate_role="standby")
    expect(lost).to_contain_text("No replica is known to own the broker")
    expect(page.get_by_role("button", name="Hand over")).to_be_disabled()


def test_a_broker_with_one_site_has_no_such_section(page: Page, node: MemoryNode) -> None:
    node.replication = None
    page.reload()
    expect(page.locator("tr[data-key=b]")).to_contain_text("owner")
    expect(page.get_by_role("heading", name="Sites")).to_be_hidden()
