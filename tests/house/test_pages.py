"""Pages lead somewhere: links to a file and a heading, mentions to a page, docs/README.md to every page."""

import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
DOCS: Final = ROOT / "docs"
DECISIONS: Final = DOCS / "decisions"
SOURCES: Final = (
    *("actors", "gateway", "messaging", "pipeline", "protocols", "storage", "sluicegate", "pyspark_sluicegate"),
    *("testing", "bench", "client", "demo", "deploy", "docs", "examples", "scripts", "tests"),
)
TEXTS: Final = frozenset({".css", ".html", ".js", ".json", ".md", ".py", ".toml", ".txt", ".yaml", ".yml"})
BLOCK: Final = re.compile(r"^( *)```.*?^\1```$", re.DOTALL | re.MULTILINE)
LINK: Final = re.compile(r"\]\(([^)\s#:]*)(?:#([^)\s]*))?\)")  # a colon: it leads elsewhere
HEADING: Final = re.compile(r"^#+ (.+)$", re.MULTILINE)
MENTION: Final = re.compile(r"\bdocs/[\w/-]+\.md\b")
NOT_OURS: Final = frozenset({"node_modules", "target"})  # what readers of the examples install and build
ENTRIES_MAX: Final = 12
COLUMNS_MAX: Final = 120


def texts() -> Iterator[Path]:
    """Yield every file of the repository that may mention a page."""
    yield from (path for path in ROOT.iterdir() if path.suffix in TEXTS or path.name == "Makefile")
    for folder in SOURCES:
        for path in (ROOT / folder).rglob("*"):
            if path.suffix in TEXTS and NOT_OURS.isdisjoint(path.parts) and path.is_file():
                yield path


def pages() -> list[Path]:
    return [path for path in texts() if path.suffix == ".md"]


def prose(page: Path) -> str:
    """Return the text of a page without its blocks of code."""
    return BLOCK.sub("", page.read_text(encoding="utf-8"))


@cache
def anchors(page: Path) -> frozenset[str]:
    """Return the anchors that GitHub gives to the headings of a page; a repeated one gets a number."""
    seen: Counter[str] = Counter()
    found = set()
    for heading in HEADING.findall(prose(page)):
        anchor = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        found.add(f"{anchor}-{seen[anchor]}" if seen[anchor] else anchor)
        seen[anchor] += 1
    return frozenset(found)


def broken_links(page: Path) -> list[str]:
    """Return the relative links of a page that lead to no file, or to no heading of a page."""
    broken = []
    for path, anchor in LINK.findall(prose(page)):
        target = (page.parent / path).resolve() if path else page.resolve()
        if not target.exists() or (anchor and (target.suffix != ".md" or anchor not in anchors(target))):
            broken.append(f"{path}#{anchor}" if anchor else path)
    return broken


def test_links_lead_to_a_file_and_a_heading() -> None:
    broken = {str(page.relative_to(ROOT)): found for page in pages() if (found := broken_links(page))}
    assert broken == {}


def test_a_broken_link_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "# Page\n## Two words\n## Two words\n```\n# not a heading\n[code](gone.md)\n```\n"
        "[a](#two-words-1) [b](page.md#page) [c](https://example.com/x#y)\n"
        "[d](#two-words-2) [e](#not-a-heading) [f](sub/page.md) [g](../nowhere/page.md#page)\n"
    )
    assert broken_links(page) == ["#two-words-2", "#not-a-heading", "sub/page.md", "../nowhere/page.md#page"]


def test_mentioned_pages_exist() -> None:
    mentions = {
        (str(path.relative_to(ROOT)), mention)
        for path in texts()
        for mention in MENTION.findall(path.read_text(encoding="utf-8", errors="ignore"))
    }
    assert len(mentions) > 100
    assert sorted(each for each in mentions if not (ROOT / each[1]).is_file()) == []


def test_the_index_leads_to_every_page() -> None:
    """Decisions have an index of their own."""
    linked = {(DOCS / path).resolve() for path, _ in LINK.findall(prose(DOCS / "README.md"))}
    expected = {page for page in DOCS.rglob("*.md") if page.parent != DECISIONS} - {DOCS / "README.md"}
    assert sorted(expected - linked) == []


def test_folders_have_few_entries() -> None:
    """A reader sees at a glance what there is. Decisions are found by their index."""
    folders = {DOCS, *(path for path in DOCS.rglob("*") if path.is_dir())} - {DECISIONS}
    entries = {str(folder.relative_to(ROOT)): len(list(folder.iterdir())) for folder in folders}
    assert {folder: count for folder, count in entries.items() if count > ENTRIES_MAX} == {}


def test_lines_fit_a_screen() -> None:
    """Only a row of a table may be longer: Markdown cannot break it."""
    long_lines = [
        f"{page.relative_to(ROOT)}:{number}"
        for page in pages()
        for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1)
        if len(line) > COLUMNS_MAX and not line.lstrip().startswith("|")
    ]
    assert long_lines == []


def figures(text: str) -> set[str]:
    """Return the numbers that a text states, but not those in names such as `qos0-10-10`."""
    return set(re.findall(r"(?<![\w.])\d+(?:,\d{3})*(?:\.\d+)*", re.sub(r"`[^`]*`", "", text)))


def test_the_comparison_states_no_figure_that_the_performance_page_does_not() -> None:
    """For a case of the benchmark, those of its row."""
    performance = (DOCS / "explanation" / "performance.md").read_text(encoding="utf-8")
    comparison = (DOCS / "explanation" / "comparison.md").read_text(encoding="utf-8")
    measured = comparison.partition("## What was measured\n")[2].partition("\n## ")[0]
    of_cases = dict(re.findall(r"^\| `([\w-]+)`[^|]*\|(.*)\|$", measured, re.MULTILINE))
    assert len(of_cases) == 9
    for case, stated in of_cases.items():
        rows = re.findall(rf"^\| `{case}` \|.*$", performance, re.MULTILINE)
        assert figures(stated) - figures(rows[0]) == set(), case
    assert figures(measured) - figures(performance) == set()
