"""The listings of a page, in order, as what its reader does with them.

A listing says by its language what it is, and by `title` where:

- `sh` is typed into a terminal: the one of the title, or the reader's first. A titled one may run on.
- `text` is what a terminal then shows, since it was last looked at: the one of the title, or the last one typed into.
  `...` stands for what varies: within a line, or as a line of its own for any lines.
- Any other language is a file, which the reader saves under the name that the title has.

Comments say what prose tells the reader to do in words:

- `<!-- Ctrl-C: TITLE -->` ends what runs in a terminal;
- `<!-- again -->` before `sh`: the reader looks until it shows what follows;
- `<!-- fails -->` before `sh`: it ends with an error, which the page shows;
- `<!-- not here -->` before `sh`: a test cannot do it, such as installing a release.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

STEP: Final = re.compile(
    r"^```(?P<language>\w*)(?: title=\"(?P<title>[^\"]+)\")?\n(?P<text>.*?)^```$|^<!-- (?P<comment>[^\n]*?) -->$",
    re.DOTALL | re.MULTILINE,
)


@dataclass(frozen=True, slots=True)
class Typed:
    """Commands that the reader types."""

    terminal: str
    commands: str
    again: bool = False
    fails: bool = False


@dataclass(frozen=True, slots=True)
class Shown:
    """What a terminal shows since it was last looked at."""

    terminal: str
    text: str


@dataclass(frozen=True, slots=True)
class Saved:
    """A file that the reader saves."""

    name: str
    text: str


@dataclass(frozen=True, slots=True)
class Interrupted:
    """Ctrl-C in a terminal."""

    terminal: str


Step = Typed | Shown | Saved | Interrupted


def steps(page: str) -> Iterator[Step]:
    """Yield what the reader of a page does. Raises ValueError for a listing that says nothing of this."""
    terminal = ""
    notes: set[str] = set()
    for match in STEP.finditer(page):
        language, title, text, comment = match.group("language", "title", "text", "comment")
        if comment is not None:
            if comment.startswith("Ctrl-C: "):
                yield Interrupted(comment.removeprefix("Ctrl-C: "))
            else:
                notes.add(comment)
            continue
        if notes - {"again", "fails", "not here"}:
            raise ValueError(f"unknown comments before a listing: {notes}")
        if language == "sh":
            terminal = title or ""
            if "not here" not in notes:
                yield Typed(terminal, text, again="again" in notes, fails="fails" in notes)
        elif language == "text":
            yield Shown(title or terminal, text)
        elif title:
            yield Saved(title, text)
        else:
            raise ValueError(f"a listing is neither typed, shown nor saved: {match[0]}")
        notes = set()


def shows(expected: str, actual: str) -> bool:
    """Tell whether a terminal shows a text, up to the number of blanks."""
    pattern = ""
    for line in expected.splitlines():
        if line.strip() == "...":
            pattern += r"(?:.*\n)*?"
        else:
            pattern += r"\s+".join(_word(each) for each in line.split()) + r"[ \t]*\n"
    return re.fullmatch(pattern, "".join(f"{line.lstrip()}\n" for line in actual.splitlines())) is not None


def _word(word: str) -> str:
    return r"\S.*?".join(re.escape(each) for each in word.split("..."))
