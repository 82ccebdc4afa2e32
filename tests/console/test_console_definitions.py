"""Definitions in the console: download them, see what a document would change, and apply it."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml
from playwright.sync_api import Browser, Locator, Page, expect

from support.operations.console_page import PHONE, browser_page, go, row
from support.operations.shell import Shell
from support.processes.gateway import GatewayProcess, gateway

pytestmark = [pytest.mark.slow, pytest.mark.interop]

Own = Callable[[str], str]
TABLE = "Objects of the document"


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    with gateway(tmp_path_factory.mktemp("definitions")) as process:
        yield process


def document(text: str) -> str:
    return f"version: 1\nmessage_vpns:\n  default:\n    queues:\n{text}"


def field(page: Page) -> Locator:
    return page.get_by_role("textbox", name="Document")


def test_a_document_is_shown_before_it_is_applied_and_only_then_changes_something(
    page: Page, running: GatewayProcess, own: Own
) -> None:
    """An edited document has to be shown again."""
    shell = Shell(running.admin_url)
    kept, changed, new = own("kept"), own("changed"), own("new")
    shell.run("queue", "create", kept)
    shell.run("queue", "create", changed)
    go(page, "definitions")
    apply = page.get_by_role("button", name="Apply")
    expect(apply).to_be_disabled()
    field(page).fill(document(f"      - name: {kept}\n      - {{name: {changed}, max_ttl: 7}}\n      - name: {new}\n"))
    page.get_by_role("button", name="Show changes").click()
    expect(row(page, new, table=TABLE)).to_contain_text("+ created")
    expect(row(page, changed, table=TABLE)).to_contain_text("max TTL: 0 → 7")
    expect(row(page, kept, table=TABLE)).to_have_count(0)
    page.get_by_label("Show objects that stay as they are").check()
    expect(row(page, kept, table=TABLE)).to_contain_text("unchanged")
    assert new not in shell.run("queue", "list")

    field(page).press_sequentially("\n")
    expect(apply).to_be_disabled()
    page.get_by_role("button", name="Show changes").click()
    expect(apply).to_be_enabled()
    apply.click()
    page.get_by_role("dialog").get_by_role("button", name="Cancel").click()
    assert new not in shell.run("queue", "list")
    apply.click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("Apply 2 changes?")
    dialog.get_by_role("button", name="Apply").click()
    expect(page.get_by_role("region", name="Changes").get_by_role("status")).to_contain_text(
        "Applied: 1 created, 1 changed"
    )
    expect(apply).to_be_disabled()
    assert new in shell.run("queue", "list")


def test_what_is_deleted_and_refused_is_marked_and_mistakes_have_their_lines(
    page: Page, running: GatewayProcess, own: Own
) -> None:
    shell = Shell(running.admin_url)
    shell.run("queue", "create", own("old"))
    go(page, "definitions")
    field(page).fill(document(f"      - name: {own('old')}x\n    users: [{{name: {own('ada')}}}]\n"))
    page.get_by_label("Delete what the document does not list").check()
    page.get_by_role("button", name="Show changes").click()
    expect(row(page, f"queue {own('old')}", table=TABLE).filter(has_text="deleted")).to_have_count(1)
    expect(row(page, own("ada"), table=TABLE)).to_contain_text("! refused")
    expect(row(page, own("ada"), table=TABLE)).to_contain_text("has no password")
    expect(page.get_by_role("button", name="Apply")).to_be_disabled()
    field(page).fill(document("      - {name: q, max_ttl: -1}\n"))
    page.get_by_role("button", name="Show changes").click()
    changes = page.get_by_role("region", name="Changes")
    expect(changes).to_contain_text(
        "Line 5, column 28: message_vpns.default.queues[0], 'q': max_ttl: -1 is not allowed"
    )
    expect(changes.get_by_role("table")).to_be_hidden()


def test_the_download_is_what_the_command_exports_and_a_file_is_read_back(
    page: Page, running: GatewayProcess, tmp_path: Path, own: Own
) -> None:
    """By keys alone: d downloads, v shows what the document would change."""
    shell = Shell(running.admin_url)
    shell.run("user", "add", own("eve"), "--password-file", "-", typed="the-engine\n")
    go(page, "definitions")
    expect(page.get_by_role("button", name="Download")).to_be_enabled()
    with page.expect_download() as begun:
        page.keyboard.press("d")
    assert begun.value.suggested_filename == "definitions.yaml"
    saved = tmp_path / "definitions.yaml"
    begun.value.save_as(saved)
    assert saved.read_text() == shell.run("config", "export")
    page.get_by_label("With password hashes").check()
    with page.expect_download() as begun:
        page.get_by_role("button", name="Download").click()
    begun.value.save_as(saved)
    users = yaml.safe_load(saved.read_text())["message_vpns"]["default"]["users"]
    [hashed] = [each["password_hash"] for each in users if each["name"] == own("eve")]
    assert hashed.startswith("$argon2id$")
    page.get_by_label("File").set_input_files(saved)
    expect(field(page)).to_have_value(saved.read_text())
    page.get_by_role("heading", name="Definitions").click()  # out of the field
    page.evaluate("document.activeElement.blur()")
    page.keyboard.press("v")
    changes = page.get_by_role("region", name="Changes")
    expect(changes.get_by_role("status")).to_contain_text("Nothing would change")


def test_the_page_fits_a_phone(running: GatewayProcess, browser: Browser, own: Own) -> None:
    with browser_page(browser, f"{running.admin_url}/console", size=PHONE) as page:
        go(page, "definitions")
        field(page).fill(document(f"      - name: {own('wide') * 12}\n"))
        page.get_by_role("button", name="Show changes").click()
        expect(row(page, own("wide"), table=TABLE)).to_have_count(1)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
