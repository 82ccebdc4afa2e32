"""The files of the console: served under a strict policy, whole, and in need of nothing from elsewhere."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import sluicegate.gateway.admin.console
from sluicegate.gateway.admin.console_files import MEDIA_TYPES
from support.operations.memory_node import MemoryNode
from support.operations.running_admin import RunningAdmin, running_admin

FOLDER = Path(str(sluicegate.gateway.admin.console.__file__)).parent
FILES = sorted(path for path in FOLDER.rglob("*") if path.suffix in MEDIA_TYPES)
SCRIPTS = [path for path in FILES if path.suffix == ".js"]
ELSEWHERE = re.compile(r"""(?:https?:)?//[a-z0-9-]+\.[a-z]""")
NOTICE = re.compile(r"\A/\*!.*?\*/", re.DOTALL)  # of whoever wrote it: nobody fetches what it names
NAMESPACE = "http://www.w3.org/2000/svg"  # the name of a language, which nobody fetches
LINES_MAX = 450  # as for our other sources


@pytest.fixture(scope="module")
def admin() -> Iterator[RunningAdmin]:
    """One for all: files are only read."""
    with running_admin(MemoryNode()) as running:
        yield running


def test_the_console_is_a_page_below_the_admin_port(admin: RunningAdmin) -> None:
    page = admin.ask("GET", "/console")  # leads to the next one
    assert page.body == admin.ask("GET", "/console/").body == (FOLDER / "index.html").read_bytes()
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert admin.ask("GET", "/").body == page.body, "whoever opens the admin port finds it"


def test_pages_run_only_what_comes_from_the_gateway_itself(admin: RunningAdmin) -> None:
    for path in ("/console/", "/console/app.js", "/console/console.css"):
        headers = admin.ask("GET", path).headers
        policy = dict(each.strip().split(" ", 1) for each in headers["content-security-policy"].split(";"))
        assert policy["default-src"] == "'none'"
        assert (policy["script-src"], policy["style-src"], policy["connect-src"]) == ("'self'", "'self'", "'self'")
        assert policy["frame-ancestors"] == "'none'"
        assert headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(FOLDER)))
def test_every_file_is_served_and_needs_nothing_from_elsewhere(admin: RunningAdmin, path: Path) -> None:
    answer = admin.ask("GET", f"/console/{path.relative_to(FOLDER)}")
    assert answer.body == path.read_bytes()
    text = NOTICE.sub("", answer.body.decode()).replace(NAMESPACE, "")
    assert not ELSEWHERE.search(text)
    assert len(text.splitlines()) <= LINES_MAX
    assert not re.search(r"innerHTML|insertAdjacentHTML|document\.write|\beval\(", text), "names could become markup"


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: str(path.relative_to(FOLDER)))
def test_every_module_that_is_imported_is_there(path: Path) -> None:
    imported = re.findall(r'from "([^"]+)"', path.read_text())
    assert [name for name in imported if not (path.parent / name).is_file()] == []


def test_a_browser_keeps_what_has_not_changed(admin: RunningAdmin) -> None:
    tag = admin.ask("GET", "/console/app.js").headers["etag"]
    assert admin.ask("GET", "/console/app.js", headers={"If-None-Match": tag}).status == 304
    assert admin.ask("GET", "/console/app.js", headers={"If-None-Match": '"other"'}).status == 200


@pytest.mark.parametrize("path", ["no.js", "../__init__.py", "__init__.py", "%2e%2e/admin/app.py", "pages/", "pages"])
def test_nothing_else_is_served(admin: RunningAdmin, path: str) -> None:
    answer = admin.ask("GET", f"/console/{path}")
    assert answer.status == 404
    assert answer.json()["title"] == "Not found"


def test_the_console_is_only_read(admin: RunningAdmin) -> None:
    assert admin.ask("POST", "/console/app.js", b"x").status == 405
