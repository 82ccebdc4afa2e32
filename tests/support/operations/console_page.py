"""Pages in headless Chromium for tests of the console: an error in a page fails its test.

Chromium is the system's (scripts/test-needs); playwright only drives it.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, Literal

from playwright.sync_api import Browser, ConsoleMessage, HttpCredentials, Locator, Page, expect, sync_playwright

from support.processes.foreign_programs import program

WAIT_MS: Final = 60_000  # for what is to be seen, on a busy machine
DESKTOP: Final = (1280, 860)
PHONE: Final = (360, 780)

expect.set_options(timeout=WAIT_MS)


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


def go(page: Page, path: str) -> None:
    """Open a page of the console by its address."""
    page.evaluate("path => { location.hash = path }", f"#/{path}")


def row(page: Page, text: str, *, table: str = "") -> Locator:
    """Return the rows of the page, or of one of its tables, that hold a text."""
    place = page.get_by_role("table", name=table) if table else page.locator("#page")
    return place.locator("tbody tr").filter(has_text=text)


def answer(page: Page, button: str, **fields: str) -> None:
    """Fill in the open dialog and press a button, which closes it."""
    fill_in(page, button, **fields)
    expect(page.locator("dialog[open]")).to_have_count(0)


def fill_in(page: Page, button: str, **fields: str) -> None:
    """Fill in the dialog that is open, and press a button of it."""
    dialog = page.locator("dialog[open]")
    for name, value in fields.items():
        place = dialog.locator(f"[name={name}]")
        if place.evaluate("place => place.tagName") == "SELECT":
            place.select_option(value)
        else:
            place.fill(value)
    dialog.get_by_role("button", name=button).click()
