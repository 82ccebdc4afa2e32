"""docs/decisions/README.md names every decision, by theme."""

import re
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "decisions"


def test_the_index_has_each_decision_once_under_its_own_title() -> None:
    listed = re.findall(r"^- \[(\d{4})\]\((\S+)\): (.*)$", (FOLDER / "README.md").read_text(), re.MULTILINE)
    written = [
        (page.name[:4], page.name, page.read_text().splitlines()[0].removeprefix(f"# {page.name[:4]}: "))
        for page in FOLDER.glob("[0-9]*.md")
    ]
    assert sorted(listed) == sorted(written)
