"""docs/decisions/README.md lists every decision, and what refers to a decision refers to one that is there."""

import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "docs" / "decisions"
FOLDERS = (
    *("actors", "gateway", "messaging", "pipeline", "protocols", "storage", "sluicegate", "pyspark_sluicegate"),
    *("testing", "bench", "demo", "deploy", "docs", "scripts", "tests"),
)
REFERENCE = re.compile(r"decisions?[\s/]+\[?(\d{4})\b(?: and (\d{4})\b)?", re.IGNORECASE)


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


def _texts() -> Iterator[Path]:
    yield from ROOT.glob("*.md")
    for folder in FOLDERS:
        for path in (ROOT / folder).rglob("*"):
            if path.suffix in {".md", ".py", ".txt"} and path.is_file():
                yield path
