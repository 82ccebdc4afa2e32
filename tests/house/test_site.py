"""The site of the documentation: built without a warning, complete, and what a forge shows of the same files."""

import json
import os
import re
import subprocess
import sys
from collections import Counter
from html.parser import HTMLParser
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import pytest
from markdown_it import MarkdownIt

import sluicegate.client
import sluicegate.testing
from sluicegate.gateway.admin.app import OPERATIONS

ROOT: Final = Path(__file__).resolve().parents[2]
DOCS: Final = ROOT / "docs"
GENERATED: Final = DOCS / "reference"  # the greater part of these pages is written when the site is built
# Others are of the theme, or differ in number by how a line is broken.
COUNTED: Final = frozenset({"blockquote", "h2", "h3", "img", "li", "ol", "pre", "tr", "ul"})
LOADED: Final = {"script": "src", "link": "href", "img": "src", "iframe": "src", "source": "src"}


# The first test waits for the site, which takes a quarter of a minute, and longer beside other tests.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


class Elements(HTMLParser):
    """Counts elements, and collects what a page loads and where it leads."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.counts: Counter[str] = Counter()
        self.loaded: set[str] = set()
        self.linked: set[str] = set()
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note one element."""
        if tag in COUNTED:
            self.counts[tag] += 1
        attributes = dict(attrs)
        if (place := attributes.get(LOADED.get(tag, ""))) is not None and attributes.get("rel") != "canonical":
            self.loaded.add(place)
        if tag == "a" and (place := attributes.get("href")) is not None:
            self.linked.add(place)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if find_spec("mkdocs") is None:
        pytest.skip("MkDocs is not installed; `make test` installs it")
    folder = tmp_path_factory.mktemp("site")
    built = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stdout + built.stderr
    return folder


def sources() -> dict[str, Path]:
    """Return the pages of the repository that are in the site, by their addresses in it."""
    places = set(DOCS.rglob("*.md"))
    leads = [DOCS / "README.md"]
    while leads:  # pages outside of docs/ that the index leads to, and what these lead to
        page = leads.pop()
        found = {(page.parent / path).resolve() for path in re.findall(r"\]\(([^):#]+\.md)", page.read_text("utf-8"))}
        leads += [each for each in found - places - {ROOT / "README.md"} if not each.is_relative_to(DOCS)]
        places.update(leads)
    names = {path: path.relative_to(DOCS if path.is_relative_to(DOCS) else ROOT) for path in places}
    return {
        str(name.with_name("index.html") if name.name == "README.md" else name.with_suffix(".html")): path
        for path, name in names.items()
    }


def article(page: Path) -> str:
    html = page.read_text(encoding="utf-8")
    return html[html.index("<article") : html.index("</article>")]


def test_the_workflow_follows_the_schema_of_workflows() -> None:
    workflow = ROOT / ".github" / "workflows" / "site.yaml"
    command = ["check_jsonschema", "--builtin-schema", "vendor.github-workflows", str(workflow)]
    checked = subprocess.run([sys.executable, "-m", *command], capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_every_page_is_in_the_site_and_in_its_search(site: Path) -> None:
    script = (site / "search" / "search_index.js").read_text(encoding="utf-8")
    found = {
        each["location"].partition("#")[0] or "index.html" for each in json.loads(script[script.index("{") :])["docs"]
    }
    assert sorted(set(sources()) - found) == []


def test_every_page_is_in_the_menu_of_its_section(site: Path) -> None:
    """A strict build fails if a page is in no menu; this is about the menu that a reader sees."""
    for address in sources():
        page = site / address
        menu = Elements(page.read_text(encoding="utf-8")).linked
        assert {"./", page.name, "index.html"} & menu, address


def test_pages_load_nothing_from_elsewhere(site: Path) -> None:
    """The site works without a network, and tells nobody who reads it."""
    for page in site.rglob("*.html"):
        foreign = {each for each in Elements(page.read_text(encoding="utf-8")).loaded if "//" in each}
        assert foreign == set(), page


def test_scripts_and_styles_that_pages_load_are_there(site: Path) -> None:
    for page in site.rglob("*.html"):
        for each in Elements(page.read_text(encoding="utf-8")).loaded:
            place = each.partition("?")[0].partition("#")[0]
            assert (site / place[1:] if place.startswith("/") else page.parent / place).is_file(), f"{page}: {each}"


def test_pages_have_the_lists_tables_and_blocks_that_a_forge_shows(site: Path) -> None:
    """Two dialects of Markdown disagree about indentation; here the site follows CommonMark."""
    dialect = MarkdownIt("gfm-like", {"linkify": False})
    for address, source in sources().items():
        if source.parent == GENERATED:
            continue
        expected = Elements(dialect.render(source.read_text(encoding="utf-8"))).counts
        assert Elements(article(site / address)).counts == expected, source


def test_references_have_what_programs_and_operators_can_call(site: Path) -> None:
    texts = {name: article(site / "reference" / f"{name}.html") for name in ("command-line", "rest-api", "testing")}
    headings = {name: set(re.findall(r"<h[2-4] id=\"([^\"]+)\"", text)) for name, text in texts.items()}
    assert {"serve", "queue-create", "cluster-status", "show-queue"} <= headings["command-line"]
    assert {f"{operation.method.lower()}-{slug(operation.path)}" for operation in OPERATIONS} <= headings["rest-api"]
    assert {f"sluicegate.testing.{name}" for name in sluicegate.testing.__all__} <= headings["testing"]


def test_the_reference_of_the_client_has_every_public_name(site: Path) -> None:
    ids = set(re.findall(r"id=\"([^\"]+)\"", article(site / "reference" / "python-client.html")))
    assert {f"sluicegate.client.{name}" for name in sluicegate.client.__all__} - ids == set()
    assert "sluicegate.client.Consumer.receive_many" in ids


def slug(path: str) -> str:
    return re.sub(r"[^\w-]", "", path)
