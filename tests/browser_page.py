"""Pages in headless Chromium for tests of the console: what goes wrong in one fails its test.

Chromium is the system's (scripts/test-needs); playwright only drives it.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, Literal

from playwright.sync_api import Browser, ConsoleMessage, HttpCredentials, Page, sync_playwright

from foreign import program

WAIT_MS: Final = 60_000  # for what is to be seen, on a busy machine
DESKTOP: Final = (1280, 860)
PHONE: Final = (390, 800)


@contextmanager
def chromium() -> Iterator[Browser]:
    """Run Chromium for the length of a `with` block."""
    executable = program("chromium")
    with sync_playwright() as playwright:
        # No sandbox: tests run as root in containers, where Chromium has none to offer.
        browser = playwright.chromium.launch(executable_path=executable, args=["--no-sandbox"], timeout=WAIT_MS)
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def browser_page(
    browser: Browser,
    url: str,
    *,
    size: tuple[int, int] = DESKTOP,
    scheme: Literal["light", "dark"] = "light",
    account: HttpCredentials | None = None,
) -> Iterator[Page]:
    """Open a page for the length of a `with` block, with what somebody would type when the browser asks for an account.

    Errors of scripts and refusals of the policy are ours.
    """
    wrong: list[str] = []

    def refused_by_the_policy(line: ConsoleMessage) -> None:
        if "Content Security Policy" in line.text:
            wrong.append(line.text)

    context = browser.new_context(
        viewport={"width": size[0], "height": size[1]},
        color_scheme=scheme,
        is_mobile=size == PHONE,
        http_credentials=account,
    )
    page = context.new_page()
    page.set_default_timeout(WAIT_MS)
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("console", refused_by_the_policy)
    try:
        page.goto(url)
        yield page
    finally:
        context.close()
    assert wrong == []
