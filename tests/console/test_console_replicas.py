"""The page of replicas, at the owner and at a standby, and a handover by it."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from support.operations.console_page import answer, browser_page, go
from support.processes.replicas import ReplicaProcess, ReplicatedBroker

pytestmark = [pytest.mark.slow, pytest.mark.interop, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ReplicatedBroker]:
    folder: Path = tmp_path_factory.mktemp("replicas")
    with ReplicatedBroker(folder) as found:
        yield found


@pytest.fixture(scope="module")
def running(broker: ReplicatedBroker) -> ReplicaProcess:
    return broker.owner()


def replica(page: Page, which: ReplicaProcess) -> Locator:
    return page.locator(f"tr[data-key={which.name}]")


def test_the_owner_shows_its_standbys_and_hands_over(
    page: Page, browser: Browser, running: ReplicaProcess, broker: ReplicatedBroker
) -> None:
    """Pages that are open notice it: the new owner offers all of them, and the old one says where they are."""
    successor = broker.standbys()[0]
    go(page, "replicas")
    expect(page.locator("#page")).to_contain_text(f"replica {running.name} owns it")
    expect(replica(page, running)).to_contain_text("serves clients")
    expect(replica(page, successor)).to_contain_text("could take over")
    with browser_page(browser, f"{successor.admin_url}/console") as other:
        expect(other.locator("#page").get_by_role("link", name=running.admin_url).first).to_be_visible()
        expect(other.get_by_role("link", name="Queues")).to_be_hidden()
        page.get_by_role("button", name="Hand over").click()
        answer(page, "Hand over", to=successor.name)
        expect(other.get_by_role("link", name="Queues")).to_be_visible()
    expect(page.locator("#page")).to_contain_text(f"replica {successor.name} owns it", timeout=60_000)
    expect(replica(page, running)).to_contain_text("standby", timeout=60_000)
    expect(page.get_by_role("link", name="Queues")).to_be_hidden()
    owner = page.locator("#page p").get_by_role("link", name=successor.admin_url)
    expect(owner).to_have_attribute("href", f"{successor.admin_url}/console/")


def test_a_standby_shows_the_replicas_only(page: Page, running: ReplicaProcess, broker: ReplicatedBroker) -> None:
    """It was the owner."""
    broker.until_whole()
    assert not running.is_owner()
    page.goto(f"{running.admin_url}/console/")
    expect(page.locator("h1")).to_have_text("Replicas")
    expect(page.get_by_role("link", name="Queues")).to_be_hidden()
    expect(replica(page, running)).to_contain_text("could take over")
