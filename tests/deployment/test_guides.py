"""The guides and explanations: every command parsed, every configuration loaded, and pages followed as readers do.

Each page that is followed has a machine of its own, with a broker as `sluicegate serve` starts it. A comment may say
otherwise: `<!-- broker: OPTIONS -->` adds options, and `<!-- broker: none -->` is for a page that starts its own.
"""

import re
from pathlib import Path
from typing import Final

import pytest

from support.pages.guides import NOT_TYPED, check, joined, parse, typed
from support.pages.listings import STEP, Read, Shown, Step, Typed, steps
from support.pages.reader import Reader

ROOT: Final = Path(__file__).resolve().parents[2]
DOCS: Final = ROOT / "docs"
FOLDERS: Final = ("concepts", "connect", "data", "operate", "reference")
ELSEWHERE: Final = {  # pages whose listings have a test of their own
    "docs/connect/amqp.md": "tests/interop/test_proton.py and test_rhea_in_a_browser.py",
    "docs/connect/flow-client.md": "tests/broker/flow/client/test_examples.py",
    "docs/connect/flow-protocol.md": "tests/unit/protocols/flow/test_specification.py",
    "docs/connect/test-your-application.md": "tests/testing/test_documentation.py",
}
PAGES: Final = sorted(
    str(page.relative_to(ROOT))
    for page in (
        *(page for folder in FOLDERS for page in (DOCS / folder).rglob("*.md")),
        DOCS / "network.md",
        ROOT / "examples" / "README.md",
    )
    if "```" in page.read_text(encoding="utf-8")
)
INDENTED: Final = re.compile(r" {4,}(?:\S.* -- )?(sluicegate .*)")
INSTALLING: Final = sorted(
    str(page.relative_to(ROOT))
    for page in (DOCS / "README.md", *(ROOT / "deploy").rglob("*.md"))
    if any(INDENTED.match(line) for line in joined(page.read_text(encoding="utf-8")))
)
BROKER: Final = re.compile(r"^<!-- broker: (.*) -->$", re.MULTILINE)
IS_READY: Final = "...\nSluicegate ... is ready.\n...\n"


def followed(page: str) -> list[Step]:
    """Return what a reader of a page does; those that start a broker come first."""
    text = (ROOT / page).read_text(encoding="utf-8")
    options = found[1] if (found := BROKER.search(text)) else ""
    done = list(steps(BROKER.sub("", text)))
    types = any(typed(step.commands) for step in done if isinstance(step, Typed))
    done = [step for step in done if not isinstance(step, Read)]
    if options == "none" or not types:
        return done
    return [Typed("Broker", f"exec sluicegate serve --data broker-data {options}\n"), Shown("Broker", IS_READY), *done]


@pytest.mark.slow
@pytest.mark.crash
@pytest.mark.timeout(800)  # some dozens of programs, beside other tests
@pytest.mark.parametrize("page", [page for page in PAGES if page not in ELSEWHERE and followed(page)])
def test_what_a_page_says_is_so(tmp_path: Path, page: str) -> None:
    with Reader(tmp_path) as reader:
        for step in followed(page):
            if isinstance(step, Typed):
                reader.does(Typed(step.terminal, typed(step.commands), again=step.again, fails=step.fails))
            else:
                reader.does(step)


@pytest.mark.parametrize("page", [page for page in PAGES if page not in ELSEWHERE])
def test_commands_and_configurations_of_a_page_are_taken(tmp_path: Path, page: str) -> None:
    for number, step in enumerate(steps(BROKER.sub("", (ROOT / page).read_text(encoding="utf-8")))):
        if isinstance(step, Read):
            check(step, tmp_path / str(number))
        elif isinstance(step, Typed):
            for line in joined(step.commands):
                if line.startswith("sluicegate "):
                    parse(line)


@pytest.mark.parametrize("page", INSTALLING)
def test_commands_of_a_page_on_installing_are_taken(page: str) -> None:
    """They take a cluster, containers or a release."""
    lines = joined((ROOT / page).read_text(encoding="utf-8"))
    for command in (found[1] for line in lines if (found := INDENTED.match(line))):
        parse(command)


@pytest.mark.parametrize(
    "line",
    ["sluicegate queue craete orders", "sluicegate queue create", "sluicegate queue list --colour", "sluicegate x"],
)
def test_a_command_that_is_wrong_is_not_taken(line: str) -> None:
    with pytest.raises(Exception, match=r"(?i)craete|missing|colour|x in"):
        parse(line)


@pytest.mark.parametrize("page", PAGES)
def test_no_listing_of_a_page_is_without_a_language(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    listings = [match for match in STEP.finditer(text) if match["text"] is not None]
    assert [match[0] for match in listings if not match["language"]] == []
    assert len(listings) == len(re.findall(r"^ *```", text, re.MULTILINE)) / 2
    rest = re.sub(r"^<!-- first:\n.*?^-->$", "", STEP.sub("", text), flags=re.DOTALL | re.MULTILINE)
    assert re.findall(r"\n\n {4}\S.*", rest) == []


@pytest.mark.parametrize("page", ELSEWHERE)
def test_the_kind_of_each_listing_is_known_on_pages_that_other_tests_follow(page: str) -> None:
    assert list(steps((ROOT / page).read_text(encoding="utf-8")))


def test_pages_that_are_left_out_are_there() -> None:
    assert set(ELSEWHERE) - set(PAGES) == set()


def test_what_is_not_typed_is_on_a_page() -> None:
    texts = "\n".join((ROOT / page).read_text(encoding="utf-8") for page in PAGES)
    assert [each for each in NOT_TYPED if f"\n{each}" not in texts] == []
