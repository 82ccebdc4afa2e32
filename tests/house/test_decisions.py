"""docs/decisions/README.md lists every decision, and what refers to a decision refers to one that is there."""

import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "docs" / "decisions"
FOLDERS = (
    *("actors", "gateway", "messaging", "pipeline", "protocols", "storage", "sluicegate", "pyspark_sluicegate"),
    *("bench", "demo", "deploy", "docs", "scripts", "tests"),
)
REFERENCE = re.compile(r"decisions?[\s/]+\[?(\d{4})\b(?: and (\d{4})\b)?", re.IGNORECASE)
LINK = re.compile(r"\]\(([^)\s#:]*)(?:#([^)\s]*))?\)")  # a colon: it leads elsewhere
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


def test_the_index_has_each_decision_once_under_its_own_title() -> None:
    listed = re.findall(r"^- \[(\d{4})\]\((\S+)\): (.*)$", (FOLDER / "README.md").read_text(), re.MULTILINE)
    written = [
        (page.name[:4], page.name, page.read_text().splitlines()[0].removeprefix(f"# {page.name[:4]}: "))
        for page in FOLDER.glob("[0-9]*.md")
    ]
    assert sorted(listed) == sorted(written)


def test_numbers_follow_each_other() -> None:
    numbers = sorted(int(page.name[:4]) for page in FOLDER.glob("[0-9]*.md"))
    assert numbers == list(range(1, len(numbers) + 1))


def test_references_by_number_name_a_page() -> None:
    numbers = {page.name[:4] for page in FOLDER.glob("[0-9]*.md")}
    dangling = [
        (str(path.relative_to(ROOT)), number)
        for path in _texts()
        for match in REFERENCE.findall(path.read_text(errors="ignore"))
        for number in match
        if number and number not in numbers
    ]
    assert dangling == []


def test_links_between_pages_lead_to_a_file_and_a_heading() -> None:
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "deploy").rglob("*.md")]
    anchors = {page.resolve(): {_anchor(each) for each in HEADING.findall(page.read_text())} for page in pages}
    broken = []
    for page in pages:
        for path, anchor in LINK.findall(page.read_text()):
            target = (page.parent / path).resolve() if path else page.resolve()
            if not target.exists() or (anchor and anchor not in anchors.get(target, set())):
                broken.append((str(page.relative_to(ROOT)), f"{path}#{anchor}"))
    assert broken == []


def _anchor(heading: str) -> str:
    """Return the anchor that GitHub gives to a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def _texts() -> Iterator[Path]:
    yield from ROOT.glob("*.md")
    for folder in FOLDERS:
        for path in (ROOT / folder).rglob("*"):
            if path.suffix in {".md", ".py", ".txt"} and path.is_file():
                yield path
