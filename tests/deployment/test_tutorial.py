"""The tutorial and the first steps of the README, followed as a reader does: every listing typed, saved or compared."""

import re
from pathlib import Path
from typing import Final
from xml.etree import ElementTree

import pytest

from support.pages.listings import Interrupted, Read, Saved, Shown, Typed, shows, steps
from support.pages.reader import Reader
from support.processes.foreign_programs import program

ROOT: Final = Path(__file__).resolve().parents[2]
TUTORIAL: Final = ROOT / "docs" / "tutorial"
# The demo is `make demo`, which has tests of its own.
PAGES: Final = sorted(page.stem for page in TUTORIAL.glob("*.md") if page.stem != "demo")


@pytest.mark.slow
@pytest.mark.crash
@pytest.mark.timeout(800)  # several brokers and a dozen programs, beside other tests
@pytest.mark.parametrize("page", PAGES)
def test_a_page_of_the_tutorial_shows_what_happens(tmp_path: Path, page: str) -> None:
    with Reader(tmp_path) as reader:
        for step in steps((TUTORIAL / f"{page}.md").read_text(encoding="utf-8")):
            reader.does(step)


@pytest.mark.slow
@pytest.mark.interop
@pytest.mark.timeout(800)
def test_the_readme_shows_what_happens(tmp_path: Path) -> None:
    program("mosquitto_pub")
    with Reader(tmp_path) as reader:
        for step in steps((ROOT / "README.md").read_text(encoding="utf-8")):
            reader.does(step)


def test_the_first_minute_can_be_recorded_and_the_picture_of_it_shows_what_is_typed(tmp_path: Path) -> None:
    with Reader(tmp_path) as reader:
        reader.does(Typed("", f"KEY_S=0 {ROOT}/scripts/record-first-minute first.svg\n"))
    recorded = lines_of(tmp_path / "home" / "first.svg")
    assert any(line.startswith("orders/eu hello") for line in recorded)
    typed = [line for line in recorded if line.startswith("$ ")]
    assert typed == [line for line in lines_of(TUTORIAL / "first-minute.svg") if line.startswith("$ ")]
    text = (TUTORIAL / "first-message.md").read_text(encoding="utf-8")
    assert [line for line in typed if line.removeprefix("$ ").removesuffix(" &") not in text] == []


def lines_of(picture: Path) -> list[str]:
    """Return the lines of a recorded terminal."""
    return [each.text or "" for each in ElementTree.parse(picture).iter("{http://www.w3.org/2000/svg}text")]


@pytest.mark.parametrize("page", PAGES)
def test_a_page_of_the_tutorial_has_no_listing_that_is_not_followed(page: str) -> None:
    """A listing without a fence, or with a language that is mistyped, would be skipped in silence."""
    text = (TUTORIAL / f"{page}.md").read_text(encoding="utf-8")
    assert re.findall(r"\n\n {4}\S.*", re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE)) == []
    followed = [step for step in steps(text) if not isinstance(step, Interrupted)]
    assert not any(isinstance(step, Read) for step in followed)
    assert len(followed) + text.count("<!-- not here -->") == text.count("```") / 2


def test_what_is_followed_of_a_page() -> None:
    page = (
        '```sh title="A"\nserve\n```\n\n```text\nready\n```\n<!-- again -->\n```sh\nlook\n```\n<!-- Ctrl-C: A -->\n'
        '```python title="x.py"\npass\n```\n<!-- not here -->\n```sh\npip\n```\n'
        "1. one\n   <!-- first:\n   mkdir x\n   -->\n   ```console\n   $ ls \\\n       -a\n   x\n   $ pwd\n   ```\n"
        "<!-- form -->\n```text\nu8 | u8\n```\n```yaml\na: 1\n```\n"
    )
    assert list(steps(page)) == [
        Typed("A", "serve\n"),
        Shown("A", "ready\n"),
        Typed("", "look\n", again=True),
        Interrupted("A"),
        Saved("x.py", "pass\n"),
        Typed("", "mkdir x\nls      -a\n"),
        Shown("", "x"),
        Typed("", "pwd\n"),
        Read("yaml", "a: 1\n"),
    ]
    for wrong in ("```html\n<p>\n```\n", "<!-- agian -->\n```sh\nlook\n```\n"):
        with pytest.raises(ValueError, match="listing"):
            list(steps(wrong))


@pytest.mark.parametrize(
    ("page", "terminal", "same"),
    [
        ("a b\n", "a   b\n", True),
        ("a b\n", "a c\n", False),
        ("a\n", "a\nb\n", False),
        ("a\n...\n", "a\nb\nc\n", True),
        ("...\nc\n", "a\nb\n", False),
        ("a ... c\n", "a b b c\n", True),
        ("auto-... x\n", "auto-7f x\n", True),
        ("(1.5)\n", "(105)\n", False),
    ],
)
def test_what_counts_as_shown(page: str, terminal: str, same: bool) -> None:
    assert shows(page, terminal) is same


def test_a_page_that_is_wrong_fails(tmp_path: Path) -> None:
    with Reader(tmp_path) as reader:
        reader.does(Typed("", "echo one\n"))
        with pytest.raises(AssertionError, match="does not show what the page says"):
            reader.does(Shown("", "two\n"))
        with pytest.raises(AssertionError, match="exit code 1"):
            reader.does(Typed("", "false\n"))
        with pytest.raises(AssertionError, match="exit code 0"):
            reader.does(Typed("", "true\n", fails=True))
