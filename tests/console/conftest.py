"""One Chromium for all tests of a file, and a page of the console for each."""

from collections.abc import Callable, Iterator
from itertools import count
from typing import Final

import pytest
from playwright.sync_api import Browser, Page

from support.operations.console_page import browser_page, chromium
from support.processes.gateway import GatewayProcess

RUNS: Final = count(1)


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


@pytest.fixture
def own() -> Callable[[str], str]:
    """Make names of a test's own, and of this run of it: one that is tried again does not meet what it left."""
    run = next(RUNS)
    return lambda name: f"{name}-{run:03}"  # of one length: none begins with another
