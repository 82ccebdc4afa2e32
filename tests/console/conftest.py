"""One Chromium for all tests of a file, and a page of the console for each."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page

from browser_page import browser_page, chromium
from gateway_process import GatewayProcess


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Run Chromium."""
    with chromium() as started:
        yield started


@pytest.fixture
def page(browser: Browser, running: GatewayProcess) -> Iterator[Page]:
    """Open the console of the gateway that the file's tests share."""
    with browser_page(browser, f"{running.admin_url}/console") as opened:
        yield opened
